// A student's path: every exercise begins with a file, has a solution that is right, and mistakes that are told by
// name. tests/exercises/NAME.inc is a body in both languages; where MISTAKE is a number, it makes that mistake, and
// "//! NUMBER: TEXT" is what is said of it (TEXT|TEXT: one of them). cl/NAME.inc shares its work among work-items.
#include "tests/support/full_disk.h"
#include "tests/support/run_program.h"
#include "tests/support/whole.h"
#include "learn/exercise/exercise.h"
#include "os/confinement.h"

enum { TEXT_SIZE = 1 << 15, MAX_MISTAKES = 10, LEAST_MISTAKES = 3, SAID_SIZE = 3 * SM_EXERCISE_TEXT + 16 };

// Names that a body may use in both languages.
static const char *words_of(const char *language) {
    return strcmp(language, "c") == 0
               ? "#define GLOBAL\n#define KEPT(e) args->keep(args->rng, e)\n#define ROOM static\n"
               : "#define GLOBAL global\n#define KEPT(e) KEEP(e)\n#define ROOM\n"
                 "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\ntypedef long int64_t;\ntypedef int int32_t;\n";
}

// The file that --init writes in a language, with a body in place of its last comment, and the number of a mistake.
static void write_in(const char *language, const char *file, const char *name, const char *body, int mistake) {
    const char *path = temp_path(textf("%s.%s", name, language));
    if (access(path, F_OK) != 0) {
        expect_exit(textf("exercise %s --init $T --language %s", name, language), 0);
    }
    char *begun = file_text(path);
    char *end = strstr(begun, "    // Your code.");
    assert_non_null(end);
    *end = '\0';
    temp_put_text(file, textf("#define MISTAKE %d\n%s%s%s}\n", mistake, words_of(language), begun, body));
}

static void write_kernel(const char *file, const char *name, const char *body) { write_in("c", file, name, body, 0); }

static int check(const char *name, const char *body, const char *flags) {
    write_kernel("mine.c", name, body);
    return run(textf("exercise %s --check $T/mine.c --no-peaks %s", name, flags));
}

// "TEXT|TEXT" of a mistake, from its line; NULL: the body has no such mistake.
static const char *expectation_of(const char *body, int mistake) {
    const char *head = textf("//! %d: ", mistake);
    const char *line = strstr(body, head);
    return line == NULL ? NULL : textf("%.*s", (int)strcspn(line, "\n"), line) + strlen(head);
}

static bool has_one_of(const char *where, const char *texts) {
    for (char *text = strtok(textf("%s", texts), "|"); text != NULL; text = strtok(NULL, "|")) {
        if (strstr(where, text) != NULL) {
            return true;
        }
    }
    return false;
}

// The body in a library that makes the mistake of the environment's number: compiled once.
static void compile_body(const char *name, const char *body) {
    write_kernel("body.c", name,
                 textf("%s}\n#include <stdlib.h>\n__attribute__((constructor)) static void set(void) { MISTAKE = "
                       "atoi(getenv(\"MISTAKE\"));",
                       body));
    FAIL_IF(system("sed -i 's/^#define MISTAKE 0/static int MISTAKE;/' $T/body.c && cc -w -O2 -shared -fPIC -o "
                   "$T/body.so $T/body.c -lm") != 0,
            "%s: its body does not compile", name);
}

// Is what is said of the mistake (0: none) as expected, `texts`? It ends in a moment; where it does not, a busy machine
// has more time.
static bool is_explained_within(const sm_exercise *exercise, int mistake, const char *texts, double timeout_s,
                                char said[SAID_SIZE]) {
    const sm_exercise_options options = {.timeout_s = timeout_s, .without_times = true};
    SM_AT_END(sm_exercise_report_free) sm_exercise_report report = {0};
    const char *file = temp_path("body.so");
    assert_int_equal(setenv("MISTAKE", textf("%d", mistake), 1), 0);
    FAIL_IF(sm_exercise_check(exercise->kind, &file, 1, &options, &report) != SM_OK, "%s: %s",
            sm_op_name(exercise->kind), sm_error_message());
    snprintf(said, SAID_SIZE, "%s\n%s\n%s\n", report.wrong, report.where, report.why);
    return report.right == (mistake == 0) && (mistake == 0 || has_one_of(said, texts));
}

