// omp.h: OpenMP's functions that stepmark calls, by openmp.c.
#pragma once

typedef enum {
    omp_proc_bind_false,
    omp_proc_bind_true,
    omp_proc_bind_master,
    omp_proc_bind_close,
    omp_proc_bind_spread
} omp_proc_bind_t;

int omp_get_num_procs(void);
int omp_get_thread_limit(void);
int omp_get_max_threads(void);
void omp_set_num_threads(int n);

typedef enum { omp_pause_soft = 1, omp_pause_hard } omp_pause_resource_t;

// No thread outlives its region.
static inline int omp_pause_resource_all(omp_pause_resource_t kind) { return kind * 0; }

// Threads have no places on macOS.
static inline omp_proc_bind_t omp_get_proc_bind(void) { return omp_proc_bind_false; }
static inline int omp_get_num_places(void) { return 0; }
static inline int omp_get_place_num_procs(int place) { return place * 0; }
static inline void omp_get_place_proc_ids(int place, int *ids) { ids[0] = place; }
