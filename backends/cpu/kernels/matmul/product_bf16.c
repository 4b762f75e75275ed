// product_bf16.c: c = a b of bf16 operands, and of floats by SME, summed in float. The blocks of matmul/product.c, with
// other proportions: bf16 operands take half the room, and a result that is rounded to bf16 must not be rounded on the
// way, so slices of k are as deep as can be (nearly always there is one) and the sums of several are kept as floats.
//
//     for each chunk of rows:                        a's slice of it is packed by all threads, for all, unless tiles
//                                                    read rows of a where they are
//       for each slice of k:
//         for each block of this thread's columns:   panels of b are packed at the first use
//           for each block of this thread's rows:    that lie in the second-level cache
//             for each b panel, each a panel:        a tile (matmul/tile_bf16.h, tile_bfmmla.h)
//
// Threads divide the result into a grid of nearly square cells.
#include "backends/cpu/kernels/matmul/finish_bf16.h"

#if CPU_BF16_K == 4
#include "backends/cpu/kernels/matmul/tile_bfmmla.h"
#else
#include "backends/cpu/kernels/matmul/tile_bf16.h"
#endif

enum {
    ROWS = CPU_PRODUCT_ROWS,
    COLS = CPU_PRODUCT_COLS,
    STEP_K = CPU_PRODUCT_STEP_K,
    CHUNK_PACKED = 2 << 20, // packed elements of a at a time: 8 MiB for all threads
    BLOCK_B = 256 << 10,    // packed elements of b that a thread keeps: 1 MiB
};

static int64_t round_up(int64_t n, int64_t to) { return cpu_divide_up(n, to) * to; }

// --- how a product is cut -----------------------------------------------------------------------

typedef struct {
    int64_t n_slices;
    int64_t depth;      // of every slice but the last, in k
    int64_t steps;      // of a slice, packed and padded
    int64_t chunk_rows; // a multiple of ROWS
    int64_t n_panels;   // of a chunk of a that are packed by each thread
    int64_t n_b;        // panels of b that a thread keeps
    int64_t block_rows; // a multiple of ROWS
    int grid_rows;      // of the threads' grid
    int64_t cell_rows;  // of the largest cell, padded
    int64_t cell_cols;
} division;

static division divide(int64_t m, int64_t n, int64_t k, int n_threads) {
    division of = {.n_slices = cpu_divide_up(k, CPU_PRODUCT_SLICE_K)};
    of.depth = round_up(cpu_divide_up(k, of.n_slices), STEP_K);
    of.steps = of.depth / CPU_PACK_K;
    const int64_t n_chunks = cpu_divide_up(m * of.steps, CHUNK_PACKED);
    of.chunk_rows = round_up(cpu_divide_up(m, n_chunks), ROWS);
    of.n_panels = cpu_divide_up(of.chunk_rows / ROWS, n_threads);
    of.block_rows = cpu_max64(CPU_PRODUCT_BLOCK_A / (of.steps * ROWS), 1) * ROWS;
    of.n_b = cpu_max64(BLOCK_B / (of.steps * COLS), 1);
    int64_t best = INT64_MAX;
    for (int grid_rows = 1; grid_rows <= n_threads; grid_rows++) {
        if (n_threads % grid_rows != 0) {
            continue;
        }
        const int64_t rows = cpu_divide_up(of.chunk_rows / ROWS, grid_rows) * ROWS;
        const int64_t cols = cpu_divide_up(cpu_divide_up(n, COLS), n_threads / grid_rows) * COLS;
        const int64_t cost = rows * cols + CPU_PRODUCT_OPERAND_COST * (rows + cols);
        if (cost < best) {
            best = cost;
            of.grid_rows = grid_rows;
            of.cell_rows = rows;
            of.cell_cols = cols;
        }
    }
    return of;
}

// The scratch of a thread: panels of b, its share of a's, and the sums of its cell where there are several slices.
static int64_t b_elems(const division *of) { return of->n_b * COLS * of->steps; }
static int64_t a_elems(const division *of) { return of->n_panels * ROWS * of->steps; }

size_t ISA(cpu_product_scratch)(int64_t m, int64_t n, int64_t k, int n_threads) {
    const division of = divide(m, n, k, n_threads);
    const int64_t sums = of.n_slices > 1 ? of.cell_rows * of.cell_cols : 0;
    return (size_t)(b_elems(&of) + a_elems(&of) + sums) * sizeof(float);
}

// State shared by the passes over slices and chunks.
typedef struct {
    const cpu_product *p;
    const cpu_team *team;
    division of;
    cpu_range rows;      // of the whole c: this thread's
    cpu_range cols;      // this thread's
    int64_t chunk_first; // rows of a that are packed now
    int64_t chunk_rows;
    int64_t slice;
    cpu_range ks;  // of the slice
    int64_t steps; // of the slice
    bool packs_a;  // or its rows are read where they are
} job;

