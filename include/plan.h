// plan.h: a training step as data. An array of ops in execution order and a table of tensors (src/plan/plan.c);
// builders make it (src/models/builder.h), rewrites change it (src/rewrites/*.c), the planner gives it memory
// (src/plan/planner.c), backends execute it, reports read it. The cost of its ops: src/plan/op_kinds.c.
#pragma once

#include "op.h"
#include "status.h"

// Scalars that change from step to step are elements of the tensor `hyper` (real type), so that an executable's
// arguments never change. Kernels in cl/ use the same indices.
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
    SM_HYPER_SCALE_GROWTH,     // scaler_update: factor on the loss scale after SM_HYPER_SCALE_INTERVAL good steps
    SM_HYPER_SCALE_BACKOFF,    // factor after a skipped step
    SM_HYPER_SCALE_INTERVAL,   // good steps between two growths
    SM_HYPER_COUNT
} sm_hyper;

// Loss scaling, so that small gradients do not vanish in f16.
typedef struct {
    double scale;    // the initial scale; 0: no scaling
    double growth;   // 1, with backoff 1: the scale is constant
    double backoff;  // after a step with gradients that are not finite; that step is skipped
    double interval; // good steps until the scale grows
} sm_loss_scaling;

// The defaults of PyTorch's GradScaler.
static const sm_loss_scaling sm_dynamic_scaling = {.scale = 65536, .growth = 2, .backoff = 0.5, .interval = 2000};

// The elements of the tensor `scaler` (real type). Kernels in cl/ use the same indices.
typedef enum {
    SM_SCALER_SCALE,
    SM_SCALER_GOOD,    // steps since the scale changed
    SM_SCALER_SKIPPED, // skipped steps in all
    SM_SCALER_COUNT
} sm_scaler;
#define SM_SCALER_NAME "loss_scaler"

// Names of the scales of factors in 8 bits and their history begin with this; a scale is 2^-60 to 2^60.
#define SM_FP8_PREFIX "fp8."

// The results that the backward computes again instead of keeping them from the forward.
typedef enum {
    SM_RECOMPUTE_AUTO, // not given: rewrite.h
    SM_RECOMPUTE_NONE,
    SM_RECOMPUTE_LIGHT, // cheap results: outputs of normalisations and of pointwise functions
    SM_RECOMPUTE_BLOCK, // everything in a block except its input
// Likewise in k blocks together, SM_RECOMPUTE_BLOCK_4. X(k)
#define SM_RECOMPUTE_GROUPS(X) X(2) X(3) X(4) X(6) X(8) X(12) X(16) X(24)
#define X(k)                   SM_RECOMPUTE_BLOCK_##k,
    SM_RECOMPUTE_GROUPS(X)
#undef X
} sm_recompute;

// How attention keeps its weights for the backward, with the words of --attention (rewrite.h).
#define SM_ATTENTION_LIST(X)                                            \
    X(SM_ATTENTION_AUTO, "auto")   /* the mode decides */               \
    X(SM_ATTENTION_NAIVE, "naive") /* the whole square, T x T a head */ \
    X(SM_ATTENTION_FLASH, "flash") /* none, but one number for each row; computed again */

typedef enum { SM_ATTENTION_LIST(SM_CODE) } sm_attention;

// A contiguous piece of device memory that tensors are packed into.
typedef struct {
    sm_role role; // an arena holds tensors of one role
    size_t size_bytes;
    void *memory; // its address, for a backend that works in host memory: owned and zeroed by the caller, valid until
                  // the executable is released; NULL: the backend allocates it
} sm_arena;

// Other ways to exchange gradients, once the backward has ended, to compare with: each by itself, and all at once.
#define SM_BUCKETS_NAIVE INT64_C(-1)
#define SM_BUCKETS_ALL   INT64_MAX

// The processes that share a step: each has a part of its batch. All zero: a single process.
typedef struct {
    int n;
    int rank;         // of this process
    bool is_bf16;     // gradients are rounded to bf16 when they are exchanged
    bool is_sharded;  // each process keeps its slice of the optimizer's state and updates its slice of the parameters
    bool never_clips; // no step clips its gradients, so that updates need not wait for their norm
    int64_t bucket_bytes; // gradients that are exchanged together; 0: as many as is usual; see below
} sm_processes;

