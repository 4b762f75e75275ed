// configuration_gains.h: gains of measured configurations relative to a default: a record for each, with its gain and
// interval.
#ifndef STEPMARK_BENCH_COMPARE_CONFIGURATION_GAINS_H
#define STEPMARK_BENCH_COMPARE_CONFIGURATION_GAINS_H

#include "bench/tables/record.h"

// A configuration and its rows.
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

#endif
