// family.h: a family of kernels as a table of functions for binders. A family decides which devices it suits, by the
// facts that they report and never by their vendor alone, and launches the kinds of op that differ between families:
// matmuls and attention. All other kernels are the same, with work-items and vectors of the family's size.
//
// Families are a layer above binders: each is a constant opencl_family, and the device layer passes the suitable one
// down (opencl_set_family).
#pragma once

#include "backends/opencl/launch/launch.h"

// A matmul, C (M,N) = A' (M,K) B' (K,N), and its epilogue. A' is A or the transpose of A (K,M), B' B or of B (N,K).
typedef struct {
    int64_t M, N, K;
    int a, b, c; // tensors
    bool a_transposed;
    bool b_transposed;
    bool add;             // C += A' B'
    unsigned epilogue;    // SM_EPILOGUE_*
    int side;             // bias (N), or ACT_BACKWARD's pre (M,N); SM_NO_TENSOR if not used
    int act;              // (M,N), the activation's result; or SM_NO_TENSOR
    int a_scale, b_scale; // by which bytes of a and b were multiplied; SM_NO_TENSOR: they are no bytes
    int summed, sums;     // the columns' sums of a or b, added (or written) to `sums`; or SM_NO_TENSOR
    bool leaves_squares;  // of C, summed, for a norm (opencl_arg_squares)
    const sm_plan *plan;  // of the tensors
} opencl_product;

// A kernel's epilogue, also as flags in cl/products/matmul_*.cl. OPENCL_LAST: nothing more is added to the sums.
enum { OPENCL_ADD = 1, OPENCL_BIAS = 2, OPENCL_ACT = 4, OPENCL_ACT_BACKWARD = 8, OPENCL_LAST = 16 };

typedef struct {
    bool forward;
    bool stores_weights; // att (B,NH,T,T) instead of lse (B,NH,T)
    int64_t B, T, NH, NKV, HS;
    int dy, qkv, weights, y, dqkv, rng_step, starts; // tensors; weights is att or lse; with lse the backward reads y;
                                                     // SM_NO_TENSOR if not used
    uint64_t key;
    uint32_t threshold; // 0: no dropout
    float drop_scale;
} opencl_attention;

// A kernel that only computes, for measuring a peak: in registers, or with operands in local memory.
typedef struct {
    const char *stem;    // its file
    const char *options; // of its program
    const char *what;    // its operations, in words
    size_t group;        // work-items
    size_t n_groups;
    double flops_a_group; // in each round
    double share;         // the part that counts as work
} opencl_arithmetic;

enum { OPENCL_PEAK_CHAINS = 12 }; // independent chains of operations in each work-item of such a kernel

typedef struct opencl_family {
    const char *name;                                  // "registers"; a word of `--isa`
    const char *why;                                   // what makes a device suitable, in words: "a processor: ..."
    const char *(*explain)(const opencl_facts *facts); // the same if it depends on the device; else NULL
    bool (*suits)(const opencl_facts *facts);
    const char *(*lacks)(const opencl_facts *facts); // the missing feature of a device, "" if there is none; NULL:
                                                     // these kernels run on any device
    bool multiplies_narrow;                          // has units that multiply numbers of 16 bits
    opencl_sizes sizes;
    int (*vector)(const opencl_facts *facts); // replaces sizes.vector if it depends on the device; else NULL
    int most_head_channels;                   // largest HS for attention
    // Ways to compute a product: 0 is chosen by a rule, the others are for mode tuned. matmul_way describes a way
    // ("128x128x8 of 16x8, 4 parts"), or returns false if it does not exist or does not suit the product.
    bool (*matmul_way)(const opencl_facts *facts, const opencl_product *product, int way, char *text, size_t size);
    void (*matmul)(opencl_binder *b, const opencl_product *product, int way);
    size_t (*matmul_scratch_elems)(const opencl_facts *facts, const opencl_product *product, int way);
    // Whether `matmul` also sums those columns; NULL: never, other launches do.
    bool (*matmul_sums)(const opencl_facts *facts, const opencl_product *product);
    // Whether it can leave sums of C's squares, each of OPENCL_SQUARE_ELEMS elements; NULL: never.
    bool (*matmul_squares)(const opencl_facts *facts, const opencl_product *product, int way);
    void (*attention)(opencl_binder *b, const opencl_attention *attention);
    size_t (*attention_scratch_elems)(const opencl_facts *facts, const sm_plan *plan,
                                      const opencl_attention *attention);
    // Only some families have these; else NULL.
    opencl_arithmetic (*peak)(const opencl_device *device, sm_precision precision); // of its units
    size_t (*local_bytes)(const opencl_facts *facts); // of a work-group, if the device has more than its driver reports
    size_t (*own_bytes)(const opencl_facts *facts, const sm_plan *plan); // of the device, for an executable
    void (*release)(opencl_executable *e);                               // frees e->family_data
    const char *(*doubts)(const opencl_facts *facts); // why units of the device are not used, "" if they are or it has
                                                      // none
    bool (*multiplies)(const opencl_facts *facts, sm_products products); // has units for products that are not plain
    bool builds_apart; // its programs are built only in other processes, as a compiler may end them
} opencl_family;

