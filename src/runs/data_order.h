// data_order.h: the order in which a training reads sequences of the data. A sequence is T tokens, and the targets
// shifted by one: sequence i begins at token i T, and the data hold (tokens - 1) / T of them; the rest is never read.
// With documents, a sequence is a batch of them (src/documents/collate.h), since the documents of a batch belong
// together.
//
// Sequence number k = 0, 1, ... of a training is the (k mod n)-th of epoch k / n, in the order of that epoch: as in the
// file, or a permutation that depends only on seed and epoch. So a step reads the same sequences with any number of
// processes, and the position in the data is one number.
#ifndef STEPMARK_SRC_RUNS_DATA_ORDER_H
#define STEPMARK_SRC_RUNS_DATA_ORDER_H

#include <stdint.h>

#include "words.h"

// X(code, name)
#define SM_ORDER_LIST(X)                 \
    X(SM_ORDER_SEQUENTIAL, "sequential") \
    X(SM_ORDER_SHUFFLED, "shuffled")

typedef enum { SM_ORDER_LIST(SM_CODE) } sm_order_kind;

typedef struct {
    sm_order_kind kind;
    uint64_t seed;
    int64_t n_sequences; // in an epoch, at least 1
} sm_data_order;

const char *sm_order_name(sm_order_kind kind);

// The index in the data of sequence number k: 0 .. n_sequences - 1.
int64_t sm_data_order_at(const sm_data_order *order, int64_t k);

#endif
