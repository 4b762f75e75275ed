// bind.h: from an op of a plan to launches. A binder makes one launch after the other: a kernel, its
// arguments in order, its size. After the first failure it does nothing more and keeps the status.
#ifndef STEPMARK_BACKENDS_OPENCL_BIND_BIND_H
#define STEPMARK_BACKENDS_OPENCL_BIND_BIND_H

#include "backends/opencl/opencl.h"

typedef struct {
    opencl_executable *e;
    const sm_op *op;
    sm_status status;
    opencl_launch launch; // being made
    cl_uint n_args;
    int vector;    // elements of a vec of its program
    int row_items; // work-items that share a row in it
} opencl_binder;

// A matrix product, C (M,N) = A' (M,K) B' (K,N), and what is done beside it. A' is A, or the transpose of
// A (K,M); B' is B, or the transpose of B (N,K).
typedef struct {
    int64_t M, N, K;
    int a, b, c; // tensors
    bool a_transposed;
    bool b_transposed;
    bool add;            // C += A' B'
    unsigned epilogue;   // SM_EPILOGUE_*
    int side;            // bias (N), or GELU_BACKWARD's pre (M,N); SM_NO_TENSOR where not asked for
    int act;             // (M,N), where GELU's result goes; or SM_NO_TENSOR
    const sm_plan *plan; // whose tensors these are
} opencl_product;

// What a kernel does beside a product: flags in cl/products/matmul_*.cl too. OPENCL_LAST: nothing more is added to the sums.
enum { OPENCL_ADD = 1, OPENCL_BIAS = 2, OPENCL_GELU = 4, OPENCL_GELU_BACKWARD = 8, OPENCL_LAST = 16 };

// Whether C is stored in fewer bits than it is summed in.
bool opencl_rounds(const opencl_product *product);
// The program option that says what a kernel's result is: -DC_REAL where it is float though data is not.
const char *opencl_result_option(const opencl_product *product, bool to_scratch);

// The product's epilogue as these flags.
uint32_t opencl_epilogue(const opencl_product *product);

typedef struct {
    bool forward;
    bool stores_weights; // att (B,NH,T,T) in the place of lse (B,NH,T)
    bool blocked;        // of them, blocks of rows
    int64_t B, T, NH, NKV, HS;
    int dy, qkv, weights, y, dqkv, rng_step, starts; // tensors; weights is att or lse; y is read by backward where lse
                                                     // is; SM_NO_TENSOR where not used
    uint64_t key;
    uint32_t threshold; // 0: no dropout
    float drop_scale;
} opencl_attention;

// The program option that says whether rows hold documents; "" where they do not, as in programs without any.
static inline const char *opencl_documents_option(const opencl_attention *a) {
    return a->starts == SM_NO_TENSOR ? "" : " -DDOCUMENTS=1";
}

// A matrix as TMA reads or writes it, in boxes (nvidia/tensor_map.c).
typedef struct {
    int tensor;             // SM_NO_TENSOR: the scratch,
    int64_t scratch_offset; // from this float on
    sm_dtype dtype;
    int n_dims;
    int64_t dims[3];   // innermost first
    int64_t row_elems; // from a row to the next; 0: dims[0]
    int box[3];
} opencl_tensor_map;

enum { OPENCL_MAP_BYTES = 128, OPENCL_MOST_MAPS = 5 }; // of a map; an op has so many of them

void opencl_encode_map(const opencl_tensor_map *m, uint64_t address, unsigned char map[OPENCL_MAP_BYTES]);
sm_status opencl_find_address(opencl_device *device, cl_mem buffer, uint64_t *address);
size_t opencl_map_bytes(const sm_plan *plan); // of all maps of a plan, at most

// --- making a launch -------------------------------------------------------------------------------

// What cl/prelude.cl takes `data` for: " -DDATA_BF16".
const char *opencl_data_option(sm_dtype dtype);

// The plan's data type joins the options.
void opencl_begin(opencl_binder *b, const char *stem, const char *options, const char *kernel);
void opencl_begin_own(opencl_binder *b, const sm_own_kernel *own);
// The buffer, and where the tensor begins in it. SM_NO_TENSOR gives any buffer: the kernel does not look.
void opencl_arg_tensor(opencl_binder *b, int tensor);
void opencl_arg_own_tensor(opencl_binder *b, int tensor); // likewise, but SM_NO_TENSOR gives NULL
void opencl_arg_tensor_at(opencl_binder *b, int tensor, int64_t offset_elems);
void opencl_arg_scratch(opencl_binder *b, size_t offset_elems);
void opencl_arg_buffer(opencl_binder *b, cl_mem buffer);
void opencl_arg_maps(opencl_binder *b, const opencl_tensor_map *maps, int n); // n <= OPENCL_MOST_MAPS, once an op
void opencl_arg_ulong(opencl_binder *b, uint64_t value);
void opencl_arg_uint(opencl_binder *b, uint32_t value);
void opencl_arg_float(opencl_binder *b, float value);

// Ends a launch. Sizes are rounded up to whole work-groups; kernels check their bounds.
void opencl_launch_items(opencl_binder *b, int64_t n_items);               // a line of items
void opencl_launch_vecs(opencl_binder *b, int64_t n_elems);                // an item a vec
void opencl_launch_rows(opencl_binder *b, int64_t n_rows);                 // row_items items a row
void opencl_launch_grid(opencl_binder *b, int64_t n_cols, int64_t n_rows); // an item a vec of a row
// An item a vec of a row; on cards, n_lanes of them to each of n_sums sums of rows (cl/prelude.cl).
void opencl_launch_lanes(opencl_binder *b, int64_t n_cols, int64_t n_sums, int n_lanes);
void opencl_launch_parts(opencl_binder *b, int64_t n_parts); // row_items items a part, which has much to do
void opencl_launch_tiles(opencl_binder *b, int64_t n_x, int64_t n_y, size_t local_x,
                         size_t local_y);                                              // n_x by n_y items
void opencl_launch_groups(opencl_binder *b, int64_t n_x, int64_t n_y, size_t n_items); // work-groups of n_items

// --- kernels of a user's own -----------------------------------------------------------------------

void opencl_take_own(opencl_device *device, const sm_open_options *options);
void opencl_bind_own(opencl_binder *b);

// --- whole plans -----------------------------------------------------------------------------------

// What there is to bind: op i of the plan, and at n_ops + i what later micro-batches of a step do in its place. False:
// nothing else.
bool opencl_op_at(const sm_plan *plan, int i, sm_op *op);

// Elements of scratch that the op needs.
size_t opencl_op_scratch_elems(const opencl_device *device, const sm_plan *plan, const sm_op *op);

// Appends the op's launches to the executable's.
sm_status opencl_bind_op(opencl_executable *e, const sm_op *op);

// Whether the op is a matrix product, and which.
bool opencl_is_product(const sm_plan *plan, const sm_op *op, opencl_product *product);

// Which of the tier's ways computes a product of this plan: 0, unless the plan is tuned and another was chosen.
int opencl_way(const opencl_device *device, const sm_plan *plan, const opencl_product *product);

sm_status opencl_op_supported(const opencl_device *device, const sm_plan *plan, const sm_op *op);

#endif
