// tokenizer.c: the vocabulary in memory.
#include <inttypes.h>

#include "fnv1a.h"
#include "src/tokenizer/pretokens.h"
#include "src/tokenizer/tokenizer.h"

// --- bytes as text -------------------------------------------------------------------------

enum { FIRST_STAND_IN = 0x100, LAST_CHARACTER = 0x143 };

static bool stands_for_itself(int byte) {
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

static int character_of(uint8_t byte) {
    int character = FIRST_STAND_IN;
    if (stands_for_itself(byte)) {
        return byte;
    }
    for (int b = 0; b < byte; b++) {
        character += !stands_for_itself(b);
    }
    return character;
}

static int byte_of(int character) {
    if (character < FIRST_STAND_IN) {
        return stands_for_itself(character) ? character : -1;
    }
    for (int b = 0, stand_in = FIRST_STAND_IN; b < SM_N_BYTES; b++) {
        if (!stands_for_itself(b) && stand_in++ == character) {
            return b;
        }
    }
    return -1;
}

void sm_byte_alphabet_order(uint8_t order[SM_N_BYTES]) {
    int n = 0;
    for (int character = 0; character <= LAST_CHARACTER; character++) {
        const int byte = byte_of(character);
        if (byte >= 0) {
            order[n++] = (uint8_t)byte;
        }
    }
}

size_t sm_byte_alphabet_write(const uint8_t *bytes, size_t n, char *text) {
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        const int character = character_of(bytes[i]);
        if (character < 0x80) {
            text[length++] = (char)character;
        } else {
            text[length++] = (char)(0xc0 | character >> 6);
            text[length++] = (char)(0x80 | (character & 0x3f));
        }
    }
    return length;
}

bool sm_byte_alphabet_read(const char *text, size_t length, uint8_t *bytes, size_t *n) {
    *n = 0;
    for (size_t i = 0; i < length; i++) {
        int character = (uint8_t)text[i];
        if (character >= 0x80) { // more than two bytes, or too large
            if ((character & 0xe0) != 0xc0 || i + 1 == length) {
                return false;
            }
            character = (character & 0x1f) << 6 | ((uint8_t)text[++i] & 0x3f);
        }
        const int byte = byte_of(character);
        if (byte < 0) {
            return false;
        }
        bytes[(*n)++] = (uint8_t)byte;
    }
    return true;
}

// --- making one ----------------------------------------------------------------------------

sm_status sm_tokenizer_new(int64_t n_tokens, sm_tokenizer **tokenizer) {
    *tokenizer = NULL;
    SM_FAIL_IF(n_tokens < 1 || n_tokens > SM_MAX_TOKEN_IDS, SM_ERR_FORMAT,
               "a vocabulary of %lld tokens; it must have 1 to %d", (long long)n_tokens, SM_MAX_TOKEN_IDS);
    sm_tokenizer *t = sm_calloc(1, sizeof *t);
    t->tokens = sm_calloc((size_t)n_tokens, sizeof(*t->tokens));
    t->n_tokens = (int32_t)n_tokens;
    t->end_of_text = SM_NO_ID;
    *tokenizer = t;
    return SM_OK;
}

void sm_tokenizer_free(sm_tokenizer *t) {
    if (t != NULL) {
        free(t->tokens);
        free(t->bytes);
        free(t->merges);
        free(t->pairs);
        free(t->added_ids.ids);
        free(t->wide_ids.ids);
        free(t);
    }
}

size_t sm_append_bytes(uint8_t **list, size_t *n, size_t *capacity, const uint8_t *bytes, size_t n_bytes) {
    if (n_bytes > *capacity - *n) {
        *capacity = 2 * *capacity + n_bytes;
        *list = sm_realloc(*list, *capacity);
    }
    memcpy(*list + *n, bytes, n_bytes);
    *n += n_bytes;
    return *n - n_bytes;
}

static size_t keep_bytes(sm_tokenizer *t, const uint8_t *bytes, size_t n_bytes) {
    return sm_append_bytes(&t->bytes, &t->n_bytes, &t->bytes_capacity, bytes, n_bytes);
}

static sm_status check_new(const sm_tokenizer *t, int64_t id, size_t n_bytes) {
    SM_FAIL_IF(id < 0 || id >= t->n_tokens, SM_ERR_FORMAT, "id %lld, but there are %d tokens: ids must be 0 to %d",
               (long long)id, t->n_tokens, t->n_tokens - 1);
    SM_FAIL_IF(n_bytes == 0 || n_bytes > UINT32_MAX, SM_ERR_FORMAT, "id %lld: an empty token", (long long)id);
    return SM_OK;
}

sm_status sm_tokenizer_set(sm_tokenizer *t, int64_t id, const uint8_t *bytes, size_t n_bytes) {
    SM_TRY(check_new(t, id, n_bytes));
    sm_token *old = &t->tokens[id];
    if (old->is_added && !old->is_learned && old->n_bytes == n_bytes &&
        memcmp(sm_token_bytes(t, (int32_t)id), bytes, n_bytes) == 0) {
        old->is_learned = true;
        return SM_OK;
    }
    SM_FAIL_IF(old->is_set, SM_ERR_FORMAT, "id %lld belongs to two tokens", (long long)id);
    *old = (sm_token){
        .offset = keep_bytes(t, bytes, n_bytes), .n_bytes = (uint32_t)n_bytes, .is_set = true, .is_learned = true};
    return SM_OK;
}

