// attention.c: causal multi-head attention (Vaswani et al. 2017, equation 1). Token t of a
// head mixes the values of tokens s <= t, weighted by how well its query meets their keys.
//
// A row of qkv (B,T,(NH+2NKV)HS) holds the queries, keys and values of one token, head by head, HS channels each: NH of
// q, NKV of k, NKV of v. NH/NKV heads of queries, next to each other, share a head of keys and values (Ainslie et al.
// 2023); in GPT-2 each has its own, NKV = NH. Flash attention (Dao et al. 2022) is the same function of qkv: instead of
// the weights, att (B,NH,T,T), it stores one log-sum-exp a row, lse (B,NH,T), from which backward computes the weights
// again.
//
// Documents that share a row: token t then mixes the values of tokens starts[t] <= s <= t alone.
#include "backends/reference/ref.h"

// One head of one batch row. Token t's query is q[t * qkv_row ..], HS elements; its output, or
// the output's gradient, begins at first_y + t * y_row.
typedef struct {
    int64_t T, HS, qkv_row, y_row;
    int64_t first_q, first_k, first_v; // of [b,0,h] in qkv
    int64_t first_y, first_row;        // of [b,0,h] in y, and of row [b,h,0] of lse
    const int32_t *starts;             // (T), or NULL
    bool first_of_group;               // the first of the heads that share keys and values
    bool unmasked;
    const real *q, *k, *v;
    const ref_mask *mask;
} head;

static head head_at(const ref_attention *a, const real *qkv, int64_t b, int64_t h) {
    int64_t C = a->NH * a->HS;
    int64_t group = a->NH / a->NKV;
    head d = {.T = a->T, .HS = a->HS, .qkv_row = C + 2 * a->NKV * a->HS, .y_row = C, .mask = &a->mask};
    d.unmasked = a->unmasked;
    d.first_q = b * a->T * d.qkv_row + h * a->HS;
    d.first_k = b * a->T * d.qkv_row + (a->NH + h / group) * a->HS;
    d.first_v = d.first_k + a->NKV * a->HS;
    d.first_y = b * a->T * C + h * a->HS;
    d.first_row = (b * a->NH + h) * a->T;
    d.starts = a->starts == NULL ? NULL : a->starts + b * a->T;
    d.first_of_group = h % group == 0;
    d.q = qkv + d.first_q;
    d.k = qkv + d.first_k;
    d.v = qkv + d.first_v;
    return d;
}

// The first token that token t attends to.
static int64_t first_key(const head *d, int64_t t) { return d->starts == NULL ? 0 : d->starts[t]; }

// The last: itself, unless what follows is to be seen, too.
static int64_t last_key(const head *d, int64_t t) { return d->unmasked ? d->T - 1 : t; }

// Dropout's factor on the weight att[b,h,t,s].
static double keep(const head *d, int64_t t, int64_t s) {
    return ref_mask_factor(d->mask, (d->first_row + t) * d->T + s);
}

static double dot(int64_t n, const real *x, const real *y) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)x[i] * (double)y[i];
    }
    return sum;
}

// score[s] = q_t . k_s / sqrt(HS) for starts[t] <= s <= t;  returns lse = log sum_s exp(score[s])
static double scores(const head *d, int64_t t, double *score) {
    double largest = -INFINITY; // subtracted so that exp does not overflow
    for (int64_t s = first_key(d, t); s <= last_key(d, t); s++) {
        score[s] = dot(d->HS, d->q + t * d->qkv_row, d->k + s * d->qkv_row) / sqrt((double)d->HS);
        largest = fmax(largest, score[s]);
    }
    double sum = 0;
    for (int64_t s = first_key(d, t); s <= last_key(d, t); s++) {
        sum += exp(score[s] - largest);
    }
    return largest + log(sum);
}

// weight = softmax(score) = exp(score - lse);  y_t = sum_s dropout(weight)[s] v_s
// Stores the weights in att, or lse; the other is NULL. `weight` (T) is scratch.
static void forward_row(const head *d, int64_t t, real *y, real *att, real *lse, double *weight) {
    double log_sum = scores(d, t, weight);
    if (lse != NULL) {
        lse[d->first_row + t] = (real)log_sum;
    }
    for (int64_t s = first_key(d, t); s <= last_key(d, t); s++) {
        weight[s] = exp(weight[s] - log_sum);
    }
    for (int64_t s = 0; s < d->T && att != NULL; s++) {
        att[(d->first_row + t) * d->T + s] = first_key(d, t) <= s && s <= last_key(d, t) ? (real)weight[s] : 0; // before dropout
    }
    for (int64_t s = first_key(d, t); s <= last_key(d, t); s++) {
        weight[s] *= keep(d, t, s);
    }
    for (int64_t i = 0; i < d->HS; i++) {
        double sum = 0;
        for (int64_t s = first_key(d, t); s <= last_key(d, t); s++) {
            sum += weight[s] * (double)d->v[s * d->qkv_row + i];
        }
        y[d->first_y + t * d->y_row + i] = (real)sum;
    }
}

static void forward(const ref_attention *a, const real *qkv, real *y, real *att, real *lse, double *scratch) {
    for (int64_t b = 0; b < a->B; b++) {
        for (int64_t h = 0; h < a->NH; h++) {
            head d = head_at(a, qkv, b, h);
            for (int64_t t = 0; t < a->T; t++) {
                forward_row(&d, t, y, att, lse, scratch);
            }
        }
    }
}

