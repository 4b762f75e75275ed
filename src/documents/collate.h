// collate.h: from documents of different length to batches of B rows of T positions, all of one plan.
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
#ifndef STEPMARK_SRC_DOCUMENTS_COLLATE_H
#define STEPMARK_SRC_DOCUMENTS_COLLATE_H

#include "words.h"
#include "src/documents/documents.h"

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
    int64_t n, cap;
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

#endif
