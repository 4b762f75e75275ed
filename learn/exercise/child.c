// child.c: fork, limits, confinement (exercise/confine.h), and its outcome. A call that is not allowed raises SIGSYS,
// whose handler writes down which it was. Results come back through memory that both processes share.
#include "learn/exercise/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "src/processes/process_limits.h"
#include "src/processes/remove_tree.h"
#include "learn/exercise/confine.h"
#include "learn/exercise/device.h"

enum {
    MAX_PRINTED_BYTES = 1 << 16,
    MAX_FILE_BYTES = 1 << 26, // that a driver keeps
    STACK_BYTES = 1 << 16,    // of the signals' handler
    EXIT_OF_HANDLER = 99,
    POLL_MS = 50,
};
static const rlim_t most_memory_bytes = (rlim_t)1 << 30; // beside what the process has already
static const rlim_t most_driver_bytes = (rlim_t)4 << 30; // likewise, of memory of its own that it can write to
static const int64_t time_for_timing_ns = 60000000;      // 60 ms
static const int64_t least_samples = 5;
static const double meter_s = 60; // for our kernel and the ceilings, on a device

// Shared by both processes. The child's word alone: nothing but the report depends on it.
typedef struct {
    volatile int case_index;
    bool is_done;
    bool is_refused;
    bool is_confined;
    int signal_number;
    int syscall_number;
    bool has_address;
    void *address;
    double ns;
    char message[512];
} control;

static control *shared; // in the child, for its handlers

// --- what it asked for ----------------------------------------------------------------------------

const char *sm_syscall_name(int number, char text[32]) {
    static const struct {
        int number;
        const char *name;
    } names[] = {
        {SYS_clone, "fork"},
        {SYS_execve, "exec"},
        {SYS_socket, "socket"},
        {SYS_kill, "kill"},
        {SYS_tgkill, "abort"},
        {SYS_unlinkat, "remove"},
        {SYS_openat, "open, to write"},
        {SYS_connect, "connect"},
        {SYS_ptrace, "ptrace"},
        {SYS_write, "write, to a file"},
#ifdef SYS_fork
        {SYS_fork, "fork"},
#endif
#ifdef SYS_vfork
        {SYS_vfork, "fork"},
#endif
#ifdef SYS_clone3
        {SYS_clone3, "fork"},
#endif
#ifdef SYS_unlink
        {SYS_unlink, "remove"},
#endif
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].number == number) {
            return names[i].name;
        }
    }
    snprintf(text, 32, "call %d", number);
    return text;
}

// --- the child -------------------------------------------------------------------------------------

static void on_signal(int number, siginfo_t *info, void *context) {
    (void)context;
    shared->signal_number = number;
    shared->syscall_number = number == SIGSYS ? info->si_syscall : 0;
    // Of an address that no processor has, the system is not told which it was.
    shared->has_address = (number == SIGSEGV || number == SIGBUS) && info->si_code > 0 && info->si_code != SI_KERNEL;
    shared->address = shared->has_address ? info->si_addr : NULL;
    syscall(SYS_exit_group, EXIT_OF_HANDLER); // _exit() of a sanitizer calls what is forbidden here, and comes back
}

