// encoder.c: finds added tokens first, then pieces; it looks up recent pieces and merges others.
//
// The table of recent pieces holds those of at most 16 bytes, each in a cache line, which a new one replaces.
#include "src/tokenizer/encoder.h"

#include "src/io/pattern.h"
#include "src/tokenizer/pretokens.h"

enum { MAX_SHORT = 48, NO_RANK = INT32_MAX };

// A token of a long piece, in a linked list.
typedef struct {
    int32_t id;       // SM_NO_ID: merged into another
    int32_t previous; // -1: none
    int32_t next;     // n: none
} link;

// Working memory for merging the tokens of a piece, reused for every piece. Of all neighbours that can be merged, those of
// the earliest merge come first, and of these the leftmost. A short piece is searched each time; a long one has a heap,
// by merge and place. An entry of the heap is valid only if the two tokens at its place are still those of the merge.
typedef struct {
    const sm_tokenizer *tokenizer;
    link *links;
    uint64_t *heap; // merge << 32 | place; the smallest first
    size_t n_heap;
    size_t capacity; // room for tokens of a piece; the heap has room for three times as many
} merging;

// --- short ---------------------------------------------------------------------------------

static int32_t rank_of(const sm_tokenizer *t, int32_t left, int32_t right) {
    const sm_pair_entry *merge = sm_tokenizer_merge(t, left, right);
    return merge != NULL ? merge->rank : NO_RANK;
}

static void merge_short(const sm_tokenizer *t, const uint8_t *bytes, int n, sm_ids *ids) {
    int32_t ranks[MAX_SHORT]; // of each token with the next
    sm_ids_reserve(ids, (size_t)n);
    int32_t *at = ids->ids + ids->n;
    for (int i = 0; i < n; i++) {
        at[i] = t->byte_ids[bytes[i]];
    }
    for (int i = 0; i + 1 < n; i++) {
        ranks[i] = rank_of(t, at[i], at[i + 1]);
    }
    for (;;) {
        int best = 0;
        int32_t least = NO_RANK;
        for (int i = 0; i + 1 < n; i++) {
            if (ranks[i] < least) {
                least = ranks[i];
                best = i;
            }
        }
        if (least == NO_RANK) {
            break;
        }
        at[best] = t->merges[least].result;
        memmove(at + best + 1, at + best + 2, (size_t)(n - best - 2) * sizeof(*at));
        memmove(ranks + best, ranks + best + 1, (size_t)(n - best - 2) * sizeof(*ranks));
        n--;
        if (best > 0) {
            ranks[best - 1] = rank_of(t, at[best - 1], at[best]);
        }
        if (best + 1 < n) {
            ranks[best] = rank_of(t, at[best], at[best + 1]);
        }
    }
    ids->n += (size_t)n;
}

// --- long ----------------------------------------------------------------------------------

