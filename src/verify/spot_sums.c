// spot_sums.c: checks ops that sum over rows, embeddings, dropout, and zeroing, by op_table.h's equations, in double.
#include <float.h>

#include "philox.h"
#include "src/plan/host_threads.h"
#include "src/verify/spot.h"

enum { BLOCK_ELEMS = 1 << 21, RUN_ELEMS = 64, N_RUNS = 64 };

static sm_status end_zero(spot *s) {
    float run[RUN_ELEMS];
    int64_t runs[N_RUNS];
    const int64_t n = spot_elems(spot_out(s, 0));
    const int64_t length = least_of(n, RUN_ELEMS);
    const int64_t n_runs = spot_strata(s, n / length, N_RUNS, runs);
    for (int64_t i = 0; i < n_runs; i++) {
        SM_TRY(spot_read(s, s->op.out[0], runs[i] * length, length, run));
        for (int64_t k = 0; k < length; k++) {
            spot_compare(s, "x", run[k], 0, 0);
        }
    }
    return SM_OK;
}

const spot_look spot_zero = {NULL, end_zero};

static sm_status end_sqnorm(spot *s) {
    const int64_t n = spot_elems(spot_in(s, 0));
    float *room = spot_memory(s, least_of(n, BLOCK_ELEMS), sizeof *room);
    double sum = 0;
    float got = 0;
    for (int64_t first = 0; first < n; first += BLOCK_ELEMS) {
        const int64_t length = least_of(BLOCK_ELEMS, n - first);
        const float *values;
        SM_TRY(spot_find(s, s->op.in[0], first, length, room, &values));
#pragma omp parallel for simd schedule(static) reduction(+ : sum) if (length > SPOT_FEW_ELEMS) num_threads(sm_few_host_threads())
        for (int64_t i = 0; i < length; i++) {
            sum += (double)values[i] * values[i];
        }
    }
    SM_TRY(spot_read(s, s->op.out[0], 0, 1, &got));
    if (isfinite((float)sum)) { // otherwise the step is skipped, and any non-finite number is right
        spot_compare(s, "sqnorm", got, sum, 1e-4 * sum);
    }
    return SM_OK;
}

const spot_look spot_sqnorm = {NULL, end_sqnorm};

// --- dropout ---------------------------------------------------------------------------------

typedef struct {
    int64_t n_runs, length;
    int64_t runs[N_RUNS];
    float before[N_RUNS * RUN_ELEMS]; // y may overwrite x
} dropped;

static sm_status begin_dropout(spot *s) {
    dropped *d = s->state = spot_memory(s, 1, sizeof *d);
    const int64_t n = spot_elems(spot_out(s, 0));
    d->length = least_of(n, RUN_ELEMS);
    d->n_runs = spot_strata(s, n / d->length, N_RUNS, d->runs);
    for (int64_t i = 0; i < d->n_runs; i++) {
        SM_TRY(spot_read(s, s->op.in[SM_IN(dropout, x)], d->runs[i] * d->length, d->length, d->before + i * d->length));
    }
    return SM_OK;
}

static sm_status end_dropout(spot *s) {
    const dropped *d = s->state;
    const double p = s->op.attr.dropout_p;
    float run[RUN_ELEMS];
    int32_t words[2];
    SM_TRY(spot_read_ids(s, s->op.in[SM_IN(dropout, rng_step)], 0, 2, words));
    const uint64_t step = (uint32_t)words[0] | (uint64_t)(uint32_t)words[1] << 32;
    for (int64_t i = 0; i < d->n_runs; i++) {
        SM_TRY(spot_read(s, s->op.out[0], d->runs[i] * d->length, d->length, run));
        for (int64_t k = 0; k < d->length; k++) {
            const uint64_t element = (uint64_t)(d->runs[i] * d->length + k);
            const bool keeps = sm_dropout_keeps(s->op.attr.rng_key, step, element, sm_dropout_threshold(p));
            const double want = keeps ? d->before[i * d->length + k] / (1 - p) : 0;
            spot_compare(s, "y", run[k], want, 1e-6 * fabs(want) + 2 * spot_store_error(spot_out(s, 0), want));
        }
    }
    return SM_OK;
}

