// leaderboard.h: rows from many machines in one table: for each work (model, length, number format, pass, optimizer)
// the fastest row of each device of each machine, best first, with the limits of the comparison. Work is compared by
// tokens/s; batch and mode may differ between devices.
#ifndef STEPMARK_LEADERBOARD_H
#define STEPMARK_LEADERBOARD_H

#include "bench/compare/costs.h"
#include "bench/tables/record.h"

extern const sm_table sm_leaderboard_table;
extern const sm_table sm_leaderboard_refused_table; // machine, ..., status, reason

// Makes two arrays of records. `references` (NULL: none) are rows that the program came with: those whose work `rows`
// have, too, take part, marked as references; all of them where `rows` is empty. Rows without a checked figure, or with
// one that supports no verdict (noise_verdict.h), are refused, with the reason; emulated, noisy and warned ones are
// marked. The caller owns both.
// Machines whose intervals overlap share a place. `costs` may be NULL.
void sm_leaderboard_make(const json_t *rows, const json_t *references, const sm_costs *costs, json_t **records,
                         json_t **refused);

// Whether the record is a reference.
bool sm_leaderboard_is_reference(const json_t *record);

#endif
