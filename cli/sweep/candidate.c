#include "cli/sweep/sweep.h"

#include "clock.h"
#include "bench/rows/machine.h"
#include "bench/score/score.h"
#include "os/memory.h"

// Memory of libraries and drivers, not counted in the user's limit (some spin or crash without it).
static const int64_t library_bytes = INT64_C(1) << 30;

static void set_verdict(cli_candidate *c, const char *status, const char *reason) {
    snprintf(c->status, sizeof(c->status), "%s", status);
    snprintf(c->reason, sizeof(c->reason), "%s", reason);
}

void cli_candidate_skip(cli_candidate *c, const char *reason) { set_verdict(c, "skipped", reason); }

static void name_place(const cli_candidate *c, char place[2 * SM_TEXT_SIZE]) {
    snprintf(place, 2 * SM_TEXT_SIZE, "%s %s", c->job.model, c->info.id);
}

// Fills in what --fit chose for the device, or one of B and T; --find-batch, and --fit with a length, leave B open.
static void complete_job(const cli_sweeper *s, bool fits, cli_candidate *c) {
    const int64_t context = c->job.config.context;
    char place[sizeof(s->handed_on->fitted[0].place)];
    name_place(c, place);
    for (int i = 0; c->job.T == 0 && c->job.B == 0 && !s->options->sweep.find_batch && i < s->handed_on->n_fitted;
         i++) {
        if (strcmp(place, s->handed_on->fitted[i].place) == 0) {
            c->job.B = s->handed_on->fitted[i].B;
            c->job.T = s->handed_on->fitted[i].T;
        }
    }
    if (c->job.T == 0 && c->job.B > 0) {
        c->job.T = context < CLI_DEFAULT_SEQ_LEN ? context : CLI_DEFAULT_SEQ_LEN;
    } else if (c->job.B == 0 && c->job.T > 0 && !s->options->sweep.find_batch && !fits) {
        c->job.B = CLI_DEFAULT_BATCH;
    } else if (c->job.T == 0 && s->options->sweep.find_batch) {
        c->job.T = context;
    }
}

// The reason why a combination of flags is meaningless; NULL if it is not.
static const char *why_meaningless(const cli_candidate *c) {
    const cli_options *o = &c->run;
    const bool is_without = o->device.without.n > 0 && c->job.mode == SM_MODE_NAIVE;
    const bool is_isa = o->device.isa != NULL && c->info.isa[0] == '\0' && c->info.tier[0] == '\0';
    const bool is_threads = o->device.threads.n > 0 && c->info.n_threads == 0;
    const bool is_accum = o->work.accum > 1 && c->job.pass == SM_PASS_FORWARD;
    return is_without   ? "--without has no meaning in mode naive: there are no rewrites to leave out"
           : is_isa     ? "--isa does not apply: the device has neither instruction sets nor families of kernels"
           : is_threads ? "--threads has no meaning here: the device chooses its own"
           : is_accum   ? "--accum has no meaning for a forward pass: there are no gradients to sum"
                        : NULL;
}

static void foretell(const cli_sweeper *s, cli_candidate *c) {
    char reason[SM_ROW_REASON_SIZE];
    int64_t free_bytes = (int64_t)c->info.free_bytes;
    c->limit_bytes = s->memory_limit_bytes;
    if (free_bytes > 0 && (c->limit_bytes == 0 || free_bytes < c->limit_bytes)) {
        c->limit_bytes = free_bytes;
    }
    if (c->job.B == 0 || c->job.T == 0) {
        return; // the process itself chooses
    }
    sm_status status = cli_forecast_job(&c->job, (cli_target){c->info.max_alloc_bytes, NULL}, &c->forecast);
    if (status != SM_OK) { // oom: sizes beyond 64 bits, or a tensor larger than any allocation
        set_verdict(c, status == SM_ERR_UNSUPPORTED ? "skipped" : "oom", sm_error_message());
        return;
    }
    c->is_forecast = true;
    if (c->limit_bytes > 0 && c->forecast.memory_bytes > c->limit_bytes) {
        snprintf(reason, sizeof(reason), "%s needed by estimate, %s allowed; not started",
                 SM_TEXT_BYTES(c->forecast.memory_bytes), SM_TEXT_BYTES(c->limit_bytes));
        set_verdict(c, "oom", reason);
    }
}

