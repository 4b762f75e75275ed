// ablate.c: the gain of each rewrite: mode fused with and without it, in turn.
#include <unistd.h>

#include "clock.h"
#include "cli/measure/measure.h"

static const sm_column columns[] = {
    SM_COLUMN_OF_MODEL,
    SM_COLUMN_OF_TEST,
    SM_COLUMNS_OF_DEVICE,
    SM_TEXT("without", "the rewrite left out; all: mode naive", .heading = "without", .rank = SM_RANK_ALWAYS),
    SM_INTEGER("with_ns", "ns", "median step with all rewrites, in turn with the other", .heading = "with all ms",
               .show = sm_show_ms, .rank = 5),
    SM_INTEGER("without_ns", "ns", "median step without this one", .heading = "without ms", .show = sm_show_ms,
               .rank = 6),
    SM_REAL("ratio", "", "without / with, median of the rounds: above 1 the rewrite is worth it",
            .heading = "without / with (95%)", .rank = SM_RANK_ALWAYS, .format = "%.3f", .beside = " (%.3f-%.3f)",
            .lo = "ratio_ci95_lo", .hi = "ratio_ci95_hi"),
    SM_REAL("ratio_ci95_lo", "", "95% confidence interval of it; null below 6 rounds"),
    SM_REAL("ratio_ci95_hi", "", "its upper end"),
    SM_INTEGER("n_rounds", "", "rounds of with, without, without, with", .heading = "rounds"),
    SM_INTEGER("with_bytes", "bytes", "memory allocated with all rewrites", .heading = "memory with all",
               .show = sm_show_bytes),
    SM_INTEGER("without_bytes", "bytes", "memory allocated without this one"),
    SM_INTEGER("saved_bytes", "bytes", "without_bytes - with_bytes", .heading = "memory saved", .show = sm_show_bytes,
               .rank = 4),
    SM_INTEGER("n_ops_with", "", "ops of the step with all rewrites"),
    SM_INTEGER("n_ops_without", "", "ops without this one"),
    SM_TEXT("verdict", "faster, slower or no difference: by the interval", .heading = "it makes",
            .rank = SM_RANK_ALWAYS),
    SM_TEXT("status", "ok, or why there is no figure", .heading = "status", .rank = 8),
    SM_TEXT("summary", "what the rewrite does", .heading = "what it does"),
    SM_JSON("warnings", "causes of slowness on this machine", .heading = "warning", .view = SM_SHOWN_AS_NOTES),
};

const sm_table cli_ablate_table = {"ablation", columns, (int)(sizeof(columns) / sizeof(columns[0]))};

typedef struct {
    cli_job job;
    sm_device *device;
    cli_workload workload;
    sm_workload interface;
    sm_stepper with;
    sm_record_writer *writer;
    int n_done;
    unsigned asked; // bits of the rewrites to measure
    bool has_ended; // for the thread that watches
} ablation;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of the writer and the end
static pthread_cond_t ended;

static sm_status open_side(const ablation *a, sm_mode mode, unsigned without, sm_stepper *side) {
    SM_OWN(sm_session) *session = NULL;
    sm_plan *plan;
    cli_job job = a->job;
    job.mode = mode;
    job.without = without;
    SM_TRY(cli_draw_check_seed(&job));
    *side = sm_paired_side(NULL, &a->interface, job.protocol.check_seed);
    SM_TRY(cli_job_plan(&job, a->device->info.max_alloc_bytes, &plan));
    SM_TRY(sm_session_open(a->device, plan, &session));
    SM_TRY(cli_load_weights(session, &job.config, job.plan.seed, job.weights));
    side->session = sm_give(&session);
    return SM_OK;
}

static sm_status measure_pair(ablation *a, sm_mode mode, unsigned without, json_t *record) {
    sm_stepper other;
    sm_paired_result result = {.ratio = {.n = 0}};
    SM_TRY(open_side(a, mode, without, &other));
    int64_t with_bytes = (int64_t)a->with.session->executable->memory_bytes;
    int64_t without_bytes = (int64_t)other.session->executable->memory_bytes;
    sm_json_put(record, {"with_bytes", sm_json_integer(with_bytes)}, {"without_bytes", sm_json_integer(without_bytes)},
                {"saved_bytes", sm_json_integer(without_bytes - with_bytes)},
                {"n_ops_with", sm_json_integer(a->with.session->plan->n_ops)},
                {"n_ops_without", sm_json_integer(other.session->plan->n_ops)});
    sm_status status = sm_paired_measure(&a->with, &other, a->job.protocol.n_warmup, a->job.protocol.n_repetitions,
                                         &cli_interrupted, &result);
    sm_stepper_close(&other);
    sm_session_close(other.session);
    if (result.ratio.n > 0) { // all rounds, or those before Ctrl-C
        const sm_stats *ratio = &result.ratio;
        const char *verdict = !isfinite(ratio->ci95_lo) ? "too few rounds to say"
                              : ratio->ci95_lo > 1      ? "faster"
                              : ratio->ci95_hi < 1      ? "slower"
                                                        : "no difference";
        sm_json_put(record, {"with_ns", sm_json_integer(llround(result.a_ns.median))},
                    {"without_ns", sm_json_integer(llround(result.b_ns.median))},
                    {"ratio", sm_json_real(ratio->median)}, {"ratio_ci95_lo", sm_json_real(ratio->ci95_lo)},
                    {"ratio_ci95_hi", sm_json_real(ratio->ci95_hi)}, {"n_rounds", sm_json_integer(ratio->n)},
                    {"verdict", sm_json_text(verdict)});
    }
    return status;
}

