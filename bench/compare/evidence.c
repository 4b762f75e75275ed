// evidence.c: see evidence.h.
#include "evidence.h"

#include "compare_match.h"
#include "read_rows.h"
#include "show.h"
#include "stats.h"
#include "steady.h"

#include <math.h>
#include <stdlib.h>

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

// Two digits, and whole numbers from 100 on: "8.7", "74", "1684".
static void percent_text(double percent, char text[32]) {
    snprintf(text, 32, percent < 100 ? "%.2g" : "%.0f", percent);
}

void sm_noise_describe(double noise_percent, double spread_percent, char *text, size_t size_bytes) {
    char noise[32];
    char spread[32];
    percent_text(noise_percent, noise);
    percent_text(spread_percent, spread);
    snprintf(
        text, size_bytes,
        "noisy: half of the samples differ from the median by %s%% or more, and its 95%% interval reaches %s%% from it",
        spread, noise);
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

// --- contests --------------------------------------------------------------------------------------

// false where an interval is missing, too.
static bool told_apart(const sm_estimate *a, const sm_estimate *b) { return a->hi < b->lo || b->hi < a->lo; }

// Tokens per second: the more the shorter the time, so the ends of the interval change places.
static sm_status throughput(const json_t *row, sm_estimate *figure) {
    const double median_ts = sm_json_number(row, "median_ts");
    const double tokens = median_ts * sm_json_number(row, "median_ns");
    *figure = (sm_estimate){median_ts, tokens / sm_json_number(row, "ci95_hi_ns"),
                            tokens / sm_json_number(row, "ci95_lo_ns")};
    return SM_OK;
}

// For each GiB that is occupied: on a device with memory of its own what is allocated there, else the process's peak.
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

// The median absolute deviation is a median, too: its interval is made like that of the times.
static sm_status spread(const json_t *row, sm_estimate *figure) {
    const double median = sm_json_number(row, "median_ns");
    double *values = NULL;
    size_t n = 0;
    sm_stats stats;
    sm_status status = SM_OK;
    *figure = (sm_estimate){NAN, NAN, NAN};
    SM_TRY(sm_rows_samples(row, "samples_ns", &values, &n));
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

// Another run of what a row is of.
static bool same_configuration(const json_t *a, const json_t *b) {
    return sm_work_distance(a, b) == 0 && sm_factor_difference(a, b) == 0;
}

// Those that `first` is not told apart from, and the best of them. How many other configurations there are is returned.
static size_t find_rivals(const sm_contest *contest, const json_t *const *rows, const sm_estimate *figures, size_t n,
                          sm_outcome *o) {
    size_t n_others = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(figures[i].value) || same_configuration(rows[i], o->first)) {
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

sm_status sm_judge_contest(const sm_contest *contest, const json_t *const *rows, size_t n, sm_outcome *outcome) {
    sm_status status = SM_OK;
    *outcome = (sm_outcome){.first = NULL};
    sm_estimate *figures = calloc(n + 1, sizeof(*figures));
    if (figures == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory to compare %zu rows", n);
    }
    for (size_t i = 0; i < n; i++) {
        SM_TRY_GOTO(contest->estimate(rows[i], &figures[i]));
    }
    decide(contest, rows, figures, n, outcome);
cleanup:
    free(figures);
    return status;
}

bool sm_is_won(const sm_outcome *outcome) {
    return outcome->first != NULL && outcome->rival == NULL && outcome->noise == SM_NOISE_STEADY;
}
