// fit.h: the batch that `stepmark run` takes when none is given.
#ifndef STEPMARK_CLI_MEASURE_FIT_H
#define STEPMARK_CLI_MEASURE_FIT_H

#include "cli/measure/measure.h"

// Sets job->B and job->T: the largest work of a fixed list that fits the device's free memory
// and, by the measured ceilings at 60%, this device's share of options->fit_s seconds with warm-up,
// samples and attribution. The smallest of the list when none does. Says on stderr what it chose and why.
sm_status cli_fit(cli_bench *bench, cli_job *job);

#endif