// qkv (B,T,(NH+2NKV)HS), y (B,T,C), att (B,NH,T,T), or blocks of rows of it
void REF(attention_forward)(const ref_attention *a, const real *qkv, real *y, real *att, double *scratch) {
    forward(a, qkv, y, att, NULL, scratch);
}

// qkv (B,T,(NH+2NKV)HS), y (B,T,C), lse (B,NH,T)
void REF(flash_attention_forward)(const ref_attention *a, const real *qkv, real *y, real *lse, double *scratch) {
    forward(a, qkv, y, NULL, lse, scratch);
}

// The weights of row t: as stored in att, or computed again from lse where att is NULL.
static void weights_row(const head *d, int64_t t, const real *att, const real *lse, double *weight) {
    int64_t row = d->first_row + t;
    if (att == NULL) {
        scores(d, t, weight);
    }
    for (int64_t s = first_key(d, t); s <= last_key(d, t); s++) {
        weight[s] = att == NULL ? exp(weight[s] - (double)lse[row]) : (double)att[(d->first_row + t) * d->T + s];
    }
}

// da[s] = dropout(dy_t . v_s);  ds[s] = att[s] (da[s] - D);  D = sum_r att[r] da[r], or dy_t . y_t if y is given
// att (T), a row of weights, becomes dropout(att), which dv needs.
static void backward_row(const head *d, int64_t t, const real *dy, const real *y, double *att, double *ds) {
    const int64_t at = d->first_y + t * d->y_row;
    double D = y != NULL ? dot(d->HS, dy + at, y + at) : 0;
    for (int64_t s = first_key(d, t); s <= last_key(d, t); s++) {
        ds[s] = keep(d, t, s) * dot(d->HS, dy + at, d->v + s * d->qkv_row);
        D += y != NULL ? 0 : att[s] * ds[s];
    }
    for (int64_t s = first_key(d, t); s <= last_key(d, t); s++) {
        ds[s] = att[s] * (ds[s] - D);
        att[s] *= keep(d, t, s);
    }
}

// dq_r = sum_{s<=r} ds[r,s] k_s / sqrt(HS);  dk_r = sum_{t>=r} ds[t,r] q_t / sqrt(HS);  dv_r = sum_{t>=r} att[t,r] dy_t
// over pairs of one document.
// att, after dropout, and ds (T,T); dqkv (B,T,(NH+2NKV)HS). Of heads that share keys and values dk and dv are sums:
// the others add to what the first of them wrote.
static void backward_qkv(const head *d, const real *dy, const double *att, const double *ds, real *dqkv) {
    for (int64_t r = 0; r < d->T; r++) {
        for (int64_t i = 0; i < d->HS; i++) {
            double dq = 0;
            double dk = 0;
            double dv = 0;
            for (int64_t s = first_key(d, r); s <= last_key(d, r); s++) {
                dq += ds[r * d->T + s] * (double)d->k[s * d->qkv_row + i];
            }
            for (int64_t t = d->unmasked ? 0 : r; t < d->T && first_key(d, t) <= r; t++) {
                dk += ds[t * d->T + r] * (double)d->q[t * d->qkv_row + i];
                dv += att[t * d->T + r] * (double)dy[d->first_y + t * d->y_row + i];
            }
            real *row = dqkv + r * d->qkv_row + i;
            double dk_before = d->first_of_group ? 0 : (double)row[d->first_k];
            double dv_before = d->first_of_group ? 0 : (double)row[d->first_v];
            row[d->first_q] = (real)(dq / sqrt((double)d->HS));
            row[d->first_k] = (real)(dk_before + dk / sqrt((double)d->HS));
            row[d->first_v] = (real)(dv_before + dv);
        }
    }
}

static void backward(const ref_attention *a, const real *dy, const real *qkv, const real *y, const real *att,
                     const real *lse, real *dqkv, double *scratch) {
    double *weight = scratch;           // (T,T)
    double *ds = scratch + a->T * a->T; // (T,T)
    for (int64_t b = 0; b < a->B; b++) {
        for (int64_t h = 0; h < a->NH; h++) {
            head d = head_at(a, qkv, b, h);
            for (int64_t t = 0; t < a->T; t++) {
                weights_row(&d, t, att, lse, weight + t * a->T);
                backward_row(&d, t, dy, y, weight + t * a->T, ds + t * a->T);
            }
            backward_qkv(&d, dy, weight, ds, dqkv);
        }
    }
}

// dy (B,T,C), qkv (B,T,(NH+2NKV)HS), att as forward stored it, dqkv (B,T,(NH+2NKV)HS)
void REF(attention_backward)(const ref_attention *a, const real *dy, const real *qkv, const real *att, real *dqkv,
                             double *scratch) {
    backward(a, dy, qkv, NULL, att, NULL, dqkv, scratch);
}

// dy (B,T,C), qkv (B,T,(NH+2NKV)HS), y (B,T,C), lse (B,NH,T), dqkv (B,T,(NH+2NKV)HS)
void REF(flash_attention_backward)(const ref_attention *a, const real *dy, const real *qkv, const real *y,
                                   const real *lse, real *dqkv, double *scratch) {
    backward(a, dy, qkv, y, NULL, lse, dqkv, scratch);
}
