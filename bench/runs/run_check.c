// run_check.c: a problem is a text that names the field and both values.
#include "bench/runs/runs.h"

#include "bench/rows/read_rows.h"
#include "src/io/input_file.h"
#include "src/io/json_text.h"
#include "src/runs/run_folder.h"

#include <limits.h>
#include <sys/stat.h>

enum { NAME_SIZE = 160, VALUE_SIZE = 120 };

static const double same_within = 1e-9; // for numbers written with 12 digits or more

static void value_text(const json_t *value, char text[VALUE_SIZE]) {
    SM_FREED char *dumped = value != NULL ? sm_json_dump(value) : sm_strdup("missing");
    snprintf(text, VALUE_SIZE, "%.100s%s", dumped, strlen(dumped) > 100 ? "..." : "");
}

// --- two values --------------------------------------------------------------------------------

// The form of a difference: "FIELD is A, and B in WHERE".
typedef struct {
    sm_training_run *run;
    const char *where;
} comparison;

static bool is_null(const json_t *value) { return value == NULL || json_is_null(value); }

static bool close_to(double a, double b) { return fabs(a - b) <= same_within * fmax(fabs(a), fabs(b)); }

static void compare_values(const comparison *c, const char *name, const json_t *a, const json_t *b);

// Compares members of both. The path of a file does not matter.
static void compare_members(const comparison *c, const char *name, const json_t *a, const json_t *b) {
    const char *key;
    json_t *value;
    char member[NAME_SIZE];
    json_object_foreach((json_t *)a, key, value) {
        snprintf(member, sizeof(member), "%.90s.%.60s", name, key);
        if (strcmp(key, "path") != 0) {
            compare_values(c, member, value, json_object_get(b, key));
        }
    }
    json_object_foreach((json_t *)b, key, value) {
        snprintf(member, sizeof(member), "%.90s.%.60s", name, key);
        if (strcmp(key, "path") != 0 && json_object_get(a, key) == NULL) {
            compare_values(c, member, NULL, value);
        }
    }
}

static void compare_values(const comparison *c, const char *name, const json_t *a, const json_t *b) {
    char here[VALUE_SIZE], there[VALUE_SIZE], item[NAME_SIZE];
    if (json_is_object(a) && json_is_object(b)) {
        compare_members(c, name, a, b);
        return;
    }
    if (json_is_array(a) && json_is_array(b) && json_array_size(a) == json_array_size(b)) {
        for (size_t i = 0; i < json_array_size(a); i++) {
            snprintf(item, sizeof(item), "%.120s[%zu]", name, i);
            compare_values(c, item, json_array_get(a, i), json_array_get(b, i));
        }
        return;
    }
    const bool is_same = is_null(a) || is_null(b)                 ? is_null(a) && is_null(b)
                         : json_is_number(a) && json_is_number(b) ? close_to(json_number_value(a), json_number_value(b))
                                                                  : json_equal(a, b);
    if (!is_same) {
        value_text(a, here);
        value_text(b, there);
        sm_json_note(c->run->problems, "%s is %s, and %s in %s", name, here, there, c->where);
    }
}

// --- a run by itself ---------------------------------------------------------------------------

static double number(const sm_training_run *run, const char *name) { return sm_json_number(run->metrics, name); }

// `a` is the value of field `name`, `b` the value that follows from others.
static void expect_equal(sm_training_run *run, const char *name, double b, const char *why) {
    const double a = number(run, name);
    if (isfinite(b) && !close_to(a, b)) {
        sm_json_note(run->problems, "%s is %.12g, and %s is %.12g", name, a, why, b);
    }
}

