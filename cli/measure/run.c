// run.c: the benchmark. A worker measures (measure/run.h); this process prints its rows and enforces the time limit. If
// a driver hangs or crashes, it writes that row and starts another worker for the rest.
#include <string.h>

#include "clock.h"
#include "bench/compare/speedups.h"
#include "bench/rows/machine.h"
#include "bench/rows/read_rows.h"
#include "bench/rows/row_json_schema.h"
#include "cli/flags/configure.h"
#include "cli/flags/options.h"
#include "cli/measure/run.h"
#include "cli/output/files.h"
#include "cli/output/notes.h"
#include "cli/setup/worker.h"

typedef struct {
    cli_run_state state;
    sm_row_writer *writer; // NULL: nothing written yet
    cli_second second;     // --output-file
    json_t *rows;          // all rows written
    int n_rows;
    int n_ok;     // with figures
    int n_failed; // status error, or timeout without figures
    char last_reason[SM_ROW_REASON_SIZE];

    // The worker's current work.
    char place[SM_TEXT_SIZE + 16]; // "": no job
    char search[SM_TEXT_SIZE];     // the backend that is listing its devices; "": none
    char stage[SM_ROW_REASON_SIZE];
    json_t *draft; // the current job's row; NULL: none
    bool has_ended;
    sm_status status; // once the worker has ended
    char message[SM_ROW_REASON_SIZE];
} run;

// --- checks before anything is measured ------------------------------------------------------

static sm_status check_lengths(const cli_options *options, const sm_model_config *config) {
    for (int i = 0; i < options->work.seq_lens.n; i++) {
        SM_TRY(cli_check_seq_len(config, options->work.seq_lens.values[i]));
    }
    return SM_OK;
}

static sm_status check_models(const cli_options *options) {
    for (int i = 0; i < options->model.models.n; i++) {
        sm_model_config config;
        SM_TRY(cli_config(options, options->model.models.texts[i], &config));
        SM_TRY(check_lengths(options, &config));
    }
    return SM_OK;
}

// Reports an unusable data file before the first row.
static sm_status check_data(const cli_options *options) {
    for (int i = 0; i < options->model.models.n; i++) {
        sm_model_config config;
        sm_tokens *tokens;
        SM_TRY(cli_config(options, options->model.models.texts[i], &config));
        SM_TRY(cli_open_tokens(options, config.vocab, &tokens));
        sm_tokens_close(tokens);
    }
    return SM_OK;
}

// --- rows ------------------------------------------------------------------------------------

static void count_row(run *r, const json_t *row) {
    const char *status = sm_rows_text(row, "status");
    bool has_samples = json_array_size(json_object_get(row, "samples_ns")) > 0;
    r->n_rows++;
    if (strcmp(status, "ok") == 0 || (strcmp(status, "timeout") == 0 && has_samples)) {
        r->n_ok++;
    } else {
        r->n_failed += strcmp(status, "error") == 0 || strcmp(status, "timeout") == 0;
        SM_ROW_TEXT(r->last_reason, sm_rows_text(row, "reason"));
    }
}

// The first row opens the output, so that a usage error found by the worker leaves it empty.
static sm_status open_writer(run *r) {
    return r->writer != NULL ? SM_OK
                             : sm_row_writer_open((sm_format)r->state.bench.options->out.format, stdout, &r->writer);
}

static sm_status keep_row(run *r, json_t *row) {
    SM_TRY(cli_second_add(&r->second, row));
    return json_array_append(r->rows, row) == 0 ? SM_OK : sm_fail(SM_ERR_OOM, "no memory for the rows");
}

static sm_status write_row(run *r, json_t *row) {
    json_t *n_done = json_object_get(r->state.n_done, r->place);
    json_t *next = json_integer(json_integer_value(n_done) + 1);
    if (json_object_set_new(r->state.n_done, r->place, next) != 0) {
        json_decref(row);
        return sm_fail(SM_ERR_OOM, "no memory for the number of rows");
    }
    r->place[0] = '\0';
    count_row(r, row);
    json_decref(r->draft);
    r->draft = NULL;
    sm_status status = open_writer(r);
    if (status == SM_OK) {
        status = keep_row(r, row);
    }
    if (status != SM_OK) {
        json_decref(row);
        return status;
    }
    return sm_row_write_record(r->writer, sm_row_numbered(row, cli_second_number(&r->second)));
}

// --- messages of the worker --------------------------------------------------------------------

static int64_t deadline_from_now(const cli_options *options) {
    double limit_ns = (options->measure.timeout_s + options->measure.delay_s) * 1e9;
    return options->measure.timeout_s > 0 && limit_ns < 9e18 - (double)sm_now_ns() ? sm_now_ns() + (int64_t)limit_ns
                                                                                   : INT64_MAX;
}

