// exercise.c: `stepmark exercise`: lists kernels to write, writes a first file, checks one.
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/tables/screen.h"
#include "bench/tables/show.h"
#include "cli/flags/options.h"
#include "cli/learn/exercise_folder.h"
#include "cli/output/notes.h"
#include "learn/exercise/exercise.h"
#include "src/io/shell_word.h"

enum { MAX_PRINTED_LINES = 20 };

#define TEXT(field, text, head) \
    { SM_COLUMN(field, SM_COLUMN_TEXT, "", text), .heading = head }
#define FIELD(field, kind, unit, text) \
    { SM_COLUMN(field, kind, unit, text) }

// --- the list --------------------------------------------------------------------------------------

static const sm_column list_columns[] = {
    TEXT("exercise", "kind of op to write", "exercise"),
    TEXT("task", "what it computes", "task"),
    TEXT("lesson", "that leads to it, in docs/course", "lesson"),
};

static const sm_table list_table = {"exercises", list_columns, (int)(sizeof(list_columns) / sizeof(list_columns[0]))};

static sm_status list_exercises(const cli_options *options) {
    json_t *records = json_array();
    for (int i = 0; i < sm_exercise_count(); i++) {
        const sm_exercise *e = sm_exercise_at(i);
        json_array_append_new(records, json_pack("{s:s, s:s, s:s}", "exercise", sm_op_name(e->kind), "task", e->task,
                                                 "lesson", e->lesson));
    }
    sm_status status = sm_record_write_all(&list_table, (sm_format)options->out.format, stdout, records);
    json_decref(records);
    return status;
}

// --- a check, as text ------------------------------------------------------------------------------

// The first lines of another program's output.
static void print_lines(const char *heading, const char *said) {
    char *escaped = said != NULL && said[0] != '\0' ? sm_escape_controls(said, strlen(said)) : NULL;
    const char *text = escaped;
    if (text == NULL) {
        return;
    }
    printf("%s\n", heading);
    for (int n = 0; n < MAX_PRINTED_LINES && *text != '\0'; n++) {
        const int length = (int)strcspn(text, "\n");
        printf("    %.*s\n", length, text);
        text += length + (text[length] == '\n');
    }
    if (*text != '\0') {
        printf("    ...\n");
    }
    free(escaped);
}

static void print_times(const sm_exercise_report *report) {
    char flops[32];
    char bytes[32];
    sm_text_scaled(report->flops, "FLOP", flops, sizeof(flops));
    sm_text_bytes(report->bytes, bytes, sizeof(bytes));
    printf("\ntime of one call, %s: %s, %s, %s\n", report->timed_on, report->timed_case, flops, bytes);
    for (int i = 0; i < report->n_times; i++) {
        printf("    %10.1f us  %6.2f GFLOP/s", report->times[i].ns / 1e3, report->flops / report->times[i].ns);
        if (isfinite(report->ceiling_ns)) {
            printf("  %5.1f%% of the ceiling", 100 * report->ceiling_ns / report->times[i].ns);
        }
        printf("  %s\n", report->times[i].who);
    }
    if (isfinite(report->ceiling_ns)) {
        printf("    %10.1f us  the ceiling, measured: %s\n", report->ceiling_ns / 1e3,
               report->is_ceiling_ours   ? "the time of our fastest kernel; the machine was busy"
               : report->is_memory_bound ? "its bytes at the bandwidth of arrays as large as they are"
                                         : "its FLOPs at the peak of arithmetic");
    }
}

// The next exercise, in the folder of this one.
static void print_next(const sm_exercise *exercise, const char *file) {
    const char *slash = strrchr(file, '/');
    char folder[PATH_MAX] = ".";
    char word[SM_SHELL_PATH_SIZE];
    if (slash != NULL) {
        snprintf(folder, sizeof(folder), "%.*s", (int)(slash - file), file);
    }
    for (int i = 0; i + 1 < sm_exercise_count(); i++) {
        if (sm_exercise_at(i) == exercise) {
            printf("next:  stepmark exercise %s --init %s\n", sm_op_name(sm_exercise_at(i + 1)->kind),
                   sm_shell_path(folder, word));
        }
    }
}

