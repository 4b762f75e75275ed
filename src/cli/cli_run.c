// cli_run.c: the benchmark: every combination of the lists, one row each.
#include <string.h>

#include "cli_commands.h"
#include "cli_fit.h"
#include "cli_measure.h"
#include "cli_model.h"
#include "machine.h"
#include "row_write.h"

typedef struct {
    cli_bench bench;
    sm_row_writer *writer;
    int n_rows;
    int n_ok;     // with figures
    int n_failed; // status error
    char last_reason[SM_ROW_REASON_SIZE];
} sweep;

// A list that was not given has one entry: `otherwise`.
static int count_of(const cli_ints *list) { return list->n > 0 ? list->n : 1; }
static int64_t entry(const cli_ints *list, int i, int64_t otherwise) {
    return list->n > 0 ? list->values[i] : otherwise;
}

// --- checks before anything is measured ------------------------------------------------------

static sm_status check_lengths(const cli_options *options, const sm_gpt2_config *config) {
    for (int i = 0; i < options->seq_lens.n; i++) {
        SM_TRY(cli_check_seq_len(config, options->seq_lens.values[i]));
    }
    return SM_OK;
}

static sm_status check_models(const cli_options *options) {
    for (int i = 0; i < options->models.n; i++) {
        sm_gpt2_config config;
        SM_TRY(cli_config(options, options->models.texts[i], &config));
        SM_TRY(check_lengths(options, &config));
    }
    return SM_OK;
}

// A data file that cannot be used is told before the first row.
static sm_status check_data(const cli_options *options) {
    for (int i = 0; i < options->models.n; i++) {
        sm_gpt2_config config;
        sm_tokens *tokens;
        SM_TRY(cli_config(options, options->models.texts[i], &config));
        SM_TRY(cli_open_tokens(options, config.vocab, &tokens));
        sm_tokens_close(tokens);
    }
    return SM_OK;
}

// --- rows ------------------------------------------------------------------------------------

static void count_row(sweep *s, const sm_row *row) {
    s->n_rows++;
    if (strcmp(row->status, "ok") == 0 || (strcmp(row->status, "timeout") == 0 && row->samples_ns.n > 0)) {
        s->n_ok++;
    } else {
        s->n_failed += strcmp(row->status, "error") == 0;
        SM_ROW_TEXT(s->last_reason, row->reason);
        cli_note("%s %s: %s: %s", row->device, row->test, row->status, row->reason);
    }
}

static sm_status run_job(sweep *s, const cli_job *job) {
    sm_row row;
    if (cli_interrupted) {
        return SM_ERR_INTERRUPTED;
    }
    SM_TRY(sm_row_init(&row));
    cli_note("%s: %s, %s, %s, B=%lld T=%lld ...", job->device.backend->name, job->model, sm_mode_name(job->mode),
             sm_pass_name(job->pass), (long long)job->B, (long long)job->T);
    sm_status status = cli_measure(&s->bench, job, &row);
    sm_status written = SM_OK;
    if (status != SM_ERR_USAGE) { // what no row could be measured with, such as an unknown --isa, ends the run
        count_row(s, &row);
        written = sm_row_write(s->writer, &row);
    }
    sm_row_free(&row);
    SM_TRY(written);
    // A row that failed is a result like any other: the sweep goes on.
    return status == SM_ERR_INTERRUPTED || status == SM_ERR_USAGE ? status : SM_OK;
}

// The lists of batch sizes and lengths, or what --fit chose for the model and device.
static sm_status run_batches(sweep *s, cli_job *job, int64_t fit_B, int64_t fit_T) {
    const cli_options *o = s->bench.options;
    for (int t = 0; t < count_of(&o->seq_lens); t++) {
        for (int b = 0; b < count_of(&o->batch_sizes); b++) {
            for (int p = 0; p < o->passes.n; p++) {
                job->T = entry(&o->seq_lens, t, fit_T);
                job->B = entry(&o->batch_sizes, b, fit_B);
                job->pass = (sm_pass_type)o->passes.values[p];
                SM_TRY(run_job(s, job));
            }
        }
    }
    return SM_OK;
}

