// leaderboard.h: rows from many machines in one table: the fastest row of each device of each machine for a work
// (model, length, number format, pass, optimizer), best first, with the limits of the comparison. Work is compared by
// tokens/s; batch and mode are each device's own.
#ifndef STEPMARK_LEADERBOARD_H
#define STEPMARK_LEADERBOARD_H

#include "bench/tables/record.h"

extern const sm_table sm_leaderboard_table;
extern const sm_table sm_leaderboard_refused_table; // machine, ..., status, reason

// Two arrays of records. Rows without a checked figure, and those whose figure bears no verdict (noise_verdict.h), are
// refused, with the reason; emulated, noisy and warned ones are marked. The caller owns both.
sm_status sm_leaderboard_make(const json_t *rows, json_t **records, json_t **refused);

#endif
