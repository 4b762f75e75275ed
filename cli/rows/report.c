// report.c: the subcommand `report`: a page or a table of result files or of trainings; and its forms, which name the
// best rows, rank machines, bundle rows for others, check trainings and show how they scale.
#include <errno.h>
#include <limits.h>
#include <time.h>

#include "bench/curves/curves.h"
#include "bench/pages/page.h"
#include "bench/report/report.h"
#include "bench/rows/machine.h"
#include "bench/runs/scaling.h"
#include "bench/score/score.h"
#include "bench/tables/screen.h"
#include "cli/output/output.h"
#include "cli/rows/rows.h"
#include "src/io/atomic_file.h"
#include "src/io/shell_word.h"

// Whether it is a table, and of which format; else it is a page.
static bool is_table(const cli_options *options, sm_format *format) {
    const char *file = options->out.report_file;
    const bool is_for_screen = file == NULL && sm_screen_width(stdout) > 0;
    *format = options->out.format != SM_FORMAT_COUNT           ? options->out.format
              : options->out.collect != NULL && !is_for_screen ? SM_FORMAT_MARKDOWN
                                                               : SM_FORMAT_TEXT;
    return options->out.format != SM_FORMAT_COUNT || (options->out.collect != NULL && file == NULL) ||
           (file != NULL && sm_format_of_file(file, format)) || options->out.columns.n > 0 || is_for_screen;
}

// Reads --price and --train-tokens.
static sm_status read_costs(const cli_options *options, sm_costs *costs) {
    *costs = (sm_costs){.train_tokens = options->out.train_tokens};
    for (int i = 0; i < options->out.prices.n; i++) {
        SM_TRY(sm_costs_add(costs, options->out.prices.texts[i]));
    }
    return SM_OK;
}

// The things that are written: rows or trainings.
typedef struct {
    const cli_options *options;
    const sm_rows *rows;
    const sm_curves *curves; // NULL: rows
    sm_costs costs;
    bool follows; // the files may still grow
} report;

static sm_status write_table(const report *r, sm_format format, FILE *out) {
    const cli_texts *asked = &r->options->out.columns;
    const char *names[sizeof(asked->texts) / sizeof(asked->texts[0])];
    const bool is_ladder = r->curves == NULL && json_array_size(r->rows->rows) == 0;
    sm_table table = r->curves != NULL ? sm_curves_table : is_ladder ? cli_ladder_table : sm_row_table;
    SM_OWN(json_t) *records = r->curves != NULL ? sm_curves_records(r->curves)
                              : is_ladder       ? json_incref(r->rows->rungs)
                                                : json_incref(r->rows->rows);
    sm_table chosen = {.columns = NULL};
    if (asked->n == 0 && sm_score_has_blocks(records)) {
        // Rows of blocks, with the user's own, are a table of scores.
        SM_OWN(json_t) *references = sm_bundle_references();
        SM_OWN(json_t) *board = sm_score_board(r->rows->rows, references);
        char text[SM_SCORE_TEXT_SIZE];
        SM_TRY(sm_record_write_all(&sm_score_table, format, out, board));
        sm_score_yours(r->rows->rows, references, text);
        if (sm_format_is_read(format) && text[0] != '\0') {
            fprintf(out, "\nYours: %s.\n", text);
        }
        return SM_OK;
    }
    for (int i = 0; i < asked->n; i++) {
        names[i] = asked->texts[i];
    }
    if (asked->n > 0) {
        SM_TRY(sm_table_choose(&table, names, asked->n, &chosen));
        table = chosen;
    }
    SM_FREED const sm_column *columns = chosen.columns;
    if (asked->n > 0 && (format == SM_FORMAT_JSON || format == SM_FORMAT_JSONL)) {
        SM_OWN(json_t) *all = records;
        records = sm_records_chosen(&chosen, all);
    }
    SM_TRY(sm_record_write_all(&table, format, out, records));
    if (!sm_format_is_read(format) || asked->n > 0) {
        return SM_OK;
    }
    // Below the table, for people.
    if (r->curves == NULL) {
        (void)cli_answer_print(r->rows->rows, &r->costs, format, out);
        return SM_OK;
    }
    SM_OWN(json_t) *answer = sm_curves_answer(r->curves);
    SM_OWN(json_t) *warnings = sm_curves_warnings(r->curves);
    sm_put_sentence("\n", json_string_value(answer), "\n", format, out);
    SM_EACH(warning, warnings) { sm_put_sentence("- ", json_string_value(warning), "\n", format, out); }
    return SM_OK;
}

