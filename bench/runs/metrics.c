// metrics.c: groups the log's steps by epoch, and sums.
#include "bench/runs/runs.h"

#include "bench/rows/machine.h"
#include "bench/stats/stats.h"
#include "bench/tables/show.h"
#include "src/io/json_text.h"
#include "src/runs/run_folder.h"

#include <limits.h>
#include <math.h>

enum { SUPPORTED_RUN_VERSION = 1 };

typedef struct {
    const char *folder;
    char log_path[PATH_MAX];
    json_t *run;
    const json_t *configuration; // of `run`
    const json_t *starts;
    sm_training_log log;
    double *series; // n_steps: scratch
} maker;

static sm_status read_run(maker *m) {
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", m->folder, SM_RUN_FILE);
    const sm_status status = sm_json_read(path, SM_RUN_MOST_BYTES, &m->run);
    SM_FAIL_IF(status == SM_ERR_IO, status, "%s; is this the folder of a `train --run`?", sm_error_message());
    SM_TRY(status);
    m->configuration = json_object_get(m->run, "configuration");
    m->starts = json_object_get(m->run, "starts");
    SM_FAIL_IF(json_integer_value(json_object_get(m->run, "schema_version")) != SUPPORTED_RUN_VERSION, SM_ERR_FORMAT,
               "%s: its schema_version is not %d", path, SUPPORTED_RUN_VERSION);
    SM_FAIL_IF(!json_is_object(m->configuration) || json_array_size(m->starts) == 0, SM_ERR_FORMAT,
               "%s: \"configuration\" or \"starts\" is missing", path);
    return SM_OK;
}

static const json_t *last_start(const maker *m) { return json_array_get(m->starts, json_array_size(m->starts) - 1); }

static int64_t whole(const json_t *object, const char *name) { return json_integer_value(sm_json_get(object, name)); }

// --- distributions -----------------------------------------------------------------------------

// Of the field at this place of a logged step.
static double mean_half_width(const maker *m, const sm_log_part *p, size_t offset_bytes) {
    for (size_t i = p->begin; i < p->end; i++) {
        m->series[i - p->begin] = *(const double *)((const char *)&m->log.steps[i] + offset_bytes);
    }
    return sm_stats_mean_ci95_half(m->series, (int64_t)(p->end - p->begin));
}

// The distribution of step times.
static void set_step_times(const maker *m, const sm_log_part *p, json_t *object) {
    const double n = (double)(p->end - p->begin);
    const double comm_half_s = mean_half_width(m, p, offsetof(sm_logged_step, comm_s));
    const double step_half_s = mean_half_width(m, p, offsetof(sm_logged_step, time_s));
    const sm_stats stats = sm_stats_of_reals(m->series, (int64_t)n);
    sm_json_put(object, {"step_time_mean_sec", sm_json_real(p->timed_s / n)},
                {"step_time_mean_ci95_half_sec", sm_json_real(step_half_s)},
                {"step_time_min_sec", sm_json_real(stats.min)}, {"step_time_p50_sec", sm_json_real(stats.median)},
                {"step_time_p95_sec", sm_json_real(stats.p95)}, {"step_time_max_sec", sm_json_real(stats.max)},
                {"dataload_time_mean_sec", sm_json_real(p->data_s / n)},
                {"comm_exposed_time_mean_sec", sm_json_real(p->comm_s / n)},
                {"comm_exposed_time_mean_ci95_half_sec", sm_json_real(comm_half_s)});
    if (isfinite(p->hidden_s) && isfinite(p->comm_bytes)) {
        sm_json_put(object, {"comm_hidden_time_mean_sec", sm_json_real(p->hidden_s / n)},
                    {"comm_bytes_per_step", sm_json_real(p->comm_bytes / n)});
    }
}

