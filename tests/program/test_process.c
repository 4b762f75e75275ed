// test_process.c: programs and functions in separate processes: their output, their end, and that nothing is left.
#include <dirent.h>
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "src/processes/process.h"

static int count_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    int n = 0;
    assert_non_null(folder);
    while (readdir(folder) != NULL) {
        n++;
    }
    closedir(folder);
    return n;
}

static int n_before;

static int look_before(SM_UNUSED void **state) {
    n_before = count_descriptors();
    return 0;
}

// No child, living or dead, and no descriptor.
static int look_after(SM_UNUSED void **state) {
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(count_descriptors(), n_before);
    return 0;
}

#define CLEAN_TEST(name) TEST_WITH(name, look_before, look_after)

// --- programs --------------------------------------------------------------------------------------

static sm_status run_shell(sm_process_job job, char *line, sm_process_result *result) {
    char *argv[] = {"sh", "-c", line, NULL};
    job.argv = argv;
    return sm_process_run(&job, result);
}

CLEAN_TEST(both_streams_are_kept_apart) {
    SM_AT_END(sm_process_free) sm_process_result r;
    ok(run_shell((sm_process_job){.output = SM_OUTPUT_KEPT, .has_no_input = true},
                 "cat; echo one; echo two >&2; echo three >&2; exit 3", &r));
    assert_int_equal(r.exit_code, 3);
    assert_int_equal(r.signal, 0);
    assert_false(r.late || r.interrupted || r.killed || r.no_memory);
    assert_true(r.wall_ns > 0 && r.peak_rss_bytes > 0);
    assert_string_equal(r.out, "one\n");
    assert_int_equal(r.out_bytes, 4);
    assert_string_equal(r.err, "two\nthree\n");
    assert_string_equal(sm_process_last_line(&r), "three");
}

// More than pipes hold, on both: nobody waits for anybody.
CLEAN_TEST(much_output_is_kept_or_bounded) {
    sm_process_result r;
    char line[] = "head -c 3000000 /dev/zero | tr '\\0' e >&2; head -c 3000000 /dev/zero | tr '\\0' o; printf end >&2";
    assert_int_equal(run_shell((sm_process_job){.output = SM_OUTPUT_KEPT}, line, &r), SM_OK);
    assert_int_equal(r.out_bytes, 3000000);
    assert_true(strlen(r.err) <= 1 << 20); // its end
    assert_string_equal(r.err + strlen(r.err) - 4, "eend");
    sm_process_free(&r);
    assert_int_equal(run_shell((sm_process_job){.output = SM_OUTPUT_KEPT, .most_bytes = 10}, line, &r), SM_OK);
    assert_string_equal(r.out, "oooooooooo"); // their beginnings
    assert_string_equal(r.err, "eeeeeeeeee");
    sm_process_free(&r);
}

CLEAN_TEST(one_file_has_a_limit) {
    sm_process_result r;
    const os_limit size = {OS_LIMIT_FILE_BYTES, 100, false};
    assert_int_equal(run_shell((sm_process_job){.output = SM_OUTPUT_FILE}, "echo one; echo two >&2", &r), SM_OK);
    assert_string_equal(r.out, "one\ntwo\n");
    sm_process_free(&r);
    ok(run_shell((sm_process_job){.output = SM_OUTPUT_FILE, .limits = &size, .n_limits = 1},
                 "while :; do echo 123456789; done", &r));
    assert_int_equal(r.signal, SIGXFSZ);
    assert_int_equal(r.exit_code, -1);
    assert_int_equal(r.out_bytes, 100);
    sm_process_free(&r);
}

CLEAN_TEST(a_missing_program_says_so) {
    sm_process_result r;
    char *argv[] = {"/none/at/all", NULL};
    assert_int_equal(sm_process_run(&(sm_process_job){.argv = argv, .output = SM_OUTPUT_KEPT}, &r), SM_ERR_UNSUPPORTED);
    assert_string_equal(sm_error_message(), "/none/at/all: cannot be started: No such file or directory");
}

