// cpu_kernel_flash_attention_amx.c: flash attention of bf16 data, its products in AMX's tile registers, its softmax in
// vectors of floats.
//
// Rows (of q: who asks) and keys (who is asked) are cut into blocks of 32. What is multiplied is bf16: q, k, v and dy
// as they are, weights p and the gradients of scores ds rounded once; sums are floats. log2(e) / sqrt(HS) multiplies
// scores after their product, so that q keeps its digits.
//
// Forward, for each block of rows, by CHUNK blocks of keys at a time from left to right:
//
//     s = q k^T                            a product a block; rows are rows: their weights are a's panel of the next
//     largest' = max(largest, s)           over the chunk, so that most rows need no second
//     p = 2^(s - largest')                 written over s
//     y = y 2^(largest - largest') + p v   summed over the chunk in registers
//
// Backward, for each block of keys, over the blocks of rows below it:
//
//     s^T = k q^T        p^T = 2^(s^T - lse)        keys are rows: p^T and ds^T are panels of
//     da^T = v dy^T      ds^T = p^T (da^T - D)      dv = p^T dy and dk = ds^T q, each summed over all rows in registers
//     dq^T += k^T ds^T   ds^T once more, in pairs of keys; dq^T is turned at the end
//
// Masked keys have no weight, padded rows and channels are zeros, and of the diagonal a whole block is multiplied.
#include "cpu_block_amx.h"
#include "cpu_finish_bf16.h"
#include "cpu_head.h"

enum {
    CHUNK = 8,       // blocks of keys: 32 KiB of scores
    KEPT_BLOCKS = 4, // blocks of keys for which dropout is decided at a time: as many numbers as Philox makes at once
};

static const float LOG2_E = 1.44269504f;
static const float LN_2 = 0.693147182f;

// How a head is cut.
typedef struct {
    int64_t blocks;   // of rows, and of keys
    int64_t steps;    // of HS, in a panel of that depth: CPU_AMX_K each
    int64_t channels; // blocks of HS
    bool streams;     // the result is stored past the caches
} division;

static division divide(int64_t T, int64_t HS) {
    return (division){cpu_divide_up(T, CPU_BLOCK), cpu_divide_up(HS, CPU_AMX_K), cpu_divide_up(HS, CPU_BLOCK), false};
}

// Whether who reads a result of n_elems would not find it in the second-level caches.
static bool leaves_caches(int64_t n_elems, int n_threads) {
    return n_elems * (int64_t)sizeof(cpu_data) > n_threads * (int64_t)cpu_topology_level2_bytes() / 2;
}

// The first block of keys that any row of a block sees.
static int64_t first_block(const head *h, int64_t row_block) {
    return h->starts == NULL ? 0 : h->starts[row_block * CPU_BLOCK] / CPU_BLOCK;
}

static int64_t rows_of(const head *h, int64_t block) { return cpu_min64(CPU_BLOCK, h->T - block * CPU_BLOCK); }

// --- packing --------------------------------------------------------------------------

// A block's rows, all channels deep: of a, or of b.
static void pack_deep(const head *h, const cpu_data *x, int64_t ld, int64_t block, bool is_b, cpu_packed *to) {
    const cpu_packing p = {
        .from = x + block * CPU_BLOCK * ld, .ld = ld, .is_b = is_b, .n = rows_of(h, block), .depth = h->HS};
    cpu_pack_panel(p, cpu_divide_up(h->HS, CPU_AMX_K), to);
}

// A block's rows as a step of panels that are rows deep, one for each block of channels, `apart` from one another.
static void pack_across(const head *h, const cpu_data *x, int64_t ld, int64_t block, bool is_b, int64_t apart,
                        cpu_packed *to) {
    for (int64_t c = 0; c * CPU_BLOCK < h->HS; c++) {
        const cpu_packing p = {.from = x + block * CPU_BLOCK * ld + c * CPU_BLOCK,
                               .ld = ld,
                               .across = true,
                               .is_b = is_b,
                               .n = cpu_min64(CPU_BLOCK, h->HS - c * CPU_BLOCK),
                               .depth = rows_of(h, block)};
        cpu_pack_panel(p, 1, to + c * apart);
    }
}

// Stores n_rows of a block of channels, times factor.
static void store_block(const head *h, division d, const float *block, int64_t channel_block, int64_t n_rows,
                        float factor, cpu_data *to, int64_t ld) {
    const int64_t first = channel_block * CPU_BLOCK;
    const int64_t n = cpu_min64(CPU_BLOCK, h->HS - first);
    for (int64_t i = 0; i < n_rows; i++) {
        float row[CPU_BLOCK];
#pragma omp simd
        for (int j = 0; j < CPU_BLOCK; j++) {
            row[j] = factor * block[i * CPU_BLOCK + j];
        }
        cpu_store_rounded(row, n, d.streams, to + i * ld + first);
    }
}

