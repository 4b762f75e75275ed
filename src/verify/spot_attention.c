// spot_attention.c: checks attention of every kind: rows of drawn heads from each sequence, at positions drawn from
// another quarter of T each time (Vaswani et al. 2017, equation 1; its gradients as in op_table.h).
//
// A row of the output, or of the queries' gradient, needs the keys and values before it; rows of the gradients of keys
// and values need the rows after them. All is computed in double from the device's data.
#include "philox.h"
#include "src/plan/host_threads.h"
#include "src/verify/spot.h"
#include "src/verify/verify.h"

enum { MOST_SEQUENCES = 32, LEAST_ROWS = 8, MOST_CHANNELS = 4096 };

static const double tolerance_in_verify = 4;
// Least size of a row, as a share of the largest in the sample: the error of a smaller row is relative to this.
static const double least_share = 0.02;

// One sequence of the batch, read from the device.
typedef struct {
    int64_t B, T, NH, NKV, HS, QKV, C;
    bool is_flash;
    double scale;        // 1 / sqrt(HS)
    double p;            // dropout
    double least_normal; // of the data's format
    uint64_t key, step;
    const int32_t *starts; // (B,T), or NULL
    int64_t b;             // index of the sequence
    float *qkv;            // (T,QKV)
    float *y, *dy, *out;   // (T,C), (T,C), (T,C or QKV): the op's result
    float *rows;           // lse (NH,T)
    float *att;            // of one head, rows as stored
    double *weights;       // (T)
    double *D, *D_size;    // (T): for one head, once computed
    double *roundings;     // (T): of one row's weights, relative
    spot_mean mean;
    double most[3]; // the largest of y, or of dq, dk, dv, in earlier rows; 0 at first
} sequence;

// A sum's size: its terms' magnitudes, and the root of their squares. `rounding`: of its factor, relative to f32's.
typedef struct {
    double size, norm, rounding;
} extent;

static extent extent_of(int64_t n, const float *x, const float *y) {
    extent e = {.size = 0};
    for (int64_t i = 0; i < n; i++) {
        const double term = fabs((double)x[i] * (double)y[i]);
        e.size += term;
        e.norm += term * term;
    }
    e.norm = sqrt(e.norm);
    return e;
}

static double dot(int64_t n, const float *x, const float *y) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        sum += (double)x[i] * (double)y[i];
    }
    return sum;
}

static double sum_rounding(const sequence *q) { return 4 + sqrt((double)(q->T > q->HS ? q->T : q->HS)); }

static int64_t first_key(const sequence *q, int64_t t) { return q->starts == NULL ? 0 : q->starts[q->b * q->T + t]; }

static const float *query(const sequence *q, int64_t h, int64_t t) { return q->qkv + t * q->QKV + h * q->HS; }
static int64_t group(const sequence *q, int64_t h) { return h / (q->NH / q->NKV); }
static const float *key(const sequence *q, int64_t h, int64_t t) {
    return q->qkv + t * q->QKV + (q->NH + group(q, h)) * q->HS;
}
static const float *value(const sequence *q, int64_t h, int64_t t) { return key(q, h, t) + q->NKV * q->HS; }

// Dropout's factor on the weight of row t and key s.
static double keeps(const sequence *q, int64_t h, int64_t t, int64_t s) {
    if (q->p == 0) {
        return 1;
    }
    const uint64_t element = (uint64_t)(((q->b * q->NH + h) * q->T + t) * q->T + s);
    return sm_dropout_keeps(q->key, q->step, element, sm_dropout_threshold(q->p)) ? 1 / (1 - q->p) : 0;
}

// --- reading ---------------------------------------------------------------------------------

