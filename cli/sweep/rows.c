// rows.c: the rows of a running sweep: the known ones, and measuring one more.
#include <errno.h>
#include <math.h>
#include <time.h>

#include "clock.h"
#include "bench/tables/show.h"
#include "cli/flags/flag.h"
#include "cli/rows/rows.h"
#include "cli/sweep/sweep.h"

// Work besides a configuration's steps (start, ceilings, weights, loss check), in FLOPs.
static const double fixed_work = 1e11;

enum { N_INSTRUMENTED_STEPS = 4, N_AUTO_WARMUP = 6 };

double cli_sweep_work(const cli_candidate *c) {
    if (c->status[0] != '\0') {
        return 0;
    }
    double n_warmup = c->run.measure.warmup >= 0 ? (double)c->run.measure.warmup : N_AUTO_WARMUP;
    double n_steps = n_warmup + (double)c->run.measure.repetitions + N_INSTRUMENTED_STEPS;
    return fixed_work + (c->is_forecast ? c->forecast.flops * n_steps : 0);
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
    json_t *before = row == NULL && s->file.log != NULL && s->sweeper.options->sweep.resume
                         ? sm_sweep_log_find(s->file.log, key)
                         : NULL;
    return row != NULL ? row : before != NULL && names_its_code(before) ? before : NULL;
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
    const double work = cli_sweep_work(candidate);
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
    SM_FAIL_IF(resumes && path == NULL, SM_ERR_USAGE, "--resume: needs --output-file, the file to continue");
    SM_TRY(cli_row_file_open(path, options->sweep.dry_run, &s->file));
    SM_FAIL_IF(resumes && s->file.log == NULL, SM_ERR_USAGE,
               "--resume: continues a file of lines, such as rows.jsonl, not %s", path);
    const sm_rows *rows = s->file.log != NULL ? sm_sweep_log_rows(s->file.log) : NULL;
    if (rows != NULL) {
        cli_note_warnings(rows);
    }
    for (size_t i = 0; resumes && i < json_array_size(rows->rows); i++) {
        if (!names_its_code(json_array_get(rows->rows, i))) {
            cli_note("warning: %s: row %zu ran code of its own, which its sweep_key does not name; it is not taken",
                     path, i + 1);
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

static const sm_column columns[] = {COLUMN_LIST(SM_LISTED_COLUMN)};

static const sm_table table = {"configurations", columns, (int)(sizeof(columns) / sizeof(columns[0]))};

// The words of a key that other words, "a=1 b=2", have among them, or have not. The caller frees it.
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
    int n_done = 0;
    int n_run = 0;
    int n_oom = 0;
    double work_done = 0; // of measured rows, and their time
    double work_left = 0;
    double seconds = 0;
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
        if (row == NULL && c->status[0] == '\0') {
            SM_TRY(cli_candidate_ask(&s->sweeper, configuration, c));
        }
        const double work = cli_sweep_work(c);
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
