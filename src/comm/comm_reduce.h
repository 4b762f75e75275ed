// comm_reduce.h: sums over the processes, computed by a separate thread.
//
// The summed data lie in segments: memory of the same size in every process, which the processes of one host share. A
// job works on a part of a segment; jobs run in the order of their start, which is the same in every process. In each
// job process r sums slice r (shard.h) in the order of ranks, so all processes and all runs get the same bits. With
// several hosts, each host's sums are sent to the others and added in the order of hosts.
#pragma once

#include "src/comm/comm.h"

typedef enum {
    SM_COMM_ALL_REDUCE,     // every process gets the sums
    SM_COMM_REDUCE_SCATTER, // process r gets the sums of slice r; the rest does not change
    SM_COMM_ALL_GATHER,     // every process gets slice r from process r
    SM_COMM_MEET,           // moves nothing: `after` may read the others' parts with sm_comm_part
    SM_COMM_WATCH,          // moves nothing: waits for `is_done`, and that all processes live
} sm_comm_pattern;

typedef struct {
    sm_comm_pattern pattern;
    int segment;
    size_t offset_bytes; // within the segment
    int64_t n_elems;
    int line_elems;       // of its slices (shard.h)
    size_t elem_bytes;    // 4 for sums, which are of f32; ALL_GATHER moves elements of any size
    int n_threads;        // threads that sum while somebody waits: at least 1
    int n_threads_beside; // threads while nobody waits: 1 if other work uses the processors
    bool is_bf16;         // summands and sums are rounded to bf16, and sent as bf16

    // Called by the summing thread before it reads and after it has written the segment, to copy a device's; or NULL.
    sm_status (*before)(void *ctx);
    sm_status (*after)(void *ctx);
    sm_status (*is_done)(void *ctx, bool *is_done); // WATCH: whether something else that all processes do is done
    void (*fail)(void *ctx);                        // ends what is in progress elsewhere, once the job has failed
    void *ctx;
} sm_comm_job;

// Makes jobs possible that need no segment. Repeated calls do nothing.
sm_status sm_comm_serve(sm_comm *comm);

// Adds a segment of zeros; *mine is this process's part, which lives as long as `comm`. No job may be in progress.
sm_status sm_comm_share(sm_comm *comm, size_t size_bytes, int *segment, void **mine);
// All processes do it in the same order, so that the next that they share is the same for all.
void sm_comm_unshare(sm_comm *comm, int segment);

// Address of rank `rank`'s part of a segment; NULL: this process cannot see its memory.
void *sm_comm_part(const sm_comm *comm, int segment, int rank);

// Starts a job; *ticket identifies it for the waiting thread.
sm_status sm_comm_start(sm_comm *comm, const sm_comm_job *job, int64_t *ticket);
// Waits until that job and all before it are done.
sm_status sm_comm_finish(sm_comm *comm, int64_t ticket);

// Total time that jobs took so far: moving, summing and waiting for other processes. Jobs that MEET and WATCH do not
// count by themselves: sm_comm_add_busy adds what they knew of.
int64_t sm_comm_busy_ns(sm_comm *comm);
void sm_comm_add_busy(sm_comm *comm, int64_t elapsed_ns);

bool sm_comm_is_finished(sm_comm *comm, int64_t ticket); // true also after a failure, which finish returns

// For jobs in which processes meet: declares that this process has read the others' parts, in that job and all before
// it, and waits until the others have too. Then it may change its own part.
void sm_comm_release(sm_comm *comm, int64_t ticket);
sm_status sm_comm_wait_released(sm_comm *comm, int64_t ticket);
