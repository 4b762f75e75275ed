// subprocess.c: both streams go to files in memory, which cannot fill up and block the program
// as two pipes can, and which are read when it has ended.
#include "subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static sm_status open_stream(int *fd) {
    *fd = memfd_create("stepmark", MFD_CLOEXEC);
    return *fd >= 0 ? SM_OK : sm_fail(SM_ERR_IO, "cannot keep a program's output: %s", strerror(errno));
}

static sm_status read_stream(int fd, char **text, size_t *size_bytes) {
    off_t end = lseek(fd, 0, SEEK_END);
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

static sm_status spawn(char *const argv[], const char *folder, int out, int err, pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    int failed = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    failed = failed != 0 ? failed : posix_spawn_file_actions_adddup2(&actions, out, 1);
    failed = failed != 0 ? failed : posix_spawn_file_actions_adddup2(&actions, err, 2);
    if (folder != NULL) {
        failed = failed != 0 ? failed : posix_spawn_file_actions_addchdir_np(&actions, folder);
    }
    failed = failed != 0 ? failed : posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed == ENOMEM) {
        return sm_fail(SM_ERR_OOM, "%s: no memory to start it", argv[0]);
    }
    return failed == 0 ? SM_OK : sm_fail(SM_ERR_UNSUPPORTED, "%s: cannot be started: %s", argv[0], strerror(failed));
}

// Sleeps until the program has ended, a signal comes, or `left` has passed (NULL: however long that takes). Signals are
// held back but for the sleep itself, so that none comes between looking for it and sleeping.
static bool has_ended(int process, const struct timespec *left, const volatile sig_atomic_t *interrupted) {
    struct pollfd file = {.fd = process, .events = POLLIN};
    sigset_t ours;
    sigset_t before;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigprocmask(SIG_BLOCK, &ours, &before);
    const bool must_look = left == NULL && interrupted != NULL && *interrupted;
    const bool ended = !must_look && ppoll(&file, 1, left, &before) > 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return ended;
}

// Told to end, it gets a second for that: who started us waits no longer than two.
static void wait_until_ended(pid_t pid, int process, const volatile sig_atomic_t *interrupted) {
    const struct timespec grace = {.tv_sec = 1, .tv_nsec = 200000000};
    while (!has_ended(process, NULL, interrupted)) {
        if (interrupted != NULL && *interrupted) {
            kill(pid, SIGTERM);
            if (!has_ended(process, &grace, interrupted)) {
                kill(pid, SIGKILL);
            }
            return;
        }
    }
}

static sm_status wait_for(pid_t pid, const volatile sig_atomic_t *interrupted, int *exit_code) {
    int state = 0;
    const int process = pidfd_open(pid, 0);
    if (process >= 0) { // else, on a kernel without it, a signal is heeded once the program has ended
        wait_until_ended(pid, process, interrupted);
        close(process);
    }
    while (waitpid(pid, &state, 0) < 0) {
        if (errno != EINTR) {
            return sm_fail(SM_ERR_IO, "cannot wait for a program: %s", strerror(errno));
        }
    }
    *exit_code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    return interrupted != NULL && *interrupted ? SM_ERR_INTERRUPTED : SM_OK;
}

sm_status sm_subprocess_run(char *const argv[], const char *folder, const volatile sig_atomic_t *interrupted,
                            sm_subprocess *process) {
    int out = -1;
    int err = -1;
    pid_t pid = 0;
    sm_status status = SM_OK;
    memset(process, 0, sizeof(*process));
    SM_TRY_GOTO(open_stream(&out));
    SM_TRY_GOTO(open_stream(&err));
    SM_TRY_GOTO(spawn(argv, folder, out, err, &pid));
    SM_TRY_GOTO(wait_for(pid, interrupted, &process->exit_code));
    SM_TRY_GOTO(read_stream(out, &process->out, &process->out_bytes));
    SM_TRY_GOTO(read_stream(err, &process->err, &process->err_bytes));
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
