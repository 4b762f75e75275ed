// cli_loop.c: `stepmark loop`: a training loop measured, its phases, what bounds it.
#include <math.h>
#include <string.h>

#include "cli_baseline.h"
#include "cli_commands.h"
#include "cli_measure.h"
#include "cli_model.h"
#include "cli_processes.h"
#include "cli_second.h"
#include "loop_phases.h"
#include "machine.h"
#include "row_write.h"
#include "show.h"

static const double unaccounted_limit = 0.01; // of a step timed apart

// --- what follows the table --------------------------------------------------------------------------

static void print_speed(const sm_row *row) {
    char rate[32];
    char step[32];
    sm_text_count(round(row->median_ts), rate, sizeof(rate));
    sm_text_ms((double)row->median_ns, step, sizeof(step));
    printf("\n%s tokens/s, undisturbed: %s ms a step", rate, step);
    if (isfinite(row->noise_percent)) {
        printf(" ± %.1f%%", row->noise_percent);
    }
    printf("; to time it apart makes it %.1f%% %s.\n", fabs(row->attribution_percent),
           row->attribution_percent >= 0 ? "longer" : "shorter");
}

static void print_ceilings(const sm_row *row) {
    const char *name;
    json_t *value;
    const char *before = "Without, tokens/s:";
    if (row->loop.ceilings == NULL) {
        return;
    }
    json_object_foreach(row->loop.ceilings, name, value) {
        char rate[32];
        sm_text_count(round(json_number_value(value)), rate, sizeof(rate));
        if (json_is_number(value)) {
            printf("%s %s %s", before, name, rate);
            before = ",";
        }
    }
    puts(before[0] == ',' ? "." : "");
}

// Means of a series over warm-up and headline; NaN where there is none.
static void mean_of(const json_t *seen, const char *name, double *warmup, double *headline) {
    const json_t *values = json_object_get(seen, name);
    const size_t n_warmup = (size_t)json_integer_value(json_object_get(seen, "n_warmup"));
    const size_t n_headline = (size_t)json_integer_value(json_object_get(seen, "n_headline"));
    double sums[2] = {0, 0};
    double n[2] = {0, 0};
    for (size_t i = 0; i < json_array_size(values) && i < n_warmup + n_headline; i++) {
        const json_t *value = json_array_get(values, i);
        if (json_is_number(value)) {
            sums[i >= n_warmup] += json_number_value(value);
            n[i >= n_warmup]++;
        }
    }
    *warmup = n[0] > 0 ? sums[0] / n[0] : NAN;
    *headline = n[1] > 0 ? sums[1] / n[1] : NAN;
}

static void print_share(const json_t *seen, const char *name, const char *words) {
    double warmup;
    double headline;
    mean_of(seen, name, &warmup, &headline);
    if (isfinite(headline)) {
        printf("%s busy %.0f%%", words, 100 * headline);
        if (isfinite(warmup)) {
            printf(" (in warm-up %.0f%%)", 100 * warmup);
        }
        fputs("; ", stdout);
    }
}

static void print_machine(const sm_row *row) {
    double warmup;
    double power_w;
    char host[32];
    char device[32];
    sm_text_bytes((double)row->peak_rss_bytes, host, sizeof(host));
    sm_text_bytes((double)row->device_peak_bytes, device, sizeof(device));
    print_share(row->utilisation, "cpu", "Processors");
    print_share(row->utilisation, "gpu", "GPU");
    mean_of(row->utilisation, "power_w", &warmup, &power_w);
    if (isfinite(power_w)) {
        printf("%.0f W; ", power_w);
    }
    printf("peak memory: process %s, device %s.\n", host, device);
}

static void note_reconciliation(const sm_row *row) {
    const double share = (double)row->loop.unaccounted_ns / (double)row->loop.wall_ns;
    if (!(fabs(share) <= unaccounted_limit)) {
        cli_note("%.1f%% of the step is in none of its phases: too small a step for them to be told", 100 * share);
    }
}

// --- output ------------------------------------------------------------------------------------------

static sm_status print_read(const cli_options *options, const sm_row *row, const json_t *record,
                            const json_t *baseline) {
    json_t *records = NULL;
    SM_TRY(sm_loop_records(record, baseline, &records));
    sm_status status = sm_record_write_all(&sm_loop_table, (sm_format)options->output, stdout, records);
    json_decref(records);
    print_speed(row);
    printf("%s\n", row->loop.verdict);
    print_ceilings(row);
    print_machine(row);
    note_reconciliation(row);
    return status;
}

static sm_status print_row(const cli_options *options, json_t *record) {
    sm_row_writer *writer;
    SM_TRY(sm_row_writer_open((sm_format)options->output, stdout, &writer));
    sm_status status = sm_row_write_record(writer, json_incref(record));
    sm_status closed = sm_row_writer_close(writer);
    return status != SM_OK ? status : closed;
}

static sm_status write_second(const cli_options *options, const json_t *record) {
    cli_second second;
    SM_TRY(cli_second_open(options->output_file, &second));
    sm_status status = cli_second_add(&second, record);
    sm_status closed = cli_second_close(&second);
    return status != SM_OK ? status : closed;
}

static sm_status print(const cli_options *options, const sm_row *row, const json_t *baselines) {
    json_t *record = sm_row_to_json(row);
    if (record == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a row");
    }
    const json_t *baseline = baselines != NULL ? sm_loop_baseline(baselines, record) : NULL;
    if (baselines != NULL && baseline == NULL) {
        cli_note("--baseline: %s: has no loop of the same work; nothing is compared", options->baseline);
    }
    sm_status status = sm_format_is_read((sm_format)options->output) ? print_read(options, row, record, baseline)
                                                                     : print_row(options, record);
    status = status == SM_OK ? write_second(options, record) : status;
    json_decref(record);
    return status;
}

// --- the whole -----------------------------------------------------------------------------------------

static sm_status read_baseline(const cli_options *options, sm_rows *rows) {
    SM_TRY(sm_rows_init(rows));
    rows->interrupted = &cli_interrupted;
    if (options->baseline == NULL) {
        return SM_OK;
    }
    SM_TRY(cli_baseline_read(options->baseline, rows));
    cli_note_warnings(rows);
    return SM_OK;
}

static sm_status loop(const cli_options *options, sm_comm *comm) {
    static cli_bench bench; // large: ceilings
    sm_status status = SM_OK;
    cli_job job = {.comm = comm};
    sm_row row = {.schema_version = 0};
    sm_rows baselines = {.rows = NULL};
    bench = (cli_bench){.options = options};
    SM_TRY(cli_check_single("--mode", options->modes.n));
    SM_TRY(cli_single_job(options, (sm_mode)options->modes.values[0], &job));
    SM_TRY_GOTO(read_baseline(options, &baselines));
    SM_TRY_GOTO(sm_machine_facts(options->argc, options->argv, &bench.machine));
    SM_TRY_GOTO(sm_row_init(&row));
    SM_TRY_GOTO(cli_measure(&bench, &job, &row));
    if (sm_comm_rank(comm) == 0) {
        SM_TRY_GOTO(print(options, &row, options->baseline != NULL ? baselines.rows : NULL));
    }
cleanup:
    sm_row_free(&row);
    sm_rows_free(&baselines);
    json_decref(bench.machine);
    return status;
}

// Of several processes, all run the loop, and rank 0 shows its own.
sm_status cli_loop(const cli_options *options) {
    sm_comm *comm = NULL;
    sm_status status = cli_join(options, &comm);
    status = status == SM_OK ? loop(options, comm) : status;
    return cli_leave(comm, status);
}