// Which of KEPT_BLOCKS blocks of keys from `key_block` on dropout keeps for row t: a bit a key, kept[i * ld] for block
// i.
static void decide_kept(const head *h, int64_t t, int64_t key_block, uint32_t *kept, int64_t ld) {
    float factors[KEPT_BLOCKS * CPU_BLOCK];
    cpu_dropout_factors(&h->dropout, (uint64_t)((h->index * h->T + t) * h->T + key_block * CPU_BLOCK),
                        KEPT_BLOCKS * CPU_BLOCK, factors);
    for (int64_t i = 0; i < KEPT_BLOCKS; i++) {
        const __m512 low = _mm512_loadu_ps(factors + i * CPU_BLOCK);
        const __m512 high = _mm512_loadu_ps(factors + i * CPU_BLOCK + CPU_VECTOR);
        kept[i * ld] = (uint32_t)_mm512_test_epi32_mask((__m512i)low, (__m512i)low) |
                       (uint32_t)_mm512_test_epi32_mask((__m512i)high, (__m512i)high) << CPU_VECTOR;
    }
}

// --- forward --------------------------------------------------------------------------

// Scratch of the forward pass: keys and values of the whole head, and one block of rows.
typedef struct {
    cpu_packed *keys;   // blocks of a panel of b, HS deep
    cpu_packed *values; // for each block of channels a panel of b, all keys deep
    cpu_packed *rows;   // a panel of a, HS deep
    float *scores;      // CHUNK blocks (rows, keys); then in the place of each a step of weights
    float *result;      // blocks of channels (rows, channels)
    float *largest;     // (CPU_BLOCK): of the scores so far, times log2(e) / sqrt(HS)
    float *sum;         // (CPU_BLOCK): of the weights so far
} forward_scratch;

static forward_scratch forward_carve(division d, float *scratch) {
    const int64_t head_words = d.blocks * d.steps * CPU_BLOCK_STEP;
    forward_scratch s;
    s.keys = (cpu_packed *)scratch;
    s.values = s.keys + head_words;
    s.rows = s.values + head_words;
    s.scores = (float *)(s.rows + d.steps * CPU_BLOCK_STEP);
    s.result = s.scores + CHUNK * CPU_BLOCK_SUMS;
    s.largest = s.result + d.channels * CPU_BLOCK_SUMS;
    s.sum = s.largest + CPU_BLOCK;
    return s;
}

size_t ISA(cpu_flash_attention_forward_scratch)(const host_op *op, int n_threads) {
    (void)n_threads;
    const sm_tensor *y = op->out_tensor[SM_OUT(flash_attention_forward, y)];
    const division d = divide(y->dims[1], y->dims[2] / op->op->attr.n_head);
    const int64_t packed = (2 * d.blocks + 1) * d.steps * CPU_BLOCK_STEP;
    const int64_t floats = (CHUNK + d.channels) * CPU_BLOCK_SUMS + 2 * CPU_BLOCK;
    return (size_t)packed * sizeof(cpu_packed) + (size_t)floats * sizeof(float);
}

// Bits first .. end - 1 of 32, where these are within 0 .. 32.
static uint32_t bits(int64_t first, int64_t end) {
    const uint32_t below_first = first <= 0 ? 0 : first >= CPU_BLOCK ? UINT32_MAX : (1u << first) - 1;
    const uint32_t below_end = end <= 0 ? 0 : end >= CPU_BLOCK ? UINT32_MAX : (1u << end) - 1;
    return below_end & ~below_first;
}

// What a row sees of a chunk, and keeps of it: a bit a key.
typedef struct {
    int64_t n_blocks;
    uint32_t seen[CHUNK];
    uint32_t kept[CHUNK];
} row_keys;

static void find_keys(const head *h, int64_t t, int64_t key_block, row_keys *keys) {
    const int64_t first = h->starts == NULL ? 0 : h->starts[t];
    for (int64_t i = 0; i < keys->n_blocks; i++) {
        const int64_t key = (key_block + i) * CPU_BLOCK;
        keys->seen[i] = bits(first - key, t + 1 - key);
    }
    for (int64_t i = 0; h->drops && i < keys->n_blocks; i += KEPT_BLOCKS) {
        decide_kept(h, t, key_block + i, keys->kept + i, 1);
    }
}

static float largest_score(const row_keys *keys, const float *scores) {
    __m512 low = _mm512_set1_ps(-INFINITY);
    __m512 high = low;
    for (int64_t i = 0; i < keys->n_blocks; i++) {
        const float *x = scores + i * CPU_BLOCK_SUMS;
        const uint32_t seen = keys->seen[i];
        low = _mm512_mask_max_ps(low, (__mmask16)seen, _mm512_loadu_ps(x), low);
        high = _mm512_mask_max_ps(high, (__mmask16)(seen >> CPU_VECTOR), _mm512_loadu_ps(x + CPU_VECTOR), high);
    }
    return _mm512_reduce_max_ps(_mm512_max_ps(low, high));
}

