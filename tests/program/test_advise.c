// test_advise.c: `stepmark advise` as users meet it, and its results for constructed rows.
#include "tests/support/run_program.h"
#include "bench/compare/compare.h"

#define TINY "advise -m tiny --seq-len 8 --backend cpu -t 1 --mode fused --attention flash -w 0 -r 2 --pairs 2 "

// --- records of made-up rows -------------------------------------------------------------------------

// A row of 64 tokens whose samples are step_ms and a little about it.
static json_t *make_row(double step_ms, double memory) {
    json_t *samples = json_array();
    for (int i = 0; i < 4; i++) {
        json_array_append_new(samples, json_integer((json_int_t)(step_ms * 1e6 * (1 + 0.001 * (i - 1.5)))));
    }
    return json_pack("{s:s, s:f, s:o, s:I, s:I, s:I, s:s}", "status", "ok", "real_tokens", 64.0, "samples_ns", samples,
                     "median_ns", (json_int_t)(step_ms * 1e6), "min_ns", (json_int_t)(step_ms * 1e6 * 0.9985),
                     "peak_rss_bytes", (json_int_t)memory, "device", "cpu");
}

static json_t *make_rows(int n, const double *step_ms) {
    json_t *rows = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(rows, step_ms[i] > 0 ? make_row(step_ms[i], 1e9 + i) : json_null());
    }
    return rows;
}

static double number(const json_t *record, const char *name) {
    return json_number_value(json_object_get(record, name));
}

static const char *text(const json_t *record, const char *name) {
    const char *value = json_string_value(json_object_get(record, name));
    return value != NULL ? value : "";
}

TEST(gains_have_intervals) {
    static const double base[] = {10, 10.1, 9.9, 10.2, 10, 10.1, 9.8};
    static const double twice[] = {0, 5, 5.02, 5.1, 5, 5.1, 4.9};
    static const double alike[] = {10.004};
    static const double slow[] = {20};
    json_t *rows[] = {make_rows(7, base), make_rows(7, twice), make_rows(1, alike), make_rows(1, slow), json_array()};
    json_array_append_new(rows[4], json_pack("{s:s, s:s, s:I}", "status", "oom", "reason", "9 GiB needed, 8 allowed",
                                             "estimated_bytes", (json_int_t)9));
    const sm_advice_case cases[] = {
        {"", "", "stepmark run", rows[0], false},
        {"--accum=4", "batch", "stepmark run --accum=4", rows[4], false},
        {"--recompute=block", "", "stepmark run --recompute=block", rows[3], false},
        {"--attention=naive", "", "stepmark run --attention=naive", rows[2], false},
        {"--precision=bf16", "rounding", "stepmark run --precision=bf16", rows[1], true},
    };
    json_auto_t *records = sm_advice(cases, 5);
    assert_int_equal(json_array_size(records), 5);

    const json_t *first = json_array_get(records, 0);
    assert_string_equal(text(first, "flags"), "--precision=bf16");
    assert_string_equal(text(first, "basis"), "pairs");
    assert_string_equal(text(first, "verdict"), "faster");
    assert_string_equal(text(first, "changes"), "rounding");
    assert_true(json_is_true(json_object_get(first, "advised")));
    assert_int_equal(number(first, "n_rounds"), 6);
    assert_int_equal(number(first, "n_samples"), 24);
    assert_true(fabs(number(first, "gain") - 2) < 0.05);
    assert_true(number(first, "gain_ci95_lo") < number(first, "gain") &&
                number(first, "gain") < number(first, "gain_ci95_hi"));
    assert_int_equal(number(first, "memory_bytes"), 1000000006);

    const json_t *default_record = json_array_get(records, 1);
    const json_t *same = json_array_get(records, 2);
    if (strcmp(text(default_record, "flags"), "(the default)") != 0) { // as fast: either may come first
        same = default_record;
        default_record = json_array_get(records, 2);
    }
    assert_string_equal(text(default_record, "flags"), "(the default)");
    assert_true(number(default_record, "gain") == 1);
    assert_true(fabs(number(default_record, "tokens_per_s") - 6400) < 100);
    assert_string_equal(text(same, "verdict"), "not distinct");
    assert_string_equal(text(same, "basis"), "samples");

    assert_string_equal(text(json_array_get(records, 3), "verdict"), "slower");
    const json_t *last = json_array_get(records, 4);
    assert_string_equal(text(last, "status"), "oom");
    assert_string_equal(text(last, "reason"), "9 GiB needed, 8 allowed");
    assert_true(json_object_get(last, "gain") == NULL && number(last, "estimated_bytes") == 9);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_decref(rows[i]);
    }
}

