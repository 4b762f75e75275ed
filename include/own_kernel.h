// own_kernel.h: the arguments of a user's own kernel for one kind of op, in f32.
//
//     void layernorm_backward(const layernorm_backward_args *args);
//
// The arguments are a struct of 8-byte members, in this order: the dimensions by their letters (int64_t), the
// attributes of the kind (int64_t or double), the inputs and outputs (pointers), `thread` and `n_threads`. The table of
// op kinds determines them; sm_own_kernel_header prints them as C. The library also has a signature, which names the
// members: a library for other arguments is refused.
//
// The function is called once for each op, as thread 0 of 1. If the library has `const int NAME_threads = 1;`, every
// thread of the backend calls it at the same time and does its part of the work.
#pragma once

#include "plan.h"

enum { SM_OWN_KERNEL_VERSION = 1, SM_OWN_MAX_MEMBERS = 40, SM_OWN_SIGNATURE_SIZE = 512 };

typedef union {
    int64_t integer;
    double real;
    const void *in;
    void *out;
    float (*keep)(const void *rng, int64_t element);
} sm_own_member;

// The random numbers of dropout: the member `rng`, for the member `keep`.
typedef struct {
    double p;
    uint64_t key;
    uint64_t step;
} sm_own_rng;

// A struct of arguments. Members point to `rng`: a copy is bound again.
typedef struct {
    sm_own_member members[SM_OWN_MAX_MEMBERS];
    int n_members; // the last two are thread and n_threads
    sm_own_rng rng;
} sm_own_args;

typedef void (*sm_own_function)(const sm_own_member *args);

// The language of a kernel: a backend takes kernels of one.
typedef enum { SM_OWN_NONE, SM_OWN_C, SM_OWN_OPENCL } sm_own_language;

// A process that has kernels in C loaded, so that this one, which has the clock and the checks, does not.
typedef struct sm_own_process sm_own_process;

typedef struct {
    sm_op_kind kind;
    sm_own_function run;     // in C, in this process; NULL: `process` or `source` has the kernel
    sm_own_process *process; // runs it apart
    int number;              // there
    bool has_threads;        // every thread calls it
    const char *source;      // OpenCL C, compiled by the backend's driver
    const char *name;        // of the source file, for the compiler's messages
} sm_own_kernel;

static inline sm_own_language sm_own_kernel_language(const sm_own_kernel *kernel) {
    return kernel->source == NULL ? SM_OWN_C : SM_OWN_OPENCL;
}

// The arguments of an op with operands at these addresses (NULL: left out).
void sm_own_args_fill(const sm_plan *plan, const sm_op *op, void *const in[SM_MAX_IN], void *const out[SM_MAX_OUT],
                      sm_own_args *args);

// In a copy, or in another process: sets the members that point to the struct or into the program.
void sm_own_args_bind(sm_op_kind kind, sm_own_args *args);

// Sets the calling thread and the number of threads.
static inline void sm_own_args_set_thread(sm_own_args *args, int thread, int n_threads) {
    args->members[args->n_members - 2].integer = thread;
    args->members[args->n_members - 1].integer = n_threads;
}

// --- in a process apart (src/plan/own_process.c) ---------------------------------------------------
//
// The process sees copies of an op's operands alone, in memory that both share, and only outputs are copied back. One
// thread or several give the operands, each part `part` of n_parts; when all have, each calls; when all have, each
// takes its part of the outputs.

// The shared memory that an op needs.
size_t sm_own_process_bytes(const sm_plan *plan, const sm_op *op);
// SM_ERR_OOM: the shared memory has no room for the op; SM_ERR_UNSUPPORTED: the process has fewer threads.
sm_status sm_own_process_fits(const sm_own_process *process, const sm_plan *plan, const sm_op *op, int n_threads);

void sm_own_process_give(const sm_own_kernel *kernel, const sm_plan *plan, const sm_op *op, void *const in[SM_MAX_IN],
                         void *const out[SM_MAX_OUT], int part, int n_parts);
void sm_own_process_call(const sm_own_kernel *kernel, int thread, int n_threads);
void sm_own_process_take(const sm_own_kernel *kernel, const sm_plan *plan, const sm_op *op, void *const in[SM_MAX_IN],
                         void *const out[SM_MAX_OUT], int part, int n_parts);

// The processor time of the process that this one started, 0: none; and of both, spinning while they waited.
int64_t sm_own_process_busy_ns(int64_t *waiting_ns);

// The number of that process; 0: none.
int sm_own_process_id(void);

// SM_ERR_DEVICE: the process has ended, and says how. Calls then do nothing.
sm_status sm_own_process_state(sm_own_process *process);

// Index of a member by its name; -1 if the kind does not have it.
int sm_own_member_index(sm_op_kind kind, const char *name);

// "1 N C dy x w mean rstd dx dw db dbias thread n_threads": the version and the members.
void sm_own_kernel_signature(sm_op_kind kind, char text[SM_OWN_SIGNATURE_SIZE]);

// Prints the kind's struct and signature as C, with the meaning of each member.
void sm_own_kernel_header(sm_op_kind kind, FILE *out);

// Prints the beginning of a function's body: a variable for each member, with its name.
void sm_own_kernel_unpack(sm_op_kind kind, FILE *out);

// --- in OpenCL C (src/plan/own_opencl.c) -----------------------------------------------------------
//
//     kernel void gelu_forward(const long n, global const float *x, const ulong x_at, global float *y,
//                              const ulong y_at)
//
// The parameters are the same members without thread and n_threads: dimensions and integer attributes as long, others
// as float; a tensor as its buffer and the index of its first element there (NULL and 0: left out). DROPOUT replaces
// keep and rng; KEEP(element) is the factor of dropout on that element. The source also needs two definitions: the
// signature, `#define gelu_forward_signature "cl 1 n x y"`, and the number of work-items in at most two dimensions
// with, after `by`, the size of a work-group: `#define gelu_forward_items "n by 64"`. Expressions consist of letters,
// numbers, + - * and / (rounded up).

typedef struct {
    int n_dims;
    int64_t items[2]; // before rounding up to whole work-groups
    int64_t group[2];
} sm_own_work;

typedef enum { SM_OWN_LONG, SM_OWN_FLOAT, SM_OWN_TENSOR, SM_OWN_DROPOUT } sm_own_parameter_type;

typedef struct {
    sm_own_parameter_type type;
    int64_t integer;
    double real;
    int tensor; // SM_NO_TENSOR: left out. For dropout: the tensor of its counter
} sm_own_parameter;

enum { SM_OWN_MAX_PARAMETERS = SM_OWN_MAX_MEMBERS };

// The parameters of an op, in order; returns their number.
int sm_own_opencl_parameters(const sm_plan *plan, const sm_op *op, sm_own_parameter list[SM_OWN_MAX_PARAMETERS]);

// Reads the two definitions of a source. SM_ERR_FORMAT names the file (`name`) and the missing or wrong part.
sm_status sm_own_opencl_check(sm_op_kind kind, const char *source, const char *name);
sm_status sm_own_opencl_work(const sm_plan *plan, const sm_op *op, const sm_own_kernel *kernel, sm_own_work *work);

// Prints the two definitions and an empty kernel.
void sm_own_opencl_skeleton(sm_op_kind kind, FILE *out);
