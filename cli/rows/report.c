// report.c: makes a page from result files.
#include <stdio.h>
#include <string.h>

#include "bench/report/report.h"
#include "bench/tables/screen.h"
#include "bench/tables/show.h"
#include "cli/flags/options.h"
#include "cli/output/files.h"
#include "cli/output/notes.h"

static bool ends_with(const char *text, const char *end) {
    size_t n_text = strlen(text);
    size_t n_end = strlen(end);
    return n_text >= n_end && strcmp(text + n_text - n_end, end) == 0;
}

static bool wants_html(const cli_options *options) {
    const char *file = options->report_file;
    if (options->report_format != CLI_REPORT_AUTO) {
        return options->report_format == CLI_REPORT_HTML;
    }
    if (file == NULL) {
        return sm_screen_width(stdout) == 0;
    }
    return !(ends_with(file, ".md") || ends_with(file, ".markdown"));
}

static void print_warnings(const sm_rows *rows) {
    for (size_t i = 0; i < json_array_size(rows->warnings); i++) {
        cli_note("warning: %s", json_string_value(json_array_get(rows->warnings, i)));
    }
}

typedef struct {
    const sm_rows *rows;
    bool html;
} report;

static sm_status write_report(void *what, FILE *out) {
    const report *r = what;
    return sm_report_write(r->rows, r->html, out);
}

static sm_status write_page(const cli_options *options, const sm_rows *rows) {
    char n_rows[64];
    report r = {rows, wants_html(options)};
    const size_t n = json_array_size(rows->rows) + json_array_size(rows->rungs);
    snprintf(n_rows, sizeof(n_rows), "%zu row%s, ", n, sm_plural(n));
    print_warnings(rows);
    return cli_write_page(options->report_file, write_report, &r, n_rows);
}

sm_status cli_report(const cli_options *options) {
    sm_rows rows;
    sm_status status = SM_OK;
    if (options->n_operands == 0) {
        return sm_fail(SM_ERR_USAGE, "give result files: stepmark report FILE... --output report.html");
    }
    SM_TRY(sm_rows_init(&rows));
    SM_TRY_GOTO(sm_rows_take_rungs(&rows));
    rows.interrupted = &cli_interrupted;
    for (int i = 0; i < options->n_operands; i++) {
        SM_TRY_GOTO(sm_rows_read(options->operands[i], &rows));
    }
    status = write_page(options, &rows);
cleanup:
    sm_rows_free(&rows);
    return status;
}
