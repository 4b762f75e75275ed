// cli_forecast.c: see cli_forecast.h.
#include "cli_forecast.h"

enum { MAX_BATCH_SEARCHED = 65536 };

sm_status cli_forecast_job(const cli_options *options, const cli_job *job, size_t max_alloc_bytes,
                           cli_forecast *forecast) {
    sm_status status = SM_OK;
    sm_plan *plan = NULL;
    SM_TRY_GOTO(cli_job_plan(options, job, max_alloc_bytes, &plan));
    SM_TRY_GOTO(sm_plan_assign_memory(plan, max_alloc_bytes));
    forecast->memory_bytes = (int64_t)sm_plan_memory(plan, NULL);
    forecast->flops = sm_pass_flops(plan, job->pass, (int)options->accum);
cleanup:
    sm_plan_free(plan);
    return status;
}

static bool fits(const cli_options *options, const cli_job *job, int64_t B, size_t max_alloc_bytes,
                 int64_t limit_bytes) {
    cli_job smaller = *job;
    cli_forecast f;
    smaller.B = B;
    return cli_forecast_job(options, &smaller, max_alloc_bytes, &f) == SM_OK && f.memory_bytes <= limit_bytes;
}

// Doubles until it does not fit, then halves what is left in between.
int64_t cli_largest_batch(const cli_options *options, const cli_job *job, size_t max_alloc_bytes, int64_t limit_bytes) {
    int64_t lowest = 0; // fits
    int64_t highest = 1;
    while (highest <= MAX_BATCH_SEARCHED && fits(options, job, highest, max_alloc_bytes, limit_bytes)) {
        lowest = highest;
        highest *= 2;
    }
    while (highest - lowest > 1) {
        int64_t middle = lowest + (highest - lowest) / 2;
        if (fits(options, job, middle, max_alloc_bytes, limit_bytes)) {
            lowest = middle;
        } else {
            highest = middle;
        }
    }
    return lowest;
}
