// noise_verdict.c: see noise_verdict.h.
#include "bench/compare/noise_verdict.h"

#include "bench/compare/compare_match.h"
#include "bench/rows/read_rows.h"
#include "bench/stats/stats.h"
#include "bench/stats/steady.h"
#include "bench/tables/show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- noise -----------------------------------------------------------------------------------------

const char *sm_noise_name(sm_noise noise) {
    static const char *const names[] = {
#define X(code, name) name,
        SM_NOISE_LIST(X)
#undef X
    };
    return names[noise];
}

sm_noise sm_judge_noise(double noise_percent, double spread_percent) {
    if (isnan(noise_percent)) {
        return SM_NOISE_TOO_FEW;
    }
    return noise_percent <= SM_NOISE_LIMIT && spread_percent <= SM_SPREAD_LIMIT ? SM_NOISE_STEADY : SM_NOISE_NOISY;
}

void sm_noise_describe(double noise_percent, double spread_percent, char *text, size_t size_bytes) {
    char noise[32];
    char spread[32];
    sm_text_spread(noise_percent, noise);
    sm_text_spread(spread_percent, spread);
    if (noise_percent > SM_USABLE_LIMIT) {
        snprintf(text, size_bytes, "too noisy to use: its 95%% interval reaches %s from the median", noise);
        return;
    }
    snprintf(text, size_bytes,
             "noisy: half of the samples differ from the median by %s%s, and its 95%% interval reaches %s from it",
             spread, spread_percent > SM_USABLE_LIMIT ? "" : " or more", noise);
}

static void noise_of(const json_t *row, double *noise_percent, double *spread_percent) {
    const sm_stats stats = {
        .median = sm_json_number(row, "median_ns"),
        .ci95_lo = sm_json_number(row, "ci95_lo_ns"),
        .ci95_hi = sm_json_number(row, "ci95_hi_ns"),
    };
    *noise_percent = sm_steady_noise_percent(&stats);
    *spread_percent = 100 * sm_json_number(row, "mad_ns") / stats.median;
}

sm_noise sm_judge_row(const json_t *row) {
    double noise_percent;
    double spread_percent;
    noise_of(row, &noise_percent, &spread_percent);
    return sm_judge_noise(noise_percent, spread_percent);
}

void sm_noise_text(const json_t *row, char *text, size_t size_bytes) {
    double noise_percent;
    double spread_percent;
    noise_of(row, &noise_percent, &spread_percent);
    text[0] = '\0';
    switch (sm_judge_noise(noise_percent, spread_percent)) {
    case SM_NOISE_STEADY: break;
    case SM_NOISE_NOISY: sm_noise_describe(noise_percent, spread_percent, text, size_bytes); break;
    case SM_NOISE_TOO_FEW:
        snprintf(text, size_bytes, "too few samples (%zu) to tell how steady it is",
                 json_array_size(sm_json_get(row, "samples_ns")));
        break;
    }
}

// --- doubt -----------------------------------------------------------------------------------------

static const double other_share_limit = 0.1; // of the processors
static const double steal_share_limit = 0.02;
static const double preemptions_limit = 0.5; // for each sample
static const double throttled_share_limit = 0.01;
static const double own_share_limit = 0.1; // above the threads
static const double least_own_cpus = 0.7;
static const double room = 0.05; // of the processors: demand slightly above their number disturbs nothing
                                 // yet

// The processor time that others took; false: nothing that matters. Unknown counts as nothing.
static bool others_text(const sm_conditions *of, char *text, size_t size_bytes) {
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
    } else {
        return false;
    }
    return true;
}

// A step in which nothing waits keeps one processor busy throughout.
static bool own_text(const sm_conditions *of, char *text, size_t size_bytes) {
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
    } else {
        return false;
    }
    return true;
}

