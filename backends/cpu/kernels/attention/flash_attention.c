// flash_attention.c: attention in tiles that stay in cache; T x T is never stored
// (Dao et al. 2022, "FlashAttention"). Memory grows with T, not with its square.
//
// Rows (of q: who asks) and keys (who is asked) are cut into tiles of TILE. Both passes walk the rows from the top, and
// for a tile of rows its keys from left to right. A tile of keys and values is packed together with the rows next to
// it, and stays in scratch for all rows below.
//
//     keys  0   1   2   3       D: on the diagonal; #: below it
//   rows 0  D
//        1  #   D               forward:  s = q k^T          largest' = max(largest, s)     p = e^(s - largest')
//        2  #   #   D             shrink = e^(largest - largest')                          what was gathered shrinks:
//        3  #   #   #   D         sum = sum shrink + p       y = y shrink + p v
//                                 after the last key: y / sum, and lse = largest + log(sum)
//
//                               backward: s = q k^T again    p = e^(s - lse)                da = dy v^T
//                                 ds = p (da - D), where D = sum over channels of dy y
//                                 dq += ds k, over the keys of a tile of rows; dv += p^T dy and dk += ds^T q, over all
//                                 rows of a head
//
// Scores lie transposed, (keys, rows): a vector holds one key's scores for CPU_VECTOR rows. So the softmax has neither
// sums nor maxima across a vector: a row's statistics are a lane. s^T = k q^T and da^T = v dy^T want q and dy
// transposed, too; the other products read s^T either as it lies or by way of a transposed view.
//
// If rows hold documents, a tile of rows starts with the first tile of keys that its first row sees, and keys before a
// row's document are masked.
//
// The source of the next tile is prefetched while this one multiplies. Padded keys are masked like future ones, padded
// rows dropped. On the diagonal, vectors and keys wholly above it are skipped.
#include "backends/cpu/kernels/attention/head.h"

// Least number of blocks of a product of tiles, below the diagonal. Lines are asked for in the first half of a
// tile's products, and have come by their end.
enum { PRODUCT_BLOCKS = TILE / CPU_BLOCK_ROWS * ((TILE - 1) / (CPU_BLOCK_VECTORS * CPU_VECTOR) + 1) };

// The softmax is one of powers of 2: q carries log2(e) / sqrt(HS), and lse is natural only outside this file.
static const float LOG2_E = 1.44269504f;
static const float LN_2 = 0.693147182f;

// --- products of tiles ----------------------------------------------------------------

// scores^T (TILE, TILE) = keys (TILE, width) by rows (width, TILE). `diagonal`: vectors of rows that see no key of a
// block are left as they are.
static void multiply_scores(const head *h, const float *keys, const float *rows, bool diagonal, float *scores,
                            cpu_fetching *f) {
    for (int64_t j = 0; j < TILE; j += CPU_BLOCK_ROWS) {
        const int64_t first = diagonal ? j / CPU_VECTOR * CPU_VECTOR : 0;
        cpu_tile_rows((TILE - first) / CPU_VECTOR, h->HS, (cpu_view){keys + j * h->width, h->width, 1}, rows + first,
                      TILE, false, scores + j * TILE + first, TILE, f);
    }
}

// result (TILE, width), of rows, = weights by x (TILE, width), of keys; += with `add`. weights_t (TILE, TILE)
static void multiply_to_rows(const head *h, const float *weights_t, const float *x, bool diagonal, bool add,
                             float *result, cpu_fetching *f) {
    for (int64_t i = 0; i < TILE; i += CPU_BLOCK_ROWS) {
        const int64_t n_keys = diagonal ? i + CPU_BLOCK_ROWS : TILE;
        cpu_tile_rows(h->width / CPU_VECTOR, n_keys, (cpu_view){weights_t + i, 1, TILE}, x, h->width, add,
                      result + i * h->width, h->width, f);
    }
}

// result (TILE, width), of keys, = weights^T by x (TILE, width), of rows; += with `add`.
static void multiply_to_keys(const head *h, const float *weights_t, const float *x, bool diagonal, bool add,
                             float *result, cpu_fetching *f) {
    for (int64_t j = 0; j < TILE; j += CPU_BLOCK_ROWS) {
        const int64_t first = diagonal ? j : 0;
        cpu_tile_rows(h->width / CPU_VECTOR, TILE - first, (cpu_view){weights_t + j * TILE + first, TILE, 1},
                      x + first * h->width, h->width, add, result + j * h->width, h->width, f);
    }
}

