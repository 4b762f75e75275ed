// tokenize.c: converts text files to files of token ids.
#include "clock.h"
#include "cli/train/train.h"
#include "src/plan/host_threads.h"
#include "src/text/tokenize.h"
#include "src/tokenizer/bpe_train.h"
#include "src/tokenizer/encoder.h"

int cli_token_threads(const cli_options *options) {
    return options->device.threads.n > 0 ? (int)options->device.threads.values[0] : sm_host_threads();
}

bool cli_token_stop(SM_UNUSED void *ctx) { return cli_interrupted != 0; }

void cli_token_note(SM_UNUSED void *ctx, const char *line) { cli_note("%s", line); }

typedef struct {
    const char *what;     // "learned"
    const char *unit;     // "tokens"
    bool is_wanted;       // --progress
    int64_t last_note_ns; // at most one a second
} token_progress;

static void token_progress_note(void *ctx, int64_t done, int64_t of) {
    enum { NOTE_NS = 1000000000 };
    token_progress *progress = ctx;
    const int64_t now_ns = sm_now_ns();
    if (!progress->is_wanted || now_ns - progress->last_note_ns < NOTE_NS) {
        return;
    }
    progress->last_note_ns = now_ns;
    cli_note("%s %s of %s %s", progress->what, SM_TEXT_COUNT(done), SM_TEXT_COUNT(of), progress->unit);
}

static void print_tokenizer(const char *where, const sm_tokenizer *t) {
    char digest[SM_TOKENIZER_DIGEST_SIZE];
    sm_tokenizer_digest(t, digest);
    printf("%s: %s tokens, %s merges, %s\n", where, SM_TEXT_COUNT(t->n_tokens), SM_TEXT_COUNT(t->n_merges), digest);
}

sm_status cli_learn_words(const cli_options *options, sm_tokenizer **tokenizer) {
    SM_AT_END(sm_word_counts_free) sm_word_counts words = {0};
    token_progress progress = {.what = "learned", .unit = "tokens", .is_wanted = options->out.progress};
    const sm_bpe_settings settings = {.vocab_size = options->tokens.vocab_size,
                                      .min_frequency = options->tokens.min_frequency,
                                      .stop = cli_token_stop,
                                      .progress = token_progress_note,
                                      .ctx = &progress};
    SM_AT_END(sm_data_files_free) sm_data_files files = {0};
    SM_TRY(sm_data_files_open_text(options->operands, options->n_operands, (sm_tokens_format)options->work.data_format,
                                   &files));
    SM_OWN(sm_text_source) *source = sm_text_source_open(&files, NULL, NULL, NULL);
    SM_TRY(sm_word_counts_of(source, cli_token_threads(options), cli_token_stop, NULL, &words));
    SM_FAIL_IF(words.n_words == 0, SM_ERR_INVALID, "%s: no text in it; give files with text", options->operands[0]);
    return sm_bpe_train(&words, &settings, tokenizer);
}

// Writes a vocabulary to --output, and says what it is.
static sm_status write_tokenizer(const cli_options *options, const sm_tokenizer *tokenizer) {
    SM_TRY(sm_tokenizer_write(tokenizer, options->tokens.output_folder));
    print_tokenizer(options->tokens.output_folder, tokenizer);
    return SM_OK;
}

static sm_status learn(const cli_options *options) {
    SM_OWN(sm_tokenizer) *tokenizer = NULL;
    SM_FAIL_IF(options->tokens.vocab_size == 0, SM_ERR_USAGE,
               "--vocab-size: missing; give the number of tokens for the vocabulary");
    SM_FAIL_IF(options->work.tokenizer != NULL, SM_ERR_USAGE,
               "--tokenizer goes with --show and --convert; --vocab-size learns a new one, in --output");
    SM_FAIL_IF(options->n_operands < 1, SM_ERR_USAGE,
               "FILE: missing; give files or folders with text to learn from; - is stdin");
    SM_TRY(cli_learn_words(options, &tokenizer));
    if (tokenizer->n_tokens < options->tokens.vocab_size) {
        cli_note("the text has no more than %d tokens with --min-frequency %lld", tokenizer->n_tokens,
                 (long long)options->tokens.min_frequency);
    }
    return write_tokenizer(options, tokenizer);
}

// --- show and convert ----------------------------------------------------------------------

// Prints bytes in quotes; all but printable ASCII as \xHH, since even valid UTF-8 may be half a character.
static void print_bytes(const uint8_t *bytes, size_t n) {
    putchar('"');
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '"' || bytes[i] == '\\') {
            printf("\\%c", bytes[i]);
        } else if (bytes[i] == '\n') {
            printf("\\n");
        } else if (bytes[i] >= 0x20 && bytes[i] < 0x7f) {
            putchar(bytes[i]);
        } else {
            printf("\\x%02x", bytes[i]);
        }
    }
    putchar('"');
}

