// Rows of ops by themselves: work and traffic by hand, memory, cold runs; what does not fit or fails is a row.
#include "tests/support/run_program.h"
#include "bench/compare/compare.h"
#include "src/verify/op_cases.h"

#define SMALL "-m tiny -b 2 --seq-len 32 -r 2 -w 0 --no-peaks "
#define QUICK SMALL "-q "

// The rows of a command line; the caller frees them.
static json_t *rows_of(const char *arguments, int code, size_t n_rows) {
    const char *all = textf("run %s -o json", arguments);
    expect_exit(all, code);
    json_t *rows = parse_json(out);
    FAIL_IF(json_array_size(rows) != n_rows, "stepmark %s: %zu rows, not %zu\n%s", all, json_array_size(rows), n_rows,
            err);
    return rows;
}

static double number(const json_t *row, const char *name) { return json_number_value(json_object_get(row, name)); }
static const char *text(const json_t *row, const char *name) { return json_string_value(json_object_get(row, name)); }

// --- by hand -----------------------------------------------------------------------------------------

// Tiny: C = 32, F = 128, V = 256, two heads of 16 channels, 35,712 parameters. N = 2 x 32 = 64 rows; a row attends to
// itself and those before it: 2 x 32 x 33 / 2 = 1056 pairs.
typedef struct {
    const char *op;
    double flops;
    double floats; // read and written, 4 bytes each
    double bytes;  // others
} known;

static const double n = 35712, pairs = 1056, settings = 17 + 1; // hyper and clip

TEST(work_and_traffic_are_those_worked_out_by_hand) {
    const known rows[] = {
        {"matmul_forward", 2.0 * 64 * 32 * 128, 64 * 32 + 32 * 128 + 64 * 128, 0},
        {"matmul_backward_input", 2.0 * 64 * 32 * 128, 64 * 128 + 32 * 128 + 64 * 32, 0},
        {"matmul_backward_weight", 2.0 * 64 * 32 * 128, 64 * 32 + 64 * 128 + 32 * 128, 0},
        {"matmul", 6.0 * 64 * 32 * 128, 3 * (64 * 32 + 32 * 128 + 64 * 128), 0},
        {"gelu_forward", 9 * 64 * 128, 2 * 64 * 128, 0},
        {"gelu", 27 * 64 * 128, 5 * 64 * 128, 0},
        {"relu2_backward", 3 * 64 * 128, 3 * 64 * 128, 0},
        {"layernorm_forward", 8 * 64 * 32, 2 * 64 * 32 + 2 * 32 + 2 * 64, 0},
        {"layernorm_backward", 14 * 64 * 32, 3 * 64 * 32 + 32 + 2 * 64 + 2 * 2 * 32, 0},
        {"rmsnorm_forward", 4 * 64 * 32, 2 * 64 * 32 + 32 + 64, 0},
        {"attention_forward", pairs * (4 * 32 + 5 * 2), 64 * 96 + 64 * 32 + 2 * 2 * 32 * 32, 0},
        {"attention_backward", pairs * (8 * 32 + 5 * 2), 64 * 32 + 64 * 96 + 2 * 2 * 32 * 32 + 64 * 96, 0},
        {"flash_attention_forward", pairs * (4 * 32 + 5 * 2), 64 * 96 + 64 * 32 + 64 * 2, 0},
        {"flash_attention_backward", pairs * (8 * 32 + 5 * 2), 2 * 64 * 32 + 2 * 64 * 96 + 64 * 2, 0},
        {"flash_attention", pairs * (12 * 32 + 10 * 2), 3 * 64 * 96 + 3 * 64 * 32 + 2 * 64 * 2, 0},
        {"swiglu_forward", 5 * 64 * 128, 3 * 64 * 128, 0},
        {"residual", 64 * 32, 3 * 64 * 32, 0},
        {"bias_forward", 64 * 32, 2 * 64 * 32 + 32, 0},
        {"bias_backward", 64 * 32, 64 * 32 + 2 * 32, 0},
        {"dropout", 2 * 64 * 32, 2 * 64 * 32 + 2, 0},
        {"crossentropy_forward", 4 * 64 * 256, 64 * 256 + 3 * 64, 0},
        {"embedding_forward", 64 * 32, 64 + 2 * 64 * 32, 0},
        {"grad_sqnorm", 2 * n, n + 1, 0},
        {"adamw", 16 * n, 7 * n + settings, 0},
        {"lion", 11 * n, 5 * n + settings, 0},
        {"sgd", 7 * n, 5 * n + settings, 0},
        {"adamw8bit", 24 * n, 3 * n + 4 * 140 + settings, 4 * n}, // 140 blocks of 256 codes
    };
    enum { N = sizeof(rows) / sizeof(rows[0]) };
    char arguments[COMMAND_SIZE] = QUICK "--backend cpu --op ";
    for (int i = 0; i < N; i++) {
        snprintf(arguments + strlen(arguments), sizeof(arguments) - strlen(arguments), "%s%s", i > 0 ? "," : "",
                 rows[i].op);
    }
    json_auto_t *made = rows_of(arguments, 0, N);
    for (int i = 0; i < N; i++) {
        const json_t *row = json_array_get(made, (size_t)i);
        assert_string_equal(text(row, "op"), rows[i].op);
        assert_string_equal(text(row, "status"), "ok");
        FAIL_IF(number(row, "flops") != rows[i].flops || number(row, "bytes") != 4 * rows[i].floats + rows[i].bytes,
                "%s: %.0f FLOPs and %.0f bytes, not %.0f and %.0f", rows[i].op, number(row, "flops"),
                number(row, "bytes"), rows[i].flops, 4 * rows[i].floats + rows[i].bytes);
        assert_true(number(row, "cold_ns") > 0 && number(row, "spot_error") <= 1);
        const double rate = number(row, "flops") * 1e9 / number(row, "median_ns");
        assert_true(fabs(number(row, "flops_per_s") - rate) <= 1e-9 * rate);
    }
}

