// candidate.c: see sweep/sweep.h.
#include "cli/sweep/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "bench/rows/read_rows.h"
#include "bench/tables/show.h"
#include "cli/flags/configure.h"
#include "cli/flags/options.h"
#include "cli/measure/run.h"
#include "cli/output/notes.h"
#include "cli/setup/data.h"
#include "src/processes/process.h"

// Memory of libraries and drivers, not counted in the user's limit (some spin or crash without it).
static const int64_t library_bytes = INT64_C(1) << 30;

// The time for a process to write its row between SIGTERM and SIGKILL.
static const double least_grace_s = 2;
static const double grace_share = 0.1; // of the limit

// --- before it runs ----------------------------------------------------------------------------

static void set_verdict(cli_candidate *c, const char *status, const char *reason) {
    snprintf(c->status, sizeof(c->status), "%s", status);
    snprintf(c->reason, sizeof(c->reason), "%s", reason);
}

void cli_candidate_skip(cli_candidate *c, const char *reason) { set_verdict(c, "skipped", reason); }

static sm_status make_job(cli_candidate *c) {
    const cli_options *o = &c->run;
    cli_device_list devices;
    SM_TRY(cli_select_devices(&o->device.backends, &devices));
    SM_TRY(devices.devices[0].backend->describe(devices.devices[0].index, &c->info));
    c->job = (cli_job){
        .model = o->model.weights != NULL ? o->model.weights : o->model.models.texts[0],
        .device = devices.devices[0],
        .n_threads = o->device.threads.n > 0 ? o->device.threads.values[0] : 0,
        .precision = (cli_precision)o->device.precisions.values[0],
        .mode = (sm_mode)o->device.modes.values[0],
        .pass = o->work.passes.n > 0 ? (sm_pass_type)o->work.passes.values[0] : SM_PASS_STEP,
        .B = o->work.batch_sizes.n > 0 ? o->work.batch_sizes.values[0] : 0,
        .T = o->work.seq_lens.n > 0 ? o->work.seq_lens.values[0] : 0,
    };
    return SM_OK;
}

// Fills in one of B and T as `run` does if only the other is given; --find-batch leaves B open.
static void complete_job(const cli_sweeper *s, cli_candidate *c) {
    const int64_t context = c->job.config.context;
    if (c->job.T == 0 && c->job.B > 0) {
        c->job.T = context < CLI_DEFAULT_SEQ_LEN ? context : CLI_DEFAULT_SEQ_LEN;
    } else if (c->job.B == 0 && c->job.T > 0 && !s->options->sweep.find_batch) {
        c->job.B = CLI_DEFAULT_BATCH;
    } else if (c->job.T == 0 && s->options->sweep.find_batch) {
        c->job.T = context;
    }
}

// The reason why a combination of flags is meaningless; NULL if it is not.
static const char *why_meaningless(const cli_candidate *c) {
    const cli_options *o = &c->run;
    if (o->device.without.n > 0 && c->job.mode == SM_MODE_NAIVE) {
        return "--without has no meaning in mode naive: there are no rewrites to leave out";
    }
    if (o->device.isa != NULL && c->info.isa[0] == '\0' && c->info.tier[0] == '\0') {
        return "--isa does not apply: the device has neither instruction sets nor families of kernels";
    }
    if (o->device.threads.n > 0 && c->info.n_threads == 0) {
        return "--threads has no meaning here: the device chooses its own";
    }
    if (o->work.accum > 1 && c->job.pass == SM_PASS_FORWARD) {
        return "--accum has no meaning for a forward pass: there are no gradients to sum";
    }
    return NULL;
}