// Of one row's scores, times scale, its weights relative to 2^base, which take their place; returns their sum, before
// dropout.
static inline float weigh(const head *h, const row_keys *keys, float scale, float base, float *scores,
                          cpu_data *weights) {
    const __m512 factor = _mm512_set1_ps(h->dropout.scale);
    __m512 sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < keys->n_blocks; i++) {
        const float *x = scores + i * CPU_BLOCK_SUMS;
        __m512 p[2];
        for (int half = 0; half < 2; half++) {
            const __mmask16 seen = (__mmask16)(keys->seen[i] >> half * CPU_VECTOR);
            const __m512 power =
                _mm512_fmsub_ps(_mm512_loadu_ps(x + half * CPU_VECTOR), _mm512_set1_ps(scale), _mm512_set1_ps(base));
            p[half] = _mm512_maskz_mov_ps(seen, cpu_exp2_amx(power));
            sum = _mm512_add_ps(sum, p[half]);
            if (h->drops) {
                p[half] = _mm512_maskz_mul_ps((__mmask16)(keys->kept[i] >> half * CPU_VECTOR), p[half], factor);
            }
        }
        _mm512_storeu_si512(weights + i * 2 * CPU_BLOCK_SUMS, cpu_round_beside(p[0], p[1]));
    }
    return _mm512_reduce_add_ps(sum);
}

// Turns row i's scores of a chunk into weights relative to the largest score so far; a row that has seen no key yet has
// none, and weights of 0. What it gathered shrinks to match. (Row i's weights end before its scores begin but for row
// 0, whose are read first: so rows may follow each other in one place.)
static void softmax_row(const head *h, const forward_scratch *s, int64_t i, const row_keys *keys, bool shrinks) {
    const float scale = h->scale * LOG2_E;
    float *scores = s->scores + i * CPU_BLOCK;
    const float before = s->largest[i];
    const float here = scale * largest_score(keys, scores);
    const float largest = here > before ? here : before;
    const float base = largest > -INFINITY ? largest : 0;
    const float sum = weigh(h, keys, scale, base, scores, (cpu_data *)s->scores + i * CPU_BLOCK);
    s->largest[i] = largest;
    s->sum[i] += sum;
    if (!shrinks) {
        return;
    }
    const float shrink = cpu_exp2(before - base);
    s->sum[i] += (shrink - 1.0f) * (s->sum[i] - sum);
    for (int64_t c = 0; c * CPU_BLOCK < h->HS; c++) {
        float *result = s->result + c * CPU_BLOCK_SUMS + i * CPU_BLOCK;
#pragma omp simd
        for (int j = 0; j < CPU_BLOCK; j++) {
            result[j] *= shrink;
        }
    }
}

// A block of rows against a chunk of keys.
static void forward_chunk(const head *h, division d, const forward_scratch *s, int64_t row_block, int64_t key_block,
                          bool first, cpu_fetching *f) {
    row_keys keys = {.n_blocks = cpu_min64(CHUNK, row_block + 1 - key_block)};
    for (int64_t i = 0; i < keys.n_blocks; i++) {
        cpu_multiply_block(d.steps, s->rows, CPU_BLOCK_STEP, s->keys + (key_block + i) * d.steps * CPU_BLOCK_STEP,
                           false, s->scores + i * CPU_BLOCK_SUMS, f);
    }
    for (int64_t i = 0; i < rows_of(h, row_block); i++) {
        cpu_fetch(f);
        find_keys(h, row_block * CPU_BLOCK + i, key_block, &keys);
        softmax_row(h, s, i, &keys, !first);
    }
    for (int64_t c = 0; c < d.channels; c++) {
        cpu_multiply_block(keys.n_blocks, (const cpu_packed *)s->scores, CPU_BLOCK_SUMS,
                           s->values + (c * d.blocks + key_block) * CPU_BLOCK_STEP, !first,
                           s->result + c * CPU_BLOCK_SUMS, f);
    }
}

