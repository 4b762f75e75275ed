// judge.c: `stepmark judge`: which of many kernels are right, and how fast; a record each. `exercise`: one's own kernel.
#include "cli/learn/learn.h"

#include <errno.h>
#include <libgen.h>

#include "bench/pages/page.h"
#include "bench/tables/screen.h"
#include "learn/own_kernels/kernel_library.h"
#include "os/files.h"
#include "src/io/shell_word.h"

enum { MAX_PRINTED_LINES = 20, MOST_FILES = 4096 };

// X(name, type, unit, description, value, further members of the column)
#define PLAIN .heading = NULL
#define COLUMN_LIST(X)                                                                                          \
    X("op", TEXT, "", "kind of op", sm_op_name(kind), .heading = "op")                                          \
    X("file", TEXT, "", "that was checked", file, .heading = "file")                                            \
    X("right", BOOLEAN, "", "every case is, and every timed call", r->right, .heading = "right",                \
      .show = sm_show_yes_no)                                                                                   \
    X("n_cases", INTEGER, "", "cases", r->n_cases, PLAIN)                                                       \
    X("n_right", INTEGER, "", "of these, right", r->n_right, PLAIN)                                             \
    X("n_values", INTEGER, "", "numbers compared", r->n_values, PLAIN)                                          \
    X("digest", TEXT, "", "of the file", digest, PLAIN)                                                         \
    X("wrong", TEXT, "", "the first mistake, or how it ended", r->wrong, PLAIN)                                 \
    X("where", TEXT, "", "which outputs are wrong, in how many cases", r->where, PLAIN)                         \
    X("why", TEXT, "", "the known mistake that it looks like", r->why, PLAIN)                                   \
    X("look", TEXT, "", "the line to look at", r->look, PLAIN)                                                  \
    X("compiler", TEXT, "", "what the compiler said", r->said, PLAIN)                                           \
    X("printed", TEXT, "", "what the kernel printed", r->printed, PLAIN)                                        \
    X("timed_case", TEXT, "", "case that the times are of", r->timed_case, PLAIN)                               \
    X("flops", REAL, "FLOP", "its work", is_timed ? r->flops : NAN, PLAIN)                                      \
    X("bytes", REAL, "bytes", "its traffic", is_timed ? r->bytes : NAN, PLAIN)                                  \
    X("ns", REAL, "ns", "of one call: the median of turns; null: not measured", own.median, .heading = "ms",    \
      .show = sm_show_ms)                                                                                       \
    X("ns_lo", REAL, "ns", "the median's 95% interval", own.ci95_lo, PLAIN)                                     \
    X("ns_hi", REAL, "ns", "its end", own.ci95_hi, PLAIN)                                                       \
    X("call_ns", REAL, "ns", "a call that does nothing, which the times include",                               \
      is_timed && r->call_ns > 0 ? r->call_ns : NAN, PLAIN)                                                     \
    X("ceiling_ns", REAL, "ns", "the least time that measured ceilings allow", r->ceiling_ns, PLAIN)            \
    X("of_ceiling", REAL, "", "ceiling_ns / ns", r->ceiling_ns / own.median, .heading = "of ceiling",           \
      .show = sm_show_percent)                                                                                  \
    X("speed", REAL, "", "how many times as fast as our fastest kernel, in the same turns", exp(ours.estimate), \
      .heading = "x ours", .show = sm_show_real)                                                                \
    X("speed_lo", REAL, "", "its 95% interval", exp(ours.lo), PLAIN)                                            \
    X("speed_hi", REAL, "", "its end", exp(ours.hi), PLAIN)                                                     \
    X("against", REAL, "", "how many times as fast as --against, in the same turns", exp(others.estimate),      \
      .heading = "x other", .show = sm_show_real)                                                               \
    X("against_lo", REAL, "", "its 95% interval", exp(others.lo), PLAIN)                                        \
    X("against_hi", REAL, "", "its end", exp(others.hi), PLAIN)                                                 \
    X("times", JSON, "", "the kernel's, and ours: who, ns", times, PLAIN)                                       \
    X("mistake", TEXT, "", "why, or else wrong", r->why[0] != '\0' ? r->why : r->wrong, .heading = "first mistake")

const sm_table cli_judge_table = SM_LISTED_TABLE("judged", COLUMN_LIST);

// How many times as fast as `other`, in logarithms; NULL: NaN.
static sm_difference faster_than(const sm_exercise_report *r, const sm_exercise_time *other) {
    const sm_exercise_time *mine = &r->times[0];
    return r->n_times > 0 && other != NULL
               ? sm_compare_paired(mine->ns, other->ns, (size_t)(mine->n < other->n ? mine->n : other->n), 0.05)
               : (sm_difference){.estimate = NAN, .lo = NAN, .hi = NAN};
}

