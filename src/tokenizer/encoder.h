// encoder.h: text to ids. Several encoders, one for each thread, may share a tokenizer.
//
// The ids are those of Hugging Face's `tokenizers`. Bytes that are not valid UTF-8 are encoded like any others, so
// that the ids' tokens are the text. (A program that replaces them by U+FFFD before encoding gets other ids.)
#pragma once

#include "src/tokenizer/tokenizer.h"

typedef struct sm_encoder sm_encoder;

// The tokenizer must outlive it.
sm_status sm_encoder_new(const sm_tokenizer *tokenizer, sm_encoder **encoder);
void sm_encoder_free(sm_encoder *encoder); // NULL is fine
SM_OWNABLE(sm_encoder, sm_encoder_free)

// Appends the ids of a text.
sm_status sm_encoder_encode(sm_encoder *encoder, const uint8_t *text, size_t n, sm_ids *ids);

// The last place, at or after `least`, where a text may be cut so that both sides, encoded separately, give the ids of
// the whole; 0: none. `tokenizer` NULL: without added tokens.
size_t sm_encoder_part(const sm_tokenizer *tokenizer, const uint8_t *text, size_t n, size_t least);
