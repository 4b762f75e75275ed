// loss_check.h: checks that the loss of a device is right, before any speed is reported. It is cheap: attention is
// causal, so the losses of a sequence's first tokens do not depend on the rest, and the reference backend computes only
// those.
#ifndef STEPMARK_LOSS_CHECK_H
#define STEPMARK_LOSS_CHECK_H

#include "src/models/model.h"
#include "src/session/session.h"

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

#endif
