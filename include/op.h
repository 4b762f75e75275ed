// op.h: the kinds of operation that a training step is made of.
//
// One table (src/op_kinds.c) gives each kind its equation, operands, FLOPs and bytes;
// walk, estimate, verify, profile and every backend read that table. The operand order
// below is the contract between the builder and the backends.
#ifndef STEPMARK_OP_H
#define STEPMARK_OP_H

#include "tensor.h"

// X(code, name). The file that implements a kind has the name's stem in every backend:
// attention, bias, dropout, embedding, gelu, grad_norm, layernorm, loss, matmul, residual,
// adamw, zero.
#define SM_OP_KIND_LIST(X)                                              \
    X(SM_OP_ZERO, "zero")                                               \
    X(SM_OP_LOSS_SCALE, "loss_scale")                                   \
    X(SM_OP_EMBEDDING_FORWARD, "embedding_forward")                     \
    X(SM_OP_EMBEDDING_BACKWARD, "embedding_backward")                   \
    X(SM_OP_DROPOUT, "dropout")                                         \
    X(SM_OP_LAYERNORM_FORWARD, "layernorm_forward")                     \
    X(SM_OP_LAYERNORM_BACKWARD, "layernorm_backward")                   \
    X(SM_OP_MATMUL_FORWARD, "matmul_forward")                           \
    X(SM_OP_MATMUL_BACKWARD_INPUT, "matmul_backward_input")             \
    X(SM_OP_MATMUL_BACKWARD_WEIGHT, "matmul_backward_weight")           \
    X(SM_OP_BIAS_FORWARD, "bias_forward")                               \
    X(SM_OP_BIAS_BACKWARD, "bias_backward")                             \
    X(SM_OP_ATTENTION_FORWARD, "attention_forward")                     \
    X(SM_OP_ATTENTION_BACKWARD, "attention_backward")                   \
    X(SM_OP_GELU_FORWARD, "gelu_forward")                               \
    X(SM_OP_GELU_BACKWARD, "gelu_backward")                             \
    X(SM_OP_RESIDUAL, "residual")                                       \
    X(SM_OP_CROSSENTROPY_FORWARD, "crossentropy_forward")               \
    X(SM_OP_CROSSENTROPY_BACKWARD, "crossentropy_backward")             \
    X(SM_OP_LOSS_MEAN, "loss_mean")                                     \
    X(SM_OP_GRAD_SQNORM, "grad_sqnorm")                                 \
    X(SM_OP_GRAD_CLIP, "grad_clip")                                     \
    X(SM_OP_ADAMW, "adamw")                                             \
    /* made by rewrites, each equal to the composition it replaces */   \
    X(SM_OP_RESIDUAL_LAYERNORM_FORWARD, "residual_layernorm_forward")   \
    X(SM_OP_RESIDUAL_LAYERNORM_BACKWARD, "residual_layernorm_backward") \
    X(SM_OP_FLASH_ATTENTION_FORWARD, "flash_attention_forward")         \
    X(SM_OP_FLASH_ATTENTION_BACKWARD, "flash_attention_backward")

typedef enum {
#define X(code, name) code,
    SM_OP_KIND_LIST(X)
#undef X
        SM_OP_KIND_COUNT
} sm_op_kind;

// What is done to the block of a matmul's result before it is stored. Made by rewrites.
enum {
    SM_EPILOGUE_BIAS = 1,          // matmul_forward: y = x W + b
    SM_EPILOGUE_GELU = 2,          // matmul_forward: also writes gelu(y), as its second output
    SM_EPILOGUE_GELU_BACKWARD = 4, // matmul_backward_input: dx = (dy W^T) * gelu'(pre)
};

// The reports attribute an op's time to its phase. (An op may run in another range than
// its phase: the chunked loss head runs backward ops in the forward range.)
#define SM_PHASE_LIST(X)               \
    X(SM_PHASE_ZERO_GRAD, "zero_grad") \
    X(SM_PHASE_FORWARD, "forward")     \
    X(SM_PHASE_BACKWARD, "backward")   \
    X(SM_PHASE_OPTIMIZER, "optimizer")

typedef enum {
#define X(code, name) code,
    SM_PHASE_LIST(X)
#undef X
        SM_PHASE_COUNT
} sm_phase;

const char *sm_phase_name(sm_phase phase);

enum { SM_MAX_IN = 8, SM_MAX_OUT = 4 };

// Everything about an op that its operands' shapes do not say. Zero where it has no meaning.
typedef struct {
    int n_head;        // attention: NH
    int64_t vocab;     // matmul of the head, cross-entropy: V; columns V..Vp-1 are padding, masked
    bool w_transposed; // matmul: W is (OC, C), as the tied head's; otherwise (C, OC), as Conv1D's
    unsigned epilogue; // matmul: SM_EPILOGUE_*
    double eps;        // layernorm
    double dropout_p;  // dropout, attention
    uint64_t rng_key;  // dropout, attention: Philox key, from seed and name (philox.h)
    bool decay;        // adamw: this group takes weight decay
    bool overwrites;   // matmul_backward_weight: dW = x^T dy, whatever dW held
    bool recomputed;   // any: gives again what an earlier op gave; not work of the step, so it counts no FLOPs
} sm_attrs;

typedef struct {
    sm_op_kind kind;
    sm_phase range;    // the part of the program it is executed in
    sm_phase phase;    // the part of the step its cost is reported under
    int layer;         // 0..L-1, or -1 outside the blocks
    int in[SM_MAX_IN]; // tensor indices; SM_NO_TENSOR for an optional operand left out
    int out[SM_MAX_OUT];
    sm_attrs attr;
} sm_op;

// How an op treats an output that already holds data.
typedef enum {
    SM_WRITES,  // overwritten
    SM_ADDS,    // out += ...: gradients of parameters, zeroed once a step
    SM_UPDATES, // read and rewritten in place: AdamW's p, m, v
} sm_out_mode;

typedef struct {
    const char *name;  // as in the equation: "x", "dW"
    const char *shape; // "(B,T,C)"
    sm_dtype dtype;    // SM_F32 stands for the plan's real type, SM_BF16 for its data type (plan.h)
    bool optional;
    sm_out_mode mode; // outputs only
} sm_operand_info;

typedef struct {
    const char *name;              // "layernorm_forward"
    const char *equation;          // one line, in the operands' names
    const char *source;            // where the definition comes from (paper, section)
    sm_operand_info in[SM_MAX_IN]; // ends at the first with a null name
    sm_operand_info out[SM_MAX_OUT];
    int inplace_in; // index of the input that out[0] may overwrite, or -1
} sm_op_info;

const sm_op_info *sm_op_get_info(sm_op_kind kind);
const char *sm_op_name(sm_op_kind kind);

#endif
