// tokenizer.h: byte-level byte-pair encoding, as in GPT-2 (Sennrich et al. 2016; Radford et al. 2019).
//
// A vocabulary is a list of byte strings, whose indices are the ids, and a list of merges: "left right" joins two
// neighbouring tokens. Text is first cut into pieces (pretokens.h); a piece starts as its bytes, and the neighbours
// whose merge is earliest in the list are merged, until none can be.
//
// Added tokens, such as <|endoftext|>, are found in the text first and are one token in any context: first those that
// are not normalized, then the others in what is left; of each kind the leftmost, and of several there the longest.
#pragma once

#include "src/data/data_format.h" // SM_END_OF_TEXT

// --- bytes as text ---------------------------------------------------------------------------

// GPT-2's alphabet of bytes. Its files are text, so each of the 256 bytes has a visible character: printable ones of
// Latin-1 stand for themselves, the other 68 are U+0100, U+0101, ... in order of the bytes. A space is "Ġ" (U+0120), a
// newline "Ċ" (U+010A).
enum { SM_N_BYTES = 256, SM_ALPHABET_CHAR_BYTES = 2 /* the longest character, in UTF-8 */ };

// All bytes in the order of their characters: '!' first. GPT-2's ids 0 to 255 are in this order.
void sm_byte_alphabet_order(uint8_t order[SM_N_BYTES]);

// Writes the characters of n bytes; `text` has room for SM_ALPHABET_CHAR_BYTES * n. Returns their length in UTF-8.
size_t sm_byte_alphabet_write(const uint8_t *bytes, size_t n, char *text);

// The bytes of `text`, at most `length` of them; false if a character is not in the alphabet.
bool sm_byte_alphabet_read(const char *text, size_t length, uint8_t *bytes, size_t *n);

enum { SM_MAX_TOKEN_IDS = 1 << 24, SM_NO_ID = -1 };

// A growing list of ids.
typedef struct {
    int32_t *ids;
    size_t n;
    size_t capacity;
} sm_ids;

static inline void sm_ids_free(sm_ids *list) { free(list->ids); }

// Room for n more.
static inline void sm_ids_reserve(sm_ids *list, size_t n) {
    if (n > list->capacity - list->n) {
        list->capacity = 2 * list->capacity > list->n + n ? 2 * list->capacity : list->n + n;
        list->ids = sm_realloc(list->ids, list->capacity * sizeof *list->ids);
    }
}

static inline void sm_ids_append(sm_ids *list, int32_t id) {
    sm_ids_reserve(list, 1);
    list->ids[list->n++] = id;
}

// Appends bytes to a growing list; returns where they begin.
size_t sm_append_bytes(uint8_t **list, size_t *n, size_t *capacity, const uint8_t *bytes, size_t n_bytes);

// --- a vocabulary ----------------------------------------------------------------------------

typedef struct {
    size_t offset; // in sm_tokenizer.bytes
    uint32_t n_bytes;
    bool is_set;
    bool is_learned; // of the vocabulary, where merges find it; it may be an added token, too
    bool is_added;
    bool is_special;    // an added token that stands for no text
    bool is_normalized; // an added token that is found only where those that are not are not
} sm_token;

typedef struct {
    int32_t left, right, result;
} sm_merge;

// A pair of neighbours and its merge, in a table with open addressing; `rank` is its index in the list.
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
    int32_t n_merges;
    int32_t byte_ids[SM_N_BYTES]; // the tokens of single bytes
    int32_t end_of_text;          // id of SM_END_OF_TEXT, or SM_NO_ID
    sm_ids added_ids;             // the longest first
    sm_ids wide_ids;              // of these, the ones that text might be cut in (sm_pretokens_part_at)
    sm_pair_entry *pairs;
    uint64_t pair_mask; // entries - 1
} sm_tokenizer;

// --- making one ----------------------------------------------------------------------------

// A tokenizer with n_tokens ids, none of which has bytes yet.
sm_status sm_tokenizer_new(int64_t n_tokens, sm_tokenizer **tokenizer);
void sm_tokenizer_free(sm_tokenizer *tokenizer); // NULL is fine
SM_OWNABLE(sm_tokenizer, sm_tokenizer_free)

// Sets the bytes of an id. Added tokens come first; the vocabulary may then set the same bytes for their ids.
// SM_ERR_FORMAT if an id is outside the vocabulary or taken.
sm_status sm_tokenizer_set(sm_tokenizer *tokenizer, int64_t id, const uint8_t *bytes, size_t n_bytes);
sm_status sm_tokenizer_set_added(sm_tokenizer *tokenizer, int64_t id, const uint8_t *bytes, size_t n_bytes,
                                 bool is_special, bool is_normalized);

sm_status sm_tokenizer_add_merge(sm_tokenizer *tokenizer, int32_t left, int32_t right, int32_t result);

// Checks that every id and every byte has a token, and builds the tables. SM_ERR_FORMAT names what is missing.
sm_status sm_tokenizer_finish(sm_tokenizer *tokenizer);

// --- using it ------------------------------------------------------------------------------

static inline const uint8_t *sm_token_bytes(const sm_tokenizer *tokenizer, int32_t id) {
    return tokenizer->bytes + tokenizer->tokens[id].offset;
}

static inline uint64_t sm_pair(int32_t left, int32_t right) { return (uint64_t)(uint32_t)left << 32 | (uint32_t)right; }

static inline uint64_t sm_pair_hash(uint64_t pair) {
    pair *= UINT64_C(0x9E3779B97F4A7C15);
    return pair ^ pair >> 32;
}

// Hashes bytes, eight at a time.
static inline uint64_t sm_bytes_hash(const uint8_t *bytes, size_t n) {
    uint64_t hash = n;
    for (size_t at = 0; at < n; at += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + at, n - at < 8 ? n - at : 8);
        hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    return hash;
}

// The id of an added token with these bytes, or SM_NO_ID.
int32_t sm_tokenizer_find_added(const sm_tokenizer *tokenizer, const uint8_t *bytes, size_t n_bytes);

// The merge of two neighbours; NULL: none.
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

// "fnv1a64:..." of tokens and merges: equal tokenizers have equal digests, whatever their files.
enum { SM_TOKENIZER_DIGEST_SIZE = 32 };
void sm_tokenizer_digest(const sm_tokenizer *tokenizer, char digest[SM_TOKENIZER_DIGEST_SIZE]);

// --- files ---------------------------------------------------------------------------------

// Reads a folder's tokenizer.json, or else its vocab.json and merges.txt (OpenAI's names: encoder.json and vocab.bpe),
// and the files of added tokens next to it; or a file in the format of tokenizer.json. SM_ERR_FORMAT or
// SM_ERR_UNSUPPORTED names the file and its error.
sm_status sm_tokenizer_read(const char *path, sm_tokenizer **tokenizer);

// Whether a folder holds one of those.
bool sm_tokenizer_is_in(const char *folder);

// Writes tokenizer.json, tokenizer_config.json, vocab.json and merges.txt for Hugging Face's `tokenizers` and
// `transformers`, and makes the folder if missing. Files are replaced as a whole, after all are written.
sm_status sm_tokenizer_write(const sm_tokenizer *tokenizer, const char *folder);