static sm_status write_report(void *what, FILE *out) {
    const report *r = what;
    const unsigned how = r->follows ? SM_PAGE_RELOADS : 0;
    sm_format format;
    if (is_table(r->options, &format)) {
        const bool has_steps = r->curves != NULL && format == SM_FORMAT_CSV && r->options->out.columns.n == 0;
        return has_steps ? sm_curves_csv(r->curves, out) : write_table(r, format, out);
    }
    return r->curves != NULL ? sm_curves_page(r->curves, how, out) : sm_report_write(r->rows, &r->costs, how, out);
}

static sm_status report_trainings(report *r) {
    const cli_options *options = r->options;
    SM_AT_END(sm_curves_free) sm_curves curves = {0};
    SM_TRY(sm_curves_read(options->operands, options->n_operands, &curves));
    r->curves = &curves;
    return cli_write_page(options->out.report_file, write_report, r,
                          SM_TEXT_IN(64, "%zu training%s, ", curves.n, sm_plural(curves.n)));
}

static sm_status report_rows(report *r) {
    const cli_options *options = r->options;
    SM_AT_END(sm_rows_free) sm_rows rows = sm_rows_new();
    SM_OWN(json_t) *references = NULL;
    SM_TRY(read_costs(options, &r->costs));
    rows.rungs = json_array();
    r->rows = &rows;
    rows.interrupted = &cli_interrupted;
    for (int k = 0; k < options->n_operands; k++) {
        SM_TRY(sm_rows_read(options->operands[k], &rows));
    }
    if (options->out.collect != NULL) { // the blocks and rows of every file in a folder, by name
        SM_AT_END(os_free_names) os_names names;
        const char *folder = options->out.collect;
        SM_FAIL_IF(!os_list_folder(folder, &names), SM_ERR_IO, "--collect: %s: %s; give a folder of texts with blocks",
                   folder, strerror(errno));
        for (int i = 0; i < names.n; i++) {
            if (names.list[i][0] != '.' &&
                sm_rows_read(SM_TEXT_IN(PATH_MAX, "%s/%s", folder, names.list[i]), &rows) != SM_OK) {
                cli_note("left out: %s", sm_error_message());
            }
        }
        SM_FAIL_IF(json_array_size(rows.rows) == 0, SM_ERR_FORMAT,
                   "--collect: %s: none of its %d files holds a block or a row", folder, names.n);
    }
    if (sm_score_has_blocks(rows.rows)) {
        references = sm_bundle_references();
        sm_score_hold(rows.rows, references);
    }
    cli_note_warnings(&rows);
    const size_t n = json_array_size(rows.rows) + json_array_size(rows.rungs);
    return cli_write_page(options->out.report_file, write_report, r, SM_TEXT_IN(64, "%zu row%s, ", n, sm_plural(n)));
}

// The newest change of the files that are read, in ns.
static int64_t last_change(const cli_options *options) {
    static const char *const names[] = {"", "/log.jsonl", "/run.json"};
    enum { N_NAMES = sizeof(names) / sizeof(names[0]) };
    int64_t last_ns = 0;
    for (int i = 0; i < options->n_operands * N_NAMES; i++) {
        struct stat found;
        if (stat(SM_TEXT_IN(PATH_MAX, "%s%s", options->operands[i / N_NAMES], names[i % N_NAMES]), &found) == 0) {
            const int64_t changed_ns = os_changed_ns(&found);
            last_ns = changed_ns > last_ns ? changed_ns : last_ns;
        }
    }
    return last_ns;
}

sm_status cli_report(const cli_options *options) {
    report r = {.options = options, .follows = options->out.watch};
    int n_trainings = 0;
    SM_FAIL_IF(options->n_operands == 0 && options->out.collect == NULL, SM_ERR_USAGE,
               "give result files, or run folders: stepmark report FILE... --output report.html");
    for (int i = 0; i < options->n_operands; i++) {
        n_trainings += sm_curves_is_training(options->operands[i]);
    }
    SM_FAIL_IF(n_trainings > 0 && n_trainings < options->n_operands, SM_ERR_USAGE,
               "%d of %d are trainings, the others result files; give either", n_trainings, options->n_operands);
    sm_format format;
    SM_FAIL_IF(options->out.columns.n > 0 && options->out.report_file != NULL &&
                   options->out.format == SM_FORMAT_COUNT && !sm_format_of_file(options->out.report_file, &format),
               SM_ERR_USAGE, "--columns: a page has none; give -o csv, or another ending of --output, .csv or .md");
    SM_TRY(!options->out.watch || (options->out.report_file != NULL && !is_table(options, &format))
               ? SM_OK
               : sm_fail(SM_ERR_USAGE, "--watch: give --output FILE.html, a page that is written again"));
    for (;;) {
        const int64_t changed_ns = last_change(options);
        SM_TRY((n_trainings > 0 ? report_trainings : report_rows)(&r));
        if (!r.follows) {
            return SM_OK;
        }
        while (last_change(options) == changed_ns && !cli_interrupted) {
            nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
        }
        if (cli_interrupted) { // the page stays, and no longer loads itself again
            r.follows = false;
        }
    }
}

