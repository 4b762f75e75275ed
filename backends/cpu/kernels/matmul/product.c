// product.c: c = a b, cut into blocks that stay in the caches while they are used
// (Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication").
//
// The result is cut into tiles of CPU_PRODUCT_ROWS x CPU_PRODUCT_COLS that stay in registers while k runs:
//
//                         +------+------+--   b panels: CPU_PRODUCT_COLS columns of a slice of k, packed in
//                         |      |      |  k  the order of use; each is read by all tiles below it
//                         +------+------+--
//          k              +------+------+--
//     +-----------+       | tile |      |  CPU_PRODUCT_ROWS
//     |  a rows   |       +------+------+--
//     +-----------+       | tile |      |
//     |           |       +------+------+--
//     +-----------+
//
//     for each slice of k:                    panels stay short
//       for each block of columns:            b's slice of it is packed at the first use
//         for each block of rows:             a's slice of it stays in the second-level cache
//           for each b panel:
//             for each row of tiles:          a tile
//
// Each thread does this for a rectangle of c of its own, and then helps others (common/help.h). It shares nothing that
// is written: lines of a packed operand that go from core to core cost more than packing twice. a is read where it lies
// when its rows are contiguous along k, one number at a time from CPU_PRODUCT_ROWS rows, unless the second-level cache
// is large and many columns use them: then its block is packed. So it is when its columns are contiguous, which then is
// only a copy. Where packing only copies (a b panel whose rows are contiguous, or a whose columns are), it is
// done by the first tile that uses it, while it multiplies: the memory's latency hides behind arithmetic. A b panel is
// packed by the tiles of the one before it, if these are enough.
#include "backends/cpu/common/gate.h"
#include "backends/cpu/common/help.h"
#include "backends/cpu/common/transpose.h"
#include "backends/cpu/kernels/matmul/tile_f32.h"

// --- packing ---------------------------------------------------------------------------------

// Packs `width` lines of length k that lie ld apart, each contiguous, side by side; zeros stand for those from n_lines.
static void pack_lines(const float *from, int64_t ld, int64_t n_lines, int64_t k, float *to, int64_t width) {
    const int64_t n_whole = n_lines / CPU_VECTOR * CPU_VECTOR;
    const int64_t k_whole = k / CPU_VECTOR * CPU_VECTOR;
    for (int64_t j = 0; j < k_whole; j += CPU_VECTOR) {
        for (int64_t i = 0; i < n_whole; i += CPU_VECTOR) {
            const float *lines = from + i * ld + j;
            for (int64_t r = 0; r < CPU_VECTOR; r++) {
                __builtin_prefetch(lines + r * ld + CPU_AHEAD);
            }
            cpu_transpose(lines, ld, to + j * width + i, width);
        }
    }
    for (int64_t i = 0; i < width; i++) {
        for (int64_t j = i < n_whole ? k_whole : 0; j < k; j++) {
            to[j * width + i] = i < n_lines ? from[i * ld + j] : 0.0f;
        }
    }
}

// Packs as many lines as a vector has elements as panels of CPU_PRODUCT_ROWS lines, k * CPU_PRODUCT_ROWS elements each.
static void pack_tiles_of_lines(const float *from, int64_t ld, int64_t k, float *to) {
    float square[CPU_VECTOR * CPU_VECTOR];
    int64_t j = 0;
    for (; j + CPU_VECTOR <= k; j += CPU_VECTOR) {
        for (int64_t r = 0; r < CPU_VECTOR; r++) {
            __builtin_prefetch(from + r * ld + j + CPU_AHEAD);
        }
        cpu_transpose(from + j, ld, square, CPU_VECTOR);
        for (int64_t i = 0; i < CPU_VECTOR; i++) {
            for (int64_t r = 0; r < CPU_VECTOR; r += CPU_PRODUCT_ROWS) {
                memcpy(to + r * k + (j + i) * CPU_PRODUCT_ROWS, square + i * CPU_VECTOR + r,
                       CPU_PRODUCT_ROWS * sizeof *to);
            }
        }
    }
    for (int64_t r = 0; r < CPU_VECTOR; r += CPU_PRODUCT_ROWS) {
        pack_lines(from + r * ld + j, ld, CPU_PRODUCT_ROWS, k - j, to + r * k + j * CPU_PRODUCT_ROWS, CPU_PRODUCT_ROWS);
    }
}

