// own_kernel.h: a kernel that a user brings, for one kind of op, in f32: what the function is given.
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

// What dropout draws from: the member `rng`, for the member `keep`.
typedef struct {
    double p;
    uint64_t key;
    uint64_t step;
} sm_own_rng;

// A struct of arguments. `rng` is what members point to: it is filled in place, and not copied.
typedef struct {
    sm_own_member members[SM_OWN_MAX_MEMBERS];
    int n_members; // the last two are thread and n_threads
    sm_own_rng rng;
} sm_own_args;

typedef void (*sm_own_function)(const sm_own_member *args);

typedef struct {
    sm_op_kind kind;
    sm_own_function run;
    bool has_threads; // it is called by every thread
} sm_own_kernel;

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

// The C text of the kind's struct and signature, with what each member is.
void sm_own_kernel_header(sm_op_kind kind, FILE *out);

// The beginning of a function's body: a variable for each member, by its name.
void sm_own_kernel_unpack(sm_op_kind kind, FILE *out);

#endif
