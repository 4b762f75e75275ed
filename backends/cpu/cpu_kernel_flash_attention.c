// cpu_kernel_flash_attention.c: attention in tiles that stay in cache; T x T is never stored
// (Dao et al. 2022). Memory grows with T, not with its square.
//
// Rows and keys are cut into tiles of TILE. A head's operands are first copied to this thread's
// scratch, one array a tile: rows of a head lie 3C floats apart in qkv, which strikes the same few
// cache sets over and over. Tiles are padded with zeros to whole register blocks, so that the
// inner loops have no remainders; padded keys are masked like future ones, padded rows dropped.
//
//     keys  0   1   2   3       D: on the diagonal; #: below it
//   rows 0  D                   forward: a tile of rows walks its keys left to right, keeping per
//        1  #   D               row the largest score, the sum and the result so far.
//        2  #   #   D           backward: a tile of keys walks the rows from D down, gathering dk
//        3  #   #   #   D       and dv; dq of the whole head gathers in scratch. Scores are computed
//                               again, from lse.
//
// In a tile on the diagonal, register blocks wholly above it are skipped.
#include <math.h>
#include <string.h>

#include "cpu_kernel.h"
#include "cpu_math.h"
#include "cpu_tile.h"

enum { TILE = 64, TILE_ELEMS = TILE * TILE };

// One head of one sequence: what it is, and where it lies in qkv (B,T,3C) and y (B,T,C).
typedef struct {
    int64_t T, HS;
    int64_t width;   // HS rounded up to whole register blocks: the rows of a packed tile
    int64_t n_tiles; // of T
    int64_t index;   // b*NH + h
    int64_t ld_qkv, ld_y;
    int64_t qkv_offset_elems; // of its first q; k and v follow C and 2C further
    int64_t y_offset_elems;
    float scale;
    cpu_dropout_rule dropout;
    bool drops;
} head;

static int64_t padded_width(int64_t HS) { return (HS + CPU_BLOCK_COLS - 1) / CPU_BLOCK_COLS * CPU_BLOCK_COLS; }

static head find_head(const host_op *op, const sm_tensor *y, const uint32_t *rng_step, int64_t index) {
    const sm_attrs *attr = &op->op->attr;
    int64_t T = y->dims[1];
    int64_t C = y->dims[2];
    int64_t HS = C / attr->n_head;
    int64_t row = index / attr->n_head * T;
    int64_t column = index % attr->n_head * HS;
    return (head){
        .T = T,
        .HS = HS,
        .width = padded_width(HS),
        .n_tiles = (T + TILE - 1) / TILE,
        .index = index,
        .ld_qkv = 3 * C,
        .ld_y = C,
        .qkv_offset_elems = row * 3 * C + column,
        .y_offset_elems = row * C + column,
        .scale = 1.0f / sqrtf((float)HS),
        .dropout = cpu_dropout_make(attr->dropout_p, attr->rng_key, rng_step),
        .drops = attr->dropout_p > 0,
    };
}

// --- packing --------------------------------------------------------------------------

// Rows of tile `tile` of a head's operand, times factor, as (TILE, width); zeros beyond T and HS.
static void pack_rows(const head *h, int64_t tile, const cpu_data *x, int64_t ld, float factor, float *packed) {
    for (int64_t i = 0; i < TILE; i++) {
        float *row = packed + i * h->width;
        int64_t t = tile * TILE + i;
        int64_t n = t < h->T ? h->HS : 0;
#pragma omp simd
        for (int64_t d = 0; d < n; d++) {
            row[d] = factor * cpu_widen(x[t * ld + d]);
        }
        memset(row + n, 0, (size_t)(h->width - n) * sizeof *row);
    }
}

// The same transposed, as (HS, TILE), from the packed rows.
static void transpose_rows(const head *h, const float *packed, float *transposed) {
    for (int64_t d = 0; d < h->HS; d++) {
#pragma omp simd
        for (int64_t i = 0; i < TILE; i++) {
            transposed[d * TILE + i] = packed[i * h->width + d];
        }
    }
}

