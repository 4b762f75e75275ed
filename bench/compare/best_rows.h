// best_rows.h: recommendations from measured rows. Rows are compared within a group only: one machine and device, one
// model, one sequence length, one pass type; rows that ran kernels or a backend of the user's own (own code) are groups
// of their own.
//
//   fastest       most tokens/s at the median
//   per GiB       most tokens/s for each GiB that it occupies: on a device with memory of its own what is
//                 allocated there, else the process's peak
//   steadiest     smallest median absolute deviation, in percent of the median
//   break-even    for a pair of rows that differ in mode only, both steady: after how many steps the mode that
//                 is faster a step has made good what it cost more to start (building, tuning, and the
//                 first step beyond a usual one)
//   did not fit   for a row oom: the largest work like it in the rows that did run
//
// Two figures are distinct where their 95% intervals do not overlap. Nothing is named the best that is not steady
// (noise_verdict.h) and distinct from all others: the record then has no configuration, and `caution` says which are not
// distinct, or why the first is not to be relied on.
#ifndef STEPMARK_BENCH_COMPARE_BEST_ROWS_H
#define STEPMARK_BENCH_COMPARE_BEST_ROWS_H

#include "bench/tables/record.h"

// Columns: topic, group, configuration, figure, value (the figure as a number), unit, caution.
extern const sm_table sm_recommend_table;

// Makes an array of records for that table; the caller owns it. `rows` as from read_rows.h.
json_t *sm_recommend(const json_t *rows);

// "cpu AMD EPYC, small, step s512": the group of a row.
void sm_recommend_group(const json_t *row, char *text, size_t size_bytes);

#endif
