// documents.h: finds the documents in a stream of tokens.
//
// A document of n positions is n tokens of the stream; the target of each is the token that follows it there. So the
// separator between two documents is the target of the first one's last token, and never an input. Two separators in a
// row, or one at the beginning of the stream, make an empty document, which is left out and counted. A last document
// without a separator has one position fewer than tokens.
#ifndef STEPMARK_SRC_DOCUMENTS_DOCUMENTS_H
#define STEPMARK_SRC_DOCUMENTS_DOCUMENTS_H

#include "words.h"
#include "src/data/tokens.h"

typedef struct {
    int64_t first; // token of the stream
    int64_t n;     // positions, >= 1
} sm_document;

typedef struct {
    sm_document *all; // in the stream's order
    int64_t n;
    int64_t cap;
    int64_t n_empty;         // empty documents, left out
    int64_t n_long;          // documents that were cut or split
    int64_t n_short;         // left out because they do not fill a row
    int64_t n_tokens_unused; // in all documents left out or cut
} sm_documents;

// Ways to treat a document that does not fit a row of T positions. X(code, name)
#define SM_LONG_LIST(X)         \
    X(SM_LONG_REFUSE, "refuse") \
    X(SM_LONG_CUT, "cut")       \
    X(SM_LONG_SPLIT, "split")

typedef enum { SM_LONG_LIST(SM_CODE) } sm_long_document;

const char *sm_long_document_name(sm_long_document how);

// Finds documents from the beginning of the stream until they have n_positions or it ends. SM_ERR_INVALID: there is
// none, or `separator` is outside the vocabulary. The caller frees *documents, also after a failure.
sm_status sm_documents_split(const sm_tokens *tokens, int32_t separator, int64_t n_positions, sm_documents *documents);

// Draws neighbouring parts of the stream, which starts again at its end, until they have at least n_positions. Lengths
// are log-uniform in least..most, so short documents are frequent: the mean is near (most - least) / ln(most / least).
sm_status sm_documents_draw(const sm_tokens *tokens, int64_t least, int64_t most, uint64_t seed, int64_t n_positions,
                            sm_documents *documents);

void sm_documents_free(sm_documents *documents);

// Makes every document at most T long or, if is_whole, exactly T, for rows without padding. cut: keeps the first T
// positions; split: makes documents of T, and one of the rest, which is_whole leaves out, as shorter documents. refuse:
// SM_ERR_INVALID names the first that does not fit. SM_ERR_INVALID: is_whole leaves none.
sm_status sm_documents_shorten(sm_documents *documents, int64_t T, bool is_whole, sm_long_document how);

#endif
