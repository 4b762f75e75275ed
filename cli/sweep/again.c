// again.c: runs a row of a result file again with its own flags, and compares the result.
#include "bench/score/score.h"
#include "cli/flags/flag.h"
#include "cli/rows/rows.h"
#include "cli/sweep/sweep.h"
#include "src/io/shell_word.h"

typedef struct {
    const cli_options *options; // of this command
    char file[PATH_MAX];
    int64_t number;          // of the row, from 1; -1: the only one, or the first of a block
    const json_t *row;       // as recorded
    cli_configuration flags; // `run` or `loop`, and its flags
    cli_options how;         // options for starting the process: limits and progress
    cli_sweeper sweeper;
    cli_candidate candidate;
} repetition;

static void release(repetition **r) {
    cli_sweeper_close(&(*r)->sweeper);
    free((*r)->flags.args);
    free(*r);
}

static sm_status find_flags(repetition *r) {
    const json_t *args = json_object_get(r->row, "run_args");
    const char *backend = sm_rows_text(r->row, "backend");
    const bool was_loop = sm_rows_has(r->row, "loop.loader");
    if (json_array_size(args) > 0 && (!was_loop || cli_run_args_command(args) == CLI_LOOP)) {
        const size_t n = json_array_size(args);
        SM_TRY(cli_run_args_check(args));
        r->flags.args = sm_calloc(n + 2, sizeof(*r->flags.args));
        r->flags.args[r->flags.n_args++] = (char *)cli_commands[cli_run_args_command(args)].name; // only read
        for (size_t i = 0; i < n; i++) {
            r->flags.args[r->flags.n_args++] = (char *)json_string_value(json_array_get(args, i)); // only read
        }
        const char *key = sm_rows_text(r->row, "sweep_key");
        r->flags.key = key[0] != '\0' ? (char *)key : NULL;
        return SM_OK;
    }
    SM_FAIL_IF(backend[0] != '\0' && sm_backend_find(backend) == NULL, SM_ERR_INVALID,
               "measured by %s, not by stepmark; run it again with that program", backend);
    return sm_fail(SM_ERR_INVALID,
                   "does not say its flags (field run_args), as in rows of older versions; measure again");
}

// A row that failed early has no digest. The file's own is never printed: a row may name any file.
static sm_status check_digest(const repetition *r, const char *field, const char *what, const char *found) {
    const char *recorded = sm_rows_text(r->row, field);
    if (recorded[0] == '\0' || strcmp(recorded, found) == 0) {
        return SM_OK;
    }
    return sm_fail(SM_ERR_INVALID,
                   "%s has changed since: its %s is not %s; restore the measured file, or measure again", what, field,
                   recorded);
}

static sm_status check_data(const repetition *r) {
    static cli_loop_steps loop; // static because of its options
    const cli_candidate *c = &r->candidate;
    char digest[SM_DIGEST_SIZE];
    cli_workload w = {.ids = NULL};
    loop = (cli_loop_steps){.loader = NULL};
    sm_status opened = cli_open_data(&c->run, &c->job, c->run.command == CLI_LOOP ? &loop : NULL, &w);
    if (opened == SM_OK) {
        cli_workload_digest(&w, digest);
    }
    cli_workload_close(&w);
    cli_loop_steps_close(&loop);
    SM_TRY(opened);
    return check_digest(r, "data_digest", c->run.work.data != NULL ? c->run.work.data : "the embedded text", digest);
}

static sm_status run_again(repetition *r, json_t **again) {
    SM_TRY(find_flags(r));
    // Kernels and a backend from the person who measured the row run only with this user's consent, and only unchanged.
    const json_t *args = json_object_get(r->row, "run_args");
    for (int i = 0; i < cli_flag_count(); i++) {
        const cli_flag *flag = cli_flag_at(i);
        const char *code = flag->type == CLI_CODE ? sm_rows_flag(args, flag->name) : NULL;
        SM_FAIL_IF(code != NULL && !r->options->compare.allow_own_code, SM_ERR_INVALID,
                   "it runs code of its own, --%s %s; look at it, and give --allow-own-code to have it run here",
                   flag->name, code);
        SM_TRY(code != NULL ? cli_own_code_check(flag->name, code, sm_rows_text(r->row, "own_kernels")) : SM_OK);
    }
    SM_TRY(cli_load_backend_file(sm_rows_flag(args, "backend-library")));
    // Runs a row of a sweep as the sweep did: with its limits, and not at all if it was predicted to fail.
    const double limit_bytes = sm_json_number(r->row, "memory_limit_bytes");
    r->sweeper.options = &r->how;
    r->sweeper.memory_limit_bytes = limit_bytes > 0 ? (int64_t)limit_bytes : 0;
    SM_TRY(cli_candidate_look(&r->sweeper, &r->flags, &r->candidate));
    r->how.out.progress = r->options->out.progress;
    r->how.measure.timeout_s = r->candidate.run.measure.timeout_s;
    if (r->flags.key == NULL) {
        r->candidate.status[0] = '\0';
    }
    const cli_candidate *c = &r->candidate;
    char digest[SM_DIGEST_SIZE];
    SM_TRY(sm_rows_has(r->row, "data_digest") ? check_data(r) : SM_OK);
    if (sm_rows_has(r->row, "weights_digest")) {
        SM_TRY(cli_weights_digest(&c->run, digest));
        SM_TRY(check_digest(r, "weights_digest", c->run.model.weights != NULL ? c->run.model.weights : "--weights",
                            digest));
    }
    SM_FREED char *line = sm_shell_line(r->flags.args, r->flags.n_args);
    cli_note("stepmark %s", line);
    SM_TRY(cli_candidate_run(&r->sweeper, &r->flags, &r->candidate, again));
    static const char *const digests[] = {"data_digest", "weights_digest"};
    for (int i = 0; i < 2; i++) { // one that the row has none to compare with is not printed
        if (!sm_rows_has(r->row, digests[i])) {
            (void)json_object_set_new(*again, digests[i], json_null());
        }
    }
    return SM_OK;
}

