// cpu_onednn_matmul.c: oneDNN's matmul primitives for one product: at most four a part, since the last panel of a
// rectangle's rows and columns may be smaller.
#include <stdlib.h>
#include <string.h>

#include "cpu_onednn.h"
#include "cpu_geometry.h"
#include "cpu_onednn_matmul.h"

#define FUNCTIONS(X)                      \
    X(engine_create)                      \
    X(stream_create)                      \
    X(stream_destroy)                     \
    X(memory_desc_init_by_strides)        \
    X(memory_desc_get_size)               \
    X(memory_create)                      \
    X(memory_destroy)                     \
    X(memory_set_data_handle)             \
    X(post_ops_create)                    \
    X(post_ops_destroy)                   \
    X(post_ops_append_sum)                \
    X(primitive_attr_create)              \
    X(primitive_attr_destroy)             \
    X(primitive_attr_set_post_ops)        \
    X(primitive_attr_set_scratchpad_mode) \
    X(matmul_desc_init)                   \
    X(primitive_desc_create)              \
    X(primitive_desc_destroy)             \
    X(primitive_desc_query)               \
    X(primitive_desc_query_md)            \
    X(primitive_create)                   \
    X(primitive_destroy)                  \
    X(primitive_execute)

#define DECLARE(name) __typeof__(dnnl_##name) *name;
static struct { FUNCTIONS(DECLARE) } dnnl;
static dnnl_engine_t engine; // the processor; kept until the program ends

// One primitive, of one part.
typedef struct {
    dnnl_primitive_t primitive; // NULL: no panel has this size
    dnnl_memory_t a, b, c, scratchpad;
} call;

typedef struct {
    cpu_onednn_cut cut;
    dnnl_stream_t stream;
    call calls[2][2]; // [fewer rows than panel_rows][fewer columns than panel_cols]
} part_calls;

struct cpu_onednn_matmul {
    int n_parts; // one a thread
    part_calls parts[];
};

typedef struct {
    cpu_geometry of;
    bool is_rounded; // the result, afterwards
    bool add;
} product;

bool cpu_onednn_matmul_load(void) {
    static bool tried = false;
    static bool loaded = false;
    if (!tried) {
        tried = true;
#define FIND(name) &&cpu_onednn_find("dnnl_" #name, &dnnl.name, sizeof dnnl.name)
        loaded = cpu_onednn_load() && cpu_onednn.version()->major == 2 FUNCTIONS(FIND) &&
                 dnnl.engine_create(&engine, dnnl_cpu, 0) == dnnl_success;
    }
    return loaded;
}

static product product_of(const host_op *op) {
    const bool is_weight = op->op->kind == SM_OP_MATMUL_BACKWARD_WEIGHT;
    return (product){cpu_geometry_of(op), !is_weight, is_weight && !op->op->attr.overwrites};
}

// --- one primitive ------------------------------------------------------------------------------

static bool describe(dnnl_memory_desc_t *memory, int64_t rows, int64_t cols, dnnl_data_type_t type, int64_t row_stride,
                     int64_t col_stride) {
    return dnnl.memory_desc_init_by_strides(memory, 2, (dnnl_dims_t){rows, cols}, type,
                                            (dnnl_dims_t){row_stride, col_stride}) == dnnl_success;
}

// The scratchpad is ours; c may be added to.
static bool make_attributes(bool add, dnnl_primitive_attr_t *attributes) {
    dnnl_post_ops_t post_ops = NULL;
    bool made = dnnl.primitive_attr_create(attributes) == dnnl_success &&
                dnnl.primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user) == dnnl_success;
    if (made && add) {
        made = dnnl.post_ops_create(&post_ops) == dnnl_success &&
               dnnl.post_ops_append_sum(post_ops, 1.0f) == dnnl_success &&
               dnnl.primitive_attr_set_post_ops(*attributes, post_ops) == dnnl_success;
        dnnl.post_ops_destroy(post_ops);
    }
    return made;
}

// The library's plain loops, which it has for every shape, are not worth trying.
static bool is_reference(dnnl_primitive_desc_t description) {
    const char *name = "";
    return dnnl.primitive_desc_query(description, dnnl_query_impl_info_str, 0, &name) != dnnl_success ||
           strncmp(name, "ref", 3) == 0;
}

static bool make_memory(dnnl_memory_t *memory, const dnnl_memory_desc_t *description) {
    return dnnl.memory_create(memory, description, engine, DNNL_MEMORY_NONE) == dnnl_success;
}

static bool make_call(const product *p, int64_t n_rows, int64_t n_cols, int64_t ld, call *to) {
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t description = NULL;
    bool made = describe(&a, n_rows, p->of.k, dnnl_bf16, p->of.a_row, p->of.a_col) &&
                describe(&b, p->of.k, n_cols, dnnl_bf16, p->of.b_row, p->of.b_col) &&
                describe(&c, n_rows, n_cols, dnnl_f32, ld, 1) &&
                dnnl.matmul_desc_init(&matmul, &a, &b, NULL, &c) == dnnl_success &&
                make_attributes(p->add, &attributes) &&
                dnnl.primitive_desc_create(&description, &matmul, attributes, engine, NULL) == dnnl_success &&
                !is_reference(description);
    if (made) {
        const dnnl_memory_desc_t *scratchpad = dnnl.primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
        made = dnnl.memory_desc_get_size(scratchpad) <= CPU_ONEDNN_SCRATCH_BYTES - CPU_ONEDNN_PANEL_BYTES &&
               dnnl.primitive_create(&to->primitive, description) == dnnl_success && make_memory(&to->a, &a) &&
               make_memory(&to->b, &b) && make_memory(&to->c, &c) && make_memory(&to->scratchpad, scratchpad);
    }
    dnnl.primitive_desc_destroy(description);
    dnnl.primitive_attr_destroy(attributes);
    return made;
}

