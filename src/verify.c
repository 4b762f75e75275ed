// verify.c: ops one by one. A case's plan is prepared on both devices and given the same
// inputs; outputs that must be written begin as NaN, so that an element left out shows; and
// inputs are compared too, as an op may not change them.
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op_cases.h"
#include "verify.h"

static double value_at(sm_dtype dtype, const void *values, int64_t i) {
    return dtype == SM_F64 ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

double sm_verify_error(sm_dtype dtype, int64_t n, const void *a, const void *b, double scale) {
    double largest = 0;
    double difference = 0;
    for (int64_t i = 0; i < n; i++) {
        double expected = value_at(dtype, b, i);
        double d = fabs(value_at(dtype, a, i) - expected);
        if (!isfinite(d)) {
            return INFINITY;
        }
        difference = fmax(difference, d);
        largest = fmax(largest, fabs(expected));
    }
    if (difference == 0) {
        return 0; // also where all is 0, as it should be
    }
    return difference / (scale > 0 ? scale : largest);
}

// Rounding to nearest makes an error of eps/2. A sum of K products of either sign, added one by
// one, grows as sqrt(K), and so does the error that its roundings add up to when measured against
// its terms; 4 eps sqrt(K) leaves room for every order of summation. 32 eps is room for exp and
// tanh, which turn an error in their argument, here up to 8, into a relative one.
static double op_tolerance(sm_dtype dtype, int64_t sum_length) {
    double eps = dtype == SM_F64 ? DBL_EPSILON : FLT_EPSILON;
    return 32 * eps + 4 * eps * sqrt((double)sum_length);
}

// --- one case -------------------------------------------------------------------------

enum { DEVICE, REFERENCE, N_SIDES };

typedef struct {
    sm_device *device[N_SIDES];
    sm_verify_report report;
    void *context;
    int n_failed;
} checker;

typedef struct {
    sm_op_kind kind;
    int index;
    sm_plan *plan;
    sm_executable *executable[N_SIDES];
    void *values[N_SIDES]; // room for the largest tensor
    void *inputs;          // the same room
    char text[SM_CASE_TEXT_SIZE];
} op_case;

static void close_case(op_case *c, const checker *check) {
    for (int side = 0; side < N_SIDES; side++) {
        check->device[side]->backend->release(c->executable[side]);
        free(c->values[side]);
    }
    free(c->inputs);
    sm_plan_free(c->plan);
}

static sm_status allocate_buffers(op_case *c) {
    size_t largest_bytes = 0;
    for (int i = 0; i < c->plan->n_tensors; i++) {
        size_t size_bytes = sm_tensor_bytes(&c->plan->tensors[i]);
        largest_bytes = size_bytes > largest_bytes ? size_bytes : largest_bytes;
    }
    c->values[DEVICE] = malloc(largest_bytes);
    c->values[REFERENCE] = malloc(largest_bytes);
    c->inputs = malloc(largest_bytes);
    if (c->values[DEVICE] == NULL || c->values[REFERENCE] == NULL || c->inputs == NULL) {
        return sm_fail(SM_ERR_OOM, "verify %s %s: no memory for its values", sm_op_name(c->kind), c->text);
    }
    return SM_OK;
}

// SM_ERR_UNSUPPORTED when the device cannot run the case.
static sm_status open_case(op_case *c, const checker *check) {
    sm_device *device = check->device[DEVICE];
    SM_TRY(sm_op_case_plan(c->kind, c->index, SM_F32, &c->plan));
    for (int i = 0; i < c->plan->n_ops; i++) {
        SM_TRY(device->backend->supports(device, c->plan, &c->plan->ops[i]));
    }
    SM_TRY(sm_plan_assign_memory(c->plan, device->info.max_alloc_bytes));
    for (int side = 0; side < N_SIDES; side++) {
        sm_device *d = check->device[side];
        SM_TRY(d->backend->prepare(d, c->plan, &c->executable[side]));
    }
    return allocate_buffers(c);
}

static sm_status upload_both(const op_case *c, const checker *check, int tensor, const void *values) {
    int64_t n = sm_tensor_elems(&c->plan->tensors[tensor]);
    for (int side = 0; side < N_SIDES; side++) {
        SM_TRY(check->device[side]->backend->upload(c->executable[side], tensor, 0, n, values));
    }
    return SM_OK;
}

static sm_status download_both(const op_case *c, const checker *check, int tensor) {
    int64_t n = sm_tensor_elems(&c->plan->tensors[tensor]);
    for (int side = 0; side < N_SIDES; side++) {
        SM_TRY(check->device[side]->backend->download(c->executable[side], tensor, 0, n, c->values[side]));
    }
    return SM_OK;
}

// Outputs first: in place, one of them lies where an input goes.
static sm_status feed(const op_case *c, const checker *check) {
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < c->plan->n_tensors; i++) {
            bool is_input = sm_op_case_is_input(c->plan, i);
            if (is_input != (pass == 1)) {
                continue;
            }
            if (is_input) {
                sm_op_case_fill(c->kind, c->index, c->plan, i, c->inputs);
            } else {
                memset(c->inputs, 0xFF, sm_tensor_bytes(&c->plan->tensors[i])); // NaN
            }
            SM_TRY(upload_both(c, check, i, c->inputs));
        }
    }
    return SM_OK;
}

