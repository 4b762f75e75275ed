// walk.h: a walk through the step: its events, and the values in them.
#ifndef STEPMARK_CLI_LEARN_WALK_H
#define STEPMARK_CLI_LEARN_WALK_H

#include <jansson.h>

#include "cli/flags/options.h"
#include "cli/setup/session.h"
#include "src/models/model.h"
#include "src/rewrites/rewrite.h"

// --- events --------------------------------------------------------------------------------------

// The events of a walk, in this order: begin; then `op` for each op or `skip` for a run of omitted ops; finally `end`.
// A writer turns them into text (learn/walk_text.c), or JSON and records (learn/walk_json.c), all with the same
// numbers.

// The optimizer step that is walked; its settings are the optimizer's defaults.
enum { CLI_WALK_STEP = 1 };

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

// Facts about all ops.
typedef struct {
    const cli_options *options;
    const sm_model_config *config;
    const sm_plan *plan;
    sm_mode mode;
    const int32_t *batch; // B*T tokens, then as many targets
    const char *weights;  // the command that makes these weights, or their source
    const char *data;     // likewise for the tokens
    int n_shown;          // of plan->n_ops ops
    bool has_values;

    // With --full: values before the first op, of parameters, the optimizer's state and the batch.
    const cli_walk_data *initial; // plan->n_tensors of them; NULL: none
} cli_walk_head;

// One op, and the values of its operands: inputs before it, outputs after it, and also before it if it adds to or
// updates them.
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
    sm_status (*end)(struct cli_walk_writer *writer, const sm_plan *plan); // also called after an op that failed,
    bool ends_only_whole;                                                  // unless this is set
    struct sm_record_writer *records;                                      // learn/walk_json.c
    struct cli_page_step *page;                                            // learn/page_step.c
    bool shows_values;
    int last_layer; // learn/walk_text.c: layer and range of the op before; -2: none
    int last_range;
} cli_walk_writer;

// Walks through the step of the options, with this writer.
sm_status cli_walk_with(const cli_options *options, cli_walk_writer *writer);

// The JSON of a head; the caller owns it.
json_t *cli_walk_head_json(const cli_walk_head *head);
json_t *cli_walk_op_json(const cli_walk_op *event);

cli_walk_writer cli_walk_text_writer(void);
cli_walk_writer cli_walk_json_writer(void);
cli_walk_writer cli_walk_record_writer(void); // csv, jsonl: only ops

// "writes", "adds to" or "updates".
const char *cli_walk_access(const sm_op *op, int output);

// --- values --------------------------------------------------------------------------------------

// A plan run op by op on the reference backend, for its numbers.

typedef struct cli_walk_values cli_walk_values;

// The batch: of --text, or the first of --data, or random tokens of --seed: B*T tokens, then as many targets; a token's
// target is the next token. The caller frees them.
sm_status cli_walk_read_batch(const cli_options *options, const sm_plan *plan, int32_t **batch);

// Opens the reference backend with the weights of --weights, or initial ones of --seed, and that batch. Takes ownership
// of the plan, also after a failure. The plan may be read through *values until that is freed.
sm_status cli_walk_values_open(const cli_options *options, sm_plan *plan, const sm_model_config *config,
                               const int32_t *batch, cli_walk_values **values);
void cli_walk_values_free(cli_walk_values *values); // NULL is fine

// With --full: the memory before the first op, one cli_walk_data for each tensor; valid until the values are freed.
sm_status cli_walk_values_initial(cli_walk_values *values, const cli_walk_data **initial);

// Executes one op and fills an event's data. Call it for all ops in order. `shown` false: the data are not needed.
sm_status cli_walk_values_execute(cli_walk_values *values, bool shown, cli_walk_op *event);

#endif
