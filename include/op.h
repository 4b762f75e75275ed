// op.h: the kinds of operation that a training step is made of.
//
// One table (op_table.h) gives each kind its equation, operands, FLOPs and attributes; walk, estimate, verify, profile
// and every backend read them. Builders and backends name an operand by SM_IN and SM_OUT.
#pragma once

#include "activation.h"
#include "tensor.h"

typedef enum {
#define OP(code, ...) code,
#include "op_table.h"
    SM_OP_KIND_COUNT
} sm_op_kind;

// Operands are struct members, so that the compiler knows and counts those of a kind, and refuses an input's name among
// the outputs. (The formatter does not understand braces that open in one macro and close in another.)
// clang-format off
#define OP(code, name, ...)                    struct sm_inputs_of_##name {
#define IN(operand, shape, type, flags)        int operand;
#define END                                    int n_operands; };
#include "op_table.h"
#define OP(code, name, ...)                    struct sm_outputs_of_##name {
#define OUT(operand, shape, type, mode, flags) int operand;
#define END                                    int n_operands; };
#include "op_table.h"
// clang-format on

// op->in[SM_IN(adamw, g)], op->out[SM_OUT(adamw, p)]; SM_IN(adamw, n_operands) is how many inputs there are.
#define SM_IN(kind, operand)  ((int)(offsetof(struct sm_inputs_of_##kind, operand) / sizeof(int)))
#define SM_OUT(kind, operand) ((int)(offsetof(struct sm_outputs_of_##kind, operand) / sizeof(int)))

