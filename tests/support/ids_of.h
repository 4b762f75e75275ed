// ids_of.h: whether ids are a text's: their tokens, one after another, are its bytes.
#ifndef STEPMARK_TESTS_SUPPORT_IDS_OF_H
#define STEPMARK_TESTS_SUPPORT_IDS_OF_H

#include "src/tokenizer/tokenizer.h"

static bool are_ids_of(const sm_tokenizer *t, const sm_ids *ids, const uint8_t *text, size_t n) {
    size_t at = 0;
    for (size_t i = 0; i < ids->n; i++) {
        const size_t n_bytes = t->tokens[ids->ids[i]].n_bytes;
        if (n_bytes > n - at || memcmp(text + at, sm_token_bytes(t, ids->ids[i]), n_bytes) != 0) {
            return false;
        }
        at += n_bytes;
    }
    return at == n;
}

#endif
