// walk.h: a walk through the step: its events, and the values that they show.
#ifndef STEPMARK_CLI_LEARN_WALK_H
#define STEPMARK_CLI_LEARN_WALK_H

#include <jansson.h>

#include "cli/flags/options.h"
#include "cli/setup/session.h"
#include "src/models/model.h"
#include "src/rewrites/rewrite.h"

// --- events --------------------------------------------------------------------------------------

// What a walk emits, in this order: begin; then, op by op, `op` or, for a run of ops that are left out, `skip`; at
// last `end`. A writer makes something to read of it: text (learn/walk_text.c), JSON and records (learn/walk_json.c).
// All have the same numbers from here.

// The optimizer step that is walked; its settings are the optimizer's defaults.
enum { CLI_WALK_STEP = 1 };

// What is shown of a tensor's values.
enum { CLI_WALK_FIRST = 4 };

typedef struct {
    bool has;
    int64_t n_elems;
    int n_first; // of `first`
    double first[CLI_WALK_FIRST];
    double norm;        // L2
    const double *full; // n_elems, with --full; else NULL. Valid during the event
} cli_walk_data;

// What holds for all ops.
typedef struct {
    const cli_options *options;
    const sm_model_config *config;
    const sm_plan *plan;
    sm_mode mode;
    const int32_t *batch; // B*T tokens, then as many targets
    const char *weights;  // the command that makes these weights, or where they come from
    const char *data;     // likewise the tokens
    int n_shown;          // ops, of plan->n_ops
    bool has_values;

    // The values of a tensor before the first op: of parameters, the optimizer's state and the batch, with --full.
    const cli_walk_data *initial; // plan->n_tensors of them; NULL: none
} cli_walk_head;

// One op, and the values of its operands: inputs before it, outputs behind it and, of those that it adds to or
// updates, also before it.
typedef struct {
    const sm_plan *plan;
    int index;
    cli_walk_data in[SM_MAX_IN];
    cli_walk_data before[SM_MAX_OUT];
    cli_walk_data out[SM_MAX_OUT];
} cli_walk_op;

typedef struct cli_walk_writer {
    sm_status (*begin)(struct cli_walk_writer *writer, const cli_walk_head *head);
    sm_status (*op)(struct cli_walk_writer *writer, const cli_walk_op *op);
    sm_status (*skip)(struct cli_walk_writer *writer, const sm_plan *plan, sm_range ops);
    sm_status (*end)(struct cli_walk_writer *writer, const sm_plan *plan); // also after an op that failed,
    bool ends_only_whole;                                                  // but for writers that say so
    struct sm_record_writer *records;                                      // learn/walk_json.c
    struct cli_page_step *page;                                            // learn/page_step.c
    bool shows_values;
    int last_layer; // learn/walk_text.c: of the op before, and its range; -2: none
    int last_range;
} cli_walk_writer;

// Walks the step that the options ask for, and gives its events to the writer.
sm_status cli_walk_with(const cli_options *options, cli_walk_writer *writer);

// What JSON has of them; the caller owns it. NULL: out of memory.
json_t *cli_walk_head_json(const cli_walk_head *head);
json_t *cli_walk_op_json(const cli_walk_op *event);

cli_walk_writer cli_walk_text_writer(void);
cli_walk_writer cli_walk_json_writer(void);
cli_walk_writer cli_walk_record_writer(void); // csv, jsonl, sql: ops alone

// "writes", "adds to" or "updates".
const char *cli_walk_access(const sm_op *op, int output);

// --- values --------------------------------------------------------------------------------------

// A plan run op by op on the reference backend, for its numbers.

typedef struct cli_walk_values cli_walk_values;

// The batch: of --text, or the first of --data, or random tokens of --seed: B*T, then as many targets; a token's target
// is the token after it. The caller frees them.
sm_status cli_walk_read_batch(const cli_options *options, const sm_plan *plan, int32_t **batch);

// Opens the reference backend with the weights of --weights, or fresh ones of --seed, and that batch. Takes the plan
// over, also when it fails. The plan may be read (never changed) through *values until it is freed.
sm_status cli_walk_values_open(const cli_options *options, sm_plan *plan, const sm_model_config *config,
                               const int32_t *batch, cli_walk_values **values);
void cli_walk_values_free(cli_walk_values *values); // NULL is fine

// With --full: what is in memory before the first op, a cli_walk_data a tensor; valid until the values are freed.
sm_status cli_walk_values_initial(cli_walk_values *values, const cli_walk_data **initial);

// Executes one op and fills the data of an event. Ops are executed in their order. `shown` is false where nobody looks
// at the data.
sm_status cli_walk_values_execute(cli_walk_values *values, bool shown, cli_walk_op *event);

#endif
