// step.c: the step of step.h.
#include "clock.h"
#include "philox.h"
#include "shard.h"
#include "bench/measure/step.h"
#include "src/verify/step_checks.h"

static void wait_for_share(int64_t begin_ns) {
    const double share = SM_TEST_SLOWDOWN;
    const int64_t end_ns = share > 0 ? sm_now_ns() + (int64_t)(share * (double)(sm_now_ns() - begin_ns)) : 0;
    while (share > 0 && sm_now_ns() < end_ns) {
    }
}

static bool is_step(const sm_stepper *s) { return sm_plan_is_step(s->session->plan); }

// What micro-batch `index` of a step executes: zero-grad before the first; after the last sums, and the optimizer.
static unsigned micro_phases(const sm_stepper *s, int index) {
    const unsigned others = (index > 0 ? SM_RUN_ZERO_GRAD : 0u) | (index + 1 < s->n_accum ? SM_RUN_OPTIMIZER : 0u);
    return (s->phases & ~others) | (index + 1 < s->n_accum ? SM_RUN_MORE : 0u);
}

static sm_status set_hyper(sm_stepper *s) {
    const sm_plan *plan = s->session->plan;
    if (plan->hyper == SM_NO_TENSOR) {
        return SM_OK;
    }
    const sm_step_settings defaults = sm_plan_settings(plan);
    return sm_session_set_hyper(s->session, s->settings != NULL ? s->settings : &defaults, s->n_steps, s->n_accum);
}

// Own code may have left work for later, or compute what is asked for: all of a step leads to these numbers. Of an op,
// a backend of one's own is asked for all results, a kernel for the first.
static sm_status await_results(const sm_stepper *s, unsigned phases) {
    const sm_plan *plan = s->session->plan;
    const int end = is_step(s) && (phases & SM_RUN_BACKWARD) ? sm_plan_range(plan, SM_PHASE_BACKWARD).end : plan->n_ops;
    const int last = (phases & SM_RUN_OPTIMIZER) && is_step(s) ? plan->grad_norm : plan->ops[end - 1].out[0];
    const char *own = s->session->device->info.own_kernels;
    const bool takes_all = !is_step(s) && strncmp(own, "own backend ", strlen("own backend ")) == 0;
    const int64_t n = takes_all ? plan->tensors[last].real_elems : 1;
    SM_FREED float *read = sm_malloc((size_t)n * sizeof *read);
    SM_TRY(is_step(s) ? sm_session_read(s->session, plan->loss, 1, read) : SM_OK);
    return last != SM_NO_TENSOR ? sm_session_read(s->session, last, n, read) : SM_OK;
}

// The settings, and all micro-batches, without the phases in `without`; all of it is timed.
static sm_status run_batches(sm_stepper *s, unsigned without, int64_t *op_ns, int64_t *elapsed_ns) {
    const int64_t begin_ns = sm_now_ns();
    SM_TRY(set_hyper(s));
    for (int i = 0; i < s->n_accum; i++) {
        SM_TRY(s->workload->next_batch(s->workload->ctx, s->session, s->n_batches++));
        SM_TRY(sm_session_run(s->session, micro_phases(s, i) & ~without, op_ns));
    }
    SM_TRY(sm_session_synchronize(s->session));
    SM_TRY(s->session->device->info.own_kernels[0] != '\0' ? await_results(s, s->phases & ~without) : SM_OK);
    wait_for_share(begin_ns);
    *elapsed_ns = sm_now_ns() - begin_ns;
    return SM_OK;
}

static sm_status require_finite(const sm_stepper *s, double loss) {
    return isfinite(loss)
               ? SM_OK
               : sm_fail(SM_ERR_MISMATCH, "the loss of step %lld is %g: no speed is reported for a wrong result",
                         (long long)s->n_steps, loss);
}

// Ops by themselves have none.
static sm_status read_loss(const sm_stepper *s, double *loss) {
    *loss = NAN;
    if (!is_step(s)) {
        return SM_OK;
    }
    SM_TRY(sm_session_loss(s->session, loss));
    return require_finite(s, *loss);
}

