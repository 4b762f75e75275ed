// subprocess.c: both streams go to files in memory, which cannot fill up and block the program
// as two pipes can, and which are read when it has ended.
#include "src/processes/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

static sm_status open_stream(int *fd) {
    *fd = memfd_create("stepmark", MFD_CLOEXEC);
    return *fd >= 0 ? SM_OK : sm_fail(SM_ERR_IO, "cannot keep a program's output: %s", strerror(errno));
}

static sm_status read_stream(int fd, size_t most_bytes, char **text, size_t *size_bytes) {
    off_t end = lseek(fd, 0, SEEK_END);
    end = most_bytes > 0 && end > (off_t)most_bytes ? (off_t)most_bytes : end;
    *text = calloc((size_t)(end > 0 ? end : 0) + 1, 1);
    if (*text == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a program's output of %lld bytes", (long long)end);
    }
    *size_bytes = 0;
    while ((off_t)*size_bytes < end) {
        ssize_t n = pread(fd, *text + *size_bytes, (size_t)end - *size_bytes, (off_t)*size_bytes);
        if (n <= 0) {
            return sm_fail(SM_ERR_IO, "cannot read a program's output: %s", strerror(errno));
        }
        *size_bytes += (size_t)n;
    }
    return SM_OK;
}

// With a limit of time it leads a group of its own, which is ended as a whole.
static _Noreturn void become(char *const argv[], const sm_subprocess_how *how, int out, int err, int said) {
    const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (how->timeout_s > 0) {
        setpgid(0, 0);
    }
    dup2(in, 0);
    dup2(out, 1);
    dup2(err, 2);
    if (how->prepare != NULL) {
        how->prepare(how->ctx);
    }
    execvp(argv[0], argv);
    const int reason = errno;
    (void)!write(said, &reason, sizeof(reason));
    _exit(127);
}

// Why it did not begin, or 0.
static int reason_of(int said) {
    int reason = 0;
    ssize_t n;
    while ((n = read(said, &reason, sizeof(reason))) < 0 && errno == EINTR) {
    }
    return n == (ssize_t)sizeof(reason) ? reason : 0;
}

static sm_status start(char *const argv[], const sm_subprocess_how *how, int out, int err, pid_t *pid) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return sm_fail(SM_ERR_IO, "%s: no pipe to start it: %s", argv[0], strerror(errno));
    }
    fflush(NULL);
    *pid = fork();
    const int reason = errno;
    if (*pid == 0) {
        become(argv, how, out, err, ends[1]);
    }
    close(ends[1]);
    const int failed = *pid < 0 ? reason : reason_of(ends[0]);
    close(ends[0]);
    if (failed != 0 && *pid > 0) {
        waitpid(*pid, NULL, 0);
    }
    if (failed == ENOMEM) {
        return sm_fail(SM_ERR_OOM, "%s: no memory to start it", argv[0]);
    }
    return failed == 0 ? SM_OK : sm_fail(SM_ERR_UNSUPPORTED, "%s: cannot be started: %s", argv[0], strerror(failed));
}

// Sleeps until the program has ended, a signal comes or came, or `left` has passed (NULL: however long that takes).
// Signals are held back but for the sleep itself, so that none comes between looking for it and sleeping.
static bool has_ended(int process, const struct timespec *left, const volatile sig_atomic_t *interrupted) {
    struct pollfd file = {.fd = process, .events = POLLIN};
    sigset_t ours;
    sigset_t before;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigprocmask(SIG_BLOCK, &ours, &before);
    const bool must_look = interrupted != NULL && *interrupted;
    const bool ended = !must_look && ppoll(&file, 1, left, &before) > 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return ended;
}

// Told to end, it gets a second for that: who started us waits no longer than two. False: its time ran out.
static bool wait_until_ended(pid_t pid, int process, const sm_subprocess_how *how) {
    const struct timespec grace = {.tv_sec = 1, .tv_nsec = 200000000};
    const int64_t deadline_ns = how->timeout_s > 0 ? sm_now_ns() + (int64_t)(how->timeout_s * 1e9) : INT64_MAX;
    for (;;) {
        const int64_t left_ns = how->timeout_s > 0 ? deadline_ns - sm_now_ns() : 0;
        const struct timespec left = {.tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000};
        if (left_ns < 0) {
            return false;
        }
        if (has_ended(process, how->timeout_s > 0 ? &left : NULL, how->interrupted)) {
            return true;
        }
        if (how->interrupted != NULL && *how->interrupted) {
            kill(pid, SIGTERM);
            if (!has_ended(process, &grace, NULL)) {
                kill(pid, SIGKILL);
            }
            return true;
        }
    }
}

static sm_status wait_for(pid_t pid, const sm_subprocess_how *how, int *exit_code) {
    int state = 0;
    bool in_time = true;
    const int process = pidfd_open(pid, 0);
    if (process >= 0) { // else, on a kernel without it, a signal is heeded once the program has ended
        in_time = wait_until_ended(pid, process, how);
        close(process);
    }
    if (how->timeout_s > 0) {
        kill(-pid, SIGKILL); // what it started, too
    }
    while (waitpid(pid, &state, 0) < 0) {
        if (errno != EINTR) {
            return sm_fail(SM_ERR_IO, "cannot wait for a program: %s", strerror(errno));
        }
    }
    *exit_code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    if (!in_time) {
        return sm_fail(SM_ERR_TIMEOUT, "did not end within %g s", how->timeout_s);
    }
    return how->interrupted != NULL && *how->interrupted ? SM_ERR_INTERRUPTED : SM_OK;
}

sm_status sm_subprocess_run(char *const argv[], const sm_subprocess_how *how, sm_subprocess *process) {
    int out = -1;
    int err = -1;
    pid_t pid = 0;
    sm_status status = SM_OK;
    memset(process, 0, sizeof(*process));
    SM_TRY_GOTO(open_stream(&out));
    SM_TRY_GOTO(open_stream(&err));
    SM_TRY_GOTO(start(argv, how, out, err, &pid));
    SM_TRY_GOTO(wait_for(pid, how, &process->exit_code));
    SM_TRY_GOTO(read_stream(out, how->most_bytes, &process->out, &process->out_bytes));
    SM_TRY_GOTO(read_stream(err, how->most_bytes, &process->err, &process->err_bytes));
cleanup:
    if (out >= 0) {
        close(out);
    }
    if (err >= 0) {
        close(err);
    }
    if (status != SM_OK) {
        sm_subprocess_free(process);
    }
    return status;
}

void sm_subprocess_free(sm_subprocess *process) {
    free(process->out);
    free(process->err);
    memset(process, 0, sizeof(*process));
}

const char *sm_subprocess_last_line(sm_subprocess *process) {
    char *text = process->err;
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
