// product_amx.c: c = a b of bf16 operands in AMX's tile registers, summed in float.
//
// Tile registers multiply faster than the second-level cache delivers, which delivers faster than memory, and memory
// delivers only what is read in long runs. So of the two operands of a tile one comes from the first level and the
// other from the second; b, of which there is most, is packed as it lies in memory, once for all threads that need it;
// and all other work (packing, finishing) is interleaved with the tile products, a little in each step of k:
//
//     for each block of this thread's columns:     all of them, unless there are several slices of k
//       for each group of slices of k:             nearly always one; b's is packed by all threads
//         for each block of this thread's rows:    a's slice of it fills part of the second-level cache
//           for each slice of k:                   nearly always one
//             for each panel of b, 32 columns:     the next is asked for meanwhile
//               for each part of the slice:        b's stays in the first-level cache
//                 for each panel of a, 32 rows:    a tile; meanwhile the tile before it is finished, and, for the first
//                                                  panel of b, the next of a is packed
//
// A large b of contiguous columns is not packed for all: each thread packs the panel that it needs next, meanwhile.
// A part of k continues the sums of the parts before it, which tiles load; after the last they get their bias, GELU,
// rounding. A result larger than L2 would be evicted before it is read, so streaming stores write it.
// The order of sums depends on k alone.
#include "backends/cpu/common/geometry.h"
#include "backends/cpu/common/help.h"
#include "backends/cpu/kernels/matmul/finish_bf16.h"
#include "backends/cpu/kernels/matmul/tile_amx.h"

enum {
    ROWS = CPU_PRODUCT_ROWS,
    COLS = CPU_PRODUCT_COLS,
    STEP_K = CPU_AMX_K,
    A_STEP = CPU_PRODUCT_A * CPU_AMX_WORDS, // packed, of a panel and step
    B_STEP = CPU_PRODUCT_B * CPU_AMX_WORDS,
    TILE_SUMS = ROWS * COLS,
    PART_STEPS = 16,        // most steps of k whose panel of b stays in the first-level cache: 32 KiB
    DEEPEST = 1536,         // k that is not cut into slices
    SLICE_STEPS = 32,       // most steps of a slice of what is deeper
    SLICED_COLS = 768,      // most columns whose sums are kept over slices
    PACKED_BYTES = 8 << 20, // most of b that is packed at a time
    SHARING_THREADS = 9,    // at least: they may share real cores
    COL_COST = 75,          // to fetch a column of b takes as long as so many rows of c,
    ROW_COST = 250,         // and to fetch and pack a row of a as so many columns
};

static int64_t panels_of(int64_t n_cols) { return cpu_divide_up(n_cols, COLS); }
static int64_t tiles_of(int64_t n_rows) { return cpu_divide_up(n_rows, ROWS); }

// --- how a product is cut -----------------------------------------------------------------------

typedef struct {
    bool shares_b;        // all threads pack it, for all
    int64_t steps;        // of k, in all
    int64_t n_slices;     // of steps
    int64_t most_steps;   // of a slice
    int64_t n_groups;     // of slices: those of which b is packed at a time
    int64_t group_slices; // at most
    int64_t cell_rows;    // of the largest cell: a multiple of ROWS
    int64_t cell_cols;
    int64_t block_rows; // at most: a multiple of ROWS
    int64_t block_cols; // at most: a multiple of COLS
    int grid_rows;      // threads that have the same columns
} division;

// The most of n that fit in so many bytes, in whole steps, when n is divided evenly.
static int64_t fitting(int64_t n, int64_t step, int64_t bytes, int64_t each_bytes) {
    const int64_t most = cpu_max64(bytes / (each_bytes * step), 1) * step;
    const int64_t n_blocks = cpu_divide_up(n, most);
    return cpu_divide_up(cpu_divide_up(n, n_blocks), step) * step;
}

