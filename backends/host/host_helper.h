// host_helper.h: other processes that do a part of the work, where threads would wait for one another.
#ifndef STEPMARK_HOST_HELPER_H
#define STEPMARK_HOST_HELPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// Work for several processes: `n` things, by number, in a pipe from which each takes the next. The descriptor to take
// them from, which the caller closes; -1: there is none. n <= HOST_MOST_WORK.
enum { HOST_MOST_WORK = 255 };
int host_offer_work(int n);

// The number of what is next; -1: all is taken.
int host_take_work(int work);

// Starts a program, which is not heard, and takes work from its standard input; -1 where it cannot be started.
pid_t host_start_helper(char *const argv[], int work);

// Waits for its end, until a time of host_now_ns, when it is ended. Whether it succeeded.
bool host_await_helper(pid_t helper, int64_t deadline_ns);

// Processors that this process may use.
int host_processors(void);

#endif
