// Rows that contradict themselves (bench/rows/consistent.c). The program's own rows do not; each of their figures is
// then forged by itself, and must be named, or be listed below as one that no other field tells.
#include "tests/support/run_program.h"

#include "bench/compare/compare.h"

#define STEPS "-m tiny -t 1 -b 4 --seq-len 64 --backend cpu -q -o json "

static json_t *rows; // honest ones of each kind

static int measure_all(void **state) {
    static const char *const commands[] = {
        "run " STEPS "--pass-type step,separate,backward,forward -r 100 -w 2 --loss-scale dynamic --documents 5-20 "
        "--padding max --timeout 300",
        "run " STEPS "--mode naive -r 1 -w 0 --no-peaks --no-phases",
        "run " STEPS "-r 1000000 --timeout 3 --no-peaks",
        "run " STEPS "--precision bf16 -r 7 --accum 2",
        "run -m tiny -b 2 --seq-len 16 --backend reference -q -o json -r 3",
        "loop " STEPS "-r 20 --accum 2",
        "run " STEPS "--op attention -r 7",
    };
    assert_int_equal(temp_folder_make(state), 0);
    SM_AT_END(sm_rows_free) sm_rows read = sm_rows_new();
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        run(commands[i]);
        if (sm_rows_parse(commands[i], out, strlen(out), &read) != SM_OK) {
            fprintf(stderr, "%s: %s\n%s", commands[i], sm_error_message(), err);
            return -1;
        }
    }
    rows = json_incref(read.rows);
    return 0;
}

static int remove_all(void **state) {
    json_decref(rows);
    return temp_folder_remove(state);
}

// Figures that no other field determines within a factor of 100.
static bool is_free(const char *name) {
    static const char names[] =
        "schema_version seed n_head n_kv_head n_ctx open_ns build_ns tune_ns first_step_ns n_attribution n_skipped "
        "harness_ns own_call_ns attended_pairs bytes peak_bandwidth energy_j loop.n_steps loop.headline_hidden_ns "
        "loop.comm_bytes loop.busy_ns loop.n_ready sensors.minor_faults sensors.major_faults sensors.swap_in_bytes "
        "sensors.swap_out_bytes sensors.voluntary_switches sensors.involuntary_switches sensors.frequency_before_mhz "
        "sensors.frequency_after_mhz sensors.temperature_before_c sensors.temperature_after_c sensors.throttle_count "
        "sensors.quota_throttled_ns own_call_ns sensors.gpu_frequency_mhz sensors.gpu_temperature_c estimated_bytes "
        "estimated_rss_bytes process_ns process_peak_rss_bytes memory_limit_bytes checks_ns gradient_tolerance "
        "cold_bytes";
    return has_word(names, name);
}

// Whether the row is named with this field times `factor`; each element of an array.
static bool is_named(const json_t *honest, const char *name, double factor) {
    char text[SM_CONTRADICTION_SIZE];
    json_auto_t *row = json_deep_copy(honest);
    json_auto_t *value = json_incref(sm_json_get(row, name));
    if (json_is_array(value)) {
        json_array_set_new(value, 0, json_real(factor * json_number_value(json_array_get(value, 0))));
    } else {
        const bool is_time = strcmp(name + strlen(name) - 3, "_ns") == 0; // 100 ns more are rounding in a long step
        const double forged = factor * (json_number_value(value) != 0 ? json_number_value(value) : is_time ? 1e7 : 1);
        sm_json_set_new(row, name, json_is_integer(value) ? json_integer((json_int_t)forged) : json_real(forged));
    }
    const bool named = sm_row_contradicts(row, text);
    assert_true(named == (text[0] != '\0'));
    return named;
}

static bool is_there(const json_t *row, const char *name) {
    const json_t *value = sm_json_get(row, name);
    return json_is_number(value) || json_is_number(json_array_get(value, 0));
}

