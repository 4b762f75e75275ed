// eval.c: what a model knows of a text: its loss, perplexity and bits per byte; and the questions of a JSONL file in
// HellaSwag's form, {"ctx": ..., "endings": [...], "label": N}, answered by the most probable ending.
#include "bench/tables/show.h"
#include "cli/setup/setup.h"
#include "src/io/atomic_file.h"
#include "src/text/questions.h"
#include "src/tokenizer/encoder.h"
#include "src/tokenizer/text_source.h"
#include "src/weights/weights.h"

enum { NOT_COUNTED = -1 };

#define COLUMN_LIST(X)                                                                                                 \
    X("model", TEXT, "", "folder of the weights", e.model.weights, .heading = "model", .view = SM_SHOWN_WHEN_VARIED)   \
    X("data", TEXT, "", "what was read", path, .heading = "data", .rank = 9)                                           \
    X("n_tokens", INTEGER, "", "predicted tokens", e.n_tokens > 0 ? e.n_tokens : SM_ABSENT, .heading = "tokens",       \
      .show = sm_show_count)                                                                                           \
    X("loss", REAL, "nats", "mean of a token", loss, .heading = "loss", .show = sm_show_real, .rank = 9)               \
    X("perplexity", REAL, "", "e to the loss", exp(loss), .heading = "perplexity", .show = sm_show_real)               \
    X("bits_per_byte", REAL, "bit", "of the text", e.nats / log(2) / e.n_bytes, .heading = "bits a byte",              \
      .show = sm_show_real)                                                                                            \
    X("n_questions", INTEGER, "", "questions with a choice of endings", e.n_questions > 0 ? e.n_questions : SM_ABSENT, \
      .heading = "questions", .show = sm_show_count)                                                                   \
    X("accuracy", REAL, "", "the most probable ending is the right one", (double)e.n_right / n_questions,              \
      .heading = "right", .show = sm_show_percent)                                                                     \
    X("accuracy_norm", REAL, "", "likewise by the mean of an ending's tokens", (double)e.n_right_norm / n_questions,   \
      .heading = "right, by mean", .show = sm_show_percent)

const sm_table cli_eval_table = SM_LISTED_TABLE("eval", COLUMN_LIST);

typedef struct {
    const cli_options *options;
    cli_trained model;
    sm_encoder *encoder;
    sm_device *device;
    sm_session *session; // of one row
    int64_t T;
    int32_t *ids; // a row, then its targets

    double nats; // of all predicted tokens
    int64_t n_tokens;
    double n_bytes;
    int64_t n_questions, n_right, n_right_norm;
    FILE *scores; // of endings, a line (JSON) a question; NULL: not asked for
} evaluation;

static sm_status set_up(evaluation *e) {
    const cli_options *o = e->options;
    SM_OWN(sm_plan) *plan = NULL;
    SM_FAIL_IF(o->model.weights == NULL || o->work.data == NULL, SM_ERR_USAGE,
               "--%s: missing; give the folder of the model, and a file of text, tokens or questions",
               o->model.weights == NULL ? "weights" : "data");
    SM_TRY(cli_find_trained(o, &e->model));
    e->T = o->work.seq_lens.n > 0 ? o->work.seq_lens.values[0] : e->model.config.context;
    SM_TRY(cli_check_seq_len(&e->model.config, e->T));
    SM_TRY(e->model.tokenizer != NULL ? sm_encoder_new(e->model.tokenizer, &e->encoder) : SM_OK);
    e->ids = sm_calloc(2 * (size_t)e->T, sizeof *e->ids);
    const sm_precision precision = cli_plan_precision((cli_precision)o->device.precisions.values[0]);
    SM_TRY(cli_open_only_device(o, &e->device));
    const sm_plan_options plan_options = {.B = 1,
                                          .T = e->T,
                                          .dtype = precision.dtype,
                                          .products = precision.products,
                                          .max_tensor_bytes = e->device->info.max_alloc_bytes};
    SM_TRY(sm_model_build(&e->model.config, &plan_options, &plan));
    SM_TRY(sm_plan_rewrite(plan, (sm_mode)o->device.modes.values[0], 0));
    SM_TRY(sm_session_open(e->device, sm_give(&plan), &e->session));
    return sm_weights_load(e->model.weights, &e->model.config, e->session, NULL);
}

