// spot_product.c: checks matrix products, Z = X M of (N,K) and (K,F).
//
// As a whole (Freivalds 1977): for a vector r of random signs, Z r equals X (M r), row by row, and both take as many
// operations as the operands have elements. Rounding changes a row's sum by about the square root of the sum of squared
// errors; a missing element, or one wrong by more than that, is found. Drawn elements are also computed directly, which
// is the only check after a nonlinear epilogue (gelu').
#include "src/plan/host_threads.h"
#include "src/verify/spot.h"

enum { BLOCK_ELEMS = 1 << 21, N_COLUMNS = 16 };

// Rounding errors in a row are independent: their sum with random signs is within this many standard deviations.
static const double deviations = 8;

typedef struct {
    int x, m, z;          // tensors
    bool m_is_transposed; // M is stored as (F,K)
    int64_t N, K, F;
    int64_t n_rows; // drawn
    int64_t *rows;
    double worth; // of a product of X's and M's numbers, which are bytes with scales in fp8; else 1
    int64_t columns[N_COLUMNS];
    int64_t n_columns;
    float *pre;  // for the drawn elements (rows x columns), with the epilogue gelu'
    float *act;  // room for a row of the forward's second output; NULL: it has none
    float *room; // for a block of rows of x, and of z
    float *room_z;
    float *signs;      // (F): r
    double *m_signs;   // (K): M r
    double *m_squares; // (K): sum over f of M[k,f]^2
    double *m_columns; // (columns,K)
} product;

static double gelu(double x) { return x / 2 * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))); }

static double gelu_slope(double x) {
    const double t = tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
}

// The epilogue's activation of x, or its derivative.
static double activate(unsigned epilogue, double x, bool is_slope) {
    const double p = x < 0 ? 0 : x;
    switch (sm_epilogue_activation(epilogue)) {
#define X(CODE, name, f, slope) \
    case SM_ACTIVATION_##CODE: return is_slope ? slope : f;
        SM_ACTIVATION_PAIRS(X)
#undef X
    default: (void)p; return is_slope ? gelu_slope(x) : gelu(x);
    }
}

static int64_t block_rows(int64_t cols) { return cols < BLOCK_ELEMS ? BLOCK_ELEMS / cols : 1; }

// --- sums ------------------------------------------------------------------------------------

// sums[i] += the sum over a row of values times signs, and of their squares.
static void sum_rows(int64_t rows, int64_t cols, const float *values, const float *signs, double *sums,
                     double *squares) {
#pragma omp parallel for schedule(static) if (rows * cols > SPOT_FEW_ELEMS) num_threads(sm_few_host_threads())
    for (int64_t i = 0; i < rows; i++) {
        const float *row = values + i * cols;
        double sum = 0;
        double square = 0;
#pragma omp simd reduction(+ : sum, square)
        for (int64_t j = 0; j < cols; j++) {
            sum += (double)(row[j] * signs[j]);
            square += (double)row[j] * row[j];
        }
        sums[i] += sum;
        squares[i] += square;
    }
}

// The same over columns: sums[j] += the sum over i of signs[i] values[i,j].
static void add_columns(int64_t rows, int64_t cols, const float *values, const float *signs, double *sums,
                        double *squares) {
    enum { COLUMNS = 256 }; // in one thread's block
#pragma omp parallel for schedule(static) if (rows * cols > SPOT_FEW_ELEMS) num_threads(sm_few_host_threads())
    for (int64_t first = 0; first < cols; first += COLUMNS) {
        const int64_t end = least_of(first + COLUMNS, cols);
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t j = first; j < end; j++) {
                const float v = values[i * cols + j];
                sums[j] += (double)(signs[i] * v);
                squares[j] += (double)v * v;
            }
        }
    }
}

// --- before ----------------------------------------------------------------------------------

// The worth of a product of two factors: 1, or for bytes, which their scales have multiplied, 1 / (scale scale).
static sm_status read_worth(spot *s, double *worth) {
    const bool is_dw = s->op.kind == SM_OP_MATMUL_BACKWARD_WEIGHT;
    const int first = is_dw ? SM_IN(matmul_backward_weight, x_scale) : SM_IN(matmul_forward, x_scale);
    *worth = 1;
    for (int k = first; k < first + 2 && s->op.attr.fp8; k++) {
        float scale;
        SM_TRY(spot_read(s, s->op.in[k], 0, 1, &scale));
        *worth /= (double)scale;
    }
    return SM_OK;
}

