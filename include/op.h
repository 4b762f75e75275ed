// op.h: the kinds of operation that a training step is made of.
//
// One table (op_table.h) gives each kind its equation and operands, op_kinds.c its FLOPs and bytes; walk,
// estimate, verify, profile and every backend read them. Builders and backends name an operand by SM_IN and SM_OUT.
#ifndef STEPMARK_OP_H
#define STEPMARK_OP_H

#include <stddef.h>

#include "tensor.h"

typedef enum {
#define OP(code, name, inplace, equation, source) code,
#include "op_table.h"
    SM_OP_KIND_COUNT
} sm_op_kind;

// The places of a kind's operands: struct members, so that the compiler knows which a kind has, counts them, and
// refuses an input's name among the outputs.
// (Braces open in one macro and close in another, which the formatter does not understand.)
// clang-format off
#define INPUTS(name)                           struct sm_inputs_of_##name {
#define IN(operand, shape, type, flags)        char operand;
#define OUTPUTS(name)                          char n_operands; }; struct sm_outputs_of_##name {
#define OUT(operand, shape, type, mode, flags) char operand;
#define END                                    char n_operands; };
#include "op_table.h"
// clang-format on

// op->in[SM_IN(adamw, g)], op->out[SM_OUT(adamw, p)]; SM_IN(adamw, n_operands) is how many inputs there are.
#define SM_IN(kind, operand)  ((int)offsetof(struct sm_inputs_of_##kind, operand))
#define SM_OUT(kind, operand) ((int)offsetof(struct sm_outputs_of_##kind, operand))

// What is done to the block of a matmul's result before it is stored. Made by rewrites.
enum {
    SM_EPILOGUE_BIAS = 1,          // matmul_forward: y = x W + b
    SM_EPILOGUE_GELU = 2,          // matmul_forward: also writes gelu(y), as its second output
    SM_EPILOGUE_GELU_BACKWARD = 4, // matmul_backward_input: dx = (dy W^T) * gelu'(pre)
};

// The reports attribute an op's time to its phase. (An op may run in another range than
// its phase: the chunked loss head runs backward ops in the forward range.)
#define SM_PHASE_LIST(X)                                                                        \
    X(SM_PHASE_ZERO_GRAD, "zero_grad")                                                          \
    X(SM_PHASE_FORWARD, "forward")                                                              \
    X(SM_PHASE_BACKWARD, "backward")                                                            \
    X(SM_PHASE_OPTIMIZER, "optimizer")                                                          \
    X(SM_PHASE_SCALER, "scaler")               /* of the loss; runs in the optimizer's range */ \
    X(SM_PHASE_COMMUNICATION, "communication") /* among processes; runs in the others' ranges */

typedef enum {
#define X(code, name) code,
    SM_PHASE_LIST(X)
#undef X
        SM_PHASE_COUNT
} sm_phase;

const char *sm_phase_name(sm_phase phase);

enum { SM_MAX_IN = 8, SM_MAX_OUT = 6 };

// Blocked attention stores a head's weights in blocks of rows, each as wide as its last row: up to the diagonal.
//
//     keys  0 ..63 64..127         block 0: rows 0..63 of 64 weights
//   rows 0  |#####|                block 1: rows 64..127 of 128 weights, and so on; the last ends with row and key T -
//   1
//        64 |#####|#####|
enum { SM_WEIGHT_BLOCK = 64 };

// Weights of row t of a head.
static inline int64_t sm_blocked_width(int64_t t, int64_t T) {
    const int64_t end = (t / SM_WEIGHT_BLOCK + 1) * SM_WEIGHT_BLOCK;
    return end < T ? end : T;
}

// Where they begin among the head's; of row T: how many there are.
static inline int64_t sm_blocked_elems(int64_t t, int64_t T) {
    const int64_t block = t / SM_WEIGHT_BLOCK;
    const int64_t before = SM_WEIGHT_BLOCK * SM_WEIGHT_BLOCK * (block * (block + 1) / 2);
    return before + (t - block * SM_WEIGHT_BLOCK) * sm_blocked_width(t, T);
}

// In which micro-batches of a step an op is done.
typedef enum {
    SM_WHEN_ALWAYS,
    SM_WHEN_MORE, // not in the last
    SM_WHEN_LAST  // in the last alone
} sm_when;

// Everything about an op that its operands' shapes do not say. Zero where it has no meaning.
typedef struct {
    int n_head;        // attention, rope: NH
    int n_kv_head;     // attention, rope: NKV, heads of keys and of values; NH / NKV heads of queries share one
    double rope_theta; // rope: the base of the angles
    bool inverse;      // rope: angles of the other sign, its derivative
    int64_t vocab;     // matmul of the head, cross-entropy: V; columns V..Vp-1 are padding, masked
    bool w_transposed; // matmul: W is (OC, C), as the tied head's; otherwise (C, OC), as Conv1D's; muon: x is (C, R)
    unsigned epilogue; // matmul: SM_EPILOGUE_*
    double eps;        // layernorm, rmsnorm
    double dropout_p;  // dropout, attention
    uint64_t rng_key;  // dropout, attention: Philox key, from seed and name (philox.h)
    bool decay;        // optimizers: these parameters take weight decay
    double a, b;       // combine
    bool overwrites;   // matmul_backward_weight: dW = x^T dy, whatever dW held; later micro-batches of a step add
    int n_processes;   // communication: N
    bool is_bf16;      // communication: summands and sums are rounded to bf16 on their way
    sm_when when;      // of several processes
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

// More about an operand.
enum {
    SM_OPTIONAL = 1,     // may be left out: SM_NO_TENSOR
    SM_TRANSPOSABLE = 2, // has its shape's two letters exchanged where attr.w_transposed is set
};

// What an operand is made of.
typedef enum {
    SM_OPERAND_DATA, // the plan's data type (plan.h)
    SM_OPERAND_REAL, // its real type
    SM_OPERAND_I32,
    SM_OPERAND_U32,
    SM_OPERAND_U8,
} sm_operand_type;

typedef struct {
    const char *name;  // as in the equation: "x", "dW"
    const char *shape; // "(B,T,C)"
    sm_operand_type type;
    sm_out_mode mode; // outputs only
    unsigned flags;
} sm_operand_info;

enum { SM_NO_OPERAND = -1 };

typedef struct {
    const char *name;              // "layernorm_forward"
    const char *equation;          // one line, in the operands' names
    const char *source;            // where the definition comes from (paper, section)
    sm_operand_info in[SM_MAX_IN]; // ends at the first with a null name
    sm_operand_info out[SM_MAX_OUT];
    int inplace_in; // index of the input that out[0] may overwrite, or SM_NO_OPERAND
} sm_op_info;

const sm_op_info *sm_op_get_info(sm_op_kind kind);
const char *sm_op_name(sm_op_kind kind);
bool sm_op_is_matmul(sm_op_kind kind);
bool sm_op_is_attention(sm_op_kind kind); // of any kind, forward or backward
bool sm_op_is_attention_forward(sm_op_kind kind);

// Is it done by the session, with other processes? No backend then has a kernel for it.
bool sm_op_is_communication(sm_op_kind kind);

// Whether the operand's shape is read with its two letters exchanged: the one rule for checks and for cases.
bool sm_operand_is_transposed(const sm_operand_info *operand, const sm_attrs *attr);

#endif