static json_t *record_of(sm_op_kind kind, const char *file, const sm_exercise_report *r,
                         const sm_exercise_time *against) {
    const bool is_timed = r->n_times > 0;
    const sm_stats own = sm_stats_of_reals(r->times[0].ns, is_timed ? r->times[0].n : 0);
    const sm_difference ours = faster_than(r, r->n_times > 1 ? &r->times[r->n_times - 1] : NULL);
    const sm_difference others = faster_than(r, against);
    char digest[SM_DIGEST_SIZE] = "";
    json_t *times = json_array();
    json_t *record = json_object();
    for (int i = 0; i < r->n_times; i++) {
        const double ns = sm_exercise_median(&r->times[i]);
        json_array_append_new(times, json_pack("{s:s, s:f}", "who", r->times[i].who, "ns", ns));
    }
    (void)!sm_digest_file(file, digest);
    COLUMN_LIST(SM_LISTED_VALUE)
    return record;
}

// --- one, as text ----------------------------------------------------------------------------------

// The first lines of another program's output.
static void print_lines(const char *heading, const char *said) {
    SM_FREED char *escaped = said != NULL && said[0] != '\0' ? sm_escape_controls(said, strlen(said)) : NULL;
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
}

static void print_row(const sm_exercise_report *report, const sm_exercise_time *time) {
    const double ns = sm_exercise_median(time);
    const sm_difference d = faster_than(report, time);
    printf("    %10.1f us  %6.2f GFLOP/s", ns / 1e3, report->flops / ns);
    if (isfinite(report->ceiling_ns)) {
        printf("  %5.1f%% of the ceiling", 100 * report->ceiling_ns / ns);
    }
    printf("  %s", time->who);
    if (time != &report->times[0] && d.has_interval) {
        printf(" (yours is %.3g times as fast, %.3g to %.3g)", exp(d.estimate), exp(d.lo), exp(d.hi));
    }
    printf("\n");
}

static void print_times(const sm_exercise_report *report, const sm_exercise_time *against) {
    printf("\ntime of one call, %s: %s, %s, %s\n", report->timed_on, report->timed_case,
           SM_TEXT_SCALED(report->flops, "FLOP"), SM_TEXT_BYTES(report->bytes));
    for (int i = 0; i < report->n_times; i++) {
        print_row(report, &report->times[i]);
    }
    if (against != NULL) {
        print_row(report, against);
    }
    if (isfinite(report->ceiling_ns)) {
        printf("    %10.1f us  the ceiling, measured: %s\n", report->ceiling_ns / 1e3,
               report->is_ceiling_ours   ? "the time of our fastest kernel; the machine was busy"
               : report->is_memory_bound ? "its bytes at the bandwidth of arrays as large as they are"
                                         : "its FLOPs at the peak of arithmetic");
    }
    if (report->call_ns > 0) {
        printf("    %10.1f us  of each is the call into a process of its own\n", report->call_ns / 1e3);
    }
}

static void print_report(sm_op_kind kind, const sm_exercise_report *report, const sm_exercise_time *against) {
    print_lines("the compiler says:", report->said);
    print_lines("your kernel printed:", report->printed);
    if (report->right) {
        printf("right: %s, %d of %d cases, %s numbers compared with the reference\n", sm_op_name(kind), report->n_right,
               report->n_cases, SM_TEXT_COUNT(report->n_values));
        if (report->n_times > 0) {
            print_times(report, against);
        }
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
        SM_FREED char *line = sm_escape_controls(report->look, strlen(report->look));
        printf("look:  %s\n", line != NULL ? line : "");
    }
}

// --- files -----------------------------------------------------------------------------------------

typedef struct {
    char *path;
    sm_op_kind kind;
    sm_exercise_report report;
} submission;

static struct {
    submission list[MOST_FILES];
    int n;
    const char *against; // the file of --against, the last of the list; NULL: none
} all;

// --kind, or the file's name: "gelu_forward.c".
static sm_op_kind kind_of(const cli_options *options, const char *path) {
    char name[SM_NAME_SIZE];
    const char *slash = strrchr(path, '/');
    const char *file = slash != NULL ? slash + 1 : path;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(file, "."), file);
    return sm_op_kind_find(options->learn.kind != NULL ? options->learn.kind : name);
}

static sm_status add(const cli_options *options, const char *path) {
    submission *s = &all.list[all.n];
    SM_FAIL_IF(all.n == MOST_FILES, SM_ERR_USAGE, "judge: more than %d files", MOST_FILES);
    *s = (submission){.path = sm_strdup(path), .kind = kind_of(options, path)};
    all.n++;
    if (s->kind == SM_OP_KIND_COUNT) {
        return options->learn.kind != NULL
                   ? sm_fail(SM_ERR_USAGE, "--kind: there is no op %s; `stepmark verify` lists them",
                             options->learn.kind)
                   : sm_fail(SM_ERR_USAGE, "%s: which op is it? Give --kind OP, or name the file like one", path);
    }
    return SM_OK;
}