static void forward_rows(const host_op *op, const head *h, division d, const forward_scratch *s, int64_t row_block,
                         cpu_fetching *f) {
    const cpu_data *q = (const cpu_data *)op->in[SM_IN(flash_attention_forward, qkv)] + h->q_offset_elems;
    cpu_data *y = (cpu_data *)op->out[SM_OUT(flash_attention_forward, y)] + h->y_offset_elems;
    float *lse = (float *)op->out[SM_OUT(flash_attention_forward, lse)] + h->index * h->T;
    pack_deep(h, q, h->ld_qkv, row_block, false, s->rows);
    for (int64_t i = 0; i < CPU_BLOCK; i++) {
        s->largest[i] = -INFINITY;
        s->sum[i] = 0;
    }
    const int64_t first = first_block(h, row_block);
    for (int64_t key_block = first; key_block <= row_block; key_block += CHUNK) {
        forward_chunk(h, d, s, row_block, key_block, key_block == first, f);
    }
    for (int64_t i = 0; i < rows_of(h, row_block); i++) {
        const int64_t t = row_block * CPU_BLOCK + i;
        for (int64_t c = 0; c < d.channels; c++) {
            store_block(h, d, s->result + c * CPU_BLOCK_SUMS + i * CPU_BLOCK, c, 1, 1.0f / s->sum[i], y + t * h->ld_y,
                        h->ld_y);
        }
        lse[t] = LN_2 * s->largest[i] + logf(s->sum[i]);
    }
}

static void fetch_block(cpu_fetching *f, const head *h, int64_t block, const cpu_data *x, int64_t ld) {
    if (block * CPU_BLOCK < h->T) {
        fetch_rows(f, x + block * CPU_BLOCK * ld, ld, rows_of(h, block));
    }
}

// Has y of this block of rows fetched, and what is packed for the next: block `block` of `next`, if there is one.
static cpu_fetching forward_fetching(const host_op *op, const head *h, division d, int64_t row_block, const head *next,
                                     int64_t block) {
    cpu_fetching f = {.n_areas = 0};
    if (next != NULL) {
        const cpu_data *qkv = op->in[SM_IN(flash_attention_forward, qkv)];
        fetch_block(&f, next, block, qkv + next->v_offset_elems, next->ld_qkv);
        fetch_block(&f, next, block, qkv + next->k_offset_elems, next->ld_qkv);
        fetch_block(&f, next, block, qkv + next->q_offset_elems, next->ld_qkv);
    }
    if (!d.streams) {
        fetch_block(&f, h, row_block, (const cpu_data *)op->out[SM_OUT(flash_attention_forward, y)] + h->y_offset_elems,
                    h->ld_y);
    }
    const int64_t n_blocks = row_block + 1 - first_block(h, row_block);
    pace_fetching(&f, h, n_blocks * (d.steps + d.channels) + cpu_divide_up(n_blocks, CHUNK) * rows_of(h, row_block));
    return f;
}

// A unit of work is every n_parts-th block of rows of a head: the whole head, unless there are fewer heads than
// threads.
void ISA(cpu_flash_attention_forward)(const host_op *op, const cpu_team *team) {
    const sm_tensor *y = op->out_tensor[SM_OUT(flash_attention_forward, y)];
    const int64_t n_heads = y->dims[0] * op->op->attr.n_head;
    const int64_t n_parts = cpu_divide_up(team->n_threads, n_heads);
    const uint32_t *rng_step = op->in[SM_IN(flash_attention_forward, rng_step)];
    const int32_t *starts = op->in[SM_IN(flash_attention_forward, starts)];
    const cpu_data *qkv = op->in[SM_IN(flash_attention_forward, qkv)];
    const cpu_range units = cpu_my_rows(team, n_heads * n_parts);
    cpu_product_begin();
    for (int64_t unit = units.first; unit < units.end; unit++) {
        const head h = find_head(op, y, rng_step, starts, unit / n_parts);
        const head next = find_head(op, y, rng_step, starts, (unit + 1) / n_parts);
        division d = divide(h.T, h.HS);
        d.streams = leaves_caches(n_heads * h.T * h.HS, team->n_threads);
        const forward_scratch s = forward_carve(d, team->scratch[team->thread]);
        int64_t n_packed = 0;
        for (int64_t row_block = unit % n_parts; row_block < d.blocks; row_block += n_parts) {
            for (; n_packed <= row_block; n_packed++) {
                pack_deep(&h, qkv + h.k_offset_elems, h.ld_qkv, n_packed, true,
                          s.keys + n_packed * d.steps * CPU_BLOCK_STEP);
                pack_across(&h, qkv + h.v_offset_elems, h.ld_qkv, n_packed, true, d.blocks * CPU_BLOCK_STEP,
                            s.values + n_packed * CPU_BLOCK_STEP);
            }
            const bool last = row_block + n_parts >= d.blocks;
            cpu_fetching f =
                last ? forward_fetching(op, &h, d, row_block, unit + 1 < units.end ? &next : NULL, (unit + 1) % n_parts)
                     : forward_fetching(op, &h, d, row_block, &h, row_block + n_parts);
            forward_rows(op, &h, d, &s, row_block, &f);
        }
    }
    cpu_product_end();
    _mm_sfence(); // what was stored past the caches is seen by who passes the next barrier
}

