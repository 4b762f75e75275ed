// merging.h: merges the tokens of one piece of text.
#ifndef STEPMARK_MERGING_H
#define STEPMARK_MERGING_H

#include "src/tokenizer/tokenizer.h"

// Working memory, reused for every piece. Each thread has its own.
typedef struct sm_merging sm_merging;

void sm_merging_new(const sm_tokenizer *tokenizer, sm_merging **merging);
void sm_merging_free(sm_merging *merging); // NULL is fine

// Appends the ids of a piece of n bytes, in time O(n log n). SM_ERR_OOM; SM_ERR_UNSUPPORTED: 2 GiB or more.
sm_status sm_merging_merge(sm_merging *merging, const uint8_t *bytes, size_t n, sm_ids *ids);

#endif
