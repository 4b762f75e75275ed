// plan.h: the configurations of a sweep. A line of flags, each with a list, is a
// Cartesian product; a sweep is one line (the command line itself) or all lines of a preset or a
// file. A flag on the command line replaces that flag in every line.
#ifndef STEPMARK_CLI_SWEEP_PLAN_H
#define STEPMARK_CLI_SWEEP_PLAN_H

#include "cli/sweep/configuration.h"

// All configurations, filtered and in the order in which they are to run. SM_ERR_USAGE for bad
// values, unknown presets and lines; SM_ERR_IO for a file that cannot be read.
sm_status cli_sweep_plan_make(const cli_options *options, cli_sweep_plan *plan);

#endif
