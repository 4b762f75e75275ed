// passes.c: what passes share.
#include "src/rewrites/passes.h"

#include <stdlib.h>

void sm_rewrite_take_ops(sm_plan *plan, sm_op *ops, int n_ops, size_t cap_ops) {
    free(plan->ops);
    plan->ops = ops;
    plan->n_ops = n_ops;
    plan->cap_ops = (int)cap_ops;
}

static bool reads(const sm_op *op, int tensor) {
    for (int i = 0; i < SM_MAX_IN; i++) {
        if (op->in[i] == tensor) {
            return true;
        }
    }
    return false;
}

int sm_rewrite_n_readers(const sm_plan *plan, int tensor) {
    int n = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        n += reads(&plan->ops[i], tensor);
    }
    return n;
}
