// cpu_kernel_product_amx.c: c = a b of bf16 operands in AMX's tile registers, summed in float.
//
// Tile registers multiply faster than the second-level cache delivers, and memory delivers only what is read in long
// runs. So of the two operands of a tile one comes from the first level and the other from the second, and both are
// packed as they lie in memory, whole rows or whole lines at a time:
//
//     for each block of this thread's rows:          all of them, unless there are several slices of k
//       for each block of its columns:
//         for each slice of k:                       nearly always one
//           b's is packed                            and fills part of the second-level cache
//           for each panel of a, 32 rows:            packed; the next is asked for meanwhile
//             for each part of the slice:            a's stays in the first-level cache
//               for each panel of b, 32 columns:     a tile; its sums lie in scratch between two parts
//             rows are finished: bias, GELU, rounding
//
// Where a's elements lie contiguous across k, a panel of it would be one short piece of every row of memory: then its
// block of rows is packed as a whole, too.
//
// A result that is larger than the second-level caches will not be found there by who reads it: it is stored past them,
// which saves reading first what is written over. A thread packs what it needs itself, and meets no barrier.
#include "cpu_product.h"
#include "cpu_finish_bf16.h"
#include "cpu_tile_amx.h"
#include "cpu_topology.h"

enum {
    ROWS = CPU_PRODUCT_ROWS,
    COLS = CPU_PRODUCT_COLS,
    STEP_K = CPU_PRODUCT_STEP_K,
    PANEL_ELEMS = COLS / CPU_PACK_K * STEP_K, // packed, of one operand and step
    TILE_SUMS = ROWS * COLS,
    PART_STEPS = 16,      // most steps of k whose panel of a stays in the first-level cache: 32 KiB
    DEEPEST = 1536,       // k that is not cut into slices
    SLICE_STEPS = 32,     // most steps of a slice of what is deeper
    COL_COST = 48,        // to fetch and pack a column of b takes as long as so many rows of c,
    ROW_COST = 32,        // and a row of a as so many columns, where its elements are contiguous along k;
    ROW_COST_ACROSS = 64, // where they are not
};

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t length(cpu_range range) { return range.end - range.first; }

// --- how a product is cut -----------------------------------------------------------------------

typedef struct {
    bool across;        // a's elements are contiguous across k
    int64_t steps;      // of k, in all
    int64_t n_slices;   // of steps
    int64_t most_steps; // of a slice
    int64_t block_rows; // at most: a multiple of ROWS
    int64_t block_cols; // at most: a multiple of COLS
} division;

// The most of n that fit in so many bytes, in whole steps, when n is divided evenly.
static int64_t fitting(int64_t n, int64_t step, int64_t bytes, int64_t each_bytes) {
    const int64_t most = max64(bytes / (each_bytes * step), 1) * step;
    const int64_t n_blocks = cpu_divide_up(n, most);
    return cpu_divide_up(cpu_divide_up(n, n_blocks), step) * step;
}

// Of c, or of a cell of it.
static division divide(int64_t m, int64_t n, int64_t k, bool across) {
    const int64_t level2_bytes = (int64_t)cpu_topology_level2_bytes();
    division of = {.across = across, .steps = cpu_divide_up(k, STEP_K), .n_slices = 1};
    if (k > DEEPEST) {
        of.n_slices = cpu_divide_up(of.steps, SLICE_STEPS);
    }
    of.most_steps = cpu_divide_up(of.steps, of.n_slices);
    const bool has_sums = of.n_slices > 1; // of a whole block, beside what is packed
    const int64_t share_bytes = level2_bytes / 8 * (across && has_sums ? 2 : across || has_sums ? 3 : 4);
    const int64_t line_bytes = of.most_steps * STEP_K * (int64_t)sizeof(cpu_data);
    of.block_cols = fitting(n, COLS, share_bytes, line_bytes);
    of.block_rows = cpu_divide_up(m, ROWS) * ROWS;
    if (across) {
        of.block_rows = fitting(m, ROWS, share_bytes, line_bytes);
    }
    if (has_sums) {
        of.block_rows = cpu_min64(of.block_rows, fitting(m, ROWS, share_bytes, of.block_cols * (int64_t)sizeof(float)));
    }
    return of;
}

