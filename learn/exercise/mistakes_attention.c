// mistakes_attention.c: common mistakes in attention.
#include <math.h>
#include <stdlib.h>

#include "learn/exercise/mistakes.h"

enum {
    NO_MASK = 1,
    NO_ROOT,
    BY_HS,
    BY_ROOT_C,
    OF_QUERIES,
    NO_DROPOUT,
    LAST = NO_DROPOUT,
};
enum { ATT_DROPPED = LAST + 1 };                                                   // attention_forward
enum { LSE_NO_LARGEST = LAST + 1, LSE_LARGEST, NO_RESCALE };                       // flash_attention_forward
enum { B_NO_ROOT = 1, B_NO_SUM, B_DV, B_NO_ATT, B_LAST_HEAD, B_NO_DROPOUT, B_QK }; // attention_backward

// One head of one sequence.
typedef struct {
    const sm_exercise_case *c;
    int64_t T, HS, C, row, first_row;
    const float *q, *k, *v;
    int64_t q_at, k_at, v_at, y_at; // offsets in qkv, and in y
    bool first_of_group;
    int mistake;
    float (*keep)(const void *rng, int64_t element);
} head;

static head head_at(const sm_exercise_case *c, int mistake, int64_t b, int64_t h) {
    const int64_t NH = sm_mistaken_size(c, "NH");
    const int64_t NKV = sm_mistaken_size(c, "NKV");
    const float *qkv = sm_mistaken_in(c, "qkv");
    head d = {.c = c, .T = sm_mistaken_size(c, "T"), .HS = sm_mistaken_size(c, "HS"), .mistake = mistake};
    d.keep = sm_case_member(c, "keep").keep;
    d.C = NH * d.HS;
    d.row = (NH + 2 * NKV) * d.HS;
    d.first_row = (b * NH + h) * d.T;
    d.q_at = b * d.T * d.row + h * d.HS;
    d.k_at = b * d.T * d.row + (NH + h / (NH / NKV)) * d.HS;
    d.v_at = d.k_at + NKV * d.HS;
    d.y_at = b * d.T * d.C + h * d.HS;
    d.first_of_group = h % (NH / NKV) == 0;
    d.q = qkv + d.q_at;
    d.k = qkv + d.k_at;
    d.v = qkv + d.v_at;
    return d;
}

static double keep(const head *d, int64_t t, int64_t s) {
    return d->keep(&d->c->args.rng, (d->first_row + t) * d->T + s);
}

static double dot(const float *x, const float *y, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)x[i] * y[i];
    }
    return sum;
}

static double score(const head *d, int64_t t, int64_t s) {
    const double divisor = d->mistake == NO_ROOT     ? 1
                           : d->mistake == BY_HS     ? (double)d->HS
                           : d->mistake == BY_ROOT_C ? sqrt((double)d->C)
                                                     : sqrt((double)d->HS);
    return s > t && d->mistake != NO_MASK ? -INFINITY : dot(d->q + t * d->row, d->k + s * d->row, d->HS) / divisor;
}

// Weights (T,T) of a head before dropout, and the log-sum-exp of each row.
static void weigh(const head *d, double *weight, double *lse, double *largest) {
    for (int64_t t = 0; t < d->T; t++) {
        largest[t] = -INFINITY;
        double sum = 0;
        for (int64_t s = 0; s < d->T; s++) {
            weight[t * d->T + s] = score(d, t, s);
            largest[t] = fmax(largest[t], weight[t * d->T + s]);
        }
        for (int64_t s = 0; s < d->T; s++) {
            sum += exp(weight[t * d->T + s] - largest[t]);
        }
        lse[t] = largest[t] + log(sum);
    }
    for (int64_t s = 0; s < d->T; s++) {
        double sum = 0;
        for (int64_t t = 0; t < d->T; t++) {
            sum += exp(weight[t * d->T + s]);
        }
        for (int64_t t = 0; t < d->T; t++) {
            double *w = &weight[t * d->T + s];
            *w = d->mistake == OF_QUERIES ? exp(*w) / sum : exp(*w - lse[t]);
        }
    }
}

