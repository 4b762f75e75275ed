// scaler.c: the loss scale of the next step (Micikevicius et al. 2018, section 3.2, by the rule of PyTorch's
// GradScaler): lower after a step with gradients that were not finite, higher after many good steps.
#include "backends/reference/ref.h"

// clip (1): negative where the step is skipped; scaler: scale, good steps since it changed, steps skipped in all
void REF(scaler_update)(const real *clip, const real *hyper, real *scaler) {
    if (*clip < 0) {
        scaler[SM_SCALER_SCALE] *= hyper[SM_HYPER_SCALE_BACKOFF];
        scaler[SM_SCALER_GOOD] = 0;
        scaler[SM_SCALER_SKIPPED] += 1;
        return;
    }
    scaler[SM_SCALER_GOOD] += 1;
    if (scaler[SM_SCALER_GOOD] >= hyper[SM_HYPER_SCALE_INTERVAL]) {
        const real grown = scaler[SM_SCALER_SCALE] * hyper[SM_HYPER_SCALE_GROWTH];
        scaler[SM_SCALER_SCALE] = isfinite(grown) ? grown : scaler[SM_SCALER_SCALE];
        scaler[SM_SCALER_GOOD] = 0;
    }
}