sm_status cli_candidate_look(const cli_sweeper *s, const cli_configuration *configuration, cli_candidate *c) {
    cli_device_list devices;
    cli_device device;
    memset(c, 0, sizeof(*c));
    const cli_command command = cli_command_find(configuration->args[0]);
    SM_TRY(cli_options_parse(command, true, configuration->n_args, configuration->args, &c->run));
    if (cli_commands[s->options->command].sweeps) {
        // Flags that hold for all configurations. Pauses are made between them.
        c->run.measure.timeout_s = s->options->measure.timeout_s;
        c->run.measure.check_seed = s->options->measure.check_seed;
        c->run.out.progress = s->options->out.progress;
        c->run.argc = s->options->argc;
        c->run.argv = s->options->argv;
    }
    SM_TRY(cli_select_devices(&c->run.device.backends, &devices));
    if (devices.n > 0) {
        device = devices.devices[0];
    } else { // a backend that could not list its devices stands for one
        device = (cli_device){sm_backend_find(c->run.device.backends.texts[0]), -1};
        const sm_status failure = cli_backend_failure(device.backend);
        const char *status = failure == SM_ERR_TIMEOUT ? "timeout" : failure == SM_ERR_OOM ? "oom" : "error";
        set_verdict(c, failure != SM_OK ? status : "", sm_error_message());
    }
    SM_TRY(cli_describe(device, &c->info));
    SM_TRY(command == CLI_LOOP ? cli_parse_loader(&c->run, &(sm_loader_settings){.n_threads = 0}) : SM_OK);
    const sm_status status = cli_job_of(&c->run, NULL, &c->job);
    c->job.device = device;
    if (c->job.config.model == NULL) {
        return status; // an unknown model name: a typing error, or the shell's
    }
    c->is_usage = status != SM_OK;
    const char *meaningless = why_meaningless(c);
    if (c->status[0] != '\0') {
        return SM_OK;
    }
    if (status != SM_OK || meaningless != NULL) {
        set_verdict(c, "skipped", status != SM_OK ? sm_error_message() : meaningless);
        return SM_OK;
    }
    complete_job(s, configuration->key != NULL && strstr(configuration->key, "fit=") != NULL, c);
    foretell(s, c);
    return SM_OK;
}

static int answer(void *ctx) {
    cli_may_load_drivers();
    const cli_candidate *c = ctx;
    SM_OWN(sm_device) *device = NULL;
    SM_OWN(sm_plan) *plan = NULL;
    cli_job job = c->job;
    job.B = job.B > 0 ? job.B : 1;
    job.T = job.T > 0 ? job.T : 1;
    sm_status status = cli_open_device(job.device, job.n_threads, &c->run, &device);
    status = status == SM_OK ? cli_job_plan(&job, device->info.max_alloc_bytes, &plan) : status;
    status = status == SM_OK ? sm_session_supports(device, plan) : status;
    return sm_worker_send(json_pack("{s:i, s:s}", "answer", (int)status, "message", sm_error_message())) == SM_OK ? 0
                                                                                                                  : 1;
}

static sm_status take_answer(void *ctx, const json_t *message, SM_UNUSED int64_t *deadline_ns) {
    cli_candidate *c = ctx;
    const sm_status status = (sm_status)json_integer_value(json_object_get(message, "answer"));
    if (status == SM_ERR_UNSUPPORTED) {
        cli_candidate_skip(c, sm_rows_text(message, "message"));
        return SM_OK;
    }
    return status == SM_OK ? SM_OK : sm_fail(status, "%s", sm_rows_text(message, "message"));
}

// The facts that a process needs to judge the candidate again.
static json_t *tell(const cli_sweeper *s, const cli_configuration *configuration, const cli_candidate *c, bool asks) {
    json_t *args = json_array();
    for (int i = 0; i < configuration->n_args; i++) {
        json_array_append_new(args, sm_json_text(configuration->args[i]));
    }
    return json_pack("{s:b, s:o, s:s?, s:O, s:I, s:b, s:I, s:I, s:f, s:I, s:b}", "asks", asks, "args", args, "key",
                     configuration->key, "machine", s->machine, "limit", (json_int_t)s->memory_limit_bytes, "naive",
                     s->fits_naive, "B", (json_int_t)c->job.B, "T", (json_int_t)c->job.T, "timeout_s",
                     c->run.measure.timeout_s, "check_seed", (json_int_t)c->run.measure.check_seed, "progress",
                     c->run.out.progress);
}

