// settings.c: see flags/settings.h.
#include "cli/flags/settings.h"

#include <math.h>
#include <stdio.h>

// The setting's name with `mark` for its underscores.
static void spell(const sm_setting *setting, char mark, char text[CLI_TEXT_SIZE]) {
    snprintf(text, CLI_TEXT_SIZE, "%s", setting->name);
    for (char *c = text; *c != '\0'; c++) {
        *c = *c == '_' ? mark : *c;
    }
}

void cli_setting_words(const sm_setting *setting, char words[CLI_TEXT_SIZE]) { spell(setting, ' ', words); }

sm_status cli_settings(const cli_options *options, sm_step_settings *settings) {
    const sm_optimizer *optimizer = sm_optimizer_at(options->optimizer);
    sm_step_settings given = options->settings;
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
            spell(setting, '-', flag);
            return sm_fail(SM_ERR_USAGE, "--%s: %s has no such setting; leave it out", flag, optimizer->title);
        }
        *used = value;
    }
    if (!isnan(settings->nesterov) && settings->nesterov != 0 && settings->nesterov != 1) {
        return sm_fail(SM_ERR_USAGE, "--nesterov: %g is neither 0 nor 1", settings->nesterov);
    }
    return SM_OK;
}
