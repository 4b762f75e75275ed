// launch.h: kernels with their arguments set, ready to be put into a queue. A binder makes one launch after the other:
// a kernel, its arguments in order, its size. After the first failure it does nothing more and keeps the status.
//
//   launch.c     begins a launch, ends it with its size
//   arguments.c  tensors, scratch and numbers
//   rows.c       programs by the shape of rows, sums over rows in strips
#pragma once

#include "backends/opencl/memory/memory.h"

// One kernel with its arguments set. global/local is a whole number of work-groups.
typedef struct opencl_launch {
    cl_kernel kernel;
    cl_uint n_dims;
    size_t global[2];
    size_t local[2];
    bool is_aside;   // goes to the queue aside
    bool is_awaited; // by a launch in the other queue
    int after;       // 1 + the launch in the other queue that it waits for; 0: none
} opencl_launch;

typedef struct {
    opencl_executable *e;
    const sm_op *op;
    sm_status status;
    opencl_launch launch; // in progress
    cl_uint n_args;
    int vector;     // elements of a vec in its program
    int row_items;  // work-items that share a row
    int group_rows; // rows of a work-group
} opencl_binder;

// Gradients of weights go to the queue aside, since little waits for them; and a norm's last sums, of few rows.
static inline opencl_course opencl_course_of(const sm_plan *plan, bool uses_aside, const sm_op *op) {
    enum { FEW_ROWS = 4096 }; // a norm of more rows takes so long that its sums do not matter
    const bool is_norm = op->kind == SM_OP_LAYERNORM_BACKWARD || op->kind == SM_OP_RMSNORM_BACKWARD;
    return uses_aside && op->kind == SM_OP_MATMUL_BACKWARD_WEIGHT                           ? OPENCL_ASIDE
           : uses_aside && is_norm && sm_tensor_rows(&plan->tensors[op->in[0]]) <= FEW_ROWS ? OPENCL_SUMS_ASIDE
                                                                                            : OPENCL_IN_QUEUE;
}

// The op's first float of the scratch. The next norms do not overwrite what sums in the other queue read.
static inline size_t opencl_scratch_at(const opencl_binder *b) {
    const opencl_course course = opencl_course_of(b->e->base.plan, b->e->uses_aside, b->op);
    const size_t place = course == OPENCL_SUMS_ASIDE ? (size_t)(b->e->n_norms % OPENCL_NORM_PLACES) : 0;
    return b->e->scratch_at[course] + place * b->e->norm_elems;
}

// --- launch.c ------------------------------------------------------------------------------------

// The option for cl/prelude.cl's `data`: " -DDATA_BF16".
const char *opencl_data_option(sm_dtype dtype);

// The plan's data type is added to the options.
void opencl_begin(opencl_binder *b, const char *stem, const char *options, const char *kernel);
void opencl_begin_own(opencl_binder *b, const sm_own_kernel *own);

// Ends a launch. Sizes are rounded up to whole work-groups; kernels check their bounds.
void opencl_launch_items(opencl_binder *b, int64_t n_items);               // a line of items
void opencl_launch_vecs(opencl_binder *b, int64_t n_elems);                // an item for each vec
void opencl_launch_rows(opencl_binder *b, int64_t n_rows);                 // row_items items for each row
void opencl_launch_grid(opencl_binder *b, int64_t n_cols, int64_t n_rows); // an item for each vec of a row
// An item for each vec of a row; on cards, n_lanes items for each of n_sums sums of rows (cl/prelude.cl).
void opencl_launch_lanes(opencl_binder *b, int64_t n_cols, int64_t n_sums, int n_lanes);
void opencl_launch_parts(opencl_binder *b, int64_t n_parts); // row_items items for each part, which has much work
void opencl_launch_tiles(opencl_binder *b, int64_t n_x, int64_t n_y, size_t local_x,
                         size_t local_y);                                              // n_x by n_y items
void opencl_launch_groups(opencl_binder *b, int64_t n_x, int64_t n_y, size_t n_items); // work-groups of n_items

// --- arguments.c ---------------------------------------------------------------------------------

// A kernel's argument, or two: a buffer, and an offset in it.
typedef struct {
    enum { OPENCL_ULONG, OPENCL_UINT, OPENCL_FLOAT, OPENCL_BUFFER, OPENCL_LOCAL, OPENCL_TENSOR, OPENCL_SCRATCH } kind;
    union {
        cl_uint number;
        cl_float real;
        cl_mem buffer;
        struct {
            int tensor;
            bool may_be_null; // SM_NO_TENSOR is NULL; otherwise any buffer, which the kernel ignores
        };
    };
    uint64_t at; // or the number: elements, bytes of local memory
} opencl_value;

