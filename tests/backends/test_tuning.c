// test_tuning.c: the cache of choices: each key's choices come back; damaged files, files of another key and unwritable
// ones only cause a warning. And ways that fail, on a device that is lost by it, and on one that is not.
#include <glob.h>

#include "tests/support/session.h"
#include "tests/support/temp_folder.h"
#include "backends/host/tune.h"
#include "src/verify/op_cases.h"
#include "backends/host/tuning.h"

// The value under a name in the file of a key, and the start of the warning.
static void expect_choice(const char *key, const char *name, const char *value, const char *warning) {
    host_tuning *tuning = host_tuning_open(key);
    const char *found = host_tuning_get(tuning, name);
    FAIL_IF(value == NULL || found == NULL ? value != found : strcmp(value, found) != 0, "%s is %s", name, found);
    const char *said = host_tuning_warning(tuning);
    FAIL_IF(warning == NULL ? said[0] != '\0' : strstr(said, warning) == NULL, "no '%s' in the warning: %s", warning,
            said);
    host_tuning_free(tuning);
}

static void save_choice(const char *key, const char *name, const char *value) {
    host_tuning *tuning = host_tuning_open(key);
    host_tuning_put(tuning, name, value);
    host_tuning_save(tuning);
    host_tuning_free(tuning);
}

TEST(test_remembered) {
    expect_choice("a", "x", NULL, NULL);
    save_choice("a", "x", "1 \"quoted\"\n");
    expect_choice("a", "x", "1 \"quoted\"\n", NULL);
    expect_choice("a", "y", NULL, NULL);
    expect_choice("b", "x", NULL, NULL);
    host_tuning_free(NULL);
}

// Two writers of one file: choices unknown to one are kept, and for those of both the later one wins.
TEST(test_two_writers) {
    host_tuning *first = host_tuning_open("shared");
    host_tuning *second = host_tuning_open("shared");
    host_tuning_put(first, "of both", "first");
    host_tuning_put(first, "of the first", "1");
    host_tuning_put(second, "of both", "second");
    host_tuning_save(first);
    host_tuning_save(second);
    host_tuning_free(first);
    host_tuning_free(second);
    expect_choice("shared", "of both", "second", NULL);
    expect_choice("shared", "of the first", "1", NULL);
}

