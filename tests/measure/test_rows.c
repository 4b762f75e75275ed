// test_rows.c: result rows in every format: written values come back, whatever their bytes.
#include "tests/support/temp_folder.h"
#include "bench/rows/identity.h"
#include "bench/rows/row.h"

// Quotes, separators, newlines, controls, a
// half of a UTF-8 sequence, and a text that closes a statement.
static const char nasty[] = "a,\"b\"|'c'\r\n.quit\n/\n\x01\x1b[31m\xC3('); DROP TABLE results; --\\";
static const char nasty_clean[] = "a,\"b\"|'c'\r\n.quit\n/\n\x01\x1b[31m\xEF\xBF\xBD('); DROP TABLE results; --\\";

// In a table's cell nothing may reach the terminal.
static const char nasty_csv[] = "a,\"b\"|'c'\r\n.quit\n/\n  [31m\xEF\xBF\xBD('); DROP TABLE results; --\\";

static void give_samples(sm_row *row) {
    row->samples_ns = (sm_integers){calloc(3, sizeof(int64_t)), 3};
    row->samples_ts = (sm_reals){calloc(3, sizeof(double)), 3};
    assert_non_null(row->samples_ns.values);
    assert_non_null(row->samples_ts.values);
    for (int i = 0; i < 3; i++) {
        row->samples_ns.values[i] = 812000000 + i;
        row->samples_ts.values[i] = 315.5 + i;
    }
    row->samples_ts.values[2] = INFINITY;
}

static void make_good_row(sm_row *row) {
    sm_row_init(row);
    SM_ROW_TEXT(row->status, "ok");
    SM_ROW_TEXT(row->model_type, "small (124M)");
    row->model_n_params = 124439808;
    SM_ROW_TEXT(row->backend_used, "cpu");
    SM_ROW_TEXT(row->device, "cpu");
    SM_ROW_TEXT(row->isa, "avx512");
    SM_ROW_TEXT(row->mode, "fused");
    SM_ROW_TEXT(row->test, "step b4s64");
    row->n_batch = 4;
    row->n_seq = 64;
    row->dropout = 0.1;
    row->attribution_ns = 820000000;
    row->phases = (sm_row_phases){1000000, 250000000, 500000000, 60800000, SM_ABSENT, SM_ABSENT, 8200000};
    give_samples(row);
    row->median_ns = 812000001;
    row->mad_ns = 3248000;
    row->median_ts = 1315.27;
    row->mfu = 0.4213;
    row->step_efficiency = NAN;
    row->peak_rss_bytes = (int64_t)3 << 30;
    row->loss = 10.93712;
    SM_ROW_TEXT(row->loss_check, "reference, 1 of 4 sequences");
    sm_row_warn(row, "governor is %s", "powersave");
    sm_row_warn(row, "governor is %s", "powersave");
}

static void make_failed_row(sm_row *row) {
    sm_row_init(row);
    SM_ROW_TEXT(row->model_type, "small (124M)");
    SM_ROW_TEXT(row->device, "cpu");
    SM_ROW_TEXT(row->mode, "naive");
    SM_ROW_TEXT(row->test, "step b64s1024");
    sm_fail(SM_ERR_OOM, "%s", nasty);
    sm_row_fail(row, SM_ERR_OOM);
}

// Both rows in a format, as text that the caller frees.
static char *write_rows(sm_format format) {
    char *text = NULL;
    size_t size_bytes = 0;
    FILE *out = open_memstream(&text, &size_bytes);
    sm_row_writer *writer = NULL;
    sm_row good, failed;
    assert_non_null(out);
    make_good_row(&good);
    make_failed_row(&failed);
    assert_int_equal(sm_row_writer_open(format, out, &writer), SM_OK);
    assert_int_equal(sm_row_write_record(writer, sm_row_to_json(&good)), SM_OK);
    assert_int_equal(sm_row_write_record(writer, sm_row_to_json(&failed)), SM_OK);
    assert_int_equal(sm_record_writer_close(writer, SM_OK), SM_OK);
    sm_row_free(&good);
    sm_row_free(&failed);
    fclose(out);
    return text;
}

static const json_t *field(const json_t *row, const char *name) {
    const json_t *value = sm_json_get(row, name);
    FAIL_IF(value == NULL, "no field %s", name);
    return value;
}

