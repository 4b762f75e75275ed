// cli_sweep.c: the subcommand: every configuration in turn, each row kept at once.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli_commands.h"
#include "cli_recommend.h"
#include "cli_sweep.h"
#include "cli_sweep_row.h"
#include "machine.h"
#include "row_write.h"
#include "show.h"
#include "sweep_log.h"

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

// Work of a configuration, for the time that is left: FLOPs of its steps and something more.
static double work_of(const cli_candidate *c) {
    if (c->status[0] != '\0') {
        return 0;
    }
    double n_warmup = c->run.warmup >= 0 ? (double)c->run.warmup : N_AUTO_WARMUP;
    double n_steps = n_warmup + (double)c->run.repetitions + N_INSTRUMENTED_STEPS;
    return fixed_work + (c->is_forecast ? c->forecast.flops * n_steps : 0);
}

static void text_duration(double seconds, char *text, size_t size_bytes) {
    if (seconds < 90) {
        snprintf(text, size_bytes, "%.0f s", seconds);
    } else if (seconds < 5400) {
        snprintf(text, size_bytes, "%.0f min", seconds / 60);
    } else {
        snprintf(text, size_bytes, "%.1f h", seconds / 3600);
    }
}

static void say_progress(const cli_sweep *s, const cli_configuration *c, const json_t *row) {
    char step[32];
    char left[32] = "?";
    const char *status = sm_rows_text(row, "status");
    bool ok = strcmp(status, "ok") == 0;
    sm_text_ms(sm_json_number(row, "median_ns"), step, sizeof(step));
    if (s->work_done > 0) {
        text_duration(s->seconds * s->work_left / s->work_done, left, sizeof(left));
    }
    cli_note("[%d/%d] %s: %s%s%s%s%s%s; about %s left", s->n_finished, s->n_total, c->key, status,
             step[0] != '\0' ? ", " : "", step, step[0] != '\0' ? " ms" : "", ok ? "" : ": ",
             ok ? "" : sm_rows_text(row, "reason"), left);
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

json_t *cli_sweep_known(const cli_sweep *s, const char *key) {
    return s->log != NULL ? sm_sweep_log_find(s->log, key) : json_object_get(s->kept, key);
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
        s->work_done += work_of(candidate);
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
        s->work_left -= work_of(s->candidate);
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
            s->work_left += work_of(s->candidate);
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

static const sm_column dry_columns[] = {
    {.name = "configuration",
     .type = SM_COLUMN_TEXT,
     .unit = "",
     .description = "flags of `run`",
     .heading = "configuration"},
    {.name = "estimated_bytes",
     .type = SM_COLUMN_INTEGER,
     .unit = "bytes",
     .description = "memory by the planner",
     .heading = "memory",
     .show = sm_show_bytes},
    {.name = "verdict", .type = SM_COLUMN_TEXT, .unit = "", .description = "what would be done", .heading = "verdict"},
};

static const sm_table dry_table = {"configurations", dry_columns, (int)(sizeof(dry_columns) / sizeof(dry_columns[0]))};

static sm_status print_plan(cli_sweep *s) {
    sm_record_writer *writer = NULL;
    sm_status status = sm_record_writer_open(&dry_table, (sm_format)s->sweeper.options->output, stdout, &writer);
    for (int i = 0; i < s->plan.n && status == SM_OK; i++) {
        const cli_candidate *c = s->candidate;
        char verdict[SM_ROW_REASON_SIZE + 32];
        status = cli_candidate_look(&s->sweeper, &s->plan.items[i], s->candidate);
        bool done = cli_sweep_known(s, s->plan.items[i].key) != NULL;
        snprintf(verdict, sizeof(verdict), "%s%s%s",
                 done                   ? "done"
                 : c->status[0] != '\0' ? c->status
                                        : "run",
                 c->reason[0] != '\0' ? ": " : "", c->reason);
        if (status == SM_OK) {
            json_t *record = json_object();
            sm_json_set_new(record, "configuration", sm_json_text(s->plan.items[i].key));
            sm_json_set_new(record, "estimated_bytes",
                            sm_json_integer(c->is_forecast ? c->forecast.memory_bytes : SM_ABSENT));
            sm_json_set_new(record, "verdict", sm_json_text(verdict));
            status = sm_record_write(writer, record);
        }
    }
    sm_status closed = sm_record_writer_close(writer);
    return status != SM_OK ? status : closed;
}

// Under a table for readers; other formats hold rows and nothing else.
static sm_status print_advice(const cli_sweep *s, const json_t *rows) {
    size_t n = 0;
    if (s->sweeper.options->output != SM_FORMAT_MARKDOWN || json_array_size(rows) < 2) {
        return SM_OK;
    }
    puts("");
    return cli_recommend_print(rows, SM_FORMAT_MARKDOWN, &n);
}

// Rows of this plan, in its order, searches included; also those that an earlier run left.
static sm_status print_rows(cli_sweep *s, int *n_ok, int *n_failed) {
    sm_record_writer *writer = NULL;
    json_t *rows = json_array();
    sm_status status = sm_record_writer_open(&sm_row_table, (sm_format)s->sweeper.options->output, stdout, &writer);
    for (int i = 0; i < s->plan.n && status == SM_OK; i++) {
        json_t *row = cli_sweep_known(s, s->plan.items[i].key);
        if (row != NULL) {
            const char *text = sm_rows_text(row, "status");
            *n_failed += strcmp(text, "error") == 0;
            *n_ok += strcmp(text, "ok") == 0;
            json_array_append(rows, row);
            status = sm_row_write_record(writer, json_incref(row));
        }
    }
    sm_status closed = sm_record_writer_close(writer);
    status = status != SM_OK ? status : closed;
    if (status == SM_OK) {
        status = print_advice(s, rows);
    }
    json_decref(rows);
    return status;
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
    if (o->output_file == NULL) {
        return o->resume ? sm_fail(SM_ERR_USAGE, "--resume: needs --output-file, the file to go on with") : SM_OK;
    }
    SM_TRY(sm_sweep_log_open(o->output_file, o->resume, &s->log));
    json_array_foreach(sm_sweep_log_rows(s->log)->warnings, i, warning) { cli_note("%s", json_string_value(warning)); }
    return SM_OK;
}

static sm_status run_and_print(cli_sweep *s) {
    int n_ok = 0;
    int n_failed = 0;
    SM_TRY(look_at_all(s));
    sm_status status = run_all(s);
    if (status != SM_OK && status != SM_ERR_INTERRUPTED) {
        return status;
    }
    if (status == SM_ERR_INTERRUPTED && s->log != NULL) {
        cli_note("%d of %d rows are in %s; the same command with --resume goes on", s->n_finished, s->n_total,
                 s->sweeper.options->output_file);
    }
    SM_TRY(print_rows(s, &n_ok, &n_failed));
    SM_TRY(status);
    return n_failed > 0 ? sm_fail(SM_ERR_DEVICE, "%d rows failed; their `reason` says why", n_failed)
           : n_ok == 0  ? sm_fail(SM_ERR_UNSUPPORTED, "nothing could be measured; each row's `reason` says why")
                        : SM_OK;
}

sm_status cli_sweep_run(const cli_options *options) {
    sm_status status = SM_OK;
    cli_sweep s = {.kept = json_object(), .candidate = calloc(1, sizeof(*s.candidate))};
    if (s.kept == NULL || s.candidate == NULL) {
        status = sm_fail(SM_ERR_OOM, "sweep: no memory");
        goto cleanup;
    }
    SM_TRY_GOTO(set_sweeper(options, &s.sweeper));
    SM_TRY_GOTO(cli_sweep_plan_make(options, &s.plan));
    SM_TRY_GOTO(open_log(&s));
    status = options->dry_run ? print_plan(&s) : run_and_print(&s);
cleanup:
    cli_sweep_plan_free(&s.plan);
    sm_sweep_log_close(s.log);
    json_decref(s.kept);
    json_decref(s.sweeper.machine);
    free(s.candidate);
    return status;
}
