// verify.c: checks ops one by one. A case's plan is prepared on both devices and gets the same inputs. Outputs that an
// op must write start as NaN, so that a missing element is found; inputs are compared too, as an op must not change
// them. If the device's data are narrower than f32, the reference computes in f32 on the same numbers.
#include <float.h>

#include "src/session/session.h"
#include "src/verify/op_cases.h"
#include "src/verify/verify.h"

static double value_at(sm_dtype dtype, const void *values, int64_t i) {
    switch (dtype) {
    case SM_F64: return ((const double *)values)[i];
    case SM_U8: return ((const uint8_t *)values)[i];
    default: return (double)((const float *)values)[i];
    }
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
        return 0; // also if both are 0, as expected
    }
    return difference / (scale > 0 ? scale : largest);
}

// Products of operands rounded to tf32: each is off by up to two unit roundoffs, their sum by less. In attention the
// error of a score, here up to 8, becomes a relative error of its weight.
static double product_tolerance(const sm_plan *plan, sm_op_kind kind) {
    const double rounding = sm_precision_roundoff(sm_plan_precision(plan));
    if (plan->products != SM_PRODUCTS_TF32) {
        return 0;
    }
    return sm_op_is_matmul(kind) ? 4 * rounding : sm_op_is_attention(kind) ? 16 * rounding : 0;
}

double sm_verify_cut(const sm_op *op, int64_t sum_length) {
    const double n = (double)sum_length;
    return !op->attr.fp8 ? 0 : n > 2048 ? 0x1p-8 : 0x1p-13 * (sqrt(n) + n / 32);
}

double sm_verify_tolerance(const sm_plan *plan, const sm_op *op, int output, int64_t sum_length) {
    const sm_dtype dtype = plan->tensors[op->out[output]].dtype;
    if (dtype == SM_U8) {
        return 1; // a number half-way between two codes may get either
    }
    if (dtype == SM_E4M3 || dtype == SM_E5M2) {
        return 0x1p-24; // a number times its scale is rounded once: bytes are equal
    }
    // Rounding to nearest has an error of at most eps/2. A sum of K terms of either sign grows as sqrt(K), and so does
    // its rounding error; 4 eps sqrt(K) allows every order of summation. 32 eps allows for exp and tanh, which turn an
    // error in their argument, here up to 8, into a relative one.
    const double eps = plan->real == SM_F64 ? DBL_EPSILON : FLT_EPSILON;
    double tolerance = 32 * eps + 4 * eps * sqrt((double)sum_length);
    // Storing in a narrow format has an error of at most the unit roundoff, as kernels sum in f32.
    const double rounding = sm_dtype_is_narrow(plan->dtype) ? sm_dtype_format(plan->dtype)->unit_roundoff : 0;
    if (dtype == plan->dtype) {
        tolerance += rounding;
    }
    // Whether the op may round a result and continue from the rounded value: the residual's sum, attention's weights
    // and their gradients, GELU's argument. Its other outputs, even in f32, are then no more exact; and cancellation,
    // in the mean and in dy v - D, makes results smaller than the rounded values.
    if (sm_op_tensor(op, "add") != SM_NO_TENSOR || op->attr.epilogue != 0 || sm_op_is_attention(op->kind)) {
        tolerance += 2 * rounding;
    }
    return tolerance + product_tolerance(plan, op->kind) + sm_verify_cut(op, sum_length);
}

// --- one case -------------------------------------------------------------------------

enum { DEVICE, REFERENCE, N_SIDES };

typedef struct {
    sm_device *device[N_SIDES];
    sm_precision precision[N_SIDES]; // of the plans; the reference's is the device's arithmetic format
    sm_verify_report report;
    void *context;
    int n_failed;
} checker;

typedef struct {
    checker *check;
    sm_op_kind kind;
    const char *text;
    uint64_t seed;
    sm_plan *plan[N_SIDES]; // the same ops on the same tensors, except for dtypes
    sm_executable *executable[N_SIDES];
    void *values[N_SIDES]; // room for the largest tensor in any dtype
    void *raw;             // the same room, for the device's own dtype
} op_case;

static void close_case(op_case *c) {
    for (int side = 0; side < N_SIDES; side++) {
        c->check->device[side]->backend->release(c->executable[side]);
        sm_plan_free(c->plan[side]);
        free(c->values[side]);
    }
    free(c->raw);
}

static int64_t largest_tensor(const sm_plan *plan) {
    int64_t largest = 1;
    for (int i = 0; i < plan->n_tensors; i++) {
        int64_t n_elems = sm_tensor_elems(&plan->tensors[i]);
        largest = n_elems > largest ? n_elems : largest;
    }
    return largest;
}

