// Result files as they are found: whole, cut short, old, new, of other programs, hostile.
#include <time.h>

#include "tests/support/temp_folder.h"
#include "bench/rows/read_rows.h"

static sm_rows rows; // of the test

static void empty_rows(void) {
    sm_rows_free(&rows);
    rows = sm_rows_new();
}

static void parse(const char *text) {
    empty_rows();
    expect_ok(text, sm_rows_parse("f.json", text, strlen(text), &rows));
}

static void expect_counts(const char *text, size_t n_rows, size_t n_warnings) {
    parse(text);
    FAIL_IF(json_array_size(rows.rows) != n_rows || json_array_size(rows.warnings) != n_warnings,
            "%s: %zu rows and %zu warnings", text, json_array_size(rows.rows), json_array_size(rows.warnings));
}

// The texts below are rows without their status, which every {"a" gets.
static void expect_rows(const char *text, size_t n_rows, size_t n_warnings) {
    SM_FREED char *whole = calloc(strlen(text) + 1, 64);
    assert_non_null(whole);
    for (char *end = whole; *text != '\0'; text++) {
        bool begins_row = strncmp(text, "{\"a\"", 4) == 0;
        end += sprintf(end, begins_row ? "{\"schema_version\": 1, \"status\": \"ok\", " : "%c", *text);
    }
    expect_counts(whole, n_rows, n_warnings);
}

TEST(forms) {
    expect_rows("[{\"a\": 1}, {\"a\": 2}]", 2, 0);
    expect_rows("{\"a\": 1}\n{\"a\": 2}\n", 2, 0);
    expect_rows("{\"a\": [1, {\"b\": 2}]\n}\n", 1, 0);
    expect_rows("[{\"a\": 1}]\n[{\"a\": 2},\r\n {\"a\": 3}]", 3, 0);
    expect_rows("{\"a\": 1}", 1, 0);
    expect_rows("\n \r\n{\"a\": 1}\n\n\n{\"a\": 2}\n\n", 2, 0);
    expect_rows("\xef\xbb\xbf{\"a\": 1}\n\xef\xbb\xbf\n{\"a\": 2}", 2, 0); // editors' marks, of two files put together
    expect_rows("\xef\xbb\xbf[{\"a\": 1}]", 1, 0);
}

TEST(damage_is_set_aside) {
    expect_rows("{\"a\": 1}\n{\"a\": 2", 1, 1);
    expect_rows("[{\"a\": 1},\n{\"a\": 2}", 2, 0); // only the bracket is missing: no row is lost
    expect_rows("[{\"a\": 1},\n{\"a\": [1, 2", 1, 1);
    expect_rows("{\"a\": 1}\n{\"a\": NaN}\n{\"a\": 3}\n", 2, 1);
    expect_rows("{\"a\"\n{\"a\": 3}\n", 1, 1);
    // A row cut short in its samples seems to continue in the next one, which is found all the same.
    expect_rows("{\"a\": [1, 2,\n{\"a\": 3}\n{\"a\": 4}\n", 2, 1);
    expect_rows("{\"a\":\nx\ny\n\nz\n{\"a\": 4}\n", 1, 1); // one place, however many lines
    parse("{\"median_ns\": 1}\n\n{\"a\": tru");
    const char *warning = json_string_value(json_array_get(rows.warnings, 0));
    assert_non_null(strstr(warning, "f.json: line 3, the last, is damaged"));
}

// Every prefix of a file is read without harm, and has the rows that are whole in it.
TEST(every_prefix) {
    static const char text[] = "[{\"avg_ns\": 5, \"a\": \"x}\\\"\", \"b\": [1]},\n {\"avg_ns\": 2}]\n";
    for (size_t n = 0; n < sizeof(text); n++) {
        empty_rows();
        sm_status status = sm_rows_parse("f", text, n, &rows);
        size_t n_rows = json_array_size(rows.rows);
        bool fits = status == SM_OK ? n_rows >= 1 && n_rows <= 2 : status == SM_ERR_FORMAT && n_rows == 0;
        FAIL_IF(!fits, "prefix of %zu bytes: %s, %zu rows", n, sm_status_text(status), n_rows);
    }
}

