// spot_rows.c: checks ops that work row by row: the reference backend computes drawn rows.
//
// The first letter of an op's first output counts its rows: "(N,C)" has N rows, "(B,T,C)" has B T, "(n)" runs of
// elements. A small plan gets the drawn rows of operands with that many rows, and other operands whole.
#include "src/plan/host_threads.h"
#include "src/verify/spot.h"
#include "src/verify/verify.h"

enum { RUN_ELEMS = 64 }; // of ops without rows

// Verify's tolerances assume numbers of similar size (op_cases.h); those of a training differ more.
static const double tolerance_in_verify = 4;
// Least size of a row, as a share of the largest in the sample: the error of a smaller row is relative to this. Outputs
// with one number for each row are all relative to the largest.
static const double least_share = 0.01;

typedef struct {
    bool by_rows;
    int64_t per_row; // elements
    int64_t n;       // elements in the small plan
    void *values;    // their values before the op: floats, or ids
} operand;

typedef struct {
    int64_t n_rows; // drawn; 0: all rows
    int64_t *rows;
    int64_t row_elems; // length of a run, for an op without rows; else 0
    union {            // as in sm_op
        struct {
            operand in[SM_MAX_IN];
            operand out[SM_MAX_OUT];
        };
        operand operands[SM_MAX_OPERANDS];
    };
} sample;

static bool is_ids(const sm_tensor *t) { return t->dtype == SM_I32 || t->dtype == SM_U32; }

// --- which rows ------------------------------------------------------------------------------

static bool is_led_by(const char *shape, char letter) {
    return shape[1] == letter && (shape[2] == ',' || shape[2] == ')');
}

static void draw(spot *s, sample *p) {
    const sm_op_info *info = sm_op_get_info(s->op.kind);
    const char *shape = info->out[0].shape;
    const sm_tensor *t = spot_out(s, 0);
    const int64_t elems = sm_tensor_elems(t);
    int64_t total = strncmp(shape, "(B,T", 4) == 0 ? t->dims[0] * t->dims[1]
                    : strcmp(shape, "(N)") == 0    ? elems
                    : is_led_by(shape, 'N')        ? sm_tensor_rows(t)
                                                   : 0;
    if (strcmp(shape, "(n)") == 0) {
        p->row_elems = RUN_ELEMS;
        total = elems / RUN_ELEMS; // a shorter last run is drawn only if it is the only one
    }
    if (total == 0) {
        return;
    }
    const int64_t n = spot_n_rows(s, total);
    p->n_rows = spot_strata(s, total, n, SPOT_NEW(s, p->rows, n));
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        if (info->operands[k].name != NULL) {
            p->operands[k].by_rows = is_led_by(info->operands[k].shape, shape[1]);
            p->operands[k].per_row = s->op.operands[k] == SM_NO_TENSOR ? 0
                                     : p->row_elems > 0                ? p->row_elems
                                                                       : sm_tensor_elems(spot_operand(s, k)) / total;
        }
    }
}

// --- reading ---------------------------------------------------------------------------------

static sm_status read_operand(spot *s, const sample *p, const operand *o, int tensor, void *values) {
    const sm_tensor *t = &s->plan->tensors[tensor];
    const int64_t n = o->by_rows ? p->n_rows : 1;
    const int64_t length = o->by_rows ? o->per_row : sm_tensor_elems(t);
    for (int64_t i = 0; i < n; i++) {
        const int64_t first = o->by_rows ? p->rows[i] * length : 0;
        SM_TRY(is_ids(t) ? spot_read_ids(s, tensor, first, length, (int32_t *)values + i * length)
                         : spot_read(s, tensor, first, length, (float *)values + i * length));
    }
    return SM_OK;
}

static sm_status read_before(spot *s, sample *p) {
    const sm_op_info *info = sm_op_get_info(s->op.kind);
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        operand *o = &p->operands[k];
        const int tensor = s->op.operands[k];
        if (tensor != SM_NO_TENSOR) {
            o->n = o->by_rows ? p->n_rows * o->per_row : sm_tensor_elems(spot_operand(s, k));
            o->values = spot_memory(s, o->n, sizeof(float));
            if (k < SM_MAX_IN || info->operands[k].mode == SM_UPDATES) { // another check covers sums over all rows
                SM_TRY(read_operand(s, p, o, tensor, o->values));
            }
        }
    }
    return SM_OK;
}

// --- the reference ---------------------------------------------------------------------------

// The operand's tensor in the small plan.
static int add_tensor(sm_plan *plan, const sample *p, const operand *o, const sm_tensor *t, const char *name,
                      const char *shape) {
    int64_t dims[SM_MAX_DIMS] = {p->n_rows, o->per_row};
    int n_dims = strchr(shape, ',') != NULL ? 2 : 1;
    if (o->by_rows && strncmp(shape, "(B,T", 4) == 0) {
        n_dims = shape[4] == ')' ? 2 : 3;
        dims[1] = 1;
        dims[2] = o->per_row;
    } else if (o->by_rows && n_dims == 1) {
        dims[0] = o->n;
    } else if (!o->by_rows) {
        n_dims = t->n_dims;
        memcpy(dims, t->dims, sizeof dims);
    }
    return sm_plan_add_tensor(plan, SM_ROLE_OPTIMIZER, is_ids(t) || t->dtype == SM_U8 ? t->dtype : SM_F32, n_dims, dims,
                              "%s", name);
}