// Packs k rows of n elements that lie ld apart as panels of `width` columns, k * width elements each; zeros stand
// for the columns from n on.
static void pack_rows(const float *from, int64_t ld, int64_t n, int64_t k, float *to, int64_t width) {
    for (int64_t first = 0; first < n; first += width) {
        const int64_t n_cols = cpu_min64(n - first, width);
        for (int64_t j = 0; j < k; j++) {
            __builtin_prefetch(from + (j + CPU_AHEAD) * ld + first);
            memcpy(to, from + j * ld + first, (size_t)n_cols * sizeof *to);
            memset(to + n_cols, 0, (size_t)(width - n_cols) * sizeof *to);
            to += width;
        }
    }
}

// --- the part of a thread -----------------------------------------------------------------------

// A slice of k of a thread's rectangle, as a rule this one's.
typedef struct {
    const cpu_product *p;
    cpu_range rows;
    cpu_range cols;
    cpu_range slice; // of k
    bool last_slice;
    cpu_blocking blocking;
    int grid_rows;         // rectangles of the same columns
    float *b_panels;       // of a block of columns, packed
    float *a_panels;       // what of a block of rows is packed
    cpu_range packed_rows; // that a_panels holds, or else are read where they lie
    int64_t n_lying;       // of them
} job;

// The default's; no blocking that is tried asks for more.
size_t ISA(cpu_product_scratch)(SM_UNUSED int64_t m, SM_UNUSED int64_t n, SM_UNUSED int64_t k,
                                SM_UNUSED int n_threads) {
    const cpu_blocking d = cpu_default_blocking();
    return (size_t)(d.block_cols + d.block_tiles * CPU_PRODUCT_ROWS) * (size_t)d.slice_k * sizeof(float);
}

// A block of rows, over a block of columns.
typedef struct {
    cpu_range rows;
    cpu_range cols;
    int64_t n_lying;  // rows of a, from the first on, that are read where they lie
    int64_t n_paired; // likewise, that tiles of the first b panel pack, two tiles' at a time
} block;

// Whether rows of a that are contiguous along k are packed all the same. It takes as long as about ten columns; then an
// Intel core of this kind reads them from its second-level cache with less delay, and multiplies 5% faster.
static bool packs_lying_rows(int64_t n_cols) {
    return cpu_level2_is_large() && CPU_VECTOR % CPU_PRODUCT_ROWS == 0 && n_cols >= 4 * CPU_PRODUCT_COLS;
}

// Packs those rows of a in a block that are neither read where they lie nor packed by tiles.
static void pack_a(const job *j, block *of) {
    const cpu_product *p = j->p;
    const float *from = p->a + of->rows.first * p->a_row + j->slice.first * p->a_col;
    const int64_t n_rows = cpu_length(of->rows);
    const int64_t depth = cpu_length(j->slice);
    if (p->a_row == 1) {
        of->n_paired =
            cpu_length(of->cols) < CPU_PRODUCT_COLS ? 0 : n_rows / (2 * CPU_PRODUCT_ROWS) * (2 * CPU_PRODUCT_ROWS);
        pack_rows(from + of->n_paired, p->a_col, n_rows - of->n_paired, depth, j->a_panels + of->n_paired * depth,
                  CPU_PRODUCT_ROWS);
        of->n_lying = 0;
    } else {
        int64_t done = n_rows / CPU_PRODUCT_ROWS * CPU_PRODUCT_ROWS;
        if (packs_lying_rows(cpu_length(j->cols))) {
            done = n_rows / CPU_VECTOR * CPU_VECTOR;
            for (int64_t row = 0; row < done; row += CPU_VECTOR) {
                pack_tiles_of_lines(from + row * p->a_row, p->a_row, depth, j->a_panels + row * depth);
            }
            of->n_lying = 0;
        } else {
            of->n_lying = done;
        }
        of->n_paired = 0;
        for (; done < n_rows; done += CPU_PRODUCT_ROWS) {
            pack_lines(from + done * p->a_row, p->a_row, cpu_min64(n_rows - done, CPU_PRODUCT_ROWS), depth,
                       j->a_panels + done * depth, CPU_PRODUCT_ROWS);
        }
    }
}

// The rows of a tile, `row` rows into a block: packed, or read where they lie, by rows or, with `packs`, by columns.
static cpu_a_rows rows_of_tile(const job *j, const block *of, int64_t row, bool packs) {
    const cpu_product *p = j->p;
    const int64_t depth = cpu_length(j->slice);
    const float *lying = p->a + (of->rows.first + row) * p->a_row + j->slice.first * p->a_col;
    float *packed = j->a_panels + row * depth;
    if (packs) {
        // In a large L2 cache, packed tiles stay while two others are computed.
        return (cpu_a_rows){lying, 1, p->a_col, packed, CPU_PRODUCT_ROWS * depth, cpu_level2_is_large()};
    }
    if (row >= of->n_lying) {
        return (cpu_a_rows){.data = packed, .row = 1, .step = CPU_PRODUCT_ROWS};
    }
    return (cpu_a_rows){.data = lying, .row = p->a_row, .step = 1};
}

