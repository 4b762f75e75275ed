#include "backends/host/tune.h"

#include <math.h>

#include "backends/host/memory.h"
#include "backends/host/tuning.h"

enum { BLOCK_ELEMS = 65521 };
enum { SWEPT_OPERANDS = 8 };         // at most so many times the op's operands are read before a run
static const double near_best = 1.1; // of the best first time: worth measuring again

// An op that is being tried.
typedef struct {
    const host_tuner *tuner;
    const sm_op *op; // of the plan
    int64_t end_ns;
    sm_plan *alone;
    sm_executable *e; // NULL: none is prepared
    float *expected;
    float *result;
} trial;

// The first warning stays.
#define WARN(t, ...)                                                                                                 \
    (void)((t)->e->tune_warning[0] == '\0' ? snprintf((t)->e->tune_warning, sizeof(t)->e->tune_warning, __VA_ARGS__) \
                                           : 0)

// --- a plan of one op -----------------------------------------------------------------------------------

// Reads memory that no operand shares.
static sm_status add_sweep(sm_plan *plan, const sm_op *before, size_t most_bytes) {
    const int64_t one = 1;
    size_t operand_bytes = 0;
    for (int i = 0; i < plan->n_tensors; i++) {
        operand_bytes += sm_tensor_bytes(&plan->tensors[i]);
    }
    const size_t bytes = SWEPT_OPERANDS * operand_bytes < most_bytes ? SWEPT_OPERANDS * operand_bytes : most_bytes;
    const int64_t n = (int64_t)(bytes / sizeof(float));
    sm_op sweep = sm_op_make(SM_OP_GRAD_SQNORM, before->phase, -1);
    sweep.range = before->range;
    sweep.in[SM_IN(grad_sqnorm, g)] = sm_plan_add_tensor(plan, SM_ROLE_GRADIENT, SM_F32, 1, &n, "swept");
    sweep.out[SM_OUT(grad_sqnorm, sqnorm)] = sm_plan_add_tensor(plan, SM_ROLE_GRADIENT, SM_F32, 1, &one, "sum");
    return sm_plan_add_op(plan, &sweep);
}

static sm_status make_alone(const host_tuner *t, const sm_op *op, sm_plan **alone) {
    const sm_plan *plan = t->e->plan;
    sm_op copy = *op;
    SM_OWN(sm_plan) *made = sm_plan_new(plan->dtype);
    made->products = plan->products;
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        if (op->operands[k] != SM_NO_TENSOR) {
            const sm_tensor *its = &plan->tensors[op->operands[k]];
            copy.operands[k] = sm_plan_add_tensor(made, its->role, its->dtype, its->n_dims, its->dims, "%s", its->name);
        }
    }
    SM_TRY(t->swept_bytes > 0 ? add_sweep(made, op, t->swept_bytes) : SM_OK);
    SM_TRY(sm_plan_add_op(made, &copy));
    SM_TRY(sm_plan_assign_memory(made, t->e->device->info.max_alloc_bytes));
    *alone = sm_give(&made);
    return SM_OK;
}

static const sm_op *tried_op(const trial *x) { return &x->alone->ops[x->alone->n_ops - 1]; }