// Divides c into a grid of n_threads cells, and takes the one with the cheapest largest cell.
static division choose_cell(int64_t m, int64_t n, int64_t k, bool across, int n_threads, int *best_grid_rows) {
    division best = {0};
    int64_t best_cost = INT64_MAX;
    for (int grid_rows = 1; grid_rows <= n_threads; grid_rows++) {
        if (n_threads % grid_rows != 0) {
            continue;
        }
        const int64_t rows = cpu_divide_up(cpu_divide_up(m, ROWS), grid_rows) * ROWS;
        const int64_t cols = cpu_divide_up(cpu_divide_up(n, COLS), n_threads / grid_rows) * COLS;
        const division of = divide(rows, cols, k, across);
        const int64_t n_row_passes = across ? 1 : cpu_divide_up(cols, of.block_cols);
        const int64_t n_col_passes = cpu_divide_up(rows, of.block_rows);
        const int64_t cost =
            rows * cols + (across ? ROW_COST_ACROSS : ROW_COST) * rows * n_row_passes + COL_COST * cols * n_col_passes;
        if (cost < best_cost) {
            best_cost = cost;
            best = of;
            *best_grid_rows = grid_rows;
        }
    }
    return best;
}

// Whether who reads the result would not find it in the second-level caches: all of it is larger, or it is a weight's
// gradient, which is read when all of them are there.
static bool leaves_caches(const cpu_product *p, int n_threads) {
    const int64_t n = p->m * p->n;
    const int64_t level2_bytes = (int64_t)cpu_topology_level2_bytes();
    return p->rounded == NULL ? n * (int64_t)sizeof(float) > level2_bytes
                              : n * (int64_t)sizeof(cpu_data) > n_threads * level2_bytes / 2;
}

// The scratch of a thread: a block of b, a panel or block of a, and sums.
static int64_t b_elems(const division *of) { return of->block_cols / COLS * of->most_steps * PANEL_ELEMS; }
static int64_t a_elems(const division *of) {
    return (of->across ? of->block_rows / ROWS : 1) * of->most_steps * PANEL_ELEMS;
}
static int64_t sum_elems(const division *of) { return (of->n_slices > 1 ? of->block_rows : ROWS) * of->block_cols; }

size_t ISA(cpu_product_scratch)(int64_t m, int64_t n, int64_t k, int n_threads) {
    size_t most = 0;
    for (int across = 0; across < 2; across++) {
        int grid_rows;
        const division of = choose_cell(m, n, k, across, n_threads, &grid_rows);
        const size_t elems = (size_t)(b_elems(&of) + a_elems(&of) + sum_elems(&of));
        most = elems > most ? elems : most;
    }
    return most * sizeof(float);
}

// Where the loops are.
typedef struct {
    const cpu_product *p;
    division of;
    cpu_range rows;    // of the block
    cpu_range cols;    // of the block
    cpu_range steps;   // of the slice
    int64_t first_col; // of the thread's
    bool streams;      // results are stored past the caches
    cpu_packed *b;     // packed, panel by panel
    cpu_packed *a;     // packed: a panel, or all of the block's
    float *sums;       // panel by panel of a, and in each tile by tile
} job;

// Steps as elements along k, of which the last may be missing.
static cpu_range ks_of(const job *j) {
    return (cpu_range){j->steps.first * STEP_K, cpu_min64(j->steps.end * STEP_K, j->p->k)};
}

// --- packing ------------------------------------------------------------------------------------

// Few rows or lines of memory at a time are followed by the processor, which fetches ahead; so many are packed
// together.
enum { ROWS_AT_ONCE = 8, LINES_AT_ONCE = CPU_VECTOR };

// A block of b whose rows are contiguous.
static void pack_b_rows(const job *j, const cpu_data *from, int64_t depth, int64_t panel_elems) {
    const int64_t n_cols = length(j->cols);
    for (int64_t k = 0; k < depth; k += ROWS_AT_ONCE) {
        for (int64_t col = 0; col < n_cols; col += COLS) {
            cpu_packed *to = j->b + col / COLS * panel_elems + k / CPU_PACK_K * COLS;
            cpu_pack_rows(from + k * j->p->b_row + col, j->p->b_row, cpu_min64(n_cols - col, COLS),
                          cpu_min64(depth - k, ROWS_AT_ONCE), to, COLS);
        }
    }
}