// --- backward -------------------------------------------------------------------------

// Scratch of the backward pass: all of a head.
typedef struct {
    cpu_packed *k, *v;      // blocks of a panel of a, HS deep
    cpu_packed *k_t;        // for each block of keys, blocks of channels: a step of a, keys deep
    cpu_packed *q_t, *dy_t; // blocks of a panel of b, HS deep
    cpu_packed *q, *dy;     // for each block of channels a panel of b, all rows deep
    cpu_packed *weights;    // a panel of a (a block of keys), all rows deep
    cpu_packed *ds;         // the same: gradients of scores
    cpu_packed *ds_pairs;   // a step of b (a block of rows), keys deep
    float *scores, *da;     // 2 of (keys, rows): of two blocks in turn
    float *dk, *dv;         // blocks of channels (keys, channels), of one block of keys or, in groups, of all
    float *dq_t;            // for each block of rows, blocks of channels (channels, rows)
    float *D;               // sum over channels of dy y
    float *lse;             // times log2(e)
    uint32_t *kept;         // KEPT_BLOCKS of all rows
} backward_scratch;

static int64_t group_of(const host_op *op) { return op->op->attr.n_head / op->op->attr.n_kv_head; }

size_t ISA(cpu_flash_attention_backward_scratch)(const host_op *op, int n_threads) {
    (void)n_threads;
    const sm_tensor *y = op->in_tensor[SM_IN(flash_attention_backward, dy)];
    const division d = divide(y->dims[1], y->dims[2] / op->op->attr.n_head);
    const int64_t key_blocks = group_of(op) > 1 ? d.blocks : 1;
    const int64_t packed = (7 * d.blocks * d.steps + 2 * d.blocks + 1) * CPU_BLOCK_STEP;
    const int64_t floats = (4 + (2 * key_blocks + d.blocks) * d.channels) * CPU_BLOCK_SUMS;
    const int64_t rows = (2 + KEPT_BLOCKS) * d.blocks * CPU_BLOCK;
    return (size_t)packed * sizeof(cpu_packed) + (size_t)(floats + rows) * sizeof(float);
}

static backward_scratch backward_carve(division d, int64_t group, float *scratch) {
    const int64_t head_words = d.blocks * d.steps * CPU_BLOCK_STEP;
    const int64_t gradient_elems = (group > 1 ? d.blocks : 1) * d.channels * CPU_BLOCK_SUMS;
    backward_scratch s;
    s.k = (cpu_packed *)scratch;
    s.v = s.k + head_words;
    s.k_t = s.v + head_words;
    s.q_t = s.k_t + head_words;
    s.dy_t = s.q_t + head_words;
    s.q = s.dy_t + head_words;
    s.dy = s.q + head_words;
    s.weights = s.dy + head_words;
    s.ds = s.weights + d.blocks * CPU_BLOCK_STEP;
    s.ds_pairs = s.ds + d.blocks * CPU_BLOCK_STEP;
    s.scores = (float *)(s.ds_pairs + CPU_BLOCK_STEP);
    s.da = s.scores + 2 * CPU_BLOCK_SUMS;
    s.dk = s.da + 2 * CPU_BLOCK_SUMS;
    s.dv = s.dk + gradient_elems;
    s.dq_t = s.dv + gradient_elems;
    s.D = s.dq_t + d.blocks * d.channels * CPU_BLOCK_SUMS;
    s.lse = s.D + d.blocks * CPU_BLOCK;
    s.kept = (uint32_t *)(s.lse + d.blocks * CPU_BLOCK);
    return s;
}

static float dot(const cpu_data *a, const cpu_data *b, int64_t n) {
    __m512 sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < n; i += CPU_BLOCK) {
        const __mmask32 real = bits(0, n - i);
        sum = _mm512_dpbf16_ps(sum, (__m512bh)_mm512_maskz_loadu_epi16(real, a + i),
                               (__m512bh)_mm512_maskz_loadu_epi16(real, b + i));
    }
    return _mm512_reduce_add_ps(sum);
}

