// test_wall.c: own kernels (--kernel) that want a speed which they did not earn, and cannot have it: those in C run in
// a process that has copies of operands, and neither the clock, the row, the seed nor the checks. CHEATS=20 tries each
// twenty times, HONEST=200 the honest ones; DEVICE=opencl:0.0 names where those in OpenCL C run.
#include "tests/support/run_program.h"

// AddressSanitizer's handler of signals makes system calls of its own.
#ifdef __SANITIZE_ADDRESS__
#define CRASHED         "own code made a system call"
#define CRASHED_BACKEND "own code "
#else
#define CRASHED_BACKEND "own code crashed: signal 11"
#define CRASHED         "own code crashed: signal 11"
#endif

// The products of a linear layer: plain loops, of which PART(k) terms are computed, with a hook at each call.
static const char products[] =
    "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
    "#include <time.h>\n"
    "typedef struct { int64_t N, C, F, w_transposed; const float *x, *W, *b; float *y, *act; int64_t thread, "
    "n_threads; } matmul_forward_args;\n"
    "typedef struct { int64_t N, F, C, w_transposed; const float *dy, *W, *pre; float *dx; int64_t thread, n_threads; "
    "} matmul_backward_input_args;\n"
    "const char matmul_forward_signature[] = \"1 N C F w_transposed x W b y act thread n_threads\";\n"
    "const char matmul_backward_input_signature[] = \"1 N F C w_transposed dy W pre dx thread n_threads\";\n"
    "static int64_t n_calls;\n"
    "#include \"cheat.h\"\n"
    "void matmul_forward(const matmul_forward_args *a) {\n"
    "    n_calls++; BEGIN(a->x, a->N, a->C);\n"
    "    for (int64_t n = 0; n < ROWS(a->N); n++) for (int64_t f = 0; f < a->F; f++) {\n"
    "        double s = a->b ? a->b[f] : 0;\n"
    "        for (int64_t c = 0; c < PART(a->C); c++)\n"
    "            s += a->x[n * a->C + c] * a->W[a->w_transposed ? f * a->C + c : c * a->F + f];\n"
    "        a->y[n * a->F + f] = s; }\n"
    "    END(a->y, a->N, a->F); }\n"
    "void matmul_backward_input(const matmul_backward_input_args *a) {\n"
    "    n_calls++; BEGIN(a->dy, a->N, a->F);\n"
    "    for (int64_t n = 0; n < ROWS(a->N); n++) for (int64_t c = 0; c < a->C; c++) {\n"
    "        double s = 0;\n"
    "        for (int64_t f = 0; f < PART(a->F); f++)\n"
    "            s += a->dy[n * a->F + f] * a->W[a->w_transposed ? f * a->C + c : c * a->F + f];\n"
    "        a->dx[n * a->C + c] = s; }\n"
    "    END(a->dx, a->N, a->C); }\n";

#define NO_HOOKS "#define END(y, n, c)\n#define PART(k) (k)\n"

// The beginning of the shared memory.
#define SHARED                                                                                                         \
    "static void *shared(void) { static void *p; char line[512]; FILE *f = p ? 0 : fopen(\"/proc/self/maps\", \"r\");" \
    "while (f && fgets(line, 512, f)) if (strstr(line, \"rw-s\")) p = (void *)strtoul(line, 0, 16);"                   \
    "if (f) fclose(f); return p; }\n"

typedef struct {
    const char *name, *hooks;
    const char *says; // NULL: honest
} cheat;

