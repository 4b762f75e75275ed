// muon.c: Muon (Jordan et al. 2024) as in PyTorch, for the blocks' matrices; AdamW for all other parameters. State: m,
// or for AdamW m and v, one element of each for every parameter.
//
// An update u (R,C) is replaced by the nearest matrix with singular values of about 1, by five steps of a Newton-Schulz
// iteration. x is u/|u|, or its transpose if u is tall, so that the products x x^T are small:
//
//     x x^T -> gram    gram gram -> square    b gram + c square -> poly    poly x -> px    a x + px -> x
#include "src/optim/optimizer.h"

enum { N_ITERATIONS = 5 };
static const double A = 3.4445, B = -4.7750, C = 2.0315;

typedef struct {
    sm_plan *plan;
    const sm_param *param;
    int64_t rows, cols; // of x
    bool is_tall;
    int clip;
    int iteration; // 0: before the first
} builder;

static int add_tensor(builder *b, const char *name, sm_dtype dtype, int64_t rows, int64_t cols) {
    const int64_t dims[2] = {rows, cols};
    return sm_plan_add_tensor(b->plan, SM_ROLE_SCRATCH, dtype, 2, dims, "muon.%s.%d.%.44s", name, b->iteration,
                              b->param->name);
}

static sm_op make_op(sm_op_kind kind) { return sm_op_make(kind, SM_PHASE_OPTIMIZER, -1); }

// x W, or x W^T: (rows, n)
static int product(builder *b, const char *name, int x, int W, bool transposed, int64_t n) {
    sm_op op = make_op(SM_OP_MATMUL_FORWARD);
    op.attr.w_transposed = transposed;
    SM_INPUTS(op, matmul_forward, x, W, SM_NO_TENSOR, SM_NO_TENSOR, SM_NO_TENSOR);
    op.out[SM_OUT(matmul_forward, y)] = add_tensor(b, name, b->plan->dtype, b->rows, n);
    sm_plan_add_op(b->plan, &op);
    return op.out[SM_OUT(matmul_forward, y)];
}

// p x + q z: (rows, n)
static int combine(builder *b, const char *name, double p, int x, double q, int z, int64_t n) {
    sm_op op = make_op(SM_OP_COMBINE);
    op.attr.a = p;
    op.attr.b = q;
    SM_INPUTS(op, combine, x, z);
    op.out[SM_OUT(combine, y)] = add_tensor(b, name, b->plan->dtype, b->rows, n);
    sm_plan_add_op(b->plan, &op);
    return op.out[SM_OUT(combine, y)];
}

static int momentum(builder *b) {
    sm_op op = make_op(SM_OP_MUON_MOMENTUM);
    SM_INPUTS(op, muon_momentum, b->param->gradient, b->plan->hyper, b->clip);
    op.out[SM_OUT(muon_momentum, m)] = sm_param_add_state(b->plan, b->param, "m", b->plan->real, 0, NULL);
    op.out[SM_OUT(muon_momentum, u)] = add_tensor(b, "u", b->plan->real, b->param->rows, b->param->cols);
    sm_plan_add_op(b->plan, &op);
    return op.out[SM_OUT(muon_momentum, u)];
}

static int normalize(builder *b, int u) {
    sm_op norm = make_op(SM_OP_GRAD_SQNORM);
    norm.in[SM_IN(grad_sqnorm, g)] = u;
    norm.out[SM_OUT(grad_sqnorm, sqnorm)] = add_tensor(b, "sqnorm", b->plan->real, 1, 1);
    sm_plan_add_op(b->plan, &norm);
    sm_op op = make_op(SM_OP_NORMALIZE);
    op.attr.w_transposed = b->is_tall;
    SM_INPUTS(op, normalize, u, norm.out[SM_OUT(grad_sqnorm, sqnorm)]);
    op.out[SM_OUT(normalize, x)] = add_tensor(b, "x", b->plan->dtype, b->rows, b->cols);
    sm_plan_add_op(b->plan, &op);
    return op.out[SM_OUT(normalize, x)];
}

static sm_status build_hidden(sm_plan *plan, const sm_param *param, int clip) {
    const bool is_tall = param->rows > param->cols;
    builder b = {.plan = plan,
                 .param = param,
                 .rows = is_tall ? param->cols : param->rows,
                 .cols = is_tall ? param->rows : param->cols,
                 .is_tall = is_tall,
                 .clip = clip};
    int x = normalize(&b, momentum(&b));
    for (b.iteration = 1; b.iteration <= N_ITERATIONS; b.iteration++) {
        const int gram = product(&b, "gram", x, x, true, b.rows);
        const int square = product(&b, "square", gram, gram, false, b.rows);
        const int poly = combine(&b, "poly", B, gram, C, square, b.rows);
        const int px = product(&b, "px", poly, x, false, b.cols);
        x = combine(&b, "x", A, x, 1, px, b.cols);
    }
    sm_op op = make_op(SM_OP_MUON_UPDATE);
    op.attr.w_transposed = is_tall;
    op.attr.decay = true;
    SM_INPUTS(op, muon_update, x, plan->hyper, clip);
    SM_OUTPUTS(op, muon_update, param->value, plan->tensors[param->value].working_copy);
    return sm_plan_add_op(plan, &op);
}

static bool is_hidden(const sm_param *param) { return param->is_matrix && param->layer >= 0; }

static sm_status build(sm_plan *plan, const sm_params *params, int clip) {
    int n_hidden = 0;
    for (const sm_param *param = params->params; param < params->params + params->n_params; param++) {
        n_hidden += is_hidden(param);
        if (is_hidden(param)) {
            SM_TRY(build_hidden(plan, param, clip));
        } else if (param->is_matrix) {
            SM_TRY(sm_build_param_update(plan, param, SM_OP_ADAMW, clip));
        }
    }
    SM_FAIL_IF(n_hidden == 0, SM_ERR_INVALID, "optimizer muon: the model has no hidden matrices; use adamw");
    for (int g = 0; g < params->n_groups; g++) {
        SM_TRY(!params->groups[g].is_matrix ? sm_build_group_update(plan, params, g, SM_OP_ADAMW, clip) : SM_OK);
    }
    return SM_OK;
}

// The defaults are those of PyTorch's Muon, and of its AdamW for the other parameters.
const sm_optimizer sm_optimizer_muon = {
    .name = "muon",
    .title = "Muon",
    .defaults = SM_DEFAULTS(1e-3, 0.9, 0.999, 1e-8, 0.1, 0.95, 1),
    .build = build,
    .not_sharded = "it orthogonalises whole matrices",
};
