// compare.h: decides whether B is faster or slower than A, and on which basis.
//
// The unit of replication is the run (one process): samples of one run share its memory layout,
// its frequency and its neighbours, and say nothing of the next run. So, by `basis`:
//   pairs    runs that were interleaved, matched by their `compare_pair` field. The soundest
//   runs     at least SM_COMPARE_MIN_RUNS runs a side: the median of each run is one value
//   samples  fewer: the samples themselves, as medians of stretches where there are many (they
//            are correlated). The verdict then holds for these runs only, and a note says so
//
// Verdict, B against A, on medians of time:
//   slower, faster   the interval of the change leaves out zero, and the change is at least
//                    the threshold
//   inconclusive     there are too few runs or samples for any interval; or they are no pairs, and a row of them bears
//                    no verdict: the reason says why
//   no-difference    otherwise: none was seen. `detectable_percent` is what would have been
// The confidence is 99% for each comparison; where there are many, so much more that a false
// verdict among all of them stays below 5%.
#pragma once

#include "bench/rows/identity.h"
#include "bench/rows/read_rows.h"
#include "bench/stats/stats.h"

// Tokens/s of a row at its median step, with the 95% interval of that: the ends of the time's, exchanged; NaN: unknown.
typedef struct {
    double value, lo, hi;
} sm_estimate;
sm_estimate sm_row_rate(const json_t *row);

// --- verdicts on one row -------------------------------------------------------------------------

// Whether a figure is steady enough to rely on (sm_noise, stats.h). All statements about speed use it.
//
// Some figures bear no verdict at all: no factor, no rank, nothing reckoned with them (sm_doubt_row). More samples do
// not help where others had the processors, since a disturbance never makes a step faster.

void sm_noise_describe(double noise_percent, double spread_percent, char *text, size_t size_bytes); // if noisy

// Judges a row by its figures, from any program.
sm_noise sm_judge_row(const json_t *row);

// "noisy: half of the samples differ from the median by 12% or more, and its 95% interval reaches 40%"; "": steady.
void sm_noise_text(const json_t *row, char *text, size_t size_bytes);

enum { SM_DOUBT_SIZE = 256 };