static void take_end(run *r, const json_t *message, int64_t *deadline_ns) {
    r->has_ended = true;
    r->status = (sm_status)json_integer_value(json_object_get(message, "end"));
    SM_ROW_TEXT(r->message, sm_rows_text(message, "message"));
    *deadline_ns = sm_now_ns(); // drivers may also hang while a process ends
}

static sm_status receive(void *ctx, const json_t *message, int64_t *deadline_ns) {
    run *r = ctx;
    json_t *draft = json_object_get(message, "draft");
    json_t *row = json_object_get(message, "row");
    json_t *fit = json_object_get(message, "fit");
    const char *place = json_string_value(json_object_get(message, "begin"));
    const char *search = json_string_value(json_object_get(message, "search"));
    const char *stage = json_string_value(json_object_get(message, "stage"));
    if ((row != NULL && !json_is_object(row)) || (draft != NULL && !json_is_object(draft))) {
        return sm_fail(SM_ERR_FORMAT, "the worker process sent a row that is none");
    }
    if (place != NULL || search != NULL) {
        *deadline_ns = deadline_from_now(r->state.bench.options);
    }
    if (place != NULL) {
        SM_ROW_TEXT(r->place, place);
    }
    if (search != NULL) {
        SM_ROW_TEXT(r->search, search);
    }
    if (stage != NULL) {
        SM_ROW_TEXT(r->stage, stage);
    }
    if (draft != NULL) {
        json_decref(r->draft);
        r->draft = json_incref(draft);
    }
    if (fit != NULL && json_object_set(r->state.fits, r->place, fit) != 0) {
        return sm_fail(SM_ERR_OOM, "no memory for what --fit chose");
    }
    if (json_object_get(message, "end") != NULL) {
        take_end(r, message, deadline_ns);
    }
    if (row != NULL) {
        *deadline_ns = INT64_MAX;
        return write_row(r, json_incref(row));
    }
    return SM_OK;
}

// --- a worker that did not end by itself ---------------------------------------------------------

// The row of a job that was abandoned, or of a backend whose devices could not be listed.
static sm_status make_row(run *r, sm_status failure, json_t **made) {
    sm_row row;
    SM_TRY(sm_row_init(&row));
    sm_row_set_machine(&row, r->state.bench.machine);
    SM_ROW_TEXT(row.backend, r->search);
    SM_ROW_TEXT(row.device, r->search);
    sm_row_fail(&row, failure);
    *made = sm_row_to_json(&row);
    sm_row_free(&row);
    return *made != NULL ? SM_OK : sm_fail(SM_ERR_OOM, "no memory for a row");
}

// Sets status and reason of a failed row.
static sm_status fail_draft(json_t *draft, sm_status failure) {
    sm_row row;
    SM_TRY(sm_row_init(&row));
    sm_row_fail(&row, failure);
    int failed = sm_row_drop_speed(draft); // there was no last check
    failed |= json_object_set_new(draft, "status", json_string(row.status));
    failed |= json_object_set_new(draft, "reason", sm_json_text(row.reason));
    if (failure == SM_ERR_INTERRUPTED) {
        failed |= json_object_set_new(draft, "stop_reason", json_string("interrupted"));
    }
    sm_row_free(&row);
    return failed == 0 ? SM_OK : sm_fail(SM_ERR_OOM, "no memory for a row");
}

// The row was complete, but its device did not close.
static sm_status warn_of_close(json_t *draft) {
    json_t *warnings = json_object_get(draft, "warnings");
    return json_array_append_new(warnings, sm_json_text(sm_error_message())) == 0
               ? SM_OK
               : sm_fail(SM_ERR_OOM, "no memory for a warning");
}

static sm_status write_given_up(run *r, sm_status failure) {
    json_t *row = NULL;
    const bool is_complete = json_is_string(json_object_get(r->draft, "status"));
    if (r->draft == NULL) {
        SM_TRY(make_row(r, failure, &row));
    } else {
        SM_TRY(is_complete ? warn_of_close(r->draft) : fail_draft(r->draft, failure));
        row = json_incref(r->draft);
    }
    cli_note("%s %s: %s: %s", sm_rows_text(row, "device"), sm_rows_text(row, "test"), sm_rows_text(row, "status"),
             sm_error_message());
    return write_row(r, row);
}

