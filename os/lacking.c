// lacking.c: what only Linux has, on the other systems: no quotas of processors, no large pages that are asked for, and
// neither system calls nor files are filtered. Callers work without them. See os.h, confinement.h.
#pragma GCC diagnostic ignored "-Wunused-parameter" // they take what Linux needs
#include "os/threads.h"

#include <errno.h>
#include <unistd.h>

#include "clock.h"
#include "os/confinement.h"

// --- processors and memory -------------------------------------------------------------------------

void os_cpu_allowed(const char *root, double *quota_cpus, int64_t *throttled_ns) {
    *quota_cpus = 0;
    *throttled_ns = -1;
}

void os_memory_allowed(const char *root, uint64_t *total_bytes, uint64_t *available_bytes) {
    os_memory(root, total_bytes, available_bytes);
}

void os_bind_thread(pthread_attr_t *attributes, const os_processors *processors) {}

long os_n_preemptions(void) { return 0; }

bool os_look_while(_Atomic uint32_t *word, uint32_t value, const struct timespec *most) {
    const int64_t look_ns = 200000;
    const int64_t most_ns = most != NULL ? (int64_t)most->tv_sec * 1000000000 + most->tv_nsec : INT64_MAX;
    for (int64_t slept_ns = 0; atomic_load(word) == value; slept_ns += look_ns) {
        if (slept_ns >= most_ns) {
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = (long)look_ns}, NULL);
    }
    return true;
}

void os_use_large_pages(void *memory, size_t size_bytes) {}

void os_keep_from_children(void *memory, size_t size_bytes) {}

// Without a condition's own clock: the time by the clock that it has.
void os_init_condition(pthread_cond_t *condition) { pthread_cond_init(condition, NULL); }

bool os_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ns) {
    struct timespec there;
    const int64_t left_ns = until_ns - sm_now_ns();
    clock_gettime(CLOCK_REALTIME, &there);
    const int64_t end_ns = (int64_t)there.tv_sec * 1000000000 + there.tv_nsec + left_ns;
    const struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000), .tv_nsec = (long)(end_ns % 1000000000)};
    return left_ns > 0 && pthread_cond_timedwait(condition, lock, &end) != ETIMEDOUT;
}

size_t os_raise_stack(size_t size_bytes) { return size_bytes; }

#ifndef __APPLE__ // macos.c has it
unsigned long os_arm_features(void) { return 0; }
#endif

int os_sync_data(int file) { return fsync(file); }

void os_begin_writing(int file, int64_t at, int64_t n_bytes) {}

void os_end_with_parent(void) {} // on Windows a job does

void os_die_first(void) {}

// --- confinement -----------------------------------------------------------------------------------

bool os_filter_to_drive(void) { return false; }

bool os_has_address(const siginfo_t *info) { return info->si_code > 0; }

int os_filtered_call(const siginfo_t *info) { return 0; }

const char *os_call_name(int number, char text[32]) {
    snprintf(text, 32, "call %d", number);
    return text;
}

bool os_file_access_is_limited(void) { return false; }

int os_file_access_open(bool limits_reading) { return -1; }

void os_file_access_allow(int rules, const char *path, unsigned rights) {}

void os_file_access_allow_system(int rules) { (void)rules; }

void os_file_access_limit(int rules) { (void)rules; }
