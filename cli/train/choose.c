// choose.c: `train -m auto`: chooses what the command line leaves open. From a text it learns a vocabulary and takes a
// part for validation; then it chooses a model, a batch and a length that fit the data and the machine. The choices
// join the command line that run.json keeps, so that a resumed run has the same.
#include <unistd.h>

#include "embedded.h"
#include "cli/train/train.h"
#include "src/io/json_text.h"
#include "src/plan/host_threads.h"
#include "src/text/tokenize.h"
#include "src/tokenizer/bpe_train.h"

enum {
    MOST_CHOICES = 16,
    CHOICE_BYTES = PATH_MAX + 32,
    LEAST_VOCABULARY = 512, // of a learned one; and the most
    MOST_VOCABULARY = 16384,
    USUAL_LENGTH = 128, // tokens of a sequence
    LEAST_LENGTH = 16,
    USUAL_BATCH = 16,
    STEPS_AN_EPOCH = 16, // at least, if the text allows it
    MOST_EPOCHS = 10,    // of a short text; more make a model worse on new text
    VALIDATIONS = 10,
    MOST_TOKENS_JSON = 1 << 24,
};

static const double val_percent = 10;

// The length of a training, and careful guesses of what a core and a card reach with small models.
static const double train_s = 120, core_flops = 25e9, card_flops = 2e12;

// A model's most parameters for each token of its data; the tokens for each parameter, or epochs, of its training.
static const double params_a_token = 40, tokens_a_param = 20, epochs_wanted = 4;

static const struct {
    int64_t n_layer, n_head, d_model;
} sizes[] = {{2, 4, 128}, {4, 6, 192}, {6, 8, 256}, {6, 6, 384}, {8, 8, 512}, {12, 12, 768}};

typedef struct {
    cli_options *options;
    char tokens[PATH_MAX]; // folder of the text's tokens
    char run[PATH_MAX];
    char said[MOST_CHOICES][CHOICE_BYTES]; // added to the command line
    int n_said;
    int64_t n_train, n_val; // tokens
} chooser;

#define SAY(c, ...) snprintf((c)->said[(c)->n_said++], CHOICE_BYTES, __VA_ARGS__)

// A flag's value, unless it was given.
static void choose(chooser *c, const char *flag, int64_t *member, int64_t value) {
    if (*member == 0) {
        *member = value;
        SAY(c, "--%s=%lld", flag, (long long)value);
    }
}

static void choose_only(chooser *c, const char *flag, cli_ints *list, int64_t value) {
    if (list->n == 0) {
        list->n = 1;
        choose(c, flag, &list->values[0], value);
    }
}

// "my.tokens" and "my.run" in the current folder, for "texts/my.txt".
static void name_outputs(chooser *c) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", c->options->work.data);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--) {
        path[n - 1] = '\0';
    }
    char *slash = strrchr(path, '/');
    char *stem = slash != NULL ? slash + 1 : path;
    char *dot = strrchr(stem, '.');
    if (dot != NULL && dot > stem) {
        *dot = '\0';
    }
    for (char *p = stem; *p != '\0'; p++) {
        *p = strchr("*?[]", *p) != NULL || (p == stem && (*p == '-' || *p == '.')) ? '_' : *p;
    }
    snprintf(c->tokens, sizeof c->tokens, "%.*s.tokens", NAME_MAX / 2, stem);
    snprintf(c->run, sizeof c->run, "%.*s.run", NAME_MAX / 2, stem);
}

// Makes tokens of the text, which the training then reads.
static sm_status make_tokens(chooser *c, int64_t size_bytes) {
    static cli_options of_text; // static because of its lists
    cli_options *o = c->options;
    char *inputs[] = {(char *)o->work.data};
    sm_tokenizer *learned = NULL;
    sm_tokenize_result result;
    SM_FAIL_IF(o->train.val_data != NULL, SM_ERR_USAGE,
               "--val-data: a tenth of the text of --data is for validation; leave it out, or make tokens of both "
               "first: stepmark tokenize");
    if (o->work.tokenizer == NULL) {
        of_text = *o;
        of_text.operands = inputs;
        of_text.n_operands = 1;
        // A model that knows each word of a short text has too few examples: the vocabulary grows with the text's root.
        int64_t vocab = LEAST_VOCABULARY;
        while (vocab < MOST_VOCABULARY && (double)(2 * vocab) <= 4 * sqrt((double)size_bytes)) {
            vocab *= 2;
        }
        of_text.tokens.vocab_size = o->model.vocab > 0 ? o->model.vocab : vocab;
        of_text.tokens.min_frequency = 2;
        SM_TRY(cli_learn_words(&of_text, &learned));
    }
    const sm_tokenize_job job = {.tokenizer = o->work.tokenizer,
                                 .learned = learned,
                                 .output = c->tokens,
                                 .inputs = inputs,
                                 .n_inputs = 1,
                                 .format = (sm_tokens_format)o->work.data_format,
                                 .val_percent = val_percent,
                                 .n_threads = cli_token_threads(o),
                                 .stop = cli_token_stop,
                                 .note = cli_token_note};
    const sm_status status = sm_tokenize(&job, &result);
    sm_tokenizer_free(learned);
    SM_TRY(status);
    if (result.vocab != o->model.vocab) {
        o->model.vocab = 0; // a text may have fewer than asked for
        choose(c, "vocab", &o->model.vocab, result.vocab);
    }
    o->work.data = c->tokens;
    o->work.tokenizer = NULL;
    o->work.data_format = SM_TOKENS_AUTO;
    return SM_OK;
}

