// tokens.h: the token ids that a model is trained on, from a file, or from several (data_files.h) one after another, in
// any format of data_format.h.
//
// Each batch is read from the file on request; it is an error if the file was shortened or overwritten meanwhile.
// Several threads may read at once.
#pragma once

#include "src/data/data_format.h"

typedef struct sm_tokens sm_tokens;

// Opens a file, all files of a folder, or those of a pattern, and checks that every id is below `vocab`. SM_ERR_IO,
// SM_ERR_FORMAT (empty, odd length, a header that does not fit, a format that holds no ids) or SM_ERR_INVALID
// (position, id, vocab, and the vocabulary that would fit).
sm_status sm_tokens_open(const char *path, sm_tokens_format format, int64_t vocab, sm_tokens **tokens);

// The same for bytes in memory, one id each. `data` is not copied and must outlive the tokens.
sm_status sm_tokens_from_bytes(const uint8_t *data, size_t size_bytes, int64_t vocab, sm_tokens **tokens);

// The embedded text (embedded.h), one token for each byte, repeated, so that there are enough tokens for batches of any
// size. Its length is odd: rows whose length is a power of two begin at every byte before one repeats.
sm_status sm_tokens_embedded(int64_t vocab, sm_tokens **tokens);

// Total time of reading: from the file, and making ids from text.
typedef struct {
    int64_t read_ns;
    int64_t tokenise_ns;
} sm_tokens_cost;

// Makes ids on request, for example from text; several threads may call at once.
typedef struct {
    void *ctx;
    sm_status (*read)(void *ctx, int64_t first, int64_t n, int32_t *ids, sm_tokens_cost *cost);
    void (*close)(void *ctx);
} sm_tokens_maker;

// A stream of `count` >= 1 ids from a maker, all inside the vocabulary; its format is bytes. Owns the maker's ctx, also
// after a failure. `name` is for messages.
void sm_tokens_made(const char *name, int64_t count, const sm_tokens_maker *maker, sm_tokens **tokens);

void sm_tokens_close(sm_tokens *tokens); // NULL is fine
SM_OWNABLE(sm_tokens, sm_tokens_close)
int64_t sm_tokens_count(const sm_tokens *tokens);
sm_tokens_format sm_tokens_format_of(const sm_tokens *tokens); // never auto

// Reads n tokens from index `first`. SM_ERR_INVALID if there are too few, or one is now outside the vocabulary.
sm_status sm_tokens_read(const sm_tokens *tokens, int64_t first, int64_t n, int32_t *ids);
sm_status sm_tokens_read_timed(const sm_tokens *tokens, int64_t first, int64_t n, int32_t *ids, sm_tokens_cost *cost);

// Fills batch i = 0, 1, ...: inputs (B,T) and targets (B,T), shifted by one token. Batch i begins at token i B T; it
// continues at token 0 if fewer than B T + 1 tokens remain. SM_ERR_INVALID if the file is shorter than one batch, or
// now holds an id outside the vocabulary; SM_ERR_IO if it now ends too early.
sm_status sm_tokens_batch(const sm_tokens *tokens, int64_t i, int64_t B, int64_t T, int32_t *inputs, int32_t *targets);
