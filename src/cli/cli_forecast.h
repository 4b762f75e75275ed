// cli_forecast.h: what a configuration will need, by the planner, before anything is opened.
#ifndef STEPMARK_CLI_FORECAST_H
#define STEPMARK_CLI_FORECAST_H

#include "cli_measure.h"

typedef struct {
    int64_t memory_bytes; // all tensors of the plan, packed
    double flops;         // of one sample
} cli_forecast;

// max_alloc_bytes: the device's largest single allocation; 0 = no limit. Fails where a tensor is
// larger, or the configuration makes no plan.
sm_status cli_forecast_job(const cli_options *options, const cli_job *job, size_t max_alloc_bytes,
                           cli_forecast *forecast);

// The largest B up to 65536 whose memory is within the limit, all else being as in the job; 0 if
// there is none.
int64_t cli_largest_batch(const cli_options *options, const cli_job *job, size_t max_alloc_bytes, int64_t limit_bytes);

#endif
