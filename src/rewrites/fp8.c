// fp8.c: the products of the blocks in a training step take factors of 8 bits.
//
//                                    W', W'^T = cast(W)     once a step, before the forward
//   y = x W                      =>  x', x'^T = cast(x);  y = x' W' / (scale of x, scale of W)
//   dW += x^T dy;  db += sum dy  =>  dy', dy'^T, db += cast(dy);  dW += x'^T dy' / ...
//   dx = dy W^T                  =>  dx = dy' W'^T / ...
//   ...                              the next step's scales, from all processes' amax in the last 16 steps
//
// It is not equal: it is what the precision fp8 asks for. Activations and weights are e4m3, gradients e5m2
// (Micikevicius et al. 2022, "FP8 formats for deep learning", section 3). The units multiply factors whose summed
// dimension lies along their rows, so each is stored twice, as it is and transposed; of x the backward keeps the
// transpose alone. A plan without a backward is left as it is, in the data's format.
#include "src/rewrites/passes.h"

// The tensors whose scales are updated together: all of one format.
typedef struct {
    sm_dtype dtype;
    double init_scale;
    int n, amax, history, scale;
} scaled;

typedef struct {
    int rows, columns, scale; // SM_NO_TENSOR: not cast yet
    int slot;                 // among the scaled; -1: no factor
} factor;

typedef struct {
    sm_op_list list;
    scaled kinds[2]; // forward, gradients
    factor *factors; // by tensor of the original plan
} pass;

static bool is_of_block(const sm_op *op) {
    return sm_op_is_matmul(op->kind) && op->layer >= 0 && op->attr.vocab == 0 && op->range <= SM_PHASE_BACKWARD;
}

static bool is_gradient(const sm_op *op, int k) {
    return k == (op->kind == SM_OP_MATMUL_BACKWARD_WEIGHT  ? SM_IN(matmul_backward_weight, dy)
                 : op->kind == SM_OP_MATMUL_BACKWARD_INPUT ? SM_IN(matmul_backward_input, dy)
                                                           : SM_NO_OPERAND);
}

// The tensor that this one computes again (recompute.c), whose numbers, and so whose scale, are the same.
static int twin_of(const sm_plan *plan, int tensor) {
    static const char end[] = ".again";
    const char *own = plan->tensors[tensor].name;
    char name[SM_NAME_SIZE] = "";
    snprintf(name, sm_ends_with(own, end) ? strlen(own) - strlen(end) + 1 : 1, "%s", own);
    return sm_plan_find_tensor(plan, name);
}

// Gives each factor a place among the scales of its format.
static void count(pass *p) {
    const sm_plan *plan = p->list.plan;
    for (int i = 0; i < plan->n_tensors; i++) {
        p->factors[i] = (factor){SM_NO_TENSOR, SM_NO_TENSOR, SM_NO_TENSOR, -1};
    }
    for (const sm_op *op = plan->ops; op < plan->ops + plan->n_ops; op++) {
        for (int k = 0; k < 2 && is_of_block(op); k++) {
            factor *f = &p->factors[op->in[k]];
            const int twin = twin_of(plan, op->in[k]);
            f->slot = f->slot < 0 && twin != SM_NO_TENSOR ? p->factors[twin].slot : f->slot;
            f->slot = f->slot < 0 ? p->kinds[is_gradient(op, k)].n++ : f->slot;
        }
    }
}

static int add_state(sm_plan *plan, const scaled *s, const char *what, int64_t n_rows, double init) {
    const int64_t dims[2] = {n_rows, s->n};
    const int tensor =
        sm_plan_add_tensor(plan, SM_ROLE_OPTIMIZER, plan->real, n_rows > 1 ? 2 : 1, n_rows > 1 ? dims : dims + 1,
                           SM_FP8_PREFIX "%s.%s", sm_dtype_name(s->dtype), what);
    if (tensor != SM_NO_TENSOR) {
        plan->tensors[tensor].is_saved = strcmp(what, "amax") != 0; // these are 0 between steps
        plan->tensors[tensor].init_value = init;
    }
    return tensor;
}

static void cast(pass *p, int tensor, const scaled *s, sm_phase range, const sm_op *reader, int db) {
    enum { ROOM = SM_NAME_SIZE - sizeof ".e4m3.columns" };
    sm_plan *plan = p->list.plan;
    const sm_tensor t = plan->tensors[tensor];
    factor *f = &p->factors[tensor];
    const int64_t columns[2] = {sm_tensor_cols(&t), sm_tensor_rows(&t)};
    const sm_role role = t.role == SM_ROLE_PARAMETER ? t.role : SM_ROLE_ACTIVATION;
    const char *format = sm_dtype_name(s->dtype);
    sm_op op = sm_op_make(SM_OP_CAST_FP8, range, reader->layer);
    op.phase = reader->phase;
    op.attr.recomputed = reader->attr.recomputed;
    f->rows = sm_plan_add_tensor(plan, role, s->dtype, t.n_dims, t.dims, "%.*s.%s", (int)ROOM, t.name, format);
    f->columns = sm_plan_add_tensor(plan, role, s->dtype, 2, columns, "%.*s.%s.columns", (int)ROOM, t.name, format);
    f->scale = sm_plan_add_view(plan, s->scale, f->slot, 1, (int64_t[]){1}, "%.*s.scale", (int)ROOM, t.name);
    SM_INPUTS(op, cast_fp8, tensor, f->scale);
    SM_OUTPUTS(op, cast_fp8, f->rows, f->columns,
               sm_plan_add_view(plan, s->amax, f->slot, 1, (int64_t[]){1}, "%.*s.amax", (int)ROOM, t.name), db);
    sm_ops_append(&p->list, op);
}

