// dry_run.c: --dry-run: the configurations of a sweep, the planned outcome of each, and the estimated time.
#include <math.h>
#include <string.h>

#include "bench/tables/show.h"
#include "cli/flags/options.h"
#include "cli/output/notes.h"
#include "cli/sweep/sweep.h"

static const sm_column columns[] = {
    SM_TEXT("configuration", "flags of `run`", .heading = "configuration"),
    SM_INTEGER("estimated_bytes", "bytes", "memory by the planner", .heading = "memory", .show = sm_show_bytes),
    SM_TEXT("verdict", "planned outcome: run, done, skipped or oom, with the reason", .heading = "verdict"),
};

static const sm_table table = {"configurations", columns, (int)(sizeof(columns) / sizeof(columns[0]))};

typedef struct {
    int n_done;
    int n_run;
    int n_skipped;
    int n_oom;
    double work_done; // of measured rows, and their time
    double seconds;
    double work_left;
} totals;

static void count(const json_t *row, const cli_candidate *c, totals *t) {
    double work = cli_sweep_work(c);
    double process_ns = row != NULL ? sm_json_number(row, "process_ns") : NAN;
    t->n_done += row != NULL;
    if (row == NULL) {
        t->n_skipped += c->status[0] == 's';
        t->n_oom += c->status[0] == 'o';
        t->n_run += c->status[0] == '\0';
        t->work_left += work;
    } else if (isfinite(process_ns)) {
        t->work_done += work;
        t->seconds += process_ns / 1e9;
    }
}

static json_t *make_record(const cli_configuration *configuration, const cli_candidate *c, const json_t *row) {
    char verdict[SM_ROW_REASON_SIZE + 32];
    const char *status = row != NULL ? "done" : c->status[0] != '\0' ? c->status : "run";
    const char *reason = row != NULL ? "" : c->reason;
    json_t *record = json_object();
    snprintf(verdict, sizeof(verdict), "%s%s%s", status, reason[0] != '\0' ? ": " : "", reason);
    sm_json_set_new(record, "configuration", sm_json_text(configuration->key));
    sm_json_set_new(record, "estimated_bytes", sm_json_integer(c->is_forecast ? c->forecast.memory_bytes : SM_ABSENT));
    sm_json_set_new(record, "verdict", sm_json_text(verdict));
    return record;
}

static sm_status list(cli_sweep *s, sm_record_writer *writer, totals *t) {
    for (int i = 0; i < s->plan.n; i++) {
        const cli_configuration *configuration = &s->plan.items[i];
        cli_candidate *c = s->candidate;
        const json_t *row = cli_sweep_known(s, configuration->key);
        if (cli_interrupted) {
            return SM_ERR_INTERRUPTED;
        }
        SM_TRY(cli_candidate_look(&s->sweeper, configuration, c));
        if (row == NULL && c->status[0] == '\0') {
            SM_TRY(cli_candidate_ask(c));
        }
        count(row, c, t);
        SM_TRY(sm_record_write(writer, make_record(configuration, c, row)));
    }
    return SM_OK;
}

// The estimate assumes the speed of the existing rows.
static void print_totals(const cli_sweep *s, const totals *t) {
    char left[32];
    FILE *stream = sm_format_is_read((sm_format)s->sweeper.options->out.format) ? stdout : stderr;
    fprintf(stream, "%s%d configurations: %d to run, %d skipped, %d too large, %d done",
            stream == stdout ? "\n" : "stepmark: ", s->plan.n, t->n_run, t->n_skipped, t->n_oom, t->n_done);
    if (t->work_done > 0 && t->n_run > 0) {
        cli_text_duration(t->seconds * t->work_left / t->work_done, left, sizeof(left));
        fprintf(stream, "; about %s, at the speed of the rows in %s", left, s->sweeper.options->out.output_file);
    }
    fputc('\n', stream);
}

sm_status cli_sweep_dry_run(cli_sweep *s) {
    sm_record_writer *writer = NULL;
    totals t = {0};
    SM_TRY(sm_record_writer_open(&table, (sm_format)s->sweeper.options->out.format, stdout, &writer));
    sm_status status = list(s, writer, &t);
    sm_status closed = sm_record_writer_close(writer);
    SM_TRY(status);
    SM_TRY(closed);
    print_totals(s, &t);
    return SM_OK;
}
