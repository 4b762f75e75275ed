// worker.c: see worker.h.
#include "src/processes/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "src/processes/oom_kills.h"

// A terminal and a parent may both pass the same signal on; this much later it is another one.
static const int64_t again_ns = 300000000;

// What is under way when a deadline is over gets this to end by itself.
static const int64_t late_grace_ns = 1500000000;

// In memory of both processes.
typedef struct {
    _Atomic int64_t step_ns;
    _Atomic bool saving;
} shared_state;

static int send_to = -1; // in a worker: its end of the pipe
static shared_state *shared;

typedef struct {
    const sm_worker_job *job;
    sm_worker_end *end;
    pid_t pid;
    int messages; // -1 at their end
    char *text;   // what was read and is no whole line yet
    size_t n;
    size_t room;
    int64_t deadline_ns;
    int64_t asked_ns; // when it was asked to end; 0: not yet
    int n_signals;    // of ours, heeded so far
} worker;

// --- in the worker ---------------------------------------------------------------------------------

static sm_status write_all(const char *text, size_t size_bytes) {
    while (size_bytes > 0) {
        ssize_t n = write(send_to, text, size_bytes);
        if (n < 0 && errno != EINTR) {
            return sm_fail(SM_ERR_IO, "cannot tell the parent process: %s", strerror(errno));
        }
        text += n > 0 ? n : 0;
        size_bytes -= n > 0 ? (size_t)n : 0;
    }
    return SM_OK;
}

sm_status sm_worker_send(json_t *message) {
    // All digits: what a reader sees of them is decided by who prints.
    char *line = send_to >= 0 ? json_dumps(message, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(message);
    if (send_to < 0) {
        return SM_OK;
    }
    if (line == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a message to the parent process");
    }
    sm_status status = write_all(line, strlen(line));
    free(line);
    return status == SM_OK ? write_all("\n", 1) : status;
}

void sm_worker_set_step_ns(int64_t longest_step_ns) {
    if (shared != NULL) {
        atomic_store_explicit(&shared->step_ns, longest_step_ns, memory_order_relaxed);
    }
}

void sm_worker_set_saving(bool saving) {
    if (shared != NULL) {
        atomic_store(&shared->saving, saving);
    }
}

static _Noreturn void become_worker(const sm_worker_job *job, pid_t parent, int ends[2]) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) { // it died before the line above
        _exit(127);
    }
    close(ends[0]);
    if (send_to >= 0) { // of a worker's own worker
        close(send_to);
    }
    send_to = ends[1];
    exit(job->work(job->ctx));
}

// --- watching it -------------------------------------------------------------------------------------

static sm_status start(worker *w) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return sm_fail(SM_ERR_IO, "a process for the work: no pipe: %s", strerror(errno));
    }
    fflush(NULL);
    const pid_t parent = getpid();
    w->pid = fork();
    if (w->pid == 0) {
        become_worker(w->job, parent, ends);
    }
    const int reason = errno;
    close(ends[1]);
    w->messages = ends[0];
    return w->pid > 0 ? SM_OK : sm_fail(SM_ERR_IO, "a process for the work cannot be started: %s", strerror(reason));
}

// Hands on the whole lines of what was read.
static sm_status take_lines(worker *w) {
    char *line = w->text;
    char *newline;
    sm_status status = SM_OK;
    while (status == SM_OK && (newline = memchr(line, '\n', (size_t)(w->text + w->n - line))) != NULL) {
        json_t *message = json_loadb(line, (size_t)(newline - line), 0, NULL);
        status = message == NULL ? sm_fail(SM_ERR_OOM, "no memory for a message of the worker")
                                 : w->job->receive(w->job->ctx, message, &w->deadline_ns);
        json_decref(message);
        line = newline + 1;
    }
    w->n -= (size_t)(line - w->text);
    memmove(w->text, line, w->n);
    return status;
}

static sm_status read_messages(worker *w) {
    enum { PART_BYTES = 65536 };
    if (w->n + PART_BYTES > w->room) {
        const size_t room = 2 * (w->n + PART_BYTES);
        char *grown = realloc(w->text, room);
        if (grown == NULL) {
            return sm_fail(SM_ERR_OOM, "no memory for a message of %zu bytes", w->n);
        }
        w->text = grown;
        w->room = room;
    }
    const ssize_t n = read(w->messages, w->text + w->n, PART_BYTES);
    if (n < 0 && errno == EINTR) {
        return SM_OK;
    }
    if (n <= 0) {
        close(w->messages);
        w->messages = -1;
        return SM_OK;
    }
    w->n += (size_t)n;
    return take_lines(w);
}

