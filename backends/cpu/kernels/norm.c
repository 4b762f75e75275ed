// norm.c: layernorm and rmsnorm, alone and with the residual sum next to them. An rmsnorm is a layernorm that neither
// shifts to mean 0 nor adds a bias: `is_centred` is false, a constant wherever a function is called.
//
// Rows are shared out over the threads. A row fits in the first-level cache, so the passes over it (mean, variance,
// result) read memory once. Gradients of w and b are sums over rows: each thread sums its own in scratch, then each adds
// up a range of columns.
#include <math.h>

#include "backends/cpu/common/kernel.h"
#include "backends/cpu/common/row.h"

typedef struct {
    float mean; // 0 where the row is not centred
    float rstd;
} moments;

static inline moments row_moments(bool is_centred, const float *x, int64_t C, double eps) {
    const float mean = is_centred ? cpu_sum(x, C) / (float)C : 0;
    return (moments){mean, 1.0f / sqrtf(cpu_sum_squares(x, mean, C) / (float)C + (float)eps)};
}

static inline void normalise_block(bool is_centred, const float *x, const float *w, const float *b, float *y, int64_t n,
                                   moments of) {
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
} norm;

// Of both kinds.
#define OPERANDS(kind)                                                                              \
    .op = op, .rows = SM_IN(kind, x), .x = op->in[SM_IN(kind, x)], .add = op->in[SM_IN(kind, add)], \
    .w = op->in[SM_IN(kind, w)], .sum = op->out[SM_OUT(kind, r)], .y = op->out[SM_OUT(kind, y)],    \
    .rstd = op->out[SM_OUT(kind, rstd)]

static size_t scratch_bytes(const host_op *op, int rows, size_t n_rooms) {
    return n_rooms * (size_t)sm_tensor_cols(op->in_tensor[rows]) * sizeof(float);
}

// A thread's rooms for a row: of floats, and of the two results where they are stored past the caches.
enum { FORWARD_ROOMS = 3 };

// Stores y, and the row's moments. `wide` may be y. Meanwhile asks for the row that follows.
static inline __attribute__((always_inline)) void normalise_row(bool is_centred, const norm *f, const float *wide,
                                                                int64_t n, int64_t C, float *y) {
    const moments of = row_moments(is_centred, wide, C, f->op->op->attr.eps);
    const cpu_data *next = f->x + (n + 1) * C;
    const cpu_data *next_add = f->add != NULL ? f->add + (n + 1) * C : NULL;
    const float *b = is_centred ? f->b : f->w; // else it is not looked at
    int64_t c = 0;
    for (; c + CPU_BLOCK_ELEMS <= C; c += CPU_BLOCK_ELEMS) {
        cpu_ask_for_block(next + c);
        if (next_add != NULL) {
            cpu_ask_for_block(next_add + c);
        }
        normalise_block(is_centred, wide + c, f->w + c, b + c, y + c, CPU_BLOCK_ELEMS, of);
    }
    normalise_block(is_centred, wide + c, f->w + c, b + c, y + c, C - c, of);
    if (is_centred) {
        f->mean[n] = of.mean;
    }
    f->rstd[n] = of.rstd;
}

static inline __attribute__((always_inline)) void normalise(bool is_centred, const norm *f, const cpu_team *team) {
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
        normalise_row(is_centred, f, cpu_widened(sum != NULL ? sum : x, C, room), n, C, result);
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
    moments of;
} row_in;

static inline void ask_for_next_row(const row_in *r, int64_t C, int64_t c) {
    cpu_ask_for_block(r->dy + C + c);
    cpu_ask_for_block(r->x + C + c);
    if (r->dskip != NULL) {
        cpu_ask_for_block(r->dskip + C + c);
    }
}

// Adds what a row gives to a thread's partial sums, and finds dx, which may be dskip or `room`, C floats.
typedef void row_gradient(const row_in *r, int64_t C, float *partials, float *room, float *dx);

typedef struct {
    const host_op *op;
    int rows; // the input dy, which gives N and C
    const cpu_data *x;
    const cpu_data *dskip;
    const float *w;
    const float *mean; // of a centred norm
    const float *rstd;
    cpu_data *dx;
    int n_partials; // rooms of C floats at the beginning of scratch
} gradient;

#define GRADIENT(kind)                                                                                   \
    .op = op, .rows = SM_IN(kind, dy), .x = op->in[SM_IN(kind, x)], .dskip = op->in[SM_IN(kind, dskip)], \
    .w = op->in[SM_IN(kind, w)], .rstd = op->in[SM_IN(kind, rstd)], .dx = op->out[SM_OUT(kind, dx)]

// The rooms that follow: of dx (or before it, g) as floats, and of dx where it is stored past the caches.
enum { BACKWARD_ROOMS = 2 };

static inline __attribute__((always_inline)) void differentiate(const gradient *g, row_gradient *of_row,
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
        const row_in r = {.dy = dy + n * C,
                          .x = g->x + n * C,
                          .dskip = g->dskip == NULL ? NULL : g->dskip + n * C,
                          .w = g->w,
                          .of = {g->mean == NULL ? 0 : g->mean[n], g->rstd[n]}};
        cpu_data *to = streams ? (cpu_data *)(room + C) : g->dx + n * C;
        float *result = cpu_gathered(to, room);
        of_row(&r, C, partials, room, result);
        cpu_store_gathered(result, C, to);
        if (streams) {
            cpu_store_past_caches(to, C, g->dx + n * C);
        }
    }
    cpu_end_streams();
}

