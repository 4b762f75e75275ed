// evidence.h: is a figure steady enough to be relied on, and are two told apart?
//
// One judgement for every word about speed: of run, sweep, recommend, report, compare and profile.
//
//   steady    the 95% interval of the median lies within SM_NOISE_LIMIT percent of it, and half of the samples
//             within SM_SPREAD_LIMIT percent
//   noisy     not so: another run may give another figure
//   too few   no interval: fewer than 6 samples (or none told)
//
// Two figures are told apart where their 95% intervals have nothing in common. Nothing is called the best of some that
// is not steady, and told apart from every other.
#ifndef STEPMARK_EVIDENCE_H
#define STEPMARK_EVIDENCE_H

#include "json_values.h"
#include "status.h"

#include <stdbool.h>
#include <stddef.h>

// X(code, name)
#define SM_NOISE_LIST(X)         \
    X(SM_NOISE_STEADY, "steady") \
    X(SM_NOISE_NOISY, "noisy")   \
    X(SM_NOISE_TOO_FEW, "too few")

typedef enum {
#define X(code, name) code,
    SM_NOISE_LIST(X)
#undef X
} sm_noise;

enum { SM_NOISE_LIMIT = 5, SM_SPREAD_LIMIT = 10 }; // percent of the median

const char *sm_noise_name(sm_noise noise);

// noise_percent: of steady.h; NaN without an interval. spread_percent: the median absolute deviation.
sm_noise sm_judge_noise(double noise_percent, double spread_percent);

void sm_noise_describe(double noise_percent, double spread_percent, char *text, size_t size_bytes); // where noisy

// Of a row by its figures, whoever wrote it.
sm_noise sm_judge_row(const json_t *row);

// "noisy: half of the samples differ from the median by 81% or more, and its 95% interval reaches 40% from it"; ""
// where steady.
void sm_noise_text(const json_t *row, char *text, size_t size_bytes);

// A figure with its 95% interval; NaN where it is not known.
typedef struct {
    double value;
    double lo;
    double hi;
} sm_estimate;

// What rows are compared by.
typedef struct {
    const char *topic; // "fastest"
    const char *unit;  // "tokens/s"
    sm_status (*estimate)(const json_t *row, sm_estimate *figure);
    bool least_wins;
} sm_contest;

enum { SM_CONTEST_THROUGHPUT, SM_CONTEST_PER_GIB, SM_CONTEST_SPREAD, SM_CONTEST_COUNT };
extern const sm_contest sm_contests[SM_CONTEST_COUNT];

typedef struct {
    const json_t
        *first; // by its value; NULL: fewer than two configurations have the figure, and of one there is no best
    sm_estimate figure;  // its
    const json_t *rival; // the nearest of those that it is not told apart from; NULL: none
    sm_estimate rival_figure;
    size_t n_rivals;
    sm_noise noise; // of `first`
} sm_outcome;

sm_status sm_judge_contest(const sm_contest *contest, const json_t *const *rows, size_t n, sm_outcome *outcome);

// Is `first` the best beyond doubt?
bool sm_is_won(const sm_outcome *outcome);

#endif