static void name_operands(const spot *s, product *p) {
    if (s->op.kind == SM_OP_MATMUL_FORWARD) {
        p->x = s->op.in[SM_IN(matmul_forward, x)];
        p->m = s->op.in[SM_IN(matmul_forward, W)];
        p->z = s->op.out[SM_OUT(matmul_forward, y)];
        p->m_is_transposed = s->op.attr.w_transposed;
    } else {
        p->x = s->op.in[SM_IN(matmul_backward_input, dy)];
        p->m = s->op.in[SM_IN(matmul_backward_input, W)];
        p->z = s->op.out[SM_OUT(matmul_backward_input, dx)];
        p->m_is_transposed = !s->op.attr.w_transposed;
    }
    p->N = sm_tensor_rows(&s->plan->tensors[p->x]);
    p->K = sm_tensor_cols(&s->plan->tensors[p->x]);
    p->F = sm_tensor_cols(&s->plan->tensors[p->z]);
}

static sm_status begin(spot *s) {
    product *p = s->state = spot_memory(s, 1, sizeof *p);
    name_operands(s, p);
    const int64_t n_rows = spot_n_rows(s, p->N);
    p->n_rows = spot_strata(s, p->N, n_rows, SPOT_NEW(s, p->rows, n_rows));
    p->n_columns = spot_strata(s, p->F, N_COLUMNS, p->columns);
    if ((s->op.attr.epilogue & SM_EPILOGUE_ACT_BACKWARD) == 0) {
        return SM_OK;
    }
    float *row;
    SPOT_NEW(s, p->pre, p->n_rows * p->n_columns);
    SPOT_NEW(s, row, p->F);
    for (int64_t i = 0; i < p->n_rows; i++) { // dx may overwrite pre
        SM_TRY(spot_read(s, s->op.in[SM_IN(matmul_backward_input, pre)], p->rows[i] * p->F, p->F, row));
        for (int64_t j = 0; j < p->n_columns; j++) {
            p->pre[i * p->n_columns + j] = row[p->columns[j]];
        }
    }
    return SM_OK;
}

// --- after -----------------------------------------------------------------------------------

static void find_room(spot *s, product *p) {
    const int64_t widest = p->K > p->F ? p->K : p->F;
    const int64_t block = widest > BLOCK_ELEMS ? widest : BLOCK_ELEMS; // of rows of either
    SPOT_NEW(s, p->room, block);
    SPOT_NEW(s, p->room_z, block);
    SPOT_NEW(s, p->signs, p->F);
    SPOT_NEW(s, p->m_signs, p->K);
    SPOT_NEW(s, p->m_squares, p->K);
    SPOT_NEW(s, p->m_columns, p->K * p->n_columns);
    if (s->op.kind == SM_OP_MATMUL_FORWARD && s->op.out[SM_OUT(matmul_forward, act)] != SM_NO_TENSOR) {
        SPOT_NEW(s, p->act, p->F);
    }
}

// Keeps what n rows of M as it is stored, from `first`, have of the drawn columns.
static void keep_columns(const product *p, int64_t first, int64_t n, const float *values) {
    for (int64_t j = 0; j < p->n_columns; j++) {
        double *column = p->m_columns + j * p->K;
        const int64_t f = p->columns[j];
        for (int64_t k = 0; k < n && !p->m_is_transposed; k++) {
            column[first + k] = values[k * p->F + f];
        }
        for (int64_t k = 0; k < p->K && p->m_is_transposed && f >= first && f < first + n; k++) {
            column[k] = values[(f - first) * p->K + k];
        }
    }
}

// For each k of M (K,F), which is stored as (F,K) if it is transposed: adds the sum over f of M r, and of squares. `p`:
// whose drawn columns are kept; NULL: nobody's.
static sm_status sum_matrix(spot *s, int m, bool is_transposed, int64_t K, int64_t F, const float *signs, double *sums,
                            double *squares, const product *p) {
    const int64_t rows = is_transposed ? F : K;
    const int64_t cols = is_transposed ? K : F;
    const int64_t block = least_of(block_rows(cols), rows);
    float *room = spot_memory(s, block * cols, sizeof *room);
    for (int64_t first = 0; first < rows; first += block) {
        const int64_t n = least_of(block, rows - first);
        const float *values;
        SM_TRY(spot_find(s, m, first * cols, n * cols, room, &values));
        if (is_transposed) {
            add_columns(n, K, values, signs + first, sums, squares);
        } else {
            sum_rows(n, F, values, signs, sums + first, squares + first);
        }
        if (p != NULL) {
            keep_columns(p, first, n, values);
        }
    }
    return SM_OK;
}