// SM_ERR_UNSUPPORTED if the device cannot run the case.
static sm_status open_case(op_case *c) {
    for (int side = 0; side < N_SIDES; side++) {
        sm_device *d = c->check->device[side];
        SM_TRY(sm_op_text_plan(c->kind, c->text, c->check->precision[side], &c->plan[side]));
        for (int i = 0; i < c->plan[side]->n_ops; i++) {
            SM_TRY(d->backend->supports(d, c->plan[side], &c->plan[side]->ops[i]));
        }
        SM_TRY(sm_plan_assign_memory(c->plan[side], d->info.max_alloc_bytes));
        SM_TRY(d->backend->prepare(d, c->plan[side], &c->executable[side]));
    }
    const size_t size_bytes = (size_t)largest_tensor(c->plan[DEVICE]) * sizeof(double);
    c->values[DEVICE] = sm_malloc(size_bytes);
    c->values[REFERENCE] = sm_malloc(size_bytes);
    c->raw = sm_malloc(size_bytes);
    return SM_OK;
}

// --- its values -----------------------------------------------------------------------

static const sm_tensor *device_tensor(const op_case *c, int tensor) { return &c->plan[DEVICE]->tensors[tensor]; }

// The reference's counterpart of a device's tensor. It has no working copy: p is its counterpart.
static int reference_tensor(const op_case *c, int tensor) {
    int same = sm_plan_find_tensor(c->plan[REFERENCE], device_tensor(c, tensor)->name);
    return same != SM_NO_TENSOR ? same : sm_plan_find_tensor(c->plan[REFERENCE], "p");
}

// The reference's dtype: f32 if the device's is narrower.
static sm_dtype wide(sm_dtype dtype) { return sm_dtype_is_narrow(dtype) ? SM_F32 : dtype; }

static void widen(sm_dtype dtype, int64_t n_elems, const void *values, void *widened) {
    if (sm_dtype_is_narrow(dtype)) {
        sm_dtype_format(dtype)->widen(n_elems, values, widened);
    } else {
        memcpy(widened, values, (size_t)n_elems * sm_dtype_size(dtype));
    }
}

static sm_status transfer(const op_case *c, int side, bool up, int tensor, void *values) {
    const sm_backend *backend = c->check->device[side]->backend;
    int64_t n = sm_tensor_elems(&c->plan[side]->tensors[tensor]);
    return up ? backend->upload(c->executable[side], tensor, 0, n, values)
              : backend->download(c->executable[side], tensor, 0, n, values);
}

// Uploads `raw` to both.
static sm_status upload_both(const op_case *c, int tensor) {
    const sm_tensor *t = device_tensor(c, tensor);
    const int its = reference_tensor(c, tensor);
    const bool is_same = c->plan[REFERENCE]->tensors[its].dtype == t->dtype; // also of bytes
    SM_TRY(transfer(c, DEVICE, true, tensor, c->raw));
    widen(t->dtype, sm_tensor_elems(t), c->raw, c->values[REFERENCE]);
    return transfer(c, REFERENCE, true, its, is_same ? c->raw : c->values[REFERENCE]);
}

// Downloads from both; the device's values are widened.
static sm_status download_both(const op_case *c, int tensor) {
    const sm_tensor *t = device_tensor(c, tensor);
    SM_TRY(transfer(c, DEVICE, false, tensor, c->raw));
    const int its = reference_tensor(c, tensor);
    widen(t->dtype, sm_tensor_elems(t), c->raw, c->values[DEVICE]);
    SM_TRY(transfer(c, REFERENCE, false, its, c->raw));
    widen(c->plan[REFERENCE]->tensors[its].dtype, sm_tensor_elems(t), c->raw, c->values[REFERENCE]);
    return SM_OK;
}

// Outputs first, since in place an input overwrites one of them.
static sm_status feed(const op_case *c) {
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < c->plan[DEVICE]->n_tensors; i++) {
            bool is_input = sm_op_case_is_input(c->plan[DEVICE], i);
            if (is_input != (pass == 1)) {
                continue;
            }
            if (is_input) {
                sm_op_text_fill(c->text, c->seed, c->plan[DEVICE], i, c->raw);
            } else {
                memset(c->raw, 0xFF, sm_tensor_bytes(device_tensor(c, i))); // NaN
            }
            SM_TRY(upload_both(c, i));
        }
    }
    return SM_OK;
}

static sm_status run_both(const op_case *c, sm_range ops) {
    for (int side = 0; side < N_SIDES; side++) {
        const sm_backend *backend = c->check->device[side]->backend;
        SM_TRY(backend->execute(c->executable[side], ops, NULL));
        SM_TRY(backend->synchronize(c->executable[side]));
    }
    return SM_OK;
}