// A block of b whose columns are: squares of pairs, and what is left of a panel that has no whole ones.
static void pack_b_lines(const job *j, const cpu_data *from, int64_t depth, int64_t panel_elems) {
    const int64_t n_cols = length(j->cols);
    const int64_t ld = j->p->b_col;
    for (int64_t col = 0; col < n_cols; col += COLS) {
        const cpu_data *lines = from + col * ld;
        cpu_packed *panel = j->b + col / COLS * panel_elems;
        if (n_cols - col < COLS || depth % STEP_K != 0 || ld % CPU_PACK_K != 0) {
            cpu_pack_lines(lines, ld, cpu_min64(n_cols - col, COLS), depth, panel, COLS);
            continue;
        }
        for (int64_t i = 0; i < COLS; i += LINES_AT_ONCE, lines += LINES_AT_ONCE * ld) {
            for (int64_t k = 0; k < depth; k += STEP_K) {
                for (int64_t r = LINES_AT_ONCE; r < 2 * LINES_AT_ONCE; r++) {
                    __builtin_prefetch(lines + r * ld + k, 0, 2);
                }
                cpu_pack_squares(lines + k, ld, LINES_AT_ONCE, STEP_K / CPU_PACK_K, panel + k / CPU_PACK_K * COLS + i,
                                 COLS);
            }
        }
    }
}

static void pack_b(const job *j) {
    const cpu_product *p = j->p;
    const cpu_range ks = ks_of(j);
    const int64_t panel_elems = length(j->steps) * PANEL_ELEMS;
    const int64_t n_packed = cpu_divide_up(length(ks), CPU_PACK_K) * COLS;
    const cpu_data *from = p->b + j->cols.first * p->b_col + ks.first * p->b_row;
    if (p->b_col == 1) {
        pack_b_rows(j, from, length(ks), panel_elems);
    } else {
        pack_b_lines(j, from, length(ks), panel_elems);
    }
    for (int64_t panel = 0; panel < cpu_divide_up(length(j->cols), COLS); panel++) {
        cpu_packed *end = j->b + panel * panel_elems + n_packed;
        memset(end, 0, (size_t)(panel_elems - n_packed) * sizeof *end);
    }
}

// The panel of a from `row` on, where its elements are contiguous along k; or all of the block, where they are not.
static void pack_a(const job *j, int64_t row) {
    const cpu_product *p = j->p;
    const cpu_range ks = ks_of(j);
    const cpu_data *from = p->a + row * p->a_row + ks.first * p->a_col;
    if (j->of.across) {
        cpu_pack_a_rows(from, p->a_col, j->rows.end - row, length(ks), j->a, length(j->steps) * PANEL_ELEMS);
    } else {
        cpu_pack_a_lines(from, p->a_row, cpu_min64(j->rows.end - row, ROWS), length(ks), j->a);
    }
}

// --- results ------------------------------------------------------------------------------------

static void finish_floats(const job *j, float *c, int64_t n, const float *sums) {
    if (j->streams && !j->p->add && n == COLS && (uintptr_t)c % 64 == 0) {
        _mm512_stream_ps(c, _mm512_loadu_ps(sums));
        _mm512_stream_ps(c + COLS / 2, _mm512_loadu_ps(sums + COLS / 2));
    } else {
        for (int64_t i = 0; i < n; i++) {
            c[i] = sums[i] + (j->p->add ? c[i] : 0.0f);
        }
    }
}

// Rows of the block, whose sums are one tile beside the other.
static void finish_rows(const job *j, cpu_range rows, float *sums) {
    const cpu_product *p = j->p;
    for (int64_t row = rows.first; row < rows.end; row++, sums += COLS) {
        float *tile = sums;
        for (int64_t col = j->cols.first; col < j->cols.end; col += COLS, tile += TILE_SUMS) {
            const int64_t n = cpu_min64(j->cols.end - col, COLS);
            const int64_t at = row * p->n + col;
            if (p->rounded == NULL) {
                finish_floats(j, p->c + at, n, tile);
            } else if (n == COLS) { // a length that the compiler knows
                cpu_finish_row(p, at, col, COLS, j->streams, tile);
            } else {
                cpu_finish_row(p, at, col, n, false, tile);
            }
        }
    }
}

// --- the part of a thread -----------------------------------------------------------------------