// Keys and values are packed for the first of the heads that share them.
static void pack_backward(const host_op *op, const head *h, division d, const backward_scratch *s, int64_t block,
                          bool first) {
    const cpu_data *dy = (const cpu_data *)op->in[SM_IN(flash_attention_backward, dy)] + h->y_offset_elems;
    const cpu_data *y = (const cpu_data *)op->in[SM_IN(flash_attention_backward, y)] + h->y_offset_elems;
    const float *lse = (const float *)op->in[SM_IN(flash_attention_backward, lse)] + h->index * h->T;
    const cpu_data *qkv = op->in[SM_IN(flash_attention_backward, qkv)];
    const cpu_data *q = qkv + h->q_offset_elems;
    const cpu_data *k = qkv + h->k_offset_elems;
    const int64_t deep = block * d.steps * CPU_BLOCK_STEP;
    const int64_t apart = d.blocks * CPU_BLOCK_STEP;
    if (first) {
        pack_deep(h, k, h->ld_qkv, block, false, s->k + deep);
        pack_deep(h, qkv + h->v_offset_elems, h->ld_qkv, block, false, s->v + deep);
        pack_across(h, k, h->ld_qkv, block, false, CPU_BLOCK_STEP, s->k_t + deep);
    }
    pack_deep(h, q, h->ld_qkv, block, true, s->q_t + deep);
    pack_deep(h, dy, h->ld_y, block, true, s->dy_t + deep);
    pack_across(h, q, h->ld_qkv, block, true, apart, s->q + block * CPU_BLOCK_STEP);
    pack_across(h, dy, h->ld_y, block, true, apart, s->dy + block * CPU_BLOCK_STEP);
    for (int64_t t = block * CPU_BLOCK; t < (block + 1) * CPU_BLOCK; t++) {
        s->D[t] = t < h->T ? dot(dy + t * h->ld_y, y + t * h->ld_y, h->HS) : 0;
        s->lse[t] = t < h->T ? LOG2_E * lse[t] : 0;
    }
}

// CPU_VECTOR rows, as lanes.
typedef struct {
    __m512 lse;
    __m512 D;
    __m512i t;
    __m512i first; // the first key that each sees
    __m512i kept;  // of a block of keys, bits
} lanes;

static lanes find_lanes(const head *h, division d, const backward_scratch *s, int64_t key_block, int64_t t) {
    static const int32_t in_order[CPU_VECTOR] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    lanes of = {.lse = _mm512_loadu_ps(s->lse + t), .D = _mm512_loadu_ps(s->D + t)};
    of.t = _mm512_add_epi32(_mm512_set1_epi32((int32_t)t), _mm512_loadu_si512(in_order));
    of.first = h->starts == NULL ? _mm512_setzero_si512()
                                 : _mm512_maskz_loadu_epi32((__mmask16)bits(0, h->T - t), h->starts + t);
    of.kept = h->drops ? _mm512_loadu_si512(s->kept + key_block % KEPT_BLOCKS * d.blocks * CPU_BLOCK + t)
                       : _mm512_setzero_si512();
    return of;
}

// Of a key and CPU_VECTOR rows: the weights, after dropout, and gradients of scores, weight (da - D).
static inline __attribute__((always_inline)) void find_gradients(const head *h, lanes rows, int64_t key, bool masked,
                                                                 __m512 scores, __m512 da, __m512 *weights,
                                                                 __m512 *ds) {
    const __m512 scale = _mm512_set1_ps(h->scale * LOG2_E);
    __m512 p = cpu_exp2_amx(_mm512_fmsub_ps(scores, scale, rows.lse));
    if (masked) {
        const __m512i here = _mm512_set1_epi32((int32_t)key);
        const __mmask16 seen = _mm512_cmple_epi32_mask(here, rows.t) & _mm512_cmple_epi32_mask(rows.first, here);
        p = _mm512_maskz_mov_ps(seen, p);
    }
    if (h->drops) {
        const __m512 factor = _mm512_set1_ps(h->dropout.scale);
        const __mmask16 kept = _mm512_test_epi32_mask(rows.kept, _mm512_set1_epi32(1 << key % CPU_BLOCK));
        *ds = _mm512_mul_ps(p, _mm512_sub_ps(_mm512_maskz_mul_ps(kept, da, factor), rows.D));
        *weights = _mm512_maskz_mul_ps(kept, p, factor);
    } else {
        *ds = _mm512_mul_ps(p, _mm512_sub_ps(da, rows.D));
        *weights = p;
    }
}