// --- layernorm -----------------------------------------------------------------------------------

CPU_SCRATCH(layernorm_forward) { return scratch_bytes(op, SM_IN(layernorm_forward, x), FORWARD_ROOMS); }

CPU_KERNEL(layernorm_forward) {
    const norm f = {OPERANDS(layernorm_forward), .b = op->in[SM_IN(layernorm_forward, b)],
                    .mean = op->out[SM_OUT(layernorm_forward, mean)]};
    normalise(true, &f, team);
}

enum { LAYERNORM_PARTIALS = 3 }; // dw, db and dbias

CPU_SCRATCH(layernorm_backward) {
    return scratch_bytes(op, SM_IN(layernorm_backward, dy), LAYERNORM_PARTIALS + BACKWARD_ROOMS);
}

// Adds to dw and db, and keeps g = dy w, so that g minus its mean cancels exactly; finds the means of g and of g xh.
static void layernorm_sums(const row_in *r, int64_t C, float *dw, float *db, float *g, float *mean_g, float *mean_gx) {
    const cpu_data *dy = r->dy;
    const cpu_data *x = r->x;
    const float *w = r->w;
    const moments of = r->of;
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
static inline void layernorm_block(const row_in *r, const float *row_g, float mean_g, float mean_gx, int64_t at,
                                   int64_t n, float *row_dbias, float *dx) {
    const cpu_data *x = r->x + at;
    const moments of = r->of;
    const float *g = row_g + at;
    float *dbias = row_dbias + at;
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

static void layernorm_row(const row_in *r, int64_t C, float *partials, float *g, float *dx) {
    float *dbias = partials + 2 * C;
    float mean_g;
    float mean_gx;
    layernorm_sums(r, C, partials, partials + C, g, &mean_g, &mean_gx);
    int64_t c = 0;
    for (; c + CPU_BLOCK_ELEMS <= C; c += CPU_BLOCK_ELEMS) {
        ask_for_next_row(r, C, c);
        layernorm_block(r, g, mean_g, mean_gx, c, CPU_BLOCK_ELEMS, dbias, dx + c);
    }
    layernorm_block(r, g, mean_g, mean_gx, c, C - c, dbias, dx + c);
}

CPU_KERNEL(layernorm_backward) {
    const gradient g = {GRADIENT(layernorm_backward), .n_partials = LAYERNORM_PARTIALS,
                        .mean = op->in[SM_IN(layernorm_backward, mean)]};
    differentiate(&g, layernorm_row, team);
}

CPU_FINISH(layernorm_backward) {
    const int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(layernorm_backward, dy)]);
    cpu_add_partials(team, 0, C, op->out[SM_OUT(layernorm_backward, dw)]);
    cpu_add_partials(team, C, C, op->out[SM_OUT(layernorm_backward, db)]);
    if (op->out[SM_OUT(layernorm_backward, dbias)] != NULL) {
        cpu_add_partials(team, 2 * C, C, op->out[SM_OUT(layernorm_backward, dbias)]);
    }
}

// --- rmsnorm -------------------------------------------------------------------------------------

CPU_SCRATCH(rmsnorm_forward) { return scratch_bytes(op, SM_IN(rmsnorm_forward, x), FORWARD_ROOMS); }

CPU_KERNEL(rmsnorm_forward) {
    const norm f = {OPERANDS(rmsnorm_forward)};
    normalise(false, &f, team);
}

enum { RMSNORM_PARTIALS = 1 }; // dw

CPU_SCRATCH(rmsnorm_backward) {
    return scratch_bytes(op, SM_IN(rmsnorm_backward, dy), RMSNORM_PARTIALS + BACKWARD_ROOMS);
}

// Adds to the partial sums dw; returns the sum of dy w xh.
static float rmsnorm_sums(const row_in *r, int64_t C, float *dw) {
    const cpu_data *dy = r->dy;
    const cpu_data *x = r->x;
    const float *w = r->w;
    const float rstd = r->of.rstd;
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
static inline void rmsnorm_block(const row_in *r, float factor, int64_t at, int64_t n, float *dx) {
    const cpu_data *dy = r->dy + at;
    const cpu_data *x = r->x + at;
    const float *w = r->w + at;
    const float rstd = r->of.rstd;
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

static void rmsnorm_row(const row_in *r, int64_t C, float *dw, SM_UNUSED float *room, float *dx) {
    const float factor = r->of.rstd * (rmsnorm_sums(r, C, dw) / (float)C);
    int64_t c = 0;
    for (; c + CPU_BLOCK_ELEMS <= C; c += CPU_BLOCK_ELEMS) {
        ask_for_next_row(r, C, c);
        rmsnorm_block(r, factor, c, CPU_BLOCK_ELEMS, dx + c);
    }
    rmsnorm_block(r, factor, c, C - c, dx + c);
}

CPU_KERNEL(rmsnorm_backward) {
    const gradient g = {GRADIENT(rmsnorm_backward), .n_partials = RMSNORM_PARTIALS};
    differentiate(&g, rmsnorm_row, team);
}

CPU_FINISH(rmsnorm_backward) {
    const int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(rmsnorm_backward, dy)]);
    cpu_add_partials(team, 0, C, op->out[SM_OUT(rmsnorm_backward, dw)]);
}
