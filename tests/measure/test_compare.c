// test_compare.c: verdicts on constructed rows: statistical tables, false and missed differences, matching, the program.
#include "tests/support/made_row.h"
#include "philox.h"
#include "tests/support/run_program.h"
#include "bench/compare/compare.h"

static uint64_t counter;

static double uniform(void) { return ((double)sm_philox4x32(7, counter++, 0).word[0] + 0.5) / 4294967296.0; }

// Timings have a floor, a body and a long foot to the right.
static double noise(double width) {
    double normal = sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
    double foot = uniform() < 0.05 ? 10 * width * uniform() : 0;
    return exp(width * normal + foot);
}

// --- the tests' tables ---------------------------------------------------------------------------

// By hand: of 2^5 signs, that all five differences are positive has p 2/32; of 2^8, 2/256.
TEST(signed_rank) {
    static const double a[] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const double b[] = {1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 1.08};
    sm_difference d = sm_compare_paired(a, b, 5, 0.05);
    assert_true(fabs(d.p_value - 2.0 / 32) < 1e-12 && !d.has_interval);
    d = sm_compare_paired(a, b, 8, 0.01);
    assert_true(fabs(d.p_value - 2.0 / 256) < 1e-12 && d.has_interval);
    assert_true(fabs(d.lo - log(1.01)) < 1e-12 && fabs(d.hi - log(1.08)) < 1e-12);
    // Its tabulated 5% point for n = 10 is a rank sum of 8: P(W <= 8) = 25/1024.
    static const double ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const double mixed[] = {1.01, 1.02, 1 / 1.03, 1.04, 1 / 1.05, 1.06, 1.07, 1.08, 1.09, 1.1};
    d = sm_compare_paired(ones, mixed, 10, 0.05);
    assert_true(fabs(d.p_value - 2 * 25.0 / 1024) < 1e-12);
    assert_true(d.has_interval && d.lo > 0);
    // The last rank of 5 alone is below zero: 10 of the 32 sums are at most 5.
    static const double last[] = {1.01, 1.02, 1.03, 1.04, 1 / 1.05};
    d = sm_compare_paired(ones, last, 5, 0.05);
    assert_true(fabs(d.p_value - 2 * 10.0 / 32) < 1e-12);
}

// By hand: of C(8, 4) = 70 orders one has all of a first. Tabulated 5% point of 5 and 5: U = 2.
TEST(rank_sum) {
    static const double a[] = {1, 2, 3, 4, 5};
    static const double b[] = {10, 20, 30, 40, 50};
    static const double c[] = {3.5, 20, 30, 40, 50}; // two of a above: U = 2
    static const double e[] = {2.5, 20, 30, 40, 50}; // three: U = 3
    sm_difference d = sm_compare_unpaired(a, 4, b, 4, 0.05);
    assert_true(fabs(d.p_value - 2.0 / 70) < 1e-12 && d.has_interval);
    d = sm_compare_unpaired(a, 5, c, 5, 0.05);
    assert_true(d.p_value <= 0.05 && d.lo > 0);
    d = sm_compare_unpaired(a, 5, e, 5, 0.05);
    assert_true(d.p_value > 0.05 && !(d.lo > 0));
    d = sm_compare_unpaired(a, 1, b, 1, 0.05);
    assert_true(!d.has_interval && d.p_value == 1 && fabs(d.estimate - log(10)) < 1e-12);
    d = sm_compare_unpaired(a, 0, b, 5, 0.05);
    assert_true(!d.has_interval && isnan(d.estimate) && isnan(d.p_value));
    assert_true(fabs(sm_normal_two_sided(0.05) - 1.959964) < 1e-5);
}

