// sweep.c: the rows of a running sweep; and the subcommand `run`: measures every configuration in turn, keeps each row
// at once, and prints them: as they come where they run in the order asked for, else in that order at the end.
#include <errno.h>

#include "clock.h"
#include "bench/rows/machine.h"
#include "cli/flags/flag.h"
#include "cli/rows/rows.h"
#include "cli/sweep/sweep.h"
#include "src/io/shell_word.h"

// Work besides a configuration's steps (start, ceilings, weights, loss check), in FLOPs.
static const double fixed_work = 1e11;

enum { N_INSTRUMENTED_STEPS = 4, N_AUTO_WARMUP = 6 };

// Work of a configuration, for the estimate of the remaining time: FLOPs of its steps plus a constant; 0: none.
static double work_of(const cli_candidate *c) {
    if (c->status[0] != '\0') {
        return 0;
    }
    double n_warmup = c->run.measure.warmup >= 0 ? (double)c->run.measure.warmup : N_AUTO_WARMUP;
    double n_steps = n_warmup + (double)c->run.measure.repetitions + N_INSTRUMENTED_STEPS;
    return fixed_work + (c->is_forecast ? c->forecast.flops * n_steps : 0);
}

static bool key_has(const char *key, const char *flag, const char *value) {
    return strstr(key, SM_TEXT_IN(PATH_MAX + CLI_TEXT_SIZE, "%s=%s", flag, value)) != NULL;
}

// A log may come from anybody, and its rows may claim anything. Rows that ran own code count for no other.
static bool names_its_code(const json_t *row) {
    const char *key = sm_rows_text(row, "sweep_key");
    bool names_any = !sm_rows_has(row, "own_kernels");
    bool names_all = true;
    for (int i = 0; i < cli_flag_count(); i++) {
        const cli_flag *flag = cli_flag_at(i);
        const bool is_code = flag->type == CLI_CODE;
        const char *value = sm_rows_flag(json_object_get(row, "run_args"), flag->name);
        names_any = names_any || (is_code && key_has(key, flag->name, ""));
        names_all = names_all && (!is_code || value == NULL || key_has(key, flag->name, value));
    }
    return names_any && names_all;
}

// Why a row of the file does not count; NULL: it does.
static const char *why_not(const json_t *machine, const json_t *row) {
    const char *cpu = sm_rows_text(row, "cpu_info");
    return !names_its_code(row) ? "ran code of its own, which its sweep_key does not name"
           : cpu[0] != '\0' && !sm_rows_is(machine, "cpu.name", cpu) ? "was measured on another processor"
                                                                     : NULL;
}

json_t *cli_sweep_known(const cli_sweep *s, const char *key) {
    json_t *row = json_object_get(s->kept, key);
    json_t *before = row == NULL && s->file.log != NULL && s->sweeper.options->sweep.resume
                         ? sm_sweep_log_find(s->file.log, key)
                         : NULL;
    return row != NULL ? row : before != NULL && why_not(s->sweeper.machine, before) == NULL ? before : NULL;
}

sm_status cli_sweep_measure(cli_sweep *s, const cli_configuration *c, cli_candidate *candidate, json_t **row) {
    json_t *made = NULL;
    *row = NULL;
    SM_TRY(cli_interrupted ? SM_ERR_INTERRUPTED : SM_OK);
    if (s->n_started++ > 0 && candidate->status[0] == '\0') {
        const double delay_s = s->sweeper.options->measure.delay_s;
        struct timespec left = {.tv_sec = (time_t)delay_s};
        left.tv_nsec = (long)((delay_s - (double)left.tv_sec) * 1e9);
        while (delay_s > 0 && nanosleep(&left, &left) != 0 && errno == EINTR && !cli_interrupted) {
        }
        SM_TRY(cli_interrupted ? SM_ERR_INTERRUPTED : SM_OK);
    }
    const int64_t begin_ns = sm_now_ns();
    const double work = work_of(candidate);
    const sm_status measured = cli_candidate_run(&s->sweeper, c, candidate, &made);
    if (made == NULL) {
        return measured;
    }
    // A row of which only some samples were taken is shown, and kept for no later run.
    json_object_set_new(s->kept, c->key, made);
    SM_TRY(measured == SM_OK || s->file.log == NULL ? cli_row_file_add(&s->file, made) : SM_OK);
    if (work > 0) {
        s->seconds += (double)(sm_now_ns() - begin_ns) * 1e-9;
        s->work_done += work;
    }
    *row = cli_sweep_known(s, c->key);
    return measured;
}