// Runs the op under test, and before it the forward op whose outputs it reads, if any. The reference reads what the
// device's forward stored, so that only the op under test can differ; its forward has its own cases.
static sm_status run(const op_case *c) {
    const int last = c->plan[DEVICE]->n_ops - 1;
    SM_TRY(run_both(c, (sm_range){0, last}));
    for (int i = 0; i < last; i++) {
        for (int k = 0; k < SM_MAX_OUT; k++) {
            const int tensor = c->plan[DEVICE]->ops[i].out[k];
            if (tensor != SM_NO_TENSOR) {
                SM_TRY(transfer(c, DEVICE, false, tensor, c->raw));
                SM_TRY(upload_both(c, tensor));
            }
        }
    }
    return run_both(c, (sm_range){last, last + 1});
}

// --- comparing it ---------------------------------------------------------------------

// The number that output k's error is relative to; 0: its largest number. Codes are compared by their number. The mean
// of rounded sums is as uncertain as they are, however much cancels.
static sm_status scale_of(const op_case *c, const sm_op *op, int k, double *scale) {
    const int r = sm_op_tensor(op, "r");
    *scale = device_tensor(c, op->out[k])->dtype == SM_U8 ? 1 : 0;
    if (r != SM_NO_TENSOR && k == sm_op_find_out(op->kind, "mean")) {
        const sm_tensor *t = device_tensor(c, r);
        SM_TRY(download_both(c, r));
        for (int64_t i = 0; i < sm_tensor_elems(t); i++) {
            *scale = fmax(*scale, fabs(value_at(wide(t->dtype), c->values[REFERENCE], i)));
        }
    }
    return SM_OK;
}

// Error of output k of the op under test. The head's columns beyond V are padding, which may be left.
static double output_error(const op_case *c, const sm_op *op, int k, double scale) {
    const sm_tensor *t = device_tensor(c, op->out[k]);
    const sm_dtype dtype = wide(t->dtype);
    if (op->kind != SM_OP_MATMUL_FORWARD || op->attr.vocab == 0) {
        return sm_verify_error(dtype, sm_tensor_elems(t), c->values[DEVICE], c->values[REFERENCE], scale);
    }
    double worst = 0;
    size_t row_bytes = (size_t)sm_tensor_cols(t) * sm_dtype_size(dtype);
    for (size_t row = 0; row < (size_t)sm_tensor_rows(t); row++) {
        const char *a = (const char *)c->values[DEVICE] + row * row_bytes;
        const char *b = (const char *)c->values[REFERENCE] + row * row_bytes;
        worst = fmax(worst, sm_verify_error(dtype, op->attr.vocab, a, b, 0));
    }
    return worst;
}

// A result must be not finite in the places where the reference's is (nan=1); the rest is compared.
static void forgive_not_finite(const op_case *c, const sm_tensor *t) {
    const sm_dtype dtype = wide(t->dtype);
    for (int64_t i = 0; i < sm_tensor_elems(t) && strstr(c->text, "nan=") != NULL; i++) {
        if (!isfinite(value_at(dtype, c->values[DEVICE], i)) && !isfinite(value_at(dtype, c->values[REFERENCE], i))) {
            for (int side = 0; side < N_SIDES; side++) {
                memset((char *)c->values[side] + (size_t)i * sm_dtype_size(dtype), 0, sm_dtype_size(dtype));
            }
        }
    }
}

// The row shows the output with the largest error relative to its tolerance.
static sm_status compare_outputs(const op_case *c, sm_verify_row *row) {
    const sm_op *op = &c->plan[DEVICE]->ops[c->plan[DEVICE]->n_ops - 1];
    const int64_t sum_length = sm_op_text_sum_length(c->kind, c->text);
    for (int k = 0; k < SM_MAX_OUT; k++) {
        if (op->out[k] == SM_NO_TENSOR) {
            continue;
        }
        double scale;
        SM_TRY(scale_of(c, op, k, &scale));
        SM_TRY(download_both(c, op->out[k]));
        forgive_not_finite(c, device_tensor(c, op->out[k]));
        double error = output_error(c, op, k, scale);
        double tolerance = sm_verify_tolerance(c->plan[DEVICE], op, k, sum_length);
        row->n_values += sm_tensor_elems(device_tensor(c, op->out[k]));
        if (row->tolerance == 0 || !(error / tolerance <= row->error / row->tolerance)) {
            row->error = error;
            row->tolerance = tolerance;
            row->reason = sm_op_get_info(op->kind)->out[k].name;
        }
    }
    return SM_OK;
}