const spot_look spot_dropout = {begin_dropout, end_dropout};

// --- sums that an op adds to an output -------------------------------------------------------------

typedef struct {
    const char *name; // of the output
    int tensor;       // SM_NO_TENSOR: the op leaves it out
    int64_t first, n; // its elements
    float *before;    // 0 if the op overwrites
    double *sums;     // of the terms
    double *squares;  // of the terms; for dbias their magnitudes
} summed;

static sm_status begin_sum(spot *s, const char *name, int64_t first, int64_t n, summed *m) {
    *m = (summed){.name = name, .tensor = sm_op_tensor(&s->op, name), .first = first, .n = n};
    if (m->tensor == SM_NO_TENSOR) {
        return SM_OK;
    }
    SPOT_NEW(s, m->before, n);
    m->squares = SPOT_NEW(s, m->sums, 2 * n) + n;
    return s->op.attr.overwrites ? SM_OK : spot_read(s, m->tensor, first, n, m->before);
}

// `roundoff`: of terms that were summed before they were rounded, else 0. Equal rows, such as those of one target, have
// equal rounding errors, which add up.
static sm_status end_sum(spot *s, const summed *m, int64_t n_terms, double roundoff) {
    float *got;
    if (m->tensor == SM_NO_TENSOR) {
        return SM_OK;
    }
    SM_TRY(spot_read(s, m->tensor, m->first, m->n, SPOT_NEW(s, got, m->n)));
    for (int64_t j = 0; j < m->n; j++) {
        const double before = m->before[j];
        const double size = roundoff > 0 ? m->squares[j] : sqrt(m->squares[j]);
        spot_compare(s, m->name, got[j], before + m->sums[j],
                     spot_plain_roundoff(n_terms) * (size + fabs(m->sums[j]) + fabs(before)) + 2 * roundoff * size +
                         FLT_MIN);
    }
    return SM_OK;
}

// --- gradients of biases and norms: sums over all rows ---------------------------------------------

enum { DW, DB, DBIAS, N_SUMS };

typedef struct {
    int64_t N, C;
    int dy, x, mean, rstd, dx; // tensors; SM_NO_TENSOR
    summed of[N_SUMS];         // (C)
    void *rows;                // state of the row check, which runs first
} column_sums;

static sm_status begin_columns(spot *s) {
    static const char *const names[N_SUMS] = {"dw", "db", "dbias"};
    column_sums *c = spot_memory(s, 1, sizeof *c);
    c->dy = sm_op_tensor(&s->op, "dy");
    c->mean = sm_op_tensor(&s->op, "mean");
    c->rstd = sm_op_tensor(&s->op, "rstd");
    c->x = c->rstd != SM_NO_TENSOR ? sm_op_tensor(&s->op, "x") : SM_NO_TENSOR; // a product's is for dW
    c->dx = sm_op_tensor(&s->op, "dx");
    c->N = sm_tensor_rows(&s->plan->tensors[c->dy]);
    c->C = sm_tensor_cols(&s->plan->tensors[c->dy]);
    for (int k = 0; k < N_SUMS; k++) {
        SM_TRY(begin_sum(s, names[k], 0, c->C, &c->of[k]));
    }
    if (c->dx != SM_NO_TENSOR) {
        SM_TRY(spot_rows.before(s));
        c->rows = s->state;
    }
    s->state = c;
    return SM_OK;
}