// Dropout's factors of a tile of rows and keys, as the scores lie; `room` (TILE, TILE).
static void find_factors(const head *h, int64_t row_tile, int64_t key_tile, float *room, float *factors) {
    for (int64_t i = 0; i < TILE; i++) {
        const int64_t t = row_tile * TILE + i;
        cpu_dropout_factors(&h->dropout, (uint64_t)((h->index * h->T + t) * h->T + key_tile * TILE), TILE,
                            room + i * TILE);
    }
    for (int64_t j = 0; j < TILE; j += CPU_VECTOR) {
        for (int64_t i = 0; i < TILE; i += CPU_VECTOR) {
            cpu_transpose(room + i * TILE + j, TILE, factors + j * TILE + i, TILE);
        }
    }
}

// Masks the diagonal: CPU_VECTOR rows from row i on see no key that comes after them.
static void hide_future(float *scores, int64_t i) {
    for (int j = 1; j < CPU_VECTOR; j++) {
        float *x = scores + (i + j) * TILE + i;
#pragma omp simd
        for (int r = 0; r < CPU_VECTOR; r++) {
            x[r] = r < j ? -INFINITY : x[r];
        }
    }
}

// Hides scores of keys before a row's document, in a tile of rows in which some start a document after the first key.
static void hide_past(const head *h, int64_t row_tile, int64_t key_tile, float *scores) {
    const int64_t last = cpu_min64((row_tile + 1) * TILE, h->T) - 1;
    if (h->starts == NULL || h->starts[last] <= key_tile * TILE) {
        return;
    }
    for (int64_t i = 0; i < TILE; i += CPU_VECTOR) {
        int32_t n_hidden[CPU_VECTOR];
        int32_t most = 0;
        for (int r = 0; r < CPU_VECTOR; r++) {
            const int64_t t = cpu_min64(row_tile * TILE + i + r, last);
            n_hidden[r] = (int32_t)cpu_min64(h->starts[t] - key_tile * TILE, TILE);
            most = n_hidden[r] > most ? n_hidden[r] : most;
        }
        for (int32_t j = 0; j < most; j++) {
            float *x = scores + j * TILE + i;
#pragma omp simd
            for (int r = 0; r < CPU_VECTOR; r++) {
                x[r] = j < n_hidden[r] ? -INFINITY : x[r];
            }
        }
    }
}

// --- forward --------------------------------------------------------------------------

static int64_t elems_of_tile(const head *h) { return TILE * h->width; }
static int64_t elems_of_head(const head *h) { return h->n_tiles * elems_of_tile(h); }

// Scratch of the forward pass: keys and values of the whole head, and one tile of rows.
#define FORWARD_AREAS(AREA)                                                                \
    AREA(float, keys, elems_of_head(h))   /* n_tiles of (TILE, width) */                   \
    AREA(float, values, elems_of_head(h)) /* likewise */                                   \
    AREA(float, rows, elems_of_tile(h))   /* (TILE, width): q, times log2(e) / sqrt(HS) */ \
    AREA(float, rows_t, elems_of_tile(h)) /* (width, TILE): the same transposed */         \
    AREA(float, result, elems_of_tile(h)) /* (TILE, width) */                              \
    AREA(float, scores, TILE_ELEMS)       /* (TILE, TILE) */                               \
    AREA(float, factors, 2 * TILE_ELEMS)  /* 2 of (TILE, TILE) */                          \
    AREA(float, largest, TILE)                                                             \
    AREA(float, sum, TILE)                                                                 \
    AREA(float, shrink, TILE)
DEFINE_SCRATCH(forward, FORWARD_AREAS, const head *h)

CPU_SCRATCH(flash_attention_forward) {
    const head h = find_head(op, op->out_tensor[SM_OUT(flash_attention_forward, y)], NULL, NULL, 0);
    return forward_scratch_bytes(&h);
}

