// rows.c: the rows of a running sweep: the known ones, and measuring one more.
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/rows/sweep_log.h"
#include "bench/tables/show.h"
#include "cli/flags/flag.h"
#include "cli/measure/run.h"
#include "cli/output/notes.h"
#include "cli/sweep/sweep.h"

// Work besides a configuration's steps (start, ceilings, weights, loss check), in FLOPs.
static const double fixed_work = 1e11;

enum { N_INSTRUMENTED_STEPS = 4, N_AUTO_WARMUP = 6 };

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double cli_sweep_work(const cli_candidate *c) {
    if (c->status[0] != '\0') {
        return 0;
    }
    double n_warmup = c->run.measure.warmup >= 0 ? (double)c->run.measure.warmup : N_AUTO_WARMUP;
    double n_steps = n_warmup + (double)c->run.measure.repetitions + N_INSTRUMENTED_STEPS;
    return fixed_work + (c->is_forecast ? c->forecast.flops * n_steps : 0);
}

// --- one configuration ---------------------------------------------------------------------------

static sm_status rest(double seconds) {
    struct timespec left = {.tv_sec = (time_t)seconds};
    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (seconds > 0 && nanosleep(&left, &left) != 0 && errno == EINTR && !cli_interrupted) {
    }
    return cli_interrupted ? SM_ERR_INTERRUPTED : SM_OK;
}

// A row of which only some samples were taken is shown, and kept for no later run.
static sm_status keep_row(cli_sweep *s, const cli_configuration *c, json_t *row, bool is_whole) {
    json_object_set(s->kept, c->key, row);
    SM_TRY(s->log != NULL && is_whole ? sm_sweep_log_append(s->log, row) : SM_OK);
    cli_second_add(&s->second, row);
    return SM_OK;
}

static bool key_has(const char *key, const char *flag, const char *value) {
    char word[PATH_MAX + CLI_TEXT_SIZE];
    snprintf(word, sizeof(word), "%s=%s", flag, value);
    return strstr(key, word) != NULL;
}

// A log may come from anybody, and its rows may claim anything. Rows that ran their own code do not count for a
// configuration without.
static bool names_its_code(const json_t *row) {
    const char *key = sm_rows_text(row, "sweep_key");
    bool names_any = sm_rows_text(row, "own_kernels")[0] == '\0';
    bool names_all = true;
    for (int i = 0; i < cli_flag_count(); i++) {
        const cli_flag *flag = cli_flag_at(i);
        const bool is_code = flag->type == CLI_CODE;
        const char *value = cli_run_args_value(json_object_get(row, "run_args"), flag->name);
        names_any = names_any || (is_code && key_has(key, flag->name, ""));
        names_all = names_all && (!is_code || value == NULL || key_has(key, flag->name, value));
    }
    return names_any && names_all;
}

json_t *cli_sweep_known(const cli_sweep *s, const char *key) {
    json_t *row = json_object_get(s->kept, key);
    json_t *before =
        row == NULL && s->log != NULL && s->sweeper.options->sweep.resume ? sm_sweep_log_find(s->log, key) : NULL;
    return row != NULL ? row : before != NULL && names_its_code(before) ? before : NULL;
}

sm_status cli_sweep_measure(cli_sweep *s, const cli_configuration *c, cli_candidate *candidate, json_t **row) {
    json_t *made = NULL;
    *row = NULL;
    if (cli_interrupted) {
        return SM_ERR_INTERRUPTED;
    }
    if (s->n_started++ > 0 && candidate->status[0] == '\0') {
        SM_TRY(rest(s->sweeper.options->measure.delay_s));
    }
    double begin_s = now_s();
    const double work = cli_sweep_work(candidate);
    const sm_status measured = cli_candidate_run(&s->sweeper, c, candidate, &made);
    if (made == NULL) {
        return measured;
    }
    const sm_status kept = keep_row(s, c, made, measured == SM_OK);
    json_decref(made);
    SM_TRY(kept);
    if (work > 0) {
        s->seconds += now_s() - begin_s;
        s->work_done += work;
    }
    *row = cli_sweep_known(s, c->key);
    return measured;
}

// --- its beginning and its end -------------------------------------------------------------------

static sm_status open_log(cli_sweep *s) {
    const cli_options *o = s->sweeper.options;
    size_t i;
    json_t *warning;
    json_t *row;
    if (o->out.output_file == NULL) {
        return o->sweep.resume ? sm_fail(SM_ERR_USAGE, "--resume: needs --output-file, the file to continue") : SM_OK;
    }
    if (!cli_is_log(o->out.output_file)) {
        if (o->sweep.resume) {
            return sm_fail(SM_ERR_USAGE, "--resume: continues a file of lines, such as rows.jsonl, not %s",
                           o->out.output_file);
        }
        if (!o->sweep.dry_run) {
            cli_second_open(o->out.output_file, &s->second);
        }
        return SM_OK;
    }
    SM_TRY(o->sweep.dry_run ? sm_sweep_log_look(o->out.output_file, &s->log)
                            : sm_sweep_log_open(o->out.output_file, &s->log));
    json_array_foreach(sm_sweep_log_rows(s->log)->warnings, i, warning) { cli_note("%s", json_string_value(warning)); }
    json_array_foreach(sm_sweep_log_rows(s->log)->rows, i, row) {
        if (o->sweep.resume && !names_its_code(row)) {
            cli_note("warning: %s: row %zu ran code of its own, which its sweep_key does not name; it is not taken",
                     o->out.output_file, i + 1);
        }
    }
    return SM_OK;
}

// The number of different values of a flag in the keys, "backend=", up to a few.
static int count_values(const cli_sweep_plan *plan, const char *flag) {
    enum { MOST = CLI_MAX_DEVICES };
    const char *values[MOST];
    int n = 0;
    for (int i = 0; i < plan->n; i++) {
        const char *value = strstr(plan->items[i].key, flag);
        int k = 0;
        while (k < n && value != NULL && strncmp(values[k], value, strcspn(value, " ") + 1) != 0) {
            k++;
        }
        if (k == n && value != NULL && n < MOST) {
            values[n++] = value;
        }
    }
    return n;
}

sm_status cli_sweep_open(const cli_options *options, cli_sweep *s) {
    *s = (cli_sweep){.kept = json_object(), .rows = json_array(), .candidate = sm_calloc(1, sizeof(*s->candidate))};
    SM_TRY(cli_sweeper_open(options, &s->sweeper));
    SM_TRY(cli_sweep_plan_make(options, &s->plan));
    s->sweeper.handed_on->bench.n_devices = count_values(&s->plan, "backend=");
    for (int i = 0; i < s->plan.n; i++) {
        s->sweeper.fits_naive = s->sweeper.fits_naive || key_has(s->plan.items[i].key, "mode", "naive");
    }
    return open_log(s);
}

void cli_sweep_close(cli_sweep *s) {
    (void)cli_second_close(&s->second); // if a failure left it open
    cli_sweep_plan_free(&s->plan);
    sm_sweep_log_close(s->log);
    json_decref(s->kept);
    json_decref(s->rows);
    cli_sweeper_close(&s->sweeper);
    free(s->candidate);
}
