// noise_verdict.h: decides whether a figure is steady enough to rely on.
//
// All statements about speed use it: run, sweep, recommend, report, compare and profile.
//
//   steady    the 95% interval of the median lies within SM_NOISE_LIMIT percent of it, and half of the samples
//             within SM_SPREAD_LIMIT percent
//   noisy     not so: another run may give another figure
//   too few   no interval: fewer than 6 samples (or none told)
//
// Some figures bear no verdict at all: no factor, no rank, nothing reckoned with them (sm_doubt_row). More samples do
// not help where others had the processors, since a disturbance never makes a step faster.
#ifndef STEPMARK_BENCH_COMPARE_NOISE_VERDICT_H
#define STEPMARK_BENCH_COMPARE_NOISE_VERDICT_H

#include "status.h"
#include "bench/stats/steady.h"
#include "bench/tables/json_values.h"

#include <stdbool.h>
#include <stddef.h>

// X(code, name)
#define SM_NOISE_LIST(X)         \
    X(SM_NOISE_STEADY, "steady") \
    X(SM_NOISE_NOISY, "noisy")   \
    X(SM_NOISE_TOO_FEW, "too few")

typedef enum { SM_NOISE_LIST(SM_CODE) } sm_noise;

const char *sm_noise_name(sm_noise noise);

// noise_percent: as in steady.h; NaN without an interval. spread_percent: the median absolute deviation.
sm_noise sm_judge_noise(double noise_percent, double spread_percent);

void sm_noise_describe(double noise_percent, double spread_percent, char *text, size_t size_bytes); // if noisy

// Judges a row by its figures, from any program.
sm_noise sm_judge_row(const json_t *row);

// "noisy: half of the samples differ from the median by 12% or more, and its 95% interval reaches 40% from it"; "" if
// steady.
void sm_noise_text(const json_t *row, char *text, size_t size_bytes);

enum { SM_DOUBT_SIZE = 256 };

// The known facts of a measurement; NaN: unknown.
typedef struct {
    double noise_percent;
    double spread_percent; // of half of its samples; 0 for a mean
    double n_samples;
    double n_preemptions;
    double n_cpus;      // of the machine
    double needed_cpus; // at a time
    double other_cpus;  // kept busy by others
    double steal_share;
    bool may_use_fewer_threads;
    double n_threads;       // of the host's processor, and of nothing else; 0: unknown
    double own_cpus;        // kept busy by them
    double throttled_share; // of the time, by a cgroup's quota
} sm_conditions;

// Whether a figure bears no verdict, and why, with what to do about it: "busy machine: other processes kept 1.7 of
// 2 processors busy; try -t 1, or again when it is idle". So it is
//   - busy: others left fewer processors than it has threads, or the hypervisor took some; and its samples are not
//     steady, or half as many preemptions were counted as samples. Threads of their own alone disturb no verdict
//   - not what it says: more processors kept busy than it has threads; or stopped, by a cgroup's quota or a signal
//   - too noisy to use: its 95% interval reaches more than SM_USABLE_LIMIT percent from the median
bool sm_doubt(const sm_conditions *of, char text[SM_DOUBT_SIZE]);
bool sm_doubt_row(const json_t *row, char text[SM_DOUBT_SIZE]);

// "2 of 6 rows: busy machine: ...", from the first of `rows` that supports no verdict; false: all support one.
bool sm_doubt_rows(const json_t *const *rows, size_t n, char *text, size_t size_bytes);

#endif
