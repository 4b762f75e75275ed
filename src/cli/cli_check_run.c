// cli_check_run.c: trainings' metrics against their logs, and against each other.
#include <stdio.h>

#include "cli_commands.h"
#include "run_check.h"

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
    status = sm_training_runs_verdict(&runs);
cleanup:
    json_decref(records);
    sm_training_runs_free(&runs);
    return status;
}