// Divides c into a grid of cells; the largest has m rows and n columns.
static division divide(int64_t m, int64_t n, int64_t k, bool shares_b) {
    division of = {.shares_b = shares_b, .steps = cpu_divide_up(k, STEP_K), .n_slices = 1, .n_groups = 1};
    if (k > DEEPEST) {
        of.n_slices = cpu_divide_up(of.steps, SLICE_STEPS);
    }
    of.most_steps = cpu_divide_up(of.steps, of.n_slices);
    const bool sliced = of.n_slices > 1;
    const int64_t slice_bytes = of.most_steps * STEP_K * (int64_t)sizeof(cpu_data); // of a row or column
    of.block_cols = sliced ? fitting(n, COLS, SLICED_COLS, 1) : panels_of(n) * COLS;
    if (shares_b) {
        of.block_cols = cpu_min64(of.block_cols, fitting(n, COLS, PACKED_BYTES, slice_bytes));
        const int64_t most = cpu_max64(PACKED_BYTES / (of.block_cols * slice_bytes), 1);
        of.n_groups = cpu_divide_up(of.n_slices, most);
    }
    of.group_slices = cpu_divide_up(of.n_slices, of.n_groups);
    const int64_t row_bytes = slice_bytes + (sliced ? of.block_cols : COLS) * (int64_t)sizeof(float);
    const int64_t free_bytes = (int64_t)cpu_topology_level2_bytes() / 4 * 3 - 2 * COLS * slice_bytes;
    of.cell_rows = tiles_of(m) * ROWS;
    of.block_rows = fitting(m, ROWS, free_bytes, row_bytes);
    return of;
}

// Divides c into a grid of n_threads cells, and takes the one with the cheapest largest cell.
static division choose_cell(int64_t m, int64_t n, int64_t k, bool shares_b, int n_threads) {
    division best = {0};
    int64_t best_cost = INT64_MAX;
    for (int grid_rows = 1; grid_rows <= n_threads; grid_rows++) {
        if (n_threads % grid_rows != 0) {
            continue;
        }
        const int64_t rows = cpu_divide_up(tiles_of(m), grid_rows) * ROWS;
        const int64_t cols = cpu_divide_up(panels_of(n), n_threads / grid_rows) * COLS;
        const division of = divide(rows, cols, k, shares_b);
        const int64_t n_row_passes = cpu_divide_up(cols, of.block_cols);
        const int64_t n_col_passes = cpu_divide_up(rows, of.block_rows);
        const int64_t cost = rows * cols + ROW_COST * rows * n_row_passes + COL_COST * cols * n_col_passes;
        if (cost < best_cost) {
            best_cost = cost;
            best = of;
            best.grid_rows = grid_rows;
            best.cell_cols = cols;
        }
    }
    return best;
}

// Whether b is packed for all threads. A large one, of many columns, that are contiguous, is cheap to pack meanwhile.
static bool shares_b(const cpu_product *p) {
    return p->b_col == 1 || p->k * p->n * (int64_t)sizeof(cpu_data) <= 4 * PACKED_BYTES;
}

// Whether the result is too large for its reader to find it in the second-level caches: all of it, or it is a weight's
// gradient, which is read when all gradients are there.
static bool leaves_caches(const cpu_product *p, int n_threads) {
    const int64_t n = p->m * p->n;
    const int64_t level2_bytes = (int64_t)cpu_topology_level2_bytes();
    return p->rounded == NULL ? n * (int64_t)sizeof(float) > level2_bytes
                              : n * (int64_t)sizeof(cpu_data) > n_threads * level2_bytes / 2;
}

// The scratch of a thread: its share of what is packed of b, or two panels; a block of a; sums, of two tiles too.
static int64_t panel_elems(const division *of) { return of->most_steps * B_STEP; }
static int64_t b_elems(const division *of) {
    const int64_t n_shared = cpu_divide_up(of->group_slices * panels_of(of->block_cols), of->grid_rows);
    return (of->shares_b ? n_shared : 2) * panel_elems(of);
}
static int64_t a_elems(const division *of) { return tiles_of(of->block_rows) * of->most_steps * A_STEP; }
static int64_t sum_elems(const division *of) {
    return tiles_of(of->n_groups > 1 ? of->cell_rows : of->block_rows) *
           (of->n_slices > 1 ? panels_of(of->block_cols) : 1) * TILE_SUMS;
}
static int64_t scratch_elems(const division *of) {
    return b_elems(of) + a_elems(of) + sum_elems(of) + 2 * TILE_SUMS;
}

size_t ISA(cpu_product_scratch)(int64_t m, int64_t n, int64_t k, int n_threads) {
    const division shared = choose_cell(m, n, k, true, n_threads);
    const division own = choose_cell(m, n, k, false, n_threads);
    return (size_t)cpu_max64(scratch_elems(&shared), scratch_elems(&own)) * sizeof(float);
}