// The finish of n elements of a row of c, from element `at` on, whose column is `col`.
static inline __attribute__((always_inline)) void finish_row(const cpu_product *p, int64_t at, int64_t col, int64_t n) {
    float *restrict c = p->c + at;
    if (p->bias != NULL) {
        const float *restrict bias = p->bias + col;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            c[i] += bias[i];
        }
    }
    if (p->act != NULL) {
        cpu_activate_row(p->activation, c, n, p->act + at);
    }
    if (p->pre != NULL) {
        cpu_activation_slope_row(p->activation, p->pre + at, n, c);
    }
}

void ISA(cpu_finish_product)(const cpu_product *p, cpu_range rows, cpu_range cols) {
    const int64_t n_cols = cpu_length(cols);
    for (int64_t row = rows.first; row < rows.end; row++) {
        const int64_t at = row * p->n + cols.first;
        if (n_cols == CPU_PRODUCT_COLS) { // a length that the compiler knows
            finish_row(p, at, cols.first, CPU_PRODUCT_COLS);
        } else {
            finish_row(p, at, cols.first, n_cols);
        }
    }
}

// A b panel that no tile packs.
static void pack_b(const job *j, const float *b, int64_t n_cols, float *panel) {
    if (j->p->b_col != 1) {
        pack_lines(b, j->p->b_col, n_cols, cpu_length(j->slice), panel, CPU_PRODUCT_COLS);
    } else {
        pack_rows(b, j->p->b_row, n_cols, cpu_length(j->slice), panel, CPU_PRODUCT_COLS);
    }
}

// A b panel from column `col` on.
typedef struct {
    int64_t col;
    float *packed;
    bool is_fresh; // not packed yet
    bool asks;     // for the one that follows
    float *next;   // where that one is packed instead, meanwhile; NULL: nowhere
} b_panel;

// Tiles of a block under a b panel.
static void multiply_panel(const job *j, const block *of, const b_panel *panel) {
    const int64_t col = panel->col;
    const cpu_product *p = j->p;
    const int64_t depth = cpu_length(j->slice);
    const int64_t n_times = cpu_divide_up(depth, CPU_STRETCH);
    const int64_t n_cols = cpu_min64(of->cols.end - col, CPU_PRODUCT_COLS);
    const cpu_tile whole = cpu_tiles[cpu_divide_up(n_cols, CPU_TILE_VECTOR) - 1];
    const float *b = p->b + j->slice.first * p->b_row + col * p->b_col;
    const bool tile_packs =
        panel->is_fresh && p->b_col == 1 && n_cols == CPU_PRODUCT_COLS && cpu_length(of->rows) >= CPU_PRODUCT_ROWS;
    const float *beside = p->act != NULL ? p->act : p->pre;
    const bool finishes = j->last_slice && (p->bias != NULL || beside != NULL);
    const int64_t n_turns = cpu_divide_up(cpu_length(of->rows), CPU_PRODUCT_ROWS) * n_times;
    cpu_beside meanwhile = {.left = 0};
    if (panel->next != NULL) {
        meanwhile = (cpu_beside){.from = b + CPU_PRODUCT_COLS,
                                 .ld = p->b_row,
                                 .to = panel->next,
                                 .left = depth,
                                 .each = cpu_divide_up(depth, n_turns)};
    } else if (panel->asks) {
        const cpu_range cols = {col + CPU_PRODUCT_COLS, cpu_min64(col + 2 * CPU_PRODUCT_COLS, j->cols.end)};
        meanwhile.asking.b = cpu_lines_of_b(p, j->slice, cols, n_turns);
    }
    if (panel->is_fresh && !tile_packs) {
        pack_b(j, b, n_cols, panel->packed);
    }
    for (int64_t row = 0; row < cpu_length(of->rows); row += CPU_PRODUCT_ROWS) {
        const cpu_range rows = {of->rows.first + row, cpu_min64(of->rows.first + row + CPU_PRODUCT_ROWS, of->rows.end)};
        const bool packs_a = col == of->cols.first && row < of->n_paired && row % (2 * CPU_PRODUCT_ROWS) == 0;
        const bool packs_b = tile_packs && row == 0;
        const cpu_a_rows a = rows_of_tile(j, of, row, packs_a);
        const int64_t at = rows.first * p->n + col;
        cpu_tile_result to = {.c = p->c + at, .ld = p->n, .add = p->add || j->slice.first > 0};
        meanwhile.asking.result = cpu_lines_of(to.c, p->n, cpu_length(rows), n_cols, n_times);
        if (finishes && beside != NULL) {
            to.beside = beside + at;
            meanwhile.asking.beside = cpu_lines_of(to.beside, p->n, cpu_length(rows), n_cols, n_times);
        }
        if (packs_a && packs_b) {
            cpu_tile_packs_both(depth, a, b, p->b_row, panel->packed, to, &meanwhile);
        } else if (packs_a) {
            cpu_tile_packs_a(depth, a, panel->packed, to, &meanwhile);
        } else if (packs_b) {
            cpu_tile_packs_b(depth, a, b, p->b_row, panel->packed, to, &meanwhile);
        } else if (cpu_length(rows) == CPU_PRODUCT_ROWS && n_cols % CPU_TILE_VECTOR == 0) {
            whole(depth, a, panel->packed, to, &meanwhile);
        } else {
            cpu_tile_at_edge(whole, depth, a, panel->packed, to, cpu_length(rows), n_cols, &meanwhile);
        }
        if (finishes) {
            ISA(cpu_finish_product)(p, rows, (cpu_range){col, col + n_cols});
        }
    }
    cpu_pack_beside(&meanwhile, meanwhile.left);
}