// The exact table and the normal curve meet where one takes over from the other.
TEST(large_samples) {
    double a[SM_COMPARE_EXACT + 1], b[SM_COMPARE_EXACT + 1];
    for (int i = 0; i <= SM_COMPARE_EXACT; i++) {
        a[i] = noise(0.02);
        b[i] = noise(0.02) * 1.005;
    }
    a[SM_COMPARE_EXACT] = 1;
    b[SM_COMPARE_EXACT] = 1.005;
    sm_difference exact = sm_compare_unpaired(a, SM_COMPARE_EXACT, b, SM_COMPARE_EXACT, 0.01);
    sm_difference normal = sm_compare_unpaired(a, SM_COMPARE_EXACT + 1, b, SM_COMPARE_EXACT + 1, 0.01);
    assert_true(fabs(exact.p_value - normal.p_value) < 0.02 && fabs(exact.lo - normal.lo) < 0.002);
    exact = sm_compare_paired(a, b, SM_COMPARE_EXACT, 0.01);
    normal = sm_compare_paired(a, b, SM_COMPARE_EXACT + 1, 0.01);
    assert_true(fabs(exact.p_value - normal.p_value) < 0.02 && fabs(exact.hi - normal.hi) < 0.002);
}

// Of very many values every second counts, so that a comparison fits in memory.
TEST(very_many_values) {
    enum { N = 8200 };
    static double a[N], b[N];
    for (int i = 0; i < N; i++) {
        a[i] = noise(0.02);
        b[i] = a[i] * 1.01;
    }
    const sm_difference d = sm_compare_unpaired(a, N, b, N, 0.01);
    assert_true(d.has_interval && d.lo < log(1.01) && log(1.01) < d.hi && d.hi - d.lo < 0.005);
    assert_true(fabs(sm_compare_paired(a, b, N, 0.01).estimate - log(1.01)) < 1e-12);
}

// --- made-up rows ----------------------------------------------------------------------------------

static json_t *make_row(double median_ns, const char *mode, int batch) {
    return json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:f}", "schema_version", 1, "status",
                     "ok", "model_type", "tiny", "device", "cpu", "backend_used", "cpu", "mode", mode, "precision",
                     "fp32", "pass_type", "step", "n_batch", batch, "n_seq", 64, "n_layer", 2, "n_threads", 2,
                     "median_ns", median_ns);
}

// A run: a median that no other run has (width_of_runs), around it samples.
static json_t *make_run(double factor, double width_of_runs, int n_samples) {
    double run = 1e6 * factor * noise(width_of_runs);
    json_t *row = make_row(run, "fused", 4);
    json_t *samples = json_array();
    for (int i = 0; i < n_samples; i++) {
        json_array_append_new(samples, json_real(run * noise(0.005)));
    }
    json_object_set_new(row, "samples_ns", samples);
    return row;
}

static sm_verdict verdict_of(json_t *a, json_t *b) {
    SM_AT_END(sm_comparison_free) sm_comparison c = {0};
    sm_compare_options options = {.threshold = 0.01};
    expect_ok("compare", sm_compare(a, b, &options, &c));
    assert_int_equal(json_array_size(c.compared), 1);
    sm_verdict verdict = c.verdict;
    json_decref(a);
    json_decref(b);
    return verdict;
}

// Interleaved runs, with a drift of the machine that meets both.
static sm_verdict trial_of_pairs(int n_pairs, double factor) {
    json_t *a = json_array();
    json_t *b = json_array();
    for (int i = 0; i < n_pairs; i++) {
        double drift = 1 + 0.1 * i / n_pairs;
        json_t *rows[2] = {make_run(drift, 0.01, 3), make_run(drift * factor, 0.01, 3)};
        json_object_set_new(rows[0], "compare_pair", json_integer(i));
        json_object_set_new(rows[1], "compare_pair", json_integer(i));
        json_array_append_new(a, rows[0]);
        json_array_append_new(b, rows[1]);
    }
    return verdict_of(a, b);
}

