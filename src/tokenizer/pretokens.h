// pretokens.h: GPT-2's pre-tokenisation: text is cut into words, numbers, punctuation and spaces, and no token crosses
// a cut.
//
//     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// Letters, numbers and spaces are those of Unicode 16, whatever version the installed PCRE2 has up to that. A byte that
// is not part of valid UTF-8 counts as a character of its own that is none of these.
#ifndef STEPMARK_PRETOKENS_H
#define STEPMARK_PRETOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

// Cuts one text after another. Each thread has its own.
typedef struct sm_pretokens sm_pretokens;

sm_status sm_pretokens_new(sm_pretokens **pretokens);
void sm_pretokens_free(sm_pretokens *pretokens); // NULL is fine

// Begins a text, which must stay as it is meanwhile. SM_ERR_OOM.
sm_status sm_pretokens_begin(sm_pretokens *pretokens, const uint8_t *text, size_t n);

// Where the next one ends; it begins at the end of the one before, the first at 0. False: there is none left.
bool sm_pretokens_next(sm_pretokens *pretokens, size_t *end);

// Whether the cut between text[at - 1] and text[at] is one in every text that contains them, so that both sides can be
// cut, and encoded, separately. (Not every such place is recognised.)
bool sm_pretokens_part_at(const uint8_t *text, size_t at);

#endif
