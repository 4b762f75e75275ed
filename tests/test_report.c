// The report: complete, escaped, drawn. Charts need gnuplot and rendering needs chromium; where one
// is missing, that part is left out, and the test says so.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "report.h"
#include "report_charts.h"
#include "show.h"
#include "temp_folder.h"

static const char evil[] = "</td><script>alert('x')</script><img src=x onerror=alert(1)>\"'`date` & | * \x01";

static bool have(const char *program) {
    char command[128];
    snprintf(command, sizeof(command), "command -v %s >/dev/null 2>&1", program);
    int status = system(command);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

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
                            "test_time", "2026-01-02T03:04:05Z", "model_type", "small", "device", device,
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
    set(row, "flops", json_real(1e10 * batch));
    set(row, "bytes", json_real(2e9 + 1e8 * batch));
    set(row, "peak_flops", json_real(2e11));
    set(row, "peak_bandwidth", json_real(4e10));
    set(row, "context", json_pack("{s:s, s:{s:s}}", "host", "somewhere", "cpu", "name", "a processor"));
    return row;
}

static void make_rows(sm_rows *rows, size_t n) {
    static const char *const devices[] = {"cpu", "opencl:0.0"};
    static const char *const modes[] = {"naive", "fused"};
    expect_ok("init", sm_rows_init(rows));
    for (size_t i = 0; i < n; i++) {
        json_t *row = make_row(devices[i % 2], modes[i / 2 % 2], 1 << (i / 4 % 4));
        char *text = sm_record_dump(row);
        expect_ok("parse", sm_rows_parse("rows", text, strlen(text), rows)); // fills the statistics in
        free(text);
        json_decref(row);
    }
}

static json_t *row_at(sm_rows *rows, size_t i) { return json_array_get(rows->rows, i); }

// One of each trouble.
static void spoil(sm_rows *rows) {
    json_t *oom = row_at(rows, 12);
    set(oom, "status", json_string("oom"));
    set(oom, "reason", json_string(evil));
    set(oom, "samples_ns", json_array());
    json_object_del(oom, "median_ns");
    set(row_at(rows, 0), "warnings", json_pack("[s]", evil));
    set(row_at(rows, 1), "isa", json_string(evil));
    set(row_at(rows, 2), "context.host", json_string(evil));
    set(row_at(rows, 3), "n_batch", json_string("four"));
    set(row_at(rows, 5), "samples_ns", json_integer(7));
    json_array_append_new(rows->warnings, json_string(evil));
    json_t *separate = make_row("cpu", "fused", 4);
    set(separate, "pass_type", json_string("separate"));
    set(separate, "n_seq", json_integer(128));
    set(separate, "vocab", json_integer(10000));
    set(separate, "median_ns", json_integer(300000000));
    set(separate, "avg_ns", json_integer(300000000));
    set(separate, "forward_avg_ns", json_integer(100000000));
    set(separate, "backward_avg_ns", json_integer(200000000));
    json_array_append_new(rows->rows, separate);
    json_array_append_new(rows->rows, json_object());
}

static char *write_report(const sm_rows *rows, bool html, size_t *size_bytes) {
    char *text = NULL;
    FILE *out = open_memstream(&text, size_bytes);
    assert_non_null(out);
    expect_ok("report", sm_report_write(rows, html, out));
    fclose(out);
    return text;
}

static void expect_in(const char *text, const char *what) {
    if (strstr(text, what) == NULL) {
        fail_msg("the report does not hold: %s", what);
    }
}

static int count_in(const char *text, const char *what) {
    int n = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what)) {
        n++;
    }
    return n;
}

// --- contents ----------------------------------------------------------------------------------

static void expect_contents(const char *text) {
    expect_in(text, "308 ± 17.9");        // published, by size
    expect_in(text, "memory was paging"); // and what was wrong with it
    expect_in(text, "95 ± 68");           // published, forward and backward
    expect_in(text, "oom");
    expect_in(text, "a processor");
    expect_in(text, "2026-01-02T03:04:05Z");
    expect_in(text, "throughput per GiB");
    assert_null(strstr(text, "<script"));
    assert_null(strstr(text, "<img"));
    assert_null(strstr(text, "\x01"));
    assert_null(strstr(text, "nan"));
}

static void markdown(void **state) {
    (void)state;
    sm_rows rows;
    size_t size_bytes;
    make_rows(&rows, 16);
    spoil(&rows);
    char *text = write_report(&rows, false, &size_bytes);
    expect_contents(text);
    expect_in(text, "2.00"); // backward / forward
    expect_in(text, "| same |");
    free(text);
    sm_rows_free(&rows);
}

