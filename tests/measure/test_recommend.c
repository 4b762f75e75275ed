// test_recommend.c: recommendations from rows with a known answer.
#include "tests/support/made_row.h"
#include "bench/compare/compare.h"

// A row of the batch and mode, of 8 samples; times in ms, the interval 1% around the median.
static json_t *make_row(int batch, const char *mode, double median_ms, double first_ms, double gib) {
    double ns = median_ms * 1e6;
    json_t *samples = json_array();
    for (int i = 0; i < 8; i++) { // the larger the batch, the less they spread
        double away = (1 + 0.02 * i) / (100 * batch);
        json_array_append_new(samples, json_real(ns * (1 + (i % 2 == 0 ? away : -away))));
    }
    const char *test = textf("step b%ds16", batch);
    json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i}", "status", "ok", "device", "cpu",
                            "cpu_info", "A processor", "model_type", "tiny", "pass_type", "step", "precision", "fp32",
                            "mode", mode, "test", test, "n_batch", batch, "n_seq", 16, "n_accum", 1);
    assert_non_null(row);
    json_object_set_new(row, "samples_ns", samples);
    json_object_set_new(row, "median_ns", json_real(ns));
    json_object_set_new(row, "mad_ns", json_real(ns / (100 * batch)));
    json_object_set_new(row, "ci95_lo_ns", json_real(ns * 0.99));
    json_object_set_new(row, "ci95_hi_ns", json_real(ns * 1.01));
    json_object_set_new(row, "median_ts", json_real(batch * 16 / (ns * 1e-9)));
    json_object_set_new(row, "build_ns", json_real(0));
    json_object_set_new(row, "first_step_ns", json_real(first_ms * 1e6));
    json_object_set_new(row, "device_peak_bytes", json_integer((json_int_t)(gib * 1024 * 1024 * 1024)));
    return row;
}

// The advice on a topic, after the n-th of it; NULL if there is none.
static const json_t *advice(const json_t *records, const char *topic, int n) {
    SM_EACH(record, records) {
        if (strcmp(json_string_value(json_object_get(record, "topic")), topic) == 0 && n-- == 0) {
            return record;
        }
    }
    return NULL;
}

static void expect(const json_t *records, const char *topic, const char *field, const char *text) {
    const json_t *record = advice(records, topic, 0);
    const char *found = record != NULL ? json_string_value(json_object_get(record, field)) : NULL;
    FAIL_IF(found == NULL || strstr(found, text) == NULL, "%s: %s is %s, without %s", topic, field,
            found != NULL ? found : "null", text);
}

static json_t *recommend(json_t *rows) {
    json_t *records = sm_recommend(rows);
    json_decref(rows);
    return records;
}

static json_t *recommend_2(json_t *a, json_t *b) { return recommend(json_pack("[o, o]", a, b)); }
static json_t *recommend_3(json_t *a, json_t *b, json_t *c) { return recommend(json_pack("[o, o, o]", a, b, c)); }

// Models of two widths are two groups, whose names tell which.
TEST(widths_are_apart) {
    json_t *wide = with_members(make_row(4, "fused", 10, 12, 1), "'d_model': 128");
    json_t *narrow = with_members(make_row(4, "naive", 5, 6, 1), "'d_model': 64");
    json_t *again = with_members(json_deep_copy(wide), "'mode': 'naive'");
    json_auto_t *records = recommend_3(narrow, wide, again);
    for (size_t i = 0; i < json_array_size(records); i++) {
        const char *group = json_string_value(json_object_get(json_array_get(records, i), "group"));
        assert_non_null(strstr(group, "d_model 128"));
    }
    assert_true(json_array_size(records) > 0);
}

TEST(the_best_of_three_kinds) {
    json_auto_t *records =
        recommend_3(make_row(1, "naive", 1, 1, 1), make_row(2, "naive", 1.5, 1.5, 4), // faster a token, heavier
                    make_row(4, "naive", 8, 8, 9));                                   // the least spread
    expect(records, "fastest", "configuration", "b2s16");
    expect(records, "fastest", "figure", "21,333 tokens/s");
    expect(records, "per GiB", "configuration", "b1s16");
    expect(records, "steadiest", "configuration", "b4s16");
    assert_true(json_is_null(json_object_get(advice(records, "fastest", 0), "caution")));
}

// A kernel or backend of the user's own wins nothing against this program's.
TEST(code_of_ones_own_is_another_group) {
    json_t *fused = with_members(make_row(1, "fused", 0.1, 0.1, 1), "'own_kernels': 'gelu_forward=my.c (fnv1a64:1)'");
    json_auto_t *records = recommend_3(make_row(1, "naive", 1, 1, 1), make_row(2, "naive", 3, 3, 1), fused);
    expect(records, "fastest", "configuration", "b1s16 naive fp32");
    assert_null(advice(records, "break-even", 0));
    char group[256];
    json_auto_t *own = json_pack("{s:s, s:s}", "device", "cpu", "own_kernels", "x");
    sm_recommend_group(own, group, sizeof(group));
    assert_non_null(strstr(group, ", own code"));
}

TEST(another_architecture_is_another_group) {
    const char *const usual = "'model_arch': 'gpt2', 'optimizer': 'adamw'";
    const char *const other = "'model_arch': 'another', 'optimizer': 'sign'";
    json_t *rows = json_array();
    for (int batch = 1; batch <= 2; batch++) {
        json_array_append_new(rows, with_members(make_row(batch, "naive", 1, 1, 1), usual));
        json_array_append_new(rows, with_members(make_row(batch, "naive", 2, 1, 1), other));
    }
    json_auto_t *records = recommend(rows);
    expect(records, "fastest", "group", "(A processor), tiny,");
    const json_t *second = advice(records, "fastest", 1);
    assert_non_null(second);
    assert_non_null(strstr(json_string_value(json_object_get(second, "group")), "another tiny,"));
    assert_non_null(strstr(json_string_value(json_object_get(second, "configuration")), ", sign"));
}

