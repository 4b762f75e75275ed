// opencl_bind.c: how each kind of op is launched. The order of operands is that of op_table.h, the order of arguments
// that of the kernel in cl/STEM.cl.
#include <math.h>

#include "opencl_bind.h"
#include "opencl_tier.h"

#include "philox.h"

static const sm_tensor *in(const opencl_binder *b, int i) { return &b->e->base.plan->tensors[b->op->in[i]]; }
static const sm_tensor *out(const opencl_binder *b, int i) { return &b->e->base.plan->tensors[b->op->out[i]]; }

static void arg_in(opencl_binder *b, int i) { opencl_arg_tensor(b, b->op->in[i]); }
static void arg_out(opencl_binder *b, int i) { opencl_arg_tensor(b, b->op->out[i]); }
static void arg_count(opencl_binder *b, int64_t n) { opencl_arg_ulong(b, (uint64_t)n); }

// Every operand that is not optional, in the table's order.
static void arg_operands(opencl_binder *b) {
    const sm_op_info *info = sm_op_get_info(b->op->kind);
    for (int i = 0; i < SM_MAX_IN && info->in[i].name != NULL; i++) {
        if (!(info->in[i].flags & SM_OPTIONAL)) {
            arg_in(b, i);
        }
    }
    for (int i = 0; i < SM_MAX_OUT && info->out[i].name != NULL; i++) {
        if (!(info->out[i].flags & SM_OPTIONAL)) {
            arg_out(b, i);
        }
    }
}

// What products read of the parameter: where there is such a copy, the update writes it too.
static void arg_copy(opencl_binder *b, int output) {
    opencl_arg_uint(b, b->op->out[output] != SM_NO_TENSOR);
    arg_out(b, output);
}

// An op on n elements each of its operands.
static void bind_elements(opencl_binder *b, const char *stem, const char *kernel) {
    const int64_t n = sm_tensor_elems(out(b, 0));
    opencl_begin(b, stem, "", kernel);
    arg_count(b, n);
    arg_operands(b);
    opencl_launch_vecs(b, n);
}

static void bind_zero(opencl_binder *b) { bind_elements(b, "zero", "zero"); }
static void bind_residual(opencl_binder *b) { bind_elements(b, "residual", "residual"); }
static void bind_gelu_forward(opencl_binder *b) { bind_elements(b, "gelu", "gelu_forward"); }
static void bind_gelu_backward(opencl_binder *b) { bind_elements(b, "gelu", "gelu_backward"); }

static void bind_dropout(opencl_binder *b) {
    const int64_t n = sm_tensor_elems(out(b, SM_OUT(dropout, y)));
    opencl_begin(b, "dropout", "", "dropout");
    arg_count(b, n);
    opencl_arg_ulong(b, b->op->attr.rng_key);
    opencl_arg_uint(b, sm_dropout_threshold(b->op->attr.dropout_p));
    opencl_arg_float(b, (float)(1 / (1 - b->op->attr.dropout_p)));
    arg_operands(b);
    opencl_launch_items(b, (n + 3) / 4);
}

// --- optimizers: updates of each parameter by itself ----------------------------------------------------

static float decay(const opencl_binder *b) { return b->op->attr.decay ? 1.0f : 0.0f; }

static void bind_update(opencl_binder *b, const char *kernel, int copy) {
    const int64_t n = sm_tensor_elems(out(b, 0));
    opencl_begin(b, "optimizer", "", kernel);
    arg_count(b, n);
    opencl_arg_float(b, decay(b));
    arg_operands(b);
    arg_copy(b, copy);
    opencl_launch_vecs(b, n);
}

static void bind_adamw(opencl_binder *b) { bind_update(b, "adamw", SM_OUT(adamw, w)); }
static void bind_adam(opencl_binder *b) { bind_update(b, "adam", SM_OUT(adam, w)); }
static void bind_sgd(opencl_binder *b) { bind_update(b, "sgd", SM_OUT(sgd, w)); }
static void bind_lion(opencl_binder *b) { bind_update(b, "lion", SM_OUT(lion, w)); }

static void bind_adamw8bit(opencl_binder *b) {
    opencl_begin(b, "adamw8bit", "", "adamw8bit");
    arg_count(b, sm_tensor_elems(out(b, SM_OUT(adamw8bit, p))));
    opencl_arg_float(b, decay(b));
    arg_operands(b);
    arg_copy(b, SM_OUT(adamw8bit, w));
    opencl_launch_rows(b, sm_tensor_elems(out(b, SM_OUT(adamw8bit, m_max))));
}

static void bind_muon_momentum(opencl_binder *b) { bind_elements(b, "muon", "muon_momentum"); }

static void bind_normalize(opencl_binder *b) {
    const sm_tensor *u = in(b, SM_IN(normalize, u));
    opencl_begin(b, "muon", "", "normalize_update");
    arg_count(b, sm_tensor_rows(u));
    arg_count(b, sm_tensor_cols(u));
    opencl_arg_uint(b, b->op->attr.w_transposed);
    arg_operands(b);
    opencl_launch_grid(b, sm_tensor_cols(u), sm_tensor_rows(u));
}

