// loss_check.h: is the loss that a device computes the right one? Asked before any speed is
// reported, and cheap: attention is causal, so the losses of a sequence's first tokens do not
// depend on the rest, and the reference backend needs to compute those few only.
#ifndef STEPMARK_LOSS_CHECK_H
#define STEPMARK_LOSS_CHECK_H

#include "src/models/model.h"
#include "src/session/session.h"

typedef struct {
    uint64_t seed; // of the run's checks
    int64_t round; // of the checks of losses: 0, 1, ...
} sm_loss_draw;

typedef struct {
    double loss;           // mean over the checked tokens, as the device computed it
    double loss_reference; // the same by the reference backend
    // fp32, tf32x3, bf16x6: largest |difference| of one token's loss, relative to max(1, loss). Others: root mean
    // square of the tokens' differences, and `tolerance` is a multiple of the effect of that rounding on the
    // reference's own losses.
    double error;
    double tolerance;
    char how[SM_TEXT_SIZE]; // "first 16 tokens of 2 sequences against the reference, ..."
} sm_loss_check;

// Compares the losses that the session's last forward left, of the batch `tokens`, `targets` and, in a plan of
// documents, `starts` (B*T each), token by token, with those of the reference at the parameters that the session has
// now, which must be those of that forward. Sequences are drawn, others in each round as far as there are any. The mean
// over the drawn sequences must also be that over all, but for chance. SM_ERR_MISMATCH: a loss differs by more than the
// tolerance, or is not finite.
sm_status sm_check_loss(sm_session *session, const sm_model_config *config, double dropout_p, uint64_t seed,
                        const int32_t *tokens, const int32_t *targets, const int32_t *starts, const sm_loss_draw *draw,
                        sm_loss_check *result);

#endif