// All inputs of an op, or all outputs, in the table's order, SM_NO_TENSOR for one left out; the compiler counts them:
//     SM_INPUTS(op, adamw, g, plan->hyper, clip);
#define SM_INPUTS(op, kind, ...) \
    memcpy((op).in, &(struct sm_inputs_of_##kind){__VA_ARGS__, 0}, sizeof(int) * SM_IN(kind, n_operands))
#define SM_OUTPUTS(op, kind, ...) \
    memcpy((op).out, &(struct sm_outputs_of_##kind){__VA_ARGS__, 0}, sizeof(int) * SM_OUT(kind, n_operands))

// Operations on a block of a matmul's result before it is stored. Rewrites set them.
typedef enum {
#define X(CODE, name, f, slope) SM_ACTIVATION_##CODE,
    SM_ACTIVATION_LIST(X)
#undef X
        SM_ACTIVATION_COUNT
} sm_activation;

// Each activation has two, as GELU: SM_EPILOGUE_GELU, by which matmul_forward also writes gelu(y), its second output;
// and SM_EPILOGUE_GELU_BACKWARD, by which matmul_backward_input computes dx = (dy W^T) * gelu'(pre).
enum {
    SM_EPILOGUE_BIAS = 1, // matmul_forward: y = x W + b
#define X(CODE, name, f, slope)                           \
    SM_EPILOGUE_##CODE = 2 << (2 * SM_ACTIVATION_##CODE), \
    SM_EPILOGUE_##CODE##_BACKWARD = 4 << (2 * SM_ACTIVATION_##CODE),
    SM_ACTIVATION_LIST(X)
#undef X
#define X(CODE, name, f, slope) | SM_EPILOGUE_##CODE
        SM_EPILOGUE_ACT = 0 SM_ACTIVATION_LIST(X), // any
#undef X
#define X(CODE, name, f, slope) | SM_EPILOGUE_##CODE##_BACKWARD
    SM_EPILOGUE_ACT_BACKWARD = 0 SM_ACTIVATION_LIST(X)
#undef X
};

// The reports attribute an op's time to its phase. (An op may run in another range than its phase: the chunked loss
// head runs backward ops in the forward range.)
#define SM_PHASE_LIST(X)                                                                             \
    X(SM_PHASE_ZERO_GRAD, "zero_grad")                                                               \
    X(SM_PHASE_FORWARD, "forward")                                                                   \
    X(SM_PHASE_BACKWARD, "backward")                                                                 \
    X(SM_PHASE_OPTIMIZER, "optimizer")                                                               \
    X(SM_PHASE_SCALER, "scaler")               /* of loss, factors; runs in the optimizer's range */ \
    X(SM_PHASE_COMMUNICATION, "communication") /* among processes; runs in the others' ranges */

typedef enum { SM_PHASE_LIST(SM_CODE) SM_PHASE_COUNT } sm_phase;

const char *sm_phase_name(sm_phase phase);

enum { SM_MAX_IN = 8, SM_MAX_OUT = 6, SM_MAX_OPERANDS = SM_MAX_IN + SM_MAX_OUT };

// The micro-batches of a step in which an op runs.
typedef enum {
    SM_WHEN_ALWAYS,
    SM_WHEN_MORE, // not in the last
    SM_WHEN_LAST  // only in the last
} sm_when;

// Every fact about an op that the shapes of its operands do not contain. This list makes the members of sm_attrs, the
// output of walk, the cases of verify, and the arguments of users' kernels. Zero where it has no meaning.
//
//   FIELD(type, name, letter, text)        letter: its name in equations, in the texts of cases and for users' kernels;
//                                          text: what a number means, or what holds where a switch is on
//   EPILOGUE(code, name, letter, text)     likewise, a bit of the member `epilogue`
//
// The row of a kind in op_table.h lists the attributes that it has.
#define SM_ATTR_LIST(FIELD, EPILOGUE)                                                                             \
    FIELD(int, n_head, "NH", "heads")                                                                             \
    FIELD(int, n_kv_head, "NKV", "heads of keys and values; NH / NKV heads of queries, side by side, share one")  \
    FIELD(double, rope_theta, "theta", "base of the angles")                                                      \
    FIELD(bool, inverse, "inverse", "angles of the other sign")                                                   \
    FIELD(int64_t, vocab, "V", "columns that count; those from V to Vp are padding")                              \
    FIELD(bool, w_transposed, "w_transposed", "the matrix is stored with rows and columns exchanged")             \
    EPILOGUE(SM_EPILOGUE_BIAS, then_bias, "bias", "then y += b")                                                  \
    EPILOGUE(SM_EPILOGUE_GELU, then_gelu, "gelu", "then act = gelu(y)")                                           \
    EPILOGUE(SM_EPILOGUE_GELU_BACKWARD, then_gelu_backward, "gelu_backward", "then dx *= gelu'(pre)")             \
    EPILOGUE(SM_EPILOGUE_RELU2, then_relu2, "relu2", "then act = relu2(y)")                                       \
    EPILOGUE(SM_EPILOGUE_RELU2_BACKWARD, then_relu2_backward, "relu2_backward", "then dx *= relu2'(pre)")         \
    FIELD(bool, fp8, "fp8", "factors are bytes with scales, the dimension that is summed along their rows")       \
    FIELD(bool, overwrites, "overwrites", "gradients are written, not added to") /* the first micro-batch */      \
    FIELD(double, eps, "eps", "added to the variance")                                                            \
    FIELD(double, dropout_p, "p", "the probability that an element is dropped")                                   \
    FIELD(uint64_t, rng_key, "key", "Philox key of the mask, from seed and name (philox.h)")                      \
    FIELD(bool, decay, "decay", "weight decay")                                                                   \
    FIELD(double, a, "a", "factor")                                                                               \
    FIELD(double, b, "b", "factor")                                                                               \
    FIELD(int, n_processes, "N", "processes")                                                                     \
    FIELD(bool, is_bf16, "is_bf16", "summands and sums are rounded to bf16 on their way")                         \
    FIELD(bool, from_last, "from_last", "the last process's slice is the whole")                                  \
    FIELD(sm_when, when, "when", "1: in all micro-batches of a step but the last; 2: in the last alone")          \
    FIELD(bool, cut, "cut", "without its mask, or its residual line")              /* learn/live alone sets it */ \
    FIELD(bool, recomputed, "recomputed", "computed again, not kept from forward") /* any kind; counts no FLOPs */

#define NO_EPILOGUE(code, name, letter, text)
typedef struct {
#define FIELD(type, name, letter, text) type name;
    SM_ATTR_LIST(FIELD, NO_EPILOGUE)
#undef FIELD
    unsigned epilogue; // SM_EPILOGUE_*
} sm_attrs;
#undef NO_EPILOGUE

typedef enum {
#define FIELD(type, name, letter, text)    SM_ATTR_##name,
#define EPILOGUE(code, name, letter, text) SM_ATTR_##name,
    SM_ATTR_LIST(FIELD, EPILOGUE)
#undef FIELD
#undef EPILOGUE
        SM_ATTR_COUNT
} sm_attr;

typedef enum {
    SM_ATTR_INTEGER,
    SM_ATTR_REAL,
    SM_ATTR_SWITCH,
    SM_ATTR_EPILOGUE, // a switch
    SM_ATTR_KEY,      // 64 bits, more than a double's 53
} sm_attr_type;

typedef struct {
    const char *name;
    const char *letter;
    const char *text;
    sm_attr_type type;
} sm_attr_info;

const sm_attr_info *sm_attr_get_info(sm_attr attr);

// An attribute of any type as a number; a switch is 0 or 1.
double sm_attr_get(const sm_attrs *attrs, sm_attr attr);
void sm_attr_set(sm_attrs *attrs, sm_attr attr, double value);

typedef struct {
    sm_op_kind kind;
    sm_phase range; // the part of the program that executes it
    sm_phase phase; // the part of the step that its cost is reported under
    int layer;      // 0..L-1, or -1 outside the blocks
    union {         // tensor indices; SM_NO_TENSOR for an optional operand left out
        struct {
            int in[SM_MAX_IN];
            int out[SM_MAX_OUT];
        };
        int operands[SM_MAX_OPERANDS]; // inputs, then outputs from SM_MAX_IN on
    };
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
    SM_TRANSPOSABLE = 2, // exchanges its shape's two letters when attr.w_transposed is set
    SM_INPLACE = 4,      // this output, and not the first, may lie where the input inplace_in lies
    SM_FACTOR = 8,       // of a product: of type SM_OPERAND_FP8 when attr.fp8 is set
    SM_TURNABLE = 16,    // exchanges its shape's two letters when attr.fp8 is set
};

// The element type of an operand.
typedef enum {
    SM_OPERAND_DATA, // the plan's data type (plan.h)
    SM_OPERAND_REAL, // its real type
    SM_OPERAND_I32,
    SM_OPERAND_U32,
    SM_OPERAND_U8,
    SM_OPERAND_FP8, // SM_E4M3 or SM_E5M2: what the tensor says
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
    const char *name;     // "layernorm_forward"
    const char *equation; // one line, in the operands' names
    const char *source;   // where the definition comes from (paper, section)
    union {               // without a name where the kind has no such operand
        struct {
            sm_operand_info in[SM_MAX_IN];
            sm_operand_info out[SM_MAX_OUT];
        };
        sm_operand_info operands[SM_MAX_OPERANDS];
    };
    int inplace_in;      // index of the input that out[sm_op_inplace_out()] may overwrite, or SM_NO_OPERAND
    unsigned attributes; // bits: 1u << SM_ATTR_*
    bool is_cheap;       // a forward op that is computed again instead of kept
    bool is_shared;      // done together with other processes, by the session: no backend has a kernel
} sm_op_info;

// The ops of an activation, each with x as an input and the result as its output, and its bits as an epilogue.
typedef struct {
    const char *name;
    sm_op_kind forward, backward;
    unsigned epilogue, epilogue_backward;
} sm_activation_info;

const sm_activation_info *sm_activation_get_info(sm_activation activation);
sm_activation sm_epilogue_activation(unsigned epilogue); // whose bit is set

const sm_op_info *sm_op_get_info(sm_op_kind kind);
const char *sm_op_name(sm_op_kind kind);
// Index of the input or output with that name, or SM_NO_OPERAND; and the op's tensor there, or SM_NO_TENSOR.
int sm_op_find_in(sm_op_kind kind, const char *name);
int sm_op_find_out(sm_op_kind kind, const char *name);
int sm_op_tensor(const sm_op *op, const char *name);
int sm_op_inplace_out(const sm_op_info *info); // the output with SM_INPLACE, otherwise 0
// The kind's equation without the clauses (divided by ";  ") of optional outputs that the op leaves out.
enum { SM_EQUATION_SIZE = 256 };
void sm_op_equation(const sm_op *op, char text[SM_EQUATION_SIZE]);
bool sm_op_is_matmul(sm_op_kind kind);
bool sm_op_is_attention(sm_op_kind kind); // of any kind, forward or backward
bool sm_op_is_attention_forward(sm_op_kind kind);

bool sm_op_is_communication(sm_op_kind kind); // sm_op_info.is_shared
bool sm_op_has_attr(sm_op_kind kind, sm_attr attr);

// A dimension in the text of a shape, such as "2F", "1" or "n/256" in "(N,2F)".
typedef struct {
    const char *letters;
    size_t length; // of these; 0: a plain number, `factor`
    int64_t factor, block;
} sm_shape_dim;

// Reads the next dimension, from the beginning of a shape on; false: there is none.
bool sm_shape_next(const char **shape, sm_shape_dim *dim);

// Whether the operand's shape is read with its two letters exchanged; checks and cases both ask here.
bool sm_operand_is_transposed(const sm_operand_info *operand, const sm_attrs *attr);
