// test_no_verdict.c: rows of a busy machine, or too noisy ones: no subcommand draws a conclusion from them, and each
// gives the reason. One rule decides (compare.h).
#include "tests/support/run_program.h"
#include "bench/loop/loop.h"

enum { N_SAMPLES = 12 };

#define BUSY "busy machine: other processes kept 1.7 of 2 processors busy; try -t 1, or again when it is idle"

// A step of so many ms, of 2 threads on 2 processors; the interval reaches that far.
static json_t *make_row(const char *mode, double ms, double noise_percent, double other_cpus) {
    json_t *samples = json_array();
    for (int i = 0; i < N_SAMPLES; i++) {
        const double part = i < 3 ? -noise_percent : i < 6 ? -1 : i < 9 ? 1 : noise_percent;
        json_array_append_new(samples, json_real(1e6 * ms * (1 + part / 100)));
    }
    json_t *row =
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:f, s:f, "
                  "s:f, s:f, s:o, s:{s:{s:i}}, s:{s:f, s:i}}",
                  "schema_version", 1, "status", "ok", "loss_check", "reference", "device", "cpu", "backend_used",
                  "cpu", "cpu_info", "A processor", "model_type", "tiny", "pass_type", "step", "precision", "fp32",
                  "mode", mode, "test", "step b1s16", "noise_verdict", noise_percent > 5 ? "noisy" : "steady",
                  "n_batch", 1, "n_seq", 16, "n_accum", 1, "n_threads", 2, "median_ns", 1e6 * ms, "mad_ns",
                  5e3 * ms * (1 + noise_percent), "ci95_lo_ns", 1e6 * ms * (1 - noise_percent / 100), "ci95_hi_ns",
                  1e6 * ms * (1 + noise_percent / 100), "median_ts", 16e3 / ms, "samples_ns", samples, "context", "cpu",
                  "threads", 2, "sensors", "steal_share", 0.0, "involuntary_switches", 0);
    assert_non_null(row);
    json_object_set_new(json_object_get(row, "sensors"), "other_cpus", sm_json_real(other_cpus));
    json_object_set_new(row, "noise_percent", json_real(noise_percent));
    json_object_set_new(row, "losses", json_pack("[iiiiiiiiiiiii]", 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3));
    sm_json_put(row, {"real_tokens", json_integer(16)}, {"n_layer", json_integer(1)}, {"d_model", json_integer(1)},
                {"d_ff", json_integer(1)}, {"vocab", json_integer(1)}, {"model_n_params", json_integer(3)},
                {"flops", json_integer(500)});
    return row;
}

// A busy one among steady ones; or all busy.
static json_t *make_rows(bool all_busy) {
    json_t *rows = json_array();
    json_array_append_new(rows, make_row("naive", 4, 12, 1.7));
    json_array_append_new(rows, make_row("fused", 1, all_busy ? 12 : 1, all_busy ? 1.7 : 0));
    json_array_append_new(rows, make_row("tuned", 2, all_busy ? 12 : 1, all_busy ? 1.7 : 0));
    return rows;
}

// --- the rule -------------------------------------------------------------------------------------

static void expect_doubt(json_t *row, const char *expected) {
    char text[SM_DOUBT_SIZE];
    FAIL_IF(sm_doubt_row(row, text) != (expected[0] != '\0') || strstr(text, expected) == NULL,
            "\"%s\", and not \"%s\"", text, expected);
    json_decref(row);
}

static json_t *with(json_t *row, const char *name, double value) {
    json_t *sensors = json_object_get(row, "sensors");
    json_t *of = json_object_get(sensors, name) != NULL ? sensors : row;
    assert_int_equal(json_object_set_new(of, name, sm_json_real(value)), 0);
    return row;
}

TEST(the_rule) {
    expect_doubt(make_row("fused", 1, 12, 0), "");
    expect_doubt(make_row("fused", 1, 12, 1.7), BUSY);
    expect_doubt(make_row("fused", 1, 1, 1.7), ""); // steady all the same: samples shorter than a time slice
    expect_doubt(with(make_row("fused", 1, 1, 1.7), "involuntary_switches", 6), BUSY);
    expect_doubt(with(make_row("fused", 1, 1, 1.7), "involuntary_switches", 5), "");
    expect_doubt(with(make_row("fused", 1, 1, 0), "involuntary_switches", 1000), ""); // by its own threads
    expect_doubt(with(make_row("fused", 1, 12, 1.7), "n_threads", 1), "busy; try again when it is idle");
    expect_doubt(with(make_row("fused", 1, 12, 0.9), "n_threads", 1), ""); // one processor was left for it
    expect_doubt(with(make_row("fused", 1, 12, 0), "steal_share", 0.12),
                 "busy host: the hypervisor took 12% of the processor time");
    expect_doubt(with(make_row("fused", 1, 12, NAN), "involuntary_switches", 30),
                 "busy machine: threads were preempted 30 times in 12 samples");
    expect_doubt(make_row("fused", 1, 50, 0), "");
    expect_doubt(make_row("fused", 1, 51, 0), "too noisy to use: its 95% interval reaches over 50% from the median");
    json_t *without = make_row("fused", 1, 12, 0);
    json_object_del(without, "sensors");
    expect_doubt(without, ""); // another program's
}