// The known facts of a measurement; NaN: unknown.
typedef struct {
    double noise_percent;
    double spread_percent; // of half of its samples; 0 for a mean
    double tail_percent;   // of its 95th percentile above the median
    bool is_card;          // which has no threads of the host
    double n_samples, n_preemptions;
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
//     steady, or half as many preemptions were counted as samples, or on a card instead its slowest twentieth is not
//     known to lie within SM_SPREAD_LIMIT percent of the median. Threads of their own alone disturb no verdict
//   - not what it says: more processors kept busy than it has threads; or stopped, by a cgroup's quota or a signal
//   - too noisy to use: its 95% interval reaches more than SM_USABLE_LIMIT percent from the median
bool sm_doubt(const sm_conditions *of, char text[SM_DOUBT_SIZE]);
bool sm_doubt_row(const json_t *row, char text[SM_DOUBT_SIZE]);
#define SM_IS_DOUBTED(row) sm_doubt_row((row), (char[SM_DOUBT_SIZE]){""})

// "2 of 6 rows: busy machine: ...", from the first of `rows` that supports no verdict; false: all support one.
bool sm_doubt_rows(const json_t *const *rows, size_t n, char *text, size_t size_bytes);

// --- costs ---------------------------------------------------------------------------------------

// The cost of a measured speed, by prices that the user gives.

enum { SM_MOST_PRICES = 32, SM_PRICE_NAME_SIZE = 64, SM_COST_TEXT_SIZE = 192 };

typedef struct {
    char name[SM_PRICE_NAME_SIZE]; // a part of the name of a processor, card, host or device
    double per_hour;
    char currency[8]; // "": not named
} sm_price;

typedef struct {
    sm_price prices[SM_MOST_PRICES];
    int n;
    double train_tokens; // 0: not asked for
} sm_costs;

// Adds "H100=2.49/h" or "EPYC=0.40EUR/h". SM_ERR_USAGE says what is wrong.
sm_status sm_costs_add(sm_costs *costs, const char *text);

// "10,000,000,000 tokens take 3.2 h and cost 8.01 EUR; 1,249 million tokens for 1 EUR"; "": unknown, or NULL costs.
const char *sm_costs_text(const sm_costs *costs, const json_t *row, double tokens_per_s, char text[SM_COST_TEXT_SIZE]);
#define SM_COSTS_TEXT(costs, row, tokens_per_s) \
    sm_costs_text((costs), (row), (tokens_per_s), (char[SM_COST_TEXT_SIZE]){""})

// --- comparing -----------------------------------------------------------------------------------

enum { SM_COMPARE_MIN_RUNS = 5 };

// X(code, name)
#define SM_VERDICT_LIST(X)                     \
    X(SM_VERDICT_SAME, "no-difference")        \
    X(SM_VERDICT_INCONCLUSIVE, "inconclusive") \
    X(SM_VERDICT_FASTER, "faster")             \
    X(SM_VERDICT_SLOWER, "slower")

typedef enum { SM_VERDICT_LIST(SM_CODE) } sm_verdict;

const char *sm_verdict_name(sm_verdict verdict);

typedef struct {
    double threshold; // smallest change that counts, as a fraction
    unsigned across;  // factors (bits) that may differ, because they are being compared
    bool any_factor;  // all factors may differ: two command lines say what is compared
} sm_compare_options;

typedef struct {
    json_t *compared;   // records of sm_compare_table
    json_t *apart;      // records of sm_apart_table: rows that were not compared, with the reason
    json_t *notes;      // texts
    sm_verdict verdict; // slower if any is; else faster if any is; else inconclusive if any is, or nothing was compared
    int n_failed;       // configurations that ran in A and have status error in B
} sm_comparison;

extern const sm_table sm_compare_table;
extern const sm_table sm_apart_table;

// Without `across`: compares rows that agree in everything; if there are none, rows that differ in one factor, the same
// for all. SM_ERR_USAGE if that factor differs from match to match. With nothing to compare `compared` is empty.
sm_status sm_compare(const json_t *rows_a, const json_t *rows_b, const sm_compare_options *options,
                     sm_comparison *comparison);
void sm_comparison_free(sm_comparison *comparison);

// The difference of two rows alone, by an array of their samples (sm_compare_unpaired).
sm_difference sm_compare_samples(const json_t *row_a, const json_t *row_b, const char *samples, double alpha);

// For rows that did the same work: how much faster the fastest is than each other row, as an array of texts: "fused is
// 1.36 (1.31-1.41) times faster than naive", with the 95% interval of the ratio; or that the two are not distinct, or
// have too few samples. Rows without figures are left out; rounds count together. The caller owns it.
json_t *sm_fastest_sentences(const json_t *rows);

// For rows of attention by itself, naive and flash at the same lengths: the length from which on flash is faster at all
// measured lengths, by their medians; a sentence for each device, format, pass and size. Rows without a verdict do not
// take part, and a last sentence says why. The caller owns the array.
json_t *sm_crossover_sentences(const json_t *rows);

// --- recommendations ------------------------------------------------------------------------------

// Recommendations from measured rows. Rows are compared within a group only: the same work but for the batch, on one
// device of one machine; rows with code of the user's own are groups of their own.
//
//   fastest       most tokens/s at the median
//   per GiB       most tokens/s for each GiB: allocated on a device with memory of its own, else the process's peak
//   steadiest     smallest median absolute deviation, in percent of the median
//   break-even    of two steady rows that differ in mode alone: after how many steps the faster mode has made good what
//                 it cost more to start
//   did not fit   for a row oom: the largest work like it that did run
//
// Figures are distinct where their 95% intervals do not overlap. What is not steady and distinct from all others is not
// named the best: the record then has no configuration, and `caution` says why.

extern const sm_table sm_recommend_table;
json_t *sm_recommend(const json_t *rows); // the caller owns it

// "cpu AMD EPYC, small, step s512": the group of a row.
void sm_recommend_group(const json_t *row, char *text, size_t size_bytes);

// --- a row again ----------------------------------------------------------------------------------

// Compares a row with the row of a second run with the same flags: it was reproduced if the status is the same and so is
// every loss that both runs have. Losses must be equal in every digit if the same clean build ran on the same device with
// as many threads; otherwise, and in mode tuned, tolerances apply. Speed does not decide: it is judged as in `compare`.

typedef struct {
    json_t *fields;           // records of sm_again_table: outcome, losses, speed, and conditions
    sm_comparison comparison; // of the speeds
    bool is_reproduced;       // outcome and losses
    char reason[1024];        // "" if it was
    char conditions[512];     // those that differ: "build_commit, n_threads"; "" if none
    char losses[256];         // "all 9 that both runs have are equal in every digit"
    char speed[256];          // "not told apart: the step's time changed by +0.3% (-1.2% to +1.8%)"
} sm_again;

extern const sm_table sm_again_table;

// `threshold` as in sm_compare_options.
void sm_again_compare(const json_t *recorded, const json_t *again, double threshold, sm_again *result);
void sm_again_free(sm_again *result);

// --- which configurations to measure ----------------------------------------------------------------

// Decides which configurations to measure, and in what order, to find the fastest of many in
// few short runs.
//
// A configuration is a choice of one level on each axis (batch 4, 8, 16; precision fp32, bf16; ...): a number whose
// digits are the levels, the last axis the fastest. 0, the first level of every axis, is the default. Runs come in
// rounds, the default in each of them: a configuration's figure is its speed against the default's of the same round,
// so that drift over time affects both.
//
//   round 0   the default; then, axis by axis, every other level of that axis next to the fastest so far
//   rounds    the default, the fastest, and, one by one, those expected to be the fastest: what gained elsewhere
//             together; each other level next to the fastest; and what is as fast, once more
//   rounds    the default and the fastest alone, until they have met often enough for an interval
//
// A configuration that was not measured is expected to gain the product of what its levels gain over the fastest's,
// each as measured next to the configuration nearest to the fastest that ran with both. Much is hoped of a level that
// did not fit: others may let it in (a batch with recomputation).
//
// It measures nothing itself, and the same speeds lead to the same requests.

enum { SM_ADVISOR_MAX_AXES = 16, SM_ADVISOR_MAX_LEVELS = 64 };

typedef struct {
    int n_axes;
    int n_levels[SM_ADVISOR_MAX_AXES];
    int order[SM_ADVISOR_MAX_AXES]; // order of the axes in round 0: levels of later axes are tried next to a faster
                                    // configuration
} sm_choices;

int64_t sm_choices_count(const sm_choices *choices);
int sm_choices_level(const sm_choices *choices, int64_t configuration, int axis);

typedef struct {
    int64_t configuration;
    int round;
} sm_trial;

typedef enum {
    SM_TRIAL_MEASURED,
    SM_TRIAL_TOO_LARGE, // does not fit, but its levels may fit with others
    SM_TRIAL_FAILED,    // for another reason; in round 0 its level is given up
} sm_trial_outcome;

typedef struct sm_advisor sm_advisor;

// n_meetings: final number of rounds with both the default and the fastest.
sm_advisor *sm_advisor_open(const sm_choices *choices, int n_meetings);
void sm_advisor_close(sm_advisor *advisor); // NULL is fine

// The next run; false: none is left. The answer does not change until its outcome is given.
bool sm_advisor_next(sm_advisor *advisor, sm_trial *trial);

// The outcome of that run. The speed, in work a second, counts if it was measured.
void sm_advisor_take(sm_advisor *advisor, sm_trial_outcome outcome, double speed);

// The fastest so far, over all rounds; -1 if nothing was measured.
int64_t sm_advisor_best(const sm_advisor *advisor);

// The largest number of runs left; a few more if the fastest changes at the end.
int sm_advisor_most_left(const sm_advisor *advisor);

// --- gains of configurations ----------------------------------------------------------------------

// Gains of measured configurations relative to a default. A configuration and its rows:
typedef struct {
    const char *flags;   // different from the default's, "--batch-size=8 --precision=bf16"; "" for the default itself
    const char *changes; // what they change in the training, "batch, rounding"; "" for nothing
    const char *command; // to measure it again
    json_t *rows;        // array of results as `run` writes them, by round; null for a round without it. Not owned
    bool is_advised;     // the recommended one
} sm_advice_case;

// Makes a record for each case, the fastest first; those without a speed come last. cases[0] is the default. Gains are
// in tokens a second; the 95% interval uses the rounds in which both were measured if there are six or more (Wilcoxon),
// otherwise their samples in all rounds (Mann-Whitney). The caller owns what comes.
json_t *sm_advice(const sm_advice_case *cases, size_t n);

// Tokens a second of a row by its fastest sample, for decisions: in a short run a disturbance slows the median, but not
// the fastest sample. NaN without figures.
double sm_advice_speed(const json_t *row);

extern const sm_table sm_advice_table;

// --- many machines --------------------------------------------------------------------------------

// Rows from many machines in one table: for each work, number format and optimizer the fastest row of each device of
// each machine, best first, by tokens/s; batch and mode may differ between devices.

extern const sm_table sm_leaderboard_table;
extern const sm_table sm_leaderboard_refused_table; // machine, ..., status, reason

// Makes two arrays of records; the caller owns both. `references` (NULL: none) are rows that the program came with:
// those whose work `rows` have, too, take part; all of them where `rows` is empty. Rows without a checked figure, or
// without a verdict, are refused. Machines whose intervals overlap share a place. `costs` may be NULL.
void sm_leaderboard_make(const json_t *rows, const json_t *references, const sm_costs *costs, json_t **records,
                         json_t **refused);

// Whether a row is ok, and has a time; whether it has a time to compare, if of fewer samples than were asked for.
bool sm_row_is_ok(const json_t *row);
bool sm_row_is_usable(const json_t *row);