// Adds n rows of dy, x, dx, mean and rstd; NULL for those that the op does not have.
static void add_rows(const column_sums *c, int64_t n, const float *dy, const float *x, const float *dx,
                     const float *mean, const float *rstd) {
    const summed *of = c->of;
#pragma omp parallel for schedule(static) if (n * c->C > SPOT_FEW_ELEMS) num_threads(sm_few_host_threads())
    for (int64_t from = 0; from < c->C; from += 64) {
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = from; j < least_of(from + 64, c->C); j++) {
                const double g = dy[i * c->C + j];
                if (x != NULL) {
                    const double term = g * ((double)x[i * c->C + j] - (mean != NULL ? mean[i] : 0)) * rstd[i];
                    of[DW].sums[j] += term;
                    of[DW].squares[j] += term * term;
                }
                if (of[DB].sums != NULL) {
                    of[DB].sums[j] += g;
                    of[DB].squares[j] += g * g;
                }
                if (of[DBIAS].sums != NULL) {
                    const double term = dx[i * c->C + j];
                    of[DBIAS].sums[j] += term;
                    of[DBIAS].squares[j] += fabs(term);
                }
            }
        }
    }
}

static sm_status read_columns(spot *s, const column_sums *c) {
    const int64_t block = least_of(c->N, 1 + BLOCK_ELEMS / c->C);
    float *room = spot_memory(s, block * (3 * c->C + 2), sizeof *room);
    float *of_x = room + block * c->C;
    float *of_dx = of_x + block * c->C;
    float *of_mean = of_dx + block * c->C;
    float *of_rstd = of_mean + block;
    for (int64_t first = 0; first < c->N; first += block) {
        const int64_t n = least_of(block, c->N - first);
        SM_TRY(spot_read(s, c->dy, first * c->C, n * c->C, room));
        SM_TRY(c->x != SM_NO_TENSOR ? spot_read(s, c->x, first * c->C, n * c->C, of_x) : SM_OK);
        SM_TRY(c->of[DBIAS].sums != NULL ? spot_read(s, c->dx, first * c->C, n * c->C, of_dx) : SM_OK);
        SM_TRY(c->mean != SM_NO_TENSOR ? spot_read(s, c->mean, first, n, of_mean) : SM_OK);
        SM_TRY(c->rstd != SM_NO_TENSOR ? spot_read(s, c->rstd, first, n, of_rstd) : SM_OK);
        add_rows(c, n, room, c->x != SM_NO_TENSOR ? of_x : NULL, of_dx, c->mean != SM_NO_TENSOR ? of_mean : NULL,
                 of_rstd);
    }
    return SM_OK;
}

static sm_status end_columns(spot *s) {
    const column_sums *c = s->state;
    SM_TRY(read_columns(s, c));
    for (int k = 0; k < N_SUMS; k++) {
        const bool is_rounded = k == DBIAS && c->dx != SM_NO_TENSOR;
        SM_TRY(end_sum(s, &c->of[k], c->N, is_rounded ? spot_roundoff(&s->plan->tensors[c->dx]) : 0));
    }
    s->state = c->rows;
    return c->dx != SM_NO_TENSOR ? spot_rows.after(s) : SM_OK;
}

const spot_look spot_column_sums = {begin_columns, end_columns};

// --- gradients of the norms of heads: sums over rows and heads, of dy before dx may take its place -----------------

typedef struct {
    int64_t N, HS;
    int64_t n_heads[2]; // of queries, of keys
    summed of[2];       // (HS): dwq, dwk
    void *rows;         // state of the row check
} head_sums;

static sm_status sum_heads(spot *s, const head_sums *h, int64_t QKV) {
    const int64_t n_normed = h->n_heads[0] + h->n_heads[1];
    const int64_t block = least_of(h->N, 1 + BLOCK_ELEMS / QKV);
    float *room = spot_memory(s, block * (2 * QKV + n_normed), sizeof *room);
    float *x = room + block * QKV;
    float *rstd = x + block * QKV;
    for (int64_t first = 0; first < h->N; first += block) {
        const int64_t n = least_of(block, h->N - first);
        SM_TRY(spot_read(s, s->op.in[SM_IN(head_rmsnorm_backward, dy)], first * QKV, n * QKV, room));
        SM_TRY(spot_read(s, s->op.in[SM_IN(head_rmsnorm_backward, x)], first * QKV, n * QKV, x));
        SM_TRY(spot_read(s, s->op.in[SM_IN(head_rmsnorm_backward, rstd)], first * n_normed, n * n_normed, rstd));
        for (int64_t i = 0; i < n * n_normed; i++) {
            const int64_t head = i % n_normed;
            const int k = head >= h->n_heads[0];
            const int64_t at = i / n_normed * QKV + head * h->HS;
            for (int64_t j = 0; j < h->HS; j++) {
                const double term = (double)room[at + j] * x[at + j] * rstd[i];
                h->of[k].sums[j] += term;
                h->of[k].squares[j] += term * term;
            }
        }
    }
    return SM_OK;
}

