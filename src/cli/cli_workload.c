// cli_workload.c: batches and check of a measurement.
#include "cli_workload.h"

#include <math.h>
#include <stdlib.h>

#include "gradient_check.h"
#include "loss_check.h"

enum { MAX_BATCHES = 16 };

static int32_t *batch(const cli_workload *w, int64_t index) { return w->ids + index % w->n_batches * 2 * w->B * w->T; }

static sm_status next_batch(void *ctx, sm_session *session, int64_t index) {
    const cli_workload *w = ctx;
    const int32_t *inputs = batch(w, index);
    return sm_session_set_batch(session, inputs, inputs + w->B * w->T);
}

static sm_status check(void *ctx, sm_session *session, sm_row *row) {
    const cli_workload *w = ctx;
    const int32_t *inputs = batch(w, 0);
    sm_loss_check result;
    sm_status status = sm_check_loss(session, w->config, w->options->dropout, (uint64_t)w->options->seed, inputs,
                                     inputs + w->B * w->T, &result);
    if (status == SM_OK || status == SM_ERR_MISMATCH) {
        row->loss = result.loss;
        row->loss_reference = result.loss_reference;
        SM_ROW_TEXT(row->loss_check, result.how);
    }
    return status;
}

static sm_status check_gradients(void *ctx, sm_session *session, int n_accum, sm_row *row) {
    cli_workload *w = ctx;
    sm_gradient_check result;
    sm_status status = sm_check_gradients(session, n_accum, next_batch, ctx, &result);
    if (status == SM_OK || status == SM_ERR_MISMATCH) {
        row->gradient_error = result.error;
        row->gradient_tolerance = result.tolerance;
        SM_ROW_TEXT(row->gradient_check, result.how);
        w->grad_norm = result.grad_norm;
    }
    if (status == SM_OK && !result.tells) {
        return sm_row_warn(row, "the gradients could not be checked: %s", result.how);
    }
    return status;
}

static sm_status before_step(void *ctx, sm_session *session, int64_t step, unsigned phases) {
    cli_workload *w = ctx;
    if (step == 1) {
        SM_TRY(sm_poison_gradients(session));
    }
    return phases & SM_RUN_OPTIMIZER ? sm_update_check_begin(session, &w->update_check) : SM_OK;
}

static sm_status after_update(void *ctx, sm_session *session, sm_row *row) {
    cli_workload *w = ctx;
    sm_update_result result;
    sm_status status = sm_update_check_end(w->update_check, session, w->grad_norm, &result);
    w->update_check = NULL;
    w->grad_norm = 0; // of the first step alone
    if (status == SM_OK || status == SM_ERR_MISMATCH) {
        row->update_error = fmax(result.error, isfinite(row->update_error) ? row->update_error : 0);
        SM_ROW_TEXT(row->update_check, result.how);
    }
    return status;
}

sm_workload cli_workload_interface(cli_workload *workload) {
    return (sm_workload){.ctx = workload,
                         .next_batch = next_batch,
                         .check = check,
                         .check_gradients = check_gradients,
                         .before_step = before_step,
                         .after_update = after_update};
}

static sm_status read_batches(sm_tokens *tokens, cli_workload *w) {
    const int64_t n_ids = w->B * w->T;
    int64_t n_whole = (sm_tokens_count(tokens) - 1) / n_ids;
    w->n_batches = n_whole > MAX_BATCHES ? MAX_BATCHES : n_whole;
    if (w->n_batches < 1) {
        return sm_fail(SM_ERR_INVALID,
                       "%s: %lld tokens, and a batch of %lld x %lld needs %lld; give a longer file or a smaller batch",
                       w->options->data != NULL ? w->options->data : "embedded text",
                       (long long)sm_tokens_count(tokens), (long long)w->B, (long long)w->T, (long long)(n_ids + 1));
    }
    w->ids = malloc((size_t)w->n_batches * 2 * (size_t)n_ids * sizeof(*w->ids));
    if (w->ids == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for %lld batches of %lld x %lld tokens", (long long)w->n_batches,
                       (long long)w->B, (long long)w->T);
    }
    for (int64_t i = 0; i < w->n_batches; i++) {
        int32_t *inputs = batch(w, i);
        SM_TRY(sm_tokens_batch(tokens, i, w->B, w->T, inputs, inputs + n_ids));
    }
    return SM_OK;
}

sm_status cli_workload_open(const cli_options *options, const sm_model_config *config, int64_t B, int64_t T,
                            cli_workload *workload) {
    sm_tokens *tokens;
    *workload = (cli_workload){.options = options, .config = config, .B = B, .T = T};
    SM_TRY(cli_open_tokens(options, config->vocab, &tokens));
    sm_status status = read_batches(tokens, workload);
    sm_tokens_close(tokens);
    return status;
}

void cli_workload_digest(const cli_workload *w, char digest[SM_DIGEST_SIZE]) {
    sm_digest_bytes(w->ids, (size_t)(w->n_batches * 2 * w->B * w->T) * sizeof(*w->ids), digest);
}

void cli_workload_close(cli_workload *workload) {
    sm_update_check_free(workload->update_check);
    workload->update_check = NULL;
    free(workload->ids);
    workload->ids = NULL;
}