// --- results ------------------------------------------------------------------------------------

// Rows of a tile that are waiting to be finished.
typedef struct {
    const cpu_product *p;
    float *tile;  // its sums
    bool streams; // results are stored past the caches
    int64_t row;  // the next
    int64_t left;
    int64_t each; // so many in a step
    cpu_range cols;
} finishing;

// Some columns of n rows.
static void finish_each(const finishing *f, int64_t n) {
    const cpu_product *p = f->p;
    const int64_t n_cols = cpu_length(f->cols);
    for (int64_t row = 0; row < n; row++) {
        float *tile = f->tile + row * COLS;
        const int64_t at = (f->row + row) * p->n + f->cols.first;
        if (p->rounded != NULL) {
            cpu_finish_row(p, at, f->cols.first, n_cols, tile);
        }
        for (int64_t i = 0; p->rounded == NULL && i < n_cols; i++) {
            p->c[at + i] = tile[i] + (p->add ? p->c[at + i] : 0.0f);
        }
    }
}

// Two vectors of a row of all columns of a tile.
static inline void load_line(const finishing *f, int64_t row, __m512 line[2]) {
    line[0] = _mm512_loadu_ps(f->tile + row * COLS);
    line[1] = _mm512_loadu_ps(f->tile + row * COLS + CPU_VECTOR);
}

// Rounds and stores them.
static inline void store_line(const finishing *f, const __m512 line[2], cpu_data *to) {
    const __m512i rounded = (__m512i)_mm512_cvtne2ps_pbh(line[1], line[0]);
    if (f->streams && (uintptr_t)to % 64 == 0) {
        _mm512_stream_si512((void *)to, rounded);
    } else {
        _mm512_storeu_si512(to, rounded);
    }
}

// f(x), or its derivative.
static inline __m512 activate(sm_activation f, bool derive, __m512 x) {
    switch (f) {
#define X(CODE, name, value, slope) \
    case SM_ACTIVATION_##CODE:      \
        return (__m512)(derive ? cpu_##name##_derivative((cpu_vector)x) : cpu_##name((cpu_vector)x));
        SM_ACTIVATION_LIST(X)
#undef X
    default: return x;
    }
}

// n rows, whose sums stay in registers until they are stored: with an activation, or multiplied by its derivative.
static inline __attribute__((always_inline)) void finish_rounded(const finishing *f, int64_t n, bool activates) {
    const cpu_product *p = f->p;
    const __m512 zero = _mm512_setzero_ps();
    const float *bias = p->bias == NULL ? NULL : p->bias + f->cols.first;
    const __m512 low = bias == NULL ? zero : _mm512_loadu_ps(bias);
    const __m512 high = bias == NULL ? zero : _mm512_loadu_ps(bias + CPU_VECTOR);
    int64_t at = f->row * p->n + f->cols.first;
    for (int64_t i = 0; i < n; i++) {
        __m512 line[2];
        load_line(f, i, line);
        line[0] = _mm512_add_ps(line[0], low);
        line[1] = _mm512_add_ps(line[1], high);
        if (activates && p->pre != NULL) {
            float pre[COLS];
            cpu_widened(p->pre + at, COLS, pre);
            line[0] = _mm512_mul_ps(line[0], activate(p->activation, true, _mm512_loadu_ps(pre)));
            line[1] = _mm512_mul_ps(line[1], activate(p->activation, true, _mm512_loadu_ps(pre + CPU_VECTOR)));
        }
        store_line(f, line, p->rounded + at);
        if (activates && p->act != NULL) {
            line[0] = activate(p->activation, false, line[0]);
            line[1] = activate(p->activation, false, line[1]);
            store_line(f, line, p->act + at);
        }
        at += p->n;
    }
}

// n rows of floats, past the caches.
static void stream_floats(const finishing *f, int64_t n) {
    float *to = f->p->c + f->row * f->p->n + f->cols.first;
    for (int64_t i = 0; i < n; i++) {
        __m512 line[2];
        load_line(f, i, line);
        _mm512_stream_ps(to, line[0]);
        _mm512_stream_ps(to + CPU_VECTOR, line[1]);
        to += f->p->n;
    }
}

// n rows of floats are added to those that are there, which were asked for.
static void add_floats(const finishing *f, int64_t n) {
    float *to = f->p->c + f->row * f->p->n + f->cols.first;
    for (int64_t i = 0; i < n; i++) {
        __m512 line[2];
        load_line(f, i, line);
        _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), line[0]));
        _mm512_storeu_ps(to + CPU_VECTOR, _mm512_add_ps(_mm512_loadu_ps(to + CPU_VECTOR), line[1]));
        to += f->p->n;
    }
}

