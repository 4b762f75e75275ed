// The report: what its page is given, and what the script makes of that (report_figures.js, under node).
// tools/tests/report_page.py looks at it in a browser.
#include <time.h>

#include "tests/support/run_program.h"
#include "bench/pages/page.h"
#include "bench/report/report.h"
#include "embedded.h"

static const char evil[] = "</td><script>alert('x')</script><img src=x onerror=alert(1)>\"'`date` & | * \x01";

// --- rows made up ------------------------------------------------------------------------------

static json_t *samples_around(double median_ns, int n) {
    json_t *samples = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(samples, json_integer((json_int_t)(median_ns * (1 + 0.002 * ((i * 7) % 11 - 5)))));
    }
    return samples;
}

static void set(json_t *row, const char *name, json_t *value) {
    assert_int_equal(sm_json_set_new(row, name, value), 0);
}

static json_t *make_row(const char *device, const char *mode, int batch) {
    double median_ns =
        1e8 * (batch + 0.5) * (strcmp(mode, "naive") == 0 ? 1.4 : 1) * (strcmp(device, "cpu") == 0 ? 1 : 1.7);
    json_t *row = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "schema_version", 1, "status", "ok",
                            "test_time", "2026-11-22T03:04:05Z", "model_type", "small", "device", device,
                            "backend_used", device, "mode", mode, "precision", "fp32", "pass_type", "step");
    set(row, "n_batch", json_integer(batch));
    set(row, "n_seq", json_integer(64));
    set(row, "n_accum", json_integer(1));
    set(row, "n_layer", json_integer(12));
    set(row, "n_threads", json_integer(2));
    set(row, "vocab", json_integer(50257));
    set(row, "samples_ns", samples_around(median_ns, 12));
    set(row, "open_ns", json_integer(1000000));
    set(row, "build_ns", json_integer(400000000));
    set(row, "first_step_ns", json_integer(900000000));
    set(row, "warmup_ns", json_integer(600000000));
    set(row, "peak_rss_bytes", json_integer((json_int_t)(2e9 + 3e8 * batch)));
    set(row, "phases", json_pack("{s:f, s:f}", "forward_ns", 0.3 * median_ns, "backward_ns", 0.6 * median_ns));
    set(row, "flops", json_real(1e10 * batch));
    set(row, "bytes", json_real(2e9 + 1e8 * batch));
    set(row, "peak_flops", json_real(2e11));
    set(row, "peak_bandwidth", json_real(4e10));
    set(row, "context", json_pack("{s:s, s:{s:s}}", "host", "somewhere", "cpu", "name", "a processor"));
    return row;
}

static sm_rows rows; // of the test

static void make_rows(size_t n) {
    static const char *const devices[] = {"cpu", "opencl:0.0"};
    static const char *const modes[] = {"naive", "fused"};
    sm_rows_free(&rows);
    rows = sm_rows_new();
    for (size_t i = 0; i < n; i++) {
        json_auto_t *row = make_row(devices[i % 2], modes[i / 2 % 2], 1 << (i / 4 % 4));
        SM_FREED char *text = sm_json_dump(row);
        expect_ok("parse", sm_rows_parse("rows", text, strlen(text), &rows)); // fills the statistics in
    }
}

static json_t *row_at(size_t i) { return json_array_get(rows.rows, i); }

// One of each trouble.
static void spoil(void) {
    json_t *oom = row_at(12);
    set(oom, "status", json_string("oom"));
    set(oom, "reason", json_string(evil));
    set(oom, "samples_ns", json_array());
    json_object_del(oom, "median_ns");
    set(row_at(0), "warnings", json_pack("[s]", evil));
    set(row_at(1), "isa", json_string(evil));
    set(row_at(2), "context.host", json_string(evil));
    set(row_at(3), "n_batch", json_string("four"));
    set(row_at(5), "samples_ns", json_integer(7));
    json_array_append_new(rows.warnings, json_string(evil));
    json_t *separate = make_row("cpu", "fused", 4);
    set(separate, "pass_type", json_string("separate"));
    set(separate, "n_seq", json_integer(128));
    set(separate, "vocab", json_integer(10000));
    set(separate, "median_ns", json_integer(300000000));
    set(separate, "avg_ns", json_integer(300000000));
    set(separate, "forward_avg_ns", json_integer(100000000));
    set(separate, "backward_avg_ns", json_integer(200000000));
    json_array_append_new(rows.rows, separate);
    json_array_append_new(rows.rows, json_object());
}

