// step.c: the step of step.h.
#include "clock.h"
#include "step.h"

#include <math.h>

// A build with -DSM_TEST_SLOWDOWN=0.03 waits 3% longer in every step, to see whether a comparison finds it (make
// prove). Its rows say so.
#ifdef SM_TEST_SLOWDOWN
static void wait_for_share(int64_t begin_ns) {
    const int64_t end_ns = sm_now_ns() + (int64_t)(SM_TEST_SLOWDOWN * (double)(sm_now_ns() - begin_ns));
    while (sm_now_ns() < end_ns) {
    }
}
#else
static void wait_for_share(int64_t begin_ns) { (void)begin_ns; }
#endif

// Phases that micro-batch `index` of a step executes: zero-grad before the first one, the optimizer after the last.
static unsigned micro_phases(const sm_stepper *s, int index) {
    unsigned phases = s->phases;
    if (index > 0) {
        phases &= ~(unsigned)SM_RUN_ZERO_GRAD;
    }
    if (index + 1 < s->n_accum) {
        phases &= ~(unsigned)SM_RUN_OPTIMIZER;
    }
    return phases;
}

// The settings, and all micro-batches, less the phases in `without`; the clock runs on the whole.
static sm_status run_batches(sm_stepper *s, unsigned without, int64_t *op_ns, int64_t *elapsed_ns) {
    const int64_t begin_ns = sm_now_ns();
    if (s->session->plan->hyper != SM_NO_TENSOR) {
        const sm_step_settings defaults = sm_plan_settings(s->session->plan);
        SM_TRY(sm_session_set_hyper(s->session, s->settings != NULL ? s->settings : &defaults, s->n_steps, s->n_accum));
    }
    for (int i = 0; i < s->n_accum; i++) {
        SM_TRY(s->workload->next_batch(s->workload->ctx, s->session, s->n_batches++));
        SM_TRY(sm_session_run(s->session, micro_phases(s, i) & ~without, op_ns));
    }
    SM_TRY(sm_session_synchronize(s->session));
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

static sm_status read_loss(const sm_stepper *s, double *loss) {
    SM_TRY(sm_session_loss(s->session, loss));
    return require_finite(s, *loss);
}

// The workload's own step.
static sm_status run_own(sm_stepper *s, int64_t *op_ns, int64_t *elapsed_ns, double *loss) {
    const int64_t begin_ns = sm_now_ns();
    SM_TRY(s->workload->run_step(s->workload->ctx, s->session, s->n_steps, op_ns, elapsed_ns, loss));
    const int64_t end_ns = sm_now_ns();
    wait_for_share(begin_ns);
    *elapsed_ns += sm_now_ns() - end_ns;
    return require_finite(s, *loss);
}

// The first step with a backward: its gradients are checked before they are used.
static sm_status run_halves(sm_stepper *s, sm_row *row, int64_t *elapsed_ns, double *loss) {
    SM_TRY(run_batches(s, SM_RUN_OPTIMIZER, NULL, elapsed_ns));
    SM_TRY(read_loss(s, loss));
    int64_t begin_ns = sm_now_ns();
    SM_TRY(s->workload->check_gradients(s->workload->ctx, s->session, s->n_accum, row));
    row->gradient_check_ns = sm_now_ns() - begin_ns;
    if (row->gradient_check[0] == '\0') {
        return sm_fail(SM_ERR_INTERNAL, "the gradient check does not say what it did");
    }
    begin_ns = sm_now_ns();
    SM_TRY(sm_session_run(s->session, s->phases & SM_RUN_OPTIMIZER, NULL));
    SM_TRY(sm_session_synchronize(s->session));
    *elapsed_ns += sm_now_ns() - begin_ns;
    return SM_OK;
}

sm_status sm_step_run(sm_stepper *s, sm_row *row, int64_t *op_ns, int64_t *elapsed_ns, double *loss) {
    s->n_steps++;
    const sm_workload *w = s->workload;
    const bool is_checked = s->n_steps <= SM_CHECKED_STEPS && (s->phases & SM_RUN_BACKWARD);
    if (is_checked) {
        SM_TRY(w->before_step(w->ctx, s->session, s->n_steps, s->phases));
    }
    if (is_checked && s->n_steps == 1) {
        SM_TRY(run_halves(s, row, elapsed_ns, loss));
    } else if (!is_checked && w->run_step != NULL) {
        SM_TRY(run_own(s, op_ns, elapsed_ns, loss));
    } else {
        SM_TRY(run_batches(s, 0, op_ns, elapsed_ns));
        SM_TRY(read_loss(s, loss));
    }
    return is_checked && (s->phases & SM_RUN_OPTIMIZER) ? w->after_update(w->ctx, s->session, row) : SM_OK;
}
