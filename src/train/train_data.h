// train_data.h: the sequences of a training, a step ahead: a thread reads those of the next step while this one is
// computed.
#ifndef STEPMARK_TRAIN_DATA_H
#define STEPMARK_TRAIN_DATA_H

#include "background.h"
#include "data_order.h"
#include "tokens.h"

typedef struct {
    const sm_tokens *tokens;
    sm_data_order order;
    int64_t T;
    int64_t stride; // sequences a step, of all processes
    int64_t first;  // of these, the first that this process takes
    int64_t n;      // and how many
} sm_train_share;

typedef struct sm_train_data sm_train_data;

// Begins to read what step `step` = 1, 2, ... takes.
sm_status sm_train_data_open(const sm_train_share *share, int64_t step, const sm_background *background,
                             sm_train_data **data);
void sm_train_data_close(sm_train_data *data); // NULL is fine

// The inputs and targets of the step after the last that was asked for, n x T each; they stay until the next call, and
// the step behind it is being read. *waited_ns: for the reading.
sm_status sm_train_data_next(sm_train_data *data, const int32_t **inputs, const int32_t **targets, int64_t *waited_ns);

#endif
