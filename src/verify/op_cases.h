// op_cases.h: small plans that each put one kind of op to the test, in shapes that kernels get
// wrong: 1, odd, prime, just above a tile; and inputs for them. src/verify/verify.c runs them on a
// device and on the reference.
//
// A case is a line of text, such as "N=33 C=7 inplace=1", that gives values to the letters of
// the kind's shapes (include/op_table.h) and to its attributes; it is its description too:
//     its attributes, by their letters (SM_ATTR_LIST in include/op.h); vocab: V, the rest is padding
//     clip     hyper.grad_clip
//     nesterov hyper.nesterov                 scaled   1: there is a loss scaler
//     interval hyper.scale_interval           skip     1: clip is negative
//     inplace  1: output 0 may overwrite the input that it may        ignored  1: all targets -1
//     zero     1: inputs without a special meaning are all 0
#ifndef STEPMARK_OP_CASES_H
#define STEPMARK_OP_CASES_H

#include "plan.h"

enum { SM_CASE_TEXT_SIZE = 96 };

int sm_op_case_count(sm_op_kind kind);

// Writes the case's text, at most SM_CASE_TEXT_SIZE bytes. index: 0 .. count - 1.
void sm_op_case_text(sm_op_kind kind, int index, char *text);

// Builds the case's plan, without memory assigned; the caller frees it. All ops are in the forward range. The op under
// test is the last: a backward op that reads results of its forward comes after it. Tensors have their operand's name.
sm_status sm_op_case_plan(sm_op_kind kind, int index, sm_precision precision, sm_plan **plan);

// Whether a plan of mode naive, whose rows are one document each, can have the case: not those of epilogues, sums that
// are overwritten, additional gradients of a bias, documents, skipped steps.
bool sm_op_case_is_naive(sm_op_kind kind, int index);

// The plan of a text that is no case, "N=64 C=768 F=768".
sm_status sm_op_text_plan(sm_op_kind kind, const char *text, sm_precision precision, sm_plan **plan);

// Must the tensor be uploaded before the plan runs? True for inputs of the plan, and for
// outputs that an op adds to or updates.
bool sm_op_case_is_input(const sm_plan *plan, int tensor);

// Fills `values` (all elements, in the tensor's dtype) with inputs that make sense for it,
// always the same ones.
void sm_op_case_fill(sm_op_kind kind, int index, const sm_plan *plan, int tensor, void *values);

void sm_op_text_fill(const char *text, const sm_plan *plan, int tensor, void *values); // likewise, of a text

// Length of the longest sum that an element of an output is: rounding errors grow with it.
int64_t sm_op_case_sum_length(sm_op_kind kind, int index);
int64_t sm_op_text_sum_length(sm_op_kind kind, const char *text);

#endif