TEST(what_overlaps_is_not_told_apart) {
    json_auto_t *records = recommend_2(make_row(1, "naive", 1, 1, 1), make_row(1, "fused", 0.995, 1, 1));
    expect(records, "fastest", "caution",
           "step b1s16 fused fp32 at 16,080 tokens/s is not distinct from step b1s16 naive");
    assert_true(json_is_null(json_object_get(advice(records, "fastest", 0), "configuration")));
    assert_null(advice(records, "break-even", 0));
}

// A third one that reaches into the first's interval is enough, however much slower the second is.
TEST(all_must_be_told_apart) {
    json_t *third = with_members(make_row(1, "fused", 1.8, 1, 1), "'ci95_lo_ns': 0.95e6");
    json_auto_t *records = recommend_3(make_row(1, "naive", 1, 1, 1), make_row(1, "tuned", 2, 1, 1), third);
    expect(records, "fastest", "caution", "not distinct from step b1s16 fused");
}

// Two runs of one configuration are no rivals, and of one configuration there is no best.
TEST(runs_of_one_configuration_are_one) {
    json_auto_t *of_one = recommend_2(make_row(1, "fused", 1, 1, 1), make_row(1, "fused", 1, 1, 1));
    assert_int_equal(json_array_size(of_one), 0);
    json_auto_t *records =
        recommend_3(make_row(1, "fused", 1, 1, 1), make_row(1, "fused", 1, 1, 1), make_row(1, "naive", 2, 1, 1));
    expect(records, "fastest", "configuration", "fused");
}

// Nothing noisy, or of too few samples, is the best of anything, and nothing is reckoned with it.
TEST(noise_wins_nothing) {
    json_t *noisy = with_members(make_row(4, "fused", 1, 100, 1), "'mad_ns': 0.81e6");
    json_auto_t *records = recommend_2(noisy, make_row(4, "naive", 10, 10, 1));
    expect(records, "fastest", "caution", "is noisy: half of the samples differ from the median by over 50%, and");
    assert_true(json_is_null(json_object_get(advice(records, "fastest", 0), "value")));
    assert_null(advice(records, "break-even", 0));

    json_t *few = make_row(4, "fused", 1, 100, 1);
    json_object_del(few, "ci95_lo_ns");
    json_object_del(few, "ci95_hi_ns");
    json_auto_t *others = recommend_2(few, make_row(4, "naive", 10, 10, 1));
    expect(others, "fastest", "caution", "not distinct");
    assert_null(advice(others, "break-even", 0));
}

TEST(noise_is_judged_by_figures) {
    char text[256];
    json_auto_t *row = make_row(1, "naive", 1, 1, 1);
    assert_int_equal(sm_judge_row(row), SM_NOISE_STEADY);
    sm_noise_text(row, text, sizeof(text));
    assert_string_equal(text, "");
    json_object_set_new(row, "ci95_hi_ns", json_real(1.06e6));
    assert_int_equal(sm_judge_row(row), SM_NOISE_NOISY);
    json_object_set_new(row, "ci95_hi_ns", json_null());
    json_object_set_new(row, "ci95_lo_ns", json_null());
    assert_int_equal(sm_judge_row(row), SM_NOISE_TOO_FEW);
    sm_noise_text(row, text, sizeof(text));
    assert_string_equal(text, "too few samples (8) to tell how steady it is");
    assert_int_equal(sm_judge_noise(4.9, 9.9), SM_NOISE_STEADY);
    assert_int_equal(sm_judge_noise(5.1, 9.9), SM_NOISE_NOISY);
    assert_int_equal(sm_judge_noise(4.9, 10.1), SM_NOISE_NOISY);
    assert_int_equal(sm_judge_noise(4.9, NAN), SM_NOISE_NOISY);
}

TEST(a_longer_start_is_made_good) {
    json_auto_t *records = recommend_3(make_row(1, "naive", 10, 10, 1),
                                       make_row(1, "fused", 8, 109, 1), // 101 ms later, 2 ms a step sooner
                                       make_row(2, "fused", 1, 1, 1));  // another batch: no pair
    assert_true(json_number_value(json_object_get(advice(records, "break-even", 0), "value")) == 51);
    assert_null(advice(records, "break-even", 1));
}

TEST(what_did_not_fit) {
    json_auto_t *records =
        recommend(json_pack("[o, o, o, o]", make_row(4, "naive", 8, 8, 1), make_row(2, "naive", 4, 4, 1),
                            with_members(make_row(8, "naive", 1, 1, 1), "'status': 'oom'"),
                            with_members(make_row(8, "fused", 1, 1, 1), "'status': 'oom'")));
    expect(records, "did not fit", "figure", "step b4s16 ran");
    const json_t *second = advice(records, "did not fit", 1);
    assert_non_null(strstr(json_string_value(json_object_get(second, "caution")), "--find-batch"));
}

// Rows come from outside: any type anywhere.
TEST(strange_rows_do_no_harm) {
    json_t *rows = json_loads("[{}, {\"status\": 5}, {\"status\": \"ok\", \"median_ns\": \"x\"},"
                              " {\"status\": \"oom\"}, {\"status\": \"ok\", \"median_ns\": 1},"
                              " {\"status\": \"ok\", \"median_ns\": 2, \"mode\": [], \"n_batch\": {}}]",
                              0, NULL);
    assert_non_null(rows);
    json_decref(recommend(rows));
}