static sm_verdict trial_of_runs(int n_runs, double factor) {
    json_t *a = json_array();
    json_t *b = json_array();
    for (int i = 0; i < n_runs; i++) {
        json_array_append_new(a, make_run(1, 0.01, 3));
        json_array_append_new(b, make_run(factor, 0.01, 3));
    }
    return verdict_of(a, b);
}

static sm_verdict trial_of_samples(int n_samples, double factor) {
    json_t *a = json_pack("[o]", make_run(1, 0, n_samples));
    json_t *b = json_pack("[o]", make_run(factor, 0, n_samples));
    return verdict_of(a, b);
}

static void expect_rates(const char *label, sm_verdict (*trial)(int n, double factor), int n) {
    enum { N_TRIALS = 200 };
    int n_false = 0, n_slower = 0, n_faster = 0;
    for (int i = 0; i < N_TRIALS; i++) {
        n_false += trial(n, 1) != SM_VERDICT_SAME;
        n_slower += trial(n, 1.03) == SM_VERDICT_SLOWER;
        n_faster += trial(n, 1 / 1.03) == SM_VERDICT_FASTER;
    }
    FAIL_IF(!(n_false <= N_TRIALS / 20 && n_slower >= N_TRIALS * 9 / 10 && n_faster >= N_TRIALS * 9 / 10),
            "%s: of %d: %d false, %d slower found, %d faster found", label, N_TRIALS, n_false, n_slower, n_faster);
}

TEST(rates) {
    expect_rates("20 pairs", trial_of_pairs, 20);
    expect_rates("20 runs", trial_of_runs, 20);
    expect_rates("60 samples", trial_of_samples, 60);
}

TEST(too_few_say_so) {
    SM_AT_END(sm_comparison_free) sm_comparison c;
    sm_compare_options options = {.threshold = 0.01};
    json_auto_t *a = json_pack("[o]", make_row(1e6, "fused", 4));
    json_auto_t *b = json_pack("[o]", make_row(2e6, "fused", 4));
    expect_ok("compare", sm_compare(a, b, &options, &c));
    const json_t *record = json_array_get(c.compared, 0);
    assert_int_equal(c.verdict, SM_VERDICT_INCONCLUSIVE);
    assert_non_null(strstr(json_string_value(json_object_get(record, "reason")), "too few"));
    assert_true(json_is_null(json_object_get(record, "detectable_percent")));
    assert_true(fabs(sm_json_number(record, "change_percent") - 100) < 1e-9);
}

// --- matching --------------------------------------------------------------------------------------

static void expect_match(json_t *a, json_t *b, unsigned across, size_t n_compared, size_t n_apart, const char *text) {
    SM_AT_END(sm_comparison_free) sm_comparison c;
    sm_compare_options options = {.threshold = 0.01, .across = across};
    expect_ok("compare", sm_compare(a, b, &options, &c));
    SM_FREED char *apart = sm_json_dump(c.apart);
    FAIL_IF(json_array_size(c.compared) != n_compared || json_array_size(c.apart) != n_apart ||
                strstr(apart, text) == NULL,
            "%zu compared, apart: %s", json_array_size(c.compared), apart);
    json_decref(a);
    json_decref(b);
}