// The loss of ids[first..n), each predicted from those before it; nats: their sum. n - 1 <= T.
static sm_status score(evaluation *e, const int32_t *ids, int64_t n, int64_t first, double *nats) {
    int32_t *targets = e->ids + e->T;
    double loss;
    for (int64_t t = 0; t < e->T; t++) {
        e->ids[t] = t < n - 1 ? ids[t] : 0;
        targets[t] = t + 1 < n && t + 1 >= first ? ids[t + 1] : NOT_COUNTED;
    }
    SM_TRY(sm_session_set_batch(e->session, e->ids, targets));
    SM_TRY(sm_session_run(e->session, SM_RUN_FORWARD, NULL));
    SM_TRY(sm_session_loss(e->session, &loss));
    SM_FAIL_IF(!isfinite(loss), SM_ERR_INVALID,
               "the loss is %g: the weights are damaged or overflow; use other weights", loss);
    *nats = loss * (double)(n - first);
    return cli_interrupted ? SM_ERR_INTERRUPTED : SM_OK;
}

static sm_status take_row(evaluation *e, const int32_t *ids, int64_t n) {
    const sm_tokenizer *tokenizer = e->model.tokenizer;
    double nats;
    SM_TRY(score(e, ids, n, 1, &nats));
    e->nats += nats;
    e->n_tokens += n - 1;
    for (int64_t i = 1; i < n; i++) {
        e->n_bytes += tokenizer == NULL                      ? 1
                      : ids[i] >= tokenizer->n_tokens        ? NAN
                      : tokenizer->tokens[ids[i]].is_special ? 0
                                                             : (double)tokenizer->tokens[ids[i]].n_bytes;
    }
    return SM_OK;
}

// Every token but the first is predicted once, in rows of T.
static sm_status take_tokens(evaluation *e, const char *path) {
    SM_OWN(sm_tokens) *tokens = NULL;
    SM_FREED int32_t *row = sm_calloc((size_t)e->T + 1, sizeof *row);
    SM_TRY(sm_tokens_open(path, (sm_tokens_format)e->options->work.data_format, e->model.config.vocab, &tokens));
    const int64_t count = sm_tokens_count(tokens);
    for (int64_t first = 0; first + 1 < count; first += e->T) {
        const int64_t n = count - first < e->T + 1 ? count - first : e->T + 1;
        SM_TRY(sm_tokens_read(tokens, first, n, row));
        SM_TRY(take_row(e, row, n));
    }
    return SM_OK;
}

// The ids of a text are those that `tokenize` would write, but for the last <|endoftext|>.
static sm_status take_text(evaluation *e, const sm_data_files *files) {
    const int32_t separator = e->model.tokenizer->end_of_text;
    SM_AT_END(sm_ids_free) sm_ids ids = {.n = 0};
    SM_AT_END(sm_text_block_free) sm_text_block block = {.n_parts = 0};
    SM_OWN(sm_text_source) *source = sm_text_source_open(files, e->model.tokenizer, NULL, NULL);
    do {
        SM_TRY(sm_text_source_next(source, &block));
        for (size_t i = 0; i < block.n_parts; i++) {
            const sm_text_part *part = &block.parts[i];
            SM_TRY(sm_encoder_encode(e->encoder, block.text + part->offset, part->n_bytes, &ids));
            if (part->ends_document && separator != SM_NO_ID) {
                sm_ids_append(&ids, separator);
            }
        }
    } while (block.n_parts > 0);
    ids.n -= ids.n > 0 && separator != SM_NO_ID;
    for (size_t first = 0; first + 1 < ids.n; first += (size_t)e->T) {
        const size_t left = ids.n - first;
        SM_TRY(take_row(e, ids.ids + first, (int64_t)(left < (size_t)e->T + 1 ? left : (size_t)e->T + 1)));
    }
    return SM_OK;
}

// As llm.c has it: the ending's tokens follow the context's, after a space.
static sm_status score_ending(evaluation *e, const char *ctx, const char *ending, double *sum, int64_t *n_tokens) {
    SM_AT_END(sm_ids_free) sm_ids ids = {.n = 0};
    SM_FREED char *text = sm_text_of(" %s", ending);
    SM_TRY(cli_encode_text("ctx", e->model.tokenizer, ctx, e->model.config.vocab, &ids));
    const int64_t n_context = (int64_t)ids.n;
    SM_TRY(cli_encode_text("endings", e->model.tokenizer, text, e->model.config.vocab, &ids));
    const int64_t n = (int64_t)ids.n;
    SM_FAIL_IF(n_context == 0 || n - n_context > e->T, SM_ERR_INVALID,
               "an ending of %lld tokens after a context of %lld does not fit %lld", (long long)(n - n_context),
               (long long)n_context, (long long)e->T);
    const int64_t skipped = n > e->T + 1 ? n - e->T - 1 : 0; // the beginning of a long context
    *n_tokens = n - n_context;
    return score(e, ids.ids + skipped, n - skipped, n_context - skipped, sum);
}

