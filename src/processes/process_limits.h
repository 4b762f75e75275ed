// process_limits.h: limits on the resources of this process and of those that it starts. For good.
#ifndef STEPMARK_PROCESS_LIMITS_H
#define STEPMARK_PROCESS_LIMITS_H

#include <sys/resource.h>

// At most that much of RLIMIT_...
void sm_limit(int resource, rlim_t most);

// Of RLIMIT_AS or RLIMIT_DATA: what the process has mapped now, and beside it so much.
void sm_limit_memory(int resource, rlim_t most_bytes);

#endif