// A row of X and of Z, and their sums.
typedef struct {
    double got, want; // Z r, X (M r)
    double products;  // root of the sum of squares of all products for the row
    double size;      // norm of the row of Z
} row_sums;

static row_sums sum_row(const product *p, const float *x, const float *z) {
    double got = 0;
    double want = 0;
    double products = 0;
    double size = 0;
#pragma omp simd reduction(+ : got, size)
    for (int64_t f = 0; f < p->F; f++) {
        got += (double)(z[f] * p->signs[f]);
        size += (double)z[f] * z[f];
    }
#pragma omp simd reduction(+ : want, products)
    for (int64_t k = 0; k < p->K; k++) {
        want += (double)x[k] * p->m_signs[k];
        products += (double)x[k] * x[k] * p->m_squares[k];
    }
    return (row_sums){got, want, sqrt(products), sqrt(size)};
}

// Checks elements of a drawn row directly; `bias` may be NULL.
static void compare_elements(spot *s, const product *p, int64_t drawn, const float *x, const float *z,
                             const float *bias) {
    const sm_tensor *stored = &s->plan->tensors[p->z];
    const double roundoff = spot_sum_roundoff(s, p->K);
    const char *name = sm_op_get_info(s->op.kind)->out[0].name;
    for (int64_t j = 0; j < p->n_columns; j++) {
        const int64_t f = p->columns[j];
        double want = bias != NULL ? bias[f] : 0;
        double squares = want * want;
        for (int64_t k = 0; k < p->K; k++) {
            const double term = x[k] * p->m_columns[j * p->K + k];
            want += term;
            squares += term * term;
        }
        const double allowed = roundoff * (sqrt(squares) + fabs(want));
        if (p->pre != NULL) {
            const double slope = activate(s->op.attr.epilogue, p->pre[drawn * p->n_columns + j], true);
            spot_compare(s, name, z[f], want * slope,
                         1.2 * allowed + 1e-5 * fabs(want) + 2 * spot_store_error(stored, want));
            continue;
        }
        spot_compare(s, name, z[f], want, allowed + 2 * spot_store_error(stored, want));
        if (p->act != NULL) {
            spot_compare(s, "act", p->act[f], activate(s->op.attr.epilogue, want, false),
                         1.2 * allowed + 1e-5 * fabs(want) + 4 * spot_store_error(stored, want));
        }
    }
}

static sm_status compare_drawn(spot *s, const product *p, int64_t first, int64_t n, const float *bias) {
    for (int64_t i = 0; i < p->n_rows; i++) {
        const int64_t row = p->rows[i];
        if (row >= first && row < first + n) {
            SM_TRY(p->act != NULL ? spot_read(s, s->op.out[SM_OUT(matmul_forward, act)], row * p->F, p->F, p->act)
                                  : SM_OK);
            compare_elements(s, p, i, p->room + (row - first) * p->K, p->room_z + (row - first) * p->F, bias);
        }
    }
    return SM_OK;
}

// In units of a sum's rounding, f32 products that are summed in any order have a mean error of 0.02 to 0.2; operands
// rounded to b bits add about 2^(24-b) / (3 sqrt(K)), which is above the limit from 19 bits down for K of 64, from 17
// for 768, and from 15 for 50,000.
static double rounding_unit(int64_t sum_length, double size) { return 0x1p-24 * (4 + sqrt((double)sum_length)) * size; }