// Without the default's speed there are no gains, and what is fastest still comes first.
TEST(a_default_that_fails) {
    static const double fast[] = {5};
    static const double slow[] = {7};
    json_t *rows[] = {json_array(), make_rows(1, slow), make_rows(1, fast)};
    json_array_append_new(rows[0], json_pack("{s:s, s:s}", "status", "oom", "reason", "too large"));
    const sm_advice_case cases[] = {{"", "", "", rows[0], false},
                                    {"--batch-size=2", "batch", "", rows[1], false},
                                    {"--batch-size=1", "batch", "", rows[2], true}};
    json_auto_t *records = sm_advice(cases, 3);
    assert_string_equal(text(json_array_get(records, 0), "flags"), "--batch-size=1");
    assert_string_equal(text(json_array_get(records, 1), "flags"), "--batch-size=2");
    assert_string_equal(text(json_array_get(records, 2), "reason"), "too large");
    assert_null(json_object_get(json_array_get(records, 0), "gain"));
    for (size_t i = 0; i < 3; i++) {
        json_decref(rows[i]);
    }
}

// --- the program -----------------------------------------------------------------------------------------

static json_t *records_of_out(void) {
    json_t *records = parse_json(out);
    assert_true(json_is_array(records));
    return records;
}

// The first, the fastest, with that flag among others. The flags tried with it depend on what was fast.
static const json_t *record_among(const json_t *records, const char *flag) {
    SM_EACH(record, records) {
        if (strstr(text(record, "flags"), flag) != NULL) {
            return record;
        }
    }
    fail_msg("no record of %s", flag);
    return NULL;
}

static const json_t *record_with(const json_t *records, const char *flags) {
    SM_EACH(record, records) {
        if (strcmp(text(record, "flags"), flags) == 0) {
            return record;
        }
    }
    fail_msg("no record of %s", flags);
    return NULL;
}

#define SMALL TINY "-b 1,2 --accum 1,2 --precision fp32,tf32 --recompute light,none "

TEST(advice_is_of_rows) {
    static char first[OUTPUT_SIZE];
    expect_exit(SMALL "--output-file $T/rows.jsonl -o json", 0);
    json_auto_t *records = records_of_out();
    const json_t *bare = record_with(records, "(the default)");
    assert_non_null(strstr(text(bare, "command"), "stepmark run --model-size=tiny --batch-size=1 "));
    assert_non_null(strstr(text(bare, "command"), " --no-peaks --no-phases"));
    assert_string_equal(text(record_among(records, "--batch-size=2"), "changes"), "batch");
    assert_string_equal(text(record_with(records, "--recompute=none"), "changes"), "");
    const json_t *tf32 = record_among(records, "--precision=tf32");
    assert_string_equal(text(tf32, "status"), "skipped");
    assert_non_null(strstr(text(tf32, "reason"), "tf32"));

    // The same advice of the same rows, and nothing runs again.
    const int n_rows = count_lines_of("rows.jsonl");
    memcpy(first, out, sizeof(first));
    expect_exit(SMALL "--output-file $T/rows.jsonl --resume -o json", 0);
    assert_string_equal(out, first);
    assert_int_equal(count_lines_of("rows.jsonl"), n_rows);

    // Others read them.
    expect_exit("report --best $T/rows.jsonl", 0);
    expect_exit("report $T/rows.jsonl -o md", 0);
    expect_run("compare $T/rows.jsonl#1", 0, "reproduced", NULL);
}

