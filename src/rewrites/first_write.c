// first_write.c: the first op that adds to a weight's gradient overwrites it instead, so it need not be zeroed.
//
//   grads.matrices = 0               d.wpe = 0
//   ...                          =>  ...
//   dW += x^T dy                     dW  = x^T dy      for the first op that adds to dW
//
// Equal because 0 + x = x. Only the first of several micro-batches overwrites; later ones add (sm_op_later). Gradients
// that other kinds of op write first are still zeroed, each by an op of its own; so is the group of vectors, which is
// small. Memory that no op writes (gaps between parameters) stays zero, as after prepare.
#include <stdlib.h>

#include "src/rewrites/passes.h"

// The first op, in execution order, that adds to a view of a group of gradients; NULL: none.
static sm_op *first_writer(const sm_plan *plan, int gradient) {
    for (int i = 0; i < plan->n_ops; i++) {
        sm_op *op = &plan->ops[i];
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
static sm_status zero_rest(const sm_plan *plan, const sm_op *zero, sm_op *ops, int *n_ops) {
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_op *writer = is_gradient_of(plan, i, zero->out[SM_OUT(zero, x)]) ? first_writer(plan, i) : NULL;
        if (writer != NULL && !writer->attr.overwrites) {
            sm_op rest = *zero;
            rest.out[SM_OUT(zero, x)] = i;
            SM_TRY(sm_op_check(plan, &rest));
            ops[(*n_ops)++] = rest;
        }
    }
    return SM_OK;
}

sm_status sm_rewrite_first_write(sm_plan *plan) {
    sm_status status = SM_OK;
    const size_t cap = (size_t)plan->n_ops + (size_t)plan->n_tensors;
    int n = 0;
    sm_op *ops = sm_malloc(cap * sizeof *ops);
    const sm_range zeros = sm_plan_range(plan, SM_PHASE_ZERO_GRAD);
    for (int i = zeros.first; i < zeros.end; i++) {
        if (overwrite(plan, plan->ops[i].out[SM_OUT(zero, x)]) > 0) {
            SM_TRY_GOTO(zero_rest(plan, &plan->ops[i], ops, &n));
        } else {
            ops[n++] = plan->ops[i];
        }
    }
    for (int i = zeros.end; i < plan->n_ops; i++) {
        ops[n++] = plan->ops[i];
    }
    sm_rewrite_take_ops(plan, ops, n, cap);
    return SM_OK;
cleanup:
    free(ops);
    return status;
}