TEST(only_equal_work) {
    const unsigned mode = 1u << SM_FACTOR_MODE;
    // Another batch is other work, whatever else agrees.
    expect_match(json_pack("[o]", make_row(1e6, "fused", 4)), json_pack("[o]", make_row(1e6, "fused", 8)), 0, 0, 2,
                 "n_batch 4 / 8");
    // One factor, the same everywhere, is what is compared.
    expect_match(json_pack("[oo]", make_row(1e6, "naive", 4), make_row(1e6, "naive", 8)),
                 json_pack("[oo]", make_row(1e6, "fused", 4), make_row(1e6, "fused", 8)), 0, 2, 0, "");
    // Where some rows agree in all, only these are compared.
    expect_match(json_pack("[oo]", make_row(1e6, "naive", 4), make_row(1e6, "fused", 4)),
                 json_pack("[o]", make_row(1e6, "fused", 4)), 0, 1, 1, "mode naive / fused");
    expect_match(json_pack("[oo]", make_row(1e6, "naive", 4), make_row(1e6, "fused", 4)),
                 json_pack("[o]", make_row(1e6, "fused", 4)), mode, 1, 1, "");
    // Two factors at once are refused, unless they are named.
    json_auto_t *other = with_members(make_row(1e6, "naive", 4), "'precision': 'bf16'");
    expect_match(json_pack("[o]", make_row(1e6, "fused", 4)), json_pack("[O]", other), 0, 0, 2,
                 "precision fp32 / bf16");
    expect_match(json_pack("[o]", make_row(1e6, "fused", 4)), json_pack("[O]", other), mode | 1u << SM_FACTOR_PRECISION,
                 1, 0, "");
}

// Another machine has devices of its own, another device threads of its own.
TEST(a_factor_holds_those_within_it) {
    json_auto_t *here = make_row(1e6, "fused", 4);
    json_auto_t *there = with_members(make_row(1e6, "fused", 4), "'device': 'opencl:0.0', 'n_threads': 8");
    assert_int_equal(sm_identity_difference(here, there), 1u << SM_FACTOR_DEVICE);
    json_object_set_new(here, "cpu_info", json_string("a processor"));
    json_object_set_new(there, "cpu_info", json_string("another"));
    assert_int_equal(sm_identity_difference(here, there), 1u << SM_FACTOR_MACHINE);
}

// Every column of the identity counts, for all who ask: for comparisons, for an order, and for sentences about the
// fastest. A column that another agrees in is no difference.
// What is null where it is not so is no column that old rows merely lack.
TEST(a_factor_that_is_null_differs) {
    static const char *const names[] = {"without",        "own_kernels",  "loop.shard",    "loop.buckets",
                                        "loop.gradients", "loop.devices", "loop.transport"};
    for (size_t i = 0; i < SM_COUNT(names); i++) {
        json_auto_t *a = make_row(1e6, "fused", 4);
        json_auto_t *b = make_row(1e6, "fused", 4);
        sm_json_set_new(b, names[i], json_string("x"));
        FAIL_IF(sm_identity_difference(a, b) == 0, "%s: null is the same as x", names[i]);
        sm_json_set_new(a, "loop.n_processes", json_integer(1)); // as of a row without a loop
        assert_int_equal(sm_identity_order(a, b, SM_SAME_WORK), 0);
        sm_json_set_new(b, "loop.n_processes", json_integer(2));
        assert_int_not_equal(sm_identity_difference(a, b) & SM_SAME_WORK, 0);
    }
}

// Other programs' rows leave columns out whatever they did, but for the number of processes.
TEST(a_row_that_leaves_a_column_out_agrees) {
    json_auto_t *a = make_row(1e6, "fused", 4);
    json_auto_t *b = make_row(1e6, "fused", 4);
    json_object_set_new(b, "activation", json_string("silu"));
    json_object_set_new(b, "recompute", json_string("light"));
    assert_int_equal(sm_identity_difference(a, b), 0);
    sm_json_set_new(b, "loop.n_processes", json_integer(2));
    assert_int_equal(sm_identity_difference(a, b), 1u << SM_IDENTITY_WORK);
}