// Turns CPU_VECTOR rows' scores of n_keys keys into weights relative to the largest score so far; a row that has seen
// no key yet has none, and weights of 0.
static void softmax_rows(const forward_scratch *s, int64_t i, int64_t n_keys) {
    float largest[CPU_VECTOR];
    float base[CPU_VECTOR];
    memcpy(largest, s->largest + i, sizeof largest);
    for (int64_t j = 0; j < n_keys; j++) {
        const float *x = s->scores + j * TILE + i;
#pragma omp simd
        for (int r = 0; r < CPU_VECTOR; r++) {
            largest[r] = x[r] > largest[r] ? x[r] : largest[r];
        }
    }
#pragma omp simd
    for (int r = 0; r < CPU_VECTOR; r++) {
        base[r] = largest[r] > -INFINITY ? largest[r] : 0;
        s->shrink[i + r] = cpu_exp2(s->largest[i + r] - base[r]);
    }
    cpu_vector *total = (cpu_vector *)(s->sum + i);
    cpu_vector sum = *total * *(cpu_vector *)(s->shrink + i);
    for (int64_t j = 0; j < n_keys; j++) {
        float *x = s->scores + j * TILE + i;
#pragma omp simd
        for (int r = 0; r < CPU_VECTOR; r++) {
            x[r] = cpu_exp2(x[r] - base[r]);
        }
        sum += *(const cpu_vector *)x;
    }
    *total = sum;
    memcpy(s->largest + i, largest, sizeof largest);
}

// If a row's maximum score grew, rescales its running sums to the new maximum.
static void shrink_results(const head *h, const forward_scratch *s) {
    for (int64_t i = 0; i < TILE; i++) {
        const float shrink = s->shrink[i];
        float *result = s->result + i * h->width;
        if (shrink != 1.0f) {
#pragma omp simd
            for (int64_t d = 0; d < h->width; d++) {
                result[d] *= shrink;
            }
        }
    }
}

// After the last key: results over their sums, and lse (T) of the head.
static void finish_rows(const head *h, const forward_scratch *s, int64_t row_tile, float *lse) {
    for (int64_t i = 0; i < TILE && row_tile * TILE + i < h->T; i++) {
        const float inverse = 1.0f / s->sum[i];
        float *row = s->result + i * h->width;
#pragma omp simd
        for (int64_t d = 0; d < h->width; d++) {
            row[d] *= inverse;
        }
        lse[row_tile * TILE + i] = LN_2 * s->largest[i] + logf(s->sum[i]);
    }
}

static void forward_tile(const host_op *op, const head *h, const forward_scratch *s, int64_t row_tile,
                         cpu_fetching *f) {
    const cpu_data *q = (const cpu_data *)op->in[SM_IN(flash_attention_forward, qkv)] + h->q_offset_elems;
    cpu_data *y = (cpu_data *)op->out[SM_OUT(flash_attention_forward, y)] + h->y_offset_elems;
    pack_rows(h, row_tile, q, h->ld_qkv, h->scale * LOG2_E, s->rows);
    transpose_rows(h, s->rows, s->rows_t);
    for (int64_t i = 0; i < TILE; i++) {
        s->largest[i] = -INFINITY;
        s->sum[i] = 0;
    }
    const int64_t first = first_key_tile(h, row_tile);
    for (int64_t key_tile = first; key_tile <= row_tile; key_tile++) {
        const bool diagonal = key_tile == row_tile;
        multiply_scores(h, s->keys + key_tile * TILE * h->width, s->rows_t, diagonal, s->scores, f);
        hide_past(h, row_tile, key_tile, s->scores);
        for (int64_t i = 0; i < TILE; i += CPU_VECTOR) {
            if (diagonal) {
                hide_future(s->scores, i);
            }
            softmax_rows(s, i, diagonal ? i + CPU_VECTOR : TILE);
        }
        if (h->drops) {
            find_factors(h, row_tile, key_tile, s->factors + TILE_ELEMS, s->factors);
#pragma omp simd
            for (int64_t i = 0; i < TILE_ELEMS; i++) {
                s->scores[i] *= s->factors[i];
            }
        }
        if (key_tile > first) {
            shrink_results(h, s);
        }
        multiply_to_rows(h, s->scores, s->values + key_tile * TILE * h->width, diagonal, key_tile > first, s->result,
                         f);
    }
    finish_rows(h, s, row_tile, (float *)op->out[SM_OUT(flash_attention_forward, lse)] + h->index * h->T);
    unpack_rows(h, row_tile, s->result, 1.0f, y, h->ld_y);
}

