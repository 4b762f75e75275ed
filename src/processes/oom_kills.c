// oom_kills.c: see oom_kills.h.
#include "src/processes/oom_kills.h"

#include <inttypes.h>
#include <stdio.h>

int64_t sm_oom_kills(void) {
    char line[128];
    int64_t n = -1;
    FILE *file = fopen("/proc/vmstat", "re");
    while (file != NULL && n < 0 && fgets(line, sizeof(line), file) != NULL) {
        (void)sscanf(line, "oom_kill %" SCNd64, &n);
    }
    if (file != NULL) {
        fclose(file);
    }
    return n;
}