// --- its beginning and its end -------------------------------------------------------------------

sm_status cli_sweep_open(const cli_options *options, cli_sweep *s) {
    *s = (cli_sweep){.kept = json_object(), .rows = json_array(), .candidate = sm_calloc(1, sizeof(*s->candidate))};
    SM_TRY(cli_sweeper_open(options, &s->sweeper));
    SM_TRY(cli_sweep_plan_make(options, &s->plan));
    SM_OWN(json_t) *devices = json_object();
    for (int i = 0; i < s->plan.n; i++) {
        const char *device = strstr(s->plan.items[i].key, "backend="); // each has one
        SM_FREED char *name = sm_strndup(device, strcspn(device, " "));
        (void)json_object_set_new_nocheck(devices, name, json_true());
        s->sweeper.fits_naive = s->sweeper.fits_naive || key_has(s->plan.items[i].key, "mode", "naive");
    }
    s->sweeper.handed_on->bench.n_devices = (int)json_object_size(devices);
    const char *path = options->out.output_file;
    const bool resumes = options->sweep.resume;
    SM_TRY(cli_row_file_open(path, options->sweep.dry_run, &s->file));
    SM_FAIL_IF(resumes && s->file.log == NULL, SM_ERR_USAGE,
               "--resume: needs --output-file, and continues a file of lines, such as rows.jsonl");
    const sm_rows *rows = s->file.log != NULL ? sm_sweep_log_rows(s->file.log) : NULL;
    if (rows != NULL) {
        cli_note_warnings(rows);
    }
    for (size_t i = 0; resumes && i < json_array_size(rows->rows); i++) {
        const char *reason = why_not(s->sweeper.machine, json_array_get(rows->rows, i));
        if (reason != NULL) {
            cli_note("warning: %s: row %zu %s; it is not taken", path, i + 1, reason);
        }
    }
    return SM_OK;
}

void cli_sweep_close(cli_sweep *s) {
    (void)cli_row_file_close(&s->file); // if a failure left it open
    cli_sweep_plan_free(&s->plan);
    json_decref(s->kept);
    json_decref(s->rows);
    cli_sweeper_close(&s->sweeper);
    free(s->candidate);
}

// --- --dry-run -----------------------------------------------------------------------------------

#define COLUMN_LIST(X)                                                                                   \
    X("configuration", TEXT, "", "flags of `run`", own, .heading = "configuration")                      \
    X("estimated_bytes", INTEGER, "bytes", "memory by the planner",                                      \
      c->is_forecast ? c->forecast.memory_bytes : SM_ABSENT, .heading = "memory", .show = sm_show_bytes) \
    X("verdict", TEXT, "", "planned outcome: run, done, skipped or oom, with the reason", verdict, .heading = "verdict")

static const sm_table table = SM_LISTED_TABLE("configurations", COLUMN_LIST);

// The words of a key that are among other words, "a=1 b=2", or those that are not. The caller frees it.
static char *words_of(const char *key, const char *others, bool is_among) {
    SM_FREED char *padded = sm_text_of(" %s ", others);
    char *text = NULL;
    size_t size;
    FILE *out = sm_memstream(&text, &size);
    for (const char *word = key; *word != '\0'; word += strspn(word, " ")) {
        const int length = (int)strcspn(word, " ");
        SM_FREED char *one = sm_text_of(" %.*s ", length, word);
        if ((strstr(padded, one) != NULL) == is_among) {
            fprintf(out, "%s%.*s", ftell(out) > 0 ? " " : "", length, word);
        }
        word += length;
    }
    sm_memstream_close(out);
    return text;
}

