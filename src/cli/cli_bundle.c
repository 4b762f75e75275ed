// cli_bundle.c: `bundle` puts rows into one file for others, `leaderboard` makes one table of many such files.
#include <stdlib.h>

#include "atomic_file.h"
#include "bundle.h"
#include "cli_commands.h"
#include "leaderboard.h"
#include "machine.h"
#include "read_rows.h"

static sm_status write_bundle(const cli_options *options, const sm_rows *rows) {
    json_t *machine = NULL;
    char *text = NULL;
    size_t size_bytes = 0;
    SM_TRY(sm_machine_facts(options->argc, options->argv, &machine));
    sm_status status = sm_bundle_make(rows->rows, machine, &text, &size_bytes);
    if (status == SM_OK) {
        status = sm_atomic_write_all(options->report_file, text, size_bytes);
    }
    if (status == SM_OK) {
        cli_note("%s: %zu rows, %zu kB", options->report_file, json_array_size(rows->rows), size_bytes / 1000);
    }
    free(text);
    json_decref(machine);
    return status;
}

sm_status cli_bundle(const cli_options *options) {
    sm_rows rows;
    sm_status status = SM_OK;
    size_t i;
    json_t *warning;
    if (options->n_operands == 0 || options->report_file == NULL) {
        return sm_fail(SM_ERR_USAGE, "give result files, and a name: stepmark bundle ROWS... --output FILE");
    }
    SM_TRY(sm_rows_init(&rows));
    rows.interrupted = &cli_interrupted;
    for (int file = 0; file < options->n_operands; file++) {
        SM_TRY_GOTO(sm_rows_read(options->operands[file], &rows));
    }
    json_array_foreach(rows.warnings, i, warning) { cli_note("%s", json_string_value(warning)); }
    status = write_bundle(options, &rows);
cleanup:
    sm_rows_free(&rows);
    return status;
}

static sm_status read_bundles(const cli_options *options, json_t *rows) {
    for (int i = 0; i < options->n_operands; i++) {
        json_t *more = NULL;
        if (cli_interrupted) {
            return SM_ERR_INTERRUPTED;
        }
        SM_TRY(sm_bundle_read(options->operands[i], &more));
        const int failed = json_array_extend(rows, more);
        json_decref(more);
        if (failed != 0) {
            return sm_fail(SM_ERR_OOM, "no memory for the rows of %s", options->operands[i]);
        }
    }
    return SM_OK;
}

sm_status cli_leaderboard(const cli_options *options) {
    json_t *rows = json_array();
    json_t *records = NULL;
    size_t n_refused = 0;
    sm_status status = SM_OK;
    if (options->n_operands == 0) {
        SM_TRY_GOTO(sm_fail(SM_ERR_USAGE, "give bundles: stepmark leaderboard FILE..."));
    }
    SM_TRY_GOTO(rows != NULL ? SM_OK : sm_fail(SM_ERR_OOM, "no memory for a leaderboard"));
    SM_TRY_GOTO(read_bundles(options, rows));
    SM_TRY_GOTO(sm_leaderboard_make(rows, &records, &n_refused));
    SM_TRY_GOTO(sm_record_write_all(&sm_leaderboard_table, (sm_format)options->output, stdout, records));
    if (n_refused > 0) {
        cli_note("%zu of %zu rows are left out: they failed, or no check was made", n_refused, json_array_size(rows));
    }
cleanup:
    json_decref(records);
    json_decref(rows);
    return status;
}