// Fields required for a comparison.
static void check_fields(sm_training_run *run) {
    const char *needed =
        "training_config.engine training_config.precision training_config.model training_config.optimizer "
        "training_config.data training_config.seed training_config.seq_len training_config.global_batch "
        "training_config.n_processes summary.steps summary.tokens_processed_global summary.timed_steps_sec "
        "summary.untimed_sec summary.total_wall_time_sec";
    char name[NAME_SIZE];
    const char *version = json_string_value(json_object_get(run->metrics, "schema_version"));
    if (version == NULL || strcmp(version, SM_TRAINING_SCHEMA_VERSION) != 0) {
        sm_json_note(run->problems, "schema_version is %s; this stepmark knows %s",
                     version != NULL ? version : "missing", SM_TRAINING_SCHEMA_VERSION);
    }
    while (sm_next_word(&needed, name, sizeof(name))) {
        if (is_null(sm_json_get(run->metrics, name))) {
            const bool is_timed = strcmp(name, "summary.timed_steps_sec") == 0;
            sm_json_note(
                run->problems, "%s is missing%s", name,
                is_timed ? ": the wall time includes validation and checkpoints, and does not separate them from steps"
                : strcmp(name, "summary.untimed_sec") == 0 ? ": the time outside of the steps is not recorded"
                                                           : "");
        }
    }
}

static void check_sums(sm_training_run *run) {
    static const char *const summed[] = {
        "steps",           "micro_steps",    "optimizer_steps", "tokens_processed_global",
        "timed_steps_sec", "validation_sec", "checkpoint_sec"};
    for (size_t i = 0; i < SM_COUNT(summed); i++) {
        char name[NAME_SIZE];
        double sum = 0;
        SM_EACH(epoch, json_object_get(run->metrics, "epochs")) { sum += sm_json_number(epoch, summed[i]); }
        snprintf(name, sizeof(name), "summary.%s", summed[i]);
        if (!is_null(sm_json_get(run->metrics, name))) {
            expect_equal(run, name, sum, "the epochs' sum");
        }
    }
}

static void check_work(sm_training_run *run) {
    const double global_batch = number(run, "training_config.global_batch");
    const double positions = number(run, "summary.steps") * global_batch * number(run, "training_config.seq_len");
    const double tokens = number(run, "summary.tokens_processed_global");
    if (is_null(sm_json_get(run->metrics, "training_config.documents"))) {
        expect_equal(run, "summary.tokens_processed_global", positions, "steps x global batch x sequence length");
    } else if (!(tokens > 0 && tokens <= positions)) { // padding does not count as tokens
        sm_json_note(run->problems,
                     "summary.tokens_processed_global is %.15g, and steps x global batch x sequence length, the most "
                     "that documents can fill, is %.15g",
                     tokens, positions);
    }
    double batch = number(run, "training_config.micro_batch") * number(run, "training_config.grad_accum") *
                   number(run, "training_config.n_processes");
    expect_equal(run, "training_config.global_batch", batch, "micro-batch x accumulation x processes");
}

static void check_times(sm_training_run *run) {
    const double timed_s = number(run, "summary.timed_steps_sec");
    const double untimed_s = number(run, "summary.untimed_sec");
    if (!isfinite(timed_s) || !isfinite(untimed_s)) {
        return; // reported as missing
    }
    expect_equal(run, "summary.total_wall_time_sec", timed_s + untimed_s, "timed and untimed work");
    expect_equal(run, "summary.untimed_sec",
                 number(run, "summary.startup_sec") + number(run, "summary.validation_sec") +
                     number(run, "summary.checkpoint_sec") + number(run, "summary.other_sec"),
                 "its parts' sum");
    expect_equal(run, "summary.mean_tokens_per_sec_global", number(run, "summary.tokens_processed_global") / timed_s,
                 "tokens / timed seconds");
    if (!(number(run, "summary.other_sec") >= -1e-3 * timed_s)) {
        sm_json_note(run->problems,
                     "summary.other_sec is %.6g: the steps and pauses took longer than the processes ran",
                     number(run, "summary.other_sec"));
    }
}

// --- a folder ----------------------------------------------------------------------------------

