// own_kernels.h: --kernel: kernels of the user's own in the real step.
#ifndef STEPMARK_CLI_SETUP_OWN_KERNELS_H
#define STEPMARK_CLI_SETUP_OWN_KERNELS_H

#include "backend.h"
#include "cli/flags/options.h"

// Compiles and loads what --kernel names, once in a process; *list lives as long as that. `text`, for rows:
// "gelu_forward=my.c (fnv1a64:...)"; "" without --kernel. SM_ERR_UNSUPPORTED: the backend takes none in their language.
sm_status cli_own_kernels(const cli_options *options, const sm_backend *backend, const sm_own_kernel **list, int *n,
                          const char **text);

// The backend of --backend-library joins the others. Once in a process, before devices are looked for.
sm_status cli_load_backend(const cli_options *options);

sm_status cli_load_backend_file(const char *path);

// "backend FILE.so (fnv1a64:...)" where one was loaded, whichever backend is used: its code was in the process. Else
// "".
const char *cli_backend_text(void);

// Are the files of a row's --kernel and --backend-library (NULL: none) those whose digests its own_kernels has?
sm_status cli_own_code_check(const char *kernel, const char *library, const char *recorded);

#endif
