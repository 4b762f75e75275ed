// case.h: the cases of verify in memory that a process of its own can share: inputs and the reference's results.
#ifndef STEPMARK_LEARN_EXERCISE_CASE_H
#define STEPMARK_LEARN_EXERCISE_CASE_H

#include "backend.h"
#include "bench/profile/op_ceiling.h"
#include "src/verify/op_cases.h"

#include <stdbool.h>

// What outputs hold that must be written: no result of any case.
#define SM_EXERCISE_POISON (-1024.0F)

// An operand of the op under test. Its memory ends at a page that cannot be touched, and begins behind another.
typedef struct {
    const sm_operand_info *info; // NULL: the op has no such operand here
    const sm_tensor *tensor;
    bool is_output;
    int out; // index of an output; of an input: -1
    int64_t n_elems;
    size_t size_bytes;
    char *map; // guard page, pages, guard page
    size_t map_bytes;
    size_t page_bytes; // of one guard
    char *data;
    void *before;     // what the kernel is given, a copy
    void *expected;   // of outputs: what it should leave; NULL: not yet computed
    char *timed;      // of outputs of the timed case: what its last timed call left, then what one drawn by lot did
    double tolerance; // of outputs: largest error as a part of the largest value
    bool is_shared;   // of an output: it lies where an input lies
} sm_case_operand;

enum { SM_CASE_OPERANDS = SM_MAX_IN + SM_MAX_OUT };

typedef struct {
    sm_op_kind kind;
    int index; // op_cases.h
    char text[SM_CASE_TEXT_SIZE];
    sm_plan *plan;
    const sm_op *op;
    sm_case_operand operands[SM_CASE_OPERANDS]; // inputs, then outputs
    sm_own_args args;
} sm_exercise_case;

typedef struct {
    sm_exercise_case *list;
    int n;
    int timed; // index of the case with the most work
} sm_exercise_cases;

// All cases of the kind that a plan of mode naive can have, up to what the op under test finds. What it should leave is
// not there yet: it is nowhere to be found while a stranger's kernel runs.
sm_status sm_exercise_cases_open(sm_op_kind kind, sm_exercise_cases *cases);

// Has the reference compute that.
sm_status sm_exercise_cases_expect(sm_exercise_cases *cases);
void sm_exercise_cases_close(sm_exercise_cases *cases);

// Address of an operand by its name, and value of a letter or an attribute.
static inline sm_own_member sm_case_member(const sm_exercise_case *c, const char *name) {
    const int index = sm_own_member_index(c->kind, name);
    return index < 0 ? (sm_own_member){.integer = 0} : c->args.members[index];
}

// The shortest time of the case's op on a device. Before each call outputs are as they were. `keeps`: fills what the
// timed calls left.
sm_status sm_case_time(const sm_exercise_case *c, sm_device *device, bool keeps, double *ns);

// Is the call with that number, from 0, the one that is kept? The last for which it is was drawn by lot among all.
bool sm_case_draws(int64_t call);

// Where a call's outputs are kept: the last one's, or the drawn one's.
enum { SM_TIMED_LAST, SM_TIMED_DRAWN, SM_N_TIMED };
static inline char *sm_case_timed(const sm_case_operand *o, int which) {
    return o->timed + (size_t)which * o->size_bytes;
}

// The least time of the case's op that the device's measured ceilings allow. What took `seen_ns` can be done in that:
// ceilings that allow no less are measured again, as the machine may have been busy.
sm_status sm_case_ceiling(const sm_exercise_case *c, sm_device *device, double seen_ns, sm_op_ceiling *ceiling);

// Of an operand: what lies before and behind its data that must not change. False: it was written to.
bool sm_case_is_intact(const sm_case_operand *operand);

#endif