// The vocabulary of ids, from tokens.json or the tokenizer in their folder.
static sm_status find_vocabulary(const char *data, int64_t *vocab) {
    char folder[PATH_MAX], path[PATH_MAX + 16];
    SM_OWN(json_t) *root = NULL;
    SM_OWN(sm_tokenizer) *tokenizer = NULL;
    snprintf(folder, sizeof folder, "%s", data);
    if (!sm_data_files_side(data, "train", path)) {
        char *slash = strrchr(folder, '/');
        snprintf(slash != NULL ? slash : folder, 3, slash != NULL ? "" : ".");
    }
    snprintf(path, sizeof path, "%s/tokens.json", folder);
    if (access(path, F_OK) == 0) {
        SM_TRY(sm_json_read(path, MOST_TOKENS_JSON, &root));
        *vocab = json_integer_value(json_object_get(root, "vocabulary"));
    } else if (sm_tokenizer_is_in(folder)) {
        SM_TRY(sm_tokenizer_read(folder, &tokenizer));
        *vocab = tokenizer->n_tokens;
    }
    SM_FAIL_IF(*vocab <= 0, SM_ERR_USAGE,
               "--data: %s holds ids, and no tokens.json or tokenizer next to it says of which vocabulary; give its "
               "size as --vocab (GPT-2's is 50257)",
               data);
    return SM_OK;
}

static sm_status count(const cli_options *o, const char *path, int64_t *n) {
    SM_OWN(sm_tokens) *tokens = NULL;
    SM_TRY(sm_tokens_open(path, (sm_tokens_format)o->work.data_format, o->model.vocab, &tokens));
    *n = sm_tokens_count(tokens);
    return SM_OK;
}

static sm_status look_at_data(chooser *c) {
    cli_options *o = c->options;
    char train[SM_DATA_PATH_BYTES], val[SM_DATA_PATH_BYTES];
    SM_AT_END(sm_data_files_free) sm_data_files files = {0};
    if (o->work.data == NULL) {
        choose(c, "vocab", &o->model.vocab, SM_N_BYTES);
        c->n_train = (int64_t)sm_embedded_find(SM_EMBEDDED_TEXT)->size_bytes;
        return SM_OK;
    }
    char *data = (char *)(sm_data_files_side(o->work.data, "train", train) ? train : o->work.data);
    SM_TRY(sm_data_files_open(&data, 1, (sm_tokens_format)o->work.data_format, &files));
    const sm_tokens_format format = files.format;
    if (sm_tokens_format_has_ids(format) && o->model.vocab == 0) {
        int64_t vocab = 0;
        SM_TRY(find_vocabulary(o->work.data, &vocab));
        choose(c, "vocab", &o->model.vocab, vocab);
    } else if ((format == SM_TOKENS_BYTES || (o->model.vocab > 0 && o->model.vocab < SM_LEAST_VOCABULARY)) &&
               o->work.tokenizer == NULL) {
        choose(c, "vocab", &o->model.vocab, SM_N_BYTES);
    } else if (!sm_tokens_format_has_ids(format)) {
        SM_TRY(make_tokens(c, files.size_bytes));
        (void)sm_data_files_side(c->tokens, "train", train);
        data = train;
    }
    const bool has_side = o->train.val_data == NULL && sm_data_files_side(o->work.data, "val", val);
    SM_TRY(count(o, data, &c->n_train));
    return has_side || o->train.val_data != NULL ? count(o, has_side ? val : o->train.val_data, &c->n_val) : SM_OK;
}

// --- model, batch and length -----------------------------------------------------------------------

// Both sides fill a batch, and an epoch has some steps.
static bool fits(const chooser *c, int64_t B, int64_t T) {
    return B * T * STEPS_AN_EPOCH < c->n_train && (c->n_val == 0 || B * T < c->n_val);
}

static sm_status choose_batch(chooser *c) {
    cli_options *o = c->options;
    const int64_t longest = o->model.context > 0 ? o->model.context : USUAL_LENGTH;
    int64_t T = longest < USUAL_LENGTH ? longest : USUAL_LENGTH;
    int64_t B = USUAL_BATCH;
    while (T > LEAST_LENGTH && !fits(c, 1, T)) {
        T /= 2;
    }
    choose_only(c, "seq-len", &o->work.seq_lens, T);
    T = o->work.seq_lens.values[0];
    choose(c, "context", &o->model.context, T);
    while (B > 1 && !fits(c, B, T)) {
        B /= 2;
    }
    choose_only(c, "batch-size", &o->work.batch_sizes, B);
    B = o->work.batch_sizes.values[0];
    return B * T < c->n_train && (c->n_val == 0 || B * T < c->n_val)
               ? SM_OK
               : sm_fail(SM_ERR_INVALID,
                         "--data: %lld tokens for training and %lld for validation are fewer than a batch of %lld x "
                         "%lld; give more text",
                         (long long)c->n_train, (long long)c->n_val, (long long)B, (long long)T);
}