// `shared`: words that are said once, for all.
static json_t *make_record(const cli_configuration *configuration, const char *shared, const cli_candidate *c,
                           const json_t *row) {
    SM_FREED char *own = words_of(configuration->key, shared, false);
    char verdict[SM_ROW_REASON_SIZE + 32];
    const char *status = row != NULL ? "done" : c->status[0] != '\0' ? c->status : "run";
    const char *reason = row != NULL ? "" : c->reason;
    json_t *record = json_object();
    snprintf(verdict, sizeof(verdict), "%s%s%s", status, reason[0] != '\0' ? ": " : "", reason);
    COLUMN_LIST(SM_LISTED_VALUE)
    return record;
}

sm_status cli_sweep_dry_run(cli_sweep *s) {
    const cli_options *o = s->sweeper.options;
    const sm_format format = o->out.format;
    const bool is_read = sm_format_is_read(format);
    int n_done = 0, n_run = 0, n_oom = 0;
    double work_done = 0; // of measured rows, and their time
    double work_left = 0, seconds = 0;
    SM_OWN(json_t) *records = json_array();
    SM_FREED char *shared = sm_strdup(is_read && s->plan.n > 1 ? s->plan.items[0].key : "");
    for (int i = 1; i < s->plan.n; i++) {
        SM_FREED char *before = shared;
        shared = words_of(before, s->plan.items[i].key, true);
    }
    for (int i = 0; i < s->plan.n; i++) {
        const cli_configuration *configuration = &s->plan.items[i];
        cli_candidate *c = s->candidate;
        const json_t *row = cli_sweep_known(s, configuration->key);
        SM_TRY(cli_interrupted ? SM_ERR_INTERRUPTED : SM_OK);
        SM_TRY(cli_candidate_look(&s->sweeper, configuration, c));
        SM_TRY(row == NULL && c->status[0] == '\0' ? cli_candidate_ask(&s->sweeper, configuration, c) : SM_OK);
        const double work = work_of(c);
        const double process_ns = row != NULL ? sm_json_number(row, "process_ns") : NAN;
        n_done += row != NULL;
        n_oom += row == NULL && c->status[0] == 'o';
        n_run += row == NULL && c->status[0] == '\0';
        work_left += row == NULL ? work : 0;
        work_done += isfinite(process_ns) ? work : 0;
        seconds += isfinite(process_ns) ? process_ns / 1e9 : 0;
        json_array_append_new(records, make_record(configuration, shared, c, row));
    }
    SM_TRY(sm_record_write_all(&table, format, stdout, records));
    // The estimate assumes the speed of the existing rows.
    FILE *stream = is_read ? stdout : stderr;
    if (shared[0] != '\0') {
        printf("\nAll of them: %s\n", shared);
    }
    fprintf(stream, "%s%d configuration%s: %d to run, %d skipped, %d too large, %d done",
            stream == stdout ? "\n" : "stepmark: ", s->plan.n, sm_plural((size_t)s->plan.n), n_run,
            s->plan.n - n_run - n_oom - n_done, n_oom, n_done);
    if (work_done > 0 && n_run > 0) {
        fprintf(stream, "; about %s, at the speed of the rows in %s", CLI_DURATION(seconds * work_left / work_done),
                o->out.output_file);
    }
    fputc('\n', stream);
    return SM_OK;
}

// --- the largest batch ---------------------------------------------------------------------------

// After a batch that did not run, the next is this share of it.
static const double next_share = 0.9;