static void foretell(const cli_sweeper *s, cli_candidate *c) {
    char needed[32];
    char limit[32];
    char reason[SM_ROW_REASON_SIZE];
    int64_t free_bytes = (int64_t)c->info.free_bytes;
    c->limit_bytes = s->memory_limit_bytes;
    if (free_bytes > 0 && (c->limit_bytes == 0 || free_bytes < c->limit_bytes)) {
        c->limit_bytes = free_bytes;
    }
    if (c->job.B == 0 || c->job.T == 0) {
        return; // the process itself chooses
    }
    sm_status status = cli_forecast_job(&c->run, &c->job, (cli_target){c->info.max_alloc_bytes, NULL}, &c->forecast);
    if (status == SM_ERR_UNSUPPORTED) {
        set_verdict(c, "skipped", sm_error_message());
        return;
    }
    if (status != SM_OK) { // sizes beyond 64 bits, or a tensor larger than any allocation
        set_verdict(c, "oom", sm_error_message());
        return;
    }
    c->is_forecast = true;
    if (c->limit_bytes > 0 && c->forecast.memory_bytes > c->limit_bytes) {
        sm_text_bytes((double)c->forecast.memory_bytes, needed, sizeof(needed));
        sm_text_bytes((double)c->limit_bytes, limit, sizeof(limit));
        snprintf(reason, sizeof(reason), "%s needed by estimate, %s allowed; not started", needed, limit);
        set_verdict(c, "oom", reason);
    }
}

sm_status cli_candidate_look(const cli_sweeper *s, const cli_configuration *configuration, cli_candidate *c) {
    memset(c, 0, sizeof(*c));
    const cli_command command = cli_command_find(configuration->args[0]);
    SM_TRY(cli_options_parse(command, configuration->n_args, configuration->args, &c->run));
    SM_TRY(make_job(c));
    SM_TRY(command == CLI_LOOP ? cli_check_loader(&c->run) : SM_OK);
    sm_status status = cli_config(&c->run, c->run.model.models.texts[0], &c->job.config);
    if (c->job.config.model == NULL) {
        return status; // an unknown model name: a typing error, or the shell's
    }
    if (status == SM_OK) {
        status = cli_check_seq_len(&c->job.config, c->job.T);
    }
    const char *meaningless = why_meaningless(c);
    if (status != SM_OK || meaningless != NULL) {
        set_verdict(c, "skipped", status != SM_OK ? sm_error_message() : meaningless);
        return SM_OK;
    }
    complete_job(s, c);
    foretell(s, c);
    return SM_OK;
}

sm_status cli_candidate_ask(cli_candidate *c) {
    sm_status status = SM_OK;
    sm_device *device = NULL;
    sm_plan *plan = NULL;
    cli_job job = c->job;
    job.B = job.B > 0 ? job.B : 1;
    job.T = job.T > 0 ? job.T : 1;
    SM_TRY_GOTO(cli_open_device(job.device, job.n_threads, &c->run, &device));
    SM_TRY_GOTO(cli_job_plan(&c->run, &job, device->info.max_alloc_bytes, &plan));
    SM_TRY_GOTO(sm_session_supports(device, plan));
cleanup:
    sm_plan_free(plan);
    if (device != NULL) {
        job.device.backend->close(device);
    }
    if (status == SM_ERR_UNSUPPORTED) {
        cli_candidate_skip(c, sm_error_message());
        return SM_OK;
    }
    return status;
}

// --- rows --------------------------------------------------------------------------------------

static sm_status set_field(json_t *row, const char *name, json_t *value) {
    return sm_json_set_new(row, name, value) == 0 ? SM_OK : sm_fail(SM_ERR_OOM, "sweep: no memory for a row");
}

// Sets the fields that only the sweep knows.
static sm_status set_sweep_fields(const cli_sweeper *s, const cli_configuration *configuration, const cli_candidate *c,
                                  json_t *row) {
    SM_TRY(set_field(row, "sweep_key", sm_json_text(configuration->key)));
    if (s->options->measure.timeout_s > 0) {
        SM_TRY(cli_run_args_set_timeout(json_object_get(row, "run_args"), s->options->measure.timeout_s));
    }
    SM_TRY(set_field(row, "memory_limit_bytes",
                     sm_json_integer(s->memory_limit_bytes > 0 ? s->memory_limit_bytes : SM_ABSENT)));
    if (configuration->is_search) {
        SM_TRY(set_field(row, "sweep_note", json_string("search for the largest batch that fits")));
    }
    if (c->is_forecast && !json_is_integer(json_object_get(row, "estimated_bytes"))) { // it was not started
        SM_TRY(set_field(row, "estimated_bytes", sm_json_integer(c->forecast.memory_bytes)));
    }
    return SM_OK;
}