TEST(identity_is_one) {
    int n_columns = 0;
    for (int i = 0; i < sm_row_table.n_columns; i++) {
        const sm_column *column = &sm_row_table.columns[i];
        const bool is_text = column->type == SM_COLUMN_TEXT;
        const bool is_nested = strchr(column->name, '.') != NULL;
        const unsigned part = SM_PART(column->identity);
        char text[256];
        if (column->identity == SM_IDENTITY_NONE || is_nested) {
            continue;
        }
        json_auto_t *a = make_row(1e6, "fused", 4);
        json_auto_t *b = make_row(2e6, "fused", 4);
        json_object_set_new(a, "samples_ns", json_pack("[fff]", 1e6, 1e6, 1e6));
        json_object_set_new(b, "samples_ns", json_pack("[fff]", 2e6, 2e6, 2e6));
        const bool is_switch = column->type == SM_COLUMN_BOOLEAN;
        json_object_set_new(a, column->name, is_text ? json_string("x") : is_switch ? json_false() : json_integer(3));
        json_object_set_new(b, column->name, is_text ? json_string("y") : is_switch ? json_true() : json_integer(5));
        FAIL_IF(sm_identity_difference(a, b) != part || sm_identity_order(a, b, part) >= 0 ||
                    sm_identity_order(a, b, (SM_SAME_WORK | SM_FACTORS) & ~part) != 0 ||
                    sm_identity_text(a, b, part, true, text, sizeof(text)) != 1 ||
                    strstr(text, is_text     ? "x / y"
                                 : is_switch ? "no / yes"
                                             : "3 / 5") == NULL,
                "%s: differences %#x, order %d, text %s", column->name, sm_identity_difference(a, b),
                sm_identity_order(a, b, part), text);
        json_auto_t *rows = json_pack("[OO]", a, b);
        json_auto_t *sentences = sm_fastest_sentences(rows);
        const bool is_work = (part & SM_SAME_WORK) != 0;
        const bool is_named = json_array_size(sentences) > 0;
        // The name of the backend stands in the device's, and a mode's text lacks what is usual.
        FAIL_IF(is_work == is_named && strcmp(column->name, "backend_used") != 0, "%s: %zu sentences", column->name,
                json_array_size(sentences));
        n_columns++;
    }
    assert_int_equal(n_columns, 37); // one that leaves the identity lets two works pass for one
}

// Each round has too few samples to tell; two have enough.
TEST(rounds_count_as_one_row) {
    json_auto_t *rows = json_array();
    for (int i = 0; i < 4; i++) {
        const bool is_slow = i % 2 > 0;
        json_t *row = make_row(is_slow ? 2e6 : 1e6, is_slow ? "naive" : "fused", 4);
        const double ns = is_slow ? 2e6 : 1e6;
        json_object_set_new(row, "samples_ns", json_pack("[fff]", ns, ns + 1e3 * i, ns + 1e3));
        json_object_set_new(row, "sweep_key", json_sprintf("mode=%d%s", is_slow, i > 1 ? " round=2" : ""));
        json_array_append_new(rows, row);
    }
    json_auto_t *sentences = sm_fastest_sentences(rows);
    assert_int_equal(json_array_size(sentences), 1);
    assert_non_null(strstr(json_string_value(json_array_get(sentences, 0)), "fused is 2.00 ("));
}

TEST(ambiguous_factors_are_refused) {
    sm_comparison c;
    sm_compare_options options = {.threshold = 0.01};
    json_auto_t *a = json_pack("[o]", make_row(1e6, "fused", 4));
    json_auto_t *b =
        json_pack("[oo]", make_row(1e6, "naive", 4), with_members(make_row(1e6, "fused", 4), "'n_threads': 1"));
    expect_failure("two factors", sm_compare(a, b, &options, &c), SM_ERR_USAGE, "mode and threads|--across");
}

// Another program's rows on another device lack fields; what both tell decides.
TEST(peers) {
    json_t *peer = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:f}", "backend_used", "pytorch", "device",
                             "cuda", "model_type", "GPT-2", "mode", "fused", "precision", "fp32", "pass_type", "step",
                             "n_batch", 4, "n_seq", 64, "n_layer", 2, "median_ns", 2e6);
    expect_match(json_pack("[o]", make_row(1e6, "fused", 4)), json_pack("[o]", peer), 0, 1, 0, "");
}