TEST(not_rows) {
    static const struct {
        const char *text, *has;
    } cases[] = {
        {"", ""},
        {"[]", ""},
        {" \n", ""},
        {"schema_version,status\n1,ok\n", ""},
        {"\"text\"", ""},
        {"[1, 2]", ""},
        {"\xff\xfe{}", ""},
        {"{\"step\": 1, \"loss\": 4.5, \"ms\": 3}\n{\"step\": 2}\n", "its first object has step, loss, ms;"},
        {"{\"colour\": 1, \"\\u001b[2J\": 2, \"size\": 3}", "its first object has colour, size;"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *text = cases[i].text;
        const char *parts = textf("f.csv|no result row|-o json|%s", cases[i].has);
        empty_rows();
        expect_failure(text, sm_rows_parse("f.csv", text, strlen(text), &rows), SM_ERR_FORMAT, parts);
        assert_int_equal(json_array_size(rows.rows), 0);
    }
}

// Objects that are no rows, among rows: skipped, each with its reason up to a number, then counted.
TEST(others_are_skipped) {
    static const struct {
        const char *text, *reason;
    } skipped[] = {
        {"{\"step\": 1, \"loss\": 2.5}", "neither a status nor a time"},
        {"{\"schema_version\": 1, \"status\": \"fine\"}", "its status is not one of"},
        {"{\"schema_version\": 1, \"status\": null}", "neither a status"},
        {"{\"status\": \"ok\"}", "neither a schema_version"},
        {"{\"avg_ns\": 5, \"n_batch\": \"four\"}", "field n_batch"},
        {"{\"avg_ns\": 5, \"phases\": {\"forward_ns\": \"x\"}}", "phases.forward_ns"},
        {"{\"samples_ns\": [1, \"x\"]}", "field samples_ns"},
    };
    for (size_t i = 0; i < sizeof(skipped) / sizeof(skipped[0]); i++) {
        parse(textf("{\"avg_ns\": 5}\n%s\n", skipped[i].text));
        const char *warning = json_string_value(json_array_get(rows.warnings, 0));
        FAIL_IF(json_array_size(rows.rows) != 1 || warning == NULL || strstr(warning, skipped[i].reason) == NULL,
                "%s: %zu rows, warning %s", skipped[i].text, json_array_size(rows.rows), warning);
        assert_non_null(strstr(warning, "line 2"));
    }
    SM_FREED char *many = calloc(1, 10000);
    for (int i = 0; i < 100; i++) {
        strcat(many, "{\"avg_ns\": 5}\n{\"step\": 1, \"loss\": 2.5}\n");
    }
    parse(many);
    assert_int_equal(json_array_size(rows.rows), 100);
    assert_int_equal(json_array_size(rows.warnings), 21);
    assert_non_null(
        strstr(json_string_value(json_array_get(rows.warnings, 20)), "100 objects that are no result rows"));
}

// Reads a text; returns the processor's time for it.
static double seconds_to_read(const char *text, size_t size_bytes) {
    struct timespec begin;
    struct timespec end;
    empty_rows();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    sm_status status = sm_rows_parse("f", text, size_bytes, &rows);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    assert_true(status == SM_OK || status == SM_ERR_FORMAT);
    return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
}

// Megabytes of damage of each kind are read in seconds: the time grows with the size, not with its square.
TEST(damage_takes_no_longer) {
    static const char *const units[] = {"{\"a\": {\n",
                                        "{\"a\": [\n",
                                        "{\"a\": \"x\n",
                                        "{\"a\": 1,\n",
                                        "{",
                                        "[",
                                        "\"",
                                        "}\n",
                                        "{\"a\":[{\"a\":",
                                        "x\n",
                                        "{\"avg_ns\": 5, \"b\": [1, 2, 3,\n",
                                        "{\"step\": 1}\n",
                                        "{\"avg_ns\": 5}\n{\"a\n",
                                        "\xff",
                                        "{\"a\": \"\\u0000\"}\n",
                                        "{\"schema_version\": 1, \"status\": \"ok\"}\n",
                                        " ",
                                        "\n"};
    const char *size = getenv("DAMAGE_BYTES");
    const size_t size_bytes = size != NULL ? strtoul(size, NULL, 10) : 500000;
    SM_FREED char *text = malloc(size_bytes);
    assert_non_null(text);
    for (size_t i = 0; i <= sizeof(units) / sizeof(units[0]); i++) {
        bool zeros = i == sizeof(units) / sizeof(units[0]);
        size_t length = zeros ? 1 : strlen(units[i]);
        for (size_t k = 0; k < size_bytes; k++) {
            text[k] = zeros ? '\0' : units[i][k % length];
        }
        const double seconds = seconds_to_read(text, size_bytes);
        if (size != NULL) {
            print_message("%5.2f s  %zu rows  %s\n", seconds, json_array_size(rows.rows), zeros ? "zeros" : units[i]);
        }
        assert_true(json_array_size(rows.warnings) <= 42);
        // Of a slow processor: a quarter of the text takes about a quarter of the time.
        FAIL_IF(!(seconds < 10 || seconds < 8 * seconds_to_read(text, size_bytes / 4)), "%zu bytes of %s: %.1f s",
                size_bytes, zeros ? "zeros" : units[i], seconds);
    }
}

TEST(interrupted) {
    volatile sig_atomic_t signal_came = 1;
    empty_rows();
    rows.interrupted = &signal_came;
    expect_failure("text", sm_rows_parse("f", "{\"avg_ns\": 5}", 13, &rows), SM_ERR_INTERRUPTED, "f|interrupted");
}

TEST(files) {
    const char *path = temp_path("rows.jsonl");
    empty_rows();
    expect_failure("none", sm_rows_read(path, &rows), SM_ERR_IO, "rows.jsonl|cannot open");
    expect_failure("folder", sm_rows_read(temp_folder, &rows), SM_ERR_IO, "a folder; give a file");
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 5000; i++) { // larger than the first buffer
        fprintf(file, "{\"schema_version\": 1, \"status\": \"ok\", \"n_batch\": %d}\n", i);
    }
    fclose(file);
    expect_ok("read", sm_rows_read(path, &rows));
    assert_int_equal(json_array_size(rows.rows), 5000);
    assert_true(sm_json_number(json_array_get(rows.rows, 4999), "n_batch") == 4999);
}

