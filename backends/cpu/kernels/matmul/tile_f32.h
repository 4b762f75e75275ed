// tile_f32.h: the tile of float products: CPU_PRODUCT_ROWS x CPU_PRODUCT_COLS of the result, whose sums stay in
// registers while k runs. During its arithmetic it packs what later tiles will read, and asks for their memory.
#pragma once

#include "backends/cpu/common/ask.h"
#include "backends/cpu/common/tile_size.h"

// Operands that a tile packs are prefetched this many steps of k before they are needed. Packed operands, and rows of a
// that are not packed, are left to the processor's own prefetching: their prefetches cost more than they save where the
// clock falls with the number of instructions (Emerald Rapids: 5% of a tile).
enum { CPU_AHEAD = 32 };

// Steps of k that are unrolled, and those between two times that memory is asked for.
#if CPU_REGISTERS == 32
enum { CPU_UNROLLED = 2, CPU_STRETCH = 64 };
#else
enum { CPU_UNROLLED = 4, CPU_STRETCH = 64 };
#endif

// Address of CPU_PRODUCT_ROWS rows of a: element (r, j) is at data[r * row + j * step].
typedef struct {
    const float *data;
    int64_t row;
    int64_t step;
    float *pack;       // where a tile that packs a puts these rows;
    int64_t pack_next; // so much further on those of the tile below, which lie next to these: they share cache lines
    bool asks_next;    // such a tile asks for the rows packed next, at the same k; else for these, further on
} cpu_a_rows;

// Destination of a tile's sums: c, or += with `add`. Rows lie ld apart.
typedef struct {
    float *c;
    int64_t ld;
    bool add;
    const float *beside; // what of the same shape is going to be used with them; NULL: nothing
} cpu_tile_result;

// The work of packing that a tile does while it multiplies.
enum { CPU_PACK_NOTHING, CPU_PACK_A = 1, CPU_PACK_B = 2 };

// *sum += factor * row, in the register where *sum is: where there are 32, GCC 12 else takes registers in turns, copies
// between them, and a tile takes 1 to 2% longer.
static inline __attribute__((always_inline)) void cpu_multiply_add(cpu_tile_vector *sum, float factor,
                                                                   cpu_tile_vector row) {
#if defined(__AVX512F__)
    const __m512 factors = _mm512_set1_ps(factor);
    __m512 in_place = (__m512)*sum;
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(in_place) : "v"(factors), "v"((__m512)row));
    *sum = (cpu_tile_vector)in_place;
#elif CPU_ADDS_IN_PLACE
    cpu_add_in_place(sum, factor, row);
#else
    *sum += factor * row;
#endif
}

// sum += a b, of step j of k: n_vectors and packs are constants, and so is what the compiler can know of a's strides.
static inline __attribute__((always_inline)) void cpu_step(int j, int n_vectors, unsigned packs, cpu_a_rows a,
                                                           const float *b, int64_t b_step, float *restrict b_pack,
                                                           cpu_tile_vector sum[CPU_PRODUCT_ROWS][CPU_PRODUCT_VECTORS]) {
    const float *column = a.data + j * a.step;
    if (packs & CPU_PACK_A) {
        if (a.asks_next) { // the last line of what the next two tiles pack here; the first may be part of this one's
            __builtin_prefetch(column + 4 * CPU_PRODUCT_ROWS - 1, 0, 2); // into the second-level cache
        } else {
            __builtin_prefetch(column + CPU_AHEAD * a.step);
            __builtin_prefetch(column + CPU_AHEAD * a.step + 2 * CPU_PRODUCT_ROWS - 1);
        }
        memcpy(a.pack + j * CPU_PRODUCT_ROWS, column, CPU_PRODUCT_ROWS * sizeof *a.pack);
        memcpy(a.pack + a.pack_next + j * CPU_PRODUCT_ROWS, column + CPU_PRODUCT_ROWS,
               CPU_PRODUCT_ROWS * sizeof *a.pack);
    }
    cpu_tile_vector row[CPU_PRODUCT_VECTORS];
#pragma GCC unroll 5
    for (int v = 0; v < n_vectors; v++) {
        row[v] = *(const cpu_tile_vector *)(b + j * b_step + v * CPU_TILE_VECTOR);
        if (packs & CPU_PACK_B) {
            *(cpu_tile_vector *)(b_pack + j * CPU_PRODUCT_COLS + v * CPU_TILE_VECTOR) = row[v];
            __builtin_prefetch(b + (j + CPU_AHEAD) * b_step + v * CPU_TILE_VECTOR);
        }
    }
#if CPU_BY_LANE
    if (packs & CPU_PACK_A || (__builtin_constant_p(a.row) && a.row == 1)) {
        cpu_multiply_by_lanes(n_vectors, column, row, sum);
        return;
    }
#endif
#pragma GCC unroll 8
    for (int r = 0; r < CPU_PRODUCT_ROWS; r++) {
        const float factor = column[r * a.row];
#pragma GCC unroll 5
        for (int v = 0; v < n_vectors; v++) {
            cpu_multiply_add(&sum[r][v], factor, row[v]);
        }
    }
}

