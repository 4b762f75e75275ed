// comm_reduce.h: sums over the processes, computed by a separate thread.
//
// The summed data lie in segments: memory of the same size in every process, which the processes of one host share. A
// job is a part of a segment; jobs are done in the order they were started in, the same in every process. In each job
// process r sums slice r (shard.h) in the order of ranks, so that all have the same bits, the same in every run. Where
// processes are on several hosts, sums of a host's processes go from host to host, and are added in the order of hosts.
#ifndef STEPMARK_COMM_REDUCE_H
#define STEPMARK_COMM_REDUCE_H

#include "src/comm/comm.h"

typedef enum {
    SM_COMM_ALL_REDUCE,     // every process: the sums
    SM_COMM_REDUCE_SCATTER, // process r: the sums of slice r; the rest is as it was
    SM_COMM_ALL_GATHER,     // every process: slice r of process r
    SM_COMM_MEET,           // nothing moves: `after` may read what the others have in theirs, by sm_comm_part
} sm_comm_pattern;

typedef struct {
    sm_comm_pattern pattern;
    int segment;
    size_t offset_bytes; // within it
    int64_t n_elems;
    int line_elems;       // of its slices (shard.h)
    size_t elem_bytes;    // sums are of f32: 4; ALL_GATHER moves elements of any size
    int n_threads;        // that sum, while somebody waits for them: at least 1
    int n_threads_beside; // while nobody does: 1 where what runs beside has the processors
    bool is_bf16;         // each process's summands and the sums are rounded to bf16, and travel so

    // Called by the thread, before it reads the segment and after it has written it; NULL: nothing is to be done. A
    // device with memory of its own copies its part there and back.
    sm_status (*before)(void *ctx);
    sm_status (*after)(void *ctx);
    void *ctx;
} sm_comm_job;

// Adds a segment of zeros; *mine is this process's part, which lives as long as `comm`. Not while jobs are under way.
sm_status sm_comm_share(sm_comm *comm, size_t size_bytes, int *segment, void **mine);

// Where rank `rank` has its part of a segment; NULL: this process does not see its memory.
void *sm_comm_part(const sm_comm *comm, int segment, int rank);

// Begins a job; *ticket is for the waiting thread.
sm_status sm_comm_start(sm_comm *comm, const sm_comm_job *job, int64_t *ticket);
// Waits until that job and all before it are done.
sm_status sm_comm_finish(sm_comm *comm, int64_t ticket);

// How long jobs have been under way so far: moved and summed, and waited for others in.
int64_t sm_comm_busy_ns(sm_comm *comm);

bool sm_comm_is_finished(sm_comm *comm, int64_t ticket); // or has failed: finish says so

// For jobs in which processes meet: this process has read the others' parts, in that job and all before it; it waits
// until the others have, so that it may change its own part.
void sm_comm_release(sm_comm *comm, int64_t ticket);
sm_status sm_comm_wait_released(sm_comm *comm, int64_t ticket);

#endif