// The workload's own step.
static sm_status run_own(sm_stepper *s, int64_t *op_ns, int64_t *elapsed_ns, double *loss) {
    const int64_t begin_ns = sm_now_ns();
    SM_TRY(s->workload->run_step(s->workload->loop, s->n_steps, op_ns, elapsed_ns, loss));
    const int64_t end_ns = sm_now_ns();
    wait_for_share(begin_ns);
    *elapsed_ns += sm_now_ns() - end_ns;
    return require_finite(s, *loss);
}

// --- the checks of a step --------------------------------------------------------------------

void sm_step_count_checks(sm_row *row, int64_t elapsed_ns) {
    row->checks_ns = (row->checks_ns == SM_ABSENT ? 0 : row->checks_ns) + elapsed_ns;
}

sm_status sm_step_before_update(sm_stepper *s, sm_row *row) {
    const sm_workload *w = s->workload;
    const int64_t begin_ns = sm_now_ns();
    if ((s->phases & SM_RUN_BACKWARD) || !is_step(s)) {
        SM_TRY(w->before_step(w->ctx, s->session, s->n_steps + 1, s->phases, s->check_seed));
    }
    sm_step_count_checks(row, sm_now_ns() - begin_ns);
    return SM_OK;
}

// Is the loss the mean of the losses? Where ops are looked at, that of the step before may be the same by chance.
static sm_status check_mean(const sm_stepper *s) {
    const sm_plan *plan = s->session->plan;
    const int64_t n = plan->B * plan->T;
    SM_FREED float *losses = sm_malloc((size_t)n * sizeof *losses);
    SM_FREED int32_t *targets = sm_malloc((size_t)n * sizeof *targets);
    const double rounding = 8 * 0x1p-24 * (4 + sqrt((double)n));
    double loss = 0, sum = 0;
    int64_t n_targets = 0;
    SM_TRY(sm_session_loss(s->session, &loss));
    SM_TRY(sm_session_read(s->session, plan->losses, n, losses));
    SM_TRY(s->session->device->backend->download(s->session->executable, plan->targets, 0, n, targets));
    for (int64_t i = 0; i < n; i++) {
        sum += losses[i];
        n_targets += targets[i] != -1;
    }
    const double mean = sum / (double)n_targets;
    SM_FAIL_IF(!(fabs(loss - mean) <= rounding * fabs(mean)), SM_ERR_MISMATCH,
               "wrong loss: step %lld has %.6f, and the mean of its losses is %.6f; no speed is reported",
               (long long)s->n_steps, loss, mean);
    return SM_OK;
}

sm_status sm_step_after_update(sm_stepper *s, sm_row *row) {
    const sm_workload *w = s->workload;
    const int64_t begin_ns = sm_now_ns();
    SM_TRY(is_step(s) ? check_mean(s) : SM_OK);
    if ((s->phases & SM_RUN_BACKWARD) && (s->phases & SM_RUN_OPTIMIZER)) {
        SM_TRY(w->after_update(w->ctx, s->session, row));
    }
    sm_step_count_checks(row, sm_now_ns() - begin_ns);
    return SM_OK;
}

static sm_status check_losses(sm_stepper *s, sm_row *row) {
    const sm_workload *w = s->workload;
    if (!is_step(s) && w->check != NULL) {
        return w->check(w->ctx, s->session, s->n_batches - 1, s->check_seed, row);
    }
    if (!is_step(s)) {
        return sm_spot_check_result(s->spot).n_values > 0 ? SM_OK
                                                          : sm_fail(SM_ERR_INTERNAL, "no number of the op was checked");
    }
    SM_TRY(w->check(w->ctx, s->session, s->n_batches - 1, s->check_seed, row));
    return row->loss_check[0] != '\0' ? SM_OK : sm_fail(SM_ERR_INTERNAL, "the loss check does not report its result");
}

