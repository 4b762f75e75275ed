// paired.c: steps of two sessions in turn.
#include "clock.h"
#include "paired.h"

#include <stdlib.h>
#include <time.h>

sm_stepper sm_paired_side(sm_session *session, const sm_workload *workload) {
    return (sm_stepper){
        .session = session, .workload = workload, .adamw = &sm_adamw_default, .phases = SM_RUN_STEP, .n_accum = 1};
}

static sm_status run_step(sm_stepper *side, sm_row *row, int64_t *elapsed_ns) {
    return sm_step_run(side, row, NULL, elapsed_ns, &row->loss);
}

// `row` takes what the checks say; only whether they fail matters here.
static sm_status warm_up(sm_stepper *side, int n_warmup, sm_row *row) {
    const sm_workload *workload = side->workload;
    int64_t elapsed_ns;
    if (side->n_steps == 0) {
        SM_TRY(run_step(side, row, &elapsed_ns));
        SM_TRY(workload->check(workload->ctx, side->session, row));
    }
    for (int i = 0; i < n_warmup; i++) {
        SM_TRY(run_step(side, row, &elapsed_ns));
    }
    return SM_OK;
}

// A B B A: two samples of each, in their order.
static sm_status run_round(sm_stepper *a, sm_stepper *b, sm_row *row, int64_t a_ns[2], int64_t b_ns[2]) {
    SM_TRY(run_step(a, row, &a_ns[0]));
    SM_TRY(run_step(b, row, &b_ns[0]));
    SM_TRY(run_step(b, row, &b_ns[1]));
    return run_step(a, row, &a_ns[1]);
}

sm_status sm_paired_measure(sm_stepper *a, sm_stepper *b, int n_warmup, int n_rounds,
                            const volatile sig_atomic_t *interrupted, sm_paired_result *result) {
    sm_status status = SM_OK;
    if (n_rounds < 1 || n_warmup < 0) {
        return sm_fail(SM_ERR_INVALID, "%d rounds, %d warm-up steps: at least 1 and 0 are needed", n_rounds, n_warmup);
    }
    const size_t n = (size_t)n_rounds;
    sm_row row;
    SM_TRY(sm_row_init(&row));
    int64_t *a_ns = calloc(2 * n, sizeof(*a_ns));
    int64_t *b_ns = calloc(2 * n, sizeof(*b_ns));
    double *ratios = calloc(n, sizeof(*ratios));
    if (a_ns == NULL || b_ns == NULL || ratios == NULL) {
        SM_TRY_GOTO(sm_fail(SM_ERR_OOM, "no memory for %d rounds", n_rounds));
    }
    SM_TRY_GOTO(warm_up(a, n_warmup, &row));
    SM_TRY_GOTO(warm_up(b, n_warmup, &row));
    for (size_t i = 0; i < n; i++) {
        if (interrupted != NULL && *interrupted) {
            SM_TRY_GOTO(sm_fail(SM_ERR_INTERRUPTED, "interrupted at round %zu of %zu", i + 1, n));
        }
        SM_TRY_GOTO(run_round(a, b, &row, &a_ns[2 * i], &b_ns[2 * i]));
        ratios[i] = (double)(b_ns[2 * i] + b_ns[2 * i + 1]) / (double)(a_ns[2 * i] + a_ns[2 * i + 1]);
    }
    SM_TRY_GOTO(sm_stats_compute(a_ns, 2 * (int64_t)n, &result->a_ns));
    SM_TRY_GOTO(sm_stats_compute(b_ns, 2 * (int64_t)n, &result->b_ns));
    SM_TRY_GOTO(sm_stats_compute_real(ratios, (int64_t)n, &result->ratio));
cleanup:
    sm_row_free(&row);
    free(a_ns);
    free(b_ns);
    free(ratios);
    return status;
}
