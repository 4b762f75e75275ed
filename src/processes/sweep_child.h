// sweep_child.h: one configuration of a sweep, in a process of its own: with a limit of memory, a
// limit of time, and no way to take the sweep down with it.
#ifndef STEPMARK_SWEEP_CHILD_H
#define STEPMARK_SWEEP_CHILD_H

#include "status.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *const *argv;          // of the program, ends with NULL; argv[0] is its path
    int64_t memory_limit_bytes; // of its data (RLIMIT_DATA): allocations beyond it fail; 0 = none
    double timeout_s;           // then SIGTERM, and soon after SIGKILL; 0 = none
    bool show_messages;         // what it says on stderr appears on ours, too

    // Set by a signal handler: the child is ended. NULL is fine.
    const volatile sig_atomic_t *interrupted;
} sm_child_job;

enum { SM_CHILD_TAIL = 2048 };

typedef struct {
    char *out; // all of its stdout, with a zero after it; the caller frees it
    size_t out_bytes;
    char last_message[SM_CHILD_TAIL]; // the last line that it said on stderr; "" if none
    int exit_code;                    // -1 where a signal ended it
    int signal;                       // 0 where it ended by itself
    bool no_memory;                   // a SIGKILL, and the kernel killed processes for want of memory meanwhile
    bool timed_out;
    bool interrupted;
    int64_t wall_ns;
    int64_t peak_rss_bytes;
} sm_child_result;

// Runs it to its end. A failure is one of starting or watching it, not the child's own. It dies
// with this process, and the kernel takes it first where memory runs out.
sm_status sm_child_run(const sm_child_job *job, sm_child_result *result);

#endif