// Compares Z r and X (M r) for the block's rows.
static void compare_whole(spot *s, const product *p, int64_t n, const float *bias, row_sums *sums, spot_mean *mean) {
    const sm_tensor *stored = &s->plan->tensors[p->z];
    const double least = sm_dtype_format(stored->dtype)->least_normal * sqrt((double)p->F);
    const double roundoff = spot_sum_roundoff(s, p->K);
    double bias_sum = 0;
    for (int64_t f = 0; f < p->F && bias != NULL; f++) {
        bias_sum += (double)bias[f] * p->signs[f];
    }
#pragma omp parallel for schedule(static) if (n * (p->K + p->F) > SPOT_FEW_ELEMS) num_threads(sm_few_host_threads())
    for (int64_t i = 0; i < n; i++) {
        sums[i] = sum_row(p, p->room + i * p->K, p->room_z + i * p->F);
    }
    for (int64_t i = 0; i < n; i++) {
        spot_add_error(mean, sums[i].got - sums[i].want - bias_sum,
                       rounding_unit(p->K, sums[i].products + sums[i].size + fabs(bias_sum)));
        spot_compare(s, sm_op_get_info(s->op.kind)->out[0].name, sums[i].got, sums[i].want + bias_sum,
                     roundoff * (sums[i].products + sums[i].size) +
                         deviations * spot_roundoff(stored) * (sums[i].size + least) + 0x1p-22 * fabs(bias_sum));
    }
}

static sm_status end(spot *s) {
    product *p = s->state;
    float *bias = NULL;
    row_sums *sums;
    spot_mean mean = {.n = 0};
    const int64_t block = block_rows(p->K > p->F ? p->K : p->F);
    find_room(s, p);
    SM_TRY(read_worth(s, &p->worth));
    SPOT_NEW(s, sums, block);
    if (s->op.kind == SM_OP_MATMUL_FORWARD && s->op.in[SM_IN(matmul_forward, b)] != SM_NO_TENSOR) {
        SM_TRY(spot_read(s, s->op.in[SM_IN(matmul_forward, b)], 0, p->F, SPOT_NEW(s, bias, p->F)));
    }
    spot_signs(s, p->F, p->signs);
    SM_TRY(sum_matrix(s, p->m, p->m_is_transposed, p->K, p->F, p->signs, p->m_signs, p->m_squares, p));
    for (int64_t first = 0; first < p->N; first += block) {
        const int64_t n = least_of(block, p->N - first);
        SM_TRY(spot_read(s, p->x, first * p->K, n * p->K, p->room));
        for (int64_t i = 0; i < n * p->K && p->worth != 1; i++) {
            p->room[i] = (float)(p->room[i] * p->worth);
        }
        SM_TRY(spot_read(s, p->z, first * p->F, n * p->F, p->room_z));
        if (p->pre == NULL) {
            compare_whole(s, p, n, bias, sums, &mean);
        }
        SM_TRY(compare_drawn(s, p, first, n, bias));
    }
    spot_compare_mean(s, sm_op_get_info(s->op.kind)->out[0].name, &mean);
    return SM_OK;
}

const spot_look spot_product = {begin, end};

// --- gradients of weights: dW = X^T dY, (C,F), or its sum with what is there; and the bias's --------

typedef struct {
    float *signs;    // (F)
    double *before;  // (C): dW r before the op, 0 if it overwrites
    double *squares; // (C): of dW before the op, then plus those after it
    void *bias;      // state of the check of db; NULL: the op has none
} weight;

static sm_status sum_weight(spot *s, const weight *w, double *sums) {
    const int64_t C = sm_op_dimension(s->plan, &s->op, "C");
    const int64_t F = sm_op_dimension(s->plan, &s->op, "F");
    return sum_matrix(s, s->op.out[SM_OUT(matmul_backward_weight, dW)], s->op.attr.w_transposed, C, F, w->signs, sums,
                      w->squares, NULL);
}

static sm_status begin_weight(spot *s) {
    const int64_t C = sm_op_dimension(s->plan, &s->op, "C");
    const int64_t F = sm_op_dimension(s->plan, &s->op, "F");
    weight *w = spot_memory(s, 1, sizeof *w);
    if (spot_out(s, SM_OUT(matmul_backward_weight, db)) != NULL) {
        SM_TRY(spot_column_sums.before(s));
        w->bias = s->state;
    }
    s->state = w;
    SPOT_NEW(s, w->signs, F);
    SPOT_NEW(s, w->before, C);
    SPOT_NEW(s, w->squares, C);
    spot_signs(s, F, w->signs);
    return s->op.attr.overwrites ? SM_OK : sum_weight(s, w, w->before);
}