static sm_status open_sequences(spot *s, int C_operand, sequence *q) {
    const int rng_step = sm_op_tensor(&s->op, "rng_step");
    const int starts = sm_op_tensor(&s->op, "starts");
    const sm_tensor *t = &s->plan->tensors[sm_op_tensor(&s->op, "qkv")];
    const sm_attrs *attr = &s->op.attr;
    q->B = t->dims[0];
    q->T = t->dims[1];
    q->QKV = t->dims[2];
    q->NH = attr->n_head;
    q->NKV = attr->n_kv_head;
    q->HS = q->QKV / (q->NH + 2 * q->NKV);
    q->C = sm_tensor_cols(&s->plan->tensors[C_operand]);
    q->scale = 1 / sqrt((double)q->HS);
    q->least_normal = sm_dtype_format(t->dtype)->least_normal;
    q->key = attr->rng_key;
    SM_FAIL_IF(q->HS > MOST_CHANNELS, SM_ERR_UNSUPPORTED, "spot check: heads of %lld channels; it checks up to %d",
               (long long)q->HS, MOST_CHANNELS);
    SPOT_NEW(s, q->qkv, q->T * q->QKV);
    SPOT_NEW(s, q->out, q->T * q->QKV);
    q->D = SPOT_NEW(s, q->weights, 4 * q->T) + q->T;
    q->D_size = q->D + q->T;
    q->roundings = q->D_size + q->T;
    if (rng_step != SM_NO_TENSOR && attr->dropout_p > 0) {
        int32_t words[2];
        SM_TRY(spot_read_ids(s, rng_step, 0, 2, words));
        q->step = (uint32_t)words[0] | (uint64_t)(uint32_t)words[1] << 32;
        q->p = attr->dropout_p;
    }
    if (starts != SM_NO_TENSOR) {
        int32_t *ids;
        SM_TRY(spot_read_all_ids(s, starts, &ids));
        q->starts = ids;
    }
    return SM_OK;
}

static sm_status read_sequence(spot *s, int tensor, int64_t row_elems, const sequence *q, float *values) {
    return spot_read(s, tensor, q->b * q->T * row_elems, q->T * row_elems, values);
}

// Rows to draw from each of n sequences.
static int64_t rows_of_each(int64_t n) { return n < LEAST_ROWS ? (LEAST_ROWS + n - 1) / n : 1; }

// A row in quarter `i` of T.
static int64_t draw_row(spot *s, const sequence *q, int64_t i) {
    const int64_t first = i % 4 * q->T / 4;
    const int64_t end = (i % 4 + 1) * q->T / 4;
    return end > first ? first + spot_draw(s, end - first) : spot_draw(s, q->T);
}

// --- a row's weights -------------------------------------------------------------------------

// The rounding of a weight that is computed from its score, and of a sum over it.
static double weight_rounding(const sequence *q, int64_t h, int64_t t, int64_t k) {
    return sum_rounding(q) + extent_of(q->HS, query(q, h, t), key(q, h, k)).size * q->scale;
}

// weights[s] = exp(q_t k_s / sqrt(HS) - lse) from first_key to t; returns lse.
static double find_weights(const sequence *q, int64_t h, int64_t t) {
    double most = -INFINITY;
    double sum = 0;
    for (int64_t k = first_key(q, t); k <= t; k++) {
        q->weights[k] = dot(q->HS, query(q, h, t), key(q, h, k)) * q->scale;
        q->roundings[k] = weight_rounding(q, h, t, k);
        most = fmax(most, q->weights[k]);
    }
    for (int64_t k = first_key(q, t); k <= t; k++) {
        sum += exp(q->weights[k] - most);
    }
    const double lse = most + log(sum);
    for (int64_t k = first_key(q, t); k <= t; k++) {
        q->weights[k] = exp(q->weights[k] - lse);
    }
    return lse;
}

// One weight as the backward reads it: stored, or from the stored lse.
static double kept_weight(const sequence *q, int64_t h, int64_t t, int64_t k) {
    return q->is_flash ? exp(dot(q->HS, query(q, h, t), key(q, h, k)) * q->scale - (double)q->rows[h * q->T + t])
                       : (double)q->att[t * q->T + k];
}

// --- comparing -------------------------------------------------------------------------------

// A row's values and their sensitivity to rounding.
typedef struct {
    double want[MOST_CHANNELS];
    double squares[MOST_CHANNELS]; // of terms with the precision of the data or products
    double sizes[MOST_CHANNELS];   // of terms with f32's precision: their rounding remains when such sums cancel
    double units[MOST_CHANNELS];   // squares of the terms' roundings
} row;

