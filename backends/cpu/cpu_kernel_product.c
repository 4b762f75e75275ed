// cpu_kernel_product.c: c = a b, cut into blocks that stay in the caches while they are used
// (Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication").
//
// The result is cut into tiles of TILE_ROWS x TILE_COLS that stay in registers while k runs:
//
//                         +------+------+--   b panels: TILE_COLS columns of a slice of k, packed in
//                         |      |      |  k  the order of use; each is read by all tiles below it
//                         +------+------+--
//          k              +------+------+--
//     +-----------+       | tile |      |  TILE_ROWS
//     |  a rows   |       +------+------+--
//     +-----------+       | tile |      |
//     |           |       +------+------+--
//     +-----------+
//
//     for each slice of k:                    panels stay short
//       for each block of columns:            b's slice of it is packed at the first use
//         for each block of rows:             a's slice of it stays in the second-level cache
//           for each b panel:
//             for each TILE_ROWS rows of a:   a tile
//
// Each thread does this for a rectangle of c of its own. It shares nothing that is written: lines of a packed
// operand that go from core to core cost more than packing twice. a is read where it lies when its rows are
// contiguous along k, one number at a time from TILE_ROWS rows; else its block is packed, which then is only a copy.
// A b panel whose rows are contiguous is packed by the first tile that uses it, while it multiplies.
#include <string.h>

#include "cpu_math.h"
#include "cpu_product.h"
#include "cpu_vector.h"

#if defined(__AVX512F__)
enum { TILE_ROWS = 8, TILE_VECTORS = 3 }; // 24 of 32 registers are sums
enum { GROUP = 8 };                       // panels of a transposed a that are packed together
#else
enum { TILE_ROWS = 6, TILE_VECTORS = 2 }; // 12 of 16
enum { GROUP = 2 };
#endif

enum {
    TILE_COLS = CPU_VECTOR * TILE_VECTORS,
    LINE_ELEMS = 16,  // of a cache line
    AHEAD = 32,       // operands are asked for so many steps of k before they are needed,
    AHEAD_ELEMS = 64, // or so far along a line that is transposed
};

// --- packing ---------------------------------------------------------------------------------

typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));

