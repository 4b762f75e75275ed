// row_profile.h: a measured row's op times, joined to the plan that it measured.
#ifndef STEPMARK_CLI_MEASURE_ROW_PROFILE_H
#define STEPMARK_CLI_MEASURE_ROW_PROFILE_H

#include "cli/measure/measure.h"
#include "bench/profile/profile.h"

// Builds the plan of the row again, from the options alone; the caller frees *plan, which the input points to, as to
// the row.
sm_status cli_row_profile_input(const cli_options *options, const cli_job *job, const sm_row *row, sm_plan **plan,
                                sm_profile_input *input);

#endif