static sm_status take_question(evaluation *e, const sm_question *question) {
    double sums[SM_MOST_ENDINGS];
    int64_t n_tokens[SM_MOST_ENDINGS];
    size_t best = 0, best_norm = 0;
    for (size_t i = 0; i < question->n_endings; i++) {
        SM_TRY(score_ending(e, question->ctx, question->endings[i], &sums[i], &n_tokens[i]));
        best = sums[i] < sums[best] ? i : best;
        best_norm = sums[i] / (double)n_tokens[i] < sums[best_norm] / (double)n_tokens[best_norm] ? i : best_norm;
    }
    e->n_questions++;
    e->n_right += best == question->label;
    e->n_right_norm += best_norm == question->label;
    if (e->scores != NULL) {
        // The scores of a question's endings as a line: sums of log-probabilities, and of how many tokens.
        SM_OWN(json_t) *scores = json_pack("{s:I, s:I, s:[], s:[]}", "line", (json_int_t)question->line, "label",
                                           (json_int_t)question->label, "log_probability", "n_tokens");
        for (size_t i = 0; i < question->n_endings; i++) {
            json_array_append_new(json_object_get(scores, "log_probability"), sm_json_real(-sums[i]));
            json_array_append_new(json_object_get(scores, "n_tokens"), json_integer(n_tokens[i]));
        }
        json_dumpf(scores, e->scores, JSON_COMPACT);
        fputc('\n', e->scores);
    }
    return SM_OK;
}

static sm_status take_questions(evaluation *e, const char *path) {
    SM_OWN(sm_questions) *questions = NULL;
    const sm_question *question;
    SM_TRY(sm_questions_open(path, &questions));
    SM_TRY(sm_questions_next(questions, &question));
    while (question != NULL) {
        const sm_status status = take_question(e, question);
        SM_FAIL_IF(status == SM_ERR_INVALID, status, "%s: line %zu: %s", path, question->line, sm_error_message());
        SM_TRY(status);
        SM_TRY(sm_questions_next(questions, &question));
    }
    return SM_OK;
}

static sm_status take_data(evaluation *e, char path[SM_DATA_PATH_BYTES]) {
    const sm_tokens_format format = (sm_tokens_format)e->options->work.data_format;
    SM_AT_END(sm_data_files_free) sm_data_files files = {0};
    const char *data = e->options->work.data;
    if (!sm_data_files_side(data, "val", path)) { // a folder of tokens stands for those of validation
        SM_FAIL_IF(sm_data_files_side(data, "train", path), SM_ERR_INVALID,
                   "%s: has no val.bin; give a file, or tokenize with --val-percent", data);
        SM_FAIL_IF(snprintf(path, SM_DATA_PATH_BYTES, "%s", data) >= SM_DATA_PATH_BYTES, SM_ERR_IO,
                   "--data: '%.100s...' is too long", data);
    }
    const sm_status status = sm_data_files_open(&path, 1, format, &files);
    if (sm_ends_with(path, ".jsonl") && (status == SM_ERR_UNSUPPORTED || (status == SM_OK && format == SM_TOKENS_AUTO &&
                                                                          files.format != SM_TOKENS_JSONL))) {
        return take_questions(e, path);
    }
    SM_TRY(status);
    SM_FAIL_IF(e->scores != NULL, SM_ERR_USAGE,
               "--output-file: holds the scores of endings; '%.300s' is no .jsonl of questions", path);
    const bool is_text = !sm_tokens_format_has_ids(files.format) && e->model.tokenizer != NULL;
    return is_text ? take_text(e, &files) : take_tokens(e, path);
}

static void release(evaluation *e) {
    if (e->scores != NULL) {
        fclose(e->scores);
    }
    sm_session_close(e->session);
    sm_device_close(e->device);
    sm_encoder_free(e->encoder);
    sm_tokenizer_free(e->model.tokenizer);
    free(e->ids);
}

sm_status cli_eval(const cli_options *options) {
    char path[SM_DATA_PATH_BYTES];
    SM_FREED char *scores = NULL;
    SM_AT_END(release) evaluation e = {.options = options};
    size_t size_bytes = 0;
    SM_TRY(set_up(&e));
    e.scores = options->out.report_file != NULL ? sm_memstream(&scores, &size_bytes) : e.scores;
    SM_TRY(take_data(&e, path));
    SM_FAIL_IF(e.n_tokens == 0 && e.n_questions == 0, SM_ERR_INVALID, "%s: has nothing to predict", path);
    if (e.scores != NULL) {
        sm_memstream_close(e.scores);
        e.scores = NULL;
        SM_TRY(sm_atomic_write_all(options->out.report_file, scores, size_bytes));
    }
    const double loss = e.n_tokens > 0 ? e.nats / (double)e.n_tokens : NAN;
    const double n_questions = e.n_questions > 0 ? (double)e.n_questions : NAN;
    json_t *record = json_object();
    COLUMN_LIST(SM_LISTED_VALUE)
    SM_OWN(json_t) *records = json_pack("[o]", record);
    return sm_record_write_all(&cli_eval_table, e.options->out.format, stdout, records);
}