static json_t *on(double n_threads, double own_cpus, double other_cpus, double throttled_ns) {
    json_t *row = with(make_row("fused", 1, 1, other_cpus), "n_threads", n_threads);
    sm_json_set_new(row, "sensors.own_cpus", json_real(own_cpus));
    sm_json_set_new(row, "sensors.quota_throttled_ns", json_real(throttled_ns));
    sm_json_set_new(row, "avg_ns", json_real(1e6));
    return row;
}

// A host of 64 processors took 5% of them, and preempted a thread in each step: a steady card waited for none of it.
TEST(a_card_on_a_busy_host) {
    static const struct {
        double noise_percent, tail_percent;
        bool is_card, is_doubted;
    } rows[] = {
        {1, 3, true, false}, {1, 12, true, true}, {1, NAN, true, true}, {12, 3, true, true}, {1, 3, false, true}};
    for (size_t i = 0; i < SM_COUNT(rows); i++) {
        json_t *row = with(with(make_row("fused", 1, rows[i].noise_percent, 0), "steal_share", 0.05),
                           "involuntary_switches", N_SAMPLES);
        sm_json_put(row, {"gpu_info", json_string(rows[i].is_card ? "A card" : "")},
                    {"p95_ns", sm_json_real(1e6 * (1 + rows[i].tail_percent / 100))});
        expect_doubt(row, rows[i].is_doubted ? "busy host: the hypervisor took 5% of the processor time" : "");
    }
}

// The time that the process itself had.
TEST(what_it_says_of_itself) {
    expect_doubt(on(1, 1, 0, 0), "");
    expect_doubt(on(2, 1.2, 0, 0), ""); // threads that wait for each other
    expect_doubt(on(1, 1.93, 0, 0), "more threads than it says: it kept 1.9 processors busy with 1 thread;");
    expect_doubt(on(1, 0.5, 0.1, 0), "stopped: it ran for 50% of the time, while a processor was idle");
    expect_doubt(on(1, 0.5, 1.5, 0), ""); // steady next to others
    expect_doubt(on(1, 1, 0, 1e5), "");
    expect_doubt(on(1, 1, 0, 6e6),
                 "stopped by a quota: the cgroup's limit of processor time stopped its threads for 50%");
    json_t *loop = on(1, 0.5, 0.1, 0);
    sm_json_set_new(loop, "loop.loader", json_string("inline")); // which may wait for data
    expect_doubt(loop, "");
}

TEST(spreads_have_one_form) {
    static const struct {
        double percent;
        const char *text;
    } forms[] = {{0, "0.0%"},        {0.64, "0.6%"},        {9.94, "9.9%"},         {9.96, "10%"}, {50, "50%"},
                 {50.1, "over 50%"}, {51355.2, "over 50%"}, {INFINITY, "over 50%"}, {NAN, ""}};
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        char text[32];
        sm_text_spread(forms[i].percent, text);
        assert_string_equal(text, forms[i].text);
    }
}

// --- each subcommand ------------------------------------------------------------------------------

TEST(run_names_what_differs) {
    json_auto_t *rows = json_pack("[o, o]", make_row("fused", 1, 1, 0), make_row("fused", 2, 1, 0));
    json_object_set_new(json_array_get(rows, 1), "n_threads", json_integer(1));
    json_auto_t *sentences = sm_fastest_sentences(rows);
    const char *sentence = json_string_value(json_array_get(sentences, 0));
    assert_non_null(sentence);
    assert_ptr_equal(strstr(sentence, "2 threads is 2.00"), sentence);
    assert_non_null(strstr(sentence, "times faster than 1 thread"));
}

TEST(run_names_no_factor) {
    json_auto_t *rows = make_rows(true);
    json_auto_t *sentences = sm_fastest_sentences(rows);
    assert_int_equal(json_array_size(sentences), 1);
    assert_string_equal(json_string_value(json_array_get(sentences, 0)), "No verdict: " BUSY);
    json_auto_t *others = make_rows(false);
    json_auto_t *two = sm_fastest_sentences(others);
    assert_int_equal(json_array_size(two), 2);
    assert_non_null(strstr(json_string_value(json_array_get(two, 0)), "times faster than tuned"));
    assert_string_equal(json_string_value(json_array_get(two, 1)), "No verdict on 1 of 3 rows: " BUSY);
}

