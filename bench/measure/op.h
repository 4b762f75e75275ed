// op.h: what a measurement of ops by themselves has in addition to the harness's protocol: their operands, cold runs and
// memory.
#ifndef STEPMARK_OP_MEASURE_H
#define STEPMARK_OP_MEASURE_H

#include "bench/measure/harness.h"

// Operands are drawn from a text of sizes, "N=64 C=768" (src/verify/op_cases.h), and a seed.
typedef struct {
    const char *text;
    uint64_t seed; // before each checked step others are drawn, so that no result of earlier ones will do
} sm_op_operands;

// The harness's workload; the operands must outlive it.
sm_workload sm_op_workload(sm_op_operands *operands);

// Fills operand_bytes and kept_bytes.
void sm_op_set_memory(const sm_plan *plan, sm_row *row);

// Runs the ops of a measured row again, as often as it has samples but at most 20 times and about 10 s, with caches that
// hold nothing of their operands. Fills the row's cold_* fields, or warns why it could not.
sm_status sm_op_measure_cold(sm_session *session, const sm_protocol *protocol, sm_row *row);

#endif
