// update_check.c: the reference repeats the plan's own update, on samples.
//
// Ops of the update that share tensors make an island. If each of them works element by element, or block of 256 by
// block (shapes "(n)" and "(n/256)" in the table of op kinds), runs of its elements are sampled. Others are checked
// whole, as many as the reference computes quickly.
#include "src/verify/step_checks.h"

#include <float.h>

#include "philox.h"

enum { N_RUNS = 32, RUN_ELEMS = 32, BLOCK_ELEMS = 256 };

// Limit on the reference's total work for islands that are checked whole.
static const double most_flops = 4e9;
static const double most_elems = 4e6;

// f32 arithmetic in another order changes a number by a few units in the last place: a weight, relative to its size;
// its update, relative to the learning rate; and each state, relative to its terms.
static const double value_tolerance = 4 * 0x1p-24;
static const double update_tolerance = 1e-4;
static const double state_tolerance = 1e-5;
static const double norm_tolerance = 1e-4; // for a sum of squares over all parameters
// A number half-way between two codes may get either. And matrix products of rounded data amplify the noise in small
// singular values, so no single element of such an update is certain: only the relative total error is checked.
static const double code_tolerance = 1;
// If the terms of a number whose sign is the update cancel to this share of them, rounding decides the sign: two
// products, their sum, and the factors are each rounded once.
static const double sign_tolerance = 8 * 0x1p-24;
static const double product_tolerance_in_roundings = 64;

// A tensor of the plan, or a sample of it.
typedef struct {
    int tensor;
    uint64_t seed;     // for the places of its runs
    int64_t run_elems; // 0: checked whole
    int64_t n;         // elements
    bool is_product;   // its update comes from matrix products
    const sm_op *sign; // the op whose update of it is only a sign, or NULL
    float *before;     // the step's beginning: values of parameters and state
    float *after;      // the step's end; stored after `before`
} part;

typedef struct {
    const sm_op *op;
    int island;      // index of its first op
    bool is_whole;   // not sampled
    bool is_checked; // not too large
} update;

struct sm_update_check {
    uint64_t seed; // for the draws
    update *updates;
    int n_updates;
    part *parts;
    int n_parts;
    int *part_of; // for each tensor of the plan; -1: none
    int clip;     // tensor: the factor on the gradients
    int n_islands;
    int n_checked;     // number of them
    int64_t n_skipped; // skipped steps before this one
    double scale;      // of the loss, in this step
};

static bool is_lasting(const sm_tensor *t) { return t->role == SM_ROLE_PARAMETER || t->role == SM_ROLE_OPTIMIZER; }

typedef struct {
    int tensors[SM_MAX_OPERANDS];
    const sm_operand_info *infos[SM_MAX_OPERANDS];
    int n;
} operands;

// The operands of an op except settings, the clipping factor, and the copies that matmuls read, compared apart.
static operands operands_of(const sm_update_check *c, const sm_plan *plan, const sm_op *op) {
    operands found = {.n = 0};
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        const int t = op->operands[k];
        const sm_operand_info *info = &sm_op_get_info(op->kind)->operands[k];
        const bool is_left_out = k < SM_MAX_IN ? t == plan->hyper || t == c->clip
                                               : info->type == SM_OPERAND_DATA && info->flags & SM_OPTIONAL;
        if (t != SM_NO_TENSOR && !is_left_out) {
            found.infos[found.n] = info;
            found.tensors[found.n++] = t;
        }
    }
    return found;
}

static bool is_blocks(const sm_operand_info *operand) { return strcmp(operand->shape, "(n/256)") == 0; }

// --- islands --------------------------------------------------------------------------------------

static bool works_by_elements(const sm_update_check *c, const sm_plan *plan, const sm_op *op) {
    const operands all = operands_of(c, plan, op);
    for (int i = 0; i < all.n; i++) {
        if (strcmp(all.infos[i]->shape, "(n)") != 0 && !is_blocks(all.infos[i])) {
            return false;
        }
    }
    return true;
}

static void merge_islands(sm_update_check *c, int a, int b) {
    const int low = a < b ? a : b;
    const int high = a < b ? b : a;
    for (int i = 0; i < c->n_updates && low != high; i++) {
        c->updates[i].island = c->updates[i].island == high ? low : c->updates[i].island;
    }
}

