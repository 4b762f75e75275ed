// speedups.h: for rows that did the same work: how much faster the fastest is than each other, as sentences.
#ifndef STEPMARK_BENCH_COMPARE_SPEEDUPS_H
#define STEPMARK_BENCH_COMPARE_SPEEDUPS_H

#include "bench/tables/record.h"

// Makes an array of texts, "fused is 1.36 (1.31-1.41) times faster than naive", with the 95% interval of the ratio; or
// that the two are not distinct, or have too few samples. Rows without figures are left out. The caller owns
// *sentences.
sm_status sm_fastest_sentences(const json_t *rows, json_t **sentences);

#endif