// A folder's files, which are no links, since these may lead out of it; and those of its folders.
static sm_status add_folder(const cli_options *options, const char *folder, bool is_inner) {
    SM_AT_END(os_free_names) os_names names;
    SM_FAIL_IF(!os_list_folder(folder, &names), SM_ERR_IO, "%s: %s", folder, strerror(errno));
    for (int i = 0; i < names.n; i++) {
        char path[PATH_MAX];
        struct stat info;
        const bool fits = snprintf(path, sizeof(path), "%s/%s", folder, names.list[i]) < PATH_MAX;
        const bool is_there = fits && names.list[i][0] != '.' && lstat(path, &info) == 0;
        const bool is_kernel = sm_ends_with(path, ".c") || sm_ends_with(path, ".cl");
        if (is_there && S_ISDIR(info.st_mode) && !is_inner) {
            SM_TRY(add_folder(options, path, true));
        } else if (is_there && S_ISREG(info.st_mode) && is_kernel &&
                   (options->learn.kind != NULL || kind_of(options, path) < SM_OP_KIND_COUNT)) {
            SM_TRY(add(options, path));
        }
    }
    return SM_OK;
}

// --- the subcommand --------------------------------------------------------------------------------

static sm_exercise_options judge_options(const cli_options *options) {
    return (sm_exercise_options){.timeout_s = options->measure.timeout_s,
                                 .without_times = options->measure.no_peaks,
                                 .device = options->device.backends.texts[0],
                                 .interrupted = &cli_interrupted};
}

static sm_status judge_kind(const cli_options *options, sm_op_kind kind) {
    sm_exercise_options how = judge_options(options);
    (void)os_draw(&how.seed, sizeof(how.seed));
    const char *paths[MOST_FILES];
    int index[MOST_FILES], n = 0;
    for (int i = 0; i < all.n; i++) {
        if (all.list[i].kind == kind) {
            index[n] = i;
            paths[n++] = all.list[i].path;
        }
    }
    if (n == 0) {
        return SM_OK;
    }
    SM_FREED sm_exercise_report *reports = sm_calloc((size_t)n, sizeof *reports);
    cli_live_show(sm_op_name(kind), index[0], all.n);
    const sm_status status = sm_exercise_check(kind, paths, n, &how, reports);
    for (int i = 0; i < n; i++) {
        all.list[index[i]].report = reports[i];
    }
    return status;
}

static void warn_of_limits(const sm_exercise_report *report) {
    if (!report->is_limited) {
        cli_note("warning: this system has no Landlock: compiler and kernel can read all files that you can, and a "
                 "driver can write anywhere");
    }
}

// Prints a report, or writes its record.
static sm_status judge_one(const cli_options *options, sm_op_kind kind, const char *file,
                           const sm_exercise_report *report) {
    SM_OWN(json_t) *records = json_array();
    warn_of_limits(report);
    if (sm_format_is_read(options->out.format)) {
        print_report(kind, report, NULL);
        return SM_OK;
    }
    json_array_append_new(records, record_of(kind, file, report, NULL));
    return sm_record_write_all(&cli_judge_table, options->out.format, stdout, records);
}

// A table of the class, which sorts.
static sm_status write_page(void *records, FILE *out) {
    sm_page_write(out, "Kernels, judged", (const char *const[2]){"judged.js"}, 0,
                  sm_page_table(&cli_judge_table, records));
    return SM_OK;
}

static sm_status conclude(const cli_options *options) {
    const int n = all.n - (all.against != NULL);
    int n_wrong = 0;
    SM_FAIL_IF(n < all.n && !all.list[n].report.right, SM_ERR_USAGE, "--against %s: is wrong: %s", all.against,
               all.list[n].report.wrong);
    // All but --against, whose times the others are compared with.
    const sm_format format = options->out.format;
    const sm_exercise_time *against = n < all.n ? &all.list[n].report.times[0] : NULL;
    SM_OWN(json_t) *records = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(records, record_of(all.list[i].kind, all.list[i].path, &all.list[i].report, against));
        n_wrong += !all.list[i].report.right;
    }
    if (n == 1 && sm_format_is_read(format)) {
        print_report(all.list[0].kind, &all.list[0].report, against);
    } else {
        SM_TRY(sm_record_write_all(&cli_judge_table, format, stdout, records));
    }
    SM_TRY(options->out.page != NULL ? cli_write_page(options->out.page, write_page, records, "") : SM_OK);
    warn_of_limits(&all.list[0].report);
    return n_wrong == 0 ? SM_OK : sm_fail(SM_ERR_MISMATCH, "%d of %d wrong", n_wrong, n);
}