// A step with a backward whose gradients are checked before they are used; a late one's losses, too, which another
// function with gradients of its own would change.
static sm_status run_halves(sm_stepper *s, sm_row *row, int64_t *elapsed_ns, double *loss) {
    SM_TRY(run_batches(s, SM_RUN_OPTIMIZER, NULL, elapsed_ns));
    SM_TRY(read_loss(s, loss));
    int64_t begin_ns = sm_now_ns();
    SM_TRY(s->n_steps > 1 ? check_losses(s, row) : SM_OK);
    SM_TRY(s->workload->check_gradients(s->workload->ctx, s->session, s->n_batches - s->n_accum, s->n_accum, row));
    row->gradient_check_ns = sm_now_ns() - begin_ns;
    sm_step_count_checks(row, row->gradient_check_ns);
    SM_FAIL_IF(row->gradient_check[0] == '\0', SM_ERR_INTERNAL, "the gradient check does not report its result");
    begin_ns = sm_now_ns();
    SM_TRY(sm_session_run(s->session, s->phases & SM_RUN_OPTIMIZER, NULL));
    SM_TRY(sm_session_synchronize(s->session));
    *elapsed_ns += sm_now_ns() - begin_ns;
    return SM_OK;
}

static sm_status open_spot(sm_stepper *s) {
    return s->spot != NULL ? SM_OK : sm_spot_check_new(s->session->plan, s->check_seed, &s->spot);
}

static void describe_spots(const sm_stepper *s, sm_row *row) {
    const sm_spot_result result = sm_spot_check_result(s->spot);
    if (result.n_ops == 0 && !is_step(s)) {
        return; // the workload has its own check
    }
    row->spot_error = result.error;
    snprintf(row->spot_check, sizeof row->spot_check,
             "%lld ops of %d kinds, each kind at least %d times, %lld numbers; %s%s", (long long)result.n_ops,
             result.n_kinds, result.least_looks, (long long)result.n_values,
             result.error_at[0] != '\0' ? "nearest to its limit: " : "all exact", result.error_at);
}

// The spot check runs in one drawn micro-batch of a step, and in the last, with the optimizer.
static bool is_looked_at(const sm_stepper *s, int index) {
    const uint32_t drawn = sm_philox4x32(s->check_seed, (uint64_t)s->n_steps, 1).word[0];
    return index + 1 == s->n_accum || index == (int)(drawn % (uint32_t)s->n_accum);
}

static sm_status run_piece(sm_stepper *s, bool is_watched, unsigned phases, int64_t *op_ns) {
    return is_watched ? sm_spot_check_run(s->spot, s->session, phases, op_ns)
                      : sm_session_run(s->session, phases, op_ns);
}

// Runs the next step in pieces; compares its losses before its update. check_ns: the time of that, without spot checks.
static sm_status run_checked(sm_stepper *s, sm_row *row, int64_t *op_ns, int64_t *check_ns, double *loss) {
    SM_TRY(set_hyper(s));
    for (int i = 0; i < s->n_accum; i++) {
        SM_TRY(s->workload->next_batch(s->workload->ctx, s->session, s->n_batches++));
        SM_TRY(run_piece(s, is_looked_at(s, i), micro_phases(s, i) & ~(unsigned)SM_RUN_OPTIMIZER, op_ns));
    }
    SM_TRY(sm_session_synchronize(s->session));
    const int64_t begin_ns = sm_now_ns();
    SM_TRY(read_loss(s, loss));
    SM_TRY(check_losses(s, row));
    *check_ns = sm_now_ns() - begin_ns;
    SM_TRY(s->phases & SM_RUN_OPTIMIZER ? run_piece(s, true, SM_RUN_OPTIMIZER, op_ns) : SM_OK);
    return sm_session_synchronize(s->session);
}

sm_status sm_step_check(sm_stepper *s, sm_row *row, int64_t *op_ns, int64_t *elapsed_ns, double *loss) {
    int64_t check_ns = 0;
    SM_TRY(open_spot(s));
    SM_TRY(sm_step_before_update(s, row));
    s->n_steps++;
    const int64_t looked_ns = sm_spot_check_result(s->spot).elapsed_ns;
    const int64_t begin_ns = sm_now_ns();
    sm_status status = run_checked(s, row, op_ns, &check_ns, loss);
    *elapsed_ns = sm_now_ns() - begin_ns;
    describe_spots(s, row);
    check_ns += sm_spot_check_result(s->spot).elapsed_ns - looked_ns;
    *elapsed_ns -= check_ns;
    sm_step_count_checks(row, check_ns);
    return status == SM_OK ? sm_step_after_update(s, row) : status;
}

