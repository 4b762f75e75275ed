// plan.h: a training step as data. An array of ops in execution order and a table of
// tensors (src/plan/plan.c); builders make it (src/models/builder.h), rewrites change it (src/rewrites/*.c),
// the planner gives it memory (src/plan/planner.c), backends execute it, reports read it. What its ops cost:
// src/plan/op_kinds.c.
#ifndef STEPMARK_PLAN_H
#define STEPMARK_PLAN_H

#include "op.h"
#include "status.h"

// The scalars that change from step to step live in the tensor `hyper` (real type), so that an
// executable's arguments never change. Kernels in cl/ know them by their places.
typedef enum {
    SM_HYPER_LR,
    SM_HYPER_BETA1,
    SM_HYPER_BETA2,
    SM_HYPER_EPS,
    SM_HYPER_WEIGHT_DECAY,
    SM_HYPER_BIAS_CORRECTION1, // 1 - beta1^t, t = 1, 2, ...
    SM_HYPER_BIAS_CORRECTION2, // 1 - beta2^t
    SM_HYPER_GRAD_CLIP,        // largest global gradient norm; 0 = no clipping
    SM_HYPER_LOSS_SCALE,       // 1 / micro-batches a step
    SM_HYPER_MOMENTUM,         // sgd, muon
    SM_HYPER_NESTEROV,         // sgd, muon: 1 = look ahead by the momentum, 0 = do not
    SM_HYPER_RELATIVE_STEP,    // adafactor: rho = min(lr, 1/sqrt(t))
    SM_HYPER_EPS2,             // adafactor: smallest root mean square of a parameter
    SM_HYPER_UPDATE_RMS,       // adafactor: d, largest root mean square of an update
    SM_HYPER_SCALE_GROWTH,     // scaler_update: factor on the loss scale after so many good steps
    SM_HYPER_SCALE_BACKOFF,    // and after one that is skipped
    SM_HYPER_SCALE_INTERVAL,   // good steps between two growths
    SM_HYPER_COUNT
} sm_hyper;

// How the loss is scaled, so that small gradients do not vanish in f16.
typedef struct {
    double scale;    // the first; 0: it is not scaled
    double growth;   // 1 and 1: the scale stays
    double backoff;  // after a step whose gradients are not finite; it is skipped
    double interval; // good steps until the scale grows
} sm_loss_scaling;

// The first scale of PyTorch's GradScaler.
static const sm_loss_scaling sm_dynamic_scaling = {.scale = 65536, .growth = 2, .backoff = 0.5, .interval = 2000};

// The elements of the tensor of that name (real type). Kernels in cl/ know them by these places.
typedef enum {
    SM_SCALER_SCALE,
    SM_SCALER_GOOD,    // steps since the scale changed
    SM_SCALER_SKIPPED, // steps in all
    SM_SCALER_COUNT
} sm_scaler;
#define SM_SCALER_NAME "loss_scaler"

// The results that the backward computes again instead of keeping them from the forward.
typedef enum {
    SM_RECOMPUTE_AUTO, // as the mode has it: rewrite.h
    SM_RECOMPUTE_NONE,
    SM_RECOMPUTE_LIGHT, // cheap results: outputs of normalisations and of pointwise functions
    SM_RECOMPUTE_BLOCK  // all of a block but its input
} sm_recompute;

// How attention keeps its weights for the backward. The words are --attention's (rewrite.h).
#define SM_ATTENTION_LIST(X)                                                    \
    X(SM_ATTENTION_AUTO, "auto")       /* as the mode has it */                 \
    X(SM_ATTENTION_NAIVE, "naive")     /* the whole square, T x T a head */     \
    X(SM_ATTENTION_BLOCKED, "blocked") /* blocks of rows, up to the diagonal */ \
    X(SM_ATTENTION_FLASH, "flash")     /* none: one number a row; they are computed again */

typedef enum {
#define X(code, name) code,
    SM_ATTENTION_LIST(X)
#undef X
} sm_attention;

