// helper.h: other processes that do a part of the work, where threads would wait for one another.
#ifndef STEPMARK_BACKENDS_HOST_HELPER_H
#define STEPMARK_BACKENDS_HOST_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Records of one size, on their way between processes: each takes the next. Neither end outlives a program that is
// started, but where host_start_helper gives it.
typedef struct {
    int take, put; // descriptors; -1: closed
} host_pipe;

bool host_open_pipe(host_pipe *pipe);
void host_close_end(int *end);

// All at once, without waiting; false: there is no room for them.
bool host_put(int end, const void *records, size_t n_bytes);

// The next record, waited for; false: nobody puts any more.
bool host_take(int end, void *record, size_t n_bytes);

// Whether there is something to take, or the end of it, before a time of host_now_ns.
bool host_await_record(int end, int64_t deadline_ns);

// Waits until nobody takes from there any more, or a time of host_now_ns.
void host_await_no_reader(int end, int64_t deadline_ns);

// Starts a program, which is not heard; its standard input and output are these descriptors. -1: it cannot be started.
pid_t host_start_helper(char *const argv[], int input, int output);

// Waits for its end, until a time of host_now_ns, when it is ended. Whether it succeeded.
bool host_await_helper(pid_t helper, int64_t deadline_ns);

#endif
