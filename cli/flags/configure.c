#include "cli/flags/options.h"

#include <float.h>

sm_status cli_model_config(const cli_options *options, const char *size_name, sm_model_config *config) {
    const sm_model *model = sm_model_at(options->model.arch > 0 ? options->model.arch - 1 : 0);
    const sm_model_size *size = sm_model_size_find(model, size_name);
    if (size == NULL) {
        const char *names[2 * CLI_MAX_TEXTS];
        int n = 0;
        for (int i = 0; i < model->n_sizes && n + 2 <= 2 * CLI_MAX_TEXTS; i++) {
            names[n++] = model->sizes[i].name;
            if (model->sizes[i].alias != NULL) {
                names[n++] = model->sizes[i].alias;
            }
        }
        return cli_no_such_name("--model-size", "size", size_name, names, n);
    }
    *config = size->config;
    config->d_ff = options->model.d_model != 0 ? 4 * options->model.d_model : config->d_ff;
#define OF_SIZE(given)     (given)
#define OF_OPTIONAL(given) (given)
#define OF_WORD(given)     ((given)-1)
#define X(type, member, ...)                               \
    if (options->model.member != 0) {                      \
        config->member = OF_##type(options->model.member); \
    }
#define KEPT(...)
    SM_MODEL_FIELDS(X, KEPT)
#undef X
#undef KEPT
    return sm_model_check(config) == SM_OK ? SM_OK : SM_ERR_USAGE;
}

sm_status cli_check_seq_len(const sm_model_config *config, int64_t T) {
    SM_FAIL_IF(T > config->context, SM_ERR_USAGE,
               "--seq-len: %lld is longer than the model's context of %lld; give a shorter one or a larger --context",
               (long long)T, (long long)config->context);
    return SM_OK;
}

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
    return options->device.loss_scale != NULL ? options->device.loss_scale : usual;
}

sm_status cli_loss_scaling(const cli_options *options, cli_precision precision, sm_loss_scaling *scaling) {
    const char *text = cli_loss_scale(options, precision);
    *scaling = (sm_loss_scaling){0};
    if (strcmp(text, "none") == 0) {
        return SM_OK;
    }
    *scaling = sm_dynamic_scaling;
    scaling->interval = (double)options->device.loss_scale_interval;
    if (strcmp(text, "dynamic") == 0) {
        return SM_OK;
    }
    char *end = NULL;
    const double scale = strtod(text, &end);
    SM_FAIL_IF(end == text || *end != '\0' || !(scale >= 1 && scale <= FLT_MAX), SM_ERR_USAGE,
               "--loss-scale: '%s'; give dynamic, none, or a number from 1 to 3.4e38", text);
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

void cli_setting_text(const sm_setting *setting, char mark, char text[CLI_TEXT_SIZE]) {
    snprintf(text, CLI_TEXT_SIZE, "%s", setting->name);
    for (char *c = text; *c != '\0'; c++) {
        *c = *c == '_' ? mark : *c;
    }
}

sm_status cli_settings(const cli_options *options, sm_step_settings *settings) {
    const sm_optimizer *optimizer = sm_optimizer_at(options->work.optimizer);
    sm_step_settings given = options->train.settings;
    *settings = optimizer->defaults;
    for (int i = 0; i < sm_setting_count(); i++) {
        const sm_setting *setting = sm_setting_at(i);
        const double value = *sm_setting_of(&given, setting);
        double *used = sm_setting_of(settings, setting);
        if (isnan(value)) {
            continue; // not given
        }
        if (isnan(*used)) {
            char flag[CLI_TEXT_SIZE];
            cli_setting_text(setting, '-', flag);
            return sm_fail(SM_ERR_USAGE, "--%s: %s has no such setting; leave it out", flag, optimizer->title);
        }
        *used = value;
    }
    SM_FAIL_IF(!isnan(settings->nesterov) && settings->nesterov != 0 && settings->nesterov != 1, SM_ERR_USAGE,
               "--nesterov: %g is neither 0 nor 1", settings->nesterov);
    return SM_OK;
}
