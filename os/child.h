// child.h: a child process, with its output, its limits and its end. src/processes/process.h runs one as a whole.
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef struct {
    int number;                 // as the system counts processes; 0: none
    int watched;                // a descriptor that becomes readable at its end; -1: it is polled
    void *handle, *job, *asked; // Windows' names of it, of it with all that it starts, and of what asks it to end
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

// The descriptors of a child's streams that are this process's own, or that have no other end.
enum { OS_CHILD_OURS = -1, OS_CHILD_NOTHING = -2 };

typedef struct {
    void **at; // where the function finds memory of os_map_shared; NULL: none
    size_t size_bytes;
} os_shared_place;

typedef struct {
    // A program, searched for in PATH if its name has no slash; NULL: a function, whose result is the exit code.
    char *const *argv;
    int (*work)(void *ctx);
    void (*prepare)(void *ctx); // called before it, in its process; NULL is fine
    void *ctx;

    int in, out, err;  // the descriptors of its stdin, stdout and stderr, or one of the two below
    const void *given; // memory of os_map_given that is its stdin: `in` is its descriptor, if it has one; NULL: none
    bool is_strange;   // it will run a stranger's code, which needs no rights and starts no processes
    // On systems that cannot run a function in a child, the child is this program, started again with its words. By
    // this text (os_told) it finds the function, and runs it. NULL: it cannot.
    const char *told;
    os_shared_place shared[2]; // memory that such a child has, too
    int *kept_at; // the function's process closes the descriptor there, and has `kept` in its place; NULL: none
    int kept;
    const int *closed; // in its process; -1: none
    int n_closed;

    const os_limit *limits;
    int n_limits;
    bool dies_first;  // before others, if the machine's memory runs out
    bool own_session; // the processes that it starts end with it
} os_child_plan;

// Whether a function runs in a child without being told.
extern const bool os_child_forks;

// The text that the parent told this process. NULL: it was told nothing, or has become the function.
const char *os_told(void);

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

// The time that its threads have computed; 0: unknown.
int64_t os_child_busy_ns(const os_child *child);

// Waits for its end, or `at_once`: reports a child that has not ended as killed. 0, or the reason as in errno.
int os_child_take(os_child *child, bool at_once, os_child_end *end);

// Sleeps until one of the descriptors (-1: none) has something to read, the child ends, or the time is over; not at all
// if *counted, which a handler of signals counts up, is no longer n_seen. Returns whether there is something to read.
// NULL: no such count; `child` NULL: none.
bool os_await(const os_child *child, const int *files, bool *has_news, int n, int64_t most_ns,
              const volatile sig_atomic_t *counted, int n_seen);

// As ppoll, on a Unix (linux.c, posix.c), for os_await.
struct pollfd;
int os_poll(struct pollfd *files, int n, const struct timespec *most, const sigset_t *signals);

// Whether there is a process with this number.
bool os_process_is_there(int number);

// The processes that the system has killed since its start because memory ran out; -1: unknown.
int64_t os_n_killed_for_memory(void);
