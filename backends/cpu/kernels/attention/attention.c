// attention.c: attention that stores its weights, att (B,NH,T,T).
//
// The unit of work is a block of query rows t0..t1 of one head: the scores against the keys
// that some row of it may see, s < t1 and from the start of the first row's document, their softmax, and the product
// with the values, each by one small BLAS call on copies in this thread's scratch. Backward, dk and dv gather from all
// rows of all heads that share them, so a head of keys and values belongs to one thread.
#include "backends/cpu/blas.h"
#include "backends/cpu/kernels/attention/head.h"

enum { BLOCK_ROWS = 64 };

static int64_t first_key(const head *h, int64_t t) { return h->starts == NULL ? 0 : h->starts[t]; }

// Offset of the weights of row t in att.
static int64_t att_row(const head *h, int64_t t) { return (h->index * h->T + t) * h->T; }

// Copies rows t0..t1-1 of a head's operand, ld apart, one after another, as floats.
static void gather(const head *h, const cpu_data *x, int64_t ld, int64_t t0, int64_t t1, float *packed) {
    for (int64_t t = t0; t < t1; t++) {
#pragma omp simd
        for (int64_t d = 0; d < h->HS; d++) {
            packed[(t - t0) * h->HS + d] = cpu_widen(x[t * ld + d]);
        }
    }
}

// The way back.
static void scatter(const head *h, const float *packed, int64_t t0, int64_t t1, cpu_data *x, int64_t ld) {
    for (int64_t t = t0; t < t1; t++) {
#pragma omp simd
        for (int64_t d = 0; d < h->HS; d++) {
            x[t * ld + d] = cpu_round(packed[(t - t0) * h->HS + d]);
        }
    }
}

// c (m,n) = alpha a' b', or += with `add`; rows lda, ldb, n apart.
static void small_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                       const float *b, bool add, float *c) {
    cpu_blas.sgemm(CPU_BLAS_ROW_MAJOR, ta ? CPU_BLAS_TRANSPOSED : CPU_BLAS_PLAIN,
                   tb ? CPU_BLAS_TRANSPOSED : CPU_BLAS_PLAIN, (int)m, (int)n, (int)k, alpha, a, (int)lda, b,
                   (int)(tb ? k : n), add ? 1.0f : 0.0f, c, (int)n);
}

// Softmax of the scores of row t, which are of keys key0..end-1; those of keys that it does not see become 0. All
// weights of the row in att are written.
static void softmax_row(const head *h, int64_t t, int64_t key0, int64_t end, float *scores, cpu_data *att) {
    const int64_t first = first_key(h, t);
    const int64_t n = t + 1 - first;
    float *x = scores + first - key0;
    const float largest = cpu_largest(x, n);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t s = 0; s < n; s++) {
        x[s] = cpu_exp(x[s] - largest);
        sum += x[s];
    }
    const float inverse = 1.0f / sum;
#pragma omp simd
    for (int64_t s = 0; s < n; s++) {
        x[s] *= inverse;
        att[first + s] = cpu_round(x[s]);
    }
    memset(scores, 0, (size_t)(first - key0) * sizeof *scores);
    memset(x + n, 0, (size_t)(end - t - 1) * sizeof *x);
    memset(att, 0, (size_t)first * sizeof *att);
    memset(att + t + 1, 0, (size_t)(h->T - t - 1) * sizeof *att);
}

// Dropout's factors of row t of the head, over n keys from key0 on.
static void row_factors(const head *h, int64_t t, int64_t key0, int64_t n, float *factors) {
    cpu_dropout_factors(&h->dropout, (uint64_t)(att_row(h, t) + key0), n, factors);
}

static void multiply_row(float *x, const float *by, int64_t n) {
#pragma omp simd
    for (int64_t s = 0; s < n; s++) {
        x[s] *= by[s];
    }
}

#define FORWARD_AREAS(AREA)                                           \
    AREA(float, scores, BLOCK_ROWS * h->T) /* (BLOCK_ROWS, n_keys) */ \
    AREA(float, factors, h->T)             /* (n_keys) */             \
    AREA(float, q, BLOCK_ROWS * h->HS)     /* (BLOCK_ROWS, HS) */     \
    AREA(float, result, BLOCK_ROWS * h->HS)                           \
    AREA(float, k, h->T * h->HS) /* (n_keys, HS) */                   \
    AREA(float, v, h->T * h->HS)
