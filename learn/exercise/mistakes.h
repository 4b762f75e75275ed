// mistakes.h: results of kernels with typical mistakes of students, such as a missing or confused step of the equation,
// for comparison with a kernel's results.
#ifndef STEPMARK_LEARN_EXERCISE_MISTAKES_H
#define STEPMARK_LEARN_EXERCISE_MISTAKES_H

#include "learn/exercise/case.h"

enum { SM_MAX_MISTAKES = 10 };

// Computes the kind's outputs of a case with mistake number `mistake` (from 1) into out[], which hold their initial
// values. `scratch`: at least T*T doubles, for attention.
typedef void (*sm_mistaken)(const sm_exercise_case *c, int mistake, float *const out[SM_MAX_OUT]);

typedef struct {
    sm_op_kind kind;
    sm_mistaken compute;
    const char *says[SM_MAX_MISTAKES + 1]; // a description of each, from mistake 1 on; ends with NULL
} sm_mistakes;

// --- for the files that list them ------------------------------------------------------------------

extern const sm_mistakes sm_mistakes_norm[];
extern const sm_mistakes sm_mistakes_matmul[];
extern const sm_mistakes sm_mistakes_attention[];
extern const sm_mistakes sm_mistakes_pointwise[];
extern const sm_mistakes sm_mistakes_loss[];
extern const sm_mistakes sm_mistakes_embedding[];

#define SM_NO_MISTAKES \
    { .compute = NULL } // ends a list

// Operands, letters and attributes by name. Inputs are as the kernel got them.
static inline const void *sm_mistaken_in(const sm_exercise_case *c, const char *name) {
    for (int i = 0; i < SM_MAX_IN; i++) {
        const sm_case_operand *o = &c->operands[i];
        const char *its = o->info == NULL ? "" : o->info->name;
        for (int k = 0; its[k] == name[k]; k++) {
            if (name[k] == '\0') {
                return o->before;
            }
        }
    }
    return NULL;
}

static inline int64_t sm_mistaken_size(const sm_exercise_case *c, const char *name) {
    return sm_case_member(c, name).integer;
}

#endif