sm_status cli_candidate_ask(const cli_sweeper *s, const cli_configuration *configuration, cli_candidate *c) {
    sm_process_result end;
    SM_TRY(cli_work_apart(
        &(cli_work){.work = answer, .receive = take_answer, .ctx = c, .told = tell(s, configuration, c, true)}, &end));
    return end.exit_code == 0 ? SM_OK : cli_worker_failure(&end, "asking the device", 0);
}

// A row without figures.
static sm_status make_row(const cli_sweeper *s, const cli_candidate *c, const char *status, const char *reason,
                          json_t **made) {
    const cli_bench bench = {.options = &c->run, .machine = s->machine};
    SM_ROW(row);
    sm_status set = cli_set_configuration(&bench, &c->job, &row);
    SM_ROW_TEXT(row.device, c->info.id);
    SM_ROW_TEXT(row.status, status);
    SM_ROW_TEXT(row.reason, reason);
    *made = set == SM_OK ? sm_row_to_json(&row) : NULL;
    return set;
}

typedef struct {
    cli_sweeper *sweeper;
    cli_candidate *candidate;
    const cli_configuration *configuration;
    char stage[SM_ROW_REASON_SIZE];
    json_t *draft;     // what is known so far; NULL: nothing
    json_t *row;       // complete
    sm_status refused; // SM_ERR_USAGE instead of a row
    char message[SM_ROW_REASON_SIZE];
} measuring;

// In the process that measures: chooses B and T, once for all modes and thread counts, so that their rows compare.
static sm_status choose_sizes(measuring *m, cli_bench *bench) {
    cli_job *job = &m->candidate->job;
    cli_handed_on *handed_on = m->sweeper->handed_on;
    cli_fitted *fitted = &handed_on->fitted[handed_on->n_fitted % CLI_MAX_PEAKS];
    SM_ROW(row);
    const int64_t T = job->T; // if --fit chooses the batch alone
    job->B = CLI_DEFAULT_BATCH;
    job->T = T > 0 ? T : job->config.context < CLI_DEFAULT_SEQ_LEN ? job->config.context : CLI_DEFAULT_SEQ_LEN;
    SM_TRY(cli_set_configuration(bench, job, &row));
    SM_ROW_TEXT(row.device, m->candidate->info.id);
    cli_stage("choosing batch size and length (--fit)", &row); // measuring the ceilings may hang
    cli_job fit = *job;
    fit.T = T;
    fit.mode = m->sweeper->fits_naive ? SM_MODE_NAIVE : fit.mode;
    const sm_status status = cli_fit(bench, m->candidate->limit_bytes, &fit);
    if (status == SM_OK) { // a device that cannot be opened gets its row with the defaults
        job->B = fit.B;
        job->T = fit.T;
        foretell(m->sweeper, m->candidate);
    }
    if (T == 0) {
        *fitted = (cli_fitted){.B = job->B, .T = job->T};
        name_place(m->candidate, fitted->place);
        handed_on->n_fitted += handed_on->n_fitted < CLI_MAX_PEAKS;
    }
    return status == SM_ERR_USAGE ? status : SM_OK;
}

static int measure(void *ctx) {
    measuring *m = ctx;
    static cli_bench bench; // static because of its ceilings
    cli_candidate *c = m->candidate;
    SM_ROW(row);
    cli_may_load_drivers();
    bench = m->sweeper->handed_on->bench;
    bench.options = &c->run;
    bench.machine = m->sweeper->machine;
    sm_status status = c->job.B == 0 ? choose_sizes(m, &bench) : SM_OK;
    if (status == SM_OK && c->status[0] != '\0') { // not even the smallest fits
        status = cli_set_configuration(&bench, &c->job, &row);
        SM_ROW_TEXT(row.device, c->info.id);
        sm_row_fail(&row, status == SM_OK ? sm_fail(SM_ERR_OOM, "%s", c->reason) : status);
    } else if (status == SM_OK) {
        const bool is_op = c->job.op[0] != '\0';
        is_op ? cli_say("%s: %s %s, %s ...", c->job.device.backend->name, c->job.op, sm_pass_name(c->job.pass),
                        c->job.shape)
              : cli_say("%s: %s, %s, %s, B=%lld T=%lld ...", c->job.device.backend->name, c->job.model,
                        sm_mode_name(c->job.mode), sm_pass_name(c->job.pass), (long long)c->job.B, (long long)c->job.T);
        status = cli_measure(&bench, &c->job, &row);
    }
    memcpy(m->sweeper->handed_on->bench.peaks, bench.peaks, sizeof(bench.peaks));
    m->sweeper->handed_on->bench.n_peaks = bench.n_peaks;
    json_t *message = status == SM_ERR_USAGE ? json_pack("{s:s}", "refused", sm_error_message()) : json_object();
    if (status != SM_ERR_USAGE) { // a refused flag, such as an unknown --isa, is not a row
        sm_json_set_new(message, "row", sm_row_to_json(&row));
    }
    return sm_worker_send(message) == SM_OK ? 0 : 1;
}

