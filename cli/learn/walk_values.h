// walk_values.h: a plan run op by op on the reference backend, for its numbers.
#ifndef STEPMARK_CLI_LEARN_WALK_VALUES_H
#define STEPMARK_CLI_LEARN_WALK_VALUES_H

#include "cli/learn/walk_event.h"
#include "cli/setup/session.h"

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
