// tokens.h: a tokenizer as bytes, which a page hands to its module.
#ifndef STEPMARK_LEARN_LIVE_TOKENS_H
#define STEPMARK_LEARN_LIVE_TOKENS_H

#include <stdio.h>

#include "src/tokenizer/tokenizer.h"

void sm_live_write_tokenizer(const sm_tokenizer *tokenizer, FILE *out);

// SM_ERR_FORMAT: the bytes end too early, or are no tokenizer.
sm_status sm_live_read_tokenizer(const uint8_t *bytes, size_t n_bytes, sm_tokenizer **tokenizer);

#endif
