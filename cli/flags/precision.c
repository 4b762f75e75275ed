// precision.c: see flags/precision.h.
#include "cli/flags/precision.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

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

const char *cli_loss_scale(const cli_options *options, cli_precision precision) {
    const char *usual = precision == CLI_FP16 ? "dynamic" : "none";
    return options->loss_scale != NULL ? options->loss_scale : usual;
}

sm_status cli_loss_scaling(const cli_options *options, cli_precision precision, sm_loss_scaling *scaling) {
    const char *text = cli_loss_scale(options, precision);
    *scaling = (sm_loss_scaling){0};
    if (strcmp(text, "none") == 0) {
        return SM_OK;
    }
    *scaling = sm_dynamic_scaling;
    scaling->interval = (double)options->loss_scale_interval;
    if (strcmp(text, "dynamic") == 0) {
        return SM_OK;
    }
    char *end = NULL;
    const double scale = strtod(text, &end);
    if (end == text || *end != '\0' || !(scale >= 1 && scale <= FLT_MAX)) {
        return sm_fail(SM_ERR_USAGE, "--loss-scale: '%s'; give dynamic, none, or a number from 1 to 3.4e38", text);
    }
    *scaling = (sm_loss_scaling){.scale = scale, .growth = 1, .backoff = 1, .interval = 1};
    return SM_OK;
}

sm_status cli_measure_peaks(sm_device *device, cli_precision precision, size_t working_set_bytes, double seconds,
                            sm_peaks *peaks) {
    const sm_backend *backend = device->backend;
    const sm_precision computed = cli_plan_precision(cli_is_emulated(device, precision) ? CLI_FP32 : precision);
    return working_set_bytes > 0 && backend->measure_peaks_within != NULL
               ? backend->measure_peaks_within(device, computed, working_set_bytes, seconds, peaks)
               : backend->measure_peaks(device, computed, seconds, peaks);
}