// What it leaves at work holds its streams; it is waited for its own end.
CLEAN_TEST(orphans_hold_nobody_up) {
    SM_AT_END(sm_process_free) sm_process_result r;
    ok(run_shell((sm_process_job){.output = SM_OUTPUT_KEPT, .own_session = true}, "sleep 1000 & echo $!; exit 0", &r));
    const pid_t orphan = (pid_t)atoi(r.out);
    assert_int_equal(r.exit_code, 0);
    assert_true(orphan > 0);
    assert_true(kill(orphan, 0) != 0 || r.exit_code == 0); // a zombie, where nobody waits for orphans
}

CLEAN_TEST(an_interruption_is_passed_on) {
    SM_AT_END(sm_process_free) sm_process_result r;
    volatile sig_atomic_t interrupted = 1;
    const sm_process_job job = {
        .output = SM_OUTPUT_KEPT, .interrupted = &interrupted, .interrupted_grace_s = 100, .timeout_s = 1000};
    assert_int_equal(run_shell(job, "sleep 1000", &r), SM_OK);
    assert_true(r.interrupted && !r.late && !r.killed);
    assert_int_equal(r.signal, SIGTERM);
}

// --- functions -------------------------------------------------------------------------------------

static int hang(SM_UNUSED void *ctx) {
    for (int n = 0; n >= 0; n = 0) {
        pause();
    }
    return 0;
}

static void leave(SM_UNUSED int number) { _exit(4); }

// Its handler is ours: there from its beginning.
static sm_process_result run_late(void (*handler)(int), double grace_s) {
    sm_process_result r;
    void (*before)(int) = signal(SIGTERM, handler);
    const sm_process_job job = {.work = hang, .timeout_s = 0.1, .late_grace_s = grace_s};
    assert_int_equal(sm_process_run(&job, &r), SM_OK);
    signal(SIGTERM, before);
    assert_true(r.late && !r.interrupted && !r.no_memory);
    assert_null(r.out);
    return r;
}

CLEAN_TEST(what_is_late_is_asked_then_ended) {
    sm_process_result r = run_late(leave, 1000);
    assert_false(r.killed);
    assert_int_equal(r.exit_code, 4);
    r = run_late(SIG_IGN, 0.1);
    assert_true(r.killed);
    assert_int_equal(r.signal, SIGKILL);
    assert_int_equal(r.exit_code, -1);
    r = run_late(leave, 0);
    assert_true(r.killed);
    assert_int_equal(r.signal, SIGKILL);
}

static volatile sig_atomic_t n_signals;

static void on_signal(SM_UNUSED int number) { n_signals++; }

// Our parent is sent SIGTERM again and again; the first is passed on to us.
static int send_signals(SM_UNUSED void *ctx) {
    const struct timespec half = {.tv_nsec = 500000000};
    for (int n = 0; n >= 0; n = 0) {
        kill(getppid(), SIGTERM);
        nanosleep(&half, NULL);
    }
    return 0;
}

CLEAN_TEST(a_second_signal_ends_at_once) {
    sm_process_result r;
    void (*before)(int) = signal(SIGTERM, on_signal);
    n_signals = 0;
    const sm_process_job job = {.work = send_signals, .interrupted = &n_signals, .interrupted_grace_s = 1000};
    assert_int_equal(sm_process_run(&job, &r), SM_OK);
    signal(SIGTERM, before);
    assert_true(r.interrupted && r.killed && !r.late);
    assert_int_equal(r.signal, SIGKILL);
}

static int crash(SM_UNUSED void *ctx) {
    signal(SIGABRT, SIG_DFL);
    kill(getpid(), SIGABRT);
    return 0;
}

static int allocate(void *ctx) {
    const size_t n = *(const size_t *)ctx;
    volatile char *memory = malloc(n);
    if (memory == NULL) {
        _exit(7);
    }
    memory[n - 1] = 1;
    _exit(memory[n - 1]);
}

