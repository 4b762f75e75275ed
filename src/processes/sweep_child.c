// sweep_child.c: see sweep_child.h.
#include "src/processes/sweep_child.h"

#include "src/processes/oom_kills.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OUT = 0, ERR = 1, N_STREAMS = 2, POLL_MS = 100, MAX_OUT_BYTES = 256 << 20 };

// What a child gets to write its row between SIGTERM and SIGKILL.
static const double least_grace_s = 2;
static const double grace_share = 0.1; // of the limit

typedef struct {
    char *bytes;
    size_t n;
    size_t room;
} buffer;

typedef struct {
    const sm_child_job *job;
    sm_child_result *result;
    pid_t pid;
    int streams[N_STREAMS]; // -1 once at their end
    buffer buffers[N_STREAMS];
    double begin_s;
    double told_to_end_s; // when SIGTERM was sent; 0: not yet
} child;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// --- in the child ------------------------------------------------------------------------------

// AddressSanitizer maps terabytes that it never touches; under a limit it could not even start.
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

// Only what is safe between fork and exec.
static void limit_memory(int64_t bytes) {
    if (CAN_LIMIT_MEMORY && bytes > 0) {
        struct rlimit limit = {.rlim_cur = (rlim_t)bytes, .rlim_max = (rlim_t)bytes};
        (void)setrlimit(RLIMIT_DATA, &limit); // without it the machine's own limits remain
    }
    int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
        (void)!write(file, "1000", 4); // where memory runs out: this one first
        close(file);
    }
}

static void become(const sm_child_job *job, pid_t parent, int ends[N_STREAMS][2]) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) { // it died before the line above
        _exit(127);
    }
    dup2(ends[OUT][1], STDOUT_FILENO);
    dup2(ends[ERR][1], STDERR_FILENO);
    limit_memory(job->memory_limit_bytes);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    execv(job->argv[0], job->argv);
    dprintf(STDERR_FILENO, "%s: cannot be started: %s\n", job->argv[0], strerror(errno));
    _exit(127);
}

// --- watching it ---------------------------------------------------------------------------------

static sm_status append(buffer *b, const char *bytes, size_t n) {
    if (b->n + n + 1 > b->room) {
        size_t room = 2 * (b->n + n + 1);
        char *grown = b->n + n < MAX_OUT_BYTES ? realloc(b->bytes, room) : NULL;
        if (grown == NULL) {
            return sm_fail(SM_ERR_OOM, "no memory for what a child process says: %zu bytes so far", b->n);
        }
        b->bytes = grown;
        b->room = room;
    }
    memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
    b->bytes[b->n] = '\0';
    return SM_OK;
}

// Of stderr only the end is kept.
static void forget_old(buffer *b) {
    if (b->n >= SM_CHILD_TAIL) {
        size_t kept = SM_CHILD_TAIL / 2;
        memmove(b->bytes, b->bytes + b->n - kept, kept + 1);
        b->n = kept;
    }
}

static sm_status read_stream(child *c, int stream) {
    char bytes[16384];
    ssize_t n = read(c->streams[stream], bytes, stream == ERR ? SM_CHILD_TAIL / 2 : sizeof(bytes));
    if (n < 0 && errno == EINTR) {
        return SM_OK;
    }
    if (n <= 0) {
        close(c->streams[stream]);
        c->streams[stream] = -1;
        return SM_OK;
    }
    if (stream == ERR) {
        forget_old(&c->buffers[ERR]);
        if (c->job->show_messages) {
            fwrite(bytes, 1, (size_t)n, stderr);
        }
    }
    return append(&c->buffers[stream], bytes, (size_t)n);
}

// Ends it where a limit has passed: first in order, then at once.
static void end_if_due(child *c) {
    const sm_child_job *job = c->job;
    bool interrupted = job->interrupted != NULL && *job->interrupted;
    bool late = job->timeout_s > 0 && now_s() - c->begin_s > job->timeout_s;
    if (c->told_to_end_s > 0) {
        double grace_s = grace_share * job->timeout_s > least_grace_s ? grace_share * job->timeout_s : least_grace_s;
        if (now_s() - c->told_to_end_s > grace_s) {
            kill(c->pid, SIGKILL);
        }
    } else if (interrupted || late) {
        c->result->interrupted = interrupted;
        c->result->timed_out = !interrupted;
        c->told_to_end_s = now_s();
        kill(c->pid, SIGTERM);
    }
}