static void heap_push(merging *m, uint64_t value) {
    size_t i = m->n_heap++;
    while (i > 0 && m->heap[(i - 1) / 2] > value) {
        m->heap[i] = m->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    m->heap[i] = value;
}

static uint64_t heap_pop(merging *m) {
    const uint64_t least = m->heap[0];
    const uint64_t last = m->heap[--m->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < m->n_heap; i = child) {
        child += child + 1 < m->n_heap && m->heap[child + 1] < m->heap[child];
        if (m->heap[child] >= last) {
            break;
        }
        m->heap[i] = m->heap[child];
    }
    m->heap[i] = last;
    return least;
}

// Adds the pair that begins at `place` to the heap, if it can be merged.
static void push_pair(merging *m, int32_t place, int32_t n) {
    const link *left = &m->links[place];
    if (left->next < n) {
        const int32_t rank = rank_of(m->tokenizer, left->id, m->links[left->next].id);
        if (rank != NO_RANK) {
            heap_push(m, (uint64_t)(uint32_t)rank << 32 | (uint32_t)place);
        }
    }
}

static void merge_at(merging *m, int32_t place, int32_t rank, int32_t n) {
    link *left = &m->links[place];
    if (left->id == SM_NO_ID || left->next >= n || rank_of(m->tokenizer, left->id, m->links[left->next].id) != rank) {
        return; // no longer that pair
    }
    link *right = &m->links[left->next];
    left->id = m->tokenizer->merges[rank].result;
    left->next = right->next;
    right->id = SM_NO_ID;
    if (left->next < n) {
        m->links[left->next].previous = place;
    }
    if (left->previous >= 0) {
        push_pair(m, left->previous, n);
    }
    push_pair(m, place, n);
}

static void merge_long(merging *m, const uint8_t *bytes, int32_t n, sm_ids *ids) {
    if ((size_t)n > m->capacity) {
        m->capacity = (size_t)n;
        m->links = sm_realloc(m->links, m->capacity * sizeof(*m->links));
        m->heap = sm_realloc(m->heap, 3 * m->capacity * sizeof(*m->heap)); // n - 1 pairs, and two more for each merge
    }
    m->n_heap = 0;
    for (int32_t i = 0; i < n; i++) {
        m->links[i] = (link){m->tokenizer->byte_ids[bytes[i]], i - 1, i + 1};
    }
    for (int32_t i = 0; i < n; i++) {
        push_pair(m, i, n);
    }
    while (m->n_heap > 0) {
        const uint64_t least = heap_pop(m);
        merge_at(m, (int32_t)(uint32_t)least, (int32_t)(least >> 32), n);
    }
    for (int32_t i = 0; i < n; i = m->links[i].next) {
        sm_ids_append(ids, m->links[i].id);
    }
}

// Appends the ids of a piece of n bytes, in time O(n log n). SM_ERR_UNSUPPORTED: 2 GiB or more.
static sm_status merge_piece(merging *m, const uint8_t *bytes, size_t n, sm_ids *ids) {
    SM_FAIL_IF(n > INT32_MAX, SM_ERR_UNSUPPORTED,
               "the text has %zu bytes without a space; at most %d are supported, insert spaces or newlines", n,
               INT32_MAX);
    if (n <= MAX_SHORT) {
        merge_short(m->tokenizer, bytes, (int)n, ids);
    } else {
        merge_long(m, bytes, (int32_t)n, ids);
    }
    return SM_OK;
}

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
    merging merging;
    kept *table;
    sm_pattern *added[N_KINDS]; // match any added token that is not normalized, or that is; NULL: there are none
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

static sm_status encode_piece(sm_encoder *e, const uint8_t *bytes, size_t n, size_t readable, sm_ids *ids) {
    if (n > MAX_KEY_BYTES) {
        return merge_piece(&e->merging, bytes, n, ids);
    }
    uint64_t key[2];
    load_key(bytes, n, readable, key);
    kept *place = &e->table[place_of(key, n)];
    if (place->key[0] != key[0] || place->key[1] != key[1] || place->n_bytes != n) {
        const size_t first = ids->n;
        SM_TRY(merge_piece(&e->merging, bytes, n, ids));
        const size_t n_ids = ids->n - first;
        if (n_ids <= MAX_KEPT_IDS) {
            *place = (kept){.key = {key[0], key[1]}, .n_bytes = (uint8_t)n, .n_ids = (uint8_t)n_ids};
            memcpy(place->ids, ids->ids + first, n_ids * sizeof(*ids->ids));
        }
        return SM_OK;
    }
    sm_ids_reserve(ids, MAX_KEPT_IDS);
    memcpy(ids->ids + ids->n, place->ids, sizeof place->ids); // a copy of constant length is fastest
    ids->n += place->n_ids;
    return SM_OK;
}

// Encodes text without added tokens.
static sm_status encode_plain(sm_encoder *e, const uint8_t *text, size_t n, sm_ids *ids) {
    size_t begin = 0;
    size_t end;
    sm_pretokens_begin(e->pretokens, text, n);
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
    const size_t *found;
    if (kind == N_KINDS) {
        return encode_plain(e, text, n, ids);
    }
    while (e->added[kind] != NULL && (found = sm_pattern_find(e->added[kind], text, n, begin)) != NULL) {
        const int32_t id = sm_tokenizer_find_added(e->tokenizer, text + found[0], found[1] - found[0]);
        SM_TRY(encode_around(e, kind + 1, text + begin, found[0] - begin, ids));
        sm_ids_append(ids, id);
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

// "\x3c\x7c|\x3c": matches any added token of a kind, by bytes, the longest first. Empty: none. The caller frees it.
static char *pattern_of(const sm_tokenizer *t, bool is_normalized) {
    char *pattern = NULL;
    size_t size_bytes;
    FILE *out = sm_memstream(&pattern, &size_bytes);
    const char *between = "";
    for (size_t i = 0; i < t->added_ids.n; i++) {
        const int32_t id = t->added_ids.ids[i];
        if (t->tokens[id].is_normalized != is_normalized) {
            continue;
        }
        fputs(between, out);
        between = "|";
        for (uint32_t k = 0; k < t->tokens[id].n_bytes; k++) {
            fprintf(out, "\\x%02x", sm_token_bytes(t, id)[k]);
        }
    }
    sm_memstream_close(out);
    return pattern;
}

static sm_status compile_added(sm_encoder *e, int kind) {
    SM_FREED char *pattern = pattern_of(e->tokenizer, kind == 1);
    if (pattern[0] == '\0') {
        return SM_OK;
    }
    SM_FAIL_IF(sm_pattern_new(pattern, &e->added[kind]) != SM_OK, SM_ERR_OOM,
               "no memory for a pattern of %zu added tokens", e->tokenizer->added_ids.n);
    return SM_OK;
}

sm_status sm_encoder_new(const sm_tokenizer *tokenizer, sm_encoder **encoder) {
    SM_OWN(sm_encoder) *e = sm_calloc(1, sizeof *e);
    *encoder = NULL;
    e->tokenizer = tokenizer;
    e->merging.tokenizer = tokenizer;
    e->table = sm_present(aligned_alloc(sizeof(*e->table), N_KEPT * sizeof(*e->table)), N_KEPT * sizeof(*e->table));
    memset(e->table, 0, N_KEPT * sizeof(*e->table));
    e->pretokens = sm_pretokens_new();
    for (int kind = 0; kind < N_KINDS; kind++) {
        SM_TRY(compile_added(e, kind));
    }
    *encoder = sm_give(&e);
    return SM_OK;
}

void sm_encoder_free(sm_encoder *e) {
    if (e != NULL) {
        for (int kind = 0; kind < N_KINDS; kind++) {
            sm_pattern_free(e->added[kind]);
        }
        free(e->merging.links);
        free(e->merging.heap);
        sm_pretokens_free(e->pretokens);
        free(e->table);
        free(e);
    }
}