static void print_token(const sm_tokenizer *t, int32_t id) {
    printf("%8d  ", id);
    print_bytes(sm_token_bytes(t, id), t->tokens[id].n_bytes);
    printf("%s\n", t->tokens[id].is_added ? "  added" : "");
}

static sm_status show(const cli_options *options, const sm_tokenizer *tokenizer) {
    SM_OWN(sm_encoder) *encoder = NULL;
    int32_t longest = 0;
    print_tokenizer(options->work.tokenizer, tokenizer);
    for (int32_t id = 0; id < tokenizer->n_tokens && options->n_operands == 0; id++) {
        longest = tokenizer->tokens[id].n_bytes > tokenizer->tokens[longest].n_bytes ? id : longest;
        if (tokenizer->tokens[id].is_added) {
            print_token(tokenizer, id);
        }
    }
    if (options->n_operands == 0) {
        printf("longest, of %u bytes:\n", tokenizer->tokens[longest].n_bytes);
        print_token(tokenizer, longest);
    }
    SM_TRY(sm_encoder_new(tokenizer, &encoder));
    for (int i = 0; i < options->n_operands; i++) {
        SM_AT_END(sm_ids_free) sm_ids ids = {0};
        const uint8_t *text = (const uint8_t *)options->operands[i];
        const size_t n_bytes = strlen(options->operands[i]);
        SM_TRY(sm_encoder_encode(encoder, text, n_bytes, &ids));
        print_bytes(text, n_bytes);
        printf(": %zu tokens of %zu bytes\n", ids.n, n_bytes);
        for (size_t k = 0; k < ids.n; k++) {
            print_token(tokenizer, ids.ids[k]);
        }
    }
    return SM_OK;
}

sm_status cli_tokenizer(const cli_options *options) {
    SM_FAIL_IF(options->tokens.show + options->tokens.convert + (options->tokens.vocab_size > 0) > 1, SM_ERR_USAGE,
               "--vocab-size, --show and --convert exclude each other; give one");
    SM_FAIL_IF(!options->tokens.show && options->tokens.output_folder == NULL, SM_ERR_USAGE,
               "--output: missing; give the folder to write the tokenizer to");
    if (!options->tokens.show && !options->tokens.convert) {
        return learn(options);
    }
    SM_OWN(sm_tokenizer) *tokenizer = NULL;
    SM_FAIL_IF(options->tokens.convert && options->n_operands > 0, SM_ERR_USAGE,
               "unexpected argument '%s' with --convert", options->operands[0]);
    SM_TRY(cli_check_vocabulary(options->work.tokenizer, true));
    SM_TRY(sm_tokenizer_read(options->work.tokenizer, &tokenizer));
    return options->tokens.convert ? write_tokenizer(options, tokenizer) : show(options, tokenizer);
}

// --- tokenize ------------------------------------------------------------------------------

static void print_side(const cli_options *options, const sm_tokenize_result *result, int side) {
    if (result->n_tokens[side] > 0) {
        printf("%s/%s.bin: %s tokens of %s document%s, %s bytes; %.2f bytes a token\n", options->tokens.output_folder,
               side == 0 ? "train" : "val", SM_TEXT_COUNT(result->n_tokens[side]),
               SM_TEXT_COUNT(result->n_documents[side]), sm_plural((size_t)result->n_documents[side]),
               SM_TEXT_COUNT(result->text_bytes[side]),
               (double)result->text_bytes[side] / (double)result->n_tokens[side]);
    }
}

sm_status cli_tokenize(const cli_options *options) {
    sm_tokenize_result result;
    SM_TRY(cli_check_vocabulary(options->work.tokenizer, true));
    SM_FAIL_IF(options->tokens.output_folder == NULL, SM_ERR_USAGE,
               "--output: missing; give the folder to write the tokens to");
    SM_FAIL_IF(options->n_operands == 0, SM_ERR_USAGE, "FILE: missing; give files or folders with text; - is stdin");
    token_progress progress = {.what = "read", .unit = "bytes", .is_wanted = options->out.progress};
    const sm_tokenize_job job = {.tokenizer = options->work.tokenizer,
                                 .output = options->tokens.output_folder,
                                 .inputs = options->operands,
                                 .n_inputs = options->n_operands,
                                 .format = (sm_tokens_format)options->work.data_format,
                                 .val_percent = options->tokens.val_percent,
                                 .n_threads = cli_token_threads(options),
                                 .stop = cli_token_stop,
                                 .note = cli_token_note,
                                 .progress = token_progress_note,
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
