// test_judge.c: `stepmark judge`: kernels that want a time which they did not earn, by the names of the kinds that were
// published about judges of kernels, and have none; and what is said of the others.
#include <sys/syscall.h>

#include "src/plan/own_process.h"
#include "tests/support/run_program.h"

static const char head[] =
    "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
    "#include <time.h>\n#include <unistd.h>\n"
    "typedef struct { int64_t n; const float *x; float *y; int64_t thread, n_threads; } gelu_forward_args;\n"
    "const char gelu_forward_signature[] = \"1 n x y thread n_threads\";\n"
    "static int64_t n_calls;\n"
    "static void work(const float *x, float *y, int64_t n) {\n"
    "    for (int64_t i = 0; i < n; i++) { const float v = x[i];\n"
    "        y[i] = 0.5f * v * (1 + tanhf(0.7978845608f * (v + 0.044715f * v * v * v))); } }\n";

#define KERNEL(body)                                                                                   \
    "void gelu_forward(const gelu_forward_args *a) { const int64_t n = a->n; const float *x = a->x;\n" \
    "    float *y = a->y; const int is_large = n > 9999; n_calls += is_large; (void)is_large;\n" body "}\n"

typedef struct {
    const char *name, *text;
    const char *says; // NULL: right, and no faster than it is
} cheat;

#define CHECKED_ONLY "right when it is checked and wrong when it is timed"

static const cheat cheats[] = {
    {"honest", KERNEL("work(x, y, n);"), NULL},
    {"doing nothing", KERNEL(";"), "y is not written at all"},
    {"doing nothing after a first call", KERNEL("if (n_calls < 2) work(x, y, n);"), CHECKED_ONLY},
    {"caching by pointer",
     KERNEL("static const float *seen; if (is_large && seen == x) return; seen = x; work(x, y, n);"), CHECKED_ONLY},
    {"caching by a part of the content",
     KERNEL("static float seen; if (is_large && n_calls > 1 && seen != x[1]) { y[0] = 1; return; } seen = x[1]; "
            "work(x, y, n);"),
     CHECKED_ONLY},
    {"returning the same buffer",
     KERNEL("static float *kept; if (kept && is_large) { memcpy(y, kept, n * 4); return; } work(x, y, n);\n"
            "if (is_large) { kept = malloc(n * 4); memcpy(kept, y, n * 4); }"),
     CHECKED_ONLY},
    {"skipping by shape", KERNEL("work(x, y, is_large ? n / 2 : n);"), "y[35000] is "},
    {"skipping where nobody looks: the middle, in every call but the first",
     KERNEL("work(x, y, n); if (n_calls > 1) y[n / 2] = 0;"), CHECKED_ONLY},
    {"overflowing", KERNEL("work(x, y, n); for (int64_t i = 0; i < n; i++) y[i] += 0 * expf(x[i] * x[i] * x[i]);"),
     "case n=1000 mean=20: y[0] is "},
    {"tails that are left out",
     KERNEL("work(x, y, n); for (int64_t i = 0; i < n; i++) y[i] = x[i] < -3.5f ? 0 : y[i];"),
     "case n=1000 wide=8: y["},
    {"lower precision: bf16",
     KERNEL("work(x, y, n); for (int64_t i = 0; i < n; i++) { uint32_t u; memcpy(&u, y + i, 4); u = (u + 32768) & "
            "0xffff0000u; memcpy(y + i, &u, 4); }"),
     "wrong"},
    {"lower precision: tf32, when it is timed",
     KERNEL("work(x, y, n); for (int64_t i = 0; n_calls > 1 && i < n; i++) { uint32_t u; memcpy(&u, y + i, 4); u = (u "
            "+ 4096) & ~8191u; memcpy(y + i, &u, 4); }"),
     CHECKED_ONLY},
    {"modified inputs", KERNEL("memset((float *)(uintptr_t)x, 0, n * 4); memset(y, 0, n * 4);"), "it crashed"},
    {"modified inputs, when it is timed",
     KERNEL("if (n_calls > 1) { memset((float *)(uintptr_t)x, 0, n * 4); memset(y, 0, n * 4); } else work(x, y, n);"),
     CHECKED_ONLY},
    {"deferring to another thread",
     "#include <pthread.h>\nstatic gelu_forward_args job; static void *later(void *p) { work(job.x, job.y, job.n); "
     "return p; }\n" KERNEL(
         "if (n_calls < 2) { work(x, y, n); return; } job = *a; pthread_t t; pthread_create(&t, 0, later, 0);"),
     "made a system call that a kernel does not need"},
    {"deferring to another process", KERNEL("if (fork() == 0) { work(x, y, n); _exit(0); }"),
     "it asked the operating system"},
    {"deferring to an alarm", "#include <signal.h>\n" KERNEL("if (n_calls > 1) { alarm(1); return; } work(x, y, n);"),
     "made a system call that a kernel does not need"},
    {"reading the reference's output",
     KERNEL("char p[64]; snprintf(p, 64, \"/proc/%d/mem\", (int)getpid() - 1); FILE *f = fopen(p, \"r\"); if (f) { "
            "fseek(f, 1 << 20, 0); (void)!fread(y, 4, n, f); }"),
     "wrong"},
    {"ending the process when it is timed", KERNEL("work(x, y, n); if (n_calls > 1) _exit(0);"), "ended its process"},
    {"a loop without an end", KERNEL("for (volatile int i = 0;; i++) { }"), "did not end within"},
    {"a loop without an end, when it is timed", KERNEL("work(x, y, n); for (volatile int i = 0; n_calls > 1; i++) { }"),
     "did not end within"},
    {"a loop without an end, when it is loaded",
     "__attribute__((constructor)) static void begin(void) { for (volatile int i = 0;; i++) { } }\n" KERNEL(";"),
     "did not end within"},
    {"all memory",
     KERNEL("static char *p[1 << 14]; for (int i = 0; i < 1 << 14; i++) { p[i] = malloc(1 << 20); if (!p[i]) abort(); "
            "p[i][0] = 1; }"),
     "it asked the operating system for abort"},
};

