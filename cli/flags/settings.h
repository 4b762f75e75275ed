// settings.h: what the flags of `train` set an optimizer to.
#ifndef STEPMARK_CLI_FLAGS_SETTINGS_H
#define STEPMARK_CLI_FLAGS_SETTINGS_H

#include "cli/flags/options.h"

// The defaults of --optimizer, less what flags say. SM_ERR_USAGE names a flag for what the optimizer does not have.
sm_status cli_settings(const cli_options *options, sm_step_settings *settings);

// "weight decay" of "weight_decay".
void cli_setting_words(const sm_setting *setting, char words[CLI_TEXT_SIZE]);

#endif