static sm_status begin_heads(spot *s) {
    const sm_tensor *x = spot_in(s, SM_IN(head_rmsnorm_backward, x));
    head_sums *h = spot_memory(s, 1, sizeof *h);
    h->N = sm_tensor_rows(x);
    h->HS = spot_elems(spot_in(s, SM_IN(head_rmsnorm_backward, wq)));
    h->n_heads[0] = s->op.attr.n_head;
    h->n_heads[1] = s->op.attr.n_kv_head;
    SM_TRY(begin_sum(s, "dwq", 0, h->HS, &h->of[0]));
    SM_TRY(begin_sum(s, "dwk", 0, h->HS, &h->of[1]));
    SM_TRY(sum_heads(s, h, sm_tensor_cols(x)));
    SM_TRY(spot_rows.before(s));
    h->rows = s->state;
    s->state = h;
    return SM_OK;
}

static sm_status end_heads(spot *s) {
    const head_sums *h = s->state;
    SM_TRY(end_sum(s, &h->of[0], h->N * h->n_heads[0], 0));
    SM_TRY(end_sum(s, &h->of[1], h->N * h->n_heads[1], 0));
    s->state = h->rows;
    return spot_rows.after(s);
}

const spot_look spot_head_sums = {begin_heads, end_heads};

// --- embeddings ------------------------------------------------------------------------------

static int64_t position(const int32_t *starts, int64_t row, int64_t T) {
    return row % T - (starts == NULL ? 0 : starts[row]);
}

static sm_status read_ids(spot *s, int token_place, int starts_place, int32_t **tokens, int32_t **starts) {
    *starts = NULL;
    SM_TRY(spot_read_all_ids(s, s->op.in[token_place], tokens));
    return s->op.in[starts_place] != SM_NO_TENSOR ? spot_read_all_ids(s, s->op.in[starts_place], starts) : SM_OK;
}

static sm_status end_embedding(spot *s) {
    const sm_tensor *x = spot_out(s, 0);
    const int64_t T = x->dims[1];
    const int64_t C = x->dims[2];
    const int64_t N = x->dims[0] * T;
    const int wpe = s->op.in[SM_IN(embedding_forward, wpe)];
    int32_t *tokens;
    int32_t *starts;
    int64_t *rows = spot_memory(s, spot_n_rows(s, N), sizeof *rows);
    float *row = spot_memory(s, 3 * C, sizeof *row);
    SM_TRY(read_ids(s, SM_IN(embedding_forward, token), SM_IN(embedding_forward, starts), &tokens, &starts));
    const int64_t n = spot_strata(s, N, spot_n_rows(s, N), rows);
    for (int64_t i = 0; i < n; i++) {
        SM_TRY(spot_read(s, s->op.out[0], rows[i] * C, C, row));
        SM_TRY(spot_read(s, s->op.in[SM_IN(embedding_forward, wte)], tokens[rows[i]] * C, C, row + C));
        SM_TRY(wpe != SM_NO_TENSOR ? spot_read(s, wpe, position(starts, rows[i], T) * C, C, row + 2 * C) : SM_OK);
        for (int64_t c = 0; c < C; c++) {
            const double want = (double)row[C + c] + (wpe != SM_NO_TENSOR ? row[2 * C + c] : 0);
            spot_compare(s, "x", row[c], want,
                         2 * spot_store_error(x, want) +
                             0x1p-22 * (fabs((double)row[C + c]) + fabs((double)row[2 * C + c])));
        }
    }
    return SM_OK;
}