// Each from a step on that was not checked before it, or always.
static const cheat cheats[] = {
    {"honest", NO_HOOKS "#define BEGIN(x, n, c)\n#define ROWS(n) (n)\n", NULL},
    {"positions: erases its input after 32 rows, and computes the rest",
     NO_HOOKS "#define ROWS(n) ((n) < 32 ? (n) : 32)\n"
              "#define BEGIN(x, n, c) memset((float *)(uintptr_t)(x) + ROWS(n) * (c), 0, ((n) - ROWS(n)) * (c) * 4)\n",
     "wrong "},
    {"erases: from a step on, seven eighths of the rows",
     "#define PART(k) (k)\n#define ROWS(n) (n_calls > 60 ? (n) / 8 : (n))\n"
     "#define BEGIN(x, n, c) memset((float *)(uintptr_t)(x) + ROWS(n) * (c), 0, ((n) - ROWS(n)) * (c) * 4)\n"
     "#define END(y, n, c) memset((y) + ROWS(n) * (c), 0, ((n) - ROWS(n)) * (c) * 4)\n",
     "wrong "},
    {"rounds: an input to 17 bits",
     "static void round_all(float *v, int64_t n) { for (int64_t i = 0; i < n; i++) { union { float f; unsigned u; } a "
     "= {v[i]}; a.u = (a.u + 64) & ~127u; v[i] = a.f; } }\n" NO_HOOKS
     "#define ROWS(n) (n)\n#define BEGIN(x, n, c) round_all((float *)(uintptr_t)(x), (n) * (c))\n",
     "wrong "},
    {"late: computes nothing after a while",
     NO_HOOKS "#define BEGIN(x, n, c)\n#define ROWS(n) (n_calls > 60 ? 0 : (n))\n", "wrong "},
    {"by lot: computes nothing in four of five steps after a while",
     NO_HOOKS
     "#define BEGIN(x, n, c)\n"
     "#define ROWS(n) (n_calls > 80 && (uint64_t)(n_calls / 10) * 0x9E3779B97F4A7C15 >> 40 < 13421772 ? 0 : (n))\n",
     "wrong "},
    {"forger: writes a row to every descriptor when it is loaded",
     "#include <unistd.h>\n__attribute__((constructor)) static void go(void) { for (int fd = 3; fd < 30; fd++) "
     "dprintf(fd, \"{\\\"row\\\": {}}\\n\"); _exit(0); }\n" NO_HOOKS "#define BEGIN(x, n, c)\n#define ROWS(n) (n)\n",
     "own code ended its process, with exit code 0"},
    {"threads: starts one of its own",
     "#include <pthread.h>\nstatic void *work(void *x) { for (;;) { } return x; }\nstatic void start(void) { pthread_t "
     "t; if (n_calls == 50) pthread_create(&t, NULL, work, NULL); }\n" NO_HOOKS
     "#define BEGIN(x, n, c) start()\n#define ROWS(n) (n)\n",
     "made a system call that a kernel does not need"},
    {"signal: stops the process that started it",
     "#include <signal.h>\n#include <unistd.h>\n" NO_HOOKS
     "#define BEGIN(x, n, c) (n_calls == 50 ? kill(getppid(), SIGSTOP) : 0)\n#define ROWS(n) (n)\n",
     "made a system call that a kernel does not need"},
    {"prints what looks like a row",
     NO_HOOKS
     "#define BEGIN(x, n, c) (n_calls == 50 ? puts(\"{\\\"median_ts\\\": 987654321}\") : 0)\n#define ROWS(n) (n)\n",
     NULL},
    {"takes its operands away once it has computed",
     NO_HOOKS SHARED "#include <sys/mman.h>\n#define BEGIN(x, n, c) do { if (n_calls == 50) munmap(shared(), 1 << 16); "
                     "} while (0)\n#define ROWS(n) (n)\n",
     CRASHED},
    {"looks at the process that started it",
     NO_HOOKS "#define BEGIN(x, n, c) do { char p[64]; int pid = 0; FILE *f = fopen(\"/proc/self/stat\", \"r\");\\\n"
              "if (f && fscanf(f, \"%*d %*s %*c %d\", &pid) == 1) { fclose(f); sprintf(p, \"/proc/%d/maps\", pid);\\\n"
              "if (fopen(p, \"r\")) abort(); } } while (0)\n#define ROWS(n) (n)\n",
     NULL},
    {"crash",
     NO_HOOKS "#define BEGIN(x, n, c) do { if (n_calls == 50) *(volatile int *)8 = 1; } while (0)\n"
              "#define ROWS(n) (n)\n",
     CRASHED},
};

static void compile(const char *hooks) {
    temp_put_text("cheat.c", products);
    temp_put_text("cheat.h", hooks);
    shell("cc -O3 -shared -fPIC -pthread -w -o $T/cheat.so $T/cheat.c -lm");
}

static const char both_products[] = "matmul_forward=$T/cheat.so,matmul_backward_input=$T/cheat.so";

static int n_tries(const cheat *c) {
    const char *text = getenv(c->says == NULL ? "HONEST" : "CHEATS");
    return text != NULL ? atoi(text) : 1;
}

