// layernorm.c: layer normalisation, alone and with the residual sum beside it.
//
// Rows are shared out over the threads. A row fits in the first-level cache, so the three
// passes over it (mean, variance, result) read memory once. Gradients of w and b are sums over
// rows: each thread sums its own in scratch, then each adds up a range of columns.
#include <math.h>
#include <string.h>

#include "backends/cpu/common/kernel.h"
#include "backends/cpu/common/row.h"

typedef struct {
    float mean;
    float rstd;
} moments;

static moments row_moments(const float *x, int64_t C, double eps) {
    const float mean = cpu_sum(x, C) / (float)C;
    return (moments){mean, 1.0f / sqrtf(cpu_sum_squares(x, mean, C) / (float)C + (float)eps)};
}

static inline void normalise_block(const float *x, const float *w, const float *b, float *y, int64_t n, moments of) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        y[i] = (x[i] - of.mean) * of.rstd * w[i] + b[i];
    }
}

// y may be x. Meanwhile asks for the row that follows, next_b where there are two tensors.
static void normalise_row(const float *x, const float *w, const float *b, float *y, int64_t C, moments of,
                          const cpu_data *next, const cpu_data *next_b) {
    int64_t c = 0;
    for (; c + CPU_BLOCK_ELEMS <= C; c += CPU_BLOCK_ELEMS) {
        cpu_ask_for_block(next + c);
        if (next_b != NULL) {
            cpu_ask_for_block(next_b + c);
        }
        normalise_block(x + c, w + c, b + c, y + c, CPU_BLOCK_ELEMS, of);
    }
    normalise_block(x + c, w + c, b + c, y + c, C - c, of);
}

// What both kinds of the forward have, and a thread's rooms for a row: of floats, and of results where they are stored
// past the caches.
typedef struct {
    int64_t C;
    double eps;
    const float *w;
    const float *b;
    cpu_data *y;
    float *mean;
    float *rstd;
    bool streams;
    float *room;
    cpu_data *gathered_y;
    cpu_data *gathered_r;
} forward;

static void forward_row(const forward *f, const cpu_data *x, int64_t n, const cpu_data *next, const cpu_data *next_b) {
    const float *wide = cpu_widened(x, f->C, f->room);
    const moments of = row_moments(wide, f->C, f->eps);
    cpu_data *y = f->streams ? f->gathered_y : f->y + n * f->C;
    float *result = cpu_gathered(y, f->room);
    normalise_row(wide, f->w, f->b, result, f->C, of, next, next_b);
    cpu_store_gathered(result, f->C, y);
    if (f->streams) {
        cpu_store_past_caches(y, f->C, f->y + n * f->C);
    }
    f->mean[n] = of.mean;
    f->rstd[n] = of.rstd;
}

enum { FORWARD_ROOMS = 3 };

static forward begin_forward(const host_op *op, const cpu_team *team, int n_results, int64_t C, int64_t n_rows) {
    float *room = team->scratch[team->thread];
    return (forward){.C = C,
                     .eps = op->op->attr.eps,
                     .streams = cpu_leaves_caches(team, n_results * n_rows * C * (int64_t)sizeof(cpu_data)),
                     .room = room,
                     .gathered_y = (cpu_data *)(room + C),
                     .gathered_r = (cpu_data *)(room + 2 * C)};
}

CPU_SCRATCH(layernorm_forward) {
    (void)n_threads;
    return FORWARD_ROOMS * (size_t)sm_tensor_cols(op->in_tensor[SM_IN(layernorm_forward, x)]) * sizeof(float);
}
_Static_assert(SM_IN(residual_layernorm_forward, a) == SM_IN(layernorm_forward, x), "scratch of both kinds");

CPU_KERNEL(layernorm_forward) {
    const cpu_data *x = op->in[SM_IN(layernorm_forward, x)];
    const int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(layernorm_forward, x)]);
    const int64_t n_rows = sm_tensor_rows(op->in_tensor[SM_IN(layernorm_forward, x)]);
    const cpu_range rows = cpu_my_rows(team, n_rows);
    forward f = begin_forward(op, team, 1, C, n_rows);
    f.w = op->in[SM_IN(layernorm_forward, w)];
    f.b = op->in[SM_IN(layernorm_forward, b)];
    f.y = op->out[SM_OUT(layernorm_forward, y)];
    f.mean = op->out[SM_OUT(layernorm_forward, mean)];
    f.rstd = op->out[SM_OUT(layernorm_forward, rstd)];
    for (int64_t n = rows.first; n < rows.end; n++) {
        forward_row(&f, x + n * C, n, x + (n + 1) * C, NULL);
    }
    cpu_end_streams();
}

