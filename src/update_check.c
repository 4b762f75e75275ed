// update_check.c: a plan of the sampled elements alone, on the reference.
#include "update_check.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bf16.h"

enum { N_RUNS = 32, RUN_ELEMS = 32 }; // of each tensor, or all of it where that is less

// What an update reads and rewrites, besides the settings: operands of SM_OP_ADAMW.
enum { GRADIENT, VALUE, FIRST_MOMENT, SECOND_MOMENT, N_PARTS };

static const char *const part_names[N_PARTS] = {"g", "p", "m", "v"};

// f32 arithmetic in another order moves a number by a few units in its last place: the weight, relative to its size,
// its update, relative to the learning rate, and each moment, relative to the terms that it is a sum of.
static const double value_tolerance = 4 * 0x1p-24;
static const double update_tolerance = 1e-4;
static const double moment_tolerance = 1e-5;
static const double norm_tolerance = 1e-4; // of a sum of squares over all parameters

typedef struct {
    const sm_op *op;
    int64_t n; // elements sampled
    float *before[N_PARTS];
    float *after[N_PARTS];
} group;

struct sm_update_check {
    group *groups;
    int n_groups;
    float *values; // behind all of them
};

static int part_tensor(const sm_op *op, int part) {
    return part == GRADIENT ? op->in[SM_IN(adamw, g)] : op->out[SM_OUT(adamw, p) + part - VALUE];
}

static int64_t n_sampled(int64_t n_elems) { return n_elems < N_RUNS * RUN_ELEMS ? n_elems : N_RUNS * RUN_ELEMS; }

// Reads the sample of one tensor: whole, or runs spread from its first element to its last.
static sm_status read_sample(sm_session *session, int tensor, float *values) {
    const int64_t n_elems = sm_tensor_elems(&session->plan->tensors[tensor]);
    if (n_elems <= N_RUNS * RUN_ELEMS) {
        return sm_session_read(session, tensor, n_elems, values);
    }
    for (int64_t i = 0; i < N_RUNS; i++) {
        const int64_t first =
            (n_elems - RUN_ELEMS) / (N_RUNS - 1) * i + (i == N_RUNS - 1 ? (n_elems - RUN_ELEMS) % (N_RUNS - 1) : 0);
        SM_TRY(sm_session_read_part(session, tensor, first, RUN_ELEMS, values + i * RUN_ELEMS));
    }
    return SM_OK;
}

static int count_updates(const sm_plan *plan, sm_range range) {
    int n = 0;
    for (int i = range.first; i < range.end; i++) {
        n += plan->ops[i].kind == SM_OP_ADAMW;
    }
    return n;
}

// A check with room for the samples of every update of the plan.
static sm_status new_check(const sm_plan *plan, sm_update_check **check) {
    const sm_range range = sm_plan_range(plan, SM_PHASE_OPTIMIZER);
    const size_t n = (size_t)count_updates(plan, range);
    sm_update_check *c = calloc(1, sizeof *c);
    *check = c;
    if (c != NULL) {
        c->groups = calloc(n + 1, sizeof *c->groups);
        c->values = calloc((n + 1) * 2 * N_PARTS * N_RUNS * RUN_ELEMS, sizeof *c->values);
    }
    if (c == NULL || c->groups == NULL || c->values == NULL) {
        return sm_fail(SM_ERR_OOM, "update check: no memory for samples of %zu groups of parameters", n);
    }
    float *values = c->values;
    for (int i = range.first; i < range.end; i++) {
        if (plan->ops[i].kind != SM_OP_ADAMW) {
            continue;
        }
        group *g = &c->groups[c->n_groups++];
        g->op = &plan->ops[i];
        g->n = n_sampled(sm_tensor_elems(&plan->tensors[g->op->out[SM_OUT(adamw, p)]]));
        for (int part = 0; part < N_PARTS; part++) {
            g->before[part] = values;
            g->after[part] = values + N_RUNS * RUN_ELEMS;
            values += 2 * N_RUNS * RUN_ELEMS;
        }
    }
    return SM_OK;
}

void sm_update_check_free(sm_update_check *check) {
    if (check != NULL) {
        free(check->groups);
        free(check->values);
        free(check);
    }
}

sm_status sm_update_check_begin(sm_session *session, sm_update_check **check) {
    sm_status status = new_check(session->plan, check);
    for (int i = 0; status == SM_OK && i < (*check)->n_groups; i++) {
        const group *g = &(*check)->groups[i];
        for (int part = VALUE; part < N_PARTS && status == SM_OK; part++) {
            status = read_sample(session, part_tensor(g->op, part), g->before[part]);
        }
    }
    if (status != SM_OK) {
        sm_update_check_free(*check);
        *check = NULL;
    }
    return status;
}

