// sweep.c: the subcommand: every configuration in turn, each row kept at once.
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/rows/machine.h"
#include "bench/rows/row_write.h"
#include "bench/rows/sweep_log.h"
#include "bench/tables/show.h"
#include "cli/flags/options.h"
#include "cli/measure/run.h"
#include "cli/output/notes.h"
#include "cli/rows/rows.h"
#include "cli/sweep/sweep.h"

// Beside a configuration's steps, in steps' worth of work: starting, ceilings, weights, loss check.
static const double fixed_work = 1e11;

// Of the memory that is available at the start, for one configuration.
static const double memory_share = 0.9;

enum { N_INSTRUMENTED_STEPS = 4, N_AUTO_WARMUP = 6 };

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// --- progress ------------------------------------------------------------------------------------

double cli_sweep_work(const cli_candidate *c) {
    if (c->status[0] != '\0') {
        return 0;
    }
    double n_warmup = c->run.warmup >= 0 ? (double)c->run.warmup : N_AUTO_WARMUP;
    double n_steps = n_warmup + (double)c->run.repetitions + N_INSTRUMENTED_STEPS;
    return fixed_work + (c->is_forecast ? c->forecast.flops * n_steps : 0);
}

static void say_progress(const cli_sweep *s, const cli_configuration *c, const json_t *row) {
    char step[32];
    char left[32];
    char when[64] = "";
    const char *status = sm_rows_text(row, "status");
    bool ok = strcmp(status, "ok") == 0;
    sm_text_ms(sm_json_number(row, "median_ns"), step, sizeof(step));
    if (s->work_done > 0) {
        cli_text_duration(s->seconds * s->work_left / s->work_done, left, sizeof(left));
        snprintf(when, sizeof(when), "; about %s left", left);
    }
    cli_say("[%d/%d] %s: %s%s%s%s%s%s%s", s->n_finished, s->n_total, c->key, status, step[0] != '\0' ? ", " : "", step,
            step[0] != '\0' ? " ms" : "", ok ? "" : ": ", ok ? "" : sm_rows_text(row, "reason"), when);
}

// --- one configuration ---------------------------------------------------------------------------

static sm_status rest(double seconds) {
    struct timespec left = {.tv_sec = (time_t)seconds};
    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (seconds > 0 && nanosleep(&left, &left) != 0 && errno == EINTR && !cli_interrupted) {
    }
    return cli_interrupted ? SM_ERR_INTERRUPTED : SM_OK;
}

static sm_status keep_row(cli_sweep *s, const cli_configuration *c, json_t *row) {
    return s->log != NULL                               ? sm_sweep_log_append(s->log, row)
           : json_object_set(s->kept, c->key, row) == 0 ? SM_OK
                                                        : sm_fail(SM_ERR_OOM, "sweep: no memory for its rows");
}

static bool key_has(const char *key, const char *flag, const char *value) {
    char word[PATH_MAX + CLI_TEXT_SIZE];
    snprintf(word, sizeof(word), "%s=%s", flag, value);
    return strstr(key, word) != NULL;
}

// A log may be anybody's, and its rows are the word of who wrote it. Those that ran code of their own are not taken for
// a configuration without.
static bool names_its_code(const json_t *row) {
    static const char *const flags[] = {"kernel", "backend-library"};
    const char *key = sm_rows_text(row, "sweep_key");
    bool names_any = sm_rows_text(row, "own_kernels")[0] == '\0';
    bool names_all = true;
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        const char *value = cli_run_args_value(json_object_get(row, "run_args"), flags[i]);
        names_any = names_any || key_has(key, flags[i], "");
        names_all = names_all && (value == NULL || key_has(key, flags[i], value));
    }
    return names_any && names_all;
}

json_t *cli_sweep_known(const cli_sweep *s, const char *key) {
    json_t *row = s->log != NULL ? sm_sweep_log_find(s->log, key) : json_object_get(s->kept, key);
    return names_its_code(row) ? row : NULL;
}

sm_status cli_sweep_measure(cli_sweep *s, const cli_configuration *c, const cli_candidate *candidate, json_t **row) {
    json_t *made = NULL;
    if (cli_interrupted) {
        return SM_ERR_INTERRUPTED;
    }
    if (s->n_started++ > 0 && candidate->status[0] == '\0') {
        SM_TRY(rest(s->sweeper.options->delay_s));
    }
    double begin_s = now_s();
    SM_TRY(cli_candidate_run(&s->sweeper, c, candidate, &made));
    sm_status status = keep_row(s, c, made); // which keeps a reference
    json_decref(made);
    SM_TRY(status);
    if (candidate->status[0] == '\0') {
        s->seconds += now_s() - begin_s;
        s->work_done += cli_sweep_work(candidate);
    }
    *row = cli_sweep_known(s, c->key);
    return SM_OK;
}

