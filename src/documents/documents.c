// documents.c: finds documents in a stream, or draws them.
#include "src/documents/documents.h"

#include <math.h>

#include "philox.h"

SM_WORDS(sm_long_document_name, sm_long_document, SM_LONG_LIST)

static void append(sm_documents *documents, int64_t first, int64_t n) {
    SM_PUSH(documents->all, documents->n, (sm_document){first, n});
}

void sm_documents_free(sm_documents *documents) {
    free(documents->all);
    *documents = (sm_documents){.all = NULL};
}

sm_status sm_documents_split(const sm_tokens *tokens, int32_t separator, int64_t n_positions, sm_documents *documents) {
    enum { PIECE = 4096 };
    *documents = (sm_documents){.all = NULL};
    const int64_t count = sm_tokens_count(tokens);
    int64_t first = 0; // of the current document
    int64_t n_found = 0;
    for (int64_t at = 0; at < count && n_found < n_positions; at += PIECE) {
        int32_t ids[PIECE];
        const int64_t n = count - at < PIECE ? count - at : PIECE;
        SM_TRY(sm_tokens_read(tokens, at, n, ids));
        for (int64_t i = 0; i < n && n_found < n_positions; i++) {
            if (ids[i] == separator) {
                const int64_t length = at + i - first;
                if (length > 0) {
                    append(documents, first, length);
                }
                n_found += length;
                first = at + i + 1;
            }
        }
    }
    if (n_found < n_positions && count - 1 - first > 0) { // the last token is only a target
        append(documents, first, count - 1 - first);
    }
    SM_FAIL_IF(documents->n == 0, SM_ERR_INVALID,
               "no documents: all of the %lld tokens are separators (%d), or all but one", (long long)count, separator);
    return SM_OK;
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
        append(documents, first, length);
        first += length;
    }
    return SM_OK;
}

// --- lengths ----------------------------------------------------------------------------------------

// Replaces the documents by their parts of at most T positions; first_alone: by the first; whole: by full ones.
static void take_parts(sm_documents *documents, int64_t T, bool first_alone, bool whole) {
    sm_documents made = {.n = 0};
    for (int64_t i = 0; i < documents->n; i++) {
        const sm_document d = documents->all[i];
        int64_t used = 0;
        while (used < d.n && (used == 0 || !first_alone) && (!whole || d.n - used >= T)) {
            const int64_t n = d.n - used < T ? d.n - used : T;
            append(&made, d.first + used, n);
            used += n;
        }
    }
    sm_documents_free(documents);
    *documents = made;
}

sm_status sm_documents_shorten(sm_documents *documents, int64_t T, bool is_whole, sm_long_document how) {
    if (how != SM_LONG_REFUSE) {
        take_parts(documents, T, how == SM_LONG_CUT, is_whole);
    }
    for (int64_t i = 0; i < documents->n && how == SM_LONG_REFUSE; i++) {
        const int64_t n = documents->all[i].n;
        SM_FAIL_IF(n > T || (is_whole && n < T), SM_ERR_INVALID,
                   "document %lld has %lld tokens and a row %lld%s; give --long-documents cut or split, or %s",
                   (long long)i + 1, (long long)n, (long long)T, is_whole ? ": without padding all must be equal" : "",
                   is_whole ? "another --padding" : "a longer --seq-len");
    }
    SM_FAIL_IF(is_whole && documents->n == 0, SM_ERR_INVALID,
               "no document fills a row of %lld tokens; give another --padding", (long long)T);
    return SM_OK;
}
