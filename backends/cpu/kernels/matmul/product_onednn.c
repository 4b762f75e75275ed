// product_onednn.c: c = a b of narrow operands by oneDNN, where mode tuned chose that.
#include "backends/cpu/common/product.h"
#include "backends/cpu/kernels/matmul/finish_bf16.h"
#include "backends/cpu/onednn_matmul.h"

// Of a panel of any width, whose rows of sums lie ld apart, a few columns at a time.
static void finish_panel(const cpu_product *p, cpu_range rows, cpu_range cols, float *sums, int64_t ld) {
    enum { AT_ONCE = 32 };
    for (int64_t row = rows.first; row < rows.end; row++, sums += ld) {
        for (int64_t col = cols.first; col < cols.end; col += AT_ONCE) {
            const int64_t at = row * p->n + col;
            float *some = sums + (col - cols.first);
            if (cols.end - col >= AT_ONCE) { // a length that the compiler knows
                cpu_finish_row(p, at, col, AT_ONCE, false, some);
            } else {
                cpu_finish_row(p, at, col, cols.end - col, false, some);
            }
        }
    }
}

static void multiply_part(const cpu_product *p, const cpu_onednn_matmul *matmul, int part, void *scratch) {
    const cpu_onednn_cut cut = cpu_onednn_matmul_cut(matmul, part);
    for (int64_t row = cut.mine.rows.first; row < cut.mine.rows.end; row += cut.panel_rows) {
        const cpu_range rows = {row, cpu_min64(row + cut.panel_rows, cut.mine.rows.end)};
        for (int64_t col = cut.mine.cols.first; col < cut.mine.cols.end; col += cut.panel_cols) {
            const cpu_range cols = {col, cpu_min64(col + cut.panel_cols, cut.mine.cols.end)};
            float *c = p->rounded != NULL ? scratch : p->c + row * p->n + col;
            cpu_onednn_matmul_run(matmul, part, rows.end - row, cols.end - col, p->a + row * p->a_row,
                                  p->b + col * p->b_col, c, scratch);
            if (p->rounded != NULL) {
                finish_panel(p, rows, cols, c, cut.panel_cols);
            }
        }
    }
}

void ISA(cpu_multiply_onednn)(const cpu_product *p, const cpu_team *team) {
    const cpu_onednn_matmul *matmul = team->choice->matmul;
    for (int part = team->thread; part < cpu_onednn_matmul_n_parts(matmul); part += team->n_threads) {
        multiply_part(p, matmul, part, team->scratch[team->thread]);
    }
}
