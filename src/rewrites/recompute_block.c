// recompute_block.c: keeps only a block's input from forward to backward.
//
//   forward   h1 = f(x); h2 = g(h1); y = x + h2         h1 = f(x); h2 = g(h1); y = x + h2
//   ...                                             =>  ...
//   backward  dh1 = g'(h1, dy); dx = f'(x, dh1)         h1' = f(x); dh1 = g'(h1', dy); dx = f'(x, dh1)
//
// Equal because the ops are the same, on the same numbers: a dropout draws its mask from its key and the step. A
// block's own tensors then live during its forward, and again during its backward, at addresses that all blocks share;
// its output, which another block reads, is kept (Chen et al. 2016, "Training deep nets with sublinear memory cost",
// section 4). Memory holds the inputs of all blocks and one block's activations.
#include <stdlib.h>

#include "src/rewrites/passes.h"

enum { NO_BLOCK = -1 };

static int group_size(sm_recompute recompute) {
    switch (recompute) {
#define X(k) \
    case SM_RECOMPUTE_BLOCK_##k: return k;
        SM_RECOMPUTE_GROUPS(X)
#undef X
    default: return 1;
    }
}

// The block of an op: a group of layers.
static int block_at(const sm_plan *plan, const sm_op *op) {
    return op->layer < 0 ? NO_BLOCK : op->layer / group_size(plan->recompute);
}

typedef struct {
    sm_again again;
    int *block_of; // by root tensor of the original plan: the block that alone writes and reads it, or NO_BLOCK
    bool *needed;  // by root tensor: the block's backward needs it, directly or to recompute another
} pass;

static bool is_in(const sm_plan *plan, const sm_op *op, sm_phase range, int block) {
    return op->range == range && block_at(plan, op) == block;
}

static void find_inner_tensors(const sm_plan *plan, int *block_of) {
    for (int i = 0; i < plan->n_tensors; i++) {
        block_of[i] = NO_BLOCK;
    }
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        for (int k = 0; k < SM_MAX_OUT && op->range == SM_PHASE_FORWARD; k++) {
            const int root = op->out[k] != SM_NO_TENSOR ? sm_plan_root(plan, op->out[k]) : SM_NO_TENSOR;
            if (root != SM_NO_TENSOR && plan->tensors[root].role == SM_ROLE_ACTIVATION) {
                block_of[root] = block_at(plan, op);
            }
        }
    }
    for (int i = 0; i < plan->n_ops; i++) {
        for (int k = 0; k < SM_MAX_IN; k++) {
            const int tensor = plan->ops[i].in[k];
            if (tensor != SM_NO_TENSOR && block_of[sm_plan_root(plan, tensor)] != block_at(plan, &plan->ops[i])) {
                block_of[sm_plan_root(plan, tensor)] = NO_BLOCK;
            }
        }
    }
}

static bool writes_needed(const pass *p, const sm_op *op) {
    for (int k = 0; k < SM_MAX_OUT; k++) {
        if (op->out[k] != SM_NO_TENSOR && p->needed[sm_plan_root(p->again.list.plan, op->out[k])]) {
            return true;
        }
    }
    return false;
}

static void find_needed(pass *p, int block) {
    const sm_plan *plan = p->again.list.plan;
    for (int i = 0; i < p->again.n_tensors; i++) {
        p->needed[i] = false;
    }
    for (int i = plan->n_ops - 1; i >= 0; i--) { // in reverse: the readers in the backward before the forward
        const sm_op *op = &plan->ops[i];
        if (is_in(plan, op, SM_PHASE_BACKWARD, block) ||
            (is_in(plan, op, SM_PHASE_FORWARD, block) && writes_needed(p, op))) {
            for (int k = 0; k < SM_MAX_IN; k++) {
                const int root = op->in[k] != SM_NO_TENSOR ? sm_plan_root(p->again.list.plan, op->in[k]) : SM_NO_TENSOR;
                if (root != SM_NO_TENSOR && p->block_of[root] != NO_BLOCK) {
                    p->needed[root] = true;
                }
            }
        }
    }
}

static void emit_block(pass *p, int block) {
    const sm_plan *plan = p->again.list.plan;
    find_needed(p, block);
    for (int i = 0; i < plan->n_ops; i++) {
        if (is_in(plan, &plan->ops[i], SM_PHASE_FORWARD, block) && writes_needed(p, &plan->ops[i])) {
            sm_again_emit(&p->again, plan->ops[i], SM_ROLE_ACTIVATION);
        }
    }
}

sm_status sm_rewrite_recompute_block(sm_plan *plan) {
    const size_t n_tensors = (size_t)plan->n_tensors + 1; // never zero bytes
    SM_FREED int *block_of = sm_malloc(n_tensors * sizeof *block_of);
    SM_FREED bool *needed = sm_malloc(n_tensors * sizeof *needed);
    pass p = {.block_of = block_of, .needed = needed};
    int block = NO_BLOCK; // whose backward is being built
    sm_again_open(plan, &p.again);
    find_inner_tensors(plan, p.block_of);
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        if (op->range == SM_PHASE_BACKWARD && block_at(plan, op) != block) {
            block = block_at(plan, op);
            if (block != NO_BLOCK) {
                emit_block(&p, block);
            }
        }
        sm_again_append(&p.again, *op);
    }
    return sm_again_close(&p.again);
}