static int n_row_blocks(const job *j) {
    return (int)cpu_divide_up(cpu_length(j->rows), j->blocking.block_tiles * CPU_PRODUCT_ROWS);
}

// Whether a b panel is packed while the one before it is used: if that is a copy, and there are tiles enough.
static bool packs_ahead(const job *j, const block *of, int64_t next_col) {
    enum { LEAST_TILES = 8 };
    return j->p->b_col == 1 && next_col + CPU_PRODUCT_COLS <= of->cols.end &&
           cpu_length(of->rows) >= LEAST_TILES * CPU_PRODUCT_ROWS;
}

// A block of this thread's columns, over all of its rows. Where one block of rows is all there is, each b
// panel is used up at once, and two places in the scratch do for all, of all columns.
static void multiply_columns(const job *j, cpu_range cols) {
    const int n_blocks = n_row_blocks(j);
    const int64_t panel_elems = CPU_PRODUCT_COLS * j->blocking.slice_k;
    for (int i = 0; i < n_blocks; i++) {
        const cpu_range rows = cpu_split(cpu_length(j->rows), CPU_PRODUCT_ROWS, i, n_blocks);
        block of = {.rows = {j->rows.first + rows.first, j->rows.first + rows.end}, .cols = cols};
        pack_a(j, &of);
        b_panel panel = {.packed = j->b_panels, .is_fresh = i == 0, .asks = i == 0};
        for (int64_t nth = 1; cols.first + (nth - 1) * CPU_PRODUCT_COLS < cols.end; nth++) {
            const int64_t next_col = cols.first + nth * CPU_PRODUCT_COLS;
            float *next = j->b_panels + (n_blocks == 1 ? nth % 2 : nth) * panel_elems;
            panel.col = next_col - CPU_PRODUCT_COLS;
            panel.next = i == 0 && packs_ahead(j, &of, next_col) ? next : NULL;
            multiply_panel(j, &of, &panel);
            panel.is_fresh = i == 0 && panel.next == NULL;
            panel.packed = next;
        }
    }
}

// The cost of reading or packing a row of a in a cell of c, in columns of c that could have been computed meanwhile.
static int64_t cost_of_a_row(const job *j, int64_t cell_rows, int64_t cell_cols) {
    if (j->p->a_row == 1) {
        return 48;
    }
    if (!packs_lying_rows(cell_cols)) {
        return 16;
    }
    const bool one_block = cell_rows <= j->blocking.block_tiles * CPU_PRODUCT_ROWS; // which stays packed
    return 24 * (one_block ? 1 : cpu_divide_up(cell_cols, j->blocking.block_cols));
}