// want[c] = sum_n x[n,c] (dY r)[n], and the squares of all products in it.
static sm_status sum_products(spot *s, const weight *w, double *want, double *squares) {
    const int x = s->op.in[SM_IN(matmul_backward_weight, x)];
    const int dy = s->op.in[SM_IN(matmul_backward_weight, dy)];
    const int64_t C = sm_tensor_cols(&s->plan->tensors[x]);
    const int64_t F = sm_tensor_cols(&s->plan->tensors[dy]);
    const int64_t N = sm_tensor_rows(&s->plan->tensors[x]);
    const int64_t block = least_of(N, block_rows(C > F ? C : F));
    float *room_x = spot_memory(s, block * C, sizeof *room_x);
    float *room_dy = spot_memory(s, block * F, sizeof *room_dy);
    double *sums = spot_memory(s, 2 * block, sizeof *sums);
    for (int64_t first = 0; first < N; first += block) {
        const int64_t n = least_of(block, N - first);
        SM_TRY(spot_read(s, x, first * C, n * C, room_x));
        SM_TRY(spot_read(s, dy, first * F, n * F, room_dy));
        memset(sums, 0, 2 * (size_t)block * sizeof *sums);
        sum_rows(n, F, room_dy, w->signs, sums, sums + block);
#pragma omp parallel for schedule(static) if (n * C > SPOT_FEW_ELEMS) num_threads(sm_few_host_threads())
        for (int64_t from = 0; from < C; from += 256) {
            for (int64_t i = 0; i < n; i++) {
                for (int64_t c = from; c < least_of(from + 256, C); c++) {
                    const double v = room_x[i * C + c];
                    want[c] += v * sums[i];
                    squares[c] += v * v * sums[block + i];
                }
            }
        }
    }
    return SM_OK;
}

// The same of factors that are turned, x (C,N) and dy (F,N), in bytes.
static sm_status sum_turned(spot *s, const weight *w, double *want, double *squares) {
    const int x = s->op.in[SM_IN(matmul_backward_weight, x)];
    const int64_t N = sm_op_dimension(s->plan, &s->op, "N");
    const int64_t C = sm_op_dimension(s->plan, &s->op, "C");
    double *sums = spot_memory(s, N, sizeof *sums);
    double *sizes = spot_memory(s, N, sizeof *sizes);
    float *row = spot_memory(s, N, sizeof *row);
    double worth;
    SM_TRY(read_worth(s, &worth));
    SM_TRY(sum_matrix(s, s->op.in[SM_IN(matmul_backward_weight, dy)], true, N, sm_op_dimension(s->plan, &s->op, "F"),
                      w->signs, sums, sizes, NULL));
    for (int64_t c = 0; c < C; c++) {
        SM_TRY(spot_read(s, x, c * N, N, row));
        for (int64_t n = 0; n < N; n++) {
            const double v = row[n] * worth;
            want[c] += v * sums[n];
            squares[c] += v * v * sizes[n];
        }
    }
    return SM_OK;
}

static sm_status end_weight(spot *s) {
    weight *w = s->state;
    const int64_t C = sm_op_dimension(s->plan, &s->op, "C");
    const int64_t N = sm_op_dimension(s->plan, &s->op, "N");
    double *got = spot_memory(s, C, sizeof *got);
    double *want = spot_memory(s, C, sizeof *want);
    double *squares = spot_memory(s, C, sizeof *squares);
    spot_mean mean = {.n = 0};
    SM_TRY(sum_weight(s, w, got));
    SM_TRY((s->op.attr.fp8 ? sum_turned : sum_products)(s, w, want, squares));
    for (int64_t c = 0; c < C; c++) {
        spot_add_error(&mean, got[c] - w->before[c] - want[c],
                       rounding_unit(N, sqrt(squares[c]) + sqrt(w->squares[c])));
        spot_compare(s, "dW", got[c] - w->before[c], want[c],
                     (spot_sum_roundoff(s, N) + deviations * 0x1p-24) * (sqrt(squares[c]) + sqrt(w->squares[c])));
    }
    spot_compare_mean(s, "dW", &mean);
    s->state = w->bias;
    return w->bias != NULL ? spot_column_sums.after(s) : SM_OK;
}

const spot_look spot_weight = {begin_weight, end_weight};

// --- factors of 8 bits: bytes of drawn rows, the transpose as a whole, amax, and a bias's gradient ----

typedef struct {
    float amax; // before the op, like
    float *db;  // (C), zeros if the op has none
} cast;

