// model.h: from flags to a model.
#ifndef STEPMARK_CLI_FLAGS_MODEL_H
#define STEPMARK_CLI_FLAGS_MODEL_H

#include "cli/flags/options.h"
#include "src/models/model.h"

// The config of a size of --arch, with --vocab, --context and the other dimensions of the command line
// in place of the size's. SM_ERR_USAGE names what is wrong.
sm_status cli_model_config(const cli_options *options, const char *size_name, sm_model_config *config);

// SM_ERR_USAGE when sequences of T tokens do not fit the model's context.
sm_status cli_check_seq_len(const sm_model_config *config, int64_t T);

// Refuses a comma list where a subcommand takes one value.
sm_status cli_check_single(const char *flag, int n);

#endif