// The metrics must be those for which RUN_COMPLETE.txt was written.
static void check_complete(sm_training_run *run, const char *metrics_path) {
    char path[PATH_MAX], text[SM_RUN_COMPLETE_SIZE], expected[SM_DIGEST_SIZE] = "", digest[SM_DIGEST_SIZE];
    snprintf(path, sizeof(path), "%s/%s", run->path, SM_RUN_COMPLETE_FILE);
    FILE *file;
    if (sm_input_file(path, &file) != SM_OK) {
        sm_json_note(run->problems, "%s: the run is not complete", sm_error_message());
        return;
    }
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    if (sm_digest_file(metrics_path, digest) != SM_OK) {
        sm_json_note(run->problems, "%s", sm_error_message());
        return;
    }
    if (!sm_run_complete_digest(text, expected) || strcmp(expected, digest) != 0) {
        sm_json_note(run->problems, "%s has the digest %s, and %s names %s", SM_TRAINING_METRICS_FILE, digest,
                     SM_RUN_COMPLETE_FILE, expected[0] != '\0' ? expected : "none");
    }
}

// Metrics computed again from the log must be the same.
static void check_against_log(sm_training_run *run) {
    static const char *const parts[] = {"run_id", "training_config", "epochs", "summary", "completion"};
    const comparison with_log = {run, "the log"};
    SM_OWN(json_t) *again = NULL;
    if (sm_training_metrics_make(run->path, &again) != SM_OK) {
        sm_json_note(run->problems, "%s", sm_error_message());
        return;
    }
    for (size_t i = 0; i < SM_COUNT(parts); i++) {
        compare_values(&with_log, parts[i], json_object_get(run->metrics, parts[i]), json_object_get(again, parts[i]));
    }
}

// --- reading -----------------------------------------------------------------------------------

static bool read_metrics(sm_training_run *run, const char *path) {
    const sm_status status = sm_json_read(path, SM_RUN_MOST_BYTES, &run->metrics);
    if (status != SM_OK) {
        sm_json_note(run->problems, "%s; %s", sm_error_message(),
                     run->is_folder && status == SM_ERR_IO ? "no training has ended there"
                                                           : "give a folder that `stepmark train --run` made");
        return false;
    }
    if (!json_is_object(json_object_get(run->metrics, "summary")) ||
        !json_is_object(json_object_get(run->metrics, "training_config"))) {
        json_decref(run->metrics);
        run->metrics = NULL;
        sm_json_note(run->problems, "%s: holds no metrics of a training: training_config and summary are not there",
                     path);
        return false;
    }
    return true;
}

static void read_run(sm_training_run *run) {
    char path[PATH_MAX];
    struct stat info;
    run->problems = json_array();
    run->is_folder = stat(run->path, &info) == 0 && S_ISDIR(info.st_mode);
    snprintf(path, sizeof(path), "%s%s%s", run->path, run->is_folder ? "/" : "",
             run->is_folder ? SM_TRAINING_METRICS_FILE : "");
    if (!read_metrics(run, path)) {
        return;
    }
    if (run->is_folder) {
        check_complete(run, path);
        check_against_log(run);
    }
    check_fields(run);
    check_sums(run);
    check_work(run);
    check_times(run);
    double n = number(run, "completion.last_step") - number(run, "completion.first_step") + 1;
    expect_equal(run, "summary.steps", n, "the number of steps from the first to the last");
    const json_t *completed = sm_json_get(run->metrics, "completion.completed");
    if (!(completed == NULL || json_is_true(completed))) {
        sm_json_note(run->problems, "completion.completed is false: the run did not reach its end");
    }
}

void sm_training_runs_free(sm_training_runs *runs) {
    for (size_t i = 0; i < runs->n; i++) {
        json_decref(runs->runs[i].metrics);
        json_decref(runs->runs[i].problems);
    }
    free(runs->runs);
    *runs = (sm_training_runs){.runs = NULL};
}

