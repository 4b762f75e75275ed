// cpu_kernel_attention.c: attention that stores its weights, att (B,NH,T,T).
//
// The unit of work is a block of query rows t0..t1 of one head: the scores against the keys
// s < t1 that some row of it may see, their softmax, and the product with the values, each by
// one small BLAS call. Backward, dk and dv gather from all rows, so a head belongs to one thread.
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "cpu_kernel.h"
#include "cpu_math.h"

enum { BLOCK_ROWS = 64 };

// Where one head of one sequence lies: q, k, v are columns of qkv (B,T,3C), rows ld apart.
typedef struct {
    int64_t T, C, HS;
    int64_t index;  // b*NH + h
    int64_t column; // of the head in a row of C channels
    int64_t row;    // b*T
    float scale;
} head;

static head find_head(const host_op *op, const sm_tensor *y, int64_t index) {
    int64_t NH = op->op->attr.n_head;
    int64_t T = y->dims[1];
    int64_t C = y->dims[2];
    int64_t HS = C / NH;
    return (head){T, C, HS, index, index % NH * HS, index / NH * T, 1.0f / sqrtf((float)HS)};
}

// c (m,n) = alpha a' b', or += with `add`; rows lda, ldb, ldc apart.
static void small_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                       const float *b, int64_t ldb, bool add, float *c, int64_t ldc) {
    cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n,
                (blasint)k, alpha, a, (blasint)lda, b, (blasint)ldb, add ? 1.0f : 0.0f, c, (blasint)ldc);
}

// Softmax of a row's first n scores; the rest of its T entries become 0.
static void softmax_row(float *x, int64_t n, int64_t T) {
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
    }
    memset(x + n, 0, (size_t)(T - n) * sizeof *x);
}

// Dropout's factors of row t of the head, over its first n keys.
static void row_factors(const cpu_dropout_rule *rule, const head *h, int64_t t, int64_t n, float *factors) {
    cpu_dropout_factors(rule, (uint64_t)((h->index * h->T + t) * h->T), n, factors);
}

static void multiply_row(float *x, const float *by, int64_t n) {
#pragma omp simd
    for (int64_t s = 0; s < n; s++) {
        x[s] *= by[s];
    }
}

CPU_SCRATCH(attention_forward) {
    (void)n_threads;
    return BLOCK_ROWS * (size_t)op->out_tensor[0]->dims[1] * sizeof(float);
}

static void forward_block(const host_op *op, const head *h, int64_t t0, int64_t t1, float *kept) {
    const float *qkv = (const float *)op->in[0] + h->row * 3 * h->C + h->column;
    float *y = (float *)op->out[0] + (h->row + t0) * h->C + h->column;
    float *att = (float *)op->out[1] + (h->index * h->T + t0) * h->T;
    const double p = op->op->attr.dropout_p;
    cpu_dropout_rule rule = cpu_dropout_make(p, op->op->attr.rng_key, op->in[1]);
    int64_t ld = 3 * h->C;
    small_gemm(false, true, t1 - t0, t1, h->HS, h->scale, qkv + t0 * ld, ld, qkv + h->C, ld, false, att, h->T);
    for (int64_t t = t0; t < t1; t++) {
        float *row = att + (t - t0) * h->T;
        softmax_row(row, t + 1, h->T);
        if (p > 0) {
            float *kept_row = kept + (t - t0) * h->T;
            row_factors(&rule, h, t, t1, kept_row);
            multiply_row(kept_row, row, t1);
        }
    }
    small_gemm(false, false, t1 - t0, h->HS, t1, 1.0f, p > 0 ? kept : att, h->T, qkv + 2 * h->C, ld, false, y, h->C);
}

