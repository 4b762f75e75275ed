// exercise_folder.c: `stepmark exercise --progress DIR` and `--check-all DIR`.
#include "cli/learn/exercise_folder.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/tables/show.h"
#include "cli/output/notes.h"
#include "learn/exercise/exercise.h"
#include "src/io/shell_word.h"

#define TEXT(field, text, head) \
    { SM_COLUMN(field, SM_COLUMN_TEXT, "", text), .heading = head }

static const sm_column progress_columns[] = {
    TEXT("exercise", "kind of op to write", "exercise"),
    TEXT("lesson", "that leads to it, in docs/course", "lesson"),
    TEXT("state", "right, wrong, or - where there is no file", "state"),
    {SM_COLUMN("n_right", SM_COLUMN_INTEGER, "", "cases that are right"), .heading = "cases right"},
    {SM_COLUMN("n_cases", SM_COLUMN_INTEGER, "", "cases"), .heading = "of"},
    TEXT("file", "that was checked", NULL),
    TEXT("wrong", "the first mistake, or how it ended", NULL),
    TEXT("why", "the known mistake that it looks like", "why"),
};
static const sm_table progress_table = {"exercises", progress_columns,
                                        (int)(sizeof(progress_columns) / sizeof(progress_columns[0]))};

static const sm_column class_columns[] = {
    TEXT("student", "subfolder with the student's files", "student"),
    {SM_COLUMN("n_right", SM_COLUMN_INTEGER, "", "exercises that are right"), .heading = "right"},
    {SM_COLUMN("n_wrong", SM_COLUMN_INTEGER, "", "exercises that are wrong"), .heading = "wrong"},
    {SM_COLUMN("n_missing", SM_COLUMN_INTEGER, "", "exercises without a file"), .heading = "no file"},
    TEXT("is_right", "exercises that are right", NULL),
    TEXT("is_wrong", "exercises that are wrong", "wrong exercises"),
    TEXT("why", "of the first of these: the known mistake, or the first wrong number", "first mistake"),
};
static const sm_table class_table = {"students", class_columns,
                                     (int)(sizeof(class_columns) / sizeof(class_columns[0]))};

// --- one folder ------------------------------------------------------------------------------------

// Finds DIR/NAME.c or DIR/NAME.cl: a file, not a link, which may lead out of the folder.
static bool find_file(const char *folder, const sm_exercise *exercise, char path[PATH_MAX]) {
    static const char *const ends[] = {"c", "cl"};
    for (int i = 0; i < 2; i++) {
        struct stat info;
        const int n = snprintf(path, PATH_MAX, "%s/%s.%s", folder, sm_op_name(exercise->kind), ends[i]);
        if (n < PATH_MAX && lstat(path, &info) == 0 && S_ISREG(info.st_mode)) {
            return true;
        }
    }
    return false;
}

static void set_text(json_t *record, const char *name, const char *text) {
    sm_json_set_new(record, name, sm_json_text(text));
}

// The record of one exercise. A file that cannot be checked is wrong, with the reason.
static sm_status check_one(const cli_options *options, const sm_exercise *exercise, const char *folder,
                           json_t **record) {
    const sm_exercise_options how = {.timeout_s = options->measure.timeout_s,
                                     .without_times = true,
                                     .device = options->device.backends.texts[0],
                                     .interrupted = &cli_interrupted};
    char path[PATH_MAX];
    sm_exercise_report report = {.n_cases = 0};
    const bool is_there = find_file(folder, exercise, path);
    const sm_status status = is_there ? sm_exercise_check(exercise, path, &how, &report) : SM_OK;
    if (status == SM_ERR_OOM || status == SM_ERR_INTERRUPTED || status == SM_ERR_UNSUPPORTED) {
        sm_exercise_report_free(&report);
        return status;
    }
    *record = json_pack("{s:s, s:s, s:s}", "exercise", sm_op_name(exercise->kind), "lesson", exercise->lesson, "state",
                        !is_there      ? "-"
                        : report.right ? "right"
                                       : "wrong");
    sm_json_set_new(*record, "n_right", is_there ? json_integer(report.n_right) : json_null());
    sm_json_set_new(*record, "n_cases", is_there ? json_integer(report.n_cases) : json_null());
    set_text(*record, "file", is_there ? path : "");
    set_text(*record, "wrong", status != SM_OK ? sm_error_message() : report.wrong);
    set_text(*record, "why", report.why);
    sm_exercise_report_free(&report);
    return SM_OK;
}

static sm_status check_folder(const cli_options *options, const char *folder, json_t *records) {
    for (int i = 0; i < sm_exercise_count(); i++) {
        json_t *record = NULL;
        cli_live_show(folder, i, sm_exercise_count());
        SM_TRY(check_one(options, sm_exercise_at(i), folder, &record));
        json_array_append_new(records, record);
    }
    return SM_OK;
}

static bool is_in_state(const json_t *record, const char *state) {
    return strcmp(json_string_value(json_object_get(record, "state")), state) == 0;
}

static int count_state(const json_t *records, const char *state) {
    int n = 0;
    for (size_t i = 0; i < json_array_size(records); i++) {
        n += is_in_state(json_array_get(records, i), state);
    }
    return n;
}

