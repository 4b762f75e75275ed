// optimizer.c: what all optimizers share.
#include "src/optim/optimizer.h"

static const sm_setting settings_table[] = {
#define X(name) {#name, offsetof(sm_step_settings, name)},
    SM_SETTING_LIST(X)
#undef X
};

sm_step_settings sm_plan_settings(const sm_plan *plan) {
    return plan->optimizer != NULL ? plan->optimizer->defaults : (sm_step_settings){0};
}

int sm_setting_count(void) { return (int)SM_COUNT(settings_table); }

const sm_setting *sm_setting_at(int index) { return &settings_table[index]; }

double *sm_setting_of(sm_step_settings *settings, const sm_setting *setting) {
    return (double *)((char *)settings + setting->offset);
}

bool sm_plan_is_sharded(const sm_plan *plan) { return plan->processes.n > 1 && plan->processes.is_sharded; }

bool sm_plan_clips(const sm_plan *plan) { return !plan->processes.never_clips || plan->scaler != SM_NO_TENSOR; }

// Sums the slices' squared norms over the processes.
static sm_status sum_over_processes(sm_plan *plan, int tensor) {
    sm_op op = sm_op_make(SM_OP_PROCESS_SUM, SM_PHASE_OPTIMIZER, -1);
    op.phase = SM_PHASE_COMMUNICATION;
    op.attr.n_processes = plan->processes.n;
    op.out[SM_OUT(process_sum, x)] = tensor;
    return sm_plan_add_op(plan, &op);
}

static sm_status clip_gradients(sm_plan *plan, const sm_params *params, int *clip) {
    const int64_t n_parts = sm_plan_is_sharded(plan) ? plan->n_buckets : params->n_groups;
    const int64_t one = 1;
    int sqnorms = sm_plan_add_tensor(plan, SM_ROLE_ACTIVATION, plan->real, 1, &n_parts, "sqnorms");
    for (int i = 0; i < n_parts; i++) {
        // Part i of the gradients whose norm this process computes: a group or, with a sharded optimizer, its slice of
        // a bucket. SM_NO_TENSOR: that slice is empty.
        const int gradient = sm_plan_is_sharded(plan) ? plan->buckets[i].own_gradient : params->groups[i].gradient;
        const bool is_empty = gradient == SM_NO_TENSOR;
        sm_op op = sm_op_make(is_empty ? SM_OP_ZERO : SM_OP_GRAD_SQNORM, SM_PHASE_OPTIMIZER, -1);
        op.in[SM_IN(grad_sqnorm, g)] = gradient;
        op.out[0] = sm_plan_add_view(plan, sqnorms, i, 1, &one, "sqnorms.%d", i);
        sm_plan_add_op(plan, &op);
    }
    SM_TRY(sm_plan_is_sharded(plan) ? sum_over_processes(plan, sqnorms) : SM_OK);
    *clip = sm_plan_add_tensor(plan, sm_plan_clips(plan) ? SM_ROLE_ACTIVATION : SM_ROLE_RESULT, plan->real, 1, &one,
                               "clip");
    SM_TRY(plan->status);
    plan->tensors[*clip].init_value = 1; // for updates that do not wait for the norm
    sm_op op = sm_op_make(SM_OP_GRAD_CLIP, SM_PHASE_OPTIMIZER, -1);
    SM_INPUTS(op, grad_clip, sqnorms, plan->hyper, plan->scaler);
    SM_OUTPUTS(op, grad_clip, plan->grad_norm, *clip);
    return sm_plan_add_op(plan, &op);
}

sm_status sm_optimizer_build(const sm_optimizer *optimizer, sm_plan *plan, const sm_params *params) {
    int clip;
    SM_FAIL_IF(sm_plan_is_sharded(plan) && optimizer->not_sharded != NULL, SM_ERR_UNSUPPORTED,
               "--shard optimizer: %s cannot be: %s; use adamw, adamw8bit, adam, lion or sgd", optimizer->name,
               optimizer->not_sharded);
    SM_TRY(clip_gradients(plan, params, &clip));
    SM_TRY(optimizer->build != NULL ? optimizer->build(plan, params, clip) : SM_OK);
    for (int g = 0; g < params->n_groups && optimizer->build == NULL; g++) {
        SM_TRY(sm_build_group_update(plan, params, g, optimizer->update, clip));
    }
    plan->optimizer = optimizer;
    sm_op op = sm_op_make(SM_OP_SCALER_UPDATE, SM_PHASE_OPTIMIZER, -1);
    op.phase = SM_PHASE_SCALER;
    SM_INPUTS(op, scaler_update, clip, plan->hyper);
    SM_OUTPUTS(op, scaler_update, plan->scaler);
    return plan->scaler == SM_NO_TENSOR ? SM_OK : sm_plan_add_op(plan, &op);
}

