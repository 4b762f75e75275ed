// again.c: see rewrites/again.h.
#include "src/rewrites/again.h"

#include <stdlib.h>

#include "src/rewrites/passes.h"

void sm_again_open(sm_plan *plan, sm_again *a) {
    *a = (sm_again){.plan = plan, .n_tensors = plan->n_tensors};
    a->cap_ops = 2 * (size_t)plan->n_ops + 1; // an op is repeated at most once
    a->ops = sm_malloc(a->cap_ops * sizeof *a->ops);
    a->current = sm_malloc(((size_t)plan->n_tensors + 1) * sizeof *a->current);
    for (int i = 0; i < a->n_tensors; i++) {
        a->current[i] = i;
    }
}

void sm_again_close(sm_again *a) {
    free(a->ops);
    free(a->current);
}

bool sm_again_is_kept(const sm_again *a, int tensor) {
    return tensor != SM_NO_TENSOR && tensor < a->n_tensors && a->current[tensor] == tensor;
}

// Parts of tensors are read only in the forward (loss_head.c) and by updates, where nothing is computed again.
static sm_status refuse_part(const sm_tensor *t) {
    return sm_fail(SM_ERR_INTERNAL, "recompute: '%s' is a part of another tensor", t->name);
}

// Lets an op read the recomputed tensors.
static sm_status read_current(const sm_again *a, sm_op *op) {
    for (int k = 0; k < SM_MAX_IN; k++) {
        if (op->in[k] == SM_NO_TENSOR || op->in[k] >= a->n_tensors) {
            continue;
        }
        const sm_tensor *t = &a->plan->tensors[op->in[k]];
        if (t->view_of != SM_NO_TENSOR && !sm_again_is_kept(a, t->view_of)) {
            return refuse_part(t);
        }
        op->in[k] = a->current[op->in[k]];
    }
    return SM_OK;
}

sm_status sm_again_append(sm_again *a, sm_op op) {
    if (op.range == SM_PHASE_BACKWARD) {
        SM_TRY(read_current(a, &op));
    }
    SM_TRY(sm_op_check(a->plan, &op));
    a->ops[a->n_ops++] = op;
    return SM_OK;
}

sm_status sm_again_emit(sm_again *a, sm_op op, sm_role role) {
    op.range = SM_PHASE_BACKWARD;
    op.phase = SM_PHASE_BACKWARD;
    op.attr.recomputed = true;
    SM_TRY(read_current(a, &op));
    for (int k = 0; k < SM_MAX_OUT; k++) {
        if (sm_again_is_kept(a, op.out[k])) {
            // A new tensor in place of `tensor`.
            const sm_tensor kept = a->plan->tensors[op.out[k]];
            if (kept.view_of != SM_NO_TENSOR) {
                return refuse_part(&kept);
            }
            a->current[op.out[k]] = sm_plan_add_tensor(a->plan, role, kept.dtype, kept.n_dims, kept.dims, "%.*s.again",
                                                       SM_NAME_SIZE - 7, kept.name);
            SM_TRY(a->current[op.out[k]] != SM_NO_TENSOR ? SM_OK : SM_ERR_OOM);
        }
        if (op.out[k] != SM_NO_TENSOR) {
            op.out[k] = a->current[op.out[k]];
        }
    }
    SM_TRY(sm_op_check(a->plan, &op));
    a->ops[a->n_ops++] = op;
    return SM_OK;
}

void sm_again_finish(sm_again *a) {
    sm_rewrite_take_ops(a->plan, a->ops, a->n_ops, a->cap_ops);
    a->ops = NULL;
}