// What this machine may not have measured.
static void complete(json_t *row) {
    const double tokens = sm_json_number(row, "real_tokens");
    sm_json_set_new(row, "energy_j", json_real(0.5));
    sm_json_set_new(row, "energy_per_token_j", json_real(0.5 / tokens));
    sm_json_set_new(row, "loop.headline_wait_ns", json_incref(json_object_get(row, "max_ns")));
    sm_json_set_new(row, "loop.headline_comm_ns", json_incref(json_object_get(row, "max_ns")));
    sm_json_set_new(row, "datasheet_flops", json_real(1e12));
    sm_json_set_new(row, "datasheet_mfu",
                    json_real(sm_json_number(row, "flops") / sm_json_number(row, "median_ns") / 1e3));
    sm_json_set_new(row, "process_ns", json_integer((json_int_t)9e12));
    sm_json_set_new(row, "loop.bound", json_string("compute"));
    sm_json_set_new(row, "loop.bound_share", json_real(0.5));
    sm_json_set_new(row, "loop.ceilings", json_pack("{s:f}", "compute", 9e4));
    sm_json_set_new(row, "loop.ceiling_ts", json_real(9e4));
    sm_json_set_new(row, "sensors.own_cpus", json_real(0.9));
    if (is_there(row, "phases.unaccounted_ns")) {
        sm_json_set_new(row, "phases.communication_ns", json_integer(0));
    }
    sm_json_set_new(row, "sensors.other_cpus", json_real(0.1));
    sm_json_set_new(row, "sensors.steal_share", json_real(0.1));
}

// As if the row of an op were one of an exchange.
static void complete_op(json_t *row) {
    const double per_s = 1e9 / sm_json_number(row, "median_ns");
    sm_json_set_new(row, "algorithm_bandwidth", json_real(sm_json_number(row, "operand_bytes") * per_s));
    sm_json_set_new(row, "bus_bandwidth", json_real(sm_json_number(row, "bytes") * per_s / 2));
}

TEST(honest_rows_do_not) {
    char text[SM_CONTRADICTION_SIZE];
    size_t i;
    json_t *row;
    assert_true(json_array_size(rows) == 10);
    json_auto_t *references = sm_bundle_references();
    json_array_extend(rows, references);
    json_array_foreach(rows, i, row) {
        FAIL_IF(sm_row_contradicts(row, text) || strcmp(sm_rows_status(row), "error") == 0, "row %zu: %s; %s", i, text,
                sm_rows_text(row, "reason"));
        if (i < 9) {
            complete(row);
        } else if (i == 9) {
            complete_op(row);
        }
        FAIL_IF(sm_row_contradicts(row, text), "row %zu, completed: %s", i, text);
    }
}

TEST(each_forged_figure_is_named) {
    for (int c = 0; c < sm_row_table.n_columns; c++) {
        const sm_column *column = &sm_row_table.columns[c];
        const bool is_figure =
            column->type != SM_COLUMN_TEXT && column->type != SM_COLUMN_JSON && column->type != SM_COLUMN_BOOLEAN;
        bool named = false, there = false;
        for (size_t i = 0; i < 10; i++) {
            const json_t *row = json_array_get(rows, i);
            const bool has_it = is_there(row, column->name);
            there = there || has_it;
            named = named || (has_it && (is_named(row, column->name, 100) || is_named(row, column->name, 0.01)));
            FAIL_IF(has_it && !is_named(row, column->name, -1) && column->type == SM_COLUMN_INTEGERS,
                    "row %zu: a negative %s is not named", i, column->name);
        }
        FAIL_IF(is_figure && !is_free(column->name) && !named,
                "%s: %s; give it a rule in bench/rows/consistent.c, or list it here", column->name,
                there ? "forged, and not named" : "in no row of this test");
    }
}

static void set(json_t *row, const char *name, json_t *value) { assert_true(sm_json_set_new(row, name, value) == 0); }