// A unit of gradient exchange: a contiguous part of a group of gradients, and the tensors that belong to it.
typedef struct {
    int group;          // of parameters (params.h)
    int64_t first_elem; // within the group
    int64_t n_elems;
    int gradient, value, working_copy;     // views of that part; SM_NO_TENSOR where the plan has none
    int own_gradient, own_value, own_copy; // this process's slice (shard.h), where the optimizer is sharded
    int states[SM_MAX_OUT];                // for each output of the update: the slice's state
} sm_bucket;

typedef struct {
    sm_status status; // the first failure to add a tensor or an op: after it nothing is added
    sm_tensor *tensors;
    int n_tensors;
    sm_op *ops; // in execution order, ascending by range
    int n_ops;
    sm_arena *arenas; // filled by sm_plan_assign_memory
    int n_arenas;

    // Data type of activations, their gradients, and the matrices that matmuls read: SM_F32, SM_F64, SM_BF16 or SM_F16.
    // Reading an element widens it; storing rounds to nearest even.
    sm_dtype dtype;
    sm_products products; // how matmuls and attention multiply SM_F32 data; sums are f32
    // Real type, of all other floating tensors (parameters, their gradients, optimizer state, statistics, losses,
    // hyper): SM_F64 if the data type is SM_F64, otherwise SM_F32.
    sm_dtype real;
    sm_recompute recompute; // as requested; after the rewrites, as applied
    sm_attention attention; // likewise
    bool tuned;             // mode tuned: preparing the plan also chooses kernels by measurement
    int64_t n_params;       // elements of the model, padding excluded
    int64_t B, T, V;        // the batch's shape and the range of its ids
    double real_tokens;     // mean number of targets that count in a micro-batch; 0: unknown, take B T
    double attended_pairs;  // mean pairs of a position and one that it attends to; 0: unknown, take the whole causal
                            // half
    // A step has one micro-batch, so gradients need not be accumulated. Rewrites and backends may rely on it: a session
    // refuses a backward that does not follow a zero-grad.
    bool one_micro_batch;

    // The optimizer of the optimizer range (optimizer.h); NULL if the plan has none.
    const struct sm_optimizer *optimizer;

    sm_processes processes;
    sm_bucket *buckets; // from the end of each group to its beginning, the order in which the backward completes them
    int n_buckets;

    sm_loss_scaling scaling; // of the loss
    // Tensors that the host writes and reads; SM_NO_TENSOR if absent.
    int tokens;          // (B,T) i32
    int targets;         // (B,T) i32, -1 = ignored
    int gathered_tokens; // (N B,T) i32: tokens of all N processes; absent if not gathered
    int starts;          // (B,T) i32: for each position, the start of its document in the row; absent if a row is one
                         // document
    int hyper;           // (SM_HYPER_COUNT) real
    int rng_step;        // (2) u32: low and high word of the micro-step counter, for dropout
    int loss;            // (1) mean over the targets that count
    int losses;          // (B,T) loss of each token; 0 where ignored
    int grad_norm;       // (1) global L2 norm before clipping
    int scaler;          // (SM_SCALER_COUNT) real: state of loss scaling, saved with the optimizer
} sm_plan;

// A half-open range of op indices.
typedef struct {
    int first;
    int end;
} sm_range;

sm_plan *sm_plan_new(sm_dtype data_type);
void sm_plan_free(sm_plan *plan); // NULL is fine
SM_OWNABLE(sm_plan, sm_plan_free)

// The dtype in this plan of an operand of that type in the table of op kinds.
sm_dtype sm_plan_operand_dtype(const sm_plan *plan, sm_operand_type type);

sm_precision sm_plan_precision(const sm_plan *plan);

// SM_ERR_UNSUPPORTED if the plan's products are not plain; for backends that compute only those.
sm_status sm_plan_supports_plain_products(const sm_plan *plan, const char *device_id);

// Adds a root tensor and returns its index, or SM_NO_TENSOR after a failure, with its message (a dim < 1, an overflow).
int sm_plan_add_tensor(sm_plan *plan, sm_role role, sm_dtype dtype, int n_dims, const int64_t *dims,
                       const char *name_format, ...) __attribute__((format(printf, 6, 7)));

// Adds a view: `n_dims`/`dims` at `offset_elems` of tensor `of` (a root or a view). SM_NO_TENSOR of SM_NO_TENSOR.
int sm_plan_add_view(sm_plan *plan, int of, int64_t offset_elems, int n_dims, const int64_t *dims,
                     const char *name_format, ...) __attribute__((format(printf, 6, 7)));