// Work to do during a tile, a little every CPU_STRETCH steps: rows of the next b panel, contiguous and CPU_PRODUCT_COLS
// wide, are prefetched, and those of the last time are packed. (If they were prefetched long before, they may be
// evicted: a multiple of a page apart, they share few of a cache's sets.)
typedef struct {
    cpu_asking asking;
    const float *from; // the next row to pack
    int64_t ld;
    float *to;
    int64_t left; // rows
    int64_t each; // rows at a time
} cpu_beside;

static inline void cpu_ask_for_row(const float *row) {
    for (int i = 0; i < CPU_PRODUCT_COLS; i += 64 / (int)sizeof *row) {
        __builtin_prefetch(row + i);
    }
    __builtin_prefetch(row + CPU_PRODUCT_COLS - 1);
}

static inline void cpu_pack_beside(cpu_beside *beside, int64_t n_rows) {
    for (int64_t i = 0; i < n_rows && beside->left > 0; i++, beside->left--) {
        if (beside->left > beside->each) {
            cpu_ask_for_row(beside->from + beside->each * beside->ld);
        }
        memcpy(beside->to, beside->from, CPU_PRODUCT_COLS * sizeof *beside->to);
        beside->from += beside->ld;
        beside->to += CPU_PRODUCT_COLS;
    }
}

static inline void cpu_do_beside(cpu_beside *beside) {
    cpu_ask(&beside->asking);
    cpu_pack_beside(beside, beside->each);
}

// sum += a b over k steps; meanwhile memory is asked for. b's row j is at b + j * b_step, n_vectors CPU_TILE_VECTOR
// wide; with CPU_PACK_B it is also stored at b_pack, CPU_PRODUCT_COLS apart.
static inline __attribute__((always_inline)) void
cpu_accumulate(int n_vectors, unsigned packs, int64_t k, cpu_a_rows a, const float *b, int64_t b_step,
               float *restrict b_pack, cpu_beside *beside, cpu_tile_vector sum[CPU_PRODUCT_ROWS][CPU_PRODUCT_VECTORS]) {
    for (int64_t left = k; left > 0;) {
        const int64_t until = left > CPU_STRETCH ? left - CPU_STRETCH : 0;
        cpu_do_beside(beside);
        for (; left >= until + CPU_UNROLLED; left -= CPU_UNROLLED) {
#pragma GCC unroll 4
            for (int j = 0; j < CPU_UNROLLED; j++) {
                cpu_step(j, n_vectors, packs, a, b, b_step, b_pack, sum);
            }
            a.data += CPU_UNROLLED * a.step;
            a.pack += CPU_UNROLLED * CPU_PRODUCT_ROWS;
            b += CPU_UNROLLED * b_step;
            b_pack += CPU_UNROLLED * CPU_PRODUCT_COLS;
        }
        for (; left > until; left--) {
            cpu_step(0, n_vectors, packs, a, b, b_step, b_pack, sum);
            a.data += a.step;
            a.pack += CPU_PRODUCT_ROWS;
            b += b_step;
            b_pack += CPU_PRODUCT_COLS;
        }
    }
}

// Prefetches CPU_PRODUCT_ROWS x n_vectors CPU_TILE_VECTOR into the L1 cache, since they are used at once.
static inline __attribute__((always_inline)) void cpu_prefetch_result(int n_vectors, const float *at, int64_t ld) {
    for (int r = 0; r < CPU_PRODUCT_ROWS; r++) {
        for (int v = 0; v < n_vectors; v++) {
            __builtin_prefetch(at + r * ld + v * CPU_TILE_VECTOR, 1);
        }
        __builtin_prefetch(at + r * ld + n_vectors * CPU_TILE_VECTOR - 1, 1);
    }
}