static void free_call(call *of) {
    dnnl.memory_destroy(of->a);
    dnnl.memory_destroy(of->b);
    dnnl.memory_destroy(of->c);
    dnnl.memory_destroy(of->scratchpad);
    dnnl.primitive_destroy(of->primitive);
}

// --- one product --------------------------------------------------------------------------------

static bool make_part(const product *p, int thread, int n_threads, part_calls *to) {
    const cpu_rectangle mine = cpu_rectangle_of(p->of.m, p->of.n, thread, n_threads);
    const int64_t n_rows = mine.rows.end - mine.rows.first;
    const int64_t n_cols = mine.cols.end - mine.cols.first;
    to->cut.mine = mine;
    if (n_rows <= 0 || n_cols <= 0) {
        to->cut.mine.rows.end = mine.rows.first;
        return true;
    }
    to->cut.panel_rows = p->is_rounded ? cpu_min64(n_rows, CPU_ONEDNN_PANEL_ROWS) : n_rows;
    to->cut.panel_cols = p->is_rounded ? cpu_min64(n_cols, CPU_ONEDNN_PANEL_COLS) : n_cols;
    const int64_t ld = p->is_rounded ? to->cut.panel_cols : p->of.n;
    const int64_t rows[2] = {to->cut.panel_rows, n_rows % to->cut.panel_rows};
    const int64_t cols[2] = {to->cut.panel_cols, n_cols % to->cut.panel_cols};
    bool made = dnnl.stream_create(&to->stream, engine, dnnl_stream_default_flags) == dnnl_success;
    for (int i = 0; i < 4; i++) {
        if (made && rows[i / 2] > 0 && cols[i % 2] > 0) {
            made = make_call(p, rows[i / 2], cols[i % 2], ld, &to->calls[i / 2][i % 2]);
        }
    }
    return made;
}

cpu_onednn_matmul *cpu_onednn_matmul_make(const host_op *op, int n_threads) {
    const product p = product_of(op);
    bool made = cpu_onednn_matmul_load();
    cpu_onednn_matmul *matmul = made ? calloc(1, sizeof *matmul + (size_t)n_threads * sizeof matmul->parts[0]) : NULL;
    if (matmul == NULL) {
        return NULL;
    }
    matmul->n_parts = n_threads;
#pragma omp parallel num_threads(n_threads) reduction(&& : made) // a primitive is made for as many threads as there are
    {
        cpu_onednn_one_thread();
        for (int i = omp_get_thread_num(); i < n_threads; i += omp_get_num_threads()) {
            made = made && make_part(&p, i, n_threads, &matmul->parts[i]);
        }
    }
    if (!made) {
        cpu_onednn_matmul_free(matmul);
        return NULL;
    }
    return matmul;
}

void cpu_onednn_matmul_free(cpu_onednn_matmul *matmul) {
    for (int i = 0; matmul != NULL && i < matmul->n_parts; i++) {
        for (int c = 0; c < 4; c++) {
            free_call(&matmul->parts[i].calls[c / 2][c % 2]);
        }
        dnnl.stream_destroy(matmul->parts[i].stream);
    }
    free(matmul);
}

cpu_onednn_cut cpu_onednn_matmul_cut(const cpu_onednn_matmul *matmul, int part) { return matmul->parts[part].cut; }

int cpu_onednn_matmul_n_parts(const cpu_onednn_matmul *matmul) { return matmul->n_parts; }

void cpu_onednn_matmul_run(const cpu_onednn_matmul *matmul, int part, int64_t n_rows, int64_t n_cols, const void *a,
                           const void *b, float *c, void *scratch) {
    const part_calls *mine = &matmul->parts[part];
    const call *by = &mine->calls[n_rows < mine->cut.panel_rows][n_cols < mine->cut.panel_cols];
    const dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_SRC, by->a}, {DNNL_ARG_WEIGHTS, by->b}, {DNNL_ARG_DST, by->c}, {DNNL_ARG_SCRATCHPAD, by->scratchpad}};
    cpu_onednn_one_thread();
    dnnl.memory_set_data_handle(by->a, (void *)(uintptr_t)a); // is only read
    dnnl.memory_set_data_handle(by->b, (void *)(uintptr_t)b);
    dnnl.memory_set_data_handle(by->c, c);
    dnnl.memory_set_data_handle(by->scratchpad, (char *)scratch + CPU_ONEDNN_PANEL_BYTES);
    dnnl.primitive_execute(by->primitive, mine->stream, sizeof arguments / sizeof arguments[0], arguments);
}
