// data.h: from flags to data: the tokenizer, the documents, and the batches of a training.
#ifndef STEPMARK_CLI_SETUP_DATA_H
#define STEPMARK_CLI_SETUP_DATA_H

#include <limits.h>

#include "status.h"
#include "cli/flags/options.h"
#include "src/data/data_files.h"
#include "src/documents/collate.h"
#include "src/models/model.h"
#include "src/tokenizer/tokenizer.h"
#include "src/train/trainer.h"

// --- tokenizers ----------------------------------------------------------------------------------

// Weights and tokenizer in a model's folder, or in a run of `train` with a model.

#define CLI_BYTES_TOKENIZER "bytes" // for models of text read as bytes

// The folder with the weights: `folder` itself, or a run's model.
sm_status cli_find_weights(const char *folder, char weights[PATH_MAX]);

// The tokenizer of --tokenizer (`given`), or else of the folder with the weights, or of the run. NULL: an id is a byte.
// SM_ERR_USAGE if the vocabulary's tokenizer is unknown.
sm_status cli_find_tokenizer(const char *given, const char *folder, const char *weights, int64_t vocab,
                             sm_tokenizer **tokenizer);

// SM_ERR_USAGE if a vocabulary is needed but `given` says that ids are bytes.
sm_status cli_check_vocabulary(const char *given);

// Appends the ids of a text; messages name `flag`. SM_ERR_INVALID if the model does not know a byte.
sm_status cli_encode_text(const char *flag, const sm_tokenizer *tokenizer, const char *text, int64_t vocab,
                          sm_ids *ids);

// --- documents -----------------------------------------------------------------------------------

// The placement of documents in rows: none without --documents.
sm_padding cli_padding(const cli_options *options);

// The documents of the stream, at least n_positions in all if it has that many, made to fit rows of T. Free `documents`
// also after a failure.
sm_status cli_documents(const cli_options *options, const sm_model_config *config, const sm_tokens *tokens, int64_t T,
                        int64_t n_positions, sm_documents *documents);

// --- a training's data ---------------------------------------------------------------------------

// The data of a training, from flags: files of tokens or text, documents, and the loader.

// A file and its documents.
typedef struct {
    sm_tokens *tokens;
    char tokenizer[SM_TOKENIZER_DIGEST_SIZE];
    sm_documents documents;
    sm_collation collation;
} cli_train_file;

typedef struct {
    char data_path[SM_DATA_PATH_BYTES];
    char val_path[SM_DATA_PATH_BYTES];
    const char *tokenizer_folder; // of the data's tokenizer; NULL: unknown
    cli_train_file data;
    cli_train_file validation;
} cli_train_data;

// SM_ERR_USAGE for an invalid --loader.
sm_status cli_check_loader(const cli_options *options);

// Sets the settings' sources and loader. If --data is a folder, sets the options to the files in it. A zeroed `data` is
// an empty one.
sm_status cli_train_data_open(cli_options *options, const sm_model_config *config, int64_t B, int64_t T,
                              cli_train_data *data, sm_train_settings *settings);
void cli_train_data_close(cli_train_data *data);

// Sets the plan's mean number of real tokens in a micro-batch, for its work and speed.
void cli_train_data_count(const cli_train_data *data, sm_plan *plan);

#endif
