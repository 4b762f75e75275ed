// full_disk.h: for tests of failed writes: a limit on file sizes replaces a full disk.
#pragma once

#include <signal.h>
#include <sys/resource.h>

#include "tests/support/test.h"

// No file of this process, and of those that it starts, grows beyond that: "File too large". RLIM_INFINITY: any may.
static inline void limit_files(rlim_t most_bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = most_bytes < limit.rlim_max ? most_bytes : limit.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}
