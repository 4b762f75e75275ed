// tensor.h: the operands of a plan.
//
// A tensor is a name, a role, a dtype and a shape, stored row-major. It describes memory but owns none: the planner
// (src/plan/planner.c) assigns an arena and an offset, and a backend gives the arena an address.
//
// Dimension letters everywhere: B batch, T sequence, C = d_model, F = d_ff, V vocabulary,
// Vp padded vocabulary, NH heads, HS = C/NH head size, NKV heads of keys and values, L layers, N = B*T rows.
#pragma once

#include "number_format.h"
#include "words.h"

// The role of a tensor; memory is reported by role. X(code, name)
#define SM_ROLE_LIST(X)                                                                      \
    X(SM_ROLE_PARAMETER, "parameters")                                                       \
    X(SM_ROLE_GRADIENT, "gradients")                                                         \
    X(SM_ROLE_OPTIMIZER, "optimizer")    /* state, such as AdamW's m and v */                \
    X(SM_ROLE_ACTIVATION, "activations") /* written once a micro-step, packed by lifetime */ \
    X(SM_ROLE_SCRATCH, "scratch")        /* short-lived, reused within a phase */            \
    X(SM_ROLE_BATCH, "batch")            /* uploaded by the host: tokens, targets, hyper */  \
    X(SM_ROLE_RESULT, "results")         /* small, read by the host: loss, grad norm */

typedef enum { SM_ROLE_LIST(SM_CODE) SM_ROLE_COUNT } sm_role;

const char *sm_role_name(sm_role role);

enum { SM_MAX_DIMS = 4, SM_NAME_SIZE = 64, SM_NO_TENSOR = -1 };

typedef struct {
    char name[SM_NAME_SIZE]; // parameters carry their Hugging Face name, "h.0.attn.c_attn.weight"
    sm_role role;
    sm_dtype dtype;
    int n_dims;
    int64_t dims[SM_MAX_DIMS]; // outermost first

    // A view is a contiguous part of another tensor (its root): a parameter within its
    // group, a chunk of rows. It has no memory of its own.
    int view_of;               // index of the root tensor, or SM_NO_TENSOR
    int64_t view_offset_elems; // its start within the root

    // A parameter that matmuls read in another dtype: the index of the tensor with that copy. An op that writes the
    // parameter also writes the copy. SM_NO_TENSOR: matmuls read the parameter itself.
    int working_copy;

    // The whole state of a sharded optimizer, as it is saved: without memory of its own, but in the processes' slices.
    bool is_sharded;
    int shard_group;      // the parameter's group and its place there
    int64_t shard_offset; // in elements of the state
    int shard_block;      // parameters for each element of the state
    int shard_state;      // index of the update's output

    // Saved under this tensor's name, of the model or its optimizer's state: single parameters and states, not groups.
    bool is_saved;
    int64_t real_elems; // elements without padding (rows of a vocabulary that the model does not have)
    double init_value;  // parameters before training: the value of all elements,
    double init_std;    // or, if above 0, they are drawn from N(0, init_std)

    // Address of its values, for a backend in host memory; owned by the caller, only read. NULL: in its arena.
    const void *memory;

    // Filled by the planner, for roots and views alike.
    int arena;           // index into sm_plan.arenas
    size_t offset_bytes; // within that arena
} sm_tensor;

// Number of elements: the product of the dims.
static inline int64_t sm_tensor_elems(const sm_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) {
        n *= t->dims[i];
    }
    return n;
}

// The last dim: the length of a row.
static inline int64_t sm_tensor_cols(const sm_tensor *t) { return t->dims[t->n_dims - 1]; }

// Product of all dims but the last: a (B,T,C) tensor has B*T rows of C.
static inline int64_t sm_tensor_rows(const sm_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i + 1 < t->n_dims; i++) {
        n *= t->dims[i];
    }
    return n;
}

static inline size_t sm_tensor_bytes(const sm_tensor *t) {
    return (size_t)sm_tensor_elems(t) * sm_dtype_size(t->dtype);
}

// Whether they have bytes in common.
static inline bool sm_tensors_overlap(const sm_tensor *a, const sm_tensor *b) {
    return a->arena == b->arena && a->offset_bytes < b->offset_bytes + sm_tensor_bytes(b) &&
           b->offset_bytes < a->offset_bytes + sm_tensor_bytes(a);
}
