// opencl_bind.c: how each kind of op is launched. The order of operands is that of op_table.h, the order of arguments
// that of the kernel in cl/STEM.cl.
#include <math.h>
#include <stdio.h>

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

// Elements of a vec in a program built with WHOLE: 16 bytes of data, as in cl/prelude.cl.
static int whole_vector(const opencl_binder *b) { return sm_dtype_is_narrow(b->e->base.plan->dtype) ? 8 : 4; }

// Whether all vecs of the op's rows of row_elems elements are whole and begin at multiples of their size: on cards they
// then move at once (cl/prelude.cl).
static bool is_whole(const opencl_binder *b, int64_t row_elems) {
    const int vector = whole_vector(b);
    bool whole = b->e->device->tier->row_items > 1 && row_elems % vector == 0;
    for (int i = 0; whole && row_elems > 0 && i < SM_MAX_IN + SM_MAX_OUT; i++) {
        const int tensor = i < SM_MAX_IN ? b->op->in[i] : b->op->out[i - SM_MAX_IN];
        if (tensor != SM_NO_TENSOR) {
            const sm_tensor *t = &b->e->base.plan->tensors[tensor];
            const size_t vec_bytes = (size_t)vector * sm_dtype_size(t->dtype);
            whole = sm_tensor_elems(t) % row_elems != 0 || t->offset_bytes % vec_bytes == 0;
        }
    }
    return whole;
}

// Begins a launch of a kernel that walks rows of row_elems elements; 0: it walks none.
static void begin(opencl_binder *b, const char *stem, const char *kernel, int64_t row_elems) {
    const bool whole = is_whole(b, row_elems);
    opencl_begin(b, stem, whole ? "-DWHOLE" : "", kernel);
    b->vector = whole ? whole_vector(b) : b->vector;
}

// The same, where items keep their vecs of a row in registers, unless there are too many.
static void begin_kept(opencl_binder *b, const char *stem, const char *kernel, int64_t row_elems) {
    enum { MOST_ELEMS = 32, OPTIONS_SIZE = 64 };
    const int64_t at_once = (int64_t)b->e->device->tier->row_items * whole_vector(b);
    const int64_t n_vecs = (row_elems + at_once - 1) / at_once;
    const int most_vecs = MOST_ELEMS / whole_vector(b);
    const bool whole = is_whole(b, row_elems);
    char options[OPTIONS_SIZE] = "";
    if (whole) {
        snprintf(options, sizeof options, "-DWHOLE -DROW_VECS=%d", n_vecs <= most_vecs ? (int)n_vecs : 0);
    }
    opencl_begin(b, stem, options, kernel);
    b->vector = whole ? whole_vector(b) : b->vector;
}

