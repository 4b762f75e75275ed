// plan.c: building blocks of plans: tensors, views, ops, ranges.
#include <stdarg.h>

#include "plan.h"

SM_WORDS(sm_role_name, sm_role, SM_ROLE_LIST)

SM_WORDS(sm_phase_name, sm_phase, SM_PHASE_LIST)

sm_plan *sm_plan_new(sm_dtype data_type) {
    sm_plan *plan = sm_calloc(1, sizeof *plan);
    plan->dtype = data_type;
    plan->real = data_type == SM_F64 ? SM_F64 : SM_F32;
    plan->tokens = plan->targets = plan->starts = plan->gathered_tokens = plan->hyper = plan->rng_step = SM_NO_TENSOR;
    plan->loss = plan->losses = plan->grad_norm = plan->scaler = SM_NO_TENSOR;
    return plan;
}

void sm_plan_free(sm_plan *plan) {
    if (plan != NULL) {
        free(plan->tensors);
        free(plan->ops);
        free(plan->arenas);
        free(plan->buckets);
        free(plan);
    }
}

sm_precision sm_plan_precision(const sm_plan *plan) { return (sm_precision){plan->dtype, plan->products}; }

sm_status sm_plan_supports_plain_products(const sm_plan *plan, const char *device_id) {
    SM_FAIL_IF(plan->products != SM_PRODUCTS_PLAIN, SM_ERR_UNSUPPORTED,
               "%s: no %s products: it has no instructions for them; use %s", device_id,
               sm_products_name(plan->products), plan->products == SM_PRODUCTS_FP8 ? "bf16" : "fp32");
    return SM_OK;
}

// Fills name and shape; checks that the size in bytes fits comfortably in 63 bits.
static sm_status shape_tensor(sm_tensor *t, int n_dims, const int64_t *dims, const char *format, va_list arguments) {
    vsnprintf(t->name, sizeof t->name, format, arguments);
    SM_FAIL_IF(n_dims < 1 || n_dims > SM_MAX_DIMS, SM_ERR_INTERNAL, "tensor %s: %d dimensions; 1 to %d are possible",
               t->name, n_dims, SM_MAX_DIMS);
    const int64_t most = INT64_MAX / 16; // leaves room for bytes and for sums of a few sizes
    int64_t n_elems = 1;
    t->n_dims = n_dims;
    for (int i = 0; i < n_dims; i++) {
        SM_FAIL_IF(dims[i] < 1 || dims[i] > most / n_elems, SM_ERR_INVALID,
                   "tensor %s: dimension %d is %lld, which makes its size impossible", t->name, i, (long long)dims[i]);
        n_elems *= dims[i];
        t->dims[i] = dims[i];
    }
    t->real_elems = n_elems;
    return SM_OK;
}

static int append_tensor(sm_plan *plan, const sm_tensor *t) {
    if (plan->status != SM_OK) {
        return SM_NO_TENSOR;
    }
    SM_PUSH(plan->tensors, plan->n_tensors, *t);
    return plan->n_tensors - 1;
}

int sm_plan_add_tensor(sm_plan *plan, sm_role role, sm_dtype dtype, int n_dims, const int64_t *dims,
                       const char *name_format, ...) {
    sm_tensor t = {.role = role, .dtype = dtype, .view_of = SM_NO_TENSOR, .working_copy = SM_NO_TENSOR};
    va_list arguments;
    va_start(arguments, name_format);
    plan->status = plan->status == SM_OK ? shape_tensor(&t, n_dims, dims, name_format, arguments) : plan->status;
    va_end(arguments);
    return append_tensor(plan, &t);
}

static sm_status place_view(const sm_plan *plan, int of, int64_t offset_elems, sm_tensor *t) {
    const sm_tensor *parent = &plan->tensors[of];
    SM_FAIL_IF(offset_elems < 0 || offset_elems + t->real_elems > sm_tensor_elems(parent), SM_ERR_INTERNAL,
               "view %s: does not lie within %s", t->name, parent->name);
    t->role = parent->role;
    t->dtype = parent->dtype;
    t->view_of = sm_plan_root(plan, of);
    t->view_offset_elems = offset_elems + (t->view_of == of ? 0 : parent->view_offset_elems);
    return SM_OK;
}

int sm_plan_add_view(sm_plan *plan, int of, int64_t offset_elems, int n_dims, const int64_t *dims,
                     const char *name_format, ...) {
    sm_tensor t = {.working_copy = SM_NO_TENSOR};
    if (of == SM_NO_TENSOR) {
        return SM_NO_TENSOR;
    }
    va_list arguments;
    va_start(arguments, name_format);
    plan->status = plan->status == SM_OK ? shape_tensor(&t, n_dims, dims, name_format, arguments) : plan->status;
    va_end(arguments);
    plan->status = plan->status == SM_OK ? place_view(plan, of, offset_elems, &t) : plan->status;
    return append_tensor(plan, &t);
}

int sm_plan_root(const sm_plan *plan, int tensor) {
    int of = plan->tensors[tensor].view_of;
    return of == SM_NO_TENSOR ? tensor : of;
}

int sm_plan_find_tensor(const sm_plan *plan, const char *name) {
    for (int i = 0; i < plan->n_tensors; i++) {
        if (strcmp(plan->tensors[i].name, name) == 0) {
            return i;
        }
    }
    return SM_NO_TENSOR;
}

bool sm_plan_is_param(const sm_plan *plan, int tensor) {
    const sm_tensor *t = &plan->tensors[tensor];
    return t->role == SM_ROLE_PARAMETER && t->is_saved;
}

sm_op sm_op_make(sm_op_kind kind, sm_phase phase, int layer) {
    sm_op op = {.kind = kind, .range = phase, .phase = phase, .layer = layer};
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        op.operands[k] = SM_NO_TENSOR;
    }
    return op;
}

static sm_status check_added(const sm_plan *plan, const sm_op *op) {
    SM_TRY(sm_op_check(plan, op));
    SM_FAIL_IF(plan->n_ops > 0 && plan->ops[plan->n_ops - 1].range > op->range, SM_ERR_INTERNAL,
               "%s: added to a range that is already over", sm_op_name(op->kind));
    return SM_OK;
}

sm_status sm_plan_add_op(sm_plan *plan, const sm_op *op) {
    plan->status = plan->status == SM_OK ? check_added(plan, op) : plan->status;
    if (plan->status == SM_OK) {
        SM_PUSH(plan->ops, plan->n_ops, *op);
    }
    return plan->status;
}

sm_range sm_plan_range(const sm_plan *plan, sm_phase range) {
    int first = 0;
    while (first < plan->n_ops && plan->ops[first].range < range) {
        first++;
    }
    int end = first;
    while (end < plan->n_ops && plan->ops[end].range == range) {
        end++;
    }
    return (sm_range){first, end};
}