sm_status sm_step_check_gradients(sm_stepper *s, sm_row *row, int64_t *elapsed_ns, double *loss) {
    SM_TRY(sm_step_before_update(s, row));
    s->n_steps++;
    SM_TRY(run_halves(s, row, elapsed_ns, loss));
    return sm_step_after_update(s, row);
}

sm_status sm_step_run(sm_stepper *s, sm_row *row, int64_t *op_ns, int64_t *elapsed_ns, double *loss) {
    if (s->n_steps + 1 == SM_CHECKED_STEPS) {
        return sm_step_check(s, row, op_ns, elapsed_ns, loss);
    }
    if (s->n_steps == 0 && (s->phases & SM_RUN_BACKWARD) != 0 && is_step(s)) {
        return sm_step_check_gradients(s, row, elapsed_ns, loss);
    }
    s->n_steps++;
    if (s->n_steps > SM_CHECKED_STEPS && s->workload->run_step != NULL) {
        return run_own(s, op_ns, elapsed_ns, loss);
    }
    SM_TRY(run_batches(s, 0, op_ns, elapsed_ns));
    return read_loss(s, loss);
}

// --- a step made again -----------------------------------------------------------------------

enum { N_RUNS = 8, RUN_ELEMS = 32 }; // for the gradient of each parameter

struct sm_step_record {
    float *losses; // (B,T) of the last micro-batch; they follow the record
    float *values; // the runs, the loss and the gradients' norm
    int64_t n_losses, n_values;
    int64_t n_batches; // before the step
    uint64_t n_micro_steps;
    float *scales; // after the values
};

void sm_step_forget(sm_stepper *s) {
    if (s->record != NULL) {
        (void)s->session->device->backend->keep_weights(s->session->executable, SM_WEIGHTS_DROP);
        free(s->record);
        s->record = NULL;
    }
}

void sm_stepper_close(sm_stepper *s) {
    sm_step_forget(s);
    sm_spot_check_free(s->spot);
    s->spot = NULL;
}

// Moves the scales of the loss and of factors, with their histories, which the update changes: what ops of the phase
// scaler write. Counts their elements if `values` is NULL.
static sm_status move_scales(sm_session *session, bool writes, float *values, size_t *n_values) {
    const sm_plan *plan = session->plan;
    *n_values = 0;
    for (const sm_op *op = plan->ops; op < plan->ops + plan->n_ops; op++) {
        for (int k = 0; k < SM_MAX_OUT && op->phase == SM_PHASE_SCALER && op->out[k] != SM_NO_TENSOR; k++) {
            const int64_t n = sm_tensor_elems(&plan->tensors[op->out[k]]);
            float *its = values != NULL ? values + *n_values : NULL;
            SM_TRY(its == NULL ? SM_OK
                   : writes    ? sm_session_write(session, op->out[k], n, its)
                               : sm_session_read(session, op->out[k], n, its));
            *n_values += (size_t)n;
        }
    }
    return SM_OK;
}

static sm_status read_scales(const sm_stepper *s, float *values) {
    return move_scales(s->session, false, values, &(size_t){0});
}

static sm_status write_scales(const sm_stepper *s, float *values) {
    return move_scales(s->session, true, values, &(size_t){0});
}

static sm_step_record *new_record(sm_session *session) {
    const sm_plan *plan = session->plan;
    size_t n_scales;
    (void)move_scales(session, false, NULL, &n_scales);
    const size_t n_losses = (size_t)(plan->B * plan->T);
    const size_t n_values = 2 + (size_t)plan->n_tensors * N_RUNS * RUN_ELEMS;
    sm_step_record *r = sm_calloc(1, sizeof *r + (n_losses + n_values + n_scales) * sizeof(float));
    r->n_losses = (int64_t)n_losses;
    r->losses = (float *)(r + 1);
    r->values = r->losses + n_losses;
    r->scales = r->values + n_values;
    return r;
}

