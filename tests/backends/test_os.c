// test_os.c: properties of os.h that hold on every system, even without some of its functions.
#define OWN_MAIN
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

#include "tests/support/temp_folder.h"
#include "os/os.h"

// Of a child that has ended or will.
static int exit_code_of(pid_t child) {
    int end = 0;
    assert_int_equal(waitpid(child, &end, 0), child);
    assert_true(WIFEXITED(end));
    return WEXITSTATUS(end);
}

static bool is_open(int file) { return fcntl(file, F_GETFD) >= 0; }

static bool closes_at_exec(int file) { return (fcntl(file, F_GETFD) & FD_CLOEXEC) != 0; }

TEST(test_processors_are_counted) {
    os_processors allowed;
    int n = 0;
    assert_true(os_n_processors() >= 1);
    if (os_processors_allowed(&allowed)) {
        for (int i = 0; i < OS_MAX_PROCESSORS; i++) {
            n += os_processors_has(&allowed, i);
        }
        assert_int_equal(n, os_n_processors());
    }
}

TEST(test_memory_is_told) {
    uint64_t total_bytes = 0, available_bytes = 0;
    os_memory("", &total_bytes, &available_bytes);
    assert_true(total_bytes > 0 && available_bytes > 0 && available_bytes <= total_bytes);
    uint64_t most_bytes = 0;
    os_memory_allowed("", &most_bytes, &available_bytes);
    assert_true(most_bytes > 0 && most_bytes <= total_bytes && available_bytes <= most_bytes);
}

// Memory by files like Linux's, in a folder; a system that has other files skips the test.
static void read_memory(uint64_t *total_bytes, uint64_t *available_bytes) {
    temp_put_text("proc/meminfo", "MemTotal:        1000 kB\nMemFree:           50 kB\nMemAvailable:     900 kB\n");
    os_memory(temp_folder, total_bytes, available_bytes);
    SKIP_IF(*total_bytes == 0 || *total_bytes > 1 << 27);
}

// A limit is that of a group or of one above it. File cache that the kernel takes back first is free.
TEST(test_memory_within_control_groups) {
    uint64_t total_bytes = 0, available_bytes = 0;
    read_memory(&total_bytes, &available_bytes);
    assert_int_equal(total_bytes, 1024000);
    assert_int_equal(available_bytes, 921600);
    temp_put_text("proc/self/cgroup", "0::/job/step\n");
    temp_put_text("sys/fs/cgroup/job/memory.max", "600000\n");
    temp_put_text("sys/fs/cgroup/job/memory.current", "500000\n");
    temp_put_text("sys/fs/cgroup/job/memory.stat", "anon 100000\ninactive_file 300000\nactive_file 90000\n");
    temp_put_text("sys/fs/cgroup/job/step/memory.max", "max\n");
    os_memory_allowed(temp_folder, &total_bytes, &available_bytes);
    assert_int_equal(total_bytes, 600000);
    assert_int_equal(available_bytes, 400000);
    temp_put_text("proc/self/cgroup", "7:cpu:/a\n4:memory:/old\n"); // version 1
    temp_put_text("sys/fs/cgroup/memory/old/memory.limit_in_bytes", "200000\n");
    temp_put_text("sys/fs/cgroup/memory/old/memory.usage_in_bytes", "250000\n");
    temp_put_text("sys/fs/cgroup/memory/old/memory.stat", "inactive_file 1\ntotal_inactive_file 20000\n");
    os_memory_allowed(temp_folder, &total_bytes, &available_bytes);
    assert_int_equal(total_bytes, 200000);
    assert_int_equal(available_bytes, 0);
}

