// generate.c: a model continues a text: `generate`, and the samples of a training (train/train.h).
#include "cli/train/train.h"

#include <errno.h>

#include "clock.h"
#include "src/weights/weights.h"

enum { SAMPLE_TOKENS = 64 };

static const double sample_temperature = 0.8;

// A model that continues `ids`, and where the text goes.
typedef struct {
    sm_generator *generator;
    const sm_tokenizer *tokenizer; // NULL: an id is a byte
    sm_ids *ids;
    FILE *out;
    bool is_numbers; // the new ids, one a line, instead of the whole text
} continuation;

static sm_status open_generator(const sm_model_config *config, sm_mode mode, cli_precision precision, int64_t length,
                                sm_device *device, sm_generator **generator) {
    const sm_generator_settings settings = {.config = config,
                                            .mode = mode,
                                            .precision = cli_plan_precision(precision),
                                            .window = length < config->context ? length : config->context};
    return sm_generator_open(device, &settings, generator);
}

static sm_status put_id(const continuation *c, int32_t id) {
    if (c->is_numbers) {
        fprintf(c->out, "%d\n", id);
    } else if (c->tokenizer == NULL) {
        fputc(id, c->out);
    } else if (!c->tokenizer->tokens[id].is_special) {
        fwrite(sm_token_bytes(c->tokenizer, id), 1, c->tokenizer->tokens[id].n_bytes, c->out);
    }
    return fflush(c->out) == 0 ? SM_OK : sm_fail(SM_ERR_IO, "stdout: cannot be written: %s", strerror(errno));
}

// Appends up to `most` tokens, until the document ends; *n: how many were generated.
static sm_status continue_text(const continuation *c, const cli_options *o, double temperature, int64_t most,
                               int64_t *n) {
    const sm_sampling sampling = {.temperature = temperature,
                                  .top_k = o->generate.top_k,
                                  .seed = (uint64_t)o->work.seed,
                                  .n_ids = c->tokenizer != NULL ? c->tokenizer->n_tokens : SM_N_BYTES};
    for (size_t i = 0; i < c->ids->n && !c->is_numbers; i++) {
        SM_TRY(put_id(c, c->ids->ids[i]));
    }
    for (*n = 0; *n < most && !cli_interrupted;) {
        int32_t id;
        SM_TRY(sm_generator_next(c->generator, c->ids->ids, (int64_t)c->ids->n, &sampling, &id));
        ++*n;
        if (c->tokenizer != NULL && id == c->tokenizer->end_of_text) {
            break;
        }
        sm_ids_append(c->ids, id);
        SM_TRY(put_id(c, id));
    }
    return SM_OK;
}

sm_status cli_generate(const cli_options *o) {
    cli_trained model = {.tokenizer = NULL};
    SM_AT_END(sm_ids_free) sm_ids ids = {.n = 0};
    SM_OWN(sm_device) *device = NULL;
    SM_OWN(sm_generator) *generator = NULL;
    int64_t n;
    signal(SIGPIPE, SIG_IGN);
    SM_FAIL_IF(o->model.weights == NULL, SM_ERR_USAGE,
               "--weights: missing; give the folder of the model or the training run");
    SM_FAIL_IF(o->generate.prompt == NULL, SM_ERR_USAGE, "--prompt: missing; give a text to continue");
    SM_TRY(cli_find_trained(o, &model));
    SM_OWN(sm_tokenizer) *tokenizer = model.tokenizer;
    const int64_t start_ns = sm_now_ns();
    SM_TRY(cli_encode_text("--prompt", tokenizer, o->generate.prompt, model.config.vocab, &ids));
    if (tokenizer != NULL && ids.n == 0 && tokenizer->end_of_text != SM_NO_ID) {
        sm_ids_append(&ids, tokenizer->end_of_text); // the beginning of a document
    }
    SM_FAIL_IF(ids.n == 0, SM_ERR_USAGE, "--prompt: empty; give a text to continue");
    SM_TRY(cli_open_only_device(o, &device));
    SM_TRY(open_generator(&model.config, (sm_mode)o->device.modes.values[0],
                          (cli_precision)o->device.precisions.values[0], (int64_t)ids.n + o->generate.n_tokens, device,
                          &generator));
    SM_TRY(sm_weights_load(model.weights, &model.config, sm_generator_session(generator), NULL));
    SM_TRY(continue_text(&(continuation){generator, tokenizer, &ids, stdout, o->generate.ids}, o,
                         o->generate.temperature, o->generate.n_tokens, &n));
    if (!o->generate.ids) {
        putchar('\n');
    }
    cli_note("%lld tokens, %.1f a second", (long long)n, (double)n * 1e9 / (double)(sm_now_ns() - start_ns));
    return cli_interrupted ? SM_ERR_INTERRUPTED : SM_OK;
}

sm_status cli_train_sampler_open(const cli_options *o, const cli_job *job, const char *tokenizer, sm_device *device,
                                 cli_train_sampler *s) {
    const int64_t vocab = job->config.vocab;
    s->options = o;
    SM_TRY(cli_find_tokenizer(tokenizer, NULL, NULL, vocab, &s->tokenizer));
    SM_TRY(cli_encode_text("--prompt", s->tokenizer, o->generate.prompt, vocab, &s->prompt));
    SM_FAIL_IF(s->prompt.n == 0, SM_ERR_USAGE, "--prompt: empty; give a text to continue");
    return open_generator(&job->config, job->mode, job->precision, (int64_t)s->prompt.n + SAMPLE_TOKENS, device,
                          &s->generator);
}

sm_status cli_train_sampler_run(cli_train_sampler *s, sm_session *trained, char **text) {
    SM_FREED char *bytes = NULL;
    size_t size_bytes;
    int64_t n;
    const size_t n_prompt = s->prompt.n;
    SM_TRY(sm_session_copy_params(trained, sm_generator_session(s->generator)));
    FILE *out = sm_memstream(&bytes, &size_bytes);
    const continuation c = {s->generator, s->tokenizer, &s->prompt, out, false};
    const sm_status status = continue_text(&c, s->options, sample_temperature, SAMPLE_TOKENS, &n);
    s->prompt.n = n_prompt;
    sm_memstream_close(out);
    if (status == SM_OK) {
        // A model may end amid a character, or write none at all: the log and the terminal get valid text.
        SM_OWN(json_t) *valid = sm_json_bytes(bytes);
        SM_FREED char *quoted = json_dumps(valid, JSON_ENCODE_ANY);
        *text = sm_strdup(json_string_value(valid));
        cli_live_clear();
        printf("sample | %s\n", quoted); // control characters are escaped
    }
    return status;
}

void cli_train_sampler_close(cli_train_sampler *s) {
    sm_generator_close(s->generator);
    sm_tokenizer_free(s->tokenizer);
    free(s->prompt.ids);
    *s = (cli_train_sampler){.generator = NULL};
}
