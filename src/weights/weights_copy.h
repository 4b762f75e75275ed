// weights_copy.h: a copy of a session's parameters and optimizer state in host memory, as f32, which can be written
// while the session continues.
#ifndef STEPMARK_SRC_WEIGHTS_WEIGHTS_COPY_H
#define STEPMARK_SRC_WEIGHTS_WEIGHTS_COPY_H

#include "src/session/session.h"

typedef struct sm_weights_copy sm_weights_copy;

// Allocates a copy of everything that sm_weights_save would write for a plan; the plan must outlive it.
sm_status sm_weights_copy_open(const sm_plan *plan, sm_weights_copy **copy);
void sm_weights_copy_close(sm_weights_copy *copy); // NULL is fine

// Waits for the session, whose plan must be that of the copy, and copies everything.
sm_status sm_weights_copy_take(sm_weights_copy *copy, sm_session *session);

// With a sharded optimizer state, the other processes call this while one of them takes a copy: they send their parts.
sm_status sm_weights_copy_help(sm_session *session);

const sm_plan *sm_weights_copy_plan(const sm_weights_copy *copy);
const float *sm_weights_copy_values(const sm_weights_copy *copy, int tensor); // of a parameter or a state

#endif