void sm_training_runs_read(char *const *paths, int n, sm_training_runs *runs) {
    *runs = (sm_training_runs){.runs = sm_calloc((size_t)n + 1, sizeof(*runs->runs)), .n = (size_t)n};
    for (size_t i = 0; i < runs->n; i++) {
        runs->runs[i].path = paths[i];
        read_run(&runs->runs[i]);
    }
}

// --- runs together -----------------------------------------------------------------------------

static const char invariants[] =
    "training_config.engine training_config.model training_config.seq_len training_config.precision "
    "training_config.gradients training_config.recompute training_config.dropout training_config.loss_scale "
    "training_config.optimizer training_config.schedule training_config.seed training_config.order "
    "training_config.weights training_config.data training_config.val_data training_config.documents "
    "training_config.padding training_config.long_documents training_config.own_kernels training_config.without "
    "training_config.attention training_config.products summary.steps hardware.cpu.name "
    "hardware.device.name hardware.devices";

static void compare_work(const comparison *c, const sm_training_run *first, sm_work work) {
    static const char *const fixed[] = {"training_config.global_batch", "summary.tokens_processed_global"};
    sm_training_run *run = c->run;
    for (size_t i = 0; i < 2 && work == SM_WORK_FIXED; i++) {
        compare_values(c, fixed[i], sm_json_get(run->metrics, fixed[i]), sm_json_get(first->metrics, fixed[i]));
    }
    double here = number(run, "training_config.global_batch") / number(run, "training_config.n_processes");
    double there = number(first, "training_config.global_batch") / number(first, "training_config.n_processes");
    if (work == SM_WORK_FIXED_A_PROCESS && !close_to(here, there)) {
        sm_json_note(run->problems, "training_config.global_batch / n_processes is %.6g, and %.6g in %s", here, there,
                     c->where);
    }
}

void sm_training_runs_compare(sm_training_runs *runs, sm_work work) {
    const sm_training_run *first = NULL;
    for (size_t i = 0; i < runs->n; i++) {
        sm_training_run *run = &runs->runs[i];
        if (run->metrics == NULL || first == NULL) {
            first = run->metrics != NULL ? run : first;
            continue;
        }
        const comparison with_first = {run, first->path};
        const char *names = invariants;
        for (char name[NAME_SIZE]; sm_next_word(&names, name, sizeof(name));) {
            compare_values(&with_first, name, sm_json_get(run->metrics, name), sm_json_get(first->metrics, name));
        }
        compare_work(&with_first, first, work);
    }
}

sm_status sm_training_runs_verdict(const sm_training_runs *runs) {
    const sm_training_run *worst = NULL;
    size_t n_problems = 0;
    for (size_t i = 0; i < runs->n; i++) {
        const size_t n = json_array_size(runs->runs[i].problems);
        worst = worst == NULL && n > 0 ? &runs->runs[i] : worst;
        n_problems += n;
    }
    char more[48] = "";
    if (n_problems > 1) {
        snprintf(more, sizeof(more), "; %zu more", n_problems - 1);
    }
    if (worst == NULL) {
        return SM_OK;
    }
    const char *problem = json_string_value(json_array_get(worst->problems, 0));
    bool names_it = strncmp(problem, worst->path, strlen(worst->path)) == 0;
    return sm_fail(SM_ERR_INVALID, "%s%s%.300s%s", names_it ? "" : worst->path, names_it ? "" : ": ", problem, more);
}

// --- the table ---------------------------------------------------------------------------------