static sm_status build(const spot *s, const sample *p, sm_plan *plan) {
    const sm_op_info *info = sm_op_get_info(s->op.kind);
    sm_op op = s->op;
    op.range = SM_PHASE_FORWARD;
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        int *tensor = &op.operands[k];
        if (*tensor != SM_NO_TENSOR) {
            *tensor = add_tensor(plan, p, &p->operands[k], spot_operand(s, k), info->operands[k].name,
                                 info->operands[k].shape);
        } else if (op.kind == SM_OP_ROPE && k == SM_IN(rope, starts)) { // gives the rows their positions
            *tensor = sm_plan_add_tensor(plan, SM_ROLE_OPTIMIZER, SM_I32, 2, (int64_t[]){p->n_rows, 1}, "starts");
        }
    }
    return sm_plan_add_op(plan, &op);
}

static sm_status write_operand(sm_session *reference, int tensor, const operand *o) {
    const sm_tensor *t = &reference->plan->tensors[tensor];
    return is_ids(t)
               ? reference->device->backend->upload(reference->executable, tensor, 0, sm_tensor_elems(t), o->values)
               : sm_session_write(reference, tensor, sm_tensor_elems(t), o->values);
}

// --- comparing -------------------------------------------------------------------------------

static double largest(int64_t n, const float *values) {
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        const double size = values[i] < 0 ? -(double)values[i] : (double)values[i];
        most = size > most ? size : most;
    }
    return most;
}

// The size of the numbers that cancel in an output, which is as uncertain as they are: those that a mean averages; the
// logits, when the loss of a trained model is next to 0, or a probability next to 1.
static double cancelled_size(const spot *s, const sample *p, int k) {
    const operand *x = &p->in[0];
    const double most = largest(x->n, x->values);
    const bool is_both = s->op.kind == SM_OP_CROSSENTROPY_WITH_GRADIENT;
    if (is_both ? k == SM_OUT(crossentropy_with_gradient, losses)
                : s->op.kind == SM_OP_CROSSENTROPY_FORWARD && k == SM_OUT(crossentropy_forward, losses)) {
        return most;
    }
    if (is_both || s->op.kind == SM_OP_CROSSENTROPY_BACKWARD) {
        const int at = is_both ? SM_IN(crossentropy_with_gradient, scale) : SM_IN(crossentropy_backward, scale);
        const float *scale = p->in[at].values;
        return fabs((double)scale[0]) * (most > 1 ? most : 1);
    }
    const bool is_mean = strcmp(sm_op_get_info(s->op.kind)->out[k].name, "mean") == 0;
    return is_mean ? most / sqrt((double)x->per_row) : 0;
}

// Least size of an output's numbers.
static double least_size(const spot *s, const sample *p, int k, const float *want) {
    const operand *o = &p->out[k];
    const double most = (o->per_row == 1 ? 1 : least_share) * largest(o->n, want);
    const double cancelled = cancelled_size(s, p, k);
    return most > cancelled ? most : cancelled;
}

static sm_status compare(spot *s, const sample *p, int k, const float *want) {
    const sm_op_info *info = sm_op_get_info(s->op.kind);
    const operand *o = &p->out[k];
    float *got = o->values;
    const int64_t length = o->by_rows ? o->per_row : o->n;
    const int64_t sum_length = p->n_rows > 0 ? p->in[0].per_row : p->in[0].n;
    const bool is_exact = s->op.kind == SM_OP_SCALE_UPDATE; // powers of two
    const double tolerance = tolerance_in_verify * sm_verify_tolerance(s->plan, &s->op, k, sum_length);
    const bool is_code = spot_out(s, k)->dtype == SM_U8; // of which the next may be as right
    const double least = least_size(s, p, k, want);
    SM_TRY(read_operand(s, p, o, s->op.out[k], got));
    for (int64_t first = 0; first < o->n; first += length) {
        const double most = largest(length, want + first);
        for (int64_t i = first; i < first + length; i++) {
            spot_compare(s, info->out[k].name, (double)got[i], (double)want[i],
                         is_exact ? 0
                         : is_code
                             ? 1
                             : tolerance * (most > least ? most : least) + 2 * spot_store_error(spot_out(s, k), 0));
        }
    }
    return SM_OK;
}

// --- the looks -------------------------------------------------------------------------------