// Work between tiles must be short loops: stores that are on their way to the caches hold up what follows, tiles too,
// so that state which is kept in memory from row to row, or a row that is stored between one step and the next, costs
// more than the arithmetic.
static void finish_rows(finishing *f, int64_t most) {
    const int64_t n = cpu_min64(most, f->left);
    if (n <= 0) {
        return;
    }
    // Rows of floats that fill cache lines can be stored past the caches.
    const bool can_stream = f->streams && f->p->n % CPU_VECTOR == 0 && (uintptr_t)f->p->c % 64 == 0;
    if (cpu_length(f->cols) < COLS || (f->p->rounded == NULL && !f->p->add && !can_stream)) {
        finish_each(f, n);
    } else if (f->p->add) {
        add_floats(f, n);
    } else if (f->p->rounded == NULL) {
        stream_floats(f, n);
    } else if (f->p->pre != NULL || f->p->act != NULL) {
        finish_rounded(f, n, true);
    } else {
        finish_rounded(f, n, false);
    }
    f->tile += n * COLS;
    f->row += n;
    f->left -= n;
}

// --- the part of a thread -----------------------------------------------------------------------

// Work to do during a tile, a little in each step.
typedef struct {
    finishing last;    // tile
    cpu_packing b;     // the next panel,
    cpu_lines b_asked; // and what the one after it is packed of; or the next, packed already
    cpu_packing a;     // the next part of a panel,
    cpu_lines a_asked; // and what the one after it is packed of
    cpu_lines read;    // what this tile's result is multiplied by
    cpu_lines write;   // where it is stored
} beside;

static void do_beside(void *what) {
    beside *w = what;
    finish_rows(&w->last, w->last.each);
    cpu_pack_turn(&w->a);
    cpu_pack_turn(&w->b);
    cpu_ask_to_read(&w->b_asked);
    cpu_ask_to_read(&w->a_asked);
    cpu_ask_to_read(&w->read);
    cpu_ask_to_write(&w->write);
}

// Current position of the loops.
typedef struct {
    const cpu_product *p;
    const cpu_team *team;
    cpu_packed *packed; // b, ahead; NULL: not
    division of;
    int64_t first_col;   // of the block, in each cell
    int cell;            // a thread's, as a rule this one's
    cpu_range cell_rows; // its
    cpu_range rows;      // of the block
    cpu_range cols;      // of the block
    cpu_range slices;    // of the group
    cpu_range steps;     // of the slice
    int64_t slice;
    int64_t round;   // of taking
    int64_t n_parts; // of the slice
    int64_t n_tiles; // of the block's rows
    bool streams;
    bool packs_a;          // during the tiles of this panel
    cpu_range packed_rows; // of a
    cpu_packed *a;         // packed: part by part, and in each panel by panel
    float *sums;           // of parts, tile by tile; of slices, for each panel of b
    float *tile[2];        // sums of this tile, and the last
    beside w;
} job;

static cpu_range slice_steps(const job *j, int64_t slice) {
    return (cpu_range){j->of.steps * slice / j->of.n_slices, j->of.steps * (slice + 1) / j->of.n_slices};
}

// Steps of a part, counted from the first step of the slice.
static cpu_range part_steps(const job *j, int64_t part) {
    const int64_t n_steps = cpu_length(j->steps);
    return (cpu_range){n_steps * part / j->n_parts, n_steps * (part + 1) / j->n_parts};
}

// Address of packed panel `index` of b, of all of the group's slices: threads that share b keep an equal part each.
static cpu_packed *b_panel(const job *j, int64_t index) {
    if (j->packed != NULL) {
        const int64_t n_panels = panels_of(cpu_length(j->cols));
        const int64_t panel = j->cols.first / COLS + index % n_panels;
        return j->packed + (panel * j->of.steps + slice_steps(j, j->slices.first + index / n_panels).first) * B_STEP;
    }
    if (!j->of.shares_b) {
        return (cpu_packed *)j->team->scratch[j->team->thread] + index % 2 * panel_elems(&j->of);
    }
    const int grid_cols = j->team->n_threads / j->of.grid_rows;
    const int64_t owner = index % j->of.grid_rows * grid_cols + j->cell % grid_cols;
    return (cpu_packed *)j->team->scratch[owner] + index / j->of.grid_rows * panel_elems(&j->of);
}