static void print_report(const sm_exercise *exercise, const char *file, const sm_exercise_report *report) {
    char n_values[32];
    print_lines("the compiler says:", report->said);
    print_lines("your kernel printed:", report->printed);
    if (report->right) {
        sm_text_count((double)report->n_values, n_values, sizeof(n_values));
        printf("right: %s, %d of %d cases, %s numbers compared with the reference\n", sm_op_name(exercise->kind),
               report->n_right, report->n_cases, n_values);
        if (report->n_times > 0) {
            print_times(report);
        }
        print_next(exercise, file);
        return;
    }
    printf("wrong: %s\n", report->wrong);
    if (report->where[0] != '\0') {
        printf("where: %s\n", report->where);
    }
    if (report->why[0] != '\0') {
        printf("why:   %s\n", report->why);
    }
    if (report->look[0] != '\0') {
        char *line = sm_escape_controls(report->look, strlen(report->look));
        printf("look:  %s\n", line != NULL ? line : "");
        free(line);
    }
    printf("hint:  stepmark exercise %s --hint 1\n", sm_op_name(exercise->kind));
}

// --- a check, as a record --------------------------------------------------------------------------

static const sm_column columns[] = {
    FIELD("exercise", SM_COLUMN_TEXT, "", "kind of op"),
    FIELD("file", SM_COLUMN_TEXT, "", "that was checked"),
    FIELD("right", SM_COLUMN_BOOLEAN, "", "every case is"),
    FIELD("n_cases", SM_COLUMN_INTEGER, "", "cases"),
    FIELD("n_right", SM_COLUMN_INTEGER, "", "of these, right"),
    FIELD("n_values", SM_COLUMN_INTEGER, "", "numbers compared"),
    FIELD("wrong", SM_COLUMN_TEXT, "", "the first mistake, or how it ended"),
    FIELD("where", SM_COLUMN_TEXT, "", "which outputs are wrong, in how many cases"),
    FIELD("why", SM_COLUMN_TEXT, "", "the known mistake that it looks like"),
    FIELD("look", SM_COLUMN_TEXT, "", "the line to look at"),
    FIELD("compiler", SM_COLUMN_TEXT, "", "what the compiler said"),
    FIELD("printed", SM_COLUMN_TEXT, "", "what the kernel printed"),
    FIELD("timed_case", SM_COLUMN_TEXT, "", "case that the times are of"),
    FIELD("flops", SM_COLUMN_REAL, "FLOP", "its work"),
    FIELD("bytes", SM_COLUMN_REAL, "bytes", "its traffic"),
    FIELD("ceiling_ns", SM_COLUMN_REAL, "ns", "the least time that measured ceilings allow"),
    FIELD("times", SM_COLUMN_JSON, "", "of one call: who, ns"),
};

const sm_table cli_exercise_table = {"exercise", columns, (int)(sizeof(columns) / sizeof(columns[0]))};

static json_t *report_json(const sm_exercise *exercise, const char *file, const sm_exercise_report *report) {
    json_t *times = json_array();
    for (int i = 0; i < report->n_times; i++) {
        json_array_append_new(times, json_pack("{s:s, s:f}", "who", report->times[i].who, "ns", report->times[i].ns));
    }
    const bool is_timed = report->n_times > 0;
    json_t *record = json_pack("{s:s, s:s, s:b, s:i, s:i, s:I}", "exercise", sm_op_name(exercise->kind), "file", file,
                               "right", report->right, "n_cases", report->n_cases, "n_right", report->n_right,
                               "n_values", (json_int_t)report->n_values);
    sm_json_set_new(record, "wrong", sm_json_text(report->wrong));
    sm_json_set_new(record, "where", sm_json_text(report->where));
    sm_json_set_new(record, "why", sm_json_text(report->why));
    sm_json_set_new(record, "look", sm_json_text(report->look));
    sm_json_set_new(record, "compiler", sm_json_text(report->said));
    sm_json_set_new(record, "printed", sm_json_text(report->printed));
    sm_json_set_new(record, "timed_case", sm_json_text(report->timed_case));
    sm_json_set_new(record, "flops", sm_json_real(is_timed ? report->flops : NAN));
    sm_json_set_new(record, "bytes", sm_json_real(is_timed ? report->bytes : NAN));
    sm_json_set_new(record, "ceiling_ns", sm_json_real(report->ceiling_ns));
    sm_json_set_new(record, "times", times);
    return record;
}