static sm_status run_device(sweep *s, cli_job *job) {
    const cli_options *o = s->bench.options;
    const int64_t given_B = entry(&o->batch_sizes, 0, 0);
    const int64_t given_T = entry(&o->seq_lens, 0, 0);
    int64_t fit_B = 4;
    int64_t fit_T = job->config.context < 64 ? job->config.context : 64;
    if (given_B == 0 && given_T == 0) {
        // One choice for all modes and thread counts, so that their rows compare: the one that needs the most memory.
        job->n_threads = entry(&o->threads, 0, 0);
        job->pass = SM_PASS_STEP;
        job->mode = SM_MODE_FUSED;
        job->precision = o->precisions.n == 1 && o->precisions.values[0] == CLI_BF16 ? CLI_BF16 : CLI_FP32;
        for (int m = 0; m < o->modes.n; m++) {
            job->mode = o->modes.values[m] == SM_MODE_NAIVE ? SM_MODE_NAIVE : job->mode;
        }
        sm_status status = cli_fit(&s->bench, job);
        if (status == SM_ERR_USAGE) {
            return status;
        }
        if (status == SM_OK) { // a device that cannot be opened gets its row with the defaults
            fit_B = job->B;
            fit_T = job->T;
        }
    }
    for (int p = 0; p < o->precisions.n; p++) {
        for (int m = 0; m < o->modes.n; m++) {
            for (int t = 0; t < count_of(&o->threads); t++) {
                job->precision = (cli_precision)o->precisions.values[p];
                job->mode = (sm_mode)o->modes.values[m];
                job->n_threads = entry(&o->threads, t, 0);
                SM_TRY(run_batches(s, job, fit_B, fit_T));
            }
        }
    }
    return SM_OK;
}

static sm_status run_all(sweep *s, const cli_device_list *devices) {
    const cli_options *o = s->bench.options;
    int n_models = o->weights != NULL ? 1 : o->models.n;
    for (int m = 0; m < n_models; m++) {
        for (int d = 0; d < devices->n; d++) {
            cli_job job = {.model = o->weights != NULL ? o->weights : o->models.texts[m],
                           .device = devices->devices[d]};
            SM_TRY(cli_config(o, o->models.texts[m], &job.config));
            SM_TRY(run_device(s, &job));
        }
    }
    return SM_OK;
}

// The sweep as a whole: it failed if a row did, or if there is no figure at all.
static sm_status verdict(const sweep *s) {
    if (s->n_failed > 0) {
        return sm_fail(SM_ERR_DEVICE, "%d of %d rows failed: %s", s->n_failed, s->n_rows, s->last_reason);
    }
    if (s->n_ok == 0) {
        return sm_fail(SM_ERR_UNSUPPORTED, "nothing could be measured: %s", s->last_reason);
    }
    return SM_OK;
}

sm_status cli_run(const cli_options *options) {
    sm_status status = SM_OK;
    sweep s = {.bench = {.options = options}};
    cli_device_list devices;
    SM_TRY(cli_select_devices(&options->backends, &devices));
    s.bench.n_devices = devices.n;
    SM_TRY(check_models(options));
    SM_TRY(check_data(options));
    SM_TRY(sm_machine_facts(options->argc, options->argv, &s.bench.machine));
    SM_TRY_GOTO(sm_row_writer_open((sm_format)options->output, stdout, &s.writer));
    status = run_all(&s, &devices);
    sm_row_writer *writer = s.writer;
    s.writer = NULL;
    sm_status closed = sm_row_writer_close(writer);
    if (options->output == SM_FORMAT_MARKDOWN && s.n_ok > 0) {
        sm_row_write_legend(stdout);
    }
    status = status != SM_OK ? status : closed != SM_OK ? closed : verdict(&s);
cleanup:
    json_decref(s.bench.machine);
    return status;
}