static void bind_combine(opencl_binder *b) {
    const int64_t n = sm_tensor_elems(out(b, SM_OUT(combine, y)));
    opencl_begin(b, "muon", "", "combine");
    arg_count(b, n);
    opencl_arg_float(b, (float)b->op->attr.a);
    opencl_arg_float(b, (float)b->op->attr.b);
    arg_operands(b);
    opencl_launch_vecs(b, n);
}

static void bind_muon_update(opencl_binder *b) {
    const sm_tensor *p = out(b, SM_OUT(muon_update, p));
    opencl_begin(b, "muon", "", "muon_update");
    arg_count(b, sm_tensor_rows(p));
    arg_count(b, sm_tensor_cols(p));
    opencl_arg_uint(b, b->op->attr.w_transposed);
    opencl_arg_float(b, decay(b));
    arg_operands(b);
    arg_copy(b, SM_OUT(muon_update, w));
    opencl_launch_grid(b, sm_tensor_cols(p), sm_tensor_rows(p));
}

// --- sums over rows --------------------------------------------------------------------------------

// Strips of rows that a sum over N rows of C columns is cut into: enough to keep the device busy.
static int64_t count_strips(const opencl_device *device, int64_t N, int64_t C) {
    enum { LEAST_ROWS = 16, CPU_STRIPS = 4, ITEMS_A_UNIT = 512 };
    const opencl_facts *f = &device->facts;
    int64_t wanted =
        device->tier->row_items == 1 ? (int64_t)CPU_STRIPS * f->n_units : (int64_t)ITEMS_A_UNIT * f->n_units / C + 1;
    int64_t most = (N + LEAST_ROWS - 1) / LEAST_ROWS;
    return wanted < most ? wanted : most;
}

// Rows of a strip; count_strips of them cover N.
static int64_t strip_rows(int64_t N, int64_t n_strips) { return (N + n_strips - 1) / n_strips; }

static void bind_bias_forward(opencl_binder *b) {
    const int64_t N = sm_tensor_rows(in(b, SM_IN(bias_forward, x)));
    const int64_t C = sm_tensor_cols(in(b, SM_IN(bias_forward, x)));
    opencl_begin(b, "bias", "", "bias_forward");
    arg_count(b, N);
    arg_count(b, C);
    arg_operands(b);
    opencl_launch_grid(b, C, N);
}

// What the strips in scratch add up to joins an output of C elements.
static void add_strips(opencl_binder *b, int64_t n_strips, int64_t C, int output) {
    opencl_begin(b, "bias", "", "bias_backward_sum");
    arg_count(b, n_strips);
    arg_count(b, C);
    opencl_arg_scratch(b, 0);
    arg_out(b, output);
    opencl_launch_vecs(b, C);
}

static void bind_bias_backward(opencl_binder *b) {
    const int64_t N = sm_tensor_rows(in(b, SM_IN(bias_backward, dy)));
    const int64_t C = sm_tensor_cols(in(b, SM_IN(bias_backward, dy)));
    const int64_t n_strips = count_strips(b->e->device, N, C);
    opencl_begin(b, "bias", "", "bias_backward_strips");
    arg_count(b, N);
    arg_count(b, C);
    arg_count(b, strip_rows(N, n_strips));
    arg_in(b, SM_IN(bias_backward, dy));
    opencl_arg_scratch(b, 0);
    opencl_launch_strips(b, C, n_strips);
    add_strips(b, n_strips, C, SM_OUT(bias_backward, db));
}

// --- adafactor: kernels that hand each other sums by way of scratch (cl/adafactor.cl) -----------------------

static void arg_matrix(opencl_binder *b, const char *kernel, int64_t R, int64_t C) {
    opencl_begin(b, "adafactor", "", kernel);
    arg_count(b, R);
    arg_count(b, C);
}

static void bind_adafactor_means(opencl_binder *b, int64_t R, int64_t C, int64_t n_strips) {
    arg_matrix(b, "adafactor_rows", R, C);
    arg_in(b, SM_IN(adafactor, g));
    arg_in(b, SM_IN(adafactor, hyper));
    arg_in(b, SM_IN(adafactor, clip));
    arg_out(b, SM_OUT(adafactor, row));
    opencl_launch_rows(b, R);
    arg_matrix(b, "adafactor_column_strips", R, C);
    arg_count(b, strip_rows(R, n_strips));
    arg_in(b, SM_IN(adafactor, g));
    arg_in(b, SM_IN(adafactor, clip));
    opencl_arg_scratch(b, 0);
    opencl_launch_strips(b, C, n_strips);
    opencl_begin(b, "adafactor", "", "adafactor_columns");
    arg_count(b, n_strips);
    arg_count(b, R);
    arg_count(b, C);
    opencl_arg_scratch(b, 0);
    arg_in(b, SM_IN(adafactor, hyper));
    arg_out(b, SM_OUT(adafactor, col));
    opencl_launch_vecs(b, C);
}

