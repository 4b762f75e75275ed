// bind.c: launches each kind of op: by a rule if that suffices, otherwise by a binder: the model's here, the
// optimizer's in optimizer.c, products and attention in product.c. Operands are in the order of op_table.h, arguments
// in that of the kernel in cl/STEM.cl.
#include <math.h>

#include "backends/opencl/binders/binders.h"

#include "philox.h"

static void bind_dropout(opencl_binder *b) {
    const int64_t n = sm_tensor_elems(out(b, SM_OUT(dropout, y)));
    opencl_begin_rows(b, "dropout", "dropout", 0);
    OPENCL_ARGS(b, arg_count(n), arg_ulong(b->op->attr.rng_key), arg_uint(sm_dropout_threshold(b->op->attr.dropout_p)),
                arg_float((float)(1 / (1 - b->op->attr.dropout_p))));
    opencl_arg_operands(b);
    opencl_launch_items(b, (n + 3) / 4);
}

// --- sums over rows --------------------------------------------------------------------------------

static void bind_bias_backward(opencl_binder *b) {
    opencl_sum_rows(b, b->op->in[SM_IN(bias_backward, dy)], b->op->out[SM_OUT(bias_backward, db)], true);
}

// --- norms ------------------------------------------------------------------------------------------

// The two programs of cl/norm.cl. A flag says whether the residual's sum, or dskip, is there.
static bool is_centred(const sm_op *op) {
    return op->kind == SM_OP_LAYERNORM_FORWARD || op->kind == SM_OP_LAYERNORM_BACKWARD;
}

static const char *norm_program(const sm_op *op) { return is_centred(op) ? "layernorm" : "rmsnorm"; }

static void bind_norm_forward(opencl_binder *b) {
    const sm_tensor *x = in(b, 0);
    opencl_begin_short(b, norm_program(b->op), "norm_forward", sm_tensor_cols(x));
    OPENCL_ARGS(b, arg_uint(sm_op_tensor(b->op, "add") != SM_NO_TENSOR), arg_count(sm_tensor_rows(x)),
                arg_count(sm_tensor_cols(x)), arg_float((float)b->op->attr.eps));
    opencl_arg_inputs(b);
    opencl_arg_outputs(b);
    opencl_launch_rows(b, sm_tensor_rows(x));
}

// dw alone, or dw, db and, optionally, dbias.
static int norm_sums(const sm_op *op) {
    return !is_centred(op) ? 1 : op->out[SM_OUT(layernorm_backward, dbias)] != SM_NO_TENSOR ? 3 : 2;
}

static void bind_norm_backward(opencl_binder *b) {
    const int n_sums = norm_sums(b->op);
    const int64_t N = sm_tensor_rows(in(b, 0));
    const int64_t C = sm_tensor_cols(in(b, 0));
    const int64_t n_strips = opencl_count_row_strips(b->e->device, N);
    b->e->n_norms++;
    opencl_begin_kept(b, norm_program(b->op), "norm_backward_rows", C);
    OPENCL_ARGS(b, arg_uint(sm_op_tensor(b->op, "dskip") != SM_NO_TENSOR), arg_count(N), arg_count(C),
                arg_count(n_strips));
    if (is_centred(b->op)) {
        OPENCL_ARGS(b, arg_uint((uint32_t)n_sums));
    }
    opencl_arg_inputs(b);
    OPENCL_ARGS(b, arg_out(b, 0), arg_scratch(0));
    opencl_launch_parts(b, n_strips);
    if (!is_centred(b->op)) {
        opencl_sum_strips(b, 0, n_strips, C, b->op->out[SM_OUT(rmsnorm_backward, dw)], true);
        return;
    }
    opencl_begin_kept(b, "layernorm", "norm_backward_sum", C);
    OPENCL_ARGS(b, arg_count(n_strips), arg_count(C), arg_uint((uint32_t)n_sums), arg_scratch(0),
                arg_out(b, SM_OUT(layernorm_backward, dw)), arg_out(b, SM_OUT(layernorm_backward, db)),
                arg_out(b, SM_OUT(layernorm_backward, dbias)));
    opencl_launch_lanes(b, C, n_sums, SUM_LANES);
}