// The largest memory recorded by starts that began before `step`; NaN: none.
static double max_memory(const maker *m, int64_t step) {
    double most = NAN;
    SM_EACH(start, m->starts) {
        most = whole(start, "from_step") < step ? fmax(most, sm_json_number(start, "end.max_memory_bytes")) : most;
    }
    return most;
}

// --- epochs ------------------------------------------------------------------------------------

static json_t *epoch_of(const maker *m, size_t begin, size_t end) {
    const sm_log_part p = sm_training_log_sum(&m->log, begin, end);
    const int64_t n = (int64_t)(end - begin);
    json_t *epoch = sm_json_put(
        json_object(), {"epoch_idx", json_integer(m->log.steps[begin].epoch)},
        {"epoch_wall_time_sec", sm_json_real(p.timed_s + p.validation_s + p.checkpoint_s)},
        {"timed_steps_sec", sm_json_real(p.timed_s)}, {"validation_sec", sm_json_real(p.validation_s)},
        {"checkpoint_sec", sm_json_real(p.checkpoint_s)}, {"steps", json_integer(n)},
        {"micro_steps", json_integer(n * whole(m->configuration, "grad_accum"))},
        {"optimizer_steps", json_integer(n - p.n_skipped)}, {"tokens_processed_global", json_integer(p.tokens)},
        {"tokens_per_sec_global", sm_json_real((double)p.tokens / p.timed_s)},
        {"train_loss_avg_global", sm_json_real(p.loss)}, {"val_loss_avg_global", sm_json_real(p.val_loss)},
        {"max_memory_bytes", sm_json_real(max_memory(m, m->log.steps[end - 1].step))});
    set_step_times(m, &p, epoch);
    return epoch;
}

static json_t *epochs_of(const maker *m) {
    json_t *epochs = json_array();
    size_t begin = 0;
    for (size_t end = 1; end <= m->log.n_steps; end++) {
        if (end == m->log.n_steps || m->log.steps[end].epoch != m->log.steps[begin].epoch) {
            json_array_append_new(epochs, epoch_of(m, begin, end));
            begin = end;
        }
    }
    return epochs;
}

// --- starts ------------------------------------------------------------------------------------

// The log's steps up to and including `step`.
static size_t steps_until(const maker *m, int64_t step) {
    int64_t n = step - m->log.steps[0].step + 1;
    return n < 0 ? 0 : n > (int64_t)m->log.n_steps ? m->log.n_steps : (size_t)n;
}

// A start's wall-clock time that is not otherwise accounted for; 0 for a start without an end.
static double other_time(const maker *m, size_t index) {
    const json_t *start = json_array_get(m->starts, index);
    const json_t *next = json_array_get(m->starts, index + 1);
    size_t begin = steps_until(m, whole(start, "from_step"));
    size_t end = next != NULL ? steps_until(m, whole(next, "from_step")) : m->log.n_steps;
    double wall_s = sm_json_number(start, "end.wall_ms") / 1e3;
    double startup_s = sm_json_number(start, "startup_ms") / 1e3;
    const sm_log_part p = begin < end ? sm_training_log_sum(&m->log, begin, end) : (sm_log_part){.timed_s = 0};
    double known_s = (isfinite(startup_s) ? startup_s : 0) + p.timed_s + p.validation_s + p.checkpoint_s;
    return isfinite(wall_s) ? wall_s - known_s : 0;
}

static json_t *starts_of(const maker *m) {
    json_t *starts = json_array();
    SM_EACH(start, m->starts) {
        const char *copied = "time_utc from_step startup_ms processes transport hosts scheduler end";
        json_array_append_new(starts, sm_json_copy(json_object(), start, copied));
    }
    return starts;
}

// --- the whole ---------------------------------------------------------------------------------

