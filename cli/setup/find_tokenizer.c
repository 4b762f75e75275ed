// find_tokenizer.c: finds the weights and tokenizer in a model's folder or a run of `train`.
#include "cli/setup/setup.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/runs/checkpoint.h"
#include "src/tokenizer/encoder.h"
#include "src/weights/model_folder.h"
#include "src/weights/weights.h"

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
        int64_t *steps = NULL;
        int n = 0;
        SM_TRY(sm_checkpoint_list(folder, &steps, &n));
        const int64_t step = n > 0 ? steps[0] : 0;
        free(steps);
        SM_FAIL_IF(n == 0, SM_ERR_IO,
                   "%s: a training that has not ended, and has no checkpoint yet; train --save-every N writes them",
                   folder);
        SM_FAIL_IF(snprintf(weights, PATH_MAX, "%s/checkpoints/step-%lld", folder, (long long)step) >= PATH_MAX,
                   SM_ERR_IO, "%.100s...: the path is too long", folder);
        cli_note("%s: has not ended; its last checkpoint, of step %lld, is used", folder, (long long)step);
        return SM_OK;
    }
    snprintf(weights, PATH_MAX, "%s", folder);
    return SM_OK;
}

sm_status cli_find_tokenizer(const char *given, const char *folder, const char *weights, int64_t vocab,
                             sm_tokenizer **tokenizer) {
    char beside[PATH_MAX];
    if (given == NULL && weights != NULL && sm_tokenizer_is_in(weights)) {
        given = weights;
    }
    if (given == NULL && folder != NULL && sm_tokenizer_is_in(folder)) {
        given = folder;
    }
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

sm_status cli_check_vocabulary(const char *given) {
    return given == NULL || strcmp(given, CLI_BYTES_TOKENIZER) != 0 || access(given, F_OK) == 0
               ? SM_OK
               : sm_fail(SM_ERR_USAGE,
                         "--tokenizer %s: bytes need no vocabulary; train on the text as it is: stepmark train --data "
                         "FILE --data-format bytes",
                         given);
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
