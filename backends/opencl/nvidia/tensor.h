// tensor.h: family `tensor`: products and attention on the matrix units of NVIDIA's cards.
//
//   tensor.c            the family: products
//   tensor_attention.c  attention
//   matrix.c            which units a device has, by running them
//   tensor_map.c        describes matrices to a card's TMA
//   retarget.c          makes PTX of another target of what was built
#ifndef STEPMARK_BACKENDS_OPENCL_NVIDIA_TENSOR_H
#define STEPMARK_BACKENDS_OPENCL_NVIDIA_TENSOR_H

#include "backends/opencl/families/families.h"

// --- tensor.c ------------------------------------------------------------------------------------

extern const opencl_family opencl_family_tensor;

// Local memory that a work-group can have: more than what the driver tells.
int opencl_tensor_local_bytes(const opencl_facts *facts);

// --- tensor_attention.c ---------------------------------------------------------------------

// Sizes of a kernel of attention. A work-group owns `warps` x `fragments` x 16 rows or keys; the other operands come in
// tiles of `tile` rows, of which `step` at a time have scores in registers; `kept` of the own operands stay there.
typedef struct {
    int warps, fragments, tile, step, kept;
    int registers; // that an item may have; 0: as many as the compiler likes
    bool wgmma;    // products by four warps together
} opencl_score_sizes;

// Whether the units compute it: flash kinds of 16-bit data, or of fp32 in tf32 or tf32x3, HS a multiple of 8 up to 128,
// rows of heads at multiples of 16 bytes, and a work-group's tiles fit. Everything else runs as in family `local`.
bool opencl_tensor_attends(const opencl_facts *facts, bool has_wgmma, const sm_plan *plan,
                           const opencl_attention *attention);

// Sizes of a part's kernel; false where no tile of a head of HS channels fits.
bool opencl_tensor_score_sizes(const opencl_facts *facts, bool has_wgmma, int part, int64_t HS, int elem_bytes,
                               opencl_score_sizes *sizes);

// The options of the program of a part's kernel.
void opencl_attention_options(const opencl_score_sizes *s, int part, int64_t HS, bool drops, char *options,
                              size_t size_bytes);

void opencl_tensor_attention(opencl_binder *b, const opencl_attention *attention);
size_t opencl_tensor_attention_scratch_elems(const opencl_facts *facts, const sm_plan *plan,
                                             const opencl_attention *attention);

// --- matrix.c ------------------------------------------------------------------------------------

// Instructions of matrix units that a device has shown to compute rightly.
typedef struct {
    bool has_mma;                // a warp's products of bf16, fp16 and tf32 (mma.sync), and what feeds them
    char missing[SM_TEXT_SIZE];  // why it has not
    bool has_wgmma;              // products of 16-bit numbers by four warps, fed by TMA
    char no_wgmma[SM_TEXT_SIZE]; // why it has not
} opencl_matrix_units;

// Found once, by a small kernel whose numbers are checked; what was found is kept with the built programs.
const opencl_matrix_units *opencl_find_matrix_units(const opencl_facts *facts);
// Whether products of such data are right by wgmma: also found once.
bool opencl_has_wgmma(const opencl_facts *facts, sm_dtype dtype, sm_products products);

// Whether attention of heads of HS channels, 64 or 128, is computed rightly by wgmma; and what is wrong, "" if nothing.
bool opencl_has_wgmma_attention(const opencl_facts *facts, sm_dtype dtype, int64_t HS);
const char *opencl_wgmma_attention_trouble(const opencl_facts *facts, sm_dtype dtype, int64_t HS);

// --- tensor_map.c --------------------------------------------------------------------------------

// A matrix as TMA reads or writes it, in boxes.
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
size_t opencl_map_bytes(const sm_plan *plan);                                 // of all maps of a plan, at most
void opencl_arg_maps(opencl_binder *b, const opencl_tensor_map *maps, int n); // n <= OPENCL_MOST_MAPS, once an op
void opencl_free_maps(opencl_executable *e);

// --- retarget.c ----------------------------------------------------------------------------------

// PTX with its hidden instructions, for the architecture-specific variant of its target. The caller frees it; NULL
// where the text is no PTX, or there is no memory.
char *opencl_retarget(const unsigned char *ptx, size_t size_bytes, size_t *new_bytes);

#endif