TEST(test_time_within_control_groups) {
    double quota_cpus;
    int64_t throttled_ns;
    uint64_t memory_bytes[2];
    read_memory(&memory_bytes[0], &memory_bytes[1]);
    os_cpu_allowed(temp_folder, &quota_cpus, &throttled_ns);
    assert_true(quota_cpus == 0 && throttled_ns == -1);
    temp_put_text("proc/self/cgroup", "0::/a/b\n"); // version 2
    temp_put_text("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    temp_put_text("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 9\nnr_throttled 0\nthrottled_usec 0\n");
    temp_put_text("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    temp_put_text("sys/fs/cgroup/a/cpu.stat", "usage_usec 9\nnr_throttled 3\nthrottled_usec 7\n");
    os_cpu_allowed(temp_folder, &quota_cpus, &throttled_ns);
    assert_true(quota_cpus == 1.5 && throttled_ns == 7000);
    temp_put_text("proc/self/cgroup", "7:cpuset:/a\n4:cpu,cpuacct:/old\n"); // version 1
    temp_put_text("sys/fs/cgroup/cpu,cpuacct/old/cpu.cfs_quota_us", "50000\n");
    temp_put_text("sys/fs/cgroup/cpu,cpuacct/old/cpu.cfs_period_us", "100000\n");
    temp_put_text("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    temp_put_text("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    temp_put_text("sys/fs/cgroup/cpu,cpuacct/old/cpu.stat", "nr_throttled 1\nthrottled_time 11\n");
    os_cpu_allowed(temp_folder, &quota_cpus, &throttled_ns);
    assert_true(quota_cpus == 0.5 && throttled_ns == 11);
}

TEST(test_sleep_ends) {
    const struct timespec most = {.tv_nsec = 1000000};
    _Atomic uint32_t word = 1;
    assert_true(os_sleep_while(&word, 0, NULL, false)); // another value: at once
    bool in_time = true;
    for (int i = 0; in_time && i < 1000; i++) { // it may wake for no reason
        in_time = os_sleep_while(&word, 1, &most, i % 2 == 0);
    }
    assert_false(in_time);
}

static void *change(void *ctx) {
    _Atomic uint32_t *word = ctx;
    atomic_store(word, 1);
    os_wake(word, false);
    return NULL;
}

TEST(test_sleepers_are_woken) {
    _Atomic uint32_t word = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, change, &word), 0);
    while (atomic_load(&word) == 0) {
        assert_true(os_sleep_while(&word, 0, NULL, false));
    }
    pthread_join(thread, NULL);
}

TEST(test_files) {
    int ends[2];
    char text[4] = "";
    const int file = os_open_nameless();
    assert_true(file >= 0 && closes_at_exec(file));
    assert_int_equal(write(file, "abc", 3), 3);
    assert_int_equal(pread(file, text, 3, 0), 3);
    assert_string_equal(text, "abc");
    close(file);
    assert_true(os_open_pipe(ends));
    assert_true(closes_at_exec(ends[0]) && closes_at_exec(ends[1]));
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(read(ends[0], text, 1), 1);
    close(ends[0]);
    close(ends[1]);
    assert_null(os_open_facts("/nowhere", "/proc/cpuinfo"));
}

TEST(test_random_numbers_differ) {
    uint64_t a = 0, b = 0;
    assert_true(os_draw(&a, sizeof a) && os_draw(&b, sizeof b));
    assert_true(a != b);
}

TEST(test_program_is_this_one) {
    char *const again[] = {"test_os", "--again", NULL};
    const pid_t child = fork();
    if (child == 0) {
        execv(os_program(), again);
        _exit(1);
    }
    assert_int_equal(exit_code_of(child), 7);
}

TEST(test_end_of_a_child_is_seen) {
    int ends[2];
    char byte = 0;
    assert_true(os_open_pipe(ends));
    const pid_t child = fork();
    if (child == 0) {
        os_end_with_parent();
        os_leave_no_core();
        os_die_first();
        close(ends[1]);
        os_exit_now(read(ends[0], &byte, 1) == 0 ? 5 : 6);
    }
    struct pollfd watched = {.fd = os_watch(child), .events = POLLIN};
    if (watched.fd >= 0) {
        assert_int_equal(poll(&watched, 1, 0), 0);
        close(ends[1]);
        assert_int_equal(poll(&watched, 1, -1), 1);
        close(watched.fd);
    } else {
        close(ends[1]);
    }
    assert_int_equal(exit_code_of(child), 5);
    close(ends[0]);
}

TEST(test_descriptors_are_closed) {
    const int file = os_open_nameless();
    const pid_t child = fork();
    if (child == 0) {
        os_close_from(3);
        os_exit_now(is_open(STDERR_FILENO) && !is_open(file) ? 0 : 1);
    }
    assert_int_equal(exit_code_of(child), 0);
    close(file);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--again") == 0) {
        return 7;
    }
    os_begin(&argv);
    return cmocka_run_group_tests(tests, temp_folder_make, temp_folder_remove);
}
