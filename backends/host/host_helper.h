// host_helper.h: other processes that do a part of the work, where threads would wait for one another.
#ifndef STEPMARK_HOST_HELPER_H
#define STEPMARK_HOST_HELPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// Starts a program, which is not heard; -1 where it cannot be started.
pid_t host_start_helper(char *const argv[]);

// Waits for its end, until a time of host_now_ns, when it is ended. Whether it succeeded.
bool host_await_helper(pid_t helper, int64_t deadline_ns);

// Processors that this process may use.
int host_processors(void);

#endif
