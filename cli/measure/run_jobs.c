// run_jobs.c: see measure/run.h.
#include "cli/measure/run.h"

#include <stdio.h>
#include <string.h>

#include "cli/flags/configure.h"
#include "cli/flags/options.h"
#include "cli/output/notes.h"
#include "cli/setup/worker.h"

typedef struct {
    cli_bench bench; // with the ceilings that this worker measured
    const cli_run_state *state;
    char place[SM_TEXT_SIZE + 16];
    json_int_t n_jobs; // for this place so far
    int n_begun;       // rows, for all places
    int n_rows;
} worker;

static sm_status send(const char *name, json_t *value) {
    json_t *message = json_object();
    if (sm_json_set_new(message, name, value) != 0) {
        json_decref(message);
        return sm_fail(SM_ERR_OOM, "no memory for a message to the parent process");
    }
    return sm_worker_send(message);
}

// Only for several rows; for a single one the program's final message has the reason.
static void note_failure(const worker *w, const sm_row *row) {
    bool has_figures = strcmp(row->status, "timeout") == 0 && row->samples_ns.n > 0;
    if (strcmp(row->status, "ok") != 0 && !has_figures && w->n_rows > 1) {
        cli_note("%s %s: %s: %s", row->device, row->test, row->status, row->reason);
    }
}

static sm_status run_job(worker *w, const cli_job *job) {
    sm_row row;
    if (cli_interrupted) {
        return SM_ERR_INTERRUPTED;
    }
    cli_live_parts("row", w->n_begun++, w->n_rows);
    if (w->n_jobs++ < json_integer_value(json_object_get(w->state->n_done, w->place))) {
        return SM_OK;
    }
    SM_TRY(sm_row_init(&row));
    cli_say("%s: %s, %s, %s, B=%lld T=%lld ...", job->device.backend->name, job->model, sm_mode_name(job->mode),
            sm_pass_name(job->pass), (long long)job->B, (long long)job->T);
    sm_status sent = send("begin", json_string(w->place));
    sm_status status = sent == SM_OK ? cli_measure(&w->bench, job, &row) : sent;
    if (sent == SM_OK && status != SM_ERR_USAGE) { // a usage error, such as an unknown --isa, is not a row
        note_failure(w, &row);
        sent = send("row", sm_row_to_json(&row));
    }
    sm_row_free(&row);
    SM_TRY(sent);
    // A row that failed is a result like any other: the rest continues.
    return status == SM_ERR_INTERRUPTED || status == SM_ERR_USAGE ? status : SM_OK;
}

// All combinations of batch sizes and lengths, or what --fit chose for the model and device.
static sm_status run_batches(worker *w, cli_job *job, int64_t fit_B, int64_t fit_T) {
    const cli_options *o = w->bench.options;
    for (int t = 0; t < cli_count_of(&o->work.seq_lens); t++) {
        for (int b = 0; b < cli_count_of(&o->work.batch_sizes); b++) {
            for (int p = 0; p < o->work.passes.n; p++) {
                job->T = cli_entry(&o->work.seq_lens, t, fit_T);
                job->B = cli_entry(&o->work.batch_sizes, b, fit_B);
                job->pass = (sm_pass_type)o->work.passes.values[p];
                SM_TRY(run_job(w, job));
            }
        }
    }
    return SM_OK;
}

static sm_status send_fit(int64_t B, int64_t T) {
    return send("fit", json_pack("[I, I]", (json_int_t)B, (json_int_t)T));
}

// Measuring the ceilings may hang: that row gets the initial sizes.
static sm_status choose_sizes(worker *w, const cli_job *job, int64_t *B, int64_t *T) {
    sm_row row;
    cli_job chosen = *job;
    SM_TRY(sm_row_init(&row));
    cli_set_configuration(&w->bench, &chosen, &row);
    SM_ROW_TEXT(row.device, strchr(w->place, ' ') + 1);
    sm_status status = send("begin", json_string(w->place));
    status = status == SM_OK ? send_fit(*B, *T) : status;
    cli_stage("choosing batch size and length (--fit)", &row);
    status = status == SM_OK ? cli_fit(&w->bench, &chosen) : status;
    sm_row_free(&row);
    if (status == SM_ERR_USAGE) {
        return status;
    }
    if (status == SM_OK) { // a device that cannot be opened gets its row with the defaults
        *B = chosen.B;
        *T = chosen.T;
    }
    return send_fit(*B, *T);
}

