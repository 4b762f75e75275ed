// test_record.c: the record writer with a small test table, and the texts of values.
#include "tests/support/test.h"
#include "bench/tables/record.h"
#include "bench/tables/show.h"

static const sm_column thing_columns[] = {
    {.name = "name", .type = SM_COLUMN_TEXT, .heading = "name"},
    {.name = "memory.total_bytes", .type = SM_COLUMN_INTEGER, .heading = "memory", .show = sm_show_bytes},
    {.name = "fits", .type = SM_COLUMN_BOOLEAN, .heading = "fits"},
    {.name = "error", .type = SM_COLUMN_REAL, .heading = "error"},
    {.name = "unseen", .type = SM_COLUMN_JSON},
};
static const sm_table thing_table = {.name = "things", .columns = thing_columns, .n_columns = 5};

static char *write_named_thing(sm_format format, const char *name) {
    char *text = NULL;
    size_t size_bytes = 0;
    FILE *out = open_memstream(&text, &size_bytes);
    sm_record_writer *writer = NULL;
    json_t *record =
        json_pack("{s:s, s:{s:i}, s:b, s:s}", "name", name, "memory", "total_bytes", 1536, "fits", 1, "more", "stays");
    assert_int_equal(sm_record_writer_open(&thing_table, format, out, &writer), SM_OK);
    assert_int_equal(sm_record_write(writer, record), SM_OK);
    assert_int_equal(sm_record_writer_close(writer, SM_OK), SM_OK);
    fclose(out);
    return text;
}