sm_status sm_tokenizer_set_added(sm_tokenizer *t, int64_t id, const uint8_t *bytes, size_t n_bytes, bool is_special,
                                 bool is_normalized) {
    SM_TRY(check_new(t, id, n_bytes));
    SM_FAIL_IF(t->tokens[id].is_added, SM_ERR_FORMAT, "id %lld belongs to two added tokens", (long long)id);
    t->tokens[id] = (sm_token){.offset = keep_bytes(t, bytes, n_bytes),
                               .n_bytes = (uint32_t)n_bytes,
                               .is_set = true,
                               .is_added = true,
                               .is_special = is_special,
                               .is_normalized = is_normalized};
    return SM_OK;
}

sm_status sm_tokenizer_add_merge(sm_tokenizer *t, int32_t left, int32_t right, int32_t result) {
    SM_FAIL_IF(t->n_merges == SM_MAX_TOKEN_IDS, SM_ERR_FORMAT, "more than %d merges", SM_MAX_TOKEN_IDS);
    SM_PUSH(t->merges, t->n_merges, (sm_merge){left, right, result});
    return SM_OK;
}

// --- ready for use -------------------------------------------------------------------------

static void make_pairs(sm_tokenizer *t) {
    uint64_t n = 16;
    while (n < 2 * (uint64_t)t->n_merges) {
        n *= 2;
    }
    t->pairs = sm_malloc(n * sizeof(*t->pairs));
    memset(t->pairs, 0xff, n * sizeof(*t->pairs));
    t->pair_mask = n - 1;
    for (int32_t rank = 0; rank < t->n_merges; rank++) {
        const sm_merge *merge = &t->merges[rank];
        const uint64_t pair = sm_pair(merge->left, merge->right);
        uint64_t i = sm_pair_hash(pair) & t->pair_mask;
        while (t->pairs[i].pair != SM_NO_PAIR && t->pairs[i].pair != pair) {
            i = (i + 1) & t->pair_mask;
        }
        // If a pair is listed twice, the later place counts, as in Hugging Face's tokenizers.
        t->pairs[i] = (sm_pair_entry){pair, rank, merge->result};
    }
}

static sm_status find_bytes(sm_tokenizer *t) {
    for (int byte = 0; byte < SM_N_BYTES; byte++) {
        t->byte_ids[byte] = SM_NO_ID;
    }
    for (int32_t id = 0; id < t->n_tokens; id++) {
        SM_FAIL_IF(!t->tokens[id].is_set, SM_ERR_FORMAT, "id %d has no token: ids must be 0 to %d, each once", id,
                   t->n_tokens - 1);
        if (t->tokens[id].n_bytes == 1 && t->tokens[id].is_learned) {
            t->byte_ids[*sm_token_bytes(t, id)] = id;
        }
    }
    for (int byte = 0; byte < SM_N_BYTES; byte++) {
        SM_FAIL_IF(t->byte_ids[byte] == SM_NO_ID, SM_ERR_UNSUPPORTED,
                   "no token for the byte 0x%02x: not a byte-level vocabulary", byte);
    }
    return SM_OK;
}

static bool is_wide(const sm_tokenizer *t, int32_t id) {
    bool found = false;
    for (size_t at = 1; at < t->tokens[id].n_bytes && !found; at++) {
        found = sm_pretokens_part_at(sm_token_bytes(t, id), at);
    }
    return found;
}

static void list_added(sm_tokenizer *t) {
    t->added_ids.n = 0;
    t->wide_ids.n = 0;
    for (int32_t id = 0; id < t->n_tokens; id++) {
        if (!t->tokens[id].is_added) {
            continue;
        }
        if (is_wide(t, id)) {
            sm_ids_append(&t->wide_ids, id);
        }
        sm_ids_append(&t->added_ids, id);
        int32_t *ids = t->added_ids.ids;
        size_t place = t->added_ids.n - 1;
        for (; place > 0 && t->tokens[id].n_bytes > t->tokens[ids[place - 1]].n_bytes; place--) {
            ids[place] = ids[place - 1];
        }
        ids[place] = id;
    }
}

int32_t sm_tokenizer_find_added(const sm_tokenizer *t, const uint8_t *bytes, size_t n_bytes) {
    for (size_t i = 0; i < t->added_ids.n; i++) {
        const int32_t id = t->added_ids.ids[i];
        if (t->tokens[id].n_bytes == n_bytes && memcmp(sm_token_bytes(t, id), bytes, n_bytes) == 0) {
            return id;
        }
    }
    return SM_NO_ID;
}

sm_status sm_tokenizer_finish(sm_tokenizer *t) {
    SM_TRY(find_bytes(t));
    list_added(t);
    t->end_of_text = sm_tokenizer_find_added(t, (const uint8_t *)SM_END_OF_TEXT, strlen(SM_END_OF_TEXT));
    make_pairs(t);
    return SM_OK;
}

// The same for added tokens of which all are normalized, or none is.
void sm_tokenizer_digest(const sm_tokenizer *t, char digest[SM_TOKENIZER_DIGEST_SIZE]) {
    uint64_t hash = SM_FNV1A_START;
    size_t n_normalized = 0;
    for (size_t i = 0; i < t->added_ids.n; i++) {
        n_normalized += t->tokens[t->added_ids.ids[i]].is_normalized;
    }
    const uint32_t weight = n_normalized > 0 && n_normalized < t->added_ids.n ? 2 : 0;
    for (int32_t id = 0; id < t->n_tokens; id++) {
        const sm_token *token = &t->tokens[id];
        const uint32_t head[2] = {token->n_bytes, token->is_added + weight * token->is_normalized};
        hash = sm_fnv1a(hash, head, sizeof head);
        hash = sm_fnv1a(hash, sm_token_bytes(t, id), token->n_bytes);
    }
    hash = sm_fnv1a(hash, t->merges, (size_t)t->n_merges * sizeof(*t->merges));
    snprintf(digest, SM_TOKENIZER_DIGEST_SIZE, "fnv1a64:%016" PRIx64, hash);
}
