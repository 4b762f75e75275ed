// recommend.h: what measured rows advise. Rows are compared within a group only: one machine and
// device, one model, one sequence length, one pass type.
//
//   fastest       most tokens/s at the median
//   per GB        most tokens/s for each GiB that it occupies (the device's allocation, or else
//                 the process's peak)
//   steadiest     smallest median absolute deviation, in percent of the median; of 6 samples or more
//   break-even    for a pair of rows that differ in mode only: after how many steps the mode that is
//                 faster a step has made good what it cost more to start (building, tuning, and the
//                 first step beyond a usual one)
//   did not fit   for a row oom: the largest work like it in the rows that did run
//
// Where the 95% intervals of first and second overlap, `caution` says that they are not told apart.
#ifndef STEPMARK_RECOMMEND_H
#define STEPMARK_RECOMMEND_H

#include "record.h"

// Columns: topic, group, configuration, figure, value (the figure as a number), unit, caution.
extern const sm_table sm_recommend_table;

// An array of records for that table; the caller owns it. `rows` as read_rows.h gives them.
sm_status sm_recommend(const json_t *rows, json_t **records);

// Appends one record. The texts may be "".
sm_status sm_recommend_add(json_t *records, const char *topic, const char *group, const char *configuration,
                           const char *figure, double value, const char *unit, const char *caution);

// "cpu AMD EPYC, small, step s512": the group of a row; "step b4s512 fused fp32 2 threads": which of
// the group it is.
void sm_recommend_group(const json_t *row, char *text, size_t size_bytes);
void sm_recommend_configuration(const json_t *row, char *text, size_t size_bytes);

#endif
