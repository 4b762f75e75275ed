// shard.h: how elements are divided among processes: the slice that each sums for all, and with a sharded optimizer,
// the slice that it updates.
#ifndef STEPMARK_SHARD_H
#define STEPMARK_SHARD_H

#include <stdint.h>

#include "dynamic_map.h"

typedef struct {
    int64_t first;
    int64_t end;
} sm_slice;

// Slices consist of whole lines. In a bucket, whose matrices begin at a multiple of as many elements, a line is a block
// that an optimizer quantises together (dynamic_map.h); elsewhere, a cache line.
enum { SM_SLICE_LINE = 64, SM_SLICE_BLOCK = SM_QUANT_BLOCK };

// The elements of n that process `rank` of `size` has: as many lines as the others.
static inline sm_slice sm_slice_of(int64_t n, int line_elems, int rank, int size) {
    const int64_t n_lines = (n + line_elems - 1) / line_elems;
    const int64_t first = n_lines * rank / size * line_elems;
    const int64_t end = n_lines * (rank + 1) / size * line_elems;
    return (sm_slice){first < n ? first : n, end < n ? end : n};
}

#endif