// The limit of the mean error: kernels in f32 have at most half of it.
static const double roundings_in_unit = 4 * 0x1p-24;

static double f32_tolerance(const sequence *q) { return 4 * 0x1p-23 * (32 + 4 * sqrt((double)q->T)); }

static void compare_row(spot *s, const char *operand, double tolerance, sequence *q, const float *got, const row *r,
                        double *most) {
    double largest = 0;
    for (int64_t i = 0; i < q->HS; i++) {
        largest = fmax(largest, fabs(r->want[i]));
    }
    *most = fmax(*most, largest);
    const double size = fmax(largest, least_share * *most);
    for (int64_t i = 0; i < q->HS; i++) {
        spot_compare(s, operand, got[i], r->want[i],
                     tolerance * fmax(size, sqrt(r->squares[i])) + f32_tolerance(q) * r->sizes[i] +
                         2 * spot_store_error(spot_out(s, 0), 0));
        spot_add_error(&q->mean, got[i] - r->want[i],
                       roundings_in_unit * hypot(sqrt(r->units[i]), sum_rounding(q) * r->want[i]));
    }
}

static double tolerance_of(const spot *s, const sequence *q, int output) {
    return tolerance_in_verify * sm_verify_tolerance(s->plan, &s->op, output, q->T);
}

// --- forward ---------------------------------------------------------------------------------

// Both kinds of attention have these operands at the same indices.
_Static_assert(SM_IN(attention_forward, qkv) == SM_IN(flash_attention_forward, qkv) &&
                   SM_OUT(attention_forward, att) == SM_OUT(flash_attention_forward, lse),
               "one look at all kinds");

static sm_status compare_kept(spot *s, sequence *q, int64_t h, int64_t t, double lse) {
    const int kept = s->op.out[SM_OUT(attention_forward, att)];
    const int64_t head = q->b * q->NH + h;
    const double tolerance = tolerance_of(s, q, 1);
    if (q->is_flash) {
        float got = 0;
        SM_TRY(spot_read(s, kept, head * q->T + t, 1, &got));
        spot_compare(s, "lse", got, lse, tolerance * fmax(1, fabs(lse)));
        return SM_OK;
    }
    SM_TRY(spot_read(s, kept, (head * q->T + t) * q->T, q->T, q->rows));
    double most = 0;
    for (int64_t k = first_key(q, t); k <= t; k++) {
        most = fmax(most, q->weights[k]);
    }
    for (int64_t k = 0; k < q->T; k++) {
        const bool is_seen = k >= first_key(q, t) && k <= t;
        spot_compare(s, "att", q->rows[k], is_seen ? q->weights[k] : 0, is_seen ? tolerance * most : 0);
        if (is_seen) {
            spot_add_error(&q->mean, q->rows[k] - q->weights[k], roundings_in_unit * q->roundings[k] * q->weights[k]);
        }
    }
    return SM_OK;
}

static sm_status look_at_row(spot *s, sequence *q, int64_t h, int64_t t) {
    row r = {.want = {0}};
    const double lse = find_weights(q, h, t);
    SM_TRY(compare_kept(s, q, h, t, lse));
    for (int64_t k = first_key(q, t); k <= t; k++) {
        const double weight = q->weights[k] * keeps(q, h, t, k);
        const float *v = value(q, h, k);
        for (int64_t i = 0; i < q->HS; i++) {
            const double term = weight * v[i];
            r.want[i] += term;
            r.squares[i] += term * term;
            r.units[i] += q->roundings[k] * term * q->roundings[k] * term;
        }
    }
    compare_row(s, "y", tolerance_of(s, q, 0), q, q->out + t * q->C + h * q->HS, &r, &q->most[0]);
    return SM_OK;
}

