// process.c: see process.h.
#include "src/processes/process.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "os/os.h"

enum { OUT, ERR, MESSAGES, STARTING, N_STREAMS }; // STARTING: the error if the program cannot be started

enum { MOST_OUT_BYTES = 256 << 20, MOST_ERR_BYTES = 1 << 20, PART_BYTES = 1 << 16 };

// A terminal and a parent may both send the same signal; after this time it is a new one.
static const int64_t again_ns = 300000000;

static const int64_t hang_ns = 300000000;           // waiting for a killed process that may hang
static const int64_t orphans_ns = 5000000000;       // for its own processes to end after it, and its streams
static const int64_t killed_orphans_ns = 100000000; // likewise after an interruption, or if killed with their session
static const int64_t look_ns = 50000000;            // polling interval
static const int64_t most_sleep_ns = 1000000000;    // another of our threads may have taken a signal

typedef struct {
    int fd; // -1 at its end
    char *text;
    size_t n;
    size_t room;
} stream;

typedef struct {
    const sm_process_job *job;
    sm_process_result *result;
    pid_t pid;
    int watched; // -1: poll
    int file;    // for SM_OUTPUT_FILE
    stream streams[N_STREAMS];
    int64_t begin_ns;
    int64_t asked_ns, killed_ns, ended_ns; // 0: not yet
    int n_signals;                         // ours, handled so far
} process;

// --- the machine ---------------------------------------------------------------------------------

// The number of processes that the kernel has killed because memory ran out, since boot; -1: unknown.
static int64_t count_oom_kills(void) {
    char line[128];
    int64_t n = -1;
    SM_OWN(FILE) *file = os_open_facts("", "/proc/vmstat");
    while (file != NULL && n < 0 && fgets(line, sizeof(line), file) != NULL) {
        (void)sscanf(line, "oom_kill %" SCNd64, &n);
    }
    return n;
}

// This process's mapped memory; 0: unknown.
static rlim_t mapped_bytes(void) {
    unsigned long long pages = 0;
    SM_OWN(FILE) *file = os_open_facts("", "/proc/self/statm");
    const bool is_known = file != NULL && fscanf(file, "%llu", &pages) == 1;
    return is_known ? (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) : 0;
}

// --- in the new process --------------------------------------------------------------------------