// Finds islands. first_user[t]: the first op with tensor t, or -1.
static void find_islands(sm_update_check *c, const sm_plan *plan, int *first_user) {
    for (int i = 0; i < c->n_updates; i++) {
        const operands all = operands_of(c, plan, c->updates[i].op);
        c->updates[i].island = i;
        for (int k = 0; k < all.n; k++) {
            if (first_user[all.tensors[k]] < 0) {
                first_user[all.tensors[k]] = i;
            }
            merge_islands(c, c->updates[i].island, c->updates[first_user[all.tensors[k]]].island);
        }
    }
    for (int i = 0; i < c->n_updates; i++) {
        update *first = &c->updates[c->updates[i].island];
        first->is_whole |= !works_by_elements(c, plan, c->updates[i].op);
    }
    for (int i = 0; i < c->n_updates; i++) {
        c->updates[i].is_whole = c->updates[c->updates[i].island].is_whole;
    }
}

// The FLOPs of an island, and the elements of its tensors, counted once for each operand.
static void cost_of(const sm_update_check *c, const sm_plan *plan, int island, double *flops, double *elems) {
    *flops = *elems = 0;
    for (int i = island; i < c->n_updates; i++) {
        if (c->updates[i].island != island) {
            continue;
        }
        const operands all = operands_of(c, plan, c->updates[i].op);
        *flops += sm_op_flops(plan, c->updates[i].op);
        for (int k = 0; k < all.n; k++) {
            *elems += (double)sm_tensor_elems(&plan->tensors[all.tensors[k]]);
        }
    }
}

// Checks every sampled island; of the others, starting from a drawn one, as many as fit in the limit.
static void choose_islands(sm_update_check *c, const sm_plan *plan) {
    double flops_left = most_flops;
    double elems_left = most_elems;
    const int begin = c->n_updates > 0 ? (int)(sm_philox4x32(c->seed, 0, 4).word[0] % (uint32_t)c->n_updates) : 0;
    for (int k = 0; k < c->n_updates; k++) {
        const int i = (begin + k) % c->n_updates;
        update *u = &c->updates[i];
        if (u->island == i) {
            double flops = 0;
            double elems = 0;
            if (u->is_whole) {
                cost_of(c, plan, i, &flops, &elems);
            }
            u->is_checked = flops <= flops_left && elems <= elems_left;
            flops_left -= u->is_checked ? flops : 0;
            elems_left -= u->is_checked ? elems : 0;
            c->n_islands++;
            c->n_checked += u->is_checked;
        }
    }
    for (int i = 0; i < c->n_updates; i++) {
        c->updates[i].is_checked = c->updates[c->updates[i].island].is_checked;
    }
}

// --- samples --------------------------------------------------------------------------------------

// The first element of run `i`: one drawn from each of N_RUNS - 1 equal parts, and the last run, which may be short.
// Operands of an op with equal lengths, in units of their runs, have runs at the same places.
static int64_t run_first(uint64_t seed, int64_t n_elems, int64_t run_elems, int64_t i) {
    const int64_t n_whole = (n_elems + run_elems - 1) / run_elems;
    if (i == N_RUNS - 1) {
        return (n_whole - 1) * run_elems;
    }
    const int64_t first = i * (n_whole - 1) / (N_RUNS - 1);
    const int64_t end = (i + 1) * (n_whole - 1) / (N_RUNS - 1);
    const uint32_t drawn = sm_philox4x32(seed, (uint64_t)i, 3).word[0];
    return (first + drawn % (end > first ? end - first : 1)) * run_elems;
}

static bool is_sampled(const part *p, int64_t n_elems) { return p->run_elems > 0 && n_elems > N_RUNS * p->run_elems; }

static int64_t run_length(int64_t n_elems, int64_t run_elems, int64_t first) {
    return n_elems - first < run_elems ? n_elems - first : run_elems;
}

static int64_t n_sampled(const part *p, int64_t n_elems) {
    int64_t n = 0;
    for (int64_t i = 0; i < N_RUNS && is_sampled(p, n_elems); i++) {
        n += run_length(n_elems, p->run_elems, run_first(p->seed, n_elems, p->run_elems, i));
    }
    return is_sampled(p, n_elems) ? n : n_elems;
}

