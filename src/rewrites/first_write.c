// first_write.c: the first op that adds to a weight's gradient overwrites it instead, so it need not be zeroed.
//
//   grads.matrices = 0               d.wpe = 0
//   ...                          =>  ...
//   dW += x^T dy                     dW  = x^T dy      for the first op that adds to dW
//
// Equal because 0 + x = x. Only the first of several micro-batches overwrites; later ones add (sm_op_later). Gradients
// that other kinds of op write first are still zeroed, each by an op of its own; so is the group of vectors, which is
// small. Memory that no op writes (gaps between parameters) stays zero, as after prepare.
#include "src/rewrites/passes.h"

// The first op, in execution order, that adds to a view of a group of gradients; NULL: none.
static sm_op *first_writer(const sm_plan *plan, int gradient) {
    for (sm_op *op = plan->ops; op < plan->ops + plan->n_ops; op++) {
        for (int k = 0; k < SM_MAX_OUT && op->kind != SM_OP_ZERO; k++) {
            if (op->out[k] == gradient) {
                return op;
            }
        }
    }
    return NULL;
}

static bool is_gradient_of(const sm_plan *plan, int tensor, int group) {
    return plan->tensors[tensor].role == SM_ROLE_GRADIENT && plan->tensors[tensor].view_of == group;
}

// Whether an op that is the first to add to `gradient` may overwrite it, and the bias's gradient that it also adds to.
// (Where the latter is of another group, it is zeroed all the same.)
static bool can_overwrite(const sm_plan *plan, const sm_op *op, int gradient) {
    const int db = op->out[SM_OUT(matmul_backward_weight, db)];
    return op->kind == SM_OP_MATMUL_BACKWARD_WEIGHT && op->out[SM_OUT(matmul_backward_weight, dW)] == gradient &&
           (db == SM_NO_TENSOR || first_writer(plan, db) == op);
}

// Lets the first writers of a group overwrite; returns their number.
static int overwrite(sm_plan *plan, int group) {
    int n = 0;
    for (int i = 0; i < plan->n_tensors; i++) {
        sm_op *writer = is_gradient_of(plan, i, group) ? first_writer(plan, i) : NULL;
        if (writer != NULL && can_overwrite(plan, writer, i)) {
            writer->attr.overwrites = true;
            n++;
        }
    }
    return n;
}

// Appends an op that zeroes each gradient of a group whose first writer adds.
static void zero_rest(const sm_plan *plan, const sm_op *zero, sm_op_list *list) {
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_op *writer = is_gradient_of(plan, i, zero->out[SM_OUT(zero, x)]) ? first_writer(plan, i) : NULL;
        if (writer != NULL && !writer->attr.overwrites) {
            sm_op rest = *zero;
            rest.out[SM_OUT(zero, x)] = i;
            sm_ops_append(list, rest);
        }
    }
}

sm_status sm_rewrite_first_write(sm_plan *plan) {
    sm_op_list list = {.plan = plan};
    const sm_range zeros = sm_plan_range(plan, SM_PHASE_ZERO_GRAD);
    for (int i = zeros.first; i < plan->n_ops; i++) {
        if (i < zeros.end && overwrite(plan, plan->ops[i].out[SM_OUT(zero, x)]) > 0) {
            zero_rest(plan, &plan->ops[i], &list);
        } else {
            sm_ops_append(&list, plan->ops[i]);
        }
    }
    return sm_ops_take(&list);
}
