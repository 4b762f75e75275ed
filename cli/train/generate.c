// generate.c: a trained model continues a text.
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "cli/flags/configure.h"
#include "cli/flags/options.h"
#include "cli/measure/measure.h"
#include "cli/output/notes.h"
#include "cli/setup/data.h"
#include "cli/setup/session.h"
#include "src/train/generate.h"
#include "src/weights/weights.h"

typedef struct {
    const cli_options *options;
    char weights[PATH_MAX];
    sm_model_config config;
    sm_tokenizer *tokenizer; // NULL: an id is a byte
    sm_device *device;
    sm_generator *generator;
    sm_ids ids;
} generation;

// --- setting up ----------------------------------------------------------------------------

static sm_status check_options(const cli_options *options) {
    SM_TRY(cli_check_single("--threads", options->device.threads.n));
    SM_TRY(cli_check_single("--mode", options->device.modes.n));
    SM_TRY(cli_check_single("--precision", options->device.precisions.n));
    if (options->model.weights == NULL) {
        return sm_fail(SM_ERR_USAGE, "--weights: missing; give the folder of the model or the training run");
    }
    return options->generate.prompt != NULL ? SM_OK
                                            : sm_fail(SM_ERR_USAGE, "--prompt: missing; give a text to continue");
}

static sm_status find_weights(generation *g) {
    SM_TRY(cli_find_weights(g->options->model.weights, g->weights));
    return sm_weights_read_config(g->weights, &g->config);
}

// An empty prompt is the beginning of a document, if there is a token for that.
static sm_status encode_prompt(generation *g) {
    SM_TRY(cli_encode_text("--prompt", g->tokenizer, g->options->generate.prompt, g->config.vocab, &g->ids));
    if (g->tokenizer != NULL && g->ids.n == 0 && g->tokenizer->end_of_text != SM_NO_ID) {
        SM_TRY(sm_ids_append(&g->ids, g->tokenizer->end_of_text));
    }
    return g->ids.n > 0 ? SM_OK : sm_fail(SM_ERR_USAGE, "--prompt: empty; give a text to continue");
}

static sm_status open_model(generation *g) {
    const cli_options *options = g->options;
    const int64_t length = (int64_t)g->ids.n + options->generate.n_tokens;
    const sm_generator_settings settings = {.config = &g->config,
                                            .mode = (sm_mode)options->device.modes.values[0],
                                            .precision =
                                                cli_plan_precision((cli_precision)options->device.precisions.values[0]),
                                            .window = length < g->config.context ? length : g->config.context};
    SM_TRY(cli_open_only_device(options, &g->device));
    SM_TRY(sm_generator_open(g->device, &settings, &g->generator));
    return sm_weights_load(g->weights, &g->config, sm_generator_session(g->generator), NULL);
}

// --- the text ------------------------------------------------------------------------------

static sm_status print_id(const generation *g, int32_t id) {
    if (g->options->generate.ids) {
        printf("%d\n", id);
    } else if (g->tokenizer == NULL) {
        putchar(id);
    } else if (!g->tokenizer->tokens[id].is_special) {
        fwrite(sm_token_bytes(g->tokenizer, id), 1, g->tokenizer->tokens[id].n_bytes, stdout);
    }
    return fflush(stdout) == 0 ? SM_OK : sm_fail(SM_ERR_IO, "stdout: cannot be written: %s", strerror(errno));
}

static sm_status print_prompt(const generation *g) {
    for (size_t i = 0; i < g->ids.n && !g->options->generate.ids; i++) {
        SM_TRY(print_id(g, g->ids.ids[i]));
    }
    return SM_OK;
}

static sm_status generate(generation *g) {
    const cli_options *options = g->options;
    const sm_sampling sampling = {.temperature = options->generate.temperature,
                                  .top_k = options->generate.top_k,
                                  .seed = (uint64_t)options->work.seed,
                                  .n_ids = g->tokenizer != NULL ? g->tokenizer->n_tokens : SM_N_BYTES};
    const int64_t start_ns = sm_now_ns();
    int64_t n = 0;
    int32_t id = SM_NO_ID;
    SM_TRY(print_prompt(g));
    while (n < options->generate.n_tokens && !cli_interrupted) {
        SM_TRY(sm_generator_next(g->generator, g->ids.ids, (int64_t)g->ids.n, &sampling, &id));
        n++;
        if (g->tokenizer != NULL && id == g->tokenizer->end_of_text) {
            break; // the document ends
        }
        SM_TRY(sm_ids_append(&g->ids, id));
        SM_TRY(print_id(g, id));
    }
    if (!options->generate.ids) {
        putchar('\n');
    }
    cli_note("%lld tokens, %.1f a second", (long long)n, (double)n * 1e9 / (double)(sm_now_ns() - start_ns));
    return cli_interrupted ? SM_ERR_INTERRUPTED : SM_OK;
}

sm_status cli_generate(const cli_options *options) {
    sm_status status;
    generation g = {.options = options};
    signal(SIGPIPE, SIG_IGN);
    SM_TRY_GOTO(check_options(options));
    SM_TRY_GOTO(find_weights(&g));
    SM_TRY_GOTO(
        cli_find_tokenizer(options->work.tokenizer, options->model.weights, g.weights, g.config.vocab, &g.tokenizer));
    SM_TRY_GOTO(encode_prompt(&g));
    SM_TRY_GOTO(open_model(&g));
    SM_TRY_GOTO(generate(&g));

cleanup:
    sm_generator_close(g.generator);
    if (g.device != NULL) {
        g.device->backend->close(g.device);
    }
    sm_tokenizer_free(g.tokenizer);
    free(g.ids.ids);
    return status;
}
