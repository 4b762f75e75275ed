// The ladders: every rung is right, its source stands alone, a wrong one has no speed; and backends from libraries.
#include "tests/support/run_program.h"
#include "learn/ladder/ladder.h"

enum { TEXT_SIZE = 1 << 15 };

static const struct {
    const char *ladder, *shape;
} small[] = {{"matmul", "N=13,C=40,F=70"},
             {"layernorm", "N=9,C=100"},
             {"softmax", "N=5,vocab=300,Vp=320"},
             {"attention", "B=2,T=40,C=48,NH=3"}};
enum { N_SMALL = sizeof(small) / sizeof(small[0]) };

static void expect_all_right(const char *ladder, const char *shape, const char *backend) {
    const sm_rung *rungs[SM_MOST_RUNGS];
    const int n_rungs = sm_ladder_rungs(sm_ladder_find(ladder, backend), false, rungs);
    expect_exit(textf("ladder %s --backend %s --shape %s --no-peaks --min-time 0 -q -o jsonl", ladder, backend, shape),
                0);
    int n_right = 0;
    for (const char *at = out; (at = strstr(at, "\"wrong\": null")) != NULL; at++) {
        n_right++;
    }
    assert_int_equal(n_right, n_rungs + 1);
    assert_non_null(strstr(out, "\"rung\": \"in a step\""));
    assert_null(strstr(out, "\"ns\": null"));
}

TEST(every_rung_is_right) {
    for (int i = 0; i < N_SMALL; i++) {
        expect_all_right(small[i].ladder, small[i].shape, "cpu");
    }
}

#ifdef SM_OPENCL
TEST(every_rung_in_opencl_is_right) {
    for (int i = 0; i < N_SMALL; i++) {
        expect_all_right(small[i].ladder, small[i].shape, "opencl");
    }
}
#endif

// What --source prints is a solution of the exercise.
TEST(sources_stand_alone) {
    CHECK_ALL({"ladder matmul --source threads >$T/m.c", 0, NULL, NULL},
              {"exercise matmul_forward --check $T/m.c --no-peaks", 0, "right: matmul_forward", NULL},
              {"ladder attention --source blocked >$T/a.c", 0, NULL, NULL},
              {"exercise flash_attention_forward --check $T/a.c --no-peaks", 0, "right: flash", NULL});
}

// Without white space: the formatter has its own.
static char *squeezed(const char *text) {
    char *copy = sm_calloc(strlen(text) + 1, 1);
    for (char *to = copy; *text != '\0'; text++) {
        if (*text != ' ' && *text != '\n') {
            *to++ = *text;
        }
    }
    return copy;
}

// The rungs' headers are what `exercise` writes.
TEST(arguments_are_those_of_the_table) {
    for (int i = 0; i < N_SMALL; i++) {
        char name[64];
        SM_FREED char *text = NULL;
        size_t size_bytes = 0;
        const sm_ladder *ladder = sm_ladder_find(small[i].ladder, "cpu");
        FILE *file = open_memstream(&text, &size_bytes);
        assert_non_null(file);
        sm_own_kernel_header(ladder->kind, file);
        fclose(file);
        snprintf(name, sizeof(name), "args_%s.h", ladder->name);
        assert_non_null(sm_ladder_text(name));
        SM_FREED char *ours = squeezed(sm_ladder_text(name));
        SM_FREED char *expected = squeezed(text);
        assert_non_null(strstr(ours, expected));
    }
}

// --- a device that computes wrongly ------------------------------------------------------------------

static sm_backend off;

static sm_status open_off(int index, const sm_open_options *options, sm_device **device) {
    SM_TRY(sm_backend_find("cpu")->open(index, options, device));
    (*device)->backend = &off;
    return SM_OK;
}

static sm_status download_off(sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems,
                              void *data) {
    SM_TRY(sm_backend_find("cpu")->download(executable, tensor, offset_elems, n_elems, data));
    ((float *)data)[0] += 1;
    return SM_OK;
}

TEST(a_wrong_rung_has_no_speed) {
    off = *sm_backend_find("cpu");
    off.open = open_off;
    off.download = download_off;
    const sm_open_options how = {.n_threads = 1};
    const sm_ladder_options options = {
        .backend = &off, .how = &how, .shape = "N=4 C=32", .without_peaks = true, .max_elems = 1000};
    sm_ladder_result result;
    assert_int_equal(sm_ladder_measure(sm_ladder_find("layernorm", "cpu"), &options, &result), SM_OK);
    for (int i = 0; i < result.n_rungs; i++) {
        assert_int_not_equal(result.rungs[i].wrong[0], '\0');
        assert_int_equal(result.rungs[i].ns.n, 0);
    }
}