CPU_KERNEL(residual_layernorm_forward) {
    const cpu_data *a = op->in[SM_IN(residual_layernorm_forward, a)]; // may be r itself
    const cpu_data *b = op->in[SM_IN(residual_layernorm_forward, b)];
    cpu_data *r = op->out[SM_OUT(residual_layernorm_forward, r)];
    const int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(residual_layernorm_forward, a)]);
    const int64_t n_rows = sm_tensor_rows(op->in_tensor[SM_IN(residual_layernorm_forward, a)]);
    const cpu_range rows = cpu_my_rows(team, n_rows);
    forward f = begin_forward(op, team, 2, C, n_rows);
    f.w = op->in[SM_IN(residual_layernorm_forward, w)];
    f.b = op->in[SM_IN(residual_layernorm_forward, beta)];
    f.y = op->out[SM_OUT(residual_layernorm_forward, y)];
    f.mean = op->out[SM_OUT(residual_layernorm_forward, mean)];
    f.rstd = op->out[SM_OUT(residual_layernorm_forward, rstd)];
    const bool streams_r = f.streams && r != a;
    for (int64_t n = rows.first; n < rows.end; n++) {
        cpu_data *sum = streams_r ? f.gathered_r : r + n * C;
        cpu_add_rows(a + n * C, b + n * C, C, f.room, sum);
        forward_row(&f, sum, n, a + (n + 1) * C, b + (n + 1) * C);
        if (streams_r) {
            cpu_store_past_caches(sum, C, r + n * C);
        }
    }
    cpu_end_streams();
}

// Partial sums of dw, db and dbias; g, and dx as floats; dx where it is stored past the caches.
enum { PARTIALS = 3, BACKWARD_ROOMS = 5 };

CPU_SCRATCH(layernorm_backward) {
    (void)n_threads;
    return BACKWARD_ROOMS * (size_t)sm_tensor_cols(op->in_tensor[SM_IN(layernorm_backward, dy)]) * sizeof(float);
}

// A row of the backward: what is read, the thread's partial sums, and g (C), which keeps dy w between the passes, so
// that g minus its mean cancels exactly.
typedef struct {
    const cpu_data *dy;
    const cpu_data *x;
    const cpu_data *dskip; // may be NULL
    const float *w;
    moments of;
    float *dw;
    float *db;
    float *dbias;
    float *g;
} backward;

// Adds to dw and db; returns the means of g and of g xh.
static void sum_row(const backward *r, int64_t C, float *mean_g, float *mean_gx) {
    const cpu_data *dy = r->dy;
    const cpu_data *x = r->x;
    const float *w = r->w;
    const moments of = r->of;
    float *dw = r->dw;
    float *db = r->db;
    float *g = r->g;
    float sum_g = 0;
    float sum_gx = 0;
#pragma omp simd reduction(+ : sum_g, sum_gx)
    for (int64_t c = 0; c < C; c++) {
        const float xh = (cpu_widen(x[c]) - of.mean) * of.rstd;
        const float dy_c = cpu_widen(dy[c]);
        g[c] = dy_c * w[c];
        sum_g += g[c];
        sum_gx += g[c] * xh;
        dw[c] += dy_c * xh;
        db[c] += dy_c;
    }
    *mean_g = sum_g / (float)C;
    *mean_gx = sum_gx / (float)C;
}

// n elements of dx from `at` on, and what they add to dbias.
static inline void differentiate_block(const backward *r, float mean_g, float mean_gx, int64_t at, int64_t n,
                                       float *dx) {
    const cpu_data *x = r->x + at;
    const moments of = r->of;
    const float *g = r->g + at;
    float *dbias = r->dbias + at;
    if (r->dskip == NULL) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            const float xh = (cpu_widen(x[i]) - of.mean) * of.rstd;
            dx[i] = of.rstd * (g[i] - mean_g - xh * mean_gx);
            dbias[i] += dx[i];
        }
    } else {
        const cpu_data *dskip = r->dskip + at;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            const float xh = (cpu_widen(x[i]) - of.mean) * of.rstd;
            dx[i] = cpu_widen(dskip[i]) + of.rstd * (g[i] - mean_g - xh * mean_gx);
            dbias[i] += dx[i];
        }
    }
}

