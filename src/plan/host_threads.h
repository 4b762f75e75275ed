// host_threads.h: the number of threads for the engine's own loops over weights (drawing, converting).
#pragma once

#include <omp.h>

// One for each processor of this process. OpenMP's default is unsuitable: a serial OpenBLAS sets it to 1.
static inline int sm_host_threads(void) {
    return omp_get_num_procs() < omp_get_thread_limit() ? omp_get_num_procs() : omp_get_thread_limit();
}

// For short loops. More would not be faster, but wait for each other at the end, each time for the one that has lost
// its processor. Loops over all weights take all threads: 16 of 64 took four times as long.
static inline int sm_few_host_threads(void) { return sm_host_threads() < 16 ? sm_host_threads() : 16; }

// After a loop they spin for milliseconds, next to the threads of the device that works next: this ends them.
static inline void sm_host_threads_end(void) { (void)omp_pause_resource_all(omp_pause_soft); }
