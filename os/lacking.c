// lacking.c: what only Linux has, on the other systems: no quotas of processors, no large pages that are asked for, and
// neither system calls nor files are filtered. Callers work without them. See os.h, call_filter.h, file_access.h.
#include "os/threads.h"

#include <stdio.h>

#include "os/call_filter.h"
#include "os/file_access.h"

// --- processors and memory -------------------------------------------------------------------------

void os_cpu_allowed(const char *root, double *quota_cpus, int64_t *throttled_ns) {
    (void)root;
    *quota_cpus = 0;
    *throttled_ns = -1;
}

void os_use_large_pages(void *memory, size_t size_bytes) {
    (void)memory;
    (void)size_bytes;
}

void os_keep_from_children(void *memory, size_t size_bytes) {
    (void)memory;
    (void)size_bytes;
}

// --- confinement -----------------------------------------------------------------------------------

bool os_filter_to_compute(void) { return false; }

bool os_filter_to_drive(void) { return false; }

int os_filtered_call(const siginfo_t *info) {
    (void)info;
    return 0;
}

const char *os_call_name(int number, char text[32]) {
    snprintf(text, 32, "call %d", number);
    return text;
}

bool os_file_access_is_limited(void) { return false; }

int os_file_access_open(bool limits_reading) {
    (void)limits_reading;
    return -1;
}

void os_file_access_allow(int rules, const char *path, unsigned rights) {
    (void)rules;
    (void)path;
    (void)rights;
}

void os_file_access_allow_system(int rules) { (void)rules; }

void os_file_access_limit(int rules) { (void)rules; }