// From scores and da of a block: weights and ds, as they are multiplied.
static inline __attribute__((always_inline)) void score_gradients(const head *h, division d, const backward_scratch *s,
                                                                  int64_t key_block, int64_t row_block, bool masked,
                                                                  cpu_fetching *f) {
    const lanes rows[2] = {find_lanes(h, d, s, key_block, row_block * CPU_BLOCK),
                           find_lanes(h, d, s, key_block, row_block * CPU_BLOCK + CPU_VECTOR)};
    const float *scores = s->scores + row_block % 2 * CPU_BLOCK_SUMS;
    const float *da = s->da + row_block % 2 * CPU_BLOCK_SUMS;
    cpu_packed *weights = s->weights + (row_block - key_block) * CPU_BLOCK_STEP;
    cpu_packed *ds = s->ds + (row_block - key_block) * CPU_BLOCK_STEP;
    for (int64_t j = 0; j < CPU_BLOCK; j += 2) {
        __m512 p[2][2];
        __m512 g[2][2];
        cpu_fetch(f);
        for (int i = 0; i < 2; i++) {
            const int64_t at = (j + i) * CPU_BLOCK;
            for (int half = 0; half < 2; half++) {
                find_gradients(h, rows[half], key_block * CPU_BLOCK + j + i, masked,
                               _mm512_loadu_ps(scores + at + half * CPU_VECTOR),
                               _mm512_loadu_ps(da + at + half * CPU_VECTOR), &p[i][half], &g[i][half]);
            }
            _mm512_storeu_si512(weights + (j + i) * CPU_AMX_PAIRS, cpu_round_beside(p[i][0], p[i][1]));
            _mm512_storeu_si512(ds + (j + i) * CPU_AMX_PAIRS, cpu_round_beside(g[i][0], g[i][1]));
        }
        for (int half = 0; half < 2; half++) {
            _mm512_storeu_si512(s->ds_pairs + half * CPU_AMX_WORDS + j / 2 * CPU_AMX_PAIRS,
                                cpu_round_pairs(g[0][half], g[1][half]));
        }
    }
}

// Some row of the block does not see some key of the other.
static bool is_masked(const head *h, int64_t key_block, int64_t row_block) {
    const int64_t last = cpu_min64((row_block + 1) * CPU_BLOCK, h->T) - 1;
    return key_block == row_block || (h->starts != NULL && h->starts[last] > key_block * CPU_BLOCK);
}

static void multiply_scores(division d, const backward_scratch *s, int64_t key_block, int64_t row_block,
                            cpu_fetching *f) {
    const int64_t deep = d.steps * CPU_BLOCK_STEP;
    const int64_t at = row_block % 2 * CPU_BLOCK_SUMS;
    cpu_multiply_block(d.steps, s->k + key_block * deep, CPU_BLOCK_STEP, s->q_t + row_block * deep, false,
                       s->scores + at, f);
    cpu_multiply_block(d.steps, s->v + key_block * deep, CPU_BLOCK_STEP, s->dy_t + row_block * deep, false, s->da + at,
                       f);
}

static void backward_block(const head *h, division d, const backward_scratch *s, int64_t key_block, int64_t row_block,
                           cpu_fetching *f) {
    if (is_masked(h, key_block, row_block)) {
        score_gradients(h, d, s, key_block, row_block, true, f);
    } else {
        score_gradients(h, d, s, key_block, row_block, false, f);
    }
    for (int64_t c = 0; c < d.channels; c++) {
        cpu_multiply_block(1, s->k_t + (key_block * d.channels + c) * CPU_BLOCK_STEP, CPU_BLOCK_STEP, s->ds_pairs,
                           key_block > first_block(h, row_block),
                           s->dq_t + (row_block * d.channels + c) * CPU_BLOCK_SUMS, f);
    }
}

// A block of keys against all rows that see some of it. first, last: of the heads that share keys and values, which add
// to the gradients of these. The next block's scores are multiplied while vectors are busy with this one's.
static void backward_keys(const host_op *op, const head *h, division d, const backward_scratch *s, int64_t key_block,
                          bool first, bool last, cpu_fetching *f) {
    int64_t end = key_block + 1;
    while (end < d.blocks && first_block(h, end) <= key_block) {
        end++;
    }
    multiply_scores(d, s, key_block, key_block, f);
    for (int64_t row_block = key_block; row_block < end; row_block++) {
        if (row_block + 1 < end) {
            multiply_scores(d, s, key_block, row_block + 1, f);
        }
        backward_block(h, d, s, key_block, row_block, f);
    }
    cpu_data *dqkv = (cpu_data *)op->out[SM_OUT(flash_attention_backward, dqkv)] + key_block * CPU_BLOCK * h->ld_qkv;
    const int64_t n_rows = rows_of(h, key_block);
    for (int64_t c = 0; c < d.channels; c++) {
        const int64_t at = ((first && last ? 0 : key_block * d.channels) + c) * CPU_BLOCK_SUMS;
        const int64_t rows = (c * d.blocks + key_block) * CPU_BLOCK_STEP;
        cpu_multiply_block(end - key_block, s->weights, CPU_BLOCK_STEP, s->dy + rows, !first, s->dv + at, f);
        cpu_multiply_block(end - key_block, s->ds, CPU_BLOCK_STEP, s->q + rows, !first, s->dk + at, f);
        if (last) {
            store_block(h, d, s->dk + at, c, n_rows, h->scale, dqkv + h->k_offset_elems, h->ld_qkv);
            store_block(h, d, s->dv + at, c, n_rows, 1.0f, dqkv + h->v_offset_elems, h->ld_qkv);
        }
    }
}

