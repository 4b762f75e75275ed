// tune.h: mode tuned: each product of a plan is computed in every way that its device has, and the fastest is kept.
//
// An op is tried by itself, as a plan of the same sizes. A way's first result must equal that of way 0, the backend's
// own choice; then the best time of its runs counts. Choices are remembered (host/tuning.h); what was not tried in
// time is done in way 0, and is tried next time.
#pragma once

#include "backend.h"

enum { HOST_WORK_SIZE = 128, HOST_WAY_SIZE = 128, HOST_MOST_WAYS = 64 };

typedef struct {
    sm_executable *e;         // of a plan of mode tuned; host_tune() sets its tune_ns and tune_warning
    const char *key;          // all that a time depends on
    int n_rounds, n_runs;     // of the ways near the best; in each round
    double op_s;              // limit on the time of one op,
    double all_s;             // and of all
    double faster;            // share of way 0's time that another way must stay below
    double tolerance;         // of results in fp32, relative to the largest; rounding to a narrow format is added
    size_t swept_bytes;       // most memory to read before each run, so that operands come from memory; 0: none
    bool is_prepared_for_way; // an executable serves one way
    void (*progress)(const char *line); // NULL is fine

    // Names an op's work: equal names are equal work. False: it is not tuned.
    bool (*name_work)(const sm_device *device, const sm_plan *plan, const sm_op *op, char name[HOST_WORK_SIZE]);
    // Names a way to compute an op. False: there is no such way.
    bool (*name_way)(const sm_device *device, const sm_plan *plan, const sm_op *op, int way, char text[HOST_WAY_SIZE]);
    // From here on the device computes all products in that way; NULL: as chosen.
    void (*try_way)(sm_device *device, const sm_plan *plan, const int *way);
    // Keeps the way of op i; from n_ops on, that of op i - n_ops in later micro-batches.
    void (*choose)(sm_executable *e, int i, const char *name, int way);
} host_tuner;

// SM_ERR_OOM, or why way 0 fails.
sm_status host_tune(const host_tuner *tuner);
