// workload.c: the batches and checks of a measurement.
#include "cli/setup/setup.h"

enum { MAX_BATCHES = 16 };

// Inputs, targets and starts.
static int32_t *batch(const cli_workload *w, int64_t index) {
    return w->ids + index % w->n_batches * 3 * w->job->B * w->job->T;
}

static const int32_t *starts_of(const cli_workload *w, int64_t index) {
    return cli_padding(w->options) == SM_PADDING_NONE ? NULL : batch(w, index) + 2 * w->job->B * w->job->T;
}

// Own code may remember what it computed from a batch, so it never gets one again: once all were used their tokens are
// moved on by one, then by two, and so on. Documents stay as they are.
static const int32_t *fresh_batch(cli_workload *w, int64_t index) {
    const int64_t n_ids = w->job->B * w->job->T;
    const int64_t by = index / w->n_batches % n_ids;
    const bool is_own = w->options->device.kernel != NULL || w->options->device.backend_library != NULL;
    const int32_t *given = batch(w, index);
    if (!is_own || by == 0 || starts_of(w, index) != NULL) {
        return given;
    }
    w->moved = w->moved != NULL ? w->moved : sm_malloc(2 * (size_t)n_ids * sizeof(*w->moved));
    for (int i = 0; i < 2; i++) {
        memcpy(w->moved + i * n_ids, given + i * n_ids + by, (size_t)(n_ids - by) * sizeof(*given));
        memcpy(w->moved + (i + 1) * n_ids - by, given + i * n_ids, (size_t)by * sizeof(*given));
    }
    return w->moved;
}

static sm_status next_batch(void *ctx, sm_session *session, int64_t index) {
    cli_workload *w = ctx;
    const int32_t *inputs = fresh_batch(w, index);
    SM_TRY(starts_of(w, index) == NULL ? SM_OK : sm_session_set_documents(session, starts_of(w, index)));
    return sm_session_set_batch(session, inputs, inputs + w->job->B * w->job->T);
}

static sm_status check(void *ctx, sm_session *session, int64_t index, uint64_t seed, sm_row *row) {
    cli_workload *w = ctx;
    const int32_t *inputs = fresh_batch(w, index);
    const sm_loss_draw draw = {seed, w->n_loss_checks++};
    sm_loss_check result;
    SM_TRY(sm_exchange_complete(session->exchange, session->executable, false));
    sm_status status = sm_check_loss(session, &w->job->config, w->job->plan.dropout_p, w->job->plan.seed, inputs,
                                     inputs + w->job->B * w->job->T, starts_of(w, index), &draw, &result);
    if (status == SM_OK || status == SM_ERR_MISMATCH) {
        row->loss_checked = result.loss;
        row->loss_reference = result.loss_reference;
        SM_ROW_TEXT(row->loss_check, result.how);
    }
    return status;
}

static sm_status batch_of_step(void *ctx, sm_session *session, int64_t index) {
    return next_batch(ctx, session, ((cli_workload *)ctx)->first_checked + index);
}

static sm_status check_gradients(void *ctx, sm_session *session, int64_t first_batch, int n_accum, sm_row *row) {
    cli_workload *w = ctx;
    sm_gradient_check result;
    w->first_checked = first_batch;
    SM_TRY(sm_exchange_complete(session->exchange, session->executable, true));
    sm_status status = sm_check_gradients(session, n_accum, batch_of_step, ctx, &result);
    if (status == SM_OK || status == SM_ERR_MISMATCH) {
        row->gradient_error = result.tells || status != SM_OK ? result.error : NAN;
        row->gradient_tolerance = result.tolerance;
        SM_ROW_TEXT(row->gradient_check, result.how);
        w->grad_norm = result.grad_norm;
    }
    if (status == SM_OK && !result.tells) {
        sm_row_warn(row, "the gradients could not be checked: %s", result.how);
        return SM_OK;
    }
    return status;
}

static sm_status before_step(void *ctx, sm_session *session, int64_t step, unsigned phases, uint64_t seed) {
    cli_workload *w = ctx;
    SM_TRY(step == 1 ? sm_poison_gradients(session) : SM_OK);
    return phases & SM_RUN_OPTIMIZER ? sm_update_check_begin(session, seed + (uint64_t)step, &w->update_check) : SM_OK;
}

