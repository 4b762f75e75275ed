// documents.c: see setup/data.h.
#include "cli/setup/data.h"

#include <stdio.h>
#include <unistd.h>

#include "src/tokenizer/tokenizer.h"

sm_padding cli_padding(const cli_options *options) {
    if (options->work.documents == NULL) {
        return SM_PADDING_NONE;
    }
    return options->work.padding > 0 ? (sm_padding)(options->work.padding - 1) : SM_PADDING_PACKED;
}

static sm_status read_separator(const char *path, int32_t *separator) {
    sm_tokenizer *tokenizer = NULL;
    if (access(path, F_OK) != 0) {
        return sm_fail(SM_ERR_IO,
                       "--documents: '%s' is not MIN-MAX, an id, or an existing tokenizer; give one of "
                       "these",
                       path);
    }
    SM_TRY(sm_tokenizer_read(path, &tokenizer));
    *separator = tokenizer->end_of_text;
    sm_tokenizer_free(tokenizer);
    return *separator != SM_NO_ID ? SM_OK : sm_fail(SM_ERR_INVALID, "%s: has no %s", path, SM_END_OF_TEXT);
}

// "MIN-MAX", an id, or a tokenizer.
static sm_status find(const cli_options *options, const sm_model_config *config, const sm_tokens *tokens,
                      int64_t n_positions, sm_documents *documents) {
    const char *text = options->work.documents;
    long long least = 0;
    long long most = 0;
    int end = 0;
    int32_t separator = 0;
    if (sscanf(text, "%lld-%lld%n", &least, &most, &end) == 2 && text[end] == '\0') {
        return sm_documents_draw(tokens, least, most, (uint64_t)options->work.seed, n_positions, documents);
    }
    if (sscanf(text, "%lld%n", &least, &end) == 1 && text[end] == '\0') {
        if (least < 0 || least >= config->vocab) {
            return sm_fail(SM_ERR_USAGE, "--documents: id %lld is outside the vocabulary of %lld", least,
                           (long long)config->vocab);
        }
        separator = (int32_t)least;
    } else {
        SM_TRY(read_separator(text, &separator));
    }
    return sm_documents_split(tokens, separator, n_positions, documents);
}

sm_status cli_documents(const cli_options *options, const sm_model_config *config, const sm_tokens *tokens, int64_t T,
                        int64_t n_positions, sm_documents *documents) {
    const sm_long_document how = (sm_long_document)options->work.long_documents;
    SM_TRY(find(options, config, tokens, n_positions, documents));
    return cli_padding(options) == SM_PADDING_NONE ? sm_documents_fill_rows(documents, T, how)
                                                   : sm_documents_shorten(documents, T, how);
}
