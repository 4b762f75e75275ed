// rmsnorm.c: root mean square normalisation, alone and with the residual sum beside it.
//
// Rows are shared out over the threads. A row fits in the first-level cache, so the passes over it read memory once.
// The gradient of w is a sum over rows: each thread sums its own in scratch, then each adds up a range of columns.
#include <math.h>
#include <string.h>

#include "backends/cpu/common/kernel.h"
#include "backends/cpu/common/row.h"

static inline void normalise_block(const float *x, const float *w, float *y, int64_t n, float rstd) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] * rstd * w[i];
    }
}

// y = x rstd w, which may be x; returns rstd. Meanwhile asks for the row that follows, next_b where there are two
// tensors.
static float normalise_row(const float *x, const float *w, int64_t C, double eps, float *y, const cpu_data *next,
                           const cpu_data *next_b) {
    const float rstd = 1.0f / sqrtf(cpu_sum_squares(x, 0, C) / (float)C + (float)eps);
    int64_t c = 0;
    for (; c + CPU_BLOCK_ELEMS <= C; c += CPU_BLOCK_ELEMS) {
        cpu_ask_for_block(next + c);
        if (next_b != NULL) {
            cpu_ask_for_block(next_b + c);
        }
        normalise_block(x + c, w + c, y + c, CPU_BLOCK_ELEMS, rstd);
    }
    normalise_block(x + c, w + c, y + c, C - c, rstd);
    return rstd;
}

// What both kinds of the forward have, and a thread's rooms for a row: of floats, and of results where they are stored
// past the caches.
typedef struct {
    int64_t C;
    double eps;
    const float *w;
    cpu_data *y;
    float *rstd;
    bool streams;
    float *room;
    cpu_data *gathered_y;
    cpu_data *gathered_r;
} forward;

static void forward_row(const forward *f, const cpu_data *x, int64_t n, const cpu_data *next, const cpu_data *next_b) {
    const float *wide = cpu_widened(x, f->C, f->room);
    cpu_data *y = f->streams ? f->gathered_y : f->y + n * f->C;
    float *result = cpu_gathered(y, f->room);
    f->rstd[n] = normalise_row(wide, f->w, f->C, f->eps, result, next, next_b);
    cpu_store_gathered(result, f->C, y);
    if (f->streams) {
        cpu_store_past_caches(y, f->C, f->y + n * f->C);
    }
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

CPU_SCRATCH(rmsnorm_forward) {
    (void)n_threads;
    return FORWARD_ROOMS * (size_t)sm_tensor_cols(op->in_tensor[SM_IN(rmsnorm_forward, x)]) * sizeof(float);
}
_Static_assert(SM_IN(residual_rmsnorm_forward, a) == SM_IN(rmsnorm_forward, x), "scratch of both kinds");

CPU_KERNEL(rmsnorm_forward) {
    const cpu_data *x = op->in[SM_IN(rmsnorm_forward, x)];
    const int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(rmsnorm_forward, x)]);
    const int64_t n_rows = sm_tensor_rows(op->in_tensor[SM_IN(rmsnorm_forward, x)]);
    const cpu_range rows = cpu_my_rows(team, n_rows);
    forward f = begin_forward(op, team, 1, C, n_rows);
    f.w = op->in[SM_IN(rmsnorm_forward, w)];
    f.y = op->out[SM_OUT(rmsnorm_forward, y)];
    f.rstd = op->out[SM_OUT(rmsnorm_forward, rstd)];
    for (int64_t n = rows.first; n < rows.end; n++) {
        forward_row(&f, x + n * C, n, x + (n + 1) * C, NULL);
    }
    cpu_end_streams();
}

CPU_KERNEL(residual_rmsnorm_forward) {
    const cpu_data *a = op->in[SM_IN(residual_rmsnorm_forward, a)]; // may be r itself
    const cpu_data *b = op->in[SM_IN(residual_rmsnorm_forward, b)];
    cpu_data *r = op->out[SM_OUT(residual_rmsnorm_forward, r)];
    const int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(residual_rmsnorm_forward, a)]);
    const int64_t n_rows = sm_tensor_rows(op->in_tensor[SM_IN(residual_rmsnorm_forward, a)]);
    const cpu_range rows = cpu_my_rows(team, n_rows);
    forward f = begin_forward(op, team, 2, C, n_rows);
    f.w = op->in[SM_IN(residual_rmsnorm_forward, w)];
    f.y = op->out[SM_OUT(residual_rmsnorm_forward, y)];
    f.rstd = op->out[SM_OUT(residual_rmsnorm_forward, rstd)];
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

// Partial sums of dw; dx as floats; dx where it is stored past the caches.
enum { BACKWARD_ROOMS = 3 };

CPU_SCRATCH(rmsnorm_backward) {
    (void)n_threads;
    return BACKWARD_ROOMS * (size_t)sm_tensor_cols(op->in_tensor[SM_IN(rmsnorm_backward, dy)]) * sizeof(float);
}

