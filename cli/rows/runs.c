// runs.c: checks trainings by their run folders, and compares them over numbers of processes.

#include "bench/runs/run_check.h"
#include "bench/runs/scaling.h"
#include "bench/tables/layout.h"
#include "cli/flags/options.h"
#include "cli/output/output.h"

// --- check-run -----------------------------------------------------------------------------------

sm_status cli_check_run(const cli_options *options) {
    SM_AT_END(sm_training_runs_free) sm_training_runs runs = {0};
    size_t n_rejected = 0;
    SM_FAIL_IF(options->n_operands == 0, SM_ERR_USAGE,
               "give run folders, or their training_metrics.json: stepmark report --check RUN...");
    sm_training_runs_read(options->operands, options->n_operands, &runs);
    sm_training_runs_compare(&runs, options->compare.weak ? SM_WORK_FIXED_A_PROCESS : SM_WORK_FIXED);
    SM_OWN(json_t) *records = sm_training_runs_records(&runs);
    SM_TRY(sm_record_write_all(&sm_run_check_table, (sm_format)options->out.format, stdout, records));
    for (size_t i = 0; i < runs.n; i++) {
        n_rejected += json_array_size(runs.runs[i].problems) > 0;
    }
    // Tables show the reasons; with other formats the message has the first.
    const sm_status status = sm_training_runs_verdict(&runs);
    SM_FAIL_IF(status == SM_ERR_INVALID && sm_format_is_read((sm_format)options->out.format), status,
               "%zu of %zu run%s rejected", n_rejected, runs.n, runs.n == 1 ? "" : "s");
    return status;
}

// --- scaling -------------------------------------------------------------------------------------

static sm_status write_table(const sm_scaling *scaling, sm_format format, sm_work work, size_t least,
                             const char *title) {
    SM_OWN(json_t) *records = sm_scaling_records(scaling, &work);
    sm_status status = SM_OK;
    if (json_array_size(records) >= least) {
        printf("%s\n\n", title);
        status = sm_record_write_all(&sm_scaling_table, format, stdout, records);
        putchar('\n');
    }
    return status;
}

// Formats for people: md or text.
static sm_status write_tables(const sm_scaling *scaling, sm_format format) {
    const size_t least = scaling->n > 2 ? 2 : 1; // each table begins with the run of fewest processes
    SM_TRY(
        write_table(scaling, format, SM_WORK_FIXED, least, "Strong scaling: the same work, shared by more processes"));
    SM_TRY(write_table(scaling, format, SM_WORK_FIXED_A_PROCESS, 2, "Weak scaling: the same work for each process"));
    for (size_t i = 0; i < json_array_size(scaling->notes); i++) {
        fputs("- ", stdout);
        const char *note = json_string_value(json_array_get(scaling->notes, i));
        if (format == SM_FORMAT_MARKDOWN) {
            sm_markdown_text(note, stdout);
        } else {
            fputs(note, stdout);
        }
        putchar('\n');
    }
    return SM_OK;
}

static sm_status write_page(void *scaling, FILE *out) {
    sm_scaling_page(scaling, out);
    return SM_OK;
}

sm_status cli_scaling(const cli_options *options) {
    SM_AT_END(sm_training_runs_free) sm_training_runs runs = {.runs = NULL};
    SM_AT_END(sm_scaling_free) sm_scaling scaling = {.n = 0};
    SM_FAIL_IF(options->n_operands == 0, SM_ERR_USAGE,
               "give run folders, or their training_metrics.json: stepmark report --scaling RUN...");
    sm_training_runs_read(options->operands, options->n_operands, &runs);
    SM_TRY(sm_scaling_make(&runs, options->compare.predict.values, options->compare.predict.n, &scaling));
    const sm_format format = (sm_format)options->out.format;
    SM_OWN(json_t) *records = NULL;
    if (sm_format_is_read(format)) {
        SM_TRY(write_tables(&scaling, format));
    } else {
        records = sm_scaling_records(&scaling, NULL);
        SM_TRY(format == SM_FORMAT_JSON
                   ? cli_print_object(json_pack("{s:O, s:o, s:O}", "rows", records, "model", sm_scaling_model(&scaling),
                                                "notes", scaling.notes),
                                      "the scaling tables")
                   : sm_record_write_all(&sm_scaling_table, format, stdout, records));
    }
    return options->out.page != NULL ? cli_write_page(options->out.page, write_page, &scaling, "") : SM_OK;
}