TEST(says_it_in_words) {
    expect_exit(SMALL "--output-file $T/rows.jsonl --resume", 0);
    expect_text("advise", out, "times the default's (95%)");
    expect_text("advise", out, " configurations were tried, in ");
    expect_text("advise", err, "round 1, the default: ");
    expect_text("advise", err, "measured before");
}

TEST(what_does_not_fit_is_not_run) {
    expect_exit(TINY "-b 4,64 --accum 1 --precision fp32 --recompute light --max-memory 0.002 -o json", 0);
    json_auto_t *records = records_of_out();
    const json_t *large = record_with(records, "--batch-size=64");
    assert_string_equal(text(large, "status"), "oom");
    assert_non_null(strstr(text(large, "reason"), "not started"));

    expect_exit(TINY "-b 1,20000 --accum 1 --precision fp32 --recompute light -r 1000 --timeout 60 -o json", 0);
    json_auto_t *others = records_of_out();
    large = record_with(others, "--batch-size=20000");
    assert_string_equal(text(large, "status"), "skipped");
    assert_non_null(strstr(text(large, "reason"), "by the default's speed"));

    expect_run(TINY "-b 64,128 --accum 1 --precision fp32 --recompute light --max-memory 0.0001", 1, NULL,
               "nothing could be measured; the default: ");
}

TEST(bad_values_are_told) {
    CHECK_ALL({"advise -m tiny,small", 2, NULL, "--model-size: give one value"},
              {"advise -m tiny --seq-len 8,16", 2, NULL, "--seq-len: give one value"},
              {"advise -m tiny -b 4,8,4 -t 1 --dry-run -o csv", 0, "batch-size=8", NULL},
              {"advise -m tiny --backend cpu,reference", 2, NULL, "--backend: give one device"},
              {"advise -m tiny --attention flash,wrong", 2, NULL, "--attention: no value 'wrong'; there are naive, flash"},
              {"advise -m tiny --batch-size 0", 2, NULL, "out of range"},
              {"advise -m tiny --resume", 2, NULL, "needs --output-file"},
              {"advise -m tiny --preset macro", 2, NULL, "a flag of run, not of advise"},
              {"advise -m tiny -b 4,8 --dry-run -t 1 -o jsonl", 0, "batch-size=8", "tried first"});
}

// With loaders a loop is measured that reads its data.
TEST(loaders_are_measured_in_a_loop) {
    expect_exit(TINY "-b 2 --accum 1 --precision fp32 --recompute light --loader inline,threads:1 -o json", 0);
    json_auto_t *records = records_of_out();
    const json_t *threads = record_with(records, "--loader=threads:1");
    assert_string_equal(text(threads, "status"), "ok");
    assert_string_equal(text(threads, "changes"), "");
    assert_non_null(strstr(text(threads, "command"), "stepmark loop --model-size=tiny "));
}

// Ctrl-C: what was measured is printed and kept, and the rest can follow.
TEST(ctrl_c_keeps_rows) {
    const pid_t child = start_program(SMALL "--delay 0.3 --output-file $T/cut.jsonl -o json");
    for (int i = 0; i < 600 && count_lines_of("cut.jsonl") < 2; i++) {
        usleep(50000);
    }
    assert_int_equal(end_by(child, SIGINT), 130);
    json_auto_t *records = records_of_out();
    record_with(records, "(the default)");
    expect_text("advise", err, "--resume continues");
    expect_exit(SMALL "--output-file $T/cut.jsonl --resume -o json", 0);
}

AROUND_ALL(temp_cache_make, temp_folder_remove)