// A head is a row of HS channels.
static void begin_head_rmsnorm(opencl_binder *b, int64_t HS, const sm_tensor *x) {
    const sm_attrs *attr = &b->op->attr;
    OPENCL_ARGS(b, arg_count(sm_tensor_rows(x)), arg_count(HS), arg_uint((uint32_t)attr->n_head),
                arg_uint((uint32_t)attr->n_kv_head));
}

static void bind_head_rmsnorm_forward(opencl_binder *b) {
    const sm_tensor *x = in(b, SM_IN(head_rmsnorm_forward, x));
    const int64_t HS = sm_tensor_elems(in(b, SM_IN(head_rmsnorm_forward, wq)));
    opencl_begin_several(b, "head_rmsnorm", "head_rmsnorm_forward", HS);
    begin_head_rmsnorm(b, HS, x);
    OPENCL_ARGS(b, arg_float((float)b->op->attr.eps));
    opencl_arg_operands(b);
    opencl_launch_rows(b, sm_tensor_elems(x) / HS);
}

// Parts of the rows: of each, a sum for q and one for k. On cards its rows are many work-items'.
static int64_t count_head_parts(const opencl_device *device, int64_t N) {
    return (device->sizes.row_items > 1 ? 2 : 1) * opencl_count_row_strips(device, N);
}

static void bind_head_rmsnorm_backward(opencl_binder *b) {
    const sm_tensor *x = in(b, SM_IN(head_rmsnorm_backward, x));
    const int64_t HS = sm_tensor_elems(in(b, SM_IN(head_rmsnorm_backward, wq)));
    const int64_t n_parts = count_head_parts(b->e->device, sm_tensor_rows(x));
    opencl_begin_several(b, "head_rmsnorm", "head_rmsnorm_backward_rows", HS);
    begin_head_rmsnorm(b, HS, x);
    const int64_t n_strips = n_parts * b->group_rows;
    OPENCL_ARGS(b, arg_count(n_strips));
    opencl_arg_inputs(b);
    OPENCL_ARGS(b, arg_out(b, SM_OUT(head_rmsnorm_backward, dx)), arg_scratch(0));
    opencl_launch_parts(b, n_strips);
    opencl_sum_strips(b, 0, n_parts, HS, b->op->out[SM_OUT(head_rmsnorm_backward, dwq)], true);
    opencl_sum_strips(b, n_parts * HS, n_parts, HS, b->op->out[SM_OUT(head_rmsnorm_backward, dwk)], true);
}

// --- rope ----------------------------------------------------------------------------------

// An item for each pair of a head's channels and each token. Angles: cl/rope.cl.
static void bind_rope(opencl_binder *b) {
    enum { ITEMS = 32 };
    const sm_attrs *attr = &b->op->attr;
    const sm_tensor *x = in(b, SM_IN(rope, x));
    const int64_t half_size = x->dims[2] / (attr->n_head + 2 * attr->n_kv_head) / 2;
    const double growth = 1 / 6.283185307179586477;
    const double ratio = pow(attr->rope_theta, -1 / (double)half_size);
    opencl_begin_rows(b, "rope", "rope", 0);
    OPENCL_ARGS(b, arg_count(sm_tensor_rows(x)), arg_count(x->dims[1]), arg_uint((uint32_t)half_size),
                arg_uint((uint32_t)(attr->n_head + attr->n_kv_head)), arg_uint((uint32_t)attr->n_kv_head),
                arg_uint(attr->inverse), arg_ulong((uint64_t)(growth * 0x1p64)),
                arg_ulong(ratio < 1 ? (uint64_t)(ratio * 0x1p64) : UINT64_MAX),
                arg_uint(b->op->in[SM_IN(rope, starts)] != SM_NO_TENSOR));
    opencl_arg_inputs(b);
    opencl_arg_outputs(b);
    opencl_launch_groups(b, (half_size + ITEMS - 1) / ITEMS, sm_tensor_rows(x), ITEMS);
}