static char *write_report(const sm_costs *costs, size_t *size_bytes) {
    char *text = NULL;
    FILE *stream = open_memstream(&text, size_bytes);
    assert_non_null(stream);
    expect_ok("report", sm_report_write(&rows, costs, 0, stream));
    fclose(stream);
    return text;
}

static void expect_in(const char *text, const char *what) {
    FAIL_IF(strstr(text, what) == NULL, "the report does not hold: %s", what);
}

static int count_in(const char *text, const char *what) {
    int n = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what)) {
        n++;
    }
    return n;
}

// --- the page's data and figures ---------------------------------------------------------------

// The data that a page holds.
static json_t *data_of(const char *page) {
    static const char begin[] = "<script type=\"application/json\" id=\"page\">";
    json_error_t error;
    const char *at = strstr(page, begin);
    assert_non_null(at);
    at += strlen(begin);
    json_t *data = json_loadb(at, (size_t)(strstr(at, "</script>") - at), 0, &error);
    FAIL_IF(data == NULL, "%s", error.text);
    return data;
}

// Of the report of the test's rows.
static json_t *data_of_report(const sm_costs *costs) {
    size_t size_bytes;
    SM_FREED char *page = write_report(costs, &size_bytes);
    return data_of(page);
}

static const char *entry_text(const json_t *data, size_t row, const char *name) {
    return sm_rows_text(json_array_get(json_object_get(data, "rows"), row), name);
}

// What the script makes of a page of these rows is as report_figures.js has it under that name.
static void expect_figures(const char *name) {
    size_t size_bytes;
    SM_FREED char *page = write_report(NULL, &size_bytes);
    temp_put("figures.html", page, size_bytes);
    shell(textf("node tests/support/report_figures.js $T/figures.html %s", name));
}

TEST(a_page_of_spoiled_rows) {
    size_t size_bytes;
    make_rows(16);
    spoil();
    SM_FREED char *text = write_report(NULL, &size_bytes);
    assert_null(strstr(text, "</td><script>"));
    assert_null(strstr(text, "<img"));
    assert_null(strstr(text, "\x01"));
    // Self-contained: nothing is fetched. Names of namespaces are no addresses.
    assert_int_equal(count_in(text, "http"), count_in(text, "http://www.w3.org/") + count_in(text, "http-equiv"));
    assert_null(strstr(text, " src=\""));
    json_auto_t *data = data_of(text);
    assert_int_equal(json_array_size(json_object_get(data, "rows")), 18);
    assert_int_equal(json_array_size(sm_json_get(data, "table.rows")), 18);
    assert_string_equal(entry_text(data, 12, "row.reason"), evil);
    assert_string_equal(entry_text(data, 12, "doubt"), "no figures");
    expect_figures("spoiled");
}

// A single point is no picture.
TEST(nothing_of_one_row) {
    make_rows(1);
    expect_figures("one");
}

TEST(rows_of_two_devices) {
    make_rows(16);
    expect_figures("two_devices");
}

// A varied flag tells series apart, also one that is no part of a row's identity.
TEST(a_varied_flag_is_a_column) {
    make_rows(4);
    for (size_t i = 0; i < 4; i++) {
        set(row_at(i), "device", json_string("cpu"));
        set(row_at(i), "mode", json_string("fused"));
        set(row_at(i), "run_args", json_pack("[o, s]", json_sprintf("--warmup=%d", (int)(5 * i)), "--seed=42"));
    }
    expect_figures("warmup");
}

