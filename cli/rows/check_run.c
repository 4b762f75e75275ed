// check_run.c: trainings' metrics against their logs, and against each other.
#include <stdio.h>

#include "bench/runs/run_check.h"
#include "cli/flags/options.h"

// Who reads the table has the reasons below it; who reads records elsewhere gets the first of them.
static sm_status verdict(const cli_options *options, const sm_training_runs *runs) {
    size_t n_rejected = 0;
    for (size_t i = 0; i < runs->n; i++) {
        n_rejected += json_array_size(runs->runs[i].problems) > 0;
    }
    const sm_status status = sm_training_runs_verdict(runs);
    return status == SM_ERR_INVALID && sm_format_is_read((sm_format)options->output)
               ? sm_fail(status, "check-run: %zu of %zu run%s rejected", n_rejected, runs->n, runs->n == 1 ? "" : "s")
               : status;
}

sm_status cli_check_run(const cli_options *options) {
    sm_training_runs runs;
    json_t *records = NULL;
    sm_status status = SM_OK;
    if (options->n_operands == 0) {
        return sm_fail(SM_ERR_USAGE, "give run folders, or their training_metrics.json: stepmark check-run RUN...");
    }
    SM_TRY(sm_training_runs_read(options->operands, options->n_operands, &runs));
    SM_TRY_GOTO(sm_training_runs_compare(&runs, options->weak ? SM_WORK_FIXED_A_PROCESS : SM_WORK_FIXED));
    SM_TRY_GOTO(sm_training_runs_records(&runs, &records));
    SM_TRY_GOTO(sm_record_write_all(&sm_run_check_table, (sm_format)options->output, stdout, records));
    status = verdict(options, &runs);
cleanup:
    json_decref(records);
    sm_training_runs_free(&runs);
    return status;
}
