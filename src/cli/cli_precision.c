// cli_precision.c: see cli_precision.h.
#include "cli_precision.h"

static const struct {
    const char *name;
    sm_precision plan;
} precisions[] = {
#define X(code, word, dtype, products) [code] = {word, {dtype, products}},
    CLI_PRECISION_LIST(X)
#undef X
};

const char *cli_precision_name(cli_precision precision) { return precisions[precision].name; }

sm_precision cli_plan_precision(cli_precision precision) { return precisions[precision].plan; }

bool cli_is_emulated(const sm_device *device, cli_precision precision) {
    return device->backend->emulates != NULL && device->backend->emulates(device, cli_plan_precision(precision));
}

sm_status cli_measure_peaks(sm_device *device, cli_precision precision, double seconds, sm_peaks *peaks) {
    const cli_precision computed = cli_is_emulated(device, precision) ? CLI_FP32 : precision;
    return device->backend->measure_peaks(device, cli_plan_precision(computed), seconds, peaks);
}
