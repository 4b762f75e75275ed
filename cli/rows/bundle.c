// bundle.c: `report --bundle` puts rows into one file for others; `--rank` makes one table from many such files.
#include <stdlib.h>
#include <string.h>

#include "bench/report/report.h"
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

static sm_status write_board(void *board, FILE *out) {
    sm_leaderboard_page(json_array_get(board, 0), json_array_get(board, 1), out);
    return SM_OK;
}

sm_status cli_leaderboard(const cli_options *options) {
    SM_OWN(json_t) *rows = json_array();
    SM_OWN(json_t) *references = NULL;
    SM_OWN(json_t) *records = NULL;
    SM_OWN(json_t) *refused = NULL;
    sm_costs costs;
    SM_TRY(cli_costs(options, &costs));
    SM_FAIL_IF(options->n_operands == 0 && options->measure.no_reference, SM_ERR_USAGE,
               "give bundles: stepmark report --rank FILE...");
    references = options->measure.no_reference ? NULL : sm_bundle_references();
    for (int i = 0; i < options->n_operands; i++) {
        SM_OWN(json_t) *more = NULL;
        SM_TRY(cli_interrupted ? SM_ERR_INTERRUPTED : sm_bundle_read(options->operands[i], &more));
        json_array_extend(rows, more);
    }
    sm_leaderboard_make(rows, references, &costs, &records, &refused);
    SM_OWN(json_t) *board = json_pack("[O, O]", records, refused);
    SM_TRY(sm_record_write_all(&sm_leaderboard_table, (sm_format)options->out.format, stdout, records));
    if (json_array_size(refused) > 0) {
        const char *why = "they failed"; // or the reason of one with figures
        for (size_t i = json_array_size(refused); i-- > 0;) {
            const json_t *record = json_array_get(refused, i);
            why = strcmp(sm_rows_text(record, "status"), "ok") == 0 ? sm_rows_text(record, "reason") : why;
        }
        cli_note("%zu of %zu rows left out: %s%s", json_array_size(refused), json_array_size(rows), why,
                 options->out.page != NULL ? "; the page lists them" : "");
    }
    const sm_status status =
        options->out.page != NULL ? cli_write_page(options->out.page, write_board, board, "") : SM_OK;
    // Whether references are among the records, or why not, for a person.
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(records); i++) {
        n += sm_leaderboard_is_reference(json_array_get(records, i));
    }
    if (n > 0) {
        cli_note("%zu row%s marked ref (reference) came with stepmark (--no-reference leaves them out)", n,
                 sm_plural(n));
    } else if (json_array_size(references) > 0) {
        cli_note("no reference row did this work; `stepmark report --rank` alone shows which did what");
    }
    return status;
}