static sm_status write_record(const cli_options *options, const sm_exercise *exercise,
                              const sm_exercise_report *report) {
    json_t *records = json_array();
    json_array_append_new(records, report_json(exercise, options->learn.check, report));
    sm_status status = sm_record_write_all(&cli_exercise_table, (sm_format)options->out.format, stdout, records);
    json_decref(records);
    return status;
}

// --- the subcommand --------------------------------------------------------------------------------

static sm_status check(const cli_options *options, const sm_exercise *exercise) {
    const sm_exercise_options how = {.timeout_s = options->measure.timeout_s,
                                     .without_times = options->measure.no_peaks,
                                     .device = options->device.backends.texts[0],
                                     .interrupted = &cli_interrupted};
    sm_exercise_report report;
    sm_status status = sm_exercise_check(exercise, options->learn.check, &how, &report);
    if (status == SM_OK && !report.is_limited) {
        cli_note("warning: this system has no Landlock: compiler and kernel can read all files that you can, and a "
                 "driver can write anywhere");
    }
    if (status == SM_OK && sm_format_is_read((sm_format)options->out.format)) {
        print_report(exercise, options->learn.check, &report);
    } else if (status == SM_OK) {
        status = write_record(options, exercise, &report);
    }
    const bool right = report.right;
    sm_exercise_report_free(&report);
    SM_TRY(status);
    return right ? SM_OK : sm_fail(SM_ERR_MISMATCH, "%s is not right yet", options->learn.check);
}

static sm_status init(const cli_options *options, const sm_exercise *exercise) {
    char path[PATH_MAX];
    char word[SM_SHELL_PATH_SIZE];
    SM_TRY(
        sm_exercise_write(exercise, (sm_own_language)options->learn.language, options->learn.init, path, sizeof(path)));
    printf("%s: write its body, then run\n    stepmark exercise %s --check %s\n", path, sm_op_name(exercise->kind),
           sm_shell_path(path, word));
    return SM_OK;
}

static sm_status find(const char *name, const sm_exercise **exercise) {
    const char *names[SM_OP_KIND_COUNT];
    int n = 0;
    *exercise = sm_exercise_find(name);
    for (int i = 0; i < sm_exercise_count() && n < SM_OP_KIND_COUNT; i++) {
        names[n++] = sm_op_name(sm_exercise_at(i)->kind);
    }
    return *exercise != NULL ? SM_OK : cli_no_such_name("exercise", "exercise", name, names, n);
}

// The first of them, up to a level.
static void print_hints(const sm_exercise *exercise, int64_t level) {
    for (int i = 0; i < level; i++) {
        printf("%d. %s\n", i + 1, exercise->hints[i]);
    }
    if (level < SM_EXERCISE_HINTS) {
        printf("   more: stepmark exercise %s --hint %lld\n", sm_op_name(exercise->kind), (long long)level + 1);
    }
}

static sm_status one(const cli_options *options) {
    const sm_exercise *exercise = NULL;
    const int n_given = (options->learn.init != NULL) + (options->learn.check != NULL) + (options->learn.hint > 0);
    SM_TRY(find(options->operands[0], &exercise));
    if (n_given != 1) {
        return sm_fail(SM_ERR_USAGE,
                       "exercise %s: give one of --init DIR to begin, --hint 1 for an idea, --check FILE to check",
                       options->operands[0]);
    }
    if (options->learn.hint > 0) {
        print_hints(exercise, options->learn.hint);
        return SM_OK;
    }
    return options->learn.init != NULL ? init(options, exercise) : check(options, exercise);
}

sm_status cli_exercise(const cli_options *options) {
    const bool has_one = options->learn.init != NULL || options->learn.check != NULL || options->learn.hint > 0;
    if (options->learn.solutions != NULL || options->learn.check_all != NULL) {
        if (options->n_operands > 0 || has_one ||
            (options->learn.solutions != NULL && options->learn.check_all != NULL)) {
            return sm_fail(SM_ERR_USAGE, "exercise: --progress DIR and --check-all DIR each stand alone: they check "
                                         "all exercises");
        }
        return options->learn.solutions != NULL ? cli_exercise_progress(options) : cli_exercise_check_all(options);
    }
    if (options->n_operands == 0 && !has_one) {
        return list_exercises(options);
    }
    if (options->n_operands != 1) {
        return sm_fail(SM_ERR_USAGE, "exercise: name one; `stepmark exercise` lists them");
    }
    return one(options);
}