DEFINE_SCRATCH(forward, FORWARD_AREAS, const head *h)

CPU_SCRATCH(attention_forward) {
    const head h = find_head(op, op->out_tensor[SM_OUT(attention_forward, y)], NULL, NULL, 0);
    return forward_scratch_bytes(&h);
}

static void forward_block(const host_op *op, const head *h, int64_t t0, int64_t t1, float *scratch) {
    const cpu_data *qkv = op->in[SM_IN(attention_forward, qkv)];
    cpu_data *y = (cpu_data *)op->out[SM_OUT(attention_forward, y)] + h->y_offset_elems;
    cpu_data *att = op->out[SM_OUT(attention_forward, att)];
    const int64_t key0 = first_key(h, t0);
    const int64_t n_keys = t1 - key0;
    const forward_scratch s = forward_carve(scratch, h);
    gather(h, qkv + h->q_offset_elems, h->ld_qkv, t0, t1, s.q);
    gather(h, qkv + h->k_offset_elems, h->ld_qkv, key0, t1, s.k);
    gather(h, qkv + h->v_offset_elems, h->ld_qkv, key0, t1, s.v);
    small_gemm(false, true, t1 - t0, n_keys, h->HS, h->scale, s.q, h->HS, s.k, false, s.scores);
    for (int64_t t = t0; t < t1; t++) {
        float *row = s.scores + (t - t0) * n_keys;
        softmax_row(h, t, key0, t1, row, att + att_row(h, t));
        if (h->drops) {
            row_factors(h, t, key0, n_keys, s.factors);
            multiply_row(row, s.factors, n_keys);
        }
    }
    small_gemm(false, false, t1 - t0, h->HS, n_keys, 1.0f, s.scores, n_keys, s.v, false, s.result);
    scatter(h, s.result, t0, t1, y, h->ld_y);
}

CPU_KERNEL(attention_forward) {
    const sm_tensor *y = op->out_tensor[SM_OUT(attention_forward, y)];
    int64_t n_heads = y->dims[0] * op->op->attr.n_head;
    int64_t n_blocks = (y->dims[1] + BLOCK_ROWS - 1) / BLOCK_ROWS;
    // Blocks grow with t, so they are dealt out like cards.
    for (int64_t unit = team->thread; unit < n_heads * n_blocks; unit += team->n_threads) {
        const head h = FIND_HEAD(attention_forward, op, y, unit / n_blocks);
        int64_t t0 = unit % n_blocks * BLOCK_ROWS;
        int64_t t1 = t0 + BLOCK_ROWS < h.T ? t0 + BLOCK_ROWS : h.T;
        forward_block(op, &h, t0, t1, team->scratch[team->thread]);
    }
}

// Scratch of the backward pass: a head's operands and gradients, and one block of rows.
#define BACKWARD_AREAS(AREA)                                                   \
    AREA(float, q, h->T * h->HS) /* (T, HS), like those up to dv */            \
    AREA(float, k, h->T * h->HS)                                               \
    AREA(float, v, h->T * h->HS)                                               \
    AREA(float, dy, h->T * h->HS)                                              \
    AREA(float, dq, h->T * h->HS)                                              \
    AREA(float, dk, h->T * h->HS) /* of all heads that share it; dv follows */ \
    AREA(float, dv, h->T * h->HS)                                              \
    AREA(float, att, BLOCK_ROWS * h->T) /* (BLOCK_ROWS, T) */                  \
    AREA(float, ds, BLOCK_ROWS * h->T)                                         \
    AREA(float, factors, h->T)
DEFINE_SCRATCH(backward, BACKWARD_AREAS, const head *h)

CPU_SCRATCH(attention_backward) {
    const head h = find_head(op, op->in_tensor[SM_IN(attention_backward, dy)], NULL, NULL, 0);
    return backward_scratch_bytes(&h);
}

