// host_helper.c: see host_helper.h.
#include "host_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host_memory.h"

extern char **environ;

int host_offer_work(int n) {
    int ends[2];
    unsigned char numbers[HOST_MOST_WORK];
    if (n > HOST_MOST_WORK || pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    for (int i = 0; i < n; i++) {
        numbers[i] = (unsigned char)i;
    }
    const bool is_offered = write(ends[1], numbers, (size_t)n) == n; // a pipe has room for them
    close(ends[1]);
    if (!is_offered) {
        close(ends[0]);
    }
    return is_offered ? ends[0] : -1;
}

int host_take_work(int work) {
    unsigned char number = 0;
    ssize_t n = 0;
    do {
        n = read(work, &number, 1);
    } while (n < 0 && errno == EINTR);
    return n == 1 ? number : -1;
}

pid_t host_start_helper(char *const argv[], int work) {
    pid_t helper = -1;
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return -1;
    }
    int failed = posix_spawn_file_actions_adddup2(&actions, work, 0);
    for (int stream = 1; stream <= 2 && failed == 0; stream++) {
        failed = posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_WRONLY, 0);
    }
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

int host_processors(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}