// Runs the configuration with other B and T, or finds its row.
static sm_status probe(cli_sweep *s, int index, int64_t B, int64_t T, json_t **row) {
    SM_TRY(cli_sweep_plan_derive(&s->plan, &s->plan.items[index], B, T));
    const cli_configuration *c = &s->plan.items[s->plan.n - 1];
    *row = cli_sweep_known(s, c->key);
    if (*row != NULL) {
        return SM_OK;
    }
    SM_TRY(cli_candidate_look(&s->sweeper, c, s->candidate));
    SM_TRY(cli_sweep_measure(s, c, s->candidate, row));
    cli_note("%s: %s %s", c->key, sm_rows_text(*row, "status"), sm_rows_text(*row, "reason"));
    return SM_OK;
}

// For configuration `index` of the plan, which has no batch size or does not fit: runs the largest batch that fits by
// estimate, and smaller ones until one runs. Halves T if not even one sequence fits. Appends its runs to the plan, and
// reuses existing rows. The row's sweep_note tells how its batch was found.
static sm_status sweep_find(cli_sweep *s, int index) {
    int64_t B = 0, T = 0, failed_B = 0;
    json_t *row = NULL;
    SM_TRY(cli_candidate_look(&s->sweeper, &s->plan.items[index], s->candidate));
    const json_t *known = cli_sweep_known(s, s->plan.items[index].key);
    // The largest work that fits by estimate, below a batch that did not run. Halves T until one sequence fits.
    cli_job job = s->candidate->job;
    for (; job.T > 0 && B == 0; job.T /= 2) {
        T = job.T;
        B = cli_largest_batch(&job, (cli_target){s->candidate->info.max_alloc_bytes, NULL}, s->candidate->limit_bytes);
    }
    B = known != NULL && job.B > 0 && T == s->candidate->job.T && B >= job.B ? job.B - 1 : B;
    while (B > 0) {
        SM_TRY(probe(s, index, B, T, &row));
        if (!sm_rows_is(row, "status", "oom")) {
            break;
        }
        failed_B = B;
        B = (int64_t)((double)B * next_share);
    }
    const char *key = s->plan.items[index].key;
    if (B == 0) {
        cli_note("%s: not even one token fits", key);
    } else if (json_array_size(json_object_get(row, "samples_ns")) == 0) { // a late one with samples did run
        cli_note("%s: a batch of %lld of %lld tokens should fit, but it is not proven: %s", key, (long long)B,
                 (long long)T, sm_rows_text(row, "reason"));
    } else {
        cli_note("%s: the largest batch is %lld of %lld tokens: it ran, and %lld %s", key, (long long)B, (long long)T,
                 (long long)(failed_B > 0 ? failed_B : B + 1), failed_B > 0 ? "did not" : "does not fit by estimate");
    }
    return SM_OK;
}

// Whether rows are printed as they come.
static bool prints_at_once(const cli_options *o) {
    return cli_sweep_order(o) == CLI_ORDER_GIVEN && !o->sweep.find_batch;
}

// The first row opens the output, so that a usage error leaves it empty.
static sm_status print_row(cli_sweep *s, json_t *row) {
    const sm_format format = s->sweeper.options->out.format;
    if (s->file.rows != NULL) {
        signal(SIGPIPE, SIG_IGN); // the file is written at the end, also where nobody reads stdout any more
    }
    SM_TRY(s->writer == NULL ? sm_row_writer_open(format, stdout, &s->writer) : SM_OK);
    json_array_append(s->rows, row);
    return sm_row_write_record(s->writer, sm_row_numbered(json_incref(row), cli_row_file_number(&s->file, row)));
}