// --- the best ------------------------------------------------------------------------------------

sm_status cli_recommend_print(const json_t *rows, sm_format format, size_t *n) {
    SM_OWN(json_t) *records = sm_recommend(rows);
    *n = json_array_size(records);
    return sm_record_write_all(&sm_recommend_table, format, stdout, records);
}

int cli_answer_print(const json_t *rows, const sm_costs *costs, sm_format format, FILE *out) {
    char text[SM_ANSWER_SIZE], reason[SM_ANSWER_SIZE];
    const int row = sm_report_answer(rows, costs, text, reason);
    if (text[0] != '\0') {
        sm_put_sentence("\n", text, reason[0] != '\0' ? " " : "", format, out);
        sm_put_sentence("", reason, "\n", format, out);
    }
    const json_t *args = row >= 0 ? json_object_get(json_array_get(rows, (size_t)row), "run_args") : NULL;
    return json_array_size(args) > 0 ? row : -1;
}

void cli_again_print(const char *path, size_t row) {
    char word[SM_SHELL_PATH_SIZE];
    printf("\n    stepmark compare %s#%zu\n", sm_shell_path(path, word), row + 1);
}

sm_status cli_recommend(const cli_options *options) {
    const sm_format format = options->out.format;
    SM_AT_END(sm_rows_free) sm_rows rows = sm_rows_new();
    sm_costs costs;
    size_t n = 0;
    int file = options->n_operands - 1;
    SM_FAIL_IF(options->n_operands == 0, SM_ERR_USAGE,
               "give files of rows (JSON or JSONL): stepmark report --best FILE...");
    SM_FREED size_t *first = sm_calloc((size_t)options->n_operands, sizeof(*first));
    SM_TRY(read_costs(options, &costs));
    SM_TRY(cli_rows_read(options, first, &rows));
    SM_TRY(cli_recommend_print(rows.rows, format, &n));
    if (sm_format_is_read(format)) { // in the end one sentence, and one command
        const int best = cli_answer_print(rows.rows, &costs, format, stdout);
        while (best >= 0 && first[file] > (size_t)best) {
            file--;
        }
        if (best >= 0) {
            cli_again_print(options->operands[file], (size_t)best - first[file]);
        }
    }
    if (n == 0) {
        cli_note("%zu row%s: nothing to choose between", json_array_size(rows.rows),
                 sm_plural(json_array_size(rows.rows)));
    }
    return SM_OK;
}

// --- report --bundle, --rank and --check ---------------------------------------------------------

sm_status cli_bundle(const cli_options *options) {
    SM_AT_END(sm_rows_free) sm_rows rows = sm_rows_new();
    SM_FREED char *text = NULL;
    size_t size_bytes = 0;
    SM_FAIL_IF(options->n_operands == 0 || options->out.report_file == NULL, SM_ERR_USAGE,
               "give result files, and a name: stepmark report ROWS... --bundle FILE");
    SM_TRY(cli_rows_read(options, NULL, &rows));
    SM_OWN(json_t) *machine = sm_machine_facts(options->argc, options->argv);
    sm_bundle_make(rows.rows, machine, &text, &size_bytes);
    SM_TRY(sm_atomic_write_all(options->out.report_file, text, size_bytes));
    cli_note("%s: %zu row%s, %zu kB", options->out.report_file, json_array_size(rows.rows),
             sm_plural(json_array_size(rows.rows)), size_bytes / 1000);
    return SM_OK;
}

sm_status cli_leaderboard(const cli_options *options) {
    SM_OWN(json_t) *rows = json_array();
    SM_OWN(json_t) *references = options->measure.no_reference ? NULL : sm_bundle_references();
    SM_OWN(json_t) *records = NULL;
    SM_OWN(json_t) *refused = NULL;
    sm_costs costs;
    SM_TRY(read_costs(options, &costs));
    SM_FAIL_IF(options->n_operands == 0 && options->measure.no_reference, SM_ERR_USAGE,
               "give bundles: stepmark report --rank FILE...");
    for (int i = 0; i < options->n_operands; i++) {
        SM_OWN(json_t) *more = NULL;
        SM_TRY(cli_interrupted ? SM_ERR_INTERRUPTED : sm_bundle_read(options->operands[i], &more));
        json_array_extend(rows, more);
    }
    sm_leaderboard_make(rows, references, &costs, &records, &refused);
    SM_OWN(json_t) *board = json_pack("[O, O]", records, refused);
    SM_TRY(sm_record_write_all(&sm_leaderboard_table, options->out.format, stdout, records));
    if (json_array_size(refused) > 0) {
        const char *why = "they failed"; // or the reason of one with figures
        for (size_t i = json_array_size(refused); i-- > 0;) {
            const json_t *record = json_array_get(refused, i);
            why = sm_rows_is(record, "status", "ok") ? sm_rows_text(record, "reason") : why;
        }
        cli_note("%zu of %zu rows left out: %s%s", json_array_size(refused), json_array_size(rows), why,
                 options->out.page != NULL ? "; the page lists them" : "");
    }
    const sm_status status =
        options->out.page != NULL ? cli_write_page(options->out.page, sm_leaderboard_page, board, "") : SM_OK;
    // Whether references are among the records, or why not, for a person.
    size_t n = 0;
    SM_EACH(record, records) { n += json_is_true(json_object_get(record, "reference")); }
    if (n > 0) {
        cli_note("%zu row%s marked ref (reference) came with stepmark (--no-reference leaves them out)", n,
                 sm_plural(n));
    } else if (json_array_size(references) > 0) {
        cli_note("no reference row did this work; `stepmark report --rank` alone shows which did what");
    }
    return status;
}