static void check_good_row(const json_t *row) {
    assert_int_equal(json_integer_value(field(row, "schema_version")), SM_ROW_SCHEMA_VERSION);
    assert_string_equal(json_string_value(field(row, "status")), "ok");
    assert_true(json_is_null(field(row, "reason")));
    assert_int_equal(json_integer_value(field(row, "median_ns")), 812000001);
    assert_int_equal(json_integer_value(json_array_get(field(row, "samples_ns"), 2)), 812000002);
    assert_true(json_real_value(json_array_get(field(row, "samples_ts"), 1)) == 316.5);
    assert_true(json_is_null(json_array_get(field(row, "samples_ts"), 2)));
    assert_int_equal(json_integer_value(field(row, "phases.backward_ns")), 500000000);
    assert_true(json_real_value(field(row, "dropout")) == 0.1);
    assert_true(json_is_null(field(row, "step_efficiency")));
    assert_true(json_is_null(field(row, "energy_j")));
    assert_true(json_is_null(field(row, "seed")));
    assert_true(json_is_null(field(row, "context")));
    assert_int_equal(json_array_size(field(row, "warnings")), 1);
    assert_int_equal(strlen(json_string_value(field(row, "test_time"))), strlen("2026-01-01T00:00:00Z"));
}

static void check_failed_row(const json_t *row) {
    assert_string_equal(json_string_value(field(row, "status")), "oom");
    assert_string_equal(json_string_value(field(row, "reason")), nasty_clean);
    assert_true(json_is_null(field(row, "median_ns")));
    assert_true(json_is_null(field(row, "phases.forward_ns")));
    assert_int_equal(json_array_size(field(row, "samples_ns")), 0);
}

TEST(test_json) {
    SM_FREED char *text = write_rows(SM_FORMAT_JSON);
    json_error_t error;
    json_auto_t *rows = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    FAIL_IF(rows == NULL, "line %d: %s", error.line, error.text);
    assert_true(json_is_array(rows));
    assert_int_equal(json_array_size(rows), 2);
    check_good_row(json_array_get(rows, 0));
    check_failed_row(json_array_get(rows, 1));
    assert_null(strstr(text, "NaN"));
}

TEST(test_jsonl) {
    SM_FREED char *text = write_rows(SM_FORMAT_JSONL);
    char *second = strchr(text, '\n') + 1;
    char *end = strchr(second, '\n');
    assert_string_equal(end, "\n");
    second[-1] = '\0';
    json_auto_t *good = json_loads(text, 0, NULL);
    assert_non_null(good);
    check_good_row(good);
    json_auto_t *failed = json_loads(second, 0, NULL);
    assert_non_null(failed);
    check_failed_row(failed);
}

TEST(test_no_rows) {
    static const char *const expected[] = {
        [SM_FORMAT_JSON] = "[]\n", [SM_FORMAT_JSONL] = "", [SM_FORMAT_MARKDOWN] = ""};
    static const sm_format formats[] = {SM_FORMAT_JSON, SM_FORMAT_JSONL, SM_FORMAT_MARKDOWN};
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        SM_FREED char *text = NULL;
        size_t size_bytes = 0;
        FILE *out = open_memstream(&text, &size_bytes);
        sm_row_writer *writer = NULL;
        assert_int_equal(sm_row_writer_open(formats[i], out, &writer), SM_OK);
        assert_int_equal(sm_record_writer_close(writer, SM_OK), SM_OK);
        fclose(out);
        assert_string_equal(text, expected[formats[i]]);
    }
}

// --- csv -------------------------------------------------------------------------------------

// Reads one cell (RFC 4180) into `cell`; returns what follows. *ends: it was a record's last.
static const char *read_cell(const char *text, char *cell, bool *ends) {
    bool quoted = *text == '"';
    text += quoted;
    while (*text != '\0' && (quoted || (*text != ',' && *text != '\n'))) {
        if (quoted && *text == '"') {
            if (text[1] != '"') {
                quoted = false;
                text++;
                continue;
            }
            text++;
        }
        *cell++ = *text++;
    }
    *cell = '\0';
    assert_true(*text == ',' || *text == '\n');
    *ends = *text == '\n';
    return text + 1;
}

