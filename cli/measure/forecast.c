// forecast.c: see measure/measure.h.
#include "cli/measure/measure.h"

#include <string.h>

sm_status cli_forecast_job(const cli_options *options, const cli_job *job, cli_target target, cli_forecast *forecast) {
    sm_status status = SM_OK;
    sm_plan *plan = NULL;
    memset(forecast, 0, sizeof(*forecast));
    SM_TRY_GOTO(cli_job_plan(options, job, target.max_alloc_bytes, &plan));
    SM_TRY_GOTO(sm_plan_assign_memory(plan, target.max_alloc_bytes));
    size_t tensor_bytes = sm_plan_memory(plan, forecast->role_bytes);
    if (target.opened != NULL) {
        forecast->working_bytes = target.opened->backend->working_bytes(target.opened, plan);
    }
    forecast->memory_bytes = (int64_t)(tensor_bytes + forecast->working_bytes);
    forecast->n_params = plan->n_params;
    forecast->flops = sm_pass_flops(plan, job->pass, (int)options->work.accum);
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        forecast->phase_flops[op->phase] += sm_op_flops(plan, op);
        forecast->phase_bytes[op->phase] += sm_op_bytes(plan, op);
    }
cleanup:
    sm_plan_free(plan);
    return status;
}

// Whether a batch of B fits. A plan that cannot be built does not fit.
static bool fits(const cli_options *options, const cli_job *job, int64_t B, cli_target target, int64_t limit_bytes) {
    cli_job other = *job;
    cli_forecast f;
    other.B = B;
    return cli_forecast_job(options, &other, target, &f) == SM_OK && f.memory_bytes <= limit_bytes;
}

// Doubles B until it does not fit, then bisects.
int64_t cli_largest_batch(const cli_options *options, const cli_job *job, cli_target target, int64_t limit_bytes) {
    int64_t lowest = 0; // fits
    int64_t highest = 1;
    while (highest <= CLI_MAX_BATCH && fits(options, job, highest, target, limit_bytes)) {
        lowest = highest;
        highest *= 2;
    }
    highest = highest > CLI_MAX_BATCH ? CLI_MAX_BATCH + 1 : highest; // stop above the limit
    while (highest - lowest > 1) {
        int64_t middle = lowest + (highest - lowest) / 2;
        if (fits(options, job, middle, target, limit_bytes)) {
            lowest = middle;
        } else {
            highest = middle;
        }
    }
    return lowest;
}