static sm_status begin(spot *s, bool is_whole) {
    sample *p = s->state = spot_memory(s, 1, sizeof *p);
    if (!is_whole) {
        draw(s, p);
    }
    SM_TRY(read_before(s, p));
    if (s->op.kind == SM_OP_ROPE) { // a row becomes a sequence of one token; `starts` gives it its original position
        operand *o = &p->in[SM_IN(rope, starts)];
        if (s->op.in[SM_IN(rope, starts)] == SM_NO_TENSOR) {
            o->values = spot_memory(s, p->n_rows, sizeof(int32_t));
            o->n = p->n_rows;
            o->per_row = 1;
        }
        int32_t *starts = o->values;
        for (int64_t i = 0; i < p->n_rows; i++) {
            starts[i] -= (int32_t)(p->rows[i] % s->plan->T);
        }
    }
    return SM_OK;
}

static sm_status begin_rows(spot *s) { return begin(s, false); }
static sm_status begin_whole(spot *s) { return begin(s, true); }

// A step with gradients that are not finite is skipped: ops do nothing if clip is negative.
static bool is_skipped(const spot *s, const sample *p) {
    const int clip = sm_op_find_in(s->op.kind, "clip");
    return clip != SM_NO_OPERAND && s->op.kind != SM_OP_SCALER_UPDATE && *(const float *)p->in[clip].values < 0;
}

// The reference's result for the sample, or for a part of its rows.
static sm_status compute(const spot *s, const sample *p, float *const want[SM_MAX_OUT]) {
    SM_OWN(sm_device) *device = NULL;
    SM_OWN(sm_session) *reference = NULL;
    SM_OWN(sm_plan) *plan = sm_plan_new(SM_F32);
    plan->V = s->plan->V;
    SM_TRY(build(s, p, plan));
    SM_TRY(sm_backend_find("reference")->open(0, &(sm_open_options){.n_threads = 1}, &device));
    SM_TRY(sm_session_open(device, sm_give(&plan), &reference));
    const sm_op *op = &reference->plan->ops[0];
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        SM_TRY(op->operands[k] != SM_NO_TENSOR ? write_operand(reference, op->operands[k], &p->operands[k]) : SM_OK);
    }
    SM_TRY(sm_session_run(reference, SM_RUN_FORWARD, NULL));
    for (int k = 0; k < SM_MAX_OUT; k++) {
        SM_TRY(want[k] != NULL ? sm_session_read(reference, op->out[k], p->out[k].n, want[k]) : SM_OK);
    }
    return SM_OK;
}

static void take_part(operand *o, int64_t first_row, int64_t n_rows) {
    if (o->by_rows && o->values != NULL) {
        o->n = n_rows * o->per_row;
        o->values = (float *)o->values + first_row * o->per_row; // ids are as large
    }
}

// The reference is serial: each thread computes a part of the rows.
static sm_status compute_in_parts(const spot *s, const sample *p, float *const want[SM_MAX_OUT]) {
    const int n_parts = (int)(p->n_rows < sm_few_host_threads() ? p->n_rows : sm_few_host_threads());
    sm_status status = SM_OK;
#pragma omp parallel for schedule(static) num_threads(n_parts)
    for (int i = 0; i < n_parts; i++) {
        sample part = *p;
        float *its_want[SM_MAX_OUT];
        const int64_t first = p->n_rows * i / n_parts;
        part.n_rows = p->n_rows * (i + 1) / n_parts - first;
        part.rows += first;
        for (int k = 0; k < SM_MAX_OPERANDS; k++) {
            take_part(&part.operands[k], first, part.n_rows);
        }
        for (int k = 0; k < SM_MAX_OUT; k++) {
            its_want[k] = want[k] != NULL ? want[k] + first * p->out[k].per_row : NULL;
        }
        const sm_status its_status = compute(s, &part, its_want);
#pragma omp critical
        status = its_status != SM_OK ? its_status : status;
    }
    return status == SM_OK ? SM_OK
                           : sm_fail(status, "spot check: the reference cannot compute %lld rows in %d threads",
                                     (long long)p->n_rows, n_parts);
}

static sm_status end(spot *s) {
    sample *p = s->state;
    float *want[SM_MAX_OUT] = {NULL};
    int64_t n_elems = 0;
    if (is_skipped(s, p)) {
        return SM_OK;
    }
    for (int k = 0; k < SM_MAX_OUT; k++) {
        if (s->op.out[k] != SM_NO_TENSOR && (p->n_rows == 0 || p->out[k].by_rows)) {
            SPOT_NEW(s, want[k], p->out[k].n);
        }
    }
    for (int k = 0; k < SM_MAX_IN; k++) {
        n_elems += p->in[k].n;
    }
    SM_TRY(p->n_rows > 0 && n_elems > SPOT_FEW_ELEMS ? compute_in_parts(s, p, want) : compute(s, p, want));
    for (int k = 0; k < SM_MAX_OUT; k++) {
        SM_TRY(want[k] != NULL ? compare(s, p, k, want[k]) : SM_OK);
    }
    return SM_OK;
}

const spot_look spot_rows = {begin_rows, end};
const spot_look spot_whole = {begin_whole, end};