TEST(test_csv) {
    SM_FREED char *text = write_rows(SM_FORMAT_CSV);
    SM_FREED char *cell = malloc(strlen(text) + 1);
    const char *p = text;
    for (int record = 0; record < 3; record++) {
        bool ends = false;
        for (int i = 0; i < sm_row_table.n_columns; i++) {
            const char *name = sm_row_table.columns[i].name;
            assert_false(ends);
            p = read_cell(p, cell, &ends);
            if (strcmp(name, "reason") == 0) {
                assert_string_equal(cell, record == 0 ? "reason" : record == 1 ? "" : nasty_csv);
            } else if (strcmp(name, "phases.forward_ns") == 0) {
                assert_string_equal(cell, record == 0 ? "phases_forward_ns" : record == 1 ? "250000000" : "");
            } else if (strcmp(name, "samples_ns") == 0 && record == 1) {
                assert_string_equal(cell, "[812000000, 812000001, 812000002]");
            } else if (strcmp(name, "dropout") == 0 && record == 1) {
                assert_string_equal(cell, "0.1");
            }
        }
        assert_true(ends);
    }
    assert_int_equal(*p, '\0');
}

// --- md --------------------------------------------------------------------------------------

static int screen_width(const char *line) {
    int width = 0;
    for (; *line != '\0' && *line != '\n'; line++) {
        width += ((unsigned char)*line & 0xC0) != 0x80;
    }
    return width;
}

TEST(test_markdown) {
    SM_FREED char *text = write_rows(SM_FORMAT_MARKDOWN);
    static const char expected[] =
        "All rows: model small (124M), parameters 124,439,808, checked reference, 1 of 4 sequences\n"
        "\n"
        "| device     | mode  | test          | forward ms | backward ms | optimizer ms | unaccounted | step ms ± "
        "spread | tokens/s | % of peak |   memory |    loss | status |\n"
        "|------------|-------|---------------|-----------:|------------:|-------------:|------------:|----------------"
        "-:|---------:|----------:|---------:|--------:|--------|\n"
        "| cpu avx512 | fused | step b4s64    |      250.0 |       500.0 |        60.80 |        1.0% |     812.0 ± "
        "0.4% |    1,315 |     42.1% | 3.00 GiB | 10.9371 | ok [1] |\n"
        "| cpu        | naive | step b64s1024 |          - |           - |            - |           - |                "
        "- |        - |         - |        - |       - | oom: a,\"b\"\\|'c'  .quit / \x20 [31m\xEF\xBF\xBD('); DROP "
        "TABLE results; --\\\\ |\n"
        "\n"
        "- [1] warning: governor is powersave\n";
    assert_string_equal(text, expected);
    // Up to the last column, which is ragged, the lines are equally wide.
    const char *header = strstr(text, "| device");
    const char *rule = strchr(header, '\n') + 1;
    assert_int_equal(screen_width(header), screen_width(rule));
}

// "All rows: loader threads:1" would be false of a step next to a loop.
TEST(a_row_without_a_loop_is_told_from_one) {
    json_auto_t *rows = json_pack("[{s:s}, {s:s, s:{s:s, s:s}}]", "mode", "fused", "mode", "fused", "loop", "loader",
                                  "threads:1", "shard", "optimizer");
    char *text = NULL;
    size_t size_bytes = 0;
    FILE *out = open_memstream(&text, &size_bytes);
    assert_int_equal(sm_record_write_all(&sm_row_table, SM_FORMAT_MARKDOWN, out, rows), SM_OK);
    fclose(out);
    assert_non_null(strstr(text, "All rows: mode fused\n"));
    FAIL_IF(strstr(text, "| loader ") == NULL || strstr(text, "| shard ") == NULL, "%s", text);
    free(text);
}

TEST(test_legend) {
    SM_FREED char *text = NULL;
    size_t size_bytes = 0;
    FILE *out = open_memstream(&text, &size_bytes);
    sm_row_write_legend(true, out);
    fclose(out);
    assert_non_null(strstr(text, "efficiency"));
    assert_non_null(strstr(text, "unless a warning says what could not be checked")); // such as gradients in fp8
}

// --- the schema ----------------------------------------------------------------------------------

// Every member has a column, in order: the fields tile the struct up to what is not written.
TEST(test_schema_covers_the_struct) {
    size_t end = 0;
    for (int i = 0; i < sm_row_table.n_columns; i++) {
        const sm_column *column = &sm_row_table.columns[i];
        FAIL_IF(column->offset < end || column->offset - end >= sizeof(int64_t),
                "%s begins at %zu, the column before it ends at %zu", column->name, column->offset, end);
        assert_true(column->description[0] != '\0');
        end = column->offset + column->size_bytes;
    }
    assert_int_equal(end, offsetof(sm_row, op_ns));
}

