// case.h: the cases of verify in memory that a separate process can share: inputs and the reference's results.
#ifndef STEPMARK_LEARN_EXERCISE_CASE_H
#define STEPMARK_LEARN_EXERCISE_CASE_H

#include "backend.h"
#include "bench/profile/profile.h"
#include "src/verify/op_cases.h"

#include <stdbool.h>

// Initial value of outputs that must be written: not a result of any case.
#define SM_EXERCISE_POISON (-1024.0F)

// An operand of the op under test. Its memory lies between two guard pages and ends at the second.
typedef struct {
    const sm_operand_info *info; // NULL: the op does not have this operand here
    const sm_tensor *tensor;
    bool is_output;
    int out; // index of an output; -1 for an input
    int64_t n_elems;
    size_t size_bytes;
    char *map; // guard page, pages, guard page
    size_t map_bytes;
    size_t page_bytes; // of one guard
    char *data;
    void *before;          // a copy of what the kernel gets
    void *expected;        // of outputs: the right result; NULL: not computed yet
    float *got;            // of outputs: the kernel's result, likewise
    double tolerance;      // of outputs: largest error relative to the largest value
    double mean_tolerance; // of matrix products: largest mean square of errors, relative to that of values; 0: none
    bool is_shared;        // an output in the place of an input
} sm_case_operand;

enum { SM_CASE_OPERANDS = SM_MAX_IN + SM_MAX_OUT };

typedef struct {
    sm_op_kind kind;
    int index;     // op_cases.h
    uint64_t seed; // of its inputs
    char text[SM_CASE_TEXT_SIZE];
    sm_plan *plan;
    const sm_op *op;
    sm_case_operand operands[SM_CASE_OPERANDS]; // inputs, then outputs
    sm_own_args args;
    bool is_right; // after the comparison
} sm_exercise_case;

typedef struct {
    sm_exercise_case *list;
    int n;
    int timed; // index of the case with the most work
} sm_exercise_cases;

// All cases of the kind that a plan of mode naive can have, with the operands before the op under test. The right
// results are computed later: they must not exist while an unknown kernel runs.
sm_status sm_exercise_cases_open(sm_op_kind kind, sm_exercise_cases *cases);

// Computes them with the reference, and keeps the kernel's.
sm_status sm_exercise_cases_expect(sm_exercise_cases *cases);
void sm_exercise_cases_close(sm_exercise_cases *cases);

// The operand's tensor: all plans of a case have the same ones.
static inline int sm_case_tensor(const sm_exercise_case *c, const sm_case_operand *o) {
    return (int)(o->tensor - c->plan->tensors);
}

// Whether an output lies in the place of this input.
bool sm_case_is_overwritten(const sm_exercise_case *c, const sm_case_operand *input);

// Other inputs for a case: of the next seed, with what comes before its op; and then, once the operands hold a kernel's
// results, the right ones.
sm_status sm_case_renew(sm_exercise_case *c, sm_device *reference, uint64_t seed);
sm_status sm_case_expect(sm_exercise_case *c, sm_device *reference);

// Address of an operand by its name, and value of a letter or an attribute.
static inline sm_own_member sm_case_member(const sm_exercise_case *c, const char *name) {
    const int index = sm_own_member_index(c->kind, name);
    return index < 0 ? (sm_own_member){.integer = 0} : c->args.members[index];
}

// The least time that the device's measured ceilings allow the case's op. A kernel took `seen_ns`: if the ceilings
// allow no less, they are measured again, as the machine may have been busy.
sm_status sm_case_ceiling(const sm_exercise_case *c, sm_device *device, double seen_ns, sm_op_ceiling *ceiling);

// Whether the memory next to an operand's data is unchanged.
bool sm_case_is_intact(const sm_case_operand *operand);

#endif
