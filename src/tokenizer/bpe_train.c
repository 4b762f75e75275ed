// bpe_train.c: words as lists of ids with their counts; a table of pairs with their counts and words; a heap of pairs
// by count. A count in the heap may be out of date: it is checked when it reaches the top.
#include "src/tokenizer/bpe_train.h"
#include "src/tokenizer/pretokens.h"

// --- words ---------------------------------------------------------------------------------

// The entry of a word, or the empty entry for it.
static sm_word *find_word(const sm_word_counts *w, uint64_t hash, const uint8_t *bytes, size_t n_bytes) {
    for (size_t i = hash & (w->n_entries - 1);; i = (i + 1) & (w->n_entries - 1)) {
        sm_word *entry = &w->entries[i];
        if (entry->count == 0 || (entry->hash == hash && entry->n_bytes == n_bytes &&
                                  memcmp(w->bytes + entry->offset, bytes, n_bytes) == 0)) {
            return entry;
        }
    }
}

static void grow_entries(sm_word_counts *w) {
    sm_word_counts grown = *w;
    grown.n_entries = w->n_entries > 0 ? 2 * w->n_entries : 1024;
    grown.entries = sm_calloc(grown.n_entries, sizeof(*grown.entries));
    for (size_t i = 0; i < w->n_entries; i++) {
        const sm_word *entry = &w->entries[i];
        if (entry->count > 0) {
            *find_word(&grown, entry->hash, w->bytes + entry->offset, entry->n_bytes) = *entry;
        }
    }
    free(w->entries);
    *w = grown;
}

sm_status sm_word_counts_add(sm_word_counts *w, const uint8_t *bytes, size_t n_bytes, int64_t count) {
    if (2 * w->n_words >= w->n_entries) {
        grow_entries(w);
    }
    const uint64_t hash = sm_bytes_hash(bytes, n_bytes);
    sm_word *entry = find_word(w, hash, bytes, n_bytes);
    if (entry->count > 0) {
        entry->count += count;
        return SM_OK;
    }
    SM_FAIL_IF(n_bytes > UINT32_MAX, SM_ERR_UNSUPPORTED, "%zu bytes without a space", n_bytes);
    const size_t offset = sm_append_bytes(&w->bytes, &w->n_bytes, &w->capacity, bytes, n_bytes);
    *entry = (sm_word){offset, (uint32_t)n_bytes, hash, count};
    w->n_words++;
    return SM_OK;
}

void sm_word_counts_free(sm_word_counts *w) {
    free(w->entries);
    free(w->bytes);
    *w = (sm_word_counts){0};
}

// Each thread counts its blocks; the counts are added up at the end.

typedef struct {
    sm_text_source *source;
    bool (*stop)(void *ctx);
    void *ctx;
    sm_word_counts *words; // the total
    sm_outcome outcome;    // the first failure
} counting;

// The next block; *is_last: none is left.
static sm_status take_block(counting *c, sm_text_block *block, bool *is_last) {
    sm_status status = SM_OK;
#pragma omp critical(sm_word_counts_read)
    {
        status = c->outcome.status;
        if (status == SM_OK && c->stop != NULL && c->stop(c->ctx)) {
            status = SM_ERR_INTERRUPTED;
        }
        if (status == SM_OK) {
            status = sm_text_source_next(c->source, block);
        }
    }
    *is_last = block->n_parts == 0;
    return status;
}

static sm_status count_blocks(counting *c, sm_pretokens *pretokens, sm_text_block *block, sm_word_counts *words) {
    for (;;) {
        bool is_last;
        SM_TRY(take_block(c, block, &is_last));
        if (is_last) {
            return SM_OK;
        }
        for (size_t i = 0; i < block->n_parts; i++) {
            const uint8_t *text = block->text + block->parts[i].offset;
            size_t begin = 0;
            sm_pretokens_begin(pretokens, text, block->parts[i].n_bytes);
            for (size_t end; sm_pretokens_next(pretokens, &end); begin = end) {
                SM_TRY(sm_word_counts_add(words, text + begin, end - begin, 1));
            }
        }
    }
}

static void count_in_thread(counting *c) {
    SM_OWN(sm_pretokens) *pretokens = sm_pretokens_new();
    SM_AT_END(sm_text_block_free) sm_text_block block = {0};
    SM_AT_END(sm_word_counts_free) sm_word_counts words = {0};
    sm_status status = count_blocks(c, pretokens, &block, &words);
#pragma omp critical(sm_word_counts_add)
    for (size_t i = 0; i < words.n_entries && status == SM_OK; i++) {
        const sm_word *entry = &words.entries[i];
        if (entry->count > 0) {
            status = sm_word_counts_add(c->words, words.bytes + entry->offset, entry->n_bytes, entry->count);
        }
    }
#pragma omp critical(sm_word_counts_read)
    c->outcome = c->outcome.status == SM_OK ? sm_outcome_of(status) : c->outcome;
}

sm_status sm_word_counts_of(sm_text_source *source, int n_threads, bool (*stop)(void *ctx), void *ctx,
                            sm_word_counts *words) {
    counting c = {.source = source, .stop = stop, .ctx = ctx, .words = words};
    *words = (sm_word_counts){0};
#pragma omp parallel num_threads(n_threads > 0 ? n_threads : 1)
    count_in_thread(&c);
    return sm_outcome_tell(&c.outcome);
}

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
    const sm_word *known = t->known.n_entries > 0 ? find_word(&t->known, sm_bytes_hash(bytes, n), bytes, n) : NULL;
    if (known != NULL && known->count > 0) {
        *id = (int32_t)known->count;
        return SM_OK;
    }
    *id = t->n_tokens++;
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
