// temp_folder.h: for tests that write files: a separate folder, removed at their end; functions that make and read
// files in one call; and the check that a call failed as it should.
#pragma once

#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

static char temp_folder[64]; // $T of the commands of a shell, too

// cmocka group setup and teardown.
static inline int temp_folder_make(SM_UNUSED void **state) {
    strcpy(temp_folder, "/tmp/stepmark-test-XXXXXX");
    return mkdtemp(temp_folder) != NULL && setenv("T", temp_folder, 1) == 0 ? 0 : -1;
}

// Likewise, also for what the program keeps between runs.
static inline int temp_cache_make(void **state) {
    return temp_folder_make(state) == 0 ? setenv("XDG_CACHE_HOME", temp_folder, 1) : -1;
}

static inline int temp_folder_remove(SM_UNUSED void **state) { return system(textf("rm -rf '%s'", temp_folder)); }

__attribute__((constructor(1000))) static void list_folder(void) { // before a AROUND_ALL of the test's own
    before_all = temp_folder_make;
    after_all = temp_folder_remove;
}

// The path of a name in the folder.
static inline char *temp_path(const char *name) { return textf("%s/%s", temp_folder, name); }

// Number of names in a folder.
static inline int temp_count(const char *path) {
    int n = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(dir);
    return n;
}

static inline void temp_write(const char *path, const void *data, size_t size_bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size_bytes, file), size_bytes);
    assert_int_equal(fclose(file), 0);
}

// Likewise, for a name in the folder, with the folders on the way; its path.
static inline char *temp_put(const char *name, const void *data, size_t size_bytes) {
    char *path = temp_path(name);
    for (char *slash = strchr(path + strlen(temp_folder) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    temp_write(path, data, size_bytes);
    return path;
}

static inline char *temp_put_text(const char *name, const char *text) { return temp_put(name, text, strlen(text)); }

// The whole file, with a zero after it; the caller's to free.
static inline char *temp_read(const char *path, size_t *size_bytes) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long end = ftell(file);
    rewind(file);
    char *data = sm_calloc((size_t)end + 1, 1);
    assert_int_equal(fread(data, 1, (size_t)end, file), (size_t)end);
    fclose(file);
    *size_bytes = (size_t)end;
    return data;
}

// The text of a file, which stays until the program ends.
static inline char *file_text(const char *path) {
    size_t size_bytes;
    SM_FREED char *text = temp_read(path, &size_bytes);
    return textf("%s", text);
}

// The text of a name in the folder; the caller's to free.
static inline char *temp_text(const char *name) {
    size_t size_bytes;
    return temp_read(temp_path(name), &size_bytes);
}

// Starts a command line of the shell's; a program that it executes, by exec, has the number that it returns.
static inline pid_t start_shell(const char *line) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(300); // if the test fails meanwhile
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    return child;
}

static inline void expect_ok(const char *label, sm_status status) {
    FAIL_IF(status != SM_OK, "%s: %s: %s", label, sm_status_text(status), sm_error_message());
}

// `status` is what was expected and the message has all its facts: each of `parts`, separated by '|'.
static inline void expect_failure(const char *label, sm_status status, sm_status expected, const char *parts) {
    FAIL_IF(status != expected, "%s: '%s' instead of '%s'; message: %s", label, sm_status_text(status),
            sm_status_text(expected), status == SM_OK ? "" : sm_error_message());
    for (char *part = strtok(textf("%s", parts), "|"); part != NULL; part = strtok(NULL, "|")) {
        FAIL_IF(strstr(sm_error_message(), part) == NULL, "%s: no '%s' in the message: %s", label, part,
                sm_error_message());
    }
    FAIL_IF(strchr(sm_error_message(), '\n') != NULL, "%s: the message is not one line: %s", label, sm_error_message());
}