// Reads part `p` of a tensor, or of `tensor`, which has the same length.
static sm_status read_part(sm_session *session, const part *p, int tensor, float *values) {
    const int64_t n_elems = sm_tensor_elems(&session->plan->tensors[tensor]);
    if (!is_sampled(p, n_elems)) {
        return sm_session_read(session, tensor, n_elems, values);
    }
    for (int64_t i = 0; i < N_RUNS; i++) {
        const int64_t first = run_first(p->seed, n_elems, p->run_elems, i);
        const int64_t n = run_length(n_elems, p->run_elems, first);
        SM_TRY(sm_session_read_part(session, tensor, first, n, values));
        values += n;
    }
    return SM_OK;
}

// Runs of all operands of an op begin at the same elements: if one operand counts blocks, runs are blocks.
static int64_t run_elems_of(const update *u, const operands *all, int k) {
    bool has_blocks = false;
    for (int i = 0; i < all->n; i++) {
        has_blocks |= is_blocks(all->infos[i]);
    }
    return u->is_whole ? 0 : is_blocks(all->infos[k]) ? 1 : has_blocks ? BLOCK_ELEMS : RUN_ELEMS;
}

static void add_parts(sm_update_check *c, const sm_plan *plan) {
    for (const update *u = c->updates; u < c->updates + c->n_updates; u++) {
        const operands all = operands_of(c, plan, u->op);
        for (int k = 0; k < all.n && u->is_checked; k++) {
            if (c->part_of[all.tensors[k]] < 0) {
                const int64_t n_elems = sm_tensor_elems(&plan->tensors[all.tensors[k]]);
                part *p = &c->parts[c->n_parts];
                *p = (part){.tensor = all.tensors[k],
                            .seed = c->seed,
                            .run_elems = run_elems_of(u, &all, k),
                            .is_product = u->op->kind == SM_OP_MUON_UPDATE,
                            .sign = u->op->kind == SM_OP_LION ? u->op : NULL};
                p->n = n_sampled(p, n_elems);
                p->before = sm_calloc((size_t)p->n * 2, sizeof *p->before);
                p->after = p->before + p->n;
                c->part_of[all.tensors[k]] = c->n_parts++;
            }
        }
    }
}

// --- the check ------------------------------------------------------------------------------------

static void new_check(const sm_plan *plan, uint64_t seed, sm_update_check *c) {
    const size_t n_tensors = (size_t)plan->n_tensors + 1;
    SM_FREED int *first_user = sm_malloc(n_tensors * sizeof *first_user);
    c->seed = seed;
    c->updates = sm_calloc((size_t)plan->n_ops + 1, sizeof *c->updates);
    c->parts = sm_calloc(n_tensors, sizeof *c->parts);
    c->part_of = sm_malloc(n_tensors * sizeof *c->part_of);
    for (int i = 0; i < plan->n_tensors; i++) {
        c->part_of[i] = first_user[i] = -1;
    }
    // Lists the update's ops, and finds the clipping factor.
    c->clip = SM_NO_TENSOR;
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        if (op->kind == SM_OP_GRAD_CLIP) {
            c->clip = op->out[SM_OUT(grad_clip, clip)];
        }
        if (sm_op_is_update(plan, op)) {
            c->updates[c->n_updates++].op = op;
        }
    }
    find_islands(c, plan, first_user);
    choose_islands(c, plan);
    add_parts(c, plan);
}

void sm_update_check_free(sm_update_check *check) {
    if (check != NULL) {
        for (int i = 0; i < check->n_parts; i++) {
            free(check->parts[i].before);
        }
        free(check->updates);
        free(check->parts);
        free(check->part_of);
        free(check);
    }
}

sm_status sm_update_check_begin(sm_session *session, uint64_t seed, sm_update_check **check) {
    SM_OWN(sm_update_check) *c = sm_calloc(1, sizeof *c);
    *check = NULL;
    new_check(session->plan, seed, c);
    SM_TRY(sm_session_skipped(session, &c->n_skipped));
    for (const part *p = c->parts; p < c->parts + c->n_parts; p++) {
        SM_TRY(is_lasting(&session->plan->tensors[p->tensor]) ? read_part(session, p, p->tensor, p->before) : SM_OK);
    }
    *check = sm_give(&c);
    return SM_OK;
}

// --- the reference's update ----------------------------------------------------------------

static int add_scalars(sm_plan *plan, sm_role role, int64_t n, const char *name) {
    return sm_plan_add_tensor(plan, role, SM_F32, 1, &n, "%s", name);
}

