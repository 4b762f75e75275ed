// validation.h: the mean loss over a fixed set of sequences, or of documents.
#ifndef STEPMARK_VALIDATION_H
#define STEPMARK_VALIDATION_H

#include "src/comm/comm.h"
#include "src/documents/collate.h"
#include "src/io/tokens.h"
#include "src/session/session.h"

typedef struct {
    const sm_tokens *tokens;
    const sm_collation *collation; // of documents; NULL: none
    int64_t n_batches;             // of the session's B x T, in the order of the file or of the collation
    sm_session *trained;           // whose weights are looked at
    sm_session *session;           // computes: `trained`, or another session of the same B and T that gets its weights
    sm_comm *comm;                 // among whose processes the batches are dealt out
} sm_validation;

// Batches of B x T that the tokens, or their documents, have.
int64_t sm_validation_batches(const sm_tokens *tokens, const sm_collation *collation, int64_t B, int64_t T);

// The mean over the batches' tokens, padding left out, and their number. *loss is the same for every number of
// processes: batches' losses are added up in their order. It may be not finite.
sm_status sm_validation_run(const sm_validation *validation, double *loss, int64_t *n_tokens);

#endif
