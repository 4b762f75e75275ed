// documents.c: finds documents in a stream, or draws them.
#include "src/documents/documents.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "philox.h"

const char *sm_long_document_name(sm_long_document how) {
    static const char *const names[] = {
#define X(code, name) [code] = name,
        SM_LONG_LIST(X)
#undef X
    };
    return names[how];
}

static sm_status append(sm_documents *documents, int64_t first, int64_t n) {
    if (documents->n == documents->cap) {
        const int64_t cap = documents->cap == 0 ? 256 : 2 * documents->cap;
        sm_document *grown = realloc(documents->all, (size_t)cap * sizeof *grown);
        SM_FAIL_IF(grown == NULL, SM_ERR_OOM, "no memory for %lld documents", (long long)cap);
        documents->all = grown;
        documents->cap = cap;
    }
    documents->all[documents->n++] = (sm_document){first, n};
    return SM_OK;
}

void sm_documents_free(sm_documents *documents) {
    free(documents->all);
    *documents = (sm_documents){.all = NULL};
}

// --- splitting --------------------------------------------------------------------------------------

// The documents found in the stream so far.
typedef struct {
    int64_t first; // of the current document
    int64_t n_positions;
} splitting;

static sm_status end_document(sm_documents *documents, splitting *s, int64_t end) {
    const int64_t n = end - s->first;
    s->first = end + 1;
    s->n_positions += n;
    documents->n_empty += n == 0;
    return n == 0 ? SM_OK : append(documents, end - n, n);
}

static sm_status split(const sm_tokens *tokens, int32_t separator, int64_t n_positions, sm_documents *documents) {
    enum { PIECE = 4096 };
    const int64_t count = sm_tokens_count(tokens);
    splitting s = {.first = 0};
    for (int64_t at = 0; at < count && s.n_positions < n_positions; at += PIECE) {
        int32_t ids[PIECE];
        const int64_t n = count - at < PIECE ? count - at : PIECE;
        SM_TRY(sm_tokens_read(tokens, at, n, ids));
        for (int64_t i = 0; i < n && s.n_positions < n_positions; i++) {
            SM_TRY(ids[i] == separator ? end_document(documents, &s, at + i) : SM_OK);
        }
    }
    const int64_t left = count - 1 - s.first; // the last token is only a target
    if (s.n_positions < n_positions && left > 0) {
        SM_TRY(append(documents, s.first, left));
    }
    return documents->n > 0
               ? SM_OK
               : sm_fail(SM_ERR_INVALID, "no documents: all of the %lld tokens are separators (%d), or all but one",
                         (long long)count, separator);
}

sm_status sm_documents_split(const sm_tokens *tokens, int32_t separator, int64_t n_positions, sm_documents *documents) {
    *documents = (sm_documents){.all = NULL};
    sm_status status = split(tokens, separator, n_positions, documents);
    if (status != SM_OK) {
        sm_documents_free(documents);
    }
    return status;
}

// --- drawing ----------------------------------------------------------------------------------------

static int64_t draw_length(int64_t least, int64_t most, uint64_t seed, int64_t i) {
    const sm_philox_block block = sm_philox4x32(sm_philox_key(seed, "documents"), (uint64_t)i, 0);
    const double share = block.word[0] * 0x1p-32;
    const int64_t length = (int64_t)((double)least * pow((double)(most + 1) / (double)least, share));
    return length > most ? most : length;
}

sm_status sm_documents_draw(const sm_tokens *tokens, int64_t least, int64_t most, uint64_t seed, int64_t n_positions,
                            sm_documents *documents) {
    const int64_t count = sm_tokens_count(tokens);
    int64_t first = 0;
    *documents = (sm_documents){.all = NULL};
    SM_FAIL_IF(least < 1 || most < least || most >= count, SM_ERR_INVALID,
               "--documents: of %lld to %lld tokens cannot be taken from %lld; give MIN-MAX with MIN at least 1, "
               "and MAX at least MIN and below that number",
               (long long)least, (long long)most, (long long)count);
    for (int64_t n = 0; n < n_positions; n += documents->all[documents->n - 1].n) {
        const int64_t length = draw_length(least, most, seed, documents->n);
        first = first + length + 1 > count ? 0 : first;
        sm_status status = append(documents, first, length);
        if (status != SM_OK) {
            sm_documents_free(documents);
            return status;
        }
        first += length;
    }
    return SM_OK;
}

// --- lengths ----------------------------------------------------------------------------------------

// Replaces the documents by their parts of at most T positions; first_alone: by the first part only; whole: by parts of
// exactly T.
static sm_status take_parts(sm_documents *documents, int64_t T, bool first_alone, bool whole) {
    sm_documents made = {.n_empty = documents->n_empty};
    sm_status status = SM_OK;
    for (int64_t i = 0; i < documents->n && status == SM_OK; i++) {
        const sm_document d = documents->all[i];
        int64_t used = 0;
        made.n_long += d.n > T;
        made.n_short += whole && d.n < T;
        while (used < d.n && (used == 0 || !first_alone) && (!whole || d.n - used >= T) && status == SM_OK) {
            const int64_t n = d.n - used < T ? d.n - used : T;
            status = append(&made, d.first + used, n);
            used += n;
        }
        made.n_tokens_unused += d.n - used;
    }
    sm_documents_free(status == SM_OK ? documents : &made);
    if (status == SM_OK) {
        *documents = made;
    }
    return status;
}

sm_status sm_documents_shorten(sm_documents *documents, int64_t T, sm_long_document how) {
    for (int64_t i = 0; i < documents->n && how == SM_LONG_REFUSE; i++) {
        SM_FAIL_IF(documents->all[i].n > T, SM_ERR_INVALID,
                   "document %lld has %lld tokens and a row %lld; give --long-documents cut or split, or a "
                   "longer --seq-len",
                   (long long)i + 1, (long long)documents->all[i].n, (long long)T);
    }
    return how == SM_LONG_REFUSE ? SM_OK : take_parts(documents, T, how == SM_LONG_CUT, false);
}

sm_status sm_documents_fill_rows(sm_documents *documents, int64_t T, sm_long_document how) {
    for (int64_t i = 0; i < documents->n && how == SM_LONG_REFUSE; i++) {
        SM_FAIL_IF(documents->all[i].n != T, SM_ERR_INVALID,
                   "document %lld has %lld tokens and a row %lld: without padding all must be equal; give "
                   "--long-documents cut or split, or another --padding",
                   (long long)i + 1, (long long)documents->all[i].n, (long long)T);
    }
    SM_TRY(how == SM_LONG_REFUSE ? SM_OK : take_parts(documents, T, how == SM_LONG_CUT, true));
    return documents->n > 0 ? SM_OK
                            : sm_fail(SM_ERR_INVALID, "no document fills a row of %lld tokens; give another --padding",
                                      (long long)T);
}
