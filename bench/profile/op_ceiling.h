// op_ceiling.h: the least time that a device's measured ceilings allow an op: its FLOPs at the peak of arithmetic, or
// its bytes at a bandwidth: memory's, as in a step, or, if it runs repeatedly by itself, that of arrays as large as its
// operands, which may be in a cache.
#ifndef STEPMARK_BENCH_PROFILE_OP_CEILING_H
#define STEPMARK_BENCH_PROFILE_OP_CEILING_H

#include "backend.h"

typedef struct {
    sm_peaks peaks;
    double ns; // NaN: not measured
    bool is_memory_bound;
} sm_op_ceiling;

sm_status sm_op_ceiling_measure(sm_device *device, const sm_plan *plan, const sm_op *op, double seconds, bool by_itself,
                                sm_op_ceiling *ceiling);

#endif
