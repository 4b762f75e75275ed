// embedding.c: rows of the token and position tables, and their gradients.
#include "backends/cpu/common/kernel.h"

// The position of row n of the batch, counted from the beginning of its document, or of its sequence.
static int64_t position_of(const int32_t *starts, int64_t T, int64_t n) {
    return n % T - (starts == NULL ? 0 : starts[n]);
}

CPU_KERNEL(embedding_forward) {
    const int32_t *token = op->in[SM_IN(embedding_forward, token)];
    const int32_t *starts = op->in[SM_IN(embedding_forward, starts)]; // NULL: a sequence is one document
    const cpu_data *wte = op->in[SM_IN(embedding_forward, wte)];
    const cpu_data *wpe = op->in[SM_IN(embedding_forward, wpe)]; // NULL: no positions
    cpu_data *x = op->out[SM_OUT(embedding_forward, x)];
    int64_t T = op->out_tensor[SM_OUT(embedding_forward, x)]->dims[1];
    int64_t C = op->out_tensor[SM_OUT(embedding_forward, x)]->dims[2];
    cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->out_tensor[SM_OUT(embedding_forward, x)]));
    for (int64_t n = rows.first; n < rows.end; n++) {
        const cpu_data *token_row = wte + token[n] * C;
        const cpu_data *position_row = wpe == NULL ? NULL : wpe + position_of(starts, T, n) * C;
#pragma omp simd
        for (int64_t c = 0; c < C; c++) {
            x[n * C + c] = cpu_round(cpu_widen(token_row[c]) + (position_row == NULL ? 0 : cpu_widen(position_row[c])));
        }
    }
}

// dst[c] += src[c] over a range of columns.
static void add_columns(float *dst, const cpu_data *src, cpu_range cols) {
#pragma omp simd
    for (int64_t c = cols.first; c < cols.end; c++) {
        dst[c] += cpu_widen(src[c]);
    }
}

// A token may occur many times, so a row of dwte must belong to one thread: threads form a grid of row owners (by id
// modulo their number) and column owners of at least 64 channels, as many column owners as divide the team. Every
// thread reads all ids and adds, in the order of the batch, its own share: no atomics, the same sum every time.
CPU_KERNEL(embedding_backward) {
    enum { MIN_COLS = 64 };
    const int32_t *token = op->in[SM_IN(embedding_backward, token)];
    const int32_t *starts = op->in[SM_IN(embedding_backward, starts)];
    const cpu_data *dx = op->in[SM_IN(embedding_backward, dx)];
    float *dwte = op->out[SM_OUT(embedding_backward, dwte)];
    float *dwpe = op->out[SM_OUT(embedding_backward, dwpe)];
    int64_t T = op->in_tensor[SM_IN(embedding_backward, dx)]->dims[1];
    int64_t C = op->in_tensor[SM_IN(embedding_backward, dx)]->dims[2];
    int64_t n_rows = sm_tensor_rows(op->in_tensor[SM_IN(embedding_backward, dx)]);
    int n_col_parts = team->n_threads;
    while (n_col_parts > 1 && (team->n_threads % n_col_parts != 0 || C / n_col_parts < MIN_COLS)) {
        n_col_parts--;
    }
    int n_row_parts = team->n_threads / n_col_parts;
    int row_part = team->thread / n_col_parts;
    cpu_range cols = cpu_split(C, 16, team->thread % n_col_parts, n_col_parts);
    for (int64_t n = 0; n < n_rows; n++) {
        if (token[n] % n_row_parts == row_part) {
            add_columns(dwte + token[n] * C, dx + n * C, cols);
        }
        const int64_t position = position_of(starts, T, n);
        if (dwpe != NULL && position % n_row_parts == row_part) {
            add_columns(dwpe + position * C, dx + n * C, cols);
        }
    }
}