// What is no single figure.
TEST(forged_facts_are_named) {
    static const struct {
        const char *field;
        const char *value; // JSON
        const char *says;
    } cases[] = {
        {"samples_ns", "[]", "no samples"},
        {"samples_ns", "[5, 0, 7]", "not above zero"},
        {"samples_ns", "null", "no samples"},
        {"losses", "[]", "losses"},
        {"test_time", "\"2099-01-01T00:00:00Z\"", "in the future"},
        {"test_time", "\"2025-06-01T00:00:00Z\"", "before the first stepmark"},
        {"test_time", "\"yesterday\"", "no date"},
        {"status", "\"error\"", "has a speed"},
        {"status", "\"skipped\"", "has a speed"},
        {"cpu_info", "\"Cray-1\"", "cpu_info"},
        {"gpu_info", "\"NVIDIA H100 80GB HBM3\"", "gpu_info"},
        {"precision", "\"bf16\"", "--precision"},
        {"device", "\"opencl:0.0\"", "--backend"},
        {"model_type", "\"xl\"", "--model-size"},
        {"optimizer", "\"sgd\"", "--optimizer"},
        {"run_args", "[\"--kernel=gelu_forward=x.so\"]", "own_kernels"},
        {"run_args", "[\"--backend-library=x.so\"]", "own_kernels"},
        {"run_args", "[\"--batch-size=9\"]", "n_batch"},
        {"run_args", "[\"--repetitions=9\"]", "--repetitions"},
        {"loss_checked", "7.9", "loss_reference"},
        {"spot_error", "1.5", "spot_error"},
        {"update_error", "50", "update_error"},
        {"gradient_error", "9", "gradient_error"},
        {"median_ts", "1e300", "median_ts"},
        {"noise_verdict", "\"too few\"", "noise_verdict"},
        {"median_ns", "null", "no median_ns"},
        {"n_seq", "null", "no n_seq"},
        {"d_ff", "null", "no d_ff"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_auto_t *row = json_deep_copy(json_array_get(rows, 0));
        char text[SM_CONTRADICTION_SIZE];
        set(row, cases[i].field, json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
        FAIL_IF(!sm_row_contradicts(row, text) || strstr(text, cases[i].says) == NULL, "%s = %s: \"%s\"",
                cases[i].field, cases[i].value, text);
    }
}

// All times a hundredth, and what follows from them: far above the peak.
TEST(steps_above_the_peak_are_named) {
    json_auto_t *row = json_pack("{s:s, s:f, s:f, s:f, s:f}", "status", "ok", "median_ns", 1e6, "max_ns", 1.1e6,
                                 "flops", 2e9, "peak_flops", 1e12);
    char text[SM_CONTRADICTION_SIZE];
    set(row, "ci95_hi_ns", json_real(1.9e6));
    assert_false(sm_row_contradicts(row, text)); // up to the interval's end it is noise
    set(row, "ci95_hi_ns", json_real(1.1e6));
    assert_true(sm_row_contradicts(row, text));
    assert_non_null(strstr(text, "peak"));
}

// Readers tell the line, and nothing of the row is ranked.
TEST(readers_leave_them_out) {
    json_auto_t *records = NULL;
    json_auto_t *refused = NULL;
    json_auto_t *row = json_deep_copy(json_array_get(rows, 0));
    set(row, "median_ts", json_real(1e9));
    SM_FREED char *line = sm_json_dump(row);
    SM_AT_END(sm_rows_free) sm_rows read = sm_rows_new();
    assert_int_equal(sm_rows_parse("f", line, strlen(line), &read), SM_OK);
    const char *warning = json_string_value(json_array_get(read.warnings, 0));
    assert_non_null(strstr(warning, "f: line 1 contradicts itself, and its figures do not count: median_ts is 1e+09"));
    const json_t *kept = json_array_get(read.rows, 0);
    assert_string_equal(sm_rows_status(kept), "error");
    assert_true(isnan(sm_json_number(kept, "median_ts")) && isnan(sm_json_number(kept, "median_ns")));
    sm_leaderboard_make(read.rows, NULL, NULL, &records, &refused);
    assert_int_equal(json_array_size(records), 0);
    assert_non_null(strstr(sm_rows_text(json_array_get(refused, 0), "reason"), "contradicts itself: median_ts"));
}

AROUND_ALL(measure_all, remove_all)