// Writes the row of the current work. SM_OK: the next worker can continue.
static sm_status give_up(run *r, const sm_process_result *end) {
    sm_status failure = cli_worker_failure(end, r->stage, r->state.bench.options->measure.timeout_s);
    if (r->search[0] != '\0') {
        SM_ROW_TEXT(r->place, r->search);
        cli_lose_backend(sm_backend_find(r->search));
    } else if (r->place[0] == '\0') {
        return failure; // outside of any job: it would happen again
    }
    SM_TRY(write_given_up(r, failure));
    r->search[0] = '\0';
    return failure == SM_ERR_INTERRUPTED ? failure : SM_OK;
}

static int work(void *ctx) { return cli_run_jobs(&((const run *)ctx)->state); }

static sm_status run_workers(run *r) {
    const sm_worker_job job = {
        .work = work,
        .receive = receive,
        .ctx = r,
        .deadline_ns = INT64_MAX,
        .stop_s = CLI_RUN_STOP_S,
        .interrupted = &cli_interrupted,
    };
    while (!r->has_ended) {
        sm_process_result end;
        SM_ROW_TEXT(r->stage, "starting");
        SM_TRY(sm_worker_run(&job, &end));
        if (!r->has_ended) {
            SM_TRY(give_up(r, &end));
        }
    }
    return r->status == SM_OK ? SM_OK : sm_fail(r->status, "%s", r->message);
}

// --- the whole -----------------------------------------------------------------------------------

// The result of all rows: it fails if one failed, or if there are no figures at all.
static sm_status verdict(const run *r) {
    const char *reason = r->n_rows == 1 ? r->last_reason : ""; // with several rows, each reason was printed
    const char *colon = r->n_rows == 1 ? ": " : "";
    if (r->n_failed > 0) {
        return sm_fail(SM_ERR_DEVICE, "%d of %d rows failed%s%s", r->n_failed, r->n_rows, colon, reason);
    }
    if (r->n_ok == 0) {
        return sm_fail(SM_ERR_UNSUPPORTED, "nothing could be measured%s%s", colon, reason);
    }
    return SM_OK;
}

static sm_status start(run *r) {
    const cli_options *options = r->state.bench.options;
    SM_TRY(check_models(options));
    SM_TRY(check_data(options));
    r->state.n_done = json_object();
    r->state.fits = json_object();
    r->rows = json_array();
    if (r->state.n_done == NULL || r->state.fits == NULL || r->rows == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for the number of rows");
    }
    SM_TRY(cli_second_open(options->out.output_file, sm_format_is_read((sm_format)options->out.format), &r->second));
    return sm_machine_facts(options->argc, options->argv, &r->state.bench.machine);
}

static void print_hint(const run *r) {
    if (cli_second_number(&r->second) > 0) {
        cli_rows_hint(r->state.bench.options->out.output_file);
    }
}

// Prints how much faster the fastest row is than others that did the same work.
static sm_status print_comparison(const run *r) {
    json_t *sentences;
    size_t i;
    json_t *sentence;
    SM_TRY(sm_fastest_sentences(r->rows, &sentences));
    json_array_foreach(sentences, i, sentence) { printf("%s%s.\n", i == 0 ? "\n" : "", json_string_value(sentence)); }
    json_decref(sentences);
    return SM_OK;
}

// Completes the output, also if there are no rows.
static sm_status finish(run *r, sm_status status) {
    char message[SM_ROW_REASON_SIZE];
    if (status == SM_ERR_USAGE && r->writer == NULL) {
        return status;
    }
    SM_ROW_TEXT(message, sm_error_message());
    const sm_format format = (sm_format)r->state.bench.options->out.format;
    sm_status closed = open_writer(r);
    if (closed == SM_OK && r->n_ok > 0 && format == SM_FORMAT_TEXT) {
        sm_row_writer_explain(r->writer);
    }
    if (closed == SM_OK) {
        closed = sm_row_writer_close(r->writer);
    }
    if (r->n_ok > 0 && format == SM_FORMAT_MARKDOWN) {
        sm_row_write_legend(!r->state.bench.options->measure.no_peaks, stdout);
    }
    print_hint(r);
    if (closed == SM_OK && r->n_ok > 1 && sm_format_is_read(format)) {
        closed = print_comparison(r);
    }
    if (closed == SM_OK) {
        closed = cli_second_close(&r->second);
    }
    return status != SM_OK ? sm_fail(status, "%s", message) : closed != SM_OK ? closed : verdict(r);
}

sm_status cli_run(const cli_options *options) {
    static run r; // static because of its ceilings
    r = (run){.state = {.bench = {.options = options}}};
    sm_status status = start(&r);
    if (status == SM_OK) {
        status = finish(&r, run_workers(&r));
    }
    (void)cli_second_close(&r.second); // if a failure left it open
    json_decref(r.rows);
    json_decref(r.draft);
    json_decref(r.state.n_done);
    json_decref(r.state.fits);
    json_decref(r.state.bench.machine);
    return status;
}