static sm_status begin_cast(spot *s) {
    cast *p = s->state = spot_memory(s, 1, sizeof *p);
    const int db = s->op.out[SM_OUT(cast_fp8, db)];
    const int64_t C = sm_op_dimension(s->plan, &s->op, "C");
    SPOT_NEW(s, p->db, C);
    SM_TRY(db != SM_NO_TENSOR ? spot_read(s, db, 0, C, p->db) : SM_OK);
    return spot_read(s, s->op.out[SM_OUT(cast_fp8, amax)], 0, 1, &p->amax);
}

// A number times its scale is rounded once, and sums of bytes have few bits: all of this is exact.
static sm_status compare_bytes(spot *s, int64_t N, int64_t C) {
    const int rows = s->op.out[SM_OUT(cast_fp8, rows)];
    int64_t *drawn;
    float *x, *got, *signs, scale;
    double *of_rows, *of_columns, *squares;
    const int64_t n_rows = spot_strata(s, N, spot_n_rows(s, N), SPOT_NEW(s, drawn, spot_n_rows(s, N)));
    SPOT_NEW(s, x, C);
    SPOT_NEW(s, got, C);
    SM_TRY(spot_read(s, s->op.in[SM_IN(cast_fp8, scale)], 0, 1, &scale));
    for (int64_t i = 0; i < n_rows; i++) {
        SM_TRY(spot_read(s, s->op.in[SM_IN(cast_fp8, x)], drawn[i] * C, C, x));
        SM_TRY(spot_read(s, rows, drawn[i] * C, C, got));
        for (int64_t c = 0; c < C; c++) {
            x[c] *= scale;
        }
        sm_dtype_round_trip(s->plan->tensors[rows].dtype, C, x);
        for (int64_t c = 0; c < C; c++) {
            spot_compare(s, "rows", (double)got[c], (double)x[c], 0);
        }
    }
    SPOT_NEW(s, signs, N);
    SPOT_NEW(s, of_rows, C);
    SPOT_NEW(s, of_columns, C);
    SPOT_NEW(s, squares, C);
    spot_signs(s, N, signs);
    SM_TRY(sum_matrix(s, rows, true, C, N, signs, of_rows, squares, NULL));
    SM_TRY(sum_matrix(s, s->op.out[SM_OUT(cast_fp8, columns)], false, C, N, signs, of_columns, squares, NULL));
    for (int64_t c = 0; c < C; c++) {
        spot_compare(s, "columns", of_columns[c], of_rows[c], 0);
    }
    return SM_OK;
}

static sm_status end_cast(spot *s) {
    const cast *p = s->state;
    const int64_t N = sm_op_dimension(s->plan, &s->op, "N");
    const int64_t C = sm_op_dimension(s->plan, &s->op, "C");
    const int64_t block = least_of(N, block_rows(C));
    const int db = s->op.out[SM_OUT(cast_fp8, db)];
    float *x, *ones, *got, amax, most = p->amax;
    double *sums, *squares;
    SPOT_NEW(s, x, block * C);
    SPOT_NEW(s, ones, block);
    SPOT_NEW(s, got, C);
    SPOT_NEW(s, sums, C);
    SPOT_NEW(s, squares, C);
    for (int64_t i = 0; i < block; i++) {
        ones[i] = 1;
    }
    for (int64_t first = 0; first < N; first += block) {
        const int64_t n = least_of(block, N - first);
        SM_TRY(spot_read(s, s->op.in[SM_IN(cast_fp8, x)], first * C, n * C, x));
        if (db != SM_NO_TENSOR) {
            add_columns(n, C, x, ones, sums, squares);
        }
        for (int64_t i = 0; i < n * C; i++) {
            most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        }
    }
    SM_TRY(spot_read(s, s->op.out[SM_OUT(cast_fp8, amax)], 0, 1, &amax));
    spot_compare(s, "amax", (double)amax, (double)most, 0);
    SM_TRY(db != SM_NO_TENSOR ? spot_read(s, db, 0, C, got) : SM_OK);
    for (int64_t c = 0; c < C && db != SM_NO_TENSOR; c++) {
        const double want = sums[c] + (double)p->db[c];
        spot_compare(s, "db", (double)got[c], want,
                     spot_plain_roundoff(N) * (sqrt(squares[c]) + fabs(want) + fabs((double)p->db[c])));
    }
    return compare_bytes(s, N, C);
}

const spot_look spot_cast = {begin_cast, end_cast};