// Settings that the optimizer lacks are 0.
static void fill_settings(const sm_step_settings *settings, int64_t step, double hyper[SM_HYPER_COUNT]) {
    const double values[] = {
        [SM_HYPER_LR] = settings->lr,
        [SM_HYPER_BETA1] = settings->beta1,
        [SM_HYPER_BETA2] = settings->beta2,
        [SM_HYPER_EPS] = settings->eps,
        [SM_HYPER_WEIGHT_DECAY] = settings->weight_decay,
        // In double: in f32, 1 - 0.999^1 would lose four digits.
        [SM_HYPER_BIAS_CORRECTION1] = 1.0 - pow(settings->beta1, (double)step),
        [SM_HYPER_BIAS_CORRECTION2] = 1.0 - pow(settings->beta2, (double)step),
        [SM_HYPER_GRAD_CLIP] = settings->grad_clip,
        [SM_HYPER_MOMENTUM] = settings->momentum,
        [SM_HYPER_NESTEROV] = settings->nesterov,
    };
    for (size_t i = 0; i < SM_COUNT(values); i++) {
        hyper[i] = isnan(values[i]) ? 0 : values[i];
    }
}

void sm_fill_hyper(const sm_plan *plan, const sm_step_settings *settings, int64_t step, int64_t n_accum,
                   double hyper[SM_HYPER_COUNT]) {
    memset(hyper, 0, SM_HYPER_COUNT * sizeof *hyper);
    if (plan->optimizer != NULL) {
        fill_settings(settings, step, hyper);
        if (plan->optimizer->fill_hyper != NULL) {
            plan->optimizer->fill_hyper(settings, step, hyper);
        }
    }
    hyper[SM_HYPER_LOSS_SCALE] = 1.0 / ((double)n_accum * (plan->processes.n > 1 ? plan->processes.n : 1));
    hyper[SM_HYPER_SCALE_GROWTH] = plan->scaling.growth;
    hyper[SM_HYPER_SCALE_BACKOFF] = plan->scaling.backoff;
    hyper[SM_HYPER_SCALE_INTERVAL] = plan->scaling.interval;
}

bool sm_op_is_update(const sm_plan *plan, const sm_op *op) {
    const bool is_norm =
        op->kind == SM_OP_ZERO || // of an empty slice
        (op->kind == SM_OP_GRAD_SQNORM && plan->tensors[op->in[SM_IN(grad_sqnorm, g)]].role == SM_ROLE_GRADIENT);
    return op->range == SM_PHASE_OPTIMIZER && op->phase == SM_PHASE_OPTIMIZER && op->kind != SM_OP_GRAD_CLIP &&
           !is_norm;
}

// All element-wise updates have these operands at the same indices.
_Static_assert(SM_IN(adam, clip) == SM_IN(adamw, clip) && SM_IN(sgd, clip) == SM_IN(adamw, clip) &&
                   SM_IN(lion, clip) == SM_IN(adamw, clip) && SM_OUT(sgd, p) == SM_OUT(adamw, p) &&
                   SM_OUT(lion, p) == SM_OUT(adamw, p) && SM_OUT(adam, p) == SM_OUT(adamw, p) &&
                   SM_IN(adamw8bit, clip) == SM_IN(adamw, clip) && SM_OUT(adamw8bit, p) == SM_OUT(adamw, p),
               "what one builder writes of all");

sm_op sm_begin_update(const sm_plan *plan, sm_op_kind kind, int clip, int gradient, int value, bool decay) {
    const sm_op_info *info = sm_op_get_info(kind);
    sm_op op = sm_op_make(kind, SM_PHASE_OPTIMIZER, -1);
    op.attr.decay = decay;
    SM_INPUTS(op, adamw, gradient, plan->hyper, clip);
    op.out[SM_OUT(adamw, p)] = value;
    for (int k = 1; k < SM_MAX_OUT && info->out[k].name != NULL; k++) {
        if (strcmp(info->out[k].name, "w") == 0) {
            op.out[k] = plan->tensors[value].working_copy;
        }
    }
    return op;
}