static void html(void **state) {
    (void)state;
    sm_rows rows;
    size_t size_bytes;
    if (!have("gnuplot")) {
        print_message("left out: gnuplot is not installed\n");
        skip();
    }
    make_rows(&rows, 16);
    spoil(&rows);
    char *text = write_report(&rows, true, &size_bytes);
    expect_contents(text);
    for (int kind = 0; kind < SM_CHART_COUNT; kind++) {
        expect_in(text, sm_chart_heading((sm_chart)kind));
        if (strstr(text, sm_chart_missing((sm_chart)kind)) != NULL) {
            fail_msg("no picture: %s", sm_chart_heading((sm_chart)kind));
        }
    }
    assert_int_equal(count_in(text, "<svg"), count_in(text, "</svg>"));
    assert_true(count_in(text, "<svg") >= SM_CHART_COUNT);
    // Self-contained: nothing is fetched. Names of namespaces are no addresses.
    assert_int_equal(count_in(text, "http"), count_in(text, "http://www.w3.org/"));
    assert_null(strstr(text, " src=\""));
    free(text);
    sm_rows_free(&rows);
}

// Each precision has its own ceiling, and one that was measured differently is drawn as far as it was.
static void ceilings_by_precision(void **state) {
    (void)state;
    sm_rows rows;
    sm_plots plots;
    sm_report_rows report;
    make_rows(&rows, 4);
    for (size_t i = 0; i < 4; i++) {
        set(row_at(&rows, i), "device", json_string("cpu"));
    }
    set(row_at(&rows, 0), "precision", json_string("bf16"));
    set(row_at(&rows, 0), "peak_flops", json_real(8e11));
    set(row_at(&rows, 1), "peak_bandwidth", json_real(6.6e9));
    set(row_at(&rows, 2), "peak_bandwidth", json_real(28.6e9));
    expect_ok("rows", sm_report_rows_make(rows.rows, &report));
    expect_ok("plots", sm_plots_open(&plots));
    sm_chart_roofline(&report, &plots);
    fflush(plots.script);
    expect_in(plots.script_text, "'cpu t2 bf16: 800 GFLOP/s, 40 GB/s'");
    expect_in(plots.script_text, "'cpu t2 fp32: 200 GFLOP/s, 6.6 to 40 GB/s'");
    assert_int_equal(count_in(plots.script_text, "with lines"), 3);
    sm_plots_free(&plots);
    sm_report_rows_free(&report);
    sm_rows_free(&rows);
}

static void a_thousand_rows(void **state) {
    (void)state;
    sm_rows rows;
    size_t size_bytes;
    struct timespec begin;
    struct timespec end;
    make_rows(&rows, 1000);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    char *text = write_report(&rows, have("gnuplot"), &size_bytes);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true(size_bytes < 5000000);
    if (!(end.tv_sec - begin.tv_sec < 30)) { // 5 s where nothing else runs, and not under sanitizers
        fail_msg("%lld s for a report of 1,000 rows", (long long)(end.tv_sec - begin.tv_sec));
    }
    free(text);
    sm_rows_free(&rows);
}

// --- rendered ----------------------------------------------------------------------------------

// Runs in the page: what each picture shows, and what went wrong.
static const char probe[] =
    "<script>window.onerror=function(m){document.body.dataset.failed=m};"
    "addEventListener('load',function(){var empty=[],n=0;"
    "document.querySelectorAll('svg').forEach(function(s,i){n++;var marks=0;"
    "s.querySelectorAll('g[id*=_plot_] path,g[id*=_plot_] use,g[id*=_plot_] polygon').forEach(function(e){"
    "var b=e.getBoundingClientRect(),c=getComputedStyle(e);"
    "if((b.width>0||b.height>0)&&(c.stroke!='none'||c.fill!='none'))marks+=b.width>60&&b.height>60?2:1});"
    "if(marks<2||s.getBoundingClientRect().width<200||!s.querySelector('text'))empty.push(i+':'+s.getAttribute('aria-"
    "label')+marks)});"
    "var r=document.createElement('p');r.id='probe';"
    "r.textContent='pictures '+n+' empty '+empty.length+' '+empty.join(' ')+' wide "
    "'+(document.documentElement.scrollWidth>innerWidth)"
    "+' ink '+getComputedStyle(document.querySelector('svg text')).fill"
    "+' failed '+(document.body.dataset.failed||'nothing');"
    "document.body.appendChild(r)})</script></body>";

