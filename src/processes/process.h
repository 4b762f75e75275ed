// process.h: runs a program, or a function in a separate process, to its end. Only backends/host/helper.c, which must
// not include src, starts processes in another way.
//
// The process dies with this one. After a call nothing is left of it: no process, no zombie, no descriptor.
#pragma once

#include "status.h"

#include "os/child.h"
#include <jansson.h>

// The destination of its stdout and stderr.
typedef enum {
    SM_OUTPUT_OURS, // our own
    SM_OUTPUT_KEPT, // both are kept: all of stdout (more than 256 MiB is a failure), and the end of stderr
    SM_OUTPUT_FILE, // both are kept, as one file in memory: OS_LIMIT_FILE_BYTES limits it
} sm_process_output;

typedef struct {
    // A program, searched for in PATH if its name has no slash; NULL: a function, whose result is the exit code.
    char *const *argv;
    int (*work)(void *ctx);
    void (*prepare)(void *ctx); // called before the program, in its process: only what is safe after a fork. NULL is
                                // fine.
    void *ctx;                  // for these and those below
    const char *told;           // as in os/child.h, with the memory that it shares
    os_shared_place shared[2];

    bool has_no_input; // its stdin is empty
    sm_process_output output;
    size_t most_bytes; // keep this many bytes from the beginnings of stdout and stderr instead; 0: as above

    // Receives lines that the function writes to *messages, a descriptor in its process, without the newline. A failure
    // ends the process and is returned. NULL: none. An outer process's descriptor there is closed.
    int *messages;
    sm_status (*receive)(void *ctx, const char *line, size_t length);

    const os_limit *limits;
    int n_limits;
    bool dies_first;  // before others, if the machine's memory runs out
    bool own_session; // processes that it started end with it,
    bool in_files;    // and are awaited for up to a second, as they may use files that will be removed

    double timeout_s;    // 0: none
    double late_grace_s; // from SIGTERM to SIGKILL then; 0: SIGKILL at once

    // Counted by a handler of SIGINT and SIGTERM. Asks the process to end (SIGTERM); a second signal, later than a
    // duplicate of the first can be, ends it at once. NULL is fine.
    const volatile sig_atomic_t *interrupted;
    double interrupted_grace_s; // as above

    // The time to end it, instead of timeout_s and the grace after an interruption at asked_ns (0: none): a time of
    // sm_now_ns, INT64_MAX for never. Called often. NULL: use these.
    int64_t (*end_ns)(void *ctx, int64_t asked_ns);
    bool may_hang; // do not wait long after killing it: a driver may hold it in the kernel
} sm_process_job;

typedef struct {
    int exit_code;    // -1 if a signal ended it
    int signal;       // that ended it; 0: none
    bool late;        // its time ran out before it ended
    bool interrupted; // *interrupted was set
    bool killed;      // by us, because it was late or interrupted
    bool no_memory;   // killed by another, while the kernel killed processes because memory ran out
    int64_t wall_ns;
    int64_t peak_rss_bytes;
    char *out; // followed by a zero byte, as is err; NULL if not kept
    char *err;
    size_t out_bytes;
} sm_process_result;

// Fails if it cannot be started or watched (SM_ERR_UNSUPPORTED: no such program); `result` has nothing to free then.
sm_status sm_process_run(const sm_process_job *job, sm_process_result *result);
void sm_process_free(sm_process_result *result);

// The last line of its stderr with text, for a message; "" if there is none. Truncates `err`.
const char *sm_process_last_line(sm_process_result *result);

// Removes the folder of a process that has ended, with all its contents.

// Follows no links. Files that cannot be removed stay.
void sm_remove_tree(const char *folder);

// --- workers ----------------------------------------------------------------------------------------

// Work in a separate process, so that a driver that hangs or crashes does not affect the program or its
// results: a thread that waits inside a driver cannot be ended, but its process can.
//
// The worker has the program's state: it is forked or, where the system cannot, told what it needs of it (`told`). It
// reports its work by messages, JSON objects, which its parent reads one by one.

// Receives a message, valid during the call. Sets *deadline_ns when the worker begins something with its own limit: a
// time of sm_now_ns, INT64_MAX for none. A failure ends the worker, and is returned.
typedef sm_status (*sm_worker_receive)(void *ctx, const json_t *message, int64_t *deadline_ns);

typedef struct {
    int (*work)(void *ctx);    // in the worker: its exit code
    sm_worker_receive receive; // NULL: messages are ignored
    void *ctx;
    const char *told; // as in os/child.h, with memory that both share
    os_shared_place shared;
    int64_t deadline_ns; // until a message sets another
    double stop_s;       // for the worker to end by itself after a request
    os_limit memory;     // of its allocations; most 0: none

    const volatile sig_atomic_t *interrupted; // as in process.h
} sm_worker_job;

// Runs it to its end; *end tells how it ended, and has nothing to free.
sm_status sm_worker_run(const sm_worker_job *job, sm_process_result *end);

// --- in the worker ---------------------------------------------------------------------------------

// Sends a message and takes ownership of it. Sends nothing outside of a worker.
sm_status sm_worker_send(json_t *message);

// The time that work may need after its deadline, or a request to end, as steps take that long. As cheap as a store.
void sm_worker_set_step_ns(int64_t longest_step_ns);

// While it saves, a worker that was asked to end is not ended before it resets this.
void sm_worker_set_saving(bool saving);