static sm_status run_one(cli_sweep *s, int index) {
    const cli_options *o = s->sweeper.options;
    const cli_configuration *c = &s->plan.items[index];
    json_t *row = cli_sweep_known(s, c->key);
    sm_status status = SM_OK;
    SM_TRY(cli_candidate_look(&s->sweeper, c, s->candidate));
    bool search = o->sweep.find_batch && s->candidate->status[0] != 's' && s->candidate->job.B == 0;
    if (row == NULL && !search) {
        s->work_left -= work_of(s->candidate);
        cli_live_parts("row", s->n_finished, s->n_total);
        status = cli_sweep_measure(s, c, s->candidate, &row);
        s->n_finished++;
        if (row != NULL && s->n_total > 1) { // of a single row a failure is the program's last message
            char when[64] = "";
            const char *its = sm_rows_text(row, "status");
            const char *reason = sm_rows_text(row, "reason");
            const char *step = SM_TEXT_MS(sm_json_number(row, "median_ns"));
            const bool ok = strcmp(its, "ok") == 0;
            if (!ok && json_array_size(json_object_get(row, "samples_ns")) == 0) {
                cli_note("%s %s: %s: %s", sm_rows_text(row, "device"), sm_rows_text(row, "test"), its, reason);
            }
            if (s->work_done > 0) {
                snprintf(when, sizeof(when), "; about %s left", CLI_DURATION(s->seconds * s->work_left / s->work_done));
            }
            cli_say("[%d/%d] %s: %s%s%s%s%s%s%s", s->n_finished, s->n_total, c->key, its, step[0] != '\0' ? ", " : "",
                    step, step[0] != '\0' ? " ms" : "", ok ? "" : ": ", ok ? "" : reason, when);
        }
    }
    SM_TRY(row != NULL && prints_at_once(o) ? print_row(s, row) : SM_OK);
    SM_TRY(status);
    bool is_oom = row != NULL && sm_rows_is(row, "status", "oom");
    return search || (is_oom && o->sweep.find_batch) ? sweep_find(s, index) : SM_OK;
}

// Examines all of them first, so that bad values are reported before anything runs, and the total work is known.
static sm_status look_at_all(cli_sweep *s) {
    static cli_candidate before; // static because of its lists
    bool is_usage = true;
    for (int i = 0; i < s->plan.n; i++) {
        SM_TRY(cli_candidate_look(&s->sweeper, &s->plan.items[i], s->candidate));
        // A file that cannot be read is reported before the first row.
        SM_OWN(sm_tokens) *tokens = NULL;
        const cli_candidate *c = s->candidate;
        const bool is_read = before.run.work.data == c->run.work.data && before.job.config.vocab == c->job.config.vocab;
        before.run.work.data = c->run.work.data;
        before.job.config.vocab = c->job.config.vocab;
        if (c->run.work.data != NULL && !is_read && c->status[0] == '\0' && c->run.command != CLI_LOOP) {
            SM_TRY(cli_open_tokens(&c->run, c->job.config.vocab, &tokens));
        }
        is_usage = is_usage && s->candidate->is_usage;
        if (cli_sweep_known(s, s->plan.items[i].key) == NULL) {
            s->work_left += work_of(s->candidate);
        } else {
            s->n_finished++;
        }
    }
    s->n_total = s->plan.n;
    SM_FAIL_IF(is_usage && s->sweeper.options->sweep.preset == NULL && s->sweeper.options->sweep.sweep_file == NULL,
               SM_ERR_USAGE, "%s", s->candidate->reason);
    if (s->n_finished > 0) {
        cli_note("%s: %d of %d rows are there already", s->sweeper.options->out.output_file, s->n_finished, s->n_total);
    }
    return SM_OK;
}

// Prints each sentence on a line, after a blank one, and takes them over; their number.
static size_t print_sentences(json_t *sentences, sm_format format) {
    const size_t n = json_array_size(sentences);
    for (size_t i = 0; i < n; i++) {
        sm_put_sentence(i == 0 ? "\n" : "", json_string_value(json_array_get(sentences, i)), ".\n", format, stdout);
    }
    json_decref(sentences);
    return n;
}

