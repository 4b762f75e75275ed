// configuration_gains.h: measured gains of configurations relative to a default: a record each, with its gain and how
// sure that is. Unmeasured configurations are not in it.
#ifndef STEPMARK_BENCH_COMPARE_CONFIGURATION_GAINS_H
#define STEPMARK_BENCH_COMPARE_CONFIGURATION_GAINS_H

#include "bench/tables/record.h"

// A configuration and its rows.
typedef struct {
    const char *flags;   // beside the default's, "--batch-size=8 --precision=bf16"; "" for the default itself
    const char *changes; // of what is trained, "batch, rounding"; "" for nothing
    const char *command; // that measures it
    json_t *rows;        // array of results as `run` writes them, by round; null in a round without it. Not owned
    bool is_advised;     // the one that was chosen
} sm_advice_case;

// A record a case, the fastest first; what has no speed comes last. cases[0] is the default. A gain is of tokens a
// second; its interval (95%) is that of the rounds that both were measured in where there are six or more (Wilcoxon),
// else that of their samples in all rounds (Mann-Whitney). The caller owns *records.
sm_status sm_advice(const sm_advice_case *cases, size_t n, json_t **records);

// Tokens a second of a row by its fastest sample, to decide by: of the few samples of a short run a disturbance slows
// the median, and not that one. NaN where it has no figures.
double sm_advice_speed(const json_t *row);

extern const sm_table sm_advice_table;

#endif