static void store_dq(const host_op *op, const head *h, division d, const backward_scratch *s, int64_t row_block) {
    cpu_data *dq = (cpu_data *)op->out[SM_OUT(flash_attention_backward, dqkv)] + h->q_offset_elems +
                   row_block * CPU_BLOCK * h->ld_qkv;
    for (int64_t c = 0; c < d.channels; c++) {
        const float *from = s->dq_t + (row_block * d.channels + c) * CPU_BLOCK_SUMS;
        for (int64_t i = 0; i < CPU_BLOCK; i += CPU_VECTOR) {
            for (int64_t j = 0; j < CPU_BLOCK; j += CPU_VECTOR) {
                cpu_transpose(from + i * CPU_BLOCK + j, CPU_BLOCK, s->scores + j * CPU_BLOCK + i, CPU_BLOCK);
            }
        }
        store_block(h, d, s->scores, c, rows_of(h, row_block), h->scale, dq, h->ld_qkv);
    }
}

// Has fetched what this head's gradients are written over, and what is packed of the next, if there is one.
static cpu_fetching backward_fetching(const host_op *op, const head *h, division d, const head *next) {
    cpu_fetching f = {.n_areas = 0};
    if (next != NULL) {
        const cpu_data *qkv = op->in[SM_IN(flash_attention_backward, qkv)];
        const cpu_data *y = op->in[SM_IN(flash_attention_backward, y)];
        const cpu_data *dy = op->in[SM_IN(flash_attention_backward, dy)];
        fetch_rows(&f, y + next->y_offset_elems, next->ld_y, h->T);
        fetch_rows(&f, dy + next->y_offset_elems, next->ld_y, h->T);
        fetch_rows(&f, qkv + next->v_offset_elems, next->ld_qkv, h->T);
        fetch_rows(&f, qkv + next->k_offset_elems, next->ld_qkv, h->T);
        fetch_rows(&f, qkv + next->q_offset_elems, next->ld_qkv, h->T);
    }
    const cpu_data *dqkv = op->out[SM_OUT(flash_attention_backward, dqkv)];
    if (!d.streams) {
        fetch_rows(&f, dqkv + h->q_offset_elems, h->ld_qkv, h->T);
        fetch_rows(&f, dqkv + h->v_offset_elems, h->ld_qkv, h->T);
        fetch_rows(&f, dqkv + h->k_offset_elems, h->ld_qkv, h->T);
    }
    int64_t n_blocks = 0;
    for (int64_t block = 0; block < d.blocks; block++) {
        n_blocks += block + 1 - first_block(h, block);
    }
    pace_fetching(&f, h, n_blocks * (CPU_BLOCK / 2 + 2 * d.steps + 3 * d.channels));
    return f;
}

static void backward_head(const host_op *op, const head *h, division d, const backward_scratch *s, bool first,
                          bool last, cpu_fetching *f) {
    for (int64_t block = 0; block < d.blocks; block++) {
        pack_backward(op, h, d, s, block, first);
    }
    for (int64_t block = 0; block < d.blocks; block++) {
        if (h->drops && block % KEPT_BLOCKS == 0) {
            for (int64_t t = block * CPU_BLOCK; t < h->T; t++) {
                decide_kept(h, t, block, s->kept + t, d.blocks * CPU_BLOCK);
            }
        }
        backward_keys(op, h, d, s, block, first, last, f);
    }
    for (int64_t block = 0; block < d.blocks; block++) {
        store_dq(op, h, d, s, block);
    }
}

// A unit of work is a head of keys and values, with all heads of queries that share it.
void ISA(cpu_flash_attention_backward)(const host_op *op, const cpu_team *team) {
    const sm_tensor *dy = op->in_tensor[SM_IN(flash_attention_backward, dy)];
    const int64_t group = group_of(op);
    const cpu_range units = cpu_my_rows(team, dy->dims[0] * op->op->attr.n_kv_head);
    const cpu_range mine = {units.first * group, units.end * group};
    const uint32_t *rng_step = op->in[SM_IN(flash_attention_backward, rng_step)];
    const int32_t *starts = op->in[SM_IN(flash_attention_backward, starts)];
    cpu_product_begin();
    for (int64_t index = mine.first; index < mine.end; index++) {
        const head h = find_head(op, dy, rng_step, starts, index);
        const head next = find_head(op, dy, rng_step, starts, index + 1);
        division d = divide(h.T, h.HS);
        d.streams = leaves_caches(dy->dims[0] * h.T * h.ld_qkv, team->n_threads);
        const backward_scratch s = backward_carve(d, group, team->scratch[team->thread]);
        cpu_fetching f = backward_fetching(op, &h, d, index + 1 < mine.end ? &next : NULL);
        backward_head(op, &h, d, &s, index % group == 0, index % group == group - 1, &f);
    }
    cpu_product_end();
    _mm_sfence(); // what was stored past the caches is seen by who passes the next barrier
}
