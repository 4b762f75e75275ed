// train_data.c: see setup/setup.h: documents and files of a training; weights and tokenizer of a trained model.
#include <unistd.h>

#include "cli/setup/setup.h"
#include "src/runs/checkpoint.h"
#include "src/text/tokenize.h"
#include "src/tokenizer/encoder.h"

sm_padding cli_padding(const cli_options *options) {
    return options->work.documents == NULL ? SM_PADDING_NONE
           : options->work.padding > 0     ? (sm_padding)(options->work.padding - 1)
                                           : SM_PADDING_PACKED;
}

// "MIN-MAX", an id, or a tokenizer.
static sm_status find(const cli_options *options, const sm_model_config *config, const sm_tokens *tokens,
                      int64_t n_positions, sm_documents *documents) {
    const char *text = options->work.documents;
    long long least = 0, most = 0;
    int end = 0;
    int32_t separator = 0;
    if (sscanf(text, "%lld-%lld%n", &least, &most, &end) == 2 && text[end] == '\0') {
        return sm_documents_draw(tokens, least, most, (uint64_t)options->work.seed, n_positions, documents);
    }
    if (sscanf(text, "%lld%n", &least, &end) == 1 && text[end] == '\0') {
        SM_FAIL_IF(least < 0 || least >= config->vocab, SM_ERR_USAGE,
                   "--documents: id %lld is outside the vocabulary of %lld", least, (long long)config->vocab);
        separator = (int32_t)least;
    } else {
        sm_tokenizer *tokenizer = NULL;
        SM_FAIL_IF(access(text, F_OK) != 0, SM_ERR_IO,
                   "--documents: '%s' is not MIN-MAX, an id, or an existing tokenizer; give one of these", text);
        SM_TRY(sm_tokenizer_read(text, &tokenizer));
        separator = tokenizer->end_of_text;
        sm_tokenizer_free(tokenizer);
        SM_FAIL_IF(separator == SM_NO_ID, SM_ERR_INVALID, "%s: has no %s", text, SM_END_OF_TEXT);
    }
    return sm_documents_split(tokens, separator, n_positions, documents);
}

sm_status cli_documents(const cli_options *options, const sm_model_config *config, const sm_tokens *tokens, int64_t T,
                        int64_t n_positions, sm_documents *documents) {
    const sm_long_document how = (sm_long_document)options->work.long_documents;
    SM_TRY(find(options, config, tokens, n_positions, documents));
    return sm_documents_shorten(documents, T, cli_padding(options) == SM_PADDING_NONE, how);
}

static sm_status open_source(const cli_options *o, const cli_job *job, const char *path, cli_train_file *file,
                             sm_train_source *source) {
    const sm_tokens_format format = (sm_tokens_format)o->work.data_format;
    const int64_t vocab = job->config.vocab;
    SM_TRY(o->work.tokenizer != NULL
               ? sm_text_tokens_open(path, format, o->work.tokenizer, vocab, file->tokenizer, &file->tokens)
           : path == NULL ? cli_open_tokens(o, vocab, &file->tokens)
                          : sm_tokens_open(path, format, vocab, &file->tokens));
    if (o->work.documents != NULL) { // all of them, in all batches that they fill
        SM_TRY(
            cli_documents(o, &job->config, file->tokens, job->T, sm_tokens_count(file->tokens) - 1, &file->documents));
        SM_TRY(sm_collate(&file->documents, job->B, job->T, cli_padding(o), file->documents.n, &file->collation));
    }
    *source = (sm_train_source){.tokens = file->tokens,
                                .path = path,
                                .tokenizer = file->tokenizer[0] != '\0' ? file->tokenizer : NULL,
                                .collation = o->work.documents != NULL ? &file->collation : NULL};
    return SM_OK;
}

sm_status cli_parse_loader(const cli_options *o, sm_loader_settings *loader) {
    int n = 1, end = 0;
    if (strcmp(o->work.loader, "inline") == 0) {
        loader->kind = SM_LOADER_INLINE;
    } else if (strcmp(o->work.loader, "threads") == 0 ||
               (sscanf(o->work.loader, "threads:%d%n", &n, &end) == 1 && o->work.loader[end] == '\0')) {
        loader->kind = SM_LOADER_THREADS;
    } else {
        return sm_fail(SM_ERR_USAGE, "--loader: unknown value '%s'; give inline, threads or, for instance, threads:4",
                       o->work.loader);
    }
    SM_FAIL_IF(n < 1 || n > SM_LOADER_MAX_THREADS, SM_ERR_USAGE, "--loader: %d threads are out of range; give 1 to %d",
               n, SM_LOADER_MAX_THREADS);
    loader->n_threads = n;
    return SM_OK;
}

