// exercise_folder.c: `stepmark exercise --progress DIR`.
#include "cli/learn/learn.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/tables/show.h"
#include "src/io/shell_word.h"

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

// The record of one exercise. A file that cannot be checked is wrong, with the reason.
static sm_status check_one(const cli_options *options, const sm_exercise *exercise, const char *folder,
                           json_t *record) {
    sm_exercise_options how = cli_judge_options(options);
    char path[PATH_MAX];
    const char *file = path;
    SM_AT_END(sm_exercise_report_free) sm_exercise_report report = {.n_cases = 0};
    const bool is_there = find_file(folder, exercise, path);
    how.without_times = true;
    const sm_status status = is_there ? sm_exercise_check(exercise->kind, &file, 1, &how, &report) : SM_OK;
    if (status == SM_ERR_OOM || status == SM_ERR_INTERRUPTED || status == SM_ERR_UNSUPPORTED) {
        return status;
    }
    const char *state = !is_there ? "-" : report.right ? "right" : "wrong";
    COLUMN_LIST(SM_LISTED_VALUE)
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
    SM_OWN(json_t) *records = json_array();
    const char *folder = options->learn.solutions;
    struct stat info;
    SM_FAIL_IF(stat(folder, &info) != 0, SM_ERR_IO, "--progress: %s: %s", folder, strerror(errno));
    SM_FAIL_IF(!S_ISDIR(info.st_mode), SM_ERR_USAGE, "--progress: %s is no folder", folder);
    for (int i = 0; i < sm_exercise_count(); i++) {
        json_t *record = json_object();
        json_array_append_new(records, record);
        cli_live_show(folder, i, sm_exercise_count());
        SM_TRY(check_one(options, sm_exercise_at(i), folder, record));
    }
    SM_TRY(sm_record_write_all(&progress_table, (sm_format)options->out.format, stdout, records));
    if (sm_format_is_read((sm_format)options->out.format)) {
        printf("\n");
        print_next(folder, records);
    }
    return SM_OK;
}
