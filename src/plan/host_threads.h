// host_threads.h: threads for the engine's own loops over weights: drawing them, converting them.
#ifndef STEPMARK_HOST_THREADS_H
#define STEPMARK_HOST_THREADS_H

#include <omp.h>

// As many as there are processors for this process. OpenMP's own default will not do: OpenBLAS, told to be
// serial, sets that to 1.
static inline int sm_host_threads(void) {
    return omp_get_num_procs() < omp_get_thread_limit() ? omp_get_num_procs() : omp_get_thread_limit();
}

#endif