sm_status cli_train_data_open(cli_options *o, const cli_job *job, cli_train_data *d, sm_train_settings *s) {
    SM_TRY(cli_parse_loader(o, &s->loader));
    SM_FAIL_IF(s->loader.kind == SM_LOADER_INLINE && o->work.queue_depth > 0, SM_ERR_USAGE,
               "--queue-depth: --loader inline makes nothing ahead; leave one out");
    s->loader.queue_depth = (int)o->work.queue_depth;
    SM_TRY(cli_check_vocabulary(o->work.tokenizer, false));
    SM_FAIL_IF(o->work.tokenizer != NULL && o->work.data == NULL, SM_ERR_USAGE,
               "--tokenizer: makes tokens of text; give a file or a folder of it as --data, too");
    // A folder's token files are the two sides of the training.
    const char *folder = o->work.data;
    d->tokenizer_folder = o->work.tokenizer;
    if (folder != NULL && o->work.tokenizer == NULL && sm_data_files_side(folder, "train", d->data_path)) {
        d->tokenizer_folder = sm_tokenizer_is_in(folder) ? folder : NULL;
        o->work.data = d->data_path;
        if (o->train.val_data == NULL && sm_data_files_side(folder, "val", d->val_path)) {
            o->train.val_data = d->val_path;
        }
    }
    SM_FAIL_IF(o->train.val_every > 0 && o->train.val_data == NULL, SM_ERR_USAGE,
               "--val-every: nothing to validate on; give --val-data FILE, or as --data a folder with val.bin");
    SM_TRY(open_source(o, job, o->work.data, &d->data, &s->data));
    return o->train.val_data != NULL ? open_source(o, job, o->train.val_data, &d->validation, &s->validation) : SM_OK;
}

static void close_file(cli_train_file *file) {
    sm_collation_free(&file->collation);
    sm_documents_free(&file->documents);
    sm_tokens_close(file->tokens);
    file->tokens = NULL;
}

void cli_train_data_close(cli_train_data *data) {
    close_file(&data->data);
    close_file(&data->validation);
}

void cli_count_tokens(const sm_collation *c, double *real_tokens, double *attended_pairs) {
    for (int64_t i = 0; i < c->n_batches; i++) {
        *real_tokens += (double)sm_collation_real_tokens(c, i) / (double)c->n_batches;
        *attended_pairs += (double)sm_collation_pairs(c, i) / (double)c->n_batches;
    }
}

sm_status cli_find_weights(const char *folder, char weights[PATH_MAX]) {
    char inner[PATH_MAX], path[PATH_MAX];
    bool found = false;
    SM_TRY(sm_model_folder_find(folder, SM_FILE_CONFIG, path, &found));
    if (!found && snprintf(inner, sizeof(inner), "%s/model", folder) < (int)sizeof(inner)) {
        SM_TRY(sm_model_folder_find(inner, SM_FILE_CONFIG, path, &found));
        folder = found ? inner : folder;
    }
    if (!found && snprintf(inner, sizeof(inner), "%s/checkpoints", folder) < (int)sizeof(inner) &&
        access(inner, F_OK) == 0) {
        // The last checkpoint of a training that has not ended.
        SM_FREED int64_t *steps = NULL;
        int n = 0;
        SM_TRY(sm_checkpoint_list(folder, &steps, &n));
        SM_FAIL_IF(n == 0, SM_ERR_IO,
                   "%s: a training that has not ended, and has no checkpoint yet; train --save-every N writes them",
                   folder);
        sm_status status = SM_ERR_FORMAT;
        for (int i = 0; i < n && status != SM_OK; i++) { // the last whole one
            status = sm_checkpoint_check(folder, steps[i], weights);
            status == SM_OK
                ? cli_note("%s: has not ended; its last checkpoint, of step %lld, is used", folder, (long long)steps[i])
                : cli_note("%s", sm_error_message());
        }
        SM_FAIL_IF(status != SM_OK, status, "%s: none of its checkpoints is whole", folder);
        return SM_OK;
    }
    snprintf(weights, PATH_MAX, "%s", folder);
    return SM_OK;
}