// Inputs that the op only reads must not have changed, bit for bit.
static sm_status compare_inputs(const op_case *c, sm_verify_row *row) {
    const sm_op *op = &c->plan[DEVICE]->ops[c->plan[DEVICE]->n_ops - 1];
    for (int k = 0; k < SM_MAX_IN; k++) {
        int tensor = op->in[k];
        if (tensor == SM_NO_TENSOR || device_tensor(c, tensor)->role != SM_ROLE_BATCH) {
            continue;
        }
        SM_TRY(transfer(c, DEVICE, false, tensor, c->values[DEVICE]));
        sm_op_text_fill(c->text, c->seed, c->plan[DEVICE], tensor, c->raw);
        if (memcmp(c->values[DEVICE], c->raw, sm_tensor_bytes(device_tensor(c, tensor))) != 0) {
            row->error = INFINITY;
            row->reason = sm_op_get_info(op->kind)->in[k].name;
        }
    }
    return SM_OK;
}

static sm_status check_case(checker *check, sm_op_kind kind, const char *text, uint64_t seed) {
    SM_AT_END(close_case) op_case c = {.check = check, .kind = kind, .text = text, .seed = seed};
    sm_verify_row row = {.check = sm_op_name(kind), .subject = text, .reason = ""};
    const sm_status status = open_case(&c);
    if (status == SM_ERR_UNSUPPORTED) {
        row.ok = row.skipped = true;
        row.reason = sm_error_message();
    } else {
        SM_TRY(status);
        SM_TRY(feed(&c));
        SM_TRY(run(&c));
        SM_TRY(compare_outputs(&c, &row));
        SM_TRY(compare_inputs(&c, &row));
        row.ok = row.error <= row.tolerance;
        row.reason = row.ok ? "" : row.reason;
        check->n_failed += !row.ok;
    }
    check->report(&row, check->context);
    return SM_OK;
}

// --- all cases ------------------------------------------------------------------------

static sm_status is_wanted(const sm_verify_filter *filter, sm_op_kind kind, int index, const char *text,
                           sm_precision precision, bool *wanted) {
    char name[2 * SM_CASE_TEXT_SIZE];
    snprintf(name, sizeof name, "%s %s", sm_op_name(kind), text);
    *wanted = filter == NULL || filter->pattern == NULL || sm_pattern_matches(filter->pattern, name);
    *wanted = *wanted && (!sm_op_case_is_fp8(kind, text) || precision.products == SM_PRODUCTS_FP8);
    *wanted = *wanted && (filter == NULL || !filter->naive_only || sm_op_case_is_naive(kind, index));
    if (*wanted && filter != NULL && filter->max_elems > 0) {
        SM_OWN(sm_plan) *plan = NULL;
        SM_TRY(sm_op_case_plan(kind, index, precision, &plan));
        *wanted = largest_tensor(plan) <= filter->max_elems;
    }
    return SM_OK;
}

static void check_has_cases(checker *check, const sm_verify_filter *filter, sm_op_kind kind) {
    const bool is_named =
        filter == NULL || filter->pattern == NULL || sm_pattern_matches(filter->pattern, sm_op_name(kind));
    if (is_named && !sm_op_is_communication(kind) && sm_op_case_count(kind) == 0) {
        const sm_verify_row row = {.check = sm_op_name(kind), .subject = "", .reason = "it has no cases"};
        check->report(&row, check->context);
        check->n_failed++;
    }
}

sm_status sm_verify_ops(sm_device *device, sm_precision precision, const sm_verify_filter *filter,
                        sm_verify_report report, void *context) {
    SM_OWN(sm_device) *reference = NULL;
    SM_TRY(sm_backend_find("reference")->open(0, &(sm_open_options){0}, &reference));
    checker check = {.device = {device, reference},
                     .precision = {precision, {.dtype = wide(precision.dtype)}},
                     .report = report,
                     .context = context};
    const bool is_one = filter != NULL && filter->text != NULL;
    int n_cases = is_one;
    SM_TRY(is_one ? check_case(&check, filter->kind, filter->text, 0) : SM_OK);
    for (int kind = is_one ? SM_OP_KIND_COUNT : 0; kind < SM_OP_KIND_COUNT; kind++) {
        check_has_cases(&check, filter, (sm_op_kind)kind);
        for (int i = 0; i < sm_op_case_count((sm_op_kind)kind); i++) {
            char text[SM_CASE_TEXT_SIZE];
            bool wanted = false;
            sm_op_case_text((sm_op_kind)kind, i, text);
            SM_TRY(is_wanted(filter, (sm_op_kind)kind, i, text, precision, &wanted));
            SM_TRY(wanted ? check_case(&check, (sm_op_kind)kind, text, (uint64_t)i) : SM_OK);
            n_cases += wanted;
        }
    }
    SM_FAIL_IF(check.n_failed > 0, SM_ERR_MISMATCH, "%s: %d of %d op cases differ from the reference", device->info.id,
               check.n_failed, n_cases);
    return SM_OK;
}