static inline opencl_value arg_ulong(uint64_t n) { return (opencl_value){.kind = OPENCL_ULONG, .at = n}; }
static inline opencl_value arg_count(int64_t n) { return arg_ulong((uint64_t)n); }
static inline opencl_value arg_uint(uint32_t n) { return (opencl_value){.kind = OPENCL_UINT, .number = n}; }
static inline opencl_value arg_float(float x) { return (opencl_value){.kind = OPENCL_FLOAT, .real = x}; }
static inline opencl_value arg_buffer(cl_mem m) { return (opencl_value){.kind = OPENCL_BUFFER, .buffer = m}; }
static inline opencl_value arg_local(size_t n_bytes) { return (opencl_value){.kind = OPENCL_LOCAL, .at = n_bytes}; }
static inline opencl_value arg_scratch(size_t at) { return (opencl_value){.kind = OPENCL_SCRATCH, .at = at}; }
static inline opencl_value arg_tensor_at(int tensor, int64_t at) {
    return (opencl_value){.kind = OPENCL_TENSOR, .tensor = tensor, .at = (uint64_t)at};
}
static inline opencl_value arg_tensor(int tensor) { return arg_tensor_at(tensor, 0); }
static inline opencl_value arg_own_tensor(int tensor) {
    return (opencl_value){.kind = OPENCL_TENSOR, .tensor = tensor, .may_be_null = true};
}
static inline opencl_value arg_in(const opencl_binder *b, int i) { return arg_tensor(b->op->in[i]); }
static inline opencl_value arg_out(const opencl_binder *b, int i) { return arg_tensor(b->op->out[i]); }

// The next arguments of a launch, in the order of its kernel: OPENCL_ARGS(b, arg_count(N), arg_tensor(dx));
void opencl_args(opencl_binder *b, const opencl_value *values, size_t n);
#define OPENCL_ARGS(b, ...) \
    opencl_args((b), (opencl_value[]){__VA_ARGS__}, sizeof((opencl_value[]){__VA_ARGS__}) / sizeof(opencl_value))

// The sums of squares of a gradient's elements, from `first` on.
static inline opencl_value opencl_arg_squares(const opencl_binder *b, const sm_tensor *gradient, int64_t first) {
    const size_t at = (gradient->offset_bytes / sizeof(float) + (size_t)first) / OPENCL_SQUARE_ELEMS;
    return arg_scratch(b->e->scratch_at[OPENCL_SQUARES] + at - opencl_scratch_at(b));
}

// The op's operand with that index in the table of op kinds.
static inline const sm_tensor *in(const opencl_binder *b, int i) { return &b->e->base.plan->tensors[b->op->in[i]]; }
static inline const sm_tensor *out(const opencl_binder *b, int i) { return &b->e->base.plan->tensors[b->op->out[i]]; }

// In the order of their tables: all inputs, all outputs; required operands; optional ones, each after a flag whether it
// is present; attributes, switches as 0 or 1.
void opencl_arg_inputs(opencl_binder *b);
void opencl_arg_outputs(opencl_binder *b);
void opencl_arg_operands(opencl_binder *b);
void opencl_arg_optional(opencl_binder *b);
void opencl_arg_attributes(opencl_binder *b);

// --- rows.c --------------------------------------------------------------------------------------

// Begins a launch of a kernel that processes rows of row_elems elements; 0: no rows.
void opencl_begin_rows(opencl_binder *b, const char *stem, const char *kernel, int64_t row_elems);
// The same, if items keep their vecs of a row in registers, unless there are too many.
void opencl_begin_short(opencl_binder *b, const char *stem, const char *kernel, int64_t row_elems);
void opencl_begin_kept(opencl_binder *b, const char *stem, const char *kernel, int64_t row_elems);
// The same for rows so short that a work-group on cards shares out several of them (b->group_rows).
void opencl_begin_several(opencl_binder *b, const char *stem, const char *kernel, int64_t row_elems);

// The same for long rows that are read twice: on cards many items share one. So the device has few at a time, which are
// still in its cache when they are read again.
void opencl_begin_twice(opencl_binder *b, const char *stem, const char *kernel, int64_t row_elems);

// An op on a single row: the length of the first operand, then the operands.
void opencl_launch_one_row(opencl_binder *b, const char *stem, const char *kernel, bool by_vecs);

enum { STRIP_LANES = 8, SUM_LANES = 64 }; // of a work-group on cards that sums rows or strips

// The strips of rows in a sum over N rows of C columns, those that items process whole, and a strip's rows.
int64_t opencl_count_strips(const opencl_device *device, const sm_plan *plan, int64_t N, int64_t C);
int64_t opencl_count_row_strips(const opencl_device *device, int64_t N);
int64_t opencl_strip_rows(int64_t N, int64_t n_strips);

// to (C) = the sum of the rows of a tensor, by way of strips at the beginning of the scratch; or of strips that are in
// it. `add`: it is added to what is there.
void opencl_sum_rows(opencl_binder *b, int rows, int to, bool add);
int64_t opencl_sum_rows_elems(const opencl_device *device, const sm_plan *plan, int rows); // of scratch
void opencl_sum_strips(opencl_binder *b, int64_t offset_elems, int64_t n_strips, int64_t C, int to, bool add);