// Prefetches y of this tile of rows, and the source of tile `tile` of `next` if there is one.
static cpu_fetching forward_fetching(const host_op *op, const head *h, int64_t row_tile, const head *next,
                                     int64_t tile) {
    cpu_fetching f = {.n_areas = 0};
    if (next != NULL) {
        const cpu_data *qkv = op->in[SM_IN(flash_attention_forward, qkv)];
        fetch_tile(&f, next, tile, qkv + next->v_offset_elems, next->ld_qkv);
        fetch_tile(&f, next, tile, qkv + next->k_offset_elems, next->ld_qkv);
        fetch_tile(&f, next, tile, qkv + next->q_offset_elems, next->ld_qkv);
    }
    fetch_tile(&f, h, row_tile, (const cpu_data *)op->out[SM_OUT(flash_attention_forward, y)] + h->y_offset_elems,
               h->ld_y);
    pace_fetching(&f, h, (row_tile + 1 - first_key_tile(h, row_tile)) * PRODUCT_BLOCKS);
    return f;
}

// A unit of work is every n_parts-th row tile of a head: the whole head, if there are enough of them.
CPU_KERNEL(flash_attention_forward) {
    const sm_tensor *y = op->out_tensor[SM_OUT(flash_attention_forward, y)];
    const int64_t n_heads = y->dims[0] * op->op->attr.n_head;
    const int64_t n_parts = cpu_head_parts(team, n_heads, cpu_divide_up(y->dims[1], TILE));
    const int64_t n_units = n_heads * n_parts;
    int turn = 0;
    int64_t unit;
    while ((unit = cpu_next_unit(team, n_units, &turn)) >= 0) {
        const head h = FIND_HEAD(flash_attention_forward, op, y, unit / n_parts);
        const head next = FIND_HEAD(flash_attention_forward, op, y, (unit + 1) / n_parts);
        const forward_scratch s = forward_carve(team->scratch[team->thread], &h);
        const cpu_data *qkv = op->in[SM_IN(flash_attention_forward, qkv)];
        int64_t n_packed = 0;
        for (int64_t row_tile = unit % n_parts; row_tile < h.n_tiles; row_tile += n_parts) {
            for (; n_packed <= row_tile; n_packed++) {
                pack_rows(&h, n_packed, qkv + h.k_offset_elems, h.ld_qkv, 1.0f, s.keys + n_packed * TILE * h.width);
                pack_rows(&h, n_packed, qkv + h.v_offset_elems, h.ld_qkv, 1.0f, s.values + n_packed * TILE * h.width);
            }
            const bool last = row_tile + n_parts >= h.n_tiles;
            cpu_fetching f =
                last ? forward_fetching(op, &h, row_tile, unit + 1 < n_units ? &next : NULL, (unit + 1) % n_parts)
                     : forward_fetching(op, &h, row_tile, &h, row_tile + n_parts);
            forward_tile(op, &h, &s, row_tile, &f);
        }
    }
}

// --- backward -------------------------------------------------------------------------

// Scratch of the backward pass: keys and their gradients of the whole head, and one tile of rows.
#define BACKWARD_AREAS(AREA)                                                             \
    AREA(float, k, elems_of_head(h)) /* n_tiles of (TILE, width), like the next three */ \
    AREA(float, v, elems_of_head(h))                                                     \
    AREA(float, dk, elems_of_head(h))                                                    \
    AREA(float, dv, elems_of_head(h))                                                    \
    AREA(float, q, elems_of_tile(h))     /* (TILE, width), times log2(e) / sqrt(HS) */   \
    AREA(float, dy, elems_of_tile(h))    /* (TILE, width) */                             \
    AREA(float, q_t, elems_of_tile(h))   /* (width, TILE) */                             \
    AREA(float, dy_t, elems_of_tile(h))  /* (width, TILE) */                             \
    AREA(float, dq, elems_of_tile(h))    /* (TILE, width) */                             \
    AREA(float, weights, TILE_ELEMS)     /* (TILE, TILE) */                              \
    AREA(float, ds, TILE_ELEMS)          /* (TILE, TILE): gradient of the scores */      \
    AREA(float, factors, 2 * TILE_ELEMS) /* 2 of (TILE, TILE) */                         \
    AREA(float, D, TILE)                 /* sum over channels of dy y */                 \
    AREA(float, lse, TILE)
DEFINE_SCRATCH(backward, BACKWARD_AREAS, const head *h)