static sm_status receive(void *ctx, const json_t *message, int64_t *deadline_ns) {
    measuring *m = ctx;
    json_t *draft = json_object_get(message, "draft");
    json_t *row = json_object_get(message, "row");
    const char *stage = json_string_value(json_object_get(message, "stage"));
    const char *refused = json_string_value(json_object_get(message, "refused"));
    SM_FAIL_IF((row != NULL && !json_is_object(row)) || (draft != NULL && !json_is_object(draft)), SM_ERR_FORMAT,
               "the worker process sent a row that is none");
    if (stage != NULL) {
        SM_ROW_TEXT(m->stage, stage);
    }
    if (draft != NULL) {
        json_decref(m->draft);
        m->draft = json_incref(draft);
    }
    if (refused != NULL) {
        m->refused = SM_ERR_USAGE;
        SM_ROW_TEXT(m->message, refused);
    }
    if (row != NULL) {
        m->row = json_incref(row);
        *deadline_ns = sm_now_ns(); // drivers may also hang while a process ends
    }
    return SM_OK;
}

// The row of a process that did not end by itself.
static sm_status give_up(measuring *m, const sm_process_result *end) {
    const cli_sweeper *s = m->sweeper;
    // A library may end the process for want of memory below the limit.
    const bool is_at_limit = end->signal == SIGABRT && s->memory_limit_bytes > 0 &&
                             end->peak_rss_bytes > s->memory_limit_bytes - s->memory_limit_bytes / 8;
    const sm_status failure = is_at_limit
                                  ? sm_fail(SM_ERR_OOM, "ended by a library for want of memory during: %s", m->stage)
                                  : cli_worker_failure(end, m->stage, s->options->measure.timeout_s);
    const bool is_complete = json_is_string(json_object_get(m->draft, "status"));
    if (is_complete) { // but its device did not close
        json_array_append_new(json_object_get(m->draft, "warnings"), sm_json_text(sm_error_message()));
    } else {
        SM_ROW(named);
        sm_row_fail(&named, failure);
        SM_TRY(m->draft == NULL ? make_row(s, m->candidate, named.status, named.reason, &m->draft) : SM_OK);
        sm_row_withdraw(m->draft, named.status, named.reason); // there was no last check
        if (failure == SM_ERR_INTERRUPTED) {
            sm_json_set_new(m->draft, "stop_reason", json_string("interrupted"));
        }
    }
    m->row = json_incref(m->draft);
    return failure == SM_ERR_INTERRUPTED ? failure : SM_OK;
}

static sm_status run_process(measuring *m) {
    sm_process_result end;
    const int64_t limit_bytes = m->sweeper->memory_limit_bytes;
    const sm_model_config *config = &m->candidate->job.config;
    // The checks keep a copy of the parameters, of the largest gradient, and room for the largest parameter.
    const int64_t check_bytes =
        (int64_t)sizeof(float) * (sm_model_n_params(config) + 2 * sm_model_padded_vocab(config) * config->d_model);
    SM_ROW_TEXT(m->stage, "starting");
    SM_TRY(cli_work_apart(
        &(cli_work){.work = measure,
                    .receive = receive,
                    .ctx = m,
                    .timeout_s = m->sweeper->options->measure.timeout_s,
                    .most_bytes = (uint64_t)(limit_bytes > 0 ? limit_bytes + library_bytes + check_bytes : 0),
                    .told = tell(m->sweeper, m->configuration, m->candidate, false),
                    .shared = {(void **)&m->sweeper->handed_on, sizeof(*m->sweeper->handed_on)}},
        &end));
    sm_status status = m->refused != SM_OK ? sm_fail(m->refused, "%s", m->message)
                       : m->row == NULL    ? give_up(m, &end)
                                           : SM_OK;
    if (m->row != NULL) {
        sm_json_set_new(m->row, "process_ns", sm_json_integer(end.wall_ns));
        sm_json_set_new(m->row, "process_peak_rss_bytes", sm_json_integer(end.peak_rss_bytes));
    }
    const bool is_cut = m->row != NULL && sm_rows_is(m->row, "stop_reason", "interrupted");
    return status == SM_OK && is_cut ? SM_ERR_INTERRUPTED : status;
}