// Tensors 0, 1, ... of the reference's plan are the parts; sampled ones have one dimension.
static void add_copies(const sm_update_check *c, const sm_plan *of, sm_plan *plan) {
    for (const part *p = c->parts; p < c->parts + c->n_parts; p++) {
        const sm_tensor *t = &of->tensors[p->tensor];
        const bool is_float = t->dtype == of->real || t->dtype == of->dtype;
        const bool is_one_dim = p->run_elems > 0;
        sm_plan_add_tensor(plan, SM_ROLE_OPTIMIZER, is_float ? SM_F32 : t->dtype, is_one_dim ? 1 : t->n_dims,
                           is_one_dim ? &p->n : t->dims, "%s", t->name);
    }
}

// The same op on the parts.
static sm_op copy_op(const sm_update_check *c, const sm_plan *of, const sm_op *op, const sm_plan *plan, int clip) {
    sm_op copy = *op;
    for (int k = 0; k < SM_MAX_OPERANDS; k++) { // SM_NO_TENSOR for a copy that matmuls read
        const int t = op->operands[k];
        copy.operands[k] = t == SM_NO_TENSOR ? t : t == of->hyper ? plan->hyper : t == c->clip ? clip : c->part_of[t];
    }
    return copy;
}

// A plan that clips by the norm and updates each part.
static sm_status build_update(const sm_update_check *c, const sm_plan *of, sm_plan *plan) {
    add_copies(c, of, plan);
    plan->hyper = add_scalars(plan, SM_ROLE_BATCH, SM_HYPER_COUNT, "hyper");
    plan->grad_norm = add_scalars(plan, SM_ROLE_RESULT, 1, "norm");
    sm_op clip = sm_op_make(SM_OP_GRAD_CLIP, SM_PHASE_OPTIMIZER, -1);
    SM_INPUTS(clip, grad_clip, add_scalars(plan, SM_ROLE_BATCH, 1, "sqnorm"), plan->hyper, SM_NO_TENSOR);
    clip.out[SM_OUT(grad_clip, norm)] = plan->grad_norm;
    clip.out[SM_OUT(grad_clip, clip)] = add_scalars(plan, SM_ROLE_RESULT, 1, "clip");
    sm_plan_add_op(plan, &clip);
    for (int i = 0; i < c->n_updates; i++) {
        if (c->updates[i].is_checked) {
            const sm_op op = copy_op(c, of, c->updates[i].op, plan, clip.out[SM_OUT(grad_clip, clip)]);
            sm_plan_add_op(plan, &op);
        }
    }
    return plan->status;
}

// Uploads the device's settings and norm, parameters and state before the step, and the step's gradients.
static sm_status feed_update(sm_update_check *c, sm_session *from, double norm, sm_session *to) {
    float hyper[SM_HYPER_COUNT];
    const float sqnorm = (float)(norm * norm);
    SM_TRY(sm_session_read(from, from->plan->hyper, SM_HYPER_COUNT, hyper));
    SM_TRY(sm_session_write(to, to->plan->hyper, SM_HYPER_COUNT, hyper));
    SM_TRY(sm_session_write(to, sm_plan_find_tensor(to->plan, "sqnorm"), 1, &sqnorm));
    for (int i = 0; i < c->n_parts; i++) {
        part *p = &c->parts[i];
        const sm_tensor *t = &from->plan->tensors[p->tensor];
        for (int64_t k = 0; k < p->n && t->role == SM_ROLE_GRADIENT && c->scale != 1; k++) {
            p->after[k] = (float)(p->after[k] / c->scale);
        }
        if (is_lasting(t) || t->role == SM_ROLE_GRADIENT) {
            SM_TRY(sm_session_write(to, i, p->n, is_lasting(t) ? p->before : p->after));
        }
    }
    return SM_OK;
}

// --- comparing -----------------------------------------------------------------------------

// The error got - want, relative to the update and to what rounding allows.
static double size_of_error(const part *p, double rounding, const float *want) {
    double errors = 0;
    double updates = 0;
    for (int64_t i = 0; i < p->n; i++) {
        errors += pow((double)p->after[i] - (double)want[i], 2);
        updates += pow((double)want[i] - (double)p->before[i], 2);
    }
    return sqrt(errors / (updates + DBL_MIN)) / (product_tolerance_in_roundings * rounding);
}

// Settings and factors of the step.
typedef struct {
    double lr, beta1, clip;
} step_values;