const spot_look spot_embedding = {NULL, end_embedding};

// Rows of the two tables: of drawn tokens and positions of the batch, and one that probably no token has.
enum { N_TABLE_ROWS = 17 };

typedef struct {
    int32_t *tokens;
    int32_t *starts;
    int64_t N, T, C;
    int64_t n;                    // drawn
    int64_t ids[2][N_TABLE_ROWS]; // of wte, of wpe
    summed of[2][N_TABLE_ROWS];   // (C): of each
} tables;

static int64_t row_of(const tables *t, int table, int64_t n) {
    return table == 0 ? t->tokens[n] : position(t->starts, n, t->T);
}

static sm_status begin_embedding(spot *s) {
    tables *t = s->state = spot_memory(s, 1, sizeof *t);
    int64_t rows[N_TABLE_ROWS];
    const sm_tensor *dx = spot_in(s, SM_IN(embedding_backward, dx));
    t->T = dx->dims[1];
    t->C = dx->dims[2];
    t->N = dx->dims[0] * t->T;
    SM_TRY(read_ids(s, SM_IN(embedding_backward, token), SM_IN(embedding_backward, starts), &t->tokens, &t->starts));
    t->n = spot_strata(s, t->N, N_TABLE_ROWS - 1, rows);
    for (int table = 0; table < 2; table++) {
        const int64_t other = s->op.out[table] != SM_NO_TENSOR ? spot_draw(s, sm_tensor_rows(spot_out(s, table))) : 0;
        for (int64_t i = 0; i <= t->n && s->op.out[table] != SM_NO_TENSOR; i++) {
            t->ids[table][i] = i < t->n ? row_of(t, table, rows[i]) : other;
            SM_TRY(begin_sum(s, table == 0 ? "dwte" : "dwpe", t->ids[table][i] * t->C, t->C, &t->of[table][i]));
        }
    }
    return SM_OK;
}

// Sums dx and its squares over all tokens with each drawn id. Rows of dx are read some at a time, as devices take
// longer for a read than for its bytes.
static sm_status sum_table(spot *s, const tables *t, int table, int64_t n_summed[N_TABLE_ROWS]) {
    enum { ROWS = 32 };
    const int64_t C = t->C;
    float *dx = spot_memory(s, ROWS * C, sizeof *dx);
    for (int64_t first = 0; first < t->N; first += ROWS) {
        const int64_t n_rows = least_of(t->N - first, ROWS);
        bool is_read = false;
        for (int64_t n = first; n < first + n_rows; n++) {
            for (int64_t i = 0; i <= t->n; i++) {
                if (row_of(t, table, n) != t->ids[table][i]) {
                    continue;
                }
                SM_TRY(is_read ? SM_OK
                               : spot_read(s, s->op.in[SM_IN(embedding_backward, dx)], first * C, n_rows * C, dx));
                is_read = true;
                n_summed[i]++;
                for (int64_t c = 0; c < C; c++) {
                    const double value = dx[(n - first) * C + c];
                    t->of[table][i].sums[c] += value;
                    t->of[table][i].squares[c] += value * value;
                }
            }
        }
    }
    return SM_OK;
}

static sm_status end_embedding_backward(spot *s) {
    const tables *t = s->state;
    for (int table = 0; table < 2; table++) {
        int64_t n_summed[N_TABLE_ROWS] = {0};
        SM_TRY(s->op.out[table] != SM_NO_TENSOR ? sum_table(s, t, table, n_summed) : SM_OK);
        for (int64_t i = 0; i <= t->n && s->op.out[table] != SM_NO_TENSOR; i++) {
            SM_TRY(end_sum(s, &t->of[table][i], n_summed[i], 0));
        }
    }
    return SM_OK;
}

const spot_look spot_embedding_backward = {begin_embedding, end_embedding_backward};