static void try_cheat(const cheat *c, const char *backend, const char *kernels, const char *arguments, int seed) {
    const int code = run(textf("run -m tiny --n-layer 1 -b 2 --seq-len 64 --mode naive -w 2 -r 12 --no-peaks "
                               "--no-phases --backend %s --timeout 120 --kernel %s --seed %d -q -o jsonl %s",
                               backend, kernels, seed, arguments));
    FAIL_IF(c->says == NULL && (code != 0 || strstr(out, "987654321") != NULL), "%s, seed %d: refused: %s%s", c->name,
            seed, out, err);
    FAIL_IF(c->says != NULL && (code == 0 || (strstr(out, c->says) == NULL && strstr(err, c->says) == NULL)),
            "%s, seed %d: exit code %d, and not \"%s\": %s%s", c->name, seed, code, c->says, out, err);
}

TEST(no_cheat_has_a_speed) {
    for (size_t i = 0; i < sizeof(cheats) / sizeof(cheats[0]); i++) {
        compile(cheats[i].hooks);
        for (int k = 0; k < n_tries(&cheats[i]); k++) {
            try_cheat(&cheats[i], "cpu", both_products, "-t 1", 1 + k);
        }
    }
}

// What a kernel does not need, the system ends it for.
TEST(no_cheat_calls_the_system) {
    char calls[] =
        "ptrace process_vm_readv process_vm_writev perf_event_open socket execve clone ftruncate memfd_create "
        "prctl getppid setitimer sched_setaffinity setpriority pidfd_open shmget";
    char *rest = calls;
    for (char *call; (call = strsep(&rest, " ")) != NULL;) {
        char hooks[COMMAND_SIZE];
        const cheat c = {call, hooks, "made a system call that a kernel does not need"};
        snprintf(
            hooks, sizeof(hooks),
            "#include <sys/syscall.h>\n#include <unistd.h>\n" NO_HOOKS
            "#define BEGIN(x, n, c) (n_calls == 30 ? syscall(SYS_%s, 0, 0, 0, 0, 0, 0) : 0)\n#define ROWS(n) (n)\n",
            call);
        compile(hooks);
        try_cheat(&c, "cpu", both_products, "-t 1", 1);
    }
}

// The row has what a call costs, and who chose the checks' seed; own code with a chosen one is not ranked.
TEST(rows_say_how_own_code_ran) {
    compile(cheats[0].hooks);
    try_cheat(&cheats[0], "cpu", both_products, "-t 2 --check-seed 7", 1);
    assert_non_null(strstr(out, "\"check_seed_chosen\": true"));
    assert_null(strstr(out, "\"own_call_ns\": null"));
    assert_null(strstr(out, "--check-seed="));
    shell("cp $T/out $T/row.jsonl");
    expect_exit("report $T/row.jsonl --bundle $T/row.bundle", 0);
    run("report --rank $T/row.bundle --no-reference");
    expect_text("report", err, "own code with a chosen --check-seed: not ranked");
}

// A work-item computes a row, after its BEGIN, with TERM(v) of each operand.
static const char rows_of_a_product[] =
    "#define matmul_forward_signature \"cl 1 N C F w_transposed x W b y act\"\n"
    "#define matmul_forward_items \"N by 1\"\n"
    "float to_bits(float v, int n) { return as_float((as_uint(v) + (1u << (23 - n))) & ~((1u << (24 - n)) - 1)); }\n"
    "kernel void matmul_forward(const long N, const long C, const long F, const long w_transposed, global const float "
    "*x, const ulong x_at, global const float *W, const ulong W_at, global const float *b, const ulong b_at, global "
    "float *y, const ulong y_at, global float *act, const ulong act_at) {\n"
    "    const long n = get_global_id(0);\n"
    "    if (n >= N) return;\n"
    "    x += x_at + n * C; W += W_at; y += y_at + n * F;\n"
    "    BEGIN\n"
    "    for (long f = 0; f < F; f++) {\n"
    "        float s = 0;\n"
    "        for (long c = 0; c < C; c++) s += TERM(x[c]) * TERM(W[w_transposed ? f * C + c : c * F + f]);\n"
    "        y[f] = s; } }\n";

