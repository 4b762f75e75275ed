// cli_precision.c: see cli_precision.h.
#include "cli_precision.h"

static const struct {
    const char *name;
    bool has_dtype;
    sm_dtype dtype;
} precisions[] = {
    [CLI_FP32] = {"fp32", true, SM_F32},
    [CLI_TF32] = {"tf32", false, SM_F32},
    [CLI_BF16] = {"bf16", true, SM_BF16},
    [CLI_FP16] = {"fp16", false, SM_F32},
};

const char *cli_precision_name(cli_precision precision) { return precisions[precision].name; }

sm_status cli_precision_dtype(cli_precision precision, sm_dtype *dtype) {
    if (!precisions[precision].has_dtype) {
        return sm_fail(SM_ERR_UNSUPPORTED, "precision %s: this version computes in fp32 and bf16",
                       precisions[precision].name);
    }
    *dtype = precisions[precision].dtype;
    return SM_OK;
}

bool cli_is_emulated(const sm_device *device, sm_dtype dtype) {
    return device->backend->emulates != NULL && device->backend->emulates(device, dtype);
}

sm_status cli_measure_peaks(sm_device *device, sm_dtype dtype, double seconds, sm_peaks *peaks) {
    return device->backend->measure_peaks(device, cli_is_emulated(device, dtype) ? SM_F32 : dtype, seconds, peaks);
}
