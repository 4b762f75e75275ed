// step_page.h: one training step as a self-contained HTML page: style, frame and script are embedded in the program,
// the step's data are given.
#ifndef STEPMARK_LEARN_PAGE_STEP_PAGE_H
#define STEPMARK_LEARN_PAGE_STEP_PAGE_H

#include <jansson.h>
#include <stdio.h>

#include "plan.h"

// A plan whose memory is assigned, as memory and as a graph: {"ops": [{kind, phase, layer, in, out}], "tensors":
// [{name, role, bytes, root, arena, offset, first, end}], "arenas": [{role, bytes}]}. Operands are places among the
// tensors; a tensor holds data from op `first` until before op `end`.
json_t *sm_step_page_plan(const sm_plan *plan);

// The page; `data` is what its script reads (docs/page.md).
void sm_step_page_write(const json_t *data, FILE *out);

#endif
