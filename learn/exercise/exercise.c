// exercise.c: the first file of an exercise, and the check from compiling to timing.
#include "learn/exercise/exercise.h"

#include <errno.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "learn/exercise/judge.h"
#include "os/child.h"
#include "os/confinement.h"
#include "src/io/input_file.h"
#include "src/io/pattern.h"
#include "src/plan/own_process.h"

// --- the file to begin with --------------------------------------------------------------------------

static void print_task(const sm_exercise *exercise, const char *end, FILE *out) {
    const sm_op_info *info = sm_op_get_info(exercise->kind);
    fprintf(out, "// %s: %s.\n//\n", info->name, exercise->task);
    for (const char *clause = info->equation; *clause != '\0';) { // divided by ";  "
        const char *next = strstr(clause, ";  ");
        const int length = next != NULL ? (int)(next - clause) : (int)strlen(clause);
        fprintf(out, "//     %.*s\n", length, clause);
        clause += length + (next != NULL ? 3 : 0);
    }
    fprintf(
        out,
        "//\n// Matrices lie row by row: element (n,c) of x (N,C) is x[n * C + c]. Inputs may not be written to.\n%s",
        exercise->advice);
    const bool is_c = strcmp(end, "c") == 0;
    fprintf(out, "//\n// Check it:   stepmark exercise %s --check %s.%s%s\n", info->name, info->name, end,
            is_c ? " --page step.html    # and see it in a step" : "");
    fprintf(out, "// Use it:     stepmark train -m tiny --steps 5 --mode naive %s--kernel %s=%s.%s\n",
            strcmp(end, "cl") == 0 ? "--backend opencl " : "", info->name, info->name, end);
}

static void print_c(const sm_exercise *exercise, FILE *out) {
    const char *name = sm_op_name(exercise->kind);
    fprintf(out,
            "// Several threads may share the work: say `const int %s_threads = 1;`, and do part args->thread of\n"
            "// args->n_threads.\n",
            name);
    fprintf(out, "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n\n");
    sm_own_kernel_header(exercise->kind, out);
    fprintf(out, "\nvoid %s(const %s_args *args) {\n", name, name);
    sm_own_kernel_unpack(exercise->kind, out);
    fprintf(out, "\n    // Your code.\n}\n");
}

sm_status sm_exercise_write(const sm_exercise *exercise, sm_own_language language, const char *folder, char *path,
                            size_t path_bytes) {
    const char *end = language == SM_OWN_C ? "c" : "cl";
    SM_FAIL_IF(mkdir(folder, 0777) != 0 && errno != EEXIST, SM_ERR_IO, "--init: %s: cannot be made: %s", folder,
               strerror(errno));
    snprintf(path, path_bytes, "%s/%s.%s", folder, sm_op_name(exercise->kind), end);
    FILE *out = fopen(path, "wx");
    SM_FAIL_IF(out == NULL, SM_ERR_IO, "--init: %s: %s%s", path, strerror(errno),
               errno == EEXIST ? "; your work stays: choose another folder" : "");
    print_task(exercise, end, out);
    if (language == SM_OWN_C) {
        print_c(exercise, out);
    } else {
        fputc('\n', out);
        sm_own_opencl_skeleton(exercise->kind, out);
    }
    const bool failed = ferror(out) != 0;
    if (fclose(out) == 0 && !failed) {
        return SM_OK;
    }
    const int reason = errno;
    (void)unlink(path);
    return sm_fail(SM_ERR_IO, "--init: %s: cannot be written: %s", path, strerror(reason));
}

// --- times -----------------------------------------------------------------------------------------

double sm_exercise_median(const sm_exercise_time *time) { return sm_stats_of_reals(time->ns, time->n).median; }

// Refuses times below the machine's limits. Times of our own kernels are possible.
static void refuse_impossible(sm_exercise_report *report, double own_ns) {
    double ours_ns = INFINITY;
    for (int i = own_ns > 0; i < report->n_times; i++) {
        ours_ns = fmin(ours_ns, sm_exercise_median(&report->times[i]));
    }
    report->is_ceiling_ours = ours_ns < report->ceiling_ns;
    report->ceiling_ns = report->is_ceiling_ours ? ours_ns : report->ceiling_ns;
    if (own_ns > 0 && own_ns < report->ceiling_ns) {
        report->right = false;
        report->n_times = 0;
        snprintf(report->wrong, sizeof report->wrong,
                 "case %s: a call took %.3g us, and the ceilings that were measured allow no less than %.3g us: it "
                 "cannot have done the work in that time",
                 report->timed_case, own_ns / 1e3, report->ceiling_ns / 1e3);
        snprintf(report->why, sizeof report->why,
                 "the time is no figure; if the machine was busy while its ceilings were measured, check again");
    }
}

