// test_drivers.c: drivers that fail, hang or crash, signals and limits, as users meet them: the program ends in time,
// each row has a status and a reason, the cpu's row exists, and the exit code is right. program.py tests all.
#define OWN_MAIN
#include <signal.h>

#include "clock.h"
#include "tests/support/temp_folder.h"
#include "bench/tables/json_values.h"

// A program that takes longer hangs, even on a busy machine.
static const double END_S = 60;

#define TINY "run -m tiny -b 1 --seq-len 16 -w 0 -r 2 --no-peaks -o json"

static const char *opencl_path;

static const char *text_of(const json_t *row, const char *name) {
    const char *text = json_string_value(json_object_get(row, name));
    return text != NULL ? text : "";
}

// --- running ---------------------------------------------------------------------------------------

static int place; // of the streams that are written or read now: several programs may run at a time

static char *stream_path(const char *name) { return temp_path(textf("%s%d", name, place)); }

// fault: STEPMARK_FAULT; NULL: the system's own loader. limit: "ulimit -n 8;", "": none.
static pid_t start(const char *line, const char *fault, const char *limit) {
    const char *faulty = textf("export STEPMARK_FAULT='%s' STEPMARK_OPENCL='%s' LD_LIBRARY_PATH=" SM_TEST_SHIMS ";",
                               fault != NULL ? fault : "", opencl_path);
    return start_shell(textf("export OMP_WAIT_POLICY=passive; exec >%s 2>%s; %s %s exec setsid " SM_TEST_BINARY " %s",
                             stream_path("out"), stream_path("err"), fault != NULL ? faulty : "", limit, line));
}

static double seconds_since(int64_t start_ns) { return (double)(sm_now_ns() - start_ns) / 1e9; }

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); }