// A row without figures.
static sm_status make_row(const cli_sweeper *s, const cli_candidate *c, const char *status, const char *reason,
                          json_t **made) {
    const cli_bench bench = {.options = &c->run, .machine = s->machine};
    sm_row row;
    SM_TRY(sm_row_init(&row));
    sm_status set = cli_set_configuration(&bench, &c->job, &row);
    SM_ROW_TEXT(row.device, c->info.id);
    SM_ROW_TEXT(row.status, status);
    SM_ROW_TEXT(row.reason, reason);
    *made = set == SM_OK ? sm_row_to_json(&row) : NULL;
    sm_row_free(&row);
    return set != SM_OK ? set : *made != NULL ? SM_OK : sm_fail(SM_ERR_OOM, "sweep: no memory for a row");
}

// The one row that a process printed; NULL if none.
static json_t *read_row(const sm_process_result *result) {
    json_t *rows = json_loadb(result->out, result->out_bytes, 0, NULL);
    json_t *row = json_array_size(rows) == 1 ? json_incref(json_array_get(rows, 0)) : NULL;
    json_decref(rows);
    if (row != NULL && !json_is_object(row)) {
        json_decref(row);
        row = NULL;
    }
    return row;
}

// Detects a library's own message that it is out of memory.
static bool speaks_of_memory(const char *message) {
    return strcasestr(message, "memory") != NULL || strcasestr(message, "alloc") != NULL;
}

// `run` enforces the limit itself, and writes its samples when a step ends late. A process that takes twice the time
// and more is ended from here.
static double last_resort_s(double timeout_s) { return timeout_s > 0 ? 2 * timeout_s + 10 : 0; }

// Finds the reason why a process left no row.
static sm_status explain(const cli_sweeper *s, const cli_candidate *c, sm_process_result *r, json_t **row) {
    const char *last_message = sm_process_last_line(r);
    char reason[SM_ROW_REASON_SIZE];
    char peak[32];
    char limit[32];
    const char *status = r->late ? "timeout" : r->no_memory || speaks_of_memory(last_message) ? "oom" : "error";
    sm_text_bytes((double)r->peak_rss_bytes, peak, sizeof(peak));
    sm_text_bytes((double)s->memory_limit_bytes, limit, sizeof(limit));
    if (r->late) {
        snprintf(reason, sizeof(reason),
                 "ended after %g s, before there were figures: it did not keep the limit of %g s (--timeout)",
                 last_resort_s(s->options->measure.timeout_s), s->options->measure.timeout_s);
    } else if (r->no_memory) {
        snprintf(reason, sizeof(reason), "killed, by the kernel for want of memory it seems: %s resident, %s allowed",
                 peak, limit);
    } else if (r->signal != 0) {
        snprintf(reason, sizeof(reason), "ended by signal %d (%s): %s resident, %s allowed; last said: %.200s",
                 r->signal, strsignal(r->signal), peak, limit, last_message);
    } else {
        snprintf(reason, sizeof(reason),
                 "ended with exit code %d and no row: %s resident, %s allowed; last said: %.200s", r->exit_code, peak,
                 limit, last_message);
    }
    return make_row(s, c, status, reason, row);
}

// A process that was told to end has kept its samples; for the sweep it is a timeout.
static sm_status mark_timeout(const cli_sweeper *s, json_t *row) {
    char reason[SM_ROW_REASON_SIZE];
    snprintf(reason, sizeof(reason), "ended after %g s with %zu samples (--timeout)",
             last_resort_s(s->options->measure.timeout_s), json_array_size(json_object_get(row, "samples_ns")));
    SM_TRY(set_field(row, "status", json_string("timeout")));
    SM_TRY(set_field(row, "stop_reason", json_string("timeout")));
    return set_field(row, "reason", sm_json_text(reason));
}

