// forecast.h: what a configuration will need, by the planner, before anything runs.
#ifndef STEPMARK_CLI_MEASURE_FORECAST_H
#define STEPMARK_CLI_MEASURE_FORECAST_H

#include "cli/measure/measure.h"

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