CPU_KERNEL(attention_forward) {
    const sm_tensor *y = op->out_tensor[0];
    int64_t n_heads = y->dims[0] * op->op->attr.n_head;
    int64_t n_blocks = (y->dims[1] + BLOCK_ROWS - 1) / BLOCK_ROWS;
    // Blocks grow with t, so they are dealt out like cards.
    for (int64_t unit = team->thread; unit < n_heads * n_blocks; unit += team->n_threads) {
        head h = find_head(op, y, unit / n_blocks);
        int64_t t0 = unit % n_blocks * BLOCK_ROWS;
        int64_t t1 = t0 + BLOCK_ROWS < h.T ? t0 + BLOCK_ROWS : h.T;
        forward_block(op, &h, t0, t1, team->scratch[team->thread]);
    }
}

CPU_SCRATCH(attention_backward) {
    (void)n_threads;
    return 2 * BLOCK_ROWS * (size_t)op->in_tensor[0]->dims[1] * sizeof(float);
}

// One row: da (of the dropped weights) becomes ds, over the first n keys; beyond is 0.
static void score_gradient_row(const float *att, const float *factors, float *da, int64_t n, int64_t n_columns) {
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
    memset(da + n, 0, (size_t)(n_columns - n) * sizeof *da);
}

static void backward_block(const host_op *op, const head *h, int64_t t0, int64_t t1, float *scratch) {
    const int64_t ld = 3 * h->C;
    const float *q = (const float *)op->in[1] + h->row * ld + h->column;
    float *dq = (float *)op->out[0] + h->row * ld + h->column;
    const float *dy = (const float *)op->in[0] + (h->row + t0) * h->C + h->column;
    const float *att = (const float *)op->in[2] + (h->index * h->T + t0) * h->T;
    float *ds = scratch;
    float *kept = scratch + BLOCK_ROWS * h->T;
    const double p = op->op->attr.dropout_p;
    cpu_dropout_rule rule = cpu_dropout_make(p, op->op->attr.rng_key, op->in[3]);
    const int64_t rows = t1 - t0;
    small_gemm(false, true, rows, t1, h->HS, 1.0f, dy, h->C, q + 2 * h->C, ld, false, ds, h->T);
    for (int64_t t = t0; t < t1; t++) {
        int64_t row = (t - t0) * h->T;
        if (p > 0) {
            row_factors(&rule, h, t, t1, kept + row);
        }
        score_gradient_row(att + row, p > 0 ? kept + row : NULL, ds + row, t + 1, t1);
        if (p > 0) {
            multiply_row(kept + row, att + row, t1);
        }
    }
    small_gemm(true, false, t1, h->HS, rows, 1.0f, p > 0 ? kept : att, h->T, dy, h->C, true, dq + 2 * h->C, ld);
    small_gemm(true, false, t1, h->HS, rows, h->scale, ds, h->T, q + t0 * ld, ld, true, dq + h->C, ld);
    small_gemm(false, false, rows, h->HS, t1, h->scale, ds, h->T, q + h->C, ld, false, dq + t0 * ld, ld);
}

// dk and dv of a head start at 0 and gather from every block of rows.
static void zero_dk_dv(const host_op *op, const head *h) {
    float *dqkv = (float *)op->out[0] + h->row * 3 * h->C + h->column;
    for (int64_t t = 0; t < h->T; t++) {
        memset(dqkv + t * 3 * h->C + h->C, 0, (size_t)h->HS * sizeof *dqkv);
        memset(dqkv + t * 3 * h->C + 2 * h->C, 0, (size_t)h->HS * sizeof *dqkv);
    }
}

CPU_KERNEL(attention_backward) {
    const sm_tensor *dy = op->in_tensor[0];
    cpu_range mine = cpu_my_rows(team, dy->dims[0] * op->op->attr.n_head);
    for (int64_t index = mine.first; index < mine.end; index++) {
        head h = find_head(op, dy, index);
        zero_dk_dv(op, &h);
        for (int64_t t0 = 0; t0 < h.T; t0 += BLOCK_ROWS) {
            int64_t t1 = t0 + BLOCK_ROWS < h.T ? t0 + BLOCK_ROWS : h.T;
            backward_block(op, &h, t0, t1, team->scratch[team->thread]);
        }
    }
}
