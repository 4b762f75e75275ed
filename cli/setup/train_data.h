// train_data.h: what a training reads, as flags say it: files of tokens or text, documents, and the loader.
#ifndef STEPMARK_CLI_SETUP_TRAIN_DATA_H
#define STEPMARK_CLI_SETUP_TRAIN_DATA_H

#include <limits.h>

#include "cli/setup/documents.h"
#include "src/tokenizer/tokenizer.h"
#include "src/train/trainer.h"

// A file, and the documents in it.
typedef struct {
    sm_tokens *tokens;
    char tokenizer[SM_TOKENIZER_DIGEST_SIZE];
    sm_documents documents;
    sm_collation collation;
} cli_train_file;

typedef struct {
    char data_path[PATH_MAX];
    char val_path[PATH_MAX];
    cli_train_file data;
    cli_train_file validation;
} cli_train_data;

// SM_ERR_USAGE where --loader names none.
sm_status cli_check_loader(const cli_options *options);

// Sets the settings' sources and loader. Where --data is a folder, the options then name the files in it. A zeroed
// `data` is an empty one.
sm_status cli_train_data_open(cli_options *options, const sm_model_config *config, int64_t B, int64_t T,
                              cli_train_data *data, sm_train_settings *settings);
void cli_train_data_close(cli_train_data *data);

// Tells the plan what a mean micro-batch of documents holds, so that its work is counted right.
void cli_train_data_count(const cli_train_data *data, sm_plan *plan);

#endif