// --- embedding --------------------------------------------------------------------------------------

static void bind_embedding_forward(opencl_binder *b) {
    const int64_t N = sm_tensor_elems(in(b, SM_IN(embedding_forward, token)));
    const int64_t C = sm_tensor_cols(out(b, SM_OUT(embedding_forward, x)));
    opencl_begin_rows(b, "embedding", "embedding_forward", C);
    OPENCL_ARGS(b, arg_uint(b->op->in[SM_IN(embedding_forward, wpe)] != SM_NO_TENSOR),
                arg_uint(b->op->in[SM_IN(embedding_forward, starts)] != SM_NO_TENSOR), arg_count(N),
                arg_count(in(b, SM_IN(embedding_forward, token))->dims[1]), arg_count(C));
    opencl_arg_inputs(b);
    opencl_arg_outputs(b);
    opencl_launch_grid(b, C, N);
}

// Sorts ids, with the tokens' indices, in scratch: in blocks, then, 2 N elements further, all of them. Ids are token
// ids, or positions, which are stored in scratch after the sorted ones.
static void sort_ids(opencl_binder *b, int64_t N, size_t positions_at) {
    enum { BLOCK = 256, GROUP = 128, LANES = 16 }; // of cl/embedding.cl
    const int lanes = b->e->device->sizes.row_items == 1 ? 1 : LANES;
    opencl_begin_rows(b, "embedding", "embedding_backward_sort", 0);
    OPENCL_ARGS(b, arg_count(N));
    if (positions_at == 0) {
        OPENCL_ARGS(b, arg_in(b, SM_IN(embedding_backward, token)));
    } else {
        OPENCL_ARGS(b, arg_scratch(positions_at));
    }
    OPENCL_ARGS(b, arg_scratch(0));
    opencl_launch_groups(b, (N + BLOCK - 1) / BLOCK, 1, GROUP);
    opencl_begin_rows(b, "embedding", "embedding_backward_merge", 0);
    OPENCL_ARGS(b, arg_count(N), arg_scratch(0), arg_scratch(2 * (size_t)N));
    opencl_launch_tiles(b, N, lanes, (size_t)(GROUP / lanes), (size_t)lanes);
}

// The number of windows of sorted tokens, each summed by one item, and the place of sums that go beyond a window.
static int64_t count_windows(int64_t N) {
    enum { ROWS = 16 }; // of cl/embedding.cl
    return (N + ROWS - 1) / ROWS;
}

static int64_t partial_rows_at(int64_t N) { return (4 * N + 15) / 16 * 16; }

// Offset in scratch of N tokens' positions, after the sums.
static int64_t positions_at(int64_t N, int64_t C) { return partial_rows_at(N) + 2 * count_windows(N) * C; }

// Adds rows of dx to those of output `table`, in the order of the sorted ids.
static void add_sorted_rows(opencl_binder *b, int64_t N, int64_t C, int table) {
    enum { RUN_LANES = 8 };
    opencl_begin_rows(b, "embedding", "embedding_backward_rows", C);
    OPENCL_ARGS(b, arg_count(N), arg_count(C), arg_scratch(2 * (size_t)N), arg_in(b, SM_IN(embedding_backward, dx)),
                arg_out(b, table), arg_scratch((size_t)partial_rows_at(N)));
    opencl_launch_grid(b, C, count_windows(N));
    opencl_begin_rows(b, "embedding", "embedding_backward_runs", C);
    OPENCL_ARGS(b, arg_count(N), arg_count(C), arg_scratch(2 * (size_t)N), arg_scratch((size_t)partial_rows_at(N)),
                arg_out(b, table));
    opencl_launch_lanes(b, C, count_windows(N), RUN_LANES);
}

