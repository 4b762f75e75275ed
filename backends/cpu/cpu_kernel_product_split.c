// cpu_kernel_product_split.c: c = a b of float operands in AMX's tile registers: each number is split into three of
// bf16, and six products of these are summed in float (cpu_split.h, cpu_tile_split.h).
//
// Six products of tiles are computed of what three loads bring, so the second-level cache delivers operands as fast as
// they are used. A block of a, packed, fills much of it; b is packed panel by panel, and what else is no product of
// tiles is done between them, too, a little in each step of k:
//
//     for each slice of k:                         as deep as panels of b are short enough
//       for each block of this thread's rows:      a's slice of it is packed
//         for each panel of b, 32 columns:         meanwhile the next is packed, and the one after it asked for
//           for each panel of a, 32 rows:          a tile; meanwhile the tile before it is finished
//
// A slice's sums are added to c, and after the last c is finished: bias, GELU. Each thread does this for a rectangle of
// c of its own, and shares nothing that is written. What is added in which order depends on k alone.
#include "cpu_product.h"
#include "cpu_tile_split.h"
#include "cpu_topology.h"

enum {
    ROWS = CPU_SPLIT_PANEL,
    COLS = CPU_SPLIT_PANEL,
    TILE_SUMS = ROWS * COLS,
    SLICE_STEPS = 32, // most steps of a slice of k
    COL_COST = 16,    // to fetch and pack a column of b takes as long as so many rows of c,
    ROW_COST = 32,    // a row of a as so many columns
};

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t length(cpu_range range) { return range.end - range.first; }

// --- how a product is cut -----------------------------------------------------------------------

typedef struct {
    int64_t steps; // of k, in all
    int64_t n_slices;
    int64_t most_steps; // of a slice
    int64_t most_rows;  // of a block that fits: a multiple of ROWS
    int64_t block_rows; // of one here
    int grid_rows;      // threads that have the same columns
} division;

static int64_t panel_words(const division *of) { return of->most_steps * CPU_SPLIT_STEP; }

// Of c in cells, whose largest has so many rows. A block of a takes five eighths of the second-level cache.
static division divide(int64_t cell_rows, int64_t k) {
    division of = {.steps = cpu_divide_up(k, CPU_SPLIT_K)};
    of.n_slices = cpu_divide_up(of.steps, SLICE_STEPS);
    of.most_steps = cpu_divide_up(of.steps, of.n_slices);
    const int64_t panel_bytes = panel_words(&of) * (int64_t)sizeof(cpu_split_word);
    const int64_t n_panels = cpu_divide_up(cell_rows, ROWS);
    const int64_t most = max64((int64_t)cpu_topology_level2_bytes() * 5 / 8 / panel_bytes, 1);
    of.most_rows = cpu_min64(most, n_panels) * ROWS;
    of.block_rows = cpu_divide_up(n_panels, cpu_divide_up(n_panels, most)) * ROWS;
    return of;
}

// Divides c into a grid of n_threads cells, and takes the one with the cheapest largest cell.
static division choose_cells(int64_t m, int64_t n, int64_t k, int n_threads) {
    division best = {0};
    int64_t best_cost = INT64_MAX;
    for (int grid_rows = 1; grid_rows <= n_threads; grid_rows++) {
        if (n_threads % grid_rows != 0) {
            continue;
        }
        const int64_t rows = cpu_divide_up(cpu_divide_up(m, ROWS), grid_rows) * ROWS;
        const int64_t cols = cpu_divide_up(cpu_divide_up(n, COLS), n_threads / grid_rows) * COLS;
        const division of = divide(rows, k);
        const int64_t cost = rows * cols + ROW_COST * rows + COL_COST * cols * cpu_divide_up(rows, of.block_rows);
        if (cost < best_cost) {
            best_cost = cost;
            best = of;
            best.grid_rows = grid_rows;
        }
    }
    return best;
}

// The scratch of a thread: a block of a, two panels of b, sums of two tiles.
static int64_t a_words(const division *of) { return of->most_rows / ROWS * panel_words(of); }

