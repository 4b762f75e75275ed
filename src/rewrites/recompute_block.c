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

#include "src/rewrites/again.h"
#include "src/rewrites/passes.h"

enum { NO_BLOCK = -1 };

typedef struct {
    sm_again again;
    int *block_of; // by root tensor of the original plan: the block that alone writes and reads it, or NO_BLOCK
    bool *needed;  // by root tensor: the block's backward needs it, directly or to recompute another
} pass;

static bool is_in(const sm_op *op, sm_phase range, int block) { return op->range == range && op->layer == block; }

static void find_inner_tensors(const sm_plan *plan, int *block_of) {
    for (int i = 0; i < plan->n_tensors; i++) {
        block_of[i] = NO_BLOCK;
    }
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        for (int k = 0; k < SM_MAX_OUT && op->range == SM_PHASE_FORWARD; k++) {
            const int root = op->out[k] != SM_NO_TENSOR ? sm_plan_root(plan, op->out[k]) : SM_NO_TENSOR;
            if (root != SM_NO_TENSOR && plan->tensors[root].role == SM_ROLE_ACTIVATION) {
                block_of[root] = op->layer;
            }
        }
    }
    for (int i = 0; i < plan->n_ops; i++) {
        for (int k = 0; k < SM_MAX_IN; k++) {
            const int tensor = plan->ops[i].in[k];
            if (tensor != SM_NO_TENSOR && block_of[sm_plan_root(plan, tensor)] != plan->ops[i].layer) {
                block_of[sm_plan_root(plan, tensor)] = NO_BLOCK;
            }
        }
    }
}

static bool writes_needed(const pass *p, const sm_op *op) {
    for (int k = 0; k < SM_MAX_OUT; k++) {
        if (op->out[k] != SM_NO_TENSOR && p->needed[sm_plan_root(p->again.plan, op->out[k])]) {
            return true;
        }
    }
    return false;
}

static void find_needed(pass *p, int block) {
    const sm_plan *plan = p->again.plan;
    for (int i = 0; i < p->again.n_tensors; i++) {
        p->needed[i] = false;
    }
    for (int i = plan->n_ops - 1; i >= 0; i--) { // in reverse: the readers in the backward before the forward
        const sm_op *op = &plan->ops[i];
        if (is_in(op, SM_PHASE_BACKWARD, block) || (is_in(op, SM_PHASE_FORWARD, block) && writes_needed(p, op))) {
            for (int k = 0; k < SM_MAX_IN; k++) {
                const int root = op->in[k] != SM_NO_TENSOR ? sm_plan_root(p->again.plan, op->in[k]) : SM_NO_TENSOR;
                if (root != SM_NO_TENSOR && p->block_of[root] != NO_BLOCK) {
                    p->needed[root] = true;
                }
            }
        }
    }
}

static sm_status emit_block(pass *p, int block) {
    const sm_plan *plan = p->again.plan;
    find_needed(p, block);
    for (int i = 0; i < plan->n_ops; i++) {
        if (is_in(&plan->ops[i], SM_PHASE_FORWARD, block) && writes_needed(p, &plan->ops[i])) {
            SM_TRY(sm_again_emit(&p->again, plan->ops[i], SM_ROLE_ACTIVATION));
        }
    }
    return SM_OK;
}

static sm_status rewrite_ops(pass *p) {
    const sm_plan *plan = p->again.plan;
    int block = NO_BLOCK; // whose backward is being built
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        if (op->range == SM_PHASE_BACKWARD && op->layer != block) {
            block = op->layer;
            SM_TRY(block != NO_BLOCK ? emit_block(p, block) : SM_OK);
        }
        SM_TRY(sm_again_append(&p->again, *op));
    }
    sm_again_finish(&p->again);
    return SM_OK;
}

sm_status sm_rewrite_recompute_block(sm_plan *plan) {
    const size_t n_tensors = (size_t)plan->n_tensors + 1; // never zero bytes
    pass p = {.block_of = sm_malloc(n_tensors * sizeof *p.block_of), .needed = sm_malloc(n_tensors * sizeof *p.needed)};
    sm_again_open(plan, &p.again);
    find_inner_tensors(plan, p.block_of);
    const sm_status status = rewrite_ops(&p);
    sm_again_close(&p.again);
    free(p.block_of);
    free(p.needed);
    return status;
}
