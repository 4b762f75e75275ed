// documents.h: where the documents of a stream of tokens are.
//
// A document of n positions is n tokens of the stream; the target of each is the token that follows it there. So the
// separator between two documents is the target of the first one's last token, and an input of none. Two separators in
// a row, or one at the begin of the stream, make an empty document: it has nothing to predict from, and is left out and
// counted. A last document without a separator after it is one position shorter than its tokens.
#ifndef STEPMARK_SRC_DOCUMENTS_DOCUMENTS_H
#define STEPMARK_SRC_DOCUMENTS_DOCUMENTS_H

#include "src/io/tokens.h"

typedef struct {
    int64_t first; // token of the stream
    int64_t n;     // positions, >= 1
} sm_document;

typedef struct {
    sm_document *all; // in the stream's order
    int64_t n;
    int64_t cap;
    int64_t n_empty;         // left out
    int64_t n_long;          // that were cut or split
    int64_t n_short;         // that were left out since they do not fill a row
    int64_t n_tokens_unused; // of all of these
} sm_documents;

// The treatment of a document that does not fit a row of T positions. X(code, name)
#define SM_LONG_LIST(X)         \
    X(SM_LONG_REFUSE, "refuse") \
    X(SM_LONG_CUT, "cut")       \
    X(SM_LONG_SPLIT, "split")

typedef enum {
#define X(code, name) code,
    SM_LONG_LIST(X)
#undef X
} sm_long_document;

const char *sm_long_document_name(sm_long_document how);

// The documents at the beginning of the stream, until they have n_positions or it ends. SM_ERR_INVALID: there is none,
// or `separator` is outside the vocabulary.
sm_status sm_documents_split(const sm_tokens *tokens, int32_t separator, int64_t n_positions, sm_documents *documents);

// Documents of n_positions together or a few more: neighbouring parts of the stream, which is begun again where it
// ends. Their lengths are drawn from least..most, each power of two of them as often as the next: short ones are many.
// Their mean is near (most - least) / ln(most / least).
sm_status sm_documents_draw(const sm_tokens *tokens, int64_t least, int64_t most, uint64_t seed, int64_t n_positions,
                            sm_documents *documents);

void sm_documents_free(sm_documents *documents);

// Makes all at most T positions long. cut: the first T of a longer one; split: documents of T, and the rest. refuse:
// SM_ERR_INVALID names the first longer one.
sm_status sm_documents_shorten(sm_documents *documents, int64_t T, sm_long_document how);

// Makes all exactly T positions long, where no position may be padding. cut: the first T; split: as often as it has T;
// shorter ones are left out. refuse: SM_ERR_INVALID names the first of another length. SM_ERR_INVALID: none is left.
sm_status sm_documents_fill_rows(sm_documents *documents, int64_t T, sm_long_document how);

#endif
