// step_checks.h: checks that the loss, the gradients and the update of a device are right, before any speed is reported.
#pragma once

#include "src/models/model.h"
#include "src/session/session.h"

// Whether an error is the largest so far: one that is no number is, and stays it.
static inline bool sm_error_is_larger(double error, double largest) {
    return !(error <= largest) && largest == largest;
}

// --- losses ------------------------------------------------------------------------------------------

// It is cheap: attention is causal, so the losses of a sequence's first tokens do not depend on the rest, and the
// reference backend computes only those.

typedef struct {
    uint64_t seed; // of the run's checks
    int64_t round; // number of the check: 0, 1, ...
} sm_loss_draw;

typedef struct {
    double loss;           // the device's mean loss over the checked tokens
    double loss_reference; // the reference's
    // fp32, tf32x3, bf16x6: largest |difference| of one token's loss, relative to max(1, loss). Others: root mean
    // square of the tokens' differences; `tolerance` is then a multiple of the effect of that rounding on the
    // reference's own losses.
    double error;
    double tolerance;
    char how[SM_TEXT_SIZE]; // "first 16 tokens of 2 sequences against the reference, ..."
} sm_loss_check;

// Compares the token losses of the session's last forward, on the batch `tokens`, `targets` and, in a plan of
// documents, `starts` (B*T each), with those of the reference at the session's current parameters, which must be those
// of that forward. Each round draws other sequences, if there are enough. The mean over the drawn sequences must also
// equal that over all, within chance. SM_ERR_MISMATCH: a loss differs by more than the tolerance, or is not finite.
sm_status sm_check_loss(sm_session *session, const sm_model_config *config, double dropout_p, uint64_t seed,
                        const int32_t *tokens, const int32_t *targets, const int32_t *starts, const sm_loss_draw *draw,
                        sm_loss_check *result);

// --- gradients --------------------------------------------------------------------------------------

// Checks that a device's gradients are those of the loss that it computes, before any speed is
// reported, on the same plan, device and batch that are timed.
//
// A step along d from the weights w changes the loss by g.d, for any small d (the definition of the gradient g). So the
// plan's own forward computes the loss at w + d and at w - d, and their difference must be 2 g.d: a central difference,
// whose error falls with the square of d (Nocedal and Wright 2006, section 8.1). The check of losses compares the
// forward with the reference; this check compares the backward with the forward.
//
// d follows the gradient, but scaled by column: each column of each parameter moves until it changes the loss by the
// same amount. So a small gradient (a bias, a layernorm's weight, the queries) counts as much as a large one, and a
// wrong term in one kind of op is found.

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

// --- updates ----------------------------------------------------------------------------------------

// Checks that a device's optimizer computes what the reference does, on the plan and device that are
// timed, on a sample of each group of parameters: its last run, and drawn runs.
//
// The check only reads: the sample is read before the step and after it, when the gradients still exist.

typedef struct {
    double error;           // largest difference of a sampled number relative to its tolerance
    double tolerance;       // 1
    int64_t n_weights;      // compared
    char how[SM_TEXT_SIZE]; // "4,096 weights and their state against the reference's rule"
} sm_update_result;

typedef struct sm_update_check sm_update_check;

// Reads the sample of parameters and state before a step; `seed` determines the sample.
sm_status sm_update_check_begin(sm_session *session, uint64_t seed, sm_update_check **check);

// Call it after the step: reads its gradients, its settings and the updated state. The reference makes the same update.
// The step's norm must agree with `grad_norm` (sm_gradient_check); 0: unknown. SM_ERR_MISMATCH names the first tensor
// that differs. Always frees the check.
sm_status sm_update_check_end(sm_update_check *check, sm_session *session, double grad_norm, sm_update_result *result);

void sm_update_check_free(sm_update_check *check);
SM_OWNABLE(sm_update_check, sm_update_check_free) // NULL is fine