// What is read next: a's panel below the one from `row` on, and what this one's result is multiplied by.
static cpu_asking lines_beside(const job *j, int64_t row, int64_t n_times) {
    const cpu_product *p = j->p;
    const cpu_range ks = ks_of(j);
    const int64_t n_rows = cpu_min64(j->rows.end - row, ROWS);
    const int64_t n_below = cpu_min64(j->rows.end - row - ROWS, ROWS);
    cpu_asking asking = {.b.left = 0};
    if (!j->of.across && n_below > 0) {
        asking.b = cpu_lines_of(p->a + (row + ROWS) * p->a_row + ks.first, p->a_row, n_below, length(ks), n_times);
    }
    if (p->pre != NULL) {
        asking.beside = cpu_lines_of(p->pre + row * p->n + j->cols.first, p->n, n_rows, length(j->cols), n_times);
    }
    return asking;
}

// A panel of a by the block of b. Over several slices, its sums stay.
static void multiply_panel(const job *j, int64_t row, bool last_slice) {
    const int64_t n_steps = length(j->steps);
    const int64_t n_parts = cpu_divide_up(n_steps, PART_STEPS);
    const int64_t n_tiles = cpu_divide_up(length(j->cols), COLS);
    const int64_t panel = (row - j->rows.first) / ROWS;
    const cpu_packed *a = j->a + (j->of.across ? panel * n_steps * PANEL_ELEMS : 0);
    float *sums = j->sums + (j->of.n_slices > 1 ? panel * n_tiles * TILE_SUMS : 0);
    cpu_asking asking = lines_beside(j, row, n_tiles * n_steps);
    if (!j->of.across) {
        pack_a(j, row);
    }
    for (int64_t part = 0; part < n_parts; part++) {
        const cpu_range steps = {n_steps * part / n_parts, n_steps * (part + 1) / n_parts};
        const bool add = part > 0 || j->steps.first > 0;
        for (int64_t tile = 0; tile < n_tiles; tile++) {
            cpu_product_tile(length(steps), a + steps.first * PANEL_ELEMS,
                             j->b + (tile * n_steps + steps.first) * PANEL_ELEMS, sums + tile * TILE_SUMS, add,
                             &asking);
        }
    }
    if (last_slice) {
        finish_rows(j, (cpu_range){row, cpu_min64(row + ROWS, j->rows.end)}, sums);
    }
}

// A block of rows by a block of columns.
static void multiply_block(job *j) {
    for (int64_t slice = 0; slice < j->of.n_slices; slice++) {
        j->steps = (cpu_range){j->of.steps * slice / j->of.n_slices, j->of.steps * (slice + 1) / j->of.n_slices};
        const bool is_new = j->of.n_slices > 1 || j->cols.first == j->first_col;
        if (j->of.across && is_new) {
            pack_a(j, j->rows.first);
        }
        pack_b(j);
        for (int64_t row = j->rows.first; row < j->rows.end; row += ROWS) {
            multiply_panel(j, row, slice + 1 == j->of.n_slices);
        }
    }
}

void ISA(cpu_multiply)(const cpu_product *p, const cpu_team *team) {
    int grid_rows;
    job j = {.p = p, .b = team->scratch[team->thread]};
    j.of = choose_cell(p->m, p->n, p->k, p->a_col != 1, team->n_threads, &grid_rows);
    j.a = j.b + b_elems(&j.of);
    j.sums = (float *)(j.a + a_elems(&j.of));
    const int grid_cols = team->n_threads / grid_rows;
    const cpu_range rows = cpu_split(p->m, ROWS, team->thread / grid_cols, grid_rows);
    const cpu_range cols = cpu_split(p->n, COLS, team->thread % grid_cols, grid_cols);
    j.first_col = cols.first;
    j.streams = leaves_caches(p, team->n_threads);
    cpu_product_begin();
    for (int64_t row = rows.first; row < rows.end; row += j.of.block_rows) {
        j.rows = (cpu_range){row, cpu_min64(row + j.of.block_rows, rows.end)};
        for (int64_t col = cols.first; col < cols.end; col += j.of.block_cols) {
            j.cols = (cpu_range){col, cpu_min64(col + j.of.block_cols, cols.end)};
            multiply_block(&j);
        }
    }
    cpu_product_end();
    _mm_sfence(); // what was stored past the caches is seen by who passes the next barrier
}
