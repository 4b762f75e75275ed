// verify.h: is a device right? Its results against the reference's: every kind of op by itself,
// and a whole training step.
//
// The error of a tensor is max|a - b| / max|b| (a the device's, b the reference's). NaN and
// infinity count as an infinite error, so that nothing passes by not being a number.
#ifndef STEPMARK_VERIFY_H
#define STEPMARK_VERIFY_H

#include <regex.h>

#include "backend.h"
#include "src/rewrites/rewrite.h"

// One comparison. The texts are valid during the report only.
typedef struct {
    const char *check;   // name of the op's kind, or "step"
    const char *subject; // "N=33 C=7" (op_cases.h), "gradient wte.weight"
    int64_t n_values;    // numbers compared
    double error;        // INFINITY where a result is no number
    double tolerance;
    bool ok; // skipped counts as ok
    bool skipped;
    const char *reason; // why it was skipped, or which operand is wrong; "" otherwise
} sm_verify_row;

typedef void (*sm_verify_report)(const sm_verify_row *row, void *context);

// Which cases of ops to run.
typedef struct {
    const regex_t *pattern; // found in the check and the subject, "bias_forward N=3 C=5"; NULL: all
    int64_t max_elems;      // of the case's largest tensor; 0: no limit
    bool naive_only;        // cases of a plan of mode naive (sm_op_case_is_naive)
} sm_verify_filter;

// Runs every case of every kind of op (op_cases.h) on the device, in plans of data type `dtype`, and on the reference:
// in f32 on the same numbers where that is bf16. With a filter, the cases that it keeps; NULL: all. Unsupported cases
// are reported as skipped. SM_ERR_MISMATCH when any comparison failed; any other error ends it at once.
sm_status sm_verify_ops(sm_device *device, sm_precision precision, const sm_verify_filter *filter,
                        sm_verify_report report, void *context);

// Trains a very small model of each architecture for three steps of two micro-batches, with dropout, clipping and
// weight decay: the device in that data type and mode, with that recomputation, less the rewrites in `without`
// (rewrite.h), the reference in f32 and mode naive. Compares the loss, every gradient, the gradient norm, and the
// weights at the end. Where ops differ between a step's first micro-batch and later ones (the rewrite first_write), the
// same for steps of one, for which backends prepare nothing else. Returns as sm_verify_ops.
sm_status sm_verify_step(sm_device *device, sm_precision precision, sm_mode mode, sm_recompute recompute,
                         unsigned without, sm_verify_report report, void *context);

// The same of documents of random lengths that share rows, some of which are padding in part or as a whole, with each
// kind of attention; steps of one micro-batch.
sm_status sm_verify_documents(sm_device *device, sm_precision precision, sm_mode mode, sm_verify_report report,
                              void *context);

// The update of every optimizer, in two steps of a very small model of each architecture: the reference makes the same
// from the device's gradients (update_check.h), and weights and states are compared; the error is in units of the
// allowed rounding.
sm_status sm_verify_updates(sm_device *device, sm_precision precision, sm_mode mode, sm_verify_report report,
                            void *context);

// The largest error that passes, of output number `output` of an op whose longest sum is that long.
double sm_verify_tolerance(const sm_plan *plan, const sm_op *op, int output, int64_t sum_length);

// max|a - b| over n values of a floating dtype, divided by `scale`, or, when scale is 0, by
// max|b|. INFINITY when any a - b is not finite.
double sm_verify_error(sm_dtype dtype, int64_t n, const void *a, const void *b, double scale);

#endif
