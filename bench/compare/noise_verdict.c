#include "bench/compare/compare.h"

// --- noise -----------------------------------------------------------------------------------------

void sm_noise_describe(double noise_percent, double spread_percent, char *text, size_t size_bytes) {
    const char *noise = SM_TEXT_SPREAD(noise_percent);
    if (noise_percent > SM_USABLE_LIMIT) {
        snprintf(text, size_bytes, "too noisy to use: its 95%% interval reaches %s from the median", noise);
        return;
    }
    snprintf(text, size_bytes,
             "noisy: half of the samples differ from the median by %s%s, and its 95%% interval reaches %s from it",
             SM_TEXT_SPREAD(spread_percent), spread_percent > SM_USABLE_LIMIT ? "" : " or more", noise);
}

static sm_noise noise_of(const json_t *row, double *noise_percent, double *spread_percent) {
    const sm_stats stats = {
        .median = sm_json_number(row, "median_ns"),
        .ci95_lo = sm_json_number(row, "ci95_lo_ns"),
        .ci95_hi = sm_json_number(row, "ci95_hi_ns"),
    };
    *noise_percent = sm_steady_noise_percent(&stats);
    *spread_percent = 100 * sm_json_number(row, "mad_ns") / stats.median;
    return sm_judge_noise(*noise_percent, *spread_percent);
}

sm_noise sm_judge_row(const json_t *row) { return noise_of(row, &(double){0}, &(double){0}); }

void sm_noise_text(const json_t *row, char *text, size_t size_bytes) {
    double noise_percent, spread_percent;
    const sm_noise noise = noise_of(row, &noise_percent, &spread_percent);
    text[0] = '\0';
    if (noise == SM_NOISE_NOISY) {
        sm_noise_describe(noise_percent, spread_percent, text, size_bytes);
    } else if (noise == SM_NOISE_TOO_FEW) {
        snprintf(text, size_bytes, "too few samples (%zu) to tell how steady it is",
                 json_array_size(sm_json_get(row, "samples_ns")));
    }
}

// --- doubt -----------------------------------------------------------------------------------------

static const double other_share_limit = 0.1; // of the processors
static const double steal_share_limit = 0.02;
static const double preemptions_limit = 0.5; // for each sample
static const double throttled_share_limit = 0.01;
static const double own_share_limit = 0.1; // above the threads
static const double least_own_cpus = 0.7;
static const double room = 0.05; // of the processors: demand slightly above their number disturbs nothing yet

// The processor time that others took; nothing where it does not matter. Unknown counts as nothing.
static void others_text(const sm_conditions *of, char *text, size_t size_bytes) {
    if (of->steal_share > steal_share_limit) {
        snprintf(text, size_bytes, "busy host: the hypervisor took %.0f%% of the processor time",
                 100 * of->steal_share);
    } else if (of->other_cpus > other_share_limit * of->n_cpus &&
               of->needed_cpus + of->other_cpus > (1 + room) * of->n_cpus) {
        snprintf(text, size_bytes, "busy machine: other processes kept %.1f of %.0f processors busy", of->other_cpus,
                 of->n_cpus);
    } else if (isnan(of->other_cpus) && of->n_preemptions >= preemptions_limit * of->n_samples &&
               of->needed_cpus <= of->n_cpus) {
        snprintf(text, size_bytes, "busy machine: threads were preempted %.0f times in %.0f samples", of->n_preemptions,
                 of->n_samples);
    }
}

// A step in which nothing waits keeps one processor busy throughout.
static void own_text(const sm_conditions *of, char *text, size_t size_bytes) {
    if (of->throttled_share > throttled_share_limit) {
        snprintf(text, size_bytes,
                 "stopped by a quota: the cgroup's limit of processor time stopped its threads for %.0f%% of the time",
                 100 * of->throttled_share);
    } else if (of->n_threads > 0 && of->own_cpus > (1 + own_share_limit) * of->n_threads + room) {
        snprintf(text, size_bytes, "more threads than it says: it kept %.1f processors busy with %.0f thread%s",
                 of->own_cpus, of->n_threads, of->n_threads > 1 ? "s" : "");
    } else if (of->n_threads > 0 && of->own_cpus < least_own_cpus && of->other_cpus + 1 < of->n_cpus + room) {
        snprintf(text, size_bytes, "stopped: it ran for %.0f%% of the time, while a processor was idle",
                 100 * of->own_cpus);
    }
}

