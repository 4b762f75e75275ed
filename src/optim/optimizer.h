// optimizer.h: the rules that turn gradients into an update of the parameters. One constant struct and one file each,
// with the settings' defaults and a builder of state and ops. No other code knows how an optimizer works.
#pragma once

#include <math.h>

#include "src/plan/params.h"

// All optimizers, in the order of --optimizer's words. X(name): sm_optimizer_NAME, in its own file.
#define SM_OPTIMIZER_LIST(X) X(adamw) X(adamw8bit) X(adam) X(adafactor) X(lion) X(muon) X(sgd)

// The settings of optimizers; each is a flag of `train`, with dashes for underscores. X(name)
#define SM_SETTING_LIST(X) \
    X(lr)                  \
    X(beta1)               \
    X(beta2)               \
    X(eps)                 \
    X(weight_decay)        \
    X(momentum)            \
    X(nesterov)            \
    X(grad_clip) /* largest global gradient norm; 0: no clipping */

// The settings of one step; NaN if the optimizer has no such setting.
typedef struct {
#define X(name) double name;
    SM_SETTING_LIST(X)
#undef X
} sm_step_settings;

typedef struct sm_optimizer sm_optimizer;

struct sm_optimizer {
    const char *name;          // "adamw", as --optimizer and rows have it
    const char *title;         // "AdamW"
    sm_step_settings defaults; // NaN: no such setting

    sm_op_kind update; // without `build`: of every group

    // Adds the state to a plan with gradients (sm_params_add_state), and the update's ops, in the optimizer range after
    // those of the norm. `clip` is the tensor with the factor on the gradients.
    sm_status (*build)(sm_plan *plan, const sm_params *params, int clip);

    // The reason why its state and update cannot be cut into slices of elements, one for each process; NULL: they can.
    const char *not_sharded;

    // Sets the elements of the tensor `hyper` that its ops read and that are neither settings nor bias corrections, for
    // step 1, 2, ...; NULL: there are none.
    void (*fill_hyper)(const sm_step_settings *settings, int64_t step, double hyper[SM_HYPER_COUNT]);
};

#define X(name) extern const sm_optimizer sm_optimizer_##name;
SM_OPTIMIZER_LIST(X)
#undef X

int sm_optimizer_count(void);
const sm_optimizer *sm_optimizer_at(int index);
const sm_optimizer *sm_optimizer_find(const char *name); // NULL if there is none

// The defaults of the plan's optimizer; all NaN if it has none.
sm_step_settings sm_plan_settings(const sm_plan *plan);

// A setting by its name, to list them.
typedef struct {
    const char *name; // "weight_decay"
    size_t offset;    // in sm_step_settings, a double
} sm_setting;

int sm_setting_count(void);
const sm_setting *sm_setting_at(int index);
double *sm_setting_of(sm_step_settings *settings, const sm_setting *setting);

// Adds the optimizer range to a plan with gradients: their norm, the factor that clips it, and the update.
sm_status sm_optimizer_build(const sm_optimizer *optimizer, sm_plan *plan, const sm_params *params);

// All values of the tensor `hyper` for step `step` (1, 2, ...) with n_accum micro-batches.
void sm_fill_hyper(const sm_plan *plan, const sm_step_settings *settings, int64_t step, int64_t n_accum,
                   double hyper[SM_HYPER_COUNT]);

// True for the update's own ops, false for the gradients' norm and clipping before it.
bool sm_op_is_update(const sm_plan *plan, const sm_op *op);

// --- the learning rate of a training step ----------------------------------------------------------

// X(code, name)
#define SM_SCHEDULE_LIST(X)             \
    X(SM_SCHEDULE_CONSTANT, "constant") \
    X(SM_SCHEDULE_COSINE, "cosine")     \
    X(SM_SCHEDULE_LINEAR, "linear")     \
    X(SM_SCHEDULE_WSD, "wsd")

typedef enum { SM_SCHEDULE_LIST(SM_CODE) } sm_schedule_kind;

const char *sm_schedule_name(sm_schedule_kind kind);

typedef struct {
    sm_schedule_kind kind;
    double lr;             // the rate at the end of warm-up
    double final_fraction; // a schedule that falls ends at lr * final_fraction
    int64_t warmup_steps;
    int64_t n_steps; // in the whole training
} sm_schedule;

// The rate of step s = 1, 2, ..., n_steps. For s <= warmup_steps: lr * s / warmup_steps. Then constant, or falling to
// lr * final_fraction at step n_steps, and staying there: as half a cosine (Loshchilov and Hutter 2017, equation 5,
// without restarts), as a line, or (wsd: warm-up, stable, decay; Hu et al. 2024) constant and over the last fifth of
// all steps as a line.
double sm_schedule_lr(const sm_schedule *schedule, int64_t step);

// --- for builders ---------------------------------------------------------------------------------

// Defaults in the order of SM_SETTING_LIST, without clipping; and AdamW's, the same in PyTorch and bitsandbytes.
#define SM_DEFAULTS(...) \
    { __VA_ARGS__, 0 }
#define SM_ADAMW_DEFAULTS SM_DEFAULTS(1e-3, 0.9, 0.999, 1e-8, 0.01, NAN, NAN)

// Whether each process has its own slice of the state.
bool sm_plan_is_sharded(const sm_plan *plan);
// Whether updates wait for the norm: it may clip gradients, or have the scaler skip the step.
bool sm_plan_clips(const sm_plan *plan);

// The op of an update, with all operands but the states.
sm_op sm_begin_update(const sm_plan *plan, sm_op_kind kind, int clip, int gradient, int value, bool decay);

// Adds an element-wise update of a group or of a single parameter, with a kind whose inputs are g, hyper and clip and
// whose outputs are p, states of the plan's real type, and w. The states are named after the operands.
sm_status sm_build_group_update(sm_plan *plan, const sm_params *params, int group, sm_op_kind kind, int clip);
sm_status sm_build_param_update(sm_plan *plan, const sm_param *param, sm_op_kind kind, int clip);
