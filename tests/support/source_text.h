// source_text.h: a megabyte of real text for tests: the program's embedded files, in a row; and whether ids are a text's.
#pragma once

#include "embedded.h"
#include "src/tokenizer/tokenizer.h"

enum { SOURCE_TEXT_BYTES = 1 << 20 };

static inline const uint8_t *source_text(void) {
    static uint8_t text[SOURCE_TEXT_BYTES];
    static size_t n;
    for (int i = 0; n < sizeof text; i++) {
        const sm_embedded *file = sm_embedded_at(i % sm_embedded_count());
        if (strlen(file->text) < file->size_bytes) {
            continue; // not text: the module of pages
        }
        const size_t left = sizeof text - n, n_bytes = file->size_bytes < left ? file->size_bytes : left;
        memcpy(text + n, file->text, n_bytes);
        n += n_bytes;
    }
    return text;
}

// Whether their tokens, one after another, are its bytes.
static inline bool are_ids_of(const sm_tokenizer *t, const sm_ids *ids, const uint8_t *text, size_t n) {
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
