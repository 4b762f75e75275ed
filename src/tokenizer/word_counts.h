// word_counts.h: counts the occurrences of each piece of text (pretokens.h).
#ifndef STEPMARK_WORD_COUNTS_H
#define STEPMARK_WORD_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"
#include "src/tokenizer/text_source.h"

typedef struct {
    size_t offset; // in sm_word_counts.bytes
    uint32_t n_bytes;
    uint64_t hash;
    int64_t count; // 0: an empty entry
} sm_word;

typedef struct {
    sm_word *entries; // open addressing
    size_t n_entries; // a power of two
    size_t n_words;
    uint8_t *bytes;
    size_t n_bytes, capacity;
} sm_word_counts;

sm_status sm_word_counts_add(sm_word_counts *words, const uint8_t *bytes, size_t n_bytes, int64_t count);
const sm_word *sm_word_counts_find(const sm_word_counts *words, const uint8_t *bytes, size_t n_bytes); // NULL: none
void sm_word_counts_free(sm_word_counts *words); // a zeroed one is fine

// Counts the words of all text of a source, with n_threads threads. `stop` as in sm_tokenize_job.
sm_status sm_word_counts_of(sm_text_source *source, int n_threads, bool (*stop)(void *ctx), void *ctx,
                            sm_word_counts *words);

#endif