static sm_status run_both(const op_case *c, const checker *check) {
    for (int side = 0; side < N_SIDES; side++) {
        const sm_backend *backend = check->device[side]->backend;
        SM_TRY(backend->execute(c->executable[side], (sm_range){0, c->plan->n_ops}, NULL));
        SM_TRY(backend->synchronize(c->executable[side]));
    }
    return SM_OK;
}

// Error of output k of the op under test. The head's columns beyond V are padding, which a
// backend may compute or leave.
static double output_error(const op_case *c, const sm_op *op, int k) {
    const sm_tensor *t = &c->plan->tensors[op->out[k]];
    if (op->kind != SM_OP_MATMUL_FORWARD || op->attr.vocab == 0) {
        return sm_verify_error(t->dtype, sm_tensor_elems(t), c->values[DEVICE], c->values[REFERENCE], 0);
    }
    double worst = 0;
    size_t row_bytes = (size_t)sm_tensor_cols(t) * sm_dtype_size(t->dtype);
    for (size_t row = 0; row < (size_t)sm_tensor_rows(t); row++) {
        const char *a = (const char *)c->values[DEVICE] + row * row_bytes;
        const char *b = (const char *)c->values[REFERENCE] + row * row_bytes;
        worst = fmax(worst, sm_verify_error(t->dtype, op->attr.vocab, a, b, 0));
    }
    return worst;
}

static sm_status compare_outputs(const op_case *c, const checker *check, sm_verify_row *row) {
    const sm_op *op = &c->plan->ops[c->plan->n_ops - 1];
    for (int k = 0; k < SM_MAX_OUT; k++) {
        if (op->out[k] == SM_NO_TENSOR) {
            continue;
        }
        SM_TRY(download_both(c, check, op->out[k]));
        double error = output_error(c, op, k);
        row->n_values += sm_tensor_elems(&c->plan->tensors[op->out[k]]);
        if (!(error <= row->error)) {
            row->error = error;
            row->reason = sm_op_get_info(op->kind)->out[k].name;
        }
    }
    return SM_OK;
}

// What the op may only read must be on the device as it was uploaded, bit for bit.
static sm_status compare_inputs(const op_case *c, const checker *check, sm_verify_row *row) {
    const sm_op *op = &c->plan->ops[c->plan->n_ops - 1];
    for (int k = 0; k < SM_MAX_IN; k++) {
        int tensor = op->in[k];
        if (tensor == SM_NO_TENSOR || c->plan->tensors[tensor].role != SM_ROLE_BATCH) {
            continue;
        }
        SM_TRY(download_both(c, check, tensor));
        sm_op_case_fill(c->kind, c->index, c->plan, tensor, c->inputs);
        if (memcmp(c->values[DEVICE], c->inputs, sm_tensor_bytes(&c->plan->tensors[tensor])) != 0) {
            row->error = INFINITY;
            row->reason = sm_op_get_info(op->kind)->in[k].name;
        }
    }
    return SM_OK;
}

static sm_status check_case(checker *check, sm_op_kind kind, int index) {
    sm_status status = SM_OK;
    op_case c = {.kind = kind, .index = index};
    sm_op_case_text(kind, index, c.text);
    sm_verify_row row = {.check = sm_op_name(kind), .subject = c.text, .reason = ""};
    status = open_case(&c, check);
    if (status == SM_ERR_UNSUPPORTED) {
        row.ok = row.skipped = true;
        row.reason = sm_error_message();
        status = SM_OK;
    } else {
        SM_TRY_GOTO(status);
        SM_TRY_GOTO(feed(&c, check));
        SM_TRY_GOTO(run_both(&c, check));
        SM_TRY_GOTO(compare_outputs(&c, check, &row));
        SM_TRY_GOTO(compare_inputs(&c, check, &row));
        row.tolerance = op_tolerance(c.plan->dtype, sm_op_case_sum_length(kind, index));
        row.ok = row.error <= row.tolerance;
        row.reason = row.ok ? "" : row.reason;
        check->n_failed += !row.ok;
    }
    check->report(&row, check->context);
cleanup:
    close_case(&c, check);
    return status;
}

// --- all cases ------------------------------------------------------------------------

sm_status sm_verify_ops(sm_device *device, sm_verify_report report, void *context) {
    sm_status status = SM_OK;
    checker check = {.device = {device, NULL}, .report = report, .context = context};
    const sm_backend *reference = sm_backend_find("reference");
    SM_TRY(reference->open(0, &(sm_open_options){0}, &check.device[REFERENCE]));
    int n_cases = 0;
    for (int kind = 0; kind < SM_OP_KIND_COUNT; kind++) {
        for (int i = 0; i < sm_op_case_count((sm_op_kind)kind); i++) {
            SM_TRY_GOTO(check_case(&check, (sm_op_kind)kind, i));
            n_cases++;
        }
    }
    if (check.n_failed > 0) {
        status = sm_fail(SM_ERR_MISMATCH, "%s: %d of %d op cases differ from the reference", device->info.id,
                         check.n_failed, n_cases);
    }
cleanup:
    reference->close(check.device[REFERENCE]);
    return status;
}
