// collectives.h: exchanges among the devices of several processes over the devices' own links, without the host's
// memory. A way to do so is a table of these functions: by the driver alone, or by a library such as NCCL.
//
// Two threads use it. The computing thread begins and finishes exchanges. The communicating thread hands them over,
// together and in the same order in every process, once all processes have begun them. Where the devices order them by
// themselves, `hand_over` is NULL.
#pragma once

#include "backend.h"

typedef enum {
    SM_COLLECTIVE_ALL_REDUCE,     // every process gets the sums
    SM_COLLECTIVE_REDUCE_SCATTER, // process r gets the sums of slice r (shard.h); the rest does not change
    SM_COLLECTIVE_ALL_GATHER,     // every process gets slice r from process r
} sm_collective_kind;

typedef struct {
    sm_collective_kind kind;
    int tensor;
    int line_elems; // of its slices
    bool is_bf16;   // summands and sums are rounded to bf16, and sent as bf16
} sm_collective;

enum { SM_COLLECTIVES_ID_BYTES = 128, SM_COLLECTIVES_TEXT_SIZE = 256 };

typedef struct sm_collectives {
    const char *name;  // as --transport has it: "nccl"
    const char *title; // "NCCL"
    bool is_of_host;   // reaches only devices of one host

    // Whether devices of this kind may have it at all; without it, `find` says what is missing.
    bool (*suits)(const sm_device *device);

    // Looks for the library (a path; NULL: in the usual places) and what else the device needs. SM_ERR_UNSUPPORTED: the
    // message says what is missing, and how to get it.
    sm_status (*find)(sm_device *device, const char *library);

    // The first process makes an id, and all join by it; join returns when all have. It may wait for ever.
    sm_status (*make_id)(sm_device *device, unsigned char id[SM_COLLECTIVES_ID_BYTES]);
    sm_status (*join)(sm_device *device, const unsigned char id[SM_COLLECTIVES_ID_BYTES], int rank, int n_processes);

    // After join: "NCCL 2.28.9, Ring, Simple; ordered by a flag in shared memory". Plans that are prepared from then on
    // have exchanged tensors in memory that the library reaches.
    void (*describe)(const sm_device *device, char text[SM_COLLECTIVES_TEXT_SIZE]);

    // Begins an exchange, after all ops that were started so far. *ticket is NULL at first, may be used again after its
    // finish, and lives as long as the executable.
    sm_status (*begin)(sm_executable *executable, const sm_collective *what, void **ticket);
    // In the communicating thread: n tickets, in the order of their begins. NULL: nothing is handed over.
    sm_status (*hand_over)(sm_executable *executable, void *const *tickets, int n);
    // Waits for the device as its backend does, or until that exchange is over, and continues all meanwhile. NULL: they
    // continue by themselves.
    sm_status (*synchronize)(sm_executable *executable, const void *ticket);
    // With synchronize: whether the exchanges that this process has begun need no more work of its threads. Until then
    // they may not wait for other processes in another way.
    sm_status (*is_settled)(sm_executable *executable, bool *is_settled);
    // SM_ERR_DEVICE: the exchange failed. Called in the computing thread, or in another one while that one waits for it.
    sm_status (*is_done)(sm_executable *executable, void *ticket, bool *is_done);
    // For a ticket that is done: ops started afterwards see the result.
    sm_status (*finish)(sm_executable *executable, void *ticket);
    // For a ticket that is done: the device's time of all that were handed over with it, at the first; 0 at the others.
    int64_t (*elapsed_ns)(sm_executable *executable, void *ticket);

    // Ends what is in progress, in all threads, with a failure.
    void (*abort)(sm_device *device);
} sm_collectives;

// src/session/registry.c: a backend's i-th, the fastest first; NULL: it has no more.
const sm_collectives *sm_collectives_of(const sm_backend *backend, int i);
