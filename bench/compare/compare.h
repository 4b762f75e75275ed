// compare.h: decides whether B is faster or slower than A, and on which basis.
//
// The unit of replication is the run (one process): samples of one run share its memory layout,
// its frequency and its neighbours, and say nothing of the next run. So, by `basis`:
//   pairs    runs that were interleaved, matched by their `compare_pair` field. The soundest
//   runs     at least SM_COMPARE_MIN_RUNS runs a side: the median of each run is one value
//   samples  fewer: the samples themselves, as means of stretches where there are many (they
//            are correlated). The verdict then holds for these runs only, and a note says so
//
// Verdict, B against A, on medians of time:
//   slower, faster   the interval of the change leaves out zero, and the change is at least
//                    the threshold
//   inconclusive     there are too few runs or samples for any interval; or they are no pairs, and a row of them bears
//                    no verdict (noise_verdict.h): the reason says why
//   no-difference    otherwise: none was seen. `detectable_percent` is what would have been
// The confidence is 99% for each comparison; where there are many, so much more that a false
// verdict among all of them stays below 5%.
#ifndef STEPMARK_COMPARE_H
#define STEPMARK_COMPARE_H

#include "bench/compare/compare_match.h"
#include "bench/tables/record.h"

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
// for all. SM_ERR_USAGE if that factor differs from match to match. Having nothing to compare is no failure: `compared`
// is empty.
sm_status sm_compare(const json_t *rows_a, const json_t *rows_b, const sm_compare_options *options,
                     sm_comparison *comparison);
void sm_comparison_free(sm_comparison *comparison);

// For rows that did the same work: how much faster the fastest is than each other, an array of texts: "fused is 1.36
// (1.31-1.41) times faster than naive", with the 95% interval of the ratio; or that the two are not distinct, or have
// too few samples. Rows without figures are left out. The caller owns it.
json_t *sm_fastest_sentences(const json_t *rows);

#endif
