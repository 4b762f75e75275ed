// configure.h: turns flags into a model, a precision, an optimizer.
#ifndef STEPMARK_CLI_FLAGS_CONFIGURE_H
#define STEPMARK_CLI_FLAGS_CONFIGURE_H

#include "backend.h"
#include "cli/flags/options.h"
#include "src/models/model.h"

// --- a model -------------------------------------------------------------------------------------

// The config of a size of --arch, with the dimensions that the command line sets. SM_ERR_USAGE names what is wrong.
sm_status cli_model_config(const cli_options *options, const char *size_name, sm_model_config *config);

// SM_ERR_USAGE if sequences of T tokens are longer than the model's context.
sm_status cli_check_seq_len(const sm_model_config *config, int64_t T);

// Refuses a comma list for a flag that takes one value here.
sm_status cli_check_single(const char *flag, int n);

// --- a precision ---------------------------------------------------------------------------------

const char *cli_precision_name(cli_precision precision);

// The data type and products of plans in that precision.
sm_precision cli_plan_precision(cli_precision precision);

// Whether the device lacks instructions for that precision and widens its data.
bool cli_is_emulated(const sm_device *device, cli_precision precision);

// The loss scale's text in a row: "dynamic".
const char *cli_loss_scale(const cli_options *options, cli_precision precision);

// The loss scaling of --loss-scale, or the precision's default. SM_ERR_USAGE if it is not a scale.
sm_status cli_loss_scaling(const cli_options *options, cli_precision precision, sm_loss_scaling *scaling);

// sm_backend.measure_peaks for the arithmetic of that precision (fp32's if it is emulated), with operands of
// working_set_bytes, which may fit in a cache; 0: operands in memory.
sm_status cli_measure_peaks(sm_device *device, cli_precision precision, size_t working_set_bytes, double seconds,
                            sm_peaks *peaks);

// --- an optimizer --------------------------------------------------------------------------------

// The defaults of --optimizer, overridden by flags. SM_ERR_USAGE names a flag that the optimizer does not have.
sm_status cli_settings(const cli_options *options, sm_step_settings *settings);

// "weight decay" for "weight_decay".
void cli_setting_words(const sm_setting *setting, char words[CLI_TEXT_SIZE]);

#endif
