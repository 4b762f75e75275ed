// op_cases.h: small plans that each test one kind of op, in shapes that kernels get wrong (1, odd, prime, just above a
// tile), and inputs for them. src/verify/verify.c runs them on a device and on the reference.
//
// A case is a line of text, such as "N=33 C=7 inplace=1", that describes the case and gives values to the letters of
// the kind's shapes (include/op_table.h) and to its attributes:
//     its attributes, by their letters (SM_ATTR_LIST in include/op.h); vocab: V, the rest is padding
//     clip     hyper.grad_clip                                 nesterov hyper.nesterov
//     interval hyper.scale_interval                            scaled   1: there is a loss scaler
//     skip     1: clip is negative                             ignored  1: all targets are -1
//     inplace  1: an output overwrites the input that it may   same     1: all tokens are the same
//     zero     1: inputs without a special meaning are all 0   tiny     1: every second number is denormal
//     mean     the number about which x or the logits lie
//     flat     1: all numbers of a row of x are the same
//     far      qkv and logits are integers up to it; of these the last that counts is -1e30, and no target
//     nan      1: some elements of the input that a function is applied to are NaN, of a forward op also infinite
#pragma once

#include "backend.h"

enum { SM_CASE_TEXT_SIZE = 96 };

int sm_op_case_count(sm_op_kind kind);

// Writes the case's text, at most SM_CASE_TEXT_SIZE bytes. index: 0 .. count - 1.
void sm_op_case_text(sm_op_kind kind, int index, char *text);

// Builds the case's plan, without memory assigned; the caller frees it. All ops are in the forward range. The op under
// test is the last: a backward op comes after the forward op whose results it reads. Tensors have their operand's name.
sm_status sm_op_case_plan(sm_op_kind kind, int index, sm_precision precision, sm_plan **plan);

// Whether the case can occur in a plan of mode naive with one document in each row: excludes epilogues, overwritten
// sums, additional gradients of a bias, documents, skipped steps.
bool sm_op_case_is_naive(sm_op_kind kind, int index);
// Whether it is of factors in 8 bits, which plans of that precision alone have.
bool sm_op_case_is_fp8(sm_op_kind kind, const char *text);

// The plan of any other text, "N=64 C=768 F=768".
sm_status sm_op_text_plan(sm_op_kind kind, const char *text, sm_precision precision, sm_plan **plan);

// The ops of a name on the command line: one kind, by its own name; or a forward op with its backward, by the common
// part of their names: "gelu", "matmul" (which has two backward ops).
enum { SM_MAX_OPS_OF_NAME = 4 };

typedef struct {
    sm_op_kind kinds[SM_MAX_OPS_OF_NAME]; // of a pair, the forward first
    int n;
    bool has_forward, has_backward; // a kind alone is backward if it reads what its forward op leaves
} sm_op_set;

// SM_ERR_USAGE: no op, and no pair, has this name.
sm_status sm_op_set_find(const char *name, sm_op_set *set);

// Whether one of its ops has that letter, of a shape or an attribute, "NH".
bool sm_op_set_has(const sm_op_set *set, const char *letter);

// The plan of a set in the sizes of a text, "N=64 C=768 F=768": in the forward range the forward op, in the backward
// range the others, unless `backward` is false. Gradients of matrices are overwritten, others added to.
sm_status sm_op_set_plan(const sm_op_set *set, const char *text, bool backward, sm_precision precision, sm_plan **plan);

// Whether the tensor is uploaded before the plan runs: the plan's inputs, and outputs that an op adds to or updates.
bool sm_op_case_is_input(const sm_plan *plan, int tensor);

// Fills `values` (all elements, in the tensor's dtype) with suitable inputs of a text, the same ones for the same seed.
void sm_op_text_fill(const char *text, uint64_t seed, const sm_plan *plan, int tensor, void *values);

// Uploads all inputs of a text's plan, with those numbers.
sm_status sm_op_text_upload(const char *text, uint64_t seed, const sm_plan *plan, sm_executable *executable);

// The number of a letter of a text; 0: it has none.
int64_t sm_op_text_size(const char *text, const char *letter);

// Length of the longest sum in an element of an output: rounding errors grow with it.
int64_t sm_op_text_sum_length(sm_op_kind kind, const char *text);
