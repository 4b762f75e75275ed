// own_kernel.h: a kernel that a user brings, for one kind of op, in f32: the arguments of its function.
//
//     void layernorm_backward(const layernorm_backward_args *args);
//
// The arguments are a struct of members of 8 bytes, in this order: the dimensions by their letters (int64_t), the
// attributes that the kind has (int64_t or double), the inputs and the outputs (pointers), `thread` and `n_threads`.
// All of it follows from the table of op kinds; sm_own_kernel_header writes it down as C. Beside the function the
// library has its signature, which names the members: one that was made for other arguments is refused.
//
// The function is called once for an op, with thread 0 of 1; or, where the library says `const int NAME_threads = 1;`,
// by every thread of the backend at the same time: each does its part of the work.
#ifndef STEPMARK_OWN_KERNEL_H
#define STEPMARK_OWN_KERNEL_H

#include <stdio.h>

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

// A struct of arguments. Members point to `rng`: it is filled in place, and not copied.
typedef struct {
    sm_own_member members[SM_OWN_MAX_MEMBERS];
    int n_members; // the last two are thread and n_threads
    sm_own_rng rng;
} sm_own_args;

typedef void (*sm_own_function)(const sm_own_member *args);

// In which language a kernel is: a backend takes kernels of one.
typedef enum { SM_OWN_NONE, SM_OWN_C, SM_OWN_OPENCL } sm_own_language;

typedef struct {
    sm_op_kind kind;
    sm_own_function run; // of C; NULL: `source` is it
    bool has_threads;    // it is called by every thread
    const char *source;  // OpenCL C, which the backend has its driver compile
    const char *name;    // of the source's file, for the compiler's messages
} sm_own_kernel;

static inline sm_own_language sm_own_kernel_language(const sm_own_kernel *kernel) {
    return kernel->run != NULL ? SM_OWN_C : SM_OWN_OPENCL;
}

// The arguments of an op whose operands are at these addresses (NULL: left out).
void sm_own_args_fill(const sm_plan *plan, const sm_op *op, void *const in[SM_MAX_IN], void *const out[SM_MAX_OUT],
                      sm_own_args *args);

// Its thread and their number.
static inline void sm_own_args_set_thread(sm_own_args *args, int thread, int n_threads) {
    args->members[args->n_members - 2].integer = thread;
    args->members[args->n_members - 1].integer = n_threads;
}

// Index of a member by its name; -1: the kind has none of it.
int sm_own_member_index(sm_op_kind kind, const char *name);

// "1 N C dy x w mean rstd dx dw db dbias thread n_threads": the version and the members.
void sm_own_kernel_signature(sm_op_kind kind, char text[SM_OWN_SIGNATURE_SIZE]);

// The C text of the kind's struct and signature, with the meaning of each member.
void sm_own_kernel_header(sm_op_kind kind, FILE *out);

// The beginning of a function's body: a variable for each member, by its name.
void sm_own_kernel_unpack(sm_op_kind kind, FILE *out);

// --- in OpenCL C (src/plan/own_opencl.c) -----------------------------------------------------------
//
//     kernel void gelu_forward(const long n, global const float *x, const ulong x_at, global float *y, const ulong
//     y_at)
//
// The parameters are the same members, except thread and n_threads: dimensions and whole attributes as long, others as
// float; a tensor as the buffer that it lies in and the place of its first element there (NULL and 0: left out).
// DROPOUT replaces keep and rng, and KEEP(element) is the factor of dropout on that element. Two lines of the source
// complete it: `#define gelu_forward_signature "cl 1 n x y"`, and the number of work-items, by dimension, at most two,
// and after `by` the size of a work-group: `#define gelu_forward_items "n by 64"`. Letters, numbers, + - * and /
// (rounded up) may stand there.

typedef struct {
    int n_dims;
    int64_t items[2]; // before they are rounded up to whole groups
    int64_t group[2];
} sm_own_work;

typedef enum { SM_OWN_LONG, SM_OWN_FLOAT, SM_OWN_TENSOR, SM_OWN_DROPOUT } sm_own_parameter_type;

typedef struct {
    sm_own_parameter_type type;
    int64_t integer;
    double real;
    int tensor; // SM_NO_TENSOR: left out. Of dropout: that of its counter
} sm_own_parameter;

enum { SM_OWN_MAX_PARAMETERS = SM_OWN_MAX_MEMBERS };

// An op's, in their order; returns how many.
int sm_own_opencl_parameters(const sm_plan *plan, const sm_op *op, sm_own_parameter list[SM_OWN_MAX_PARAMETERS]);

// The two lines of a source. SM_ERR_FORMAT names the missing or wrong part, and `name`, the file.
sm_status sm_own_opencl_check(sm_op_kind kind, const char *source, const char *name);
sm_status sm_own_opencl_work(const sm_plan *plan, const sm_op *op, const sm_own_kernel *kernel, sm_own_work *work);

void sm_own_opencl_signature(sm_op_kind kind, char text[SM_OWN_SIGNATURE_SIZE]);

// The two lines and an empty kernel.
void sm_own_opencl_skeleton(sm_op_kind kind, FILE *out);

#endif