// Whether rounding decides the sign of lion's element i. Both signs are then right; they are 2 lr apart.
static bool is_sign_open(const sm_update_check *c, const sm_op *lion, const step_values *step, int64_t i) {
    const part *state = &c->parts[c->part_of[lion->out[SM_OUT(lion, m)]]];
    const part *gradient = &c->parts[c->part_of[lion->in[SM_IN(lion, g)]]];
    const double m = step->beta1 * (double)state->before[i];
    const double g = (1 - step->beta1) * step->clip * (double)gradient->after[i];
    const double terms = fabs(m) + fabs(g);
    return terms > 0 && fabs(m + g) <= sign_tolerance * terms;
}

static double allowed_error(const sm_update_check *c, const part *p, const sm_tensor *t, const step_values *step,
                            const float *want, int64_t i) {
    const double size = fabs((double)p->before[i]) + fabs((double)want[i]);
    if (t->dtype == SM_U8) {
        return code_tolerance;
    }
    if (t->role != SM_ROLE_PARAMETER) {
        return state_tolerance * size;
    }
    const bool is_open = p->sign != NULL && is_sign_open(c, p->sign, step, i);
    return value_tolerance * size + (update_tolerance + (is_open ? 2 : 0)) * step->lr;
}

// Largest |got - want| relative to what rounding allows. NaN counts as the largest.
static double largest_error(const sm_update_check *c, const part *p, const sm_tensor *t, const step_values *step,
                            const float *want) {
    double largest = 0;
    for (int64_t i = 0; i < p->n; i++) {
        const double got = p->after[i];
        const double error = fabs(got - (double)want[i]) / (allowed_error(c, p, t, step, want, i) + FLT_MIN);
        largest = sm_error_is_larger(error, largest) ? error : largest;
    }
    return largest;
}

static sm_status compare_part(const sm_update_check *c, const part *p, const sm_tensor *t, sm_precision precision,
                              const step_values *step, const float *want, sm_update_result *result) {
    const bool by_size = sm_precision_is_rounded(precision) && p->is_product && t->role == SM_ROLE_PARAMETER;
    const double error =
        by_size ? size_of_error(p, sm_precision_roundoff(precision), want) : largest_error(c, p, t, step, want);
    if (!(error <= result->tolerance)) {
        result->error = error;
        return sm_fail(
            SM_ERR_MISMATCH,
            "wrong update: %s differs from the reference's by %.3g times the allowed rounding; no speed is reported",
            t->name, error);
    }
    result->error = fmax(result->error, error);
    return SM_OK;
}

static sm_status read_step(sm_session *reference, step_values *step) {
    float hyper[SM_HYPER_COUNT];
    float clip = 0;
    SM_TRY(sm_session_read(reference, reference->plan->hyper, SM_HYPER_COUNT, hyper));
    SM_TRY(sm_session_read(reference, sm_plan_find_tensor(reference->plan, "clip"), 1, &clip));
    *step =
        (step_values){.lr = (double)hyper[SM_HYPER_LR], .beta1 = (double)hyper[SM_HYPER_BETA1], .clip = (double)clip};
    return SM_OK;
}

// `want` has room for the largest part.
static sm_status compare(const sm_update_check *c, const sm_session *session, sm_session *reference, float *want,
                         sm_update_result *result) {
    const sm_precision precision = sm_plan_precision(session->plan);
    step_values step;
    SM_TRY(read_step(reference, &step));
    for (int i = 0; i < c->n_parts; i++) {
        const sm_tensor *t = &session->plan->tensors[c->parts[i].tensor];
        if (is_lasting(t)) {
            SM_TRY(sm_session_read(reference, i, c->parts[i].n, want));
            SM_TRY(compare_part(c, &c->parts[i], t, precision, &step, want, result));
        }
    }
    return SM_OK;
}

// The copies that matmuls read in a narrow format must be the updated weights, rounded.
static sm_status compare_copies(const sm_update_check *c, sm_session *session, float *copied) {
    for (int i = 0; i < c->n_parts; i++) {
        const part *p = &c->parts[i];
        const int copy = session->plan->tensors[p->tensor].working_copy;
        if (copy == SM_NO_TENSOR) {
            continue;
        }
        SM_TRY(read_part(session, p, copy, copied));
        sm_dtype_round_trip(session->plan->dtype, p->n, p->after);
        for (int64_t k = 0; k < p->n; k++) {
            SM_FAIL_IF(!(copied[k] == p->after[k]), SM_ERR_MISMATCH,
                       "wrong update: %s is not its weights, rounded; no speed is reported",
                       session->plan->tensors[copy].name);
        }
    }
    return SM_OK;
}