static void bind_adafactor(opencl_binder *b) {
    const int64_t R = sm_tensor_rows(out(b, SM_OUT(adafactor, p)));
    const int64_t C = sm_tensor_cols(out(b, SM_OUT(adafactor, p)));
    const int64_t n_strips = count_strips(b->e->device, R, C);
    const size_t squares_at = (size_t)(n_strips * C);
    bind_adafactor_means(b, R, C, n_strips);
    opencl_begin(b, "adafactor", "", "adafactor_mean");
    arg_count(b, R);
    arg_out(b, SM_OUT(adafactor, row));
    arg_in(b, SM_IN(adafactor, hyper));
    opencl_arg_scratch(b, squares_at + 2 * (size_t)R);
    opencl_launch_rows(b, 1);
    arg_matrix(b, "adafactor_measure", R, C);
    arg_operands(b);
    opencl_arg_scratch(b, squares_at);
    opencl_launch_rows(b, R);
    arg_matrix(b, "adafactor_step", R, C);
    arg_in(b, SM_IN(adafactor, hyper));
    opencl_arg_scratch(b, squares_at);
    opencl_launch_rows(b, 1);
    arg_matrix(b, "adafactor_move", R, C);
    opencl_arg_float(b, decay(b));
    arg_operands(b);
    opencl_arg_scratch(b, squares_at);
    arg_copy(b, SM_OUT(adafactor, w));
    opencl_launch_grid(b, C, R);
}

static void bind_adafactor_vector(opencl_binder *b) {
    opencl_begin(b, "adafactor", "", "adafactor_vector");
    arg_count(b, sm_tensor_elems(out(b, SM_OUT(adafactor_vector, p))));
    arg_operands(b);
    opencl_launch_rows(b, 1);
}

static bool is_residual(const opencl_binder *b) {
    return b->op->kind == SM_OP_RESIDUAL_LAYERNORM_FORWARD || b->op->kind == SM_OP_RESIDUAL_LAYERNORM_BACKWARD;
}

// What one kernel computes of rows of `x`, for both kinds.
static void begin_layernorm_forward(opencl_binder *b, const sm_tensor *x) {
    opencl_begin(b, "layernorm", "", "layernorm_forward");
    opencl_arg_uint(b, is_residual(b));
    arg_count(b, sm_tensor_rows(x));
    arg_count(b, sm_tensor_cols(x));
    opencl_arg_float(b, (float)b->op->attr.eps);
}

static void bind_layernorm_forward(opencl_binder *b) {
    const sm_tensor *x = in(b, SM_IN(layernorm_forward, x));
    begin_layernorm_forward(b, x);
    arg_in(b, SM_IN(layernorm_forward, x));
    opencl_arg_tensor(b, SM_NO_TENSOR); // what is added to x
    arg_in(b, SM_IN(layernorm_forward, w));
    arg_in(b, SM_IN(layernorm_forward, b));
    opencl_arg_tensor(b, SM_NO_TENSOR); // the sum
    arg_out(b, SM_OUT(layernorm_forward, y));
    arg_out(b, SM_OUT(layernorm_forward, mean));
    arg_out(b, SM_OUT(layernorm_forward, rstd));
    opencl_launch_rows(b, sm_tensor_rows(x));
}

static void bind_residual_layernorm_forward(opencl_binder *b) {
    const sm_tensor *a = in(b, SM_IN(residual_layernorm_forward, a));
    begin_layernorm_forward(b, a);
    arg_operands(b);
    opencl_launch_rows(b, sm_tensor_rows(a));
}

// residual_layernorm_backward has layernorm_backward's operands at the same places, and dskip.
_Static_assert(SM_IN(residual_layernorm_backward, dskip) == SM_IN(layernorm_backward, n_operands) &&
                   SM_IN(residual_layernorm_backward, rstd) == SM_IN(layernorm_backward, rstd) &&
                   SM_OUT(residual_layernorm_backward, dbeta) == SM_OUT(layernorm_backward, db),
               "what one binder reads of both kinds");

// dw and db first: dx may overwrite dskip, never what they read.
static void bind_layernorm_backward(opencl_binder *b) {
    const int64_t N = sm_tensor_rows(in(b, SM_IN(layernorm_backward, dy)));
    const int64_t C = sm_tensor_cols(in(b, SM_IN(layernorm_backward, dy)));
    const int64_t n_strips = count_strips(b->e->device, N, C);
    opencl_begin(b, "layernorm", "", "layernorm_backward_strips");
    arg_count(b, N);
    arg_count(b, C);
    arg_count(b, strip_rows(N, n_strips));
    arg_in(b, SM_IN(layernorm_backward, dy));
    arg_in(b, SM_IN(layernorm_backward, x));
    arg_in(b, SM_IN(layernorm_backward, mean));
    arg_in(b, SM_IN(layernorm_backward, rstd));
    opencl_arg_scratch(b, 0);
    opencl_launch_strips(b, C, n_strips);
    opencl_begin(b, "layernorm", "", "layernorm_backward_sum");
    arg_count(b, n_strips);
    arg_count(b, C);
    opencl_arg_scratch(b, 0);
    arg_out(b, SM_OUT(layernorm_backward, dw));
    arg_out(b, SM_OUT(layernorm_backward, db));
    opencl_launch_vecs(b, C);
    opencl_begin(b, "layernorm", "", "layernorm_backward_input");
    opencl_arg_uint(b, is_residual(b));
    arg_count(b, N);
    arg_count(b, C);
    for (int i = 0; i < SM_IN(layernorm_backward, n_operands); i++) {
        arg_in(b, i);
    }
    opencl_arg_tensor(b, is_residual(b) ? b->op->in[SM_IN(residual_layernorm_backward, dskip)] : SM_NO_TENSOR);
    arg_out(b, SM_OUT(layernorm_backward, dx));
    opencl_launch_rows(b, N);
}

