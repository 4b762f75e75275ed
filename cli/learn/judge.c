// judge.c: `stepmark judge`: which of many kernels are right, and how fast; one record for each.
#include "cli/learn/learn.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/pages/page.h"
#include "bench/stats/stats.h"
#include "bench/tables/screen.h"
#include "bench/tables/show.h"
#include "words.h"
#include "learn/own_kernels/kernel_library.h"
#include "os/files.h"
#include "os/os.h"

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

static const sm_column columns[] = {COLUMN_LIST(SM_LISTED_COLUMN)};

const sm_table cli_judge_table = {"judged", columns, (int)(sizeof(columns) / sizeof(columns[0]))};

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

static sm_status collect(const cli_options *options) {
    all.against = options->learn.against;
    SM_FAIL_IF(all.against != NULL && options->learn.kind == NULL, SM_ERR_USAGE,
               "--against: give --kind OP: all files are of one kind of op then");
    for (int i = 0; i < options->n_operands; i++) {
        struct stat info;
        const char *path = options->operands[i];
        SM_FAIL_IF(stat(path, &info) != 0, SM_ERR_IO, "%s: %s", path, strerror(errno));
        SM_TRY(S_ISDIR(info.st_mode) ? add_folder(options, path, false) : add(options, path));
    }
    SM_FAIL_IF(all.n == 0, SM_ERR_USAGE, "judge: name files such as gelu_forward.c, or folders with such files");
    return all.against != NULL ? add(options, all.against) : SM_OK;
}

// --- the subcommand --------------------------------------------------------------------------------

sm_exercise_options cli_judge_options(const cli_options *options) {
    return (sm_exercise_options){.timeout_s = options->measure.timeout_s,
                                 .without_times = options->measure.no_peaks,
                                 .program = os_program(),
                                 .device = options->device.backends.texts[0],
                                 .interrupted = &cli_interrupted};
}

static sm_status judge_kind(const cli_options *options, sm_op_kind kind) {
    const sm_exercise_options how = cli_judge_options(options);
    const char *paths[MOST_FILES];
    int index[MOST_FILES];
    int n = 0;
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

sm_status cli_judge_write(const cli_options *options, sm_op_kind kind, const char *file,
                          const sm_exercise_report *report) {
    SM_OWN(json_t) *records = json_array();
    warn_of_limits(report);
    if (sm_format_is_read((sm_format)options->out.format)) {
        print_report(kind, report, NULL);
        return SM_OK;
    }
    json_array_append_new(records, record_of(kind, file, report, NULL));
    return sm_record_write_all(&cli_judge_table, (sm_format)options->out.format, stdout, records);
}

// A table of the class, which sorts.
static sm_status write_page(void *records, FILE *out) {
    sm_page_write(out, "Kernels, judged", (const char *const[2]){"judged.js"}, 0,
                  sm_page_table(&cli_judge_table, records));
    return SM_OK;
}

// All but --against, whose times the others are compared with.
static sm_status write_all(const cli_options *options, int n) {
    const sm_format format = (sm_format)options->out.format;
    const sm_exercise_time *against = n < all.n ? &all.list[n].report.times[0] : NULL;
    SM_OWN(json_t) *records = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(records, record_of(all.list[i].kind, all.list[i].path, &all.list[i].report, against));
    }
    if (n == 1 && sm_format_is_read(format)) {
        print_report(all.list[0].kind, &all.list[0].report, against);
    } else {
        SM_TRY(sm_record_write_all(&cli_judge_table, format, stdout, records));
    }
    return options->out.page != NULL ? cli_write_page(options->out.page, write_page, records, "") : SM_OK;
}

static sm_status conclude(const cli_options *options) {
    const int n = all.n - (all.against != NULL);
    int n_wrong = 0;
    SM_FAIL_IF(n < all.n && !all.list[n].report.right, SM_ERR_USAGE, "--against %s: is wrong: %s", all.against,
               all.list[n].report.wrong);
    SM_TRY(write_all(options, n));
    for (int i = 0; i < n; i++) {
        n_wrong += !all.list[i].report.right;
    }
    warn_of_limits(&all.list[0].report);
    return n_wrong == 0 ? SM_OK : sm_fail(SM_ERR_MISMATCH, "%d of %d wrong", n_wrong, n);
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