// --- times in turns ----------------------------------------------------------------------------------

// Of one thread, or of a device; a smaller build lacks some.
static const struct {
    sm_own_language language;
    const char *library, *who;
} ours[] = {{SM_OWN_C, SM_OWN_BACKEND "reference", "reference: plain loops, sums in double"},
            {SM_OWN_C, SM_OWN_BACKEND "cpu:baseline", "cpu backend, plain instruction set"},
            {SM_OWN_C, SM_OWN_BACKEND "cpu", "cpu backend, best instruction set"},
            {SM_OWN_OPENCL, SM_OWN_DEVICE, "opencl backend"}};
enum { N_OURS = sizeof ours / sizeof ours[0] };

// The files of one language that were right, then ours.
typedef struct {
    sm_timed_kernel *list;
    int n;
    int n_theirs;
    sm_exercise_time ours[N_OURS];
} field;

// Without foreign code; after all else, as a driver does not survive a fork. A device may not tell its ceilings.
static sm_status measure_ceiling(const sm_exercise_case *c, const char *id, const field *f, sm_device **device,
                                 sm_op_ceiling *ceiling) {
    double least_ns = INFINITY;
    for (int i = 0; i < f->n; i++) {
        least_ns = fmin(least_ns, sm_exercise_median(f->list[i].time));
    }
    sm_status status = id != NULL ? sm_kernel_device_open(NULL, id, device)
                                  : sm_backend_find("cpu")->open(0, &(sm_open_options){.n_threads = 1}, device);
    status = status == SM_OK ? sm_case_ceiling(c, *device, least_ns, ceiling) : status;
    ceiling->ns = status == SM_OK ? ceiling->ns : NAN;
    return id != NULL ? SM_OK : status;
}

static sm_status time_field(sm_exercise_cases *cases, const sm_exercise_options *options, field *f) {
    sm_exercise_case *c = &cases->list[cases->timed];
    const char *id = f->list[0].device;
    SM_OWN(sm_device) *device = NULL;
    sm_op_ceiling ceiling = {.ns = NAN};
    double call_ns = 0;
    SM_TRY(sm_exercise_time_all(cases, options, f->list, f->n, &call_ns));
    SM_TRY(measure_ceiling(c, id, f, &device, &ceiling));
    for (int i = 0; i < f->n_theirs; i++) {
        sm_exercise_report *report = f->list[i].report;
        snprintf(report->timed_case, sizeof report->timed_case, "%s", c->text);
        report->flops = sm_op_flops(c->plan, c->op);
        report->bytes = sm_op_bytes(c->plan, c->op);
        snprintf(report->timed_on, sizeof report->timed_on, "%s",
                 id == NULL       ? "one thread"
                 : device != NULL ? device->info.name
                                  : id);
        report->call_ns = call_ns;
        report->ceiling_ns = ceiling.ns;
        report->is_memory_bound = ceiling.is_memory_bound;
        report->n_times = report->times[0].n > 0;
        for (int k = 0; k < N_OURS && report->right; k++) {
            if (f->ours[k].n > 0) {
                report->times[report->n_times++] = f->ours[k];
            }
        }
        if (report->right) {
            refuse_impossible(report, sm_exercise_median(&report->times[0]));
        }
    }
    return SM_OK;
}

static sm_status time_right(sm_op_kind kind, sm_own_language language, const sm_kernel_file *files,
                            const char *const *paths, int n, const sm_exercise_options *options,
                            sm_exercise_report *reports) {
    SM_AT_END(sm_exercise_cases_close) sm_exercise_cases cases = {.list = NULL};
    SM_FREED sm_timed_kernel *list = sm_calloc((size_t)n + N_OURS, sizeof *list);
    const char *device = language == SM_OWN_OPENCL ? options->device : NULL;
    field f = {.list = list};
    for (int i = 0; i < n; i++) {
        if (reports[i].right && files[i].language == language) {
            reports[i].times[0] = (sm_exercise_time){.who = "yours"};
            f.list[f.n++] = (sm_timed_kernel){.library = device != NULL ? paths[i] : files[i].library,
                                              .path = paths[i],
                                              .device = device,
                                              .time = &reports[i].times[0],
                                              .report = &reports[i],
                                              .left_s = options->timeout_s};
        }
    }
    f.n_theirs = f.n;
    for (int i = 0; i < N_OURS && f.n_theirs > 0; i++) {
        snprintf(f.ours[i].who, sizeof f.ours[i].who, "%s", ours[i].who);
        if (ours[i].language == language) {
            f.list[f.n++] = (sm_timed_kernel){.library = ours[i].library, .device = device, .time = &f.ours[i]};
        }
    }
    SM_TRY(f.n > 0 ? sm_exercise_cases_open(kind, 0, &cases) : SM_OK);
    return f.n > 0 ? time_field(&cases, options, &f) : SM_OK;
}

