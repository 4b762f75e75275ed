// bpe_train.h: learns a vocabulary from text: the most frequent pair of neighbouring tokens becomes a token, again and
// again (Sennrich et al. 2016). Among equally frequent pairs the one with the smaller left id, then the smaller right
// id, comes first, so the result equals that of Hugging Face's trainer.
//
// Ids: <|endoftext|>, the 256 bytes in the order of their characters (byte_alphabet.h), then one token for each merge.
#ifndef STEPMARK_BPE_TRAIN_H
#define STEPMARK_BPE_TRAIN_H

#include "src/tokenizer/tokenizer.h"
#include "src/tokenizer/word_counts.h"

enum { SM_LEAST_VOCABULARY = SM_N_BYTES + 1 };

typedef struct {
    int64_t vocab_size;                                    // of the result, if the text has enough pairs
    int64_t min_frequency;                                 // of a pair that becomes a token
    bool (*stop)(void *ctx);                               // may be NULL; as in sm_tokenize_job
    void (*progress)(void *ctx, int64_t done, int64_t of); // may be NULL; tokens learned
    void *ctx;
} sm_bpe_settings;

sm_status sm_bpe_train(const sm_word_counts *words, const sm_bpe_settings *settings, sm_tokenizer **tokenizer);

#endif