static const sm_column columns[] = {
    SM_TEXT("run", "folder or file", .heading = "run", .rank = SM_RANK_ALWAYS),
    SM_TEXT("engine", "what trained", .heading = "engine", .view = SM_SHOWN_WHEN_VARIED),
    SM_TEXT("precision", "number format", .heading = "precision", .view = SM_SHOWN_WHEN_VARIED),
    SM_INTEGER("n_processes", "", "processes", .heading = "processes", .rank = 8),
    SM_TEXT("transport", "how what they exchange travels", .heading = "transport", .view = SM_SHOWN_WHEN_SOME),
    SM_INTEGER("global_batch", "sequences", "sequences a step", .heading = "global batch", .rank = 4,
               .show = sm_show_count),
    SM_INTEGER("steps", "", "optimizer steps", .heading = "steps", .rank = 5, .show = sm_show_count),
    SM_INTEGER("tokens", "", "tokens of all processes", .heading = "tokens", .rank = 3, .show = sm_show_count),
    SM_REAL("timed_s", "s", "time of the steps", .heading = "timed s", .rank = 6, .show = sm_show_real),
    SM_REAL("untimed_s", "s", "start-up, validation, checkpoints and the rest", .heading = "untimed s", .rank = 5,
            .show = sm_show_real),
    SM_REAL("tokens_per_s", "1/s", "tokens / timed seconds", .heading = "tokens/s", .rank = 7, .show = sm_show_count),
    SM_TEXT("computation", "whether operations of its steps were computed again: checked, or unchecked",
            .heading = "computation", .view = SM_SHOWN_WHEN_VARIED, .rank = 7),
    SM_TEXT("checked", "against its log, or the metrics by themselves", .heading = "checked",
            .view = SM_SHOWN_WHEN_VARIED),
    SM_TEXT("status", "ok or rejected", .heading = "status", .rank = SM_RANK_ALWAYS),
    SM_JSON("problems", "why it is rejected", .heading = "rejected", .rank = 9, .view = SM_SHOWN_AS_NOTES),
};

const sm_table sm_run_check_table = {"runs", columns, (int)SM_COUNT(columns)};

// "cpu fused amx 1a2b3c", or a foreign run's own name.
static json_t *engine_of(const json_t *metrics) {
    static const char *const names[] = {"name", "backend", "mode", "isa", "tier", "build_commit"};
    const json_t *engine = sm_json_get(metrics, "training_config.engine");
    char text[256] = "";
    if (json_is_string(engine)) {
        return sm_json_text(json_string_value(engine));
    }
    for (size_t i = 0; i < SM_COUNT(names); i++) {
        const char *part = sm_rows_text(engine, names[i]);
        sm_append_part(text, sizeof(text), " ", SM_TEXT_IN(41, "%s", part));
    }
    return sm_json_text(text);
}

json_t *sm_training_runs_records(const sm_training_runs *runs) {
    json_t *records = json_array();
    for (size_t i = 0; i < runs->n; i++) {
        const sm_training_run *run = &runs->runs[i];
        const json_t *m = run->metrics;
        const json_t *starts = json_object_get(m, "starts");
        const size_t n_starts = json_array_size(starts);
        const json_t *last = json_array_get(starts, n_starts > 0 ? n_starts - 1 : 0);
        const bool is_checked = sm_json_number(m, "summary.checked_ops") > 0;
        const bool is_ok = json_array_size(run->problems) == 0;
        json_t *record = sm_json_put(json_object(), {"run", sm_json_text(run->path)});
        sm_json_copy(record, m, "run_id");
        sm_json_put(record, {"engine", engine_of(m)});
        sm_json_copy(record, m,
                     "precision=training_config.precision n_processes=training_config.n_processes "
                     "global_batch=training_config.global_batch steps=summary.steps "
                     "tokens=summary.tokens_processed_global timed_s=summary.timed_steps_sec "
                     "untimed_s=summary.untimed_sec tokens_per_s=summary.mean_tokens_per_sec_global");
        sm_json_put(record, {"transport", sm_json_text(sm_rows_text(last, "transport"))},
                    {"computation", json_string(is_checked ? "checked" : "unchecked")},
                    {"checked", json_string(run->is_folder ? "with its log" : "metrics alone")},
                    {"status", json_string(is_ok ? "ok" : "rejected")}, {"problems", json_incref(run->problems)});
        json_array_append_new(records, record);
    }
    return records;
}
