// test_tuning.c: the cache of choices: each key's choices come back; damaged files, files of another key and unwritable
// ones only cause a warning.
#include <glob.h>

#include "tests/support/temp_folder.h"
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

AROUND_ALL(temp_cache_make, temp_folder_remove)
