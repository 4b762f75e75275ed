// helper.h: helper processes for work in which threads would wait for one another.
#pragma once

#include "os/child.h"

// A queue between processes of records of one size: each process takes the next. A program that is started inherits an
// end only from host_start_helper.
typedef struct {
    int take, put; // descriptors; -1: closed, by sm_close_at
} host_pipe;

bool host_open_pipe(host_pipe *pipe);

// Puts all records at once, without waiting; false: there is no room.
bool host_put(int end, const void *records, size_t n_bytes);

// Waits for the next record; false: all writers have closed.
bool host_take(int end, void *record, size_t n_bytes);

// Whether a record, or the other end's close, arrives before a time of host_now_ns.
bool host_await_record(int end, int64_t deadline_ns);

// Starts a program with these descriptors as standard input and output, and no stderr. False: it cannot be started.
bool host_start_helper(char *const argv[], int input, int output, os_child *helper);

// Waits for its end, or ends it at a time of host_now_ns. Returns whether it succeeded.
bool host_await_helper(os_child *helper, int64_t deadline_ns);