static void write_kernel(const char *path, const char *text) { temp_put_text(path, textf("%s%s", head, text)); }

static double field(const char *row, const char *name) {
    const char *key = textf("\"%s\": ", name);
    const char *at = strstr(row, key);
    return at != NULL ? strtod(at + strlen(key), NULL) : -1;
}

TEST(no_cheat_is_right) {
    const char *tries = getenv("CHEATS");
    for (size_t i = 0; i < sizeof(cheats) / sizeof(cheats[0]); i++) {
        const cheat *c = &cheats[i];
        write_kernel("gelu_forward.c", c->text);
        for (int k = 0; k < (tries != NULL ? atoi(tries) : 1); k++) {
            const int code = run("judge $T/gelu_forward.c --timeout 4 -o jsonl");
            FAIL_IF(code != (c->says != NULL) || strstr(out, c->says != NULL ? c->says : "\"right\": true") == NULL,
                    "%s: exit code %d: %s%s", c->name, code, out, err);
        }
    }
}

// On a device: times in turns, by this process's clock, with inputs of their own.
TEST(kernels_in_opencl_are_judged) {
    static const struct {
        const char *body, *flags, *says;
    } cases[] = {
        {"const float u = x[x_at + i]; y[y_at + i] = u / 2 * (1 + tanh(0.7978845608f * (u + 0.044715f * u * u * u)));",
         "--timeout 300", "\"right\": true"},
        {"if (y[y_at + i] != -1024) { return; } const float u = x[x_at + i];y[y_at + i] = u / 2 * (1 + "
         "tanh(0.7978845608f * (u + 0.044715f * u * u * u)));",
         "--timeout 300", CHECKED_ONLY},
        {"for (y[y_at + i] = 1; y[y_at + i] != 2;) { }", "--timeout 3", "did not end within 3 s"},
    };
    SKIP_IF(run("devices") != 0 || strstr(out, "opencl:") == NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        temp_put_text(
            "gelu_forward.cl",
            textf("#define gelu_forward_signature \"cl 1 n x y\"\n#define gelu_forward_items \"n\"\n"
                  "kernel void gelu_forward(const long n, global const float *x, const ulong x_at, global float *y, "
                  "const ulong y_at) { const long i = get_global_id(0); if (i >= n) { return; } %s }\n",
                  cases[i].body));
        const int code = run(textf("judge $T/gelu_forward.cl -o jsonl %s", cases[i].flags));
        FAIL_IF(code != (i > 0) || strstr(out, cases[i].says) == NULL, "%s: %s%s", cases[i].body, out, err);
        FAIL_IF(i == 0 && !(field(out, "ns_lo") > 0 && field(out, "speed_lo") > 0), "no interval: %s", out);
    }
}

