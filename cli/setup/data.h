// data.h: what flags say of the data: their tokenizer, their documents, and the batches of a training.
#ifndef STEPMARK_CLI_SETUP_DATA_H
#define STEPMARK_CLI_SETUP_DATA_H

#include <limits.h>

#include "status.h"
#include "cli/flags/options.h"
#include "src/documents/collate.h"
#include "src/models/model.h"
#include "src/tokenizer/tokenizer.h"
#include "src/train/trainer.h"

// --- tokenizers ----------------------------------------------------------------------------------

// A model's folder, or a run of `train` that has one: where its weights and its tokenizer are.

#define CLI_BYTES_TOKENIZER "bytes" // for models of text read as bytes

// The folder with the weights: `folder` itself or, of a run of `train`, its model.
sm_status cli_find_weights(const char *folder, char weights[PATH_MAX]);

// The tokenizer of --tokenizer, `given`, or else of the folder with the weights, or of the run. NULL: an id is a byte.
// SM_ERR_USAGE where nothing says what the ids of a vocabulary stand for.
sm_status cli_find_tokenizer(const char *given, const char *folder, const char *weights, int64_t vocab,
                             sm_tokenizer **tokenizer);

// SM_ERR_USAGE where a folder with a vocabulary is needed, and `given` says that there is none, nor is a folder's name.
sm_status cli_check_vocabulary(const char *given);

// Appends the ids of a text; `flag` is what messages name. SM_ERR_INVALID where the model does not know a byte.
sm_status cli_encode_text(const char *flag, const sm_tokenizer *tokenizer, const char *text, int64_t vocab,
                          sm_ids *ids);

// --- documents -----------------------------------------------------------------------------------

// How documents are placed in rows: none without --documents.
sm_padding cli_padding(const cli_options *options);

// The documents of the stream, at least n_positions of them if it has as many, made to fit rows of T. `documents` is to
// be freed also where this fails.
sm_status cli_documents(const cli_options *options, const sm_model_config *config, const sm_tokens *tokens, int64_t T,
                        int64_t n_positions, sm_documents *documents);

// --- a training's data ---------------------------------------------------------------------------

// What a training reads, as flags say it: files of tokens or text, documents, and the loader.

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
