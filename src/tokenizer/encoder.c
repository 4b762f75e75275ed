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

#ifndef ENCODER_KEPT
#define ENCODER_KEPT (1 << 16) // pieces whose ids are kept; a fuzzer makes an encoder for each input, and takes fewer
#endif

enum { MAX_KEY_BYTES = 16, MAX_KEPT_IDS = 11, N_KEPT = ENCODER_KEPT, N_KINDS = 2 };

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
    pcre2_code *added[N_KINDS]; // match any added token that is not normalized, or that is; NULL: there are none
    pcre2_match_data *match[N_KINDS];
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

// Encodes the text around the added tokens of a kind with those of the next.
static sm_status encode_around(sm_encoder *e, int kind, const uint8_t *text, size_t n, sm_ids *ids) {
    size_t begin = 0;
    if (kind == N_KINDS) {
        return encode_plain(e, text, n, ids);
    }
    while (e->added[kind] != NULL && pcre2_match(e->added[kind], text, n, begin, 0, e->match[kind], NULL) > 0) {
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(e->match[kind]);
        const int32_t id = sm_tokenizer_find_added(e->tokenizer, text + found[0], found[1] - found[0]);
        SM_TRY(encode_around(e, kind + 1, text + begin, found[0] - begin, ids));
        SM_TRY(sm_ids_append(ids, id));
        begin = found[1];
    }
    return encode_around(e, kind + 1, text + begin, n - begin, ids);
}

sm_status sm_encoder_encode(sm_encoder *e, const uint8_t *text, size_t n, sm_ids *ids) {
    return encode_around(e, 0, text, n, ids);
}

// Whether an added token may begin before `at` and end after it, perhaps beyond the text.
static bool is_crossed(const sm_tokenizer *t, const uint8_t *text, size_t n, size_t at) {
    for (size_t i = 0; i < t->wide_ids.n; i++) {
        const int32_t id = t->wide_ids.ids[i];
        const size_t length = t->tokens[id].n_bytes;
        for (size_t begin = at < length ? 0 : at - length + 1; begin < at; begin++) {
            const size_t known = n - begin < length ? n - begin : length;
            if (memcmp(text + begin, sm_token_bytes(t, id), known) == 0) {
                return true;
            }
        }
    }
    return false;
}

size_t sm_encoder_part(const sm_tokenizer *t, const uint8_t *text, size_t n, size_t least) {
    for (size_t at = n; at > 1 && at > least;) {
        at--;
        if (sm_pretokens_part_at(text, at) && (t == NULL || !is_crossed(t, text, n, at))) {
            return at;
        }
    }
    return 0;
}

// --- beginning and end ---------------------------------------------------------------------

// "\x3c\x7c|\x3c": matches any added token of a kind, byte by byte, the longest first. Empty: there are none. The
// caller frees it.
static char *pattern_of(const sm_tokenizer *t, bool is_normalized) {
    size_t length = 0;
    for (size_t i = 0; i < t->added_ids.n; i++) {
        length += 4 * (size_t)t->tokens[t->added_ids.ids[i]].n_bytes + 1;
    }
    char *pattern = calloc(length + 1, 1);
    char *at = pattern;
    for (size_t i = 0; pattern != NULL && i < t->added_ids.n; i++) {
        const int32_t id = t->added_ids.ids[i];
        if (t->tokens[id].is_normalized != is_normalized) {
            continue;
        }
        at += at > pattern ? sprintf(at, "|") : 0;
        for (uint32_t k = 0; k < t->tokens[id].n_bytes; k++) {
            at += sprintf(at, "\\x%02x", sm_token_bytes(t, id)[k]);
        }
    }
    return pattern;
}

static sm_status compile_added(sm_encoder *e, int kind) {
    int error;
    PCRE2_SIZE where;
    char *pattern = pattern_of(e->tokenizer, kind == 1);
    if (pattern != NULL && pattern[0] != '\0') {
        e->added[kind] = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, 0, &error, &where, NULL);
        e->match[kind] = e->added[kind] != NULL ? pcre2_match_data_create_from_pattern(e->added[kind], NULL) : NULL;
    }
    const bool is_complete = pattern != NULL && (pattern[0] == '\0' || e->match[kind] != NULL);
    free(pattern);
    SM_FAIL_IF(!is_complete, SM_ERR_OOM, "no memory for a pattern of %zu added tokens", e->tokenizer->added_ids.n);
    if (e->added[kind] != NULL) {
        (void)pcre2_jit_compile(e->added[kind], PCRE2_JIT_COMPLETE); // without it, matching is only slower
    }
    return SM_OK;
}

sm_status sm_encoder_new(const sm_tokenizer *tokenizer, sm_encoder **encoder) {
    sm_status status = SM_OK;
    sm_encoder *e = sm_calloc(1, sizeof *e);
    *encoder = NULL;
    e->tokenizer = tokenizer;
    e->table = aligned_alloc(sizeof(*e->table), N_KEPT * sizeof(*e->table));
    if (e->table == NULL) {
        status = sm_fail(SM_ERR_OOM, "no memory for an encoder");
        goto cleanup;
    }
    memset(e->table, 0, N_KEPT * sizeof(*e->table));
    SM_TRY_GOTO(sm_pretokens_new(&e->pretokens));
    sm_merging_new(tokenizer, &e->merging);
    for (int kind = 0; kind < N_KINDS; kind++) {
        SM_TRY_GOTO(compile_added(e, kind));
    }
    *encoder = e;
    return SM_OK;

cleanup:
    sm_encoder_free(e);
    return status;
}

void sm_encoder_free(sm_encoder *e) {
    if (e != NULL) {
        for (int kind = 0; kind < N_KINDS; kind++) {
            pcre2_match_data_free(e->match[kind]);
            pcre2_code_free(e->added[kind]);
        }
        sm_merging_free(e->merging);
        sm_pretokens_free(e->pretokens);
        free(e->table);
        free(e);
    }
}

// --- and back ------------------------------------------------------------------------------

sm_status sm_decode(const sm_tokenizer *t, const int32_t *ids, size_t n, sm_text *text) {
    for (size_t i = 0; i < n; i++) {
        SM_FAIL_IF(ids[i] < 0 || ids[i] >= t->n_tokens, SM_ERR_INVALID, "token %zu is %d, outside the vocabulary of %d",
                   i, ids[i], t->n_tokens);
        const size_t n_bytes = t->tokens[ids[i]].n_bytes;
        if (n_bytes > text->capacity - text->n) {
            const size_t capacity = 2 * text->capacity + n_bytes;
            uint8_t *grown = realloc(text->bytes, capacity);
            SM_FAIL_IF(grown == NULL, SM_ERR_OOM, "no memory for %zu bytes of text", capacity);
            text->bytes = grown;
            text->capacity = capacity;
        }
        memcpy(text->bytes + text->n, sm_token_bytes(t, ids[i]), n_bytes);
        text->n += n_bytes;
    }
    return SM_OK;
}