// Rows that differ in threads alone are a line over them, next to what as many threads would give at best.
TEST(threads) {
    make_rows(16);
    for (size_t i = 0; i < 16; i++) {
        set(row_at(i), "n_batch", json_integer(4));
        set(row_at(i), "n_threads", json_integer(1 << (i / 4)));
        set(row_at(i), "median_ts", json_real(1000.0 * (1 + (double)(i / 4))));
    }
    expect_figures("threads");
}

// A loop's phases are held against the first loop of the same work.
TEST(loops) {
    make_rows(4);
    for (size_t i = 0; i < 4; i += 2) {
        json_t *row = row_at(i);
        set(row, "loop",
            json_pack("{s:s, s:i, s:i, s:i, s:s, s:s, s:f}", "loader", i == 0 ? "inline" : "threads:1", "wall_ns",
                      150000000, "wait_ns", i == 0 ? 50000000 : 5000000, "forward_ns", 100000000, "bound", "input",
                      "verdict", "Bound by <input>.", "ceiling_ts", 1000.0));
        set(row, "mode", json_string("fused"));
    }
    expect_figures("loops");
}

// Rungs of `stepmark ladder` are read only where they are asked for.
TEST(ladders) {
    static const char text_of_rungs[] =
        "{\"ladder\": \"matmul\", \"shape\": \"N=8\", \"device\": \"cpu\", \"name\": \"<Chip>\", \"rung\": \"loops\", "
        "\"ns\": 4e6, \"ns_ci95_lo\": 3.9e6, \"ns_ci95_hi\": 4.1e6, \"ceiling_ns\": 1e6, \"ceiling_share\": 0.25, "
        "\"times_before\": null, \"flops_per_s\": 1e9}\n"
        "{\"ladder\": \"matmul\", \"shape\": \"N=8\", \"device\": \"cpu\", \"name\": \"<Chip>\", \"rung\": "
        "\"shipped\", \"ns\": 2e6, \"ns_ci95_lo\": 2e6, \"ns_ci95_hi\": 2e6, \"ceiling_ns\": 1e6, \"ceiling_share\": "
        "0.5, \"times_before\": 2, \"flops_per_s\": 2e9}\n";
    make_rows(0);
    assert_int_equal(sm_rows_parse("rungs", text_of_rungs, sizeof(text_of_rungs) - 1, &rows), SM_ERR_FORMAT);
    make_rows(4);
    rows.rungs = json_array();
    assert_int_equal(sm_rows_parse("rungs", text_of_rungs, sizeof(text_of_rungs) - 1, &rows), SM_OK);
    assert_int_equal(json_array_size(rows.rows), 4);
    expect_figures("ladders");
    json_array_clear(rows.rows);
    expect_figures("ladders");
}

// Rows of two hosts with the same chip have colours of their own, the same in each picture.
TEST(colours_by_device) {
    make_rows(8);
    for (size_t i = 0; i < 8; i++) {
        set(row_at(i), "cpu_info", json_string("Some(R) Chip CPU @ 2.00GHz"));
        set(row_at(i), "device", json_string("cpu"));
        set(row_at(i), "context.host", json_string(i % 2 == 0 ? "here" : "there"));
    }
    expect_figures("two_hosts");
}

// Each precision has its own ceiling, and one that was measured differently is drawn as far as it was.
TEST(ceilings_by_precision) {
    make_rows(4);
    for (size_t i = 0; i < 4; i++) {
        set(row_at(i), "device", json_string("cpu"));
    }
    set(row_at(0), "precision", json_string("bf16"));
    set(row_at(0), "peak_flops", json_real(8e11));
    set(row_at(1), "peak_bandwidth", json_real(6.6e9));
    set(row_at(2), "peak_bandwidth", json_real(28.6e9));
    expect_figures("ceilings");
}