// The casts of the weights, which all micro-batches of a step read.
static void cast_weights(pass *p) {
    const sm_plan *plan = p->list.plan;
    for (int i = 0; i < plan->n_ops; i++) {
        const int W = is_of_block(&plan->ops[i]) ? plan->ops[i].in[SM_IN(matmul_forward, W)] : SM_NO_TENSOR;
        if (W != SM_NO_TENSOR && plan->ops[i].kind == SM_OP_MATMUL_FORWARD && p->factors[W].rows == SM_NO_TENSOR) {
            cast(p, W, &p->kinds[0], SM_PHASE_ZERO_GRAD, &plan->ops[i], SM_NO_TENSOR);
        }
    }
}

static void multiply(pass *p, sm_op op) {
    const bool is_dw = op.kind == SM_OP_MATMUL_BACKWARD_WEIGHT;
    const int k_scale = is_dw ? SM_IN(matmul_backward_weight, x_scale) : SM_IN(matmul_forward, x_scale);
    for (int k = 0; k < 2; k++) {
        factor *f = &p->factors[op.in[k]];
        int *db = is_dw && is_gradient(&op, k) ? &op.out[SM_OUT(matmul_backward_weight, db)] : NULL;
        if (f->rows == SM_NO_TENSOR) {
            cast(p, op.in[k], &p->kinds[is_gradient(&op, k)], op.range, &op, db != NULL ? *db : SM_NO_TENSOR);
            if (db != NULL) {
                *db = SM_NO_TENSOR;
            }
        }
        // Rows must hold C in the forward, F in dx, N in dW.
        const bool is_W = !is_dw && k == SM_IN(matmul_forward, W);
        const bool is_turned = is_dw || (is_W && op.attr.w_transposed == (op.kind == SM_OP_MATMUL_BACKWARD_INPUT));
        op.in[k] = is_turned ? f->columns : f->rows;
        op.in[k_scale + k] = f->scale;
    }
    op.attr.fp8 = true;
    op.attr.w_transposed = is_dw ? op.attr.w_transposed : op.kind == SM_OP_MATMUL_FORWARD;
    sm_ops_append(&p->list, op);
}

static void update(pass *p, const scaled *s) {
    sm_op largest = sm_op_make(SM_OP_PROCESS_MAX, SM_PHASE_OPTIMIZER, -1);
    largest.phase = SM_PHASE_COMMUNICATION;
    largest.attr.n_processes = p->list.plan->processes.n;
    SM_OUTPUTS(largest, process_max, s->amax);
    if (p->list.plan->processes.n > 1) {
        sm_ops_append(&p->list, largest);
    }
    sm_op op = sm_op_make(SM_OP_SCALE_UPDATE, SM_PHASE_OPTIMIZER, -1);
    op.phase = SM_PHASE_SCALER;
    op.attr.a = sm_dtype_format(s->dtype)->largest_finite;
    SM_OUTPUTS(op, scale_update, s->amax, s->history, s->scale);
    sm_ops_append(&p->list, op);
}

sm_status sm_rewrite_fp8(sm_plan *plan) {
    const sm_range optimizer = sm_plan_range(plan, SM_PHASE_OPTIMIZER);
    // The first step's scales, before an amax is known: weights and activations have up to 28 then, and a gradient of
    // the mean over B T tokens a 16th of their largest number.
    SM_FREED factor *factors = sm_malloc((size_t)plan->n_tensors * sizeof *factors);
    pass p = {.list = {.plan = plan},
              .factors = factors,
              .kinds = {{.dtype = SM_E4M3, .init_scale = 16}, {.dtype = SM_E5M2, .init_scale = 16}}};
    for (int64_t tokens = plan->B * plan->T; tokens > 1; tokens /= 2) {
        p.kinds[1].init_scale *= 2;
    }
    count(&p);
    for (scaled *s = p.kinds; s < p.kinds + 2 && s->n > 0; s++) { // a forward by itself has no gradients
        s->amax = add_state(plan, s, "amax", 1, 0);
        s->history = add_state(plan, s, "history", 16, 0);
        s->scale = add_state(plan, s, "scales", 1, s->init_scale);
    }
    for (int i = 0; i < plan->n_ops; i++) {
        if (i == sm_plan_range(plan, SM_PHASE_FORWARD).first) {
            cast_weights(&p);
        }
        if (is_of_block(&plan->ops[i])) {
            multiply(&p, plan->ops[i]);
        } else {
            sm_ops_append(&p.list, plan->ops[i]);
        }
    }
    for (int i = 0; i < 2 && optimizer.first < optimizer.end; i++) {
        update(&p, &p.kinds[i]);
    }
    return sm_ops_take(&p.list);
}