static char *render(const char *page, const char *flags) {
    char command[1024];
    size_t size_bytes;
    char *out = temp_path("dom.html");
    snprintf(command, sizeof(command),
             "chromium --headless --no-sandbox --disable-gpu --enable-logging=stderr --user-data-dir=%s/profile %s "
             "--dump-dom file://%s >%s 2>%s/console </dev/null",
             temp_folder, flags, page, out, temp_folder);
    int status = system(command);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    char *text = temp_read(out, &size_bytes);
    char *console_path = temp_path("console");
    char *console = temp_read(console_path, &size_bytes);
    if (strstr(console, "CONSOLE") != NULL) {
        fail_msg("the browser's console: %s", strstr(console, "CONSOLE"));
    }
    free(console);
    free(console_path);
    free(out);
    return text;
}

static void rendered(void **state) {
    (void)state;
    sm_rows rows;
    size_t size_bytes;
    if (!have("gnuplot") || !have("chromium")) {
        print_message("left out: gnuplot or chromium is not installed\n");
        skip();
    }
    make_rows(&rows, 16);
    spoil(&rows);
    char *text = write_report(&rows, true, &size_bytes);
    int n_pictures = count_in(text, "<svg");
    char *end = strstr(text, "</body>");
    assert_non_null(end);
    char *path = temp_path("page.html");
    FILE *page = fopen(path, "w");
    fprintf(page, "%.*s%s</html>", (int)(end - text), text, probe);
    fclose(page);
    static const char *const screens[] = {"--window-size=1200,900", "--window-size=500,800",
                                          "--window-size=1200,900 --blink-settings=preferredColorScheme=0"};
    char *found[3];
    for (int i = 0; i < 3; i++) {
        char expected[64];
        char *dom = render(path, screens[i]);
        found[i] = strstr(dom, "<p id=\"probe\">");
        assert_non_null(found[i]);
        found[i] = strndup(found[i], 200);
        snprintf(expected, sizeof(expected), "pictures %d empty 0  wide false", n_pictures);
        if (strstr(found[i], expected) == NULL || strstr(found[i], "failed nothing") == NULL) {
            fail_msg("%s: %s, not %s", screens[i], found[i], expected);
        }
        free(dom);
    }
    assert_string_equal(found[0], found[1]);
    assert_string_not_equal(found[0], found[2]); // the ink of the dark scheme is another
    for (int i = 0; i < 3; i++) {
        free(found[i]);
    }
    free(path);
    free(text);
    sm_rows_free(&rows);
}

// --- the program -------------------------------------------------------------------------------

static int run(const char *arguments) {
    char command[1024];
    snprintf(command, sizeof(command), "T=%s; export T; { %s; } >%s/out 2>&1 </dev/null", temp_folder, arguments,
             temp_folder);
    int status = system(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void program(void **state) {
    (void)state;
    static const struct {
        const char *arguments;
        int code;
        const char *says;
    } cases[] = {
        {SM_TEST_BINARY " report $T/rows.jsonl --output $T/report.md && cat $T/report.md", 0, "## All rows"},
        {SM_TEST_BINARY " report $T/rows.jsonl $T/rows.jsonl --format md", 0, "32 rows"},
        {SM_TEST_BINARY " report", 2, "give result files"},
        {SM_TEST_BINARY " report $T/none.jsonl --format md", 1, "cannot open"},
        {"P=$PATH; PATH=/nonexistent " SM_TEST_BINARY
         " report $T/rows.jsonl --output $T/x.html; PATH=$P; cat $T/x.html",
         0, "apt-get install gnuplot-nox"},
        {"PATH=/nonexistent " SM_TEST_BINARY " report $T/rows.jsonl", 0, "All rows</h2>"},
        {SM_TEST_BINARY " schema", 0, "\"samples_ns\""},
    };
    sm_rows rows;
    char *path = temp_path("rows.jsonl");
    make_rows(&rows, 16);
    FILE *file = fopen(path, "w");
    for (size_t i = 0; i < json_array_size(rows.rows); i++) {
        json_dumpf(row_at(&rows, i), file, JSON_COMPACT);
        fputc('\n', file);
    }
    fclose(file);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t size_bytes;
        int code = run(cases[i].arguments);
        char *out_path = temp_path("out");
        char *out = temp_read(out_path, &size_bytes);
        if (code != cases[i].code || strstr(out, cases[i].says) == NULL) {
            fail_msg("%s: exit %d\n%.2000s", cases[i].arguments, code, out);
        }
        free(out);
        free(out_path);
    }
    free(path);
    sm_rows_free(&rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markdown),        cmocka_unit_test(html),     cmocka_unit_test(ceilings_by_precision),
        cmocka_unit_test(a_thousand_rows), cmocka_unit_test(rendered), cmocka_unit_test(program),
    };
    return cmocka_run_group_tests(tests, temp_folder_make, temp_folder_remove);
}