// Appends a copy of `op` after checking that its operands fit its kind. Returns the plan's status.
sm_status sm_plan_add_op(sm_plan *plan, const sm_op *op);

// An op with no operands yet: all SM_NO_TENSOR.
sm_op sm_op_make(sm_op_kind kind, sm_phase phase, int layer);

// Whether the plan is of a training step; false: of ops by themselves, which have no loss.
static inline bool sm_plan_is_step(const sm_plan *plan) { return plan->loss != SM_NO_TENSOR; }

// Index of the tensor with that name, or SM_NO_TENSOR.
int sm_plan_find_tensor(const sm_plan *plan, const char *name);

// The root of a tensor: itself, or the tensor that it is a view of.
int sm_plan_root(const sm_plan *plan, int tensor);

// Whether a tensor is one parameter of the model, with Hugging Face's name ("wte.weight"): not a group, not a copy. Its
// gradient is named "d." + its name; the copy that matmuls read is "bf16." + its name in a plan of data type bf16,
// "f16." + its name in f16.
bool sm_plan_is_param(const sm_plan *plan, int tensor);

// The ops whose `range` is that phase; empty if the plan has none.
sm_range sm_plan_range(const sm_plan *plan, sm_phase range);

// Work and traffic of one op. A multiply and an add count one FLOP each; bytes are those that an ideal machine moves:
// each input read once, each output written once (and read first if it adds or updates).
double sm_op_flops(const sm_plan *plan, const sm_op *op);
double sm_op_bytes(const sm_plan *plan, const sm_op *op);                   // in a step's first micro-batch
double sm_op_mean_bytes(const sm_plan *plan, const sm_op *op, int n_accum); // mean over the micro-batches of a step

// The op that replaces this one in later micro-batches of a step: an op that overwrites in the first adds in them.
// False: nothing changes, or the step has one micro-batch.
bool sm_op_later(const sm_plan *plan, const sm_op *op, sm_op *later);

// Checks shapes, dtypes and attributes of one op against its kind.
sm_status sm_op_check(const sm_plan *plan, const sm_op *op);

// The value of a letter of its operands' shapes, such as "C"; 0 if the op does not have it.
int64_t sm_op_dimension(const sm_plan *plan, const sm_op *op, const char *name);

// Packs every root tensor into arenas of at most `max_arena_bytes` (0 = no limit). Activations whose lifetimes do not
// overlap share addresses; so do scratch tensors. SM_ERR_OOM: a single tensor is larger than an arena may be.
sm_status sm_plan_assign_memory(sm_plan *plan, size_t max_arena_bytes);

// Data that processes exchange is kept in smaller pieces: OpenCL imports only less than 512 MiB from CUDA's driver
// (580; more ends the process).
enum { SM_EXCHANGED_BYTES = 508 << 20 };

// The largest size for a plan's pieces, of a limit in bytes (0 = no limit).
static inline size_t sm_plan_exchanged_bytes(const sm_plan *plan, size_t max_bytes) {
    return plan->processes.n > 1 && (max_bytes == 0 || max_bytes > SM_EXCHANGED_BYTES) ? SM_EXCHANGED_BYTES : max_bytes;
}

static inline bool sm_plan_is_exchanged(const sm_plan *plan, sm_role role) {
    return plan->processes.n > 1 &&
           (role == SM_ROLE_GRADIENT || (role == SM_ROLE_PARAMETER && plan->processes.is_sharded));
}

// Bytes that the plan needs on a device, by role (or NULL) and in all (its arenas). Valid after sm_plan_assign_memory.
size_t sm_plan_memory(const sm_plan *plan, size_t by_role[SM_ROLE_COUNT]);

// For each tensor, the range of ops during which it holds data: first use to one past last use (of it or its root);
// tensors that outlive the step get all ops, unused ones none. `lives` has plan->n_tensors entries.
void sm_plan_lifetimes(const sm_plan *plan, sm_range *lives);

// Bytes of a role's tensors that hold data while each op runs; the largest entry is what a perfect packing needs.
// alive_bytes has plan->n_ops entries.
void sm_plan_alive_bytes(const sm_plan *plan, sm_role role, size_t *alive_bytes);
