// head_rmsnorm.c: root mean square normalisation of each head of queries and keys.
//
// Rows are shared out over the threads. A head has few channels, so that two passes over it read memory once. The
// gradients of wq and wk are sums over rows and heads: each thread sums its own in scratch, then adds up some columns.
#include <math.h>

#include "backends/cpu/common/kernel.h"

// Facts of the op for both directions: heads of a row of x or of dy.
typedef struct {
    int64_t n_rows;
    int64_t n_cols; // (NH + 2 NKV) HS
    int64_t HS;
    int n_q;  // heads
    int n_qk; // with those of k, after them
} heads;

static heads heads_of(const host_op *op, const sm_tensor *qkv) {
    const sm_attrs *attr = &op->op->attr;
    const int64_t n_cols = sm_tensor_cols(qkv);
    return (heads){.n_rows = sm_tensor_rows(qkv),
                   .n_cols = n_cols,
                   .HS = n_cols / (attr->n_head + 2 * attr->n_kv_head),
                   .n_q = attr->n_head,
                   .n_qk = attr->n_head + attr->n_kv_head};
}

static void keep_values(const heads *s, const cpu_data *from, cpu_data *to) {
    const int64_t first_v = s->n_qk * s->HS;
    if (to != from) {
        memcpy(to + first_v, from + first_v, (size_t)(s->n_cols - first_v) * sizeof *to);
    }
}

// y = x rstd w, which may be x; returns rstd.
static float normalise_head(const cpu_data *x, const float *w, int64_t HS, double eps, cpu_data *y) {
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < HS; i++) {
        squares += cpu_widen(x[i]) * cpu_widen(x[i]);
    }
    const float rstd = 1.0f / sqrtf(squares / (float)HS + (float)eps);
#pragma omp simd
    for (int64_t i = 0; i < HS; i++) {
        y[i] = cpu_round(cpu_widen(x[i]) * rstd * w[i]);
    }
    return rstd;
}

CPU_KERNEL(head_rmsnorm_forward) {
    const heads s = heads_of(op, op->in_tensor[SM_IN(head_rmsnorm_forward, x)]);
    const float *wq = op->in[SM_IN(head_rmsnorm_forward, wq)];
    const float *wk = op->in[SM_IN(head_rmsnorm_forward, wk)];
    const cpu_range rows = cpu_my_rows(team, s.n_rows);
    for (int64_t n = rows.first; n < rows.end; n++) {
        const cpu_data *x = (const cpu_data *)op->in[SM_IN(head_rmsnorm_forward, x)] + n * s.n_cols; // may be y itself
        cpu_data *y = (cpu_data *)op->out[SM_OUT(head_rmsnorm_forward, y)] + n * s.n_cols;
        float *rstd = (float *)op->out[SM_OUT(head_rmsnorm_forward, rstd)] + n * s.n_qk;
        for (int h = 0; h < s.n_qk; h++) {
            rstd[h] = normalise_head(x + h * s.HS, h < s.n_q ? wq : wk, s.HS, op->op->attr.eps, y + h * s.HS);
        }
        keep_values(&s, x, y);
    }
}

// Partial sums of dwq and dwk.
CPU_SCRATCH(head_rmsnorm_backward) {
    return 2 * (size_t)sm_tensor_elems(op->in_tensor[SM_IN(head_rmsnorm_backward, wq)]) * sizeof(float);
}

// Finds dx, which may be dy, and adds to dw.
static void differentiate_head(const cpu_data *dy, const cpu_data *x, const float *w, float rstd, int64_t HS,
                               cpu_data *dx, float *dw) {
    float sum_gx = 0;
#pragma omp simd reduction(+ : sum_gx)
    for (int64_t i = 0; i < HS; i++) {
        const float dy_xh = cpu_widen(dy[i]) * (cpu_widen(x[i]) * rstd);
        sum_gx += dy_xh * w[i];
        dw[i] += dy_xh;
    }
    const float factor = rstd * (sum_gx / (float)HS);
#pragma omp simd
    for (int64_t i = 0; i < HS; i++) {
        dx[i] = cpu_round(rstd * (cpu_widen(dy[i]) * w[i] - cpu_widen(x[i]) * factor));
    }
}

CPU_KERNEL(head_rmsnorm_backward) {
    const heads s = heads_of(op, op->in_tensor[SM_IN(head_rmsnorm_backward, x)]);
    const float *wq = op->in[SM_IN(head_rmsnorm_backward, wq)];
    const float *wk = op->in[SM_IN(head_rmsnorm_backward, wk)];
    float *dw = team->scratch[team->thread];
    memset(dw, 0, 2 * (size_t)s.HS * sizeof *dw);
    const cpu_range rows = cpu_my_rows(team, s.n_rows);
    for (int64_t n = rows.first; n < rows.end; n++) {
        const cpu_data *dy = (const cpu_data *)op->in[SM_IN(head_rmsnorm_backward, dy)] + n * s.n_cols; // may be dx
        const cpu_data *x = (const cpu_data *)op->in[SM_IN(head_rmsnorm_backward, x)] + n * s.n_cols;
        const float *rstd = (const float *)op->in[SM_IN(head_rmsnorm_backward, rstd)] + n * s.n_qk;
        cpu_data *dx = (cpu_data *)op->out[SM_OUT(head_rmsnorm_backward, dx)] + n * s.n_cols;
        for (int h = 0; h < s.n_qk; h++) {
            const bool is_q = h < s.n_q;
            differentiate_head(dy + h * s.HS, x + h * s.HS, is_q ? wq : wk, rstd[h], s.HS, dx + h * s.HS,
                               is_q ? dw : dw + s.HS);
        }
        keep_values(&s, dy, dx);
    }
}

CPU_FINISH(head_rmsnorm_backward) {
    const int64_t HS = sm_tensor_elems(op->in_tensor[SM_IN(head_rmsnorm_backward, wq)]);
    cpu_add_partials(team, 0, HS, op->out[SM_OUT(head_rmsnorm_backward, dwq)]);
    cpu_add_partials(team, HS, HS, op->out[SM_OUT(head_rmsnorm_backward, dwk)]);
}