// What the backward keeps of a forward: the whole square of weights, or one number for each row and head.
TEST(attention_keeps_the_square_or_a_number_for_each_row) {
    json_auto_t *rows = rows_of("--op attention --attention naive,flash " QUICK "--backend cpu", 0, 2);
    const json_t *naive = json_array_get(rows, 0);
    const json_t *flash = json_array_get(rows, 1);
    assert_string_equal(text(naive, "op"), "attention");
    assert_string_equal(text(flash, "op"), "flash_attention");
    assert_string_equal(text(naive, "pass_type"), "separate");
    assert_true(number(naive, "kept_bytes") == 4 * 2 * 2 * 32 * 32);
    assert_true(number(flash, "kept_bytes") == 4 * 64 * 2 + 4 * 64 * 32); // and its result
    assert_int_equal(json_array_size(json_object_get(naive, "samples_backward_ns")), 2);
}

TEST(a_narrow_format_halves_the_traffic) {
    json_auto_t *rows = rows_of("--op matmul_forward --shape 64x32x128 --precision fp32,bf16 -r 1 -w 0 --no-peaks -q "
                                "--backend cpu --mode naive",
                                0, 2);
    assert_true(number(json_array_get(rows, 0), "bytes") == 2 * number(json_array_get(rows, 1), "bytes"));
}

// --- what has no speed ---------------------------------------------------------------------------------

TEST(what_does_not_fit_says_by_how_much) {
    json_auto_t *rows =
        rows_of("--op attention -b 64 --seq-len 65536 --n-head 16 --head-dim 64 --backend cpu -q", 1, 1);
    const json_t *row = json_array_get(rows, 0);
    assert_string_equal(text(row, "status"), "oom");
    assert_non_null(strstr(text(row, "reason"), "needed by estimate"));
    assert_true(number(row, "estimated_bytes") > 4.0 * 64 * 16 * 65536 * 65536);
}

TEST(flags_that_do_not_fit_are_refused) {
    CHECK_ALL({"run --op gelu_forwart", 2, NULL, "gelu_forward"},
              {"run --op matmul --shape 64x64", 2, NULL, "matmul takes NxCxF, not '64x64'"},
              {"run --op matmul --shape 64x64x0", 2, NULL, "matmul takes NxCxF"},
              {"run --op adamw --pass-type backward -m tiny", 2, NULL, "adamw by itself has no backward"});
    json_auto_t *rows = rows_of("--op gelu,adamw --pass-type backward " QUICK "--backend cpu", 0, 2);
    assert_string_equal(text(json_array_get(rows, 0), "status"), "ok");
    assert_string_equal(text(json_array_get(rows, 1), "status"), "skipped");
}

