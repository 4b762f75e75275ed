// recommend.c: the subcommand `recommend`.
#include "cli/rows/rows.h"

#include "bench/compare/best_rows.h"
#include "bench/rows/read_rows.h"
#include "bench/tables/show.h"
#include "cli/flags/options.h"
#include "cli/output/notes.h"

sm_status cli_recommend_print(const json_t *rows, sm_format format, size_t *n) {
    json_t *records = NULL;
    sm_record_writer *writer = NULL;
    size_t i;
    json_t *record;
    SM_TRY(sm_recommend(rows, &records));
    *n = json_array_size(records);
    sm_status status = sm_record_writer_open(&sm_recommend_table, format, stdout, &writer);
    json_array_foreach(records, i, record) {
        if (status == SM_OK) {
            status = sm_record_write(writer, json_incref(record));
        }
    }
    sm_status closed = sm_record_writer_close(writer);
    json_decref(records);
    return status != SM_OK ? status : closed;
}

sm_status cli_recommend(const cli_options *options) {
    sm_status status = SM_OK;
    sm_rows rows;
    size_t i;
    json_t *warning;
    size_t n = 0;
    if (options->n_operands == 0) {
        return sm_fail(SM_ERR_USAGE, "recommend: give files of rows (JSON or JSONL)");
    }
    SM_TRY(sm_rows_init(&rows));
    rows.interrupted = &cli_interrupted;
    for (int file = 0; file < options->n_operands; file++) {
        SM_TRY_GOTO(sm_rows_read(options->operands[file], &rows));
    }
    json_array_foreach(rows.warnings, i, warning) { cli_note("%s", json_string_value(warning)); }
    SM_TRY_GOTO(cli_recommend_print(rows.rows, (sm_format)options->output, &n));
    if (n == 0) {
        cli_note("%zu row%s: nothing to choose between", json_array_size(rows.rows),
                 sm_plural(json_array_size(rows.rows)));
    }
cleanup:
    sm_rows_free(&rows);
    return status;
}
