// onednn_matmul.c: oneDNN's matmul primitives for one op: at most four for each part, since the last panel of a
// rectangle's rows and columns may be smaller.
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/common/geometry.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/onednn_matmul.h"

// --- the library's interface ---------------------------------------------------------------------

typedef struct dnnl_engine *engine_handle;
typedef struct dnnl_stream *stream_handle;
typedef struct dnnl_memory *memory_handle;
typedef struct dnnl_post_ops *post_ops_handle;
typedef struct dnnl_primitive_attr *attributes_handle;
typedef struct dnnl_primitive_desc *description_handle;
typedef struct dnnl_primitive *primitive_handle;
typedef const struct dnnl_memory_desc *layout_handle; // of an operand: shape, type and strides
typedef int64_t dims[12];

typedef struct {
    int name;
    memory_handle memory;
} argument;

enum { SUCCESS = 0, PROCESSOR = 1, IN_ORDER = 1, BF16 = 2, F32 = 3, SCRATCHPAD_IS_OURS = 1 };
enum { ASK_IMPLEMENTATION = 8, ASK_SCRATCHPAD = 136 };
enum { SOURCE = 1, DESTINATION = 17, WEIGHTS = 33, SCRATCHPAD = 80 }; // names of arguments

// In version 2 the caller keeps layouts and descriptions in structures of this size; version 3 allocates them.
enum { LAYOUT_2_BYTES = 696, MATMUL_2_BYTES = 2800 };

// X(version that has it, 0: both; name; parameters)
#define FUNCTIONS(X)                                                                                               \
    X(0, engine_create, (engine_handle *, int kind, size_t index))                                                 \
    X(0, stream_create, (stream_handle *, engine_handle, unsigned flags))                                          \
    X(0, stream_destroy, (stream_handle))                                                                          \
    X(0, memory_create, (memory_handle *, layout_handle, engine_handle, void *data))                               \
    X(0, memory_destroy, (memory_handle))                                                                          \
    X(0, memory_set_data_handle, (memory_handle, void *data))                                                      \
    X(0, post_ops_create, (post_ops_handle *))                                                                     \
    X(0, post_ops_destroy, (post_ops_handle))                                                                      \
    X(2, post_ops_append_sum_v3, (post_ops_handle, float scale, int32_t zero, int type))                           \
    X(3, post_ops_append_sum, (post_ops_handle, float scale, int32_t zero, int type))                              \
    X(0, primitive_attr_create, (attributes_handle *))                                                             \
    X(0, primitive_attr_destroy, (attributes_handle))                                                              \
    X(0, primitive_attr_set_post_ops, (attributes_handle, post_ops_handle))                                        \
    X(0, primitive_attr_set_scratchpad_mode, (attributes_handle, int mode))                                        \
    X(2, memory_desc_init_by_strides, (void *, int n_dims, const dims, int type, const dims strides))              \
    X(3, memory_desc_create_with_strides, (layout_handle *, int n_dims, const dims, int type, const dims strides)) \
    X(3, memory_desc_destroy, (layout_handle))                                                                     \
    X(2, matmul_desc_init, (void *, layout_handle a, layout_handle b, layout_handle bias, layout_handle c))        \
    X(2, primitive_desc_create,                                                                                    \
      (description_handle *, const void *, attributes_handle, engine_handle, description_handle hint))             \
    X(3, matmul_primitive_desc_create,                                                                             \
      (description_handle *, engine_handle, layout_handle a, layout_handle b, layout_handle bias, layout_handle c, \
       attributes_handle))                                                                                         \
    X(0, primitive_desc_destroy, (description_handle))                                                             \
    X(0, primitive_desc_query, (description_handle, int what, int index, void *answer))                            \
    X(0, primitive_create, (primitive_handle *, description_handle))                                               \
    X(0, primitive_destroy, (primitive_handle))                                                                    \
    X(0, primitive_execute, (primitive_handle, stream_handle, int n_arguments, const argument *))

#define DECLARE(version, name, parameters) int(*name) parameters;
static struct {
    FUNCTIONS(DECLARE)
    size_t (*memory_desc_get_size)(layout_handle);
} dnnl;
static int version;          // 2 or 3
static engine_handle engine; // for the processor; kept until the program ends