// What one kernel computes of rows of `x`, for both kinds.
static void begin_rmsnorm_forward(opencl_binder *b, const sm_tensor *x, bool residual) {
    opencl_begin(b, "rmsnorm", "", "rmsnorm_forward");
    opencl_arg_uint(b, residual);
    arg_count(b, sm_tensor_rows(x));
    arg_count(b, sm_tensor_cols(x));
    opencl_arg_float(b, (float)b->op->attr.eps);
}

static void bind_rmsnorm_forward(opencl_binder *b) {
    const sm_tensor *x = in(b, SM_IN(rmsnorm_forward, x));
    begin_rmsnorm_forward(b, x, false);
    arg_in(b, SM_IN(rmsnorm_forward, x));
    opencl_arg_tensor(b, SM_NO_TENSOR); // what is added to x
    arg_in(b, SM_IN(rmsnorm_forward, w));
    opencl_arg_tensor(b, SM_NO_TENSOR); // the sum
    arg_out(b, SM_OUT(rmsnorm_forward, y));
    arg_out(b, SM_OUT(rmsnorm_forward, rstd));
    opencl_launch_rows(b, sm_tensor_rows(x));
}

static void bind_residual_rmsnorm_forward(opencl_binder *b) {
    const sm_tensor *a = in(b, SM_IN(residual_rmsnorm_forward, a));
    begin_rmsnorm_forward(b, a, true);
    arg_operands(b);
    opencl_launch_rows(b, sm_tensor_rows(a));
}

// residual_rmsnorm_backward has rmsnorm_backward's operands at the same places, and dskip.
_Static_assert(SM_IN(residual_rmsnorm_backward, dskip) == SM_IN(rmsnorm_backward, n_operands) &&
                   SM_IN(residual_rmsnorm_backward, rstd) == SM_IN(rmsnorm_backward, rstd) &&
                   SM_OUT(residual_rmsnorm_backward, dw) == SM_OUT(rmsnorm_backward, dw),
               "what one binder reads of both kinds");

// dw first: dx may overwrite dskip, never what it reads.
static void bind_rmsnorm_backward(opencl_binder *b) {
    const int64_t N = sm_tensor_rows(in(b, SM_IN(rmsnorm_backward, dy)));
    const int64_t C = sm_tensor_cols(in(b, SM_IN(rmsnorm_backward, dy)));
    const bool residual = b->op->kind == SM_OP_RESIDUAL_RMSNORM_BACKWARD;
    const int64_t n_strips = count_strips(b->e->device, N, C);
    opencl_begin(b, "rmsnorm", "", "rmsnorm_backward_strips");
    arg_count(b, N);
    arg_count(b, C);
    arg_count(b, strip_rows(N, n_strips));
    arg_in(b, SM_IN(rmsnorm_backward, dy));
    arg_in(b, SM_IN(rmsnorm_backward, x));
    arg_in(b, SM_IN(rmsnorm_backward, rstd));
    opencl_arg_scratch(b, 0);
    opencl_launch_strips(b, C, n_strips);
    add_strips(b, n_strips, C, SM_OUT(rmsnorm_backward, dw));
    opencl_begin(b, "rmsnorm", "", "rmsnorm_backward_input");
    opencl_arg_uint(b, residual);
    arg_count(b, N);
    arg_count(b, C);
    for (int i = 0; i < SM_IN(rmsnorm_backward, n_operands); i++) {
        arg_in(b, i);
    }
    opencl_arg_tensor(b, residual ? b->op->in[SM_IN(residual_rmsnorm_backward, dskip)] : SM_NO_TENSOR);
    arg_out(b, SM_OUT(rmsnorm_backward, dx));
    opencl_launch_rows(b, N);
}

// --- rope and swiglu ----------------------------------------------------------------------------------

