// child.h: a child process, with its output, its limits and its end. src/processes/process.h runs one as a whole.
#ifndef STEPMARK_OS_CHILD_H
#define STEPMARK_OS_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int number;         // as the system counts processes; 0: none
    int watched;        // a descriptor that becomes readable at its end; -1: it is polled
    void *handle, *job; // Windows' names of it, and of it with all that it starts
} os_child;

typedef enum {
    OS_LIMIT_ADDRESSES,  // bytes mapped
    OS_LIMIT_MEMORY,     // bytes of writable memory of its own
    OS_LIMIT_CORE_BYTES, // of the file that a crash leaves
    OS_LIMIT_CPU_S,
    OS_LIMIT_FILE_BYTES, // of each file that it writes
} os_limit_kind;

typedef struct {
    os_limit_kind kind;
    uint64_t most;
    bool beyond_ours; // for memory: in addition to what this process has mapped now
} os_limit;

// Limits the calling process, for good.
void os_limit_this(const os_limit *limit);

typedef struct {
    // A program, searched for in PATH if its name has no slash; NULL: a function, whose result is the exit code.
    char *const *argv;
    int (*work)(void *ctx);
    void (*prepare)(void *ctx); // called before it, in its process; NULL is fine
    void *ctx;

    bool has_no_input; // its stdin is empty
    int out, err;      // the descriptors of its stdout and stderr; -1: ours
    bool is_first;     // the function is the first thing that this program does with its words: where none runs in a
                       // child by itself, the child is this program, started again with them
    void **shared_at;  // memory of os_map_shared that such a child has, too; NULL: none
    size_t shared_bytes;
    int *kept_at; // the function's process closes the descriptor there, and has `kept` in its place; NULL: none
    int kept;
    const int *closed; // in its process; -1: none
    int n_closed;

    const os_limit *limits;
    int n_limits;
    bool dies_first;  // before others, if the machine's memory runs out
    bool own_session; // the processes that it starts end with it
} os_child_plan;

// Whether such a function can run in a child.
bool os_child_takes_functions(bool is_first);

// Starts it; it ends with this process. 0, or the reason as in errno, *child being none.
int os_child_start(const os_child_plan *plan, os_child *child);

// Asks it to end; ends it at once, with its session.
void os_child_ask(const os_child *child);
void os_child_kill(const os_child *child, bool with_session);

// Whether it has ended. Nobody else gets its number before os_child_take.
bool os_child_has_ended(const os_child *child);

// Whether a process of its session is left.
bool os_child_has_session(const os_child *child);

typedef struct {
    int exit_code; // -1 if a signal ended it
    int signal;    // that ended it; 0: none
    int64_t peak_rss_bytes;
} os_child_end;

// Waits for its end, or `at_once`: reports a child that has not ended as killed. 0, or the reason as in errno.
int os_child_take(os_child *child, bool at_once, os_child_end *end);

// Sleeps until one of the descriptors (-1: none) has something to read, the child ends, or the time is over; not at all
// if *counted, which a handler of signals counts up, is no longer n_seen. Returns whether there is something to read.
// NULL: no such count; `child` NULL: none.
bool os_await(const os_child *child, const int *files, bool *has_news, int n, int64_t most_ns,
              const volatile sig_atomic_t *counted, int n_seen);

// The processes that the system has killed since its start because memory ran out; -1: unknown.
int64_t os_n_killed_for_memory(void);

#endif