TEST(versions) {
    // An old row without statistics: they follow from its samples. Unknown fields stay.
    parse("{\"samples_ns\": [3e6, 1e6, 2e6], \"n_batch\": 2, \"n_seq\": 8, \"mine\": {\"x\": 1}}");
    const json_t *row = json_array_get(rows.rows, 0);
    assert_true(sm_json_number(row, "median_ns") == 2e6);
    assert_true(sm_json_number(row, "median_ts") == 8000);
    assert_true(sm_json_number(row, "mine.x") == 1);
    assert_string_equal(sm_rows_status(row), "ok");
    // Another program's row that has only a mean.
    parse("{\"avg_ns\": 5e6, \"avg_ts\": 123.5}");
    assert_true(sm_json_number(json_array_get(rows.rows, 0), "median_ns") == 5e6);
    assert_true(sm_json_number(json_array_get(rows.rows, 0), "median_ts") == 123.5);
    // A newer version: one warning a file.
    expect_counts("{\"schema_version\": 99, \"avg_ns\": 1}\n{\"schema_version\": 99, \"avg_ns\": 1}", 2, 1);
    // Existing figures are never changed.
    parse("{\"samples_ns\": [1, 2], \"median_ns\": 1.25}");
    assert_true(sm_json_number(json_array_get(rows.rows, 0), "median_ns") == 1.25);
}

TEST(types_are_not_trusted) {
    size_t n;
    json_auto_t *row =
        json_loads("{\"samples_ns\": [\"x\", -1, 0, 5, null, {}], \"status\": 3, \"median_ns\": \"fast\"}", 0, NULL);
    SM_FREED double *values = sm_rows_samples(row, "samples_ns", &n);
    assert_int_equal(n, 1);
    assert_string_equal(sm_rows_text(row, "median_ns"), "fast");
    assert_string_equal(sm_rows_status(row), "error");
}

// --- the schema ------------------------------------------------------------------------------------

TEST(schema_is_the_document) {
    json_error_t error;
    json_auto_t *schema = sm_row_json_schema();
    json_auto_t *document = json_load_file("docs/row.schema.json", 0, &error);
    assert_non_null(schema);
    FAIL_IF(document == NULL || !json_equal(schema, document),
            "docs/row.schema.json is not what `stepmark run --schema` prints; regenerate it with `make schema`");
}

// As readers take it; and whole numbers are whole.
static sm_status validate(const json_t *row) {
    SM_TRY(sm_row_recognise(row));
    for (int i = 0; i < sm_row_table.n_columns; i++) {
        const json_t *value = sm_json_get(row, sm_row_table.columns[i].name);
        SM_FAIL_IF(sm_row_table.columns[i].type == SM_COLUMN_INTEGER && json_is_real(value), SM_ERR_FORMAT,
                   "field %s: a fraction", sm_row_table.columns[i].name);
    }
    return SM_OK;
}

TEST(own_rows_validate) {
    SM_AT_END(sm_row_free) sm_row row;
    sm_row_init(&row);
    SM_ROW_TEXT(row.status, "ok");
    json_auto_t *json = sm_row_to_json(&row);
    expect_ok("an empty row", validate(json));
    json_object_set_new(json, "unknown", json_true());
    expect_ok("an unknown field", validate(json));
    json_object_set_new(json, "median_ns", json_string("fast"));
    expect_failure("a text", validate(json), SM_ERR_FORMAT, "median_ns");
    json_object_set_new(json, "median_ns", json_real(1.5));
    expect_failure("a fraction", validate(json), SM_ERR_FORMAT, "median_ns");
    json_object_set_new(json, "median_ns", json_integer(1));
    json_object_set_new(json, "samples_ns", json_pack("[i, s]", 1, "x"));
    expect_failure("a text among samples", validate(json), SM_ERR_FORMAT, "samples_ns");
    json_object_set_new(json, "samples_ns", json_null());
    json_object_set_new(json, "status", json_string("fine"));
    expect_failure("a status", validate(json), SM_ERR_FORMAT, "status");
}

// Measured, skipped and failed rows of the program itself.
TEST(rows_of_the_program_validate) {
    const char *path = temp_path("run.jsonl");
    int status = system(textf("%s run -m tiny -b 1 --seq-len 8 -w 0 -r 2 -t 1 --backend cpu,reference --precision "
                              "fp32,fp16 --pass-type step,separate --no-peaks -o jsonl >%s 2>/dev/null",
                              SM_TEST_BINARY, path));
    assert_true(status >= 0);
    empty_rows();
    expect_ok("read", sm_rows_read(path, &rows));
    assert_int_equal(json_array_size(rows.rows), 8);
    assert_int_equal(json_array_size(rows.warnings), 0);
    for (size_t i = 0; i < json_array_size(rows.rows); i++) {
        expect_ok("a row of the program", validate(json_array_get(rows.rows, i)));
    }
}