static sm_status after_update(void *ctx, sm_session *session, sm_row *row) {
    cli_workload *w = ctx;
    sm_update_result result;
    sm_status status = sm_update_check_end(w->update_check, session, w->grad_norm, &result);
    w->update_check = NULL;
    w->grad_norm = 0; // of the first step only
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

static sm_status allocate(cli_workload *w, int64_t n_batches) {
    w->n_batches = n_batches;
    w->ids = calloc((size_t)n_batches * 3 * (size_t)(w->job->B * w->job->T), sizeof(*w->ids));
    return w->ids != NULL ? SM_OK
                          : sm_fail(SM_ERR_OOM, "no memory for %lld batches of %lld x %lld tokens",
                                    (long long)n_batches, (long long)w->job->B, (long long)w->job->T);
}

static sm_status read_batches(sm_tokens *tokens, cli_workload *w) {
    const int64_t n_ids = w->job->B * w->job->T;
    const int64_t n_whole = (sm_tokens_count(tokens) - 1) / n_ids;
    SM_FAIL_IF(n_whole < 1, SM_ERR_INVALID,
               "%s: %lld tokens, and a batch of %lld x %lld needs %lld; give a longer file or a smaller batch",
               w->options->work.data != NULL ? w->options->work.data : "embedded text",
               (long long)sm_tokens_count(tokens), (long long)w->job->B, (long long)w->job->T, (long long)(n_ids + 1));
    SM_TRY(allocate(w, n_whole > MAX_BATCHES ? MAX_BATCHES : n_whole));
    for (int64_t i = 0; i < w->n_batches; i++) {
        int32_t *inputs = batch(w, i);
        SM_TRY(sm_tokens_batch(tokens, i, w->job->B, w->job->T, inputs, inputs + n_ids));
    }
    return SM_OK;
}

static sm_status read_documents(const sm_tokens *tokens, cli_workload *w) {
    SM_AT_END(sm_documents_free) sm_documents documents = {.all = NULL};
    SM_AT_END(sm_collation_free) sm_collation collation = {.placements = NULL};
    // Takes enough documents for all batches in any placement: rows of a packed batch are filled in parallel.
    enum { ROWS_OPEN = 64, MOST_POSITIONS = 1 << 28 };
    SM_FAIL_IF(w->job->B > MOST_POSITIONS / w->job->T, SM_ERR_INVALID,
               "a batch of documents has at most %d positions, not %lld x %lld", MOST_POSITIONS, (long long)w->job->B,
               (long long)w->job->T);
    SM_TRY(cli_documents(w->options, &w->job->config, tokens, w->job->T,
                         (MAX_BATCHES * w->job->B + ROWS_OPEN) * w->job->T, &documents));
    SM_TRY(sm_collate(&documents, w->job->B, w->job->T, cli_padding(w->options), MAX_BATCHES, &collation));
    const int64_t n_ids = w->job->B * w->job->T;
    SM_TRY(allocate(w, collation.n_batches));
    for (int64_t i = 0; i < collation.n_batches; i++) {
        int32_t *inputs = batch(w, i);
        SM_TRY(sm_collation_fill(&collation, tokens, i, inputs, inputs + n_ids, inputs + 2 * n_ids, NULL));
    }
    cli_count_tokens(&collation, &w->real_tokens, &w->attended_pairs);
    return SM_OK;
}

sm_status cli_workload_open_of(const cli_options *options, const cli_job *job, sm_tokens *tokens,
                               cli_workload *workload) {
    *workload = (cli_workload){.options = options, .job = job};
    return options->work.documents != NULL ? read_documents(tokens, workload) : read_batches(tokens, workload);
}

sm_status cli_workload_open(const cli_options *options, const cli_job *job, cli_workload *workload) {
    SM_OWN(sm_tokens) *tokens = NULL;
    *workload = (cli_workload){.ids = NULL};
    SM_TRY(cli_open_tokens(options, job->config.vocab, &tokens));
    return cli_workload_open_of(options, job, tokens, workload);
}

// Starts are last, so that rows without documents keep their digest.
void cli_workload_digest(const cli_workload *w, char digest[SM_DIGEST_SIZE]) {
    const size_t ids = 3 * (size_t)(w->job->B * w->job->T);
    const size_t told = cli_padding(w->options) == SM_PADDING_NONE ? ids / 3 * 2 : ids;
    SM_FREED int32_t *packed = malloc((size_t)w->n_batches * told * sizeof(*packed));
    digest[0] = '\0';
    if (packed != NULL) {
        for (size_t i = 0; i < (size_t)w->n_batches; i++) {
            memcpy(packed + i * told, w->ids + i * ids, told * sizeof(*packed));
        }
        sm_digest_bytes(packed, (size_t)w->n_batches * told * sizeof(*packed), digest);
    }
}

void cli_workload_close(cli_workload *workload) {
    sm_update_check_free(workload->update_check);
    workload->update_check = NULL;
    free(workload->ids);
    free(workload->moved);
    workload->ids = NULL;
}
