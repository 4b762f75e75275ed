// word_counts.c: each thread counts its blocks; the counts are added up at the end.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tokenizer/pretokens.h"
#include "src/tokenizer/bpe_train.h"

// --- a table -------------------------------------------------------------------------------

// The entry of a word, or the empty entry for it.
static sm_word *find(const sm_word_counts *w, uint64_t hash, const uint8_t *bytes, size_t n_bytes) {
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
            *find(&grown, entry->hash, w->bytes + entry->offset, entry->n_bytes) = *entry;
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
    sm_word *entry = find(w, hash, bytes, n_bytes);
    if (entry->count > 0) {
        entry->count += count;
        return SM_OK;
    }
    SM_FAIL_IF(n_bytes > UINT32_MAX, SM_ERR_UNSUPPORTED, "%zu bytes without a space", n_bytes);
    if (n_bytes > w->capacity - w->n_bytes) {
        w->capacity = 2 * w->capacity + n_bytes;
        w->bytes = sm_realloc(w->bytes, w->capacity);
    }
    memcpy(w->bytes + w->n_bytes, bytes, n_bytes);
    *entry = (sm_word){w->n_bytes, (uint32_t)n_bytes, hash, count};
    w->n_bytes += n_bytes;
    w->n_words++;
    return SM_OK;
}

const sm_word *sm_word_counts_find(const sm_word_counts *w, const uint8_t *bytes, size_t n_bytes) {
    const sm_word *entry = w->n_entries > 0 ? find(w, sm_bytes_hash(bytes, n_bytes), bytes, n_bytes) : NULL;
    return entry != NULL && entry->count > 0 ? entry : NULL;
}

void sm_word_counts_free(sm_word_counts *w) {
    free(w->entries);
    free(w->bytes);
    *w = (sm_word_counts){0};
}

// --- text ----------------------------------------------------------------------------------

typedef struct {
    sm_text_source *source;
    bool (*stop)(void *ctx);
    void *ctx;
    sm_word_counts *words; // the total
    sm_status status;
    char message[512];
} counting;

// The next block; *is_last: none is left.
static sm_status take_block(counting *c, sm_text_block *block, bool *is_last) {
    sm_status status = SM_OK;
#pragma omp critical(sm_word_counts_read)
    {
        status = c->status;
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
            SM_TRY(sm_pretokens_begin(pretokens, text, block->parts[i].n_bytes));
            for (size_t end; sm_pretokens_next(pretokens, &end); begin = end) {
                SM_TRY(sm_word_counts_add(words, text + begin, end - begin, 1));
            }
        }
    }
}

static void count_in_thread(counting *c) {
    SM_OWN(sm_pretokens) *pretokens = NULL;
    SM_AT_END(sm_text_block_free) sm_text_block block = {0};
    SM_AT_END(sm_word_counts_free) sm_word_counts words = {0};
    sm_status status = sm_pretokens_new(&pretokens);
    if (status == SM_OK) {
        status = count_blocks(c, pretokens, &block, &words);
    }
#pragma omp critical(sm_word_counts_add)
    for (size_t i = 0; i < words.n_entries && status == SM_OK; i++) {
        const sm_word *entry = &words.entries[i];
        if (entry->count > 0) {
            status = sm_word_counts_add(c->words, words.bytes + entry->offset, entry->n_bytes, entry->count);
        }
    }
#pragma omp critical(sm_word_counts_read)
    if (status != SM_OK && c->status == SM_OK) {
        c->status = status;
        snprintf(c->message, sizeof c->message, "%s", sm_error_message());
    }
}

sm_status sm_word_counts_of(sm_text_source *source, int n_threads, bool (*stop)(void *ctx), void *ctx,
                            sm_word_counts *words) {
    counting c = {.source = source, .stop = stop, .ctx = ctx, .words = words};
    *words = (sm_word_counts){0};
#pragma omp parallel num_threads(n_threads > 0 ? n_threads : 1)
    count_in_thread(&c);
    return c.status == SM_OK ? SM_OK : sm_fail(c.status, "%s", c.message);
}