// The memory that it is packed from; none beyond the last.
static cpu_packing packing_of_b(const job *j, int64_t index, int64_t *n_steps) {
    const cpu_product *p = j->p;
    const int64_t n_panels = panels_of(cpu_length(j->cols));
    *n_steps = 0;
    if (index >= n_panels * cpu_length(j->slices)) {
        return (cpu_packing){.left = 0};
    }
    const cpu_range steps = slice_steps(j, j->slices.first + index / n_panels);
    const int64_t k = steps.first * STEP_K;
    const int64_t col = j->cols.first + index % n_panels * COLS;
    *n_steps = cpu_length(steps);
    return (cpu_packing){
        .from = p->b + k * p->b_row + col * p->b_col,
        .ld = p->b_col == 1 ? p->b_row : p->b_col,
        .across = p->b_col == 1,
        .is_b = true,
        .n = cpu_min64(j->cols.end - col, COLS),
        .depth = p->k - k,
        .width = CPU_PRODUCT_B,
        .to = b_panel(j, index),
    };
}

// Begins to pack a panel, and to ask for what the one after it is packed of.
static void begin_b(job *j, int64_t index, int64_t n_turns) {
    int64_t n_steps;
    const cpu_packing next = packing_of_b(j, index + 1, &n_steps);
    j->w.b_asked = cpu_packing_lines(&next, n_steps, n_turns);
    j->w.b = packing_of_b(j, index, &n_steps);
    cpu_packing_begin(&j->w.b, n_steps, n_turns);
}

// A step of a panel of b, of which something may be lacking.
static void pack_b_step(const job *j, int64_t index, int64_t step) {
    int64_t n_steps;
    cpu_packing packing = packing_of_b(j, index, &n_steps);
    packing.n_packed = step * CPU_PRODUCT_B;
    packing.left = CPU_PRODUCT_B;
    cpu_pack_rest(&packing);
}

// A step of all panels of a slice, row by row, so that memory is read in long runs.
static void pack_b_rows(const job *j, int64_t slice, int64_t step) {
    enum { ROWS_AT_ONCE = 8 };
    const cpu_product *p = j->p;
    const int64_t k = (slice_steps(j, slice).first + step) * STEP_K;
    const int64_t n_panels = panels_of(cpu_length(j->cols));
    const int64_t n_whole = p->k - k >= STEP_K ? cpu_length(j->cols) / COLS : 0;
    const int64_t first = (slice - j->slices.first) * n_panels;
    const cpu_data *from = p->b + k * p->b_row + j->cols.first;
    for (int64_t row = 0; row < STEP_K; row += ROWS_AT_ONCE) {
        for (int64_t panel = 0; panel < n_whole; panel++) {
            cpu_weave_rows(from + panel * COLS, p->b_row, row, b_panel(j, first + panel) + step * B_STEP);
        }
    }
    for (int64_t panel = n_whole; panel < n_panels; panel++) {
        pack_b_step(j, first + panel, step);
    }
}

// Packs a panel, and prefetches the source of another.
static void pack_b_panel(const job *j, int64_t index, int64_t other) {
    int64_t n_steps;
    const cpu_packing next = packing_of_b(j, other, &n_steps);
    cpu_lines asked = cpu_packing_lines(&next, n_steps, cpu_max64(n_steps * CPU_PRODUCT_B, 1));
    cpu_packing packing = packing_of_b(j, index, &n_steps);
    for (packing.left = n_steps * CPU_PRODUCT_B; packing.left > 0;) {
        cpu_pack_register(&packing);
        cpu_ask_to_read(&asked);
    }
}