static cpu_packed *a_panel(const job *j, int64_t panel) {
    cpu_packed *block = j->team->scratch[panel / j->of.n_panels];
    return block + b_elems(&j->of) + panel % j->of.n_panels * ROWS * j->of.steps;
}

// The rows of a from `row` on, over the slice.
static cpu_product_a rows_of_a(const job *j, int64_t row) {
    if (j->packs_a) {
        return cpu_product_packed_a(a_panel(j, (row - j->chunk_first) / ROWS));
    }
    return cpu_product_rows_a(j->p->a + row * j->p->a_row + j->ks.first, j->p->a_row);
}

// --- packing ------------------------------------------------------------------------------------

// This thread's share of the chunk's slice of a.
static void pack_a(const job *j) {
    const cpu_product *p = j->p;
    const int64_t first = j->team->thread * j->of.n_panels;
    const int64_t end = cpu_min64(first + j->of.n_panels, cpu_divide_up(j->chunk_rows, ROWS));
    const int64_t depth = j->ks.end - j->ks.first;
    enum { GROUP_ROWS = 32 }; // that are packed together where they are contiguous: a cache line
    const int64_t step = p->a_row == 1 ? cpu_max64(GROUP_ROWS / ROWS, 1) : 1;
    for (int64_t panel = first; panel < end; panel += step) {
        const int64_t row = panel * ROWS;
        const int64_t n_rows = cpu_min64(j->chunk_rows - row, cpu_min64(step, end - panel) * ROWS);
        const cpu_data *from = p->a + (j->chunk_first + row) * p->a_row + j->ks.first * p->a_col;
        if (p->a_row == 1) {
            cpu_pack_a_rows(from, p->a_col, n_rows, depth, a_panel(j, panel), ROWS * j->of.steps);
        } else {
            cpu_pack_a_lines(from, p->a_row, n_rows, depth, a_panel(j, panel));
        }
    }
}

CPU_ALONE pack_b(const job *j, int64_t col, int64_t n_cols, cpu_packed *to) {
    const cpu_product *p = j->p;
    const int64_t depth = j->ks.end - j->ks.first;
    const cpu_data *from = p->b + col * p->b_col + j->ks.first * p->b_row;
    if (p->b_col == 1) {
        cpu_pack_rows(from, p->b_row, n_cols, depth, to, COLS);
    } else {
        cpu_pack_lines(from, p->b_col, n_cols, depth, to, COLS);
    }
}

// --- results ------------------------------------------------------------------------------------

// Finishes a tile; its rows of sums lie ld apart.
CPU_ALONE finish(const cpu_product *p, cpu_range rows, cpu_range cols, float *sums, int64_t ld) {
    for (int64_t row = rows.first; row < rows.end; row++, sums += ld) {
        const int64_t at = row * p->n + cols.first;
        if (cols.end - cols.first == COLS) { // a length that the compiler knows
            cpu_finish_row(p, at, cols.first, COLS, sums);
        } else {
            cpu_finish_row(p, at, cols.first, cols.end - cols.first, sums);
        }
    }
}

// Adds to asking what finish() is going to read and write.
static void ask_for_result(const job *j, cpu_range rows, cpu_range cols, cpu_asking *asking) {
    const cpu_product *p = j->p;
    const int64_t at = rows.first * p->n + cols.first;
    const int64_t n_rows = rows.end - rows.first;
    const int64_t n_cols = cols.end - cols.first;
    const int64_t n_times = cpu_divide_up(j->steps, CPU_ASK_STEPS);
    const cpu_data *beside = p->act != NULL ? p->act : p->pre;
    asking->result = cpu_lines_of(p->rounded + at, p->n, n_rows, n_cols, n_times);
    if (beside != NULL) {
        asking->beside = cpu_lines_of(beside + at, p->n, n_rows, n_cols, n_times);
    }
}

