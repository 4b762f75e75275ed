// text_tokens.h: tokens of text files, made when they are read: the stream that `tokenize` would write (tokenize.h),
// from any position, without storing ids.
//
// Opening reads the text once and counts: it cuts the text every few KiB, at places where both sides, encoded
// separately, give the ids of the whole (sm_encoder_part), and keeps the number of tokens before each cut. Reading
// encodes the pieces that it needs, so every token costs about the same.
#ifndef STEPMARK_SRC_TEXT_TEXT_TOKENS_H
#define STEPMARK_SRC_TEXT_TEXT_TOKENS_H

#include "src/data/tokens.h"
#include "src/tokenizer/tokenizer.h"

// `path`: a file, a folder or a pattern (data_files.h) of text. `tokenizer`: a folder or file; *digest becomes its digest.
// SM_ERR_INVALID: it has more tokens than the vocabulary, or there is no text. Reading fails if a file has changed so
// that a piece has another number of tokens.
sm_status sm_text_tokens_open(const char *path, sm_tokens_format format, const char *tokenizer, int64_t vocab,
                              char digest[SM_TOKENIZER_DIGEST_SIZE], sm_tokens **tokens);

#endif
