// recompute.c: computes cheap results again in the backward instead of keeping them.
//
//   forward   y, mean, rstd = layernorm(x)      y, mean, rstd = layernorm(x)
//   ...                                     =>  ...
//                                               y', mean', rstd' = layernorm(x)
//   backward  dW += y^T dz                      dW += y'^T dz
//
// and rmsnorm(x), act = gelu(fc) and swiglu(gate, up) likewise, also inside a fused op. Equal because the op is the
// same and its inputs are kept for other readers (Chen et al. 2016, "Training deep nets with sublinear memory cost",
// section 4.2). y then lives for two ops in forward and two in backward, as y' in scratch memory that all layers share.
// A block of GPT-2 then keeps 10 (N,C) instead of 16: it drops ln1, ln2 and the four of gelu.
#include "src/rewrites/passes.h"

// --- a list of ops in which the backward executes forward ops again, with new outputs, which later ops read ---------

typedef struct {
    int *current; // by tensor of the original plan: itself, or its recomputed copy
    int n_tensors;
    sm_op_list list;
} again;

static void again_open(sm_plan *plan, again *a) {
    *a = (again){.n_tensors = plan->n_tensors, .list = {.plan = plan}};
    a->current = sm_malloc(((size_t)plan->n_tensors + 1) * sizeof *a->current);
    for (int i = 0; i < a->n_tensors; i++) {
        a->current[i] = i;
    }
}

static sm_status again_close(again *a) {
    free(a->current);
    return sm_ops_take(&a->list);
}

// Whether a tensor of the original plan has not been computed again.
static bool is_kept(const again *a, int tensor) {
    return tensor != SM_NO_TENSOR && tensor < a->n_tensors && a->current[tensor] == tensor;
}

// Parts of tensors are read only in the forward (loss_head.c) and by updates, where nothing is computed again.
static void refuse_part(again *a, const sm_tensor *t) {
    a->list.plan->status = sm_fail(SM_ERR_INTERNAL, "recompute: '%s' is a part of another tensor", t->name);
}

// Lets an op read the recomputed tensors.
static void read_current(again *a, sm_op *op) {
    for (int k = 0; k < SM_MAX_IN; k++) {
        if (op->in[k] == SM_NO_TENSOR || op->in[k] >= a->n_tensors) {
            continue;
        }
        const sm_tensor *t = &a->list.plan->tensors[op->in[k]];
        if (t->view_of != SM_NO_TENSOR && !is_kept(a, t->view_of)) {
            refuse_part(a, t);
        }
        op->in[k] = a->current[op->in[k]];
    }
}

// Appends an op of the plan; it reads recomputed tensors if they exist.
static void append(again *a, sm_op op) {
    if (op.range == SM_PHASE_BACKWARD) {
        read_current(a, &op);
    }
    sm_ops_append(&a->list, op);
}

// Appends a copy of a forward op to the backward, with new outputs of that role, and no FLOPs.
static void emit_again(again *a, sm_op op, sm_role role) {
    op.range = SM_PHASE_BACKWARD;
    op.phase = SM_PHASE_BACKWARD;
    op.attr.recomputed = true;
    read_current(a, &op);
    for (int k = 0; k < SM_MAX_OUT; k++) {
        if (is_kept(a, op.out[k])) {
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

// --- cheap results ---------------------------------------------------------------------------------

// The op that recomputes a forward op's cheap output, as its out[0]. False: there is none.
static bool cheap_part(const sm_op *op, sm_op *part) {
    if (sm_op_get_info(op->kind)->is_cheap) {
        *part = *op;
        part->phase = SM_PHASE_BACKWARD;
        part->range = SM_PHASE_BACKWARD;
        if (sm_op_tensor(op, "r") != SM_NO_TENSOR) { // a norm of the residual's sum, which is there
            part->in[sm_op_find_in(op->kind, "x")] = sm_op_tensor(op, "r");
            part->in[sm_op_find_in(op->kind, "add")] = SM_NO_TENSOR;
            part->out[sm_op_find_out(op->kind, "r")] = SM_NO_TENSOR;
        }
        return true;
    }
    if (op->kind == SM_OP_MATMUL_FORWARD && op->attr.epilogue & SM_EPILOGUE_ACT) { // y, gelu(y) = x W + b
        const sm_activation activation = sm_epilogue_activation(op->attr.epilogue);
        *part = sm_op_make(sm_activation_get_info(activation)->forward, SM_PHASE_BACKWARD, op->layer);
        part->in[SM_IN(gelu_forward, x)] = op->out[SM_OUT(matmul_forward, y)];
        part->out[SM_OUT(gelu_forward, y)] = op->out[SM_OUT(matmul_forward, act)];
        return true;
    }
    return false;
}

// Finds a cheap op in the forward range that computes `tensor`, an input of a backward op.
static bool find_recipe(const sm_plan *plan, int tensor, sm_op *part) {
    const sm_range forward = sm_plan_range(plan, SM_PHASE_FORWARD);
    for (int i = forward.first; i < forward.end; i++) {
        if (cheap_part(&plan->ops[i], part) && part->out[0] == tensor) {
            return true;
        }
    }
    return false;
}

sm_status sm_rewrite_recompute(sm_plan *plan) {
    again a;
    again_open(plan, &a);
    for (int i = 0; i < plan->n_ops; i++) {
        for (int k = 0; k < SM_MAX_IN && plan->ops[i].range == SM_PHASE_BACKWARD; k++) {
            const int tensor = plan->ops[i].in[k];
            sm_op part;
            if (is_kept(&a, tensor) && find_recipe(plan, tensor, &part)) {
                emit_again(&a, part, SM_ROLE_SCRATCH);
            }
        }
        append(&a, plan->ops[i]);
    }
    return again_close(&a);
}

// --- whole blocks: only a block's input is kept from forward to backward ------------------------------------------
//
//   forward   h1 = f(x); h2 = g(h1); y = x + h2         h1 = f(x); h2 = g(h1); y = x + h2
//   ...                                             =>  ...
//   backward  dh1 = g'(h1, dy); dx = f'(x, dh1)         h1' = f(x); dh1 = g'(h1', dy); dx = f'(x, dh1)
//
// Equal because the ops are the same, on the same numbers: a dropout draws its mask from its key and the step. A
// block's own tensors then live during its forward, and again during its backward, at addresses that all blocks share;
// its output, which another block reads, is kept (Chen et al. 2016, "Training deep nets with sublinear memory cost",
// section 4). Memory holds the inputs of all blocks and one block's activations.

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
    again again;
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
    for (const sm_op *op = plan->ops; op < plan->ops + plan->n_ops; op++) {
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
            emit_again(&p->again, plan->ops[i], SM_ROLE_ACTIVATION);
        }
    }
}

sm_status sm_rewrite_recompute_block(sm_plan *plan) {
    const size_t n_tensors = (size_t)plan->n_tensors + 1; // never zero bytes
    SM_FREED int *block_of = sm_malloc(n_tensors * sizeof *block_of);
    SM_FREED bool *needed = sm_malloc(n_tensors * sizeof *needed);
    pass p = {.block_of = block_of, .needed = needed};
    int block = NO_BLOCK; // whose backward is being built
    again_open(plan, &p.again);
    find_inner_tensors(plan, p.block_of);
    for (const sm_op *op = plan->ops; op < plan->ops + plan->n_ops; op++) {
        if (op->range == SM_PHASE_BACKWARD && block_at(plan, op) != block) {
            block = block_at(plan, op);
            if (block != NO_BLOCK) {
                emit_block(&p, block);
            }
        }
        append(&p.again, *op);
    }
    return again_close(&p.again);
}
