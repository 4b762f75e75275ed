// run_program.h: runs the program as users do: a command line, its exit code, and its output on each stream. $T of the
// command lines is the test's folder.
#pragma once

#include <jansson.h>
#include <signal.h>

#include "tests/support/temp_folder.h"

enum { OUTPUT_SIZE = 1 << 22, COMMAND_SIZE = 1024 };

static const char *run_in = "."; // the folder of the program
static char out[OUTPUT_SIZE];
static char err[OUTPUT_SIZE];

static inline void read_file(const char *name, char *text) {
    FILE *file = fopen(temp_path(name), "r");
    assert_non_null(file);
    size_t n = fread(text, 1, OUTPUT_SIZE - 1, file);
    text[n] = '\0';
    fclose(file);
}

// Runs `arguments` through the shell and fills `out` and `err`; the exit code.
static inline int run(const char *arguments) {
    int status =
        system(textf("(P=$PWD/%s; cd %s; $P %s) >$T/out 2>$T/err </dev/null", SM_TEST_BINARY, run_in, arguments));
    read_file("out", out);
    read_file("err", err);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

// A busy machine may stop an op of so short a row until the row contradicts itself: then it is measured again.
static inline int run_steady(const char *arguments) {
    int code = run(arguments);
    for (int i = 0; i < 10 && strstr(out, "contradicts itself") != NULL; i++) {
        code = run(arguments);
    }
    return code;
}

static inline void expect_exit(const char *arguments, int expected) {
    int code = run_steady(arguments);
    FAIL_IF(code != expected, "stepmark %s: exit code %d, not %d\n%s%s", arguments, code, expected, out, err);
}

static inline int count_lines(const char *text) {
    int n = 0;
    for (; *text != '\0'; text++) {
        n += *text == '\n';
    }
    return n;
}

// Likewise of a name in the folder, where there is one.
static inline int count_lines_of(const char *name) {
    size_t size_bytes;
    const char *path = temp_path(name);
    SM_FREED char *text = access(path, F_OK) == 0 ? temp_read(path, &size_bytes) : NULL;
    return text != NULL ? count_lines(text) : 0;
}

// Starts the program; end_by ends it by a signal, fills `out` and `err`: the exit code, or -1 where the signal ended it.
static inline pid_t start_program(const char *arguments) {
    return start_shell(textf("exec " SM_TEST_BINARY " %s >$T/out 2>$T/err </dev/null", arguments));
}

static inline bool has_ended(pid_t child) {
    siginfo_t ended = {0};
    assert_int_equal(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
    return ended.si_pid != 0;
}

static inline int end_by(pid_t child, int number) {
    int status;
    kill(child, number);
    assert_int_equal(waitpid(child, &status, 0), child);
    read_file("out", out);
    read_file("err", err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline void expect_text(const char *arguments, const char *stream, const char *text) {
    FAIL_IF(text != NULL && strstr(stream, text) == NULL, "stepmark %s: does not say \"%s\"\n%s%s", arguments, text,
            err, out); // of much, only the beginning is printed
}

static inline json_t *parse_json(const char *text) {
    json_error_t error;
    json_t *value = json_loads(text, 0, &error);
    FAIL_IF(value == NULL, "line %d: %s\n%s%s", error.line, error.text, text, err);
    return value;
}

// What the program prints with -o json; the caller's to release.
static inline json_t *run_json(const char *arguments) {
    expect_exit(textf("%s -o json", arguments), 0);
    return parse_json(out);
}

// Its only row, which is ok.
static inline json_t *run_row(const char *arguments) {
    json_auto_t *rows = run_json(arguments);
    json_t *row = json_incref(json_array_get(rows, 0));
    assert_int_equal(json_array_size(rows), 1);
    assert_string_equal(json_string_value(json_object_get(row, "status")), "ok");
    return row;
}

typedef struct {
    const char *arguments;
    int code;
    const char *out, *err;
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

// The runs of `train --run` left the same weights, and logs that differ in times alone.
static inline void expect_same_runs(const char *one, const char *other) {
    shell(textf("cd $T && cmp %s/model/model.safetensors %s/model/model.safetensors && for run in %s %s; do sed 's/, "
                "\"checked_ops\": [0-9]*, \"checks_ms\": [^,}]*//; s/\"[a-z_]*ms\": *[^,}]*//g' $run/log.jsonl "
                ">$run.timeless; done && cmp %s.timeless %s.timeless",
                one, other, one, other, one, other));
}

#define CHECK_ALL(...) \
    check_all((const expectation[]){__VA_ARGS__}, sizeof((const expectation[]){__VA_ARGS__}) / sizeof(expectation))