bool sm_doubt(const sm_conditions *of, char text[SM_DOUBT_SIZE]) {
    const char *advice = "; measure again without";
    // A card waits for no processor while launches run ahead of it: what was taken shows in the slowest of its steps.
    const bool is_disturbed =
        sm_judge_noise(of->noise_percent, of->spread_percent) != SM_NOISE_STEADY ||
        (of->is_card ? !(of->tail_percent <= SM_SPREAD_LIMIT) : of->n_preemptions >= preemptions_limit * of->n_samples);
    text[0] = '\0';
    own_text(of, text, SM_DOUBT_SIZE);
    if (text[0] == '\0' && is_disturbed) {
        others_text(of, text, SM_DOUBT_SIZE);
        advice = of->may_use_fewer_threads ? "; try -t 1, or again when it is idle" : "; try again when it is idle";
    }
    if (text[0] == '\0' && of->noise_percent > SM_USABLE_LIMIT) {
        sm_noise_describe(of->noise_percent, of->spread_percent, text, SM_DOUBT_SIZE);
        advice = "; take more samples (-r)";
    }
    sm_append(text, SM_DOUBT_SIZE, "%s", text[0] != '\0' ? advice : "");
    return text[0] != '\0';
}

bool sm_doubt_row(const json_t *row, char text[SM_DOUBT_SIZE]) {
    const double n_threads = sm_json_number(row, "n_threads");
    const double n_cpus = sm_json_number(row, "context.cpu.threads");
    const bool has_card = sm_rows_has(row, "gpu_info");
    const double n_samples = (double)json_array_size(sm_json_get(row, "samples_ns"));
    // A loop may wait for data, and has threads that load them; another device has threads of its driver.
    const bool is_plain = sm_rows_is(row, "device", "cpu") && !sm_rows_has(row, "loop.loader");
    sm_conditions of = {
        .is_card = has_card,
        .tail_percent = 100 * (sm_json_number(row, "p95_ns") / sm_json_number(row, "median_ns") - 1),
        .n_samples = n_samples,
        .n_preemptions = sm_json_number(row, "sensors.involuntary_switches"),
        .n_cpus = n_cpus,
        .needed_cpus = n_threads > 0 ? n_threads
                       : has_card    ? 1
                                     : n_cpus,
        .other_cpus = sm_json_number(row, "sensors.other_cpus"),
        .steal_share = sm_json_number(row, "sensors.steal_share"),
        .may_use_fewer_threads = n_threads > 1,
        .n_threads = is_plain && n_threads > 0 ? n_threads : 0,
        .own_cpus = sm_json_number(row, "sensors.own_cpus"),
        .throttled_share =
            sm_json_number(row, "sensors.quota_throttled_ns") / (n_samples * sm_json_number(row, "avg_ns")),
    };
    (void)noise_of(row, &of.noise_percent, &of.spread_percent);
    const char *own = sm_rows_text(row, "own_kernels"); // what it could do to the figure, however steady
    const bool is_backend = strncmp(own, "backend ", strlen("backend ")) == 0 || strstr(own, ", backend ") != NULL;
    const bool has_chosen = own[0] != '\0' && json_is_true(sm_json_get(row, "check_seed_chosen"));
    if (!is_backend && !has_chosen) {
        return sm_doubt(&of, text);
    }
    snprintf(text, SM_DOUBT_SIZE, "%s: not ranked",
             is_backend ? "own backend, in the measuring process" : "own code with a chosen --check-seed");
    return true;
}

bool sm_doubt_rows(const json_t *const *rows, size_t n, char *text, size_t size_bytes) {
    char first[SM_DOUBT_SIZE] = "";
    size_t n_doubted = 0;
    for (size_t i = 0; i < n; i++) {
        char doubt[SM_DOUBT_SIZE];
        if (sm_doubt_row(rows[i], doubt) && n_doubted++ == 0) {
            memcpy(first, doubt, sizeof(first));
        }
    }
    snprintf(text, size_bytes, "%zu of %zu rows: %s", n_doubted, n, first);
    return n_doubted > 0;
}