// Tokens that a model of that many parameters learns in the time.
static double tokens_in_time(const cli_options *o, double n_params) {
    const bool is_cpu = strncmp(o->device.backends.texts[0], "opencl", 6) != 0;
    const int64_t n_threads = o->device.threads.n > 0 ? o->device.threads.values[0] : sm_host_threads();
    return train_s * (is_cpu ? core_flops * (double)n_threads : card_flops) / (6 * n_params);
}

// The largest model for which there are data and time; the smallest always is.
static void choose_model(chooser *c) {
    cli_options *o = c->options;
    const double V = (double)o->model.vocab;
    int chosen = 0;
    for (int i = 1; i < (int)(sizeof sizes / sizeof sizes[0]); i++) {
        const double C = (double)sizes[i].d_model;
        const double n_params = (12 * (double)sizes[i].n_layer * C + V) * C;
        const double wanted = fmin(epochs_wanted * (double)c->n_train, tokens_a_param * n_params);
        const bool is_learnt = n_params <= params_a_token * (double)c->n_train;
        chosen = is_learnt && tokens_in_time(o, n_params) >= wanted ? i : chosen;
    }
    choose(c, "n-layer", &o->model.n_layer, sizes[chosen].n_layer);
    choose(c, "n-head", &o->model.n_head, sizes[chosen].n_head);
    choose(c, "d-model", &o->model.d_model, sizes[chosen].d_model);
}

static double step_tokens(const cli_options *o) {
    const int64_t n = o->train.global_batch > 0 ? o->train.global_batch : o->work.batch_sizes.values[0] * o->work.accum;
    return (double)n * (double)o->work.seq_lens.values[0];
}

sm_status cli_train_choose(cli_options *o) {
    static chooser c; // options point into it
    sm_model_config config;
    const bool is_auto = o->model.weights == NULL && strcmp(o->model.models.texts[0], "auto") == 0;
    c = (chooser){.options = o};
    if (!is_auto) {
        choose_only(&c, "batch-size", &o->work.batch_sizes, 4);
        choose_only(&c, "seq-len", &o->work.seq_lens, 64);
        return SM_OK;
    }
    if (o->work.data != NULL) {
        name_outputs(&c);
    }
    if (o->work.data != NULL && o->train.run == NULL && o->train.save == NULL && o->train.log == NULL) {
        o->train.run = c.run;
        SAY(&c, "--run=%s", c.run);
    }
    SM_TRY(o->train.run != NULL ? sm_run_folder_check(o->train.run, (sm_resume)o->train.resume_run) : SM_OK);
    SM_TRY(look_at_data(&c));
    SM_TRY(choose_batch(&c));
    choose_model(&c);
    snprintf(o->model.models.texts[0], sizeof o->model.models.texts[0], "tiny");
    SM_TRY(cli_model_config(o, "tiny", &config));
    const double n_params = (double)sm_model_n_params(&config);
    const double n_tokens = fmin(tokens_in_time(o, n_params), MOST_EPOCHS * (double)c.n_train);
    const bool is_open = o->train.steps == 0 && o->train.epochs == 0 && o->train.tokens == 0;
    if (is_open) {
        choose(&c, "steps", &o->train.steps, (int64_t)fmax(1, n_tokens / step_tokens(o)));
    }
    if (is_open && c.n_val > 0) {
        choose(&c, "val-every", &o->train.val_every, (o->train.steps + VALIDATIONS - 1) / VALIDATIONS);
    }
    if (o->train.run != NULL && c.n_val > 0 && !o->train.keep_best) {
        o->train.keep_best = true;
        SAY(&c, "--keep-best");
    }
    char length[96] = "";
    if (o->train.steps > 0) {
        snprintf(length, sizeof length, "; %lld steps, %.3g epochs", (long long)o->train.steps,
                 (double)o->train.steps * step_tokens(o) / (double)c.n_train);
    }
    cli_note("%s of %.1f M parameters (layers %lld, width %lld), vocabulary %lld, context %lld, batch %lld; %lld "
             "tokens to train on, %lld to validate%s%s%s",
             config.model->title, n_params / 1e6, (long long)config.n_layer, (long long)config.d_model,
             (long long)config.vocab, (long long)config.context, (long long)o->work.batch_sizes.values[0],
             (long long)c.n_train, (long long)c.n_val, length, o->train.run != NULL ? "; run in " : "",
             o->train.run != NULL ? o->train.run : "");
    char **argv = sm_calloc((size_t)(o->argc + c.n_said + 1), sizeof *argv); // lives as long as the process
    memcpy(argv, o->argv, (size_t)o->argc * sizeof *argv);
    for (int i = 0; i < c.n_said; i++) {
        argv[o->argc++] = c.said[i];
    }
    o->argv = argv;
    return SM_OK;
}
