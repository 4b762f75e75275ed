// bundle.c: `report --bundle` puts rows into one file for others; `--rank` makes one table from many such files.
#include <stdlib.h>
#include <string.h>

#include "bench/compare/compare.h"
#include "bench/report/report.h"
#include "bench/rows/read_rows.h"
#include "bench/rows/machine.h"
#include "bench/tables/show.h"
#include "cli/output/output.h"
#include "cli/rows/rows.h"
#include "src/io/atomic_file.h"

sm_status cli_bundle(const cli_options *options) {
    SM_AT_END(sm_rows_free) sm_rows rows = {0};
    SM_OWN(json_t) *machine = NULL;
    SM_FREED char *text = NULL;
    size_t size_bytes = 0;
    SM_FAIL_IF(options->n_operands == 0 || options->out.report_file == NULL, SM_ERR_USAGE,
               "give result files, and a name: stepmark report ROWS... --bundle FILE");
    sm_rows_init(&rows);
    SM_TRY(cli_rows_read(options, NULL, &rows));
    machine = sm_machine_facts(options->argc, options->argv);
    sm_bundle_make(rows.rows, machine, &text, &size_bytes);
    SM_TRY(sm_atomic_write_all(options->out.report_file, text, size_bytes));
    cli_note("%s: %zu row%s, %zu kB", options->out.report_file, json_array_size(rows.rows),
             sm_plural(json_array_size(rows.rows)), size_bytes / 1000);
    return SM_OK;
}

static sm_status read_bundles(const cli_options *options, json_t *rows) {
    for (int i = 0; i < options->n_operands; i++) {
        json_t *more = NULL;
        if (cli_interrupted) {
            return SM_ERR_INTERRUPTED;
        }
        SM_TRY(sm_bundle_read(options->operands[i], &more));
        json_array_extend(rows, more);
        json_decref(more);
    }
    return SM_OK;
}

typedef struct {
    json_t *records;
    json_t *refused;
} board;

static sm_status write_board(void *what, FILE *out) {
    const board *b = what;
    sm_leaderboard_page(b->records, b->refused, out);
    return SM_OK;
}

// The reason of one with figures, if there is one.
static const char *why_refused(const json_t *refused) {
    size_t i;
    json_t *record;
    json_array_foreach((json_t *)refused, i, record) {
        if (strcmp(sm_rows_text(record, "status"), "ok") == 0) {
            return sm_rows_text(record, "reason");
        }
    }
    return "they failed";
}

static sm_status show_board(const cli_options *options, board *b, size_t n_rows) {
    const size_t n_refused = json_array_size(b->refused);
    SM_TRY(sm_record_write_all(&sm_leaderboard_table, (sm_format)options->out.format, stdout, b->records));
    if (n_refused > 0) {
        cli_note("%zu of %zu rows left out: %s%s", n_refused, n_rows, why_refused(b->refused),
                 options->out.page != NULL ? "; the page lists them" : "");
    }
    return options->out.page != NULL ? cli_write_page(options->out.page, write_board, b, "") : SM_OK;
}

static void release(board *b) {
    json_decref(b->records);
    json_decref(b->refused);
}

sm_status cli_leaderboard(const cli_options *options) {
    SM_OWN(json_t) *rows = json_array();
    SM_OWN(json_t) *references = NULL;
    SM_AT_END(release) board b = {NULL, NULL};
    sm_costs costs;
    SM_TRY(cli_costs(options, &costs));
    SM_FAIL_IF(options->n_operands == 0 && options->measure.no_reference, SM_ERR_USAGE,
               "give bundles: stepmark report --rank FILE...");
    SM_TRY(options->measure.no_reference ? SM_OK : sm_bundle_references(&references));
    SM_TRY(read_bundles(options, rows));
    sm_leaderboard_make(rows, references, &costs, &b.records, &b.refused);
    const sm_status status = show_board(options, &b, json_array_size(rows));
    // Whether references are among the records, or why not, for a person.
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(b.records); i++) {
        n += sm_leaderboard_is_reference(json_array_get(b.records, i));
    }
    if (n > 0) {
        cli_note("%zu row%s marked ref (reference) came with stepmark (--no-reference leaves them out)", n,
                 sm_plural(n));
    } else if (json_array_size(references) > 0) {
        cli_note("no reference row did this work; `stepmark report --rank` alone shows which did what");
    }
    return status;
}