TEST(bad_input_is_refused) {
    CHECK_ALL({"ladder", 0, "reordered", NULL}, {"ladder mamtul", 2, NULL, "did you mean matmul?"},
              {"ladder matmul layernorm", 2, NULL, "give the name of one"},
              {"ladder matmul --backend reference", 2, NULL, "there are none"},
              {"ladder matmul --source blokced", 2, NULL, "did you mean blocked?"},
              {"ladder matmul --source shipped", 2, NULL, "backend's own kernel"},
              {"ladder matmul --shape N=0", 2, NULL, "--shape: 'N=0'"},
              {"ladder matmul --shape Q=4", 2, NULL, "--shape: 'Q=4'"},
              {"ladder matmul --shape N", 2, NULL, "--shape: 'N'"},
              {"ladder attention --shape NH=7", 2, NULL, "NH must divide C"},
              {"ladder softmax --shape vocab=400,Vp=320", 2, NULL, "vocab must not be above Vp"},
              {"ladder --schema", 0, "ceiling_share", NULL});
}

// --- a whole backend ---------------------------------------------------------------------------------

// The example of docs/adding.md, compiled as it says.
static void write_example(void) {
    const char *library = strstr(file_text("docs/adding.md"), "#include \"backend_library.h\"");
    assert_non_null(library);
    temp_put("traced.c", library, (size_t)(strstr(library, "```") - library));
    shell("cc -std=c11 -Wall -Wextra -Werror -O2 -shared -fPIC -Iinclude -o $T/traced.so $T/traced.c");
}

TEST(the_documented_backend_works) {
    write_example();
    assert_int_equal(system("sed 's/^const sm_backend_library .*/const sm_backend_library stepmark_backend_library = "
                            "{SM_BACKEND_VERSION + 1};/' $T/traced.c >$T/later.c && cc -w -shared -fPIC -Iinclude -o "
                            "$T/later.so $T/later.c"),
                     0);
    assert_int_equal(system("sed 's/^const sm_backend_library .*/const sm_backend_library stepmark_backend_library = "
                            "{SM_BACKEND_VERSION, 8};/' $T/traced.c >$T/other.c && cc -w -shared -fPIC -Iinclude -o "
                            "$T/other.so $T/other.c"),
                     0);
    CHECK_ALL(
        {"devices --backend-library $T/traced.so", 0, "traced", "a backend of your own"},
        {"verify --backend-library $T/traced.so --backend traced --filter '^gelu_forward'", 0, "0 failed",
         "gelu_forward"},
        {"run -m tiny -b 1 --seq-len 8 --mode naive --dry-run --backend-library $T/traced.so --backend traced", 0,
         "1 to run", NULL},
        {"train -m tiny -b 1 --seq-len 8 --steps 1 --mode naive --backend-library $T/traced.so --backend traced", 0,
         "step 1", "attention_forward"},
        {"run -m tiny -b 1 --seq-len 8 -r 3 --no-peaks --mode naive --backend-library $T/traced.so --backend traced -o "
         "json",
         0, "traced.so (fnv1a64:", NULL},
        {"run -m tiny -b 1 --seq-len 8 -r 1 -w 0 --no-peaks --no-phases --mode naive --backend-library $T/traced.so "
         "--backend traced -o jsonl >$T/row.jsonl; " SM_TEST_BINARY " compare $T/row.jsonl#1",
         1, NULL, "it runs code of its own, --backend-library"},
        {"compare $T/row.jsonl#1 --allow-own-code", 0, "verdict: reproduced", NULL},
        {"devices --backend-library $T/later.so", 1, NULL, "version 2 of the contract"},
        {"devices --backend-library $T/other.so", 1, NULL, "compiled against other headers"},
        {"devices --backend-library $T/missing.so", 1, NULL, "missing.so"},
        {"devices --backend-library README.md", 1, NULL, "cannot be loaded"});
}

// Noise is said once, of the worst kind; what is too noisy to use bears no factor.
TEST(noise_is_told) {
    static const sm_rung rung = {.name = "loops"};
    const sm_stats steady = {.n = 9, .median = 100, .mad = 1, .ci95_lo = 99, .ci95_hi = 101};
    const sm_stats noisy = {.n = 9, .median = 100, .mad = 20, .ci95_lo = 90, .ci95_hi = 112};
    const sm_stats useless = {.n = 9, .median = 100, .mad = 60, .ci95_lo = 40, .ci95_hi = 300};
    sm_ladder_result result = {.n_rungs = 2, .rungs = {{.rung = &rung, .ns = steady}, {.rung = &rung, .ns = steady}}};
    char text[SM_RUNG_TEXT] = "";
    assert_false(sm_ladder_noise(&result, text, sizeof(text)));
    result.rungs[0].ns = noisy;
    assert_true(sm_ladder_noise(&result, text, sizeof(text)) && strstr(text, "1 of 2 rungs: noisy: ") != NULL);
    assert_true(sm_rung_is_usable(&result.rungs[0]));
    result.step = (sm_rung_result){.rung = &rung, .ns = useless};
    assert_true(sm_ladder_noise(&result, text, sizeof(text)) && strstr(text, "1 of 3 rungs: too noisy to use") != NULL);
    assert_false(sm_rung_is_usable(&result.step));
    assert_false(sm_rung_is_usable(&(sm_rung_result){.rung = &rung}));
}
