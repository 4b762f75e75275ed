// rows.c: the rows of a running sweep: the known ones, and measuring one more.
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/rows/machine.h"
#include "bench/rows/sweep_log.h"
#include "bench/tables/show.h"
#include "cli/flags/flag.h"
#include "cli/measure/run.h"
#include "cli/output/notes.h"
#include "cli/sweep/sweep.h"
#include "os/os.h"

// Work besides a configuration's steps (start, ceilings, weights, loss check), in FLOPs.
static const double fixed_work = 1e11;

// The share for one configuration of the memory available at the start.
static const double memory_share = 0.9;

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
    json_t *row = s->log != NULL ? sm_sweep_log_find(s->log, key) : json_object_get(s->kept, key);
    return names_its_code(row) ? row : NULL;
}

sm_status cli_sweep_measure(cli_sweep *s, const cli_configuration *c, const cli_candidate *candidate, json_t **row) {
    json_t *made = NULL;
    if (cli_interrupted) {
        return SM_ERR_INTERRUPTED;
    }
    if (s->n_started++ > 0 && candidate->status[0] == '\0') {
        SM_TRY(rest(s->sweeper.options->measure.delay_s));
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

// --- its beginning and its end -------------------------------------------------------------------

static sm_status set_sweeper(const cli_options *options, cli_sweeper *s) {
    s->options = options;
    SM_TRY(sm_machine_facts(options->argc, options->argv, &s->machine));
    if (realpath(os_program(), s->program) == NULL) {
        return sm_fail(SM_ERR_IO, "sweep: this program cannot be found: %s", strerror(errno));
    }
    double available = sm_json_number(s->machine, "memory_available_bytes");
    s->memory_limit_bytes = options->measure.max_memory_gib > 0
                                ? (int64_t)(options->measure.max_memory_gib * 1024 * 1024 * 1024)
                            : available > 0 ? (int64_t)(available * memory_share)
                                            : 0;
    return SM_OK;
}

static sm_status open_log(cli_sweep *s) {
    const cli_options *o = s->sweeper.options;
    size_t i;
    json_t *warning;
    json_t *row;
    if (o->out.output_file == NULL) {
        return o->sweep.resume ? sm_fail(SM_ERR_USAGE, "--resume: needs --output-file, the file to continue") : SM_OK;
    }
    SM_TRY(o->sweep.dry_run ? sm_sweep_log_look(o->out.output_file, o->sweep.resume, &s->log)
                            : sm_sweep_log_open(o->out.output_file, o->sweep.resume, &s->log));
    json_array_foreach(sm_sweep_log_rows(s->log)->warnings, i, warning) { cli_note("%s", json_string_value(warning)); }
    json_array_foreach(sm_sweep_log_rows(s->log)->rows, i, row) {
        if (!names_its_code(row)) {
            cli_note("warning: %s: row %zu ran code of its own, which its sweep_key does not name; it is not taken",
                     o->out.output_file, i + 1);
        }
    }
    return SM_OK;
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