// The group's slices of this thread's columns, part by part: a panel, or where columns are contiguous a step.
static void pack_shared_b(const job *j) {
    const int grid_cols = j->team->n_threads / j->of.grid_rows;
    const bool by_rows = j->p->b_col == 1;
    const int64_t first_step = slice_steps(j, j->slices.first).first;
    const int64_t n_steps = slice_steps(j, j->slices.end).first - first_step;
    const int64_t n_parts = by_rows ? n_steps : cpu_length(j->slices) * panels_of(cpu_length(j->cols));
    int64_t slice = j->slices.first;
    int64_t part;
    while ((part = cpu_take_packing(j->team, j->team->thread % grid_cols, j->round, n_parts)) >= 0) {
        if (!by_rows) {
            pack_b_panel(j, part, part + j->of.grid_rows);
            continue;
        }
        while (first_step + part >= slice_steps(j, slice).end) {
            slice++;
        }
        pack_b_rows(j, slice, first_step + part - slice_steps(j, slice).first);
    }
}

static cpu_packed *a_part(const job *j, int64_t part, int64_t tile) {
    const cpu_range steps = part_steps(j, part);
    return j->a + (steps.first * j->n_tiles + tile * cpu_length(steps)) * A_STEP;
}

// The memory that a part of a panel of a is packed from; the one after the last of a part is the first of the next.
static cpu_packing packing_of_a(const job *j, int64_t part, int64_t tile, int64_t *n_steps) {
    const cpu_product *p = j->p;
    part += tile / j->n_tiles;
    tile %= j->n_tiles;
    *n_steps = 0;
    if (part >= j->n_parts) {
        return (cpu_packing){.left = 0};
    }
    const cpu_range steps = part_steps(j, part);
    const int64_t k = (j->steps.first + steps.first) * STEP_K;
    const int64_t row = j->rows.first + tile * ROWS;
    *n_steps = cpu_length(steps);
    return (cpu_packing){
        .from = p->a + row * p->a_row + k * p->a_col,
        .ld = p->a_col == 1 ? p->a_row : p->a_col,
        .across = p->a_col != 1,
        .n = cpu_min64(j->rows.end - row, ROWS),
        .depth = p->k - k,
        .width = CPU_PRODUCT_A,
        .to = a_part(j, part, tile),
    };
}

// Begins to pack it, and to ask for what the one after it is packed of.
static void begin_a(job *j, int64_t part, int64_t tile, int64_t n_turns) {
    int64_t n_steps;
    const cpu_packing next = packing_of_a(j, part, tile + 1, &n_steps);
    j->w.a_asked = cpu_packing_lines(&next, n_steps, n_turns);
    j->w.a = packing_of_a(j, part, tile, &n_steps);
    cpu_packing_begin(&j->w.a, n_steps, n_turns);
}

// Asks for what finishing this tile reads and writes.
static void begin_asking(job *j, cpu_range rows, cpu_range cols, int64_t n_turns) {
    const cpu_product *p = j->p;
    const int64_t at = rows.first * p->n + cols.first;
    if (p->rounded != NULL && !j->streams) {
        j->w.write = cpu_lines_of(p->rounded + at, p->n, cpu_length(rows), cpu_length(cols), n_turns);
    }
    if (p->pre != NULL) {
        j->w.read = cpu_lines_of(p->pre + at, p->n, cpu_length(rows), cpu_length(cols), n_turns);
    }
    if (p->add) { // floats
        const int64_t size = sizeof *p->c / sizeof(cpu_data);
        j->w.read = cpu_lines_of((const cpu_data *)(p->c + at), p->n * size, cpu_length(rows), cpu_length(cols) * size,
                                 n_turns);
    }
}

// Index of a panel among all panels of the group's slices.
static int64_t index_of(const job *j, int64_t panel) {
    return (j->slice - j->slices.first) * panels_of(cpu_length(j->cols)) + panel;
}

// Accumulator of the sums of a tile of the block.
static float *sums_of(const job *j, int64_t panel, int64_t tile) {
    const bool of_cell = j->of.n_groups > 1; // all blocks of rows are met again
    const int64_t n_tiles = tiles_of(of_cell ? j->of.cell_rows : j->of.block_rows);
    const int64_t first = of_cell ? (j->rows.first - j->cell_rows.first) / ROWS : 0;
    return j->sums + ((j->of.n_slices > 1 ? panel * n_tiles : 0) + first + tile) * TILE_SUMS;
}

