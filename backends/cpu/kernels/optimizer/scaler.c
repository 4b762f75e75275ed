// scaler.c: the loss scale of the next step.
#include <math.h>

#include "backends/cpu/common/kernel.h"

CPU_KERNEL(scaler_update) {
    const float clip = *(const float *)op->in[SM_IN(scaler_update, clip)];
    const float *hyper = op->in[SM_IN(scaler_update, hyper)];
    float *scaler = op->out[SM_OUT(scaler_update, scaler)];
    if (team->thread != 0) {
        return;
    }
    const bool skipped = clip < 0;
    const bool grows = !skipped && scaler[SM_SCALER_GOOD] + 1 >= hyper[SM_HYPER_SCALE_INTERVAL];
    const float factor = skipped ? hyper[SM_HYPER_SCALE_BACKOFF] : grows ? hyper[SM_HYPER_SCALE_GROWTH] : 1;
    const float scale = scaler[SM_SCALER_SCALE] * factor;
    scaler[SM_SCALER_SCALE] = isfinite(scale) ? scale : scaler[SM_SCALER_SCALE];
    scaler[SM_SCALER_GOOD] = skipped || grows ? 0 : scaler[SM_SCALER_GOOD] + 1;
    scaler[SM_SCALER_SKIPPED] += skipped ? 1 : 0;
}
