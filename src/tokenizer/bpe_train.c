// bpe_train.c: words as lists of ids with their counts; a table of pairs with their counts and words; a heap of pairs
// by count. A count in the heap may be out of date: it is checked when it reaches the top.
#include <string.h>

#include "src/tokenizer/bpe_train.h"

typedef struct {
    size_t offset; // of its ids in training.ids
    uint32_t n;
    int64_t count;
} word_ids;

typedef struct {
    uint64_t pair; // SM_NO_PAIR: empty
    int64_t count;
    uint32_t *words; // that contain or contained it, in ascending order
    uint32_t n_words, capacity;
    bool is_touched; // its count grew in the current merge
} pair_entry;

typedef struct {
    uint64_t pair;
    int64_t count;
} candidate;

typedef struct {
    const sm_bpe_settings *settings;
    sm_tokenizer *tokenizer; // of vocab_size tokens; the first n_tokens are set
    int32_t n_tokens;
    sm_word_counts known; // each token of several bytes, by its bytes, with its id in place of a count
    int32_t *ids;         // of all words
    word_ids *words;
    size_t n_words;
    pair_entry *pairs; // open addressing
    size_t n_pairs, pairs_capacity;
    candidate *heap;
    size_t n_heap, heap_capacity;
    uint64_t *touched; // pairs
    size_t n_touched, touched_capacity;
} training;

// --- pairs ---------------------------------------------------------------------------------

static pair_entry *find_pair(const training *t, uint64_t pair) {
    size_t i = sm_pair_hash(pair) & (t->pairs_capacity - 1);
    while (t->pairs[i].pair != pair && t->pairs[i].pair != SM_NO_PAIR) {
        i = (i + 1) & (t->pairs_capacity - 1);
    }
    return &t->pairs[i];
}

static void grow_pairs(training *t) {
    const size_t before = t->pairs_capacity;
    SM_FREED pair_entry *old = t->pairs;
    t->pairs_capacity = before > 0 ? 2 * before : 4096;
    t->pairs = sm_malloc(t->pairs_capacity * sizeof(*t->pairs));
    for (size_t i = 0; i < t->pairs_capacity; i++) {
        t->pairs[i] = (pair_entry){.pair = SM_NO_PAIR};
    }
    for (size_t i = 0; i < before; i++) {
        if (old[i].pair != SM_NO_PAIR) {
            *find_pair(t, old[i].pair) = old[i];
        }
    }
}

// Counts one more place of a pair, in a word that occurs `count` times.
static void add_pair(training *t, int32_t left, int32_t right, uint32_t word, int64_t count) {
    if (2 * t->n_pairs >= t->pairs_capacity) {
        grow_pairs(t);
    }
    pair_entry *entry = find_pair(t, sm_pair(left, right));
    if (entry->pair == SM_NO_PAIR) {
        *entry = (pair_entry){.pair = sm_pair(left, right)};
        t->n_pairs++;
    }
    entry->count += count;
    if (entry->n_words == 0 || entry->words[entry->n_words - 1] != word) {
        if (entry->n_words == entry->capacity) { // most pairs are in few words
            entry->capacity = 2 * entry->capacity + 2;
            entry->words = sm_realloc(entry->words, entry->capacity * sizeof *entry->words);
        }
        entry->words[entry->n_words++] = word;
    }
    if (!entry->is_touched) {
        SM_GROW(t->touched, t->n_touched, t->touched_capacity);
        t->touched[t->n_touched++] = entry->pair;
        entry->is_touched = true;
    }
}

static void remove_pair(training *t, int32_t left, int32_t right, int64_t count) {
    pair_entry *entry = find_pair(t, sm_pair(left, right));
    if (entry->pair != SM_NO_PAIR) {
        entry->count -= count;
    }
}

// --- heap ----------------------------------------------------------------------------------

// A pair's number is its left id, then its right id.
static bool is_before(candidate a, candidate b) { return a.count != b.count ? a.count > b.count : a.pair < b.pair; }