// Its exit code, when it ends within that time.
static int wait_for_end(pid_t pid, double limit_s) {
    const int64_t start_ns = sm_now_ns();
    int state = 0;
    while (waitpid(pid, &state, WNOHANG) == 0) {
        if (seconds_since(start_ns) > limit_s) {
            kill(pid, SIGKILL);
            waitpid(pid, &state, 0);
            fail_msg("did not end within %g s", limit_s);
        }
        nap();
    }
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

static char *read_stream(const char *name) { return file_text(stream_path(name)); }

static void expect_message(const char *part) {
    char *err = read_stream("err");
    FAIL_IF(strstr(err, part) == NULL, "no \"%s\" on stderr: %s", part, err);
}

// The rows of `run`, each with a status and, but for ok, a reason.
static json_t *read_rows(void) {
    json_t *rows = json_loads(read_stream("out"), 0, NULL);
    assert_true(json_is_array(rows));
    SM_EACH(row, rows) {
        assert_string_not_equal(text_of(row, "status"), "");
        assert_true(strcmp(text_of(row, "status"), "ok") == 0 || text_of(row, "reason")[0] != '\0');
    }
    return rows;
}

static const json_t *row_of(const json_t *rows, const char *backend) {
    SM_EACH(row, rows) {
        if (strcmp(text_of(row, "backend"), backend) == 0) {
            return row;
        }
    }
    fail_msg("no row of backend %s", backend);
    return NULL;
}

// --- drivers ---------------------------------------------------------------------------------------

// Skips the test if there is no device; the driver of one has then built its kernels once.
static void need_device(void) {
    static int known = -1;
    if (known < 0 && opencl_path[0] != '\0') {
        wait_for_end(start(TINY " --backend all", NULL, ""), 120);
        known = strstr(read_stream("out"), "\"device\": \"opencl:") != NULL;
    }
    SKIP_IF(known != 1);
}

static const struct {
    const char *fault, *status, *reason;
    int code;
} failures[] = {
    {"clGetPlatformIDs hang 1", "timeout", "looking for opencl devices", 1},
    {"clBuildProgram hang 1", "timeout", "building", 1},
    {"clEnqueueNDRangeKernel hang 60", "timeout", "", 1},
    {"clFinish hang 1", "timeout", "", 1},
    {"clCreateContext crash 1", "error", "Segmentation fault", 1},
    {"clEnqueueWriteBuffer -5 3", "error", "CL_OUT_OF_RESOURCES", 1},
    {"clCreateBuffer -4 1", "oom", "", 0},
};
enum { N_FAILURES = sizeof(failures) / sizeof(failures[0]) };

static pid_t start_failing(int i, int limit_s) {
    place = i;
    return start(textf(TINY " --timeout %d", limit_s), failures[i].fault, "");
}

// Whether the row has the reason and the cpu was measured. `said` is the program's output.
static bool is_told(int i, pid_t pid, char said[1024]) {
    place = i;
    const int code = wait_for_end(pid, END_S);
    json_auto_t *rows = read_rows();
    const json_t *row = row_of(rows, "opencl");
    const json_t *cpu = row_of(rows, "cpu");
    snprintf(said, 1024, "%s: exit %d, %s: %s; the cpu: %s: %s", failures[i].fault, code, text_of(row, "status"),
             text_of(row, "reason"), text_of(cpu, "status"), text_of(cpu, "reason"));
    const bool told = strcmp(text_of(row, "status"), failures[i].status) == 0 &&
                      strstr(text_of(row, "reason"), failures[i].reason) != NULL && code == failures[i].code &&
                      strcmp(text_of(cpu, "status"), "ok") == 0;
    return told;
}

// All at once, with a short limit. Rows that a busy machine did not reach are tried alone, with ten times that.
TEST(drivers_that_fail) {
    pid_t pids[N_FAILURES];
    char said[1024];
    need_device();
    for (int i = 0; i < N_FAILURES; i++) {
        pids[i] = start_failing(i, 3);
    }
    bool told[N_FAILURES];
    for (int i = 0; i < N_FAILURES; i++) {
        told[i] = is_told(i, pids[i], said);
    }
    for (int i = 0; i < N_FAILURES; i++) {
        FAIL_IF(!told[i] && !is_told(i, start_failing(i, 30), said), "%s\n%s", said, read_stream("err"));
    }
    place = 0;
}

TEST(facts_that_cannot_be) {
    static const char *const faults[] = {"clGetDeviceInfo zeros 1", "clGetDeviceInfo ones 1",
                                         "clGetDeviceInfo small 1"};
    static const char *const reasons[] = {"does not say how much memory", "does not say how much memory",
                                          "needs work-groups of 128 work-items"};
    need_device();
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        pid_t pid = start(TINY " --backend opencl,cpu", faults[i], "");
        assert_int_equal(wait_for_end(pid, END_S), 0);
        json_auto_t *rows = read_rows();
        assert_string_equal(text_of(row_of(rows, "opencl"), "status"), "skipped");
        assert_non_null(strstr(text_of(row_of(rows, "opencl"), "reason"), reasons[i]));
        assert_string_equal(text_of(row_of(rows, "cpu"), "status"), "ok");
        assert_int_equal(wait_for_end(start("devices -o json", faults[i], ""), END_S), 0);
        assert_non_null(strstr(read_stream("out"), reasons[i]));
    }
}

// The others are listed and used.
TEST(a_driver_that_crashes_is_left_out) {
    static const char crash[] = "clGetPlatformIDs crash 1";
    static const char *const lines[] = {"devices -o json", "verify --filter gelu_forward -o json"};
    need_device();
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_int_equal(wait_for_end(start(lines[i], crash, ""), END_S), 0);
        expect_message("the process crashed during: looking for opencl devices, by signal 11");
        assert_non_null(strstr(read_stream("out"), "\"device\": \"cpu\""));
    }
    assert_int_equal(wait_for_end(start("devices -o json", crash, ""), END_S), 0);
    assert_non_null(strstr(read_stream("out"), "a driver ended the process that asked for its devices"));
}

// --- signals ---------------------------------------------------------------------------------------

static bool handles(pid_t pid, int number) {
    char line[256];
    unsigned long long caught = 0;
    FILE *file = fopen(textf("/proc/%d/status", (int)pid), "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL && sscanf(line, "SigCgt: %llx", &caught) != 1) {
    }
    fclose(file);
    return (caught >> (number - 1) & 1) != 0;
}

// Sends the signal once the program's driver hangs, or it said `begun` on stderr; the seconds until it has ended.
static double end_by_signal(const char *line, const char *fault, int number, const char *begun) {
    const char *path = temp_path("hangs");
    unlink(path);
    setenv("STEPMARK_HANGS", path, 1);
    pid_t pid = start(line, fault, "");
    int64_t start_ns = sm_now_ns();
    while (!(handles(pid, number) && (fault != NULL ? access(getenv("STEPMARK_HANGS"), F_OK) == 0
                                                    : strstr(read_stream("err"), begun) != NULL)) &&
           seconds_since(start_ns) < END_S) {
        nap();
    }
    unsetenv("STEPMARK_HANGS");
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    start_ns = sm_now_ns();
    assert_int_equal(kill(-pid, number), 0); // to its whole group, as a terminal and timeout do
    const int code = wait_for_end(pid, END_S);
    FAIL_IF(code != 130, "%s: exit %d\n%s", line, code, read_stream("err"));
    expect_message("interrupted");
    return seconds_since(start_ns);
}