// One's own kernel stands next to the backend's, and a wrong one has no speed.
TEST(own_kernels_are_measured_next_to_ours) {
    static const char gelu[] = "#include <math.h>\n"
                               "#include <stdint.h>\n"
                               "typedef struct { int64_t n; const float *x; float *y; int64_t thread; int64_t "
                               "n_threads; } gelu_forward_args;\n"
                               "const char gelu_forward_signature[] = \"1 n x y thread n_threads\";\n"
                               "void gelu_forward(const gelu_forward_args *a) {\n"
                               "    for (int64_t i = 0; i < a->n; i++) {\n"
                               "        const float x = a->x[i];\n"
                               "        a->y[i] = x / 2 * (1 + tanhf(%sF * (x + 0.044715F * x * x * x)));\n"
                               "    }\n"
                               "}\n";
    temp_put_text("right.c", textf(gelu, "0.7978845608"));
    temp_put_text("wrong.c", textf(gelu, "0.79"));
    json_auto_t *right = rows_of("--op gelu_forward --kernel gelu_forward=$T/right.c " QUICK "--backend cpu", 0, 2);
    assert_null(text(json_array_get(right, 0), "own_kernels"));
    assert_non_null(strstr(text(json_array_get(right, 1), "own_kernels"), "right.c"));
    assert_string_equal(text(json_array_get(right, 1), "status"), "ok");
    json_auto_t *wrong = rows_of("--op gelu_forward --kernel gelu_forward=$T/wrong.c " QUICK "--backend cpu", 1, 2);
    assert_string_equal(text(json_array_get(wrong, 1), "status"), "error");
    assert_true(json_is_null(json_object_get(json_array_get(wrong, 1), "median_ns")));
    assert_non_null(strstr(text(json_array_get(wrong, 1), "reason"), "wrong result: y of gelu_forward"));
}

// --- where flash overtakes --------------------------------------------------------------------------------

static void add_row(json_t *rows, const char *op, int HS, int T, double ms) {
    json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:i, s:f}", "op", op, "device", "cpu", "precision", "fp32",
                            "pass_type", "forward", "n_seq", T, "median_ns", 1e6 * ms);
    json_object_set_new(row, "shape", json_sprintf("B=8 T=%d NH=1 HS=%d C=%d", T, HS, HS));
    json_array_append_new(rows, row);
}

TEST(the_crossover_is_the_last_change_of_order) {
    static const double naive[] = {1, 4, 16, 64, 256}, flash[2][5] = {{2, 3, 17, 40, 100}, {2, 5, 17, 70, 300}};
    json_auto_t *rows = json_array();
    for (int i = 0; i < 5; i++) { // not in the order of lengths
        const int at = (2 * i + 1) % 5;
        for (int size = 0; size < 2; size++) {
            add_row(rows, "attention", 16 << size, 256 << at, naive[at]);
            add_row(rows, "flash_attention", 16 << size, 256 << at, flash[size][at]);
        }
    }
    add_row(rows, "flash_attention", 16, 256 << 5, 1); // naive did not fit
    json_auto_t *sentences = sm_crossover_sentences(rows);
    assert_int_equal(json_array_size(sentences), 2);
    assert_string_equal(json_string_value(json_array_get(sentences, 0)),
                        "cpu fp32 forward B=8 NH=1 HS=16: flash attention is faster from T=2048 on");
    assert_string_equal(json_string_value(json_array_get(sentences, 1)),
                        "cpu fp32 forward B=8 NH=1 HS=32: naive attention is faster up to T=4096");
}

// The shape's own B and T are those of the row, whatever -b says otherwise.
TEST(a_shape_says_batch_and_length) {
    json_auto_t *rows = rows_of(
        "--op flash_attention --shape 1x24x2x16 --pass-type forward -r 1 -w 0 --no-peaks -q --no-phases --backend cpu",
        0, 1);
    const json_t *row = json_array_get(rows, 0);
    assert_string_equal(text(row, "status"), "ok");
    assert_true(number(row, "n_batch") == 1 && number(row, "n_seq") == 24);
}