static void heap_push(training *t, candidate c) {
    SM_GROW(t->heap, t->n_heap, t->heap_capacity);
    size_t i = t->n_heap++;
    for (; i > 0 && is_before(c, t->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        t->heap[i] = t->heap[(i - 1) / 2];
    }
    t->heap[i] = c;
}

static candidate heap_pop(training *t) {
    const candidate first = t->heap[0];
    const candidate last = t->heap[--t->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < t->n_heap; i = child) {
        child += child + 1 < t->n_heap && is_before(t->heap[child + 1], t->heap[child]);
        if (!is_before(t->heap[child], last)) {
            break;
        }
        t->heap[i] = t->heap[child];
    }
    t->heap[i] = last;
    return first;
}

// Pairs whose counts grew become candidates with their new counts.
static void push_touched(training *t) {
    for (size_t i = 0; i < t->n_touched; i++) {
        pair_entry *entry = find_pair(t, t->touched[i]);
        entry->is_touched = false;
        if (entry->count > 0) {
            heap_push(t, (candidate){entry->pair, entry->count});
        }
    }
    t->n_touched = 0;
}

// The most frequent pair; NULL: none is left.
static pair_entry *pop_best(training *t) {
    while (t->n_heap > 0) {
        candidate best = heap_pop(t);
        pair_entry *entry = find_pair(t, best.pair);
        if (entry->count == best.count) {
            return entry;
        }
        if (entry->count > 0 && entry->count < best.count) { // grew since: a newer entry is in the heap
            best.count = entry->count;
            heap_push(t, best);
        }
    }
    return NULL;
}

// --- merging -------------------------------------------------------------------------------

static void merge_in_word(training *t, uint32_t index, int32_t left, int32_t right, int32_t result) {
    word_ids *word = &t->words[index];
    int32_t *ids = t->ids + word->offset;
    uint32_t n = 0; // ids after merging
    for (uint32_t i = 0; i < word->n; i++) {
        if (i + 1 == word->n || ids[i] != left || ids[i + 1] != right) {
            ids[n++] = ids[i];
            continue;
        }
        if (n > 0) {
            remove_pair(t, ids[n - 1], left, word->count);
            add_pair(t, ids[n - 1], result, index, word->count);
        }
        if (i + 2 < word->n) {
            remove_pair(t, right, ids[i + 2], word->count);
            add_pair(t, result, ids[i + 2], index, word->count);
        }
        ids[n++] = result;
        i++;
    }
    word->n = n;
}

// The id of the joined token; a token with the same bytes may exist already, from other halves.
static sm_status make_token(training *t, int32_t left, int32_t right, int32_t *id) {
    const sm_tokenizer *k = t->tokenizer;
    const size_t n_left = k->tokens[left].n_bytes;
    const size_t n = n_left + k->tokens[right].n_bytes;
    SM_FREED uint8_t *bytes = sm_malloc(n);
    memcpy(bytes, sm_token_bytes(k, left), n_left);
    memcpy(bytes + n_left, sm_token_bytes(k, right), n - n_left);
    const sm_word *known = sm_word_counts_find(&t->known, bytes, n);
    *id = known != NULL ? (int32_t)known->count : t->n_tokens++;
    if (known != NULL) {
        return SM_OK;
    }
    SM_TRY(sm_tokenizer_set(t->tokenizer, *id, bytes, n));
    return sm_word_counts_add(&t->known, bytes, n, *id);
}

static sm_status merge_pair(training *t, pair_entry *best) {
    const int32_t left = (int32_t)(best->pair >> 32);
    const int32_t right = (int32_t)(uint32_t)best->pair;
    SM_FREED uint32_t *words = best->words; // the entry may move
    const uint32_t n_words = best->n_words;
    int32_t result;
    best->words = NULL;
    best->n_words = best->capacity = 0;
    best->count = 0;
    SM_TRY(make_token(t, left, right, &result));
    SM_TRY(sm_tokenizer_add_merge(t->tokenizer, left, right, result));
    for (uint32_t i = 0; i < n_words; i++) {
        merge_in_word(t, words[i], left, right, result);
    }
    pair_entry *merged = find_pair(t, sm_pair(left, right));
    merged->count = merged->count < 0 ? 0 : merged->count; // neighbours in "aaa" were counted twice
    push_touched(t);
    return SM_OK;
}

static sm_status learn(training *t) {
    const sm_bpe_settings *s = t->settings;
    while (t->n_tokens < s->vocab_size) {
        if (s->stop != NULL && s->stop(s->ctx)) {
            return SM_ERR_INTERRUPTED;
        }
        pair_entry *best = pop_best(t);
        if (best == NULL || best->count < s->min_frequency) {
            return SM_OK;
        }
        SM_TRY(merge_pair(t, best));
        if (s->progress != NULL) {
            s->progress(s->ctx, t->n_tokens, s->vocab_size);
        }
    }
    return SM_OK;
}
// --- beginning and end ---------------------------------------------------------------------

static sm_status take_words(training *t, const sm_word_counts *words, const int32_t byte_ids[SM_N_BYTES]) {
    size_t offset = 0;
    t->ids = malloc((words->n_bytes + 1) * sizeof(*t->ids));
    t->words = malloc((words->n_words + 1) * sizeof(*t->words));
    SM_FAIL_IF(t->ids == NULL || t->words == NULL || words->n_words > UINT32_MAX, SM_ERR_OOM, "no memory for %zu words",
               words->n_words);
    for (size_t i = 0; i < words->n_entries; i++) {
        const sm_word *entry = &words->entries[i];
        if (entry->count == 0) {
            continue;
        }
        int32_t *ids = t->ids + offset;
        for (uint32_t k = 0; k < entry->n_bytes; k++) {
            ids[k] = byte_ids[words->bytes[entry->offset + k]];
        }
        for (uint32_t k = 0; k + 1 < entry->n_bytes; k++) {
            add_pair(t, ids[k], ids[k + 1], (uint32_t)t->n_words, entry->count);
        }
        t->words[t->n_words++] = (word_ids){offset, entry->n_bytes, entry->count};
        offset += entry->n_bytes;
    }
    push_touched(t);
    return SM_OK;
}

static void free_training(training *t) {
    for (size_t i = 0; i < t->pairs_capacity; i++) {
        free(t->pairs[i].words);
    }
    free(t->pairs);
    free(t->heap);
    free(t->touched);
    free(t->ids);
    free(t->words);
    sm_word_counts_free(&t->known);
    sm_tokenizer_free(t->tokenizer);
}

sm_status sm_bpe_train(const sm_word_counts *words, const sm_bpe_settings *settings, sm_tokenizer **tokenizer) {
    int32_t byte_ids[SM_N_BYTES];
    SM_AT_END(free_training) training t = {.settings = settings};
    *tokenizer = NULL;
    SM_FAIL_IF(settings->vocab_size < SM_LEAST_VOCABULARY, SM_ERR_INVALID,
               "a vocabulary of %lld tokens; it has %d at least: the bytes and %s", (long long)settings->vocab_size,
               SM_LEAST_VOCABULARY, SM_END_OF_TEXT);
    SM_TRY(sm_tokenizer_new(settings->vocab_size, &t.tokenizer));
    uint8_t order[SM_N_BYTES];
    const char *end = SM_END_OF_TEXT;
    SM_TRY(sm_tokenizer_set_added(t.tokenizer, t.n_tokens++, (const uint8_t *)end, strlen(end), true, false));
    sm_byte_alphabet_order(order);
    for (int i = 0; i < SM_N_BYTES; i++) {
        byte_ids[order[i]] = t.n_tokens;
        SM_TRY(sm_tokenizer_set(t.tokenizer, t.n_tokens++, &order[i], 1));
    }
    SM_TRY(take_words(&t, words, byte_ids));
    SM_TRY(learn(&t));
    t.tokenizer->n_tokens = t.n_tokens; // fewer if the text has too few pairs
    SM_TRY(sm_tokenizer_finish(t.tokenizer));
    *tokenizer = t.tokenizer;
    t.tokenizer = NULL;
    return SM_OK;
}