// to[k * stride + i] = from[i * ld + k] for four lines i and four k.
static inline void transpose_4x4(const float *from, int64_t ld, float *to, int64_t stride) {
    quad r0 = *(const quad *)from;
    quad r1 = *(const quad *)(from + ld);
    quad r2 = *(const quad *)(from + 2 * ld);
    quad r3 = *(const quad *)(from + 3 * ld);
    quad low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
    quad high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
    quad low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
    quad high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
    *(quad *)to = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
    *(quad *)(to + stride) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
    *(quad *)(to + 2 * stride) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
    *(quad *)(to + 3 * stride) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

// Packs `width` lines of length k that lie ld apart, each contiguous, side by side; zeros stand for those from n_lines
// on. So many steps of k at a time that what is written stays in the first-level cache.
static void pack_lines(const float *from, int64_t ld, int64_t n_lines, int64_t k, float *to, int64_t width) {
    const int64_t n_whole = n_lines / 4 * 4;
    for (int64_t first = 0; first < k; first += AHEAD_ELEMS) {
        const int64_t end = cpu_min64(first + AHEAD_ELEMS, k);
        for (int64_t i = 0; i < n_whole; i += 4) {
            const float *lines = from + i * ld;
            for (int64_t q = 0; q < 4 * AHEAD_ELEMS; q += LINE_ELEMS) {
                __builtin_prefetch(lines + q / AHEAD_ELEMS * ld + first + AHEAD_ELEMS + q % AHEAD_ELEMS);
            }
            int64_t j = first;
            for (; j + 4 <= end; j += 4) {
                transpose_4x4(lines + j, ld, to + j * width + i, width);
            }
            for (; j < end; j++) {
                for (int64_t r = 0; r < 4; r++) {
                    to[j * width + i + r] = lines[r * ld + j];
                }
            }
        }
    }
    for (int64_t i = n_whole; i < width; i++) {
        for (int64_t j = 0; j < k; j++) {
            to[j * width + i] = i < n_lines ? from[i * ld + j] : 0.0f;
        }
    }
}

// Packs k rows of n elements that lie ld apart as panels of `width` columns, k * width elements each; zeros stand
// for the columns from n on. Inline, because `width` is a constant where it is called.
static inline __attribute__((always_inline)) void pack_rows(const float *from, int64_t ld, int64_t n, int64_t k,
                                                            float *to, int64_t width) {
    for (int64_t group = 0; group < n; group += GROUP * width) {
        const int64_t end = cpu_min64(group + GROUP * width, n);
        for (int64_t j = 0; j < k; j++) {
            const float *row = from + j * ld;
            for (int64_t first = group; first < end; first += width) {
                float *panel = to + first * k + j * width;
                __builtin_prefetch(row + AHEAD * ld + first);
                if (first + width <= n) {
                    memcpy(panel, row + first, (size_t)width * sizeof *panel);
                } else {
                    for (int64_t i = 0; i < width; i++) {
                        panel[i] = first + i < n ? row[first + i] : 0.0f;
                    }
                }
            }
        }
    }
}

// --- one tile -----------------------------------------------------------------------------------

// Where TILE_ROWS rows of a are: element (r, j) at data[r * row + j * step]. LINE_ELEMS steps are in TILE_ROWS cache
// lines, `line` elements apart.
typedef struct {
    const float *data;
    int64_t row;
    int64_t step;
    int64_t line;
    const float *next; // the same rows of the tile below
} a_rows;

// The cache lines of the b panel that comes next, asked for a few at a time while tiles are computed: rows ld elements
// apart, of n_lines lines each.
typedef struct {
    const float *next;
    int64_t ld;
    int64_t n_lines;
    int64_t line; // in the row
    int64_t left; // lines, in all
    int64_t each; // so many in LINE_ELEMS steps
} fetching;

static inline __attribute__((always_inline)) void fetch(fetching *f) {
    for (int64_t i = 0; i < f->each && f->left > 0; i++) {
        __builtin_prefetch(f->next, 0, 2); // into the second-level cache
        f->next += LINE_ELEMS;
        f->left--;
        if (++f->line == f->n_lines) {
            f->line = 0;
            f->next += f->ld - f->n_lines * LINE_ELEMS;
        }
    }
}

// sum += a b over k steps. b's row j is at b + j * b_step, n_vectors CPU_VECTOR wide. Where `pack` is not NULL, the
// rows of b are also stored there, TILE_COLS apart. n_vectors is a constant where it is called.
static inline __attribute__((always_inline)) void accumulate(int n_vectors, int64_t k, a_rows a, const float *b,
                                                             int64_t b_step, float *restrict pack, fetching *f,
                                                             cpu_vector sum[TILE_ROWS][TILE_VECTORS]) {
    for (int64_t j = 0; j < k; j++) {
        if (j % LINE_ELEMS == 0) {
            fetch(f);
#pragma GCC unroll 8
            for (int r = 0; r < TILE_ROWS; r++) {
                __builtin_prefetch(a.data + AHEAD * a.step + r * a.line);
                __builtin_prefetch(a.next + r * a.line, 0, 2);
            }
        }
        cpu_vector row[TILE_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) {
            row[v] = *(const cpu_vector *)(b + v * CPU_VECTOR);
            if (pack != NULL) {
                *(cpu_vector *)(pack + v * CPU_VECTOR) = row[v];
                __builtin_prefetch(b + AHEAD * b_step + v * CPU_VECTOR);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < TILE_ROWS; r++) {
#pragma GCC unroll 4
            for (int v = 0; v < n_vectors; v++) {
                sum[r][v] += a.data[r * a.row] * row[v];
            }
        }
        a.data += a.step;
        a.next += a.step;
        b += b_step;
        if (pack != NULL) {
            pack += TILE_COLS;
        }
    }
}

// c (TILE_ROWS x n_vectors CPU_VECTOR) = a b, or += with `add`.
static inline __attribute__((always_inline)) void tile(int n_vectors, int64_t k, a_rows a, const float *b,
                                                       int64_t b_step, float *pack, float *restrict c, int64_t ldc,
                                                       bool add, fetching *f) {
    const int64_t body = k > AHEAD ? k - AHEAD : 0;
    cpu_vector sum[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < TILE_ROWS; r++) {
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) {
            sum[r][v] = (cpu_vector){0};
        }
    }
    accumulate(n_vectors, body, a, b, b_step, pack, f, sum);
    for (int r = 0; r < TILE_ROWS; r++) {
        for (int v = 0; v < n_vectors; v++) {
            __builtin_prefetch(c + r * ldc + v * CPU_VECTOR, 1);
        }
        __builtin_prefetch(c + r * ldc + n_vectors * CPU_VECTOR - 1, 1);
    }
    a.data += body * a.step;
    a.next += body * a.step;
    accumulate(n_vectors, k - body, a, b + body * b_step, b_step, pack == NULL ? NULL : pack + body * TILE_COLS, f,
               sum);
#pragma GCC unroll 8
    for (int r = 0; r < TILE_ROWS; r++) {
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) {
            cpu_vector *to = (cpu_vector *)(c + r * ldc + v * CPU_VECTOR);
            if (add) {
                sum[r][v] += *to;
            }
            *to = sum[r][v];
        }
    }
}

