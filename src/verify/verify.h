// verify.h: compares a device with the reference: every kind of op separately, and a whole training step.
//
// The error of a tensor is max|a - b| / max|b| (a the device's, b the reference's); of NaN and infinity it is infinite.
#pragma once

#include "backend.h"
#include "src/rewrites/rewrite.h"
#include "src/io/pattern.h"

// One comparison. The texts are valid only during the report.
typedef struct {
    const char *check;   // name of the op's kind, or "step"
    const char *subject; // "N=33 C=7" (op_cases.h), "gradient wte.weight"
    int64_t n_values;    // numbers compared
    double error;        // INFINITY if a result is not finite
    double tolerance;
    bool ok; // skipped counts as ok
    bool skipped;
    const char *reason; // the reason why it was skipped, or the operand that is wrong; "" otherwise
} sm_verify_row;

typedef void (*sm_verify_report)(const sm_verify_row *row, void *context);

// The cases of ops to run.
typedef struct {
    const sm_pattern *pattern; // matched against check and subject, "bias_forward N=3 C=5"; NULL: all
    int64_t max_elems;         // limit on the case's largest tensor; 0: none
    bool naive_only;           // only cases of a plan of mode naive (sm_op_case_is_naive)
    const char *text;          // not NULL: one case of this kind alone, "N=96 C=768"
    sm_op_kind kind;
} sm_verify_filter;

// Runs every case of every kind of op (op_cases.h) on the device, in plans of data type `dtype`, and on the reference,
// in f32 if that is narrower. `filter` selects cases; NULL: all. Unsupported cases are reported as skipped.
// SM_ERR_MISMATCH if any comparison failed; any other error ends it at once.
sm_status sm_verify_ops(sm_device *device, sm_precision precision, const sm_verify_filter *filter,
                        sm_verify_report report, void *context);

// Trains a very small model of each architecture for three steps of two micro-batches, with dropout, clipping and
// weight decay: on the device in that data type, mode and recomputation, less the rewrites in `without` (rewrite.h); on
// the reference in f32 and mode naive. Compares the loss, every gradient, the gradient norm, and the final weights. If
// ops differ between a step's first micro-batch and later ones (the rewrite first_write), also tests steps of one
// micro-batch, for which backends prepare nothing else. Returns as sm_verify_ops.
sm_status sm_verify_step(sm_device *device, sm_precision precision, sm_mode mode, sm_recompute recompute,
                         unsigned without, sm_verify_report report, void *context);

// The same with documents of random lengths that share rows, partly or wholly padding, with each kind of attention;
// steps of one micro-batch.
sm_status sm_verify_documents(sm_device *device, sm_precision precision, sm_mode mode, sm_verify_report report,
                              void *context);

// Checks the update of every optimizer, in two steps of a very small model of each architecture: the reference makes
// the same update from the device's gradients (step_checks.h), and weights and states are compared. The error is in
// units of the allowed rounding.
sm_status sm_verify_updates(sm_device *device, sm_precision precision, sm_mode mode, sm_verify_report report,
                            void *context);

// The largest error that passes, for output number `output` of an op with longest sum `sum_length`.
double sm_verify_tolerance(const sm_plan *plan, const sm_op *op, int output, int64_t sum_length);

// The most that a sum of products of 8 bits may lose in matrix units, relative to the root of the sum of their squares
// plus the sum itself; 0 for other ops. The units keep about 14 bits: each 32 products are cut to those of the largest
// of them and of the sum so far. Kernels add longer sums than 2,048 products in parts, in f32.
double sm_verify_cut(const sm_op *op, int64_t sum_length);

// max|a - b| over n values of a floating dtype, divided by `scale`, if 0 by max|b|. INFINITY: an a - b is not finite.
double sm_verify_error(sm_dtype dtype, int64_t n, const void *a, const void *b, double scale);
