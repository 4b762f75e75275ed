// run_program.h: runs the program as users do: a command line, its exit code, and its output on each stream.
#ifndef STEPMARK_TESTS_RUN_PROGRAM_H
#define STEPMARK_TESTS_RUN_PROGRAM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { OUTPUT_SIZE = 1 << 22, COMMAND_SIZE = 1024 };

static char folder[] = "/tmp/stepmark_test_XXXXXX"; // $T of the command lines
static char out[OUTPUT_SIZE];
static char err[OUTPUT_SIZE];

// Set-up and tear-down of a group of tests.
static inline int make_folder(SM_UNUSED void **state) {
    return mkdtemp(folder) != NULL && setenv("T", folder, 1) == 0 ? 0 : -1;
}

static inline int remove_folder(SM_UNUSED void **state) { return system("rm -rf \"$T\""); }

static inline void write_text(const char *name, const char *text) {
    char path[COMMAND_SIZE];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static inline void read_file(const char *name, char *text) {
    char path[COMMAND_SIZE];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t n = fread(text, 1, OUTPUT_SIZE - 1, file);
    text[n] = '\0';
    fclose(file);
}

// Runs `arguments` through the shell and fills `out` and `err`; the exit code.
static inline int run(const char *arguments) {
    char command[2 * COMMAND_SIZE];
    snprintf(command, sizeof(command), "(%s %s) >%s/out 2>%s/err </dev/null", SM_TEST_BINARY, arguments, folder,
             folder);
    int status = system(command);
    read_file("out", out);
    read_file("err", err);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static inline void expect_exit(const char *arguments, int expected) {
    int code = run(arguments);
    FAIL_IF(code != expected, "stepmark %s: exit code %d, not %d\n%s%s", arguments, code, expected, out, err);
}

static inline void expect_text(const char *arguments, const char *stream, const char *text) {
    FAIL_IF(text != NULL && strstr(stream, text) == NULL, "stepmark %s: does not say \"%s\"\n%s%s", arguments, text,
            out, err);
}

typedef struct {
    const char *arguments;
    int code;
    const char *out;
    const char *err;
} expectation;

static inline void check_all(const expectation *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        expect_exit(cases[i].arguments, cases[i].code);
        expect_text(cases[i].arguments, out, cases[i].out);
        expect_text(cases[i].arguments, err, cases[i].err);
    }
}

static inline void expect_run(const char *arguments, int code, const char *in_out, const char *in_err) {
    check_all(&(expectation){arguments, code, in_out, in_err}, 1);
}

// A command of the shell's that must succeed.
static inline void shell(const char *command) { FAIL_IF(system(command) != 0, "%s\n%s%s", command, out, err); }

// The runs of `train --run` left the same weights, and logs that differ in times alone.
static inline void expect_same_runs(const char *one, const char *other) {
    char command[2 * COMMAND_SIZE];
    snprintf(command, sizeof(command),
             "cd $T && cmp %s/model/model.safetensors %s/model/model.safetensors && "
             "for run in %s %s; do sed 's/, \"checked_ops\": [0-9]*, \"checks_ms\": [^,}]*//; s/\"[a-z_]*ms\": "
             "*[^,}]*//g' $run/log.jsonl >$run.timeless; done && "
             "cmp %s.timeless %s.timeless",
             one, other, one, other, one, other);
    shell(command);
}

#define CHECK_ALL(cases) check_all(cases, sizeof(cases) / sizeof((cases)[0]))

#endif
