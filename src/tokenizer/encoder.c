// encoder.c: finds added tokens first, then pieces; it looks up recent pieces and merges others.
//
// The table of recent pieces holds those of at most 16 bytes, each in one cache line; a new one replaces the entry in
// its line.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#include "src/tokenizer/encoder.h"
#include "src/tokenizer/merging.h"
#include "src/tokenizer/pretokens.h"

enum { MAX_KEY_BYTES = 16, MAX_KEPT_IDS = 11, N_KEPT = 1 << 16 };

typedef struct {
    uint64_t key[2]; // the bytes, then zeros
    int32_t ids[MAX_KEPT_IDS];
    uint8_t n_bytes; // 0: empty
    uint8_t n_ids;
} kept;

struct sm_encoder {
    const sm_tokenizer *tokenizer;
    sm_pretokens *pretokens;
    sm_merging *merging;
    kept *table;
    sm_ids added_ids;
    pcre2_code *added; // matches any of them; NULL: there are none
    pcre2_match_data *match;
};

// --- pieces --------------------------------------------------------------------------------

// The first n_bytes of `bytes`, of which `readable` may be read.
static void load_key(const uint8_t *bytes, size_t n_bytes, size_t readable, uint64_t key[2]) {
    key[0] = 0;
    key[1] = 0;
    if (readable < MAX_KEY_BYTES) {
        memcpy(key, bytes, n_bytes);
        return;
    }
    memcpy(key, bytes, MAX_KEY_BYTES); // shifts clear the surplus bytes: this is the hottest place
    if (n_bytes <= 8) {
        key[0] &= ~UINT64_C(0) >> (64 - 8 * n_bytes);
        key[1] = 0;
    } else {
        key[1] &= ~UINT64_C(0) >> (128 - 8 * n_bytes);
    }
}

static size_t place_of(const uint64_t key[2], size_t n_bytes) {
    uint64_t hash = (key[0] ^ n_bytes) * UINT64_C(0x9E3779B97F4A7C15);
    hash = (hash ^ hash >> 32 ^ key[1]) * UINT64_C(0xD6E8FEB86659FD93);
    return (size_t)(hash >> 48) & (N_KEPT - 1);
}

static void keep(kept *place, const uint64_t key[2], size_t n_bytes, const int32_t *ids, size_t n_ids) {
    if (n_ids <= MAX_KEPT_IDS) {
        place->key[0] = key[0];
        place->key[1] = key[1];
        place->n_bytes = (uint8_t)n_bytes;
        place->n_ids = (uint8_t)n_ids;
        memcpy(place->ids, ids, n_ids * sizeof(*ids));
    }
}

static sm_status encode_piece(sm_encoder *e, const uint8_t *bytes, size_t n, size_t readable, sm_ids *ids) {
    if (n > MAX_KEY_BYTES) {
        return sm_merging_merge(e->merging, bytes, n, ids);
    }
    uint64_t key[2];
    load_key(bytes, n, readable, key);
    kept *place = &e->table[place_of(key, n)];
    if (place->key[0] != key[0] || place->key[1] != key[1] || place->n_bytes != n) {
        const size_t first = ids->n;
        SM_TRY(sm_merging_merge(e->merging, bytes, n, ids));
        keep(place, key, n, ids->ids + first, ids->n - first);
        return SM_OK;
    }
    SM_TRY(sm_ids_reserve(ids, MAX_KEPT_IDS));
    memcpy(ids->ids + ids->n, place->ids, sizeof place->ids); // a copy of constant length is fastest
    ids->n += place->n_ids;
    return SM_OK;
}

// Encodes text without added tokens.
static sm_status encode_plain(sm_encoder *e, const uint8_t *text, size_t n, sm_ids *ids) {
    size_t begin = 0;
    size_t end;
    SM_TRY(sm_pretokens_begin(e->pretokens, text, n));
    while (sm_pretokens_next(e->pretokens, &end)) {
        SM_TRY(encode_piece(e, text + begin, end - begin, n - begin, ids));
        begin = end;
    }
    return SM_OK;
}

// --- added tokens --------------------------------------------------------------------------

static sm_status append_added(const sm_encoder *e, const uint8_t *bytes, size_t n, sm_ids *ids) {
    for (size_t i = 0; i < e->added_ids.n; i++) {
        const int32_t id = e->added_ids.ids[i];
        if (e->tokenizer->tokens[id].n_bytes == n && memcmp(sm_token_bytes(e->tokenizer, id), bytes, n) == 0) {
            return sm_ids_append(ids, id);
        }
    }
    return sm_fail(SM_ERR_INTERNAL, "an added token was found that is not in the vocabulary");
}

sm_status sm_encoder_encode(sm_encoder *e, const uint8_t *text, size_t n, sm_ids *ids) {
    size_t begin = 0;
    while (e->added != NULL && pcre2_match(e->added, text, n, begin, 0, e->match, NULL) > 0) {
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(e->match);
        SM_TRY(encode_plain(e, text + begin, found[0] - begin, ids));
        SM_TRY(append_added(e, text + found[0], found[1] - found[0], ids));
        begin = found[1];
    }
    return encode_plain(e, text + begin, n - begin, ids);
}