static bool is_explained(const sm_exercise *exercise, int mistake, const char *texts) {
    char said[SAID_SIZE];
    if (is_explained_within(exercise, mistake, texts, 2, said) ||
        is_explained_within(exercise, mistake, texts, 30, said)) {
        return true;
    }
    print_error("%s, mistake %d: \"%s\" is not said, but: %s", sm_op_name(exercise->kind), mistake, texts, said);
    return false;
}

// Returns how many checks went wrong.
static int check_exercise(const sm_exercise *exercise) {
    const char *name = sm_op_name(exercise->kind);
    const char *body = file_text(textf("tests/exercises/%s.inc", name));
    compile_body(name, body);
    int n_failed = 0, mistake = 0;
    for (const char *says = "right"; mistake <= MAX_MISTAKES && says != NULL; says = expectation_of(body, mistake)) {
        n_failed += !is_explained(exercise, mistake++, says);
    }
    assert_true(mistake > LEAST_MISTAKES);
    return n_failed;
}

TEST(every_exercise_is_checked_and_explained) {
    int n_failed = 0;
    for (int i = 0; i < sm_exercise_count(); i++) {
        n_failed += check_exercise(sm_exercise_at(i));
    }
    assert_int_equal(n_failed, 0);
}

#ifdef SM_OPENCL
// One work-item does all that a body of both languages has to do.
static void write_for_one_item(const char *name, const char *body, int mistake) {
    write_in("cl", "mine.cl", name, textf("    if (i > 0) {\n        return;\n    }\n%s", body), mistake);
    shell("sed -i 's/_items \"[^\"]*\"/_items \"1 by 1\"/' $T/mine.cl");
}

static int check_in_opencl(const char *name, bool is_parallel, int most) {
    const char *body = file_text(textf("tests/exercises/%s%s.inc", is_parallel ? "cl/" : "", name));
    const char *expected = "right";
    int n_failed = 0, mistake = 0;
    do {
        if (is_parallel) {
            write_in("cl", "mine.cl", name, body, mistake);
        } else {
            write_for_one_item(name, body, mistake);
        }
        const int code = run(textf("exercise %s --check $T/mine.cl --no-peaks --timeout 60", name));
        if (code != (mistake > 0) || !has_one_of(out, expected)) {
            print_error("%s, mistake %d: \"%s\" is not said, but: %s%s", name, mistake, expected, out, err);
            n_failed++;
        }
        mistake++;
    } while (mistake <= most && (expected = expectation_of(body, mistake)) != NULL);
    assert_true(mistake > most);
    return n_failed;
}

// A driver takes half a second to compile each: the mistakes of one body and what is right of all, under a sanitizer of
// that one alone; the rest is for the long tests.
TEST(exercises_in_opencl_are_checked_and_explained) {
    const bool all = runs_all();
    const int n_right = all ? sm_exercise_count() : 0; // a device that is a processor compiles each for seconds
    static const char *const parallel[] = {"gelu_forward", "matmul_forward", "layernorm_forward"};
    int n_failed = 0;
    for (size_t i = 0; i < sizeof(parallel) / sizeof(parallel[0]); i++) {
        n_failed += check_in_opencl(parallel[i], true, all || i == 0 ? LEAST_MISTAKES : 0);
    }
    for (int i = 0; i < n_right; i++) {
        n_failed += check_in_opencl(sm_op_name(sm_exercise_at(i)->kind), false, all ? LEAST_MISTAKES : 0);
    }
    assert_int_equal(n_failed, 0);
}