// One row: da (of the dropped weights) becomes ds, of n keys; those that the row does not see have weights of 0.
static void score_gradient_row(const float *att, const float *factors, float *da, int64_t n) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t s = 0; s < n; s++) {
        da[s] *= factors == NULL ? 1.0f : factors[s];
        sum += att[s] * da[s];
    }
#pragma omp simd
    for (int64_t s = 0; s < n; s++) {
        da[s] = att[s] * (da[s] - sum);
    }
}

static void backward_block(const host_op *op, const head *h, int64_t t0, int64_t t1, const backward_scratch *s) {
    const cpu_data *att = op->in[SM_IN(attention_backward, att)];
    const int64_t rows = t1 - t0;
    const int64_t key0 = first_key(h, t0);
    const int64_t n_keys = t1 - key0;
    const int64_t at = key0 * h->HS;
    const float *dy = s->dy + t0 * h->HS;
    small_gemm(false, true, rows, n_keys, h->HS, 1.0f, dy, h->HS, s->v + at, false, s->ds);
    for (int64_t t = t0; t < t1; t++) {
        const cpu_data *stored = att + att_row(h, t) + key0;
        float *row = s->att + (t - t0) * n_keys;
        for (int64_t i = 0; i < n_keys; i++) {
            row[i] = cpu_widen(stored[i]);
        }
        if (h->drops) {
            row_factors(h, t, key0, n_keys, s->factors);
        }
        score_gradient_row(row, h->drops ? s->factors : NULL, s->ds + (t - t0) * n_keys, n_keys);
        if (h->drops) {
            multiply_row(row, s->factors, n_keys);
        }
    }
    small_gemm(true, false, n_keys, h->HS, rows, 1.0f, s->att, n_keys, dy, true, s->dv + at);
    small_gemm(true, false, n_keys, h->HS, rows, h->scale, s->ds, n_keys, s->q + t0 * h->HS, true, s->dk + at);
    small_gemm(false, false, rows, h->HS, n_keys, h->scale, s->ds, n_keys, s->k + at, false, s->dq + t0 * h->HS);
}

CPU_KERNEL(attention_backward) {
    const sm_tensor *dy = op->in_tensor[SM_IN(attention_backward, dy)];
    const int64_t group = op->op->attr.n_head / op->op->attr.n_kv_head;
    const cpu_range mine = cpu_my_rows(team, dy->dims[0] * op->op->attr.n_kv_head);
    for (int64_t index = mine.first * group; index < mine.end * group; index++) {
        const head h = FIND_HEAD(attention_backward, op, dy, index);
        const backward_scratch s = backward_carve(team->scratch[team->thread], &h);
        const cpu_data *qkv = op->in[SM_IN(attention_backward, qkv)];
        cpu_data *dqkv = op->out[SM_OUT(attention_backward, dqkv)];
        gather(&h, qkv + h.q_offset_elems, h.ld_qkv, 0, h.T, s.q);
        gather(&h, (const cpu_data *)op->in[SM_IN(attention_backward, dy)] + h.y_offset_elems, h.ld_y, 0, h.T, s.dy);
        if (index % group == 0) {
            gather(&h, qkv + h.k_offset_elems, h.ld_qkv, 0, h.T, s.k);
            gather(&h, qkv + h.v_offset_elems, h.ld_qkv, 0, h.T, s.v);
            memset(s.dk, 0, 2 * (size_t)(h.T * h.HS) * sizeof(float)); // and dv, which follows
        }
        for (int64_t t0 = 0; t0 < h.T; t0 += BLOCK_ROWS) {
            backward_block(op, &h, t0, t0 + BLOCK_ROWS < h.T ? t0 + BLOCK_ROWS : h.T, &s);
        }
        scatter(&h, s.dq, 0, h.T, dqkv + h.q_offset_elems, h.ld_qkv);
        if (index % group == group - 1) {
            scatter(&h, s.dk, 0, h.T, dqkv + h.k_offset_elems, h.ld_qkv);
            scatter(&h, s.dv, 0, h.T, dqkv + h.v_offset_elems, h.ld_qkv);
        }
    }
}