sm_status sm_step_keep(sm_stepper *s, sm_row *row, bool *is_kept) {
    const sm_backend *backend = s->session->device->backend;
    const int64_t begin_ns = sm_now_ns();
    *is_kept = false;
    if (s->workload->run_step != NULL && s->n_accum > 1) { // its earlier micro-batches are lost
        sm_fail(SM_ERR_UNSUPPORTED, "a loop's step of several micro-batches cannot be repeated");
        return SM_OK;
    }
    if (backend->keep_weights == NULL) {
        sm_fail(SM_ERR_UNSUPPORTED, "backend %s keeps no copy of the weights", backend->name);
        return SM_OK;
    }
    SM_TRY(open_spot(s));
    s->record = new_record(s->session);
    s->record->n_batches = s->n_batches;
    s->record->n_micro_steps = s->session->n_micro_steps;
    SM_TRY(sm_session_synchronize(s->session));
    SM_TRY(sm_exchange_finish(s->session->exchange, SM_NO_TENSOR)); // weights that are still gathered
    SM_TRY(read_scales(s, s->record->scales));
    const sm_status status = backend->keep_weights(s->session->executable, SM_WEIGHTS_KEEP);
    sm_step_count_checks(row, sm_now_ns() - begin_ns);
    *is_kept = status == SM_OK;
    if (status != SM_OK) {
        sm_step_forget(s);
    }
    return status == SM_ERR_OOM ? SM_OK : status;
}

// Reads drawn runs of a tensor, always the same ones within a step.
static sm_status read_runs(sm_stepper *s, int tensor, float *values, int64_t *n_values) {
    const int64_t n_elems = sm_tensor_elems(&s->session->plan->tensors[tensor]);
    const int64_t length = n_elems < RUN_ELEMS ? n_elems : RUN_ELEMS;
    for (int64_t i = 0; i < N_RUNS; i++) {
        const sm_philox_block block =
            sm_philox4x32(s->check_seed, (uint64_t)tensor * N_RUNS + (uint64_t)i, (uint64_t)s->n_steps);
        const int64_t first = (int64_t)((uint64_t)block.word[0] << 20 ^ block.word[1]) % (n_elems - length + 1);
        SM_TRY(sm_session_read_part(s->session, tensor, first, length, values + *n_values));
        *n_values += length;
    }
    return SM_OK;
}

static sm_status read_record(sm_stepper *s, sm_step_record *r) {
    const sm_plan *plan = s->session->plan;
    r->n_values = 0;
    SM_TRY(sm_session_synchronize(s->session));
    SM_TRY(sm_session_read(s->session, plan->losses, r->n_losses, r->losses));
    SM_TRY(sm_session_read(s->session, plan->loss, 1, r->values + r->n_values++));
    if (plan->grad_norm != SM_NO_TENSOR && (s->phases & SM_RUN_OPTIMIZER)) {
        SM_TRY(sm_session_read(s->session, plan->grad_norm, 1, r->values + r->n_values++));
    }
    for (int i = 0; i < plan->n_tensors; i++) {
        const int gradient = sm_gradient_of(plan, i);
        SM_TRY(gradient != SM_NO_TENSOR ? read_runs(s, gradient, r->values, &r->n_values) : SM_OK);
    }
    return SM_OK;
}

// The largest difference, as a share of the largest value.
static double worst_share(const float *a, const float *b, int64_t n) {
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < n; i++) {
        const double difference = fabs((double)a[i] - b[i]);
        worst = difference <= worst ? worst : difference; // also if it is NaN
        largest = fabs(a[i]) > largest ? fabs(a[i]) : largest;
    }
    return worst > 0 ? worst / largest : worst;
}