// Names that readers of such rows rely on.
TEST(test_conventional_names) {
    char names[] =
        "build_commit cpu_info gpu_info backends model_type model_n_params n_batch n_threads test_time avg_ns "
        "stddev_ns avg_ts stddev_ts samples_ns samples_ts schema_version n_seq median_ns q1_ns q3_ns mad_ns ci95_lo_ns "
        "ci95_hi_ns n_outliers warmup_ns stop_reason status reason warnings backend_used peak_flops peak_source mfu "
        "energy_j energy_source peak_rss_bytes step_efficiency phases.zero_grad_ns phases.forward_ns "
        "phases.backward_ns phases.optimizer_ns phases.unaccounted_ns loss loss_reference tier isa open_ns build_ns "
        "tune_ns first_step_ns device_peak_bytes backend device mode precision pass_type context seed ";
    for (char *name = strtok(names, " "); name != NULL; name = strtok(NULL, " ")) {
        FAIL_IF(sm_table_find(&sm_row_table, name) < 0, "the row has no %s", name);
    }
}

// A field of a model's config that rows lack, or that is no work, lets `compare` take two models for one.
TEST(row_has_model_fields) {
    for (int i = 0; i < SM_MODEL_FIELD_COUNT; i++) {
        const sm_model_field_info *field = sm_model_field_get_info((sm_model_field)i);
        const int at = field->column != NULL ? sm_table_find(&sm_row_table, field->column) : -1;
        const bool is_constant = i == SM_MODEL_norm_eps || i == SM_MODEL_rope_theta;
        FAIL_IF(is_constant ? field->column != NULL : at < 0 || sm_row_table.columns[at].identity != SM_IDENTITY_WORK,
                "%s: its column is not part of the work", field->name);
    }
}

// A figure in every column that has one.
static void fill_row(sm_row *row) {
    for (int i = 0; i < sm_row_table.n_columns; i++) {
        const sm_column *column = &sm_row_table.columns[i];
        void *field_of_row = (char *)row + column->offset;
        switch (column->type) {
        case SM_COLUMN_INTEGER: *(int64_t *)field_of_row = 1; break;
        case SM_COLUMN_REAL: *(double *)field_of_row = 1; break;
        case SM_COLUMN_INTEGERS: *(sm_integers *)field_of_row = (sm_integers){calloc(1, sizeof(int64_t)), 1}; break;
        case SM_COLUMN_REALS: *(sm_reals *)field_of_row = (sm_reals){calloc(1, sizeof(double)), 1}; break;
        default: break;
        }
    }
}

static bool is_figure(const sm_column *column) {
    return column->type == SM_COLUMN_INTEGER || column->type == SM_COLUMN_REAL || column->type == SM_COLUMN_INTEGERS ||
           column->type == SM_COLUMN_REALS;
}

// A wrong loss never prints a speed: what is marked goes, whatever it is, and all else stays.
TEST(test_cleared_row_has_no_speed) {
    SM_AT_END(sm_row_free) sm_row row;
    sm_row_init(&row);
    fill_row(&row);
    sm_row_clear_speed(&row);
    json_auto_t *record = sm_row_to_json(&row);
    assert_non_null(record);
    for (int i = 0; i < sm_row_table.n_columns; i++) {
        const sm_column *column = &sm_row_table.columns[i];
        const json_t *value = field(record, column->name);
        const bool is_there = json_is_number(value) || json_array_size(value) > 0;
        FAIL_IF(is_figure(column) && is_there == column->is_speed, "%s is %s", column->name,
                is_there ? "still there" : "gone");
    }
    assert_int_equal(row.op_ns.n, 0);
}

// A column in a unit of speed, time, work or energy is marked, or named here as a fact that does not depend on the
// steps that were wrong.
TEST(test_every_speed_is_marked) {
    // Before the first step, of a configuration, of a device, of a process; and of checks, which are more than steps.
    static const char facts[] = "open_ns build_ns gradient_check_ns checks_ns tune_ns flops ideal_ns peak_flops "
                                "datasheet_flops own_call_ns peak_bandwidth process_ns sensors.quota_throttled_ns";
    for (int i = 0; i < sm_row_table.n_columns; i++) {
        const sm_column *column = &sm_row_table.columns[i];
        const bool is_accounted = column->is_speed || !is_figure(column) || has_word(facts, column->name);
        FAIL_IF(!is_accounted && has_word("ns tokens/s FLOP FLOP/s bytes/s J W s ms", column->unit),
                "%s is in %s: mark it SPEED in row_fields.h, or name it here as a fact", column->name, column->unit);
    }
}
