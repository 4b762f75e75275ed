// gradient_check.h: are the gradients that a device computed those of the loss that it computes? Asked before any
// speed is reported, on the very plan, device and batch that are timed.
//
// A step along d from the weights w changes the loss by g.d, for any small d (the definition of the gradient g). So
// the plan's own forward computes the loss at w + d and at w - d, and their difference is held to 2 g.d: a central
// difference, whose error falls with the square of d (Nocedal and Wright 2006, section 8.1). Forward is checked against
// the reference (loss_check.h); this ties backward to forward.
//
// d follows the gradient, but not in its proportions: each column of each parameter moves by as much as changes the
// loss by the same amount, so that a small gradient (a bias, a layernorm's weight, the queries) counts as much
// as a large one, and a wrong term in one kind of op shows.
#ifndef STEPMARK_GRADIENT_CHECK_H
#define STEPMARK_GRADIENT_CHECK_H

#include "src/session/session.h"

typedef struct {
    double predicted;       // 2 g.d: the change of the loss that the gradients predict
    double found;           // loss(w + d) - loss(w - d): its real change
    double error;           // |found - predicted| / |predicted|
    double tolerance;       // by the plan's data type, and by the rounding of the losses
    bool tells;             // false: rounding drowns the difference, and nothing is shown
    double grad_norm;       // global L2 norm of the gradient, summed by the host
    char how[SM_TEXT_SIZE]; // "196,608 columns of 148 parameters moved, 2 forwards"
} sm_gradient_check;

// Uploads micro-batch `index` of the step, 0 .. n_accum - 1.
typedef sm_status (*sm_feed)(void *ctx, sm_session *session, int64_t index);

// Called between the backward of a step and its update: the gradients are those of n_accum micro-batches at the
// present weights. Leaves weights, gradients and the dropout counter as they were, bit by bit; activations,
// losses and the batch are those of the last forward. Takes one copy of the parameters in the host's memory, and the
// time of 2 n_accum forwards. Where a gradient of a scaled loss is not finite, the scale is lowered for good, and the
// gradients are computed again. SM_ERR_MISMATCH: the difference is beyond the tolerance, or not finite.
sm_status sm_check_gradients(sm_session *session, int n_accum, sm_feed feed, void *ctx, sm_gradient_check *result);

// The gradient of a parameter of the model; SM_NO_TENSOR where the plan has none, or the tensor is no such parameter.
int sm_gradient_of(const sm_plan *plan, int tensor);

// Called before a step: makes every gradient NaN, so that one which is not zeroed, or not written where it begins,
// shows.
sm_status sm_poison_gradients(sm_session *session);

#endif
