// loop.c: `stepmark loop`: measures a training loop, its phases, and its bottleneck.
#include "bench/rows/machine.h"
#include "cli/measure/measure.h"
#include "cli/rows/rows.h"

sm_status cli_open_data(const cli_options *options, const cli_job *job, cli_loop_steps *loop, cli_workload *w) {
    if (loop == NULL) {
        return cli_workload_open(options, job, w);
    }
    // Opens data and log, so that errors appear before anything is measured. The loader's threads may use the calling
    // thread's current processors. Everything not opened is zero.
    *loop = (cli_loop_steps){.options = *options};
    loop->settings = (sm_train_settings){.config = &job->config,
                                         .comm = job->comm,
                                         .global_batch = options->work.accum * job->B * sm_comm_size(job->comm),
                                         .order = (sm_order_kind)options->train.data_order,
                                         .seed = (uint64_t)options->work.seed,
                                         .background = sm_background_here()};
    loop->settings.loader.background = loop->settings.background;
    SM_TRY(cli_train_data_open(&loop->options, job, &loop->data, &loop->settings));
    SM_TRY(options->train.log != NULL && sm_comm_rank(job->comm) == 0
               ? sm_train_log_append(options->train.log, &loop->log)
               : SM_OK);
    return cli_workload_open_of(options, job, loop->data.data.tokens, w);
}

void cli_loader_name(const sm_loader_settings *loader, char name[CLI_LOADER_NAME_SIZE]) {
    snprintf(name, CLI_LOADER_NAME_SIZE, loader->kind == SM_LOADER_INLINE ? "%s" : "%s:%d",
             sm_loader_name(loader->kind), loader->n_threads);
}

void cli_loop_steps_close(cli_loop_steps *steps) {
    sm_utilisation_close(steps->utilisation);
    sm_loop_close(steps->loop);
    (void)sm_train_log_close(steps->log);
    sm_loader_close(steps->loader);
    cli_train_data_close(&steps->data);
}

static const double unaccounted_limit = 0.01; // of an instrumented step

// Means of a series over warm-up and headline; NaN if there is none.
static void mean_of(const json_t *seen, const char *name, double *warmup, double *headline) {
    const json_t *values = json_object_get(seen, name);
    const size_t n_warmup = (size_t)json_integer_value(json_object_get(seen, "n_warmup"));
    const size_t n_headline = (size_t)json_integer_value(json_object_get(seen, "n_headline"));
    double sums[2] = {0}, n[2] = {0};
    SM_EACH(value, values) {
        if (json_is_number(value) && value_at < n_warmup + n_headline) {
            sums[value_at >= n_warmup] += json_number_value(value);
            n[value_at >= n_warmup]++;
        }
    }
    *warmup = n[0] > 0 ? sums[0] / n[0] : NAN;
    *headline = n[1] > 0 ? sums[1] / n[1] : NAN;
}

// One observation, after a full stop or a comma.
static void print_share(const json_t *seen, const char *name, const char *words, int *n_told) {
    double warmup, headline;
    mean_of(seen, name, &warmup, &headline);
    if (isfinite(headline)) {
        printf("%s%s busy %.0f%%", (*n_told)++ > 0 ? "; " : " ", words, 100 * headline);
        if (isfinite(warmup)) {
            printf(" (in warm-up %.0f%%)", 100 * warmup);
        }
    }
}

