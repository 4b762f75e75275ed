// spot_check.h: checks a device's results at places that are not known in advance. While a step runs in pieces, ops
// drawn by a seed are checked: the host reads their operands from the device and computes again, in double or with the
// reference backend:
//
//   rows       drawn from all sequences and every quarter of T: of normalisations, pointwise ops, losses, embeddings,
//              attention (a head's row each: outputs and gradients of queries, keys and values)
//   products   as wholes (Freivalds 1977): y r against x (W r) for a vector r of random signs, which finds a wrong or
//              missing part in any row; and drawn elements by themselves
//   sums       gradients of biases and norms, the gradient norm: over all rows
//   updates    are the subject of step_checks.h
//
// So a kernel that omits a sequence, a head, a tile, a position, or everything, is found with a probability that grows
// with the omitted part, at a cost that grows with T like the op's memory, not like its work.
#pragma once

#include "src/session/session.h"

typedef struct sm_spot_check sm_spot_check;

typedef struct {
    int64_t n_ops;      // checked
    int64_t n_values;   // numbers compared
    int n_kinds;        // of op that were checked
    int least_looks;    // of any of them
    int64_t elapsed_ns; // of the checks alone
    double error;       // the largest difference relative to the tolerance; 1 is the limit
    char error_at[64];  // its place: "gelu_forward y, op 17"
} sm_spot_result;

// The draws depend only on the seed. SM_ERR_OOM.
sm_status sm_spot_check_new(const sm_plan *plan, uint64_t seed, sm_spot_check **check);
void sm_spot_check_free(sm_spot_check *check); // NULL is fine

// sm_session_run in pieces: checks two drawn ops of each kind in these phases, or all if there are fewer.
// SM_ERR_MISMATCH names the wrong op and operand.
sm_status sm_spot_check_run(sm_spot_check *check, sm_session *session, unsigned phases, int64_t *op_ns);

// Totals of all runs so far; NULL: none.
sm_spot_result sm_spot_check_result(const sm_spot_check *check);
