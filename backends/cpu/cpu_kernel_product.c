// cpu_kernel_product.c: c = a b with operands packed into the order in which they are used
// (Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication").
//
// The result is cut into tiles of TILE_ROWS x TILE_COLS that stay in registers while k runs:
//
//                         +------+------+--   b panels: TILE_COLS columns, packed by the
//                         |      |      |  k  thread that uses them; one is read by all
//                         +------+------+--   tiles below it
//      a panels           +------+------+--
//     +-----------+       | tile |      |  TILE_ROWS
//     |     k     |       +------+------+--
//     +-----------+       | tile |      |
//     |           |       +------+------+--
//     +-----------+
//     all threads pack a share of a, once, into memory that all read
//
//     for each chunk of rows:                      a's slice of it fits in the third-level cache
//       for each slice of k:                       panels stay short; one barrier, since a is packed
//                                                  one slice ahead
//         for each block of this thread's columns: b's slice of it is packed at the first use
//           for each block of this thread's rows:  a's slice of it stays in the second-level cache
//             for each b panel, each a panel:      a tile
//
// Threads divide the columns of c among themselves and, when there are too few, its rows as well.
#include "cpu_product.h"
#include "cpu_math.h"
#include "cpu_vector.h"

#if defined(__AVX512F__)
enum { TILE_ROWS = 8, TILE_VECTORS = 3 }; // 24 of 32 registers are sums
#else
enum { TILE_ROWS = 6, TILE_VECTORS = 2 }; // 12 of 16
#endif

enum {
    TILE_COLS = CPU_VECTOR * TILE_VECTORS,
    SLICE_K = 768,               // deepest slice of k
    CHUNK_ROWS = 1152,           // rows of c at a time
    BLOCK_ROWS = 24 * TILE_ROWS, // of a: at most 600 KiB
    BLOCK_COLS = 16 * TILE_COLS, // of b: at most 2.3 MiB
    GROUP = 4,                   // panels of a transposed a packed together: what a cache line or two hold
    PACK_COST_ROWS = 16,         // packing a b panel takes about as long as this many rows of c
    LINE_ELEMS = 16,             // of a cache line
};

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

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

// Packs `width` lines of length k that lie ld apart, each contiguous, side by side.
static void pack_lines(const float *from, int64_t ld, int64_t n_lines, int64_t k, float *to, int64_t width) {
    int64_t i = 0;
    for (; i + 4 <= n_lines; i += 4) {
        int64_t j = 0;
        for (; j + 4 <= k; j += 4) {
            transpose_4x4(from + i * ld + j, ld, to + j * width + i, width);
        }
        for (; j < k; j++) {
            for (int64_t r = i; r < i + 4; r++) {
                to[j * width + r] = from[r * ld + j];
            }
        }
    }
    for (; i < width; i++) {
        for (int64_t j = 0; j < k; j++) {
            to[j * width + i] = i < n_lines ? from[i * ld + j] : 0.0f;
        }
    }
}

// Packs k rows of `width` elements that lie ld apart, one after another.
static inline void pack_rows(const float *from, int64_t ld, int64_t n_cols, int64_t k, float *to, int64_t width) {
    for (int64_t j = 0; j < k; j++) {
        if (n_cols == width) {
#pragma omp simd
            for (int64_t i = 0; i < width; i++) {
                to[j * width + i] = from[j * ld + i];
            }
        } else {
            for (int64_t i = 0; i < width; i++) {
                to[j * width + i] = i < n_cols ? from[j * ld + i] : 0.0f;
            }
        }
    }
}

// Packs an operand's panel: `n` lines of the dimension that is not k, of stride `line`; stride `step` along k.
static void pack_panel(const float *from, int64_t line, int64_t step, int64_t n, int64_t k, float *to, int64_t width) {
    if (step == 1) {
        pack_lines(from, line, n, k, to, width);
    } else {
        pack_rows(from, step, n, k, to, width);
    }
}

// --- one tile -----------------------------------------------------------------------------------

