// threads.h: what systems add to POSIX's threads.
#ifndef STEPMARK_OS_THREADS_H
#define STEPMARK_OS_THREADS_H

#include <pthread.h>

#include "os/os.h"

// Makes threads with these attributes run on those processors; no effect if binding is impossible.
void os_bind_thread(pthread_attr_t *attributes, const os_processors *processors);

#endif