// The files of the command line, and that of --against.
static sm_status collect(const cli_options *options) {
    all.against = options->learn.against;
    for (int i = 0; i < options->n_operands; i++) {
        struct stat info;
        const char *path = options->operands[i];
        SM_FAIL_IF(stat(path, &info) != 0, SM_ERR_IO, "%s: %s", path, strerror(errno));
        SM_TRY(S_ISDIR(info.st_mode) ? add_folder(options, path, false) : add(options, path));
    }
    SM_FAIL_IF(all.n == 0, SM_ERR_USAGE, "judge: name files such as gelu_forward.c, or folders with such files");
    return all.against != NULL ? add(options, all.against) : SM_OK;
}

sm_status cli_judge(const cli_options *options) {
    sm_status status = collect(options);
    for (int kind = 0; kind < SM_OP_KIND_COUNT && status == SM_OK; kind++) {
        status = judge_kind(options, (sm_op_kind)kind);
    }
    cli_live_clear();
    status = status == SM_OK ? conclude(options) : status;
    for (int i = 0; i < all.n; i++) {
        sm_exercise_report_free(&all.list[i].report);
        free(all.list[i].path);
    }
    return status;
}

// --- exercises: a list of them, a first file, hints, a check ---------------------------------------------

static const sm_column list_columns[] = {
    SM_TEXT("exercise", "kind of op to write", .heading = "exercise"),
    SM_TEXT("task", "what it computes", .heading = "task"),
    SM_TEXT("lesson", "that leads to it, in docs/course", .heading = "lesson"),
};

static const sm_table list_table = {"exercises", list_columns, (int)(sizeof(list_columns) / sizeof(list_columns[0]))};

// --- all of a folder, --progress --------------------------------------------------------------------

#define PROGRESS_LIST(X)                                                                                               \
    X("exercise", TEXT, "", "kind of op to write", sm_op_name(exercise->kind), .heading = "exercise")                  \
    X("lesson", TEXT, "", "that leads to it, in docs/course", exercise->lesson, .heading = "lesson")                   \
    X("state", TEXT, "", "right, wrong, or - where there is no file", state, .heading = "state")                       \
    X("n_right", INTEGER, "", "cases that are right", is_there ? report.n_right : SM_ABSENT, .heading = "cases right") \
    X("n_cases", INTEGER, "", "cases", is_there ? report.n_cases : SM_ABSENT, .heading = "of")                         \
    X("file", TEXT, "", "that was checked", is_there ? path : "", .heading = NULL)                                     \
    X("wrong", TEXT, "", "the first mistake, or how it ended", status != SM_OK ? sm_error_message() : report.wrong,    \
      .heading = NULL)                                                                                                 \
    X("why", TEXT, "", "the known mistake that it looks like", report.why, .heading = "why")

static const sm_table progress_table = SM_LISTED_TABLE("exercises", PROGRESS_LIST);

// The record of one exercise. A file that cannot be checked is wrong, with the reason.
static sm_status check_one(const cli_options *options, const sm_exercise *exercise, const char *folder,
                           json_t *record) {
    sm_exercise_options how = judge_options(options);
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
    PROGRESS_LIST(SM_LISTED_VALUE)
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
    SM_TRY(sm_record_write_all(&progress_table, options->out.format, stdout, records));
    if (!sm_format_is_read(options->out.format)) {
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
    const sm_exercise_options how = judge_options(options);
    SM_AT_END(sm_exercise_report_free) sm_exercise_report report = {.n_cases = 0};
    SM_TRY(sm_exercise_check(exercise->kind, &file, 1, &how, &report));
    SM_TRY(judge_one(options, exercise->kind, file, &report));
    SM_TRY(options->out.page != NULL ? cli_page_of_kernel(options->out.page, file, exercise->kind) : SM_OK);
    if (sm_format_is_read(options->out.format)) {
        if (!report.right) {
            printf("hint:  stepmark exercise %s --hint 1\n", sm_op_name(exercise->kind));
        } else {
            char folder[PATH_MAX], word[SM_SHELL_PATH_SIZE]; // of this exercise, and of the next
            snprintf(folder, sizeof(folder), "%s", file);
            for (int i = 0; i + 1 < sm_exercise_count(); i++) {
                if (sm_exercise_at(i) == exercise) {
                    printf("next:  stepmark exercise %s --init %s\n", sm_op_name(sm_exercise_at(i + 1)->kind),
                           sm_shell_path(dirname(folder), word));
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

static sm_status exercise_one(const cli_options *options) {
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
        return sm_record_write_all(&list_table, options->out.format, stdout, records);
    }
    SM_FAIL_IF(options->n_operands != 1, SM_ERR_USAGE, "exercise: name one; `stepmark exercise` lists them");
    return exercise_one(options);
}