// c (TILE_ROWS x n_vectors CPU_VECTOR) = a panel x b panel, or += with `add`. n_vectors is a constant where it is
// called.
static inline __attribute__((always_inline)) void tile(int n_vectors, int64_t k, const float *restrict a,
                                                       const float *restrict b, float *restrict c, int64_t ldc,
                                                       bool add) {
    cpu_vector sum[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < TILE_ROWS; r++) {
        __builtin_prefetch(c + r * ldc, 1);
        __builtin_prefetch(c + r * ldc + n_vectors * CPU_VECTOR - 1, 1);
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) {
            sum[r][v] = (cpu_vector){0};
        }
    }
    for (int64_t j = 0; j < k; j++) {
        cpu_vector row[TILE_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) {
            row[v] = *(const cpu_vector *)(b + v * CPU_VECTOR);
        }
#pragma GCC unroll 8
        for (int r = 0; r < TILE_ROWS; r++) {
#pragma GCC unroll 4
            for (int v = 0; v < n_vectors; v++) {
                sum[r][v] += a[r] * row[v];
            }
        }
        a += TILE_ROWS;
        b += TILE_COLS;
    }
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

typedef void (*tile_function)(int64_t k, const float *a, const float *b, float *c, int64_t ldc, bool add);

static void tile_1(int64_t k, const float *a, const float *b, float *c, int64_t ldc, bool add) {
    tile(1, k, a, b, c, ldc, add);
}
static void tile_2(int64_t k, const float *a, const float *b, float *c, int64_t ldc, bool add) {
    tile(2, k, a, b, c, ldc, add);
}
#if defined(__AVX512F__)
static void tile_3(int64_t k, const float *a, const float *b, float *c, int64_t ldc, bool add) {
    tile(3, k, a, b, c, ldc, add);
}
static const tile_function tiles[] = {tile_1, tile_2, tile_3};
#else
static const tile_function tiles[] = {tile_1, tile_2};
#endif

// A tile at the edge of c, of which only n_rows x n_cols exist: by way of a whole one.
static void tile_at_edge(tile_function whole, int64_t k, const float *a, const float *b, float *c, int64_t ldc,
                         bool add, int64_t n_rows, int64_t n_cols) {
    float buffer[TILE_ROWS * TILE_COLS];
    whole(k, a, b, buffer, TILE_COLS, false);
    for (int64_t r = 0; r < n_rows; r++) {
        for (int64_t i = 0; i < n_cols; i++) {
            float value = buffer[r * TILE_COLS + i];
            c[r * ldc + i] = add ? c[r * ldc + i] + value : value;
        }
    }
}

// --- the part of a thread -----------------------------------------------------------------------

// What the passes over slices and chunks share.
typedef struct {
    const cpu_product *p;
    const cpu_team *team;
    cpu_range rows;      // of the whole c: this thread's
    cpu_range cols;      // this thread's
    int64_t chunk_first; // rows of a that are packed now
    int64_t chunk_rows;
    int64_t panels_a_thread; // packed panels of a that lie in one thread's scratch
    int64_t n_slices;
} job;

// The scratch of a thread: a block of b panels, then two buffers of a's panels.
static float *b_panel(const job *j, int64_t panel) {
    return (float *)j->team->scratch[j->team->thread] + panel * TILE_COLS * SLICE_K;
}

static float *a_panel(const job *j, int64_t panel, int64_t slice) {
    float *block = j->team->scratch[panel / j->panels_a_thread];
    int64_t in_block = panel % j->panels_a_thread + (slice % 2) * j->panels_a_thread;
    return block + ((int64_t)BLOCK_COLS + in_block * TILE_ROWS) * SLICE_K;
}

static int64_t panels_a_thread(int64_t chunk_rows, int n_threads) {
    return divide_up(divide_up(chunk_rows, TILE_ROWS), n_threads);
}

size_t ISA(cpu_product_scratch)(int64_t m, int64_t n, int64_t k, int n_threads) {
    (void)n;
    (void)k;
    int64_t n_panels = panels_a_thread(min64(m, CHUNK_ROWS), n_threads);
    return (size_t)(BLOCK_COLS + 2 * n_panels * TILE_ROWS) * SLICE_K * sizeof(float);
}