// A row without a verdict has no rank, reason or cost.
TEST(one_verdict) {
    const sm_costs costs = {.train_tokens = 1e9};
    make_rows(4);
    set(row_at(2), "own_kernels", json_string("gelu_forward=my.c (fnv1a64:1)"));
    set(row_at(0), "noise_percent", json_real(70));
    set(row_at(0), "ci95_hi_ns", json_integer(500000000));
    json_auto_t *data = data_of_report(&costs);
    for (size_t i = 0; i < 4; i++) {
        const bool is_refused = i == 0 || i == 2;
        FAIL_IF((entry_text(data, i, "doubt")[0] != '\0') != is_refused ||
                    (entry_text(data, i, "why")[0] == '\0') != is_refused ||
                    (entry_text(data, i, "cost")[0] == '\0') != is_refused,
                "row %zu: doubt '%s', why '%s', cost '%s'", i, entry_text(data, i, "doubt"), entry_text(data, i, "why"),
                entry_text(data, i, "cost"));
    }
    expect_figures("refused");
}

TEST(the_answer_comes_first) {
    static const char *const says[] = {"For small, 64 tokens, step, cpu is the fastest: ",
                                       "with fused fp32, batch 1, 2 threads, 1.70 ("};
    make_rows(4);
    json_auto_t *data = data_of_report(NULL);
    const json_t *answer = json_object_get(data, "answer");
    for (size_t i = 0; i < 2; i++) {
        expect_in(json_string_value(json_array_get(answer, 0)), says[i]);
    }
    assert_string_equal(json_string_value(json_array_get(answer, 1)),
                        "It is bound by memory: 35% of its measured bandwidth (and 33% of its peak arithmetic).");
}

// Two devices whose intervals overlap.
TEST(no_answer_of_devices_alike) {
    make_rows(4);
    for (size_t i = 2; i < 4; i++) {
        const double median_ns = i == 2 ? 1.5e8 : 1.52e8;
        set(row_at(i), "median_ns", json_real(median_ns));
        set(row_at(i), "median_ts", json_real(64e9 / median_ns));
        set(row_at(i), "ci95_lo_ns", json_real(0.97 * median_ns));
        set(row_at(i), "ci95_hi_ns", json_real(1.03 * median_ns));
    }
    json_auto_t *data = data_of_report(NULL);
    expect_in(json_string_value(json_array_get(json_object_get(data, "answer"), 0)),
              "For small, 64 tokens, step, no device is the fastest: cpu (427 tokens/s, ");
}

// A page without them is blank: they are found by name.
TEST(a_page_has_its_styles_and_scripts) {
    static const char *const files[] = {"bench/pages/page.css",  "bench/pages/page.js",   "bench/pages/chart.js",
                                        "bench/pages/figure.js", "bench/report/group.js", "bench/report/report.js"};
    size_t size_bytes;
    make_rows(4);
    SM_FREED char *text = write_report(NULL, &size_bytes);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        const sm_embedded *file = sm_embedded_find(files[i]);
        FAIL_IF(file == NULL || memmem(text, size_bytes, file->text, file->size_bytes) == NULL, "the page lacks %s",
                files[i]);
    }
}

TEST(a_page_escapes_each_special_character) {
    SM_FREED char *text = NULL;
    size_t size_bytes;
    FILE *stream = open_memstream(&text, &size_bytes);
    assert_non_null(stream);
    sm_page_text(stream, "a&b<c>d\"e'f");
    assert_int_equal(fclose(stream), 0);
    assert_string_equal(text, "a&amp;b&lt;c&gt;d&quot;e&#39;f");
}

TEST(counts_have_commas) {
    static const struct {
        double value;
        const char *text;
    } counts[] = {{0, "0"},       {999, "999"},          {1000, "1,000"}, {1234567, "1,234,567"},
                  {-123, "-123"}, {-123456, "-123,456"}, {NAN, ""}};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        char text[64];
        sm_text_count(counts[i].value, text, sizeof text);
        assert_string_equal(text, counts[i].text);
    }
}

