// measure.h: measures one configuration, a step or a loop, and makes its row.
#pragma once

#include "bench/loop/loop.h"
#include "cli/setup/setup.h"
#include "src/train/train_log.h"

// Sizes of `run` if they are not given and --fit cannot choose.
enum { CLI_DEFAULT_BATCH = 4, CLI_DEFAULT_SEQ_LEN = 64 };

// Measured ceilings are cached: they take a second, and all rows of a device share them.
enum { CLI_MAX_PEAKS = 64 };

typedef struct {
    cli_device device;
    int64_t n_threads;
    cli_precision precision;
    sm_peaks peaks;
} cli_known_peaks;

typedef struct {
    const cli_options *options;
    json_t *machine; // facts, shared by all rows
    cli_known_peaks peaks[CLI_MAX_PEAKS];
    int n_peaks;
    int n_devices;       // that share the time of --fit
    double peak_seconds; // for a device's ceilings; 0: as long as rows take
    size_t peak_bytes;   // of their operands, which may fit in a cache; 0: operands in memory
} cli_bench;

// The configuration of the flags, of each list the first value, for the processes of comm (NULL: one); without a
// device, or with the only one of --backend. SM_ERR_USAGE.
sm_status cli_job_of(const cli_options *options, sm_comm *comm, cli_job *job);
sm_status cli_single_job(const cli_options *options, sm_comm *comm, cli_job *job);

// Sets the ops of a job with --op, their sizes, and which of them are timed.
sm_status cli_op_job(const cli_options *options, cli_job *job);

// Their defaults resolved.
sm_attention cli_attention(const cli_job *job);
sm_recompute cli_recompute(const cli_job *job);
void cli_append_without(const cli_job *job, char *text, size_t size_bytes); // rewrites that are left out

// The plan of a job, without memory assigned, which the caller frees; and its options, of which max_tensor_bytes is one.
sm_status cli_job_plan(const cli_job *job, size_t max_tensor_bytes, sm_plan **plan);
sm_status cli_op_plan(const cli_job *job, sm_plan **plan); // of a job with --op
sm_plan_options cli_plan_options(const cli_job *job, size_t max_tensor_bytes);

// The ceilings of a job's device, measured at the first call for its thread count and precision; 0 if the backend has
// none. `opened` may be NULL: the device is then opened for it.
sm_status cli_get_peaks(cli_bench *bench, const cli_job *job, sm_device *opened, sm_peaks *peaks);

// Sets the facts of a row that are known before anything is opened.
sm_status cli_set_configuration(const cli_bench *bench, const cli_job *job, sm_row *row);

// Sets the seed of the checks, unless --check-seed did: a random number, the same for all rows and all processes.
sm_status cli_draw_check_seed(cli_job *job);

// Measures, and fills an initialised row, also after a failure. The status is the row's, as in sm_harness_measure.
sm_status cli_measure(cli_bench *bench, const cli_job *job, sm_row *row);

// Whether a measurement was interrupted after it had samples. Its row is still shown; the status does not change.
bool cli_is_cut_short(sm_status status, const sm_row *row);

// Joins a measured row's op times with its plan, built again. The caller frees *plan; the input points to it and the row.
sm_status cli_row_profile_input(const cli_job *job, const sm_row *row, sm_plan **plan, sm_profile_input *input);

// --- what a configuration will need, by the planner ---------------------------------------------

typedef struct {
    size_t role_bytes[SM_ROLE_COUNT]; // tensors, packed
    size_t working_bytes;             // the kernels' own; 0 if the device is not open
    int64_t memory_bytes;             // the sum
    double phase_flops[SM_PHASE_COUNT];
    double phase_bytes[SM_PHASE_COUNT]; // traffic of an ideal machine
    double flops;                       // of one sample
    int64_t n_params;
} cli_forecast;

// A device's largest single allocation (0 = no limit), and the device if it is open, else NULL.
typedef struct {
    size_t max_alloc_bytes;
    const sm_device *opened;
} cli_target;

// Fails if a tensor is larger than any allocation, or if the configuration is invalid.
sm_status cli_forecast_job(const cli_job *job, cli_target target, cli_forecast *forecast);

// Writes the file of --timeline: the plan's memory over its ops (sm_profile_timeline), of allocated_bytes in all.
sm_status cli_write_timeline(const char *path, const cli_job *job, const sm_plan *plan, const int64_t *op_ns,
                             int64_t allocated_bytes);

// The largest B up to CLI_MAX_BATCH whose memory is within the limit; the rest is as in the job. 0: none.
enum { CLI_MAX_BATCH = 65536 };
int64_t cli_largest_batch(const cli_job *job, cli_target target, int64_t limit_bytes);

// --- flags of a row ------------------------------------------------------------------------------

// A row's field run_args: the flags of `run` (or `loop`) that measure exactly this row, "--batch-size=4", including
// defaults, as a later version may have others. The caller owns *args.
sm_status cli_run_args_make(const cli_options *options, const cli_job *job, json_t **args);
cli_command cli_run_args_command(const json_t *args); // CLI_RUN or CLI_LOOP

// For a row of unknown origin: SM_ERR_FORMAT names the first flag that cli_run_args_make does not write, or repeats.
sm_status cli_run_args_check(const json_t *args);

// Sets job->B, and job->T if it is 0: the largest work of a fixed list that fits the device's free memory, the limit
// (0: none) and, at 60% of the measured ceilings, this device's share of the seconds of --fit for warm-up, samples and
// attribution; the smallest of the list if none fits. Prints its choice and the reason on stderr.
sm_status cli_fit(cli_bench *bench, int64_t limit_bytes, cli_job *job);

// The parts of a training loop that a measured step does not have: a loader, a log, the machine's activity.
typedef struct {
    cli_options options; // with the files of a data folder filled in
    cli_train_data data;
    sm_train_settings settings;
    sm_load_share share;
    sm_loader *loader;
    sm_train_log *log;
    sm_loop *loop;
    sm_utilisation *utilisation;
} cli_loop_steps;

// As in a row: "inline", "threads:2".
enum { CLI_LOADER_NAME_SIZE = 32 };
void cli_loader_name(const sm_loader_settings *loader, char name[CLI_LOADER_NAME_SIZE]);

// Opens the data of a row's measurement: the checks' batches, and for a loop (else NULL) all that it reads, and its log.
sm_status cli_open_data(const cli_options *options, const cli_job *job, cli_loop_steps *loop, cli_workload *w);

void cli_loop_steps_close(cli_loop_steps *steps); // an all-zero one is fine

// Prints a loop's phases, speed and bottleneck on stdout; `baseline` is the row of an earlier loop, or NULL.
sm_status cli_loop_show(const sm_row *row, const json_t *baseline, sm_format format);
