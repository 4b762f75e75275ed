// cli_report.c: a page from result files.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "atomic_file.h"
#include "cli_commands.h"
#include "report.h"
#include "screen.h"

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

static sm_status write_page(const cli_options *options, const sm_rows *rows) {
    char *text = NULL;
    size_t size_bytes = 0;
    FILE *out = open_memstream(&text, &size_bytes);
    if (out == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a report");
    }
    sm_status status = sm_report_write(rows, wants_html(options), out);
    print_warnings(rows);
    bool failed = ferror(out) != 0; // a stream into memory is short of it only while it is written to
    if ((fclose(out) != 0 || failed) && status == SM_OK) {
        status = sm_fail(SM_ERR_OOM, "no memory for a report");
    }
    if (status == SM_OK && options->report_file == NULL) {
        fwrite(text, 1, size_bytes, stdout);
    } else if (status == SM_OK) {
        status = sm_atomic_write_all(options->report_file, text, size_bytes);
    }
    if (status == SM_OK && options->report_file != NULL) {
        cli_note("%s: %zu rows, %zu kB", options->report_file, json_array_size(rows->rows), size_bytes / 1000);
    }
    free(text);
    return status;
}

sm_status cli_report(const cli_options *options) {
    sm_rows rows;
    sm_status status = SM_OK;
    if (options->n_operands == 0) {
        return sm_fail(SM_ERR_USAGE, "give result files: stepmark report FILE... --output report.html");
    }
    SM_TRY(sm_rows_init(&rows));
    rows.interrupted = &cli_interrupted;
    for (int i = 0; i < options->n_operands; i++) {
        SM_TRY_GOTO(sm_rows_read(options->operands[i], &rows));
    }
    status = write_page(options, &rows);
cleanup:
    sm_rows_free(&rows);
    return status;
}