static sm_status write_result(const repetition *r, const sm_again *result, const json_t *again) {
    const sm_format format = r->options->out.format;
    if (format == SM_FORMAT_JSON) {
        return cli_print_object(json_pack("{s:b, s:s, s:s, s:s, s:s, s:O, s:O, s:O, s:O}", "is_reproduced",
                                          result->is_reproduced, "reason", result->reason, "losses", result->losses,
                                          "speed", result->speed, "conditions", result->conditions, "fields",
                                          result->fields, "comparisons", result->comparison.compared, "recorded",
                                          r->row, "again", again),
                                "the rows");
    }
    SM_TRY(sm_record_write_all(&sm_again_table, format, stdout, result->fields));
    if (sm_format_is_read(format)) {
        printf("\n- losses: %s\n- speed: %s\n", result->losses, result->speed);
        if (result->conditions[0] != '\0') {
            printf("- conditions that differ: %s\n", result->conditions);
        }
        static const char *const of_speed[] = {
            [SM_VERDICT_SAME] = "",
            [SM_VERDICT_INCONCLUSIVE] = "; its speed supports no verdict",
            [SM_VERDICT_FASTER] = "; the speed differs, which a reproduction may",
            [SM_VERDICT_SLOWER] = "; the speed differs, which a reproduction may",
        };
        printf("\nverdict: %s%s\n", result->is_reproduced ? "reproduced" : "not reproduced",
               result->is_reproduced ? of_speed[result->comparison.verdict] : "");
    } else {
        cli_note("losses: %s; speed: %s", result->losses, result->speed);
    }
    return SM_OK;
}

sm_status cli_again(const cli_options *options) {
    SM_AT_END(sm_rows_free) sm_rows rows = sm_rows_new();
    SM_OWN(json_t) *again = NULL;
    SM_FAIL_IF(options->n_operands != 1, SM_ERR_USAGE, "give one row, FILE#N, to run it again, or two files");
    SM_AT_END(release) repetition *r = sm_calloc(1, sizeof(*r));
    r->options = options;
    const char *mark = strrchr(options->operands[0], '#');
    const bool is_numbered = mark != NULL && mark[1 + strspn(mark + 1, "0123456789")] == '\0';
    const size_t length = is_numbered ? (size_t)(mark - options->operands[0]) : strlen(options->operands[0]);
    snprintf(r->file, sizeof(r->file), "%.*s", (int)length, options->operands[0]);
    r->number = is_numbered ? strtoll(mark + 1, NULL, 10) : -1;
    SM_TRY(cli_baseline_read(r->file, &rows));
    cli_note_warnings(&rows);
    const size_t n = json_array_size(rows.rows);
    SM_FAIL_IF(r->number < 0 && n > 1 && !sm_score_has_blocks(rows.rows), SM_ERR_USAGE,
               "%s holds %zu rows: give two files to compare them, or one row to run it again, %s#1", r->file, n,
               r->file);
    r->number = r->number < 0 ? 1 : r->number;
    SM_FAIL_IF(r->number < 1 || (size_t)r->number > n, SM_ERR_USAGE, "%s#%lld: %s holds %zu row%s, from 1", r->file,
               (long long)r->number, r->file, n, sm_plural(n));
    r->row = json_array_get(rows.rows, (size_t)r->number - 1);
    SM_TRY(cli_sweeper_open(options, &r->sweeper));
    const sm_status status = run_again(r, &again);
    if (status == SM_OK) {
        SM_AT_END(sm_again_free) sm_again result = {0};
        sm_again_compare(r->row, again, r->options->compare.threshold_percent / 100, &result);
        SM_TRY(write_result(r, &result, again));
        SM_FAIL_IF(!result.is_reproduced, SM_ERR_MISMATCH, "%s: row %lld was not reproduced: %s", r->file,
                   (long long)r->number, result.reason);
        return SM_OK;
    }
    SM_FAIL_IF(status != SM_ERR_INTERRUPTED, status == SM_ERR_USAGE ? SM_ERR_INVALID : status, // the row's flags
               "%s: row %lld: %s", r->file, (long long)r->number, sm_error_message());
    return status;
}