static sm_status check_is_folder(const char *flag, const char *folder) {
    struct stat info;
    if (stat(folder, &info) != 0) {
        return sm_fail(SM_ERR_IO, "%s: %s: %s", flag, folder, strerror(errno));
    }
    return S_ISDIR(info.st_mode) ? SM_OK : sm_fail(SM_ERR_USAGE, "%s: %s is no folder", flag, folder);
}

static void print_next(const char *folder, const json_t *records) {
    char word[SM_SHELL_PATH_SIZE];
    for (size_t i = 0; i < json_array_size(records); i++) {
        const json_t *record = json_array_get(records, i);
        const char *name = json_string_value(json_object_get(record, "exercise"));
        if (is_in_state(record, "-")) {
            printf("%d of %d right. Next: stepmark exercise %s --init %s\n", count_state(records, "right"),
                   sm_exercise_count(), name, sm_shell_path(folder, word));
            return;
        }
        if (is_in_state(record, "wrong")) {
            printf("%d of %d right. Next: stepmark exercise %s --check %s\n", count_state(records, "right"),
                   sm_exercise_count(), name, sm_shell_path(json_string_value(json_object_get(record, "file")), word));
            return;
        }
    }
    printf("All %d are right. Next: lesson 12, make one faster; stepmark ladder shows how far it goes.\n",
           sm_exercise_count());
}

sm_status cli_exercise_progress(const cli_options *options) {
    json_t *records = json_array();
    sm_status status = check_is_folder("--progress", options->learn.solutions);
    SM_TRY_GOTO(status);
    SM_TRY_GOTO(check_folder(options, options->learn.solutions, records));
    SM_TRY_GOTO(sm_record_write_all(&progress_table, (sm_format)options->out.format, stdout, records));
    if (sm_format_is_read((sm_format)options->out.format)) {
        printf("\n");
        print_next(options->learn.solutions, records);
    }
cleanup:
    json_decref(records);
    return status;
}

// --- a class ---------------------------------------------------------------------------------------

static int is_listed(const struct dirent *entry) { return entry->d_name[0] != '.'; }

// The names of those in a state, "a, b".
static json_t *names_in_state(const json_t *records, const char *state) {
    char text[SM_EXERCISE_TEXT] = "";
    for (size_t i = 0; i < json_array_size(records); i++) {
        const json_t *record = json_array_get(records, i);
        if (is_in_state(record, state)) {
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", text[0] != '\0' ? ", " : "",
                     json_string_value(json_object_get(record, "exercise")));
        }
    }
    return sm_json_text(text);
}

static json_t *first_mistake(const json_t *records) {
    for (size_t i = 0; i < json_array_size(records); i++) {
        const json_t *record = json_array_get(records, i);
        if (is_in_state(record, "wrong")) {
            const char *why = json_string_value(json_object_get(record, "why"));
            return sm_json_text(why != NULL ? why : json_string_value(json_object_get(record, "wrong")));
        }
    }
    return json_null();
}

static sm_status add_student(const cli_options *options, const char *name, json_t *students) {
    char folder[PATH_MAX];
    struct stat info;
    json_t *records = json_array();
    sm_status status = SM_OK;
    const int n = snprintf(folder, sizeof(folder), "%s/%s", options->learn.check_all, name);
    if (n < (int)sizeof(folder) && lstat(folder, &info) == 0 && S_ISDIR(info.st_mode)) {
        SM_TRY_GOTO(check_folder(options, folder, records));
        json_t *row =
            json_pack("{s:o, s:i, s:i, s:i}", "student", sm_json_bytes(name), "n_right", count_state(records, "right"),
                      "n_wrong", count_state(records, "wrong"), "n_missing", count_state(records, "-"));
        sm_json_set_new(row, "is_right", names_in_state(records, "right"));
        sm_json_set_new(row, "is_wrong", names_in_state(records, "wrong"));
        sm_json_set_new(row, "why", first_mistake(records));
        json_array_append_new(students, row);
    }
cleanup:
    json_decref(records);
    return status;
}

sm_status cli_exercise_check_all(const cli_options *options) {
    struct dirent **entries = NULL;
    json_t *students = json_array();
    int n = 0;
    sm_status status = check_is_folder("--check-all", options->learn.check_all);
    SM_TRY_GOTO(status);
    n = scandir(options->learn.check_all, &entries, is_listed, alphasort);
    for (int i = 0; i < n && status == SM_OK; i++) {
        status = add_student(options, entries[i]->d_name, students);
    }
    SM_TRY_GOTO(status);
    if (json_array_size(students) == 0) {
        status = sm_fail(SM_ERR_USAGE,
                         "--check-all: %s has no folders; it needs one for each student, with files "
                         "such as loss_mean.c",
                         options->learn.check_all);
        goto cleanup;
    }
    status = sm_record_write_all(&class_table, (sm_format)options->out.format, stdout, students);
cleanup:
    for (int i = 0; i < n; i++) {
        free(entries[i]);
    }
    free(entries);
    json_decref(students);
    return status;
}
