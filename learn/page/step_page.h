// step_page.h: one training step as a self-contained HTML page: style, frame and script are embedded in the program,
// the step's data are given: plans, and the changes of memory in the step.
#pragma once

#include <jansson.h>

#include "plan.h"

// A plan whose memory is assigned, as memory and as a graph: {"ops": [{kind, phase, layer, in, out}], "tensors":
// [{name, role, bytes, root, arena, offset, first, end}], "arenas": [{role, bytes}]}. Operands are places among the
// tensors; a tensor holds data from op `first` until before op `end`.
json_t *sm_step_page_plan(const sm_plan *plan);

// Writes the page; `data` (json_t) is what its script reads (docs/page.md).
sm_status sm_step_page_write(void *data, FILE *out);

// --- the changes of memory -----------------------------------------------------------------------

// A film sees everything that an op reads or writes, and keeps only new values: for every tensor with its own memory,
// the values that changed, and when. So any tensor at any moment can be reconstructed exactly from the changes of its
// root up to that moment. Values are floats, the widest type of such a plan.
typedef struct sm_film sm_film;

// The most values that a film of one step keeps: the plan's parameters, and the results of its ops; of memory with more
// than `slice_elems` (0: no limit) slices of its tensors (below), each with a memory of its own.
double sm_film_elems(const sm_plan *plan, int64_t slice_elems);

// The plan must outlive the recording.
sm_film *sm_film_new(const sm_plan *plan, int64_t slice_elems);
void sm_film_free(sm_film *film); // NULL is fine

// Moments: 2 i is before op i, 2 i + 1 after it. They must ascend. `values` are those of the slice, if there is one.
sm_status sm_film_see(sm_film *film, int moment, int tensor, const double *values);

// {"changes": [[moment, root tensor, offset, n, place], ...], "values": text}: place is where the n new values begin
// among all values, and -1 where they are all one number, the sixth member. The text is base64 of little-endian floats.
json_t *sm_film_json(const sm_film *film);

// A text of these bytes in base64.
json_t *sm_base64_json(const char *bytes, size_t size_bytes);

// The part of a large tensor that a page shows: its first rows and columns.

// Whether a tensor is shown apart from the memory that it is a part of, because this has more than `most_elems`; then
// dims are those of its slice, which may be all of it: so are logits that fit a page, since the text is told by them.
// 0: no limit.
bool sm_page_slice(const sm_plan *plan, int tensor, int64_t most_elems, int64_t dims[SM_MAX_DIMS]);

// Number of elements shown.
int64_t sm_page_slice_elems(const sm_plan *plan, int tensor, int64_t most_elems);

// Place in the tensor of element i of its slice.
int64_t sm_page_slice_place(const sm_tensor *tensor, const int64_t dims[SM_MAX_DIMS], int64_t i);
