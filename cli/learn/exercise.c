// exercise.c: `stepmark exercise`: lists kernels to write, writes a first file, checks one.
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/tables/show.h"
#include "cli/learn/learn.h"
#include "src/io/shell_word.h"

#define TEXT(field, text, head) SM_TEXT(field, text, .heading = head)

// --- the list --------------------------------------------------------------------------------------

static const sm_column list_columns[] = {
    TEXT("exercise", "kind of op to write", "exercise"),
    TEXT("task", "what it computes", "task"),
    TEXT("lesson", "that leads to it, in docs/course", "lesson"),
};

static const sm_table list_table = {"exercises", list_columns, (int)(sizeof(list_columns) / sizeof(list_columns[0]))};

// --- all of a folder, --progress --------------------------------------------------------------------

// X(name, type, unit, description, value, further members of the column)
#define COLUMN_LIST(X)                                                                                                 \
    X("exercise", TEXT, "", "kind of op to write", sm_op_name(exercise->kind), .heading = "exercise")                  \
    X("lesson", TEXT, "", "that leads to it, in docs/course", exercise->lesson, .heading = "lesson")                   \
    X("state", TEXT, "", "right, wrong, or - where there is no file", state, .heading = "state")                       \
    X("n_right", INTEGER, "", "cases that are right", is_there ? report.n_right : SM_ABSENT, .heading = "cases right") \
    X("n_cases", INTEGER, "", "cases", is_there ? report.n_cases : SM_ABSENT, .heading = "of")                         \
    X("file", TEXT, "", "that was checked", is_there ? path : "", .heading = NULL)                                     \
    X("wrong", TEXT, "", "the first mistake, or how it ended", status != SM_OK ? sm_error_message() : report.wrong,    \
      .heading = NULL)                                                                                                 \
    X("why", TEXT, "", "the known mistake that it looks like", report.why, .heading = "why")

static const sm_column progress_columns[] = {COLUMN_LIST(SM_LISTED_COLUMN)};
static const sm_table progress_table = {"exercises", progress_columns,
                                        (int)(sizeof(progress_columns) / sizeof(progress_columns[0]))};

// The record of one exercise. A file that cannot be checked is wrong, with the reason.
static sm_status check_one(const cli_options *options, const sm_exercise *exercise, const char *folder,
                           json_t *record) {
    sm_exercise_options how = cli_judge_options(options);
    char path[PATH_MAX];
    const char *file = path;
    SM_AT_END(sm_exercise_report_free) sm_exercise_report report = {.n_cases = 0};
    bool is_there = false;
    for (int i = 0; i < 2 && !is_there; i++) { // DIR/NAME.c or DIR/NAME.cl: a file, not a link, which may lead out
        struct stat info;
        const int n = snprintf(path, PATH_MAX, "%s/%s.%s", folder, sm_op_name(exercise->kind), i == 0 ? "c" : "cl");
        is_there = n < PATH_MAX && lstat(path, &info) == 0 && S_ISREG(info.st_mode);
    }
    how.without_times = true;
    const sm_status status = is_there ? sm_exercise_check(exercise->kind, &file, 1, &how, &report) : SM_OK;
    if (status == SM_ERR_OOM || status == SM_ERR_INTERRUPTED || status == SM_ERR_UNSUPPORTED) {
        return status;
    }
    const char *state = !is_there ? "-" : report.right ? "right" : "wrong";
    COLUMN_LIST(SM_LISTED_VALUE)
    return SM_OK;
}

static sm_status show_progress(const cli_options *options) {
    SM_OWN(json_t) *records = json_array();
    const char *folder = options->learn.solutions;
    const json_t *next = NULL; // the first that is not right
    const char *state = "";    // of it
    char word[SM_SHELL_PATH_SIZE];
    int n_right = 0;
    struct stat info;
    SM_FAIL_IF(stat(folder, &info) != 0, SM_ERR_IO, "--progress: %s: %s", folder, strerror(errno));
    SM_FAIL_IF(!S_ISDIR(info.st_mode), SM_ERR_USAGE, "--progress: %s is no folder", folder);
    for (int i = 0; i < sm_exercise_count(); i++) {
        json_t *record = json_object();
        json_array_append_new(records, record);
        cli_live_show(folder, i, sm_exercise_count());
        SM_TRY(check_one(options, sm_exercise_at(i), folder, record));
        const char *its = json_string_value(json_object_get(record, "state"));
        n_right += strcmp(its, "right") == 0;
        state = next == NULL ? its : state;
        next = next == NULL && strcmp(its, "right") != 0 ? record : next;
    }
    SM_TRY(sm_record_write_all(&progress_table, (sm_format)options->out.format, stdout, records));
    if (!sm_format_is_read((sm_format)options->out.format)) {
        return SM_OK;
    }
    if (next == NULL) {
        printf("\nAll %d are right. Next: lesson 12, make one faster; stepmark ladder shows how far it goes.\n",
               sm_exercise_count());
    } else {
        const bool is_new = strcmp(state, "-") == 0;
        const char *path = is_new ? folder : json_string_value(json_object_get(next, "file"));
        printf("\n%d of %d right. Next: stepmark exercise %s --%s %s\n", n_right, sm_exercise_count(),
               json_string_value(json_object_get(next, "exercise")), is_new ? "init" : "check",
               sm_shell_path(path, word));
    }
    return SM_OK;
}