// An item a pair of a head's channels and token. Angles: cl/rope.cl.
static void bind_rope(opencl_binder *b) {
    enum { ITEMS = 32 };
    const sm_attrs *attr = &b->op->attr;
    const sm_tensor *x = in(b, SM_IN(rope, x));
    const int64_t half_size = x->dims[2] / (attr->n_head + 2 * attr->n_kv_head) / 2;
    const double growth = 1 / 6.283185307179586477;
    const double ratio = pow(attr->rope_theta, -1 / (double)half_size);
    opencl_begin(b, "rope", "", "rope");
    arg_count(b, sm_tensor_rows(x));
    arg_count(b, x->dims[1]);
    opencl_arg_uint(b, (uint32_t)half_size);
    opencl_arg_uint(b, (uint32_t)(attr->n_head + attr->n_kv_head));
    opencl_arg_uint(b, (uint32_t)attr->n_kv_head);
    opencl_arg_uint(b, attr->inverse);
    opencl_arg_ulong(b, (uint64_t)(growth * 0x1p64));
    opencl_arg_ulong(b, ratio < 1 ? (uint64_t)(ratio * 0x1p64) : UINT64_MAX);
    arg_operands(b);
    opencl_launch_groups(b, (half_size + ITEMS - 1) / ITEMS, sm_tensor_rows(x), ITEMS);
}

// An item a vec of a row of y or dy, (N,F).
static void bind_swiglu(opencl_binder *b, const char *kernel, const sm_tensor *y) {
    opencl_begin(b, "swiglu", "", kernel);
    arg_count(b, sm_tensor_rows(y));
    arg_count(b, sm_tensor_cols(y));
    arg_operands(b);
    opencl_launch_grid(b, sm_tensor_cols(y), sm_tensor_rows(y));
}

static void bind_swiglu_forward(opencl_binder *b) {
    bind_swiglu(b, "swiglu_forward", out(b, SM_OUT(swiglu_forward, y)));
}

static void bind_swiglu_backward(opencl_binder *b) {
    bind_swiglu(b, "swiglu_backward", in(b, SM_IN(swiglu_backward, dy)));
}

// --- embedding --------------------------------------------------------------------------------------

static void bind_embedding_forward(opencl_binder *b) {
    const int64_t N = sm_tensor_elems(in(b, SM_IN(embedding_forward, token)));
    const int64_t C = sm_tensor_cols(out(b, SM_OUT(embedding_forward, x)));
    opencl_begin(b, "embedding", "", "embedding_forward");
    opencl_arg_uint(b, b->op->in[SM_IN(embedding_forward, wpe)] != SM_NO_TENSOR);
    arg_count(b, N);
    arg_count(b, in(b, SM_IN(embedding_forward, token))->dims[1]);
    arg_count(b, C);
    arg_in(b, SM_IN(embedding_forward, token));
    arg_in(b, SM_IN(embedding_forward, wte));
    arg_in(b, SM_IN(embedding_forward, wpe));
    arg_out(b, SM_OUT(embedding_forward, x));
    opencl_launch_grid(b, C, N);
}

static void bind_embedding_backward(opencl_binder *b) {
    const int64_t B = in(b, SM_IN(embedding_backward, token))->dims[0];
    const int64_t T = in(b, SM_IN(embedding_backward, token))->dims[1];
    const int64_t C = sm_tensor_cols(in(b, SM_IN(embedding_backward, dx)));
    opencl_begin(b, "embedding", "", "embedding_backward_chains");
    arg_count(b, B * T);
    arg_in(b, SM_IN(embedding_backward, token));
    opencl_arg_scratch(b, 0);
    opencl_launch_items(b, B * T);
    opencl_begin(b, "embedding", "", "embedding_backward_wte");
    arg_count(b, B * T);
    arg_count(b, C);
    arg_in(b, SM_IN(embedding_backward, token));
    opencl_arg_scratch(b, 0);
    arg_in(b, SM_IN(embedding_backward, dx));
    arg_out(b, SM_OUT(embedding_backward, dwte));
    opencl_launch_grid(b, C, B * T);
    if (b->op->out[SM_OUT(embedding_backward, dwpe)] == SM_NO_TENSOR) {
        return;
    }
    opencl_begin(b, "embedding", "", "embedding_backward_wpe");
    arg_count(b, B);
    arg_count(b, T);
    arg_count(b, C);
    arg_in(b, SM_IN(embedding_backward, dx));
    arg_out(b, SM_OUT(embedding_backward, dwpe));
    opencl_launch_grid(b, C, T);
}

// --- loss and gradient norm ---------------------------------------------------------------------------

// Kernels over rows of logits: N, V, Vp, then the operands.
static void bind_crossentropy(opencl_binder *b, const char *kernel, const sm_tensor *logits) {
    opencl_begin(b, "loss", "", kernel);
    arg_count(b, sm_tensor_rows(logits));
    arg_count(b, b->op->attr.vocab);
    arg_count(b, sm_tensor_cols(logits));
    arg_operands(b);
    opencl_launch_rows(b, sm_tensor_rows(logits));
}

static void bind_crossentropy_forward(opencl_binder *b) {
    bind_crossentropy(b, "crossentropy_forward", in(b, SM_IN(crossentropy_forward, logits)));
}

static void bind_crossentropy_backward(opencl_binder *b) {
    bind_crossentropy(b, "crossentropy_backward", in(b, SM_IN(crossentropy_backward, logits)));
}

// Kernels of one row: the length of the first operand, then the operands.
static void bind_one_row(opencl_binder *b, const char *stem, const char *kernel) {
    opencl_begin(b, stem, "", kernel);
    arg_count(b, sm_tensor_elems(in(b, 0)));
    arg_operands(b);
    opencl_launch_rows(b, 1);
}

