// memory_changes.h: the changes of memory in a step: of every tensor with memory of its own the values that changed,
// and when.
//
// Everything that an op reads or writes is shown to the film; it keeps only new values. So any tensor at any moment is
// made again exactly: changes of its root up to that moment, in their order. Values are float, as a plan's are at most.
#ifndef STEPMARK_LEARN_PAGE_MEMORY_CHANGES_H
#define STEPMARK_LEARN_PAGE_MEMORY_CHANGES_H

#include <jansson.h>

#include "plan.h"

typedef struct sm_film sm_film;

// Values that a film of one step of the plan keeps at most: its parameters, and what its ops write.
double sm_film_elems(const sm_plan *plan);

// The plan is there as long as something is seen.
sm_status sm_film_new(const sm_plan *plan, sm_film **film);
void sm_film_free(sm_film *film); // NULL is fine

// Moments: 2 i is before op i, 2 i + 1 behind it. They come in their order.
sm_status sm_film_see(sm_film *film, int moment, int tensor, const double *values);

// {"changes": [[moment, root tensor, offset, n, place], ...], "values": text}: place is where the n new values begin
// among all values, and -1 where they are all one number, the sixth member. The text is base64 of floats, the lowest
// byte first. NULL: out of memory.
json_t *sm_film_json(const sm_film *film);

#endif
