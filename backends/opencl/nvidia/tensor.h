// tensor.h: what the files of the tier `tensor` share.
#ifndef STEPMARK_BACKENDS_OPENCL_NVIDIA_TENSOR_H
#define STEPMARK_BACKENDS_OPENCL_NVIDIA_TENSOR_H

#include "backends/opencl/bind/bind.h"

// --- nvidia/tier_tensor.c --------------------------------------------------------------------------

// Local memory that a work-group can have: more than what the driver tells.
int opencl_tensor_local_bytes(const opencl_facts *facts);

// --- nvidia/tensor_attention.c ---------------------------------------------------------------------

// Sizes of a kernel of attention. A work-group owns `warps` x `fragments` x 16 rows or keys; the other operands come in
// tiles of `tile` rows, of which `step` at a time have scores in registers; `kept` of the own operands stay there.
typedef struct {
    int warps, fragments, tile, step, kept;
    int registers; // that an item may have; 0: as many as the compiler likes
    bool wgmma;    // products by four warps together
} opencl_score_sizes;

enum { OPENCL_ATTENTION_FORWARD, OPENCL_ATTENTION_ROWS, OPENCL_ATTENTION_KEYS, OPENCL_ATTENTION_PARTS };

// Whether the units compute it: flash kinds of 16-bit data, or of fp32 in tf32 or tf32x3, HS a multiple of 8 up to 128,
// rows of heads at multiples of 16 bytes, and a work-group's tiles fit. Everything else runs as in tier `local`.
bool opencl_tensor_attends(const opencl_facts *facts, bool has_wgmma, const sm_plan *plan,
                           const opencl_attention *attention);

// Sizes of a part's kernel; false where no tile of a head of HS channels fits.
bool opencl_tensor_score_sizes(const opencl_facts *facts, bool has_wgmma, int part, int64_t HS, int elem_bytes,
                               opencl_score_sizes *sizes);

// The kernel of a part, and the options of its program.
extern const char *const opencl_attention_kernels[OPENCL_ATTENTION_PARTS];
void opencl_attention_options(const opencl_score_sizes *s, int part, int64_t HS, bool drops, char *options,
                              size_t size_bytes);

void opencl_tensor_attention(opencl_binder *b, const opencl_attention *attention);
size_t opencl_tensor_attention_scratch_elems(const opencl_facts *facts, const sm_plan *plan,
                                             const opencl_attention *attention);

// --- nvidia/matrix_attention.c ---------------------------------------------------------------------

// Attention by wgmma of a small example, forward and backward: "" if its numbers are right, else what is wrong.
void opencl_try_attention(opencl_device *device, sm_dtype dtype, int HS, char *trouble, size_t size_bytes);

// --- nvidia/matrix.c, for it -----------------------------------------------------------------------

cl_mem opencl_make_buffer(opencl_device *d, size_t n_bytes, const void *from); // NULL: could not be made
void opencl_release_buffer(cl_mem buffer);                                     // NULL is fine

#endif