// The reference's update on the samples.
static sm_status run_reference(sm_update_check *c, sm_session *session, double norm, float *want,
                               sm_update_result *result) {
    SM_OWN(sm_device) *device = NULL;
    SM_OWN(sm_session) *reference = NULL;
    SM_OWN(sm_plan) *plan = sm_plan_new(SM_F32);
    SM_TRY(build_update(c, session->plan, plan));
    SM_TRY(sm_backend_find("reference")->open(0, &(sm_open_options){.n_threads = 1}, &device));
    SM_TRY(sm_session_open(device, sm_give(&plan), &reference));
    SM_TRY(feed_update(c, session, norm, reference));
    SM_TRY(sm_session_run(reference, SM_RUN_OPTIMIZER, NULL));
    return compare(c, session, reference, want, result);
}

// The loss scale of a step that was not skipped: the scaler may have raised it since.
static sm_status read_scale(sm_session *session, double *scale) {
    const sm_plan *plan = session->plan;
    float state[SM_SCALER_COUNT] = {[SM_SCALER_SCALE] = 1, [SM_SCALER_GOOD] = 1};
    SM_TRY(plan->scaler != SM_NO_TENSOR ? sm_session_read(session, plan->scaler, SM_SCALER_COUNT, state) : SM_OK);
    *scale = state[SM_SCALER_SCALE] / (state[SM_SCALER_GOOD] == 0 ? plan->scaling.growth : 1);
    return SM_OK;
}

// After a skipped step everything must be unchanged, bit by bit.
static sm_status compare_skipped(const sm_update_check *c, const sm_plan *plan, sm_update_result *result) {
    for (int i = 0; i < c->n_parts; i++) {
        const part *p = &c->parts[i];
        const sm_tensor *t = &plan->tensors[p->tensor];
        SM_FAIL_IF(is_lasting(t) && memcmp(p->before, p->after, (size_t)p->n * sizeof *p->before) != 0, SM_ERR_MISMATCH,
                   "wrong update: the step is skipped, and %s is not as it was", t->name);
    }
    snprintf(result->how, sizeof result->how, "the step was skipped, and left weights and state as they were");
    return SM_OK;
}

static sm_status check_update(sm_update_check *c, sm_session *session, double grad_norm, sm_update_result *result) {
    double norm = 0;
    int64_t largest = 1;
    int64_t n_skipped = 0;
    SM_TRY(sm_session_skipped(session, &n_skipped));
    const bool was_skipped = n_skipped > c->n_skipped;
    SM_TRY(read_scale(session, &c->scale));
    SM_TRY(sm_session_grad_norm(session, &norm));
    SM_FAIL_IF(
        !was_skipped && grad_norm != 0 && !(fabs(norm - grad_norm) <= norm_tolerance * grad_norm), SM_ERR_MISMATCH,
        "wrong update: the gradient's norm is %.7g, and the step has %.7g; no speed is reported", grad_norm, norm);
    for (int i = 0; i < c->n_parts; i++) {
        const part *p = &c->parts[i];
        const sm_tensor *t = &session->plan->tensors[p->tensor];
        SM_TRY(is_lasting(t) || t->role == SM_ROLE_GRADIENT ? read_part(session, p, p->tensor, p->after) : SM_OK);
        largest = p->n > largest ? p->n : largest;
    }
    // Describes the check, for the row.
    char left_out[48] = "";
    for (int i = 0; i < c->n_parts; i++) {
        result->n_weights += session->plan->tensors[c->parts[i].tensor].role == SM_ROLE_PARAMETER ? c->parts[i].n : 0;
    }
    if (c->n_checked < c->n_islands) {
        snprintf(left_out, sizeof left_out, ", of %d of %d updates", c->n_checked, c->n_islands);
    }
    snprintf(result->how, sizeof result->how, "%lld weights and their state against the reference's rule%s",
             (long long)result->n_weights, left_out);
    SM_FREED float *room = sm_malloc((size_t)largest * sizeof *room);
    SM_TRY(was_skipped ? compare_skipped(c, session->plan, result) : run_reference(c, session, norm, room, result));
    return compare_copies(c, session, room);
}

sm_status sm_update_check_end(sm_update_check *check, sm_session *session, double grad_norm, sm_update_result *result) {
    *result = (sm_update_result){.tolerance = 1};
    sm_status status = check_update(check, session, grad_norm, result);
    sm_update_check_free(check);
    return status;
}
