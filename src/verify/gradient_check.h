// gradient_check.h: checks that a device's gradients are those of the loss that it computes, before any speed is
// reported, on the same plan, device and batch that are timed.
//
// A step along d from the weights w changes the loss by g.d, for any small d (the definition of the gradient g). So the
// plan's own forward computes the loss at w + d and at w - d, and their difference must be 2 g.d: a central difference,
// whose error falls with the square of d (Nocedal and Wright 2006, section 8.1). loss_check.h compares the forward with
// the reference; this check compares the backward with the forward.
//
// d follows the gradient, but scaled by column: each column of each parameter moves until it changes the loss by the
// same amount, so that a small gradient (a bias, a layernorm's weight, the queries) counts as much as a large one, and
// a wrong term in one kind of op is found.
#ifndef STEPMARK_GRADIENT_CHECK_H
#define STEPMARK_GRADIENT_CHECK_H

#include "src/session/session.h"

typedef struct {
    double predicted;       // 2 g.d: the predicted change of the loss
    double found;           // loss(w + d) - loss(w - d): the actual change
    double error;           // |found - predicted| / |predicted|
    double tolerance;       // for the plan's data type and the rounding of the losses
    bool tells;             // false: rounding drowns the difference, and nothing is shown
    double grad_norm;       // global L2 norm of the gradient, summed by the host
    char how[SM_TEXT_SIZE]; // "196,608 columns of 148 parameters moved, 2 forwards"
} sm_gradient_check;

// Uploads micro-batch `index` of the step, 0 .. n_accum - 1.
typedef sm_status (*sm_feed)(void *ctx, sm_session *session, int64_t index);

// Call it between a step's backward and its update: the gradients are those of n_accum micro-batches at the current
// weights. It restores weights, gradients and the dropout counter exactly; activations, losses and the batch are those
// of its last forward. It takes one copy of the parameters in host memory, and the time of 2 n_accum forwards. If a
// gradient of a scaled loss is not finite, it lowers the scale permanently and computes the gradients again.
// SM_ERR_MISMATCH: the difference exceeds the tolerance, or is not finite.
sm_status sm_check_gradients(sm_session *session, int n_accum, sm_feed feed, void *ctx, sm_gradient_check *result);

// The gradient of a parameter of the model; SM_NO_TENSOR if the plan has none, or the tensor is not such a parameter.
int sm_gradient_of(const sm_plan *plan, int tensor);

// Call it before a step: makes every gradient NaN, so that one which is neither zeroed nor overwritten is found.
sm_status sm_poison_gradients(sm_session *session);

#endif
