// configure.h: from flags to what they configure: a model, a precision, an optimizer.
#ifndef STEPMARK_CLI_FLAGS_CONFIGURE_H
#define STEPMARK_CLI_FLAGS_CONFIGURE_H

#include "backend.h"
#include "cli/flags/options.h"
#include "src/models/model.h"

// --- a model -------------------------------------------------------------------------------------

// The config of a size of --arch, with --vocab, --context and the other dimensions of the command line
// in place of the size's. SM_ERR_USAGE names what is wrong.
sm_status cli_model_config(const cli_options *options, const char *size_name, sm_model_config *config);

// SM_ERR_USAGE when sequences of T tokens do not fit the model's context.
sm_status cli_check_seq_len(const sm_model_config *config, int64_t T);

// Refuses a comma list where a subcommand takes one value.
sm_status cli_check_single(const char *flag, int n);

// --- a precision ---------------------------------------------------------------------------------

const char *cli_precision_name(cli_precision precision);

// How plans in that precision store their data and compute their products.
sm_precision cli_plan_precision(cli_precision precision);

// Does the device widen that precision's data for lack of instructions of its own?
bool cli_is_emulated(const sm_device *device, cli_precision precision);

// The loss scale's text in a row: "dynamic".
const char *cli_loss_scale(const cli_options *options, cli_precision precision);

// How --loss-scale, or where it is not given the precision, has the loss scaled. SM_ERR_USAGE for what is no scale.
sm_status cli_loss_scaling(const cli_options *options, cli_precision precision, sm_loss_scaling *scaling);

// sm_backend.measure_peaks of the arithmetic that works in that precision: where it is emulated, of fp32's. Its
// operands are that many bytes, and may lie in a cache; 0: they lie in memory.
sm_status cli_measure_peaks(sm_device *device, cli_precision precision, size_t working_set_bytes, double seconds,
                            sm_peaks *peaks);

// --- an optimizer --------------------------------------------------------------------------------

// The defaults of --optimizer, less what flags say. SM_ERR_USAGE names a flag for what the optimizer does not have.
sm_status cli_settings(const cli_options *options, sm_step_settings *settings);

// "weight decay" of "weight_decay".
void cli_setting_words(const sm_setting *setting, char words[CLI_TEXT_SIZE]);

#endif