static void catch_signals(void) {
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGXCPU, SIGXFSZ};
    static char stack[STACK_BYTES];
    sigset_t none;
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++) {
        struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        sigaction(fatal[i], &action, NULL);
    }
    signal(SIGINT, SIG_IGN); // the parent's affair
    signal(SIGTERM, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

// Of a driver's process: its threads compute at the same time, and it maps what it does not use.
static void set_limits(double timeout_s, bool is_driver) {
    const long n_processors = sysconf(_SC_NPROCESSORS_ONLN);
    sm_limit(RLIMIT_CORE, 0);
    sm_limit(RLIMIT_CPU, ((rlim_t)timeout_s + 2) * (rlim_t)(is_driver && n_processors > 0 ? n_processors : 1));
    sm_limit(RLIMIT_FSIZE, is_driver ? MAX_FILE_BYTES : MAX_PRINTED_BYTES);
    sm_limit_memory(is_driver ? RLIMIT_DATA : RLIMIT_AS, is_driver ? most_driver_bytes : most_memory_bytes);
}

// Inputs cannot be written to, but for one that an output shares.
static void protect_inputs(const sm_exercise_case *c) {
    for (int i = 0; i < SM_MAX_IN; i++) {
        const sm_case_operand *o = &c->operands[i];
        bool is_written = false;
        for (int k = SM_MAX_IN; k < SM_CASE_OPERANDS; k++) {
            is_written |= c->operands[k].is_shared && c->operands[k].map == o->map;
        }
        if (o->map != NULL && !is_written) {
            mprotect(o->map + o->page_bytes, o->map_bytes - 2 * o->page_bytes, PROT_READ);
        }
    }
}

static void copy_outputs(sm_exercise_case *timed, bool restores, int which) {
    for (int i = SM_MAX_IN; i < SM_CASE_OPERANDS; i++) {
        const sm_case_operand *o = &timed->operands[i];
        if (o->info != NULL) {
            memcpy(restores ? sm_case_timed(o, SM_TIMED_LAST) : sm_case_timed(o, which),
                   restores ? (const char *)o->before : sm_case_timed(o, SM_TIMED_LAST), o->size_bytes);
        }
    }
}

// Outputs lie apart then, so that the results of the cases stay. Before each call they are as they were: what it leaves
// is compared, too.
static double time_one(const sm_own_kernel *kernel, sm_exercise_case *timed) {
    int64_t least_ns = INT64_MAX;
    int64_t total_ns = 0;
    for (int i = SM_MAX_IN; i < SM_CASE_OPERANDS; i++) {
        const sm_case_operand *o = &timed->operands[i];
        const int member = o->info == NULL ? -1 : sm_own_member_index(timed->kind, o->info->name);
        if (member >= 0) {
            timed->args.members[member].out = sm_case_timed(o, SM_TIMED_LAST);
        }
    }
    for (int64_t n = 0; n < least_samples || total_ns < time_for_timing_ns; n++) {
        copy_outputs(timed, true, SM_TIMED_LAST);
        const int64_t before_ns = sm_now_ns();
        kernel->run(timed->args.members);
        const int64_t ns = sm_now_ns() - before_ns;
        least_ns = ns < least_ns ? ns : least_ns;
        total_ns += ns > 0 ? ns : 1;
        if (sm_case_draws(n)) {
            copy_outputs(timed, false, SM_TIMED_DRAWN);
        }
    }
    return (double)least_ns;
}

static void run_cases(const sm_own_kernel *kernel, const sm_exercise_cases *cases) {
    for (int i = 0; i < cases->n; i++) {
        shared->case_index = i;
        kernel->run(cases->list[i].args.members);
        fflush(stdout);
    }
}

static _Noreturn void refuse(void) {
    shared->is_refused = true;
    snprintf(shared->message, sizeof shared->message, "%s", sm_error_message());
    _exit(0);
}

// On a device, into the operands' memory.
static _Noreturn void run_on_device(const sm_own_kernel *kernel, const char *device, const sm_exercise_cases *cases,
                                    bool with_time) {
    if (sm_exercise_device_run(kernel, device, cases, &shared->case_index) != SM_OK) {
        refuse();
    }
    shared->is_done = true;
    fflush(stdout);
    if (with_time && sm_exercise_device_time(kernel, device, cases, true, &shared->ns) != SM_OK) {
        shared->ns = 0;
    }
    _exit(0);
}

static _Noreturn void be_child(const char *path, sm_kernel_file *file, const sm_exercise_cases *cases,
                               const sm_exercise_child_options *how, int printed, const char *folder) {
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const bool is_driver = file->language == SM_OWN_OPENCL;
    sm_own_kernel kernel;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    dup2(nothing, 0);
    dup2(printed, 1);
    dup2(printed, 2);
    close_range(3, ~0U, 0);
    catch_signals();
    set_limits(how->timeout_s, is_driver);
    for (int i = 0; !is_driver && i < cases->n; i++) {
        protect_inputs(&cases->list[i]);
    }
    shared->is_confined = is_driver ? sm_confine_driver(folder) : sm_confine_kernel(file->library);
    if (!shared->is_confined) {
        _exit(0);
    }
    if (sm_kernel_load(path, file, cases->list[0].kind, &kernel) != SM_OK) {
        refuse();
    }
    if (is_driver) {
        run_on_device(&kernel, how->device, cases, how->with_time);
    }
    run_cases(&kernel, cases);
    shared->is_done = true;
    if (how->with_time) {
        shared->ns = time_one(&kernel, &cases->list[cases->timed]);
    }
    _exit(0);
}

// --- the parent ------------------------------------------------------------------------------------

// SM_ERR_TIMEOUT, SM_ERR_INTERRUPTED, or SM_OK: it has ended by itself.
static sm_status wait_until_ended(int process, double timeout_s, const volatile sig_atomic_t *interrupted) {
    const int64_t deadline_ns = sm_now_ns() + (int64_t)(timeout_s * 1e9);
    while (sm_now_ns() < deadline_ns) {
        struct pollfd file = {.fd = process, .events = POLLIN};
        if (interrupted != NULL && *interrupted) {
            return SM_ERR_INTERRUPTED;
        }
        if (poll(&file, 1, POLL_MS) > 0) {
            return SM_OK;
        }
    }
    return SM_ERR_TIMEOUT;
}

static sm_status read_printed(int fd, sm_child_result *result) {
    const off_t end = lseek(fd, 0, SEEK_END);
    const size_t n = end > 0 ? (size_t)end : 0;
    result->printed = calloc(n + 1, 1);
    if (result->printed == NULL) {
        return sm_fail(SM_ERR_OOM, "exercise: no memory for what the kernel printed");
    }
    return pread(fd, result->printed, n, 0) == (ssize_t)n
               ? SM_OK
               : sm_fail(SM_ERR_IO, "exercise: cannot read what the kernel printed: %s", strerror(errno));
}

static sm_status judge(const control *seen, sm_status waited, int state, sm_child_result *result) {
    result->case_index = seen->case_index;
    result->ns = seen->ns;
    result->has_address = seen->has_address;
    result->address = seen->address;
    memcpy(result->message, seen->message, sizeof result->message);
    result->message[sizeof result->message - 1] = '\0';
    const bool was_caught = WIFEXITED(state) && WEXITSTATUS(state) == EXIT_OF_HANDLER;
    result->signal_number = was_caught ? seen->signal_number : WIFSIGNALED(state) ? WTERMSIG(state) : 0;
    result->syscall_number = seen->syscall_number;
    if (waited == SM_ERR_TIMEOUT || result->signal_number == SIGXCPU) {
        result->end = SM_CHILD_TIMEOUT;
    } else if (result->signal_number == SIGSYS) {
        result->end = SM_CHILD_SYSCALL;
    } else if (result->signal_number != 0) {
        result->end = SM_CHILD_SIGNAL;
    } else if (!seen->is_confined) {
        return sm_fail(SM_ERR_UNSUPPORTED, "exercise: this system has no seccomp filter to confine a kernel with; "
                                           "`stepmark verify --kernel` runs it unconfined");
    } else {
        result->end = seen->is_refused ? SM_CHILD_REFUSED : seen->is_done ? SM_CHILD_DONE : SM_CHILD_EXIT;
    }
    return SM_OK;
}

// What it started, and is ended with it, may still be at work in its folder.
static void wait_for_group(pid_t group) {
    enum { LOOKS = 200, LOOK_NS = 5000000 };
    for (int i = 0; i < LOOKS && kill(-group, 0) == 0; i++) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
}

static sm_status make_folder(char folder[PATH_MAX]) {
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, PATH_MAX, "%s/stepmark-check-XXXXXX", temporary != NULL ? temporary : "/tmp");
    return mkdtemp(folder) != NULL ? SM_OK
                                   : sm_fail(SM_ERR_IO,
                                             "%s: cannot be made: %s; set TMPDIR to a folder that can be "
                                             "written to",
                                             folder, strerror(errno));
}