sm_status cli_loop_show(const sm_row *row, const json_t *baseline, sm_format format) {
    SM_OWN(json_t) *record = sm_row_to_json(row);
    SM_OWN(json_t) *records = sm_loop_records(record, baseline);
    const sm_status status = sm_record_write_all(&sm_loop_table, format, stdout, records);
    char step_and_spread[96];
    snprintf(step_and_spread, sizeof(step_and_spread), "%s ms a step", SM_TEXT_MS(row->median_ns));
    sm_append_spread(row->noise_percent, step_and_spread, sizeof(step_and_spread));
    printf("\n%s tokens/s, undisturbed: %s", SM_TEXT_COUNT(round(row->median_ts)), step_and_spread);
    if (isfinite(row->attribution_percent)) {
        printf("; timing its ops makes it %.1f%% %s", fabs(row->attribution_percent),
               row->attribution_percent >= 0 ? "longer" : "shorter");
    }
    puts(".");
    if (row->loop.wall_ns != SM_ABSENT) {
        const char *name;
        json_t *value;
        const char *before = "Without, tokens/s:";
        printf("%s\n", row->loop.verdict);
        json_object_foreach(row->loop.ceilings, name, value) {
            if (json_is_number(value)) {
                printf("%s %s %s", before, name, SM_TEXT_COUNT(round(json_number_value(value))));
                before = ",";
            }
        }
        if (row->loop.ceilings != NULL) {
            puts(before[0] == ',' ? "." : "");
        }
        const double share = (double)row->loop.unaccounted_ns / (double)row->loop.wall_ns;
        if (!(fabs(share) <= unaccounted_limit)) {
            cli_note("%.1f%% of the step is in none of its phases: the step is too small to judge them", 100 * share);
        }
    }
    if (row->loop.comm_bytes != SM_ABSENT) { // there are several processes
        printf("Communication, a step: %s ms waited for, %s ms hidden; %s sent and received, by %s.\n",
               SM_TEXT_MS(row->loop.headline_comm_ns), SM_TEXT_MS(row->loop.headline_hidden_ns),
               SM_TEXT_BYTES(row->loop.comm_bytes), row->loop.transport);
    }
    double warmup, power_w;
    int n_told = 0;
    printf("Peak memory: process %s, device %s.", SM_TEXT_BYTES(row->peak_rss_bytes),
           SM_TEXT_BYTES(row->device_peak_bytes));
    print_share(row->utilisation, "cpu", "Processors", &n_told);
    print_share(row->utilisation, "gpu", "GPU", &n_told);
    mean_of(row->utilisation, "power_w", &warmup, &power_w);
    if (isfinite(power_w)) {
        printf("%s%.0f W", n_told++ > 0 ? "; " : " ", power_w);
    }
    puts(n_told > 0 ? "." : "");
    return status;
}

static sm_status loop(const cli_options *options, sm_comm *comm) {
    static cli_bench bench; // static because of its ceilings
    const sm_format format = options->out.format;
    const char *file = options->compare.baseline;
    cli_job job;
    SM_ROW(row);
    SM_AT_END(sm_rows_free) sm_rows baselines = sm_rows_new();
    bench = (cli_bench){.options = options};
    SM_TRY(cli_single_job(options, comm, &job));
    baselines.interrupted = &cli_interrupted;
    SM_TRY(file != NULL ? cli_baseline_read(file, &baselines) : SM_OK);
    cli_note_warnings(&baselines);
    SM_OWN(json_t) *machine = bench.machine = sm_machine_facts(options->argc, options->argv);
    const sm_status status = cli_measure(&bench, &job, &row);
    if (sm_comm_rank(comm) > 0 || (status != SM_OK && !cli_is_cut_short(status, &row))) {
        return status;
    }
    SM_OWN(json_t) *record = sm_row_to_json(&row);
    SM_OWN(json_t) *only = json_pack("[O]", record);
    const json_t *baseline = file != NULL ? sm_loop_baseline(baselines.rows, record) : NULL;
    if (file != NULL && baseline == NULL) {
        cli_note("--baseline: %s: has no loop of the same work; nothing is compared", file);
    }
    sm_status printed = sm_format_is_read(format) ? cli_loop_show(&row, baseline, format)
                                                  : sm_record_write_all(&sm_row_table, format, stdout, only);
    if (printed == SM_OK && options->out.output_file != NULL) {
        printed = cli_write_row(options->out.output_file, record);
    }
    return status != SM_OK ? status : printed;
}

// With several processes, all run the loop, and rank 0 shows its own.
sm_status cli_loop(const cli_options *options) { return cli_together(options, loop); }