// to (CPU_PRODUCT_ROWS x n_vectors CPU_TILE_VECTOR) = a b
static inline __attribute__((always_inline)) void cpu_compute_tile(int n_vectors, unsigned packs, int64_t k,
                                                                   cpu_a_rows a, const float *b, int64_t b_step,
                                                                   float *b_pack, cpu_tile_result to,
                                                                   cpu_beside *beside) {
    const int64_t body = k > CPU_AHEAD ? k - CPU_AHEAD : 0;
    cpu_tile_vector sum[CPU_PRODUCT_ROWS][CPU_PRODUCT_VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < CPU_PRODUCT_ROWS; r++) {
#pragma GCC unroll 5
        for (int v = 0; v < n_vectors; v++) {
            sum[r][v] = (cpu_tile_vector){0};
        }
    }
    cpu_accumulate(n_vectors, packs, body, a, b, b_step, b_pack, beside, sum);
    cpu_prefetch_result(n_vectors, to.c, to.ld);
    if (to.beside != NULL) {
        cpu_prefetch_result(n_vectors, to.beside, to.ld);
    }
    a.data += body * a.step;
    if (packs & CPU_PACK_A) {
        a.pack += body * CPU_PRODUCT_ROWS;
    }
    if (packs & CPU_PACK_B) {
        b_pack += body * CPU_PRODUCT_COLS;
    }
    cpu_accumulate(n_vectors, packs, k - body, a, b + body * b_step, b_step, b_pack, beside, sum);
#pragma GCC unroll 8
    for (int r = 0; r < CPU_PRODUCT_ROWS; r++) {
#pragma GCC unroll 5
        for (int v = 0; v < n_vectors; v++) {
            cpu_tile_vector *at = (cpu_tile_vector *)(to.c + r * to.ld + v * CPU_TILE_VECTOR);
            if (to.add) {
                sum[r][v] += *at;
            }
            *at = sum[r][v];
        }
    }
}

// Computes a tile from a packed b. The compiler knows one stride of a or both.
static inline __attribute__((always_inline)) void
cpu_tile_of_packed(int n_vectors, int64_t k, cpu_a_rows a, const float *b, cpu_tile_result to, cpu_beside *beside) {
    if (a.step == 1) {
        cpu_compute_tile(n_vectors, CPU_PACK_NOTHING, k, a, b, CPU_PRODUCT_COLS, NULL, to, beside);
    } else {
        a.row = 1;
        a.step = CPU_PRODUCT_ROWS;
        cpu_compute_tile(n_vectors, CPU_PACK_NOTHING, k, a, b, CPU_PRODUCT_COLS, NULL, to, beside);
    }
}

typedef void (*cpu_tile)(int64_t k, cpu_a_rows a, const float *b, cpu_tile_result to, cpu_beside *beside);

// Tiles of one vector, of two, and so on.
#if CPU_SCALAR
#define CPU_EACH_TILE(X) X(1) X(2) X(3) X(4) X(5)
#elif CPU_REGISTERS == 32
#define CPU_EACH_TILE(X) X(1) X(2) X(3)
#else
#define CPU_EACH_TILE(X) X(1) X(2)
#endif
#define TILE_OF(n)                                                                                              \
    static void cpu_tile_##n(int64_t k, cpu_a_rows a, const float *b, cpu_tile_result to, cpu_beside *beside) { \
        cpu_tile_of_packed(n, k, a, b, to, beside);                                                             \
    }
CPU_EACH_TILE(TILE_OF)
#define TILE_NAME(n) cpu_tile_##n,
static const cpu_tile cpu_tiles[] = {CPU_EACH_TILE(TILE_NAME)};

// Whole tiles that pack: of b, where it lies in rows b_step apart; of a, where it lies in columns; of both.
static void cpu_tile_packs_a(int64_t k, cpu_a_rows a, const float *b, cpu_tile_result to, cpu_beside *beside) {
    cpu_compute_tile(CPU_PRODUCT_VECTORS, CPU_PACK_A, k, a, b, CPU_PRODUCT_COLS, NULL, to, beside);
}
static void cpu_tile_packs_b(int64_t k, cpu_a_rows a, const float *b, int64_t b_step, float *b_pack, cpu_tile_result to,
                             cpu_beside *beside) {
    cpu_compute_tile(CPU_PRODUCT_VECTORS, CPU_PACK_B, k, a, b, b_step, b_pack, to, beside);
}
static void cpu_tile_packs_both(int64_t k, cpu_a_rows a, const float *b, int64_t b_step, float *b_pack,
                                cpu_tile_result to, cpu_beside *beside) {
    cpu_compute_tile(CPU_PRODUCT_VECTORS, CPU_PACK_A | CPU_PACK_B, k, a, b, b_step, b_pack, to, beside);
}

// A tile at the edge of c, of which only n_rows x n_cols exist: by way of a whole one.
static void cpu_tile_at_edge(cpu_tile whole, int64_t k, cpu_a_rows a, const float *b, cpu_tile_result to,
                             int64_t n_rows, int64_t n_cols, cpu_beside *beside) {
    float buffer[CPU_PRODUCT_ROWS * CPU_PRODUCT_COLS];
    whole(k, a, b, (cpu_tile_result){.c = buffer, .ld = CPU_PRODUCT_COLS}, beside);
    for (int64_t r = 0; r < n_rows; r++) {
        for (int64_t i = 0; i < n_cols; i++) {
            float value = buffer[r * CPU_PRODUCT_COLS + i];
            to.c[r * to.ld + i] = to.add ? to.c[r * to.ld + i] + value : value;
        }
    }
}
