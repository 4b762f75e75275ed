// norm.h: what layernorm and rmsnorm share, alone and with the residual sum next to them. An rmsnorm is a layernorm
// that neither shifts to mean 0 nor adds a bias: `is_centred` is false, a constant wherever these functions are called.
//
// Rows are shared out over the threads. A row fits in the first-level cache, so the passes over it (mean, variance,
// result) read memory once.
#pragma once

#include <math.h>

#include "backends/cpu/common/kernel.h"
#include "backends/cpu/common/row.h"

typedef struct {
    float mean; // 0 where the row is not centred
    float rstd;
} cpu_moments;

static inline cpu_moments cpu_row_moments(bool is_centred, const float *x, int64_t C, double eps) {
    const float mean = is_centred ? cpu_sum(x, C) / (float)C : 0;
    return (cpu_moments){mean, 1.0f / sqrtf(cpu_sum_squares(x, mean, C) / (float)C + (float)eps)};
}

static inline void cpu_normalise_block(bool is_centred, const float *x, const float *w, const float *b, float *y,
                                       int64_t n, cpu_moments of) {
    if (is_centred) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            y[i] = (x[i] - of.mean) * of.rstd * w[i] + b[i];
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            y[i] = x[i] * of.rstd * w[i];
        }
    }
}

// --- forward -------------------------------------------------------------------------------------

typedef struct {
    const host_op *op;
    int rows; // the input that gives N and C
    const cpu_data *x;
    const cpu_data *add; // joins x, and their sum is stored in sum, which may be x; NULL: nothing does
    const float *w;
    const float *b; // of a centred norm
    cpu_data *sum;
    cpu_data *y;
    float *mean; // of a centred norm
    float *rstd;
} cpu_norm;

// A thread's rooms for a row: of floats, and of the two results where they are stored past the caches.
enum { CPU_NORM_FORWARD_ROOMS = 3 };

// Stores y, and the row's moments. `wide` may be y. Meanwhile asks for the row that follows.
static inline void cpu_norm_row(bool is_centred, const cpu_norm *f, const float *wide, int64_t n, int64_t C, float *y) {
    const cpu_moments of = cpu_row_moments(is_centred, wide, C, f->op->op->attr.eps);
    const cpu_data *next = f->x + (n + 1) * C;
    const cpu_data *next_add = f->add != NULL ? f->add + (n + 1) * C : NULL;
    const float *b = is_centred ? f->b : f->w; // else it is not looked at
    int64_t c = 0;
    for (; c + CPU_BLOCK_ELEMS <= C; c += CPU_BLOCK_ELEMS) {
        cpu_ask_for_block(next + c);
        if (next_add != NULL) {
            cpu_ask_for_block(next_add + c);
        }
        cpu_normalise_block(is_centred, wide + c, f->w + c, b + c, y + c, CPU_BLOCK_ELEMS, of);
    }
    cpu_normalise_block(is_centred, wide + c, f->w + c, b + c, y + c, C - c, of);
    if (is_centred) {
        f->mean[n] = of.mean;
    }
    f->rstd[n] = of.rstd;
}

static inline void cpu_norm_forward(bool is_centred, const cpu_norm *f, const cpu_team *team) {
    const int64_t C = sm_tensor_cols(f->op->in_tensor[f->rows]);
    const int64_t n_rows = sm_tensor_rows(f->op->in_tensor[f->rows]);
    const int64_t n_results = f->add != NULL ? 2 : 1;
    const bool streams = cpu_leaves_caches(team, n_results * n_rows * C * (int64_t)sizeof(cpu_data));
    const bool streams_sum = streams && f->sum != f->x;
    float *room = team->scratch[team->thread];
    cpu_data *gathered_y = (cpu_data *)(room + C);
    cpu_data *gathered_sum = (cpu_data *)(room + 2 * C);
    const cpu_range rows = cpu_my_rows(team, n_rows);
    for (int64_t n = rows.first; n < rows.end; n++) {
        const cpu_data *x = f->x + n * C;
        cpu_data *sum = f->add == NULL ? NULL : streams_sum ? gathered_sum : f->sum + n * C;
        if (sum != NULL) {
            cpu_add_rows(x, f->add + n * C, C, room, sum);
        }
        cpu_data *y = streams ? gathered_y : f->y + n * C;
        float *result = cpu_gathered(y, room);
        cpu_norm_row(is_centred, f, cpu_widened(sum != NULL ? sum : x, C, room), n, C, result);
        cpu_store_gathered(result, C, y);
        if (streams) {
            cpu_store_past_caches(y, C, f->y + n * C);
        }
        if (sum != NULL && streams_sum) {
            cpu_store_past_caches(sum, C, f->sum + n * C);
        }
    }
    cpu_end_streams();
}

// --- backward ------------------------------------------------------------------------------------

// The inputs of a row's gradient.
typedef struct {
    const cpu_data *dy;
    const cpu_data *x;
    const cpu_data *dskip; // joins dx; may be NULL
    const float *w;
    cpu_moments of;
} cpu_norm_row_in;

static inline void cpu_ask_for_next_row(const cpu_norm_row_in *r, int64_t C, int64_t c) {
    cpu_ask_for_block(r->dy + C + c);
    cpu_ask_for_block(r->x + C + c);
    if (r->dskip != NULL) {
        cpu_ask_for_block(r->dskip + C + c);
    }
}

// Adds what a row gives to a thread's partial sums, and finds dx, which may be dskip or `room`, C floats.
typedef void cpu_norm_backward_row(const cpu_norm_row_in *r, int64_t C, float *partials, float *room, float *dx);

typedef struct {
    const host_op *op;
    int rows; // the input dy, which gives N and C
    const cpu_data *x;
    const cpu_data *dskip;
    const float *w;
    const float *mean; // of a centred norm
    const float *rstd;
    cpu_data *dx;
    int n_partials; // rooms of C floats at the beginning of scratch; two rooms follow
} cpu_norm_gradient;

static inline void cpu_norm_backward(const cpu_norm_gradient *g, cpu_norm_backward_row *backward_row,
                                     const cpu_team *team) {
    const cpu_data *dy = g->op->in[g->rows];
    const int64_t C = sm_tensor_cols(g->op->in_tensor[g->rows]);
    const int64_t n_rows = sm_tensor_rows(g->op->in_tensor[g->rows]);
    const bool streams = g->dskip != g->dx && cpu_leaves_caches(team, n_rows * C * (int64_t)sizeof *g->dx);
    float *partials = team->scratch[team->thread];
    float *room = partials + g->n_partials * C;
    memset(partials, 0, (size_t)(g->n_partials * C) * sizeof *partials);
    const cpu_range rows = cpu_my_rows(team, n_rows);
    for (int64_t n = rows.first; n < rows.end; n++) {
        const cpu_norm_row_in r = {.dy = dy + n * C,
                                   .x = g->x + n * C,
                                   .dskip = g->dskip == NULL ? NULL : g->dskip + n * C,
                                   .w = g->w,
                                   .of = {g->mean == NULL ? 0 : g->mean[n], g->rstd[n]}};
        cpu_data *to = streams ? (cpu_data *)(room + C) : g->dx + n * C;
        float *result = cpu_gathered(to, room);
        backward_row(&r, C, partials, room, result);
        cpu_store_gathered(result, C, to);
        if (streams) {
            cpu_store_past_caches(to, C, g->dx + n * C);
        }
    }
    cpu_end_streams();
}
