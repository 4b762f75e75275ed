// shard.h: how elements are shared out among processes: what each sums up in the place of all, and with a sharded
// optimizer, what it updates.
#ifndef STEPMARK_SHARD_H
#define STEPMARK_SHARD_H

#include <stdint.h>

typedef struct {
    int64_t first;
    int64_t end;
} sm_slice;

// The elements of n that process `rank` of `size` has: as many as the others, in whole cache lines.
static inline sm_slice sm_slice_of(int64_t n, int rank, int size) {
    enum { LINE_ELEMS = 64 };
    const int64_t n_lines = (n + LINE_ELEMS - 1) / LINE_ELEMS;
    const int64_t first = n_lines * rank / size * LINE_ELEMS;
    const int64_t end = n_lines * (rank + 1) / size * LINE_ELEMS;
    return (sm_slice){first < n ? first : n, end < n ? end : n};
}

#endif
