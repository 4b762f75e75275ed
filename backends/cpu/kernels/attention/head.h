// head.h: one head of one sequence, as flash attention sees it: where it lies in memory, and copies of TILE of its
// rows at a time.
//
// Rows of a head lie far apart in qkv, which strikes the same few cache sets over and over, and may be bf16: so
// they are copied to scratch, as float. Tiles are padded with zeros to TILE rows of whole vectors.
#pragma once

#include "backends/cpu/common/kernel.h"
#include "backends/cpu/common/math.h"
#include "backends/cpu/common/transpose.h"
#include "backends/cpu/kernels/matmul/tile.h"

enum { TILE = 64, TILE_ELEMS = TILE * TILE };

// One head of one sequence: what it is, and where it lies in qkv (B,T,(NH+2NKV)HS) and y (B,T,C).
typedef struct {
    int64_t T, HS;
    int64_t width;   // HS rounded up to whole vectors: the rows of a packed tile
    int64_t n_tiles; // of T
    int64_t index;   // b*NH + h
    int64_t ld_qkv, ld_y;
    int64_t q_offset_elems, k_offset_elems, v_offset_elems; // of its first elements in qkv
    int64_t y_offset_elems;
    const int32_t *starts; // (T): the first key that each row sees; NULL: 0
    float scale;
    cpu_dropout_rule dropout;
    bool drops;
} head;

static inline int64_t padded_width(int64_t HS) { return cpu_divide_up(HS, CPU_VECTOR) * CPU_VECTOR; }

// rng_step and starts (B,T) are the op's, or NULL.
static inline head find_head(const host_op *op, const sm_tensor *y, const uint32_t *rng_step, const int32_t *starts,
                             int64_t index) {
    const sm_attrs *attr = &op->op->attr;
    const int64_t NH = attr->n_head;
    const int64_t NKV = attr->n_kv_head;
    const int64_t T = y->dims[1];
    const int64_t C = y->dims[2];
    const int64_t HS = C / NH;
    const int64_t row = index / NH * T;
    const int64_t h = index % NH;
    const int64_t ld_qkv = C + 2 * NKV * HS;
    const int64_t k_offset_elems = row * ld_qkv + (NH + h / (NH / NKV)) * HS;
    return (head){
        .T = T,
        .HS = HS,
        .width = padded_width(HS),
        .n_tiles = cpu_divide_up(T, TILE),
        .index = index,
        .ld_qkv = ld_qkv,
        .ld_y = C,
        .q_offset_elems = row * ld_qkv + h * HS,
        .k_offset_elems = k_offset_elems,
        .v_offset_elems = k_offset_elems + NKV * HS,
        .y_offset_elems = row * C + h * HS,
        .starts = starts == NULL ? NULL : starts + row,
        .scale = 1.0f / sqrtf((float)HS),
        .dropout = cpu_dropout_make(attr->dropout_p, attr->rng_key, rng_step),
        .drops = attr->dropout_p > 0,
    };
}

#define FIND_HEAD(kind, op, y, index) \
    find_head(op, y, op->in[SM_IN(kind, rng_step)], op->in[SM_IN(kind, starts)], index)

// The first tile of keys that any row of a tile sees: its first row looks back furthest.
static inline int64_t first_key_tile(const head *h, int64_t row_tile) {
    return h->starts == NULL ? 0 : h->starts[row_tile * TILE] / TILE;
}

// --- scratch --------------------------------------------------------------------------

// Defines the scratch of a pass, areas of 4-byte elements that AREAS lists: pass_scratch, pass_scratch_bytes() and
// pass_carve(), whose parameters are what the numbers of elements depend on.
#define DEFINE_SCRATCH(pass, AREAS, ...)                             \
    typedef struct {                                                 \
        AREAS(AREA_FIELD)                                            \
    } pass##_scratch;                                                \
    static size_t pass##_scratch_bytes(__VA_ARGS__) {                \
        const int64_t n_elems = 0 AREAS(AREA_ELEMS);                 \
        return (size_t)n_elems * sizeof(float);                      \
    }                                                                \
    static pass##_scratch pass##_carve(void *scratch, __VA_ARGS__) { \
        pass##_scratch s;                                            \
        float *at = scratch;                                         \
        AREAS(AREA_PLACE)                                            \
        return s;                                                    \
    }
#define AREA_FIELD(type, name, n_elems) type *name;
#define AREA_ELEMS(type, name, n_elems) +(n_elems)
#define AREA_PLACE(type, name, n_elems) \
    s.name = (type *)at;                \
    at += (n_elems);

// --- packing --------------------------------------------------------------------------

// Rows of tile `tile` of a head's operand, times factor, as (TILE, width); zeros beyond T and HS.
static inline void pack_rows(const head *h, int64_t tile, const cpu_data *x, int64_t ld, float factor, float *packed) {
    for (int64_t i = 0; i < TILE; i++) {
        float *restrict row = packed + i * h->width;
        int64_t t = tile * TILE + i;
        int64_t n = t < h->T ? h->HS : 0;
        const cpu_data *from = x + t * ld;
#pragma omp simd
        for (int64_t d = 0; d < n; d++) {
            row[d] = factor * cpu_widen(from[d]);
        }
        if (n < h->width) {
            memset(row + n, 0, (size_t)(h->width - n) * sizeof *row);
        }
    }
}

// The same transposed, as (width, TILE), from the packed rows.
static inline void transpose_rows(const head *h, const float *packed, float *transposed) {
    for (int64_t d = 0; d < h->width; d += CPU_VECTOR) {
        for (int64_t i = 0; i < TILE; i += CPU_VECTOR) {
            cpu_transpose(packed + i * h->width + d, h->width, transposed + d * TILE + i, TILE);
        }
    }
}

// Copies the tile's real rows and channels, times factor, to strided rows of the result.
static inline void unpack_rows(const head *h, int64_t tile, const float *packed, float factor, cpu_data *x,
                               int64_t ld) {
    for (int64_t i = 0; i < TILE && tile * TILE + i < h->T; i++) {
        cpu_data *row = x + (tile * TILE + i) * ld;
#pragma omp simd
        for (int64_t d = 0; d < h->HS; d++) {
            row[d] = cpu_round(factor * packed[i * h->width + d]);
        }
    }
}

// --- fetching -------------------------------------------------------------------------

// Adds n_rows of a head's operand to what is fetched.
static inline void fetch_rows(cpu_fetching *f, const cpu_data *x, int64_t ld, int64_t n_rows) {
    cpu_fetch_add(f, x, ld * (int64_t)sizeof *x, n_rows);
}

// Adds the real rows of tile `tile`.
static inline void fetch_tile(cpu_fetching *f, const head *h, int64_t tile, const cpu_data *x, int64_t ld) {
    if (tile < h->n_tiles) {
        fetch_rows(f, x + tile * TILE * ld, ld, cpu_min64(TILE, h->T - tile * TILE));
    }
}

// Spreads the prefetches of all rows over n_times calls.
static inline void pace_fetching(cpu_fetching *f, const head *h, int64_t n_times) {
    for (int i = 0; i < f->n_areas; i++) {
        f->n_rows += f->area[i].n_rows;
    }
    f->row_bytes = h->HS * (int64_t)sizeof(cpu_data);
    f->n_times = n_times;
}
