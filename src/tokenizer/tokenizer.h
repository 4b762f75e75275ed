// tokenizer.h: byte-level byte-pair encoding, as GPT-2 has it (Sennrich et al. 2016; Radford et al. 2019).
//
// A vocabulary is a list of byte strings, whose places are the ids, and a list of merges: "left right" makes of two
// neighbouring tokens the one that is both together. Text is cut into pieces first (pretokens.h); a piece is its bytes,
// of which those two neighbours are merged whose merge is earliest in the list, until none can be.
//
// Added tokens, such as <|endoftext|>, are found in the text before anything else and are one token whatever surrounds
// them.
#ifndef STEPMARK_TOKENIZER_H
#define STEPMARK_TOKENIZER_H

#include "src/tokenizer/byte_alphabet.h"
#include "src/tokenizer/token_ids.h"

#define SM_END_OF_TEXT "<|endoftext|>" // the separator of documents, where the vocabulary has it

enum { SM_MAX_TOKEN_IDS = 1 << 24, SM_NO_ID = -1 };

typedef struct {
    size_t offset; // in sm_tokenizer.bytes
    uint32_t n_bytes;
    bool is_set;
    bool is_added;
    bool is_special; // added, and no text
} sm_token;

typedef struct {
    int32_t left, right, result;
} sm_merge;

// Which merge a pair of neighbours has: open addressing; `rank` is its place in the list.
typedef struct {
    uint64_t pair; // left and right; SM_NO_PAIR: empty
    int32_t rank;
    int32_t result;
} sm_pair_entry;

#define SM_NO_PAIR UINT64_MAX

typedef struct {
    sm_token *tokens; // by id
    int32_t n_tokens;
    uint8_t *bytes; // of all tokens
    size_t n_bytes, bytes_capacity;
    sm_merge *merges;
    int32_t n_merges, merges_capacity;
    int32_t byte_ids[SM_N_BYTES]; // the tokens of single bytes
    int32_t end_of_text;          // id of SM_END_OF_TEXT, or SM_NO_ID
    sm_pair_entry *pairs;
    uint64_t pair_mask; // entries - 1
} sm_tokenizer;

// --- making one ----------------------------------------------------------------------------

// n_tokens ids, none of which has bytes yet.
sm_status sm_tokenizer_new(int64_t n_tokens, sm_tokenizer **tokenizer);
void sm_tokenizer_free(sm_tokenizer *tokenizer); // NULL is fine

// Sets the bytes of an id; `is_added` tokens replace an earlier setting. SM_ERR_FORMAT where an id is beyond the
// vocabulary or taken.
sm_status sm_tokenizer_set(sm_tokenizer *tokenizer, int64_t id, const uint8_t *bytes, size_t n_bytes);
sm_status sm_tokenizer_set_added(sm_tokenizer *tokenizer, int64_t id, const uint8_t *bytes, size_t n_bytes,
                                 bool is_special);

sm_status sm_tokenizer_add_merge(sm_tokenizer *tokenizer, int32_t left, int32_t right, int32_t result);

// Checks that every id and every byte has its token, and makes it ready for use. SM_ERR_FORMAT names the missing one.
sm_status sm_tokenizer_finish(sm_tokenizer *tokenizer);

// --- using it ------------------------------------------------------------------------------

static inline const uint8_t *sm_token_bytes(const sm_tokenizer *tokenizer, int32_t id) {
    return tokenizer->bytes + tokenizer->tokens[id].offset;
}

// The id of an added token of these bytes, or SM_NO_ID.
int32_t sm_tokenizer_added(const sm_tokenizer *tokenizer, const char *text);

static inline uint64_t sm_pair(int32_t left, int32_t right) { return (uint64_t)(uint32_t)left << 32 | (uint32_t)right; }

static inline uint64_t sm_pair_hash(uint64_t pair) {
    pair *= UINT64_C(0x9E3779B97F4A7C15);
    return pair ^ pair >> 32;
}

// The merge of two neighbours; NULL: there is none.
static inline const sm_pair_entry *sm_tokenizer_merge(const sm_tokenizer *tokenizer, int32_t left, int32_t right) {
    const uint64_t pair = sm_pair(left, right);
    for (uint64_t i = sm_pair_hash(pair) & tokenizer->pair_mask;; i = (i + 1) & tokenizer->pair_mask) {
        if (tokenizer->pairs[i].pair == pair) {
            return &tokenizer->pairs[i];
        }
        if (tokenizer->pairs[i].pair == SM_NO_PAIR) {
            return NULL;
        }
    }
}

// "fnv1a64:..." of tokens and merges: the same for the same tokenizer, whatever files it came from.
enum { SM_TOKENIZER_DIGEST_SIZE = 32 };
void sm_tokenizer_digest(const sm_tokenizer *tokenizer, char digest[SM_TOKENIZER_DIGEST_SIZE]);

// --- files ---------------------------------------------------------------------------------

// Reads a folder's tokenizer.json, or else its vocab.json and merges.txt (encoder.json and vocab.bpe, as OpenAI called
// them); or a file like tokenizer.json itself. SM_ERR_FORMAT or SM_ERR_UNSUPPORTED names the file and its error.
sm_status sm_tokenizer_read(const char *path, sm_tokenizer **tokenizer);

// Whether a folder holds one of those.
bool sm_tokenizer_is_in(const char *folder);

// Writes tokenizer.json, vocab.json and merges.txt, which Hugging Face's `tokenizers` and `transformers` read; makes
// the folder if need be. Each file is replaced as a whole, and none before all are written.
sm_status sm_tokenizer_write(const sm_tokenizer *tokenizer, const char *folder);

#endif