// Two seconds, or on a busy machine a few times the duration of a run.
static bool is_soon(double seconds) {
    const int before = place;
    const int64_t start_ns = sm_now_ns();
    if (seconds < 4) {
        return true;
    }
    place = 99; // the streams of what ended are still to be read
    assert_int_equal(wait_for_end(start(TINY " --backend cpu", NULL, ""), END_S), 0);
    place = before;
    return seconds < 2 + 10 * seconds_since(start_ns);
}

static void expect_end_by_signal(const char *line, const char *fault, int number, const char *begun) {
    double seconds = end_by_signal(line, fault, number, begun);
    for (int i = 0; i < 2 && !is_soon(seconds); i++) {
        seconds = end_by_signal(line, fault, number, begun);
    }
    FAIL_IF(!is_soon(seconds), "%s: it took %.1f s to end by signal %d", line, seconds, number);
}

TEST(signals_end_everything) {
    expect_end_by_signal(TINY " -r 1000000 --backend cpu", NULL, SIGTERM, "cpu: tiny");
    json_auto_t *rows = read_rows();
    assert_true(json_array_size(rows) == 1);
    expect_end_by_signal("run -m tiny -b 1 --seq-len 8 -r 1000000 --backend cpu", NULL, SIGINT, "");
    expect_end_by_signal("devices --peaks --backend cpu --min-time 100", NULL, SIGTERM, "measuring");
}

TEST(signals_end_hanging_drivers) {
    need_device();
    expect_end_by_signal(TINY, "clFinish hang 1", SIGTERM, NULL);
    json_auto_t *rows = read_rows();
    assert_string_equal(text_of(row_of(rows, "cpu"), "status"), "ok");
    assert_string_equal(text_of(row_of(rows, "opencl"), "status"), "skipped");
    assert_non_null(strstr(text_of(row_of(rows, "opencl"), "reason"), "interrupted during"));
    expect_end_by_signal("devices", "clGetPlatformIDs hang 1", SIGINT, NULL);
}

// --- limits ----------------------------------------------------------------------------------------

TEST(every_object_is_released) {
    const char *path = temp_path("objects");
    char type[32];
    int n_processes = 0;
    SKIP_IF(opencl_path[0] == '\0');
    setenv("STEPMARK_OBJECTS", path, 1);
    assert_int_equal(wait_for_end(start(TINY " --backend opencl", "none 0 1", ""), 120), 0);
    unsetenv("STEPMARK_OBJECTS");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (; fscanf(file, "%31s", type) == 1; n_processes++) {
        FAIL_IF(strcmp(type, "end") != 0, "a %s is not released", type);
    }
    fclose(file);
    assert_true(n_processes > 0);
}

TEST(a_device_without_parts_has_peaks) {
    need_device();
    const char *whole = "clCreateSubDevices -18 1";
    assert_int_equal(wait_for_end(start("devices --peaks --backend opencl --min-time 0.01 -o json", whole, ""), 120),
                     0);
    json_auto_t *rows = json_loads(read_stream("out"), 0, NULL);
    assert_true(json_array_size(rows) > 0);
}

TEST(limits_are_told) {
    assert_int_equal(wait_for_end(start(TINY " --backend cpu -t 4096", NULL, ""), END_S), 2);
    expect_message("make sense on");
    assert_int_equal(wait_for_end(start(TINY, NULL, "ulimit -s 64;"), END_S), 1);
    expect_message("ulimit -s");
    assert_int_equal(wait_for_end(start(TINY " --backend cpu", NULL, "ulimit -n 8;"), END_S), 0);
}

#if !defined(__SANITIZE_ADDRESS__) // which maps terabytes
TEST(little_address_space_is_enough) {
    assert_int_equal(wait_for_end(start(TINY " --backend cpu", NULL, "ulimit -v 200000;"), END_S), 0);
}
#endif

int main(void) {
    opencl_path = opencl_loader();
    return cmocka_run_group_tests(tests, temp_folder_make, temp_folder_remove);
}