static void bind_loss_mean(opencl_binder *b) { bind_one_row(b, "loss", "loss_mean"); }
static void bind_loss_scale(opencl_binder *b) { bind_one_row(b, "loss", "loss_scale"); }
static void bind_grad_clip(opencl_binder *b) { bind_one_row(b, "grad_norm", "grad_clip"); }

// Parts that a sum of squares is cut into.
static int64_t count_parts(const opencl_device *device) {
    enum { CPU_PARTS = 64, GROUPS_A_UNIT = 8 };
    const opencl_tier *tier = device->tier;
    return tier->row_items == 1 ? (int64_t)CPU_PARTS * device->facts.n_units
                                : (int64_t)GROUPS_A_UNIT * tier->group * device->facts.n_units;
}

// On a processor an item reads one piece of memory; on a card, items side by side read vecs side by side.
static void bind_grad_sqnorm(opencl_binder *b) {
    const opencl_device *device = b->e->device;
    const int64_t n = sm_tensor_elems(in(b, SM_IN(grad_sqnorm, g)));
    const int64_t n_parts = count_parts(device);
    const int64_t vector = device->tier->vector(&device->facts);
    const int64_t part_elems = (n + n_parts * vector - 1) / (n_parts * vector) * vector;
    const bool contiguous = device->tier->row_items == 1;
    opencl_begin(b, "grad_norm", "", "grad_sqnorm_parts");
    arg_count(b, n);
    arg_count(b, n_parts);
    arg_count(b, part_elems / vector);
    arg_count(b, contiguous ? part_elems : vector);
    arg_count(b, contiguous ? vector : n_parts * vector);
    arg_in(b, SM_IN(grad_sqnorm, g));
    opencl_arg_scratch(b, 0);
    opencl_launch_parts(b, n_parts);
    opencl_begin(b, "grad_norm", "", "grad_sqnorm_sum");
    arg_count(b, n_parts);
    opencl_arg_scratch(b, 0);
    arg_out(b, SM_OUT(grad_sqnorm, sqnorm));
    opencl_launch_rows(b, 1);
}

// --- matmul and attention: described here, launched by the tier --------------------------------------------

// The first two inputs and the first output are the product's: x W = y, dy W^T = dx, x^T dy = dW.
static opencl_product describe_product(const sm_plan *plan, const sm_op *op) {
    const sm_tensor *first = &plan->tensors[op->in[0]];
    const sm_tensor *result = &plan->tensors[op->out[0]];
    opencl_product p = {.M = sm_tensor_rows(result),
                        .N = sm_tensor_cols(result),
                        .K = sm_tensor_cols(first),
                        .a = op->in[0],
                        .b = op->in[1],
                        .c = op->out[0],
                        .epilogue = op->attr.epilogue,
                        .side = SM_NO_TENSOR,
                        .act = SM_NO_TENSOR,
                        .plan = plan};
    if (op->kind == SM_OP_MATMUL_BACKWARD_WEIGHT) { // dW (C,F) += (or =) x^T dy; transposed, dW (F,C) += dy^T x
        const int x = op->in[SM_IN(matmul_backward_weight, x)];
        const int dy = op->in[SM_IN(matmul_backward_weight, dy)];
        p.a = op->attr.w_transposed ? dy : x;
        p.b = op->attr.w_transposed ? x : dy;
        p.K = sm_tensor_rows(first);
        p.a_transposed = true;
        p.add = !op->attr.overwrites;
        return p;
    }
    const bool forward = op->kind == SM_OP_MATMUL_FORWARD;
    p.b_transposed = op->attr.w_transposed == forward; // dx = dy W^T
    if (op->attr.epilogue & SM_EPILOGUE_BIAS) {
        p.side = op->in[SM_IN(matmul_forward, b)];
    }
    if (op->attr.epilogue & SM_EPILOGUE_GELU_BACKWARD) {
        p.side = op->in[SM_IN(matmul_backward_input, pre)];
    }
    if (op->attr.epilogue & SM_EPILOGUE_GELU) {
        p.act = op->out[SM_OUT(matmul_forward, act)];
    }
    return p;
}

bool opencl_rounds(const opencl_product *p) { return sm_dtype_is_narrow(p->plan->tensors[p->c].dtype); }

const char *opencl_result_option(const opencl_product *p, bool to_scratch) {
    return sm_dtype_is_narrow(p->plan->dtype) && (to_scratch || !opencl_rounds(p)) ? " -DC_REAL" : "";
}

uint32_t opencl_epilogue(const opencl_product *p) {
    return (p->epilogue & SM_EPILOGUE_BIAS ? OPENCL_BIAS : 0u) | (p->epilogue & SM_EPILOGUE_GELU ? OPENCL_GELU : 0u) |
           (p->epilogue & SM_EPILOGUE_GELU_BACKWARD ? OPENCL_GELU_BACKWARD : 0u);
}

static void bind_matmul(opencl_binder *b) {
    const opencl_product p = describe_product(b->e->base.plan, b->op);
    b->e->device->tier->matmul(b, &p, opencl_way(b->e->device, b->e->base.plan, &p));
}

