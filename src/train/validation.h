// validation.h: the mean loss over a fixed set of sequences, or of documents.
#ifndef STEPMARK_VALIDATION_H
#define STEPMARK_VALIDATION_H

#include "src/comm/comm.h"
#include "src/documents/collate.h"
#include "src/data/tokens.h"
#include "src/session/session.h"

typedef struct {
    const sm_tokens *tokens;
    const sm_collation *collation; // documents; NULL: none
    int64_t n_batches;             // batches of the session's B x T, in the order of the file or of the collation
    sm_session *trained;           // the session with the weights
    sm_session *session;           // the session that computes: `trained`, or another with the same B and T, which gets
                                   // its weights
    sm_comm *comm;                 // the processes that share the batches
} sm_validation;

// The number of batches of B x T in the tokens, or their documents.
int64_t sm_validation_batches(const sm_tokens *tokens, const sm_collation *collation, int64_t B, int64_t T);

// The mean loss over the batches' tokens without padding, and their number. *loss does not depend on the number of
// processes: batches' losses are added in order. It may be not finite.
sm_status sm_validation_run(const sm_validation *validation, double *loss, int64_t *n_tokens);

#endif
