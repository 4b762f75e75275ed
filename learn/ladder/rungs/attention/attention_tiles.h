// attention_tiles.h: attention of ROWS queries at a time as two small products with a softmax between them, a `vec` at
// a time. Keys are packed so that a vec has the same channel of neighbouring keys; values, so that a row is whole vecs.
// The includer defines vec and its exp.
#include <stdlib.h>
#include <string.h>

#include "attention_head.h"

enum { LANES = sizeof(vec) / sizeof(float) };

typedef struct {
    vec *k;       // (HS, key_vecs): channel i of all keys
    vec *v;       // (T, value_vecs)
    vec *weights; // (ROWS, key_vecs)
    int64_t key_vecs;
    int64_t value_vecs;
} room;

static room make_room(const flash_attention_forward_args *args) {
    room r = {.key_vecs = (args->T + LANES - 1) / LANES, .value_vecs = (args->HS + LANES - 1) / LANES};
    const size_t n = (size_t)(args->HS * r.key_vecs + args->T * r.value_vecs + ROWS * r.key_vecs);
    r.k = aligned_alloc(64, (n * sizeof(vec) + 63) / 64 * 64);
    r.v = r.k + args->HS * r.key_vecs;
    r.weights = r.v + args->T * r.value_vecs;
    if (r.k != NULL) {
        memset(r.k, 0, n * sizeof(vec));
    }
    return r;
}

static void pack_head(const flash_attention_forward_args *args, const head *a, const room *r) {
    for (int64_t t = 0; t < args->T; t++) {
        for (int64_t i = 0; i < args->HS; i++) {
            ((float *)(r->k + i * r->key_vecs))[t] = a->k[t * a->to_next + i];
            ((float *)(r->v + t * r->value_vecs))[i] = a->v[t * a->to_next + i];
        }
    }
}

// Scores of queries t .. t + ROWS - 1 with two vecs of keys, in registers over the channels. After the last query, it
// is repeated.
static inline void score_tile(const flash_attention_forward_args *args, const head *a, const room *r, int64_t t,
                              int64_t n_rows) {
    const float *q[ROWS];
    for (int j = 0; j < ROWS; j++) {
        q[j] = a->q + (t + (j < n_rows ? j : n_rows - 1)) * a->to_next;
    }
    for (int64_t s = 0; s * LANES < t + n_rows; s++) {
        vec score[ROWS];
        for (int j = 0; j < ROWS; j++) {
            score[j] = (vec){0};
        }
        for (int64_t i = 0; i < args->HS; i++) {
            const vec k = r->k[i * r->key_vecs + s];
            for (int j = 0; j < ROWS; j++) {
                score[j] += q[j][i] * k;
            }
        }
        for (int j = 0; j < ROWS; j++) {
            r->weights[j * r->key_vecs + s] = score[j] * a->scale;
        }
    }
}

// Softmax of a row of scores; keys that it does not attend to get weight 0.
static inline void weigh_row(const flash_attention_forward_args *args, const head *a, vec *row, int64_t t,
                             int64_t n_keys) {
    float *weights = (float *)row;
    float largest = -INFINITY;
    float sum = 0;
    for (int64_t s = 0; s <= t; s++) {
        largest = fmaxf(largest, weights[s]);
    }
    for (int64_t s = t + 1; s < n_keys; s++) {
        weights[s] = -INFINITY;
    }
    for (int64_t s = 0; s * LANES <= t; s++) {
        row[s] = exp_of(row[s] - largest);
    }
    for (int64_t s = 0; s <= t; s++) {
        sum += weights[s];
    }
    for (int64_t s = 0; s < n_keys; s++) {
        weights[s] = s > t ? 0 : weights[s] / sum * kept(args, a, t, s);
    }
    a->lse[t] = largest + logf(sum);
}

static inline void mix_tile(const flash_attention_forward_args *args, const head *a, const room *r, int64_t t,
                            int64_t n_rows) {
    const float *weights[ROWS];
    for (int j = 0; j < ROWS; j++) {
        weights[j] = (const float *)(r->weights + (j < n_rows ? j : n_rows - 1) * r->key_vecs);
    }
    for (int64_t i = 0; i < r->value_vecs; i++) {
        vec y[ROWS];
        for (int j = 0; j < ROWS; j++) {
            y[j] = (vec){0};
        }
        for (int64_t s = 0; s < t + n_rows; s++) {
            for (int j = 0; j < ROWS; j++) {
                y[j] += weights[j][s] * r->v[s * r->value_vecs + i];
            }
        }
        for (int64_t j = 0; j < n_rows; j++) {
            for (int64_t c = i * LANES; c < (i + 1) * LANES && c < args->HS; c++) {
                a->y[(t + j) * a->to_next_y + c] = ((const float *)&y[j])[c - i * LANES];
            }
        }
    }
}

static void attend_head(const flash_attention_forward_args *args, int64_t i, const room *r) {
    const head a = head_at(args, i);
    pack_head(args, &a, r);
    for (int64_t t = 0; t < args->T; t += ROWS) {
        const int64_t n_rows = args->T - t < ROWS ? args->T - t : ROWS;
        score_tile(args, &a, r, t, n_rows);
        for (int64_t j = 0; j < n_rows; j++) {
            weigh_row(args, &a, r->weights + j * r->key_vecs, t + j, t + n_rows);
        }
        mix_tile(args, &a, r, t, n_rows);
    }
}
