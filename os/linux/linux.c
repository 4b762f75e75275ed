// linux.c: see os/os.h. Calls newer than glibc 2.28, or than the running kernel, are made by number and may fail.
#include "os/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/child.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

// --- processors and memory -------------------------------------------------------------------------

_Static_assert(sizeof(cpu_set_t) == sizeof(os_processors), "both are lists of bits, a bit a processor");

bool os_processors_allowed(os_processors *allowed) {
    cpu_set_t set;
    const bool is_told = sched_getaffinity(0, sizeof set, &set) == 0;
    memset(allowed, 0, sizeof *allowed);
    if (is_told) {
        memcpy(allowed, &set, sizeof *allowed);
    }
    return is_told;
}

int os_n_processors(void) {
    cpu_set_t set; // it is not told where there are more processors than this has
    const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? n : 1;
}

const bool os_threads_inherit_places = true;

void os_init_condition(pthread_cond_t *condition) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

bool os_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ns) {
    const struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    return pthread_cond_timedwait(condition, lock, &until) != ETIMEDOUT;
}

size_t os_raise_stack(size_t size_bytes) {
    struct rlimit limit;
    pthread_attr_t threads;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= size_bytes) {
        return SIZE_MAX;
    }
    const rlim_t before_bytes = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max < size_bytes ? limit.rlim_max : size_bytes;
    const rlim_t now_bytes = setrlimit(RLIMIT_STACK, &limit) == 0 ? limit.rlim_cur : before_bytes;
    if (pthread_attr_init(&threads) == 0) {
        (void)pthread_attr_setstacksize(&threads, size_bytes);
        (void)pthread_setattr_default_np(&threads);
        pthread_attr_destroy(&threads);
    }
    return (size_t)now_bytes;
}

unsigned long os_arm_features(void) { return getauxval(AT_HWCAP2); }

void os_bind_thread(pthread_attr_t *attributes, const os_processors *processors) {
    cpu_set_t set;
    memcpy(&set, processors, sizeof set);
    (void)pthread_attr_setaffinity_np(attributes, sizeof set, &set);
}

#if defined(__x86_64__)
bool os_may_use_tiles(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#endif

void os_use_large_pages(void *memory, size_t size_bytes) { (void)madvise(memory, size_bytes, MADV_HUGEPAGE); }

void os_keep_from_children(void *memory, size_t size_bytes) { (void)madvise(memory, size_bytes, MADV_DONTFORK); }

bool os_sleep_while(_Atomic uint32_t *word, uint32_t value, const struct timespec *most, bool is_shared) {
    const int wait = is_shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE;
    return syscall(SYS_futex, word, wait, value, most, NULL, 0) == 0 || errno != ETIMEDOUT;
}

void os_wake(_Atomic uint32_t *word, bool is_shared) {
    syscall(SYS_futex, word, is_shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

long os_n_preemptions(void) {
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

// --- files -----------------------------------------------------------------------------------------

FILE *os_open_facts(const char *root, const char *path) {
    char whole[4096];
    return (size_t)snprintf(whole, sizeof whole, "%s%s", root, path) < sizeof whole ? fopen(whole, "re") : NULL;
}

void os_begin_writing(int file, int64_t at, int64_t n_bytes) {
    (void)sync_file_range(file, at, n_bytes, SYNC_FILE_RANGE_WRITE);
}

int os_sync_data(int file) { return fdatasync(file); }

int os_open_nameless(void) { return (int)syscall(SYS_memfd_create, "stepmark", 1U /* MFD_CLOEXEC */); }

bool os_open_pipe(int ends[2]) { return pipe2(ends, O_CLOEXEC) == 0; }

bool os_draw(void *bytes, size_t n_bytes) { return getrandom(bytes, n_bytes, GRND_NONBLOCK) == (ssize_t)n_bytes; }

// --- processes -------------------------------------------------------------------------------------

void os_begin(char ***argv) {
    (void)argv;
    os_hold_streams();
}

const char *os_program(void) { return "/proc/self/exe"; }

int os_watch(pid_t child) { return (int)syscall(SYS_pidfd_open, child, 0); }

int64_t os_child_busy_ns(const os_child *child) {
    clockid_t clock;
    struct timespec time;
    return clock_getcpuclockid(child->number, &clock) == 0 && clock_gettime(clock, &time) == 0
               ? (int64_t)time.tv_sec * 1000000000 + time.tv_nsec
               : 0;
}

int os_poll(struct pollfd *files, int n, const struct timespec *most, const sigset_t *signals) {
    return ppoll(files, (nfds_t)n, most, signals);
}

void os_end_with_parent(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); }

void os_die_first(void) {
    const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
        (void)!write(file, "1000", 4);
        close(file);
    }
}

void os_leave_no_core(void) { prctl(PR_SET_DUMPABLE, 0); }

void os_close_from(int first) {
    if (syscall(SYS_close_range, first, ~0U, 0) != 0) {
        for (long i = sysconf(_SC_OPEN_MAX) - 1; i >= first; i--) {
            close((int)i);
        }
    }
}

void os_exit_now(int code) {
    for (;;) {
        syscall(SYS_exit_group, code);
    }
}
