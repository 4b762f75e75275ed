// advise_axes.h: what `advise` chooses between: the flags of its plan that take more than one value.
#ifndef STEPMARK_CLI_SWEEP_ADVISE_AXES_H
#define STEPMARK_CLI_SWEEP_ADVISE_AXES_H

#include "bench/compare/advisor.h"
#include "cli/sweep/configuration.h"

// Configuration i of the plan is configuration i of the choices.
typedef struct {
    sm_choices choices;
    int args[SM_ADVISOR_MAX_AXES]; // index of the axis's flag in a configuration's arguments
} cli_advise_axes;

// SM_ERR_USAGE where a flag has several values that give no advice: two models do not do the same work.
sm_status cli_advise_axes_find(const cli_sweep_plan *plan, cli_advise_axes *axes);

// The flags in which a configuration differs from the default, "--batch-size=8 --precision=bf16". The caller frees
// it; NULL when out of memory, as below.
char *cli_advise_flags(const cli_sweep_plan *plan, const cli_advise_axes *axes, int64_t configuration);

// What of the training it changes, "batch, rounding"; "" for nothing: the same sums, perhaps in another order.
char *cli_advise_changes(const cli_sweep_plan *plan, const cli_advise_axes *axes, int64_t configuration);

// "stepmark run ..." that measures it; "stepmark loop ..." with --loader.
char *cli_advise_command(const cli_sweep_plan *plan, int64_t configuration);

#endif