typedef void (*tile_function)(int64_t k, a_rows a, const float *b, float *c, int64_t ldc, bool add, fetching *f);

static void tile_1(int64_t k, a_rows a, const float *b, float *c, int64_t ldc, bool add, fetching *f) {
    tile(1, k, a, b, TILE_COLS, NULL, c, ldc, add, f);
}
static void tile_2(int64_t k, a_rows a, const float *b, float *c, int64_t ldc, bool add, fetching *f) {
    tile(2, k, a, b, TILE_COLS, NULL, c, ldc, add, f);
}
#if defined(__AVX512F__)
static void tile_3(int64_t k, a_rows a, const float *b, float *c, int64_t ldc, bool add, fetching *f) {
    tile(3, k, a, b, TILE_COLS, NULL, c, ldc, add, f);
}
static const tile_function tiles[] = {tile_1, tile_2, tile_3};
#else
static const tile_function tiles[] = {tile_1, tile_2};
#endif

// A whole tile that reads b where it lies, in rows b_step apart, and packs its panel.
static void tile_that_packs(int64_t k, a_rows a, const float *b, int64_t b_step, float *pack, float *c, int64_t ldc,
                            bool add, fetching *f) {
    tile(TILE_VECTORS, k, a, b, b_step, pack, c, ldc, add, f);
}

// A tile at the edge of c, of which only n_rows x n_cols exist: by way of a whole one.
static void tile_at_edge(tile_function whole, int64_t k, a_rows a, const float *b, float *c, int64_t ldc, bool add,
                         int64_t n_rows, int64_t n_cols, fetching *f) {
    float buffer[TILE_ROWS * TILE_COLS];
    whole(k, a, b, buffer, TILE_COLS, false, f);
    for (int64_t r = 0; r < n_rows; r++) {
        for (int64_t i = 0; i < n_cols; i++) {
            float value = buffer[r * TILE_COLS + i];
            c[r * ldc + i] = add ? c[r * ldc + i] + value : value;
        }
    }
}

// --- the part of a thread -----------------------------------------------------------------------

// A slice of k of this thread's rectangle.
typedef struct {
    const cpu_product *p;
    cpu_range rows;
    cpu_range cols;
    cpu_range slice; // of k
    bool last_slice;
    cpu_blocking blocking;
    float *b_panels; // of a block of columns, packed
    float *a_panels; // what of a block of rows is packed
} job;

// Slices are equally deep, so that none is too short to be worth its traffic.
static cpu_range slice_of(int64_t k, int64_t slice, int64_t n_slices) {
    return (cpu_range){k * slice / n_slices, k * (slice + 1) / n_slices};
}

static int64_t length(cpu_range range) { return range.end - range.first; }

// The default's; no blocking that is tried asks for more.
size_t ISA(cpu_product_scratch)(int64_t m, int64_t n, int64_t k, int n_threads) {
    (void)m;
    (void)n;
    (void)k;
    (void)n_threads;
    const cpu_blocking *d = &cpu_default_blocking;
    return (size_t)(d->block_cols + d->block_tiles * TILE_ROWS) * (size_t)d->slice_k * sizeof(float);
}