// Inputs get numbers in [-1, 1), repeated, but shifted from row to row, in their formats; outputs, maybe sums, zeros.
static sm_status fill(const trial *x, bool inputs) {
    const sm_backend *backend = x->e->device->backend;
    uint32_t seed = 1;
    SM_FREED float *numbers = sm_calloc(BLOCK_ELEMS, sizeof *numbers);
    SM_FREED float *stored = sm_calloc(BLOCK_ELEMS, sizeof *stored);
    for (int i = 0; inputs && i < BLOCK_ELEMS; i++) {
        seed = seed * 1664525u + 1013904223u;
        numbers[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    for (int k = inputs ? 0 : SM_MAX_IN; k < (inputs ? SM_MAX_IN : SM_MAX_OPERANDS); k++) {
        const int tensor = tried_op(x)->operands[k];
        const int64_t n = tensor != SM_NO_TENSOR ? sm_tensor_elems(&x->alone->tensors[tensor]) : 0;
        if (n > 0) {
            sm_dtype_format(x->alone->tensors[tensor].dtype)->round(BLOCK_ELEMS, numbers, stored);
        }
        for (int64_t at = 0; at < n; at += BLOCK_ELEMS) {
            SM_TRY(backend->upload(x->e, tensor, at, n - at < BLOCK_ELEMS ? n - at : BLOCK_ELEMS, stored));
        }
    }
    return SM_OK;
}

// --- measuring --------------------------------------------------------------------------------------------

// Largest difference between two results, relative to the largest number of the second; infinite if one is not finite.
static double compare(const float *x, const float *y, int64_t n) {
    double difference = 0;
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = fabs((double)x[i] - (double)y[i]);
        difference = d <= difference ? difference : d;
        largest = fmax(largest, fabs((double)y[i]));
    }
    return isfinite(difference) && largest > 0 ? difference / largest : INFINITY;
}

// The op's first output, as floats.
static sm_status read_result(const trial *x, float *result) {
    const int out = tried_op(x)->out[0];
    const sm_tensor *t = &x->alone->tensors[out];
    const int64_t n = sm_tensor_elems(t);
    SM_FREED void *stored = malloc(sm_tensor_bytes(t));
    SM_FAIL_IF(stored == NULL, SM_ERR_OOM, "%s: no memory for a result", x->e->device->info.id);
    SM_TRY(x->e->device->backend->download(x->e, out, 0, n, stored));
    sm_dtype_format(t->dtype)->widen(n, stored, result);
    return SM_OK;
}

// Runs the op in the prepared way: *least_ns is the best of its runs. `result` is that of the first, unless it is NULL.
static sm_status run(const trial *x, float *result, int64_t *least_ns) {
    const sm_backend *backend = x->e->device->backend;
    const int last = x->alone->n_ops - 1;
    SM_TRY(result != NULL ? fill(x, false) : SM_OK);
    for (int i = 0; i < x->tuner->n_runs; i++) {
        int64_t op_ns[2] = {0};
        sm_op_parts none = {0};
        sm_op_parts *parts = x->e->parts != NULL ? &x->e->parts[last] : &none;
        *parts = none;
        SM_TRY(backend->execute(x->e, (sm_range){0, last + 1}, op_ns));
        SM_TRY(result != NULL && i == 0 ? read_result(x, result) : SM_OK);
        const int64_t ns = parts->shared_ns > 0 ? parts->shared_ns : op_ns[last]; // not until a busy machine begins
        *least_ns = ns < *least_ns ? ns : *least_ns;
    }
    return SM_OK;
}

static sm_status run_way(trial *x, int way, float *result, int64_t *least_ns) {
    sm_device *device = x->tuner->e->device;
    x->tuner->try_way(device, x->alone, &way);
    sm_status status = SM_OK;
    if (x->e == NULL) {
        status = device->backend->prepare(device, x->alone, &x->e);
        status = status == SM_OK ? fill(x, true) : status;
    }
    status = status == SM_OK ? run(x, result, least_ns) : status;
    x->tuner->try_way(device, x->alone, NULL);
    if (x->tuner->is_prepared_for_way) {
        device->backend->release(x->e);
        x->e = NULL;
    }
    return status;
}

// Whether a way computes what way 0 does, and its time. A failing one does not; if way 0 then fails, a device is lost.
static sm_status judge(trial *x, int way, bool *is_right, int64_t *least_ns) {
    const host_tuner *t = x->tuner;
    const sm_tensor *out = &x->alone->tensors[tried_op(x)->out[0]];
    const double rounding = sm_dtype_is_narrow(out->dtype) ? 2 * sm_dtype_format(out->dtype)->unit_roundoff : 0;
    char text[HOST_WAY_SIZE];
    *is_right = false;
    if (!t->name_way(t->e->device, t->e->plan, x->op, way, text)) {
        return SM_OK;
    }
    if (run_way(x, way, x->result, least_ns) != SM_OK) {
        return run_way(x, 0, NULL, &(int64_t){INT64_MAX});
    }
    *is_right = compare(x->result, x->expected, sm_tensor_elems(out)) <= t->tolerance + rounding;
    return SM_OK;
}

// The fastest way. Those near it run in turns, as the machine may be busy for a while.
static sm_status measure(trial *x, int *best, double *speedup) {
    const host_tuner *t = x->tuner;
    const size_t n = (size_t)sm_tensor_elems(&x->alone->tensors[tried_op(x)->out[0]]);
    int64_t least_ns[HOST_MOST_WAYS], best_ns = INT64_MAX;
    x->expected = malloc(n * sizeof *x->expected);
    x->result = malloc(n * sizeof *x->result);
    SM_FAIL_IF(x->expected == NULL || x->result == NULL, SM_ERR_OOM, "%s: no memory for a result",
               t->e->device->info.id);
    for (int way = 0; way < HOST_MOST_WAYS; way++) {
        int64_t its_ns = INT64_MAX;
        SM_TRY(way == 0 ? run_way(x, 0, x->expected, &its_ns) : SM_OK);
        bool is_way = way == 0;
        SM_TRY(way > 0 && host_now_ns() < x->end_ns ? judge(x, way, &is_way, &its_ns) : SM_OK);
        least_ns[way] = is_way ? its_ns : INT64_MAX;
        best_ns = least_ns[way] < best_ns ? least_ns[way] : best_ns;
    }
    for (int round = 1; round < t->n_rounds && (round == 1 || host_now_ns() < x->end_ns); round++) {
        for (int way = 0; way < HOST_MOST_WAYS; way++) {
            if (way == 0 || (double)least_ns[way] <= near_best * (double)best_ns) {
                SM_TRY(run_way(x, way, NULL, &least_ns[way]));
            }
        }
    }
    for (int way = 1; way < HOST_MOST_WAYS; way++) {
        *best = least_ns[way] < least_ns[*best] ? way : *best;
    }
    *best = (double)least_ns[*best] <= t->faster * (double)least_ns[0] ? *best : 0;
    *speedup = (double)least_ns[0] / (double)least_ns[*best];
    return SM_OK;
}

static void end_trial(trial *x) {
    x->tuner->e->device->backend->release(x->e);
    sm_plan_free(x->alone);
    free(x->expected);
    free(x->result);
}

// --- a plan -----------------------------------------------------------------------------------------------

// The way with that text, or the first besides way 0 if it is NULL; -1: none.
static int find_way(const host_tuner *t, const sm_op *op, const char *wanted) {
    for (int way = wanted != NULL ? 0 : 1; way < HOST_MOST_WAYS; way++) {
        char text[HOST_WAY_SIZE];
        if (t->name_way(t->e->device, t->e->plan, op, way, text) && (wanted == NULL || strcmp(text, wanted) == 0)) {
            return way;
        }
    }
    return -1;
}

// Measures op, and remembers its way, unless the time is over.
static sm_status measure_op(const host_tuner *t, const sm_op *op, const char *name, int64_t end_ns, host_tuning *kept,
                            int *way) {
    SM_AT_END(end_trial) trial x = {.tuner = t, .op = op, .end_ns = host_now_ns() + (int64_t)(t->op_s * 1e9)};
    char text[HOST_WAY_SIZE];
    double speedup;
    x.end_ns = x.end_ns < end_ns ? x.end_ns : end_ns;
    sm_status status = make_alone(t, op, &x.alone);
    status = status == SM_OK ? measure(&x, way, &speedup) : status;
    if (status == SM_ERR_OOM) {
        WARN(t, "mode tuned: no memory to try the ways to compute %.60s: left as it is", name);
        return SM_OK;
    }
    SM_TRY(status);
    if (host_now_ns() < end_ns && t->name_way(t->e->device, t->e->plan, op, *way, text)) {
        char line[HOST_WORK_SIZE + HOST_WAY_SIZE + 32];
        snprintf(line, sizeof line, "tuning: %s: %s (%.2fx)", name, text, speedup);
        if (t->progress != NULL) {
            t->progress(line);
        }
        host_tuning_put(kept, name, text);
    }
    return SM_OK;
}

static sm_status tune_op(const host_tuner *t, const sm_op *op, int i, int64_t end_ns, host_tuning *kept) {
    char name[HOST_WORK_SIZE];
    if (!t->name_work(t->e->device, t->e->plan, op, name) || find_way(t, op, NULL) < 0) {
        return SM_OK;
    }
    const char *remembered = host_tuning_get(kept, name);
    int way = remembered != NULL ? find_way(t, op, remembered) : -1;
    if (remembered != NULL && way < 0) {
        WARN(t, "mode tuned: the remembered choice for %.60s is unknown here, and is made again", name);
    }
    if (way < 0) {
        way = 0;
        SM_TRY(host_now_ns() < end_ns ? measure_op(t, op, name, end_ns, kept, &way) : SM_OK);
    }
    t->choose(t->e, i, name, way);
    return SM_OK;
}

sm_status host_tune(const host_tuner *t) {
    const sm_plan *plan = t->e->plan;
    const int64_t start_ns = host_now_ns();
    const int64_t end_ns = start_ns + (int64_t)(t->all_s * 1e9);
    host_tuning *kept = host_tuning_open(t->key);
    sm_status status = SM_OK;
    for (int i = 0; i < 2 * plan->n_ops && status == SM_OK; i++) {
        sm_op op = plan->ops[i % plan->n_ops];
        const bool is_there = i < plan->n_ops || sm_op_later(plan, &plan->ops[i - plan->n_ops], &op);
        status = is_there ? tune_op(t, &op, i, end_ns, kept) : SM_OK;
    }
    host_tuning_save(kept);
    if (host_tuning_warning(kept)[0] != '\0') {
        t->e->tune_warning[0] = '\0'; // more important than a remembered choice
        WARN(t, "mode tuned: %s", host_tuning_warning(kept));
    } else if (host_now_ns() > end_ns) {
        WARN(t, "mode tuned: not all products were tried in %.0f s; the next run continues", t->all_s);
    }
    t->e->tune_ns = host_now_ns() - start_ns;
    host_tuning_free(kept);
    return status;
}