// --- the reference's update ----------------------------------------------------------------

static int add_tensor(sm_plan *plan, sm_role role, int64_t n, const char *name, int index) {
    return sm_plan_add_tensor(plan, role, SM_F32, 1, &n, "%s.%d", name, index);
}

// A plan that clips by the norm and updates each sample. Tensors are named "norm", "hyper", "p.0", "m.0", ...
static sm_status build_update(const sm_update_check *c, sm_plan *plan) {
    plan->hyper = add_tensor(plan, SM_ROLE_BATCH, SM_HYPER_COUNT, "hyper", 0);
    plan->grad_norm = add_tensor(plan, SM_ROLE_RESULT, 1, "norm", 0);
    sm_op clip = sm_op_make(SM_OP_GRAD_CLIP, SM_PHASE_OPTIMIZER, -1);
    clip.in[SM_IN(grad_clip, sqnorm)] = add_tensor(plan, SM_ROLE_BATCH, 1, "sqnorm", 0);
    clip.in[SM_IN(grad_clip, hyper)] = plan->hyper;
    clip.out[SM_OUT(grad_clip, norm)] = plan->grad_norm;
    clip.out[SM_OUT(grad_clip, clip)] = add_tensor(plan, SM_ROLE_RESULT, 1, "clip", 0);
    SM_TRY(sm_plan_add_op(plan, &clip));
    for (int i = 0; i < c->n_groups; i++) {
        const group *g = &c->groups[i];
        sm_op op = sm_op_make(SM_OP_ADAMW, SM_PHASE_OPTIMIZER, -1);
        op.attr.decay = g->op->attr.decay;
        op.in[SM_IN(adamw, g)] = add_tensor(plan, SM_ROLE_GRADIENT, g->n, part_names[GRADIENT], i);
        op.in[SM_IN(adamw, hyper)] = plan->hyper;
        op.in[SM_IN(adamw, clip)] = clip.out[SM_OUT(grad_clip, clip)];
        for (int part = VALUE; part < N_PARTS; part++) {
            op.out[SM_OUT(adamw, p) + part - VALUE] = add_tensor(plan, SM_ROLE_OPTIMIZER, g->n, part_names[part], i);
        }
        SM_TRY(sm_plan_add_op(plan, &op));
    }
    return SM_OK;
}

static int find_part(const sm_plan *plan, int part, int index) {
    char name[SM_NAME_SIZE];
    snprintf(name, sizeof name, "%s.%d", part_names[part], index);
    return sm_plan_find_tensor(plan, name);
}

// The device's settings and norm, and the samples as they were, with the gradients of the step.
static sm_status feed_update(const sm_update_check *c, sm_session *from, double norm, sm_session *to) {
    float hyper[SM_HYPER_COUNT];
    const float sqnorm = (float)(norm * norm);
    SM_TRY(sm_session_read(from, from->plan->hyper, SM_HYPER_COUNT, hyper));
    SM_TRY(sm_session_write(to, to->plan->hyper, SM_HYPER_COUNT, hyper));
    SM_TRY(sm_session_write(to, sm_plan_find_tensor(to->plan, "sqnorm.0"), 1, &sqnorm));
    for (int i = 0; i < c->n_groups; i++) {
        const group *g = &c->groups[i];
        for (int part = 0; part < N_PARTS; part++) {
            const float *values = part == GRADIENT ? g->after[part] : g->before[part];
            SM_TRY(sm_session_write(to, find_part(to->plan, part, i), g->n, values));
        }
    }
    return SM_OK;
}

// --- comparing -----------------------------------------------------------------------------

// Largest |got - want| over what rounding allows. NaN counts as the largest.
static double largest_error(const group *g, int part, double lr, const float *want) {
    double largest = 0;
    for (int64_t i = 0; i < g->n; i++) {
        const double got = g->after[part][i];
        const double size = fabs((double)g->before[part][i]) + fabs((double)want[i]);
        const double allowed = part == VALUE ? value_tolerance * size + update_tolerance * lr : moment_tolerance * size;
        const double error = fabs(got - want[i]) / (allowed + FLT_MIN);
        if (!(error <= largest)) {
            largest = error;
        }
    }
    return largest;
}

