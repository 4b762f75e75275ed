// posix.c: see os.h. Functions beyond POSIX report that they are unavailable, and callers work without them: threads
// are not bound, /proc and /sys are not read, ended children are polled for, system calls and files are not filtered.
#pragma GCC diagnostic ignored "-Wunused-parameter" // some take what only others need
#include "os/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "os/confinement.h"
#include "os/child.h"

// --- processors and memory -------------------------------------------------------------------------

bool os_processors_allowed(os_processors *allowed) {
    memset(allowed, 0, sizeof *allowed);
    return false;
}

int os_n_processors(void) {
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

const bool os_threads_inherit_places = true;

#ifndef __APPLE__ // macos.c has it
void os_memory(const char *root, uint64_t *total_bytes, uint64_t *available_bytes) {
    const long n_pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    *total_bytes = n_pages > 0 && page_bytes > 0 ? (uint64_t)n_pages * (uint64_t)page_bytes : 0;
    *available_bytes = *total_bytes;
}
#endif

bool os_may_use_tiles(void) { return false; }

// Nobody wakes us.
bool os_sleep_while(_Atomic uint32_t *word, uint32_t value, const struct timespec *most, bool is_shared) {
    return os_look_while(word, value, most);
}

void os_wake(_Atomic uint32_t *word, bool is_shared) {}

// --- files -----------------------------------------------------------------------------------------

#ifndef __APPLE__ // macos.c has it
FILE *os_open_facts(const char *root, const char *path) {
    char whole[4096];
    if (root[0] == '\0') { // the contents of such files are unknown here
        errno = ENOENT;
        return NULL;
    }
    return (size_t)snprintf(whole, sizeof whole, "%s%s", root, path) < sizeof whole ? fopen(whole, "r") : NULL;
}
#endif

static bool close_at_exec(int file) { return file >= 0 && fcntl(file, F_SETFD, FD_CLOEXEC) == 0; }

int os_open_nameless(void) {
    char path[4096];
    os_temporary_folder(path, sizeof path - sizeof "/stepmark-XXXXXX");
    strcat(path, "/stepmark-XXXXXX");
    const int file = mkstemp(path);
    if (file >= 0) {
        unlink(path);
        (void)close_at_exec(file);
    }
    return file;
}

bool os_open_pipe(int ends[2]) { return pipe(ends) == 0 && close_at_exec(ends[0]) && close_at_exec(ends[1]); }

bool os_draw(void *bytes, size_t n_bytes) {
    const int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    const bool is_drawn = file >= 0 && read(file, bytes, n_bytes) == (ssize_t)n_bytes;
    if (file >= 0) {
        close(file);
    }
    return is_drawn;
}

bool os_filter_to_compute(void) { return false; }

// --- processes -------------------------------------------------------------------------------------

static char *program;

// argv0, or where a shell found it.
static char *find_program(const char *argv0) {
    const char *folders = getenv("PATH");
    if (strchr(argv0, '/') != NULL || folders == NULL) {
        return realpath(argv0, NULL);
    }
    for (const char *folder = folders; *folder != '\0';) {
        char path[4096];
        const size_t length = strcspn(folder, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, argv0);
        if (access(path, X_OK) == 0) {
            return realpath(path, NULL);
        }
        folder += length + (folder[length] == ':');
    }
    return NULL;
}

void os_begin(char ***argv) {
    os_hold_streams();
    program = (*argv)[0] != NULL ? find_program((*argv)[0]) : NULL;
}

const char *os_program(void) { return program != NULL ? program : ""; }

int os_watch(pid_t child) { return -1; }

int64_t os_child_busy_ns(const os_child *child) { return 0; }

// A signal between the two calls is seen after at most LOOK_MS.
int os_poll(struct pollfd *files, int n, const struct timespec *most, const sigset_t *signals) {
    enum { LOOK_MS = 50 };
    sigset_t before;
    const int64_t ms = (int64_t)most->tv_sec * 1000 + most->tv_nsec / 1000000;
    sigprocmask(SIG_SETMASK, signals, &before);
    const int n_ready = poll(files, (nfds_t)n, ms < LOOK_MS ? (int)ms : LOOK_MS);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return n_ready;
}

void os_leave_no_core(void) { (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); }

void os_close_from(int first) {
    for (long i = sysconf(_SC_OPEN_MAX) - 1; i >= first; i--) {
        close((int)i);
    }
}

void os_exit_now(int code) { _exit(code); }
