// learn.h: a walk through the step: its events, and the values in them; pages; exercises.
#pragma once

#include "cli/measure/measure.h"
#include "learn/exercise/exercise.h"
#include "learn/live/live.h"

// The events of a walk, in this order: begin; then `op` for each op or `skip` for a run of omitted ops; finally `end`.
// A writer turns them into text, or JSON and records (learn/walk_write.c), all with the same numbers.

// The optimizer step that is walked, 1, 2, ...; its settings are the optimizer's defaults.
static inline int64_t cli_walk_step(const cli_options *options) {
    return 1 + (options->walk.train_steps > 0 ? options->walk.train_steps : 0);
}

// The values of a tensor.
enum { CLI_WALK_FIRST = 4 };

typedef struct {
    bool has;
    int64_t n_elems;
    int n_first; // of `first`
    double first[CLI_WALK_FIRST];
    double norm;        // L2
    const double *full; // n_elems, with --full; else NULL. Valid during the event
} cli_walk_data;

// A walk: its step, and where the numbers come from.
enum { CLI_WALK_OPERANDS = SM_MAX_IN + SM_MAX_OUT, CLI_WALK_ROOMS = 2 * CLI_WALK_OPERANDS };

typedef struct {
    const cli_options *options;
    cli_job job;
    const sm_plan *plan;           // owned by cli_walk_with or by `live`
    int32_t *batch;                // B*T tokens, then as many targets
    char weights[PATH_MAX];        // the command that makes these weights, or their source
    char data[PATH_MAX];           // likewise for the tokens
    int n_shown;                   // of plan->n_ops ops
    sm_live *live;                 // NULL: no values
    double *rooms[CLI_WALK_ROOMS]; // with --full: one for each operand of an op; allocated when needed

    // With --full: values before the first op, of parameters, the optimizer's state and the batch.
    cli_walk_data *initial; // plan->n_tensors of them; NULL: none
} cli_walk_state;

// An operand of an op, and its values: an input's before the op, an output's after it; `before`: if the op reads it, too.
typedef struct {
    const sm_operand_info *info;
    const char *access; // "reads", "writes", "adds to" or "updates"
    int tensor;
    cli_walk_data before, data;
} cli_walk_operand;

typedef struct {
    const sm_plan *plan;
    int index;
    cli_walk_operand operands[CLI_WALK_OPERANDS]; // inputs, then outputs
    int n_operands, n_inputs;
} cli_walk_op;

typedef struct cli_walk_writer {
    sm_status (*begin)(struct cli_walk_writer *writer, const cli_walk_state *walk);
    sm_status (*op)(struct cli_walk_writer *writer, const cli_walk_op *op);
    sm_status (*skip)(struct cli_walk_writer *writer, const sm_plan *plan, sm_range ops); // NULL: says nothing
    sm_status (*end)(struct cli_walk_writer *writer, const sm_plan *plan); // also called after an op that failed,
    bool ends_only_whole;                                                  // unless this is set
    struct sm_record_writer *records;                                      // learn/walk_write.c
    bool is_object;                                                        // likewise
    struct cli_step_page *page;                                            // learn/page.c
    json_t *losses; // gets the loss of this step and of a few after it on the same batch; NULL: not asked
    int last_layer; // learn/walk_write.c: layer and range of the op before; -2: none
    int last_range;
} cli_walk_writer;

// Walks through the step of the options, with this writer.
sm_status cli_walk_with(const cli_options *options, cli_walk_writer *writer);

// The JSON of what begins a walk, and of an op, with their values of --full where `has_values`; the caller owns it.
json_t *cli_walk_head_json(const cli_walk_state *walk, bool has_values);
json_t *cli_walk_op_json(const cli_walk_op *event, bool has_values);

cli_walk_writer cli_walk_text_writer(void);
cli_walk_writer cli_walk_record_writer(void); // json; csv, jsonl: only ops

// A page of a step of the smallest model in which this kernel runs, for `exercise --page`.
sm_status cli_page_of_kernel(const char *path, const char *file, sm_op_kind kind);