static sm_status compare(const sm_update_check *c, const sm_session *session, sm_session *reference, double lr,
                         sm_update_result *result) {
    float want[N_RUNS * RUN_ELEMS];
    for (int i = 0; i < c->n_groups; i++) {
        const group *g = &c->groups[i];
        for (int part = VALUE; part < N_PARTS; part++) {
            SM_TRY(sm_session_read(reference, find_part(reference->plan, part, i), g->n, want));
            const double error = largest_error(g, part, lr, want);
            if (!(error <= result->tolerance)) {
                result->error = error;
                return sm_fail(
                    SM_ERR_MISMATCH,
                    "wrong update: %s differs from the reference's by %.3g times what rounding allows; no speed "
                    "is reported",
                    session->plan->tensors[part_tensor(g->op, part)].name, error);
            }
            result->error = fmax(result->error, error);
        }
    }
    return SM_OK;
}

// What matmuls read in bf16 must be the weights after the update, rounded.
static sm_status compare_copies(const sm_update_check *c, sm_session *session) {
    float copied[N_RUNS * RUN_ELEMS];
    for (int i = 0; i < c->n_groups; i++) {
        const group *g = &c->groups[i];
        if (g->op->out[SM_OUT(adamw, w)] == SM_NO_TENSOR) {
            continue;
        }
        SM_TRY(read_sample(session, g->op->out[SM_OUT(adamw, w)], copied));
        for (int64_t k = 0; k < g->n; k++) {
            if (!(copied[k] == sm_bf16_widen(sm_bf16_round(g->after[VALUE][k])))) {
                return sm_fail(SM_ERR_MISMATCH, "wrong update: %s is not its weights, rounded; no speed is reported",
                               session->plan->tensors[g->op->out[SM_OUT(adamw, w)]].name);
            }
        }
    }
    return SM_OK;
}

static sm_status compare_norm(double found, double expected) {
    if (expected == 0 || fabs(found - expected) <= norm_tolerance * expected) {
        return SM_OK;
    }
    return sm_fail(SM_ERR_MISMATCH,
                   "wrong update: the gradient's norm is %.7g, and the step has %.7g; no speed is reported", expected,
                   found);
}

// The same update by the reference, on the samples.
static sm_status run_reference(const sm_update_check *c, sm_session *session, double norm, double lr,
                               sm_update_result *result) {
    sm_status status = SM_OK;
    const sm_backend *backend = sm_backend_find("reference");
    sm_device *device = NULL;
    sm_session *reference = NULL;
    sm_plan *plan = sm_plan_new(SM_F32);
    if (plan == NULL) {
        return sm_fail(SM_ERR_OOM, "update check: no memory for a plan");
    }
    status = build_update(c, plan);
    if (status != SM_OK) {
        sm_plan_free(plan);
        return status;
    }
    status = backend->open(0, &(sm_open_options){.n_threads = 1}, &device);
    if (status != SM_OK) {
        sm_plan_free(plan);
        return status;
    }
    SM_TRY_GOTO(sm_session_open(device, plan, &reference)); // takes the plan
    SM_TRY_GOTO(feed_update(c, session, norm, reference));
    SM_TRY_GOTO(sm_session_run(reference, SM_RUN_OPTIMIZER, NULL));
    SM_TRY_GOTO(compare(c, session, reference, lr, result));
cleanup:
    sm_session_close(reference);
    backend->close(device);
    return status;
}

static sm_status check_update(sm_update_check *c, sm_session *session, double grad_norm, sm_update_result *result) {
    double norm = 0;
    float lr = 0;
    int64_t n = 0;
    SM_TRY(sm_session_grad_norm(session, &norm));
    SM_TRY(compare_norm(norm, grad_norm));
    SM_TRY(sm_session_read_part(session, session->plan->hyper, SM_HYPER_LR, 1, &lr));
    for (int i = 0; i < c->n_groups; i++) {
        const group *g = &c->groups[i];
        for (int part = 0; part < N_PARTS; part++) {
            SM_TRY(read_sample(session, part_tensor(g->op, part), g->after[part]));
        }
        n += g->n;
    }
    snprintf(result->how, sizeof result->how, "%lld weights and their state against the reference's rule",
             (long long)n);
    SM_TRY(run_reference(c, session, norm, lr, result));
    return compare_copies(c, session);
}

sm_status sm_update_check_end(sm_update_check *check, sm_session *session, double grad_norm, sm_update_result *result) {
    *result = (sm_update_result){.tolerance = 1};
    sm_status status = check_update(check, session, grad_norm, result);
    sm_update_check_free(check);
    return status;
}