static void bind_positions_backward(opencl_binder *b, int64_t B, int64_t T, int64_t C) {
    if (b->op->in[SM_IN(embedding_backward, starts)] != SM_NO_TENSOR) {
        opencl_begin_rows(b, "embedding", "embedding_backward_positions", 0);
        OPENCL_ARGS(b, arg_count(B * T), arg_count(T), arg_in(b, SM_IN(embedding_backward, starts)),
                    arg_scratch((size_t)positions_at(B * T, C)));
        opencl_launch_items(b, B * T);
        sort_ids(b, B * T, (size_t)positions_at(B * T, C));
        add_sorted_rows(b, B * T, C, SM_OUT(embedding_backward, dwpe));
        return;
    }
    opencl_begin_rows(b, "embedding", "embedding_backward_wpe", C);
    OPENCL_ARGS(b, arg_count(B), arg_count(T), arg_count(C), arg_in(b, SM_IN(embedding_backward, dx)),
                arg_out(b, SM_OUT(embedding_backward, dwpe)));
    opencl_launch_grid(b, C, T);
}

static void bind_embedding_backward(opencl_binder *b) {
    const int64_t B = in(b, SM_IN(embedding_backward, token))->dims[0];
    const int64_t T = in(b, SM_IN(embedding_backward, token))->dims[1];
    const int64_t C = sm_tensor_cols(in(b, SM_IN(embedding_backward, dx)));
    sort_ids(b, B * T, 0);
    add_sorted_rows(b, B * T, C, SM_OUT(embedding_backward, dwte));
    if (b->op->out[SM_OUT(embedding_backward, dwpe)] != SM_NO_TENSOR) {
        bind_positions_backward(b, B, T, C);
    }
}

// --- loss ----------------------------------------------------------------------------------------------

// All kinds: N, V, Vp, then the operands, logits first.
static void bind_crossentropy(opencl_binder *b) {
    const sm_tensor *logits = in(b, SM_IN(crossentropy_forward, logits));
    if (b->op->kind == SM_OP_CROSSENTROPY_WITH_GRADIENT) {
        opencl_begin_twice(b, "loss", sm_op_name(b->op->kind), sm_tensor_cols(logits));
    } else {
        opencl_begin_rows(b, "loss", sm_op_name(b->op->kind), sm_tensor_cols(logits));
    }
    OPENCL_ARGS(b, arg_count(sm_tensor_rows(logits)), arg_count(b->op->attr.vocab), arg_count(sm_tensor_cols(logits)));
    opencl_arg_operands(b);
    opencl_launch_rows(b, sm_tensor_rows(logits));
}

static void bind_loss_mean(opencl_binder *b) { opencl_launch_one_row(b, "loss", "loss_mean", true); }

static void bind_loss_scale(opencl_binder *b) {
    opencl_launch_one_row(b, "loss", "loss_scale", true);
    if (b->op->in[SM_IN(loss_scale, scaler)] != SM_NO_TENSOR) {
        opencl_begin(b, "scaler", "", "scale_loss");
        OPENCL_ARGS(b, arg_in(b, SM_IN(loss_scale, scaler)), arg_out(b, SM_OUT(loss_scale, scale)));
        opencl_launch_items(b, 1);
    }
}

// --- the table -----------------------------------------------------------------------------------------

