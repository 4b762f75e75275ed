// page.h: the parts of a step's page: the walk as data, its kinds of ops, its time on devices.
#ifndef STEPMARK_CLI_LEARN_PAGE_H
#define STEPMARK_CLI_LEARN_PAGE_H

#include <jansson.h>

#include "cli/flags/options.h"
#include "cli/learn/walk.h"

// A walk's writer that collects data; after a walk `data` has "walk" (`walk -o json` without values), "film" (the
// values, memory_changes.h) and "plan" (step_page.h).
typedef struct cli_page_step cli_page_step;
void cli_page_step_new(json_t *data, cli_page_step **step);
void cli_page_step_free(cli_page_step *step); // NULL is fine
cli_walk_writer cli_page_writer(cli_page_step *step);

// For each kind of op in the plans (ending with NULL): {"text", "sources": [{"backend", "file"}]}: its section of
// docs/equations.md, and the files that compute it, whose texts it adds to `files`. `tier` is the family of OpenCL
// kernels to show.
json_t *cli_page_kinds(const sm_plan *const *plans, const char *tier, json_t *files);

// The step on each device of --backend: [{"device", "name", ..., "status", "ops": [{"self_ns", "roofline_ns",
// "bound"}]}]; a device that could not be timed has a status and a reason. *tier is that of the first OpenCL device, or
// of a processor. Ceilings are for operands as large as all tensors of `plan`.
sm_status cli_page_times(const cli_options *options, const sm_plan *plan, json_t **times, const char **tier);

#endif
