// tokenizer.c: learns, shows and converts vocabularies.
#include <stdio.h>
#include <string.h>

#include "bench/tables/show.h"
#include "cli/flags/configure.h"
#include "cli/flags/options.h"
#include "cli/output/notes.h"
#include "cli/setup/data.h"
#include "cli/train/train.h"
#include "src/tokenizer/bpe_train.h"
#include "src/tokenizer/encoder.h"
#include "src/tokenizer/text_source.h"

// --- learn ---------------------------------------------------------------------------------

static sm_status need_output(const cli_options *options) {
    return options->tokens.output_folder != NULL
               ? SM_OK
               : sm_fail(SM_ERR_USAGE, "--output: missing; give the folder to write the tokenizer to");
}

static sm_status refuse_operands(const cli_options *options) {
    return options->n_operands == 0
               ? SM_OK
               : sm_fail(SM_ERR_USAGE, "unexpected argument '%s' with --convert", options->operands[0]);
}

static void print_tokenizer(const char *where, const sm_tokenizer *t) {
    char tokens[32];
    char merges[32];
    char digest[SM_TOKENIZER_DIGEST_SIZE];
    sm_text_count(t->n_tokens, tokens, sizeof(tokens));
    sm_text_count(t->n_merges, merges, sizeof(merges));
    sm_tokenizer_digest(t, digest);
    printf("%s: %s tokens, %s merges, %s\n", where, tokens, merges, digest);
}

static sm_status count_words(const cli_options *options, sm_word_counts *words) {
    sm_data_files files;
    sm_text_source *source = NULL;
    SM_TRY(sm_data_files_open_text(options->operands, options->n_operands, (sm_tokens_format)options->work.data_format,
                                   &files));
    sm_text_source_open(&files, NULL, NULL, NULL, &source);
    sm_status status = SM_OK;
    if (status == SM_OK) {
        status = sm_word_counts_of(source, cli_token_threads(options), cli_token_stop, NULL, words);
    }
    if (status == SM_OK && words->n_words == 0) {
        status = sm_fail(SM_ERR_INVALID, "the input holds no text");
    }
    sm_text_source_close(source);
    sm_data_files_free(&files);
    return status;
}

sm_status cli_learn_words(const cli_options *options, sm_tokenizer **tokenizer) {
    sm_word_counts words = {0};
    cli_token_progress progress = {.what = "learned", .unit = "tokens", .is_wanted = options->out.progress};
    const sm_bpe_settings settings = {.vocab_size = options->tokens.vocab_size,
                                      .min_frequency = options->tokens.min_frequency,
                                      .stop = cli_token_stop,
                                      .progress = cli_token_progress_note,
                                      .ctx = &progress};
    sm_status status = count_words(options, &words);
    if (status == SM_OK) {
        status = sm_bpe_train(&words, &settings, tokenizer);
    }
    sm_word_counts_free(&words);
    return status;
}

static sm_status learn(const cli_options *options) {
    sm_tokenizer *tokenizer = NULL;
    SM_TRY(need_output(options));
    if (options->tokens.vocab_size == 0) {
        return sm_fail(SM_ERR_USAGE, "--vocab-size: missing; give the number of tokens for the vocabulary");
    }
    if (options->work.tokenizer != NULL) {
        return sm_fail(SM_ERR_USAGE,
                       "--tokenizer goes with --show and --convert; --vocab-size learns a new one, in --output");
    }
    if (options->n_operands < 1) {
        return sm_fail(SM_ERR_USAGE, "FILE: missing; give files or folders with text to learn from; - is stdin");
    }
    SM_TRY(cli_learn_words(options, &tokenizer));
    if (tokenizer->n_tokens < options->tokens.vocab_size) {
        cli_note("the text has no more than %d tokens with --min-frequency %lld", tokenizer->n_tokens,
                 (long long)options->tokens.min_frequency);
    }
    sm_status status = sm_tokenizer_write(tokenizer, options->tokens.output_folder);
    if (status == SM_OK) {
        print_tokenizer(options->tokens.output_folder, tokenizer);
    }
    sm_tokenizer_free(tokenizer);
    return status;
}

// --- show and convert ----------------------------------------------------------------------

static sm_status read_tokenizer(const cli_options *options, sm_tokenizer **tokenizer) {
    SM_TRY(cli_check_vocabulary(options->work.tokenizer));
    return options->work.tokenizer != NULL ? sm_tokenizer_read(options->work.tokenizer, tokenizer)
                                           : sm_fail(SM_ERR_USAGE, "--tokenizer: missing; give the folder of the "
                                                                   "vocabulary");
}

// In quotes; all but printable ASCII as \xHH, since even valid UTF-8 may be half a character.
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

static void print_notable(const sm_tokenizer *t) {
    int32_t longest = 0;
    for (int32_t id = 0; id < t->n_tokens; id++) {
        longest = t->tokens[id].n_bytes > t->tokens[longest].n_bytes ? id : longest;
        if (t->tokens[id].is_added) {
            print_token(t, id);
        }
    }
    printf("longest, of %u bytes:\n", t->tokens[longest].n_bytes);
    print_token(t, longest);
}

static sm_status show_text(const sm_tokenizer *t, sm_encoder *encoder, const char *text) {
    sm_ids ids = {0};
    sm_status status = sm_encoder_encode(encoder, (const uint8_t *)text, strlen(text), &ids);
    if (status == SM_OK) {
        print_bytes((const uint8_t *)text, strlen(text));
        printf(": %zu tokens of %zu bytes\n", ids.n, strlen(text));
    }
    for (size_t i = 0; i < ids.n && status == SM_OK; i++) {
        print_token(t, ids.ids[i]);
    }
    free(ids.ids);
    return status;
}

static sm_status show(const cli_options *options) {
    sm_status status;
    sm_tokenizer *tokenizer;
    sm_encoder *encoder = NULL;
    SM_TRY(read_tokenizer(options, &tokenizer));
    SM_TRY_GOTO(sm_encoder_new(tokenizer, &encoder));
    print_tokenizer(options->work.tokenizer, tokenizer);
    if (options->n_operands == 0) {
        print_notable(tokenizer);
    }
    for (int i = 0; i < options->n_operands; i++) {
        SM_TRY_GOTO(show_text(tokenizer, encoder, options->operands[i]));
    }

cleanup:
    sm_encoder_free(encoder);
    sm_tokenizer_free(tokenizer);
    return status;
}

static sm_status convert(const cli_options *options) {
    sm_tokenizer *tokenizer;
    SM_TRY(need_output(options));
    SM_TRY(refuse_operands(options));
    SM_TRY(read_tokenizer(options, &tokenizer));
    sm_status status = sm_tokenizer_write(tokenizer, options->tokens.output_folder);
    if (status == SM_OK) {
        print_tokenizer(options->tokens.output_folder, tokenizer);
    }
    sm_tokenizer_free(tokenizer);
    return status;
}

sm_status cli_tokenizer(const cli_options *options) {
    SM_TRY(cli_check_single("--threads", options->device.threads.n));
    if (options->tokens.show + options->tokens.convert + (options->tokens.vocab_size > 0) > 1) {
        return sm_fail(SM_ERR_USAGE, "--vocab-size, --show and --convert exclude each other; give one");
    }
    return options->tokens.show ? show(options) : options->tokens.convert ? convert(options) : learn(options);
}