bool cpu_onednn_matmul_load(void) {
    static bool tried = false;
    static bool loaded = false;
    if (!tried && cpu_onednn_load()) {
        version = cpu_onednn.version()->major;
#define FIND(only_in, name, parameters) \
    &&((only_in != 0 && only_in != version) || cpu_onednn_find("dnnl_" #name, &dnnl.name, sizeof dnnl.name))
        loaded = cpu_onednn_find("dnnl_memory_desc_get_size", &dnnl.memory_desc_get_size,
                                 sizeof dnnl.memory_desc_get_size) FUNCTIONS(FIND) &&
                 dnnl.engine_create(&engine, PROCESSOR, 0) == SUCCESS;
    }
    tried = true;
    return loaded;
}

// A primitive of one part.
typedef struct {
    primitive_handle primitive; // NULL: no panel has this size
    memory_handle a, b, c, scratchpad;
} call;

typedef struct {
    cpu_onednn_cut cut;
    stream_handle stream;
    call calls[2][2]; // [fewer rows than panel_rows][fewer columns than panel_cols]
} part_calls;

struct cpu_onednn_matmul {
    int n_parts; // one for each thread
    part_calls parts[];
};

typedef struct {
    cpu_geometry of;
    bool is_rounded; // the result will be rounded
    bool add;
} product;

static product product_of(const host_op *op) {
    const bool is_weight = op->op->kind == SM_OP_MATMUL_BACKWARD_WEIGHT;
    return (product){cpu_geometry_of(op), !is_weight, is_weight && !op->op->attr.overwrites};
}

// --- one primitive ------------------------------------------------------------------------------

typedef struct {
    layout_handle layout;
    _Alignas(int64_t) char kept[LAYOUT_2_BYTES]; // version 2: what `layout` points to
} operand;

static bool describe(operand *o, int64_t rows, int64_t cols, int type, int64_t row_stride, int64_t col_stride) {
    const dims shape = {rows, cols};
    const dims strides = {row_stride, col_stride};
    if (version == 2) {
        o->layout = (layout_handle)o->kept;
        return dnnl.memory_desc_init_by_strides(o->kept, 2, shape, type, strides) == SUCCESS;
    }
    return dnnl.memory_desc_create_with_strides(&o->layout, 2, shape, type, strides) == SUCCESS;
}

static void free_operand(operand *o) {
    if (version == 3) {
        dnnl.memory_desc_destroy(o->layout);
    }
}

// We provide the scratchpad; c may be added to.
static bool make_attributes(bool add, attributes_handle *attributes) {
    post_ops_handle post_ops = NULL;
    bool made = dnnl.primitive_attr_create(attributes) == SUCCESS &&
                dnnl.primitive_attr_set_scratchpad_mode(*attributes, SCRATCHPAD_IS_OURS) == SUCCESS;
    if (made && add) {
        made = dnnl.post_ops_create(&post_ops) == SUCCESS &&
               (version == 2 ? dnnl.post_ops_append_sum_v3 : dnnl.post_ops_append_sum)(post_ops, 1.0f, 0, F32) ==
                   SUCCESS &&
               dnnl.primitive_attr_set_post_ops(*attributes, post_ops) == SUCCESS;
        dnnl.post_ops_destroy(post_ops);
    }
    return made;
}

static bool make_description(const operand *a, const operand *b, const operand *c, attributes_handle attributes,
                             description_handle *description) {
    if (version == 2) {
        _Alignas(int64_t) char matmul[MATMUL_2_BYTES];
        return dnnl.matmul_desc_init(matmul, a->layout, b->layout, NULL, c->layout) == SUCCESS &&
               dnnl.primitive_desc_create(description, matmul, attributes, engine, NULL) == SUCCESS;
    }
    return dnnl.matmul_primitive_desc_create(description, engine, a->layout, b->layout, NULL, c->layout, attributes) ==
           SUCCESS;
}

// The library's plain loops, which accept every shape, are too slow to try.
static bool is_reference(description_handle description) {
    const char *name = "";
    return dnnl.primitive_desc_query(description, ASK_IMPLEMENTATION, 0, &name) != SUCCESS ||
           strncmp(name, "ref", 3) == 0;
}

static bool make_memory(memory_handle *memory, layout_handle layout) {
    return dnnl.memory_create(memory, layout, engine, NULL) == SUCCESS;
}

static bool make_call(const product *p, int64_t n_rows, int64_t n_cols, int64_t ld, call *to) {
    operand a = {0};
    operand b = {0};
    operand c = {0};
    attributes_handle attributes = NULL;
    description_handle description = NULL;
    layout_handle scratchpad = NULL; // owned by the description
    bool made = describe(&a, n_rows, p->of.k, BF16, p->of.a_row, p->of.a_col) &&
                describe(&b, p->of.k, n_cols, BF16, p->of.b_row, p->of.b_col) &&
                describe(&c, n_rows, n_cols, F32, ld, 1) && make_attributes(p->add, &attributes) &&
                make_description(&a, &b, &c, attributes, &description) && !is_reference(description) &&
                dnnl.primitive_desc_query(description, ASK_SCRATCHPAD, 0, &scratchpad) == SUCCESS &&
                dnnl.memory_desc_get_size(scratchpad) <= CPU_ONEDNN_SCRATCH_BYTES - CPU_ONEDNN_PANEL_BYTES &&
                dnnl.primitive_create(&to->primitive, description) == SUCCESS && make_memory(&to->a, a.layout) &&
                make_memory(&to->b, b.layout) && make_memory(&to->c, c.layout) &&
                make_memory(&to->scratchpad, scratchpad);
    dnnl.primitive_desc_destroy(description);
    dnnl.primitive_attr_destroy(attributes);
    free_operand(&a);
    free_operand(&b);
    free_operand(&c);
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
    bool made = dnnl.stream_create(&to->stream, engine, IN_ORDER) == SUCCESS;
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
    const int n_omp_threads = omp_get_max_threads();
    cpu_onednn_one_thread(); // a primitive is made for the current number of threads
    for (int i = 0; made && i < n_threads; i++) {
        made = make_part(&p, i, n_threads, &matmul->parts[i]);
    }
    omp_set_num_threads(n_omp_threads);
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
    const argument arguments[] = {
        {SOURCE, by->a}, {WEIGHTS, by->b}, {DESTINATION, by->c}, {SCRATCHPAD, by->scratchpad}};
    cpu_onednn_one_thread();
    dnnl.memory_set_data_handle(by->a, (void *)(uintptr_t)a); // only read
    dnnl.memory_set_data_handle(by->b, (void *)(uintptr_t)b);
    dnnl.memory_set_data_handle(by->c, c);
    dnnl.memory_set_data_handle(by->scratchpad, (char *)scratch + CPU_ONEDNN_PANEL_BYTES);
    dnnl.primitive_execute(by->primitive, mine->stream, sizeof arguments / sizeof arguments[0], arguments);
}
