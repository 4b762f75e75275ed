// loop.c: `stepmark loop`: measures a training loop, its phases, and its bottleneck.
#include "bench/loop/loop.h"
#include "bench/rows/machine.h"
#include "bench/rows/row.h"
#include "cli/flags/configure.h"
#include "cli/flags/options.h"
#include "cli/measure/loop.h"
#include "cli/measure/measure.h"
#include "cli/output/files.h"
#include "cli/output/notes.h"
#include "cli/rows/rows.h"
#include "cli/setup/processes.h"

// --- output ------------------------------------------------------------------------------------------

static sm_status print_row(const cli_options *options, json_t *record) {
    sm_row_writer *writer;
    SM_TRY(sm_row_writer_open((sm_format)options->out.format, stdout, &writer));
    sm_status status = sm_row_write_record(writer, json_incref(record));
    sm_status closed = sm_row_writer_close(writer);
    return status != SM_OK ? status : closed;
}

static sm_status print(const cli_options *options, const sm_row *row, const json_t *baselines) {
    json_t *record = sm_row_to_json(row);
    const json_t *baseline = baselines != NULL ? sm_loop_baseline(baselines, record) : NULL;
    if (baselines != NULL && baseline == NULL) {
        cli_note("--baseline: %s: has no loop of the same work; nothing is compared", options->compare.baseline);
    }
    sm_status status = sm_format_is_read((sm_format)options->out.format)
                           ? cli_loop_show(row, baseline, (sm_format)options->out.format)
                           : print_row(options, record);
    status =
        status == SM_OK && options->out.output_file != NULL ? cli_write_row(options->out.output_file, record) : status;
    json_decref(record);
    return status;
}

// --- the whole -----------------------------------------------------------------------------------------

static sm_status read_baseline(const cli_options *options, sm_rows *rows) {
    sm_rows_init(rows);
    rows->interrupted = &cli_interrupted;
    if (options->compare.baseline == NULL) {
        return SM_OK;
    }
    SM_TRY(cli_baseline_read(options->compare.baseline, rows));
    cli_note_warnings(rows);
    return SM_OK;
}

static sm_status loop(const cli_options *options, sm_comm *comm) {
    static cli_bench bench; // static because of its ceilings
    sm_status status = SM_OK;
    cli_job job = {.comm = comm};
    sm_row row = {.schema_version = 0};
    sm_rows baselines = {.rows = NULL};
    bench = (cli_bench){.options = options};
    SM_TRY(cli_check_single("--mode", options->device.modes.n));
    SM_TRY(cli_single_job(options, (sm_mode)options->device.modes.values[0], &job));
    SM_TRY_GOTO(read_baseline(options, &baselines));
    sm_machine_facts(options->argc, options->argv, &bench.machine);
    sm_row_init(&row);
    status = cli_measure(&bench, &job, &row);
    if (sm_comm_rank(comm) == 0 && (status == SM_OK || cli_is_cut_short(status, &row))) {
        sm_status printed = print(options, &row, options->compare.baseline != NULL ? baselines.rows : NULL);
        status = status != SM_OK ? status : printed;
    }
cleanup:
    sm_row_free(&row);
    sm_rows_free(&baselines);
    json_decref(bench.machine);
    return status;
}

// With several processes, all run the loop, and rank 0 shows its own.
sm_status cli_loop(const cli_options *options) {
    sm_comm *comm = NULL;
    sm_status status = cli_join(options, &comm);
    status = status == SM_OK ? loop(options, comm) : status;
    return cli_leave(comm, status);
}