// Slices are equally deep, so that none is too short to be worth its traffic.
static int64_t slice_first(const job *j, int64_t slice) { return j->p->k * slice / j->n_slices; }
static int64_t slice_depth(const job *j, int64_t slice) { return slice_first(j, slice + 1) - slice_first(j, slice); }

// Packs n_rows rows of a, which are contiguous along the rows, as the panels from `panel` on. A step of k touches
// a page of its own, so several panels are packed at each.
static void pack_transposed_a(const job *j, int64_t panel, int64_t n_rows, int64_t slice) {
    const cpu_product *p = j->p;
    const int64_t depth = slice_depth(j, slice);
    const float *from = p->a + j->chunk_first + panel * TILE_ROWS + slice_first(j, slice) * p->a_col;
    float *to[GROUP];
    const int64_t n_panels = divide_up(n_rows, TILE_ROWS);
    for (int64_t g = 0; g < n_panels; g++) {
        to[g] = a_panel(j, panel + g, slice);
    }
    for (int64_t k = 0; k < depth; k++) {
        for (int64_t g = 0; g < n_panels; g++) {
            pack_rows(from + k * p->a_col + g * TILE_ROWS, 0, min64(n_rows - g * TILE_ROWS, TILE_ROWS), 1,
                      to[g] + k * TILE_ROWS, TILE_ROWS);
        }
    }
}

// This thread's share of the chunk's slice of a.
static void pack_a(const job *j, int64_t slice) {
    const cpu_product *p = j->p;
    const int64_t first = j->team->thread * j->panels_a_thread;
    const int64_t end = min64(first + j->panels_a_thread, divide_up(j->chunk_rows, TILE_ROWS));
    const int64_t step = p->a_row == 1 ? GROUP : 1;
    for (int64_t panel = first; panel < end; panel += step) {
        const int64_t row = panel * TILE_ROWS;
        const int64_t n_rows = min64(j->chunk_rows - row, min64(end - panel, step) * TILE_ROWS);
        if (p->a_row == 1) {
            pack_transposed_a(j, panel, n_rows, slice);
        } else {
            pack_lines(p->a + (j->chunk_first + row) * p->a_row + slice_first(j, slice), p->a_row, n_rows,
                       slice_depth(j, slice), a_panel(j, panel, slice), TILE_ROWS);
        }
    }
}

