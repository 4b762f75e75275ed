// train_sample.c: see train/train.h.
#include "cli/train/train.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "bench/tables/json_values.h"
#include "cli/flags/configure.h"
#include "cli/output/notes.h"
#include "cli/setup/data.h"
#include "src/train/validation.h"

enum { SAMPLE_TOKENS = 64 };

static const double temperature = 0.8;

sm_status cli_train_sampler_open(const cli_options *o, const cli_job *job, const char *tokenizer, sm_device *device,
                                 cli_train_sampler *s) {
    const int64_t vocab = job->config.vocab;
    s->options = o;
    SM_TRY(cli_find_tokenizer(tokenizer, NULL, NULL, vocab, &s->tokenizer));
    SM_TRY(cli_encode_text("--prompt", s->tokenizer, o->generate.prompt, vocab, &s->prompt));
    if (s->prompt.n == 0) {
        return sm_fail(SM_ERR_USAGE, "--prompt: empty; give a text to continue");
    }
    const int64_t length = (int64_t)s->prompt.n + SAMPLE_TOKENS;
    const sm_generator_settings settings = {.config = &job->config,
                                            .mode = job->mode,
                                            .precision = cli_plan_precision(job->precision),
                                            .window = length < job->config.context ? length : job->config.context};
    return sm_generator_open(device, &settings, &s->generator);
}

static void append(const cli_train_sampler *s, int32_t id, FILE *out) {
    if (s->tokenizer == NULL) {
        fputc(id, out);
    } else if (!s->tokenizer->tokens[id].is_special) {
        fwrite(sm_token_bytes(s->tokenizer, id), 1, s->tokenizer->tokens[id].n_bytes, out);
    }
}

static sm_status write_sample(cli_train_sampler *s, sm_ids *ids, FILE *out) {
    const sm_sampling sampling = {.temperature = temperature,
                                  .seed = (uint64_t)s->options->work.seed,
                                  .n_ids = s->tokenizer != NULL ? s->tokenizer->n_tokens : SM_N_BYTES};
    for (size_t i = 0; i < s->prompt.n; i++) {
        SM_TRY(sm_ids_append(ids, s->prompt.ids[i]));
        append(s, s->prompt.ids[i], out);
    }
    for (int i = 0; i < SAMPLE_TOKENS; i++) {
        int32_t id;
        SM_TRY(sm_generator_next(s->generator, ids->ids, (int64_t)ids->n, &sampling, &id));
        if (s->tokenizer != NULL && id == s->tokenizer->end_of_text) {
            break; // the document ends
        }
        SM_TRY(sm_ids_append(ids, id));
        append(s, id, out);
    }
    return SM_OK;
}

// A model may end amid a character, or write none at all: the log and the terminal get valid text.
static char *show(const char *bytes) {
    json_t *valid = sm_json_bytes(bytes);
    char *quoted = json_dumps(valid, JSON_ENCODE_ANY);
    char *text = sm_strdup(json_string_value(valid));
    cli_live_clear();
    printf("sample | %s\n", quoted); // control characters are escaped
    free(quoted);
    json_decref(valid);
    return text;
}

sm_status cli_train_sampler_run(cli_train_sampler *s, sm_session *trained, char **text) {
    char *bytes = NULL;
    size_t size_bytes;
    sm_ids ids = {.n = 0};
    SM_TRY(sm_session_copy_params(trained, sm_generator_session(s->generator)));
    FILE *out = sm_memstream(&bytes, &size_bytes);
    sm_status status = write_sample(s, &ids, out);
    free(ids.ids);
    sm_memstream_close(out);
    if (status == SM_OK) {
        *text = show(bytes);
    }
    free(bytes);
    return status;
}

void cli_train_sampler_close(cli_train_sampler *s) {
    sm_generator_close(s->generator);
    sm_tokenizer_free(s->tokenizer);
    free(s->prompt.ids);
    *s = (cli_train_sampler){.generator = NULL};
}

sm_status cli_train_keep_tokenizer(const char *tokenizer, const char *run, const char *name) {
    char folder[PATH_MAX];
    sm_tokenizer *t = NULL;
    if (tokenizer == NULL) {
        return SM_OK;
    }
    if (snprintf(folder, sizeof folder, "%s/%s", run, name) >= (int)sizeof folder) {
        return sm_fail(SM_ERR_IO, "%.100s...: the path is too long", run);
    }
    SM_TRY(sm_tokenizer_read(tokenizer, &t));
    const sm_status status = sm_tokenizer_write(t, folder);
    sm_tokenizer_free(t);
    return status;
}