sm_status cli_do_as_told(const cli_options *options) {
    SM_OWN(json_t) *told = json_loads(os_told(), 0, NULL);
    const sm_backend *listed = sm_backend_find(sm_rows_text(told, "list"));
    const json_t *args = json_object_get(told, "args");
    cli_candidate *c = sm_calloc(1, sizeof(*c));
    cli_configuration configuration = {.key = (char *)json_string_value(json_object_get(told, "key")),
                                       .args = sm_calloc(json_array_size(args) + 1, sizeof(char *)),
                                       .n_args = (int)json_array_size(args)};
    cli_sweeper s = {.options = options,
                     .machine = json_object_get(told, "machine"),
                     .memory_limit_bytes = (int64_t)sm_json_number(told, "limit"),
                     .handed_on = sm_calloc(1, sizeof(*s.handed_on)), // until it has that of the other process
                     .fits_naive = json_is_true(json_object_get(told, "naive"))};
    SM_TRY(listed == NULL ? cli_load_backend(options) : cli_list_as_told(listed));
    for (int i = 0; i < configuration.n_args; i++) {
        configuration.args[i] = (char *)json_string_value(json_array_get(args, (size_t)i));
    }
    cli_may_load_drivers();
    SM_TRY(cli_candidate_look(&s, &configuration, c));
    c->job.B = (int64_t)sm_json_number(told, "B");
    c->job.T = (int64_t)sm_json_number(told, "T");
    c->run.measure.timeout_s = sm_json_number(told, "timeout_s");
    c->run.measure.check_seed = json_integer_value(json_object_get(told, "check_seed"));
    c->run.out.progress = json_is_true(json_object_get(told, "progress"));
    return json_is_true(json_object_get(told, "asks"))
               ? cli_candidate_ask(&s, &configuration, c)
               : run_process(&(measuring){.sweeper = &s, .candidate = c, .configuration = &configuration});
}

sm_status cli_candidate_run(cli_sweeper *s, const cli_configuration *configuration, cli_candidate *c, json_t **row) {
    measuring m = {.sweeper = s, .candidate = c, .configuration = configuration};
    const sm_status status = c->status[0] != '\0' ? make_row(s, c, c->status, c->reason, &m.row) : run_process(&m);
    json_decref(m.draft);
    if (m.row != NULL) {
        char contradiction[SM_CONTRADICTION_SIZE];
        // Sets the fields that only the sweep knows.
        sm_json_set_new(m.row, "sweep_key", sm_json_text(configuration->key));
        sm_json_set_new(m.row, "score", sm_json_text(sm_score_is_work(m.row) ? SM_SCORE_NAME : ""));
        sm_json_set_new(m.row, "memory_limit_bytes",
                        sm_json_integer(s->memory_limit_bytes > 0 ? s->memory_limit_bytes : SM_ABSENT));
        if (configuration->is_search) {
            sm_json_set_new(m.row, "sweep_note", json_string("search for the largest batch that fits"));
        }
        if (c->is_forecast && !json_is_integer(json_object_get(m.row, "estimated_bytes"))) { // it was not started
            sm_json_set_new(m.row, "estimated_bytes", sm_json_integer(c->forecast.memory_bytes));
        }
        sm_row_hold_to_itself(m.row, contradiction);
    }
    *row = m.row;
    return status;
}

// The share for one configuration of the memory available at the start.
static const double memory_share = 0.9;

sm_status cli_sweeper_open(const cli_options *options, cli_sweeper *s) {
    *s = (cli_sweeper){.options = options};
    cli_load_no_drivers(options->measure.timeout_s);
    s->handed_on = os_map_shared(sizeof(*s->handed_on));
    SM_FAIL_IF(s->handed_on == NULL, SM_ERR_OOM, "no memory to share with the processes that measure");
    s->handed_on->bench.n_devices = 1;
    s->machine = sm_machine_facts(options->argc, options->argv);
    const double available = sm_json_number(s->machine, "memory_available_bytes");
    s->memory_limit_bytes = options->measure.max_memory_gib > 0
                                ? (int64_t)(options->measure.max_memory_gib * 1024 * 1024 * 1024)
                            : available > 0 ? (int64_t)(available * memory_share)
                                            : 0;
    return SM_OK;
}

void cli_sweeper_close(cli_sweeper *s) {
    json_decref(s->machine);
    os_unmap(s->handed_on, sizeof(*s->handed_on));
    *s = (cli_sweeper){.options = NULL};
}