// A contiguous piece of device memory that tensors are packed into.
typedef struct {
    sm_role role; // an arena holds tensors of one role
    size_t size_bytes;
    void *memory; // its address, for a backend that works in host memory: owned by the caller, zeroed, and kept
                  // until the executable is released; NULL: the backend's own
} sm_arena;

// The processes that share a step: each has a part of its batch. All zero: one has it all.
typedef struct {
    int n;
    int rank;        // of the process that executes the plan
    bool is_bf16;    // gradients are rounded to bf16 on their way
    bool is_sharded; // each process has its slice of the optimizer's state, and updates its slice of the parameters
} sm_processes;

// A unit of the processes' sums: a contiguous part of a group of gradients, and of the tensors that belong to it.
typedef struct {
    int group;                             // of parameters (params.h)
    int64_t first_elem;                    // within the group
    int64_t n_elems;                       //
    int gradient, value, working_copy;     // views of that part; SM_NO_TENSOR where the plan has none
    int own_gradient, own_value, own_copy; // this process's slice (shard.h), where the optimizer is sharded
    int states[SM_MAX_OUT];                // by output of the update: the slice's state
} sm_bucket;

typedef struct {
    sm_tensor *tensors;
    int n_tensors;
    int cap_tensors;
    sm_op *ops; // in execution order, ascending by range
    int n_ops;
    int cap_ops;
    sm_arena *arenas; // filled by sm_plan_assign_memory
    int n_arenas;

    // Data type of activations, their gradients, and the matrices that matmuls read; SM_F32, SM_F64, SM_BF16 or SM_F16.
    // An element is widened when it is read and rounded to nearest even when it is stored.
    sm_dtype dtype;
    sm_products products; // how matrix products and attention multiply data of SM_F32; sums are f32
    // Real type: of all other floating tensors: parameters, their gradients, optimizer state, statistics
    // (mean, rstd, lse), losses, hyper. SM_F32, or SM_F64 where the data type is SM_F64.
    sm_dtype real;
    sm_recompute recompute; // as asked for; once the plan is rewritten, as it is
    sm_attention attention; // likewise
    bool tuned;             // mode tuned: preparing the plan also chooses kernels by measurement
    int64_t n_params;       // elements of the model, padding excluded
    int64_t B, T, V;        // the batch's shape and the range of its ids, for the caller that feeds it
    double real_tokens;     // of a mean micro-batch of documents: targets that count; 0: not known, B T
    double attended_pairs;  // likewise, of a position and one that it sees; 0: not known, all of the causal half
    // A step has one micro-batch: its gradients are no sums with those of another. Rewrites and backends may rely on
    // it, so a session refuses a backward that does not follow a zero-grad.
    bool one_micro_batch;

    // Whose update the optimizer range is (optimizer.h); NULL where the plan has none.
    const struct sm_optimizer *optimizer;

    sm_processes processes;
    sm_bucket *buckets; // from the end of each group to its beginning, as the backward completes them
    int n_buckets;

    sm_loss_scaling scaling; // of the loss
    // Tensors that the host feeds and reads; SM_NO_TENSOR where the plan has none.
    int tokens;          // (B,T) i32
    int targets;         // (B,T) i32, -1 = ignored
    int gathered_tokens; // (N B,T) i32: of N processes, its own part fed; none where they are not gathered
    int starts;    // (B,T) i32: where in its row each position's document begins; none where a row is one document
    int hyper;     // (SM_HYPER_COUNT) real
    int rng_step;  // (2) u32: low and high word of the micro-step counter, for dropout
    int loss;      // (1) mean over the targets that count
    int losses;    // (B,T) a token each; 0 where ignored
    int grad_norm; // (1) global L2 norm before clipping
    int scaler;    // (SM_SCALER_COUNT) real: state of the loss scaling, part of the optimizer's
} sm_plan;

// A half-open range of op indices.
typedef struct {
    int first;
    int end;
} sm_range;

sm_plan *sm_plan_new(sm_dtype data_type); // NULL when out of memory
void sm_plan_free(sm_plan *plan);         // NULL is fine

// How an operand of that type in the table of op kinds is stored in this plan.
sm_dtype sm_plan_operand_dtype(const sm_plan *plan, sm_operand_type type);

