// recommend.c: `report --best`.
#include "cli/rows/rows.h"

#include <stdlib.h>

#include "bench/compare/best_rows.h"
#include "bench/report/report.h"
#include "bench/rows/read_rows.h"
#include "bench/tables/show.h"
#include "cli/flags/options.h"
#include "cli/output/notes.h"
#include "src/io/shell_word.h"

sm_status cli_recommend_print(const json_t *rows, sm_format format, size_t *n) {
    json_t *records = sm_recommend(rows);
    *n = json_array_size(records);
    const sm_status status = sm_record_write_all(&sm_recommend_table, format, stdout, records);
    json_decref(records);
    return status;
}

// Where the rows of each file begin among all.
typedef struct {
    char **paths;
    size_t *first;
    int n;
} row_files;

static size_t file_of(const row_files *files, size_t row) {
    size_t i = (size_t)files->n - 1;
    while (files->first[i] > row) {
        i--;
    }
    return i;
}

sm_status cli_answer_print(const json_t *rows, const sm_costs *costs, int *best) {
    sm_report_rows report;
    char text[SM_ANSWER_SIZE];
    char reason[SM_ANSWER_SIZE];
    sm_report_rows_make(rows, &report);
    const sm_report_row *row = sm_report_answer(&report, costs, text, reason);
    printf("\n%s%s%s\n", text, reason[0] != '\0' ? " " : "", reason);
    *best = row != NULL && json_array_size(json_object_get(row->json, "run_args")) > 0 ? row->index : -1;
    sm_report_rows_free(&report);
    return SM_OK;
}

void cli_again_print(const char *path, size_t row) {
    char word[SM_SHELL_PATH_SIZE];
    printf("\n    stepmark compare %s#%zu\n", sm_shell_path(path, word), row + 1);
}

// In the end one sentence, and one command.
static sm_status print_answer(const cli_options *options, const json_t *rows, const row_files *files) {
    sm_costs costs;
    int best;
    SM_TRY(cli_costs(options, &costs));
    SM_TRY(cli_answer_print(rows, &costs, &best));
    if (best >= 0) {
        const size_t file = file_of(files, (size_t)best);
        cli_again_print(files->paths[file], (size_t)best - files->first[file]);
    }
    return SM_OK;
}

sm_status cli_recommend(const cli_options *options) {
    sm_status status = SM_OK;
    sm_rows rows;
    size_t i;
    json_t *warning;
    size_t n = 0;
    if (options->n_operands == 0) {
        return sm_fail(SM_ERR_USAGE, "give files of rows (JSON or JSONL): stepmark report --best FILE...");
    }
    sm_rows_init(&rows);
    rows.interrupted = &cli_interrupted;
    row_files files = {options->operands, calloc((size_t)options->n_operands, sizeof(size_t)), options->n_operands};
    if (files.first == NULL) {
        SM_TRY_GOTO(sm_fail(SM_ERR_OOM, "no memory for %d files", files.n));
    }
    for (int file = 0; file < options->n_operands; file++) {
        files.first[file] = json_array_size(rows.rows);
        SM_TRY_GOTO(sm_rows_read(options->operands[file], &rows));
    }
    json_array_foreach(rows.warnings, i, warning) { cli_note("%s", json_string_value(warning)); }
    SM_TRY_GOTO(cli_recommend_print(rows.rows, (sm_format)options->out.format, &n));
    if (n > 0 && sm_format_is_read((sm_format)options->out.format)) {
        SM_TRY_GOTO(print_answer(options, rows.rows, &files));
    }
    if (n == 0) {
        cli_note("%zu row%s: nothing to choose between", json_array_size(rows.rows),
                 sm_plural(json_array_size(rows.rows)));
    }
cleanup:
    free(files.first);
    sm_rows_free(&rows);
    return status;
}