// Whether output k is a state.
static bool is_state(sm_op_kind kind, int k) {
    const sm_operand_info *operand = &sm_op_get_info(kind)->out[k];
    return k > SM_OUT(adamw, p) && operand->name != NULL && strcmp(operand->name, "w") != 0;
}

static sm_shard_state state_of(const sm_plan *plan, sm_op_kind kind, int k) {
    return (sm_shard_state){.k = k, .name = sm_op_get_info(kind)->out[k].name, .dtype = plan->real, .block_elems = 1};
}

// The update of this process's slice of a bucket.
static sm_status build_shard_update(sm_plan *plan, int bucket, sm_op_kind kind, int clip, bool decay) {
    const sm_bucket b = plan->buckets[bucket];
    if (b.own_value == SM_NO_TENSOR) {
        return SM_OK;
    }
    sm_op op = sm_begin_update(plan, kind, clip, b.own_gradient, b.own_value, decay);
    for (int k = 0; k < SM_MAX_OUT; k++) {
        if (is_state(kind, k)) {
            const sm_shard_state state = state_of(plan, kind, k);
            op.out[k] = sm_params_add_shard(plan, bucket, &state);
        }
    }
    return sm_plan_add_op(plan, &op);
}

static sm_status build_shard_updates(sm_plan *plan, const sm_params *params, int group, sm_op_kind kind, int clip) {
    for (int i = 0; i < plan->n_buckets; i++) {
        if (plan->buckets[i].group == group) {
            SM_TRY(build_shard_update(plan, i, kind, clip, params->groups[group].is_matrix));
        }
    }
    for (int k = 0; k < SM_MAX_OUT; k++) {
        if (is_state(kind, k)) {
            const sm_shard_state state = state_of(plan, kind, k);
            sm_params_name_shards(plan, params, group, &state);
        }
    }
    return plan->status;
}

sm_status sm_build_group_update(sm_plan *plan, const sm_params *params, int group, sm_op_kind kind, int clip) {
    const sm_param_group *g = &params->groups[group];
    if (sm_plan_is_sharded(plan)) {
        return build_shard_updates(plan, params, group, kind, clip);
    }
    sm_op op = sm_begin_update(plan, kind, clip, g->gradient, g->value, g->is_matrix);
    for (int k = 0; k < SM_MAX_OUT; k++) {
        if (is_state(kind, k)) {
            op.out[k] = sm_params_add_state(plan, params, group, sm_op_get_info(kind)->out[k].name, plan->real);
        }
    }
    return sm_plan_add_op(plan, &op);
}

sm_status sm_build_param_update(sm_plan *plan, const sm_param *param, sm_op_kind kind, int clip) {
    sm_op op = sm_begin_update(plan, kind, clip, param->gradient, param->value, param->is_matrix);
    for (int k = 0; k < SM_MAX_OUT; k++) {
        if (is_state(kind, k)) {
            op.out[k] = sm_param_add_state(plan, param, sm_op_get_info(kind)->out[k].name, plan->real, 0, NULL);
        }
    }
    return sm_plan_add_op(plan, &op);
}

// Linear warm-up, then constant or falling.

static const double pi = 3.14159265358979323846;
static const double wsd_decay_fraction = 0.2; // of all steps

SM_WORDS(sm_schedule_name, sm_schedule_kind, SM_SCHEDULE_LIST)

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

static const sm_optimizer *const optimizers[] = {
#define X(name) &sm_optimizer_##name,
    SM_OPTIMIZER_LIST(X)
#undef X
};

int sm_optimizer_count(void) { return (int)SM_COUNT(optimizers); }

const sm_optimizer *sm_optimizer_at(int index) { return optimizers[index]; }

const sm_optimizer *sm_optimizer_find(const char *name) {
    for (int i = 0; i < sm_optimizer_count(); i++) {
        if (strcmp(optimizers[i]->name, name) == 0) {
            return optimizers[i];
        }
    }
    return NULL;
}