// A row of the backward: what is read.
typedef struct {
    const cpu_data *dy;
    const cpu_data *x;
    const cpu_data *dskip; // may be NULL
    const float *w;
    float rstd;
} backward;

// Adds to the partial sums dw; returns the sum of dy w xh.
static float sum_row(const backward *r, int64_t C, float *dw) {
    const cpu_data *dy = r->dy;
    const cpu_data *x = r->x;
    const float *w = r->w;
    const float rstd = r->rstd;
    float sum_gx = 0;
#pragma omp simd reduction(+ : sum_gx)
    for (int64_t c = 0; c < C; c++) {
        const float dy_xh = cpu_widen(dy[c]) * (cpu_widen(x[c]) * rstd);
        sum_gx += dy_xh * w[c];
        dw[c] += dy_xh;
    }
    return sum_gx;
}

// n elements of dx from `at` on.
static inline void differentiate_block(const backward *r, float factor, int64_t at, int64_t n, float *dx) {
    const cpu_data *dy = r->dy + at;
    const cpu_data *x = r->x + at;
    const float *w = r->w + at;
    const float rstd = r->rstd;
    if (r->dskip == NULL) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            dx[i] = rstd * (cpu_widen(dy[i]) * w[i] - cpu_widen(x[i]) * factor);
        }
    } else {
        const cpu_data *dskip = r->dskip + at;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            dx[i] = cpu_widen(dskip[i]) + rstd * (cpu_widen(dy[i]) * w[i] - cpu_widen(x[i]) * factor);
        }
    }
}

// Adds to the partial sums dw, and finds dx, which may be dskip. Meanwhile asks for the row that follows.
static void backward_row(const backward *r, int64_t C, float *dx, float *dw) {
    const float factor = r->rstd * (sum_row(r, C, dw) / (float)C);
    int64_t c = 0;
    for (; c + CPU_BLOCK_ELEMS <= C; c += CPU_BLOCK_ELEMS) {
        cpu_ask_for_block(r->dy + C + c);
        cpu_ask_for_block(r->x + C + c);
        if (r->dskip != NULL) {
            cpu_ask_for_block(r->dskip + C + c);
        }
        differentiate_block(r, factor, c, CPU_BLOCK_ELEMS, dx + c);
    }
    differentiate_block(r, factor, c, C - c, dx + c);
}

// For both kinds: residual_rmsnorm_backward has rmsnorm_backward's operands at the same places, and dskip.
_Static_assert(SM_IN(residual_rmsnorm_backward, dskip) == SM_IN(rmsnorm_backward, n_operands) &&
                   SM_IN(residual_rmsnorm_backward, rstd) == SM_IN(rmsnorm_backward, rstd) &&
                   SM_OUT(residual_rmsnorm_backward, dw) == SM_OUT(rmsnorm_backward, dw),
               "what one function reads of both kinds");

static void rmsnorm_backward(const host_op *op, const cpu_data *dskip, const cpu_team *team) {
    const cpu_data *dy = op->in[SM_IN(rmsnorm_backward, dy)];
    const cpu_data *x = op->in[SM_IN(rmsnorm_backward, x)];
    const float *rstd = op->in[SM_IN(rmsnorm_backward, rstd)];
    cpu_data *dx = op->out[SM_OUT(rmsnorm_backward, dx)];
    const int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(rmsnorm_backward, dy)]);
    const int64_t n_rows = sm_tensor_rows(op->in_tensor[SM_IN(rmsnorm_backward, dy)]);
    const bool streams = dskip != dx && cpu_leaves_caches(team, n_rows * C * (int64_t)sizeof *dx);
    float *dw = team->scratch[team->thread];
    float *room = dw + C;
    memset(dw, 0, (size_t)C * sizeof *dw);
    const cpu_range rows = cpu_my_rows(team, n_rows);
    for (int64_t n = rows.first; n < rows.end; n++) {
        const backward r = {.dy = dy + n * C,
                            .x = x + n * C,
                            .dskip = dskip == NULL ? NULL : dskip + n * C,
                            .w = op->in[SM_IN(rmsnorm_backward, w)],
                            .rstd = rstd[n]};
        cpu_data *to = streams ? (cpu_data *)(room + C) : dx + n * C;
        float *result = cpu_gathered(to, room);
        backward_row(&r, C, result, dw);
        cpu_store_gathered(result, C, to);
        if (streams) {
            cpu_store_past_caches(to, C, dx + n * C);
        }
    }
    cpu_end_streams();
}

CPU_FINISH(rmsnorm_backward) {
    const int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(rmsnorm_backward, dy)]);
    cpu_add_partials(team, 0, C, op->out[SM_OUT(rmsnorm_backward, dw)]);
}

CPU_KERNEL(rmsnorm_backward) { rmsnorm_backward(op, NULL, team); }

CPU_KERNEL(residual_rmsnorm_backward) { rmsnorm_backward(op, op->in[SM_IN(residual_rmsnorm_backward, dskip)], team); }
