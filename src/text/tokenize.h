// tokenize.h: text to files of token ids, as training reads them: a folder with
//
//     train.bin       ids after llm.c's header: 16 bits wide, or 32 where the vocabulary has more than 65,536 tokens
//     val.bin         those of documents for validation; only if there are any
//     tokens.json     what they were made from: files, bytes, documents, tokens, the tokenizer's digest
//     tokenizer.json  the tokenizer (vocab.json, merges.txt, too)
//
// <|endoftext|> follows each document, if the vocabulary has it. Documents are in the order of the files.
//
// The folder gets its name when it is complete. Until then it is DIR.partial, with progress.json: interrupted work
// resumes from there when the same work is requested again. Work that reads stdin starts over.
#pragma once

#include <jansson.h>

#include "src/tokenizer/tokenizer.h"
#include "src/data/tokens.h"

typedef struct {
    const char *tokenizer;       // folder or file
    const sm_tokenizer *learned; // instead of it; NULL: none
    const char *output;          // folder; missing, empty, or a result of the same work
    char *const *inputs;         // files, folders, patterns, "-"
    int n_inputs;
    sm_tokens_format format; // of the inputs
    double val_percent;
    int n_threads;
    int64_t save_bytes; // of text between two saves of progress; 0: 256 MiB

    // The callers' functions, each may be NULL. `stop` is called repeatedly: true ends the work with SM_ERR_INTERRUPTED
    // and saves its progress. `note` gets a line for the user; `progress` the bytes read so far and in all.
    bool (*stop)(void *ctx);
    void (*note)(void *ctx, const char *line);
    void (*progress)(void *ctx, int64_t n_bytes, int64_t all_bytes);
    void *ctx;
} sm_tokenize_job;

typedef struct {
    int64_t n_files;
    int64_t n_tokens[2], n_documents[2], text_bytes[2]; // [0] train, [1] validation
    int32_t vocab;
    bool was_complete; // the result existed already
} sm_tokenize_result;

sm_status sm_tokenize(const sm_tokenize_job *job, sm_tokenize_result *result);

// --- tokens of text, made when they are read --------------------------------------------------------

// Tokens of text files, made when they are read: the stream that `tokenize` would write (tokenize.h),
// from any position, without storing ids.
//
// Opening reads the text once and counts: it cuts the text every few KiB, at places where both sides, encoded
// separately, give the ids of the whole (sm_encoder_part), and keeps the number of tokens before each cut. Reading
// encodes the pieces that it needs, so every token costs about the same.

// `path`: a file, a folder or a pattern (data_files.h) of text. `tokenizer`: a folder or file; *digest becomes its
// digest. SM_ERR_INVALID: it has more tokens than the vocabulary, or there is no text. Reading fails if a file has
// changed so that a piece has another number of tokens.
sm_status sm_text_tokens_open(const char *path, sm_tokens_format format, const char *tokenizer, int64_t vocab,
                              char digest[SM_TOKENIZER_DIGEST_SIZE], sm_tokens **tokens);
