// What a training checks of its own steps, and how it says so.
#include "tests/support/run_program.h"
#include "bench/tables/show.h"

#define TRAIN "train -m tiny -t 1 -b 2 --seq-len 16 --backend cpu "

// gelu_forward, right only in its first calls.
static const char late[] =
    "#include <math.h>\n#include <stdint.h>\n"
    "typedef struct { int64_t n; const float *x; float *y; int64_t thread, n_threads; } gelu_forward_args;\n"
    "const char gelu_forward_signature[] = \"1 n x y thread n_threads\";\n"
    "void gelu_forward(const gelu_forward_args *a) {\n"
    "    static int n_calls;\n"
    "    for (int64_t i = 0; i < a->n && n_calls < 4; i++) {\n"
    "        const float x = a->x[i];\n"
    "        a->y[i] = x / 2 * (1 + tanhf(0.7978845608F * (x + 0.044715F * x * x * x)));\n"
    "    }\n"
    "    n_calls++;\n"
    "}\n";

static double number_of(const char *name, const char *field) {
    read_file(name, out);
    json_auto_t *metrics = parse_json(out);
    return sm_json_number(metrics, field);
}

TEST(a_training_says_what_it_checked) {
    CHECK_ALL({TRAIN "--steps 6 --run $T/R", 0, "tok/s\n", "operations of 1 step computed again, and right"},
              {"train -m tiny -b 4 --seq-len 32 --backend reference --precision bf16 --steps 25", 0, "tok/s\n", ""},
              {"report --check $T/R", 0, "computation checked", ""},
              {"report $T/R -o md", 0, "operations checked", ""});
    assert_null(strstr(out, "unchecked"));
    read_file("R/log.jsonl", out);
    const char *checked = strstr(out, "checked_ops");
    assert_true(checked != NULL && strchr(checked, '\n')[1] == '{'); // in the last step's line; an epoch's follows
    assert_true(number_of("R/training_metrics.json", "summary.checked_steps") == 1);
    assert_true(number_of("R/training_metrics.json", "summary.checked_ops") > 10);
}

// Runs that computed otherwise are not called comparable.
TEST(runs_are_compared_by_how_they_computed) {
    expect_exit(TRAIN "--steps 2 --run $T/P", 0);
    expect_exit(TRAIN "--steps 2 --run $T/P1 --without residual_layernorm --attention naive", 0);
    expect_run("report --check $T/P $T/P1 -o jsonl", 1, "training_config.without is", NULL);
    assert_non_null(strstr(out, "training_config.attention is"));
}

TEST(an_unchecked_one_says_so) {
    CHECK_ALL({TRAIN "--steps 6 --run $T/U --no-checks", 0, "tok/s unchecked\n", "a second with all pauses; unchecked"},
              {"report --check $T/U", 0, "computation unchecked", ""}, {"report $T/U -o md", 0, " unchecked |", ""});
    assert_true(number_of("U/training_metrics.json", "summary.checked_ops") == 0);
}

TEST(what_computes_nothing_ends_the_training) {
    temp_put_text("late.c", late);
    expect_exit(TRAIN "--steps 6 --mode naive --kernel gelu_forward=$T/late.c --run $T/L", 1);
    expect_text("train", err, "step 6: wrong result: y of gelu_forward");
    expect_exit("report --check $T/L", 1);
}
