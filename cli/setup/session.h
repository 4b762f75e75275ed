// session.h: devices by name, weights and data: the needs of a subcommand that runs something.
#ifndef STEPMARK_CLI_SETUP_SESSION_H
#define STEPMARK_CLI_SETUP_SESSION_H

#include "backend.h"
#include "bench/rows/digest.h"
#include "cli/flags/options.h"
#include "src/io/tokens.h"
#include "src/models/model.h"
#include "src/session/session.h"

// A device that --backend named: number `index` of a backend.
typedef struct {
    const sm_backend *backend;
    int index;
} cli_device;

enum {
    CLI_MAX_DEVICES = 64,
    CLI_LEAST_PART = 3, // letters of a part of a name
    CLI_MAX_LOST = 8    // backends
};

typedef struct {
    cli_device devices[CLI_MAX_DEVICES];
    int n;
} cli_device_list;

// The devices that `names` stand for: a backend's name (all its devices), a device's id, or
// "all" (every available device of a backend that belongs to benchmarks); else every device of such
// a backend with that in its own, its platform's or its driver's name. SM_ERR_USAGE when a name is unknown. An
// unavailable device that is named outright is in the list.
sm_status cli_select_devices(const cli_texts *names, cli_device_list *list);

// Before that, in a process that opens one of them and trains: what takes long may be begun.
void cli_foresee(void);

// Has every device's matrix units tried anew that a compiler or driver could fail at.
void cli_try_units(void);

// A backend whose drivers did not say which devices there are: none of them is selected any more.
void cli_lose_backend(const sm_backend *backend);

// The config of --weights, or of the size with the dimensions of the command line.
sm_status cli_config(const cli_options *options, const char *size_name, sm_model_config *config);

// The weights of --weights, or fresh ones of --seed, into a session.
sm_status cli_load_weights(sm_session *session, const sm_model_config *config, uint64_t seed, const char *folder);

// Of the model.safetensors of --weights; "" without it.
sm_status cli_weights_digest(const cli_options *options, char digest[SM_DIGEST_SIZE]);

// The tokens of --data, or the embedded text as bytes. The caller closes them.
sm_status cli_open_tokens(const cli_options *options, int64_t vocab, sm_tokens **tokens);

// Opens a device with that many threads (0: its default), --isa and --cpu-mask. The message of a
// failure says which device.
sm_status cli_open_device(cli_device device, int64_t n_threads, const cli_options *options, sm_device **opened);

// --- code of the user's own ----------------------------------------------------------------------

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