// Which tensors the four kinds read and write.
static opencl_attention attention_operands(const sm_op *op) {
    switch (op->kind) {
    case SM_OP_ATTENTION_FORWARD:
        return (opencl_attention){.dy = SM_NO_TENSOR,
                                  .qkv = op->in[SM_IN(attention_forward, qkv)],
                                  .weights = op->out[SM_OUT(attention_forward, att)],
                                  .y = op->out[SM_OUT(attention_forward, y)],
                                  .dqkv = SM_NO_TENSOR,
                                  .rng_step = op->in[SM_IN(attention_forward, rng_step)]};
    case SM_OP_FLASH_ATTENTION_FORWARD:
        return (opencl_attention){.dy = SM_NO_TENSOR,
                                  .qkv = op->in[SM_IN(flash_attention_forward, qkv)],
                                  .weights = op->out[SM_OUT(flash_attention_forward, lse)],
                                  .y = op->out[SM_OUT(flash_attention_forward, y)],
                                  .dqkv = SM_NO_TENSOR,
                                  .rng_step = op->in[SM_IN(flash_attention_forward, rng_step)]};
    case SM_OP_ATTENTION_BACKWARD:
        return (opencl_attention){.dy = op->in[SM_IN(attention_backward, dy)],
                                  .qkv = op->in[SM_IN(attention_backward, qkv)],
                                  .weights = op->in[SM_IN(attention_backward, att)],
                                  .y = SM_NO_TENSOR,
                                  .dqkv = op->out[SM_OUT(attention_backward, dqkv)],
                                  .rng_step = op->in[SM_IN(attention_backward, rng_step)]};
    default: // SM_OP_FLASH_ATTENTION_BACKWARD
        return (opencl_attention){.dy = op->in[SM_IN(flash_attention_backward, dy)],
                                  .qkv = op->in[SM_IN(flash_attention_backward, qkv)],
                                  .weights = op->in[SM_IN(flash_attention_backward, lse)],
                                  .y = op->in[SM_IN(flash_attention_backward, y)],
                                  .dqkv = op->out[SM_OUT(flash_attention_backward, dqkv)],
                                  .rng_step = op->in[SM_IN(flash_attention_backward, rng_step)]};
    }
}

static opencl_attention describe_attention(const sm_plan *plan, const sm_op *op) {
    const double p = op->attr.dropout_p;
    opencl_attention a = attention_operands(op);
    const int64_t *dims = plan->tensors[a.qkv].dims;
    a.forward = op->kind == SM_OP_ATTENTION_FORWARD || op->kind == SM_OP_FLASH_ATTENTION_FORWARD;
    a.stores_weights = op->kind == SM_OP_ATTENTION_FORWARD || op->kind == SM_OP_ATTENTION_BACKWARD;
    a.B = dims[0];
    a.T = dims[1];
    a.NH = op->attr.n_head;
    a.NKV = op->attr.n_kv_head;
    a.HS = dims[2] / (a.NH + 2 * a.NKV);
    a.key = op->attr.rng_key;
    if (a.rng_step != SM_NO_TENSOR && p > 0) {
        a.threshold = sm_dropout_threshold(p);
        a.drop_scale = (float)(1 / (1 - p));
    }
    return a;
}

static void bind_attention(opencl_binder *b) {
    const opencl_attention a = describe_attention(b->e->base.plan, b->op);
    b->e->device->tier->attention(b, &a);
}

// --- the table -----------------------------------------------------------------------------------------