// The only entry's path.
static char *find_entry(void) {
    glob_t found;
    assert_int_equal(glob(textf("%s/stepmark/tuning/*", getenv("XDG_CACHE_HOME")), 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    char *path = textf("%s", found.gl_pathv[0]);
    globfree(&found);
    return path;
}

TEST(test_broken_files) {
    static const struct {
        const char *text, *warning;
    } files[] = {
        {"", "is not a file of choices"},
        {"{\"stepmark_tuning\": 1, \"key\": \"k\", \"choi", "is not a file of choices"},
        {"[1, 2]", "is not a file of choices"},
        {"{\"stepmark_tuning\": 2, \"key\": \"k\", \"choices\": {\"x\": \"1\"}}", "is not a file of choices"},
        {"{\"stepmark_tuning\": 1, \"key\": \"k\", \"choices\": {\"x\": 1}}", "is not a file of choices"},
        {"{\"stepmark_tuning\": 1, \"key\": \"k\", \"choices\": \"x\"}", "is not a file of choices"},
        {"{\"stepmark_tuning\": 1, \"key\": \"another\", \"choices\": {\"x\": \"1\"}}",
         "is of another device or build"},
    };
    setenv("XDG_CACHE_HOME", temp_path("broken"), 1);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        save_choice("k", "x", "0"); // makes the folder, and mends the file before
        expect_choice("k", "x", "0", NULL);
        temp_write(find_entry(), files[i].text, strlen(files[i].text));
        expect_choice("k", "x", NULL, files[i].warning);
    }
    setenv("XDG_CACHE_HOME", temp_folder, 1);
}

TEST(test_no_folder) {
    setenv("XDG_CACHE_HOME", temp_put_text("file", ""), 1); // no folder can be made in a file, not even by root
    host_tuning *tuning = host_tuning_open("k");
    host_tuning_put(tuning, "x", "1");
    host_tuning_save(tuning);
    assert_string_equal(host_tuning_get(tuning, "x"), "1");
    assert_non_null(strstr(host_tuning_warning(tuning), "Not a directory"));
    host_tuning_free(tuning);

    setenv("XDG_CACHE_HOME", "relative", 1);
    unsetenv("HOME");
    tuning = host_tuning_open("k");
    host_tuning_put(tuning, "x", "1");
    host_tuning_save(tuning);
    assert_non_null(strstr(host_tuning_warning(tuning), "XDG_CACHE_HOME"));
    host_tuning_free(tuning);
    setenv("XDG_CACHE_HOME", temp_folder, 1);
}

// Files that others could have written are not read, not waited for, and replaced when choices are saved.
TEST(test_untrusted_entries) {
    setenv("XDG_CACHE_HOME", temp_path("untrusted"), 1);
    save_choice("t", "x", "1");
    char *path = find_entry();
    assert_int_equal(chmod(path, 0666), 0);
    expect_choice("t", "x", NULL, "others than this user");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_choice("t", "x", NULL, "no regular file");
    save_choice("t", "x", "2");
    expect_choice("t", "x", "2", NULL);
    const char *elsewhere = textf("%s.else", path);
    assert_int_equal(rename(path, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, path), 0);
    expect_choice("t", "x", NULL, "symbolic link");
    assert_int_equal(rename(elsewhere, path), 0);
    expect_choice("t", "x", "2", NULL);
    *strrchr(path, '/') = '\0';
    assert_int_equal(chmod(path, 0777), 0);
    expect_choice("t", "x", NULL, "others than this user");
    save_choice("t", "x", "3"); // closes the folder to others
    expect_choice("t", "x", "3", NULL);
    setenv("XDG_CACHE_HOME", temp_folder, 1);
}

// --- ways ------------------------------------------------------------------------------------

enum { N_WAYS = 4, FAILS = 1 };
static int now, most; // the way that is tried, and the highest so far
static bool loses, is_lost;

static bool name_work(SM_UNUSED const sm_device *device, SM_UNUSED const sm_plan *plan, SM_UNUSED const sm_op *op,
                      char name[HOST_WORK_SIZE]) {
    return snprintf(name, HOST_WORK_SIZE, "gelu") > 0;
}

static bool name_way(SM_UNUSED const sm_device *device, SM_UNUSED const sm_plan *plan, SM_UNUSED const sm_op *op,
                     int way, char text[HOST_WAY_SIZE]) {
    return snprintf(text, HOST_WAY_SIZE, "way %d", way) > 0 && way < N_WAYS;
}

static void try_way(SM_UNUSED sm_device *device, SM_UNUSED const sm_plan *plan, const int *way) {
    now = way != NULL ? *way : 0;
    most = now > most ? now : most;
}

static void choose(SM_UNUSED sm_executable *e, SM_UNUSED int i, SM_UNUSED const char *name, int way) {
    assert_int_not_equal(way, FAILS);
}

static sm_status execute(sm_executable *e, sm_range range, int64_t *op_ns) {
    is_lost = is_lost || (loses && now == FAILS);
    SM_FAIL_IF(is_lost || now == FAILS, SM_ERR_DEVICE, "way %d: the device does not answer", now);
    return sm_backend_find("reference")->execute(e, range, op_ns);
}

TEST(a_lost_device_ends_it) {
    SM_OWN(sm_device) *device = open_backend("reference", 1);
    SM_OWN(sm_plan) *plan = NULL;
    sm_backend failing = *device->backend;
    sm_executable *e;
    ok(sm_op_text_plan(SM_OP_GELU_FORWARD, "n=64", (sm_precision){.dtype = SM_F32}, &plan));
    ok(sm_plan_assign_memory(plan, 0));
    ok(device->backend->prepare(device, plan, &e));
    failing.execute = execute;
    device->backend = &failing;
    for (int i = 0; i < 2; i++) {
        const host_tuner tuner = {.e = e,
                                  .key = i == 0 ? "kept" : "lost",
                                  .n_rounds = 1,
                                  .n_runs = 1,
                                  .op_s = 60,
                                  .all_s = 60,
                                  .faster = 1,
                                  .tolerance = 1e-6,
                                  .is_prepared_for_way = true,
                                  .name_work = name_work,
                                  .name_way = name_way,
                                  .try_way = try_way,
                                  .choose = choose};
        loses = i == 1;
        most = 0;
        assert_int_equal(host_tune(&tuner), loses ? SM_ERR_DEVICE : SM_OK);
        assert_int_equal(most, loses ? FAILS : N_WAYS - 1);
    }
    assert_string_equal(sm_error_message(), "way 0: the device does not answer");
    failing.release(e);
}

AROUND_ALL(temp_cache_make, temp_folder_remove)
