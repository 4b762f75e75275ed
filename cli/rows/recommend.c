// recommend.c: `report --best`.
#include "cli/rows/rows.h"

#include <stdlib.h>

#include "bench/compare/best_rows.h"
#include "bench/report/report.h"
#include "bench/tables/show.h"
#include "cli/output/output.h"
#include "src/io/shell_word.h"

sm_status cli_recommend_print(const json_t *rows, sm_format format, size_t *n) {
    SM_OWN(json_t) *records = sm_recommend(rows);
    *n = json_array_size(records);
    return sm_record_write_all(&sm_recommend_table, format, stdout, records);
}

int cli_answer_print(const json_t *rows, const sm_costs *costs, FILE *out) {
    SM_AT_END(sm_report_rows_free) sm_report_rows report = {0};
    char text[SM_ANSWER_SIZE], reason[SM_ANSWER_SIZE];
    sm_report_rows_make(rows, &report);
    const sm_report_row *row = sm_report_answer(&report, costs, text, reason);
    if (text[0] != '\0') {
        fprintf(out, "\n%s%s%s\n", text, reason[0] != '\0' ? " " : "", reason);
    }
    return row != NULL && json_array_size(json_object_get(row->json, "run_args")) > 0 ? row->index : -1;
}

void cli_again_print(const char *path, size_t row) {
    char word[SM_SHELL_PATH_SIZE];
    printf("\n    stepmark compare %s#%zu\n", sm_shell_path(path, word), row + 1);
}

sm_status cli_recommend(const cli_options *options) {
    const sm_format format = (sm_format)options->out.format;
    SM_AT_END(sm_rows_free) sm_rows rows = {0};
    sm_costs costs;
    size_t n = 0;
    int file = options->n_operands - 1;
    SM_FAIL_IF(options->n_operands == 0, SM_ERR_USAGE,
               "give files of rows (JSON or JSONL): stepmark report --best FILE...");
    SM_FREED size_t *first = sm_calloc((size_t)options->n_operands, sizeof(*first));
    sm_rows_init(&rows);
    SM_TRY(cli_rows_read(options, first, &rows));
    SM_TRY(cli_recommend_print(rows.rows, format, &n));
    if (n > 0 && sm_format_is_read(format)) { // in the end one sentence, and one command
        SM_TRY(cli_costs(options, &costs));
        const int best = cli_answer_print(rows.rows, &costs, stdout);
        while (best >= 0 && first[file] > (size_t)best) {
            file--;
        }
        if (best >= 0) {
            cli_again_print(options->operands[file], (size_t)best - first[file]);
        }
    }
    if (n == 0) {
        cli_note("%zu row%s: nothing to choose between", json_array_size(rows.rows),
                 sm_plural(json_array_size(rows.rows)));
    }
    return SM_OK;
}
