// measure.h: measures one configuration and makes a row of `stepmark run`.
#ifndef STEPMARK_CLI_MEASURE_MEASURE_H
#define STEPMARK_CLI_MEASURE_MEASURE_H

#include "bench/measure/harness.h"
#include "bench/profile/profile.h"
#include "cli/flags/configure.h"
#include "cli/setup/session.h"
#include "src/rewrites/rewrite.h"

// Sizes of `run` if they are not given and --fit cannot choose.
enum { CLI_DEFAULT_BATCH = 4, CLI_DEFAULT_SEQ_LEN = 64 };

// The configuration of a row.
typedef struct {
    const char *model; // as asked for
    sm_model_config config;
    cli_device device;
    int64_t n_threads; // 0: the device's default
    cli_precision precision;
    sm_mode mode;
    sm_pass_type pass;
    int64_t B;
    int64_t T;
    int64_t check_seed;     // seed of the checks; 0: not drawn yet
    sm_processes processes; // that share the work; zero: a single process
    sm_comm *comm;          // which connects them; NULL: a single process
} cli_job;

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

// The one configuration of the flags of profile and ablate, for the processes of job->comm (NULL: one); SM_ERR_USAGE if
// there are several.
sm_status cli_single_job(const cli_options *options, sm_mode mode, cli_job *job);

// How the job's attention keeps its weights, and how its documents fill rows.
sm_attention cli_attention(const cli_options *options, sm_mode mode);

// --recompute, or its default.
sm_recompute cli_recompute(const cli_options *options);

// The plan of a job, without memory assigned; the caller frees it. max_tensor_bytes as in sm_plan_options.
sm_status cli_job_plan(const cli_options *options, const cli_job *job, size_t max_tensor_bytes, sm_plan **plan);

// The ceilings of a job's device, measured at the first call for its thread count and precision; 0 if the backend has
// none. `opened` may be NULL: the device is then opened for it.
sm_status cli_get_peaks(cli_bench *bench, const cli_job *job, sm_device *opened, sm_peaks *peaks);

// Sets the facts of a row that are known before anything is opened.
sm_status cli_set_configuration(const cli_bench *bench, const cli_job *job, sm_row *row);

// The seed of the checks: --check-seed, or a random number, the same for all rows and all processes (comm; NULL: one).
sm_status cli_check_seed(const cli_options *options, sm_comm *comm, int64_t *seed);

// Measures, and fills an initialised row, also after a failure. The status is the row's, as in sm_harness_measure.
sm_status cli_measure(cli_bench *bench, const cli_job *job, sm_row *row);

// Whether a measurement was interrupted after it had samples. Its row is still shown; the status does not change.
bool cli_is_cut_short(sm_status status, const sm_row *row);

// Joins a measured row's op times with its plan, which is built again from the options. The caller frees *plan; the
// input points to it and to the row.
sm_status cli_row_profile_input(const cli_options *options, const cli_job *job, const sm_row *row, sm_plan **plan,
                                sm_profile_input *input);

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
sm_status cli_forecast_job(const cli_options *options, const cli_job *job, cli_target target, cli_forecast *forecast);

// The largest B up to CLI_MAX_BATCH whose memory is within the limit; the rest is as in the job. 0: none.
enum { CLI_MAX_BATCH = 65536 };
int64_t cli_largest_batch(const cli_options *options, const cli_job *job, cli_target target, int64_t limit_bytes);

#endif
