// schedule.c: linear warm-up, then constant or cosine.
#include "src/session/schedule.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

static const char *const names[] = {
#define X(code, name) [code] = name,
    SM_SCHEDULE_LIST(X)
#undef X
};

const char *sm_schedule_name(sm_schedule_kind kind) { return names[kind]; }

double sm_schedule_lr(const sm_schedule *schedule, int64_t step) {
    if (step <= schedule->warmup_steps) {
        return schedule->lr * (double)step / (double)schedule->warmup_steps;
    }
    if (schedule->kind == SM_SCHEDULE_CONSTANT) {
        return schedule->lr;
    }
    double lowest = schedule->lr * schedule->final_fraction;
    if (step >= schedule->n_steps) {
        return lowest;
    }
    double done = (double)(step - schedule->warmup_steps) / (double)(schedule->n_steps - schedule->warmup_steps);
    return lowest + (schedule->lr - lowest) * 0.5 * (1 + cos(pi * done));
}