// --- the check -------------------------------------------------------------------------------------

// The line that a mistake is likely in: where the suspect is assigned, or read, as NAME[...] or *NAME.
static void find_line(sm_op_kind kind, const char *path, sm_exercise_report *report) {
    char line[512], function[SM_NAME_SIZE], text[2 * SM_NAME_SIZE + 64];
    const char *name = report->suspect;
    bool is_inside = false;
    SM_OWN(FILE) *file = name[0] != '\0' ? fopen(path, "r") : NULL;
    SM_OWN(sm_pattern) *pattern = NULL;
    snprintf(function, sizeof function, "void %s(", sm_op_name(kind));
    snprintf(text, sizeof text, "(?<![\\w>])(%s\\[[^]]*\\]|(?<=\\*)%s\\b)%s", name, name,
             report->is_written ? "[\\] ]*[-+*/]?=(?!=)" : "");
    if (file == NULL || sm_pattern_new(text, &pattern) != SM_OK) {
        return;
    }
    for (int number = 1; report->look[0] == '\0' && fgets(line, sizeof line, file) != NULL; number++) {
        is_inside |= strstr(line, function) != NULL;
        if (is_inside && strstr(line, "args->") == NULL && sm_pattern_matches(pattern, line)) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(report->look, sizeof report->look, "line %d: %.200s", number, line + strspn(line, " \t"));
        }
    }
}

static sm_status check_one(sm_op_kind kind, const char *path, const sm_exercise_options *options, sm_kernel_file *file,
                           sm_known_mistakes *known, sm_exercise_report *report) {
    SM_AT_END(sm_exercise_cases_close) sm_exercise_cases cases = {.list = NULL};
    const sm_kernel_limits limits = {
        .timeout_s = options->timeout_s, .is_confined = true, .interrupted = options->interrupted};
    SM_FAIL_IF(!os_child_forks, SM_ERR_UNSUPPORTED,
               "%s: kernels are judged in a process that is forked, which Windows has not; `stepmark verify --kernel` "
               "checks it in a process apart",
               path);
    report->is_limited = os_file_access_is_limited();
    sm_status status = sm_kernel_file_open(path, &limits, file);
    report->said = file->said;
    file->said = NULL;
    SM_TRY(status);
    SM_TRY(sm_exercise_cases_open(kind, options->seed, &cases));
    sm_child_result result;
    status = sm_exercise_child_run(path, file, &cases, options, &result);
    report->printed = result.printed;
    SM_TRY(status);
    if (result.end != SM_CHILD_DONE) {
        sm_exercise_tell_end(&cases, &result, options->timeout_s, report);
    } else {
        SM_TRY(sm_exercise_cases_expect(&cases)); // only after the student's kernel has ended
        SM_TRY(sm_exercise_judge(&cases, options, known, report));
    }
    if (sm_ends_with(path, ".c") || sm_ends_with(path, ".cl")) {
        find_line(kind, path, report);
    }
    return SM_OK;
}

sm_status sm_exercise_check(sm_op_kind kind, const char *const *paths, int n, const sm_exercise_options *options,
                            sm_exercise_report *reports) {
    SM_FREED sm_kernel_file *files = sm_calloc((size_t)n, sizeof *files);
    SM_AT_END(sm_known_mistakes_close) sm_known_mistakes known = {.is_there = false};
    sm_status status = SM_OK;
    for (int i = 0; status == SM_OK && i < n; i++) {
        reports[i] = (sm_exercise_report){.ceiling_ns = NAN};
        SM_CLOSED int fd = -1;
        int64_t size_bytes;
        status = sm_input_open(paths[i], &fd, &size_bytes); // whether it can be read
        const bool is_wrong = status != SM_OK && n > 1;     // one of many
        status = status == SM_OK ? check_one(kind, paths[i], options, &files[i], &known, &reports[i]) : status;
        if (status == SM_ERR_FORMAT || status == SM_ERR_TIMEOUT || is_wrong) {
            snprintf(reports[i].wrong, sizeof reports[i].wrong, "%s", sm_error_message());
            status = SM_OK;
        }
    }
    for (int language = SM_OWN_C; status == SM_OK && !options->without_times && language <= SM_OWN_OPENCL; language++) {
        status = time_right(kind, (sm_own_language)language, files, paths, n, options, reports);
    }
    for (int i = 0; i < n; i++) {
        sm_kernel_file_close(&files[i]);
    }
    return status;
}

void sm_exercise_report_free(sm_exercise_report *report) {
    free(report->said);
    free(report->printed);
    report->said = NULL;
    report->printed = NULL;
}