static sm_status run_one(cli_sweep *s, int index) {
    const cli_configuration *c = &s->plan.items[index];
    json_t *row = cli_sweep_known(s, c->key);
    SM_TRY(cli_candidate_look(&s->sweeper, c, s->candidate));
    bool search = s->sweeper.options->find_batch && s->candidate->status[0] != 's' && s->candidate->job.B == 0;
    if (row == NULL && !search) {
        s->work_left -= cli_sweep_work(s->candidate);
        SM_TRY(cli_sweep_measure(s, c, s->candidate, &row));
        s->n_finished++;
        say_progress(s, c, row);
    }
    bool is_oom = row != NULL && strcmp(sm_rows_text(row, "status"), "oom") == 0;
    return search || (is_oom && s->sweeper.options->find_batch) ? cli_sweep_find(s, index) : SM_OK;
}

// --- the whole -------------------------------------------------------------------------------------

// Looks at all of them first: bad values are told before anything runs, and the work is known.
static sm_status look_at_all(cli_sweep *s) {
    for (int i = 0; i < s->plan.n; i++) {
        SM_TRY(cli_candidate_look(&s->sweeper, &s->plan.items[i], s->candidate));
        if (cli_sweep_known(s, s->plan.items[i].key) == NULL) {
            s->work_left += cli_sweep_work(s->candidate);
        } else {
            s->n_finished++;
        }
    }
    s->n_total = s->plan.n;
    if (s->n_finished > 0) {
        cli_note("%s: %d of %d rows are there already", s->sweeper.options->output_file, s->n_finished, s->n_total);
    }
    return SM_OK;
}

static sm_status run_all(cli_sweep *s) {
    const int n = s->plan.n; // searches append to the plan
    for (int i = 0; i < n; i++) {
        SM_TRY(run_one(s, i));
    }
    return SM_OK;
}

// Under a table for readers; other formats hold rows and nothing else.
static sm_status print_advice(const cli_sweep *s, const json_t *rows) {
    size_t n = 0;
    if (!sm_format_is_read((sm_format)s->sweeper.options->output) || json_array_size(rows) < 2) {
        return SM_OK;
    }
    puts("");
    return cli_recommend_print(rows, (sm_format)s->sweeper.options->output, &n);
}

// What came of the rows.
typedef struct {
    int n_ok;
    int n_failed;
    const char *reason; // of the first row without figures
    bool one_reason;    // all others say the same
} outcome;

static void count_row(const json_t *row, outcome *o) {
    const char *status = sm_rows_text(row, "status");
    const char *reason = sm_rows_text(row, "reason");
    o->n_failed += strcmp(status, "error") == 0;
    o->n_ok += strcmp(status, "ok") == 0;
    o->one_reason = o->reason == NULL || (o->one_reason && strcmp(reason, o->reason) == 0);
    o->reason = o->reason == NULL ? reason : o->reason;
}

static int compare_places(const void *a, const void *b) {
    const cli_configuration *const *x = a;
    const cli_configuration *const *y = b;
    int by_place = ((*x)->place > (*y)->place) - ((*x)->place < (*y)->place);
    return by_place != 0 ? by_place : (*x > *y) - (*x < *y);
}

// Rows of this plan, in the order asked for, searches included, each once; also those that an earlier run left. An
// array, or NULL when out of memory.
static json_t *collect_rows(const cli_sweep *s) {
    const cli_configuration **sorted = malloc(((size_t)s->plan.n + 1) * sizeof(*sorted));
    json_t *taken = json_object();
    json_t *rows = json_array();
    bool whole = sorted != NULL && taken != NULL && rows != NULL;
    for (int i = 0; whole && i < s->plan.n; i++) {
        sorted[i] = &s->plan.items[i];
    }
    if (whole) {
        qsort(sorted, (size_t)s->plan.n, sizeof(*sorted), compare_places);
    }
    for (int i = 0; whole && i < s->plan.n; i++) {
        json_t *row = cli_sweep_known(s, sorted[i]->key);
        if (row != NULL && json_object_get(taken, sorted[i]->key) == NULL) { // two searches may have led to one
            whole = json_object_set_new(taken, sorted[i]->key, json_true()) == 0 && json_array_append(rows, row) == 0;
        }
    }
    free(sorted);
    json_decref(taken);
    if (!whole) {
        json_decref(rows);
        return NULL;
    }
    return rows;
}