bool sm_doubt(const sm_conditions *of, char text[SM_DOUBT_SIZE]) {
    const char *advice = "; take more samples (-r)";
    const bool is_disturbed = sm_judge_noise(of->noise_percent, of->spread_percent) != SM_NOISE_STEADY ||
                              of->n_preemptions >= preemptions_limit * of->n_samples;
    text[0] = '\0';
    if (own_text(of, text, SM_DOUBT_SIZE)) {
        advice = "; measure again without";
    } else if (is_disturbed && others_text(of, text, SM_DOUBT_SIZE)) {
        advice = of->may_use_fewer_threads ? "; try -t 1, or again when it is idle" : "; try again when it is idle";
    } else if (of->noise_percent > SM_USABLE_LIMIT) {
        sm_noise_describe(of->noise_percent, of->spread_percent, text, SM_DOUBT_SIZE);
    } else {
        return false;
    }
    const size_t used = strlen(text);
    snprintf(text + used, SM_DOUBT_SIZE - used, "%s", advice);
    return true;
}

// What own code could do to the figure, however steady; "": nothing that is known.
static const char *own_code_text(const json_t *row) {
    const char *own = sm_rows_text(row, "own_kernels");
    if (strncmp(own, "backend ", strlen("backend ")) == 0 || strstr(own, ", backend ") != NULL) {
        return "own backend, in the measuring process: not ranked";
    }
    return own[0] != '\0' && json_is_true(sm_json_get(row, "check_seed_chosen"))
               ? "own code with a chosen --check-seed: not ranked"
               : "";
}

bool sm_doubt_row(const json_t *row, char text[SM_DOUBT_SIZE]) {
    const double n_threads = sm_json_number(row, "n_threads");
    const double n_cpus = sm_json_number(row, "context.cpu.threads");
    const bool has_card = sm_rows_text(row, "gpu_info")[0] != '\0';
    const double n_samples = (double)json_array_size(sm_json_get(row, "samples_ns"));
    // A loop may wait for data, and has threads that load them; another device has threads of its driver.
    const bool is_plain =
        strcmp(sm_rows_text(row, "device"), "cpu") == 0 && sm_rows_text(row, "loop.loader")[0] == '\0';
    sm_conditions of = {
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
    noise_of(row, &of.noise_percent, &of.spread_percent);
    snprintf(text, SM_DOUBT_SIZE, "%s", own_code_text(row));
    return text[0] != '\0' || sm_doubt(&of, text);
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

// --- contests --------------------------------------------------------------------------------------

// false also if an interval is missing.
static bool told_apart(const sm_estimate *a, const sm_estimate *b) { return a->hi < b->lo || b->hi < a->lo; }

// Tokens per second: the inverse of time, so the ends of the interval are exchanged.
static sm_status throughput(const json_t *row, sm_estimate *figure) {
    const double median_ts = sm_json_number(row, "median_ts");
    const double tokens = median_ts * sm_json_number(row, "median_ns");
    *figure = (sm_estimate){median_ts, tokens / sm_json_number(row, "ci95_hi_ns"),
                            tokens / sm_json_number(row, "ci95_lo_ns")};
    return SM_OK;
}

// For each GiB in use: memory allocated on a device with its own memory, otherwise the process's peak.
static sm_status throughput_per_gib(const json_t *row, sm_estimate *figure) {
    const double bytes_per_gib = 1024.0 * 1024 * 1024;
    const double on_device = sm_json_number(row, "device_peak_bytes");
    const double in_process = sm_json_number(row, "peak_rss_bytes");
    const bool own_memory = sm_rows_text(row, "gpu_info")[0] != '\0' || !(in_process > 0);
    const double gib = (own_memory && on_device > 0 ? on_device : in_process) / bytes_per_gib;
    SM_TRY(throughput(row, figure));
    *figure =
        gib > 0 ? (sm_estimate){figure->value / gib, figure->lo / gib, figure->hi / gib} : (sm_estimate){NAN, NAN, NAN};
    return SM_OK;
}

// The median absolute deviation is a median, too: its interval is computed like that of times.
static sm_status spread(const json_t *row, sm_estimate *figure) {
    const double median = sm_json_number(row, "median_ns");
    double *values = NULL;
    size_t n = 0;
    sm_stats stats;
    sm_status status = SM_OK;
    *figure = (sm_estimate){NAN, NAN, NAN};
    sm_rows_samples(row, "samples_ns", &values, &n);
    for (size_t i = 0; i < n; i++) {
        values[i] = 100 * fabs(values[i] - median) / median;
    }
    if (n > 0 && median > 0) {
        SM_TRY_GOTO(sm_stats_compute_real(values, (int64_t)n, &stats));
        *figure = (sm_estimate){stats.median, stats.ci95_lo, stats.ci95_hi};
    }
cleanup:
    free(values);
    return status;
}

const sm_contest sm_contests[SM_CONTEST_COUNT] = {
    [SM_CONTEST_THROUGHPUT] = {"fastest", "tokens/s", throughput, false},
    [SM_CONTEST_PER_GIB] = {"per GiB", "tokens/s/GiB", throughput_per_gib, false},
    [SM_CONTEST_SPREAD] = {"steadiest", "% spread", spread, true},
};

static bool is_better(const sm_contest *contest, double a, double b) { return contest->least_wins ? a < b : a > b; }

// Finds the configurations that are not distinct from `first`, and the best of them. Returns the number of other
// configurations.
static size_t find_rivals(const sm_contest *contest, const json_t *const *rows, const sm_estimate *figures, size_t n,
                          sm_outcome *o) {
    size_t n_others = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(figures[i].value) || sm_identity_difference(rows[i], o->first) == 0) {
            continue;
        }
        n_others++;
        if (told_apart(&o->figure, &figures[i])) {
            continue;
        }
        if (o->n_rivals++ == 0 || is_better(contest, figures[i].value, o->rival_figure.value)) {
            o->rival = rows[i];
            o->rival_figure = figures[i];
        }
    }
    return n_others;
}