// An op on n elements each of its operands.
static void bind_elements(opencl_binder *b, const char *stem, const char *kernel) {
    const int64_t n = sm_tensor_elems(out(b, 0));
    begin(b, stem, kernel, n);
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
    begin(b, "dropout", "dropout", 0);
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
    begin(b, "optimizer", kernel, n);
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

// On cards an item has one vec of a block, and a work-group as many blocks as it has room for (cl/adamw8bit.cl).
static void bind_adamw8bit(opencl_binder *b) {
    enum { CPU_BLOCKS = 4, BLOCK = 256 };
    const opencl_device *device = b->e->device;
    const int64_t n = sm_tensor_elems(out(b, SM_OUT(adamw8bit, p)));
    const bool is_cpu = device->tier->row_items == 1;
    begin(b, "adamw8bit", "adamw8bit", n);
    const size_t items = is_cpu ? 1 : (size_t)(BLOCK / b->vector);
    arg_count(b, n);
    opencl_arg_float(b, decay(b));
    arg_operands(b);
    arg_copy(b, SM_OUT(adamw8bit, w));
    opencl_launch_tiles(b, (int64_t)items, sm_tensor_elems(out(b, SM_OUT(adamw8bit, m_max))), items,
                        is_cpu ? CPU_BLOCKS : (size_t)device->tier->row_items / items);
}

static void bind_muon_momentum(opencl_binder *b) { bind_elements(b, "muon", "muon_momentum"); }

static void bind_normalize(opencl_binder *b) {
    const sm_tensor *u = in(b, SM_IN(normalize, u));
    begin(b, "muon", "normalize_update", sm_tensor_cols(u));
    arg_count(b, sm_tensor_rows(u));
    arg_count(b, sm_tensor_cols(u));
    opencl_arg_uint(b, b->op->attr.w_transposed);
    arg_operands(b);
    opencl_launch_grid(b, sm_tensor_cols(u), sm_tensor_rows(u));
}

static void bind_combine(opencl_binder *b) {
    const int64_t n = sm_tensor_elems(out(b, SM_OUT(combine, y)));
    begin(b, "muon", "combine", n);
    arg_count(b, n);
    opencl_arg_float(b, (float)b->op->attr.a);
    opencl_arg_float(b, (float)b->op->attr.b);
    arg_operands(b);
    opencl_launch_vecs(b, n);
}

static void bind_muon_update(opencl_binder *b) {
    const sm_tensor *p = out(b, SM_OUT(muon_update, p));
    begin(b, "muon", "muon_update", sm_tensor_cols(p));
    arg_count(b, sm_tensor_rows(p));
    arg_count(b, sm_tensor_cols(p));
    opencl_arg_uint(b, b->op->attr.w_transposed);
    opencl_arg_float(b, decay(b));
    arg_operands(b);
    arg_copy(b, SM_OUT(muon_update, w));
    opencl_launch_grid(b, sm_tensor_cols(p), sm_tensor_rows(p));
}

// --- sums over rows --------------------------------------------------------------------------------

enum { STRIP_LANES = 4, SUM_LANES = 64 }; // of a work-group on cards, where rows or strips are summed up

static int64_t at_most(int64_t n, int64_t most) { return n < most ? n : most; }

// Strips of rows that a sum over N rows of C columns is cut into: enough to keep the device busy.
static int64_t count_strips(const opencl_device *device, int64_t N, int64_t C) {
    enum { LEAST_ROWS = 16, CPU_STRIPS = 4, GROUPS_A_UNIT = 8 };
    const opencl_tier *tier = device->tier;
    const int64_t group_cols = (int64_t)tier->group / STRIP_LANES * tier->vector(&device->facts); // or twice as many
    const int64_t n_blocks = tier->row_items == 1 ? 1 : (C + group_cols - 1) / group_cols;
    const int64_t wanted = (int64_t)(tier->row_items == 1 ? CPU_STRIPS : GROUPS_A_UNIT) * device->facts.n_units;
    return at_most((wanted + n_blocks - 1) / n_blocks, (N + LEAST_ROWS - 1) / LEAST_ROWS);
}

// Strips of rows that items walk whole, a row after the other.
static int64_t count_row_strips(const opencl_device *device, int64_t N) {
    enum { LEAST_ROWS = 4, CPU_STRIPS = 4, GROUPS_A_UNIT = 4 }; // all of them at once: sums take many registers
    const int64_t of_unit = device->tier->row_items == 1 ? CPU_STRIPS : GROUPS_A_UNIT;
    return at_most(of_unit * device->facts.n_units, (N + LEAST_ROWS - 1) / LEAST_ROWS);
}

// Rows of a strip; count_strips of them cover N.
static int64_t strip_rows(int64_t N, int64_t n_strips) { return (N + n_strips - 1) / n_strips; }

static void bind_bias_forward(opencl_binder *b) {
    const int64_t N = sm_tensor_rows(in(b, SM_IN(bias_forward, x)));
    const int64_t C = sm_tensor_cols(in(b, SM_IN(bias_forward, x)));
    begin(b, "bias", "bias_forward", C);
    arg_count(b, N);
    arg_count(b, C);
    arg_operands(b);
    opencl_launch_grid(b, C, N);
}

// What the strips in scratch add up to joins an output of C elements.
static void add_strips(opencl_binder *b, int64_t n_strips, int64_t C, int output) {
    begin(b, "bias", "bias_backward_sum", C);
    arg_count(b, n_strips);
    arg_count(b, C);
    opencl_arg_scratch(b, 0);
    arg_out(b, output);
    opencl_launch_lanes(b, C, 1, SUM_LANES);
}

static void bind_bias_backward(opencl_binder *b) {
    const int64_t N = sm_tensor_rows(in(b, SM_IN(bias_backward, dy)));
    const int64_t C = sm_tensor_cols(in(b, SM_IN(bias_backward, dy)));
    const int64_t n_strips = count_strips(b->e->device, N, C);
    begin(b, "bias", "bias_backward_strips", C);
    arg_count(b, N);
    arg_count(b, C);
    arg_count(b, strip_rows(N, n_strips));
    arg_in(b, SM_IN(bias_backward, dy));
    opencl_arg_scratch(b, 0);
    opencl_launch_lanes(b, C, n_strips, STRIP_LANES);
    add_strips(b, n_strips, C, SM_OUT(bias_backward, db));
}

// --- adafactor: kernels that hand each other sums by way of scratch (cl/adafactor.cl) -----------------------

static void arg_matrix(opencl_binder *b, const char *kernel, int64_t R, int64_t C) {
    begin(b, "adafactor", kernel, C);
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
    opencl_launch_lanes(b, C, n_strips, STRIP_LANES);
    begin(b, "adafactor", "adafactor_columns", C);
    arg_count(b, n_strips);
    arg_count(b, R);
    arg_count(b, C);
    opencl_arg_scratch(b, 0);
    arg_in(b, SM_IN(adafactor, hyper));
    arg_in(b, SM_IN(adafactor, clip));
    arg_out(b, SM_OUT(adafactor, col));
    opencl_launch_lanes(b, C, 1, SUM_LANES);
}

static void bind_adafactor(opencl_binder *b) {
    const int64_t R = sm_tensor_rows(out(b, SM_OUT(adafactor, p)));
    const int64_t C = sm_tensor_cols(out(b, SM_OUT(adafactor, p)));
    const int64_t n_strips = count_strips(b->e->device, R, C);
    const size_t squares_at = (size_t)(n_strips * C);
    bind_adafactor_means(b, R, C, n_strips);
    begin(b, "adafactor", "adafactor_mean", 0);
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
    const int64_t n = sm_tensor_elems(out(b, SM_OUT(adafactor_vector, p)));
    begin(b, "adafactor", "adafactor_vector", n);
    arg_count(b, n);
    arg_operands(b);
    opencl_launch_rows(b, 1);
}

static bool is_residual(const opencl_binder *b) {
    return b->op->kind == SM_OP_RESIDUAL_LAYERNORM_FORWARD || b->op->kind == SM_OP_RESIDUAL_LAYERNORM_BACKWARD;
}

// What one kernel computes of rows of `x`, for both kinds.
static void begin_layernorm_forward(opencl_binder *b, const sm_tensor *x) {
    begin_kept(b, "layernorm", "layernorm_forward", sm_tensor_cols(x));
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
                   SM_OUT(residual_layernorm_backward, dbeta) == SM_OUT(layernorm_backward, db) &&
                   SM_OUT(residual_layernorm_backward, dbias) == SM_OUT(layernorm_backward, dbias),
               "what one binder reads of both kinds");

// Of rows of either kind: dw, db and, where it is asked for, dbias.
static int layernorm_sums(const sm_op *op) {
    return op->out[SM_OUT(layernorm_backward, dbias)] != SM_NO_TENSOR ? 3 : 2;
}

static void bind_layernorm_backward(opencl_binder *b) {
    const int n_sums = layernorm_sums(b->op);
    const int64_t N = sm_tensor_rows(in(b, SM_IN(layernorm_backward, dy)));
    const int64_t C = sm_tensor_cols(in(b, SM_IN(layernorm_backward, dy)));
    const int64_t n_strips = count_row_strips(b->e->device, N);
    begin_kept(b, "layernorm", "layernorm_backward_rows", C);
    opencl_arg_uint(b, is_residual(b));
    arg_count(b, N);
    arg_count(b, C);
    arg_count(b, n_strips);
    arg_count(b, strip_rows(N, n_strips));
    opencl_arg_uint(b, (uint32_t)n_sums);
    for (int i = 0; i < SM_IN(layernorm_backward, n_operands); i++) {
        arg_in(b, i);
    }
    opencl_arg_tensor(b, is_residual(b) ? b->op->in[SM_IN(residual_layernorm_backward, dskip)] : SM_NO_TENSOR);
    arg_out(b, SM_OUT(layernorm_backward, dx));
    opencl_arg_scratch(b, 0);
    opencl_launch_parts(b, n_strips);
    begin_kept(b, "layernorm", "layernorm_backward_sum", C);
    arg_count(b, n_strips);
    arg_count(b, C);
    opencl_arg_uint(b, (uint32_t)n_sums);
    opencl_arg_scratch(b, 0);
    arg_out(b, SM_OUT(layernorm_backward, dw));
    arg_out(b, SM_OUT(layernorm_backward, db));
    arg_out(b, SM_OUT(layernorm_backward, dbias));
    opencl_launch_lanes(b, C, n_sums, SUM_LANES);
}

// What one kernel computes of rows of `x`, for both kinds.
static void begin_rmsnorm_forward(opencl_binder *b, const sm_tensor *x, bool residual) {
    begin_kept(b, "rmsnorm", "rmsnorm_forward", sm_tensor_cols(x));
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

static void bind_rmsnorm_backward(opencl_binder *b) {
    const int64_t N = sm_tensor_rows(in(b, SM_IN(rmsnorm_backward, dy)));
    const int64_t C = sm_tensor_cols(in(b, SM_IN(rmsnorm_backward, dy)));
    const bool residual = b->op->kind == SM_OP_RESIDUAL_RMSNORM_BACKWARD;
    const int64_t n_strips = count_row_strips(b->e->device, N);
    begin_kept(b, "rmsnorm", "rmsnorm_backward_rows", C);
    opencl_arg_uint(b, residual);
    arg_count(b, N);
    arg_count(b, C);
    arg_count(b, n_strips);
    arg_count(b, strip_rows(N, n_strips));
    for (int i = 0; i < SM_IN(rmsnorm_backward, n_operands); i++) {
        arg_in(b, i);
    }
    opencl_arg_tensor(b, residual ? b->op->in[SM_IN(residual_rmsnorm_backward, dskip)] : SM_NO_TENSOR);
    arg_out(b, SM_OUT(rmsnorm_backward, dx));
    opencl_arg_scratch(b, 0);
    opencl_launch_parts(b, n_strips);
    add_strips(b, n_strips, C, SM_OUT(rmsnorm_backward, dw));
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
    begin(b, "rope", "rope", 0);
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
    begin(b, "swiglu", kernel, sm_tensor_cols(y));
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
    begin(b, "embedding", "embedding_forward", C);
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

// Token ids sorted, with the tokens' places, in scratch: in blocks, then, 2 N elements further, all of them.
static void sort_tokens(opencl_binder *b, int64_t N) {
    enum { BLOCK = 256, GROUP = 64, LANES = 4 }; // of cl/embedding.cl
    const int lanes = b->e->device->tier->row_items == 1 ? 1 : LANES;
    begin(b, "embedding", "embedding_backward_sort", 0);
    arg_count(b, N);
    arg_in(b, SM_IN(embedding_backward, token));
    opencl_arg_scratch(b, 0);
    opencl_launch_groups(b, (N + BLOCK - 1) / BLOCK, 1, GROUP);
    begin(b, "embedding", "embedding_backward_merge", 0);
    arg_count(b, N);
    opencl_arg_scratch(b, 0);
    opencl_arg_scratch(b, 2 * (size_t)N);
    opencl_launch_tiles(b, N, lanes, (size_t)(GROUP / lanes), (size_t)lanes);
}

// Windows of sorted tokens that an item adds up the rows of, and where the sums of those that go beyond one lie.
static int64_t count_windows(int64_t N) {
    enum { ROWS = 16 }; // of cl/embedding.cl
    return (N + ROWS - 1) / ROWS;
}

static int64_t partial_rows_at(int64_t N) { return (4 * N + 15) / 16 * 16; }

static void bind_embedding_backward(opencl_binder *b) {
    const int64_t B = in(b, SM_IN(embedding_backward, token))->dims[0];
    const int64_t T = in(b, SM_IN(embedding_backward, token))->dims[1];
    const int64_t C = sm_tensor_cols(in(b, SM_IN(embedding_backward, dx)));
    sort_tokens(b, B * T);
    begin(b, "embedding", "embedding_backward_rows", C);
    arg_count(b, B * T);
    arg_count(b, C);
    opencl_arg_scratch(b, 2 * (size_t)(B * T));
    arg_in(b, SM_IN(embedding_backward, dx));
    arg_out(b, SM_OUT(embedding_backward, dwte));
    opencl_arg_scratch(b, (size_t)partial_rows_at(B * T));
    opencl_launch_grid(b, C, count_windows(B * T));
    begin(b, "embedding", "embedding_backward_runs", C);
    arg_count(b, B * T);
    arg_count(b, C);
    opencl_arg_scratch(b, 2 * (size_t)(B * T));
    opencl_arg_scratch(b, (size_t)partial_rows_at(B * T));
    arg_out(b, SM_OUT(embedding_backward, dwte));
    opencl_launch_grid(b, C, count_windows(B * T));
    if (b->op->out[SM_OUT(embedding_backward, dwpe)] == SM_NO_TENSOR) {
        return;
    }
    begin(b, "embedding", "embedding_backward_wpe", C);
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
    begin(b, "loss", kernel, sm_tensor_cols(logits));
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
static void bind_one_row(opencl_binder *b, const char *stem, const char *kernel, bool by_vecs) {
    const int64_t n = sm_tensor_elems(in(b, 0));
    begin(b, stem, kernel, by_vecs ? n : 0);
    arg_count(b, n);
    arg_operands(b);
    opencl_launch_rows(b, 1);
}

static void bind_loss_mean(opencl_binder *b) { bind_one_row(b, "loss", "loss_mean", true); }

static void bind_loss_scale(opencl_binder *b) {
    bind_one_row(b, "loss", "loss_scale", true);
    if (b->op->in[SM_IN(loss_scale, scaler)] != SM_NO_TENSOR) {
        opencl_begin(b, "scaler", "", "scale_loss");
        arg_in(b, SM_IN(loss_scale, scaler));
        arg_out(b, SM_OUT(loss_scale, scale));
        opencl_launch_items(b, 1);
    }
}

static void bind_grad_clip(opencl_binder *b) {
    bind_one_row(b, "grad_norm", "grad_clip", false);
    if (b->op->in[SM_IN(grad_clip, scaler)] != SM_NO_TENSOR) {
        opencl_begin(b, "scaler", "", "unscale_clip");
        arg_in(b, SM_IN(grad_clip, hyper));
        arg_in(b, SM_IN(grad_clip, scaler));
        arg_out(b, SM_OUT(grad_clip, norm));
        arg_out(b, SM_OUT(grad_clip, clip));
        opencl_launch_items(b, 1);
    }
}

static void bind_scaler_update(opencl_binder *b) {
    opencl_begin(b, "scaler", "", "scaler_update");
    arg_operands(b);
    opencl_launch_items(b, 1);
}

// Parts that a sum of squares is cut into.
static int64_t count_parts(const opencl_device *device) {
    enum { CPU_PARTS = 64, GROUPS_A_UNIT = 8 };
    return (int64_t)(device->tier->row_items == 1 ? CPU_PARTS : GROUPS_A_UNIT) * device->facts.n_units;
}

static void bind_grad_sqnorm(opencl_binder *b) {
    const opencl_device *device = b->e->device;
    const int64_t n = sm_tensor_elems(in(b, SM_IN(grad_sqnorm, g)));
    const int64_t n_parts = count_parts(device);
    begin(b, "grad_norm", "grad_sqnorm_parts", n);
    arg_count(b, n);
    arg_count(b, n_parts);
    arg_count(b, (n + n_parts * b->vector - 1) / (n_parts * b->vector) * b->vector);
    arg_in(b, SM_IN(grad_sqnorm, g));
    opencl_arg_scratch(b, 0);
    opencl_launch_parts(b, n_parts);
    begin(b, "grad_norm", "grad_sqnorm_sum", 0);
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
    [SM_OP_SCALER_UPDATE] = bind_scaler_update,
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
    const int64_t R = first == NULL ? 0 : sm_tensor_rows(first);
    const int64_t C = first == NULL ? 0 : sm_tensor_cols(first);
    switch (op->kind) {
    case SM_OP_EMBEDDING_BACKWARD: {
        const int64_t N = sm_tensor_elems(first);
        return (size_t)(partial_rows_at(N) + 2 * count_windows(N) * sm_tensor_cols(&plan->tensors[op->in[1]]));
    }
    case SM_OP_GRAD_SQNORM: return (size_t)count_parts(device);
    case SM_OP_ADAFACTOR: return (size_t)(count_strips(device, R, C) * C + 2 * R + 2);
    case SM_OP_BIAS_BACKWARD: return (size_t)(count_strips(device, R, C) * C);
    case SM_OP_LAYERNORM_BACKWARD:
    case SM_OP_RESIDUAL_LAYERNORM_BACKWARD: return (size_t)(layernorm_sums(op) * count_row_strips(device, R) * C);
    case SM_OP_RMSNORM_BACKWARD:
    case SM_OP_RESIDUAL_RMSNORM_BACKWARD: return (size_t)(count_row_strips(device, R) * C);
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
    SM_TRY(device->tier->rounds_products ? SM_OK : sm_plan_supports_plain_products(plan, id));
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