// Asks for a share of the next b panel's memory, so that packing it does not wait: part `part` of n_parts.
static void prefetch_b(const job *j, int64_t col, int64_t slice, int64_t part, int64_t n_parts) {
    const cpu_product *p = j->p;
    if (col >= j->cols.end || p->b_col != 1) {
        return; // lines along k are contiguous: the processor sees them coming
    }
    int64_t depth = slice_depth(j, slice);
    int64_t n_cols = min64(j->cols.end - col, TILE_COLS);
    const float *from = p->b + slice_first(j, slice) * p->b_row + col;
    for (int64_t k = depth * part / n_parts; k < depth * (part + 1) / n_parts; k++) {
        for (int64_t i = 0; i < n_cols; i += LINE_ELEMS) {
            __builtin_prefetch(from + k * p->b_row + i);
        }
    }
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

// Tiles of the rows under one b panel, of which n_cols columns exist. While panels are being packed, fetches the next.
static void multiply_panel(const job *j, cpu_range rows, int64_t col, int64_t n_cols, int64_t slice, const float *b,
                           bool packing) {
    const cpu_product *p = j->p;
    const int64_t depth = slice_depth(j, slice);
    const bool add = p->add || slice > 0;
    const tile_function whole = tiles[divide_up(n_cols, CPU_VECTOR) - 1];
    const bool whole_cols = n_cols % CPU_VECTOR == 0;
    const int64_t n_tiles = divide_up(rows.end - rows.first, TILE_ROWS);
    for (int64_t t = 0; t < n_tiles; t++) {
        const int64_t row = rows.first + t * TILE_ROWS;
        const int64_t n_rows = min64(rows.end - row, TILE_ROWS);
        const float *a = a_panel(j, (row - j->chunk_first) / TILE_ROWS, slice);
        float *c = p->c + row * p->n + col;
        if (packing) {
            prefetch_b(j, col + TILE_COLS, slice, t, n_tiles);
        }
        if (n_rows == TILE_ROWS && whole_cols) {
            whole(depth, a, b, c, p->n, add);
        } else {
            tile_at_edge(whole, depth, a, b, c, p->n, add, n_rows, n_cols);
        }
    }
    if (slice + 1 == j->n_slices) {
        ISA(cpu_finish_product)(p, rows, (cpu_range){col, col + n_cols});
    }
}

// A block of this thread's columns, over all of its rows. Where one block of rows is all there is, each b
// panel is used up at once, and one place in the scratch does for all.
static void multiply_columns(const job *j, cpu_range cols, int64_t slice) {
    const cpu_product *p = j->p;
    const bool one_block = j->rows.end - j->rows.first <= BLOCK_ROWS;
    for (int64_t first = j->rows.first; first < j->rows.end; first += BLOCK_ROWS) {
        const cpu_range rows = {first, min64(first + BLOCK_ROWS, j->rows.end)};
        for (int64_t col = cols.first; col < cols.end; col += TILE_COLS) {
            const int64_t n_cols = min64(cols.end - col, TILE_COLS);
            float *b = b_panel(j, one_block ? 0 : (col - cols.first) / TILE_COLS);
            if (first == j->rows.first) {
                pack_panel(p->b + slice_first(j, slice) * p->b_row + col * p->b_col, p->b_col, p->b_row, n_cols,
                           slice_depth(j, slice), b, TILE_COLS);
            }
            multiply_panel(j, rows, col, n_cols, slice, b, first == j->rows.first);
        }
    }
}

// Divides the chunk's tiles into a grid of n_threads cells, and takes the one with the smallest largest cell.
static void choose_part(job *j) {
    const cpu_team *team = j->team;
    int64_t best = INT64_MAX;
    for (int grid_rows = 1; grid_rows <= team->n_threads; grid_rows++) {
        int grid_cols = team->n_threads / grid_rows;
        int64_t cell_rows = divide_up(divide_up(j->chunk_rows, TILE_ROWS), grid_rows);
        int64_t cell_cols = divide_up(divide_up(j->p->n, CPU_VECTOR), grid_cols);
        // Each b panel is packed once in every row of the grid.
        int64_t cost = cell_cols * (cell_rows * TILE_ROWS + PACK_COST_ROWS);
        if (grid_rows * grid_cols == team->n_threads && cost < best) {
            best = cost;
            j->rows = cpu_split(j->chunk_rows, TILE_ROWS, team->thread / grid_cols, grid_rows);
            j->cols = cpu_split(j->p->n, CPU_VECTOR, team->thread % grid_cols, grid_cols);
        }
    }
    j->rows.first += j->chunk_first;
    j->rows.end += j->chunk_first;
}

void ISA(cpu_multiply)(const cpu_product *p, const cpu_team *team) {
    job j = {.p = p, .team = team, .n_slices = divide_up(p->k, SLICE_K)};
    for (j.chunk_first = 0; j.chunk_first < p->m; j.chunk_first += CHUNK_ROWS) {
        j.chunk_rows = min64(p->m - j.chunk_first, CHUNK_ROWS);
        j.panels_a_thread = panels_a_thread(j.chunk_rows, team->n_threads);
        choose_part(&j);
        pack_a(&j, 0);
        for (int64_t slice = 0; slice < j.n_slices; slice++) {
#pragma omp barrier
            for (int64_t col = j.cols.first; col < j.cols.end; col += BLOCK_COLS) {
                multiply_columns(&j, (cpu_range){col, min64(col + BLOCK_COLS, j.cols.end)}, slice);
            }
            if (slice + 1 < j.n_slices) {
                pack_a(&j, slice + 1);
            }
        }
#pragma omp barrier // the next chunk is packed over this one
    }
}