// How much faster the fastest of a few rows is than each other; of more, what is best.
static sm_status print_advice(const cli_sweep *s, const json_t *rows) {
    enum { FEW = 4 };
    const sm_format format = s->sweeper.options->out.format;
    size_t n = 0;
    int best = -1;
    if (!sm_format_is_read(format) || json_array_size(rows) < 2) {
        return SM_OK;
    }
    if (print_sentences(sm_crossover_sentences(rows), format) > 0 && s->sweeper.options->sweep.preset == NULL) {
        return SM_OK;
    }
    if ((int64_t)json_array_size(rows) <= FEW * s->sweeper.options->sweep.rounds &&
        s->sweeper.options->sweep.preset == NULL) {
        (void)print_sentences(sm_fastest_sentences(rows), format);
        return SM_OK;
    }
    puts("");
    SM_TRY(cli_recommend_print(rows, format, &n));
    best = n > 0 ? cli_answer_print(rows, NULL, format, stdout) : -1;
    // Below a table for people: the row to measure again, of those in the file.
    const json_t *logged = best >= 0 && s->file.log != NULL ? sm_sweep_log_rows(s->file.log)->rows : NULL;
    const size_t place = logged != NULL ? sm_json_place(logged, json_array_get(rows, (size_t)best)) : 0;
    if (place > 0) {
        cli_again_print(s->sweeper.options->out.output_file, place - 1);
    }
    return SM_OK;
}

// The outcomes of the rows.
typedef struct {
    int n_ok, n_failed;
    const char *reason; // of the first row without figures
    bool one_reason;    // all others have the same
} outcome;

static int compare_places(const void *a, const void *b) {
    const cli_configuration *const *x = a;
    const cli_configuration *const *y = b;
    int by_place = ((*x)->place > (*y)->place) - ((*x)->place < (*y)->place);
    return by_place != 0 ? by_place : (*x > *y) - (*x < *y);
}

// Completes the output, also if there are no rows.
static sm_status close_output(cli_sweep *s, const outcome *o) {
    const cli_options *options = s->sweeper.options;
    const sm_format format = options->out.format;
    SM_TRY(s->writer == NULL ? sm_row_writer_open(format, stdout, &s->writer) : SM_OK);
    if (o->n_ok > 0 && format == SM_FORMAT_TEXT) {
        sm_row_writer_explain(s->writer);
    }
    SM_TRY(sm_record_writer_close(s->writer, SM_OK));
    bool has_peaks = false;
    SM_EACH(row, s->rows) { has_peaks |= sm_json_number(row, "mfu") >= 0; }
    if (o->n_ok > 0 && format == SM_FORMAT_MARKDOWN) {
        sm_row_write_legend(has_peaks, stdout);
    }
    const json_t *last = json_array_get(s->rows, json_array_size(s->rows) - 1);
    if (last != NULL && cli_row_file_number(&s->file, last) > 0 && sm_format_is_read(format)) {
        char word[SM_SHELL_PATH_SIZE];
        printf("\n- #: the row's number N in its file: `stepmark compare %s#N` measures it again.\n",
               sm_shell_path(options->out.output_file, word));
    }
    SM_TRY(o->n_ok > 1 ? print_advice(s, s->rows) : SM_OK);
    return cli_row_file_close(&s->file);
}

static sm_status print_rows(cli_sweep *s, outcome *o) {
    json_t *row;
    size_t i;
    if (!prints_at_once(s->sweeper.options)) {
        // Rows of this plan, in the requested order, including searches, each once; also rows of an earlier run.
        SM_FREED const cli_configuration **sorted = sm_malloc(((size_t)s->plan.n + 1) * sizeof(*sorted));
        SM_OWN(json_t) *taken = json_object();
        for (int k = 0; k < s->plan.n; k++) {
            sorted[k] = &s->plan.items[k];
        }
        qsort(sorted, (size_t)s->plan.n, sizeof(*sorted), compare_places);
        for (int k = 0; k < s->plan.n; k++) {
            const char *key = sorted[k]->key; // two searches may have found the same row
            row = json_object_get(taken, key) == NULL ? cli_sweep_known(s, key) : NULL;
            SM_TRY(row != NULL ? print_row(s, row) : SM_OK);
            json_object_set_new(taken, key, json_true());
        }
    }
    json_array_foreach(s->rows, i, row) {
        const char *reason = sm_rows_text(row, "reason");
        const bool is_late = sm_rows_is(row, "status", "timeout");
        if (sm_rows_is(row, "status", "ok") || (is_late && json_array_size(json_object_get(row, "samples_ns")) > 0)) {
            o->n_ok++;
            continue;
        }
        o->n_failed += is_late || sm_rows_is(row, "status", "error");
        o->one_reason = o->reason == NULL || (o->one_reason && strcmp(reason, o->reason) == 0);
        o->reason = o->reason == NULL ? reason : o->reason;
    }
    return close_output(s, o);
}

