// test.h: begins a test program: cmocka, and tests that list themselves, in the order in which the file has them.
//
//     TEST(what_must_hold) { assert_true(...); }
//     AROUND_ALL(set_up, tear_down)
//
// What is done before the first test and after the last is, with temp_folder.h, the test's folder, or what AROUND_ALL
// says. main is here, unless a program defines OWN_MAIN. ONLY='what_*' build/release/tests/test_NAME runs those whose
// names match. The headers of C that most tests need come with it, and it comes with most headers of this folder.
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "status.h"

enum { MAX_TESTS = 64 };
static struct CMUnitTest tests[MAX_TESTS]; // cmocka passes over the empty ones after the last
static size_t n_tests;

// A test with a set-up and a tear-down of its own, or NULL. Constructors run before main, in the order of their lines.
#define TEST_WITH(name, set_up, tear_down)                                            \
    static void name(void **state);                                                   \
    __attribute__((constructor(1000 + __LINE__))) static void list_##name(void) {     \
        tests[n_tests++] = (struct CMUnitTest){#name, name, set_up, tear_down, NULL}; \
    }                                                                                 \
    static void name(SM_UNUSED void **state)
#define TEST(name) TEST_WITH(name, NULL, NULL)

static SM_UNUSED CMFixtureFunction before_all, after_all;
#define AROUND_ALL(set_up, tear_down)                      \
    __attribute__((constructor)) static void group(void) { \
        before_all = set_up;                               \
        after_all = tear_down;                             \
    }

#ifndef OWN_MAIN
int main(void) { return cmocka_run_group_tests(tests, before_all, after_all); }
#endif

// A check and its message: FAIL_IF(n < 1, "%d rows", n);
#define FAIL_IF(condition, ...)    \
    do {                           \
        if (condition) {           \
            fail_msg(__VA_ARGS__); \
        }                          \
    } while (0)

// A test that cannot run here.
#define SKIP_IF(condition) \
    do {                   \
        if (condition) {   \
            skip();        \
        }                  \
    } while (0)

// Equal but for the rounding of a few operations.
#define assert_near(value, expected)                                       \
    do {                                                                   \
        double value_ = (value);                                           \
        double expected_ = (expected);                                     \
        if (!(fabs(value_ - expected_) <= 1e-9 * (1 + fabs(expected_)))) { \
            fail_msg("%s is %.17g, not %.17g", #value, value_, expected_); \
        }                                                                  \
    } while (0)

// A text as printf makes it, which stays until the program ends.
__attribute__((format(printf, 1, 2))) static inline char *textf(const char *format, ...) {
    static struct kept {
        struct kept *before;
        char text[];
    } * last;
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    struct kept *kept = sm_malloc(sizeof *kept + (size_t)length + 1);
    va_start(arguments, format);
    vsnprintf(kept->text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    kept->before = last;
    last = kept;
    return kept->text;
}

// Whether a list of words, with spaces between, has this one.
static inline bool has_word(const char *words, const char *word) {
    return strstr(textf(" %s ", words), textf(" %s ", word)) != NULL;
}

// Sets a variable of the environment, or with NULL removes it; what it was, to be put back.
static inline const char *set_variable(const char *name, const char *value) {
    const char *before = getenv(name) != NULL ? textf("%s", getenv(name)) : NULL;
    assert_int_equal(value != NULL ? setenv(name, value, 1) : unsetenv(name), 0);
    return before;
}

// The system's loader of OpenCL; "" where there is none.
static inline const char *opencl_loader(void) {
    static char path[4096];
    FILE *pipe = popen("ldconfig -p 2>/dev/null | sed -n 's/.*libOpenCL.so.1 .*=> //p' | head -n 1 | tr -d '\\n'", "r");
    path[pipe != NULL ? fread(path, 1, sizeof path - 1, pipe) : 0] = '\0';
    return pipe != NULL && pclose(pipe) == 0 ? path : "";
}

// A command of the shell's that must succeed.
static inline void shell(const char *command) { FAIL_IF(system(command) != 0, "failed: %s", command); }

static inline void ok(sm_status status) { FAIL_IF(status != SM_OK, "%s", sm_error_message()); }

__attribute__((constructor)) static void choose_tests(void) { cmocka_set_test_filter(getenv("ONLY")); }