// Copies the tile's real rows and channels, times factor, to strided rows of the result.
static void unpack_rows(const head *h, int64_t tile, const float *packed, float factor, cpu_data *x, int64_t ld) {
    for (int64_t i = 0; i < TILE && tile * TILE + i < h->T; i++) {
        cpu_data *row = x + (tile * TILE + i) * ld;
#pragma omp simd
        for (int64_t d = 0; d < h->HS; d++) {
            row[d] = cpu_round(factor * packed[i * h->width + d]);
        }
    }
}

// --- products of tiles ----------------------------------------------------------------

// scores (TILE, TILE) = rows (TILE, width) by keys (HS, TILE); `diagonal`: only keys <= row count,
// and blocks without any are left as they are.
static void multiply_scores(const head *h, const float *rows, const float *keys, bool diagonal, float *scores) {
    memset(scores, 0, TILE_ELEMS * sizeof *scores);
    for (int64_t i = 0; i < TILE; i += CPU_BLOCK_ROWS) {
        int64_t n_keys = diagonal ? i + CPU_BLOCK_ROWS : TILE;
        for (int64_t j = 0; j < n_keys; j += CPU_BLOCK_COLS) {
            cpu_tile_block((cpu_view){rows + i * h->width, h->width, 1}, keys + j, TILE, 0, h->HS,
                           scores + i * TILE + j, TILE);
        }
    }
}

// result (TILE, width) += weights (TILE, TILE) by x (TILE, width); on the diagonal, weights are lower triangular.
static void multiply_add(const head *h, const float *weights, const float *x, bool diagonal, float *result) {
    for (int64_t i = 0; i < TILE; i += CPU_BLOCK_ROWS) {
        int64_t n_keys = diagonal ? i + CPU_BLOCK_ROWS : TILE;
        for (int64_t d = 0; d < h->width; d += CPU_BLOCK_COLS) {
            cpu_tile_block((cpu_view){weights + i * TILE, TILE, 1}, x + d, h->width, 0, n_keys,
                           result + i * h->width + d, h->width);
        }
    }
}

// result (TILE, width) += weights^T by x.
static void multiply_transposed_add(const head *h, const float *weights, const float *x, bool diagonal, float *result) {
    for (int64_t j = 0; j < TILE; j += CPU_BLOCK_ROWS) {
        int64_t first_row = diagonal ? j : 0;
        for (int64_t d = 0; d < h->width; d += CPU_BLOCK_COLS) {
            cpu_tile_block((cpu_view){weights + j, 1, TILE}, x + d, h->width, first_row, TILE,
                           result + j * h->width + d, h->width);
        }
    }
}

// Dropout's factors of row t against the keys of a tile.
static void row_factors(const head *h, int64_t t, int64_t key_tile, float factors[TILE]) {
    uint64_t first = (uint64_t)((h->index * h->T + t) * h->T + key_tile * TILE);
    cpu_dropout_factors(&h->dropout, first, TILE, factors);
}

// How many keys of tile key_tile row t may see: all, or on the diagonal those up to itself.
static int64_t visible_keys(int64_t t, int64_t key_tile) {
    return t - key_tile * TILE + 1 < TILE ? t - key_tile * TILE + 1 : TILE;
}

// --- forward --------------------------------------------------------------------------

// Scratch of the forward pass: transposed keys and values of the whole head, and one row tile.
typedef struct {
    float *keys;    // n_tiles of (HS, TILE)
    float *values;  // n_tiles of (TILE, width)
    float *rows;    // (TILE, width): q, scaled
    float *scores;  // (TILE, TILE)
    float *result;  // (TILE, width)
    float *largest; // (TILE)
    float *sum;     // (TILE)
} forward_scratch;

static size_t forward_elems(int64_t HS, int64_t n_tiles) {
    size_t tile = TILE * (size_t)padded_width(HS);
    return (size_t)n_tiles * 2 * tile + 2 * tile + TILE_ELEMS + 2 * TILE;
}

CPU_SCRATCH(flash_attention_forward) {
    (void)n_threads;
    const sm_tensor *y = op->out_tensor[0];
    return forward_elems(y->dims[2] / op->op->attr.n_head, (y->dims[1] + TILE - 1) / TILE) * sizeof(float);
}

