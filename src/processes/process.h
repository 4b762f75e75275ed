// process.h: runs a program, or a function in a process of its own, to its end. Only backends/host/helper.c, which may
// include nothing of src, starts processes in another way.
//
// The process dies with this one. Whatever it does, none is left after a call: no process, no zombie, no descriptor.
#ifndef STEPMARK_PROCESS_H
#define STEPMARK_PROCESS_H

#include "status.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

// Where its stdout and stderr go.
typedef enum {
    SM_OUTPUT_OURS, // to ours
    SM_OUTPUT_KEPT, // both are kept: all of stdout, of which more than 256 MiB is a failure, and the end of stderr
    SM_OUTPUT_FILE, // both are kept, as one file in memory: RLIMIT_FSIZE limits it
} sm_process_output;

typedef struct {
    int resource; // RLIMIT_...
    rlim_t most;
    bool beyond_ours; // of memory: more than this process has mapped now
} sm_process_limit;

typedef struct {
    // A program, searched for along PATH where its name has no slash; NULL: a function, whose result is the exit code.
    char *const *argv;
    int (*work)(void *ctx);
    void (*prepare)(void *ctx); // before the program, in its process: only what is safe after a fork. NULL is fine.
    void *ctx;                  // of these and those below

    bool has_no_input; // its stdin is empty
    sm_process_output output;
    size_t most_bytes; // of the beginnings of stdout and stderr that are kept, instead of the above; 0: as above
    bool shows_stderr; // what is kept of stderr appears on ours, too

    // Lines that the function writes to *messages, which is a descriptor in its process, without the newline. A failure
    // ends the process and is passed on. NULL: none. The descriptor that was there, of an outer process, is closed.
    int *messages;
    sm_status (*receive)(void *ctx, const char *line, size_t length);

    const sm_process_limit *limits;
    int n_limits;
    bool dies_first;  // of all processes, where the machine's memory runs out
    bool own_session; // what it started ends with it,
    bool in_files;    // and is waited for, a second at most, as it may be at work in files that are about to go

    double timeout_s;    // 0: none
    double late_grace_s; // from SIGTERM to SIGKILL then; 0: SIGKILL at once

    // Counted up by a handler of SIGINT and SIGTERM. The process is asked to end (SIGTERM); a signal that comes again,
    // later than the same one through another process can, ends it at once. NULL is fine.
    const volatile sig_atomic_t *interrupted;
    double interrupted_grace_s; // as above

    // When it is to be ended, instead of timeout_s and of the grace after an interruption at asked_ns (0: not yet):
    // a time of sm_now_ns, INT64_MAX for never. It is asked often. NULL: by these.
    int64_t (*end_ns)(void *ctx, int64_t asked_ns);
    bool may_hang; // once killed it is not waited for long: a driver may hold it in the kernel
} sm_process_job;

typedef struct {
    int exit_code;    // -1 where a signal ended it
    int signal;       // that ended it; 0: none
    bool late;        // its time was over before it ended
    bool interrupted; // *interrupted was set
    bool killed;      // by us, as it was late or interrupted
    bool no_memory;   // killed by another, and the kernel killed processes for want of memory meanwhile
    int64_t wall_ns;
    int64_t peak_rss_bytes;
    char *out; // with a zero after it, as is err; NULL where it is not kept
    char *err;
    size_t out_bytes;
} sm_process_result;

// A failure is one of starting or watching it: SM_ERR_UNSUPPORTED where there is no such program. Then `result` has
// nothing to free.
sm_status sm_process_run(const sm_process_job *job, sm_process_result *result);
void sm_process_free(sm_process_result *result);

// The last line of its stderr that says anything, for a message; "" if there is none. Cuts `err`.
const char *sm_process_last_line(sm_process_result *result);

#endif
