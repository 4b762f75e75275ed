// test_cpu_stream.c: results that the cpu backend's kernels store bypassing the caches have the same bits as those
// stored into them: ops of many rows, of which every eighth is the same, against ops of eight rows, on every
// instruction set of this processor, in fp32 and bf16, with one and two threads.
#include "tests/support/cpu_kernel_run.h"

enum { FEW_ROWS = 8 };

// A kind's operands, a letter each: R rows of data, D rows of data of twice as many columns, w a number a column, s one
// a row, - none.
typedef struct {
    sm_op_kind kind;
    char in[SM_MAX_IN + 1], out[SM_MAX_OUT + 1];
} shape;

// By the table of op kinds; \0: none of these, as weights and heads are not.
static char letter_of(const sm_operand_info *operand, bool has_optional) {
    static const struct {
        const char *shape;
        sm_operand_type type;
        char letter;
    } letters[] = {
        {"(N,C)", SM_OPERAND_DATA, 'R'},  {"(N,F)", SM_OPERAND_DATA, 'R'}, {"(n)", SM_OPERAND_DATA, 'R'},
        {"(N,2F)", SM_OPERAND_DATA, 'D'}, {"(C)", SM_OPERAND_REAL, 'w'},   {"(N)", SM_OPERAND_REAL, 's'},
    };
    if ((operand->flags & SM_OPTIONAL) != 0 && !has_optional) {
        return '-';
    }
    for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++) {
        if (operand->type == letters[i].type && strcmp(operand->shape, letters[i].shape) == 0) {
            return letters[i].letter;
        }
    }
    return '\0';
}

static bool letters_of(const sm_operand_info *operands, int n_most, bool has_optional, char *letters) {
    for (int i = 0; i < n_most && operands[i].name != NULL; i++) {
        letters[i] = letter_of(&operands[i], has_optional);
        if (letters[i] == '\0') {
            return false;
        }
    }
    return true;
}

// False: the kind works on something else than rows, or gives none.
static bool shape_of(sm_op_kind kind, bool has_optional, shape *s) {
    const sm_op_info *info = sm_op_get_info(kind);
    *s = (shape){.kind = kind};
    return letters_of(info->in, SM_MAX_IN, has_optional, s->in) &&
           letters_of(info->out, SM_MAX_OUT, has_optional, s->out) && strchr("RD", s->out[0]) != NULL;
}

// An op and the memory that its operands have.
typedef struct {
    sm_op op;
    host_op host;
    sm_tensor in[SM_MAX_IN], out[SM_MAX_OUT];
} bound;

static sm_tensor tensor_of(char letter, sm_dtype data, int64_t rows, int64_t cols) {
    sm_tensor t = {.dtype = letter == 'R' || letter == 'D' ? data : SM_F32, .n_dims = 1};
    if (letter == 'w' || letter == 's') {
        t.dims[0] = letter == 'w' ? cols : rows;
        return t;
    }
    t.n_dims = 2;
    t.dims[0] = rows;
    t.dims[1] = letter == 'D' ? 2 * cols : cols;
    return t;
}

// Values between 1 and 2, the same for every FEW_ROWS-th row; the upper half of an f32 is a bf16.
static void *filled(const sm_tensor *t, char letter, uint32_t seed) {
    const size_t size = sm_dtype_size(t->dtype);
    const int64_t n_elems = sm_tensor_elems(t);
    const int64_t period = letter == 'w' ? n_elems : FEW_ROWS * (letter == 's' ? 1 : sm_tensor_cols(t));
    char *data = aligned_alloc(4096, ((size_t)n_elems * size + 4095) / 4096 * 4096);
    assert_non_null(data);
    for (int64_t i = 0; i < n_elems; i++) {
        const uint32_t bits = 0x3F800000u | (((uint32_t)(i % period) + seed) * 2654435761u >> 16 & 0x7Fu) << 16;
        memcpy(data + (size_t)i * size, (const char *)&bits + 4 - size, size);
    }
    return data;
}

static void bind(const shape *s, sm_dtype data, int64_t rows, int64_t cols, bound *b) {
    *b = (bound){.op = {.kind = s->kind, .attr = {.eps = 1e-5}}};
    b->host = (host_op){.op = &b->op};
    for (int k = 0; s->in[k] != '\0'; k++) {
        if (s->in[k] == '-') {
            continue;
        }
        b->in[k] = tensor_of(s->in[k], data, rows, cols);
        b->host.in_tensor[k] = &b->in[k];
        b->host.in[k] = filled(&b->in[k], s->in[k], 17u * (uint32_t)k);
    }
    for (int k = 0; s->out[k] != '\0'; k++) {
        if (s->out[k] != '-') {
            b->out[k] = tensor_of(s->out[k], data, rows, cols);
            b->host.out_tensor[k] = &b->out[k];
            b->host.out[k] = filled(&b->out[k], s->out[k], 5);
        }
    }
}

static void release(bound *b) {
    for (int k = 0; k < SM_MAX_IN; k++) {
        free(b->host.in[k]);
    }
    for (int k = 0; k < SM_MAX_OUT; k++) {
        free(b->host.out[k]);
    }
}

static void check_shape(const cpu_kernel_table *kernels, const char *isa, const shape *s, sm_dtype data, int64_t cols,
                        int n_threads) {
    const int64_t row_bytes = cols * (int64_t)sm_dtype_size(data);
    const int64_t many_rows =
        (n_threads * (int64_t)cpu_topology_level2_bytes() / 2 / row_bytes / FEW_ROWS + 2) * FEW_ROWS;
    bound few;
    bound many;
    bind(s, data, FEW_ROWS, cols, &few);
    bind(s, data, many_rows, cols, &many);
    cpu_kernel_run_op(kernels, &few.host, 1);
    cpu_kernel_run_op(kernels, &many.host, n_threads);
    for (int k = 0; s->out[k] != '\0'; k++) {
        if (s->out[k] == 'R' || s->out[k] == 'D' || s->out[k] == 's') {
            const size_t few_bytes = sm_tensor_bytes(&few.out[k]);
            for (int64_t i = 0; i < many_rows / FEW_ROWS; i++) {
                FAIL_IF(memcmp((char *)many.host.out[k] + (size_t)i * few_bytes, few.host.out[k], few_bytes) != 0,
                        "%s, %s, output %d, %d columns, %d threads: rows from %d on", isa, sm_op_name(s->kind), k,
                        (int)cols, n_threads, (int)(i * FEW_ROWS));
            }
        }
    }
    release(&few);
    release(&many);
}

TEST(large_results_have_the_bits_of_small_ones) {
    for (size_t i = 0; i < SM_COUNT(cpu_isa_names); i++) {
        const cpu_isa *isa = NULL;
        if (cpu_isa_find(cpu_isa_names[i], &isa) != SM_OK) {
            continue;
        }
        for (int k = 0; k < 2 * SM_OP_KIND_COUNT; k++) { // each kind, without and with what is optional
            shape s;
            if (shape_of((sm_op_kind)(k / 2), k % 2 == 1, &s)) { // whole cache lines, and not
                check_shape(isa->kernels, cpu_isa_names[i], &s, SM_F32, 800, 1);
                check_shape(isa->kernels_bf16, cpu_isa_names[i], &s, SM_BF16, 800, 2);
                check_shape(isa->kernels_bf16, cpu_isa_names[i], &s, SM_BF16, 1007, 1);
            }
        }
    }
}