// When the worker is to be ended; INT64_MAX: not by the clock.
static int64_t end_ns(const worker *w) {
    const int64_t step_ns = atomic_load(&shared->step_ns);
    if (w->asked_ns > 0) {
        return atomic_load(&shared->saving) ? INT64_MAX : w->asked_ns + (int64_t)(w->job->stop_s * 1e9);
    }
    return w->deadline_ns == INT64_MAX ? INT64_MAX : w->deadline_ns + late_grace_ns + step_ns + step_ns / 2;
}

static void heed_signals(worker *w) {
    const int n = (int)*w->job->interrupted;
    const int64_t now_ns = sm_now_ns();
    if (n == w->n_signals) {
        return;
    }
    w->n_signals = n;
    if (w->asked_ns == 0) {
        w->asked_ns = now_ns;
        kill(w->pid, SIGTERM);
    } else if (now_ns - w->asked_ns > again_ns) {
        w->end->stopped = true;
        kill(w->pid, SIGKILL);
    }
}

static void heed_clock(worker *w) {
    if (sm_now_ns() >= end_ns(w)) {
        w->end->stopped = w->asked_ns > 0;
        w->end->late = w->asked_ns == 0;
        kill(w->pid, SIGKILL);
    }
}

// Sleeps until there is a message, a signal, or the clock says that it is time. Signals are held back but for the sleep
// itself, so that none comes between looking for it and sleeping.
static int sleep_until_news(worker *w) {
    enum { SAVING_LOOK_NS = 100000000 };
    sigset_t ours;
    sigset_t before;
    struct pollfd file = {.fd = w->messages, .events = POLLIN};
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigprocmask(SIG_BLOCK, &ours, &before);
    int n = 0;
    if ((int)*w->job->interrupted == w->n_signals) {
        int64_t left_ns = end_ns(w) - sm_now_ns();
        left_ns = left_ns < 0 ? 0 : w->asked_ns > 0 && left_ns > SAVING_LOOK_NS ? SAVING_LOOK_NS : left_ns;
        const struct timespec left = {.tv_sec = (time_t)(left_ns / 1000000000), .tv_nsec = left_ns % 1000000000};
        n = ppoll(&file, 1, &left, &before);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return n;
}

static bool was_killed(const worker *w) { return w->end->late || w->end->stopped; }

// Returns at the end of the messages, when the worker has gone or is about to, and when it was killed.
static sm_status watch(worker *w) {
    while (w->messages >= 0 && !was_killed(w)) {
        if (sleep_until_news(w) > 0) {
            SM_TRY(read_messages(w));
        }
        heed_signals(w);
        heed_clock(w);
    }
    return SM_OK;
}

// What the kernel does for a driver cannot be killed before it is done. It is not waited for long.
static pid_t wait_for_killed(const worker *w, int *state) {
    enum { LOOKS = 30, LOOK_NS = 10000000 };
    const struct timespec look = {.tv_nsec = LOOK_NS};
    pid_t done = 0;
    for (int i = 0; i < LOOKS && done == 0; i++) {
        nanosleep(&look, NULL);
        done = waitpid(w->pid, state, WNOHANG);
    }
    return done;
}

static sm_status wait_for(worker *w) {
    int state = 0;
    pid_t done = was_killed(w) ? wait_for_killed(w, &state) : waitpid(w->pid, &state, 0);
    while (done < 0 && errno == EINTR) {
        done = waitpid(w->pid, &state, 0);
    }
    if (done < 0) {
        return sm_fail(SM_ERR_IO, "waiting for a worker: %s", strerror(errno));
    }
    if (done == 0) {
        w->end->exit_code = -1;
        w->end->signal = SIGKILL;
        return SM_OK;
    }
    w->end->exit_code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    w->end->signal = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
    return SM_OK;
}

// --- the whole -----------------------------------------------------------------------------------------

static sm_status share_state(shared_state **state) {
    *state = mmap(NULL, sizeof(**state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *state != MAP_FAILED ? SM_OK : sm_fail(SM_ERR_OOM, "no memory to share with a worker");
}

sm_status sm_worker_run(const sm_worker_job *job, sm_worker_end *end) {
    worker w = {.job = job, .end = end, .messages = -1, .deadline_ns = job->deadline_ns};
    shared_state *outer = shared;
    const int64_t n_oom_kills = sm_oom_kills();
    memset(end, 0, sizeof(*end));
    SM_TRY(share_state(&shared));
    sm_status status = start(&w);
    if (status == SM_OK) {
        status = watch(&w);
        if (status != SM_OK) {
            kill(w.pid, SIGKILL);
        }
        sm_status waited = wait_for(&w);
        status = status != SM_OK ? status : waited;
        end->no_memory = end->signal == SIGKILL && !was_killed(&w) && sm_oom_kills() > n_oom_kills;
    }
    if (w.messages >= 0) {
        close(w.messages);
    }
    free(w.text);
    munmap(shared, sizeof(*shared));
    shared = outer;
    return status;
}