static sm_status fit(worker *w, cli_job *job, int64_t *B, int64_t *T) {
    const cli_options *o = w->bench.options;
    const json_t *known = json_object_get(w->state->fits, w->place);
    if (o->work.batch_sizes.n > 0 || o->work.seq_lens.n > 0) {
        return SM_OK;
    }
    if (known != NULL) {
        *B = json_integer_value(json_array_get(known, 0));
        *T = json_integer_value(json_array_get(known, 1));
        return SM_OK;
    }
    // One choice for all modes and thread counts, so that their rows compare: by the mode that needs most memory.
    job->n_threads = cli_entry(&o->device.threads, 0, 0);
    job->pass = SM_PASS_STEP;
    job->mode = SM_MODE_FUSED;
    job->precision = o->device.precisions.n == 1 ? (cli_precision)o->device.precisions.values[0] : CLI_FP32;
    job->B = *B;
    job->T = *T;
    for (int m = 0; m < o->device.modes.n; m++) {
        job->mode = o->device.modes.values[m] == SM_MODE_NAIVE ? SM_MODE_NAIVE : job->mode;
    }
    return choose_sizes(w, job, B, T);
}

static sm_status run_device(worker *w, cli_job *job) {
    const cli_options *o = w->bench.options;
    int64_t fit_B = CLI_DEFAULT_BATCH;
    int64_t fit_T = job->config.context < CLI_DEFAULT_SEQ_LEN ? job->config.context : CLI_DEFAULT_SEQ_LEN;
    SM_TRY(fit(w, job, &fit_B, &fit_T));
    for (int p = 0; p < o->device.precisions.n; p++) {
        for (int m = 0; m < o->device.modes.n; m++) {
            for (int t = 0; t < cli_count_of(&o->device.threads); t++) {
                job->precision = (cli_precision)o->device.precisions.values[p];
                job->mode = (sm_mode)o->device.modes.values[m];
                job->n_threads = cli_entry(&o->device.threads, t, 0);
                SM_TRY(run_batches(w, job, fit_B, fit_T));
            }
        }
    }
    return SM_OK;
}

static int rows_of_a_device(const cli_options *o) {
    return o->device.precisions.n * o->device.modes.n * o->work.passes.n * cli_count_of(&o->device.threads) *
           cli_count_of(&o->work.seq_lens) * cli_count_of(&o->work.batch_sizes);
}

static sm_status run_all(worker *w) {
    const cli_options *o = w->bench.options;
    const int n_models = o->model.weights != NULL ? 1 : o->model.models.n;
    cli_device_list devices;
    SM_TRY(cli_select_devices(&o->device.backends, &devices));
    w->bench.n_devices = devices.n;
    w->n_rows = n_models * devices.n * rows_of_a_device(o);
    for (int m = 0; m < n_models; m++) {
        for (int d = 0; d < devices.n; d++) {
            sm_device_info info;
            cli_job job = {.model = o->model.weights != NULL ? o->model.weights : o->model.models.texts[m],
                           .device = devices.devices[d]};
            SM_TRY(job.device.backend->describe(job.device.index, &info));
            snprintf(w->place, sizeof(w->place), "%d %s", m, info.id);
            w->n_jobs = 0;
            SM_TRY(cli_config(o, o->model.models.texts[m], &job.config));
            SM_TRY(run_device(w, &job));
        }
    }
    return SM_OK;
}

int cli_run_jobs(const cli_run_state *state) {
    static worker w; // static because of its ceilings
    w = (worker){.bench = state->bench, .state = state};
    sm_status status = run_all(&w);
    json_t *end = json_pack("{s: i, s: s}", "end", (int)status, "message", status == SM_OK ? "" : sm_error_message());
    return end != NULL && sm_worker_send(end) == SM_OK ? 0 : 1;
}
