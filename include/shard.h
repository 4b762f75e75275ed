// shard.h: how elements are divided among processes: the slice that each sums, and updates with --shard optimizer.
#pragma once

#include <stdint.h>

#include "dynamic_map.h"

typedef struct {
    int64_t first;
    int64_t end;
} sm_slice;

// Slices consist of whole lines: in a bucket, a block that an optimizer quantises together (dynamic_map.h), and
// matrices are aligned to it; elsewhere, a cache line.
enum { SM_SLICE_LINE = 64, SM_SLICE_BLOCK = SM_QUANT_BLOCK };

// The slice of n elements that process `rank` of `size` has: all have as many lines, as nearly as possible.
static inline sm_slice sm_slice_of(int64_t n, int line_elems, int rank, int size) {
    const int64_t n_lines = (n + line_elems - 1) / line_elems;
    const int64_t first = n_lines * rank / size * line_elems;
    const int64_t end = n_lines * (rank + 1) / size * line_elems;
    return (sm_slice){first < n ? first : n, end < n ? end : n};
}