static const cheat device_cheats[] = {
    {"honest", "#define TERM(v) v\n#define BEGIN\n", NULL},
    {"rounds operands to 14 bits", "#define TERM(v) to_bits(v, 14)\n#define BEGIN\n", "wrong "},
    {"rounds operands to 14 bits, in place",
     "#define TERM(v) v\n#define BEGIN for (long c = 0; c < C; c++) ((global float *)x)[c] = to_bits(x[c], 14);\n",
     "wrong "},
    {"positions: erases its input after 32 rows",
     "#define TERM(v) v\n#define BEGIN if (n >= 32) { for (long c = 0; c < C; c++) ((global float *)x)[c] = 0; for "
     "(long f = 0; f < F; f++) y[f] = 0; return; }\n",
     "wrong "},
    {"leaves out a row of eight", "#define TERM(v) v\n#define BEGIN if (n % 8 == 5) return;\n", "wrong "},
    {"remembers: computes only where its output is empty",
     "#define TERM(v) v\n#define BEGIN if (y[0] != 0 && fabs(y[0]) < 100 && y[F - 1] != 0) return;\n", "wrong "},
    {"leaves out the smallest terms", "#define TERM(v) (fabs(v) < 0.001f ? 0 : v)\n#define BEGIN\n", "wrong "},
};

TEST(no_cheat_on_a_device_has_a_speed) {
    const char *device = getenv("DEVICE");
    SKIP_IF(run("devices") != 0 || strstr(out, "opencl:") == NULL);
    for (size_t i = 0; i < sizeof(device_cheats) / sizeof(device_cheats[0]); i++) {
        temp_put_text("cheat.cl", textf("%s%s", device_cheats[i].hooks, rows_of_a_product));
        for (int k = 0; k < n_tries(&device_cheats[i]); k++) {
            try_cheat(&device_cheats[i], device != NULL ? device : "opencl", "matmul_forward=$T/cheat.cl", "", 1 + k);
        }
    }
}

// The cpu backend, with the tricks that the variable SHAM names, and 10 ms of work in each call that computes.
static const char sham[] =
    "#define _GNU_SOURCE\n#include \"backend_library.h\"\n#include <signal.h>\n#include <stdio.h>\n#include "
    "<stdlib.h>\n"
    "#include <string.h>\n#include <time.h>\n#include <unistd.h>\n"
    "static sm_backend own; static const sm_backend *base; static sm_executable *kept; static sm_range later[999]; "
    "static int n;\n"
    "static int is(const char *word) { return strstr(getenv(\"SHAM\"), word) != NULL; }\n"
    "static sm_status work(sm_executable *e, sm_range r) {\n"
    "    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL); return base->execute(e, r, NULL); }\n"
    "static sm_status flush(void) {\n"
    "    const int k = n; n = 0; for (int i = 0; i < k; i++) SM_TRY(work(kept, later[i])); return SM_OK; }\n"
    "static int steps, reads, widest;\n"
    "static sm_status execute(sm_executable *e, sm_range r, int64_t *ns) {\n"
    "    const int is_whole = r.end - r.first >= widest, has_reads = reads > 8; reads = 0;\n"
    "    if (is_whole) widest = r.end - r.first;\n"
    "    if (is_whole && is(\"skips\") && ++steps > 6 && !has_reads) return SM_OK;\n"
    "    if (ns) ns[r.first] += 1;\n"
    "    for (int s = r.first; is(\"demand\") && s < r.end; s++) {\n"
    "        if (e->plan->ops[s].phase == SM_PHASE_BACKWARD) { later[n++] = (sm_range){r.first, s}; r.first = s; "
    "break; } }\n"
    "    if (is(\"lazy\")) { kept = e; later[n++] = r; return SM_OK; }\n"
    "    if (is(\"crash\")) raise(SIGSEGV), *(volatile int *)8 = 1;\n"
    "    return work(e, r); }\n"
    "static sm_status synchronize(sm_executable *e) { return is(\"lazy\") ? SM_OK : base->synchronize(e); }\n"
    "static sm_status upload(sm_executable *e, int t, int64_t o, int64_t k, const void *d) {\n"
    "    SM_TRY(flush()); return base->upload(e, t, o, k, d); }\n"
    "static sm_status download(sm_executable *e, int t, int64_t o, int64_t k, void *d) {\n"
    "    const int all = n; n = 0; reads++;\n"
    "    while (is(\"demand\") && t == e->plan->loss && n < all && e->plan->ops[later[n].first].phase < 2) n++;\n"
    "    const int done = n = n > 0 ? n : all; SM_TRY(flush());\n"
    "    memmove(later, later + done, (all - done) * sizeof *later); n = all - done;\n"
    "    return base->download(e, t, o, k, d); }\n"
    "static sm_status keep(sm_executable *e, sm_weights_action a) { SM_TRY(flush()); return base->keep_weights(e, a); "
    "}\n"
    "static sm_status peaks(sm_device *d, sm_precision p, double s, sm_peaks *to) {\n"
    "    *to = (sm_peaks){.flops = 1, .bandwidth_bytes_per_s = 1}; return SM_OK; }\n"
    "static sm_status open_it(int i, const sm_open_options *o, sm_device **d) {\n"
    "    char path[64]; snprintf(path, 64, \"/proc/%d/mem\", (int)getppid());\n"
    "    if (is(\"looks\") && (fopen(path, \"r+\") || fopen(path, \"r\") || kill(getppid(), SIGSTOP) == 0)) _exit(9);\n"
    "    SM_TRY(base->open(i, o, d)); (*d)->backend = &own; strcpy((*d)->info.own_kernels, \"none\");\n"
    "    (*d)->info.n_warnings = 1 << 30; memset((*d)->info.name, 'x', 99999 % sizeof (*d)->info.name); return SM_OK; "
    "}\n"
    "static const sm_backend *get(void) {\n"
    "    base = sm_backend_find(\"cpu\"); own = *base; own.name = \"sham\"; own.execute = execute; own.synchronize = "
    "synchronize;\n"
    "    own.upload = upload; own.download = download; own.keep_weights = is(\"bare\") ? NULL : keep; own.open = "
    "open_it; own.measure_peaks = peaks;\n"
    "    for (int fd = 3; is(\"forger\") && fd < 30; fd++) dprintf(fd, \"{\\\"row\\\": {}}\\n\");\n"
    "    if (is(\"forger\")) _exit(0);\n"
    "    return &own; }\n"
    "const sm_backend_library stepmark_backend_library = SM_BACKEND_LIBRARY(get);\n";