// What a spreadsheet would run, a terminal obey, or a page show as markup stays a text.
TEST(test_hostile_texts) {
    static const struct {
        sm_format format;
        const char *name;
        const char *written; // its cell
    } cases[] = {
        {SM_FORMAT_CSV, "=1+1", "\n\"'=1+1\","},
        {SM_FORMAT_CSV, "@SUM(A1)", "\n\"'@SUM(A1)\","},
        {SM_FORMAT_CSV, "+cmd|' /C calc'!A0", "\n\"'+cmd|' /C calc'!A0\","},
        {SM_FORMAT_CSV, "-2+3", "\n\"'-2+3\","},
        {SM_FORMAT_CSV, "\t=1", "\n\"'\t=1\","},
        {SM_FORMAT_CSV, "-12.5", "\n-12.5,"},
        {SM_FORMAT_CSV, "+1e-3", "\n+1e-3,"},
        {SM_FORMAT_CSV, "a=b", "\na=b,"},
        {SM_FORMAT_CSV, "a\x1b[2Jb\x7f\xC2\x9B", "\na [2Jb  ,"},
        {SM_FORMAT_CSV, "a\xE2\x80\xAE\xE2\x81\xA9z", "\na  z,"},
        {SM_FORMAT_MARKDOWN, "a\xE2\x80\x8F\xC2\x9Bz", "| a  z "},
        {SM_FORMAT_MARKDOWN, "![a](http://b)", "| ![a]\\(http://b) |"},
        {SM_FORMAT_MARKDOWN, "<script>`x`|\\\x1b", "| &lt;script>\\`x\\`\\|\\\\  |"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        SM_FREED char *text = write_named_thing(cases[i].format, cases[i].name);
        FAIL_IF(strstr(text, cases[i].written) == NULL, "case %zu: no '%s' in '%s'", i, cases[i].written, text);
    }
}

TEST(test_other_tables) {
    static const struct {
        sm_format format;
        const char *text;
    } cases[] = {
        {SM_FORMAT_JSONL, "{\"name\": \"x\", \"memory\": {\"total_bytes\": 1536}, \"fits\": true, \"more\": \"stays\", "
                          "\"error\": null, \"unseen\": null}\n"},
        {SM_FORMAT_CSV, "name,memory_total_bytes,fits,error,unseen\nx,1536,true,,\n"},
        {SM_FORMAT_MARKDOWN, "| name |   memory | fits |\n|------|---------:|------|\n| x    | 1.50 KiB | yes |\n"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        SM_FREED char *text = write_named_thing(cases[i].format, "x");
        assert_string_equal(text, cases[i].text);
    }
}

// A note is marked in the lines that it is of, unless it is of all; of those that differ in figures alone the first.
TEST(test_notes_name_their_rows) {
    static const sm_column columns[] = {
        {.name = "name", .type = SM_COLUMN_TEXT, .heading = "name"},
        {.name = "notes", .type = SM_COLUMN_JSON, .heading = "warning", .view = SM_SHOWN_AS_NOTES},
    };
    static const sm_table table = {.name = "things", .columns = columns, .n_columns = 2};
    SM_FREED char *text = NULL;
    size_t size_bytes = 0;
    FILE *out = open_memstream(&text, &size_bytes);
    sm_record_writer *writer = NULL;
    assert_int_equal(sm_record_writer_open(&table, SM_FORMAT_MARKDOWN, out, &writer), SM_OK);
    sm_record_write(writer, json_pack("{s:s, s:[s, s]}", "name", "a", "notes", "all of 3", "12.5% lost (p = 0.002)"));
    sm_record_write(writer, json_pack("{s:s, s:[s, s]}", "name", "b", "notes", "only here", "all of 3"));
    sm_record_write(writer, json_pack("{s:s, s:[s, s]}", "name", "c", "notes", "3% lost (p = 1.5e-05)", "all of 3"));
    assert_int_equal(sm_record_writer_close(writer, SM_ERR_DEVICE), SM_ERR_DEVICE); // what failed before its end
    fclose(out);
    assert_string_equal(text, "| name |\n|------|\n| a [1] |\n| b [2] |\n| c [3] |\n\n"
                              "- warning: all of 3\n"
                              "- [1] warning: 12.5% lost (p = 0.002)\n"
                              "- [2] warning: only here\n"
                              "- [3] warning: 3% lost (p = 1.5e-05)\n");
}

TEST(test_full_disk) {
    static const sm_column columns[] = {{.name = "name", .type = SM_COLUMN_TEXT, .heading = "name"},
                                        {.name = "samples_ns", .type = SM_COLUMN_INTEGERS}};
    static const sm_table table = {.name = "things", .columns = columns, .n_columns = 2};
    FILE *out = fopen("/dev/full", "w");
    SKIP_IF(out == NULL);
    for (int format = 0; format < SM_FORMAT_COUNT; format++) {
        sm_record_writer *writer = NULL;
        sm_status status = sm_record_writer_open(&table, (sm_format)format, out, &writer);
        status = status == SM_OK ? sm_record_write(writer, json_pack("{s:s}", "name", "x")) : status;
        status = sm_record_writer_close(writer, status);
        assert_int_equal(status, SM_ERR_IO);
        assert_non_null(strstr(sm_error_message(), "cannot write"));
    }
    fclose(out);
}

TEST(test_utf8) {
    static const struct {
        const char *text;
        int length;
    } cases[] = {
        {"", 0},
        {"a", 1},
        {"\xC2\xB1", 2},
        {"\xE2\x82\xAC", 3},
        {"\xF0\x9F\x98\x80", 4},
        {"\x80", 0},
        {"\xC0\x80", 0},
        {"\xC2", 0},
        {"\xE0\x80\x80", 0},
        {"\xED\xA0\x80", 0},
        {"\xE2\x82", 0},
        {"\xF4\x90\x80\x80", 0},
        {"\xF5\x80\x80\x80", 0},
        {"\xFF", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(sm_utf8_length(cases[i].text), cases[i].length);
    }
}

TEST(test_formats_by_name) {
    sm_format format = SM_FORMAT_JSON;
    for (int i = 0; i < SM_FORMAT_COUNT; i++) {
        assert_true(sm_format_parse(sm_format_name((sm_format)i), &format));
        assert_int_equal(format, i);
    }
    assert_true(sm_format_parse("Markdown", &format));
    assert_int_equal(format, SM_FORMAT_MARKDOWN);
    assert_false(sm_format_parse("xml", &format));
}

TEST(test_shown_numbers) {
    assert_string_equal(SM_TEXT_COUNT(124439808), "124,439,808");
    assert_string_equal(SM_TEXT_COUNT(-1234), "-1,234");
    assert_string_equal(SM_TEXT_COUNT(999), "999");
    assert_string_equal(SM_TEXT_COUNT(NAN), "");
    assert_string_equal(SM_TEXT_MS(1873.4e6), "1873");
    assert_string_equal(SM_TEXT_MS(41e3), "0.041");
    assert_string_equal(SM_TEXT_BYTES(512), "512 B");
    assert_string_equal(SM_TEXT_SCALED(1.24e12, "FLOP"), "1.24 TFLOP");
}