static void (*const binders[SM_OP_KIND_COUNT])(opencl_binder *) = {
    [SM_OP_ZERO] = bind_zero,
    [SM_OP_LOSS_SCALE] = bind_loss_scale,
    [SM_OP_EMBEDDING_FORWARD] = bind_embedding_forward,
    [SM_OP_EMBEDDING_BACKWARD] = bind_embedding_backward,
    [SM_OP_DROPOUT] = bind_dropout,
    [SM_OP_LAYERNORM_FORWARD] = bind_layernorm_forward,
    [SM_OP_LAYERNORM_BACKWARD] = bind_layernorm_backward,
    [SM_OP_MATMUL_FORWARD] = bind_matmul,
    [SM_OP_MATMUL_BACKWARD_INPUT] = bind_matmul,
    [SM_OP_MATMUL_BACKWARD_WEIGHT] = bind_matmul,
    [SM_OP_BIAS_FORWARD] = bind_bias_forward,
    [SM_OP_BIAS_BACKWARD] = bind_bias_backward,
    [SM_OP_ATTENTION_FORWARD] = bind_attention,
    [SM_OP_ATTENTION_BACKWARD] = bind_attention,
    [SM_OP_GELU_FORWARD] = bind_gelu_forward,
    [SM_OP_GELU_BACKWARD] = bind_gelu_backward,
    [SM_OP_RMSNORM_FORWARD] = bind_rmsnorm_forward,
    [SM_OP_RMSNORM_BACKWARD] = bind_rmsnorm_backward,
    [SM_OP_ROPE] = bind_rope,
    [SM_OP_SWIGLU_FORWARD] = bind_swiglu_forward,
    [SM_OP_SWIGLU_BACKWARD] = bind_swiglu_backward,
    [SM_OP_RESIDUAL] = bind_residual,
    [SM_OP_CROSSENTROPY_FORWARD] = bind_crossentropy_forward,
    [SM_OP_CROSSENTROPY_BACKWARD] = bind_crossentropy_backward,
    [SM_OP_LOSS_MEAN] = bind_loss_mean,
    [SM_OP_GRAD_SQNORM] = bind_grad_sqnorm,
    [SM_OP_GRAD_CLIP] = bind_grad_clip,
    [SM_OP_ADAMW] = bind_adamw,
    [SM_OP_ADAM] = bind_adam,
    [SM_OP_SGD] = bind_sgd,
    [SM_OP_LION] = bind_lion,
    [SM_OP_ADAMW8BIT] = bind_adamw8bit,
    [SM_OP_ADAFACTOR] = bind_adafactor,
    [SM_OP_ADAFACTOR_VECTOR] = bind_adafactor_vector,
    [SM_OP_MUON_MOMENTUM] = bind_muon_momentum,
    [SM_OP_NORMALIZE] = bind_normalize,
    [SM_OP_COMBINE] = bind_combine,
    [SM_OP_MUON_UPDATE] = bind_muon_update,
    [SM_OP_RESIDUAL_LAYERNORM_FORWARD] = bind_residual_layernorm_forward,
    [SM_OP_RESIDUAL_LAYERNORM_BACKWARD] = bind_layernorm_backward,
    [SM_OP_RESIDUAL_RMSNORM_FORWARD] = bind_residual_rmsnorm_forward,
    [SM_OP_RESIDUAL_RMSNORM_BACKWARD] = bind_rmsnorm_backward,
    [SM_OP_FLASH_ATTENTION_FORWARD] = bind_attention,
    [SM_OP_FLASH_ATTENTION_BACKWARD] = bind_attention,
};

bool opencl_is_product(const sm_plan *plan, const sm_op *op, opencl_product *product) {
    if (binders[op->kind] != bind_matmul) {
        return false;
    }
    *product = describe_product(plan, op);
    return true;
}

static bool is_attention(sm_op_kind kind) { return binders[kind] == bind_attention; }

size_t opencl_op_scratch_elems(const opencl_device *device, const sm_plan *plan, const sm_op *op) {
    const sm_tensor *first = op->in[0] == SM_NO_TENSOR ? NULL : &plan->tensors[op->in[0]];
    if (binders[op->kind] == bind_matmul) {
        const opencl_product p = describe_product(plan, op);
        return device->tier->matmul_scratch_elems(&device->facts, &p, opencl_way(device, plan, &p));
    }
    if (is_attention(op->kind)) {
        const opencl_attention a = describe_attention(plan, op);
        return device->tier->attention_scratch_elems(&a);
    }
    switch (op->kind) {
    case SM_OP_EMBEDDING_BACKWARD: return 2 * (size_t)sm_tensor_elems(first);
    case SM_OP_GRAD_SQNORM: return (size_t)count_parts(device);
    case SM_OP_ADAFACTOR: {
        const int64_t R = sm_tensor_rows(first);
        const int64_t C = sm_tensor_cols(first);
        return (size_t)(count_strips(device, R, C) * C + 2 * R + 2);
    }
    case SM_OP_BIAS_BACKWARD:
    case SM_OP_LAYERNORM_BACKWARD:
    case SM_OP_RESIDUAL_LAYERNORM_BACKWARD:
    case SM_OP_RMSNORM_BACKWARD:
    case SM_OP_RESIDUAL_RMSNORM_BACKWARD: {
        const int64_t C = sm_tensor_cols(first);
        return 2 * (size_t)(count_strips(device, sm_tensor_rows(first), C) * C);
    }
    default: return 0;
    }
}

sm_status opencl_bind_op(opencl_executable *e, const sm_op *op) {
    opencl_binder b = {.e = e, .op = op};
    binders[op->kind](&b);
    return b.status;
}

sm_status opencl_op_supported(const opencl_device *device, const sm_plan *plan, const sm_op *op) {
    const char *id = device->base.info.id;
    if (plan->dtype != SM_F32 && !sm_dtype_is_narrow(plan->dtype)) {
        return sm_fail(SM_ERR_UNSUPPORTED, "%s: there are no %s kernels", id, sm_dtype_name(plan->dtype));
    }
    SM_TRY(sm_plan_supports_plain_products(plan, id));
    if (binders[op->kind] == NULL) {
        return sm_fail(SM_ERR_UNSUPPORTED, "%s: %s: there is no kernel", id, sm_op_name(op->kind));
    }
    if (is_attention(op->kind)) {
        const opencl_attention a = describe_attention(plan, op);
        if (a.HS > device->tier->most_head_channels) {
            return sm_fail(SM_ERR_UNSUPPORTED, "%s: heads of %lld channels; the kernels take up to %d", id,
                           (long long)a.HS, device->tier->most_head_channels);
        }
    }
    return SM_OK;
}