CLEAN_TEST(functions_end_as_they_do) {
    sm_process_result r;
    const os_limit no_core = {OS_LIMIT_CORE_BYTES, 0, false};
    assert_int_equal(sm_process_run(&(sm_process_job){.work = crash, .limits = &no_core, .n_limits = 1}, &r), SM_OK);
    assert_int_equal(r.signal, SIGABRT);
    assert_int_equal(r.exit_code, -1);
    assert_false(r.killed || r.no_memory);
}

CLEAN_TEST(memory_has_a_limit) {
    sm_process_result r;
    size_t n = (size_t)1 << 30;
    const os_limit more = {OS_LIMIT_ADDRESSES, n / 2, true};
    const sm_process_job job = {.work = allocate, .ctx = &n, .limits = &more, .n_limits = 1};
#if defined(__SANITIZE_ADDRESS__) || defined(__clang__)
    (void)job; // AddressSanitizer ends the process in its own way
    skip();
#endif
    assert_int_equal(sm_process_run(&job, &r), SM_OK);
    assert_int_equal(r.exit_code, 7);
    n /= 4;
    assert_int_equal(sm_process_run(&job, &r), SM_OK);
    assert_int_equal(r.exit_code, 1);
}

// --- workers ---------------------------------------------------------------------------------------

typedef struct {
    int n_messages, n_bytes;
    bool refuses;
} heard;

static int talk(SM_UNUSED void *ctx) {
    static char text[200000];
    memset(text, 'x', sizeof(text) - 1);
    for (int i = 0; i < 20; i++) {
        if (sm_worker_send(json_pack("{s:s}", "text", text)) != SM_OK) {
            return 1;
        }
    }
    return 5;
}

static sm_status hear(void *ctx, const json_t *message, SM_UNUSED int64_t *deadline_ns) {
    heard *h = ctx;
    h->n_messages++;
    h->n_bytes += (int)json_string_length(json_object_get(message, "text"));
    return h->refuses && h->n_messages == 3 ? sm_fail(SM_ERR_INVALID, "enough") : SM_OK;
}

CLEAN_TEST(messages_of_a_worker_come_whole) {
    sm_process_result end;
    heard h = {0};
    static volatile sig_atomic_t interrupted;
    const sm_worker_job job = {
        .work = talk, .receive = hear, .ctx = &h, .deadline_ns = INT64_MAX, .stop_s = 1, .interrupted = &interrupted};
    assert_int_equal(sm_worker_run(&job, &end), SM_OK);
    assert_int_equal(end.exit_code, 5);
    assert_int_equal(h.n_messages, 20);
    assert_int_equal(h.n_bytes, 20 * 199999);
    h = (heard){.refuses = true};
    assert_int_equal(sm_worker_run(&job, &end), SM_ERR_INVALID);
    assert_string_equal(sm_error_message(), "enough");
    assert_int_equal(h.n_messages, 3);
}

static int hang_as_worker(void *ctx) {
    (void)sm_worker_send(json_object());
    return hang(ctx);
}

static sm_status set_deadline(SM_UNUSED void *ctx, SM_UNUSED const json_t *message, int64_t *deadline_ns) {
    *deadline_ns = 1; // long ago
    return SM_OK;
}

CLEAN_TEST(a_worker_that_hangs_is_ended) {
    sm_process_result end;
    void (*before)(int) = signal(SIGTERM, SIG_IGN);
    volatile sig_atomic_t interrupted = 0;
    const sm_worker_job job = {.work = hang_as_worker,
                               .receive = set_deadline,
                               .deadline_ns = INT64_MAX,
                               .stop_s = 0.1,
                               .interrupted = &interrupted};
    assert_int_equal(sm_worker_run(&job, &end), SM_OK);
    assert_true(end.late && end.killed && !end.interrupted);
    assert_int_equal(end.signal, SIGKILL);
    interrupted = 1;
    assert_int_equal(sm_worker_run(&job, &end), SM_OK);
    assert_true(end.killed && end.interrupted && !end.late);
    signal(SIGTERM, before);
}
