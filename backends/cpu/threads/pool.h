// pool.h: a device's threads, and the division of work among them.
//
// Work is a sequence of pieces, each with as many parts as there are threads. A thread does its own part of a piece,
// and the next piece begins when all parts are done. On a shared machine a thread may be away: the system runs
// something else on its processor. Then another thread does its part, with the part's own scratch, so that no result
// depends on who does what; the pool waits only for parts that have begun. Parts that meet (cpu_pool_meet) need all
// threads at once, and each thread does its own.
//
// Waiting threads spin, since waits are short. If threads lose their processors to others, waiting threads soon sleep:
// the saved time is of use later, and to the others.
#pragma once

#include "backends/cpu/threads/topology.h"

typedef struct cpu_pool cpu_pool;

typedef enum {
    CPU_PIECE_NONE,  // the work is done
    CPU_PIECE_APART, // any thread may do any part
    CPU_PIECE_MEETS  // thread i does part i
} cpu_piece;

typedef struct {
    cpu_piece (*next)(void *ctx);     // called by one thread at a time, after the piece before is done
    void (*run)(void *ctx, int part); // of that piece
    void *ctx;
} cpu_work;

// The caller is thread 0; the others wait for work until the pool is freed. `binding` places them; the caller owns it.
sm_status cpu_pool_make(int n_threads, const cpu_binding *binding, cpu_pool **pool);
void cpu_pool_free(cpu_pool *pool); // NULL is fine
SM_OWNABLE(cpu_pool, cpu_pool_free)

// Returns when all of it is done. Do not call it within a piece, nor from two threads at once.
void cpu_pool_run(cpu_pool *pool, const cpu_work *work);

// One piece whose parts may meet.
void cpu_pool_run_once(cpu_pool *pool, void (*run)(void *ctx, int part), void *ctx);

// Within a part of a piece that meets: returns when all parts have called it.
void cpu_pool_meet(cpu_pool *pool);

// Within a part: takes the next of n_units of a list, or returns -1: none is left but the last `kept`. There are as
// many lists as threads, with units of their own in each round; all threads leave a round before any enters the next.
int64_t cpu_pool_take(cpu_pool *pool, int list, int64_t round, int64_t n_units, int64_t kept);

// A unit that was taken is done; and returns when n of the list are, which others may still be doing.
void cpu_pool_end_unit(cpu_pool *pool, int list, int64_t round);
void cpu_pool_await_units(cpu_pool *pool, int list, int64_t round, int64_t n);

// The time for which this thread has waited for others within parts so far.
int64_t cpu_pool_met_ns(void);