static sm_status end_forward(spot *s) {
    sequence q = {.is_flash = s->op.kind == SM_OP_FLASH_ATTENTION_FORWARD};
    int64_t sequences[MOST_SEQUENCES];
    const int qkv = s->op.in[SM_IN(attention_forward, qkv)];
    const int y = s->op.out[SM_OUT(attention_forward, y)];
    SM_TRY(open_sequences(s, y, &q));
    SPOT_NEW(s, q.rows, q.T);
    const int64_t n = spot_strata(s, q.B, MOST_SEQUENCES, sequences);
    const int64_t n_rows = rows_of_each(n);
    for (int64_t i = 0; i < n * n_rows; i++) {
        if (i % n_rows == 0) {
            q.b = sequences[i / n_rows];
            SM_TRY(read_sequence(s, qkv, q.QKV, &q, q.qkv));
            SM_TRY(read_sequence(s, y, q.C, &q, q.out));
        }
        SM_TRY(look_at_row(s, &q, spot_draw(s, q.NH), draw_row(s, &q, i)));
    }
    spot_compare_mean(s, "y", &q.mean);
    return SM_OK;
}

const spot_look spot_attention = {NULL, end_forward};

// --- backward --------------------------------------------------------------------------------

_Static_assert(SM_IN(attention_backward, dy) == SM_IN(flash_attention_backward, dy) &&
                   SM_IN(attention_backward, qkv) == SM_IN(flash_attention_backward, qkv),
               "one look at all kinds");

static const float *dy_of(const sequence *q, int64_t h, int64_t t) { return q->dy + t * q->C + h * q->HS; }

// D of row t: sum_s att da, which is dy y; and the sum of its terms' magnitudes.
static void find_D(sequence *q, int64_t h, int64_t t) {
    q->D[t] = q->D_size[t] = 0;
    if (q->is_flash) {
        q->D[t] = dot(q->HS, dy_of(q, h, t), q->y + t * q->C + h * q->HS);
        q->D_size[t] = extent_of(q->HS, dy_of(q, h, t), q->y + t * q->C + h * q->HS).size;
        return;
    }
    for (int64_t k = first_key(q, t); k <= t; k++) {
        const double weight = kept_weight(q, h, t, k) * keeps(q, h, t, k);
        q->D[t] += weight * dot(q->HS, dy_of(q, h, t), value(q, h, k));
        q->D_size[t] += weight * extent_of(q->HS, dy_of(q, h, t), value(q, h, k)).size;
    }
}

// The gradient of a score, a difference of two sums; and the size of their terms.
static double ds_of(const spot *s, const sequence *q, int64_t h, int64_t t, int64_t k, double weight, extent *made_of) {
    const double kept = keeps(q, h, t, k);
    const extent da = extent_of(q->HS, dy_of(q, h, t), value(q, h, k));
    const bool is_rounded = s->plan->products == SM_PRODUCTS_TF32;
    made_of->rounding = q->is_flash ? weight_rounding(q, h, t, k) : sum_rounding(q);
    made_of->size = weight * (kept * da.size + q->D_size[t]) * q->scale;
    const double ds = weight * (kept * dot(q->HS, dy_of(q, h, t), value(q, h, k)) - q->D[t]) * q->scale;
    made_of->norm = is_rounded ? hypot(ds, weight * kept * da.norm * q->scale) : ds;
    return ds;
}

static sm_status read_att(spot *s, const sequence *q, int64_t h) {
    const int64_t n_elems = q->T * q->T;
    return q->is_flash
               ? SM_OK
               : spot_read(s, s->op.in[SM_IN(attention_backward, att)], (q->b * q->NH + h) * n_elems, n_elems, q->att);
}

// Matrix units take factors in the data's format; below its least normal number they are rounded to a fixed step.
static void add_terms(row *r, const sequence *q, double factor, const extent *made_of, const float *channels) {
    const double rounded = fabs(made_of->norm) + q->least_normal;
    for (int64_t i = 0; i < q->HS; i++) {
        const double channel = channels[i];
        r->want[i] += factor * channel;
        r->squares[i] += rounded * channel * rounded * channel;
        r->sizes[i] += made_of->size * fabs(channel);
        const double unit = hypot(made_of->rounding * factor, (4 + sqrt((double)q->HS)) * made_of->size) * channel;
        r->units[i] += unit * unit;
    }
}