static void decide(const sm_contest *contest, const json_t *const *rows, const sm_estimate *figures, size_t n,
                   sm_outcome *o) {
    for (size_t i = 0; i < n; i++) {
        bool known = !isnan(figures[i].value);
        if (known && (o->first == NULL || is_better(contest, figures[i].value, o->figure.value))) {
            o->first = rows[i];
            o->figure = figures[i];
        }
    }
    if (o->first == NULL || find_rivals(contest, rows, figures, n, o) == 0) {
        o->first = NULL;
        return;
    }
    o->noise = sm_judge_row(o->first);
}

// Whether there are several configurations to compare.
static bool has_several(const json_t *const *rows, size_t n) {
    size_t i = 1;
    while (i < n && sm_identity_difference(rows[0], rows[i]) == 0) {
        i++;
    }
    return i < n;
}

sm_status sm_judge_contest(const sm_contest *contest, const json_t *const *rows, size_t n, sm_outcome *outcome) {
    sm_status status = SM_OK;
    *outcome = (sm_outcome){.first = NULL};
    sm_estimate *figures = sm_calloc(n + 1, sizeof(*figures));
    for (size_t i = 0; i < n; i++) {
        char doubt[SM_DOUBT_SIZE];
        SM_TRY_GOTO(contest->estimate(rows[i], &figures[i]));
        if (sm_doubt_row(rows[i], doubt)) {
            figures[i].value = NAN;
        }
    }
    if (!has_several(rows, n) || !sm_doubt_rows(rows, n, outcome->doubt, sizeof(outcome->doubt))) {
        outcome->doubt[0] = '\0';
    }
    decide(contest, rows, figures, n, outcome);
cleanup:
    free(figures);
    return status;
}

bool sm_is_all_doubt(const sm_outcome *outcome) { return outcome->first == NULL && outcome->doubt[0] != '\0'; }

bool sm_is_won(const sm_outcome *outcome) {
    return outcome->first != NULL && outcome->rival == NULL && outcome->noise == SM_NOISE_STEADY;
}
