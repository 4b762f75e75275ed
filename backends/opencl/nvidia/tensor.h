// tensor.h: family `tensor`: products and attention on the matrix units of NVIDIA's cards.
//
//   tensor.c            the family: products
//   tensor_attention.c  attention
//   matrix.c            which units a device has, by running them
//   sizes.c             sizes of attention's kernels
//   tensor_map.c        describes matrices to a card's TMA
//   retarget.c          makes PTX of another target of what was built
#pragma once

#include "backends/opencl/families/families.h"

// --- tensor.c ------------------------------------------------------------------------------------

extern const opencl_family opencl_family_tensor;

// --- sizes.c ---------------------------------------------------------------------------------

// Local memory for a work-group: more than the driver reports.
int opencl_tensor_local_bytes(const opencl_facts *facts);

// Sizes of an attention kernel. A work-group owns `warps` x `fragments` x 16 rows or keys; the other operands come in
// tiles of `tile` rows, of which `step` at a time have scores in registers; `kept` of the own operands stay there.
typedef struct {
    int warps, fragments, tile, step, kept;
    int stages; // of tiles; 0: two, and products by single warps. Otherwise by four warps together, fed by TMA
    int groups; // with stages: work-groups that share a unit, and its registers
} opencl_score_sizes;

enum { OPENCL_FRAGMENT_ROWS = 16, OPENCL_BOX_ROWS = 64, OPENCL_BOX_CHANNELS = 64 }; // boxes: what TMA brings at a time

static inline int opencl_own_rows(const opencl_score_sizes *s) {
    return s->warps * s->fragments * OPENCL_FRAGMENT_ROWS;
}

// Heads that wgmma has kernels for: of 64 channels, whose sequences may be long, or which have few rows; or of 128.
typedef enum {
    OPENCL_HEADS_64,
    OPENCL_LONG_64,
    OPENCL_FEW_64,
    OPENCL_FEWEST_64,
    OPENCL_HEADS_128,
    OPENCL_OTHER_HEADS
} opencl_heads;
enum { OPENCL_HEADS_KINDS = OPENCL_OTHER_HEADS };
opencl_heads opencl_kind_of_heads(const opencl_facts *facts, sm_dtype dtype, int64_t HS, int64_t T,
                                  int64_t n_rows); // of all heads

// Sizes of a part's kernel by wgmma; or by mma.sync, false if no tile of a head of HS channels fits.
opencl_score_sizes opencl_wgmma_score_sizes(opencl_heads heads, int part);
bool opencl_mma_score_sizes(const opencl_facts *facts, int part, int64_t HS, int elem_bytes, opencl_score_sizes *sizes);

// The options of the program of a part's kernel.
void opencl_attention_options(const opencl_score_sizes *s, int part, int64_t HS, bool drops, char *options,
                              size_t size_bytes);

// --- tensor_attention.c ---------------------------------------------------------------------

// Whether the units compute it: flash kinds of 16-bit data, or of fp32 in tf32 or tf32x3, HS a multiple of 8 up to 128,
// heads' rows aligned to 16 bytes, and tiles that fit. Everything else runs as in family `local`.
bool opencl_tensor_attends(const opencl_facts *facts, const sm_plan *plan, const opencl_attention *attention);

void opencl_tensor_attention(opencl_binder *b, const opencl_attention *attention);
size_t opencl_tensor_attention_scratch_elems(const opencl_facts *facts, const sm_plan *plan,
                                             const opencl_attention *attention);

// --- matrix.c ------------------------------------------------------------------------------------

// Matrix-unit instructions that were tested to compute correctly.
typedef struct {
    bool has_mma;                // a warp's products of bf16, fp16 and tf32 (mma.sync), and the loads for them
    char missing[SM_TEXT_SIZE];  // the reason if not
    bool has_wgmma;              // products of 16-bit numbers by four warps, fed by TMA
    char no_wgmma[SM_TEXT_SIZE]; // the reason if not
} opencl_matrix_units;

// Found once, by a small kernel with checked numbers; the result is kept with the built programs.
const opencl_matrix_units *opencl_find_matrix_units(const opencl_facts *facts);
// Whether products of such data are right by wgmma: also found once.
bool opencl_has_wgmma(const opencl_facts *facts, sm_dtype dtype, sm_products products);
// Likewise with sums of the columns of B, in tiles of 64 rows, of e4m3 and e5m2.
typedef enum { OPENCL_FOR_SUMS, OPENCL_FOR_LOW, OPENCL_FOR_BYTES } opencl_wgmma_use;
bool opencl_has_wgmma_for(const opencl_facts *facts, opencl_wgmma_use use);

// Whether wgmma computes attention with such heads correctly; and the error, "" if none.
bool opencl_has_wgmma_attention(const opencl_facts *facts, sm_dtype dtype, opencl_heads heads);
const char *opencl_wgmma_attention_trouble(const opencl_facts *facts, sm_dtype dtype, opencl_heads heads);

// --- tensor_map.c --------------------------------------------------------------------------------

// A matrix that TMA reads or writes, in boxes.
typedef struct {
    int tensor;             // SM_NO_TENSOR: the scratch,
    int64_t scratch_offset; // starting at this float
    sm_dtype dtype;
    int n_dims;
    int64_t dims[3];   // innermost first
    int64_t row_elems; // stride of rows; 0: dims[0]
    int box[3];
} opencl_tensor_map;

enum { OPENCL_MAP_BYTES = 128, OPENCL_MOST_MAPS = 5 }; // of a map; an op has at most this many in all

void opencl_encode_map(const opencl_tensor_map *m, uint64_t address, unsigned char map[OPENCL_MAP_BYTES]);
sm_status opencl_find_address(opencl_device *device, cl_mem buffer, uint64_t *address);
size_t opencl_map_bytes(const sm_plan *plan); // of all maps of a plan, at most
void opencl_arg_maps(opencl_binder *b, const opencl_tensor_map *maps, int n);
void opencl_free_maps(opencl_executable *e);

// The rows of a sequence's tokens, in boxes of 64 rows and 64 channels (tensor_attention.c); the tensor is left open.
opencl_tensor_map opencl_map_rows(sm_dtype dtype, int64_t B, int64_t T, int64_t n_channels);

// --- retarget.c ----------------------------------------------------------------------------------

// PTX with its hidden instructions enabled, for the architecture-specific variant of its target. The caller frees it;
// NULL if the text is not PTX, or there is no memory.
char *opencl_retarget(const unsigned char *ptx, size_t size_bytes, size_t *new_bytes);