// Packs what cannot be read where it lies of a block of rows: all, or the rows of a tile that reaches beyond a's end.
static void pack_a(const job *j, cpu_range rows) {
    const cpu_product *p = j->p;
    const float *from = p->a + rows.first * p->a_row + j->slice.first * p->a_col;
    const int64_t edge = length(rows) / TILE_ROWS * TILE_ROWS;
    if (p->a_row == 1) {
        pack_rows(from, p->a_col, length(rows), length(j->slice), j->a_panels, TILE_ROWS);
    } else if (edge < length(rows)) {
        pack_lines(from + edge * p->a_row, p->a_row, length(rows) - edge, length(j->slice),
                   j->a_panels + edge * length(j->slice), TILE_ROWS);
    }
}

// The rows of a tile, `row` rows into a block of which pack_a has packed what it had to.
static a_rows rows_of_tile(const job *j, cpu_range rows, int64_t row) {
    const cpu_product *p = j->p;
    const int64_t depth = length(j->slice);
    a_rows a;
    if (p->a_row == 1 || row + TILE_ROWS > length(rows)) {
        a = (a_rows){.data = j->a_panels + row * depth, .row = 1, .step = TILE_ROWS, .line = LINE_ELEMS};
        a.next = a.data + TILE_ROWS * depth;
    } else {
        a = (a_rows){.data = p->a + (rows.first + row) * p->a_row + j->slice.first, .row = p->a_row, .step = 1};
        a.line = a.row;
        a.next = a.data + TILE_ROWS * a.row;
    }
    return a;
}

void ISA(cpu_finish_product)(const cpu_product *p, cpu_range rows, cpu_range cols) {
    const int64_t n_cols = cols.end - cols.first;
    for (int64_t row = rows.first; row < rows.end; row++) {
        float *restrict c = p->c + row * p->n + cols.first;
        if (p->bias != NULL) {
            const float *restrict bias = p->bias + cols.first;
#pragma omp simd
            for (int64_t i = 0; i < n_cols; i++) {
                c[i] += bias[i];
            }
        }
        if (p->act != NULL) {
            float *restrict act = p->act + row * p->n + cols.first;
#pragma omp simd
            for (int64_t i = 0; i < n_cols; i++) {
                act[i] = cpu_gelu(c[i]);
            }
        }
        if (p->pre != NULL) {
            const float *restrict pre = p->pre + row * p->n + cols.first;
#pragma omp simd
            for (int64_t i = 0; i < n_cols; i++) {
                c[i] *= cpu_gelu_derivative(pre[i]);
            }
        }
    }
}

// The panel from column `col` on, to be fetched while a panel's tiles of these rows are computed.
static fetching fetch_panel(const job *j, int64_t col, cpu_range rows) {
    const cpu_product *p = j->p;
    const int64_t depth = length(j->slice);
    const int64_t n_cols = cpu_min64(j->cols.end - col, TILE_COLS);
    const bool transposed = p->b_col != 1;
    if (n_cols <= 0) {
        return (fetching){.left = 0};
    }
    fetching f = {.next = p->b + j->slice.first * p->b_row + col * p->b_col, .ld = transposed ? p->b_col : p->b_row};
    f.n_lines = cpu_divide_up(transposed ? depth : n_cols, LINE_ELEMS);
    f.left = f.n_lines * (transposed ? n_cols : depth);
    f.each = cpu_divide_up(f.left, cpu_divide_up(length(rows), TILE_ROWS) * cpu_divide_up(depth, LINE_ELEMS));
    return f;
}

// Tiles of a block of rows under one b panel, of which n_cols columns exist. `fresh`: the panel is not packed yet.
static void multiply_panel(const job *j, cpu_range rows, int64_t col, int64_t n_cols, float *panel, bool fresh) {
    const cpu_product *p = j->p;
    fetching f = {.left = 0};
    if (fresh) {
        f = fetch_panel(j, col + TILE_COLS, rows);
    }
    const int64_t depth = length(j->slice);
    const bool add = p->add || j->slice.first > 0;
    const tile_function whole = tiles[cpu_divide_up(n_cols, CPU_VECTOR) - 1];
    const float *b = p->b + j->slice.first * p->b_row + col * p->b_col;
    int64_t row = 0;
    if (fresh && p->b_col != 1) {
        pack_lines(b, p->b_col, n_cols, depth, panel, TILE_COLS);
    } else if (fresh && (n_cols < TILE_COLS || length(rows) < TILE_ROWS)) {
        pack_rows(b, p->b_row, n_cols, depth, panel, TILE_COLS);
    } else if (fresh) {
        tile_that_packs(depth, rows_of_tile(j, rows, 0), b, p->b_row, panel, p->c + rows.first * p->n + col, p->n, add,
                        &f);
        row = TILE_ROWS;
    }
    for (; row < length(rows); row += TILE_ROWS) {
        const int64_t n_rows = cpu_min64(length(rows) - row, TILE_ROWS);
        const a_rows a = rows_of_tile(j, rows, row);
        float *c = p->c + (rows.first + row) * p->n + col;
        if (n_rows == TILE_ROWS && n_cols % CPU_VECTOR == 0) {
            whole(depth, a, panel, c, p->n, add, &f);
        } else {
            tile_at_edge(whole, depth, a, panel, c, p->n, add, n_rows, n_cols, &f);
        }
    }
    if (j->last_slice) {
        ISA(cpu_finish_product)(p, rows, (cpu_range){col, col + n_cols});
    }
}