CPU_SCRATCH(flash_attention_backward) {
    const head h = find_head(op, op->in_tensor[SM_IN(flash_attention_backward, dy)], NULL, NULL, 0);
    return backward_scratch_bytes(&h);
}

static float dot(const cpu_data *a, const cpu_data *b, int64_t n) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        sum += cpu_widen(a[i]) * cpu_widen(b[i]);
    }
    return sum;
}

static void pack_backward(const host_op *op, const head *h, const backward_scratch *s, int64_t tile) {
    const cpu_data *dy = (const cpu_data *)op->in[SM_IN(flash_attention_backward, dy)] + h->y_offset_elems;
    const cpu_data *qkv = op->in[SM_IN(flash_attention_backward, qkv)];
    const cpu_data *y = (const cpu_data *)op->in[SM_IN(flash_attention_backward, y)] + h->y_offset_elems;
    const float *lse = (const float *)op->in[SM_IN(flash_attention_backward, lse)] + h->index * h->T;
    pack_rows(h, tile, qkv + h->q_offset_elems, h->ld_qkv, h->scale * LOG2_E, s->q);
    pack_rows(h, tile, qkv + h->k_offset_elems, h->ld_qkv, 1.0f, s->k + tile * TILE * h->width);
    pack_rows(h, tile, qkv + h->v_offset_elems, h->ld_qkv, 1.0f, s->v + tile * TILE * h->width);
    pack_rows(h, tile, dy, h->ld_y, 1.0f, s->dy);
    transpose_rows(h, s->q, s->q_t);
    transpose_rows(h, s->dy, s->dy_t);
    for (int64_t i = 0; i < TILE; i++) {
        const int64_t t = tile * TILE + i;
        s->D[i] = t < h->T ? dot(dy + t * h->ld_y, y + t * h->ld_y, h->HS) : 0;
        s->lse[i] = t < h->T ? LOG2_E * lse[t] : 0;
    }
}

// Turns scores (in weights) and da = dy v^T (in ds) of CPU_VECTOR rows into dropped weights and ds = weight (da - D).
static void score_gradients(const head *h, const backward_scratch *s, int64_t i, int64_t n_keys) {
    float lse[CPU_VECTOR];
    float D[CPU_VECTOR];
    memcpy(lse, s->lse + i, sizeof lse);
    memcpy(D, s->D + i, sizeof D);
    for (int64_t j = 0; j < n_keys; j++) {
        float *restrict weights = s->weights + j * TILE + i;
        float *restrict ds = s->ds + j * TILE + i;
        const float *restrict factors = s->factors + j * TILE + i;
        if (h->drops) {
#pragma omp simd
            for (int64_t r = 0; r < CPU_VECTOR; r++) {
                const float weight = cpu_exp2(weights[r] - lse[r]);
                ds[r] = weight * (factors[r] * ds[r] - D[r]);
                weights[r] = weight * factors[r];
            }
        } else {
#pragma omp simd
            for (int64_t r = 0; r < CPU_VECTOR; r++) {
                weights[r] = cpu_exp2(weights[r] - lse[r]);
                ds[r] = weights[r] * (ds[r] - D[r]);
            }
        }
    }
}

// first: of the heads that share keys and values, whose gradients the others add to.
static void backward_tile(const head *h, const backward_scratch *s, int64_t row_tile, bool first, cpu_fetching *f) {
    const int64_t first_tile = first_key_tile(h, row_tile);
    for (int64_t key_tile = first_tile; key_tile <= row_tile; key_tile++) {
        const bool diagonal = row_tile == key_tile;
        const int64_t keys = key_tile * TILE * h->width;
        multiply_scores(h, s->k + keys, s->q_t, diagonal, s->weights, f);
        multiply_scores(h, s->v + keys, s->dy_t, diagonal, s->ds, f);
        hide_past(h, row_tile, key_tile, s->weights);
        if (h->drops) {
            find_factors(h, row_tile, key_tile, s->factors + TILE_ELEMS, s->factors);
        }
        for (int64_t i = 0; i < TILE; i += CPU_VECTOR) {
            if (diagonal) {
                hide_future(s->weights, i);
            }
            score_gradients(h, s, i, diagonal ? i + CPU_VECTOR : TILE);
        }
        const bool add = !diagonal || !first;
        multiply_to_keys(h, s->weights, s->dy, diagonal, add, s->dv + keys, f);
        multiply_to_keys(h, s->ds, s->q, diagonal, add, s->dk + keys, f); // q carries log2(e) / sqrt(HS)
        multiply_to_rows(h, s->ds, s->k + keys, diagonal, key_tile > first_tile, s->dq, f);
    }
}