static json_t *summary_of(const maker *m) {
    const sm_log_part p = sm_training_log_sum(&m->log, 0, m->log.n_steps);
    const int64_t n = (int64_t)m->log.n_steps;
    double startup_s = 0, other_s = 0;
    SM_EACH(start, m->starts) {
        const double startup_ms = sm_json_number(start, "startup_ms");
        startup_s += isfinite(startup_ms) ? startup_ms / 1e3 : 0;
        other_s += other_time(m, start_at);
    }
    const double untimed_s = startup_s + p.validation_s + p.checkpoint_s + other_s;
    json_t *summary = sm_json_put(
        json_object(), {"total_wall_time_sec", sm_json_real(p.timed_s + untimed_s)},
        {"timed_steps_sec", sm_json_real(p.timed_s)}, {"untimed_sec", sm_json_real(untimed_s)},
        {"startup_sec", sm_json_real(startup_s)}, {"validation_sec", sm_json_real(p.validation_s)},
        {"checkpoint_sec", sm_json_real(p.checkpoint_s)}, {"other_sec", sm_json_real(other_s)},
        {"steps", json_integer(n)}, {"micro_steps", json_integer(n * whole(m->configuration, "grad_accum"))},
        {"optimizer_steps", json_integer(n - p.n_skipped)}, {"tokens_processed_global", json_integer(p.tokens)},
        {"mean_tokens_per_sec_global", sm_json_real((double)p.tokens / p.timed_s)},
        {"checked_steps", json_integer(p.checked_steps)}, {"checked_ops", json_integer(p.checked_ops)},
        {"final_train_loss", sm_json_real(m->log.steps[n - 1].loss)}, {"final_val_loss", sm_json_real(p.val_loss)},
        {"best_val_loss", sm_json_real(p.best_val_loss)}, {"max_memory_bytes", sm_json_real(max_memory(m, INT64_MAX))});
    set_step_times(m, &p, summary);
    return summary;
}

static void release(maker *m) {
    json_decref(m->run);
    sm_training_log_free(&m->log);
    free(m->series);
}

sm_status sm_training_metrics_make(const char *folder, json_t **metrics) {
    SM_AT_END(release) maker m = {.folder = folder};
    char digest[SM_DIGEST_SIZE];
    *metrics = NULL;
    SM_TRY(read_run(&m));
    snprintf(m.log_path, sizeof(m.log_path), "%s/%s", folder, SM_RUN_LOG_FILE);
    SM_TRY(sm_training_log_read(m.log_path, whole(json_array_get(m.starts, 0), "from_step") + 1, &m.log));
    m.series = sm_calloc(m.log.n_steps, sizeof(*m.series));
    SM_TRY(sm_digest_file(m.log_path, digest));
    *metrics = sm_json_put(json_object(), {"schema_version", json_string(SM_TRAINING_SCHEMA_VERSION)});
    sm_json_copy(*metrics, m.run, "run_id");
    sm_json_copy(*metrics, json_array_get(m.starts, 0), "timestamp_utc=time_utc");
    sm_json_copy(*metrics, m.run, "git_commit=configuration.engine.build_commit command_line");
    sm_json_copy(*metrics, last_start(&m), "env=environment host hardware scheduler");
    sm_json_copy(*metrics, m.run, "training_config=configuration");
    const char *reason = json_string_value(sm_json_get(last_start(&m), "end.reason"));
    json_t *completion =
        json_pack("{s:b, s:s?, s:I, s:I, s:s, s:I, s:s}", "completed",
                  reason != NULL && strcmp(reason, "complete") == 0, "reason", reason, "first_step",
                  (json_int_t)m.log.steps[0].step, "last_step", (json_int_t)m.log.steps[m.log.n_steps - 1].step,
                  "log_file", SM_RUN_LOG_FILE, "log_lines", (json_int_t)m.log.n_lines, "log_digest", digest);
    sm_json_put(*metrics, {"starts", starts_of(&m)}, {"epochs", epochs_of(&m)}, {"summary", summary_of(&m)},
                {"completion", completion});
    return SM_OK;
}

// --- RUN_COMPLETE.txt --------------------------------------------------------------------------

static const char digest_key[] = "metrics_digest: ";