// A block of this thread's columns, over all of its rows. Where one block of rows is all there is, each b
// panel is used up at once, and one place in the scratch does for all.
static void multiply_columns(const job *j, cpu_range cols) {
    const int n_blocks = (int)cpu_divide_up(length(j->rows), j->blocking.block_tiles * TILE_ROWS);
    for (int i = 0; i < n_blocks; i++) {
        cpu_range rows = cpu_split(length(j->rows), TILE_ROWS, i, n_blocks);
        rows.first += j->rows.first;
        rows.end += j->rows.first;
        pack_a(j, rows);
        for (int64_t col = cols.first; col < cols.end; col += TILE_COLS) {
            float *panel = j->b_panels + (n_blocks == 1 ? 0 : (col - cols.first) * j->blocking.slice_k);
            multiply_panel(j, rows, col, cpu_min64(cols.end - col, TILE_COLS), panel, i == 0);
        }
    }
}

// Divides c into a grid of n_threads cells, and takes the one with the cheapest largest cell. What each cell spends on
// its operands is counted as rows and columns of c that could have been computed meanwhile.
static void choose_part(const cpu_team *team, job *j) {
    const cpu_product *p = j->p;
    const int64_t b_cost_rows = p->b_col == 1 ? 6 : 16;
    const int64_t a_cost_cols = p->a_row == 1 ? 48 : 16;
    int64_t best = INT64_MAX;
    for (int grid_rows = 1; grid_rows <= team->n_threads; grid_rows++) {
        const int grid_cols = team->n_threads / grid_rows;
        const int64_t cell_rows = cpu_divide_up(cpu_divide_up(p->m, TILE_ROWS), grid_rows) * TILE_ROWS;
        const int64_t cell_cols = cpu_divide_up(cpu_divide_up(p->n, CPU_VECTOR), grid_cols) * CPU_VECTOR;
        const int64_t cost = (cell_rows + b_cost_rows) * (cell_cols + a_cost_cols);
        const bool wanted = j->blocking.grid_rows == 0 || j->blocking.grid_rows == grid_rows;
        if (wanted && grid_rows * grid_cols == team->n_threads && cost < best) {
            best = cost;
            j->rows = cpu_split(p->m, TILE_ROWS, team->thread / grid_cols, grid_rows);
            j->cols = cpu_split(p->n, CPU_VECTOR, team->thread % grid_cols, grid_cols);
        }
    }
}

void ISA(cpu_multiply)(const cpu_product *p, const cpu_team *team) {
    float *scratch = team->scratch[team->thread];
    job j = {.p = p, .b_panels = scratch, .blocking = cpu_default_blocking};
    if (team->choice != NULL && team->choice->method == CPU_BY_PACKED) {
        j.blocking = team->choice->blocking;
    }
    j.a_panels = scratch + j.blocking.block_cols * j.blocking.slice_k;
    const int64_t n_slices = cpu_divide_up(p->k, j.blocking.slice_k);
    choose_part(team, &j);
    for (int64_t slice = 0; slice < n_slices; slice++) {
        j.slice = slice_of(p->k, slice, n_slices);
        j.last_slice = slice + 1 == n_slices;
        for (int64_t col = j.cols.first; col < j.cols.end; col += j.blocking.block_cols) {
            multiply_columns(&j, (cpu_range){col, cpu_min64(col + j.blocking.block_cols, j.cols.end)});
        }
    }
}