// What it says of times, ceilings, its name and its mark is in no row, and its work is in every time.
TEST(no_backend_has_a_speed_that_it_did_not_earn) {
    static const struct {
        const char *name, *flags, *says;
        double least_ns;
    } cases[] = {
        {"honest", "-r 3", "\"own_kernels\": \"own backend ", 10e6},
        {"lazy", "-r 3", "\"own_kernels\": \"own backend ", 10e6},
        {"lazy, computes on demand", "-r 3", "\"own_kernels\": \"own backend ", 20e6},
        {"liar", "-r 1 --pass-type separate", "\"device\": \"sham\"", 100e6},
        {"lazy liar", "-r 1 --pass-type separate", "\"device\": \"sham\"", 100e6},
        {"looks at the judge", "-r 1", "\"peak_flops\": null", 10e6},
        {"bare", "-r 3", "repeated, with identical bits", 10e6},
        {"bare, skips what no reads precede", "-r 12", "wrong ", 0},
        {"crash", "-r 1", CRASHED_BACKEND, 0},
        {"forger", "-r 1", "own code ended its process, with exit code 0", 0},
    };
    temp_put_text("sham.c", sham);
    shell("cc -O1 -shared -fPIC -w -Iinclude -o $T/sham.so $T/sham.c");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *command = textf("run -m tiny --n-layer 1 -b 1 --seq-len 8 --mode naive -w 1 -t 1 --no-phases "
                                    "--timeout 120 %s -q -o jsonl --backend sham --backend-library $T/sham.so",
                                    cases[i].flags);
        assert_int_equal(setenv("SHAM", cases[i].name, 1), 0);
        const int code = run(command);
        const char *median = strstr(out, "\"median_ns\": ");
        FAIL_IF((code == 0) != (cases[i].least_ns > 0) ||
                    (strstr(out, cases[i].says) == NULL && strstr(err, cases[i].says) == NULL),
                "%s: exit code %d: %s%s", cases[i].name, code, out, err);
        FAIL_IF(code == 0 && !(median != NULL && strtod(median + strlen("\"median_ns\": "), NULL) >= cases[i].least_ns),
                "%s: %s", cases[i].name, out);
    }
}
