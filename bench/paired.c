// paired.c: steps of two sessions in turn.
#include "clock.h"
#include "paired.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static sm_status start_step(sm_paired_side *side) {
    sm_session *session = side->session;
    side->n_steps++;
    SM_TRY(sm_session_set_hyper(session, &sm_adamw_default, side->n_steps, 1));
    SM_TRY(side->workload->next_batch(side->workload->ctx, session, side->n_batches++));
    SM_TRY(sm_session_run(session, SM_RUN_STEP, NULL));
    return sm_session_synchronize(session);
}

// A whole step; its loss is read once the clock has stopped.
static sm_status run_step(sm_paired_side *side, const volatile sig_atomic_t *interrupted, int64_t *elapsed_ns,
                          double *loss) {
    if (interrupted != NULL && *interrupted) {
        return sm_fail(SM_ERR_INTERRUPTED, "interrupted at step %lld", (long long)side->n_steps + 1);
    }
    int64_t begin_ns = sm_now_ns();
    sm_status status = start_step(side);
    *elapsed_ns = sm_now_ns() - begin_ns;
    SM_TRY(status);
    SM_TRY(sm_session_loss(side->session, loss));
    return isfinite(*loss) ? SM_OK
                           : sm_fail(SM_ERR_MISMATCH, "the loss of step %lld is %g: no speed is reported for it",
                                     (long long)side->n_steps, *loss);
}

static sm_status check_first_step(sm_paired_side *side, const volatile sig_atomic_t *interrupted) {
    sm_row row;
    int64_t elapsed_ns;
    if (side->n_steps > 0) {
        return SM_OK;
    }
    SM_TRY(sm_row_init(&row));
    sm_status status = run_step(side, interrupted, &elapsed_ns, &row.loss);
    if (status == SM_OK) {
        status = side->workload->check(side->workload->ctx, side->session, &row);
    }
    sm_row_free(&row);
    return status;
}

static sm_status warm_up(sm_paired_side *side, int n_warmup, const volatile sig_atomic_t *interrupted) {
    SM_TRY(check_first_step(side, interrupted));
    for (int i = 0; i < n_warmup; i++) {
        int64_t elapsed_ns;
        double loss;
        SM_TRY(run_step(side, interrupted, &elapsed_ns, &loss));
    }
    return SM_OK;
}

// A B B A: two samples of each, in their order.
static sm_status run_round(sm_paired_side *a, sm_paired_side *b, const volatile sig_atomic_t *interrupted,
                           int64_t a_ns[2], int64_t b_ns[2]) {
    double loss;
    SM_TRY(run_step(a, interrupted, &a_ns[0], &loss));
    SM_TRY(run_step(b, interrupted, &b_ns[0], &loss));
    SM_TRY(run_step(b, interrupted, &b_ns[1], &loss));
    return run_step(a, interrupted, &a_ns[1], &loss);
}

static sm_status summarise(const int64_t *a_ns, const int64_t *b_ns, const double *ratios, int64_t n,
                           sm_paired_result *result) {
    SM_TRY(sm_stats_compute(a_ns, 2 * n, &result->a_ns));
    SM_TRY(sm_stats_compute(b_ns, 2 * n, &result->b_ns));
    return sm_stats_compute_real(ratios, n, &result->ratio);
}

sm_status sm_paired_measure(sm_paired_side *a, sm_paired_side *b, int n_warmup, int n_rounds,
                            const volatile sig_atomic_t *interrupted, sm_paired_result *result) {
    sm_status status = SM_OK;
    memset(result, 0, sizeof(*result));
    if (n_rounds < 1 || n_warmup < 0) {
        return sm_fail(SM_ERR_INVALID, "%d rounds, %d warm-up steps: at least 1 and 0 are needed", n_rounds, n_warmup);
    }
    const size_t n = (size_t)n_rounds;
    size_t n_whole = 0;
    int64_t *a_ns = calloc(2 * n, sizeof(*a_ns));
    int64_t *b_ns = calloc(2 * n, sizeof(*b_ns));
    double *ratios = calloc(n, sizeof(*ratios));
    if (a_ns == NULL || b_ns == NULL || ratios == NULL) {
        SM_TRY_GOTO(sm_fail(SM_ERR_OOM, "no memory for %d rounds", n_rounds));
    }
    SM_TRY_GOTO(warm_up(a, n_warmup, interrupted));
    SM_TRY_GOTO(warm_up(b, n_warmup, interrupted));
    for (size_t i = 0; i < n && status == SM_OK; i++) {
        status = run_round(a, b, interrupted, &a_ns[2 * i], &b_ns[2 * i]);
        ratios[i] = (double)(b_ns[2 * i] + b_ns[2 * i + 1]) / (double)(a_ns[2 * i] + a_ns[2 * i + 1]);
        n_whole += status == SM_OK;
    }
    if (n_whole == n || (status == SM_ERR_INTERRUPTED && n_whole > 0)) {
        sm_status summed = summarise(a_ns, b_ns, ratios, (int64_t)n_whole, result);
        status = summed != SM_OK ? summed : status;
    }
cleanup:
    free(a_ns);
    free(b_ns);
    free(ratios);
    return status;
}