sm_status cli_check_run(const cli_options *options) {
    SM_AT_END(sm_training_runs_free) sm_training_runs runs = {0};
    size_t n_rejected = 0;
    SM_FAIL_IF(options->n_operands == 0, SM_ERR_USAGE,
               "give run folders, or their training_metrics.json: stepmark report --check RUN...");
    sm_training_runs_read(options->operands, options->n_operands, &runs);
    sm_training_runs_compare(&runs, options->compare.weak ? SM_WORK_FIXED_A_PROCESS : SM_WORK_FIXED);
    SM_OWN(json_t) *records = sm_training_runs_records(&runs);
    SM_TRY(sm_record_write_all(&sm_run_check_table, options->out.format, stdout, records));
    for (size_t i = 0; i < runs.n; i++) {
        n_rejected += json_array_size(runs.runs[i].problems) > 0;
    }
    // Tables show the reasons; with other formats the message has the first.
    const sm_status status = sm_training_runs_verdict(&runs);
    SM_FAIL_IF(status == SM_ERR_INVALID && sm_format_is_read(options->out.format), status, "%zu of %zu run%s rejected",
               n_rejected, runs.n, runs.n == 1 ? "" : "s");
    return status;
}

// --- report --scaling: over numbers of processes -------------------------------------------------

static sm_status write_scaling(const sm_scaling *scaling, sm_format format, sm_work work, size_t least,
                               const char *title) {
    SM_OWN(json_t) *records = sm_scaling_records(scaling, &work);
    sm_status status = SM_OK;
    if (json_array_size(records) >= least) {
        printf("%s\n\n", title);
        status = sm_record_write_all(&sm_scaling_table, format, stdout, records);
        putchar('\n');
    }
    return status;
}

// Formats for people: md or text.
static sm_status write_tables(const sm_scaling *scaling, sm_format format) {
    const size_t least = scaling->n > 2 ? 2 : 1; // each table begins with the run of fewest processes
    SM_TRY(write_scaling(scaling, format, SM_WORK_FIXED, least,
                         "Strong scaling: the same work, shared by more processes"));
    SM_TRY(write_scaling(scaling, format, SM_WORK_FIXED_A_PROCESS, 2, "Weak scaling: the same work for each process"));
    SM_EACH(note, scaling->notes) { sm_put_sentence("- ", json_string_value(note), "\n", format, stdout); }
    return SM_OK;
}

sm_status cli_scaling(const cli_options *options) {
    SM_AT_END(sm_training_runs_free) sm_training_runs runs = {.runs = NULL};
    SM_AT_END(sm_scaling_free) sm_scaling scaling = {.n = 0};
    SM_FAIL_IF(options->n_operands == 0, SM_ERR_USAGE,
               "give run folders, or their training_metrics.json: stepmark report --scaling RUN...");
    sm_training_runs_read(options->operands, options->n_operands, &runs);
    SM_TRY(sm_scaling_make(&runs, options->compare.predict.values, options->compare.predict.n, &scaling));
    const sm_format format = options->out.format;
    SM_OWN(json_t) *records = NULL;
    if (sm_format_is_read(format)) {
        SM_TRY(write_tables(&scaling, format));
    } else {
        records = sm_scaling_records(&scaling, NULL);
        SM_TRY(format == SM_FORMAT_JSON
                   ? cli_print_object(json_pack("{s:O, s:o, s:O}", "rows", records, "model", sm_scaling_model(&scaling),
                                                "notes", scaling.notes),
                                      "the scaling tables")
                   : sm_record_write_all(&sm_scaling_table, format, stdout, records));
    }
    return options->out.page != NULL ? cli_write_page(options->out.page, sm_scaling_page, &scaling, "") : SM_OK;
}