// As a sum over tiles whose largest score grows without correcting the sum.
static void forget_to_rescale(const head *d, int64_t t, float *y) {
    double largest = -INFINITY;
    double sum = 0;
    double acc[1024] = {0};
    for (int64_t s = 0; s <= t; s++) {
        const double x = score(d, t, s);
        largest = fmax(largest, x);
        sum += exp(x - largest);
        for (int64_t i = 0; i < d->HS && i < 1024; i++) {
            acc[i] += exp(x - largest) * keep(d, t, s) * d->v[s * d->row + i];
        }
    }
    for (int64_t i = 0; i < d->HS && i < 1024; i++) {
        y[i] = (float)(acc[i] / sum);
    }
}

static void mix(const head *d, double *weight, int64_t t, float *y) {
    double *dropped = weight + d->T * d->T; // the second T*T doubles
    for (int64_t s = 0; s < d->T; s++) {
        dropped[s] = weight[t * d->T + s] * (d->mistake == NO_DROPOUT ? 1 : keep(d, t, s));
    }
    for (int64_t i = 0; i < d->HS; i++) {
        double sum = 0;
        for (int64_t s = 0; s < d->T; s++) {
            sum += dropped[s] * d->v[s * d->row + i];
        }
        y[i] = (float)sum;
    }
}

// Memory for a head: T*T weights, twice, and two rows.
static double *make_room(int64_t T) { return malloc((size_t)(2 * T * T + 2 * T) * sizeof(double)); }

static void forward(const sm_exercise_case *c, int mistake, bool is_flash, float *const out[SM_MAX_OUT]) {
    const int64_t T = sm_mistaken_size(c, "T");
    double *weight = make_room(T);
    for (int64_t i = 0; weight != NULL && i < sm_mistaken_size(c, "B") * sm_mistaken_size(c, "NH"); i++) {
        const head d = head_at(c, mistake, i / sm_mistaken_size(c, "NH"), i % sm_mistaken_size(c, "NH"));
        double *lse = weight + 2 * T * T;
        double *largest = lse + T;
        weigh(&d, weight, lse, largest);
        for (int64_t t = 0; t < T; t++) {
            float *y = out[0] + d.y_at + t * d.C;
            mix(&d, weight, t, y);
            if (is_flash && mistake == NO_RESCALE) {
                forget_to_rescale(&d, t, y);
            }
            if (is_flash) {
                const double less = mistake == LSE_NO_LARGEST ? largest[t] : 0;
                out[1][d.first_row + t] = (float)(mistake == LSE_LARGEST ? largest[t] : lse[t] - less);
            }
            for (int64_t s = 0; s < T && !is_flash; s++) {
                const double kept = mistake == ATT_DROPPED ? keep(&d, t, s) : 1;
                out[1][(d.first_row + t) * T + s] = (float)(weight[t * T + s] * kept);
            }
        }
    }
    free(weight);
}

static void attention_forward(const sm_exercise_case *c, int mistake, float *const out[SM_MAX_OUT]) {
    forward(c, mistake, false, out);
}

static void flash_attention_forward(const sm_exercise_case *c, int mistake, float *const out[SM_MAX_OUT]) {
    forward(c, mistake, true, out);
}

// --- backward --------------------------------------------------------------------------------------

// ds (T,T) and the dropped weights (T,T) of a head.
static void differentiate(const head *d, double *ds, double *weight) {
    const float *att = (const float *)sm_mistaken_in(d->c, "att") + d->first_row * d->T;
    const float *dy = (const float *)sm_mistaken_in(d->c, "dy") + d->y_at;
    for (int64_t t = 0; t < d->T; t++) {
        double sum = 0;
        for (int64_t s = 0; s < d->T; s++) {
            const double kept = s > t ? 0 : d->mistake == B_NO_DROPOUT ? 1 : keep(d, t, s);
            const double a = att[t * d->T + s];
            const double da = s > t ? 0 : kept * dot(dy + t * d->C, d->v + s * d->row, d->HS);
            weight[t * d->T + s] = a * kept;
            ds[t * d->T + s] = da;
            sum += a * da;
        }
        for (int64_t s = 0; s < d->T; s++) {
            const double a = s > t ? 0 : d->mistake == B_NO_ATT ? 1 : att[t * d->T + s];
            const double root = d->mistake == B_NO_ROOT ? 1 : sqrt((double)d->HS);
            ds[t * d->T + s] = a * (ds[t * d->T + s] - (d->mistake == B_NO_SUM ? 0 : sum)) / root;
        }
    }
}