// Divides c into a grid of n_threads cells, and takes the one with the cheapest largest cell. The time of each cell for
// its operands is counted as rows and columns of c that could have been computed meanwhile.
static void choose_grid(const cpu_team *team, job *j) {
    const cpu_product *p = j->p;
    const int64_t b_cost_rows = p->b_col == 1 ? 6 : 16;
    int64_t best = INT64_MAX;
    for (int grid_rows = 1; grid_rows <= team->n_threads; grid_rows++) {
        const int grid_cols = team->n_threads / grid_rows;
        const int64_t cell_rows = cpu_divide_up(cpu_divide_up(p->m, CPU_PRODUCT_ROWS), grid_rows) * CPU_PRODUCT_ROWS;
        const int64_t cell_cols = cpu_divide_up(cpu_divide_up(p->n, CPU_TILE_VECTOR), grid_cols) * CPU_TILE_VECTOR;
        const int64_t cost = (cell_rows + b_cost_rows) * (cell_cols + cost_of_a_row(j, cell_rows, cell_cols));
        const bool wanted = j->blocking.grid_rows == 0 || j->blocking.grid_rows == grid_rows;
        if (wanted && grid_rows * grid_cols == team->n_threads && cost < best) {
            best = cost;
            j->grid_rows = grid_rows;
        }
    }
}

// The rectangle of a thread.
static void enter_cell(job *j, const cpu_team *team, int thread) {
    const int grid_cols = team->n_threads / j->grid_rows;
    j->rows = cpu_split(j->p->m, CPU_PRODUCT_ROWS, thread / grid_cols, j->grid_rows);
    j->cols = cpu_split(j->p->n, CPU_TILE_VECTOR, thread % grid_cols, grid_cols);
}

// Slices are equally deep, so that none is too short to be worth its traffic.
static void enter_slice(job *j, int64_t slice, int64_t n_slices) {
    j->slice = (cpu_range){j->p->k * slice / n_slices, j->p->k * (slice + 1) / n_slices};
    j->last_slice = slice + 1 == n_slices;
}

// --- all threads --------------------------------------------------------------------------------

// Takes panels of a thread's rectangle until none is left.
static void take_panels(job *j, const cpu_team *team, int thread, int64_t n_slices) {
    enter_cell(j, team, thread);
    const int64_t n_panels = cpu_length(j->rows) > 0 ? cpu_divide_up(cpu_length(j->cols), CPU_PRODUCT_COLS) : 0;
    int64_t unit;
    while ((unit = cpu_take_panel(team, thread, j->grid_rows, 0, n_panels, n_slices)) >= 0) {
        const int64_t col = j->cols.first + unit % n_panels * CPU_PRODUCT_COLS;
        const int64_t before = j->slice.end;
        enter_slice(j, unit / n_panels, n_slices);
        block of = {
            .rows = j->rows, .cols = {col, cpu_min64(col + CPU_PRODUCT_COLS, j->cols.end)}, .n_lying = j->n_lying};
        if (j->slice.end != before || j->packed_rows.first != j->rows.first || j->packed_rows.end != j->rows.end) {
            pack_a(j, &of);
            j->packed_rows = j->rows;
            j->n_lying = of.n_lying;
        }
        multiply_panel(j, &of, &(b_panel){.col = col, .packed = j->b_panels, .is_fresh = true, .asks = true});
        cpu_end_panel(team, thread, 0, n_slices);
    }
}

// This thread's rectangle alone.
static void multiply_own(job *j, const cpu_team *team, int64_t n_slices) {
    enter_cell(j, team, team->thread);
    const int64_t block_cols = n_row_blocks(j) == 1 ? cpu_length(j->cols) : j->blocking.block_cols;
    for (int64_t slice = 0; slice < n_slices; slice++) {
        enter_slice(j, slice, n_slices);
        for (int64_t col = j->cols.first; col < j->cols.end; col += block_cols) {
            multiply_columns(j, (cpu_range){col, cpu_min64(col + block_cols, j->cols.end)});
        }
    }
}

void ISA(cpu_multiply)(const cpu_product *p, const cpu_team *team) {
    float *scratch = team->scratch[team->thread];
    job j = {.p = p, .b_panels = scratch, .blocking = cpu_default_blocking()};
    if (team->choice != NULL && team->choice->method == CPU_BY_PACKED) {
        j.blocking = team->choice->blocking;
    }
    j.a_panels = scratch + j.blocking.block_cols * j.blocking.slice_k;
    const int64_t n_slices = cpu_divide_up(p->k, j.blocking.slice_k);
    choose_grid(team, &j);
    enter_cell(&j, team, 0); // none is larger
    if (cpu_helps(team) && n_row_blocks(&j) == 1) {
        for (int turn = 0; turn < team->n_threads; turn++) {
            take_panels(&j, team, cpu_helped(team, j.grid_rows, turn), n_slices);
        }
    } else {
        multiply_own(&j, team, n_slices);
    }
}
