// merging.c: of all neighbours that can be merged, those of the earliest merge come first, and of these the leftmost.
//
// A short piece is searched each time; a long one has a heap, by merge and place. An entry of the heap is valid only if
// the two tokens at its place are still those of the merge.
#include <limits.h>
#include <string.h>

#include "src/tokenizer/merging.h"

enum { MAX_SHORT = 48, NO_RANK = INT32_MAX };

// A token of a long piece, in a linked list.
typedef struct {
    int32_t id;       // SM_NO_ID: merged into another
    int32_t previous; // -1: none
    int32_t next;     // n: none
} link;

struct sm_merging {
    const sm_tokenizer *tokenizer;
    link *links;
    uint64_t *heap; // merge << 32 | place; the smallest first
    size_t n_heap;
    size_t capacity; // room for tokens of a piece; the heap has room for three times as many
};

// --- short ---------------------------------------------------------------------------------

static int32_t rank_of(const sm_tokenizer *t, int32_t left, int32_t right) {
    const sm_pair_entry *merge = sm_tokenizer_merge(t, left, right);
    return merge != NULL ? merge->rank : NO_RANK;
}

static sm_status merge_short(const sm_tokenizer *t, const uint8_t *bytes, int n, sm_ids *ids) {
    int32_t ranks[MAX_SHORT]; // of each token with the next
    SM_TRY(sm_ids_reserve(ids, (size_t)n));
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
    return SM_OK;
}

// --- long ----------------------------------------------------------------------------------

static void heap_push(sm_merging *m, uint64_t value) {
    size_t i = m->n_heap++;
    while (i > 0 && m->heap[(i - 1) / 2] > value) {
        m->heap[i] = m->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    m->heap[i] = value;
}

static uint64_t heap_pop(sm_merging *m) {
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
static void push_pair(sm_merging *m, int32_t place, int32_t n) {
    const link *left = &m->links[place];
    if (left->next < n) {
        const int32_t rank = rank_of(m->tokenizer, left->id, m->links[left->next].id);
        if (rank != NO_RANK) {
            heap_push(m, (uint64_t)(uint32_t)rank << 32 | (uint32_t)place);
        }
    }
}

static void merge_at(sm_merging *m, int32_t place, int32_t rank, int32_t n) {
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

static sm_status reserve(sm_merging *m, size_t n) {
    if (n <= m->capacity) {
        return SM_OK;
    }
    free(m->links);
    free(m->heap);
    m->capacity = 0;
    m->links = malloc(n * sizeof(*m->links));
    m->heap = malloc(3 * n * sizeof(*m->heap)); // n - 1 pairs at first, and two more for each of n - 1 merges
    SM_FAIL_IF(m->links == NULL || m->heap == NULL, SM_ERR_OOM, "no memory for a piece of %zu bytes without a space",
               n);
    m->capacity = n;
    return SM_OK;
}

static sm_status merge_long(sm_merging *m, const uint8_t *bytes, int32_t n, sm_ids *ids) {
    SM_TRY(reserve(m, (size_t)n));
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
        SM_TRY(sm_ids_append(ids, m->links[i].id));
    }
    return SM_OK;
}

// --- both ----------------------------------------------------------------------------------

sm_status sm_merging_merge(sm_merging *m, const uint8_t *bytes, size_t n, sm_ids *ids) {
    if (n <= MAX_SHORT) {
        return merge_short(m->tokenizer, bytes, (int)n, ids);
    }
    SM_FAIL_IF(n > INT32_MAX, SM_ERR_UNSUPPORTED,
               "the text has %zu bytes without a space; at most %d are supported, "
               "insert spaces or newlines",
               n, INT32_MAX);
    return merge_long(m, bytes, (int32_t)n, ids);
}

void sm_merging_new(const sm_tokenizer *tokenizer, sm_merging **merging) {
    sm_merging *m = sm_calloc(1, sizeof *m);
    *merging = m;
    m->tokenizer = tokenizer;
}

void sm_merging_free(sm_merging *m) {
    if (m != NULL) {
        free(m->links);
        free(m->heap);
        free(m);
    }
}