static void (*const binders[SM_OP_KIND_COUNT])(opencl_binder *) = {
    [SM_OP_LOSS_SCALE] = bind_loss_scale,
    [SM_OP_EMBEDDING_FORWARD] = bind_embedding_forward,
    [SM_OP_EMBEDDING_BACKWARD] = bind_embedding_backward,
    [SM_OP_DROPOUT] = bind_dropout,
    [SM_OP_LAYERNORM_FORWARD] = bind_norm_forward,
    [SM_OP_LAYERNORM_BACKWARD] = bind_norm_backward,
    [SM_OP_MATMUL_FORWARD] = opencl_bind_matmul,
    [SM_OP_MATMUL_BACKWARD_INPUT] = opencl_bind_matmul,
    [SM_OP_MATMUL_BACKWARD_WEIGHT] = opencl_bind_matmul,
    [SM_OP_BIAS_BACKWARD] = bind_bias_backward,
    [SM_OP_ATTENTION_FORWARD] = opencl_bind_attention,
    [SM_OP_ATTENTION_BACKWARD] = opencl_bind_attention,
    [SM_OP_RMSNORM_FORWARD] = bind_norm_forward,
    [SM_OP_RMSNORM_BACKWARD] = bind_norm_backward,
    [SM_OP_HEAD_RMSNORM_FORWARD] = bind_head_rmsnorm_forward,
    [SM_OP_HEAD_RMSNORM_BACKWARD] = bind_head_rmsnorm_backward,
    [SM_OP_ROPE] = bind_rope,
    [SM_OP_CROSSENTROPY_FORWARD] = bind_crossentropy,
    [SM_OP_CROSSENTROPY_BACKWARD] = bind_crossentropy,
    [SM_OP_CROSSENTROPY_WITH_GRADIENT] = bind_crossentropy,
    [SM_OP_LOSS_MEAN] = bind_loss_mean,
    [SM_OP_GRAD_SQNORM] = opencl_bind_grad_sqnorm,
    [SM_OP_GRAD_CLIP] = opencl_bind_grad_clip,
    [SM_OP_SCALER_UPDATE] = opencl_bind_scaler_update,
    [SM_OP_CAST_FP8] = opencl_bind_cast_fp8,
    [SM_OP_ADAMW8BIT] = opencl_bind_adamw8bit,
    [SM_OP_ADAFACTOR] = opencl_bind_adafactor,
    [SM_OP_ADAFACTOR_VECTOR] = opencl_bind_adafactor_vector,
    [SM_OP_FLASH_ATTENTION_FORWARD] = opencl_bind_attention,
    [SM_OP_FLASH_ATTENTION_BACKWARD] = opencl_bind_attention,
};

// --- the rule -------------------------------------------------------------------------------------------

// An op without a binder is one launch. The kernel has the op's name, and its file that name's first word; its
// parameters are the size of an operand, n or rows and columns, then attributes, operands, and optional operands, in
// the order of their tables; and it has an item for each vec of that operand.

enum { STEM_SIZE = 32 };