TEST(failed_rows_are_listed) {
    json_t *oom = with_members(make_row(1, "fused", 4), "'status': 'oom', 'reason': '9 GiB needed'");
    json_object_del(oom, "median_ns");
    expect_match(json_pack("[o]", make_row(1e6, "fused", 4)), json_pack("[o]", oom), 0, 0, 1, "oom: 9 GiB needed");
}

// --- the program -------------------------------------------------------------------------------------

static void write_runs(const char *name, double factor) {
    SM_OWN(FILE) *file = fopen(temp_path(name), "w");
    assert_non_null(file);
    for (int i = 0; i < 10; i++) {
        json_auto_t *row = make_run(factor, 0.002, 5);
        json_object_del(row, "median_ns"); // that of its samples
        json_dumpf(row, file, JSON_COMPACT);
        fputc('\n', file);
    }
}

TEST(exit_codes) {
    write_runs("a.jsonl", 1);
    write_runs("slow.jsonl", 1.1);
    setenv("XDG_DATA_HOME", temp_folder, 1); // of saved baselines
    CHECK_ALL(
        {"compare $T/a.jsonl $T/a.jsonl", 0, "verdict: B against A: no-difference", NULL},
        {"compare $T/a.jsonl $T/slow.jsonl", 3, "slower", NULL},
        {"compare $T/slow.jsonl $T/a.jsonl -o json", 0, "\"verdict\": \"faster\"", NULL},
        {"compare $T/a.jsonl $T/slow.jsonl --threshold 50", 0, "below the threshold", NULL},
        {"compare $T/a.jsonl --save-baseline release-1", 0, NULL, "saved"},
        {"compare release-1 $T/slow.jsonl -o csv", 3, "verdict,", NULL},
        {"compare $T/a.jsonl --save-baseline ../x", 2, NULL, "not a valid name of a baseline"},
        {"compare $T/a.jsonl --save-baseline Makefile", 0, NULL, "saved"},
        {"compare Makefile $T/a.jsonl", 1, NULL, "Makefile: the file of this folder is compared, not the baseline"},
        {"compare never-saved $T/a.jsonl", 1, NULL, "neither a file nor a saved baseline"},
        {"compare $T/a.jsonl", 2, NULL, "holds 10 rows: give two files to compare them, or one row to run it again"},
        {"compare $T/a.jsonl $T/a.jsonl --across speed", 2, NULL, "no factor"},
        {"compare --interleaved 'run -m tiny' 'walk'", 2, NULL, "not a `run`"},
        {"compare --interleaved 'run -m $(x)' 'run'", 2, NULL, "cannot be split"},
        {"compare --interleaved 'run -m tiny | run' 'run'", 2, NULL, "cannot be split"},
        {"compare --interleaved 'run -m \"tiny' 'run'", 2, NULL, "cannot be split"},
        {"compare --interleaved '\"a b\" ru\"n\" x' 'a\\ b run'", 1, NULL, "a b: cannot be started"},
        {"compare --interleaved 'run -m tiny -b 0' 'run -m tiny'", 2, NULL, "out of range"},
        {"compare --interleaved --pairs 2 'run -m tiny -b 1 --seq-len 8 -w 0 -r 2 -t 1' 'run -m tiny -b 1 --seq-len 8 "
         "-w 0 -r 2 -t 1' --backend cpu",
         2, NULL, "does not go with the other flags"},
        {"compare --interleaved --pairs 2 -o json 'run -m tiny -b 1 --seq-len 8 -w 0 -r 2 -t 1 --backend cpu' 'run -m "
         "tiny -b 1 --seq-len 8 -w 0 -r 2 -t 1 --backend cpu'",
         0, "\"basis\": \"pairs\"", NULL},
        {"compare --interleaved --pairs 1 'run -m tiny -b 1 --seq-len 8 -w 0 -t 1 --backend cpu' 'run -m tiny -b 1 "
         "--seq-len 8 -w 0 -t 1 --backend cpu'", // it chooses the samples
         0, "too few runs", NULL});
}
