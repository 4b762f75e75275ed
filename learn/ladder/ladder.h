// ladder.h: compares an op's rungs with the reference and measures them in turn: the gain of each change of a kernel,
// and the distance of the last one from the machine's ceiling.
#ifndef STEPMARK_LEARN_LADDER_LADDER_H
#define STEPMARK_LEARN_LADDER_LADDER_H

#include <signal.h>

#include "backend.h"
#include "bench/profile/profile.h"
#include "bench/stats/stats.h"
#include "learn/ladder/rungs.h"
#include "src/session/session.h"
#include "src/verify/op_cases.h"

enum { SM_RUNG_TEXT = 256 };

typedef struct {
    const sm_rung *rung;
    int n_cases;              // of verify; all right unless `wrong` names one
    char wrong[SM_RUNG_TEXT]; // ""; a wrong rung is not measured
    sm_stats ns;              // of one call; n = 0: not measured
    double times_before;      // speed relative to the rung before; NaN for the first
} sm_rung_result;

typedef struct {
    sm_device_info info; // as opened for the last rung
    char shape[SM_CASE_TEXT_SIZE];
    double flops;
    double bytes;
    sm_op_ceiling ceiling;
    sm_rung_result rungs[SM_MOST_RUNGS];
    int n_rungs;
    sm_rung_result step; // the last rung's kernel in a step (ladder.h)
} sm_ladder_result;

typedef struct {
    const sm_backend *backend;
    int index;                  // of the device
    const sm_open_options *how; // options for opening each rung's device
    bool on_card;               // the rungs are those for cards
    const char *shape;          // "N=96 C=768 F=768"
    double seconds; // of measuring, for all rungs together; each gets at least as many samples as an interval needs
    bool without_peaks;
    int64_t max_elems; // limit on a case's largest tensor, as in sm_verify_filter
    const volatile sig_atomic_t *interrupted;
    void (*say)(const char *text); // receives the current work; may be NULL
} sm_ladder_options;

// Fills a result, even if rungs are wrong. SM_ERR_USAGE: a shape that the op cannot have.
sm_status sm_ladder_measure(const sm_ladder *ladder, const sm_ladder_options *options, sm_ladder_result *result);

// Whether a rung's time bears a factor: measured, and not too noisy to use (bench/compare/compare.h).
bool sm_rung_is_usable(const sm_rung_result *rung);

// "3 of 8 rungs: too noisy to use: its 95% interval ...", from the first of those that are not usable, or else not
// steady; false: all are steady.
bool sm_ladder_noise(const sm_ladder_result *result, char *text, size_t size_bytes);

// Value of a letter of a shape, "N=96 C=768"; 0: absent.
int64_t sm_ladder_size(const char *shape, const char *letter);

#endif
