// setup.h: what a subcommand that runs something opens: devices, weights, data, batches, processes, a worker.
#pragma once

#include <limits.h>

#include "bench/measure/harness.h"
#include "cli/flags/options.h"
#include "cli/output/output.h"
#include "src/data/data_files.h"
#include "src/processes/process.h"
#include "src/rewrites/rewrite.h"
#include "src/tokenizer/tokenizer.h"
#include "src/train/trainer.h"
#include "src/verify/op_cases.h"
#include "src/verify/step_checks.h"

// A device named by --backend: number `index` of a backend.
typedef struct {
    const sm_backend *backend;
    int index;
} cli_device;

// All that the step of a row and its measurement are, made from flags by cli_job_of.
typedef struct {
    const char *model; // as asked for
    sm_model_config config;
    cli_device device;
    int64_t n_threads; // 0: the device's default
    cli_precision precision;
    sm_mode mode;
    sm_pass_type pass;
    int64_t B, T;
    char op[SM_ROW_TEXT_SIZE]; // --op: ops by themselves; "": a step
    sm_op_set ops;
    char shape[SM_CASE_TEXT_SIZE];
    bool is_apart;           // out of place
    int64_t exchanged_bytes; // of an exchange among processes in place of ops (bench/measure/harness.h); 0: none
    const char *weights;     // folder; NULL: initial ones of the plan's seed
    sm_plan_options plan;    // what the members above do not say
    unsigned without;        // rewrites that are left out
    sm_protocol protocol;    // check_seed is 0 until it is drawn
    const char *timeline;    // file for the one of its forecast; NULL: none
    sm_comm *comm;           // connects the processes that share the work; NULL: a single process
} cli_job;

enum {
    CLI_MAX_DEVICES = 64,
    CLI_LEAST_PART = 3, // letters of a part of a name
};

typedef struct {
    cli_device devices[CLI_MAX_DEVICES];
    int n;
} cli_device_list;

// The devices of `names`: a backend's name (all its devices), a device's id, "all" (every available device of a
// benchmarked backend), or a part of the name, platform or driver of such a backend's devices. SM_ERR_USAGE for an
// unknown name. An unavailable device that is named exactly is in the list.
sm_status cli_select_devices(const cli_texts *names, cli_device_list *list);

// Called by cli_join, or first in a process alone that opens one of them and trains: starts slow work early.
void cli_foresee(const cli_options *options);

// Removes a backend whose drivers did not list their devices from later selections.
void cli_lose_backend(const sm_backend *backend);

// In a process that was told to (os_told): lists a backend's devices for the process that told it.
sm_status cli_list_as_told(const sm_backend *backend);

// None of one whose devices are not known. The first call loads its drivers, which may hang or crash.
int cli_count_devices(const sm_backend *backend);

// From now on this process loads no driver, so that it can start processes that load one. It lists devices by a process
// for each backend, which has `timeout_s` (0: no limit).
void cli_load_no_drivers(double timeout_s);
void cli_may_load_drivers(void);

// Facts of a device; without drivers, as when it was listed. Index -1: none. And its warnings, owned by the caller.
sm_status cli_describe(cli_device device, sm_device_info *info);
json_t *cli_device_warnings(const sm_device_info *info);

// The failure of a backend whose devices are not known, with its message; SM_OK: they are, or were not asked for.
sm_status cli_backend_failure(const sm_backend *backend);

// Loads the weights of --weights, or initial ones of --seed, into a session.
sm_status cli_load_weights(sm_session *session, const sm_model_config *config, uint64_t seed, const char *folder);

// The digest of --weights' files; "" without --weights.
sm_status cli_weights_digest(const cli_options *options, char digest[SM_DIGEST_SIZE]);

// The tokens of --data, or the embedded text as bytes. The caller closes them.
sm_status cli_open_tokens(const cli_options *options, int64_t vocab, sm_tokens **tokens);

// Opens a device with that many threads (0: its default) as the flags say, or the only one of --backend with the only
// --threads. A failure's message names the device.
sm_open_options cli_open_options(const cli_options *options, int64_t n_threads);
sm_status cli_open_device(cli_device device, int64_t n_threads, const cli_options *options, sm_device **opened);
sm_status cli_open_only_device(const cli_options *options, sm_device **opened);

// --- code of the user's own ----------------------------------------------------------------------

