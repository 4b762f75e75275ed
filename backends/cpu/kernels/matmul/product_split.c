// product_split.c: c = a b of float operands in AMX's tile registers: each number is split into three of
// bf16, and six products of these are summed in float (matmul/tile_split.h).
//
// Six products of tiles are computed of what three loads bring, so the second-level cache delivers operands as fast as
// they are used. A block of a, packed, fills much of it; b is packed once, for all threads that need it:
//
//     for each slice of k:                          as deep as panels of b are short enough
//       for each block of this thread's columns:    b's slice of it is packed by all threads that have these columns
//         for each block of this thread's rows:     a's slice of it is packed
//           for each panel of b, 32 columns:
//             for each panel of a, 32 rows:         a tile; meanwhile the tile before it is finished
//
// If a block of a holds all of a thread's rows, threads take panels of b from each other (common/help.h). A slice's
// sums are added to c; after the last slice c is finished (bias, GELU). The order of sums depends on k alone.
#include "backends/cpu/common/help.h"
#include "backends/cpu/kernels/matmul/tile_split.h"

enum {
    ROWS = CPU_SPLIT_PANEL,
    COLS = CPU_SPLIT_PANEL,
    TILE_SUMS = ROWS * COLS,
    SLICE_STEPS = 24,       // most steps of a slice of k
    PACKED_BYTES = 8 << 20, // most of b that is packed at a time
    COL_COST = 64,          // to fetch and pack a column of b takes as long as so many rows of c,
    ROW_COST = 64,          // a row of a as so many columns
};

static int64_t panels_of(int64_t n) { return cpu_divide_up(n, CPU_SPLIT_PANEL); }

// --- how a product is cut -----------------------------------------------------------------------

typedef struct {
    int64_t steps; // of k, in all
    int64_t n_slices;
    int64_t most_steps;   // of a slice
    int64_t cell_panels;  // of the largest cell's columns
    int64_t block_panels; // of b, at most
    int64_t cell_rows;    // of the largest cell: a multiple of ROWS
    int64_t block_rows;   // of a, at most: a multiple of ROWS
    int grid_rows;        // threads that have the same columns
} division;

static int64_t panel_words(const division *of) { return of->most_steps * CPU_SPLIT_STEP; }

// The most of n panels that fit in so many bytes, when they are divided evenly.
static int64_t fitting(const division *of, int64_t n_panels, int64_t bytes) {
    const int64_t most = cpu_max64(bytes / (panel_words(of) * (int64_t)sizeof(cpu_split_word)), 1);
    return cpu_divide_up(n_panels, cpu_divide_up(n_panels, most));
}

// Divides c into cells, given the size of the largest. A block of a takes five eighths of the L2 cache.
static division divide(int64_t row_panels, int64_t col_panels, int64_t k) {
    division of = {.steps = cpu_divide_up(k, CPU_SPLIT_K), .cell_panels = col_panels, .cell_rows = row_panels * ROWS};
    of.n_slices = cpu_divide_up(of.steps, SLICE_STEPS);
    of.most_steps = cpu_divide_up(of.steps, of.n_slices);
    of.block_panels = fitting(&of, col_panels, PACKED_BYTES);
    of.block_rows = fitting(&of, row_panels, (int64_t)cpu_topology_level2_bytes() / 8 * 5) * ROWS;
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
        const int64_t row_panels = cpu_divide_up(panels_of(m), grid_rows);
        const int64_t col_panels = cpu_divide_up(panels_of(n), n_threads / grid_rows);
        const division of = divide(row_panels, col_panels, k);
        const int64_t rows = row_panels * ROWS;
        const int64_t cols = col_panels * COLS;
        const int64_t cost = rows * cols + ROW_COST * rows * cpu_divide_up(col_panels, of.block_panels) +
                             COL_COST * cpu_divide_up(cols, grid_rows);
        if (cost < best_cost) {
            best_cost = cost;
            best = of;
            best.grid_rows = grid_rows;
        }
    }
    return best;
}

// The scratch of a thread: counters, its share of a block of b, a block of a, sums of two tiles.
static int64_t b_words(const division *of) { return cpu_divide_up(of->block_panels, of->grid_rows) * panel_words(of); }
static int64_t a_words(const division *of) { return of->block_rows / ROWS * panel_words(of); }

size_t ISA(cpu_product_scratch)(int64_t m, int64_t n, int64_t k, int n_threads) {
    const division of = choose_cells(m, n, k, n_threads);
    return (size_t)(b_words(&of) + a_words(&of)) * sizeof(cpu_split_word) + 2 * TILE_SUMS * sizeof(float);
}

// --- results ------------------------------------------------------------------------------------

// Rows of a tile that are waiting to be finished.
typedef struct {
    const cpu_product *p;
    const float *sums;
    bool add;     // to what c has
    bool is_last; // no slice follows
    bool streams; // results are stored past the caches
    int64_t row;  // the next
    int64_t left;
    int64_t each; // so many in a step
    cpu_range cols;
} finishing;