static forward_scratch forward_carve(const head *h, float *scratch) {
    int64_t tile = TILE * h->width;
    forward_scratch s;
    s.keys = scratch;
    s.values = s.keys + h->n_tiles * tile;
    s.rows = s.values + h->n_tiles * tile;
    s.result = s.rows + tile;
    s.scores = s.result + tile;
    s.largest = s.scores + TILE_ELEMS;
    s.sum = s.largest + TILE;
    return s;
}

static void pack_keys(const head *h, const cpu_data *qkv, const forward_scratch *s) {
    const cpu_data *k = qkv + h->qkv_offset_elems + h->ld_y;
    const cpu_data *v = k + h->ld_y;
    for (int64_t tile = 0; tile < h->n_tiles; tile++) {
        pack_rows(h, tile, k, h->ld_qkv, 1.0f, s->rows);
        transpose_rows(h, s->rows, s->keys + tile * TILE * h->width);
        pack_rows(h, tile, v, h->ld_qkv, 1.0f, s->values + tile * TILE * h->width);
    }
}

// Turns row i's scores of n visible keys into weights relative to the largest score so far;
// when that grows, what was gathered shrinks to match.
static void softmax_row(const head *h, const forward_scratch *s, int64_t i, int64_t n) {
    float *x = s->scores + i * TILE;
    for (int64_t j = n; j < TILE; j++) {
        x[j] = -INFINITY;
    }
    const float tile_largest = cpu_largest(x, TILE);
    const float largest = tile_largest > s->largest[i] ? tile_largest : s->largest[i];
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < TILE; j++) {
        x[j] = cpu_exp(x[j] - largest);
        sum += x[j];
    }
    if (largest > s->largest[i]) {
        const float shrink = cpu_exp(s->largest[i] - largest);
        float *result = s->result + i * h->width;
#pragma omp simd
        for (int64_t d = 0; d < h->width; d++) {
            result[d] *= shrink;
        }
        s->sum[i] *= shrink;
        s->largest[i] = largest;
    }
    s->sum[i] += sum;
}

static void drop_weights(const head *h, float *weights, int64_t row_tile, int64_t key_tile) {
    float factors[TILE];
    for (int64_t i = 0; i < TILE && row_tile * TILE + i < h->T; i++) {
        row_factors(h, row_tile * TILE + i, key_tile, factors);
#pragma omp simd
        for (int64_t j = 0; j < TILE; j++) {
            weights[i * TILE + j] *= factors[j];
        }
    }
}

static void forward_tile(const host_op *op, const head *h, const forward_scratch *s, int64_t row_tile) {
    const cpu_data *q = (const cpu_data *)op->in[0] + h->qkv_offset_elems;
    cpu_data *y = (cpu_data *)op->out[0] + h->y_offset_elems;
    float *lse = (float *)op->out[1] + h->index * h->T;
    pack_rows(h, row_tile, q, h->ld_qkv, h->scale, s->rows);
    memset(s->result, 0, TILE * (size_t)h->width * sizeof *s->result);
    for (int64_t i = 0; i < TILE; i++) {
        s->largest[i] = -INFINITY;
        s->sum[i] = 0;
    }
    for (int64_t key_tile = 0; key_tile <= row_tile; key_tile++) {
        bool diagonal = key_tile == row_tile;
        multiply_scores(h, s->rows, s->keys + key_tile * TILE * h->width, diagonal, s->scores);
        for (int64_t i = 0; i < TILE; i++) {
            softmax_row(h, s, i, visible_keys(row_tile * TILE + i, key_tile));
        }
        if (h->drops) {
            drop_weights(h, s->scores, row_tile, key_tile);
        }
        multiply_add(h, s->scores, s->values + key_tile * TILE * h->width, diagonal, s->result);
    }
    for (int64_t i = 0; i < TILE && row_tile * TILE + i < h->T; i++) {
        const float inverse = 1.0f / s->sum[i];
        float *row = s->result + i * h->width;
#pragma omp simd
        for (int64_t d = 0; d < h->width; d++) {
            row[d] *= inverse;
        }
        lse[row_tile * TILE + i] = s->largest[i] + logf(s->sum[i]);
    }
    unpack_rows(h, row_tile, s->result, 1.0f, y, h->ld_y);
}

