// collate.c: places documents in rows, and fills batches.
#include "src/documents/documents.h"

enum { MOST_SLOTS = 16, MOST_OPEN_ROWS = 64 };

SM_WORDS(sm_padding_name, sm_padding, SM_PADDING_LIST)

static void place(sm_collation *c, int64_t batch, int64_t row, int64_t column, sm_document document) {
    SM_PUSH(c->placements, c->n, (sm_placement){batch, row, column, document});
}

void sm_collation_free(sm_collation *collation) {
    free(collation->placements);
    free(collation->first_of);
    *collation = (sm_collation){.placements = NULL};
}

// Places documents in the slots of the next batch, which is then full or the last.
static void add_batch(sm_collation *c, const sm_document *documents, int64_t n, int64_t slots_a_row,
                      int64_t slot_length) {
    for (int64_t i = 0; i < n; i++) {
        place(c, c->n_batches, i / slots_a_row, i % slots_a_row * slot_length, documents[i]);
    }
    c->n_batches++;
}

// --- slots ------------------------------------------------------------------------------------------

// Padding max and none.
static void collate_rows(const sm_documents *documents, int64_t max_batches, sm_collation *c) {
    for (int64_t i = 0; i < documents->n && c->n_batches < max_batches; i += c->B) {
        const int64_t left = documents->n - i;
        if (left >= c->B || c->n_batches == 0) {
            add_batch(c, documents->all + i, left < c->B ? left : c->B, 1, c->T);
        }
    }
}

static void collate_batches(const sm_documents *documents, int64_t max_batches, sm_collation *c) {
    for (int64_t i = 0; i < documents->n && c->n_batches < max_batches;) {
        int64_t longest = documents->all[i].n;
        int64_t n = 1;
        bool is_full = false;
        while (i + n < documents->n && !is_full) {
            const int64_t next = documents->all[i + n].n;
            const int64_t longer = next > longest ? next : longest;
            is_full = n + 1 > c->B * (c->T / longer);
            longest = is_full ? longest : longer;
            n += is_full ? 0 : 1;
        }
        if (is_full || c->n_batches == 0) {
            add_batch(c, documents->all + i, n, c->T / longest, longest);
        }
        i += n;
    }
}

// A bucket's next batch, as far as it is filled.
typedef struct {
    sm_document *documents; // B slots in each row
    int64_t n;
} bucket;

// Bucket m - 1 has m slots a row.
static void collate_buckets(const sm_documents *documents, int64_t max_batches, sm_collation *c) {
    bucket buckets[MOST_SLOTS] = {{NULL, 0}};
    SM_FREED sm_document *room = sm_malloc((size_t)(c->B * MOST_SLOTS * (MOST_SLOTS + 1) / 2) * sizeof *room);
    for (int64_t m = 1; m <= MOST_SLOTS; m++) {
        buckets[m - 1].documents = room + c->B * (m * (m - 1) / 2);
    }
    for (int64_t i = 0; i < documents->n && c->n_batches < max_batches; i++) {
        const int64_t fit = c->T / documents->all[i].n;
        const int64_t m = fit < MOST_SLOTS ? fit : MOST_SLOTS;
        bucket *b = &buckets[m - 1];
        b->documents[b->n++] = documents->all[i];
        if (b->n == c->B * m) {
            add_batch(c, b->documents, b->n, m, c->T / m);
            b->n = 0;
        }
    }
    int64_t fullest = 0;
    for (int64_t m = 0; m < MOST_SLOTS; m++) {
        fullest = buckets[m].n > buckets[fullest].n ? m : fullest;
    }
    if (c->n_batches == 0) {
        add_batch(c, buckets[fullest].documents, buckets[fullest].n, fullest + 1, c->T / (fullest + 1));
    }
}

// --- first fit --------------------------------------------------------------------------------------

// Open rows of a packing; a placement's row is the row's number until all are placed.
typedef struct {
    int64_t number;
    int64_t used;
} open_row;

typedef struct {
    open_row rows[MOST_OPEN_ROWS]; // in the order of opening
    int n;
    int64_t n_opened;
    int64_t *closed; // numbers of rows in the order of closing
    int64_t n_closed;
} packing;

static void close_fullest(packing *p) {
    int fullest = 0;
    for (int i = 1; i < p->n; i++) {
        fullest = p->rows[i].used > p->rows[fullest].used ? i : fullest;
    }
    p->closed[p->n_closed++] = p->rows[fullest].number;
    p->n--;
    memmove(p->rows + fullest, p->rows + fullest + 1, (size_t)(p->n - fullest) * sizeof *p->rows);
}

static open_row *find_room(packing *p, int64_t T, int64_t n) {
    for (int i = 0; i < p->n; i++) {
        if (p->rows[i].used + n <= T) {
            return &p->rows[i];
        }
    }
    if (p->n == MOST_OPEN_ROWS) {
        close_fullest(p);
    }
    p->rows[p->n] = (open_row){.number = p->n_opened++};
    return &p->rows[p->n++];
}

static int by_place(const void *a, const void *b) {
    const sm_placement *p = a;
    const sm_placement *q = b;
    const int64_t differences[] = {p->batch - q->batch, p->row - q->row, p->column - q->column};
    for (int i = 0; i < 3; i++) {
        if (differences[i] != 0) {
            return differences[i] < 0 ? -1 : 1;
        }
    }
    return 0;
}