TEST(a_thousand_rows) {
    size_t size_bytes;
    struct timespec begin;
    struct timespec end;
    make_rows(1000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    SM_FREED char *text = write_report(NULL, &size_bytes);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    assert_true(size_bytes < 5000000);
    if (!(end.tv_sec - begin.tv_sec < 30)) { // 1 s where nothing else runs, and not under sanitizers
        fail_msg("%lld s for a report of 1,000 rows", (long long)(end.tv_sec - begin.tv_sec));
    }
}

// --- the program -------------------------------------------------------------------------------

// The test's rows, a line each.
static void write_rows(const char *name) {
    FILE *file = fopen(temp_path(name), "w");
    for (size_t i = 0; i < json_array_size(rows.rows); i++) {
        json_dumpf(row_at(i), file, JSON_COMPACT);
        fputc('\n', file);
    }
    fclose(file);
}

TEST(program) {
    make_rows(16);
    write_rows("rows.jsonl");
    CHECK_ALL(
        {"report $T/rows.jsonl --output $T/report.md && cat $T/report.md", 0, "All rows: model small", NULL},
        {"report $T/rows.jsonl -o md", 0, "\nFor small, 64 tokens, step, cpu is the fastest: ", NULL},
        {"report $T/rows.jsonl --output $T/report.html", 0, NULL, "report.html: 16 rows, "},
        {"report $T/rows.jsonl --output $T/c.html --columns mode", 2, NULL, "--columns: a page has none"},
        {"report $T/rows.jsonl -o csv --columns device,n_batch,median_ns,phases.forward_ns | head -2", 0,
         "device,n_batch,median_ns,phases_forward_ns\ncpu,1,209790000,63000000.0\n", NULL},
        {"report $T/rows.jsonl -o csv --columns phases_forward_ns", 0, "phases_forward_ns\n63000000.0\n", NULL},
        {"report $T/rows.jsonl -o jsonl --columns mode,n_batch", 0, "{\"mode\": \"naive\", \"n_batch\": 1}\n", NULL},
        {"report $T/rows.jsonl -o md --columns mode,avg_ns", 0, "| naive | 209.8 ± 1.5 |\n", NULL},
        {"report $T/rows.jsonl -o latex --columns mode,avg_ns,% ", 2, NULL, "no column is named '%'"},
        {"report $T/rows.jsonl -o latex --columns device,avg_ns,n_batch", 0,
         "\\begin{tabular}{lrr}\n\\toprule\ndevice & avg ms & n\\_batch \\\\\n\\midrule\ncpu & 209.8 ± 1.5 & 1 \\\\\n",
         NULL},
        {"report $T/rows.jsonl -o typst --columns device,avg_ns,n_batch", 0,
         "  table.header([device], [avg ms], [n\\_batch], ),\n  [cpu], [209.8 ± 1.5], [1], \n", NULL},
        {"--version >/dev/null; sed 's/\"status\"/\"own_kernels\":\"gelu_forward=my.c (fnv1a64:1)\",&/' $T/rows.jsonl "
         ">$T/own.jsonl; " SM_TEST_BINARY " report $T/own.jsonl -o text",
         0, "No verdict for small, 64 tokens, step, own code: own code: ", NULL},
        {"walk -m tiny -b 1 --seq-len 8 -o latex", 2, NULL, "-o latex: there is no such form of ops; give md"},
        {"devices -o bmf", 2, NULL, "-o bmf: there is no such form of devices"},
        {"report", 2, NULL, "give result files"}, {"report $T/none.jsonl -o md", 1, NULL, "cannot open"},
        {"report $T/rows.jsonl", 0, "<script type=\"application/json\" id=\"page\">", NULL},
        {"report $T/rows.jsonl --watch", 2, NULL, "--watch: give --output FILE.html"},
        {"run --schema", 0, "\"samples_ns\"", NULL});
}

// In a text of their own, where the programs are: `typst`, or its package for Python; `pdflatex` with booktabs.
TEST(tables_for_papers_compile) {
    static const char *const tools[][2] = {
        {"typst compile $T/table.typ $T/table.pdf", "command -v typst >/dev/null"},
        {"python3 -c 'import sys, typst; typst.compile(sys.argv[1], output=sys.argv[2])' $T/table.typ $T/table.pdf",
         "python3 -c 'import typst' 2>/dev/null"},
        {"cd $T && pdflatex -halt-on-error -interaction=batchmode paper.tex >/dev/null",
         "command -v pdflatex >/dev/null && kpsewhich booktabs.sty >/dev/null"}};
    static const char *const special[] = {"50% of A & B_1 #2 {x} ~ ^ \\ $", "<x> *b* [c] @d = -e +f /g \"h\" 'i' `j`"};
    make_rows(2);
    for (size_t i = 0; i < 2; i++) {
        set(row_at(i), "mode", json_string(special[i]));
    }
    write_rows("special.jsonl");
    temp_put_text("paper.tex",
                  "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n\\input{table.tex}\n"
                  "\\end{document}\n");
#define COLUMNS " --columns mode,avg_ns,stddev_ns,median_ns,q1_ns,q3_ns,first_step_ns "
    expect_exit("report $T/special.jsonl" COLUMNS "--output $T/table.typ", 0);
    expect_exit("report $T/special.jsonl" COLUMNS "--output $T/table.tex", 0);
    shell("grep -q '209.8 ± 1.5' $T/table.typ");
    shell("grep -qF 'textless{}x\\textgreater{}' $T/table.tex && grep -qF ' {-}e +f' $T/table.tex");
    for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
        if (system(tools[i][1]) != 0) {
            printf("skipped: %s\n", tools[i][1]);
        } else {
            shell(tools[i][0]);
        }
    }
}

