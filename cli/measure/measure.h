// measure.h: one row of `stepmark run`: from a configuration to a measured row.
#ifndef STEPMARK_CLI_MEASURE_MEASURE_H
#define STEPMARK_CLI_MEASURE_MEASURE_H

#include "bench/measure/harness.h"
#include "bench/profile/profile.h"
#include "cli/flags/configure.h"
#include "cli/setup/session.h"
#include "src/rewrites/rewrite.h"

// Sizes of `run` where they are not given, and --fit cannot choose.
enum { CLI_DEFAULT_BATCH = 4, CLI_DEFAULT_SEQ_LEN = 64 };

// What a row measures.
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
    int64_t check_seed;     // what the checks draw by; 0: not drawn yet
    sm_processes processes; // that share the work; none: one
    sm_comm *comm;          // what joins them; NULL: there is one
} cli_job;

// Measured ceilings are kept: they cost a second, and rows of one device share them.
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
    size_t peak_bytes;   // of their operands, which may lie in a cache; 0: they lie in memory
} cli_bench;

// The one configuration that the flags of profile and ablate ask for, among the processes of job->comm (NULL: one);
// SM_ERR_USAGE where they ask for several.
sm_status cli_single_job(const cli_options *options, sm_mode mode, cli_job *job);

// What --recompute comes to in that mode.
// How the job's attention keeps its weights, and how its documents fill rows.
sm_attention cli_attention(const cli_options *options, sm_mode mode);

sm_recompute cli_recompute(const cli_options *options, sm_mode mode);

// The plan of a job, without memory assigned; the caller frees it. max_tensor_bytes as in
// sm_plan_options.
sm_status cli_job_plan(const cli_options *options, const cli_job *job, size_t max_tensor_bytes, sm_plan **plan);

// The ceilings of a job's device, measured at the first call for its thread count and precision; 0 where the
// backend has none. `opened` may be NULL: the device is opened for it.
sm_status cli_get_peaks(cli_bench *bench, const cli_job *job, sm_device *opened, sm_peaks *peaks);

// Sets what a row knows of its configuration before anything is opened.
sm_status cli_set_configuration(const cli_bench *bench, const cli_job *job, sm_row *row);

// What the checks draw their places by: --check-seed, or a random number, the same for all rows and all processes
// (comm; NULL: one).
sm_status cli_check_seed(const cli_options *options, sm_comm *comm, int64_t *seed);

// Measures and fills an initialised row, whatever happens. The status is that of the row, as
// sm_harness_measure's.
sm_status cli_measure(cli_bench *bench, const cli_job *job, sm_row *row);

// Was a measurement with that status interrupted when it had samples? Its row is worth showing, and the status stays.
bool cli_is_cut_short(sm_status status, const sm_row *row);

// A measured row's op times, joined to the plan that it measured: builds the plan again, from the options alone. The
// caller frees *plan, which the input points to, as to the row.
sm_status cli_row_profile_input(const cli_options *options, const cli_job *job, const sm_row *row, sm_plan **plan,
                                sm_profile_input *input);

// --- what a configuration will need, by the planner ---------------------------------------------

typedef struct {
    size_t role_bytes[SM_ROLE_COUNT]; // tensors, packed
    size_t working_bytes;             // the kernels' own; 0 where the device is not open
    int64_t memory_bytes;             // all of these
    double phase_flops[SM_PHASE_COUNT];
    double phase_bytes[SM_PHASE_COUNT]; // traffic of an ideal machine
    double flops;                       // of one sample
    int64_t n_params;
} cli_forecast;

// Of a device: its largest single allocation (0 = no limit), and itself where it is open, else NULL.
typedef struct {
    size_t max_alloc_bytes;
    const sm_device *opened;
} cli_target;

// Fails where a tensor is larger than any allocation, or the configuration makes no plan.
sm_status cli_forecast_job(const cli_options *options, const cli_job *job, cli_target target, cli_forecast *forecast);

// The largest B up to CLI_MAX_BATCH whose memory is within the limit, all else being as in the job; 0 if
// there is none.
enum { CLI_MAX_BATCH = 65536 };
int64_t cli_largest_batch(const cli_options *options, const cli_job *job, cli_target target, int64_t limit_bytes);

#endif