static void multiply_tile(const job *j, cpu_range rows, cpu_range cols, const cpu_packed *b, cpu_asking *asking) {
    const cpu_product_a a = rows_of_a(j, rows.first);
    const cpu_product *p = j->p;
    const int64_t n_rows = rows.end - rows.first;
    const int64_t n_cols = cols.end - cols.first;
    const bool add = p->add || j->slice > 0;
    float room[ROWS * COLS] __attribute__((aligned(64)));
    if (p->rounded != NULL) {
        const bool many = j->of.n_slices > 1;
        float *sums = room; // of all slices, where there are several
        const int64_t ld = many ? j->of.cell_cols : COLS;
        if (many) {
            sums = (float *)j->team->scratch[j->team->thread] + b_elems(&j->of) + a_elems(&j->of) +
                   (rows.first - j->rows.first) * ld + (cols.first - j->cols.first);
        }
        const bool is_last = j->slice + 1 == j->of.n_slices;
        if (is_last) {
            ask_for_result(j, rows, cols, asking);
        }
        cpu_product_tile(j->steps, a, b, sums, ld, j->slice > 0, asking);
        if (is_last) {
            finish(p, rows, cols, sums, ld);
        }
        return;
    }
    float *c = p->c + rows.first * p->n + cols.first;
    if (n_rows == ROWS && n_cols == COLS) {
        cpu_product_tile(j->steps, a, b, c, p->n, add, asking);
        return;
    }
    cpu_product_tile(j->steps, a, b, room, COLS, false, asking);
    for (int64_t r = 0; r < n_rows; r++) {
        for (int64_t i = 0; i < n_cols; i++) {
            c[r * p->n + i] = room[r * COLS + i] + (add ? c[r * p->n + i] : 0.0f);
        }
    }
}

// --- the part of a thread -----------------------------------------------------------------------

// A block of this thread's columns, over all of its rows. Where one block of rows is all there is, each b panel is
// used up at once, and one place in the scratch does for all.
static void multiply_columns(const job *j, cpu_range cols) {
    const bool one_block = j->rows.end - j->rows.first <= j->of.block_rows;
    for (int64_t first = j->rows.first; first < j->rows.end; first += j->of.block_rows) {
        const int64_t end = cpu_min64(first + j->of.block_rows, j->rows.end);
        for (int64_t col = cols.first; col < cols.end; col += COLS) {
            const cpu_range tile_cols = {col, cpu_min64(col + COLS, cols.end)};
            cpu_packed *b = (cpu_packed *)j->team->scratch[j->team->thread];
            b += one_block ? 0 : (col - cols.first) * j->of.steps;
            cpu_asking asking = {.b.left = 0};
            if (first == j->rows.first) {
                pack_b(j, col, tile_cols.end - col, b);
                const cpu_range next_cols = {col + COLS, cpu_min64(col + 2 * COLS, j->cols.end)};
                const int64_t n_tiles = cpu_divide_up(end - first, ROWS);
                asking.b = cpu_lines_of_b(j->p, j->ks, next_cols, n_tiles * cpu_divide_up(j->steps, CPU_ASK_STEPS));
            }
            for (int64_t row = first; row < end; row += ROWS) {
                multiply_tile(j, (cpu_range){row, cpu_min64(row + ROWS, end)}, tile_cols, b, &asking);
            }
        }
    }
}

static void multiply_slice(job *j) {
    const int64_t first = cpu_min64(j->slice * j->of.depth, j->p->k);
    j->ks = (cpu_range){first, cpu_min64(first + j->of.depth, j->p->k)};
    j->steps = round_up(j->ks.end - j->ks.first, STEP_K) / CPU_PACK_K;
    if (j->packs_a) {
        if (j->chunk_first > 0 || j->slice > 0) {
            cpu_meet(j->team); // what was packed before has been used
        }
        pack_a(j);
        cpu_meet(j->team);
    }
    const int64_t step = j->of.n_b * COLS;
    for (int64_t col = j->cols.first; col < j->cols.end; col += step) {
        multiply_columns(j, (cpu_range){col, cpu_min64(col + step, j->cols.end)});
    }
}

void ISA(cpu_multiply)(const cpu_product *given, const cpu_team *team) {
    cpu_product own = *given;
    const cpu_product *p = &own;
#if !defined(CPU_DATA_NARROW)
    if (p->bias != NULL || p->act != NULL || p->pre != NULL) { // what is finished goes the way of what is rounded
        own.rounded = own.c;
        own.c = NULL;
    }
#endif
    job j = {.p = p, .team = team, .of = divide(p->m, p->n, p->k, team->n_threads)};
    const int grid_cols = team->n_threads / j.of.grid_rows;
    j.cols = cpu_split(p->n, COLS, team->thread % grid_cols, grid_cols);
    j.packs_a = p->a_col != 1 || !cpu_product_reads_rows(p->m, p->k);
    cpu_product_begin();
    for (j.chunk_first = 0; j.chunk_first < p->m; j.chunk_first += j.of.chunk_rows) {
        j.chunk_rows = cpu_min64(p->m - j.chunk_first, j.of.chunk_rows);
        j.rows = cpu_split(j.chunk_rows, ROWS, team->thread / grid_cols, j.of.grid_rows);
        j.rows.first += j.chunk_first;
        j.rows.end += j.chunk_first;
        for (j.slice = 0; j.slice < j.of.n_slices; j.slice++) {
            multiply_slice(&j);
        }
    }
    cpu_product_end();
}
