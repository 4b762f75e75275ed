// report.c: makes a page from result files, or from trainings.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ends_with.h"
#include "bench/curves/curves.h"
#include "bench/report/report.h"
#include "bench/tables/screen.h"
#include "bench/tables/show.h"
#include "cli/flags/options.h"
#include "cli/output/files.h"
#include "cli/output/notes.h"
#include "cli/rows/rows.h"
#include "src/io/atomic_file.h"
#include "src/io/shell_word.h"

static cli_report_format format_of(const cli_options *options) {
    const char *file = options->out.report_file;
    if (options->out.report_format != CLI_REPORT_AUTO) {
        return (cli_report_format)options->out.report_format;
    }
    if (file == NULL) {
        return sm_screen_width(stdout) == 0 ? CLI_REPORT_HTML : CLI_REPORT_MARKDOWN;
    }
    if (sm_ends_with(file, ".csv")) {
        return CLI_REPORT_CSV;
    }
    return sm_ends_with(file, ".md") || sm_ends_with(file, ".markdown") ? CLI_REPORT_MARKDOWN : CLI_REPORT_HTML;
}

sm_status cli_costs(const cli_options *options, sm_costs *costs) {
    *costs = (sm_costs){.train_tokens = options->out.train_tokens};
    for (int i = 0; i < options->out.prices.n; i++) {
        SM_TRY(sm_costs_add(costs, options->out.prices.texts[i]));
    }
    return SM_OK;
}

static void print_warnings(const sm_rows *rows) {
    for (size_t i = 0; i < json_array_size(rows->warnings); i++) {
        cli_note("warning: %s", json_string_value(json_array_get(rows->warnings, i)));
    }
}

typedef struct {
    const sm_rows *rows;
    sm_costs costs;
    bool html;
} report;

static sm_status write_report(void *what, FILE *out) {
    const report *r = what;
    return sm_report_write(r->rows, &r->costs, r->html, out);
}

static sm_status write_page(const cli_options *options, const sm_rows *rows) {
    char n_rows[64];
    report r = {.rows = rows, .html = format_of(options) == CLI_REPORT_HTML};
    SM_TRY(cli_costs(options, &r.costs));
    const size_t n = json_array_size(rows->rows) + json_array_size(rows->rungs);
    snprintf(n_rows, sizeof(n_rows), "%zu row%s, ", n, sm_plural(n));
    print_warnings(rows);
    return cli_write_page(options->out.report_file, write_report, &r, n_rows);
}

// --- trainings -----------------------------------------------------------------------------------

typedef struct {
    const sm_curves *curves;
    cli_report_format format;
} curves_report;

static sm_status write_curves(void *what, FILE *out) {
    const curves_report *r = what;
    return r->format == CLI_REPORT_CSV ? sm_curves_csv(r->curves, out)
                                       : sm_curves_page(r->curves, r->format == CLI_REPORT_HTML, out);
}

static sm_status write_event_file(const char *folder, const sm_curve *curve) {
    char path[PATH_MAX];
    char *bytes = NULL;
    size_t size_bytes = 0;
    const char *slash = strrchr(curve->name, '/');
    const char *name = slash != NULL ? slash + 1 : curve->name;
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path) - 64) {
        return sm_fail(SM_ERR_IO, "%.100s...: the path is too long", path);
    }
    SM_TRY(sm_make_folder(folder));
    SM_TRY(sm_make_folder(path));
    FILE *out = open_memstream(&bytes, &size_bytes);
    if (out == NULL) {
        return sm_fail(SM_ERR_OOM, "%s: no memory for its events", path);
    }
    sm_status status = sm_curve_events(curve, out);
    if (fclose(out) != 0 && status == SM_OK) {
        status = sm_fail(SM_ERR_OOM, "%s: no memory for its events", path);
    }
    strcat(path, "/events.out.tfevents.0.stepmark");
    status = status == SM_OK ? sm_atomic_write_all(path, bytes, size_bytes) : status;
    free(bytes);
    return status;
}

static sm_status report_trainings(const cli_options *options) {
    sm_curves curves;
    char n_runs[64];
    sm_status status = SM_OK;
    SM_TRY(sm_curves_read(options->operands, options->n_operands, &curves));
    curves_report r = {&curves, format_of(options)};
    snprintf(n_runs, sizeof(n_runs), "%zu training%s, ", curves.n, sm_plural(curves.n));
    for (size_t i = 0; i < curves.n && options->out.tensorboard != NULL && status == SM_OK; i++) {
        status = write_event_file(options->out.tensorboard, &curves.curves[i]);
    }
    if (status == SM_OK && options->out.tensorboard != NULL) {
        char word[SM_SHELL_PATH_SIZE];
        cli_note("%s: %stensorboard --logdir %s shows them", options->out.tensorboard, n_runs,
                 sm_shell_path(options->out.tensorboard, word));
    }
    if (status == SM_OK && (options->out.tensorboard == NULL || options->out.report_file != NULL)) {
        status = cli_write_page(options->out.report_file, write_curves, &r, n_runs);
    }
    sm_curves_free(&curves);
    return status;
}

// Trainings and rows have no common page.
static sm_status count_trainings(const cli_options *options, int *n) {
    *n = 0;
    for (int i = 0; i < options->n_operands; i++) {
        *n += sm_curves_is_training(options->operands[i]);
    }
    if (*n > 0 && *n < options->n_operands) {
        return sm_fail(SM_ERR_USAGE, "%d of %d are trainings, the others result files; give either", *n,
                       options->n_operands);
    }
    if (*n == 0 && (options->out.tensorboard != NULL || format_of(options) == CLI_REPORT_CSV)) {
        return sm_fail(SM_ERR_USAGE, "%s: of trainings only; give run folders (train --run) or logs (train --log)",
                       options->out.tensorboard != NULL ? "--tensorboard" : "csv");
    }
    return SM_OK;
}

sm_status cli_report(const cli_options *options) {
    sm_rows rows;
    int n_trainings;
    sm_status status = SM_OK;
    if (options->n_operands == 0) {
        return sm_fail(SM_ERR_USAGE, "give result files, or run folders: stepmark report FILE... --output report.html");
    }
    SM_TRY(count_trainings(options, &n_trainings));
    if (options->out.watch &&
        (n_trainings == 0 || options->out.report_file != NULL || options->out.tensorboard != NULL)) {
        return sm_fail(SM_ERR_USAGE, "--watch: %s",
                       n_trainings == 0 ? "of trainings only; give run folders (train --run) or logs (train --log)"
                                        : "serves the page; leave out --output and --tensorboard");
    }
    if (options->out.watch) {
        return cli_report_watch(options);
    }
    if (n_trainings > 0) {
        return report_trainings(options);
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
