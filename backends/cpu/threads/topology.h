// topology.h: the processors that this process may use, their caches, and which thread runs where.
//
// Threads are bound to one core each, in the order of the cores (neighbours share caches and memory), when
//   - the user gave a mask, and the threads fit its cores, or
//   - there are exactly as many threads as the process has cores: nothing is left to choose.
// Fewer threads without a mask stay free, since the scheduler knows which cores are idle. So do more threads than
// cores, within the mask if there is one. If OMP_PROC_BIND is set, they are bound as OpenMP would bind its own.
#pragma once

#include "status.h"

enum { CPU_CACHE_LEVELS = 3 };

// A level of data cache. All 0: none, or unknown.
typedef struct {
    size_t size_bytes; // of one cache
    int n_caches;
    int n_cores; // that share one cache
} cpu_cache;

// Level 1, 2 or 3.
cpu_cache cpu_topology_cache(int level);

// The size of a core's L2 cache; a small default if unknown. The result is cached.
size_t cpu_topology_level2_bytes(void);

// Cores of which the process may use at least one processor; at least 1.
int cpu_topology_n_cores(void);

// The facts of cores and caches that the system did not tell, in one line; NULL: none.
const char *cpu_topology_lack(void);

typedef struct cpu_binding cpu_binding;

// Chooses the places of *n_threads threads; 0 becomes one a core. mask: logical processors in the system's numbering, a
// list "0-3,8" or hexadecimal bits "0x10f"; NULL = all. SM_ERR_USAGE: an invalid mask, or processors not allowed.
sm_status cpu_binding_make(const char *mask, int *n_threads, cpu_binding **binding);
void cpu_binding_free(cpu_binding *binding); // NULL is fine
SM_OWNABLE(cpu_binding, cpu_binding_free)

// "one a core: processors 0-1", "free: 4 threads on 2 cores"
const char *cpu_binding_text(const cpu_binding *binding);

// The number of threads that can run at a time.
int cpu_binding_n_processors(const cpu_binding *binding);

// After threads were bound: replaces the text if the system refused it.
void cpu_binding_check(const cpu_binding *binding, char *text, size_t size_bytes);

// Each thread of a team calls it with its number: moves the thread to its place, at no cost if it is there already. A
// thread that continues with other work calls cpu_unbind_thread.
void cpu_bind_thread(const cpu_binding *binding, int thread);
void cpu_unbind_thread(void);
