// schedule.c: linear warm-up, then constant or falling.
#include "src/session/schedule.h"

#include <math.h>

static const double pi = 3.14159265358979323846;
static const double wsd_decay_fraction = 0.2; // of all steps

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
    const double n_steps = (double)schedule->n_steps;
    const double warmup = (double)schedule->warmup_steps;
    const double begin = schedule->kind == SM_SCHEDULE_WSD ? fmax(warmup, n_steps * (1 - wsd_decay_fraction)) : warmup;
    const double done = fmax(0, ((double)step - begin) / (n_steps - begin));
    const double left = schedule->kind == SM_SCHEDULE_COSINE ? 0.5 * (1 + cos(pi * done)) : 1 - done;
    return lowest + (schedule->lr - lowest) * left;
}
