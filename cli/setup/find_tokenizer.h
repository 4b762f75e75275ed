// find_tokenizer.h: a model's folder, or a run of `train` that has one: where its weights and its tokenizer are.
#ifndef STEPMARK_CLI_SETUP_FIND_TOKENIZER_H
#define STEPMARK_CLI_SETUP_FIND_TOKENIZER_H

#include <limits.h>

#include "status.h"
#include "src/tokenizer/tokenizer.h"

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

#endif