// AddressSanitizer maps terabytes that it never touches, so it could not start under a limit.
#if defined(__SANITIZE_ADDRESS__)
enum { CAN_LIMIT_MEMORY = 0 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { CAN_LIMIT_MEMORY = 0 };
#else
enum { CAN_LIMIT_MEMORY = 1 };
#endif
#else
enum { CAN_LIMIT_MEMORY = 1 };
#endif

static void set_limit(const sm_process_limit *l, rlim_t mapped) {
    const bool is_memory = l->resource == RLIMIT_AS || l->resource == RLIMIT_DATA;
    const rlim_t most = l->most + (l->beyond_ours ? mapped : 0);
    if (l->beyond_ours ? mapped > 0 : CAN_LIMIT_MEMORY || !is_memory) {
        (void)setrlimit(l->resource, &(struct rlimit){most, most}); // on failure the machine's own limits remain
    }
}

void sm_process_limit_this(const sm_process_limit *limit) { set_limit(limit, mapped_bytes()); }

static void connect_streams(const process *p, int ends[N_STREAMS][2]) {
    const sm_process_job *job = p->job;
    if (job->has_no_input) {
        dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    }
    if (job->output != SM_OUTPUT_OURS) {
        dup2(job->output == SM_OUTPUT_FILE ? p->file : ends[OUT][1], STDOUT_FILENO);
        dup2(job->output == SM_OUTPUT_FILE ? p->file : ends[ERR][1], STDERR_FILENO);
    }
    if (job->messages != NULL) {
        sm_close_at(job->messages);
        *job->messages = ends[MESSAGES][1];
    }
    for (int i = 0; i < N_STREAMS; i++) {
        sm_close_at(&ends[i][0]);
        if (i <= ERR) {
            sm_close_at(&ends[i][1]);
        }
    }
}

static _Noreturn void become(const process *p, pid_t parent, rlim_t mapped, int ends[N_STREAMS][2],
                             const sigset_t *signals) {
    const sm_process_job *job = p->job;
    os_end_with_parent();
    if (getppid() != parent) { // it died before the line above
        _exit(127);
    }
    if (job->own_session) {
        setsid();
    }
    connect_streams(p, ends);
    for (int i = 0; i < job->n_limits; i++) {
        set_limit(&job->limits[i], mapped);
    }
    if (job->dies_first) {
        os_die_first();
    }
    if (job->argv != NULL) { // the program must not inherit our handlers
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
    }
    sigprocmask(SIG_SETMASK, signals, NULL);
    if (job->prepare != NULL) {
        job->prepare(job->ctx);
    }
    if (job->argv == NULL) {
        exit(job->work(job->ctx));
    }
    execvp(job->argv[0], job->argv);
    const int reason = errno;
    (void)!write(ends[STARTING][1], &reason, sizeof(reason));
    _exit(127);
}

// --- starting it ---------------------------------------------------------------------------------

static const char *name_of(const sm_process_job *job) { return job->argv != NULL ? job->argv[0] : "a process"; }

// Blocks signals that we or programs handle; *before: those that were blocked.
static void hold_signals(sigset_t *before) {
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigprocmask(SIG_BLOCK, &ours, before);
}

// Signals stay blocked until the child has no handlers of ours.
static sm_status fork_it(process *p, int ends[N_STREAMS][2]) {
    sigset_t before;
    const pid_t parent = getpid();
    const rlim_t mapped = mapped_bytes();
    fflush(NULL); // empties our buffers, which the child would copy
    p->begin_ns = sm_now_ns();
    hold_signals(&before);
    p->pid = fork();
    const int reason = errno;
    if (p->pid == 0) {
        become(p, parent, mapped, ends, &before);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return p->pid > 0 ? SM_OK
                      : sm_fail(reason == ENOMEM ? SM_ERR_OOM : SM_ERR_IO, "%s: cannot be started: %s", name_of(p->job),
                                strerror(reason));
}

// Waits until the program runs, or for the error.
static sm_status await_program(process *p) {
    int reason = 0;
    ssize_t n;
    while ((n = read(p->streams[STARTING].fd, &reason, sizeof(reason))) < 0 && errno == EINTR) {
    }
    if (n != (ssize_t)sizeof(reason)) {
        return SM_OK;
    }
    return reason == ENOMEM
               ? sm_fail(SM_ERR_OOM, "%s: no memory to start it", name_of(p->job))
               : sm_fail(SM_ERR_UNSUPPORTED, "%s: cannot be started: %s", name_of(p->job), strerror(reason));
}

static sm_status start(process *p) {
    int ends[N_STREAMS][2] = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    const bool is_kept = p->job->output == SM_OUTPUT_KEPT;
    const bool wanted[N_STREAMS] = {is_kept, is_kept, p->job->messages != NULL, p->job->argv != NULL};
    for (int i = 0; i < N_STREAMS; i++) {
        SM_FAIL_IF(wanted[i] && !os_open_pipe(ends[i]), SM_ERR_IO, "%s: no pipe to start it: %s", name_of(p->job),
                   strerror(errno));
        p->streams[i].fd = ends[i][0];
    }
    p->file = p->job->output == SM_OUTPUT_FILE ? os_open_nameless() : -1;
    sm_status status = p->file >= 0 || p->job->output != SM_OUTPUT_FILE
                           ? SM_OK
                           : sm_fail(SM_ERR_IO, "%s: cannot keep its output: %s", name_of(p->job), strerror(errno));
    status = status == SM_OK ? fork_it(p, ends) : status;
    for (int i = 0; i < N_STREAMS; i++) {
        sm_close_at(&ends[i][1]);
    }
    p->watched = p->pid > 0 ? os_watch(p->pid) : -1;
    status = status == SM_OK && p->job->argv != NULL ? await_program(p) : status;
    sm_close_at(&p->streams[STARTING].fd);
    return status;
}

// --- what it says --------------------------------------------------------------------------------

static sm_status make_room(stream *s, size_t size_bytes) {
    if (s->n + size_bytes < s->room) { // and a zero byte
        return SM_OK;
    }
    const size_t room = 2 * (s->n + size_bytes);
    char *grown = s->n < MOST_OUT_BYTES ? realloc(s->text, room) : NULL;
    SM_FAIL_IF(grown == NULL, SM_ERR_OOM, "no memory for what a process says: %zu bytes so far", s->n);
    s->text = grown;
    s->room = room;
    return SM_OK;
}

static sm_status read_stream(process *p, int which) {
    stream *s = &p->streams[which];
    SM_TRY(make_room(s, PART_BYTES));
    const ssize_t n = read(s->fd, s->text + s->n, PART_BYTES);
    if (n < 0 && errno == EINTR) {
        return SM_OK;
    }
    if (n <= 0) {
        sm_close_at(&s->fd);
        return SM_OK;
    }
    if (which == ERR && p->job->shows_stderr) {
        fwrite(s->text + s->n, 1, (size_t)n, stderr);
    }
    s->n += (size_t)n;
    if (which == MESSAGES) {
        char *line = s->text;
        char *newline;
        sm_status status = SM_OK;
        while (status == SM_OK && (newline = memchr(line, '\n', (size_t)(s->text + s->n - line))) != NULL) {
            status = p->job->receive(p->job->ctx, line, (size_t)(newline - line));
            line = newline + 1;
        }
        s->n -= (size_t)(line - s->text);
        memmove(s->text, line, s->n);
        return status;
    }
    if (p->job->most_bytes > 0 && s->n > p->job->most_bytes) {
        s->n = p->job->most_bytes;
    } else if (which == ERR && p->job->most_bytes == 0 && s->n > MOST_ERR_BYTES) {
        memmove(s->text, s->text + s->n - MOST_ERR_BYTES / 2, MOST_ERR_BYTES / 2);
        s->n = MOST_ERR_BYTES / 2;
    }
    return SM_OK;
}

static sm_status read_file(process *p) {
    stream *s = &p->streams[OUT];
    const off_t end = lseek(p->file, 0, SEEK_END);
    const size_t n = end > 0 ? (size_t)end : 0;
    SM_TRY(make_room(s, n + 1));
    SM_FAIL_IF(pread(p->file, s->text, n, 0) != (ssize_t)n, SM_ERR_IO, "cannot read a process's output: %s",
               strerror(errno));
    s->n = n;
    return SM_OK;
}

// --- watching it ---------------------------------------------------------------------------------

static int interruptions(const process *p) { return p->job->interrupted != NULL ? (int)*p->job->interrupted : 0; }

static void end_at_once(process *p) {
    p->killed_ns = sm_now_ns();
    p->result->killed = true;
    if (p->job->own_session) {
        kill(-p->pid, SIGKILL);
    }
    kill(p->pid, SIGKILL); // it may not have its session yet
}

static void ask_to_end(process *p, double grace_s) {
    p->asked_ns = sm_now_ns();
    if (grace_s > 0) {
        kill(p->pid, SIGTERM);
    } else {
        end_at_once(p);
    }
}

// The time to end it, or to ask it to end; INT64_MAX: no limit.
static int64_t end_ns(const process *p) {
    const sm_process_job *job = p->job;
    if (job->end_ns != NULL) {
        return job->end_ns(job->ctx, p->asked_ns);
    }
    if (p->asked_ns > 0) {
        return p->asked_ns + (int64_t)((p->result->late ? job->late_grace_s : job->interrupted_grace_s) * 1e9);
    }
    return job->timeout_s > 0 ? p->begin_ns + (int64_t)(job->timeout_s * 1e9) : INT64_MAX;
}

static void heed_signals(process *p) {
    const int n = interruptions(p);
    if (n == p->n_signals) {
        return;
    }
    p->n_signals = n;
    p->result->interrupted = true;
    if (p->ended_ns == 0 && p->asked_ns == 0) {
        ask_to_end(p, p->job->interrupted_grace_s);
    } else if (p->ended_ns == 0 && p->killed_ns == 0 && sm_now_ns() - p->asked_ns > again_ns) {
        end_at_once(p);
    }
}

static void heed_clock(process *p) {
    if (p->ended_ns > 0 || p->killed_ns > 0 || sm_now_ns() < end_ns(p)) {
        return;
    }
    if (p->asked_ns > 0) {
        end_at_once(p);
    } else {
        p->result->late = true;
        ask_to_end(p, p->job->late_grace_s);
    }
}

// It stays a zombie until it is waited for, so nobody else gets its number or its session's.
static void note_end(process *p) {
    siginfo_t info = {0};
    if (p->ended_ns == 0 &&
        (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0)) {
        p->ended_ns = sm_now_ns();
        if (p->job->own_session) {
            kill(-p->pid, SIGKILL);
        }
    }
}

// The time until which its end, or that of its streams, is awaited.
static int64_t leave_ns(const process *p) {
    if (p->ended_ns > 0) {
        return p->ended_ns + (p->result->interrupted || p->job->own_session ? killed_orphans_ns : orphans_ns);
    }
    return p->killed_ns > 0 && p->job->may_hang ? p->killed_ns + hang_ns : INT64_MAX;
}

// Not while there is something to read, however late.
static bool is_over(const process *p, bool is_quiet) {
    bool is_heard = true;
    for (int i = 0; i < N_STREAMS; i++) {
        is_heard &= p->streams[i].fd < 0;
    }
    return (p->ended_ns > 0 && is_heard) || (is_quiet && sm_now_ns() >= leave_ns(p));
}

// Sleeps until there is something to read, a signal, or a time limit. Signals are blocked except during the sleep, so
// that none comes between the check and the sleep.
static int sleep_until_news(process *p, struct pollfd files[N_STREAMS + 1]) {
    const bool is_ending = p->ended_ns > 0 || p->killed_ns > 0;
    const int64_t most_ns = p->watched < 0 || p->asked_ns > 0 ? look_ns : most_sleep_ns;
    sigset_t before;
    int n = -1;
    hold_signals(&before);
    if (interruptions(p) == p->n_signals) {
        int64_t left_ns = (is_ending ? leave_ns(p) : end_ns(p)) - sm_now_ns();
        left_ns = left_ns < 0 ? 0 : left_ns > most_ns ? most_ns : left_ns;
        const struct timespec left = {.tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000};
        n = ppoll(files, N_STREAMS + 1, &left, &before);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return n;
}

static sm_status watch(process *p) {
    for (bool is_quiet = false; !is_over(p, is_quiet);) {
        struct pollfd files[N_STREAMS + 1] = {[N_STREAMS] = {p->ended_ns > 0 ? -1 : p->watched, POLLIN, 0}};
        for (int i = 0; i < N_STREAMS; i++) {
            files[i] = (struct pollfd){p->streams[i].fd, POLLIN, 0};
        }
        const int n = sleep_until_news(p, files);
        is_quiet = n == 0;
        for (int i = 0; n > 0 && i < N_STREAMS; i++) {
            if (files[i].revents != 0) {
                SM_TRY(read_stream(p, i));
            }
        }
        note_end(p);
        heed_signals(p);
        heed_clock(p);
    }
    return SM_OK;
}

// --- its end -------------------------------------------------------------------------------------

static sm_status wait_for(process *p) {
    sm_process_result *r = p->result;
    struct rusage usage = {0};
    int state = 0;
    const bool hangs = p->ended_ns == 0 && p->killed_ns > 0 && p->job->may_hang;
    pid_t done;
    while ((done = wait4(p->pid, &state, hangs ? WNOHANG : 0, &usage)) < 0 && errno == EINTR) {
    }
    SM_FAIL_IF(done < 0, SM_ERR_IO, "waiting for a process: %s", strerror(errno));
    if (p->job->in_files) {
        // Processes that it started, and that end with it, may still use its files.
        enum { LOOKS = 200, LOOK_NS = 5000000 };
        for (int i = 0; i < LOOKS && kill(-p->pid, 0) == 0; i++) {
            nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        }
    }
    r->exit_code = done > 0 && WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    r->signal = done == 0 ? SIGKILL : WIFSIGNALED(state) ? WTERMSIG(state) : 0;
    r->wall_ns = sm_now_ns() - p->begin_ns;
    r->peak_rss_bytes = (int64_t)usage.ru_maxrss * 1024;
    r->interrupted |= interruptions(p) > 0;
    return SM_OK;
}

static sm_status keep(process *p) {
    if (p->job->output == SM_OUTPUT_FILE) {
        SM_TRY(read_file(p));
    }
    for (int i = OUT; i <= ERR; i++) {
        stream *s = &p->streams[i];
        SM_TRY(make_room(s, 1));
        s->text[s->n] = '\0';
        *(i == OUT ? &p->result->out : &p->result->err) = s->text;
        s->text = NULL;
    }
    p->result->out_bytes = p->streams[OUT].n;
    return SM_OK;
}

static void free_process(process *p) {
    for (int i = 0; i < N_STREAMS; i++) {
        sm_close_at(&p->streams[i].fd);
        free(p->streams[i].text);
    }
    sm_close_at(&p->watched);
    sm_close_at(&p->file);
}

sm_status sm_process_run(const sm_process_job *job, sm_process_result *result) {
    SM_AT_END(free_process) process p = {.job = job, .result = result, .watched = -1, .file = -1};
    const int64_t n_oom_kills = count_oom_kills();
    for (int i = 0; i < N_STREAMS; i++) {
        p.streams[i].fd = -1;
    }
    memset(result, 0, sizeof(*result));
    sm_status status = start(&p);
    status = status == SM_OK ? watch(&p) : status;
    if (p.pid > 0) {
        if (status != SM_OK) {
            end_at_once(&p);
            for (int i = 0; i < N_STREAMS; i++) {
                sm_close_at(&p.streams[i].fd);
            }
            (void)watch(&p);
        }
        const sm_status waited = wait_for(&p);
        status = status != SM_OK ? status : waited;
    }
    result->no_memory = result->signal == SIGKILL && !result->killed && count_oom_kills() > n_oom_kills;
    status = status == SM_OK && job->output != SM_OUTPUT_OURS ? keep(&p) : status;
    if (status != SM_OK) {
        sm_process_free(result);
    }
    return status;
}

void sm_process_free(sm_process_result *result) {
    free(result->out);
    free(result->err);
    result->out = NULL;
    result->err = NULL;
}

const char *sm_process_last_line(sm_process_result *result) {
    char *text = result->err;
    size_t n = text != NULL ? strlen(text) : 0;
    while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL) {
        text[--n] = '\0';
    }
    if (n == 0) {
        return "";
    }
    char *line = strrchr(text, '\n');
    return line != NULL ? line + 1 : text;
}

enum { MOST_OPEN = 16 };

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *place) {
    (void)info;
    (void)type;
    (void)place;
    (void)remove(path);
    return 0;
}

void sm_remove_tree(const char *folder) { (void)nftw(folder, remove_one, MOST_OPEN, FTW_DEPTH | FTW_PHYS); }
