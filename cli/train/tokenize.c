// tokenize.c: converts text files to files of token ids.
#include <stdio.h>

#include "clock.h"
#include "bench/tables/show.h"
#include "cli/flags/configure.h"
#include "cli/flags/options.h"
#include "cli/output/notes.h"
#include "cli/setup/data.h"
#include "cli/train/train.h"
#include "src/plan/host_threads.h"
#include "src/text/tokenize.h"

// --- shared --------------------------------------------------------------------------------

int cli_token_threads(const cli_options *options) {
    return options->device.threads.n > 0 ? (int)options->device.threads.values[0] : sm_host_threads();
}

bool cli_token_stop(void *ctx) {
    (void)ctx;
    return cli_interrupted != 0;
}

static void note(void *ctx, const char *line) {
    (void)ctx;
    cli_note("%s", line);
}

void cli_token_progress_note(void *ctx, int64_t done, int64_t of) {
    enum { NOTE_NS = 1000000000 };
    cli_token_progress *progress = ctx;
    char done_text[32];
    char of_text[32];
    const int64_t now_ns = sm_now_ns();
    if (!progress->is_wanted || now_ns - progress->last_note_ns < NOTE_NS) {
        return;
    }
    progress->last_note_ns = now_ns;
    sm_text_count((double)done, done_text, sizeof(done_text));
    sm_text_count((double)of, of_text, sizeof(of_text));
    cli_note("%s %s of %s %s", progress->what, done_text, of_text, progress->unit);
}

// --- tokenize ------------------------------------------------------------------------------

static sm_status check_options(const cli_options *options) {
    SM_TRY(cli_check_single("--threads", options->device.threads.n));
    if (options->work.tokenizer == NULL) {
        return sm_fail(SM_ERR_USAGE, "--tokenizer: missing; give the folder of the vocabulary");
    }
    SM_TRY(cli_check_vocabulary(options->work.tokenizer));
    if (options->tokens.output_folder == NULL) {
        return sm_fail(SM_ERR_USAGE, "--output: missing; give the folder to write the tokens to");
    }
    if (options->n_operands == 0) {
        return sm_fail(SM_ERR_USAGE, "FILE: missing; give files or folders with text; - is stdin");
    }
    return SM_OK;
}

static void print_side(const cli_options *options, const sm_tokenize_result *result, int side) {
    char tokens[32];
    char documents[32];
    char bytes[32];
    sm_text_count((double)result->n_tokens[side], tokens, sizeof(tokens));
    sm_text_count((double)result->n_documents[side], documents, sizeof(documents));
    sm_text_count((double)result->text_bytes[side], bytes, sizeof(bytes));
    if (result->n_tokens[side] > 0) {
        printf("%s/%s.bin: %s tokens of %s document%s, %s bytes; %.2f bytes a token\n", options->tokens.output_folder,
               side == 0 ? "train" : "val", tokens, documents, sm_plural((size_t)result->n_documents[side]), bytes,
               (double)result->text_bytes[side] / (double)result->n_tokens[side]);
    }
}

sm_status cli_tokenize(const cli_options *options) {
    sm_tokenize_result result;
    SM_TRY(check_options(options));
    cli_token_progress progress = {.what = "read", .unit = "bytes", .is_wanted = options->out.progress};
    const sm_tokenize_job job = {.tokenizer = options->work.tokenizer,
                                 .output = options->tokens.output_folder,
                                 .inputs = options->operands,
                                 .n_inputs = options->n_operands,
                                 .format = (sm_tokens_format)options->work.data_format,
                                 .val_percent = options->tokens.val_percent,
                                 .n_threads = cli_token_threads(options),
                                 .stop = cli_token_stop,
                                 .note = note,
                                 .progress = cli_token_progress_note,
                                 .ctx = &progress};
    sm_status status = sm_tokenize(&job, &result);
    if (status == SM_ERR_INTERRUPTED) {
        cli_note("%s.partial keeps the finished part; the same command continues there", options->tokens.output_folder);
    }
    SM_TRY(status);
    if (result.was_complete) {
        cli_note("%s: complete already, of the same files and tokenizer", options->tokens.output_folder);
    }
    print_side(options, &result, 0);
    print_side(options, &result, 1);
    return SM_OK;
}