// A kernel that is right may still sum in another order in each call: not wrong, and of no use as a check of itself.
static sm_status compare_records(const sm_stepper *s, const sm_step_record *a, const sm_step_record *b) {
    static const double most_rounding = 1e-5;
    const bool has_losses = memcmp(a->losses, b->losses, (size_t)a->n_losses * sizeof *a->losses) != 0;
    if (!has_losses && memcmp(a->values, b->values, (size_t)a->n_values * sizeof *a->values) == 0) {
        return SM_OK;
    }
    const char *what = has_losses ? "losses" : "gradients, or their norm";
    const int64_t n_heads = a->n_values < 2 ? a->n_values : 2; // the loss and, with an optimizer, the norm
    const double losses = worst_share(a->losses, b->losses, a->n_losses);
    const double heads = worst_share(a->values, b->values, n_heads);
    const double gradients = worst_share(a->values + n_heads, b->values + n_heads, a->n_values - n_heads);
    SM_FAIL_IF(losses <= most_rounding && heads <= most_rounding && gradients <= most_rounding, SM_ERR_MISMATCH,
               "differs in the last bit between calls: step %lld, repeated from the same weights, has %s that are off "
               "by %.1e of the largest; a kernel must give equal bits each time, so that no speed is reported",
               (long long)s->n_steps, what, fmax(losses, fmax(heads, gradients)));
    return sm_fail(SM_ERR_MISMATCH,
                   "wrong result: step %lld, repeated from the same weights, has other %s; no speed is reported",
                   (long long)s->n_steps, what);
}

// Writes this process's tokens again: where those of all processes are gathered, a step overwrote them.
static sm_status write_own_tokens(const sm_session *session) {
    const sm_backend *backend = session->device->backend;
    const sm_plan *plan = session->plan;
    const int64_t n = plan->B * plan->T;
    if (plan->gathered_tokens == SM_NO_TENSOR) {
        return SM_OK;
    }
    SM_FREED int32_t *tokens = sm_malloc((size_t)n * sizeof *tokens);
    SM_TRY(backend->download(session->executable, plan->tokens, 0, n, tokens));
    return backend->upload(session->executable, plan->gathered_tokens, plan->processes.rank * n, n, tokens);
}

// No op writes what lies between the gradients of a group's matrices, up to the next block, and their norm
// counts it as zeros (src/rewrites/first_write.c).
static sm_status zero_gaps(sm_session *session) {
    static const float zeros[SM_SLICE_BLOCK];
    const sm_plan *plan = session->plan;
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_tensor *t = sm_gradient_of(plan, i) != SM_NO_TENSOR ? &plan->tensors[sm_gradient_of(plan, i)] : NULL;
        const int64_t end =
            t != NULL && t->n_dims > 1 && t->view_of != SM_NO_TENSOR ? t->view_offset_elems + sm_tensor_elems(t) : 0;
        const int64_t n = (SM_SLICE_BLOCK - end % SM_SLICE_BLOCK) % SM_SLICE_BLOCK;
        SM_TRY(n > 0 ? sm_session_upload(session, t->view_of, end, n, zeros) : SM_OK);
    }
    return SM_OK;
}

static sm_status repeat(sm_stepper *s, sm_step_record *again) {
    const sm_backend *backend = s->session->device->backend;
    SM_TRY(sm_exchange_finish(s->session->exchange, SM_NO_TENSOR));
    SM_TRY(read_record(s, s->record));
    SM_TRY(read_scales(s, again->scales));
    SM_TRY(write_scales(s, s->record->scales));
    SM_TRY(backend->keep_weights(s->session->executable, SM_WEIGHTS_RESTORE));
    SM_TRY(write_own_tokens(s->session));
    SM_TRY(zero_gaps(s->session));
    s->session->n_micro_steps = s->record->n_micro_steps;
    // The step again up to its update, in pieces, with the same batches. A single micro-batch is still in place.
    for (int i = 0; i < s->n_accum; i++) {
        if (s->n_accum > 1) {
            SM_TRY(s->workload->next_batch(s->workload->ctx, s->session, s->record->n_batches + i));
        }
        SM_TRY(run_piece(s, is_looked_at(s, i), micro_phases(s, i) | SM_RUN_NO_UPDATES, NULL));
    }
    SM_TRY(sm_session_synchronize(s->session));
    SM_TRY(read_record(s, again));
    SM_TRY(compare_records(s, s->record, again));
    SM_TRY(write_scales(s, again->scales));
    return backend->keep_weights(s->session->executable, SM_WEIGHTS_RESUME);
}

sm_status sm_step_repeat(sm_stepper *s, sm_row *row) {
    const int64_t begin_ns = sm_now_ns();
    SM_FREED sm_step_record *again = new_record(s->session);
    const sm_status status = repeat(s, again);
    sm_step_forget(s);
    describe_spots(s, row);
    sm_step_count_checks(row, sm_now_ns() - begin_ns);
    return status;
}