// Whether a result to which nothing is done is larger than the second-level caches: its reader will not find it
// there, and it is stored past them.
static bool leaves_caches(const cpu_product *p, int n_threads) {
    return !p->add && p->bias == NULL && p->act == NULL && p->pre == NULL &&
           p->m * p->n * (int64_t)sizeof(float) > n_threads * (int64_t)cpu_topology_level2_bytes();
}

static void store_row(const finishing *f, float *c, int64_t n) {
    if (f->streams && !f->add && f->is_last && n == COLS && (uintptr_t)c % 64 == 0) {
        for (int64_t i = 0; i < COLS; i += CPU_VECTOR) {
            _mm512_stream_ps(c + i, _mm512_loadu_ps(f->sums + i));
        }
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        c[i] = f->sums[i] + (f->add ? c[i] : 0.0f);
    }
}

static void finish_row(finishing *f) {
    store_row(f, f->p->c + f->row * f->p->n + f->cols.first, cpu_length(f->cols));
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

// Work to do during a tile, a little in each step.
typedef struct {
    finishing last; // tile
    cpu_lines pre;  // what this tile's result is multiplied by, or where its GELU is stored
} beside;

static void do_beside(void *what) {
    beside *w = what;
    finish_rows(&w->last, w->last.each);
    cpu_ask_to_write(&w->pre);
}

// Current position of the loops.
typedef struct {
    const cpu_product *p;
    const cpu_team *team;
    division of;
    int cell;            // the thread whose rows and columns these are
    cpu_range cell_rows; // all of its rows
    int64_t first_panel; // of the block, within the cell
    cpu_range panels;    // of b, those of this block
    cpu_range rows;      // of the block, packed
    cpu_range steps;     // of the slice
    int64_t round;       // of packing b
    cpu_split_word *a;
    bool streams;
    float *tile[2]; // sums of this tile, the last
    beside w;
} job;

// The slice of rows of a, or columns of b, from `first` up to `end`.
static cpu_splitting splitting_of_a(const job *j, cpu_range rows) {
    const cpu_product *p = j->p;
    const int64_t k = j->steps.first * CPU_SPLIT_K;
    return (cpu_splitting){
        .from = p->a + rows.first * p->a_row + k * p->a_col,
        .ld = p->a_col == 1 ? p->a_row : p->a_col,
        .across = p->a_col != 1,
        .transposed = p->a_col != 1,
        .n = cpu_length(rows),
        .depth = p->k - k,
        .n_steps = cpu_length(j->steps),
        .to = j->a,
        .panel = panel_words(&j->of),
    };
}

static cpu_splitting splitting_of_b(const job *j, cpu_range cols, cpu_split_word *to) {
    const cpu_product *p = j->p;
    const int64_t k = j->steps.first * CPU_SPLIT_K;
    return (cpu_splitting){
        .from = p->b + k * p->b_row + cols.first * p->b_col,
        .ld = p->b_col == 1 ? p->b_row : p->b_col,
        .across = p->b_col == 1,
        .transposed = p->b_col != 1,
        .n = cpu_length(cols),
        .depth = p->k - k,
        .n_steps = cpu_length(j->steps),
        .to = to,
        .panel = panel_words(&j->of),
    };
}

// The panels of the block that one of the threads that share it packs, and keeps in its scratch.
static cpu_range share_of(const job *j, int member) {
    const cpu_range share = cpu_split(cpu_length(j->panels), 1, member, j->of.grid_rows);
    return (cpu_range){j->panels.first + share.first, j->panels.first + share.end};
}

static cpu_split_word *scratch_of(const job *j, int member) {
    const int grid_cols = j->team->n_threads / j->of.grid_rows;
    return (cpu_split_word *)j->team->scratch[member * grid_cols + j->cell % grid_cols];
}

// A packed panel of the block.
static const cpu_split_word *b_panel(const job *j, int64_t panel) {
    int member = 0;
    while (panel >= share_of(j, member).end) {
        member++;
    }
    return scratch_of(j, member) + (panel - share_of(j, member).first) * panel_words(&j->of);
}

static void pack_b(const job *j) {
    const int member = j->team->thread / (j->team->n_threads / j->of.grid_rows);
    const cpu_range share = share_of(j, member);
    const cpu_range cols = {cpu_min64(share.first * COLS, j->p->n), cpu_min64(share.end * COLS, j->p->n)};
    const cpu_splitting s = splitting_of_b(j, cols, scratch_of(j, member));
    cpu_split_panels(&s);
}

// Asks for what finishing a tile reads and writes besides its result.
static void begin_asking(job *j, int64_t at, int64_t n_rows, int64_t n_cols, int64_t n_turns) {
    const cpu_product *p = j->p;
    const float *pre = p->act != NULL ? p->act : p->pre;
    if (pre != NULL) {
        j->w.pre = cpu_lines_of(pre + at, p->n, n_rows, n_cols, n_turns);
    }
}

// One tile, after which the one before it has been finished, too.
static void multiply_tile(job *j, int64_t row, int64_t panel, const cpu_split_word *b) {
    const cpu_product *p = j->p;
    const int64_t n_steps = cpu_length(j->steps);
    const cpu_range cols = {panel * COLS, cpu_min64((panel + 1) * COLS, p->n)};
    const int64_t n_rows = cpu_min64(j->rows.end - row, ROWS);
    const cpu_split_word *a = j->a + (row - j->rows.first) / ROWS * panel_words(&j->of);
    float *sums = j->tile[0];
    j->w.last.each = cpu_divide_up(j->w.last.left, n_steps);
    begin_asking(j, row * p->n + cols.first, n_rows, cpu_length(cols), n_steps);
    cpu_split_tile(n_steps, a, b, sums, do_beside, &j->w);
    finish_rows(&j->w.last, j->w.last.left);
    j->w.last = (finishing){.p = p,
                            .sums = sums,
                            .add = p->add || j->steps.first > 0,
                            .is_last = j->steps.end == j->of.steps,
                            .streams = j->streams,
                            .row = row,
                            .left = n_rows,
                            .cols = cols};
    j->tile[0] = j->tile[1];
    j->tile[1] = sums;
}

static void pack_a(job *j, cpu_range rows) {
    const cpu_splitting s = splitting_of_a(j, rows);
    cpu_split_panels(&s);
    j->rows = rows;
}

static void multiply_panel(job *j, int64_t panel) {
    const cpu_split_word *b = b_panel(j, panel);
    for (int64_t row = j->rows.first; row < j->rows.end; row += ROWS) {
        multiply_tile(j, row, panel, b);
    }
}

// This thread's rows by a block of its columns.
static void multiply_own(job *j) {
    for (int64_t row = j->cell_rows.first; row < j->cell_rows.end; row += j->of.block_rows) {
        pack_a(j, (cpu_range){row, cpu_min64(row + j->of.block_rows, j->cell_rows.end)});
        for (int64_t panel = j->panels.first; panel < j->panels.end; panel++) {
            multiply_panel(j, panel);
        }
    }
}

// --- all threads --------------------------------------------------------------------------------

static void enter_cell(job *j, int thread) {
    const int grid_cols = j->team->n_threads / j->of.grid_rows;
    const cpu_range panels = cpu_split(panels_of(j->p->n), 1, thread % grid_cols, grid_cols);
    j->cell = thread;
    j->cell_rows = cpu_split(j->p->m, ROWS, thread / grid_cols, j->of.grid_rows);
    j->panels = (cpu_range){cpu_min64(panels.first + j->first_panel, panels.end),
                            cpu_min64(panels.first + j->first_panel + j->of.block_panels, panels.end)};
}

// Takes panels of a thread's block until none is left.
static void take_panels(job *j, int thread) {
    enter_cell(j, thread);
    const int64_t n_panels = cpu_length(j->cell_rows) > 0 ? cpu_length(j->panels) : 0;
    int64_t panel;
    while ((panel = cpu_take_panel(j->team, thread, j->of.grid_rows, j->round, n_panels, 1)) >= 0) {
        if (j->rows.first != j->cell_rows.first || j->rows.end != j->cell_rows.end) {
            pack_a(j, j->cell_rows);
        }
        multiply_panel(j, j->panels.first + panel);
    }
}

static void multiply_together(job *j) {
    j->rows = (cpu_range){0, 0};
    for (int turn = 0; turn < j->team->n_threads; turn++) {
        take_panels(j, cpu_helped(j->team, j->of.grid_rows, turn));
    }
    finish_rows(&j->w.last, j->w.last.left);
}

// Lays out this thread's scratch, after b.
static void place_scratch(job *j) {
    j->a = (cpu_split_word *)j->team->scratch[j->team->thread] + b_words(&j->of);
    j->tile[0] = (float *)(j->a + a_words(&j->of));
    j->tile[1] = j->tile[0] + TILE_SUMS;
}

// A slice. Threads meet when b is packed for all, and before its memory is packed again.
static void multiply_slice(job *j) {
    const bool helps = cpu_helps(j->team) && j->of.cell_rows <= j->of.block_rows;
    for (j->first_panel = 0; j->first_panel < j->of.cell_panels; j->first_panel += j->of.block_panels) {
        enter_cell(j, j->team->thread);
        if (j->round > 0) {
            cpu_meet(j->team);
        }
        pack_b(j);
        cpu_meet(j->team);
        if (helps) {
            multiply_together(j);
        } else {
            multiply_own(j);
        }
        j->round++;
    }
}

void ISA(cpu_multiply)(const cpu_product *p, const cpu_team *team) {
    job j = {.p = p, .team = team, .of = choose_cells(p->m, p->n, p->k, team->n_threads)};
    j.streams = leaves_caches(p, team->n_threads);
    place_scratch(&j);
    cpu_amx_begin();
    for (int64_t slice = 0; slice < j.of.n_slices; slice++) {
        j.steps = (cpu_range){j.of.steps * slice / j.of.n_slices, j.of.steps * (slice + 1) / j.of.n_slices};
        multiply_slice(&j);
    }
    finish_rows(&j.w.last, j.w.last.left);
    cpu_amx_end();
    _mm_sfence(); // what was stored past the caches is seen by who passes the next barrier
}