// One tile of a part, after which the one before it has been finished, too.
static void multiply_tile(job *j, int64_t panel, int64_t part, int64_t tile) {
    const cpu_range steps = part_steps(j, part);
    const int64_t n_steps = cpu_length(steps);
    const int64_t row = j->rows.first + tile * ROWS;
    const int64_t col = j->cols.first + panel * COLS;
    const cpu_range rows = {row, cpu_min64(row + ROWS, j->rows.end)};
    const cpu_range cols = {col, cpu_min64(col + COLS, j->cols.end)};
    const bool is_first = part == 0 && j->slice == 0;
    const bool is_last = part + 1 == j->n_parts && j->slice + 1 == j->of.n_slices;
    float *sums = sums_of(j, panel, tile);
    float *to = is_last ? j->tile[0] : sums;
    j->w.last.each = cpu_divide_up(j->w.last.left, n_steps);
    if (is_last) {
        begin_asking(j, rows, cols, n_steps);
    }
    if (j->packs_a) {
        begin_a(j, part, tile + 1, n_steps);
    }
    const cpu_packed *b = b_panel(j, index_of(j, panel));
    cpu_product_tile(n_steps, a_part(j, part, tile), b + steps.first * B_STEP, is_first ? NULL : sums, to,
                     j->team->n_threads >= SHARING_THREADS, do_beside, &j->w);
    cpu_pack_rest(&j->w.a);
    if (is_last) {
        j->w.last = (finishing){
            .p = j->p, .tile = to, .streams = j->streams, .row = row, .left = cpu_length(rows), .cols = cols};
        j->tile[0] = j->tile[1];
        j->tile[1] = to;
    }
}

static void multiply_panel(job *j, int64_t panel) {
    const int64_t n_turns = j->n_tiles * cpu_length(j->steps);
    const int64_t next = index_of(j, panel) + 1;
    if (!j->of.shares_b) {
        begin_b(j, next, n_turns);
    } else if (next < cpu_length(j->slices) * panels_of(cpu_length(j->cols))) {
        j->w.b_asked =
            cpu_lines_of((const cpu_data *)b_panel(j, next), 0, 1, panel_elems(&j->of) * CPU_PACK_K, n_turns);
    }
    for (int64_t part = 0; part < j->n_parts; part++) {
        for (int64_t tile = 0; tile < j->n_tiles; tile++) {
            multiply_tile(j, panel, part, tile);
        }
    }
    cpu_pack_rest(&j->w.b);
}

static void enter_slice(job *j, int64_t slice) {
    j->slice = slice;
    j->steps = slice_steps(j, slice);
    j->n_parts = cpu_divide_up(cpu_length(j->steps), PART_STEPS);
}

// A block of rows by a block of columns, over a group of slices.
static void multiply_block(job *j) {
    j->n_tiles = tiles_of(cpu_length(j->rows));
    if (!j->of.shares_b) {
        begin_b(j, 0, 1);
        cpu_pack_rest(&j->w.b);
    }
    for (j->slice = j->slices.first; j->slice < j->slices.end; j->slice++) {
        enter_slice(j, j->slice);
        begin_a(j, 0, 0, 1);
        cpu_pack_rest(&j->w.a);
        for (int64_t panel = 0; panel < panels_of(cpu_length(j->cols)); panel++) {
            j->packs_a = panel == 0;
            multiply_panel(j, panel);
        }
    }
}

// --- threads that help each other ---------------------------------------------------------------

// The cell of a thread.
static void enter_cell(job *j, int thread) {
    const int grid_cols = j->team->n_threads / j->of.grid_rows;
    const cpu_range cols = cpu_split(j->p->n, COLS, thread % grid_cols, grid_cols);
    j->cell = thread;
    j->cell_rows = cpu_split(j->p->m, ROWS, thread / grid_cols, j->of.grid_rows);
    j->cols = (cpu_range){cpu_min64(cols.first + j->first_col, cols.end),
                          cpu_min64(cols.first + j->first_col + j->of.block_cols, cols.end)};
    // Sums of a slice lie with the cell, as the next slice may be another thread's.
    const int keeper = j->of.n_slices > 1 ? thread : j->team->thread;
    j->sums = (float *)j->team->scratch[keeper] + b_elems(&j->of) + a_elems(&j->of);
}