// Exceptions to these names.
static const struct {
    const char *stem, *kernel;
} named[SM_OP_KIND_COUNT] = {
#define X(CODE, name, f, slope) \
    [SM_OP_##CODE##_FORWARD] = {.stem = "activation"}, [SM_OP_##CODE##_BACKWARD] = {.stem = "activation"},
    SM_ACTIVATION_LIST(X)
#undef X
        [SM_OP_ADAMW] = {.stem = "optimizer"},
    [SM_OP_ADAM] = {.stem = "optimizer"},
    [SM_OP_SGD] = {.stem = "optimizer"},
    [SM_OP_LION] = {.stem = "optimizer"},
    [SM_OP_COMBINE] = {.stem = "muon"},
    [SM_OP_SCALE_UPDATE] = {.stem = "scaler"},
    [SM_OP_NORMALIZE] = {.stem = "muon", .kernel = "normalize_update"}, // OpenCL C has a function with that name
};

static void find_stem(sm_op_kind kind, char stem[STEM_SIZE]) {
    const char *name = named[kind].stem != NULL ? named[kind].stem : sm_op_name(kind);
    snprintf(stem, STEM_SIZE, "%.*s", (int)strcspn(name, "_"), name);
}

// The first required operand with shape (n), or with two letters, as (N,C); NULL: none.
static const sm_tensor *find_shape(const opencl_binder *b, bool is_matrix) {
    const sm_op_info *info = sm_op_get_info(b->op->kind);
    for (int i = 0; i < SM_MAX_OPERANDS; i++) {
        const sm_operand_info *o = &info->operands[i];
        if (o->name != NULL && o->flags == 0 &&
            (is_matrix ? strlen(o->shape) == strlen("(N,C)") : strcmp(o->shape, "(n)") == 0)) {
            return &b->e->base.plan->tensors[b->op->operands[i]];
        }
    }
    return NULL;
}

static void bind_by_rule(opencl_binder *b) {
    const char *name = named[b->op->kind].kernel != NULL ? named[b->op->kind].kernel : sm_op_name(b->op->kind);
    const sm_tensor *matrix = find_shape(b, true);
    const sm_tensor *line = matrix == NULL ? find_shape(b, false) : NULL;
    char stem[STEM_SIZE];
    if (matrix == NULL && line == NULL) {
        b->status = sm_fail(SM_ERR_INTERNAL, "%s: no operand is (n) or (N,C): it needs a binder", name);
        return;
    }
    const int64_t n_rows = matrix != NULL ? sm_tensor_rows(matrix) : 1;
    const int64_t n_cols = matrix != NULL ? sm_tensor_cols(matrix) : sm_tensor_elems(line);
    find_stem(b->op->kind, stem);
    opencl_begin_rows(b, stem, name, n_cols);
    if (matrix != NULL) {
        OPENCL_ARGS(b, arg_count(n_rows));
    }
    OPENCL_ARGS(b, arg_count(n_cols));
    opencl_arg_attributes(b);
    opencl_arg_operands(b);
    opencl_arg_optional(b);
    if (matrix != NULL) {
        opencl_launch_grid(b, n_cols, n_rows);
    } else {
        opencl_launch_vecs(b, n_cols);
    }
}

static size_t product_scratch_elems(const opencl_device *device, const opencl_product *p, bool in_any_way) {
    const opencl_family *family = device->family;
    char text[OPENCL_WAY_SIZE];
    size_t most = family->matmul_scratch_elems(&device->facts, p, opencl_way(device, p->plan, p));
    for (int way = 1; way < OPENCL_MOST_WAYS && in_any_way; way++) {
        const bool suits = family->matmul_way(&device->facts, p, way, text, sizeof text);
        const size_t n_elems = suits ? family->matmul_scratch_elems(&device->facts, p, way) : 0;
        most = n_elems > most ? n_elems : most;
    }
    return most;
}

size_t opencl_op_scratch_elems(const opencl_device *device, const sm_plan *plan, const sm_op *op, bool in_any_way) {
    if (device->own[op->kind] != NULL) {
        return 0;
    }
    const sm_tensor *first = op->in[0] == SM_NO_TENSOR ? NULL : &plan->tensors[op->in[0]];
    if (sm_op_is_matmul(op->kind)) {
        const opencl_product p = opencl_describe_product(plan, op);
        const size_t sums = opencl_sums_beside(device, &p) ? (size_t)opencl_sum_rows_elems(device, plan, p.summed) : 0;
        const size_t own = product_scratch_elems(device, &p, in_any_way);
        return own > sums ? own : sums;
    }
    if (sm_op_is_attention(op->kind)) {
        const opencl_attention a = opencl_describe_attention(plan, op);
        return device->family->attention_scratch_elems(&device->facts, plan, &a);
    }
    const int64_t R = first == NULL ? 0 : sm_tensor_rows(first);
    const int64_t C = first == NULL ? 0 : sm_tensor_cols(first);
    if (op->kind == SM_OP_EMBEDDING_BACKWARD) {
        const int64_t N = sm_tensor_elems(first);
        const int64_t n_positions = op->in[SM_IN(embedding_backward, starts)] == SM_NO_TENSOR ? 0 : N;
        const int dx = op->in[SM_IN(embedding_backward, dx)];
        return (size_t)(positions_at(N, sm_tensor_cols(&plan->tensors[dx])) + n_positions);
    }
    if (op->kind == SM_OP_HEAD_RMSNORM_BACKWARD) {
        const int64_t HS = sm_tensor_elems(&plan->tensors[op->in[SM_IN(head_rmsnorm_backward, wq)]]);
        return (size_t)(2 * count_head_parts(device, R) * HS);
    }
    switch (op->kind) {
    case SM_OP_GRAD_SQNORM: return (size_t)opencl_count_norm_parts(device);
    case SM_OP_ADAFACTOR: return (size_t)(opencl_count_strips(device, plan, R, C) * C + 2 * R + 2);
    case SM_OP_CAST_FP8:
        return op->out[SM_OUT(cast_fp8, db)] != SM_NO_TENSOR ? (size_t)(opencl_count_up(R, 128) * C) : 0;
    case SM_OP_BIAS_BACKWARD: return (size_t)opencl_sum_rows_elems(device, plan, op->in[0]);
    case SM_OP_LAYERNORM_BACKWARD:
    case SM_OP_RMSNORM_BACKWARD: return (size_t)(norm_sums(op) * opencl_count_row_strips(device, R) * C);
    default: return 0;
    }
}

bool opencl_op_at(const sm_plan *plan, int i, sm_op *op) {
    if (i >= plan->n_ops) {
        return sm_op_later(plan, &plan->ops[i - plan->n_ops], op);
    }
    *op = plan->ops[i];
    return true;
}

sm_status opencl_bind_op(opencl_executable *e, const sm_op *op) {
    if (sm_op_is_communication(op->kind)) { // the session runs it
        return SM_OK;
    }
    opencl_binder b = {.e = e, .op = op};
    if (e->device->own[op->kind] != NULL) {
        opencl_bind_own(&b);
    } else if (binders[op->kind] != NULL) {
        binders[op->kind](&b);
    } else {
        bind_by_rule(&b);
    }
    return b.status;
}

// Rows of bytes, and of what becomes bytes, begin at multiples of 16.
static bool has_aligned_bytes(const sm_plan *plan, const sm_op *op) {
    if (op->kind == SM_OP_CAST_FP8) {
        const sm_tensor *x = &plan->tensors[op->in[SM_IN(cast_fp8, x)]];
        return sm_tensor_rows(x) % 16 == 0 && sm_tensor_cols(x) % 16 == 0 && x->offset_bytes % 16 == 0;
    }
    const opencl_product p = op->attr.fp8 ? opencl_describe_product(plan, op) : (opencl_product){0};
    return !op->attr.fp8 || opencl_is_product_aligned(&p, 16);
}

sm_status opencl_op_supported(const opencl_device *device, const sm_plan *plan, const sm_op *op) {
    const char *id = id_of(device);
    char stem[STEM_SIZE];
    SM_FAIL_IF(plan->dtype != SM_F32 && !sm_dtype_is_narrow(plan->dtype), SM_ERR_UNSUPPORTED,
               "%s: there are no %s kernels", id, sm_dtype_name(plan->dtype));
    if (device->own[op->kind] != NULL) {
        return plan->dtype == SM_F32 ? SM_OK
                                     : sm_fail(SM_ERR_UNSUPPORTED,
                                               "%s: --kernel %s: your own kernels compute in fp32, and the plan is %s",
                                               id, sm_op_name(op->kind), sm_dtype_name(plan->dtype));
    }
    if (!opencl_family_multiplies(device, plan->products)) {
        SM_TRY(sm_plan_supports_plain_products(plan, id));
    }
    find_stem(op->kind, stem);
    SM_FAIL_IF(binders[op->kind] == NULL && opencl_find_source(stem) == NULL, SM_ERR_UNSUPPORTED,
               "%s: %s: there is no kernel", id, sm_op_name(op->kind));
    SM_FAIL_IF(!has_aligned_bytes(plan, op), SM_ERR_UNSUPPORTED,
               "%s: %s: a factor in 8 bits whose rows or columns are no multiple of 16; use bf16", id,
               sm_op_name(op->kind));
    if (sm_op_is_attention(op->kind)) {
        const opencl_attention a = opencl_describe_attention(plan, op);
        SM_FAIL_IF(a.HS > device->family->most_head_channels, SM_ERR_UNSUPPORTED,
                   "%s: heads of %lld channels; the kernels take up to %d", id, (long long)a.HS,
                   device->family->most_head_channels);
    }
    return SM_OK;
}
