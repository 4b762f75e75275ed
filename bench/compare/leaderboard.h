// leaderboard.h: rows from many machines in one table: of each device of each machine the fastest row of a work (model,
// length, number format, pass, optimizer), best first, with what limits the comparison. Work is compared by tokens/s; batch
// and mode are each device's own.
#ifndef STEPMARK_LEADERBOARD_H
#define STEPMARK_LEADERBOARD_H

#include "record.h"

extern const sm_table sm_leaderboard_table;

// An array of records. Rows without a checked figure are left out and counted in *n_refused; emulated, noisy and warned
// ones are marked.
sm_status sm_leaderboard_make(const json_t *rows, json_t **records, size_t *n_refused);

#endif