// --- the subcommand --------------------------------------------------------------------------------

static sm_status check(const cli_options *options, const sm_exercise *exercise) {
    const char *file = options->learn.check;
    const sm_exercise_options how = cli_judge_options(options);
    SM_AT_END(sm_exercise_report_free) sm_exercise_report report = {.n_cases = 0};
    SM_TRY(sm_exercise_check(exercise->kind, &file, 1, &how, &report));
    SM_TRY(cli_judge_write(options, exercise->kind, file, &report));
    SM_TRY(options->out.page != NULL ? cli_page_of_kernel(options->out.page, file, exercise->kind) : SM_OK);
    if (sm_format_is_read((sm_format)options->out.format)) {
        if (!report.right) {
            printf("hint:  stepmark exercise %s --hint 1\n", sm_op_name(exercise->kind));
        } else {
            // The next exercise, in the folder of this one.
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
    }
    return report.right ? SM_OK : sm_fail(SM_ERR_MISMATCH, "%s is not right yet", file);
}

static sm_status init(const cli_options *options, const sm_exercise *exercise) {
    char path[PATH_MAX], word[SM_SHELL_PATH_SIZE];
    SM_TRY(
        sm_exercise_write(exercise, (sm_own_language)options->learn.language, options->learn.init, path, sizeof(path)));
    printf("%s: write its body, then run\n    stepmark exercise %s --check %s\n", path, sm_op_name(exercise->kind),
           sm_shell_path(path, word));
    return SM_OK;
}

static sm_status one(const cli_options *options) {
    const sm_exercise *exercise = sm_exercise_find(options->operands[0]);
    const int n_given = (options->learn.init != NULL) + (options->learn.check != NULL) + (options->learn.hint > 0);
    const char *names[SM_OP_KIND_COUNT];
    int n = 0;
    for (int i = 0; i < sm_exercise_count() && n < SM_OP_KIND_COUNT; i++) {
        names[n++] = sm_op_name(sm_exercise_at(i)->kind);
    }
    SM_TRY(exercise != NULL ? SM_OK : cli_no_such_name("exercise", "exercise", options->operands[0], names, n));
    SM_FAIL_IF(n_given != 1, SM_ERR_USAGE,
               "exercise %s: give one of --init DIR to begin, --hint 1 for an idea, --check FILE to check",
               options->operands[0]);
    SM_FAIL_IF(options->out.page != NULL && options->learn.check == NULL, SM_ERR_USAGE,
               "--page: shows a kernel; give --check FILE, too");
    if (options->learn.hint > 0) {
        // The first of them, up to a level.
        for (int i = 0; i < options->learn.hint; i++) {
            printf("%d. %s\n", i + 1, exercise->hints[i]);
        }
        if (options->learn.hint < SM_EXERCISE_HINTS) {
            printf("   more: stepmark exercise %s --hint %lld\n", sm_op_name(exercise->kind),
                   (long long)options->learn.hint + 1);
        }
        return SM_OK;
    }
    return options->learn.init != NULL ? init(options, exercise) : check(options, exercise);
}

sm_status cli_exercise(const cli_options *options) {
    const bool has_one = options->learn.init != NULL || options->learn.check != NULL || options->learn.hint > 0;
    if (options->learn.solutions != NULL) {
        return options->n_operands == 0 && !has_one
                   ? show_progress(options)
                   : sm_fail(SM_ERR_USAGE, "exercise: --progress DIR stands alone: it checks all exercises");
    }
    if (options->n_operands == 0 && !has_one) {
        SM_OWN(json_t) *records = json_array();
        for (int i = 0; i < sm_exercise_count(); i++) {
            const sm_exercise *e = sm_exercise_at(i);
            json_array_append_new(records, json_pack("{s:s, s:s, s:s}", "exercise", sm_op_name(e->kind), "task",
                                                     e->task, "lesson", e->lesson));
        }
        return sm_record_write_all(&list_table, (sm_format)options->out.format, stdout, records);
    }
    SM_FAIL_IF(options->n_operands != 1, SM_ERR_USAGE, "exercise: name one; `stepmark exercise` lists them");
    return one(options);
}
