// loop_show.h: what a person sees of a training loop that was measured: its phases, its speed, what bounds it.
#ifndef STEPMARK_CLI_MEASURE_LOOP_SHOW_H
#define STEPMARK_CLI_MEASURE_LOOP_SHOW_H

#include "bench/rows/row.h"

// On stdout; `baseline` is the row of an earlier one, or NULL.
sm_status cli_loop_show(const sm_row *row, const json_t *baseline, sm_format format);

#endif