// A unit of work is every n_parts-th row tile of a head: the whole head, unless there are
// fewer heads than threads.
CPU_KERNEL(flash_attention_forward) {
    const sm_tensor *y = op->out_tensor[0];
    int64_t n_heads = y->dims[0] * op->op->attr.n_head;
    int64_t n_parts = (team->n_threads + n_heads - 1) / n_heads;
    cpu_range units = cpu_my_rows(team, n_heads * n_parts);
    for (int64_t unit = units.first; unit < units.end; unit++) {
        head h = find_head(op, y, op->in[1], unit / n_parts);
        forward_scratch s = forward_carve(&h, team->scratch[team->thread]);
        if (unit % n_parts >= h.n_tiles) {
            continue;
        }
        pack_keys(&h, op->in[0], &s);
        for (int64_t row_tile = unit % n_parts; row_tile < h.n_tiles; row_tile += n_parts) {
            forward_tile(op, &h, &s, row_tile);
        }
    }
}

// --- backward -------------------------------------------------------------------------

// Scratch of the backward pass: rows of the whole head, and one key tile.
typedef struct {
    float *q;   // n_tiles of (TILE, width), scaled
    float *dy;  // n_tiles of (TILE, width)
    float *dq;  // n_tiles of (TILE, width)
    float *D;   // n_tiles of (TILE): sum over channels of dy y
    float *lse; // n_tiles of (TILE)
    float *k;   // (TILE, width)
    float *k_t; // (HS, TILE)
    float *v;   // (TILE, width)
    float *v_t; // (HS, TILE)
    float *dk;  // (TILE, width)
    float *dv;  // (TILE, width)
    float *att; // (TILE, TILE): weights
    float *ds;  // (TILE, TILE): gradient of the scores
} backward_scratch;

CPU_SCRATCH(flash_attention_backward) {
    (void)n_threads;
    const sm_tensor *y = op->in_tensor[0];
    size_t tile = TILE * (size_t)padded_width(y->dims[2] / op->op->attr.n_head);
    size_t n_tiles = (size_t)((y->dims[1] + TILE - 1) / TILE);
    return (n_tiles * (3 * tile + 2 * TILE) + 6 * tile + 2 * TILE_ELEMS) * sizeof(float);
}

static backward_scratch backward_carve(const head *h, float *scratch) {
    int64_t tile = TILE * h->width;
    backward_scratch s;
    s.q = scratch;
    s.dy = s.q + h->n_tiles * tile;
    s.dq = s.dy + h->n_tiles * tile;
    s.D = s.dq + h->n_tiles * tile;
    s.lse = s.D + h->n_tiles * TILE;
    s.k = s.lse + h->n_tiles * TILE;
    s.k_t = s.k + tile;
    s.v = s.k_t + tile;
    s.v_t = s.v + tile;
    s.dk = s.v_t + tile;
    s.dv = s.dk + tile;
    s.att = s.dv + tile;
    s.ds = s.att + TILE_ELEMS;
    return s;
}

static float dot(const cpu_data *a, const cpu_data *b, int64_t n) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        sum += cpu_widen(a[i]) * cpu_widen(b[i]);
    }
    return sum;
}

static void pack_head_rows(const host_op *op, const head *h, const backward_scratch *s) {
    const cpu_data *dy = (const cpu_data *)op->in[0] + h->y_offset_elems;
    const cpu_data *q = (const cpu_data *)op->in[1] + h->qkv_offset_elems;
    const cpu_data *y = (const cpu_data *)op->in[2] + h->y_offset_elems;
    const float *lse = (const float *)op->in[3] + h->index * h->T;
    for (int64_t tile = 0; tile < h->n_tiles; tile++) {
        pack_rows(h, tile, q, h->ld_qkv, h->scale, s->q + tile * TILE * h->width);
        pack_rows(h, tile, dy, h->ld_y, 1.0f, s->dy + tile * TILE * h->width);
    }
    memset(s->dq, 0, (size_t)(h->n_tiles * TILE * h->width) * sizeof *s->dq);
    for (int64_t t = 0; t < h->n_tiles * TILE; t++) {
        bool real = t < h->T;
        s->D[t] = real ? dot(dy + t * h->ld_y, y + t * h->ld_y, h->HS) : 0;
        s->lse[t] = real ? lse[t] : 0;
    }
}