// Turns numbers of rows into batches of B rows, in the order of closing.
static void order_rows(const packing *p, int64_t max_batches, int64_t *place_of, sm_collation *c) {
    int64_t n_left = 0;
    for (int64_t i = 0; i < p->n_closed; i++) {
        place_of[p->closed[i]] = i;
    }
    c->n_batches = p->n_closed / c->B > 0 ? p->n_closed / c->B : 1;
    c->n_batches = c->n_batches < max_batches ? c->n_batches : max_batches;
    for (int64_t i = 0; i < c->n; i++) {
        sm_placement placed = c->placements[i];
        placed.batch = place_of[placed.row] / c->B;
        placed.row = place_of[placed.row] % c->B;
        if (placed.batch < c->n_batches) {
            c->placements[n_left++] = placed;
        }
    }
    c->n = n_left;
    qsort(c->placements, (size_t)c->n, sizeof *c->placements, by_place);
}

static void collate_packed(const sm_documents *documents, int64_t max_batches, sm_collation *c) {
    SM_FREED int64_t *room = sm_malloc(2 * (size_t)documents->n * sizeof *room); // every row has at least one document
    packing p = {.closed = room};
    for (int64_t i = 0; i < documents->n && p.n_closed < max_batches * c->B; i++) {
        const sm_document d = documents->all[i];
        open_row *row = find_room(&p, c->T, d.n);
        place(c, 0, row->number, row->used, d);
        row->used += d.n;
    }
    while (p.n > 0) {
        close_fullest(&p);
    }
    order_rows(&p, max_batches, room + documents->n, c);
}

// --- all --------------------------------------------------------------------------------------------

sm_status sm_collate(const sm_documents *documents, int64_t B, int64_t T, sm_padding padding, int64_t max_batches,
                     sm_collation *collation) {
    *collation = (sm_collation){.B = B, .T = T, .padding = padding};
    SM_FAIL_IF(documents->n < 1, SM_ERR_INVALID, "a batch without documents has no real token");
    for (int64_t i = 0; i < documents->n; i++) {
        const int64_t n = documents->all[i].n;
        SM_FAIL_IF(n < 1 || n > T || (padding == SM_PADDING_NONE && n != T), SM_ERR_INTERNAL,
                   "a document of %lld tokens does not fit rows of %lld, padding %s", (long long)n, (long long)T,
                   sm_padding_name(padding));
    }
    switch (padding) {
    case SM_PADDING_NONE:
    case SM_PADDING_MAX: collate_rows(documents, max_batches, collation); break;
    case SM_PADDING_BATCH: collate_batches(documents, max_batches, collation); break;
    case SM_PADDING_BUCKET: collate_buckets(documents, max_batches, collation); break;
    case SM_PADDING_PACKED: collate_packed(documents, max_batches, collation); break;
    }
    // Placements are ordered by batch: finds the first of each batch.
    collation->first_of = sm_malloc((size_t)(collation->n_batches + 1) * sizeof *collation->first_of);
    int64_t i = 0;
    for (int64_t batch = 0; batch <= collation->n_batches; batch++) {
        while (i < collation->n && collation->placements[i].batch < batch) {
            i++;
        }
        collation->first_of[batch] = i;
    }
    return SM_OK;
}

static sm_status fill_document(const sm_placement *p, int64_t T, const sm_tokens *tokens, int32_t *inputs,
                               int32_t *targets, int32_t *starts, sm_tokens_cost *cost) {
    const int64_t at = p->row * T + p->column;
    const int64_t n = p->document.n;
    SM_TRY(sm_tokens_read_timed(tokens, p->document.first, 1, inputs + at, cost));
    SM_TRY(sm_tokens_read_timed(tokens, p->document.first + 1, n, targets + at, cost));
    memcpy(inputs + at + 1, targets + at, (size_t)(n - 1) * sizeof *inputs);
    for (int64_t i = 0; i < n; i++) {
        starts[at + i] = (int32_t)p->column;
    }
    return SM_OK;
}

sm_status sm_collation_fill(const sm_collation *c, const sm_tokens *tokens, int64_t batch, int32_t *inputs,
                            int32_t *targets, int32_t *starts, sm_tokens_cost *cost) {
    const int64_t n = c->B * c->T;
    memset(inputs, 0, (size_t)n * sizeof *inputs);
    for (int64_t i = 0; i < n; i++) {
        targets[i] = -1;
        starts[i] = (int32_t)(i % c->T);
    }
    for (int64_t i = c->first_of[batch]; i < c->first_of[batch + 1]; i++) {
        SM_TRY(fill_document(&c->placements[i], c->T, tokens, inputs, targets, starts, cost));
    }
    return SM_OK;
}

int64_t sm_collation_real_tokens(const sm_collation *c, int64_t batch) {
    int64_t n = 0;
    for (int64_t i = c->first_of[batch]; i < c->first_of[batch + 1]; i++) {
        n += c->placements[i].document.n;
    }
    return n;
}

int64_t sm_collation_pairs(const sm_collation *c, int64_t batch) {
    int64_t pairs = c->B * c->T - sm_collation_real_tokens(c, batch); // a position of padding attends to itself
    for (int64_t i = c->first_of[batch]; i < c->first_of[batch + 1]; i++) {
        const int64_t n = c->placements[i].document.n;
        pairs += n * (n + 1) / 2;
    }
    return pairs;
}