sm_status cli_find_tokenizer(const char *given, const char *folder, const char *weights, int64_t vocab,
                             sm_tokenizer **tokenizer) {
    char beside[PATH_MAX];
    given = given == NULL && weights != NULL && sm_tokenizer_is_in(weights) ? weights : given;
    given = given == NULL && folder != NULL && sm_tokenizer_is_in(folder) ? folder : given;
    // A run keeps its tokenizer in a folder next to checkpoints/, model/ and best/.
    static const char *const places[] = {"tokenizer", "../tokenizer", "../../tokenizer"};
    for (int i = 0; i < 3 && given == NULL && vocab != SM_N_BYTES && weights != NULL; i++) {
        const bool fits = snprintf(beside, sizeof(beside), "%s/%s", weights, places[i]) < PATH_MAX;
        given = fits && sm_tokenizer_is_in(beside) ? beside : NULL;
    }
    if (given != NULL && strcmp(given, CLI_BYTES_TOKENIZER) != 0) {
        SM_TRY(sm_tokenizer_read(given, tokenizer));
        return (*tokenizer)->n_tokens <= vocab
                   ? SM_OK
                   : sm_fail(SM_ERR_INVALID, "%s: %d tokens, but the model in %s knows only %lld", given,
                             (*tokenizer)->n_tokens, weights, (long long)vocab);
    }
    return given != NULL || vocab == SM_N_BYTES ? SM_OK
                                                : sm_fail(SM_ERR_USAGE,
                                                          "--tokenizer: the model knows %lld tokens; say which folder "
                                                          "holds its vocabulary (%s: ids are bytes)",
                                                          (long long)vocab, CLI_BYTES_TOKENIZER);
}

sm_status cli_check_vocabulary(const char *given, bool is_needed) {
    const bool is_bytes = given != NULL && strcmp(given, CLI_BYTES_TOKENIZER) == 0;
    SM_FAIL_IF(given == NULL && is_needed, SM_ERR_USAGE,
               "--tokenizer: missing; give the folder of a vocabulary, or --vocab-size N to learn one");
    SM_FAIL_IF(given != NULL && access(given, F_OK) != 0, is_bytes ? SM_ERR_USAGE : SM_ERR_IO,
               is_bytes ? "--tokenizer %s: bytes need no vocabulary; train on the text as it is: stepmark train --data "
                          "FILE --data-format bytes"
                        : "--tokenizer: %s: no such file or folder, and nothing is downloaded; learn a vocabulary: "
                          "stepmark tokenize --vocab-size 1024 --output DIR FILE",
               given);
    return SM_OK;
}

sm_status cli_encode_text(const char *flag, const sm_tokenizer *tokenizer, const char *text, int64_t vocab,
                          sm_ids *ids) {
    SM_OWN(sm_encoder) *encoder = NULL;
    if (tokenizer == NULL) {
        for (; *text != '\0'; text++) {
            SM_FAIL_IF((uint8_t)*text >= vocab, SM_ERR_INVALID,
                       "%s: a byte 0x%02x, but the model knows only %lld tokens", flag, (uint8_t)*text,
                       (long long)vocab);
            sm_ids_append(ids, (uint8_t)*text);
        }
        return SM_OK;
    }
    SM_TRY(sm_encoder_new(tokenizer, &encoder));
    return sm_encoder_encode(encoder, (const uint8_t *)text, strlen(text), ids);
}

sm_status cli_find_trained(const cli_options *options, cli_trained *model) {
    const char *folder = options->model.weights;
    SM_TRY(cli_find_weights(folder, model->weights));
    SM_TRY(sm_weights_read_config(model->weights, &model->config));
    return cli_find_tokenizer(options->work.tokenizer, folder, model->weights, model->config.vocab, &model->tokenizer);
}

sm_status cli_model_ids(const cli_options *o, const char *text, int64_t vocab, sm_ids *ids) {
    SM_OWN(sm_tokenizer) *tokenizer = NULL;
    SM_TRY(cli_find_tokenizer(o->work.tokenizer, o->train.run, o->model.weights, vocab, &tokenizer));
    return cli_encode_text("--text", tokenizer, text, vocab, ids);
}
