// text_tokens.h: the tokens of text files that are made when they are read: the stream that `tokenize` would write of
// them (tokenize.h), from any place of it, and none of its ids stored.
//
// Opening goes through the text once and counts: text is cut where both sides, encoded separately, give the ids of the
// whole (sm_encoder_part), every few KiB, and how many tokens there are before each cut is kept. Reading encodes the
// pieces that it meets, so a token costs about as much wherever it is.
#ifndef STEPMARK_SRC_TEXT_TEXT_TOKENS_H
#define STEPMARK_SRC_TEXT_TEXT_TOKENS_H

#include "src/io/tokens.h"
#include "src/tokenizer/tokenizer.h"

// `path`: a file, or a folder of files (text_source.h). `tokenizer`: a folder or file; *digest is its. SM_ERR_INVALID:
// it has more tokens than the vocabulary, or there is no text. Should a file change afterwards so that a piece has
// another number of tokens, reading that is an error.
sm_status sm_text_tokens_open(const char *path, const char *tokenizer, int64_t vocab,
                              char digest[SM_TOKENIZER_DIGEST_SIZE], sm_tokens **tokens);

#endif
