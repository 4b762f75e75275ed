// helper.c: see host/helper.h.
#include "backends/host/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/host/memory.h"
#include "os/os.h"

extern char **environ;

bool host_open_pipe(host_pipe *pipe) {
    int ends[2];
    if (!os_open_pipe(ends)) {
        *pipe = (host_pipe){-1, -1};
        return false;
    }
    *pipe = (host_pipe){.take = ends[0], .put = ends[1]};
    return true;
}

void host_close_end(int *end) {
    if (*end >= 0) {
        close(*end);
    }
    *end = -1;
}

bool host_put(int end, const void *records, size_t n_bytes) {
    const int flags = fcntl(end, F_GETFL);
    if (flags < 0 || fcntl(end, F_SETFL, flags | O_NONBLOCK) != 0) {
        return false;
    }
    const bool is_put = write(end, records, n_bytes) == (ssize_t)n_bytes;
    (void)fcntl(end, F_SETFL, flags);
    return is_put;
}

bool host_take(int end, void *record, size_t n_bytes) {
    ssize_t n = 0;
    do {
        n = read(end, record, n_bytes); // a pipe delivers a record whole
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)n_bytes;
}

static bool await_events(int end, short events, int64_t deadline_ns) {
    struct pollfd waited = {.fd = end, .events = events};
    int n = 0;
    do {
        const int64_t left_ns = deadline_ns - host_now_ns();
        n = poll(&waited, 1, left_ns > 0 ? (int)(left_ns / 1000000 + 1) : 0);
    } while (n < 0 && errno == EINTR);
    return n > 0;
}

bool host_await_record(int end, int64_t deadline_ns) { return await_events(end, POLLIN, deadline_ns); }

void host_await_no_reader(int end, int64_t deadline_ns) {
    (void)await_events(end, 0, deadline_ns);
} // reported as an
  // error

pid_t host_start_helper(char *const argv[], int input, int output) {
    pid_t helper = -1;
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return -1;
    }
    int failed = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    failed = failed != 0 ? failed : posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    failed = failed != 0 ? failed : posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    failed = failed != 0 ? failed : posix_spawn(&helper, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return failed == 0 ? helper : -1;
}

bool host_await_helper(pid_t helper, int64_t deadline_ns) {
    const struct timespec pause = {.tv_nsec = 2000000};
    int end = 0;
    pid_t ended = 0;
    while (ended == 0 || (ended < 0 && errno == EINTR)) {
        ended = waitpid(helper, &end, WNOHANG);
        if (ended == 0 && host_now_ns() > deadline_ns) {
            kill(helper, SIGKILL);
            ended = waitpid(helper, &end, 0);
        }
        if (ended == 0) {
            nanosleep(&pause, NULL);
        }
    }
    return ended == helper && WIFEXITED(end) && WEXITSTATUS(end) == 0;
}
