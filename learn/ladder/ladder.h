// ladder.h: an op's rungs compared with the reference, and measured in turn: the gain of each change of a kernel, and
// the distance of the last one from the machine's ceiling.
#ifndef STEPMARK_LEARN_LADDER_LADDER_H
#define STEPMARK_LEARN_LADDER_LADDER_H

#include <signal.h>

#include "backend.h"
#include "bench/profile/op_ceiling.h"
#include "bench/stats/stats.h"
#include "learn/ladder/rungs.h"
#include "src/verify/op_cases.h"

enum { SM_RUNG_TEXT = 256 };

typedef struct {
    const sm_rung *rung;
    int n_cases;              // of verify, all right unless `wrong` says which is not
    char wrong[SM_RUNG_TEXT]; // ""; a rung that is wrong is not measured
    sm_stats ns;              // of one call; n = 0: not measured
    double times_before;      // how many times as fast as the rung before; NaN for the first
} sm_rung_result;

typedef struct {
    sm_device_info info; // as the last rung's device was opened
    char shape[SM_CASE_TEXT_SIZE];
    double flops;
    double bytes;
    sm_op_ceiling ceiling;
    sm_rung_result rungs[SM_MOST_RUNGS];
    int n_rungs;
    sm_rung_result step; // the last rung's kernel again, where a step runs it (ladder/step.h)
} sm_ladder_result;

typedef struct {
    const sm_backend *backend;
    int index;                  // of its device
    const sm_open_options *how; // each rung's device is opened
    bool on_card;               // its rungs are those of cards
    const char *shape;          // "N=96 C=768 F=768"
    double seconds; // to measure for, all rungs together; each has at least as many samples as an interval needs
    bool without_peaks;
    int64_t max_elems; // of a case's largest tensor, as in sm_verify_filter
    const volatile sig_atomic_t *interrupted;
    void (*say)(const char *text); // what is being done; NULL: nobody listens
} sm_ladder_options;

// Fills a result, whatever the rungs compute. SM_ERR_USAGE: a shape that the op cannot have.
sm_status sm_ladder_measure(const sm_ladder *ladder, const sm_ladder_options *options, sm_ladder_result *result);

#endif
