// documents.h: documents in rows, as --documents, --padding and --long-documents ask for them.
#ifndef STEPMARK_CLI_SETUP_DOCUMENTS_H
#define STEPMARK_CLI_SETUP_DOCUMENTS_H

#include "cli/flags/options.h"
#include "src/documents/collate.h"
#include "src/models/model.h"

// How documents are placed in rows: none without --documents.
sm_padding cli_padding(const cli_options *options);

// The documents of the stream, at least n_positions of them if it has as many, made to fit rows of T. `documents` is to
// be freed also where this fails.
sm_status cli_documents(const cli_options *options, const sm_model_config *config, const sm_tokens *tokens, int64_t T,
                        int64_t n_positions, sm_documents *documents);

#endif