static sm_status watch(pid_t pid, double timeout_s, const volatile sig_atomic_t *interrupted, int *state,
                       sm_status *waited) {
    const int process = pidfd_open(pid, 0);
    if (process < 0) {
        *waited = sm_fail(SM_ERR_UNSUPPORTED, "exercise: cannot watch a process: %s", strerror(errno));
    } else {
        *waited = wait_until_ended(process, timeout_s, interrupted);
        close(process);
    }
    kill(-pid, SIGKILL); // its session, if there is something left
    kill(pid, SIGKILL);
    while (waitpid(pid, state, 0) < 0) {
        if (errno != EINTR) {
            return sm_fail(SM_ERR_IO, "exercise: cannot wait for a process: %s", strerror(errno));
        }
    }
    wait_for_group(pid);
    return *waited == SM_ERR_UNSUPPORTED || *waited == SM_ERR_INTERRUPTED ? *waited : SM_OK;
}

sm_status sm_exercise_meter_run(const sm_exercise_cases *cases, const sm_exercise_child_options *how, double own_ns,
                                sm_exercise_device_times *times) {
    sm_status waited = SM_OK;
    int state = 0;
    sm_exercise_device_times *seen =
        mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seen == MAP_FAILED) {
        return sm_fail(SM_ERR_OOM, "exercise: no memory to measure a device");
    }
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setsid();
        _exit(sm_exercise_device_meter(how->device, cases, own_ns, seen) == SM_OK ? 0 : 1);
    }
    sm_status status = pid > 0 ? watch(pid, meter_s, how->interrupted, &state, &waited)
                               : sm_fail(SM_ERR_IO, "exercise: cannot start a process: %s", strerror(errno));
    *times = *seen;
    if (status == SM_OK && !(WIFEXITED(state) && WEXITSTATUS(state) == 0)) {
        *times = (sm_exercise_device_times){.ceiling_ns = NAN};
    }
    munmap(seen, sizeof *seen);
    return status;
}