// From scores (in att) and dy v^T (in ds): att = the dropped weights, ds = att (da - D).
static void weights_row(const head *h, const backward_scratch *s, int64_t t, int64_t key_tile) {
    float *x = s->att + t % TILE * TILE;
    float *ds = s->ds + t % TILE * TILE;
    const float lse = s->lse[t];
    const float D = s->D[t];
    for (int64_t j = visible_keys(t, key_tile); j < TILE; j++) {
        x[j] = -INFINITY;
    }
    if (!h->drops) {
#pragma omp simd
        for (int64_t j = 0; j < TILE; j++) {
            x[j] = cpu_exp(x[j] - lse);
            ds[j] = x[j] * (ds[j] - D);
        }
        return;
    }
    float factors[TILE];
    row_factors(h, t, key_tile, factors);
#pragma omp simd
    for (int64_t j = 0; j < TILE; j++) {
        float weight = cpu_exp(x[j] - lse);
        ds[j] = weight * (factors[j] * ds[j] - D);
        x[j] = weight * factors[j];
    }
}

static void backward_key_tile(const head *h, const backward_scratch *s, int64_t key_tile) {
    const size_t tile_bytes = TILE * (size_t)h->width * sizeof(float);
    transpose_rows(h, s->k, s->k_t);
    transpose_rows(h, s->v, s->v_t);
    memset(s->dk, 0, tile_bytes);
    memset(s->dv, 0, tile_bytes);
    for (int64_t row_tile = key_tile; row_tile < h->n_tiles; row_tile++) {
        bool diagonal = row_tile == key_tile;
        const float *q = s->q + row_tile * TILE * h->width;
        const float *dy = s->dy + row_tile * TILE * h->width;
        multiply_scores(h, q, s->k_t, diagonal, s->att);
        multiply_scores(h, dy, s->v_t, diagonal, s->ds);
        for (int64_t i = 0; i < TILE; i++) {
            weights_row(h, s, row_tile * TILE + i, key_tile);
        }
        multiply_transposed_add(h, s->att, dy, diagonal, s->dv);
        multiply_transposed_add(h, s->ds, q, diagonal, s->dk); // q carries the scale
        multiply_add(h, s->ds, s->k, diagonal, s->dq + row_tile * TILE * h->width);
    }
}

CPU_KERNEL(flash_attention_backward) {
    const sm_tensor *dy = op->in_tensor[0];
    cpu_range mine = cpu_my_rows(team, dy->dims[0] * op->op->attr.n_head);
    for (int64_t index = mine.first; index < mine.end; index++) {
        head h = find_head(op, dy, op->in[4], index);
        backward_scratch s = backward_carve(&h, team->scratch[team->thread]);
        const cpu_data *k = (const cpu_data *)op->in[1] + h.qkv_offset_elems + h.ld_y;
        cpu_data *dq = (cpu_data *)op->out[0] + h.qkv_offset_elems;
        pack_head_rows(op, &h, &s);
        for (int64_t tile = 0; tile < h.n_tiles; tile++) {
            pack_rows(&h, tile, k, h.ld_qkv, 1.0f, s.k);
            pack_rows(&h, tile, k + h.ld_y, h.ld_qkv, 1.0f, s.v);
            backward_key_tile(&h, &s, tile);
            unpack_rows(&h, tile, s.dk, 1.0f, dq + h.ld_y, h.ld_qkv);
            unpack_rows(&h, tile, s.dv, 1.0f, dq + 2 * h.ld_y, h.ld_qkv);
        }
        for (int64_t tile = 0; tile < h.n_tiles; tile++) {
            unpack_rows(&h, tile, s.dq + tile * TILE * h.width, h.scale, dq, h.ld_qkv);
        }
    }
}
