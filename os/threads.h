// threads.h: what systems add to POSIX's threads.
#pragma once

#include <pthread.h>

#include "os/os.h"

// Whether new threads are bound to the processors of the thread that starts them.
extern const bool os_threads_inherit_places;

// A condition whose waits may end at a time of the monotonic clock; false: it has come.
void os_init_condition(pthread_cond_t *condition);
bool os_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ns);

// Raises the limit of this process's stacks, also of threads that libraries start, to this size, where the system can
// do that. Returns the limit.
size_t os_raise_stack(size_t size_bytes);

// The kernel's words about what a 64-bit Arm processor can do (AT_HWCAP2); 0: unknown.
unsigned long os_arm_features(void);

// Makes threads with these attributes run on those processors; no effect if binding is impossible.
void os_bind_thread(pthread_attr_t *attributes, const os_processors *processors);
