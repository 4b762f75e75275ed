// documents.h: finds the documents in a stream of tokens, and makes batches of them.
//
// A document of n positions is n tokens of the stream; the target of each is the token that follows it there. So the
// separator between two documents is the target of the first one's last token, and never an input. Two separators in a
// row, or one at the beginning of the stream, make an empty document, which is left out and counted. A last document
// without a separator has one position fewer than tokens.
#pragma once

#include "src/data/tokens.h"

typedef struct {
    int64_t first; // token of the stream
    int64_t n;     // positions, >= 1
} sm_document;

typedef struct {
    sm_document *all; // in the stream's order
    int64_t n;
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

// --- batches ----------------------------------------------------------------------------------------

// Puts documents of different length into batches of B rows of T positions, all of one plan.
//
// A plan has one B and T, and every batch has B T positions, so each step does the same work for any documents; padding
// costs as much as text and is counted. A row is cut into slots; a document begins at the start of its slot and attends
// only to itself (`starts`, include/op_table.h); positions of padding have no target and attend only to themselves.
//
//     max      a slot is a row                              |aaaaa...........|  |bbb.............|
//     batch    slots as long as the longest document of the batch: as many documents, in their order, as fit so
//                                                           |aaaaa|bbb..|....|  |cccc.|dd...|....|
//     bucket   documents of T/2 + 1 to T share batches of one slot a row, of T/3 + 1 to T/2 those of two, and so on, up
//              to 16; a batch comes when it is full         |aaaaa...|ccccccc|  |bbb.|dd..|eee.|f..|
//     packed   no slots: first fit. A document goes into the first row that has room, of at most 64 that are open; when
//              none has, and as many are open, the fullest is closed
//                                                           |aaaaabbbdd......|  |ccccccceeeeeeeef|
//     none     every document is a row of exactly T positions

// X(code, name)
#define SM_PADDING_LIST(X)         \
    X(SM_PADDING_NONE, "none")     \
    X(SM_PADDING_BATCH, "batch")   \
    X(SM_PADDING_MAX, "max")       \
    X(SM_PADDING_BUCKET, "bucket") \
    X(SM_PADDING_PACKED, "packed")

typedef enum { SM_PADDING_LIST(SM_CODE) } sm_padding;

const char *sm_padding_name(sm_padding padding);

// The place of a document.
typedef struct {
    int64_t batch, row, column;
    sm_document document;
} sm_placement;

typedef struct {
    int64_t B, T;
    sm_padding padding; // none: positions need no start of their document
    int64_t n_batches;
    sm_placement *placements; // ordered by batch
    int64_t n;
    int64_t *first_of; // first placement of each batch, n_batches + 1 entries
} sm_collation;

// Makes at most max_batches batches; no document may be longer than T. The last documents are dropped if they do not
// fill a batch, unless it is the only one: it is then filled up with padding. So no batch is empty.
sm_status sm_collate(const sm_documents *documents, int64_t B, int64_t T, sm_padding padding, int64_t max_batches,
                     sm_collation *collation);
void sm_collation_free(sm_collation *collation);

// Fills a batch: inputs, targets and starts (B,T). Inputs of padding are token 0. Adds the cost of reading to *cost,
// which may be NULL. Several threads may fill at once.
sm_status sm_collation_fill(const sm_collation *collation, const sm_tokens *tokens, int64_t batch, int32_t *inputs,
                            int32_t *targets, int32_t *starts, sm_tokens_cost *cost);

// The real tokens of a batch, and its pairs of a position and one that it attends to, padding included.
int64_t sm_collation_real_tokens(const sm_collation *collation, int64_t batch);
int64_t sm_collation_pairs(const sm_collation *collation, int64_t batch);
