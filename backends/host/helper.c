#include "backends/host/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "backends/host/memory.h"
#include "os/os.h"

static const int64_t HELPER_LOOK_NS = 2000000; // where no end can be awaited

bool host_open_pipe(host_pipe *pipe) {
    int ends[2];
    if (!os_open_pipe(ends)) {
        *pipe = (host_pipe){-1, -1};
        return false;
    }
    *pipe = (host_pipe){.take = ends[0], .put = ends[1]};
    return true;
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

bool host_await_record(int end, int64_t deadline_ns) {
    bool is_there = false;
    for (int64_t left_ns = 1; !is_there && left_ns > 0;) {
        left_ns = deadline_ns - host_now_ns();
        (void)os_await(NULL, &end, &is_there, 1, left_ns > 0 ? left_ns : 0, NULL, 0);
    }
    return is_there;
}

bool host_start_helper(char *const argv[], int input, int output, os_child *helper) {
    const os_child_plan plan = {.argv = argv, .in = input, .out = output, .err = OS_CHILD_NOTHING};
    return os_child_start(&plan, helper) == 0;
}

bool host_await_helper(os_child *helper, int64_t deadline_ns) {
    os_child_end end;
    while (!os_child_has_ended(helper) && host_now_ns() < deadline_ns) {
        (void)os_await(helper, NULL, NULL, 0, HELPER_LOOK_NS, NULL, 0);
    }
    if (!os_child_has_ended(helper)) {
        os_child_kill(helper, false);
    }
    return os_child_take(helper, false, &end) == 0 && end.exit_code == 0;
}