size_t ISA(cpu_product_scratch)(int64_t m, int64_t n, int64_t k, int n_threads) {
    const division of = divide(m, k); // enough for any cell
    (void)n;
    (void)n_threads;
    return (size_t)(a_words(&of) + 2 * panel_words(&of)) * sizeof(cpu_split_word) + 2 * TILE_SUMS * sizeof(float);
}

// --- results ------------------------------------------------------------------------------------

// Rows of a tile that are waiting to be finished.
typedef struct {
    const cpu_product *p;
    const float *sums;
    bool add;     // to what c has
    bool is_last; // no slice follows
    int64_t row;  // the next
    int64_t left;
    int64_t each; // so many in a step
    cpu_range cols;
} finishing;

static void finish_row(finishing *f) {
    const int64_t n = length(f->cols);
    float *c = f->p->c + f->row * f->p->n + f->cols.first;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        c[i] = f->sums[i] + (f->add ? c[i] : 0.0f);
    }
    if (f->is_last) {
        BASE_ISA(cpu_finish_product)(f->p, (cpu_range){f->row, f->row + 1}, f->cols);
    }
    f->sums += COLS;
    f->row++;
    f->left--;
}

static void finish_rows(finishing *f, int64_t n) {
    for (int64_t i = 0; i < n && f->left > 0; i++) {
        finish_row(f);
    }
}

// --- the part of a thread -----------------------------------------------------------------------

// What is done beside a tile, a little in each step.
typedef struct {
    finishing last;    // tile
    cpu_splitting b;   // the next panel,
    cpu_lines b_asked; // and what the one after it is packed of
    cpu_lines result;  // the place of this tile's,
    cpu_lines pre;     // and what it is multiplied by, or where its GELU is stored
} beside;

static void do_beside(void *what) {
    beside *w = what;
    finish_rows(&w->last, w->last.each);
    cpu_split_turn(&w->b);
    cpu_ask_to_read(&w->b_asked);
    cpu_ask_to_write(&w->result);
    cpu_ask_to_write(&w->pre);
}

// Where the loops are.
typedef struct {
    const cpu_product *p;
    division of;
    cpu_range cols;  // this thread's
    cpu_range rows;  // of the block
    cpu_range steps; // of the slice
    cpu_split_word *a;
    cpu_split_word *b[2]; // this panel, the next
    float *tile[2];       // sums of this tile, the last
    beside w;
} job;

// The panel of b from column `col` on; nothing beyond the last.
static cpu_splitting splitting_of_b(const job *j, int64_t col, cpu_split_word *to) {
    const cpu_product *p = j->p;
    const int64_t k = j->steps.first * CPU_SPLIT_K;
    if (col >= j->cols.end) {
        return (cpu_splitting){.n_all = 0};
    }
    return (cpu_splitting){
        .from = p->b + k * p->b_row + col * p->b_col,
        .ld = p->b_col == 1 ? p->b_row : p->b_col,
        .across = p->b_col == 1,
        .transposed = p->b_col != 1,
        .n = cpu_min64(j->cols.end - col, COLS),
        .depth = p->k - k,
        .to = to,
    };
}

// Begins to pack it, and to ask for what the one after it is packed of.
static void begin_b(job *j, int64_t col, cpu_split_word *to, int64_t n_turns) {
    const int64_t n_steps = length(j->steps);
    const cpu_splitting after = splitting_of_b(j, col + COLS, NULL);
    j->w.b_asked = after.from != NULL ? cpu_splitting_lines(&after, n_steps, n_turns) : (cpu_lines){.left = 0};
    j->w.b = splitting_of_b(j, col, to);
    cpu_splitting_begin(&j->w.b, j->w.b.from != NULL ? n_steps : 0, n_turns);
}

static void pack_a(const job *j) {
    const cpu_product *p = j->p;
    const int64_t k = j->steps.first * CPU_SPLIT_K;
    cpu_split_word *to = j->a;
    for (int64_t row = j->rows.first; row < j->rows.end; row += ROWS) {
        cpu_splitting s = {
            .from = p->a + row * p->a_row + k * p->a_col,
            .ld = p->a_col == 1 ? p->a_row : p->a_col,
            .across = p->a_col != 1,
            .transposed = p->a_col != 1,
            .n = cpu_min64(j->rows.end - row, ROWS),
            .depth = p->k - k,
            .to = to,
        };
        cpu_splitting_begin(&s, length(j->steps), 1);
        cpu_split_rest(&s);
        to += panel_words(&j->of);
    }
}

