// cli_walk_values.h: a plan run op by op on the reference backend, for its numbers.
#ifndef STEPMARK_CLI_WALK_VALUES_H
#define STEPMARK_CLI_WALK_VALUES_H

#include "cli_session.h"

typedef struct cli_walk_values cli_walk_values;

// The optimizer step that is walked; its settings are the optimizer's defaults.
enum { CLI_WALK_STEP = 1 };

// Random tokens of `seed`: B*T, then as many targets; a token's target is the token after it. The caller frees them.
sm_status cli_walk_draw_batch(const sm_plan *plan, uint64_t seed, int32_t **batch);

// Opens the reference backend with fresh weights of `seed` and that batch. Takes the plan over, also when it fails.
// The plan may be read (never changed) through *values until it is freed.
sm_status cli_walk_values_open(sm_plan *plan, const sm_model_config *config, uint64_t seed, const int32_t *batch,
                               cli_walk_values **values);
void cli_walk_values_free(cli_walk_values *values); // NULL is fine

// Executes one op. Ops are executed in their order.
sm_status cli_walk_values_execute(cli_walk_values *values, int op);

// What is printed of a tensor.
enum { CLI_WALK_FIRST = 4 };

typedef struct {
    int64_t n_elems;
    int n_first; // of `first`
    double first[CLI_WALK_FIRST];
    double norm; // L2
} cli_walk_summary;

sm_status cli_walk_values_summarise(cli_walk_values *values, int tensor, cli_walk_summary *summary);

#endif
