// sweep.c: the subcommand `sweep`: runs every configuration in turn and saves each row at once.
#include <stdlib.h>
#include <string.h>

#include "bench/rows/row.h"
#include "bench/rows/sweep_log.h"
#include "bench/tables/show.h"
#include "cli/flags/options.h"
#include "cli/output/files.h"
#include "cli/output/notes.h"
#include "cli/rows/rows.h"
#include "cli/sweep/sweep.h"

// --- progress ------------------------------------------------------------------------------------

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

static sm_status run_one(cli_sweep *s, int index) {
    const cli_configuration *c = &s->plan.items[index];
    json_t *row = cli_sweep_known(s, c->key);
    SM_TRY(cli_candidate_look(&s->sweeper, c, s->candidate));
    bool search = s->sweeper.options->sweep.find_batch && s->candidate->status[0] != 's' && s->candidate->job.B == 0;
    if (row == NULL && !search) {
        s->work_left -= cli_sweep_work(s->candidate);
        SM_TRY(cli_sweep_measure(s, c, s->candidate, &row));
        s->n_finished++;
        say_progress(s, c, row);
    }
    bool is_oom = row != NULL && strcmp(sm_rows_text(row, "status"), "oom") == 0;
    return search || (is_oom && s->sweeper.options->sweep.find_batch) ? cli_sweep_find(s, index) : SM_OK;
}

// --- the whole -------------------------------------------------------------------------------------

// Examines all of them first, so that bad values are reported before anything runs, and the total work is known.
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
        cli_note("%s: %d of %d rows are there already", s->sweeper.options->out.output_file, s->n_finished, s->n_total);
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

// Below a table for people; other formats have only rows.
static sm_status print_advice(const cli_sweep *s, const json_t *rows) {
    size_t n = 0;
    if (!sm_format_is_read((sm_format)s->sweeper.options->out.format) || json_array_size(rows) < 2) {
        return SM_OK;
    }
    puts("");
    SM_TRY(cli_recommend_print(rows, (sm_format)s->sweeper.options->out.format, &n));
    int best = -1;
    SM_TRY(n > 0 ? cli_answer_print(rows, NULL, &best) : SM_OK);
    const json_t *logged = best >= 0 && s->log != NULL ? sm_sweep_log_rows(s->log)->rows : NULL;
    for (size_t i = 0; i < json_array_size(logged); i++) { // the file has them in the order measured
        if (json_array_get(logged, i) == json_array_get(rows, (size_t)best)) {
            cli_again_print(s->sweeper.options->out.output_file, i);
        }
    }
    return SM_OK;
}

// The outcomes of the rows.
typedef struct {
    int n_ok;
    int n_failed;
    const char *reason; // of the first row without figures
    bool one_reason;    // all others have the same
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

// Rows of this plan, in the requested order, including searches, each once; also rows of an earlier run. An array, or
// NULL when out of memory.
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
        if (row != NULL && json_object_get(taken, sorted[i]->key) == NULL) { // two searches may have found the same row
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

// In the sweep's file; 0: there is none.
static size_t row_number(const cli_sweep *s, const json_t *row) {
    return s->log != NULL ? sm_json_place(sm_sweep_log_rows(s->log)->rows, row) : 0;
}

static sm_status print_rows(const cli_sweep *s, const json_t *rows, outcome *o) {
    sm_row_writer *writer = NULL;
    sm_status status = sm_row_writer_open((sm_format)s->sweeper.options->out.format, stdout, &writer);
    for (size_t i = 0; i < json_array_size(rows) && status == SM_OK; i++) {
        json_t *row = json_array_get(rows, i);
        count_row(row, o);
        status = sm_row_write_record(writer, sm_row_numbered(json_incref(row), row_number(s, row)));
    }
    sm_status closed = sm_row_writer_close(writer);
    status = status != SM_OK ? status : closed;
    if (s->log != NULL && json_array_size(rows) > 0 && sm_format_is_read((sm_format)s->sweeper.options->out.format)) {
        cli_rows_hint(s->sweeper.options->out.output_file);
    }
    return status == SM_OK ? print_advice(s, rows) : status;
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
                 s->sweeper.options->out.output_file);
    }
    json_t *rows = collect_rows(s);
    sm_status status = rows != NULL ? print_rows(s, rows, &o) : sm_fail(SM_ERR_OOM, "sweep: no memory for its rows");
    if (status == SM_OK) {
        status = ended != SM_OK ? ended : conclude(&o);
    }
    json_decref(rows);
    return status;
}

sm_status cli_sweep_run(const cli_options *options) {
    cli_sweep s;
    sm_status status = cli_sweep_open(options, &s);
    if (status == SM_OK) {
        status = options->sweep.dry_run ? cli_sweep_dry_run(&s) : run_and_print(&s);
    }
    cli_sweep_close(&s);
    return status;
}
