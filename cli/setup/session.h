// session.h: for a subcommand that runs something: devices by name, weights and data.
#ifndef STEPMARK_CLI_SETUP_SESSION_H
#define STEPMARK_CLI_SETUP_SESSION_H

#include "backend.h"
#include "bench/tables/digest.h"
#include "cli/flags/options.h"
#include "src/data/tokens.h"
#include "src/models/model.h"
#include "src/session/session.h"

// A device named by --backend: number `index` of a backend.
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

// The devices of `names`: a backend's name (all its devices), a device's id, "all" (every available device of a
// benchmarked backend), or a part of the name, platform or driver of such a backend's devices. SM_ERR_USAGE for an
// unknown name. An unavailable device that is named exactly is in the list.
sm_status cli_select_devices(const cli_texts *names, cli_device_list *list);

// Call it first in a process that opens one of them and trains: starts slow work early.
void cli_foresee(void);

// Tests every device's matrix units again that a compiler or driver could fail at.
void cli_try_units(void);

// Removes a backend whose drivers did not list their devices from later selections.
void cli_lose_backend(const sm_backend *backend);
bool cli_is_lost(const sm_backend *backend);

// None of a lost one. The first call loads its drivers, which may hang or crash.
int cli_count_devices(const sm_backend *backend);

// From now on this process loads no driver, so that it can start processes that do: it lists devices by a process for
// each backend, which has `timeout_s` (0: no limit). In such a process: it may load drivers.
void cli_load_no_drivers(double timeout_s);
void cli_may_load_drivers(void);

// Facts of a device; without drivers, those of when it was listed. Index -1: none, as its backend could not list any.
sm_status cli_describe(cli_device device, sm_device_info *info);

// The failure of a backend whose drivers could not list their devices, with its message; SM_OK: none is known.
sm_status cli_backend_failure(const sm_backend *backend);

// The config of --weights, or of the size with the command line's dimensions.
sm_status cli_config(const cli_options *options, const char *size_name, sm_model_config *config);

// Loads the weights of --weights, or initial ones of --seed, into a session.
sm_status cli_load_weights(sm_session *session, const sm_model_config *config, uint64_t seed, const char *folder);

// The digest of --weights' model.safetensors, or of its parts; "" without --weights.
sm_status cli_weights_digest(const cli_options *options, char digest[SM_DIGEST_SIZE]);

// The tokens of --data, or the embedded text as bytes. The caller closes them.
sm_status cli_open_tokens(const cli_options *options, int64_t vocab, sm_tokens **tokens);

// Opens a device with that many threads (0: its default), --isa and --cpu-mask. A failure's message names the device.
sm_status cli_open_device(cli_device device, int64_t n_threads, const cli_options *options, sm_device **opened);

// The same for a subcommand of one process, by its --backend and --threads, of which each stands for one. SM_ERR_USAGE.
sm_status cli_open_only_device(const cli_options *options, sm_device **opened);

// --- code of the user's own ----------------------------------------------------------------------

// Compiles the kernels of --kernel, once in a process; *list lives as long as the process. A process apart, with
// n_threads threads, loads those in C. SM_ERR_UNSUPPORTED: the backend takes none in their language.
sm_status cli_own_kernels(const cli_options *options, const sm_backend *backend, int n_threads,
                          const sm_own_kernel **list, int *n);

// Adds the backend of --backend-library, once in a process, before devices are selected.
sm_status cli_load_backend(const cli_options *options);

sm_status cli_load_backend_file(const char *path);

// Fills in what code of the user's own this process has, whatever a device says: "gelu_forward=my.c (fnv1a64:...)" of
// --kernel, "backend FILE.so (fnv1a64:...)" if one was loaded, even if another is used; and warnings.
void cli_describe_own_code(sm_device_info *info);

// Checks the files that a row's --kernel or --backend-library names against the digests in its own_kernels.
sm_status cli_own_code_check(const char *flag, const char *code, const char *recorded);

#endif