static sm_status run_and_print(cli_sweep *s) {
    outcome o = {0, 0, NULL, true};
    char message[SM_ROW_REASON_SIZE] = "";
    SM_TRY(look_at_all(s));
    sm_status ended = SM_OK;
    for (int i = 0, n = s->plan.n; i < n && ended == SM_OK; i++) { // searches append to the plan
        ended = run_one(s, i);
    }
    if (ended == SM_ERR_USAGE && json_array_size(s->rows) == 0) {
        return ended;
    }
    SM_ROW_TEXT(message, sm_error_message());
    if (ended == SM_ERR_INTERRUPTED && s->file.log != NULL) {
        cli_note("%d of %d rows are in %s; the same command with --resume continues", s->n_finished, s->n_total,
                 s->sweeper.options->out.output_file);
    }
    sm_status status = print_rows(s, &o);
    status = status == SM_OK ? cli_sweep_tables(s->sweeper.options) : status;
    SM_FAIL_IF(ended != SM_OK, ended, "%s", message);
    SM_TRY(status);
    const size_t n_rows = json_array_size(s->rows);
    const bool is_said = n_rows > 1 || o.reason == NULL || o.reason[0] == '\0'; // with several rows, each was said
    SM_FAIL_IF(o.n_failed > 0, SM_ERR_DEVICE, "%d of %zu rows failed%s%s", o.n_failed, n_rows, is_said ? "" : ": ",
               is_said ? "" : o.reason);
    SM_FAIL_IF(o.n_ok == 0, SM_ERR_UNSUPPORTED, "nothing could be measured: %s%s",
               o.reason != NULL ? o.reason : "no row",
               o.one_reason ? "" : " (and other reasons; each row has its own)");
    return SM_OK;
}

// --- configurations that all processes measure together, `mpirun -n N stepmark run` ----------------

// Whether the configurations are exchanges among processes, or steps that such an exchange is part of. All processes
// then measure each, one after the other and without a process for each, and rank 0 writes the rows.
static bool is_shared(const cli_options *o) {
    const cli_axes *axes = &o->sweep.axes;
    const char *op = cli_axis_text(axes, "op");
    SM_FREED char *first = op != NULL ? sm_strndup(op, strcspn(op, ",")) : NULL;
    return (first != NULL && sm_collective_op_find(first) != SM_ALONE_COUNT) ||
           cli_axis_text(axes, "buckets") != NULL || cli_axis_text(axes, "shard") != NULL ||
           (o->sweep.preset != NULL && strcmp(o->sweep.preset, "cs336-2-exchange") == 0);
}

// The configurations, each for this process's own device.
static sm_status plan_of(const cli_options *options, sm_comm *comm, cli_device *device, cli_sweep_plan *plan) {
    static cli_options own; // static, as below, because of their lists
    static cli_device_list devices;
    static sm_device_info info; // whose id the plan refers to
    cli_texts names;
    const char *text = cli_axis_text(&options->sweep.axes, "backend");
    SM_TRY(cli_parse_texts("--backend", text != NULL ? text : "cpu", &names));
    SM_TRY(cli_select_devices(&names, &devices));
    SM_TRY(cli_choose_device(comm, &devices, device));
    SM_TRY(device->backend->describe(device->index, &info));
    own = *options;
    SM_TRY(cli_axis_add(&own.sweep.axes, "backend", info.id));
    SM_TRY(cli_sweep_plan_make(&own, plan));
    for (int i = 0; i < plan->n; i++) { // which would be one row in a file otherwise
        static const char *const ways[] = {SM_TRANSPORT_LIST(SM_WORD)};
        cli_configuration_set_key(&plan->items[i], SM_TEXT_IN(64, "processes=%d transport=%s", sm_comm_size(comm),
                                                              ways[options->processes.transport]));
    }
    return SM_OK;
}