// Asks for what finishing a tile reads and writes.
static void begin_asking(job *j, int64_t at, int64_t n_rows, int64_t n_cols, int64_t n_turns) {
    const cpu_product *p = j->p;
    const float *pre = p->act != NULL ? p->act : p->pre;
    j->w.result = cpu_lines_of(p->c + at, p->n, n_rows, n_cols, n_turns);
    if (pre != NULL) {
        j->w.pre = cpu_lines_of(pre + at, p->n, n_rows, n_cols, n_turns);
    }
}

// One tile, after which the one before it has been finished, too.
static void multiply_tile(job *j, int64_t row, int64_t col) {
    const cpu_product *p = j->p;
    const int64_t n_steps = length(j->steps);
    const cpu_range cols = {col, cpu_min64(col + COLS, j->cols.end)};
    const int64_t n_rows = cpu_min64(j->rows.end - row, ROWS);
    const cpu_split_word *a = j->a + (row - j->rows.first) / ROWS * panel_words(&j->of);
    float *sums = j->tile[0];
    j->w.last.each = cpu_divide_up(j->w.last.left, n_steps);
    begin_asking(j, row * p->n + col, n_rows, length(cols), n_steps);
    cpu_split_tile(n_steps, a, j->b[0], sums, do_beside, &j->w);
    finish_rows(&j->w.last, j->w.last.left);
    j->w.last = (finishing){.p = p,
                            .sums = sums,
                            .add = p->add || j->steps.first > 0,
                            .is_last = j->steps.end == j->of.steps,
                            .row = row,
                            .left = n_rows,
                            .cols = cols};
    j->tile[0] = j->tile[1];
    j->tile[1] = sums;
}

// A block of rows, over this thread's columns.
static void multiply_block(job *j) {
    const int64_t n_tiles = cpu_divide_up(length(j->rows), ROWS);
    pack_a(j);
    begin_b(j, j->cols.first, j->b[0], 1);
    cpu_split_rest(&j->w.b);
    for (int64_t col = j->cols.first; col < j->cols.end; col += COLS) {
        begin_b(j, col + COLS, j->b[1], n_tiles * length(j->steps));
        for (int64_t row = j->rows.first; row < j->rows.end; row += ROWS) {
            multiply_tile(j, row, col);
        }
        cpu_split_rest(&j->w.b);
        cpu_split_word *used = j->b[0];
        j->b[0] = j->b[1];
        j->b[1] = used;
    }
}

// Lays out this thread's scratch.
static void place_scratch(job *j, void *scratch) {
    j->a = scratch;
    j->b[0] = j->a + a_words(&j->of);
    j->b[1] = j->b[0] + panel_words(&j->of);
    j->tile[0] = (float *)(j->b[1] + panel_words(&j->of));
    j->tile[1] = j->tile[0] + TILE_SUMS;
}

void ISA(cpu_multiply)(const cpu_product *p, const cpu_team *team) {
    job j = {.p = p, .of = choose_cells(p->m, p->n, p->k, team->n_threads)};
    const int grid_cols = team->n_threads / j.of.grid_rows;
    const cpu_range rows = cpu_split(p->m, ROWS, team->thread / grid_cols, j.of.grid_rows);
    j.cols = cpu_split(p->n, COLS, team->thread % grid_cols, grid_cols);
    place_scratch(&j, team->scratch[team->thread]);
    cpu_amx_begin();
    for (int64_t slice = 0; slice < j.of.n_slices && length(j.cols) > 0; slice++) {
        j.steps = (cpu_range){j.of.steps * slice / j.of.n_slices, j.of.steps * (slice + 1) / j.of.n_slices};
        for (int64_t row = rows.first; row < rows.end; row += j.of.block_rows) {
            j.rows = (cpu_range){row, cpu_min64(row + j.of.block_rows, rows.end)};
            multiply_block(&j);
        }
    }
    finish_rows(&j.w.last, j.w.last.left);
    cpu_amx_end();
}
