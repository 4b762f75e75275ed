// tune.c: chooses among a family's ways to compute the products of a plan, by measurement.
//
// Each product runs separately, as a plan of one op with the same sizes, once in every way: its result must equal that
// of way 0, the family's own choice, before its time counts. The device and the cache of tunings keep the choices;
// products not measured in time use way 0, and are measured next time.
#include <math.h>

#include "backends/host/cache.h"
#include "backends/host/memory.h"
#include "backends/host/tuning.h"
#include "backends/opencl/opencl.h"

static const double TUNE_SECONDS = 20;

enum { NAME_SIZE = OPENCL_PRODUCT_NAME_SIZE, WAY_SIZE = OPENCL_WAY_SIZE, MOST_WAYS = OPENCL_MOST_WAYS };

// --- a plan of one op -----------------------------------------------------------------------------------

static sm_status make_alone(const sm_device *device, const sm_plan *plan, const sm_op *op, sm_plan **alone) {
    sm_op copy = *op;
    SM_OWN(sm_plan) *made = sm_plan_new(plan->dtype);
    made->products = plan->products;
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        if (op->operands[k] != SM_NO_TENSOR) {
            const sm_tensor *t = &plan->tensors[op->operands[k]];
            copy.operands[k] = sm_plan_add_tensor(made, t->role, t->dtype, t->n_dims, t->dims, "%s", t->name);
        }
    }
    SM_TRY(sm_plan_add_op(made, &copy));
    SM_TRY(sm_plan_assign_memory(made, device->info.max_alloc_bytes));
    *alone = sm_give(&made);
    return SM_OK;
}