sm_precision sm_plan_precision(const sm_plan *plan);

// For backends whose products have the precision of their operands: SM_ERR_UNSUPPORTED where the plan's do not.
sm_status sm_plan_supports_plain_products(const sm_plan *plan, const char *device_id);

// Adds a root tensor and returns its index, or SM_NO_TENSOR with the error message set
// (out of memory, a dim < 1, or a size that overflows).
int sm_plan_add_tensor(sm_plan *plan, sm_role role, sm_dtype dtype, int n_dims, const int64_t *dims,
                       const char *name_format, ...) __attribute__((format(printf, 6, 7)));

// Adds a view: `n_dims`/`dims` at `offset_elems` of tensor `of` (itself root or view).
int sm_plan_add_view(sm_plan *plan, int of, int64_t offset_elems, int n_dims, const int64_t *dims,
                     const char *name_format, ...) __attribute__((format(printf, 6, 7)));

// Appends a copy of `op` after checking that its operands fit its kind.
sm_status sm_plan_add_op(sm_plan *plan, const sm_op *op);

// An op with no operands yet: all SM_NO_TENSOR.
sm_op sm_op_make(sm_op_kind kind, sm_phase phase, int layer);

// Index of the tensor with that name, or SM_NO_TENSOR.
int sm_plan_find_tensor(const sm_plan *plan, const char *name);

// The root of a tensor: itself, or the tensor that it is a view of.
int sm_plan_root(const sm_plan *plan, int tensor);

// A single parameter of the model, named as Hugging Face names it ("wte.weight"): not its group, nor a copy. Its
// gradient is named "d." + its name; the copy that matmuls read is "bf16." + its name in a plan of data type bf16,
// "f16." + its name in f16.
bool sm_plan_is_param(const sm_plan *plan, int tensor);

// The ops whose `range` is that phase; empty where the plan has none.
sm_range sm_plan_range(const sm_plan *plan, sm_phase range);

// Work and traffic of one op: multiply and add count one FLOP each; bytes are those that an
// ideal machine moves: each input read once, each output written once (and read first if
// it adds or updates).
double sm_op_flops(const sm_plan *plan, const sm_op *op);
double sm_op_bytes(const sm_plan *plan, const sm_op *op);                   // in a step's first micro-batch
double sm_op_mean_bytes(const sm_plan *plan, const sm_op *op, int n_accum); // over the micro-batches of a step

// The op that replaces this one in later micro-batches of a step: an op that overwrites in the first adds in them.
// False: the same op, or there are none.
bool sm_op_later(const sm_plan *plan, const sm_op *op, sm_op *later);

// Checks shapes, dtypes and attributes of one op against its kind.
sm_status sm_op_check(const sm_plan *plan, const sm_op *op);

// The size of a letter of its operands' shapes, "C"; 0 where the op does not have it.
int64_t sm_op_dimension(const sm_plan *plan, const sm_op *op, const char *name);

// Packs every root tensor into arenas of at most `max_arena_bytes` (0 = no limit). Activations whose lifetimes do not
// overlap share addresses; so do scratch tensors. SM_ERR_OOM: a single tensor is larger than an arena may be.
sm_status sm_plan_assign_memory(sm_plan *plan, size_t max_arena_bytes);

// Bytes that the plan asks of a device: by role, and in all (the sum of the arenas).
// by_role may be NULL. Valid after sm_plan_assign_memory.
size_t sm_plan_memory(const sm_plan *plan, size_t by_role[SM_ROLE_COUNT]);

// For each tensor, the range of ops during which it holds data: first use to one past last use (of it or its root);
// tensors that outlive the step get all ops, unused ones none. `lives` has plan->n_tensors entries.
sm_status sm_plan_lifetimes(const sm_plan *plan, sm_range *lives);

// Bytes of a role's tensors that hold data while each op runs, by the lifetimes that the planner packs: the largest
// entry is the need of a perfect packing. alive_bytes has plan->n_ops entries.
sm_status sm_plan_alive_bytes(const sm_plan *plan, sm_role role, size_t *alive_bytes);

#endif
