// process_limits.c: see process_limits.h.
#include "src/processes/process_limits.h"

#include <stdio.h>
#include <unistd.h>

void sm_limit(int resource, rlim_t most) {
    const struct rlimit limits = {most, most};
    setrlimit(resource, &limits);
}

void sm_limit_memory(int resource, rlim_t most_bytes) {
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long long pages = 0;
    if (file != NULL && fscanf(file, "%llu", &pages) == 1) {
        sm_limit(resource, (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + most_bytes);
    }
    if (file != NULL) {
        fclose(file);
    }
}
