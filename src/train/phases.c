#include "src/train/phases.h"

#include "clock.h"
#include "src/optim/optimizer.h"

const char *sm_step_phase_name(sm_step_phase phase) {
    static const char *const names[] = {
#define X(code, member, name, text) name,
        SM_STEP_PHASE_LIST(X)
#undef X
    };
    return names[phase];
}

sm_step_phase sm_step_phase_of(const sm_plan *plan, const sm_op *op) {
    switch (op->phase) {
    case SM_PHASE_ZERO_GRAD: return SM_STEP_ZERO_GRAD;
    case SM_PHASE_FORWARD: return SM_STEP_FORWARD;
    case SM_PHASE_BACKWARD: return SM_STEP_BACKWARD;
    case SM_PHASE_OPTIMIZER: return sm_op_is_update(plan, op) ? SM_STEP_UPDATE : SM_STEP_UNSCALE;
    case SM_PHASE_SCALER: return SM_STEP_LOSS_SCALER;
    case SM_PHASE_COMMUNICATION: return SM_STEP_ALL_REDUCE;
    case SM_PHASE_COUNT: break;
    }
    return SM_STEP_UNACCOUNTED;
}

void sm_phases_begin(sm_step_phases *p, const sm_plan *plan) {
    if (p == NULL) {
        return;
    }
    const size_t size_bytes = (size_t)plan->n_ops * sizeof(*p->op_ns);
    memset(p->ns, 0, sizeof(p->ns));
    memset(p->op_ns, 0, size_bytes);
    memset(p->lapped_ns, 0, size_bytes);
    p->taken_ns = 0;
    p->n_spans = 0;
    p->begin_ns = sm_now_ns();
    p->mark_ns = p->begin_ns;
}

// Ends the current stretch and gives the rest of its time to `phase`.
void sm_phases_lap(sm_step_phases *p, sm_step_phase phase) {
    if (p == NULL) {
        return;
    }
    const int64_t now_ns = sm_now_ns();
    p->ns[phase] += now_ns - p->mark_ns - p->taken_ns;
    if (p->n_spans < SM_STEP_MOST_SPANS) {
        p->spans[p->n_spans++] = (sm_step_span){.phase = phase, .begin_ns = p->mark_ns, .end_ns = now_ns};
    }
    p->mark_ns = now_ns;
    p->taken_ns = 0;
}

void sm_phases_add(sm_step_phases *p, sm_step_phase phase, int64_t ns) {
    if (p != NULL) {
        p->ns[phase] += ns;
        p->taken_ns += ns;
    }
}

int64_t *sm_phases_op_times(sm_step_phases *p) { return p != NULL ? p->op_ns : NULL; }

void sm_phases_lap_ops(sm_step_phases *p, const sm_plan *plan) {
    if (p == NULL) {
        return;
    }
    for (int i = 0; i < plan->n_ops; i++) {
        sm_phases_add(p, sm_step_phase_of(plan, &plan->ops[i]), p->op_ns[i] - p->lapped_ns[i]);
        p->lapped_ns[i] = p->op_ns[i];
    }
    sm_phases_lap(p, SM_STEP_LAUNCH);
}

void sm_phases_end(sm_step_phases *p) {
    if (p != NULL) {
        sm_phases_lap(p, SM_STEP_UNACCOUNTED);
        p->wall_ns = p->mark_ns - p->begin_ns;
    }
}
