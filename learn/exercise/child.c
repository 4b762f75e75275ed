// child.c: a process with limits (process.h) and confinement (own_kernels/confine.c), and its outcome. A forbidden call
// raises SIGSYS, whose handler records it. Results return through memory that both processes share.
#include "learn/exercise/judge.h"

#include <unistd.h>

#include "os/confinement.h"
#include "os/memory.h"
#include "src/processes/process.h"

enum {
    MAX_PRINTED_BYTES = 1 << 16,
    MAX_FILE_BYTES = 1 << 26, // of a driver's cache
    STACK_BYTES = 1 << 16,    // of the signal handlers
    EXIT_OF_HANDLER = 99,
};
static const uint64_t most_memory_bytes = (uint64_t)1 << 30; // in addition to what the process has
static const uint64_t most_driver_bytes = (uint64_t)4 << 30; // likewise, for its own writable memory

// Shared by both processes. The child may write anything into it; only the report depends on it.
typedef struct {
    bool is_done;
    bool is_refused;
    bool is_confined;
    volatile int case_index;
    sm_child_result result; // what the child knows of it
} control;

static control *shared; // in the child, for its handlers

// --- the child -------------------------------------------------------------------------------------

static void on_signal(int number, siginfo_t *info, SM_UNUSED void *context) {
    sm_child_result *result = &shared->result;
    result->signal_number = number;
    result->syscall_number = number == SIGSYS ? os_filtered_call(info) : 0;
    result->has_address = (number == SIGSEGV || number == SIGBUS) && os_has_address(info);
    result->address = result->has_address ? info->si_addr : NULL;
    os_exit_now(EXIT_OF_HANDLER); // a sanitizer's _exit() makes forbidden calls, and returns
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
    signal(SIGINT, SIG_IGN); // the parent handles it
    signal(SIGTERM, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

// Write-protects inputs, except one that an output shares.
static void protect_inputs(const sm_exercise_case *c) {
    for (int i = 0; i < SM_MAX_IN; i++) {
        const sm_case_operand *o = &c->operands[i];
        if (o->map != NULL && !sm_case_is_overwritten(c, o)) {
            os_protect(o->map + o->page_bytes, o->map_bytes - 2 * o->page_bytes, OS_MAY_ONLY_READ);
        }
    }
}

static _Noreturn void refuse(void) {
    shared->is_refused = true;
    snprintf(shared->result.message, sizeof shared->result.message, "%s", sm_error_message());
    _exit(0);
}

typedef struct {
    const char *path;
    sm_kernel_file *file;
    const sm_exercise_cases *cases;
    const sm_exercise_options *how;
    char folder[PATH_MAX]; // the only writable folder
} check;

static int run_check(void *ctx) {
    const check *c = ctx;
    const sm_exercise_cases *cases = c->cases;
    const bool is_driver = c->file->language == SM_OWN_OPENCL;
    sm_own_kernel kernel;
    os_close_from(3);
    catch_signals();
    for (int i = 0; !is_driver && i < cases->n; i++) {
        protect_inputs(&cases->list[i]);
    }
    char *const libraries[] = {c->file->library};
    shared->is_confined = is_driver ? sm_confine_driver(c->folder) : sm_confine_kernel(libraries, 1);
    if (!shared->is_confined) {
        _exit(0);
    }
    if (sm_kernel_load(c->path, c->file, cases->list[0].kind, &kernel) != SM_OK) {
        refuse();
    }
    if (is_driver && sm_exercise_device_run(&kernel, c->how->device, cases, &shared->case_index) != SM_OK) {
        refuse();
    }
    for (int i = 0; !is_driver && i < cases->n; i++) {
        shared->case_index = i;
        kernel.run(cases->list[i].args.members);
        fflush(stdout);
    }
    shared->is_done = true;
    fflush(stdout);
    _exit(0);
}

// --- the parent ------------------------------------------------------------------------------------

static sm_status judge(const control *seen, const sm_process_result *process, sm_child_result *result) {
    *result = seen->result;
    result->case_index = seen->case_index;
    result->printed = NULL;
    result->message[sizeof result->message - 1] = '\0';
    if (process->exit_code != EXIT_OF_HANDLER) {
        result->signal_number = process->signal;
    }
    if (process->interrupted) {
        return SM_ERR_INTERRUPTED;
    }
    if (process->late || result->signal_number == SIGXCPU) {
        result->end = SM_CHILD_TIMEOUT;
    } else if (result->signal_number == SIGSYS) {
        result->end = SM_CHILD_SYSCALL;
    } else if (result->signal_number != 0) {
        result->end = SM_CHILD_SIGNAL;
    } else if (!seen->is_confined) {
        return sm_fail(SM_ERR_UNSUPPORTED, "exercise: this system has no seccomp filter to confine a kernel with; "
                                           "`stepmark verify --kernel` runs it unconfined, in a process apart");
    } else {
        result->end = seen->is_refused ? SM_CHILD_REFUSED : seen->is_done ? SM_CHILD_DONE : SM_CHILD_EXIT;
    }
    return SM_OK;
}

// A driver's process gets more: its threads compute concurrently, and it maps memory that it does not use.
static sm_status run_limited(check *c, sm_process_result *process) {
    const bool is_driver = c->file->language == SM_OWN_OPENCL;
    const long n_processors = is_driver ? sysconf(_SC_NPROCESSORS_ONLN) : 1;
    const uint64_t cpu_s = ((uint64_t)c->how->timeout_s + 2) * (uint64_t)(n_processors > 0 ? n_processors : 1);
    const os_limit limits[] = {
        {OS_LIMIT_CORE_BYTES, 0, false},
        {OS_LIMIT_CPU_S, cpu_s, false},
        {OS_LIMIT_FILE_BYTES, is_driver ? MAX_FILE_BYTES : MAX_PRINTED_BYTES, false},
        {is_driver ? OS_LIMIT_MEMORY : OS_LIMIT_ADDRESSES, is_driver ? most_driver_bytes : most_memory_bytes, true}};
    const sm_process_job job = {.work = run_check,
                                .ctx = c,
                                .has_no_input = true,
                                .output = SM_OUTPUT_FILE,
                                .limits = limits,
                                .n_limits = sizeof limits / sizeof limits[0],
                                .own_session = true,
                                .in_files = true,
                                .timeout_s = c->how->timeout_s,
                                .interrupted = c->how->interrupted};
    return sm_process_run(&job, process);
}

sm_status sm_exercise_child_run(const char *path, sm_kernel_file *file, const sm_exercise_cases *cases,
                                const sm_exercise_options *how, sm_child_result *result) {
    check c = {.path = path, .file = file, .cases = cases, .how = how};
    sm_process_result process;
    *result = (sm_child_result){.printed = NULL};
    shared = os_map_shared(sizeof *shared);
    SM_FAIL_IF(shared == NULL, SM_ERR_OOM, "exercise: no memory for a process's results");
    sm_status status = sm_kernel_folder_make("check", c.folder);
    if (status == SM_OK) {
        status = run_limited(&c, &process);
        sm_remove_tree(c.folder);
    }
    if (status == SM_OK) {
        status = judge(shared, &process, result);
        result->printed = process.out;
        process.out = NULL;
        sm_process_free(&process);
    }
    os_unmap(shared, sizeof *shared);
    return status;
}