// Takes panels of a thread's cell until none is left.
static void take_panels(job *j, int thread) {
    enter_cell(j, thread);
    j->rows = j->cell_rows;
    j->n_tiles = tiles_of(cpu_length(j->rows));
    const int64_t n_panels = j->n_tiles > 0 ? panels_of(cpu_length(j->cols)) : 0;
    const int64_t n_slices = cpu_length(j->slices);
    int64_t unit;
    while ((unit = cpu_take_panel(j->team, thread, j->of.grid_rows, j->round, n_panels, n_slices)) >= 0) {
        const int64_t before = j->slice;
        enter_slice(j, j->slices.first + unit / n_panels);
        j->packs_a = j->slice != before || j->packed_rows.first != j->rows.first || j->packed_rows.end != j->rows.end;
        if (j->packs_a) {
            begin_a(j, 0, 0, 1);
            cpu_pack_rest(&j->w.a);
            j->packed_rows = j->rows;
        }
        multiply_panel(j, unit % n_panels);
        cpu_end_panel(j->team, thread, j->round, n_slices);
    }
}

static void multiply_together(job *j) {
    j->packed_rows = (cpu_range){0, 0};
    for (int turn = 0; turn < j->team->n_threads; turn++) {
        take_panels(j, cpu_helped(j->team, j->of.grid_rows, turn));
    }
    enter_cell(j, j->team->thread);
}

// Whether threads help each other: where each has one block of rows.
static bool helps(const job *j) { return cpu_helps(j->team) && j->of.shares_b && j->of.cell_rows <= j->of.block_rows; }

// A block of this thread's columns over a group of slices. Threads meet when b is packed, and before it is again.
static void multiply_group(job *j, int64_t group) {
    const division *of = &j->of;
    j->slices = (cpu_range){of->n_slices * group / of->n_groups, of->n_slices * (group + 1) / of->n_groups};
    j->round++;
    if (of->shares_b) {
        if (group > 0 || j->first_col > 0) {
            cpu_meet(j->team);
        }
        if (j->packed == NULL) {
            pack_shared_b(j);
            cpu_meet(j->team);
        }
    }
    if (helps(j)) {
        multiply_together(j);
        return;
    }
    for (int64_t row = j->cell_rows.first; row < j->cell_rows.end; row += of->block_rows) {
        j->rows = (cpu_range){row, cpu_min64(row + of->block_rows, j->cell_rows.end)};
        multiply_block(j);
    }
}

void ISA(cpu_multiply)(const cpu_product *p, const cpu_team *team) {
    job j = {.p = p,
             .team = team,
             .packed = (cpu_packed *)team->packed,
             .of = choose_cell(p->m, p->n, p->k, shares_b(p), team->n_threads),
             .streams = leaves_caches(p, team->n_threads)};
    j.a = (cpu_packed *)team->scratch[team->thread] + b_elems(&j.of);
    j.tile[0] = (float *)(j.a + a_elems(&j.of)) + sum_elems(&j.of);
    j.tile[1] = j.tile[0] + TILE_SUMS;
    cpu_product_begin();
    for (; j.first_col < j.of.cell_cols; j.first_col += j.of.block_cols) {
        enter_cell(&j, team->thread);
        for (int64_t group = 0; group < j.of.n_groups; group++) {
            multiply_group(&j, group);
        }
    }
    finish_rows(&j.w.last, ROWS);
    cpu_product_end();
    _mm_sfence(); // what was stored past the caches is seen by who passes the next barrier
}

// --- weights packed ahead -----------------------------------------------------------------------

// A unit is a step of contiguous columns, else a panel.
int64_t ISA(cpu_ahead_units)(const host_op *op, size_t *size_bytes) {
    const cpu_geometry g = cpu_geometry_of(op);
    const int64_t steps = cpu_divide_up(g.k, STEP_K);
    *size_bytes = (size_t)(panels_of(g.n) * steps * B_STEP) * sizeof(cpu_packed);
    return *size_bytes > PACKED_BYTES ? 0 : g.b_col == 1 ? steps : panels_of(g.n);
}

// The weight is one slice, of all columns.
void ISA(cpu_pack_ahead)(const host_op *op, void *to, int64_t unit) {
    const cpu_geometry g = cpu_geometry_of(op);
    const cpu_product p = {.n = g.n, .k = g.k, .b = op->in[1], .b_row = g.b_row, .b_col = g.b_col};
    const division of = {.steps = cpu_divide_up(g.k, STEP_K), .n_slices = 1};
    const job j = {.p = &p, .packed = to, .of = of, .cols = {0, g.n}, .slices = {0, 1}};
    if (g.b_col == 1) {
        pack_b_rows(&j, 0, unit);
    } else {
        pack_b_panel(&j, unit, unit + 1);
    }
}