TEST(harm_in_opencl_stays_where_it_is) {
    static const struct {
        const char *body, *says;
    } cases[] = {
        {"while (i < n) { y[i] = x[i]; }", "did not end within 2 s"},
        {"y[i * 100000000 + 100000000] = 1;", "it crashed|past the end"},
        {"y[i] = missing;", "do not build"},
        {"", "is not written at all"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_in("cl", "harm.cl", "gelu_forward", cases[i].body, 0);
        FAIL_IF(run(textf("exercise gelu_forward --check $T/harm.cl --no-peaks --timeout %d", i == 0 ? 2 : 60)) != 1 ||
                    !has_one_of(out, cases[i].says),
                "%s: it does not say \"%s\"\n%s%s", cases[i].body, cases[i].says, out, err);
    }
}

#if defined(__x86_64__)
// What a processor's driver compiles could make system calls: they are refused.
TEST(system_calls_in_opencl_are_refused) {
    char name[16 * COMMAND_SIZE] = "";
    static char body[TEXT_SIZE];
    SKIP_IF(run("devices") != 0 || strstr(out, "pthread") == NULL); // a driver of another kind
    for (const char *at = temp_folder; *at != '\0'; at++) {
        snprintf(name + strlen(name), sizeof(name) - strlen(name), "%d, ", *at);
    }
    snprintf(
        body, sizeof(body),
        "char file[] = {%s '/', 'h', 0};\n"
        "#define CALL(n, a, b, c) __asm__ volatile(\"syscall\" : \"=a\"(r) : \"0\"((long)n), \"D\"((long)a), "
        "\"S\"((long)b), \"d\"((long)c) : \"rcx\", \"r11\", \"memory\")\n"
        "long r, parent;\n"
        "if (i == 0) { CALL(110, 0, 0, 0); parent = r; CALL(62, parent, 9, 0); CALL(234, parent, parent, 9); CALL(2, "
        "file, 0x41, 0644); if (r >= 0) { return; } CALL(41, 2, 1, 0); if (r >= 0) { return; } }\n"
        "if (i < n) { const float u = x[i]; y[i] = u / 2 * (1 + tanh(0.7978845608f * (u + 0.044715f * u * u * u))); }",
        name);
    write_in("cl", "calls.cl", "gelu_forward", body, 0);
    expect_exit("exercise gelu_forward --check $T/calls.cl --no-peaks --timeout 60", 0);
    assert_int_not_equal(access(temp_path("h"), F_OK), 0);
}
#endif

// A driver's caches during a check are the check's own: what is left there would be loaded by whatever runs next.
TEST(a_check_in_opencl_leaves_no_cache) {
    write_in(
        "cl", "kept.cl", "gelu_forward",
        "if (i < n) { const float u = x[i]; y[i] = u / 2 * (1 + tanh(0.7978845608f * (u + 0.044715f * u * u * u))); }",
        0);
    shell("mkdir -p $T/home $T/left && (unset XDG_CACHE_HOME POCL_CACHE_DIR CUDA_CACHE_PATH; export HOME=$T/home "
          "TMPDIR=$T/left; " SM_TEST_BINARY
          " exercise gelu_forward --check $T/kept.cl --no-peaks --timeout 60 >$T/out 2>$T/err)");
    shell("test -z \"$(find $T/home $T/left -type f)$(ls $T/left)\"");
}

// The example of docs/adding.md, in the real step.
TEST(kernels_in_opencl_run_in_the_step) {
    const char *first = strstr(file_text("docs/adding.md"), "#define gelu_forward_signature");
    assert_non_null(first);
    temp_put("gelu.cl", first, (size_t)(strstr(first, "```") - first));
    shell("sed 's/\"cl 1 n x y\"/\"cl 1 n y x\"/' $T/gelu.cl >$T/other.cl");
    shell("sed 's/n \\/ 4 by 64/n ^ 4/' $T/gelu.cl >$T/items.cl");
    CHECK_ALL(
        {"exercise gelu_forward --check $T/gelu.cl --timeout 60", 0, "opencl backend", NULL},
        {"verify --backend opencl --filter '^gelu_forward' --kernel gelu_forward=$T/gelu.cl", 0, "0 failed",
         "of your own"},
        {"train -m tiny -b 1 --seq-len 8 --steps 1 --mode naive --backend opencl --kernel gelu_forward=$T/gelu.cl", 0,
         "step 1", NULL},
        {"run -m tiny -b 1 --seq-len 8 -r 3 --no-peaks --mode naive --backend opencl --kernel gelu_forward=$T/gelu.cl "
         "-o json",
         0, "\"own_kernels\": \"gelu_forward=", NULL},
        {"verify --backend cpu --filter '^gelu_forward' --kernel gelu_forward=$T/gelu.cl", 1, NULL,
         "the file is OpenCL C"},
        {"verify --backend opencl --filter '^gelu_forward' --kernel gelu_forward=$T/other.cl", 1, NULL,
         "was written for the parameters"},
        {"verify --backend opencl --filter '^gelu_forward' --kernel gelu_forward=$T/items.cl", 1, NULL,
         "is no number of work-items"},
        {"exercise gelu_forward --check $T/gelu.cl --backend opencl:9.9", 1, "there is no OpenCL device", NULL});
}
#endif

// What it begins with compiles, and is told that it writes nothing.
TEST(an_empty_body_is_no_solution) {
    for (int i = 0; i < sm_exercise_count(); i += 3) {
        const char *name = sm_op_name(sm_exercise_at(i)->kind);
        assert_int_equal(check(name, "", ""), 1);
        assert_non_null(strstr(out, "is not written at all"));
    }
}

// The loss of a token that does not count is 0: to leave it out of the sum, too, is right.
TEST(another_form_is_right) {
    static const char body[] = "float sum = 0;\n"
                               "int64_t n_counted = 0;\n"
                               "for (int64_t n = 0; n < N; n++) {\n"
                               "    if (target[n] != -1) {\n"
                               "        sum += losses[n];\n"
                               "        n_counted++;\n"
                               "    }\n"
                               "}\n"
                               "loss[0] = n_counted > 0 ? sum / (float)n_counted : 0;\n";
    assert_int_equal(check("loss_mean", body, ""), 0);
}

// Kernels that do harm do it to themselves.
TEST(harm_stays_where_it_is) {
    static const struct {
        const char *body, *says;
    } cases[] = {
        {"for (;;) { y[0] = x[0]; }", "did not end within 1 s"},
        {"*(volatile int *)16 = 1;", "a pointer is NULL"},
        {"y[n + 100] = 1;", "it goes past the end of y"},
        {"y[-50000000] = 1;", "far out of range|before the beginning"},
        {"y[n] = 1;", "past the end of y (n): indices run from 0 to 63"},
        {"((float *)x)[0] = 1;", "it writes to x, which is an input"},
        {"extern int fork(void); for (;;) { fork(); }", "asked the operating system for fork"},
        {"extern int system(const char *); system(\"touch $T/harm\");", "asked the operating system for"},
        {"extern void *fopen(const char *, const char *); extern char *getenv(const char *); char p[512]; extern int "
         "sprintf(char *, const char *, ...); sprintf(p, \"%s/harm\", getenv(\"T\")); fopen(p, \"w\");",
         "open, to write"},
        {"extern int kill(int, int); kill(-1, 9);", "asked the operating system for kill"},
        {"extern int socket(int, int, int); socket(2, 1, 0);", "asked the operating system for socket"},
        {"extern void exit(int); exit(0);", "it ended the process"},
        {"extern void abort(void); abort();", "abort"},
        {"extern void *malloc(unsigned long); for (;;) { char *p = malloc(1 << 24); for (int i = 0; i < 1 << 24; i += "
         "4096) { p[i] = 1; } }",
         "it crashed|did not end"},
        {"volatile int zero = 0; y[0] = (float)(7 / zero);", "a whole number is divided by 0"},
        {"extern int printf(const char *, ...); for (;;) { printf(\"more and more\\n\"); }", "more than 64 KiB"},
        {"char stack[1 << 26]; for (int i = 0; i < 1 << 26; i += 64) { stack[i] = 1; } y[0] = stack[(int)x[0]];",
         "the stack is full"},
        {"y[0] = missing;", "cannot compile it"},
    };
    // exit() under AddressSanitizer looks for leaks, by a call that kernels may not make.
    setenv("ASAN_OPTIONS", "detect_leaks=0:intercept_tls_get_addr=0", 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int code = check("gelu_forward", cases[i].body, "--timeout 1");
        if (code == 1 && strstr(out, "did not end") != NULL && strstr(cases[i].says, "did not end") == NULL) {
            code = check("gelu_forward", cases[i].body, "--timeout 30"); // the machine is busy
        }
        FAIL_IF(code != 1 || !has_one_of(out, cases[i].says), "%s: exit code %d, and it does not say \"%s\"\n%s%s",
                cases[i].body, code, cases[i].says, out, err);
    }
    // The equation's b, which an exercise's cases leave out.
    assert_int_equal(check("matmul_forward", "y[0] = b[0] + x[0];", "--timeout 30"), 1);
    expect_text("b", out, "a pointer is NULL: b");
    char harm[COMMAND_SIZE];
    snprintf(harm, sizeof(harm), "%s/harm", temp_folder);
    assert_int_not_equal(access(harm, F_OK), 0);
}

static const char gelu[] = "for (int64_t i = 0; i < n; i++) { y[i] = x[i] / 2 * (1 + tanhf(0.79788456f * (x[i] + "
                           "0.044715f * x[i] * x[i] * x[i]))); }";

// Ways in which a kernel could seem right, or fast, without doing its work.
TEST(cheats_are_found) {
    static const struct {
        const char *name, *body, *says;
    } cases[] = {
        // It looks for the right result in its own memory: there is none before it has ended.
        {"gelu_forward",
         "extern int open(const char *, int); extern long read(int, void *, unsigned long); extern int sscanf(const "
         "char *, const char *, ...); extern char *strchr(const char *, int); extern void *memcpy(void *, const void "
         "*, unsigned long);\n"
         "static char maps[1 << 16]; int fd = open(\"/proc/self/maps\", 0); long k; unsigned long got = 0, a, b; char "
         "p[5];\n"
         "while ((k = read(fd, maps + got, sizeof maps - 1 - got)) > 0) { got += k; }\n"
         "for (char *l = maps; l != (char *)0 && *l != 0; l = strchr(l, '\\n') ? strchr(l, '\\n') + 1 : (char *)0) {\n"
         "if (sscanf(l, \"%lx-%lx %4s\", &a, &b, p) != 3 || p[0] != 'r' || p[1] != 'w' || b - a > 1ul << 28) { "
         "continue; }\n"
         "for (const float *e = (const float *)a; (unsigned long)(e + n) <= b; e += 4) { int64_t i = 0;\n"
         "for (; i < n && i < 6; i++) { const float want = x[i] / 2 * (1 + tanhf(0.79788456f * (x[i] + 0.044715f * "
         "x[i] * x[i] * x[i]))); if (!(fabsf(e[i] - want) <= 1e-5f * (1 + fabsf(want)))) { break; } }\n"
         "if (i == (n < 6 ? n : 6) && e != y) { memcpy(y, e, n * 4); return; } } }\n",
         "it was not written"},
        // It is right as long as it is checked.
        {"gelu_forward",
         "static int calls; if (n > 9999 && ++calls > 1) { return; } for (int64_t i = 0; i < n; i++) { y[i] = x[i] / 2 "
         "* (1 + tanhf(0.79788456f * (x[i] + 0.044715f * x[i] * x[i] * x[i]))); }",
         "right when it is checked and wrong when it is timed: in "},
        // It gives again what it had computed from operands at the same address.
        {"matmul_backward_weight",
         "static float kept[1 << 20]; static const float *of; if (of == x) { __builtin_memcpy(dW, kept, C * F * 4); "
         "return; }\n"
         "for (int64_t c = 0; c < C; c++) { for (int64_t f = 0; f < F; f++) { double sum = 0; for (int64_t n = 0; n < "
         "N; n++) { sum += (double)x[n * C + c] * dy[n * F + f]; } dW[w_transposed ? f * C + c : c * F + f] += sum; } "
         "}\n"
         "of = x; __builtin_memcpy(kept, dW, C * F * 4);",
         "right when it is checked and wrong when it is timed: in "},
    };
    setenv("ASAN_OPTIONS", "detect_leaks=0:intercept_tls_get_addr=0", 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_kernel("cheat.c", cases[i].name, cases[i].body);
        const char *arguments = textf("exercise %s --check $T/cheat.c --timeout 60", cases[i].name);
        expect_exit(arguments, 1);
        expect_text(arguments, out, cases[i].says);
        assert_null(strstr(out, "of the ceiling"));
    }
}

// The compiler has the check's limits, and so has what a kernel prints and reads.
TEST(a_compiler_is_limited_too) {
    shell("mkdir -p $T/temporary; rm -f $T/pipe; mkfifo $T/pipe; printf '#if __INCLUDE_LEVEL__ < 60\n#include "
          "__FILE__\n#include __FILE__\n#endif\n' >$T/bomb.c; printf '#include \"pipe\"\n' >$T/waits.c; printf 'char "
          "huge[1UL << 31] = {1};\n' >$T/large.c; i=0; while test $i -lt 2000; do echo \"#error a line of many $i\"; "
          "i=$((i+1)); done >$T/wordy.c");
    const char *before = set_variable("TMPDIR", temp_path("temporary"));
    CHECK_ALL(
        {"exercise gelu_forward --check $T/bomb.c --timeout 2", 1, "did not end within 2 s", NULL},
        {"exercise gelu_forward --check $T/waits.c --timeout 2", 1, "did not end within 2 s", NULL},
        {"exercise gelu_forward --check $T/large.c --timeout 60", 1, "cannot compile it", NULL},
        {"exercise gelu_forward --check $T/wordy.c --timeout 60", 1, "    ...", NULL},
        {"run -m tiny -b 1 --seq-len 8 --backend cpu --mode naive -r 1 --kernel gelu_forward=$T/bomb.c --timeout 2", 1,
         "timeout", "did not end within 2 s"});
    if (os_file_access_is_limited()) {
        shell("printf '#include \"/etc/passwd\"\n' >$T/reads.c");
        expect_run("exercise gelu_forward --check $T/reads.c --timeout 60", 1, "/etc/passwd: Permission denied", NULL);
    }
    shell("test -z \"$(ls $T/temporary)\"");
    set_variable("TMPDIR", before);
}

// Nor does it see its caller's input and files, or reach its terminal.
TEST(a_kernel_is_cut_off) {
    static const char body[] =
        "extern int open(const char *, int); extern long read(int, void *, unsigned long); extern int printf(const "
        "char *, ...);\n"
        "char text[80] = \"\"; long k = read(0, text, 79); printf(\"input of %ld bytes\\033]0;title\\007\\n\", k); "
        "printf(\"file %d\\n\", open(\"/etc/passwd\", 0) >= 0); y[0] = 0;";
    write_kernel("reads.c", "gelu_forward", body);
    shell("echo of the caller | " SM_TEST_BINARY
          " exercise gelu_forward --check $T/reads.c --timeout 60 >$T/out 2>&1; test $? = 1");
    read_file("out", out);
    expect_text("a kernel that reads", out, "input of 0 bytes\\u001b]0;title\\u0007");
    expect_text("a kernel that reads", out, os_file_access_is_limited() ? "file 0" : "file ");
}

TEST(times_stand_beside_ours) {
    write_kernel("mine.c", "gelu_forward", gelu);
    CHECK_ALL({"exercise gelu_forward --check $T/mine.c --no-peaks -o json", 0, "\"right\": true", NULL},
              {"exercise gelu_forward --check $T/mine.c", 0, "% of the ceiling  yours", NULL});
    expect_text("exercise", out, "the ceiling, measured");
}

// The line with the mistake is named; a right kernel names the next exercise; hints come one after the other.
TEST(a_check_says_where_to_look_and_what_is_next) {
    write_kernel("look.c", "residual", "    for (int64_t i = 0; i < n; i++) {\n    y[i] = a[i] + a[i];\n    }\n");
    CHECK_ALL({"exercise residual --check $T/look.c --no-peaks", 1,
               ": y[i] = a[i] + a[i];\nhint:  stepmark exercise residual --hint 1", NULL},
              {"exercise residual --hint 1", 0, "more: stepmark exercise residual --hint 2", NULL},
              {"exercise residual --hint 3", 0, "3. y[i] = a[i] + b[i].", NULL},
              {"exercise residual --hint 4", 2, NULL, "from 1 to 3"},
              {"exercise residual --hint 1 --check $T/look.c", 2, NULL, "give one of"});
    write_kernel("look.c", "residual", "    for (int64_t i = 0; i < n; i++) { y[i] = a[i] + b[i]; }\n");
    expect_run("exercise residual --check $T/look.c --no-peaks", 0,
               "next:  stepmark exercise crossentropy_forward --init ", NULL);
}

// A student's folder, and a class of two: one has a right file, the other one that wants to harm, and a link.
TEST(folders_are_checked) {
    FAIL_IF(system("mkdir -p $T/class/ann $T/class/bob && ln -s $T/class/ann/residual.c $T/class/bob/gelu_forward.c") !=
                0,
            "no folders");
    write_kernel("class/ann/residual.c", "residual", "    for (int64_t i = 0; i < n; i++) { y[i] = a[i] + b[i]; }\n");
    write_kernel("class/bob/residual.c", "residual", "    extern int unlink(const char *);\n    unlink(\"victim\");\n");
    CHECK_ALL({"exercise --progress $T/class/ann", 0, "1 of 18 right. Next: stepmark exercise loss_mean --init ", NULL},
              {"exercise --progress $T/class/bob -o csv", 0, "residual,08-residual.md,wrong,", NULL},
              {"judge $T/class --no-peaks -o csv", 1, "bob/residual.c,", "1 of 2 wrong"},
              {"judge $T/class --no-peaks -o jsonl", 1, "ann/residual.c\", \"right\": true", NULL},
              {"exercise residual --progress $T/class", 2, NULL, "stands alone"},
              {"exercise --progress $T/nobody", 1, NULL, "nobody: No such file"});
}

TEST(bad_input_is_refused) {
    CHECK_ALL({"exercise", 0, "layernorm_backward", NULL}, {"exercise -o json", 0, "03-layernorm.md", NULL},
              {"exercise layernorm_backwards --init $T", 2, NULL, "did you mean layernorm_backward?"},
              {"exercise gelu_forward", 2, NULL, "give one of --init DIR"},
              {"exercise gelu_forward --init $T/a --check $T/b", 2, NULL, "--init DIR"},
              {"exercise --check $T/b", 2, NULL, "name one"},
              {"exercise gelu_forward --check $T/missing.c", 1, NULL, "missing.c"},
              {"exercise gelu_forward --check README.md", 2, NULL, "README.md"},
              {"exercise residual --init $T && build/none || true", 0, NULL, NULL},
              {"exercise residual --init $T", 1, NULL, "your work stays"},
              {"exercise gelu_forward --check $T/residual.c", 1, "has no gelu_forward", NULL});
}

// A file that could not be written whole is not taken for somebody's work.
TEST(a_full_disk_leaves_no_file) {
    limit_files(1000);
    const int code = run("exercise residual --init $T/full");
    limit_files(RLIM_INFINITY);
    assert_int_equal(code, 1);
    expect_text("--init", err, "full/residual.c: cannot be written: File too large");
    expect_exit("exercise residual --init $T/full", 0);
}

TEST(a_compiler_that_is_not_there_is_named) {
    const char *before = set_variable("CC", "/none/cc");
    CHECK_ALL({"exercise gelu_forward --init $T/compiled", 0, NULL, NULL},
              {"exercise gelu_forward --check $T/compiled/gelu_forward.c", 1, NULL,
               "the compiler '/none/cc' cannot be started; install it, or name another in CC"});
    set_variable("CC", before);
}

// The signature names the members: a file for other arguments is refused, in a check and in a step.
TEST(other_arguments_are_refused) {
    write_kernel("other.c", "gelu_forward", gelu);
    shell("sed -i 's/= \"1 n x y/= \"1 n y x/' $T/other.c");
    CHECK_ALL({"exercise gelu_forward --check $T/other.c", 1, "made for other arguments", NULL},
              {"train -m tiny --steps 1 --kernel gelu_forward=$T/other.c", 1, NULL, "made for other arguments"});
}

// --- in the real step --------------------------------------------------------------------------------

TEST(own_kernels_run_in_the_step) {
    write_kernel("mine.c", "gelu_forward", gelu);
    CHECK_ALL(
        {"train -m tiny --steps 2 --mode naive --kernel gelu_forward=$T/mine.c", 0, "step", "kernels of your own"},
        {"verify --backend cpu --filter gelu_forward --kernel gelu_forward=$T/mine.c", 0, "0 failed", "of your own"},
        {"profile -m tiny -b 1 --seq-len 8 -t 1 -r 1 --mode naive --kernel gelu_forward=$T/mine.c", 0,
         "gelu_forward=", NULL},
        {"run -m tiny -b 1 --seq-len 8 -r 3 --no-peaks --mode naive --backend cpu --kernel gelu_forward=$T/mine.c", 0,
         "gelu_forward=", NULL},
        {"run -m tiny -b 1 --seq-len 8 -r 3 --no-peaks --mode naive --backend cpu --kernel gelu_forward=$T/mine.c -o "
         "json",
         0, "\"own_kernels\": \"gelu_forward=", NULL},
        {"run -m tiny -b 1 --seq-len 8 --backend reference --kernel gelu_forward=$T/mine.c", 1, "skipped",
         "no kernels of your own"},
        {"train -m tiny --precision bf16 --mode naive --kernel gelu_forward=$T/mine.c", 1, NULL, "compute in fp32"},
        {"train -m tiny --kernel gelu=$T/mine.c", 2, NULL, "--kernel: no op 'gelu'"},
        {"train -m tiny --kernel gelu_forward", 2, NULL, "OP=FILE"},
        {"train -m tiny --kernel gelu_forward=$T/mine.c,gelu_forward=$T/mine.c", 2, NULL, "given twice"},
        {"train -m tiny --kernel gelu_forward=$T/missing.c", 1, NULL, "missing.c"});
}

// A wrong kernel shows: verify says which op, and run refuses to print a speed.
TEST(a_wrong_kernel_has_no_speed) {
    write_kernel("wrong.c", "gelu_forward", "for (int64_t i = 0; i < n; i++) { y[i] = x[i] * 1.7f; }");
    CHECK_ALL(
        {"verify --backend cpu --filter gelu_forward --kernel gelu_forward=$T/wrong.c", 1, "failed", "gelu_forward"},
        {"run -m tiny -b 2 --seq-len 32 -r 3 --no-peaks --mode naive --backend cpu --kernel gelu_forward=$T/wrong.c", 1,
         "error", NULL});
}

// One that is right, and not to the bit each time, is told so.
TEST(equal_bits_are_asked_for) {
    write_kernel("bits.c", "gelu_forward",
                 "static int n_calls; n_calls++; for (int64_t i = 0; i < n; i++) { const float u = x[i]; y[i] = u / 2 "
                 "* (1 + tanhf(0.79788456f * (u + 0.044715f * u * u * u))); union { float f; int32_t i; } bits = "
                 "{y[i]}; bits.i += n_calls % 2; y[i] = bits.f; }");
    expect_exit("run -m tiny -b 2 --seq-len 32 -t 1 -r 5 --no-peaks --no-phases --mode naive --n-layer 1 --backend cpu "
                "--kernel gelu_forward=$T/bits.c -o jsonl",
                1);
    expect_text("run", out, "differs in the last bit between calls: step ");
}

// Rows with a kernel of one's own and rows without are not the same configuration.
TEST(rows_are_told_apart) {
    static const char run_it[] = "run -m tiny -b 1 --seq-len 8 -r 5 --no-peaks --mode naive --backend cpu -t 1 -o json";
    write_kernel("mine.c", "gelu_forward", gelu);
    expect_exit(textf("%s >$T/ours.json", run_it), 0);
    expect_exit(textf("%s --kernel gelu_forward=$T/mine.c >$T/mine.json", run_it), 0);
    run("compare $T/ours.json $T/mine.json");
    assert_non_null(strstr(out, "gelu_forward="));
    expect_exit("report $T/ours.json $T/mine.json --bundle $T/both.bundle", 0);
    expect_exit("report --rank $T/both.bundle --no-reference -o md", 0);
    const bool all_are_there = strstr(err, "left out") == NULL; // as not on a busy machine
    FAIL_IF(all_are_there && (strstr(out, "| own code ") == NULL || strstr(out, "own code gelu_forward") != NULL),
            "own code has no column, or is said of all rows: %s", out);
}

// The example of docs/adding.md is right, shares its work among threads, and runs in the step.
TEST(the_documented_kernel_works) {
    const char *first = strstr(file_text("docs/adding.md"), "```c\n");
    assert_non_null(first);
    temp_put("gelu.c", first + 5, (size_t)(strstr(first + 5, "```") - first - 5));
    CHECK_ALL({"exercise gelu_forward --check $T/gelu.c --no-peaks", 0, "right", NULL},
              {"verify --backend cpu -t 2 --mode naive --filter 'gelu_forward|step' --kernel gelu_forward=$T/gelu.c", 0,
               "0 failed", NULL});
}