// Compiles the kernels of --kernel, once in a process; *list lives as long as the process. A process apart, with
// n_threads threads, loads those in C. SM_ERR_UNSUPPORTED: the backend takes none in their language.
sm_status cli_own_kernels(const cli_options *options, const sm_backend *backend, int n_threads,
                          const sm_own_kernel **list, int *n);

// Adds the backend of --backend-library, once in a process, before devices are selected.
sm_status cli_load_backend(const cli_options *options);
sm_status cli_load_backend_file(const char *path);

// Fills in what code of the user's own a device uses, whatever it says: "gelu_forward=my.c (fnv1a64:...)" of --kernel,
// "own backend FILE.so (fnv1a64:...)" of --backend-library; and warnings.
void cli_describe_own_code(sm_device *device);

// Checks the files that a row's --kernel or --backend-library names against the digests in its own_kernels.
sm_status cli_own_code_check(const char *flag, const char *code, const char *recorded);

// --- tokenizers ----------------------------------------------------------------------------------

#define CLI_BYTES_TOKENIZER "bytes" // for models of text read as bytes

// The folder with the weights: `folder` itself, or a run's model.
sm_status cli_find_weights(const char *folder, char weights[PATH_MAX]);

// The tokenizer of --tokenizer (`given`), or else of the folder with the weights, or of the run. NULL: an id is a byte.
// SM_ERR_USAGE if the vocabulary's tokenizer is unknown.
sm_status cli_find_tokenizer(const char *given, const char *folder, const char *weights, int64_t vocab,
                             sm_tokenizer **tokenizer);

// A trained model: of --weights, which may be a run, with its tokenizer, which the caller frees, also after a failure.
typedef struct {
    char weights[PATH_MAX];
    sm_model_config config;
    sm_tokenizer *tokenizer; // NULL: an id is a byte
} cli_trained;

sm_status cli_find_trained(const cli_options *options, cli_trained *model);

// The ids of a text by the tokenizer of --tokenizer, --run or --weights. Free ids->ids, also after a failure.
sm_status cli_model_ids(const cli_options *options, const char *text, int64_t vocab, sm_ids *ids);

// Refuses a --tokenizer that does not exist, and none (NULL) where one is needed.
sm_status cli_check_vocabulary(const char *given, bool is_needed);

// Appends the ids of a text; messages name `flag`. SM_ERR_INVALID if the model does not know a byte.
sm_status cli_encode_text(const char *flag, const sm_tokenizer *tokenizer, const char *text, int64_t vocab,
                          sm_ids *ids);

// The placement of documents in rows: none without --documents.
sm_padding cli_padding(const cli_options *options);

// The documents of the stream, at least n_positions if it has that many, for rows of T. Free `documents` in any case.
sm_status cli_documents(const cli_options *options, const sm_model_config *config, const sm_tokens *tokens, int64_t T,
                        int64_t n_positions, sm_documents *documents);

// --- a training's data ---------------------------------------------------------------------------

// A file and its documents.
typedef struct {
    sm_tokens *tokens;
    char tokenizer[SM_TOKENIZER_DIGEST_SIZE];
    sm_documents documents;
    sm_collation collation;
} cli_train_file;

typedef struct {
    char data_path[SM_DATA_PATH_BYTES], val_path[SM_DATA_PATH_BYTES];
    const char *tokenizer_folder; // of the data's tokenizer; NULL: unknown
    cli_train_file data, validation;
} cli_train_data;

// Reads --loader; SM_ERR_USAGE if it is invalid.
sm_status cli_parse_loader(const cli_options *options, sm_loader_settings *loader);

// Sets the settings' sources and loader, and the options to the files of a folder --data. A zeroed `data` is empty.
sm_status cli_train_data_open(cli_options *options, const cli_job *job, cli_train_data *data,
                              sm_train_settings *settings);
void cli_train_data_close(cli_train_data *data);

// Adds the mean numbers of real tokens and of pairs in a micro-batch, for a plan's work and speed.
void cli_count_tokens(const sm_collation *collation, double *real_tokens, double *attended_pairs);

// --- the batches of a measurement, and the checks of its loss, gradients and updates -------------

typedef struct {
    const cli_options *options; // not owned, like the job
    const cli_job *job;
    int32_t *ids; // n_batches times B*T inputs, B*T targets and B*T starts of documents
    int64_t n_batches;
    int32_t *moved;                     // inputs and targets of a batch whose tokens were moved on; NULL: none yet
    double real_tokens, attended_pairs; // of a mean batch; 0: all
    double grad_norm;                   // of the first step, from the gradient check; 0 = unknown
    int64_t first_checked;              // batch of the step whose gradients are checked
    int64_t n_loss_checks;              // so far
    sm_update_check *update_check;      // of the current step; otherwise NULL
} cli_workload;

