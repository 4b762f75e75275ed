// family.h: the table by which binders reach a family of kernels. A family says which devices it suits, by what they
// tell of themselves and never by their vendor alone, and how it launches the kinds of op that differ between families:
// matrix products and attention. All other kernels are the same, with work-items and vectors of the family's size.
//
// Families are above binders: each is a constant opencl_family, and the device layer hands the one that suits a device
// down (opencl_set_family).
#ifndef STEPMARK_BACKENDS_OPENCL_BINDERS_FAMILY_H
#define STEPMARK_BACKENDS_OPENCL_BINDERS_FAMILY_H

#include "backends/opencl/launch/launch.h"

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

// What a kernel does beside a product: flags in cl/products/matmul_*.cl too. OPENCL_LAST: nothing more is added to the
// sums.
enum { OPENCL_ADD = 1, OPENCL_BIAS = 2, OPENCL_GELU = 4, OPENCL_GELU_BACKWARD = 8, OPENCL_LAST = 16 };

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

// A kernel that only computes, of whose speed a peak is made: in registers, or with operands that lie in local memory.
typedef struct {
    const char *stem;    // its file
    const char *options; // of its program
    const char *what;    // it does, in words
    size_t group;        // work-items
    size_t n_groups;
    double flops_a_group; // each round
    double share;         // of it that counts as work
} opencl_arithmetic;

enum { OPENCL_PEAK_CHAINS = 12 }; // of operations that wait for one another, in each work-item of such a kernel

typedef struct opencl_family {
    const char *name;                                  // "registers"; `--isa` takes it
    const char *why;                                   // what makes a device suit, in words: "a processor: ..."
    const char *(*explain)(const opencl_facts *facts); // the same where it depends on the device; else NULL
    bool (*suits)(const opencl_facts *facts);
    const char *(*lacks)(const opencl_facts *facts); // what the device cannot do without here, "" if it has all; NULL:
                                                     // these kernels run on any device
    bool multiplies_narrow;                          // has units that multiply numbers of 16 bits
    bool rounds_products;                            // multiplies floats as a plan of tf32 or tf32x3 says
    opencl_sizes sizes;
    int (*vector)(const opencl_facts *facts); // in the place of sizes.vector, where it depends on the device; else NULL
    int most_head_channels;                   // largest HS that attention has room for
    // Ways to compute a product: 0 is chosen by a rule, the others are for mode tuned. matmul_way writes what a way
    // is ("128x128x8 of 16x8, 4 parts"), or is false: there is no such way, or it is none for this product.
    bool (*matmul_way)(const opencl_facts *facts, const opencl_product *product, int way, char *text, size_t size);
    void (*matmul)(opencl_binder *b, const opencl_product *product, int way);
    size_t (*matmul_scratch_elems)(const opencl_facts *facts, const opencl_product *product, int way);
    void (*attention)(opencl_binder *b, const opencl_attention *attention);
    size_t (*attention_scratch_elems)(const opencl_facts *facts, const sm_plan *plan,
                                      const opencl_attention *attention);
    // What only some families have; else NULL.
    opencl_arithmetic (*peak)(const opencl_device *device, sm_precision precision); // of its units
    size_t (*local_bytes)(
        const opencl_facts *facts); // of a work-group, where the device has more than its driver tells
    size_t (*own_bytes)(const opencl_facts *facts, const sm_plan *plan); // of the device, for an executable
    void (*release)(opencl_executable *e);                               // frees e->family_data
    const char *(*doubts)(const opencl_facts *facts); // why units that the device has are not used, "" if they are or
                                                      // it has none
    bool (*multiplies_floats)(const opencl_facts *facts, sm_products products); // in the place of rounds_products,
                                                                                // where it depends on the device
    bool builds_apart; // its programs are built in other processes alone: a compiler may end them
} opencl_family;

static inline void opencl_set_family(opencl_device *device, const opencl_family *family) {
    device->family = family;
    device->sizes = family->sizes;
    if (family->vector != NULL) {
        device->sizes.vector = family->vector(&device->facts);
    }
}

// Whether a device's family has units that multiply floats that way.
static inline bool opencl_family_multiplies(const opencl_device *device, sm_products products) {
    const opencl_family *family = device->family;
    return family->multiplies_floats != NULL
               ? family->multiplies_floats(&device->facts, products)
               : family->rounds_products && (products == SM_PRODUCTS_TF32 || products == SM_PRODUCTS_TF32X3);
}

// --- product.c: what families ask of a product -----------------------------------------------------

static inline int64_t opencl_count_up(int64_t n, int64_t step) { return (n + step - 1) / step; }

// Whether the rows of a tensor of n_cols columns, or of all operands, begin at a multiple of so many bytes; 0: of 4
// elements.
bool opencl_is_aligned(const sm_plan *plan, int tensor, int64_t n_cols, size_t n_bytes);
bool opencl_is_product_aligned(const opencl_product *product, size_t n_bytes);
// Whether C is stored in fewer bits than it is summed in.
bool opencl_rounds(const opencl_product *product);
// The program option that says what a kernel's result is: -DC_REAL where it is float though data is not.
const char *opencl_result_option(const opencl_product *product, bool to_scratch);

// The product's epilogue as these flags.
uint32_t opencl_epilogue(const opencl_product *product);

// Arguments: T, NH, NKV; key, threshold, scale of dropout; what backward kernels read first.
void opencl_arg_heads(opencl_binder *b, const opencl_attention *a);
void opencl_arg_mask(opencl_binder *b, const opencl_attention *a);
void opencl_arg_gradient(opencl_binder *b, const opencl_attention *a);
// The program option that says whether rows hold documents; "" where they do not, as in programs without any.
static inline const char *opencl_documents_option(const opencl_attention *a) {
    return a->starts == SM_NO_TENSOR ? "" : " -DDOCUMENTS=1";
}

#endif
