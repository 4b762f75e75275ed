// op_kinds.c: the facts of a kind, from op_table.h; and the check, FLOPs and bytes of an op, from its operands.
#include "plan.h"

// FLOPs of a kind: a number for each element of an operand, or a function.
typedef struct {
    double n_each;
    bool is_output;
    int operand;
    double (*count)(const sm_plan *plan, const sm_op *op);
} op_work;

static const op_work work_of[SM_OP_KIND_COUNT]; // below

#define CHEAP true
#define KEPT  false

#define NO_ATTRS
#define HAS(attr) | 1u << SM_ATTR_##attr
#define HEADS     HAS(n_head) HAS(n_kv_head)
#define DROPS     HAS(dropout_p) HAS(rng_key)

// clang-format off
#define DATA SM_OPERAND_DATA
#define REAL SM_OPERAND_REAL
#define I32  SM_OPERAND_I32
#define U32  SM_OPERAND_U32
#define U8   SM_OPERAND_U8
#define FP8  SM_OPERAND_FP8

static const sm_op_info op_kinds[SM_OP_KIND_COUNT] = {
#define ROW(code, its_name, inplace, again, its_attributes, its_equation, its_source, shared)                    \
    [code] = {.name = #its_name, .equation = its_equation, .source = its_source, .inplace_in = inplace,          \
              .attributes = 0 its_attributes, .is_cheap = again, .is_shared = shared, .in = {
#define OP(code, name, inplace, work, again, call, look, attributes, equation, source) \
    ROW(code, name, inplace, again, attributes, equation, source, false)
#define SHARED_OP(code, name, inplace, work, again, attributes, equation, source) \
    ROW(code, name, inplace, again, attributes, equation, source, true)
#define IN(operand, shape, type, flags)        {#operand, shape, type, SM_WRITES, flags},
#define END                                    {0}}},
#include "op_table.h"
#define OP(code, ...)                          [code].out = {
#define OUT(operand, shape, type, mode, flags) {#operand, shape, type, mode, flags},
#define END                                    },
#include "op_table.h"
};
// clang-format on

const sm_op_info *sm_op_get_info(sm_op_kind kind) { return &op_kinds[kind]; }

const char *sm_op_name(sm_op_kind kind) { return op_kinds[kind].name; }

static int find_operand(const sm_operand_info *list, int n_most, const char *name) {
    for (int i = 0; i < n_most && list[i].name != NULL; i++) {
        if (strcmp(list[i].name, name) == 0) {
            return i;
        }
    }
    return SM_NO_OPERAND;
}

int sm_op_find_in(sm_op_kind kind, const char *name) { return find_operand(op_kinds[kind].in, SM_MAX_IN, name); }

int sm_op_find_out(sm_op_kind kind, const char *name) { return find_operand(op_kinds[kind].out, SM_MAX_OUT, name); }

int sm_op_inplace_out(const sm_op_info *info) {
    for (int i = 0; i < SM_MAX_OUT; i++) {
        if (info->out[i].flags & SM_INPLACE) {
            return i;
        }
    }
    return 0;
}

int sm_op_tensor(const sm_op *op, const char *name) {
    const int in = sm_op_find_in(op->kind, name);
    const int out = sm_op_find_out(op->kind, name);
    return in != SM_NO_OPERAND ? op->in[in] : out != SM_NO_OPERAND ? op->out[out] : SM_NO_TENSOR;
}

// Whether a clause, "dbias += ...", is of an output that the op leaves out.
static bool is_left_out(const sm_op *op, const char *clause) {
    const sm_op_info *info = sm_op_get_info(op->kind);
    for (int i = 0; i < SM_MAX_OUT && info->out[i].name != NULL; i++) {
        const size_t length = strlen(info->out[i].name);
        if (op->out[i] == SM_NO_TENSOR && strncmp(clause, info->out[i].name, length) == 0 && clause[length] == ' ') {
            return true;
        }
    }
    return false;
}

void sm_op_equation(const sm_op *op, char text[SM_EQUATION_SIZE]) {
    static const char divider[] = ";  ";
    text[0] = '\0';
    for (const char *clause = sm_op_get_info(op->kind)->equation; clause != NULL;) {
        const char *end = strstr(clause, divider);
        const int length = (int)(end != NULL ? (size_t)(end - clause) : strlen(clause));
        if (!is_left_out(op, clause)) {
            sm_append(text, SM_EQUATION_SIZE, "%s%.*s", text[0] != '\0' ? divider : "", length, clause);
        }
        clause = end != NULL ? end + sizeof divider - 1 : NULL;
    }
}

const sm_activation_info *sm_activation_get_info(sm_activation activation) {
    static const sm_activation_info activations[] = {
#define X(CODE, name, f, slope) \
    {#name, SM_OP_##CODE##_FORWARD, SM_OP_##CODE##_BACKWARD, SM_EPILOGUE_##CODE, SM_EPILOGUE_##CODE##_BACKWARD},
        SM_ACTIVATION_LIST(X)
#undef X
    };
    return &activations[activation];
}

sm_activation sm_epilogue_activation(unsigned epilogue) {
    sm_activation found = 0;
    for (sm_activation a = 0; a < SM_ACTIVATION_COUNT; a++) {
        const sm_activation_info *info = sm_activation_get_info(a);
        found = epilogue & (info->epilogue | info->epilogue_backward) ? a : found;
    }
    return found;
}

bool sm_op_is_matmul(sm_op_kind kind) {
    return kind == SM_OP_MATMUL_FORWARD || kind == SM_OP_MATMUL_BACKWARD_INPUT || kind == SM_OP_MATMUL_BACKWARD_WEIGHT;
}

bool sm_op_is_attention(sm_op_kind kind) {
    return sm_op_is_attention_forward(kind) || kind == SM_OP_ATTENTION_BACKWARD ||
           kind == SM_OP_FLASH_ATTENTION_BACKWARD;
}

bool sm_op_is_attention_forward(sm_op_kind kind) {
    return kind == SM_OP_ATTENTION_FORWARD || kind == SM_OP_FLASH_ATTENTION_FORWARD;
}

bool sm_op_is_communication(sm_op_kind kind) { return op_kinds[kind].is_shared; }

bool sm_op_has_attr(sm_op_kind kind, sm_attr attr) { return (op_kinds[kind].attributes >> attr & 1u) != 0; }

bool sm_operand_is_transposed(const sm_operand_info *operand, const sm_attrs *attr) {
    return (attr->w_transposed && (operand->flags & SM_TRANSPOSABLE) != 0) ||
           (attr->fp8 && (operand->flags & SM_TURNABLE) != 0);
}

// --- check ---------------------------------------------------------------------------

enum { MAX_LETTERS = 16 };

typedef struct {
    char name[8];
    int64_t value;
} letter;

typedef struct {
    letter letters[MAX_LETTERS];
    int n;
} binding;

bool sm_shape_next(const char **shape, sm_shape_dim *dim) {
    char *letters;
    if (**shape == '\0' || **shape == ')') {
        return false;
    }
    const char *text = *shape + 1;
    const int64_t factor = strtoll(text, &letters, 10);
    *dim = (sm_shape_dim){letters, strcspn(letters, "/,)"), letters == text ? 1 : factor, 1};
    *shape = letters + dim->length;
    if (**shape == '/') {
        dim->block = strtoll(*shape + 1, &letters, 10);
        *shape = letters;
    }
    return true;
}

// Binds a dimension to its value; false if it contradicts. An earlier operand binds the letter before a slash.
static bool bind_dim(binding *bound, const sm_shape_dim *dim, int64_t value) {
    if (dim->length == 0 || value % dim->factor != 0) {
        return value == dim->factor;
    }
    value /= dim->factor;
    for (const letter *l = bound->letters; l < bound->letters + bound->n; l++) {
        if (strlen(l->name) == dim->length && memcmp(l->name, dim->letters, dim->length) == 0) {
            return (l->value + dim->block - 1) / dim->block == value;
        }
    }
    if (dim->block > 1) {
        return false;
    }
    letter *fresh = &bound->letters[bound->n++];
    snprintf(fresh->name, sizeof fresh->name, "%.*s", (int)dim->length, dim->letters);
    fresh->value = value;
    return true;
}

// Matches a tensor against a shape text; `swap` exchanges a two-letter shape's letters.
static bool bind_shape(binding *bound, const char *shape, const sm_tensor *t, bool swap) {
    sm_shape_dim dims[SM_MAX_DIMS];
    int n = 0;
    while (n < SM_MAX_DIMS && sm_shape_next(&shape, &dims[n])) {
        n++;
    }
    if (n == 1) {
        return bind_dim(bound, &dims[0], sm_tensor_elems(t));
    }
    if (n == 2) {
        return bind_dim(bound, &dims[swap], sm_tensor_rows(t)) && bind_dim(bound, &dims[!swap], sm_tensor_cols(t));
    }
    bool fits = n == t->n_dims;
    for (int i = 0; i < n && fits; i++) {
        fits = bind_dim(bound, &dims[i], t->dims[i]);
    }
    return fits;
}

sm_dtype sm_plan_operand_dtype(const sm_plan *plan, sm_operand_type type) {
    switch (type) {
    case SM_OPERAND_DATA: return plan->dtype;
    case SM_OPERAND_REAL: return plan->real;
    case SM_OPERAND_I32: return SM_I32;
    case SM_OPERAND_U32: return SM_U32;
    case SM_OPERAND_U8: return SM_U8;
    case SM_OPERAND_FP8: return SM_E4M3;
    }
    return plan->real;
}

static sm_status check_operand(const sm_plan *plan, const sm_op *op, const sm_operand_info *operand, int tensor,
                               binding *bound) {
    const char *kind = sm_op_name(op->kind);
    if (tensor == SM_NO_TENSOR) {
        return operand->flags & SM_OPTIONAL
                   ? SM_OK
                   : sm_fail(SM_ERR_INTERNAL, "%s: operand %s is missing", kind, operand->name);
    }
    SM_FAIL_IF(tensor < 0 || tensor >= plan->n_tensors, SM_ERR_INTERNAL, "%s: operand %s: no tensor %d", kind,
               operand->name, tensor);
    const sm_tensor *t = &plan->tensors[tensor];
    const bool is_fp8 = operand->flags & SM_FACTOR && op->attr.fp8;
    sm_dtype dtype = sm_plan_operand_dtype(plan, is_fp8 ? SM_OPERAND_FP8 : operand->type);
    dtype = dtype == SM_E4M3 && t->dtype == SM_E5M2 ? SM_E5M2 : dtype;
    SM_FAIL_IF(t->dtype != dtype, SM_ERR_INTERNAL, "%s: operand %s: %s is %s, not %s", kind, operand->name, t->name,
               sm_dtype_name(t->dtype), sm_dtype_name(dtype));
    SM_FAIL_IF(!bind_shape(bound, operand->shape, t, sm_operand_is_transposed(operand, &op->attr)), SM_ERR_INTERNAL,
               "%s: operand %s: the shape of %s does not fit %s", kind, operand->name, t->name, operand->shape);
    return SM_OK;
}

// Value of a letter; 0 if the op has no such dimension.
static int64_t value_of(const binding *bound, const char *name) {
    for (int i = 0; i < bound->n; i++) {
        if (strcmp(bound->letters[i].name, name) == 0) {
            return bound->letters[i].value;
        }
    }
    return 0;
}

// Checks the heads in the shapes against the attributes.
static sm_status check_heads(const char *kind, const binding *bound, const sm_attrs *attr) {
    const int64_t C = value_of(bound, "C");
    const int64_t NH = value_of(bound, "NH");
    const int64_t QKV = value_of(bound, "QKV");
    const int64_t n_heads = (int64_t)attr->n_head + 2 * (int64_t)attr->n_kv_head;
    SM_FAIL_IF(attr->n_head > 0 && C % attr->n_head != 0, SM_ERR_INVALID,
               "%s: %lld channels do not divide into %d heads", kind, (long long)C, attr->n_head);
    SM_FAIL_IF(NH > 0 && NH != attr->n_head, SM_ERR_INTERNAL, "%s: %lld heads in the shape, %d in the attributes", kind,
               (long long)NH, attr->n_head);
    SM_FAIL_IF(QKV > 0 && (attr->n_head < 1 || attr->n_kv_head < 1 || attr->n_head % attr->n_kv_head != 0 ||
                           QKV % n_heads != 0 || (C > 0 && QKV / n_heads != C / attr->n_head)),
               SM_ERR_INTERNAL, "%s: %lld channels of q, k and v are not those of %d heads with %d of k and v", kind,
               (long long)QKV, attr->n_head, attr->n_kv_head);
    const int64_t HS = value_of(bound, "HS");
    const int64_t NQK = value_of(bound, "NQK");
    SM_FAIL_IF((HS > 0 && HS != QKV / n_heads) || (NQK > 0 && NQK != (int64_t)attr->n_head + attr->n_kv_head),
               SM_ERR_INTERNAL, "%s: %lld channels a head and %lld heads of q and k do not make %lld of all", kind,
               (long long)HS, (long long)NQK, (long long)QKV);
    SM_FAIL_IF(attr->rope_theta > 0 && QKV / n_heads % 2 != 0, SM_ERR_INTERNAL,
               "%s: heads of %lld channels have no halves", kind, (long long)(QKV / n_heads));
    return SM_OK;
}

sm_status sm_op_check(const sm_plan *plan, const sm_op *op) {
    const sm_op_info *info = sm_op_get_info(op->kind);
    binding bound = {.n = 0};
    // An op may set only attributes of its kind: walk, the cases of verify and users' kernels know no others.
    for (sm_attr attr = 0; attr < SM_ATTR_COUNT; attr++) {
        const bool is_of_any = attr == SM_ATTR_recomputed;
        SM_FAIL_IF(!is_of_any && !sm_op_has_attr(op->kind, attr) && sm_attr_get(&op->attr, attr) != 0, SM_ERR_INTERNAL,
                   "%s: attribute %s is set, and its row of op_table.h has none", sm_op_name(op->kind),
                   sm_attr_get_info(attr)->name);
    }
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        if (info->operands[k].name != NULL) {
            SM_TRY(check_operand(plan, op, &info->operands[k], op->operands[k], &bound));
        }
    }
    const int scales[] = {sm_op_tensor(op, "x_scale"), sm_op_tensor(op, "W_scale"), sm_op_tensor(op, "dy_scale")};
    const int n_scales = (scales[0] != SM_NO_TENSOR) + (scales[1] != SM_NO_TENSOR) + (scales[2] != SM_NO_TENSOR);
    SM_FAIL_IF(n_scales != (op->attr.fp8 ? 2 : 0), SM_ERR_INTERNAL, "%s: %d scales of factors", info->name, n_scales);
    SM_FAIL_IF(op->attr.fp8 && sm_op_tensor(op, "db") != SM_NO_TENSOR, SM_ERR_INTERNAL,
               "%s: the gradient of a bias is no sum of bytes", info->name);
    return check_heads(info->name, &bound, &op->attr);
}

int64_t sm_op_dimension(const sm_plan *plan, const sm_op *op, const char *name) {
    const sm_op_info *info = sm_op_get_info(op->kind);
    binding bound = {.n = 0};
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        const sm_operand_info *operand = &info->operands[k];
        if (operand->name != NULL && op->operands[k] != SM_NO_TENSOR) {
            bind_shape(&bound, operand->shape, &plan->tensors[op->operands[k]],
                       sm_operand_is_transposed(operand, &op->attr));
        }
    }
    return value_of(&bound, name);
}

// --- FLOPs and bytes ------------------------------------------------------------------
// Counts only work that the equation needs: attention over s <= t, the head over V columns, no recomputation.

#define COUNTED_BY(what) static double flops_of_##what(SM_UNUSED const sm_plan *plan, SM_UNUSED const sm_op *op)

static const sm_tensor *input(const sm_plan *plan, const sm_op *op, int i) { return &plan->tensors[op->in[i]]; }
static const sm_tensor *output(const sm_plan *plan, const sm_op *op, int i) { return &plan->tensors[op->out[i]]; }
static double elems(const sm_tensor *t) { return (double)sm_tensor_elems(t); }

// x and y of the linear layer, or their gradients: these two contain all dimensions of the product.
static double matmul_flops(const sm_op *op, const sm_tensor *x, const sm_tensor *y) {
    const bool is_turned = op->attr.fp8 && op->kind == SM_OP_MATMUL_BACKWARD_WEIGHT;
    double n_columns =
        op->attr.vocab > 0 ? (double)op->attr.vocab : (double)(is_turned ? sm_tensor_rows(y) : sm_tensor_cols(y));
    double flops = 2.0 * elems(x) * n_columns;
    if (op->attr.epilogue & SM_EPILOGUE_BIAS) {
        flops += work_of[SM_OP_BIAS_FORWARD].n_each * elems(y);
    }
    const sm_activation_info *activation = sm_activation_get_info(sm_epilogue_activation(op->attr.epilogue));
    if (op->attr.epilogue & SM_EPILOGUE_ACT) {
        flops += work_of[activation->forward].n_each * elems(y);
    }
    if (op->attr.epilogue & SM_EPILOGUE_ACT_BACKWARD) {
        flops += work_of[activation->backward].n_each * elems(x);
    }
    return flops;
}

COUNTED_BY(matmul_forward) {
    return matmul_flops(op, input(plan, op, SM_IN(matmul_forward, x)), output(plan, op, SM_OUT(matmul_forward, y)));
}

COUNTED_BY(matmul_backward_input) {
    return matmul_flops(op, output(plan, op, SM_OUT(matmul_backward_input, dx)),
                        input(plan, op, SM_IN(matmul_backward_input, dy)));
}

COUNTED_BY(matmul_backward_weight) {
    const sm_tensor *dy = input(plan, op, SM_IN(matmul_backward_weight, dy));
    const bool has_bias = op->out[SM_OUT(matmul_backward_weight, db)] != SM_NO_TENSOR;
    return matmul_flops(op, input(plan, op, SM_IN(matmul_backward_weight, x)), dy) + (has_bias ? elems(dy) : 0);
}

// n_products matmuls of (T,HS) by (HS,T) for each head, over the causal half, and `pointwise` FLOPs for each of its
// entries; with documents, over the pairs within them.
static double attention_flops(const sm_plan *plan, const sm_tensor *y, int n_head, int n_products, int pointwise) {
    double B = (double)y->dims[0];
    double T = (double)y->dims[1];
    double C = (double)y->dims[2];
    double pairs = plan->attended_pairs > 0 ? plan->attended_pairs : B * T * (T + 1) / 2;
    return pairs * (n_products * 2.0 * C + (double)pointwise * n_head);
}

COUNTED_BY(attention_forward) {
    return attention_flops(plan, output(plan, op, SM_OUT(flash_attention_forward, y)), op->attr.n_head, 2, 5);
}

COUNTED_BY(attention_backward) {
    return attention_flops(plan, input(plan, op, SM_IN(flash_attention_backward, dy)), op->attr.n_head, 4, 5);
}

// Elements of q and k in a tensor that also has v.
static double qk_elems(const sm_op *op, const sm_tensor *qkv) {
    const int NH = op->attr.n_head;
    const int NKV = op->attr.n_kv_head;
    return elems(qkv) * (NH + NKV) / (NH + 2 * NKV);
}

static double rope_elems(const sm_plan *plan, const sm_op *op) { return qk_elems(op, input(plan, op, SM_IN(rope, x))); }

COUNTED_BY(rope) { return 3 * rope_elems(plan, op); } // each pair takes 4 products and 2 sums

// FLOPs of norms for each element of x. The residual's sum and the gradient of a bias take one more.
enum { LAYERNORM_FORWARD = 8, LAYERNORM_BACKWARD = 14, RMSNORM_FORWARD = 4, RMSNORM_BACKWARD = 9 };

static double norm_flops(const sm_plan *plan, const sm_op *op, int n_each) {
    static const char *const optional[] = {"add", "dskip", "dbias"};
    for (size_t i = 0; i < SM_COUNT(optional); i++) {
        n_each += sm_op_tensor(op, optional[i]) != SM_NO_TENSOR;
    }
    return n_each * elems(input(plan, op, 0));
}

COUNTED_BY(layernorm_forward) { return norm_flops(plan, op, LAYERNORM_FORWARD); }
COUNTED_BY(layernorm_backward) { return norm_flops(plan, op, LAYERNORM_BACKWARD); }
COUNTED_BY(rmsnorm_forward) { return norm_flops(plan, op, RMSNORM_FORWARD); }
COUNTED_BY(rmsnorm_backward) { return norm_flops(plan, op, RMSNORM_BACKWARD); }

COUNTED_BY(head_rmsnorm_forward) {
    return RMSNORM_FORWARD * qk_elems(op, input(plan, op, SM_IN(head_rmsnorm_forward, x)));
}

COUNTED_BY(head_rmsnorm_backward) {
    return RMSNORM_BACKWARD * qk_elems(op, input(plan, op, SM_IN(head_rmsnorm_backward, x)));
}

COUNTED_BY(crossentropy) { // V columns
    return 4.0 * (double)sm_tensor_rows(input(plan, op, SM_IN(crossentropy_forward, logits))) * (double)op->attr.vocab;
}

COUNTED_BY(crossentropy_with_gradient) { return 2 * flops_of_crossentropy(plan, op); }

COUNTED_BY(grad_clip) { return elems(input(plan, op, SM_IN(grad_clip, sqnorm))) + 3; }

COUNTED_BY(scaler_update) { return 4; }

COUNTED_BY(cast_fp8) { // a product and a comparison, and a sum
    return (op->out[SM_OUT(cast_fp8, db)] != SM_NO_TENSOR ? 3 : 2) * elems(input(plan, op, SM_IN(cast_fp8, x)));
}

#define NO_WORK \
    { 0 }
#define EACH_IN(n, name, input) \
    { .n_each = n, .operand = SM_IN(name, input) }
#define EACH_OUT(n, name, out) \
    { .n_each = n, .is_output = true, .operand = SM_OUT(name, out) }
#define COUNTED(what) \
    { .count = flops_of_##what }

static const op_work work_of[SM_OP_KIND_COUNT] = {
#define OP(code, name, inplace, work, ...) [code] = work,
#include "op_table.h"
};

double sm_op_flops(const sm_plan *plan, const sm_op *op) {
    const op_work *work = &work_of[op->kind];
    if (op->attr.recomputed) {
        return 0;
    }
    if (work->count != NULL) {
        return work->count(plan, op);
    }
    const int i = work->operand;
    return work->n_each > 0 ? work->n_each * elems(work->is_output ? output(plan, op, i) : input(plan, op, i)) : 0;
}

bool sm_op_later(const sm_plan *plan, const sm_op *op, sm_op *later) {
    *later = *op;
    later->attr.overwrites = false;
    return op->attr.overwrites && !plan->one_micro_batch;
}

// The bytes that a process sends, and as many that it receives: (N-1)/N of the elements to sum slices, and as many
// again to distribute them (Patarasuk and Yuan 2009, the minimum).
static double communication_bytes(const sm_plan *plan, const sm_op *op) {
    const double others = op->attr.n_processes > 1 ? (op->attr.n_processes - 1.0) / op->attr.n_processes : 0;
    const double n = elems(output(plan, op, 0));
    const double elem_bytes = op->attr.is_bf16 ? 2 : (double)sm_dtype_size(plan->real);
    if (op->kind == SM_OP_ALL_GATHER_START && op->attr.from_last) { // as each but the last receives, and passes on
        return 2 * n * (double)sm_dtype_size(plan->real);
    }
    if (op->kind == SM_OP_ALL_GATHER_START) {
        const bool has_copy = op->out[SM_OUT(all_gather_start, w)] != SM_NO_TENSOR;
        return 2 * n * others * (double)sm_dtype_size(has_copy ? plan->dtype : plan->real);
    }
    if (op->kind == SM_OP_GATHER_ROWS) {
        return 2 * others *
               (double)(sm_tensor_bytes(output(plan, op, SM_OUT(gather_rows, x))) +
                        sm_tensor_bytes(output(plan, op, SM_OUT(gather_rows, token))));
    }
    return op->kind == SM_OP_ALL_REDUCE_START       ? 2 * 2 * n * others * elem_bytes
           : op->kind == SM_OP_REDUCE_SCATTER_START ? 2 * n * others * elem_bytes
           : op->kind == SM_OP_COMMUNICATION_FINISH ? 0 // it only waits
                                                    : 2 * n * (op->attr.n_processes - 1) * elem_bytes;
}

// Tables of an embedding: of tokens, and optionally of positions.
static double n_tables(int positions) { return positions == SM_NO_TENSOR ? 1 : 2; }

double sm_op_bytes(const sm_plan *plan, const sm_op *op) {
    const sm_op_info *info = sm_op_get_info(op->kind);
    double bytes = 0;
    if (sm_op_is_communication(op->kind)) {
        return communication_bytes(plan, op);
    }
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        if (op->operands[k] != SM_NO_TENSOR) {
            const bool is_once = k < SM_MAX_IN || info->operands[k].mode == SM_WRITES || op->attr.overwrites;
            bytes += (double)sm_tensor_bytes(&plan->tensors[op->operands[k]]) * (is_once ? 1 : 2);
        }
    }
    if (op->kind == SM_OP_ROPE) { // v does not move
        return 2 * rope_elems(plan, op) * (double)sm_dtype_size(plan->dtype);
    }
    // The embedding touches a row of each table for each token: forward reads it, backward reads and writes it.
    const double real_bytes = (double)sm_dtype_size(plan->real);
    if (op->kind == SM_OP_EMBEDDING_FORWARD) {
        const sm_tensor *x = output(plan, op, SM_OUT(embedding_forward, x));
        bytes = (double)sm_tensor_bytes(input(plan, op, SM_IN(embedding_forward, token))) + (double)sm_tensor_bytes(x) +
                n_tables(op->in[SM_IN(embedding_forward, wpe)]) * (double)sm_tensor_bytes(x);
    } else if (op->kind == SM_OP_EMBEDDING_BACKWARD) {
        const sm_tensor *dx = input(plan, op, SM_IN(embedding_backward, dx));
        bytes = (double)sm_tensor_bytes(input(plan, op, SM_IN(embedding_backward, token))) +
                (double)sm_tensor_bytes(dx) +
                2 * n_tables(op->out[SM_OUT(embedding_backward, dwpe)]) * elems(dx) * real_bytes;
    }
    return bytes;
}

double sm_op_mean_bytes(const sm_plan *plan, const sm_op *op, int n_accum) {
    sm_op later;
    const double first = sm_op_bytes(plan, op);
    const double rest = sm_op_later(plan, op, &later) ? sm_op_bytes(plan, &later) : first;
    return n_accum > 1 ? (first + (n_accum - 1) * rest) / n_accum : first;
}

// Facts and values of the attributes listed in op.h, by index.

// The sm_attr_type of a field, from its C type.
#define TYPE_OF(name)                   \
    _Generic(((sm_attrs *)0)->name, int \
             : SM_ATTR_INTEGER, int64_t \
             : SM_ATTR_INTEGER, sm_when \
             : SM_ATTR_INTEGER, double  \
             : SM_ATTR_REAL, bool       \
             : SM_ATTR_SWITCH, uint64_t \
             : SM_ATTR_KEY)

static const sm_attr_info infos[SM_ATTR_COUNT] = {
#define FIELD(type, name, letter, text)    [SM_ATTR_##name] = {#name, letter, text, TYPE_OF(name)},
#define EPILOGUE(code, name, letter, text) [SM_ATTR_##name] = {#name, letter, text, SM_ATTR_EPILOGUE},
    SM_ATTR_LIST(FIELD, EPILOGUE)
#undef FIELD
#undef EPILOGUE
};

const sm_attr_info *sm_attr_get_info(sm_attr attr) { return &infos[attr]; }

// clang-format off
double sm_attr_get(const sm_attrs *attrs, sm_attr attr) {
    switch (attr) {
#define FIELD(type, name, letter, text)    case SM_ATTR_##name: return (double)attrs->name;
#define EPILOGUE(code, name, letter, text) case SM_ATTR_##name: return (attrs->epilogue & (code)) != 0;
        SM_ATTR_LIST(FIELD, EPILOGUE)
#undef FIELD
#undef EPILOGUE
    case SM_ATTR_COUNT: break;
    }
    return 0;
}

void sm_attr_set(sm_attrs *attrs, sm_attr attr, double value) {
    switch (attr) {
#define FIELD(type, name, letter, text)    case SM_ATTR_##name: attrs->name = (type)value; break;
#define EPILOGUE(code, name, letter, text) \
    case SM_ATTR_##name: attrs->epilogue = value != 0 ? attrs->epilogue | (code) : attrs->epilogue & ~(code); break;
        SM_ATTR_LIST(FIELD, EPILOGUE)
#undef FIELD
#undef EPILOGUE
    case SM_ATTR_COUNT: break;
    }
}
// clang-format on