static sm_status print_rows(const cli_sweep *s, const json_t *rows, outcome *o) {
    sm_record_writer *writer = NULL;
    sm_status status = sm_record_writer_open(&sm_row_table, (sm_format)s->sweeper.options->output, stdout, &writer);
    for (size_t i = 0; i < json_array_size(rows) && status == SM_OK; i++) {
        json_t *row = json_array_get(rows, i);
        count_row(row, o);
        status = sm_row_write_record(writer, json_incref(row));
    }
    sm_status closed = sm_record_writer_close(writer);
    status = status != SM_OK ? status : closed;
    return status == SM_OK ? print_advice(s, rows) : status;
}

static sm_status set_sweeper(const cli_options *options, cli_sweeper *s) {
    s->options = options;
    SM_TRY(sm_machine_facts(options->argc, options->argv, &s->machine));
    ssize_t n = readlink("/proc/self/exe", s->program, sizeof(s->program) - 1);
    if (n <= 0) {
        return sm_fail(SM_ERR_IO, "sweep: /proc/self/exe, this program, cannot be found: %s", strerror(errno));
    }
    s->program[n] = '\0';
    double available = sm_json_number(s->machine, "memory_available_bytes");
    s->memory_limit_bytes = options->max_memory_gib > 0 ? (int64_t)(options->max_memory_gib * 1024 * 1024 * 1024)
                            : available > 0             ? (int64_t)(available * memory_share)
                                                        : 0;
    return SM_OK;
}

static sm_status open_log(cli_sweep *s) {
    const cli_options *o = s->sweeper.options;
    size_t i;
    json_t *warning;
    json_t *row;
    if (o->output_file == NULL) {
        return o->resume ? sm_fail(SM_ERR_USAGE, "--resume: needs --output-file, the file to continue") : SM_OK;
    }
    SM_TRY(o->dry_run ? sm_sweep_log_look(o->output_file, o->resume, &s->log)
                      : sm_sweep_log_open(o->output_file, o->resume, &s->log));
    json_array_foreach(sm_sweep_log_rows(s->log)->warnings, i, warning) { cli_note("%s", json_string_value(warning)); }
    json_array_foreach(sm_sweep_log_rows(s->log)->rows, i, row) {
        if (!names_its_code(row)) {
            cli_note("warning: %s: row %zu ran code of its own, which its sweep_key does not name; it is not taken",
                     o->output_file, i + 1);
        }
    }
    return SM_OK;
}

static sm_status conclude(const outcome *o) {
    if (o->n_failed > 0) {
        return sm_fail(SM_ERR_DEVICE, "%d row%s failed; `reason` says why", o->n_failed,
                       sm_plural((size_t)o->n_failed));
    }
    if (o->n_ok == 0) {
        return sm_fail(SM_ERR_UNSUPPORTED, "nothing could be measured: %s%s", o->reason != NULL ? o->reason : "no row",
                       o->one_reason ? "" : " (and other reasons; each row has its own)");
    }
    return SM_OK;
}

static sm_status run_and_print(cli_sweep *s) {
    outcome o = {0, 0, NULL, true};
    SM_TRY(look_at_all(s));
    sm_status ended = run_all(s);
    if (ended != SM_OK && ended != SM_ERR_INTERRUPTED) {
        return ended;
    }
    if (ended == SM_ERR_INTERRUPTED && s->log != NULL) {
        cli_note("%d of %d rows are in %s; the same command with --resume continues", s->n_finished, s->n_total,
                 s->sweeper.options->output_file);
    }
    json_t *rows = collect_rows(s);
    sm_status status = rows != NULL ? print_rows(s, rows, &o) : sm_fail(SM_ERR_OOM, "sweep: no memory for its rows");
    if (status == SM_OK) {
        status = ended != SM_OK ? ended : conclude(&o);
    }
    json_decref(rows);
    return status;
}

sm_status cli_sweep_open(const cli_options *options, cli_sweep *s) {
    *s = (cli_sweep){.kept = json_object(), .candidate = calloc(1, sizeof(*s->candidate))};
    if (s->kept == NULL || s->candidate == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for rows");
    }
    SM_TRY(set_sweeper(options, &s->sweeper));
    SM_TRY(cli_sweep_plan_make(options, &s->plan));
    return open_log(s);
}

void cli_sweep_close(cli_sweep *s) {
    cli_sweep_plan_free(&s->plan);
    sm_sweep_log_close(s->log);
    json_decref(s->kept);
    json_decref(s->sweeper.machine);
    free(s->candidate);
}

sm_status cli_sweep_run(const cli_options *options) {
    cli_sweep s;
    sm_status status = cli_sweep_open(options, &s);
    if (status == SM_OK) {
        status = options->dry_run ? cli_sweep_dry_run(&s) : run_and_print(&s);
    }
    cli_sweep_close(&s);
    return status;
}
