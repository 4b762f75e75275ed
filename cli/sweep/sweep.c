// sweep.c: the subcommand `run`: measures every configuration in turn, keeps each row at once, and prints them: as they
// come where they run in the order asked for, else in that order at the end.
#include "bench/tables/show.h"
#include "cli/rows/rows.h"
#include "cli/sweep/sweep.h"
#include "src/io/shell_word.h"

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
    int64_t B = 0;
    int64_t T = 0;
    int64_t failed_B = 0;
    json_t *row = NULL;
    SM_TRY(cli_candidate_look(&s->sweeper, &s->plan.items[index], s->candidate));
    const json_t *known = cli_sweep_known(s, s->plan.items[index].key);
    // The largest work that fits by estimate, below a batch that did not run. Halves T until one sequence fits.
    cli_job job = s->candidate->job;
    for (; job.T > 0 && B == 0; job.T /= 2) {
        T = job.T;
        B = cli_largest_batch(&job, (cli_target){s->candidate->info.max_alloc_bytes, NULL}, s->candidate->limit_bytes);
    }
    if (known != NULL && job.B > 0 && T == s->candidate->job.T && B >= job.B) {
        B = job.B - 1;
    }
    while (B > 0) {
        SM_TRY(probe(s, index, B, T, &row));
        if (strcmp(sm_rows_text(row, "status"), "oom") != 0) {
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
        s->work_left -= cli_sweep_work(s->candidate);
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
    if (row != NULL && prints_at_once(o)) {
        SM_TRY(print_row(s, row));
    }
    SM_TRY(status);
    bool is_oom = row != NULL && strcmp(sm_rows_text(row, "status"), "oom") == 0;
    return search || (is_oom && o->sweep.find_batch) ? sweep_find(s, index) : SM_OK;
}

// --- the whole -------------------------------------------------------------------------------------

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
            s->work_left += cli_sweep_work(s->candidate);
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
    SM_TRY(sm_record_writer_close(s->writer));
    if (o->n_ok > 0 && format == SM_FORMAT_MARKDOWN) {
        sm_row_write_legend(!options->measure.no_peaks, stdout);
    }
    const json_t *last = json_array_get(s->rows, json_array_size(s->rows) - 1);
    if (last != NULL && cli_row_file_number(&s->file, last) > 0 && sm_format_is_read(format)) {
        char word[SM_SHELL_PATH_SIZE];
        printf("\n- #: the row in its file: `stepmark compare %s##` measures it again.\n",
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
        const bool is_late = strcmp(sm_rows_text(row, "status"), "timeout") == 0;
        if (strcmp(sm_rows_text(row, "status"), "ok") == 0 ||
            (is_late && json_array_size(json_object_get(row, "samples_ns")) > 0)) {
            o->n_ok++;
            continue;
        }
        o->n_failed += is_late || strcmp(sm_rows_text(row, "status"), "error") == 0;
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

sm_status cli_run(const cli_options *options) {
    if (cli_is_shared(options) && !options->sweep.dry_run) {
        return cli_together(options, cli_run_together);
    }
    SM_TRY(cli_require_alone(options));
    SM_AT_END(cli_sweep_close) cli_sweep s = {.n_total = 0};
    SM_TRY(cli_sweep_open(options, &s));
    return options->sweep.dry_run ? cli_sweep_dry_run(&s) : run_and_print(&s);
}
