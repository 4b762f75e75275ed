// again.c: see passes.h.
#include <stdlib.h>

#include "src/rewrites/passes.h"

void sm_again_open(sm_plan *plan, sm_again *a) {
    *a = (sm_again){.n_tensors = plan->n_tensors, .list = {.plan = plan}};
    a->current = sm_malloc(((size_t)plan->n_tensors + 1) * sizeof *a->current);
    for (int i = 0; i < a->n_tensors; i++) {
        a->current[i] = i;
    }
}

sm_status sm_again_close(sm_again *a) {
    free(a->current);
    return sm_ops_take(&a->list);
}

bool sm_again_is_kept(const sm_again *a, int tensor) {
    return tensor != SM_NO_TENSOR && tensor < a->n_tensors && a->current[tensor] == tensor;
}

// Parts of tensors are read only in the forward (loss_head.c) and by updates, where nothing is computed again.
static void refuse_part(sm_again *a, const sm_tensor *t) {
    a->list.status = sm_fail(SM_ERR_INTERNAL, "recompute: '%s' is a part of another tensor", t->name);
}

// Lets an op read the recomputed tensors.
static void read_current(sm_again *a, sm_op *op) {
    for (int k = 0; k < SM_MAX_IN; k++) {
        if (op->in[k] == SM_NO_TENSOR || op->in[k] >= a->n_tensors) {
            continue;
        }
        const sm_tensor *t = &a->list.plan->tensors[op->in[k]];
        if (t->view_of != SM_NO_TENSOR && !sm_again_is_kept(a, t->view_of)) {
            refuse_part(a, t);
        }
        op->in[k] = a->current[op->in[k]];
    }
}

void sm_again_append(sm_again *a, sm_op op) {
    if (op.range == SM_PHASE_BACKWARD) {
        read_current(a, &op);
    }
    sm_ops_append(&a->list, op);
}

void sm_again_emit(sm_again *a, sm_op op, sm_role role) {
    op.range = SM_PHASE_BACKWARD;
    op.phase = SM_PHASE_BACKWARD;
    op.attr.recomputed = true;
    read_current(a, &op);
    for (int k = 0; k < SM_MAX_OUT; k++) {
        if (sm_again_is_kept(a, op.out[k])) {
            const sm_tensor kept = a->list.plan->tensors[op.out[k]];
            if (kept.view_of != SM_NO_TENSOR) {
                refuse_part(a, &kept);
            }
            a->current[op.out[k]] = sm_plan_add_tensor(a->list.plan, role, kept.dtype, kept.n_dims, kept.dims,
                                                       "%.*s.again", SM_NAME_SIZE - 7, kept.name);
        }
        if (op.out[k] != SM_NO_TENSOR) {
            op.out[k] = a->current[op.out[k]];
        }
    }
    sm_ops_append(&a->list, op);
}