// Returns when both streams are at their end: the child has gone, or is about to.
static sm_status watch(child *c) {
    while (c->streams[OUT] >= 0 || c->streams[ERR] >= 0) {
        struct pollfd files[N_STREAMS] = {{.fd = c->streams[OUT], .events = POLLIN},
                                          {.fd = c->streams[ERR], .events = POLLIN}};
        int n = poll(files, N_STREAMS, POLL_MS);
        if (n < 0 && errno != EINTR) {
            return sm_fail(SM_ERR_IO, "watching a child process: %s", strerror(errno));
        }
        for (int i = 0; n > 0 && i < N_STREAMS; i++) {
            if (c->streams[i] >= 0 && files[i].revents != 0) {
                SM_TRY(read_stream(c, i));
            }
        }
        end_if_due(c);
    }
    return SM_OK;
}

static sm_status wait_for(child *c) {
    struct rusage usage;
    int state = 0;
    pid_t done;
    while ((done = wait4(c->pid, &state, 0, &usage)) < 0 && errno == EINTR) {
        end_if_due(c);
    }
    if (done < 0) {
        return sm_fail(SM_ERR_IO, "waiting for a child process: %s", strerror(errno));
    }
    c->result->exit_code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    c->result->signal = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
    c->result->peak_rss_bytes = (int64_t)usage.ru_maxrss * 1024;
    c->result->wall_ns = (int64_t)((now_s() - c->begin_s) * 1e9);
    return SM_OK;
}

static void keep_last_line(const buffer *b, char *line) {
    size_t end = b->n;
    while (end > 0 && (b->bytes[end - 1] == '\n' || b->bytes[end - 1] == ' ')) {
        end--;
    }
    size_t begin = end;
    while (begin > 0 && b->bytes[begin - 1] != '\n') {
        begin--;
    }
    snprintf(line, SM_CHILD_TAIL, "%.*s", (int)(end - begin), end > 0 ? b->bytes + begin : "");
}

// --- the whole -----------------------------------------------------------------------------------

static sm_status start(child *c) {
    int ends[N_STREAMS][2];
    if (pipe2(ends[OUT], O_CLOEXEC) != 0) {
        return sm_fail(SM_ERR_IO, "a child process: no pipe: %s", strerror(errno));
    }
    if (pipe2(ends[ERR], O_CLOEXEC) != 0) {
        close(ends[OUT][0]);
        close(ends[OUT][1]);
        return sm_fail(SM_ERR_IO, "a child process: no pipe: %s", strerror(errno));
    }
    fflush(NULL);
    pid_t parent = getpid();
    c->begin_s = now_s();
    c->pid = fork();
    int reason = errno;
    if (c->pid == 0) {
        become(c->job, parent, ends);
    }
    for (int i = 0; i < N_STREAMS; i++) {
        close(ends[i][1]);
        c->streams[i] = ends[i][0];
        if (c->pid < 0) {
            close(ends[i][0]);
        }
    }
    return c->pid > 0 ? SM_OK : sm_fail(SM_ERR_IO, "a child process cannot be started: %s", strerror(reason));
}

sm_status sm_child_run(const sm_child_job *job, sm_child_result *result) {
    child c = {.job = job, .result = result};
    const int64_t n_oom_kills = sm_oom_kills();
    memset(result, 0, sizeof(*result));
    sm_status status = append(&c.buffers[OUT], "", 0);
    status = status == SM_OK ? append(&c.buffers[ERR], "", 0) : status;
    status = status == SM_OK ? start(&c) : status;
    if (status == SM_OK) {
        status = watch(&c);
        if (status != SM_OK) {
            kill(c.pid, SIGKILL);
        }
        for (int i = 0; i < N_STREAMS; i++) {
            if (c.streams[i] >= 0) {
                close(c.streams[i]);
            }
        }
        sm_status waited = wait_for(&c);
        status = status != SM_OK ? status : waited;
        result->no_memory = result->signal == SIGKILL && sm_oom_kills() > n_oom_kills;
    }
    keep_last_line(&c.buffers[ERR], result->last_message);
    free(c.buffers[ERR].bytes);
    if (status != SM_OK) {
        free(c.buffers[OUT].bytes);
        return status;
    }
    result->out = c.buffers[OUT].bytes;
    result->out_bytes = c.buffers[OUT].n;
    return SM_OK;
}