// dx, which may be dskip or, where it is a room of floats, g. Meanwhile asks for the row that follows.
static void backward_row(const backward *r, int64_t C, float *dx) {
    float mean_g;
    float mean_gx;
    sum_row(r, C, &mean_g, &mean_gx);
    int64_t c = 0;
    for (; c + CPU_BLOCK_ELEMS <= C; c += CPU_BLOCK_ELEMS) {
        cpu_ask_for_block(r->dy + C + c);
        cpu_ask_for_block(r->x + C + c);
        if (r->dskip != NULL) {
            cpu_ask_for_block(r->dskip + C + c);
        }
        differentiate_block(r, mean_g, mean_gx, c, CPU_BLOCK_ELEMS, dx + c);
    }
    differentiate_block(r, mean_g, mean_gx, c, C - c, dx + c);
}

// For both kinds: residual_layernorm_backward has layernorm_backward's operands at the same places, and dskip.
_Static_assert(SM_IN(residual_layernorm_backward, dskip) == SM_IN(layernorm_backward, n_operands) &&
                   SM_IN(residual_layernorm_backward, rstd) == SM_IN(layernorm_backward, rstd) &&
                   SM_OUT(residual_layernorm_backward, dbeta) == SM_OUT(layernorm_backward, db) &&
                   SM_OUT(residual_layernorm_backward, dbias) == SM_OUT(layernorm_backward, dbias),
               "what one function reads of both kinds");

static void layernorm_backward(const host_op *op, const cpu_data *dskip, const cpu_team *team) {
    const cpu_data *dy = op->in[SM_IN(layernorm_backward, dy)];
    const cpu_data *x = op->in[SM_IN(layernorm_backward, x)];
    const float *mean = op->in[SM_IN(layernorm_backward, mean)];
    const float *rstd = op->in[SM_IN(layernorm_backward, rstd)];
    cpu_data *dx = op->out[SM_OUT(layernorm_backward, dx)];
    const int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(layernorm_backward, dy)]);
    const int64_t n_rows = sm_tensor_rows(op->in_tensor[SM_IN(layernorm_backward, dy)]);
    const bool streams = dskip != dx && cpu_leaves_caches(team, n_rows * C * (int64_t)sizeof *dx);
    float *partials = team->scratch[team->thread];
    float *g = partials + PARTIALS * C;
    memset(partials, 0, PARTIALS * (size_t)C * sizeof *partials);
    const cpu_range rows = cpu_my_rows(team, n_rows);
    for (int64_t n = rows.first; n < rows.end; n++) {
        const backward r = {.dy = dy + n * C,
                            .x = x + n * C,
                            .dskip = dskip == NULL ? NULL : dskip + n * C,
                            .w = op->in[SM_IN(layernorm_backward, w)],
                            .of = {mean[n], rstd[n]},
                            .dw = partials,
                            .db = partials + C,
                            .dbias = partials + 2 * C,
                            .g = g};
        cpu_data *to = streams ? (cpu_data *)(g + C) : dx + n * C;
        float *result = cpu_gathered(to, g);
        backward_row(&r, C, result);
        cpu_store_gathered(result, C, to);
        if (streams) {
            cpu_store_past_caches(to, C, dx + n * C);
        }
    }
    cpu_end_streams();
}

CPU_FINISH(layernorm_backward) {
    const int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(layernorm_backward, dy)]);
    cpu_add_partials(team, 0, C, op->out[SM_OUT(layernorm_backward, dw)]);
    cpu_add_partials(team, C, C, op->out[SM_OUT(layernorm_backward, db)]);
    if (op->out[SM_OUT(layernorm_backward, dbias)] != NULL) {
        cpu_add_partials(team, 2 * C, C, op->out[SM_OUT(layernorm_backward, dbias)]);
    }
}

CPU_KERNEL(layernorm_backward) { layernorm_backward(op, NULL, team); }

CPU_KERNEL(residual_layernorm_backward) {
    layernorm_backward(op, op->in[SM_IN(residual_layernorm_backward, dskip)], team);
}