void sm_run_complete_text(const json_t *metrics, const char *digest, char text[SM_RUN_COMPLETE_SIZE]) {
    const char *run_id = json_string_value(json_object_get(metrics, "run_id"));
    snprintf(text, SM_RUN_COMPLETE_SIZE, "run_id: %.200s\nlast_step: %lld\ntokens: %lld\n%s%s\n",
             run_id != NULL ? run_id : "", (long long)whole(metrics, "completion.last_step"),
             (long long)whole(metrics, "summary.tokens_processed_global"), digest_key, digest);
}

bool sm_run_complete_digest(const char *text, char digest[SM_DIGEST_SIZE]) {
    const char *found = strstr(text, digest_key);
    size_t length = found != NULL ? strcspn(found + strlen(digest_key), "\n") : 0;
    if (length == 0 || length >= SM_DIGEST_SIZE) {
        return false;
    }
    snprintf(digest, SM_DIGEST_SIZE, "%.*s", (int)length, found + strlen(digest_key));
    return true;
}

// --- facts of the machine and its scheduler ------------------------------------------------------

// Variables on the job's layout, after SLURM_; others have paths, addresses and a user's name.
static const char variables[] =
    "CLUSTER_NAME CPUS_ON_NODE CPUS_PER_TASK DISTRIBUTION GPUS GPUS_ON_NODE GPUS_PER_NODE GPUS_PER_TASK JOB_ID "
    "JOB_NAME JOB_NODELIST JOB_NUM_NODES JOB_PARTITION JOB_QOS MEM_PER_CPU MEM_PER_NODE NTASKS NTASKS_PER_NODE "
    "RESTART_COUNT TASKS_PER_NODE THREADS_PER_CORE";

// A number if the variable is one.
static json_t *number_of(const char *variable) {
    const char *text = getenv(variable);
    char *end = NULL;
    long long value = text != NULL ? strtoll(text, &end, 10) : 0;
    return text != NULL && end != text && *end == '\0' ? json_integer(value) : json_null();
}

// Facts from the environment; JSON null outside of a Slurm job.
static json_t *scheduler_facts(void) {
    if (getenv("SLURM_JOB_ID") == NULL) {
        return json_null();
    }
    json_t *all = json_object();
    const char *names = variables;
    for (char name[64]; sm_next_word(&names, name, sizeof(name));) {
        const char *variable = SM_TEXT_IN(80, "SLURM_%s", name);
        if (getenv(variable) != NULL) {
            json_object_set_new(all, variable, sm_json_bytes(getenv(variable)));
        }
    }
    return sm_json_put(json_object(), {"name", json_string("slurm")}, {"job_id", number_of("SLURM_JOB_ID")},
                       {"job_name", sm_json_text(getenv("SLURM_JOB_NAME"))},
                       {"partition", sm_json_text(getenv("SLURM_JOB_PARTITION"))},
                       {"nodes", sm_json_text(getenv("SLURM_JOB_NODELIST"))},
                       {"n_nodes", number_of("SLURM_JOB_NUM_NODES")}, {"n_tasks", number_of("SLURM_NTASKS")},
                       {"restart_count", number_of("SLURM_RESTART_COUNT")}, {"variables", all});
}

json_t *sm_training_facts(int argc, char *const argv[], const sm_device_info *device) {
    SM_OWN(json_t) *m = sm_machine_facts(argc, argv);
    json_t *host = sm_json_copy(json_object(), m, "name=host os kernel");
    json_t *build =
        sm_json_copy(json_object(), m, "commit=build_commit dirty=build_dirty compiler flags=compiler_flags");
    json_t *hardware = sm_json_put(sm_json_copy(json_object(), m, "cpu memory_bytes"),
                                   {"device", device != NULL ? sm_machine_device(device) : json_null()});
    return sm_json_put(sm_json_copy(json_object(), m, "environment argv"), {"host", host}, {"hardware", hardware},
                       {"build", build}, {"scheduler", scheduler_facts()});
}
