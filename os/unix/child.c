#include "os/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/confinement.h"
#include "os/os.h"

enum { MOST_AWAITED = 8 };

int64_t os_n_killed_for_memory(void) {
    uint64_t n;
    return os_read_count("", "/proc/vmstat", "oom_kill ", &n) ? (int64_t)n : -1;
}

const char os_says_unconfined[] =
    "own code ran in a process apart, which this system cannot confine: it has no filter of system calls";
const char os_says_unlimited[] =
    "own code could read files, as this system has no Landlock: those of this program, too";

// --- limits ----------------------------------------------------------------------------------------

// This process's mapped memory; 0: unknown.
static uint64_t mapped_bytes(void) {
    uint64_t n_pages = 0;
    return os_read_count("", "/proc/self/statm", "", &n_pages) ? n_pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

// AddressSanitizer maps terabytes that it never touches, so it could not start under a limit.
#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
enum { CAN_LIMIT_MEMORY = 0 };
#else
enum { CAN_LIMIT_MEMORY = 1 };
#endif

static void set_limit(const os_limit *l, uint64_t mapped) {
    static const int resources[] = {
        [OS_LIMIT_ADDRESSES] = RLIMIT_AS, [OS_LIMIT_MEMORY] = RLIMIT_DATA,      [OS_LIMIT_CORE_BYTES] = RLIMIT_CORE,
        [OS_LIMIT_CPU_S] = RLIMIT_CPU,    [OS_LIMIT_FILE_BYTES] = RLIMIT_FSIZE,
    };
    const bool is_memory = l->kind == OS_LIMIT_ADDRESSES || l->kind == OS_LIMIT_MEMORY;
    const rlim_t most = l->most + (l->beyond_ours ? mapped : 0);
    if (l->beyond_ours ? mapped > 0 : CAN_LIMIT_MEMORY || !is_memory) {
        (void)setrlimit(resources[l->kind], &(struct rlimit){most, most}); // on failure the machine's own limits remain
    }
}

void os_limit_this(const os_limit *limit) { set_limit(limit, mapped_bytes()); }

// --- in the new process --------------------------------------------------------------------------

static void close_at(int *file) {
    if (*file >= 0) {
        close(*file);
    }
    *file = -1;
}

static void connect_streams(const os_child_plan *plan) {
    const int files[] = {plan->in, plan->out, plan->err};
    for (int i = 0; i < 3; i++) {
        if (files[i] != OS_CHILD_OURS) {
            dup2(files[i] == OS_CHILD_NOTHING ? open("/dev/null", O_RDWR | O_CLOEXEC) : files[i], i);
        }
    }
    if (plan->kept_at != NULL) {
        close_at(plan->kept_at);
        *plan->kept_at = plan->kept;
    }
    for (int i = 0; i < plan->n_closed; i++) {
        if (plan->closed[i] >= 0) {
            close(plan->closed[i]);
        }
    }
}

static _Noreturn void become(const os_child_plan *plan, pid_t parent, uint64_t mapped, int starting,
                             const sigset_t *signals) {
    os_end_with_parent();
    if (getppid() != parent) { // it died before the line above
        _exit(127);
    }
    if (plan->own_session) {
        setsid();
    }
    connect_streams(plan);
    for (int i = 0; i < plan->n_limits; i++) {
        set_limit(&plan->limits[i], mapped);
    }
    if (plan->dies_first) {
        os_die_first();
    }
    if (plan->argv != NULL) { // the program must not inherit our handlers
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
    }
    sigprocmask(SIG_SETMASK, signals, NULL);
    if (plan->prepare != NULL) {
        plan->prepare(plan->ctx);
    }
    if (plan->argv == NULL) {
        exit(plan->work(plan->ctx));
    }
    execvp(plan->argv[0], plan->argv);
    const int reason = errno;
    (void)!write(starting, &reason, sizeof reason);
    _exit(127);
}

// --- its start -----------------------------------------------------------------------------------

const bool os_child_forks = true;

const char *os_told(void) { return NULL; }

// Blocks signals that we or programs handle; *before: those that were blocked.
static void hold_signals(sigset_t *before) {
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigprocmask(SIG_BLOCK, &ours, before);
}

// Waits until the program runs, or for the error.
static int await_program(int starting) {
    int reason = 0;
    ssize_t n;
    while ((n = read(starting, &reason, sizeof reason)) < 0 && errno == EINTR) {
    }
    return n == (ssize_t)sizeof reason ? reason : 0;
}

// Signals stay blocked until the child has no handlers of ours.
int os_child_start(const os_child_plan *plan, os_child *child) {
    int starting[2] = {-1, -1};
    sigset_t before;
    const pid_t parent = getpid();
    const uint64_t mapped = mapped_bytes();
    *child = (os_child){.watched = -1};
    if (plan->argv != NULL && !os_open_pipe(starting)) {
        return errno;
    }
    fflush(NULL); // empties our buffers, which the child would copy
    hold_signals(&before);
    child->number = fork();
    int reason = child->number < 0 ? errno : 0;
    if (child->number == 0) {
        close_at(&starting[0]);
        become(plan, parent, mapped, starting[1], &before);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    close_at(&starting[1]);
    if (reason == 0 && plan->argv != NULL) {
        reason = await_program(starting[0]);
        if (reason != 0) {
            (void)waitpid(child->number, NULL, 0);
        }
    }
    close_at(&starting[0]);
    if (reason != 0) {
        child->number = 0;
        return reason;
    }
    child->watched = os_watch(child->number);
    return 0;
}

// --- its end -------------------------------------------------------------------------------------

void os_child_ask(const os_child *child) { kill(child->number, SIGTERM); }

void os_child_kill(const os_child *child, bool with_session) {
    if (with_session) {
        kill(-child->number, SIGKILL);
    }
    kill(child->number, SIGKILL); // it may not have its session yet
}

bool os_child_has_ended(const os_child *child) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)child->number, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

bool os_child_has_session(const os_child *child) { return kill(-child->number, 0) == 0; }

bool os_process_is_there(int number) { return kill(number, 0) == 0 || errno != ESRCH; }

int os_child_take(os_child *child, bool at_once, os_child_end *end) {
    struct rusage usage = {0};
    int state = 0;
    pid_t done;
    while ((done = wait4(child->number, &state, at_once ? WNOHANG : 0, &usage)) < 0 && errno == EINTR) {
    }
    if (done < 0) {
        return errno;
    }
    *end = (os_child_end){
        .exit_code = done > 0 && WIFEXITED(state) ? WEXITSTATUS(state) : -1,
        .signal = done == 0            ? SIGKILL
                  : WIFSIGNALED(state) ? WTERMSIG(state)
                                       : 0,
        .peak_rss_bytes = os_rss_bytes(usage.ru_maxrss),
    };
    close_at(&child->watched);
    return 0;
}

// Signals are blocked except during the sleep, so that none comes between the check and the sleep.
bool os_await(const os_child *child, const int *files, bool *has_news, int n, int64_t most_ns,
              const volatile sig_atomic_t *counted, int n_seen) {
    struct pollfd polled[MOST_AWAITED + 1] = {[0] = {child != NULL ? child->watched : -1, POLLIN, 0}};
    const struct timespec most = {.tv_sec = most_ns / 1000000000, .tv_nsec = most_ns % 1000000000};
    sigset_t before;
    int n_ready = -1;
    for (int i = 0; i < n && i < MOST_AWAITED; i++) {
        polled[i + 1] = (struct pollfd){files[i], POLLIN, 0};
    }
    hold_signals(&before);
    if (counted == NULL || *counted == n_seen) {
        n_ready = os_poll(polled, n + 1, &most, &before);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    for (int i = 0; i < n; i++) {
        has_news[i] = n_ready > 0 && polled[i + 1].revents != 0;
    }
    return n_ready != 0;
}
