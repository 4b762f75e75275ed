// test_tuning.c: the cache of choices: each key's choices come back; damaged files, files of another key and unwritable
// ones only cause a warning.
#include <glob.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/temp_folder.h"
#include "backends/host/tuning.h"

static int make_cache(void **state) {
    int failed = temp_folder_make(state);
    return failed == 0 ? setenv("XDG_CACHE_HOME", temp_folder, 1) : failed;
}

// The value under a name in the file of a key, and the start of the warning.
static void expect_choice(const char *key, const char *name, const char *value, const char *warning) {
    host_tuning *tuning = host_tuning_open(key);
    const char *found = host_tuning_get(tuning, name);
    if (value == NULL) {
        assert_null(found);
    } else {
        assert_non_null(found);
        assert_string_equal(found, value);
    }
    if (warning == NULL) {
        assert_string_equal(host_tuning_warning(tuning), "");
    } else if (strstr(host_tuning_warning(tuning), warning) == NULL) {
        fail_msg("no '%s' in the warning: %s", warning, host_tuning_warning(tuning));
    }
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

TEST(test_broken_files) {
    static const struct {
        const char *text;
        const char *warning;
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
    glob_t found;
    const char *folder = temp_path("broken");
    const char *pattern = textf("%.3000s/stepmark/tuning/*", folder);
    setenv("XDG_CACHE_HOME", folder, 1);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        save_choice("k", "x", "0"); // makes the folder, and mends the file before
        expect_choice("k", "x", "0", NULL);
        assert_int_equal(glob(pattern, 0, NULL, &found), 0);
        assert_int_equal(found.gl_pathc, 1);
        temp_write(found.gl_pathv[0], files[i].text, strlen(files[i].text));
        globfree(&found);
        expect_choice("k", "x", NULL, files[i].warning);
    }
    setenv("XDG_CACHE_HOME", temp_folder, 1);
}

TEST(test_no_folder) {
    const char *file = temp_path("file");
    temp_write(file, "", 0);
    setenv("XDG_CACHE_HOME", file, 1); // no folder can be made in a file, not even by root
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

// The only entry's path.
static void find_entry(char path[PATH_MAX]) {
    glob_t found;
    assert_int_equal(glob(textf("%.1000s/stepmark/tuning/*", getenv("XDG_CACHE_HOME")), 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    snprintf(path, PATH_MAX, "%s", found.gl_pathv[0]);
    globfree(&found);
}

// Files that others could have written are not read, not waited for, and replaced when choices are saved.
TEST(test_untrusted_entries) {
    char path[PATH_MAX];
    const char *folder = temp_path("untrusted");
    setenv("XDG_CACHE_HOME", folder, 1);
    save_choice("t", "x", "1");
    find_entry(path);
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

int main(void) { return cmocka_run_group_tests(tests, make_cache, temp_folder_remove); }