// A pair that cannot be measured (for instance out of memory) becomes a row with the reason; the others continue.
static sm_status run_row(ablation *a, sm_mode mode, unsigned without, const char *name, const char *summary) {
    cli_say("%s: with and without %s ...", a->job.model, name);
    cli_live_parts("rewrite", a->n_done++, sm_rewrite_count() + 1);
    cli_live_show(name, 0, 0);
    const sm_device_info *info = &a->device->info;
    char test[64];
    snprintf(test, sizeof(test), "step b%llds%lld", (long long)a->job.B, (long long)a->job.T);
    json_t *record = json_pack(
        "{s:o, s:s, s:s, s:b, s:s, s:o, s:o, s:o, s:o, s:s, s:s, s:o}", "model", sm_json_text(a->job.model), "test",
        test, "precision", cli_precision_name(a->job.precision), "emulated",
        cli_is_emulated(a->device, a->job.precision), "device", info->id, "name", sm_json_text(info->name), "isa",
        sm_json_text(info->isa), "n_threads", sm_json_integer(info->n_threads > 0 ? info->n_threads : SM_ABSENT),
        "binding", sm_json_text(info->binding), "without", name, "summary", summary, "warnings",
        cli_device_warnings(info));
    sm_status status = measure_pair(a, mode, without, record);
    cli_live_clear();
    bool interrupted = status == SM_ERR_INTERRUPTED;
    if (status == SM_ERR_MISMATCH || (interrupted && json_object_get(record, "ratio") == NULL)) {
        json_decref(record);
        return status;
    }
    sm_json_set_new(record, "status",
                    sm_json_text(status == SM_OK ? "ok"
                                 : interrupted   ? "interrupted"
                                                 : sm_error_message()));
    pthread_mutex_lock(&lock);
    sm_status written = sm_record_write(a->writer, record);
    pthread_mutex_unlock(&lock);
    return interrupted && written == SM_OK ? status : written;
}

// Prints the finished rows.
static sm_status close_writer(ablation *a, sm_status status) {
    sm_record_writer *writer = a->writer;
    a->writer = NULL;
    return sm_record_writer_close(writer, status);
}

// Waits with the lock released; returns whether the end came.
static bool wait_for_end(const ablation *a, int ms) {
    const int64_t until_ns = sm_now_ns() + ms * INT64_C(1000000);
    while (!a->has_ended && os_wait_until(&ended, &lock, until_ns)) {
    }
    return a->has_ended;
}

// Prints what is complete soon after Ctrl-C even if the current work, a long step or a driver's call, cannot be
// interrupted. Polls rarely, not to disturb a measurement; then waits for a normal end, within a second.
static void *watch(void *ctx) {
    enum { LOOK_MS = 200, IN_ORDER_MS = 600, EXIT_INTERRUPTED = 130 };
    ablation *a = ctx;
    pthread_mutex_lock(&lock);
    while (!wait_for_end(a, LOOK_MS)) {
        if (cli_interrupted && !wait_for_end(a, IN_ORDER_MS)) {
            (void)close_writer(a, SM_OK);
            fflush(stdout);
            cli_note("interrupted");
            _exit(EXIT_INTERRUPTED); // no waiting for other threads, which may hang
        }
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void release(ablation *a) {
    sm_stepper_close(&a->with);
    sm_session_close(a->with.session);
    sm_device_close(a->device);
    cli_workload_close(&a->workload);
}

sm_status cli_ablate(const cli_options *options) {
    SM_AT_END(release) ablation a = {.asked = options->device.without_bits};
    cli_foresee(options);
    SM_TRY(cli_single_job(options, NULL, &a.job));
    a.job.without = 0;
    SM_TRY(cli_workload_open(options, &a.job, &a.workload));
    a.interface = cli_workload_interface(&a.workload);
    SM_TRY(cli_open_device(a.job.device, a.job.n_threads, options, &a.device));
    SM_TRY(open_side(&a, SM_MODE_FUSED, 0, &a.with));
    SM_TRY(sm_record_writer_open(&cli_ablate_table, options->out.format, stdout, &a.writer));
    pthread_t thread;
    os_init_condition(&ended);
    const bool has_thread = pthread_create(&thread, NULL, watch, &a) == 0;
    sm_status status = SM_OK;
    for (int i = 0; i < sm_rewrite_count() && status == SM_OK; i++) {
        const sm_rewrite *rewrite = sm_rewrite_at(i);
        const bool has_it = strcmp(rewrite->name, "recompute") != 0 || cli_recompute(&a.job) != SM_RECOMPUTE_NONE;
        if (has_it && (a.asked & (1u << i)) != 0) {
            status = run_row(&a, SM_MODE_FUSED, 1u << i, rewrite->name, rewrite->summary);
        }
    }
    if (status == SM_OK && a.asked == ~0u) {
        status = run_row(&a, SM_MODE_NAIVE, 0, "all", "mode fused as a whole, against mode naive");
    }
    if (has_thread) {
        pthread_mutex_lock(&lock);
        a.has_ended = true;
        pthread_cond_signal(&ended);
        pthread_mutex_unlock(&lock);
        pthread_join(thread, NULL);
    }
    return close_writer(&a, status);
}