// Prefetches the memory that the gradients of this tile of rows overwrite (after the last tile, those of all keys), and
// the source of tile `tile` of `next` if there is one.
static cpu_fetching backward_fetching(const host_op *op, const head *h, int64_t row_tile, const head *next,
                                      int64_t tile) {
    cpu_fetching f = {.n_areas = 0};
    if (next != NULL) {
        const cpu_data *qkv = op->in[SM_IN(flash_attention_backward, qkv)];
        fetch_tile(&f, next, tile, (const cpu_data *)op->in[SM_IN(flash_attention_backward, y)] + next->y_offset_elems,
                   next->ld_y);
        fetch_tile(&f, next, tile, (const cpu_data *)op->in[SM_IN(flash_attention_backward, dy)] + next->y_offset_elems,
                   next->ld_y);
        fetch_tile(&f, next, tile, qkv + next->v_offset_elems, next->ld_qkv);
        fetch_tile(&f, next, tile, qkv + next->k_offset_elems, next->ld_qkv);
        fetch_tile(&f, next, tile, qkv + next->q_offset_elems, next->ld_qkv);
    }
    const cpu_data *dqkv = op->out[SM_OUT(flash_attention_backward, dqkv)];
    fetch_tile(&f, h, row_tile, dqkv + h->q_offset_elems, h->ld_qkv);
    if (row_tile + 1 == h->n_tiles) {
        fetch_rows(&f, dqkv + h->k_offset_elems, h->ld_qkv, h->T);
        fetch_rows(&f, dqkv + h->v_offset_elems, h->ld_qkv, h->T);
    }
    pace_fetching(&f, h, 5 * (row_tile + 1 - first_key_tile(h, row_tile)) * PRODUCT_BLOCKS / 2);
    return f;
}

static void write_key_gradients(const host_op *op, const head *h, const backward_scratch *s) {
    cpu_data *dqkv = op->out[SM_OUT(flash_attention_backward, dqkv)];
    for (int64_t tile = 0; tile < h->n_tiles; tile++) {
        unpack_rows(h, tile, s->dk + tile * TILE * h->width, LN_2, dqkv + h->k_offset_elems, h->ld_qkv);
        unpack_rows(h, tile, s->dv + tile * TILE * h->width, 1.0f, dqkv + h->v_offset_elems, h->ld_qkv);
    }
}

// A unit of work is a head of keys and values, with all heads of queries that share it.
CPU_KERNEL(flash_attention_backward) {
    const sm_tensor *dy = op->in_tensor[SM_IN(flash_attention_backward, dy)];
    const int64_t group = op->op->attr.n_head / op->op->attr.n_kv_head;
    const int64_t n_units = dy->dims[0] * op->op->attr.n_kv_head;
    int turn = 0;
    int64_t unit;
    while ((unit = cpu_next_unit(team, n_units, &turn)) >= 0) {
        for (int64_t index = unit * group; index < (unit + 1) * group; index++) {
            const head h = FIND_HEAD(flash_attention_backward, op, dy, index);
            const head next = FIND_HEAD(flash_attention_backward, op, dy, index + 1);
            const backward_scratch s = backward_carve(team->scratch[team->thread], &h);
            cpu_data *dq = (cpu_data *)op->out[SM_OUT(flash_attention_backward, dqkv)] + h.q_offset_elems;
            for (int64_t tile = 0; tile < h.n_tiles; tile++) {
                const bool last = tile + 1 == h.n_tiles;
                cpu_fetching f = last ? backward_fetching(op, &h, tile, index + 1 < n_units * group ? &next : NULL, 0)
                                      : backward_fetching(op, &h, tile, &h, tile + 1);
                pack_backward(op, &h, &s, tile);
                backward_tile(&h, &s, tile, index % group == 0, &f);
                unpack_rows(&h, tile, s.dq, h.scale, dq, h.ld_qkv);
            }
            if (index % group == group - 1) {
                write_key_gradients(op, &h, &s);
            }
        }
    }
}
