// bpe_train.h: learns a vocabulary from text: the most frequent pair of neighbouring tokens becomes a token, again and
// again (Sennrich et al. 2016). Among equally frequent pairs the one with the smaller left id, then the smaller right
// id, comes first, so the result equals that of Hugging Face's trainer.
//
// Ids: <|endoftext|>, the 256 bytes in the order of their characters (sm_byte_alphabet_order), then one token for each merge.
#pragma once

#include "src/tokenizer/text_source.h"

// The occurrences of each piece of text (pretokens.h).
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
void sm_word_counts_free(sm_word_counts *words); // a zeroed one is fine

// Counts the words of all text of a source, with n_threads threads. `stop` as in sm_tokenize_job.
sm_status sm_word_counts_of(sm_text_source *source, int n_threads, bool (*stop)(void *ctx), void *ctx,
                            sm_word_counts *words);

enum { SM_LEAST_VOCABULARY = SM_N_BYTES + 1 };

typedef struct {
    int64_t vocab_size;                                    // of the result, if the text has enough pairs
    int64_t min_frequency;                                 // of a pair that becomes a token
    bool (*stop)(void *ctx);                               // may be NULL; as in sm_tokenize_job
    void (*progress)(void *ctx, int64_t done, int64_t of); // may be NULL; tokens learned
    void *ctx;
} sm_bpe_settings;

sm_status sm_bpe_train(const sm_word_counts *words, const sm_bpe_settings *settings, sm_tokenizer **tokenizer);