#if defined(__x86_64__) && defined(__linux__)
// What a processor's driver compiles could find the memory that is shared with the judge, and answer before it has
// computed: here it sleeps after that, in each call that is timed.
TEST(no_answer_comes_too_early) {
    SKIP_IF(run("devices") != 0 || strstr(out, "pthread") == NULL);
    temp_put_text(
        "gelu_forward.cl",
        textf(
            "#define gelu_forward_signature \"cl 1 n x y\"\n#define gelu_forward_items \"n\"\n"
            "static long call(long number, long a, long b, long c) { long r; __asm__ volatile(\"syscall\" : \"=a\"(r) "
            ": \"a\"(number), \"D\"(a), \"S\"(b), \"d\"(c) : \"rcx\", \"r11\", \"memory\"); return r; }\n"
            "static ulong shared(void) { const char path[] = \"/proc/self/maps\"; char text[64], line[64]; int k = 0;\n"
            "    for (long n, fd = call(%d, (long)path, 0, 0); (n = call(%d, fd, (long)text, 64)) > 0;)\n"
            "        for (long i = 0; i < n; i++, k++) {\n"
            "            if (k < 64) line[k] = text[i];\n"
            "            if (text[i] != '\\n') continue;\n"
            "            ulong at = 0; int c = 0;\n"
            "            for (; line[c] != '-'; c++) at = at * 16 + line[c] - (line[c] > '9' ? 'a' - 10 : '0');\n"
            "            for (; line[c] != ' '; c++) { }\n"
            "            k = -1;\n"
            "            if (line[c + 2] == 'w' && line[c + 4] == 's') return at;\n"
            "        }\n"
            "    return 0; }\n"
            "kernel void gelu_forward(const long n, global const float *x, const ulong x_at, global float *y, const "
            "ulong y_at) {\n"
            "    const long i = get_global_id(0);\n"
            "    if (i == 0 && n > 9999) { const ulong s = shared() + %zu; const long time[2] = {0, 80000000};\n"
            "        if (s > %zu) *(volatile uint *)(s + %zu) = *(volatile uint *)s; call(%d, (long)time, 0, 0); }\n"
            "    if (i < n) { const float u = x[x_at + i];\n"
            "        y[y_at + i] = u / 2 * (1 + tanh(0.7978845608f * (u + 0.044715f * u * u * u))); } }\n",
            SYS_open, SYS_read, offsetof(sm_own_shared, boxes), offsetof(sm_own_shared, boxes),
            offsetof(sm_own_box, answered), SYS_nanosleep));
    expect_exit("judge $T/gelu_forward.cl -o jsonl --timeout 300", 0);
    FAIL_IF(!(field(out, "ns") > 40e6), "it took no time: %s", out);
}
#endif

// A case's inputs are drawn: no kernel can know its results.
TEST(cases_have_inputs_of_their_own) {
    char first[256];
    write_kernel("says.c", KERNEL("work(x, y, n); if (n < 99) printf(\"%a,\", x[0]);"));
    expect_exit("judge $T/says.c --kind gelu_forward --no-peaks -o jsonl", 0);
    snprintf(first, sizeof(first), "%s", strstr(out, "\"printed\""));
    expect_exit("judge $T/says.c --kind gelu_forward --no-peaks -o jsonl", 0);
    assert_non_null(strstr(first, "0x1"));
    assert_null(strstr(out, first));
}

// A kernel that tampers with its own clock, with its loop of calls, or works between calls, has the time that it took.
TEST(no_cheat_is_faster) {
    static const cheat shams[] = {
        {"patching the clock",
         "int clock_gettime(clockid_t id, struct timespec *t) { (void)id; t->tv_sec = t->tv_nsec = 0; return 0; "
         "}\n" KERNEL("work(x, y, n);"),
         NULL},
        {"working between calls: it answers later, and watches its inputs meanwhile",
         KERNEL("for (int i = 0; is_large && i < 8; i++) { work(x, y, n); } work(x, y, n);"), NULL},
    };
    write_kernel("honest.c", KERNEL("work(x, y, n);"));
    for (size_t i = 0; i < sizeof(shams) / sizeof(shams[0]); i++) {
        write_kernel("sham.c", shams[i].text);
        expect_exit("judge $T/sham.c --kind gelu_forward --against $T/honest.c --timeout 60 -o jsonl", 0);
        FAIL_IF(!(field(out, "against") < 2), "%s: %s", shams[i].name, out);
    }
}

TEST(judge_says_what_it_does_not_take) {
    write_kernel("honest.c", KERNEL("work(x, y, n);"));
    write_kernel("idle.c", KERNEL(";"));
    CHECK_ALL(
        {"judge", 2, NULL, "name files such as gelu_forward.c"},
        {"judge $T/nobody.c", 1, NULL, "nobody.c: No such file"},
        {"judge $T/honest.c", 2, NULL, "which op is it? Give --kind OP"},
        {"judge $T/honest.c --kind gelu", 2, NULL, "there is no op gelu"},
        {"judge $T/honest.c --against $T/honest.c", 2, NULL, "needs --kind OP"},
        {"judge $T/honest.c --kind gelu_forward --against $T/idle.c", 2, NULL, "idle.c: is wrong: "},
        {"judge $T/honest.c --kind gelu_forward --no-peaks", 0, "right: gelu_forward, 9 of 9 cases", NULL},
        {"judge $T/honest.c $T/idle.c --kind gelu_forward --no-peaks --page $T/class.html", 1, "no", "1 of 2 wrong"});
    shell("grep -q judged.js $T/class.html && grep -q idle.c $T/class.html");
}