static sm_status row_of_process(const cli_sweeper *s, const cli_candidate *c, sm_process_result *r, json_t **row) {
    *row = read_row(r);
    if (*row == NULL) {
        SM_TRY(explain(s, c, r, row));
    } else if (r->late && strcmp(sm_rows_text(*row, "stop_reason"), "interrupted") == 0) {
        SM_TRY(mark_timeout(s, *row));
    }
    SM_TRY(set_field(*row, "process_ns", sm_json_integer(r->wall_ns)));
    return set_field(*row, "process_peak_rss_bytes", sm_json_integer(r->peak_rss_bytes));
}

// --- running -----------------------------------------------------------------------------------

static int64_t allowed_bytes(const cli_sweeper *s, const cli_candidate *c) {
    const sm_model_config *config = &c->job.config;
    // The checks keep a copy of the parameters, of the largest gradient, and room for the largest parameter.
    int64_t check_bytes =
        (int64_t)sizeof(float) * (sm_model_n_params(config) + 2 * sm_model_padded_vocab(config) * config->d_model);
    return s->memory_limit_bytes > 0 ? s->memory_limit_bytes + library_bytes + check_bytes : 0;
}

static sm_status run_process(const cli_sweeper *s, const cli_configuration *configuration, const cli_candidate *c,
                             sm_process_result *result) {
    sm_status status = SM_OK;
    char timeout[64];
    char **argv = calloc((size_t)configuration->n_args + 5, sizeof(*argv));
    if (argv == NULL) {
        return sm_fail(SM_ERR_OOM, "sweep: no memory for a command line");
    }
    int n = 0;
    argv[n++] = (char *)s->program;
    for (int i = 0; i < configuration->n_args; i++) {
        argv[n++] = configuration->args[i];
    }
    argv[n++] = "--output=json";
    snprintf(timeout, sizeof(timeout), "--timeout=%.17g", s->options->measure.timeout_s);
    argv[n++] = timeout;
    argv[n] = s->options->out.progress ? "--progress" : NULL;
    const sm_process_limit memory = {.resource = RLIMIT_DATA, .most = (rlim_t)allowed_bytes(s, c)};
    const double timeout_s = last_resort_s(s->options->measure.timeout_s);
    const double grace_s = grace_share * timeout_s > least_grace_s ? grace_share * timeout_s : least_grace_s;
    const sm_process_job job = {.argv = argv,
                                .output = SM_OUTPUT_KEPT,
                                .shows_stderr = s->options->out.progress,
                                .limits = &memory, // allocations beyond it fail
                                .n_limits = memory.most > 0,
                                .dies_first = true,
                                .timeout_s = timeout_s,
                                .late_grace_s = grace_s,
                                .interrupted = &cli_interrupted,
                                .interrupted_grace_s = grace_s};
    status = sm_process_run(&job, result);
    free(argv);
    return status;
}

sm_status cli_candidate_run(const cli_sweeper *s, const cli_configuration *configuration, const cli_candidate *c,
                            json_t **row) {
    sm_process_result result = {.out = NULL};
    sm_status status = SM_OK;
    *row = NULL;
    if (c->status[0] != '\0') {
        SM_TRY_GOTO(make_row(s, c, c->status, c->reason, row));
    } else {
        status = run_process(s, configuration, c, &result);
        if (status == SM_ERR_UNSUPPORTED) { // the program is missing: perhaps it is being built
            status = make_row(s, c, "error", sm_error_message(), row);
        } else if (status == SM_OK) {
            status = result.interrupted ? SM_ERR_INTERRUPTED : row_of_process(s, c, &result, row);
        }
        SM_TRY_GOTO(status);
    }
    SM_TRY_GOTO(set_sweep_fields(s, configuration, c, *row));
cleanup:
    sm_process_free(&result);
    if (status != SM_OK) {
        json_decref(*row);
        *row = NULL;
    }
    return status;
}