// With the row that decides, T would be 2048.
TEST(rows_without_a_verdict_find_no_crossover) {
    json_auto_t *rows = json_array();
    for (int i = 0; i < 3; i++) {
        add_row(rows, "attention", 16, 1024 << i, 10);
        add_row(rows, "flash_attention", 16, 1024 << i, i == 0 ? 20 : 5);
    }
    json_object_update_new(json_array_get(rows, 3), json_pack("{s:f, s:f}", "ci95_lo_ns", 4e6, "ci95_hi_ns", 2e7));
    json_auto_t *sentences = sm_crossover_sentences(rows);
    assert_int_equal(json_array_size(sentences), 2);
    assert_string_equal(json_string_value(json_array_get(sentences, 0)),
                        "cpu fp32 forward B=8 NH=1 HS=16: flash attention is faster from T=4096 on");
    assert_non_null(
        strstr(json_string_value(json_array_get(sentences, 1)), "No verdict on 1 of 6 rows of attention: too noisy"));
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_object_update_new(json_array_get(rows, i), json_pack("{s:f, s:f}", "ci95_lo_ns", 1e6, "ci95_hi_ns", 1e8));
    }
    json_auto_t *none = sm_crossover_sentences(rows);
    assert_int_equal(json_array_size(none), 1);
}

TEST(every_kind_can_be_measured_by_itself) {
    char arguments[2 * COMMAND_SIZE] = SMALL "--backend cpu --no-phases --op ";
    size_t n_kinds = 0;
    for (sm_op_kind kind = 0; kind < SM_OP_KIND_COUNT; kind++) {
        if (!sm_op_is_communication(kind) && !sm_op_case_is_fp8(kind, "")) {
            const size_t used = strlen(arguments);
            snprintf(arguments + used, sizeof(arguments) - used, "%s%s", n_kinds > 0 ? "," : "", sm_op_name(kind));
            n_kinds++;
        }
    }
    temp_put_text("kinds", arguments);
    json_auto_t *rows = run_json("run --file $T/kinds -q");
    assert_true(json_array_size(rows) == n_kinds);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        FAIL_IF(strcmp(text(row, "status"), "ok") != 0, "%s: %s", text(row, "op"), text(row, "reason"));
    }
}

// Every command of docs/course/measuring.md, in smaller sizes: without a launcher, exchanges say what they need.
TEST(the_commands_of_the_lesson_run) {
    static const char smaller[] =
        "sed -e ':a' -e '/\\\\$/N; s/\\\\\\n *//; ta' docs/course/measuring.md | sed -n -e 's/^    mpirun -n 2 "
        "stepmark run/    stepmark run -q/; s/ *#.*//; s/-m [a-z]*/-m tiny/; s/-b [0-9]*/-b 2/' -e 's/--seq-len [^ "
        "]*/--seq-len 32/; s/--shape [^ ]*/--shape 64x32x128/; s/--head-dim [^ ]*/--head-dim 16/' -e 's/--vocab "
        "10000/--vocab 256/; s/-w 5 -r 10//' -e 's/--preset cs336-2 /&-m tiny --vocab 256 --context 64 --d-model 32 "
        "--n-layer 2 --n-head 2 --d-ff 64 -b 2 --mode fused --precision fp32 --head-dim 16 --seq-len 32 /' -e 's/^    "
        "stepmark run .*/& -m tiny --backend cpu --no-peaks -q -w 1 -r 2/; s/^    stepmark //p' >$T/commands";
    int n_run = 0;
    shell(smaller);
    SM_FREED char *lines = temp_text("commands");
    char *rest = NULL;
    run_in = temp_folder;
    for (char *line = strtok_r(lines, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        const bool is_shared = strncmp(line, "run -q", 6) == 0;
        const int code = run_steady(line);
        const bool is_first_version = strstr(line, "--kernel") != NULL; // as exercise writes it, not yet right
        FAIL_IF(code != (is_shared ? 2 : is_first_version ? 1 : 0), "stepmark %s: exit code %d\n%s", line, code, err);
        assert_true(!is_shared || strstr(err, "needs several processes") != NULL);
        assert_true(!is_first_version || strstr(err, "wrong result") != NULL);
        n_run++;
    }
    run_in = ".";
    assert_true(n_run >= 16);
}
