// pretokens.h: GPT-2's pre-tokenisation: cuts text into words, numbers, punctuation and spaces; no token crosses a cut.
//
//     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// Letters, numbers and spaces are those of Unicode 16, also if the installed PCRE2 has an older version. A byte that is
// not part of valid UTF-8 counts as a separate character that is none of these.
#pragma once

#include "status.h"

// Working memory, reused for every text. Each thread has its own.
typedef struct sm_pretokens sm_pretokens;

sm_pretokens *sm_pretokens_new(void);
void sm_pretokens_free(sm_pretokens *pretokens); // NULL is fine
SM_OWNABLE(sm_pretokens, sm_pretokens_free)

// Starts a text, which must not change until its end.
void sm_pretokens_begin(sm_pretokens *pretokens, const uint8_t *text, size_t n);

// The end of the next piece; it begins at the end of the one before, the first at 0. False: none is left.
bool sm_pretokens_next(sm_pretokens *pretokens, size_t *end);

// Whether every text with these bytes is cut between text[at - 1] and text[at], so that both sides can be encoded
// separately. (It may say no for such a place.)
bool sm_pretokens_part_at(const uint8_t *text, size_t at);