static inline void opencl_set_family(opencl_device *device, const opencl_family *family) {
    device->family = family;
    device->sizes = family->sizes;
    if (family->vector != NULL) {
        device->sizes.vector = family->vector(&device->facts);
    }
}

// Whether the device's family has units that multiply in that way.
static inline bool opencl_family_multiplies(const opencl_device *device, sm_products products) {
    const opencl_family *family = device->family;
    return family->multiplies != NULL && family->multiplies(&device->facts, products);
}

// --- product.c: what families ask of a product -----------------------------------------------------

static inline int64_t opencl_count_up(int64_t n, int64_t step) { return (n + step - 1) / step; }

// Whether the rows of all operands are aligned to n_bytes; 0: to 4 elements.
bool opencl_is_product_aligned(const opencl_product *product, size_t n_bytes);
bool opencl_is_attention_aligned(const sm_plan *plan, const opencl_attention *a, size_t n_bytes); // its heads' rows
// The number of parts of K with the least cost, as long as K can be cut.
int opencl_cheapest_parts(const opencl_facts *facts, const opencl_product *p, const void *tiles,
                          int64_t (*cost)(const opencl_facts *, const opencl_product *, const void *tiles, int n_parts),
                          bool (*can_cut)(const opencl_product *, int n_parts));
// Whether C is stored in fewer bits than its sums.
bool opencl_rounds(const opencl_product *product);
// The program option for a kernel's result type: -DC_REAL if it is float though data are not.
const char *opencl_result_option(const opencl_product *product, bool to_scratch);

// The product's epilogue as these flags.
uint32_t opencl_epilogue(const opencl_product *product);

// Arguments of a product's kernel, up to C (in scratch if K is cut); and of the one that adds parts from scratch_at on.
void opencl_arg_product(opencl_binder *b, const opencl_product *p, uint32_t beside, int64_t part_cols, int n_parts);
void opencl_arg_parts(opencl_binder *b, const opencl_product *p, uint32_t beside, int n_parts, int64_t scratch_at);
void opencl_arg_sides(opencl_binder *b, const opencl_product *p); // of matrix units' epilogues: bias, pre, act

// Flash attention has three kernels, with the same arguments in nearly all families.
enum { OPENCL_ATTENTION_FORWARD, OPENCL_ATTENTION_ROWS, OPENCL_ATTENTION_KEYS, OPENCL_ATTENTION_PARTS };
extern const char *const opencl_attention_kernels[OPENCL_ATTENTION_PARTS];

// The kernels of an op: parts from `first` to `last`.
static inline int opencl_first_part(const opencl_attention *a) {
    return a->forward ? OPENCL_ATTENTION_FORWARD : OPENCL_ATTENTION_ROWS;
}
static inline int opencl_last_part(const opencl_attention *a) {
    return a->forward ? OPENCL_ATTENTION_FORWARD : OPENCL_ATTENTION_KEYS;
}

// Arguments: T, NH, NKV; key, threshold, scale of dropout; the first operands of backward kernels; all operands of a
// part. dq comes first: its kernel leaves D in scratch for dk and dv.
void opencl_arg_heads(opencl_binder *b, const opencl_attention *a);
void opencl_arg_mask(opencl_binder *b, const opencl_attention *a);
void opencl_arg_gradient(opencl_binder *b, const opencl_attention *a);
void opencl_arg_attention(opencl_binder *b, const opencl_attention *a, int part);
// The program option for rows of documents; "" without documents.
static inline const char *opencl_documents_option(const opencl_attention *a) {
    return a->starts == SM_NO_TENSOR ? "" : " -DDOCUMENTS=1";
}