// Reads the first batches of --data, or of the embedded text, or of its --documents; or of open tokens. A longer run
// repeats them. The digest is that of all batches.
sm_status cli_workload_open(const cli_options *options, const cli_job *job, cli_workload *workload);
sm_status cli_workload_open_of(const cli_options *options, const cli_job *job, sm_tokens *tokens,
                               cli_workload *workload);
void cli_workload_close(cli_workload *workload); // one whose ids are NULL is fine
void cli_workload_digest(const cli_workload *workload, char digest[SM_DIGEST_SIZE]);

// The workload as the harness's interface; the workload must outlive it.
sm_workload cli_workload_interface(cli_workload *workload);

// --- several processes: joining them, the share of each, and their end ---------------------------

// Joins the processes that mpirun or srun started; SM_ERR_USAGE if their arguments differ. Binds each to its share of
// the host's cores, unless it is bound. Afterwards only rank 0 prints notes (cli_note).
sm_status cli_join(const cli_options *options, sm_comm **comm);

// Joins, works, and leaves.
sm_status cli_together(const cli_options *options, sm_status (*work)(const cli_options *options, sm_comm *comm));

// Refuses to measure next to other processes that the same launcher started on this host.
sm_status cli_require_alone(const cli_options *options);

// Checks that all processes have the same build, files and kernels. cli_join compares names; this compares sizes and
// digests, as hosts may have different files with the same names. `status`: this process's outcome of opening them; a
// failure of any is returned to all. `validation` and `device` may be NULL.
sm_status cli_compare_files(const cli_options *options, sm_status status, sm_train_source *data,
                            sm_train_source *validation, const sm_device *device, sm_comm *comm);

// The device of this process: its own if the host has one for each; a single one is for all, of several the cpu.
sm_status cli_choose_device(const sm_comm *comm, const cli_device_list *devices, cli_device *device);

// Call it before a process ends after a failure. The launcher then ends all processes at once, and another one may have
// something to report first: rank 0, or the process that misses a crashed one. Waits a few seconds at most; returns at
// once without other processes.
void cli_wait_for_others(void);

// Leaves. Reports a failure of this process alone, with its rank, and ends all processes. Rank 0 reports a failure that
// all agreed on: it gets that failure, the others SM_OK.
sm_status cli_leave(sm_comm *comm, sm_status status);

// --- the worker ----------------------------------------------------------------------------------

// Subcommands work in a process apart (src/processes/process.h): if a driver hangs, it ends and names the call.

// The time for a subcommand to end by itself after Ctrl-C; `run` has less: it may be part of a sweep.
#define CLI_STOP_S     1.6
#define CLI_RUN_STOP_S 1.1

// Runs work(options) in a worker; *exit_code is the worker's. Fails with SM_ERR_INTERRUPTED if it had to be ended after
// a signal, with SM_ERR_TIMEOUT after the subcommand's --timeout. If a worker crashed, this process ends by its signal.
sm_status cli_perform_in_worker(const cli_options *options, int (*work)(void *ctx), int *exit_code);

typedef struct {
    int (*work)(void *ctx);
    sm_worker_receive receive; // takes its messages; NULL: none
    void *ctx;
    double timeout_s;    // 0: no limit
    uint64_t most_bytes; // of its allocations; 0: no limit
    json_t *told;        // what it needs of this process where it cannot be a copy of it; taken over
    os_shared_place shared;
} cli_work;

// Runs work(ctx) in a worker, which after Ctrl-C has a sweep's time to end.
sm_status cli_work_apart(const cli_work *work, sm_process_result *end);

// In a worker: reports the current work ("building"), and what its row knows, for the message if it does not end.
void cli_stage(const char *what, const sm_row *row);
extern const char *cli_stage_beside; // what goes on next to a stage, and could crash, too: ", while ..."

// In a worker: a backend lists its devices; "": finished.
void cli_stage_search(const char *backend);

// The failure, with a message, of a worker that did not end by itself: during `stage`, within `timeout_s` (0: none).
sm_status cli_worker_failure(const sm_process_result *end, const char *stage, double timeout_s);