// Checks the gradient of a head's query at row t.
static sm_status look_at_query(spot *s, sequence *q, int64_t h, int64_t t) {
    row r = {.want = {0}};
    SM_TRY(read_att(s, q, h));
    find_D(q, h, t);
    for (int64_t k = first_key(q, t); k <= t; k++) {
        extent made_of;
        const double ds = ds_of(s, q, h, t, k, kept_weight(q, h, t, k), &made_of);
        add_terms(&r, q, ds, &made_of, key(q, h, k));
    }
    compare_row(s, "dq", tolerance_of(s, q, 0), q, q->out + t * q->QKV + h * q->HS, &r, &q->most[0]);
    return SM_OK;
}

// Checks the gradients of a key and a value at row k, summed over the heads of queries that share them.
static sm_status look_at_key(spot *s, sequence *q, int64_t kv, int64_t k) {
    row dk = {.want = {0}};
    row dv = {.want = {0}};
    const int64_t n = q->NH / q->NKV;
    for (int64_t h = kv * n; h < (kv + 1) * n; h++) {
        SM_TRY(read_att(s, q, h));
        int64_t end = k; // of the rows that see the key
        while (end < q->T && first_key(q, end) <= k) {
            end++;
        }
#pragma omp parallel for schedule(dynamic, 8) if (!q->is_flash) num_threads(sm_few_host_threads())
        for (int64_t t = k; t < end; t++) {
            find_D(q, h, t);
        }
        for (int64_t t = k; t < end; t++) {
            const double weight = kept_weight(q, h, t, k);
            const double kept = weight * keeps(q, h, t, k);
            extent made_of;
            const double ds = ds_of(s, q, h, t, k, weight, &made_of);
            add_terms(&dk, q, ds, &made_of, query(q, h, t));
            add_terms(&dv, q, kept, &(extent){kept, kept, made_of.rounding}, dy_of(q, h, t));
        }
    }
    const float *got = q->out + k * q->QKV + (q->NH + kv) * q->HS;
    compare_row(s, "dk", tolerance_of(s, q, 0), q, got, &dk, &q->most[1]);
    compare_row(s, "dv", tolerance_of(s, q, 0), q, got + q->NKV * q->HS, &dv, &q->most[2]);
    return SM_OK;
}

static sm_status read_backward(spot *s, sequence *q, int64_t b) {
    q->b = b;
    SM_TRY(read_sequence(s, s->op.in[SM_IN(attention_backward, qkv)], q->QKV, q, q->qkv));
    SM_TRY(read_sequence(s, s->op.in[SM_IN(attention_backward, dy)], q->C, q, q->dy));
    SM_TRY(read_sequence(s, s->op.out[0], q->QKV, q, q->out));
    if (q->is_flash) {
        SM_TRY(read_sequence(s, s->op.in[SM_IN(flash_attention_backward, y)], q->C, q, q->y));
        SM_TRY(read_sequence(s, s->op.in[SM_IN(flash_attention_backward, lse)], q->NH, q, q->rows));
    }
    return SM_OK;
}

static sm_status end_backward(spot *s) {
    sequence q = {.is_flash = s->op.kind == SM_OP_FLASH_ATTENTION_BACKWARD};
    int64_t sequences[MOST_SEQUENCES];
    SM_TRY(open_sequences(s, s->op.in[SM_IN(attention_backward, dy)], &q));
    SPOT_NEW(s, q.dy, q.T * q.C);
    SPOT_NEW(s, q.y, q.T * q.C);
    SPOT_NEW(s, q.rows, q.T * q.NH);
    SPOT_NEW(s, q.att, q.is_flash ? 1 : q.T * q.T);
    const int64_t n = spot_strata(s, q.B, MOST_SEQUENCES, sequences);
    const int64_t n_rows = rows_of_each(n);
    for (int64_t i = 0; i < n * n_rows; i++) {
        SM_TRY(i % n_rows == 0 ? read_backward(s, &q, sequences[i / n_rows]) : SM_OK);
        SM_TRY(look_at_query(s, &q, spot_draw(s, q.NH), draw_row(s, &q, i)));
        SM_TRY(look_at_key(s, &q, spot_draw(s, q.NKV), draw_row(s, &q, i + 1)));
    }
    spot_compare_mean(s, "dqkv", &q.mean);
    return SM_OK;
}

const spot_look spot_attention_backward = {NULL, end_backward};