// to[t] (+)= sum_s factor[t,s] from[s], or, transposed, factor[s,t].
static void add_product(const head *d, const double *factor, bool transposed, const float *from, int64_t from_row,
                        bool adds, float *to) {
    for (int64_t t = 0; t < d->T; t++) {
        for (int64_t i = 0; i < d->HS; i++) {
            double sum = adds ? to[t * d->row + i] : 0;
            for (int64_t s = 0; s < d->T; s++) {
                sum += factor[transposed ? s * d->T + t : t * d->T + s] * from[s * from_row + i];
            }
            to[t * d->row + i] = (float)sum;
        }
    }
}

static void attention_backward(const sm_exercise_case *c, int mistake, float *const out[SM_MAX_OUT]) {
    const int64_t T = sm_mistaken_size(c, "T");
    const float *dy = sm_mistaken_in(c, "dy");
    double *ds = make_room(T);
    for (int64_t i = 0; ds != NULL && i < sm_mistaken_size(c, "B") * sm_mistaken_size(c, "NH"); i++) {
        const head d = head_at(c, mistake, i / sm_mistaken_size(c, "NH"), i % sm_mistaken_size(c, "NH"));
        const bool adds = !d.first_of_group && mistake != B_LAST_HEAD;
        double *weight = ds + T * T;
        differentiate(&d, ds, weight);
        add_product(&d, ds, mistake == B_QK, d.k, d.row, false, out[0] + d.q_at);
        add_product(&d, ds, mistake != B_QK, d.q, d.row, adds, out[0] + d.k_at);
        add_product(&d, weight, mistake != B_DV, dy + d.y_at, d.C, adds, out[0] + d.v_at);
    }
    free(ds);
}

#define MASK_SAYS "the causal mask is missing: token t sees the tokens s <= t only"
#define ROOT_SAYS "1 / sqrt(HS) is missing: scores are q k / sqrt(HS)"
#define HS_SAYS   "scores are divided by HS: divide by its square root"
#define C_SAYS    "scores are divided by sqrt(C): divide by sqrt(HS), the size of a head"
#define AXIS_SAYS "softmax goes over the wrong axis, over queries: the weights of a query, over its keys, sum to 1"
#define KEEP_SAYS "dropout is missing: weights are multiplied by keep(rng, (b NH + h) T T + t T + s) when they mix v"

const sm_mistakes sm_mistakes_attention[] = {
    {SM_OP_ATTENTION_FORWARD,
     attention_forward,
     {MASK_SAYS, ROOT_SAYS, HS_SAYS, C_SAYS, AXIS_SAYS, KEEP_SAYS,
      "att is stored after dropout: it holds the weights before", NULL}},
    {SM_OP_FLASH_ATTENTION_FORWARD,
     flash_attention_forward,
     {MASK_SAYS, ROOT_SAYS, HS_SAYS, C_SAYS, AXIS_SAYS, KEEP_SAYS,
      "lse lacks the largest score, which was subtracted: add it again", "lse is the largest score alone: add log(sum)",
      "the earlier sum is not rescaled when the largest score grows: multiply sum and y by exp(old - new)", NULL}},
    {SM_OP_ATTENTION_BACKWARD,
     attention_backward,
     {"1 / sqrt(HS) is missing in ds: dq = ds k / sqrt(HS), dk = ds^T q / sqrt(HS)",
      "the derivative of softmax lacks its sum: ds = att (da - sum_s att da)",
      "dv takes att as it is: it is att^T dy, the sum over the queries that saw a key",
      "att is missing: ds = att (da - sum_s att da)",
      "heads that share keys and values (NKV < NH) overwrite their gradient: dk and dv are sums over these heads",
      "dropout is missing: da = keep (dy v), and dv is of dropped weights",
      "dq and dk are exchanged in ds: dq = ds k, dk = ds^T q", NULL}},
    SM_NO_MISTAKES,
};