sm_status sm_exercise_child_run(const char *path, sm_kernel_file *file, const sm_exercise_cases *cases,
                                const sm_exercise_child_options *how, sm_child_result *result) {
    sm_status status = SM_OK;
    sm_status waited = SM_OK;
    int state = 0;
    char folder[PATH_MAX];
    *result = (sm_child_result){.printed = NULL};
    SM_TRY(make_folder(folder));
    const int printed = memfd_create("stepmark", MFD_CLOEXEC);
    control *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (printed < 0 || seen == MAP_FAILED) {
        status = sm_fail(SM_ERR_OOM, "exercise: no memory to run a kernel in");
        goto cleanup;
    }
    shared = seen;
    fflush(NULL); // nothing of ours in the child's buffers
    const pid_t pid = fork();
    if (pid == 0) {
        be_child(path, file, cases, how, printed, folder);
    }
    if (pid < 0) {
        status = sm_fail(SM_ERR_IO, "exercise: cannot start a process: %s", strerror(errno));
        goto cleanup;
    }
    SM_TRY_GOTO(watch(pid, how->timeout_s, how->interrupted, &state, &waited));
    SM_TRY_GOTO(read_printed(printed, result));
    status = judge(seen, waited, state, result);
cleanup:
    sm_remove_tree(folder);
    if (seen != MAP_FAILED) {
        munmap(seen, sizeof *seen);
    }
    if (printed >= 0) {
        close(printed);
    }
    return status;
}