size_t sm_encoder_part(const uint8_t *text, size_t n, size_t least) {
    for (size_t at = n; at > 1 && at > least;) {
        at--;
        if (sm_pretokens_part_at(text, at)) {
            return at;
        }
    }
    return 0;
}

// --- beginning and end ---------------------------------------------------------------------

static sm_status check_parts(const sm_tokenizer *t, int32_t id) {
    const uint8_t *bytes = sm_token_bytes(t, id);
    for (size_t at = 1; at < t->tokens[id].n_bytes; at++) {
        if (sm_pretokens_part_at(bytes, at)) {
            return sm_fail(SM_ERR_UNSUPPORTED, "added token %d has a space after another character", id);
        }
    }
    return SM_OK;
}

// The ids of added tokens, the longest first: of several that begin at a place, the longest wins.
static sm_status list_added(sm_encoder *e) {
    const sm_tokenizer *t = e->tokenizer;
    for (int32_t id = 0; id < t->n_tokens; id++) {
        if (!t->tokens[id].is_added) {
            continue;
        }
        SM_TRY(check_parts(t, id));
        SM_TRY(sm_ids_append(&e->added_ids, id));
        int32_t *ids = e->added_ids.ids;
        for (size_t i = e->added_ids.n - 1; i > 0 && t->tokens[ids[i - 1]].n_bytes < t->tokens[ids[i]].n_bytes; i--) {
            const int32_t longer = ids[i];
            ids[i] = ids[i - 1];
            ids[i - 1] = longer;
        }
    }
    return SM_OK;
}

// "\x3c\x7c|\x3c": matches any added token, byte by byte. The caller frees it.
static char *pattern_of(const sm_encoder *e) {
    size_t length = 0;
    for (size_t i = 0; i < e->added_ids.n; i++) {
        length += 4 * (size_t)e->tokenizer->tokens[e->added_ids.ids[i]].n_bytes + 1;
    }
    char *pattern = malloc(length + 1);
    char *at = pattern;
    for (size_t i = 0; pattern != NULL && i < e->added_ids.n; i++) {
        const int32_t id = e->added_ids.ids[i];
        const uint8_t *bytes = sm_token_bytes(e->tokenizer, id);
        at += i > 0 ? sprintf(at, "|") : 0;
        for (uint32_t k = 0; k < e->tokenizer->tokens[id].n_bytes; k++) {
            at += sprintf(at, "\\x%02x", bytes[k]);
        }
    }
    return pattern;
}

static sm_status compile_added(sm_encoder *e) {
    int error;
    PCRE2_SIZE where;
    SM_TRY(list_added(e));
    if (e->added_ids.n == 0) {
        return SM_OK;
    }
    char *pattern = pattern_of(e);
    if (pattern != NULL) {
        e->added = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, 0, &error, &where, NULL);
        e->match = e->added != NULL ? pcre2_match_data_create_from_pattern(e->added, NULL) : NULL;
    }
    free(pattern);
    if (e->match == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a pattern of %zu added tokens", e->added_ids.n);
    }
    (void)pcre2_jit_compile(e->added, PCRE2_JIT_COMPLETE); // without it, matching is only slower
    return SM_OK;
}

sm_status sm_encoder_new(const sm_tokenizer *tokenizer, sm_encoder **encoder) {
    sm_status status = SM_OK;
    sm_encoder *e = calloc(1, sizeof *e);
    *encoder = NULL;
    if (e == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for an encoder");
    }
    e->tokenizer = tokenizer;
    e->table = aligned_alloc(sizeof(*e->table), N_KEPT * sizeof(*e->table));
    if (e->table == NULL) {
        status = sm_fail(SM_ERR_OOM, "no memory for an encoder");
        goto cleanup;
    }
    memset(e->table, 0, N_KEPT * sizeof(*e->table));
    SM_TRY_GOTO(sm_pretokens_new(&e->pretokens));
    SM_TRY_GOTO(sm_merging_new(tokenizer, &e->merging));
    SM_TRY_GOTO(compile_added(e));
    *encoder = e;
    return SM_OK;

cleanup:
    sm_encoder_free(e);
    return status;
}

void sm_encoder_free(sm_encoder *e) {
    if (e != NULL) {
        pcre2_match_data_free(e->match);
        pcre2_code_free(e->added);
        free(e->added_ids.ids);
        sm_merging_free(e->merging);
        sm_pretokens_free(e->pretokens);
        free(e->table);
        free(e);
    }
}

// --- and back ------------------------------------------------------------------------------

sm_status sm_decode(const sm_tokenizer *t, const int32_t *ids, size_t n, sm_text *text) {
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= t->n_tokens) {
            return sm_fail(SM_ERR_INVALID, "token %zu is %d, outside the vocabulary of %d", i, ids[i], t->n_tokens);
        }
        const size_t n_bytes = t->tokens[ids[i]].n_bytes;
        if (n_bytes > text->capacity - text->n) {
            const size_t capacity = 2 * text->capacity + n_bytes;
            uint8_t *grown = realloc(text->bytes, capacity);
            if (grown == NULL) {
                return sm_fail(SM_ERR_OOM, "no memory for %zu bytes of text", capacity);
            }
            text->bytes = grown;
            text->capacity = capacity;
        }
        memcpy(text->bytes + text->n, sm_token_bytes(t, ids[i]), n_bytes);
        text->n += n_bytes;
    }
    return SM_OK;
}