static sm_status measure_one(const cli_options *options, sm_comm *comm, cli_bench *bench, cli_device device,
                             const cli_configuration *c, sm_row_writer *writer, cli_row_file *file) {
    static cli_options run;
    cli_job job;
    SM_ROW(row);
    const cli_command command = cli_command_find(c->args[0]);
    SM_TRY(cli_options_parse(command, true, c->n_args, c->args, &run));
    run.measure.check_seed = options->measure.check_seed;
    run.measure.timeout_s = options->measure.timeout_s;
    run.processes.transport = options->processes.transport;
    bench->options = &run;
    SM_TRY(cli_job_of(&run, comm, &job));
    SM_FAIL_IF(job.plan.processes.n < 2, SM_ERR_USAGE,
               "%s: needs several processes: mpirun -n 2 stepmark run ... (docs/parallel.md)", c->key);
    job.device = device;
    job.B = job.B > 0 ? job.B : CLI_DEFAULT_BATCH;
    job.T = job.T > 0 ? job.T : CLI_DEFAULT_SEQ_LEN;
    cli_say("%s ...", c->key);
    const sm_status status = cli_measure(bench, &job, &row);
    if (sm_comm_rank(comm) > 0 || status == SM_ERR_USAGE) {
        return status;
    }
    char contradiction[SM_CONTRADICTION_SIZE];
    SM_OWN(json_t) *record = sm_row_to_json(&row);
    sm_json_set_new(record, "sweep_key", sm_json_text(c->key));
    sm_row_hold_to_itself(record, contradiction);
    sm_status written = cli_row_file_add(file, record);
    written = written == SM_OK ? sm_row_write_record(writer, json_incref(record)) : written;
    return status != SM_OK ? status : written;
}

static sm_status run_together(const cli_options *options, sm_comm *comm) {
    static cli_bench bench;
    SM_AT_END(cli_sweep_plan_free) cli_sweep_plan plan = {NULL, 0};
    cli_device device;
    sm_row_writer *writer = NULL;
    cli_row_file file = {.path = NULL}; // process 0 looks and writes, for all
    SM_TRY(plan_of(options, comm, &device, &plan));
    SM_OWN(json_t) *machine = bench.machine = sm_machine_facts(options->argc, options->argv);
    SM_TRY(sm_comm_rank(comm) == 0 ? sm_row_writer_open(options->out.format, stdout, &writer) : SM_OK);
    sm_status status = sm_comm_rank(comm) == 0 ? cli_row_file_open(options->out.output_file, false, &file) : SM_OK;
    const bool resumes = options->sweep.resume && file.log != NULL;
    for (int i = 0; i < plan.n && status == SM_OK; i++) {
        const json_t *before = resumes ? sm_sweep_log_find(file.log, plan.items[i].key) : NULL;
        bool known = before != NULL && why_not(machine, before) == NULL;
        status = sm_comm_broadcast(comm, 0, &known, sizeof known);
        status = status == SM_OK && !known ? measure_one(options, comm, &bench, device, &plan.items[i], writer, &file)
                                           : status;
    }
    const sm_status closed = cli_row_file_close(&file);
    status = sm_record_writer_close(writer, status == SM_OK ? closed : status);
    return status == SM_OK && sm_comm_rank(comm) == 0 ? cli_sweep_tables(options) : status;
}

sm_status cli_run(const cli_options *options) {
    if (is_shared(options) && !options->sweep.dry_run) {
        return cli_together(options, run_together);
    }
    SM_TRY(cli_require_alone(options));
    SM_AT_END(cli_sweep_close) cli_sweep s = {.n_total = 0};
    SM_TRY(cli_sweep_open(options, &s));
    return options->sweep.dry_run ? cli_sweep_dry_run(&s) : run_and_print(&s);
}
