// collective.h: exchanges among processes by themselves, as workloads of the harness: `mpirun -n N stepmark run --op
// all_reduce`. They travel as those of a step do (src/session/session.h). A broadcast, which no step has, is a gather in
// which the last process has all, and the others nothing.
//
// Sizes and bandwidths are nccl-tests': the size S is that of the whole buffer, the algorithm's bandwidth S / time. The
// bus's is what each process sends, over the time, at the least that the exchange needs:
//
//   all_reduce                  2 (N-1)/N S / time
//   reduce_scatter, all_gather    (N-1)/N S / time
//   broadcast                             S / time
//
// In bf16 half as many bytes travel, and count for the bus.
//
// Out of place the device copies the operands first, as all ways to exchange are in place. Operands are whole numbers, so
// small that every order of a sum gives the same bits in bf16, too.
#ifndef STEPMARK_COLLECTIVE_H
#define STEPMARK_COLLECTIVE_H

#include "bench/measure/harness.h"
#include "src/comm/comm.h"

// X(code, name)
#define SM_COLLECTIVE_OP_LIST(X)                 \
    X(SM_ALONE_ALL_REDUCE, "all_reduce")         \
    X(SM_ALONE_REDUCE_SCATTER, "reduce_scatter") \
    X(SM_ALONE_ALL_GATHER, "all_gather")         \
    X(SM_ALONE_BROADCAST, "broadcast")

typedef enum { SM_COLLECTIVE_OP_LIST(SM_CODE) SM_ALONE_COUNT } sm_collective_op;

// SM_ALONE_COUNT: none has that name.
sm_collective_op sm_collective_op_find(const char *name);

// One to be measured.
typedef struct {
    sm_comm *comm;
    sm_collective_op op;
    int64_t size_bytes;
    uint64_t seed; // of the operands
} sm_collective_work;

// Its plan; `is_apart`: out of place. SM_ERR_UNSUPPORTED: a single process; SM_ERR_USAGE: no whole floats.
sm_status sm_collective_plan(sm_collective_op op, int64_t size_bytes, bool is_apart, sm_processes processes,
                             sm_plan **plan);

// Its operands are drawn before each checked step, and all results are compared afterwards, in every process.
sm_workload sm_collective_workload(sm_collective_work *work);

// Fills the row's transport and, once it has a time, its bandwidths.
void sm_collective_set_rates(const sm_collective_work *work, const sm_session *session, sm_row *row);

#endif
