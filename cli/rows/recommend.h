// recommend.h: recommendations from rows, printed; for `recommend` and for the end of a sweep.
#ifndef STEPMARK_CLI_ROWS_RECOMMEND_H
#define STEPMARK_CLI_ROWS_RECOMMEND_H

#include <jansson.h>

#include "bench/tables/record.h"

// Prints what the rows advise in a format; *n is the number of recommendations.
sm_status cli_recommend_print(const json_t *rows, sm_format format, size_t *n);

#endif
