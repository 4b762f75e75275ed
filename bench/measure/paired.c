// paired.c: measures steps of two sessions in turn.
#include "philox.h"
#include "bench/measure/harness.h"

sm_stepper sm_paired_side(sm_session *session, const sm_workload *workload, uint64_t check_seed) {
    return (sm_stepper){
        .session = session,
        .workload = workload,
        .phases = SM_RUN_STEP,
        .n_accum = 1,
        .check_seed = check_seed,
    };
}

static sm_status run_step(sm_stepper *side, const volatile sig_atomic_t *interrupted, sm_row *row,
                          int64_t *elapsed_ns) {
    SM_FAIL_IF(interrupted != NULL && *interrupted, SM_ERR_INTERRUPTED, "interrupted at step %lld",
               (long long)side->n_steps + 1);
    return sm_step_run(side, row, NULL, elapsed_ns, &row->loss);
}

// `row` receives the checks' results; only a failure matters here.
static sm_status warm_up(sm_stepper *side, int n_warmup, const volatile sig_atomic_t *interrupted, sm_row *row) {
    int64_t elapsed_ns;
    for (int i = (int)side->n_steps; i < SM_CHECKED_STEPS; i++) {
        SM_TRY(run_step(side, interrupted, row, &elapsed_ns));
    }
    for (int i = 0; i < n_warmup; i++) {
        SM_TRY(run_step(side, interrupted, row, &elapsed_ns));
    }
    return SM_OK;
}

static sm_status run_and_check_update(sm_stepper *side, const volatile sig_atomic_t *interrupted, sm_row *row,
                                      int64_t *elapsed_ns) {
    SM_TRY(sm_step_before_update(side, row));
    SM_TRY(run_step(side, interrupted, row, elapsed_ns));
    return sm_step_after_update(side, row);
}

// A step that is repeated afterwards, if possible.
static sm_status run_and_repeat(sm_stepper *side, const volatile sig_atomic_t *interrupted, sm_row *row,
                                int64_t *elapsed_ns) {
    bool is_kept;
    SM_TRY(sm_step_keep(side, row, &is_kept));
    SM_TRY(run_and_check_update(side, interrupted, row, elapsed_ns));
    return is_kept ? sm_step_repeat(side, row) : SM_OK;
}

// A B B A: two samples of each, in order. In the checked round updates are checked, and second samples repeated.
static sm_status run_round(sm_stepper *a, sm_stepper *b, bool checks, const volatile sig_atomic_t *interrupted,
                           sm_row *row, int64_t a_ns[2], int64_t b_ns[2]) {
    SM_TRY((checks ? run_and_check_update : run_step)(a, interrupted, row, &a_ns[0]));
    SM_TRY((checks ? run_and_check_update : run_step)(b, interrupted, row, &b_ns[0]));
    SM_TRY((checks ? run_and_repeat : run_step)(b, interrupted, row, &b_ns[1]));
    return (checks ? run_and_repeat : run_step)(a, interrupted, row, &a_ns[1]);
}

sm_status sm_paired_measure(sm_stepper *a, sm_stepper *b, int n_warmup, int n_rounds,
                            const volatile sig_atomic_t *interrupted, sm_paired_result *result) {
    sm_status status = SM_OK;
    memset(result, 0, sizeof(*result));
    SM_FAIL_IF(n_rounds < 1 || n_warmup < 0, SM_ERR_INVALID, "%d rounds, %d warm-up steps: at least 1 and 0 are needed",
               n_rounds, n_warmup);
    const size_t n = (size_t)n_rounds;
    SM_ROW(row);
    size_t n_whole = 0;
    SM_FREED int64_t *a_ns = sm_calloc(2 * n, sizeof(*a_ns));
    SM_FREED int64_t *b_ns = sm_calloc(2 * n, sizeof(*b_ns));
    SM_FREED double *ratios = sm_calloc(n, sizeof(*ratios));
    SM_TRY(warm_up(a, n_warmup, interrupted, &row));
    SM_TRY(warm_up(b, n_warmup, interrupted, &row));
    const size_t repeated = sm_philox4x32(a->check_seed, (uint64_t)a->n_steps, 2).word[0] % n;
    for (size_t i = 0; i < n && status == SM_OK; i++) {
        status = run_round(a, b, i == repeated, interrupted, &row, &a_ns[2 * i], &b_ns[2 * i]);
        ratios[i] = (double)(b_ns[2 * i] + b_ns[2 * i + 1]) / (double)(a_ns[2 * i] + a_ns[2 * i + 1]);
        n_whole += status == SM_OK;
    }
    if (n_whole > 0 && (status == SM_OK || status == SM_ERR_INTERRUPTED)) {
        int64_t elapsed_ns;
        double loss;
        const sm_status ended = status;
        SM_TRY(sm_step_check(a, &row, NULL, &elapsed_ns, &loss));
        SM_TRY(sm_step_check(b, &row, NULL, &elapsed_ns, &loss));
        status = ended;
        *result = (sm_paired_result){.a_ns = sm_stats_of(a_ns, 2 * (int64_t)n_whole),
                                     .b_ns = sm_stats_of(b_ns, 2 * (int64_t)n_whole),
                                     .ratio = sm_stats_of_reals(ratios, (int64_t)n_whole)};
    }
    return status;
}