// Numbers in [-1, 1), repeated, but shifted from row to row, in each input's format.
static sm_status fill_inputs(sm_executable *e) {
    enum { BLOCK = 65521 };
    const sm_op *op = &e->plan->ops[0];
    uint32_t seed = 1;
    SM_FREED float *numbers = sm_malloc(BLOCK * sizeof *numbers);
    SM_FREED float *stored = sm_malloc(BLOCK * sizeof *stored);
    for (int i = 0; i < BLOCK; i++) {
        seed = seed * 1664525u + 1013904223u;
        numbers[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    for (int i = 0; i < SM_MAX_IN; i++) {
        const sm_tensor *t = op->in[i] != SM_NO_TENSOR ? &e->plan->tensors[op->in[i]] : NULL;
        const int64_t n = t != NULL ? sm_tensor_elems(t) : 0;
        if (t != NULL) {
            sm_dtype_format(t->dtype)->round(BLOCK, numbers, stored);
        }
        for (int64_t at = 0; at < n; at += BLOCK) {
            SM_TRY(opencl_upload(e, op->in[i], at, n - at < BLOCK ? n - at : BLOCK, stored));
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

// The best of a few runs, in nanoseconds.
static sm_status time_op(sm_executable *e, int64_t *best_ns) {
    enum { RUNS = 5 };
    *best_ns = INT64_MAX;
    for (int i = 0; i < RUNS; i++) {
        int64_t op_ns = 0;
        SM_TRY(e->device->backend->execute(e, (sm_range){0, 1}, &op_ns));
        *best_ns = op_ns < *best_ns ? op_ns : *best_ns;
    }
    return SM_OK;
}

// The op's first output, as floats.
static sm_status read_result(sm_executable *e, float *result) {
    const int out = e->plan->ops[0].out[0];
    const sm_tensor *t = &e->plan->tensors[out];
    const int64_t n = sm_tensor_elems(t);
    if (t->dtype == SM_F32) {
        return opencl_download(e, out, 0, n, result);
    }
    SM_FREED void *stored = malloc(sm_tensor_bytes(t));
    SM_FAIL_IF(stored == NULL, SM_ERR_OOM, "%s: no memory for a result", e->device->info.id);
    SM_TRY(opencl_download(e, out, 0, n, stored));
    sm_dtype_format(t->dtype)->widen(n, stored, result);
    return SM_OK;
}

static sm_status run_trial(opencl_device *device, const sm_plan *alone, float *result, int64_t *best_ns) {
    SM_OWN(sm_executable) *e = NULL;
    SM_TRY(opencl_prepare(&device->base, alone, &e));
    SM_TRY(fill_inputs(e));
    SM_TRY(opencl_execute(e, (sm_range){0, 1}, NULL));
    SM_TRY(read_result(e, result));
    return time_op(e, best_ns);
}

// Time and result of one way.
static sm_status try_way(opencl_device *device, const sm_plan *alone, int way, float *result, int64_t *best_ns) {
    device->trial = &way;
    const sm_status status = run_trial(device, alone, result, best_ns);
    device->trial = NULL;
    return status;
}

// The fastest way with the result of way 0. A way that fails is skipped; losing the device ends the measurement.
static sm_status measure(opencl_device *device, const sm_plan *alone, const opencl_product *p, int64_t end_ns,
                         int *best) {
    const sm_tensor *out = &alone->tensors[alone->ops[0].out[0]];
    // Two orders of summing 10^5 products differ by less; a narrow format adds a unit in the last place.
    const double tolerance =
        1e-4 + (sm_dtype_is_narrow(out->dtype) ? 2 * sm_dtype_format(out->dtype)->unit_roundoff : 0);
    char text[WAY_SIZE];
    int64_t best_ns = 0;
    const int64_t n = sm_tensor_elems(out);
    SM_FREED float *expected = malloc((size_t)n * sizeof *expected);
    SM_FREED float *result = malloc((size_t)n * sizeof *result);
    SM_FAIL_IF(expected == NULL || result == NULL, SM_ERR_OOM, "%s: no memory for a result", id_of(device));
    *best = 0;
    SM_TRY(try_way(device, alone, 0, expected, &best_ns));
    for (int way = 1; way < MOST_WAYS && host_now_ns() < end_ns; way++) {
        int64_t elapsed_ns = 0;
        if (!device->family->matmul_way(&device->facts, p, way, text, sizeof text)) {
            continue;
        }
        if (try_way(device, alone, way, result, &elapsed_ns) == SM_OK && elapsed_ns < best_ns &&
            compare(result, expected, n) <= tolerance) {
            best_ns = elapsed_ns;
            *best = way;
        }
        SM_TRY(device->is_lost ? SM_ERR_DEVICE : SM_OK);
    }
    return SM_OK;
}

// --- all products of a plan ---------------------------------------------------------------------------------

// The key has everything that a measurement depends on.
static host_tuning *open_tuning(const opencl_device *device) {
    const opencl_facts *f = &device->facts;
    char stem[NAME_SIZE];
    char key[1024];
    snprintf(stem, sizeof stem, "matmul_%s", device->family->builds_apart ? "units" : device->family->name);
    snprintf(key, sizeof key, "opencl|%s|%s|%s|%s|%d|%s|%016llx", f->platform_name, f->name, f->version, f->driver,
             device->base.info.n_threads, device->family->name, (unsigned long long)opencl_hash_program(device, stem));
    return host_tuning_open(key);
}

// The way saved under a name, or -1.
static int recall(const opencl_device *device, const opencl_product *p, const host_tuning *tuning, const char *name) {
    char text[WAY_SIZE];
    const char *value = host_tuning_get(tuning, name);
    for (int way = 0; value != NULL && way < MOST_WAYS; way++) {
        if (device->family->matmul_way(&device->facts, p, way, text, sizeof text) && strcmp(text, value) == 0) {
            return way;
        }
    }
    return -1;
}

static sm_status tune_op(opencl_device *device, const sm_plan *plan, const sm_op *op, int64_t end_ns,
                         host_tuning *tuning) {
    char name[NAME_SIZE];
    char text[WAY_SIZE];
    SM_OWN(sm_plan) *alone = NULL;
    opencl_product p;
    if (device->own[op->kind] != NULL || !opencl_is_product(plan, op, &p)) {
        return SM_OK;
    }
    opencl_name_product(&p, name);
    if (opencl_is_chosen(device, name)) {
        return SM_OK;
    }
    int way = recall(device, &p, tuning, name);
    if (way < 0 && host_now_ns() < end_ns) {
        SM_TRY(make_alone(&device->base, plan, op, &alone));
        SM_TRY(measure(device, alone, &p, end_ns, &way));
        if (host_now_ns() < end_ns && device->family->matmul_way(&device->facts, &p, way, text, sizeof text)) {
            char line[NAME_SIZE + WAY_SIZE + 16];
            snprintf(line, sizeof line, "tuning: %s: %s", name, text);
            if (device->progress != NULL) {
                device->progress(line);
            }
            host_tuning_put(tuning, name, text);
        }
    }
    if (way > 0) {
        opencl_add_choice(device, name, way);
    }
    return SM_OK;
}

sm_status opencl_tune(opencl_executable *e) {
    const sm_plan *plan = e->base.plan;
    host_tuning *tuning = open_tuning(e->device);
    const int64_t start_ns = host_now_ns();
    const int64_t end_ns = start_ns + (int64_t)(TUNE_SECONDS * 1e9);
    sm_status status = SM_OK;
    for (int i = 0; i < 2 * plan->n_ops && status == SM_OK; i++) {
        sm_op op;
        status = opencl_op_at(plan, i, &op) ? tune_op(e->device, plan, &op, end_ns, tuning) : SM_OK;
    }
    host_tuning_save(tuning);
    if (host_tuning_warning(tuning)[0] != '\0') {
        snprintf(e->base.tune_warning, sizeof e->base.tune_warning, "mode tuned: %s", host_tuning_warning(tuning));
    } else if (host_now_ns() > end_ns) {
        snprintf(e->base.tune_warning, sizeof e->base.tune_warning,
                 "mode tuned: not all products were tried in %.0f s; the next run continues", TUNE_SECONDS);
    }
    host_tuning_free(tuning);
    e->base.tune_ns = host_now_ns() - start_ns;
    return status;
}
