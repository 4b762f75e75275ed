// cli_walk_values.c: a plan run op by op on the reference backend, for its numbers.
#include "cli_walk_values.h"

#include <math.h>
#include <stdlib.h>

#include "philox.h"

struct cli_walk_values {
    sm_device *device;
    sm_session *session;
    float *buffer; // as large as the largest tensor of the plan
};

sm_status cli_walk_draw_batch(const sm_plan *plan, uint64_t seed, int32_t **batch) {
    int64_t n = plan->B * plan->T;
    int32_t *tokens = malloc((size_t)n * 2 * sizeof(*tokens));
    *batch = tokens;
    if (tokens == NULL) {
        return sm_fail(SM_ERR_OOM, "walk: no memory for a batch of %lld tokens", (long long)n);
    }
    int32_t *targets = tokens + n;
    uint64_t key = sm_philox_key(seed, "walk.tokens");
    for (int64_t i = 0; i <= n; i++) {
        int32_t id = (int32_t)(sm_philox4x32(key, (uint64_t)i, 0).word[0] % (uint64_t)plan->V);
        if (i < n) {
            tokens[i] = id;
        }
        if (i > 0) {
            targets[i - 1] = id;
        }
    }
    return SM_OK;
}

static sm_status make_buffer(cli_walk_values *values) {
    const sm_plan *plan = values->session->plan;
    int64_t largest = 1;
    for (int i = 0; i < plan->n_tensors; i++) {
        int64_t n_elems = sm_tensor_elems(&plan->tensors[i]);
        largest = n_elems > largest ? n_elems : largest;
    }
    values->buffer = malloc((size_t)largest * sizeof(*values->buffer));
    return values->buffer != NULL
               ? SM_OK
               : sm_fail(SM_ERR_OOM, "walk: no memory to read a tensor of %lld elements", (long long)largest);
}

sm_status cli_walk_values_open(sm_plan *plan, const sm_model_config *config, uint64_t seed, const int32_t *batch,
                               cli_walk_values **values) {
    sm_status status = SM_OK;
    const sm_backend *backend = sm_backend_find("reference");
    cli_walk_values *made = calloc(1, sizeof(*made));
    if (made == NULL || backend == NULL) {
        status = made == NULL ? sm_fail(SM_ERR_OOM, "walk: out of memory")
                              : sm_fail(SM_ERR_INTERNAL, "walk: no backend reference");
        goto cleanup;
    }
    SM_TRY_GOTO(backend->open(0, &(sm_open_options){.n_threads = 0}, &made->device));
    status = sm_session_open(made->device, plan, &made->session);
    plan = NULL; // the session's, whatever happened
    if (status != SM_OK) {
        goto cleanup;
    }
    SM_TRY_GOTO(make_buffer(made));
    SM_TRY_GOTO(cli_load_weights(made->session, config, seed, NULL));
    const sm_plan *prepared = made->session->plan;
    SM_TRY_GOTO(sm_session_set_batch(made->session, batch, batch + prepared->B * prepared->T));
    const sm_step_settings settings = sm_plan_settings(prepared);
    SM_TRY_GOTO(sm_session_set_hyper(made->session, &settings, CLI_WALK_STEP, 1));
    *values = made;
    made = NULL;
cleanup:
    sm_plan_free(plan);
    cli_walk_values_free(made);
    return status;
}

void cli_walk_values_free(cli_walk_values *values) {
    if (values == NULL) {
        return;
    }
    sm_session_close(values->session);
    if (values->device != NULL) {
        values->device->backend->close(values->device);
    }
    free(values->buffer);
    free(values);
}

sm_status cli_walk_values_execute(cli_walk_values *values, int op) {
    sm_executable *executable = values->session->executable;
    SM_TRY(values->device->backend->execute(executable, (sm_range){op, op + 1}, NULL));
    return values->device->backend->synchronize(executable);
}

sm_status cli_walk_values_summarise(cli_walk_values *values, int tensor, cli_walk_summary *summary) {
    int64_t n_elems = sm_tensor_elems(&values->session->plan->tensors[tensor]);
    SM_TRY(sm_session_read(values->session, tensor, n_elems, values->buffer));
    double sum = 0;
    for (int64_t i = 0; i < n_elems; i++) {
        sum += (double)values->buffer[i] * values->buffer[i];
    }
    summary->n_elems = n_elems;
    summary->norm = sqrt(sum);
    summary->n_first = n_elems < CLI_WALK_FIRST ? (int)n_elems : CLI_WALK_FIRST;
    for (int i = 0; i < summary->n_first; i++) {
        summary->first[i] = values->buffer[i];
    }
    return SM_OK;
}