TEST(costs_follow_from_prices) {
    static const char *const wrong[] = {"H100",   "=2/h",       "H100=x/h",         "H100=-2/h",
                                        "H100=2", "H100=2/day", "H100=2ABCDEFGH/h", "H100=inf/h"};
    sm_costs costs = {.train_tokens = 1e9};
    char text[SM_COST_TEXT_SIZE];
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(sm_costs_add(&costs, wrong[i]), SM_ERR_USAGE);
    }
    assert_int_equal(costs.n, 0);
    expect_ok("price", sm_costs_add(&costs, "h100=2.5EUR/h"));
    expect_ok("price", sm_costs_add(&costs, "EPYC=0.5/h"));
    json_auto_t *card = json_pack("{s:s, s:s}", "gpu_info", "NVIDIA H100 80GB", "cpu_info", "AMD EPYC 7763");
    json_auto_t *cpu = json_pack("{s:s}", "cpu_info", "AMD EPYC 7763");
    sm_costs_text(&costs, card, 1e6, text);
    assert_string_equal(text, "1,000,000,000 tokens take 16.7 min and cost 0.69 EUR; 1,440 million tokens for 1 EUR");
    sm_costs_text(&costs, cpu, 1e3, text);
    assert_string_equal(
        text, "1,000,000,000 tokens take 12 days and cost 138.89; 7.2 million tokens for 1 unit of the price");
    json_auto_t *other = json_pack("{s:s}", "cpu_info", "another");
    sm_costs_text(&costs, other, 1e3, text);
    assert_string_equal(text, "1,000,000,000 tokens take 12 days");
    sm_costs_text(NULL, other, 1e3, text);
    assert_string_equal(text, "");
    sm_costs hosts = {.train_tokens = 1e9};
    expect_ok("price", sm_costs_add(&hosts, "EPYC=0.5/h"));
    sm_costs_text(&hosts, card, 1e6, text); // a card has not its host's price
    assert_string_equal(text, "1,000,000,000 tokens take 16.7 min");
}