TEST(loop_names_no_bound) {
    static const double others[] = {0, 1.7};
    for (int i = 0; i < 2; i++) {
        SM_AT_END(sm_row_free) sm_row row;
        sm_row_init(&row);
        row.median_ns = 1000;
        row.ci95_lo_ns = 900;
        row.ci95_hi_ns = 1100;
        row.mad_ns = 10;
        row.n_threads = 2;
        row.sensors.other_cpus = others[i];
        row.context = json_pack("{s:{s:i}}", "cpu", "threads", 2);
        row.loop.bound_share = 0.9;
        SM_ROW_TEXT(row.loop.bound, "launches");
        SM_ROW_TEXT(row.loop.verdict, "Bound by launches: 94.5% of a step.");
        sm_loop_withhold_verdict(&row);
        assert_string_equal(row.loop.verdict, i == 0 ? "Bound by launches: 94.5% of a step." : "No verdict: " BUSY ".");
        assert_int_equal(row.loop.bound[0] == '\0', i == 1);
        assert_true(i == 0 || isnan(row.loop.bound_share));
    }
}

TEST(leaderboard_refuses) {
    json_auto_t *rows = make_rows(false);
    json_auto_t *records = NULL;
    json_auto_t *refused = NULL;
    json_array_append_new(rows, make_row("fused", 0.1, 51355, 0));
    sm_leaderboard_make(rows, NULL, NULL, &records, &refused);
    assert_int_equal(json_array_size(records), 1); // the fastest usable one
    assert_true(sm_json_number(json_array_get(records, 0), "median_ts") == 16e3);
    assert_int_equal(json_array_size(refused), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(refused, 0), "reason")), BUSY);
    assert_non_null(
        strstr(json_string_value(json_object_get(json_array_get(refused, 1), "reason")), "too noisy to use"));
}

TEST(recommend_names_nothing) {
    for (int all_busy = 0; all_busy < 2; all_busy++) {
        json_auto_t *rows = make_rows(all_busy == 1);
        json_auto_t *records = sm_recommend(rows);
        const json_t *first = json_array_get(records, 0);
        const char *caution = json_string_value(json_object_get(first, "caution"));
        assert_string_equal(json_string_value(json_object_get(first, "topic")), "fastest");
        assert_string_equal(caution, all_busy ? "no verdict on 3 of 3 rows: " BUSY : "not ranked: 1 of 3 rows: " BUSY);
        assert_int_equal(json_is_null(json_object_get(first, "value")), all_busy);
        assert_true(all_busy == 0 || json_array_size(records) == 1); // it is said once
    }
}

TEST(compare_is_inconclusive) {
    const sm_compare_options options = {.threshold = 0.01};
    for (int busy = 0; busy < 2; busy++) {
        SM_AT_END(sm_comparison_free) sm_comparison c;
        json_auto_t *a = json_pack("[o]", make_row("fused", 1, 12, 0));
        json_auto_t *b = json_pack("[o]", make_row("fused", 4, 12, busy ? 1.7 : 0));
        assert_int_equal(sm_compare(a, b, &options, &c), SM_OK);
        const json_t *record = json_array_get(c.compared, 0);
        assert_int_equal(c.verdict, busy ? SM_VERDICT_INCONCLUSIVE : SM_VERDICT_SLOWER);
        assert_int_equal(json_is_null(json_object_get(record, "change_percent")), busy);
        assert_true(!busy || strstr(json_string_value(json_object_get(record, "reason")), BUSY) != NULL);
    }
}

TEST(advise_gains_nothing) {
    json_auto_t *base = json_pack("[o]", make_row("fused", 4, 1, 0));
    json_auto_t *busy = json_pack("[o]", make_row("fused", 1, 12, 1.7));
    const sm_advice_case cases[] = {{"", "", "stepmark run", base, false},
                                    {"--mode=tuned", "", "stepmark run --mode=tuned", busy, true}};
    json_auto_t *records = sm_advice(cases, 2);
    const json_t *last = json_array_get(records, 1);
    assert_string_equal(json_string_value(json_object_get(last, "flags")), "--mode=tuned");
    assert_string_equal(json_string_value(json_object_get(last, "verdict")), "no verdict");
    assert_string_equal(json_string_value(json_object_get(last, "reason")), BUSY);
    assert_true(isnan(sm_json_number(last, "gain")));
}

TEST(report_says_why) {
    json_auto_t *rows = make_rows(true);
    assert_int_equal(json_dump_file(rows, temp_path("rows.json"), 0), 0);
    CHECK_ALL({"report $T/rows.json -o md", 0, "No verdict for tiny, 16 tokens, step: " BUSY, NULL},
              {"report --best $T/rows.json -o json", 0, "no verdict on 3 of 3 rows: " BUSY, NULL},
              {"compare $T/rows.json $T/rows.json -o json", 0, BUSY, NULL});
    expect_exit("report $T/rows.json --output $T/report.html", 0);
    read_file("report.html", out);
    expect_text("report", out, "No verdict for tiny, 16 tokens, step: " BUSY);
}
