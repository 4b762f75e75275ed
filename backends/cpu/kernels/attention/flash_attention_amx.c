// flash_attention_amx.c: flash attention of bf16 data, its products in AMX's tile registers, its softmax in
// vectors of floats.
//
// Rows (of q: who asks) and keys (who is asked) are cut into blocks of 32. Products are of bf16 data: q, k, v and dy
// as they are, weights p and the gradients of scores ds rounded once; sums are floats. log2(e) / sqrt(HS) multiplies
// scores after their product, so that q keeps its digits. Scores lie transposed, (keys, rows), so that a row's
// statistics are a lane.
//
// Forward, for each block of rows, by CHUNK blocks of keys at a time from left to right:
//
//     s^T = k q^T
//     largest' = max(largest, s)               over the chunk
//     p^T = 2^(s^T - largest')                 in pairs of keys
//     y^T = y^T 2^(largest - largest') + v^T p^T   summed over the chunk in registers; turned at the end
//
// Backward, for each two blocks of keys, over the blocks of rows below them:
//
//     s^T = k q^T        p^T = 2^(s^T - lse)
//     da^T = v dy^T      ds^T = p^T (da^T - D)
//     dq^T += k^T ds^T   in pairs of keys; turned at the end
//     dv = p^T dy, dk = ds^T q                      after the last rows, each summed over all of them in registers
//
// Masked keys have no weight, padded rows and channels are zeros, and of the diagonal a whole block is multiplied.
#include "backends/cpu/kernels/attention/head.h"
#include "backends/cpu/kernels/matmul/tile_amx.h"

// --- blocks of 32 x 32 ----------------------------------------------------------------------------
//
// Products in tile registers of panels that lie in the caches. Panels are those of matmul/pack_amx.h, two registers
// wide: of a 32 rows, of b 32 columns, and in each step 32 of k. A block of floats lies row by row.

enum {
    CPU_BLOCK = 32,                         // rows and columns
    CPU_BLOCK_SUMS = CPU_BLOCK * CPU_BLOCK, // floats
    CPU_BLOCK_STEP = 2 * CPU_AMX_WORDS,     // packed, of a panel and step
};

// The sums in registers += a panel x b panel over n_steps. a's steps lie a_step apart. In each step some of what is
// needed later is fetched.
static inline __attribute__((always_inline)) void cpu_sum_block(int64_t n_steps, const cpu_packed *a, int64_t a_step,
                                                                const cpu_packed *b, cpu_fetching *f) {
    enum { ROW_BYTES = CPU_AMX_PAIRS * sizeof *a };
    __asm__ volatile("" ::: "memory"); // what was packed is in memory: compilers do not see that tiles read it
    for (int64_t j = 0; j < n_steps; j++) {
        _tile_loadd(4, a, ROW_BYTES);
        _tile_loadd(6, b, ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + CPU_AMX_WORDS, ROW_BYTES);
        _tile_dpbf16ps(1, 4, 7);
        cpu_fetch(f);
        _tile_loadd(5, a + CPU_AMX_WORDS, ROW_BYTES);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        a += a_step;
        b += CPU_BLOCK_STEP;
    }
}

// A block (32 x 32) = a panel x b panel over n_steps, or += with `add`.
static inline __attribute__((always_inline)) void cpu_multiply_block(int64_t n_steps, const cpu_packed *a,
                                                                     int64_t a_step, const cpu_packed *b, bool add,
                                                                     float *block, cpu_fetching *f) {
    if (add) {
        cpu_load_sums(block);
    } else {
        cpu_clear_sums();
    }
    cpu_sum_block(n_steps, a, a_step, b, f);
    cpu_store_sums(block);
}

// Packs a panel whole: n_steps of it. `to` gets them one after another.
static inline void cpu_pack_panel(cpu_packing p, int64_t n_steps, cpu_packed *to) {
    p.to = to;
    p.width = CPU_BLOCK / CPU_AMX_ROWS;
    cpu_packing_begin(&p, n_steps, 1);
    cpu_pack_rest(&p);
}

// 2^x with a relative error below 3e-6, and none of whole x, for what is rounded to bf16: 2^floor(x) times a polynomial
// of what x has beyond it. 2^-infinity is 0, and NaN stays.
static inline __m512 cpu_exp2_amx(__m512 x) {
    enum { FLOOR = 0x09 }; // no digits after the point, and no exception
    const __m512 r = _mm512_reduce_ps(x, FLOOR);
    __m512 p = _mm512_set1_ps(0.0134266969f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.0522424541f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.241280213f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.693044841f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, x);
}

// Two vectors rounded: the elements of the first, then those of the second.
static inline __m512i cpu_round_beside(__m512 first, __m512 second) {
    return (__m512i)_mm512_cvtne2ps_pbh(second, first);
}

// The same as pairs: element by element one of each.
static inline __m512i cpu_round_pairs(__m512 low, __m512 high) {
    static const int16_t in_turn[CPU_AMX_K] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                               8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return _mm512_permutexvar_epi16(_mm512_loadu_si512(in_turn), cpu_round_beside(low, high));
}

// --- heads ----------------------------------------------------------------------------------------

enum {
    CHUNK = 4,                       // blocks of keys whose largest scores are found at a time
    KEYS = 2,                        // blocks of keys that backward takes at a time
    HALVES = CPU_BLOCK / CPU_VECTOR, // vectors of a block's row
    KEPT_BLOCKS = 4, // blocks of keys for which dropout is decided at a time: as many numbers as Philox makes at once
};

static const float LOG2_E = 1.44269504f;
static const float LN_2 = 0.693147182f;

// The tiles of a head.
typedef struct {
    int64_t blocks;   // of rows, and of keys
    int64_t steps;    // of HS, in a panel of that depth: CPU_AMX_K each
    int64_t channels; // blocks of HS
    bool streams;     // the result is stored past the caches
} division;

static division divide(int64_t T, int64_t HS) {
    return (division){cpu_divide_up(T, CPU_BLOCK), cpu_divide_up(HS, CPU_AMX_K), cpu_divide_up(HS, CPU_BLOCK), false};
}

// Whether a result of n_elems is too large for its reader to find it in the second-level caches.
static bool leaves_caches(int64_t n_elems, int n_threads) {
    return n_elems * (int64_t)sizeof(cpu_data) > n_threads * (int64_t)cpu_topology_level2_bytes() / 2;
}

// The first block of keys that any row of a block sees.
static int64_t first_block(const head *h, int64_t row_block) {
    return h->starts == NULL ? 0 : h->starts[row_block * CPU_BLOCK] / CPU_BLOCK;
}

static int64_t rows_of(const head *h, int64_t block) { return cpu_min64(CPU_BLOCK, h->T - block * CPU_BLOCK); }

// Bits first .. end - 1 of 32, where these are within 0 .. 32.
static uint32_t bits(int64_t first, int64_t end) {
    const uint32_t below_first = first <= 0 ? 0 : first >= CPU_BLOCK ? UINT32_MAX : (1u << first) - 1;
    const uint32_t below_end = end <= 0 ? 0 : end >= CPU_BLOCK ? UINT32_MAX : (1u << end) - 1;
    return below_end & ~below_first;
}

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

// Stores the channels that there are of a row of a block of them.
static inline void store_row(const head *h, division d, int64_t channel_block, __m512i row, cpu_data *to) {
    const int64_t n = h->HS - channel_block * CPU_BLOCK;
    to += channel_block * CPU_BLOCK;
    if (d.streams && n >= CPU_BLOCK && (uintptr_t)to % sizeof row == 0) {
        _mm512_stream_si512((void *)to, row);
    } else {
        _mm512_mask_storeu_epi16(to, bits(0, n), row);
    }
}

// Stores n_rows of a block of channels (rows, channels), times factor.
static void store_block(const head *h, division d, const float *block, int64_t channel_block, int64_t n_rows,
                        float factor, cpu_data *to, int64_t ld) {
    const __m512 factors = _mm512_set1_ps(factor);
    for (int64_t i = 0; i < n_rows; i++) {
        const float *x = block + i * CPU_BLOCK;
        store_row(h, d, channel_block,
                  cpu_round_beside(_mm512_mul_ps(_mm512_loadu_ps(x), factors),
                                   _mm512_mul_ps(_mm512_loadu_ps(x + CPU_VECTOR), factors)),
                  to + i * ld);
    }
}

// Turns blocks of channels (channels, rows), and stores n_rows, each times its factor: pairs of channels are words of
// CPU_VECTOR rows, whose squares are transposed.
static void store_turned(const head *h, division d, const float *blocks, int64_t n_rows, const __m512 factor[HALVES],
                         cpu_data *to, int64_t ld) {
    for (int64_t c = 0; c < d.channels; c++) {
        for (int half = 0; half < HALVES; half++) {
            const float *x = blocks + c * CPU_BLOCK_SUMS + half * CPU_VECTOR;
            cpu_vector words[CPU_VECTOR];
#pragma GCC unroll 16
            for (int j = 0; j < CPU_VECTOR; j++) {
                words[j] = (cpu_vector)cpu_round_pairs(
                    _mm512_mul_ps(_mm512_loadu_ps(x + 2 * j * CPU_BLOCK), factor[half]),
                    _mm512_mul_ps(_mm512_loadu_ps(x + (2 * j + 1) * CPU_BLOCK), factor[half]));
            }
            cpu_transpose_square(words);
            for (int i = 0; i < CPU_VECTOR && half * CPU_VECTOR + i < n_rows; i++) {
                store_row(h, d, c, (__m512i)words[i], to + (half * CPU_VECTOR + i) * ld);
            }
        }
    }
}

// --- masks ----------------------------------------------------------------------------

// Draws dropout's mask of row t for KEPT_BLOCKS blocks of keys from `key_block` on: a bit a key, kept[i * ld] for i.
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

// CPU_VECTOR rows, as lanes.
typedef struct {
    __m512i t;
    __m512i first; // the first key that each sees
} lanes;

static lanes find_lanes(const head *h, int64_t t) {
    static const int32_t in_order[CPU_VECTOR] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (lanes){.t = _mm512_add_epi32(_mm512_set1_epi32((int32_t)t), _mm512_loadu_si512(in_order)),
                   .first = h->starts == NULL ? _mm512_setzero_si512()
                                              : _mm512_maskz_loadu_epi32((__mmask16)bits(0, h->T - t), h->starts + t)};
}

// Mask of the rows that see a key.
static inline __mmask16 find_seen(lanes rows, int64_t key) {
    const __m512i here = _mm512_set1_epi32((int32_t)key);
    return _mm512_cmple_epi32_mask(here, rows.t) & _mm512_cmple_epi32_mask(rows.first, here);
}

// Mask of the rows whose dropout keeps key j of a block.
static inline __mmask16 find_kept(__m512i kept, int64_t j) {
    return _mm512_test_epi32_mask(kept, _mm512_set1_epi32((int32_t)(1u << j)));
}

// Some row of the block does not see some key of the other.
static bool is_masked(const head *h, int64_t key_block, int64_t row_block) {
    const int64_t last = cpu_min64((row_block + 1) * CPU_BLOCK, h->T) - 1;
    return key_block == row_block || (h->starts != NULL && h->starts[last] > key_block * CPU_BLOCK);
}

// --- forward --------------------------------------------------------------------------

// A block's rows packed HS deep, those of a head, and the sums of a block of rows or keys, by blocks of channels.
static int64_t words_of_block(division d) { return d.steps * CPU_BLOCK_STEP; }
static int64_t words_of_head(division d) { return d.blocks * words_of_block(d); }
static int64_t sums_of_block(division d) { return d.channels * CPU_BLOCK_SUMS; }

// Scratch of the forward pass: keys and values of the whole head, and one block of rows.
#define FORWARD_AREAS(AREA)                                                                                          \
    AREA(cpu_packed, keys, words_of_head(d))            /* blocks of a panel of a, HS deep */                        \
    AREA(cpu_packed, values_t, words_of_head(d))        /* for each block of channels a panel of a, all keys deep */ \
    AREA(cpu_packed, rows, words_of_block(d))           /* a panel of b, HS deep */                                  \
    AREA(cpu_packed, weights, (CHUNK * CPU_BLOCK_STEP)) /* a panel of b, a chunk deep */                             \
    AREA(float, scores, (CHUNK * CPU_BLOCK_SUMS))       /* CHUNK of (keys, rows) */                                  \
    AREA(float, result, sums_of_block(d))               /* blocks of channels (channels, rows) */                    \
    AREA(uint32_t, kept, (CHUNK * CPU_BLOCK))           /* for each block of a chunk, the rows' */
DEFINE_SCRATCH(forward, FORWARD_AREAS, division d)

size_t ISA(cpu_flash_attention_forward_scratch)(const host_op *op, SM_UNUSED int n_threads) {
    const sm_tensor *y = op->out_tensor[SM_OUT(flash_attention_forward, y)];
    return forward_scratch_bytes(divide(y->dims[1], y->dims[2] / op->op->attr.n_head));
}

// A block of rows: its position, and each row's maximum of scores so far, times log2(e) / sqrt(HS), and sum of weights.
typedef struct {
    int64_t block;
    lanes at[HALVES];
    __m512 largest[HALVES];
    __m512 sum[HALVES];
} forward_rows;

// Scores of a block of keys; -infinity where a row does not see a key.
static void multiply_scores(const head *h, division d, const forward_scratch *s, const forward_rows *rows,
                            int64_t key_block, float *scores, cpu_fetching *f) {
    cpu_multiply_block(d.steps, s->keys + key_block * d.steps * CPU_BLOCK_STEP, CPU_BLOCK_STEP, s->rows, false, scores,
                       f);
    if (!is_masked(h, key_block, rows->block)) {
        return;
    }
    for (int64_t j = 0; j < CPU_BLOCK; j++) {
        for (int half = 0; half < HALVES; half++) {
            const __mmask16 seen = find_seen(rows->at[half], key_block * CPU_BLOCK + j);
            _mm512_mask_storeu_ps(scores + j * CPU_BLOCK + half * CPU_VECTOR, (__mmask16)~seen,
                                  _mm512_set1_ps(-INFINITY));
        }
    }
}

// The rows' largest scores of n_keys, or those that they had. NaN is passed over.
static inline __m512 find_largest(const float *scores, int64_t n_keys, __m512 scale, __m512 before) {
    __m512 even = _mm512_set1_ps(-INFINITY);
    __m512 odd = even;
    for (int64_t j = 0; j < n_keys; j += 2) {
        even = _mm512_max_ps(_mm512_loadu_ps(scores + j * CPU_BLOCK), even);
        odd = _mm512_max_ps(_mm512_loadu_ps(scores + (j + 1) * CPU_BLOCK), odd);
    }
    return _mm512_max_ps(_mm512_mul_ps(_mm512_max_ps(even, odd), scale), before);
}

// Turns a block's scores into weights relative to 2^base, and adds them to the rows' sums.
static inline void weigh_block(const head *h, const forward_scratch *s, int64_t i, const float *scores,
                               const __m512 base[HALVES], forward_rows *rows) {
    const __m512 scale = _mm512_set1_ps(h->scale * LOG2_E);
    const __m512 factor = _mm512_set1_ps(h->dropout.scale);
    for (int half = 0; half < HALVES; half++) {
        const __m512i kept =
            h->drops ? _mm512_loadu_si512(s->kept + i * CPU_BLOCK + half * CPU_VECTOR) : _mm512_setzero_si512();
        const float *x = scores + half * CPU_VECTOR;
        cpu_packed *to = s->weights + i * CPU_BLOCK_STEP + half * CPU_AMX_WORDS;
        __m512 sum = rows->sum[half];
        for (int64_t j = 0; j < CPU_BLOCK; j += 2) {
            __m512 p0 = cpu_exp2_amx(_mm512_fmsub_ps(_mm512_loadu_ps(x + j * CPU_BLOCK), scale, base[half]));
            __m512 p1 = cpu_exp2_amx(_mm512_fmsub_ps(_mm512_loadu_ps(x + (j + 1) * CPU_BLOCK), scale, base[half]));
            sum = _mm512_add_ps(sum, _mm512_add_ps(p0, p1));
            if (h->drops) {
                p0 = _mm512_maskz_mul_ps(find_kept(kept, j), p0, factor);
                p1 = _mm512_maskz_mul_ps(find_kept(kept, j + 1), p1, factor);
            }
            _mm512_storeu_si512(to + j / 2 * CPU_AMX_PAIRS, cpu_round_pairs(p0, p1));
        }
        rows->sum[half] = sum;
    }
}

// Multiplies what rows have gathered, each by its own factor.
static void multiply_result(division d, const forward_scratch *s, const __m512 factor[HALVES]) {
    for (int64_t i = 0; i < d.channels * CPU_BLOCK; i++) {
        for (int half = 0; half < HALVES; half++) {
            float *x = s->result + i * CPU_BLOCK + half * CPU_VECTOR;
            _mm512_storeu_ps(x, _mm512_mul_ps(_mm512_loadu_ps(x), factor[half]));
        }
    }
}

// The largest score of each row so far becomes what its weights are relative to: what it gathered shrinks to match. A
// row that has seen no key yet has none, and weights of 0.
static void rebase_rows(const head *h, division d, const forward_scratch *s, bool first, int64_t n_blocks,
                        forward_rows *rows, __m512 base[HALVES]) {
    const __m512 scale = _mm512_set1_ps(h->scale * LOG2_E);
    __m512 shrink[HALVES];
    __mmask16 shrinks = 0;
    for (int half = 0; half < HALVES; half++) {
        const __m512 largest =
            find_largest(s->scores + half * CPU_VECTOR, n_blocks * CPU_BLOCK, scale, rows->largest[half]);
        const __mmask16 any = _mm512_cmp_ps_mask(largest, _mm512_set1_ps(-INFINITY), _CMP_GT_OQ);
        base[half] = _mm512_maskz_mov_ps(any, largest);
        shrink[half] = cpu_exp2_amx(_mm512_sub_ps(rows->largest[half], base[half]));
        shrinks |= _mm512_cmp_ps_mask(shrink[half], _mm512_set1_ps(1.0f), _CMP_NEQ_UQ);
        rows->sum[half] = _mm512_mul_ps(rows->sum[half], shrink[half]);
        rows->largest[half] = largest;
    }
    if (!first && shrinks) {
        multiply_result(d, s, shrink);
    }
}

// A block of rows against a chunk of keys.
static void forward_chunk(const head *h, division d, const forward_scratch *s, int64_t key_block, bool first,
                          forward_rows *rows, cpu_fetching *f) {
    const int64_t n_blocks = cpu_min64(CHUNK, rows->block + 1 - key_block);
    __m512 base[HALVES];
    for (int64_t i = 0; i < n_blocks; i++) {
        multiply_scores(h, d, s, rows, key_block + i, s->scores + i * CPU_BLOCK_SUMS, f);
    }
    rebase_rows(h, d, s, first, n_blocks, rows, base);
    for (int64_t i = 0; h->drops && i < rows_of(h, rows->block); i++) {
        for (int64_t j = 0; j < n_blocks; j += KEPT_BLOCKS) {
            decide_kept(h, rows->block * CPU_BLOCK + i, key_block + j, s->kept + j * CPU_BLOCK + i, CPU_BLOCK);
        }
    }
    for (int64_t i = 0; i < n_blocks; i++) {
        weigh_block(h, s, i, s->scores + i * CPU_BLOCK_SUMS, base, rows);
        cpu_fetch(f);
    }
    for (int64_t c = 0; c < d.channels; c++) {
        cpu_multiply_block(n_blocks, s->values_t + (c * d.blocks + key_block) * CPU_BLOCK_STEP, CPU_BLOCK_STEP,
                           s->weights, !first, s->result + c * CPU_BLOCK_SUMS, f);
    }
}

// After the last key: results over their sums, and lse (T) of the head.
static void finish_rows(const host_op *op, const head *h, division d, const forward_scratch *s,
                        const forward_rows *rows) {
    cpu_data *y = (cpu_data *)op->out[SM_OUT(flash_attention_forward, y)] + h->y_offset_elems;
    float *lse = (float *)op->out[SM_OUT(flash_attention_forward, lse)] + h->index * h->T;
    const int64_t first = rows->block * CPU_BLOCK;
    float largest[CPU_BLOCK];
    float sum[CPU_BLOCK];
    memcpy(largest, rows->largest, sizeof largest);
    memcpy(sum, rows->sum, sizeof sum);
    for (int64_t i = 0; i < rows_of(h, rows->block); i++) {
        lse[first + i] = LN_2 * largest[i] + logf(sum[i]);
    }
    __m512 inverse[HALVES];
    for (int half = 0; half < HALVES; half++) {
        inverse[half] = _mm512_div_ps(_mm512_set1_ps(1.0f), rows->sum[half]);
    }
    store_turned(h, d, s->result, rows_of(h, rows->block), inverse, y + first * h->ld_y, h->ld_y);
}

static void forward_block(const host_op *op, const head *h, division d, const forward_scratch *s, int64_t row_block,
                          cpu_fetching *f) {
    const cpu_data *q = (const cpu_data *)op->in[SM_IN(flash_attention_forward, qkv)] + h->q_offset_elems;
    forward_rows rows = {.block = row_block};
    pack_deep(h, q, h->ld_qkv, row_block, true, s->rows);
    for (int half = 0; half < HALVES; half++) {
        rows.at[half] = find_lanes(h, row_block * CPU_BLOCK + half * CPU_VECTOR);
        rows.largest[half] = _mm512_set1_ps(-INFINITY);
        rows.sum[half] = _mm512_setzero_ps();
    }
    const int64_t first = first_block(h, row_block);
    for (int64_t key_block = first; key_block <= row_block; key_block += CHUNK) {
        forward_chunk(h, d, s, key_block, key_block == first, &rows, f);
    }
    finish_rows(op, h, d, s, &rows);
}

static void fetch_block(cpu_fetching *f, const head *h, int64_t block, const cpu_data *x, int64_t ld) {
    if (block * CPU_BLOCK < h->T) {
        fetch_rows(f, x + block * CPU_BLOCK * ld, ld, rows_of(h, block));
    }
}

// Prefetches y of this block of rows, and the source of packed block `block` of `next` if there is one.
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
    pace_fetching(&f, h, n_blocks * (1 + d.steps + d.channels));
    return f;
}

// A unit of work is every n_parts-th block of rows of a head: the whole head, if there are enough of them.
void ISA(cpu_flash_attention_forward)(const host_op *op, const cpu_team *team) {
    const sm_tensor *y = op->out_tensor[SM_OUT(flash_attention_forward, y)];
    const int64_t n_heads = y->dims[0] * op->op->attr.n_head;
    const int64_t n_parts = cpu_head_parts(team, n_heads, divide(y->dims[1], y->dims[2] / op->op->attr.n_head).blocks);
    const int64_t n_units = n_heads * n_parts;
    const cpu_data *qkv = op->in[SM_IN(flash_attention_forward, qkv)];
    int turn = 0;
    int64_t unit;
    cpu_product_begin();
    while ((unit = cpu_next_unit(team, n_units, &turn)) >= 0) {
        const head h = FIND_HEAD(flash_attention_forward, op, y, unit / n_parts);
        const head next = FIND_HEAD(flash_attention_forward, op, y, (unit + 1) / n_parts);
        division d = divide(h.T, h.HS);
        d.streams = leaves_caches(n_heads * h.T * h.HS, team->n_threads);
        const forward_scratch s = forward_carve(team->scratch[team->thread], d);
        int64_t n_packed = 0;
        for (int64_t row_block = unit % n_parts; row_block < d.blocks; row_block += n_parts) {
            for (; n_packed <= row_block; n_packed++) {
                pack_deep(&h, qkv + h.k_offset_elems, h.ld_qkv, n_packed, false,
                          s.keys + n_packed * d.steps * CPU_BLOCK_STEP);
                pack_across(&h, qkv + h.v_offset_elems, h.ld_qkv, n_packed, false, d.blocks * CPU_BLOCK_STEP,
                            s.values_t + n_packed * CPU_BLOCK_STEP);
            }
            const bool last = row_block + n_parts >= d.blocks;
            cpu_fetching f =
                last ? forward_fetching(op, &h, d, row_block, unit + 1 < n_units ? &next : NULL, (unit + 1) % n_parts)
                     : forward_fetching(op, &h, d, row_block, &h, row_block + n_parts);
            forward_block(op, &h, d, &s, row_block, &f);
        }
    }
    cpu_product_end();
    _mm_sfence(); // what was stored past the caches is seen by who passes the next barrier
}

// --- backward -------------------------------------------------------------------------

// Scratch of the backward pass: all of a head.
#define BACKWARD_AREAS(AREA)                                                                                           \
    AREA(cpu_packed, k, words_of_head(d))    /* blocks of a panel of a, HS deep */                                     \
    AREA(cpu_packed, v, words_of_head(d))    /* likewise */                                                            \
    AREA(cpu_packed, k_t, words_of_head(d))  /* for each block of channels a panel of a, all keys deep */              \
    AREA(cpu_packed, q_t, words_of_head(d))  /* blocks of a panel of b, HS deep */                                     \
    AREA(cpu_packed, dy_t, words_of_head(d)) /* likewise */                                                            \
    AREA(cpu_packed, q, words_of_head(d))    /* for each block of channels a panel of b, all rows deep */              \
    AREA(cpu_packed, dy, words_of_head(d))   /* likewise */                                                            \
    AREA(cpu_packed, weights,                                                                                          \
         (KEYS * d.blocks * CPU_BLOCK_STEP))                 /* for each block of keys a panel of a, all rows deep */  \
    AREA(cpu_packed, ds, (KEYS * d.blocks * CPU_BLOCK_STEP)) /* the same: gradients of scores */                       \
    AREA(cpu_packed, ds_pairs, (KEYS * CPU_BLOCK_STEP))      /* a panel of b (a block of rows), KEYS blocks deep */    \
    AREA(float, scores, (KEYS * CPU_BLOCK_SUMS))             /* KEYS of (keys, rows) */                                \
    AREA(float, da, (KEYS * CPU_BLOCK_SUMS))                 /* likewise */                                            \
    AREA(float, dk, (key_blocks * sums_of_block(d)))         /* blocks of channels (keys, channels) */                 \
    AREA(float, dv, (key_blocks * sums_of_block(d)))         /* likewise */                                            \
    AREA(float, dq_t, (d.blocks * sums_of_block(d))) /* for each block of rows, blocks of channels (channels, rows) */ \
    AREA(float, D, (d.blocks * CPU_BLOCK))           /* sum over channels of dy y */                                   \
    AREA(float, lse, (d.blocks * CPU_BLOCK))         /* times log2(e) */                                               \
    AREA(uint32_t, kept, (KEPT_BLOCKS * d.blocks * CPU_BLOCK)) /* KEPT_BLOCKS of all rows */
DEFINE_SCRATCH(backward, BACKWARD_AREAS, division d, int64_t key_blocks)

static int64_t group_of(const host_op *op) { return op->op->attr.n_head / op->op->attr.n_kv_head; }

// The blocks of keys whose gradients are kept: one or, where heads of a group add to them, all.
static int64_t key_blocks_of(const host_op *op, division d) { return group_of(op) > 1 ? d.blocks : 1; }

size_t ISA(cpu_flash_attention_backward_scratch)(const host_op *op, SM_UNUSED int n_threads) {
    const sm_tensor *y = op->in_tensor[SM_IN(flash_attention_backward, dy)];
    const division d = divide(y->dims[1], y->dims[2] / op->op->attr.n_head);
    return backward_scratch_bytes(d, key_blocks_of(op, d));
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
        pack_across(h, k, h->ld_qkv, block, false, apart, s->k_t + block * CPU_BLOCK_STEP);
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

// CPU_VECTOR rows, as backward needs them.
typedef struct {
    lanes at;
    __m512 lse;
    __m512 D;
    __m512i kept; // of a block of keys, bits
} backward_lanes;

static backward_lanes find_backward_lanes(const head *h, division d, const backward_scratch *s, int64_t key_block,
                                          int64_t t) {
    return (backward_lanes){
        .at = find_lanes(h, t),
        .lse = _mm512_loadu_ps(s->lse + t),
        .D = _mm512_loadu_ps(s->D + t),
        .kept = h->drops ? _mm512_loadu_si512(s->kept + key_block % KEPT_BLOCKS * d.blocks * CPU_BLOCK + t)
                         : _mm512_setzero_si512(),
    };
}

// Weights of key j of a block for CPU_VECTOR rows, after dropout, and gradients of scores, weight (da - D).
static inline __attribute__((always_inline)) void find_gradients(const head *h, backward_lanes rows, int64_t key_block,
                                                                 int64_t j, bool masked, const float *scores,
                                                                 const float *da, __m512 *weights, __m512 *ds) {
    const __m512 scale = _mm512_set1_ps(h->scale * LOG2_E);
    __m512 p = cpu_exp2_amx(_mm512_fmsub_ps(_mm512_loadu_ps(scores), scale, rows.lse));
    __m512 g = _mm512_loadu_ps(da);
    if (masked) {
        p = _mm512_maskz_mov_ps(find_seen(rows.at, key_block * CPU_BLOCK + j), p);
    }
    *weights = p;
    if (h->drops) {
        const __m512 factor = _mm512_set1_ps(h->dropout.scale);
        const __mmask16 kept = find_kept(rows.kept, j);
        *weights = _mm512_maskz_mul_ps(kept, p, factor);
        g = _mm512_maskz_mul_ps(kept, g, factor);
    }
    *ds = _mm512_mul_ps(p, _mm512_sub_ps(g, rows.D));
}

// A block of keys, one of the KEYS from first_keys on, against one of rows.
typedef struct {
    int64_t first_keys;
    int64_t keys;
    int64_t rows;
} pairing;

// Offset of the weights of a pairing.
static int64_t weights_at(division d, pairing at) {
    return ((at.keys - at.first_keys) * d.blocks + at.rows - at.keys) * CPU_BLOCK_STEP;
}

static int64_t scores_at(pairing at) { return (at.keys - at.first_keys) * CPU_BLOCK_SUMS; }

// Turns scores and da of a block into weights and ds, in the format in which they are multiplied.
static inline __attribute__((always_inline)) void score_gradients(const head *h, division d, const backward_scratch *s,
                                                                  pairing at, bool masked, cpu_fetching *f) {
    const backward_lanes rows[HALVES] = {find_backward_lanes(h, d, s, at.keys, at.rows * CPU_BLOCK),
                                         find_backward_lanes(h, d, s, at.keys, at.rows * CPU_BLOCK + CPU_VECTOR)};
    const float *scores = s->scores + scores_at(at);
    const float *da = s->da + scores_at(at);
    cpu_packed *weights = s->weights + weights_at(d, at);
    cpu_packed *ds = s->ds + weights_at(d, at);
    cpu_packed *ds_pairs = s->ds_pairs + (at.keys - at.first_keys) * CPU_BLOCK_STEP;
    for (int64_t j = 0; j < CPU_BLOCK; j += 2) {
        __m512 p[2][HALVES];
        __m512 g[2][HALVES];
        cpu_fetch(f);
        for (int i = 0; i < 2; i++) {
            for (int half = 0; half < HALVES; half++) {
                const int64_t place = (j + i) * CPU_BLOCK + half * CPU_VECTOR;
                find_gradients(h, rows[half], at.keys, j + i, masked, scores + place, da + place, &p[i][half],
                               &g[i][half]);
            }
            _mm512_storeu_si512(weights + (j + i) * CPU_AMX_PAIRS, cpu_round_beside(p[i][0], p[i][1]));
            _mm512_storeu_si512(ds + (j + i) * CPU_AMX_PAIRS, cpu_round_beside(g[i][0], g[i][1]));
        }
        for (int half = 0; half < HALVES; half++) {
            _mm512_storeu_si512(ds_pairs + half * CPU_AMX_WORDS + j / 2 * CPU_AMX_PAIRS,
                                cpu_round_pairs(g[0][half], g[1][half]));
        }
    }
}

// The keys, of the KEYS blocks from `first` on, of which some row of a block sees some.
static cpu_range keys_of(const head *h, division d, int64_t first, int64_t row_block) {
    const int64_t begin = first_block(h, row_block);
    return (cpu_range){begin > first ? begin : first, cpu_min64(cpu_min64(row_block + 1, d.blocks), first + KEYS)};
}

static void multiply_pairing(division d, const backward_scratch *s, pairing at, cpu_fetching *f) {
    const int64_t deep = d.steps * CPU_BLOCK_STEP;
    cpu_multiply_block(d.steps, s->k + at.keys * deep, CPU_BLOCK_STEP, s->q_t + at.rows * deep, false,
                       s->scores + scores_at(at), f);
    cpu_multiply_block(d.steps, s->v + at.keys * deep, CPU_BLOCK_STEP, s->dy_t + at.rows * deep, false,
                       s->da + scores_at(at), f);
}

// The sums of a block of rows over KEYS blocks of keys.
static void add_to_dq(const head *h, division d, const backward_scratch *s, int64_t first_keys, int64_t row_block,
                      cpu_fetching *f) {
    const cpu_range keys = keys_of(h, d, first_keys, row_block);
    for (int64_t c = 0; c < d.channels; c++) {
        cpu_multiply_block(keys.end - keys.first, s->k_t + (c * d.blocks + keys.first) * CPU_BLOCK_STEP, CPU_BLOCK_STEP,
                           s->ds_pairs + (keys.first - first_keys) * CPU_BLOCK_STEP,
                           keys.first > first_block(h, row_block),
                           s->dq_t + (row_block * d.channels + c) * CPU_BLOCK_SUMS, f);
    }
}

// KEYS blocks of keys against the rows that see some of them; ends[i]: after the last that see keys of block i.
static void backward_scores(const head *h, division d, const backward_scratch *s, int64_t first_keys,
                            int64_t ends[KEYS], cpu_fetching *f) {
    for (int64_t rows = first_keys; rows < d.blocks; rows++) {
        const cpu_range keys = keys_of(h, d, first_keys, rows);
        if (keys.first >= keys.end) {
            return;
        }
        for (int64_t i = keys.first; i < keys.end; i++) {
            multiply_pairing(d, s, (pairing){first_keys, i, rows}, f);
        }
        for (int64_t i = keys.first; i < keys.end; i++) {
            if (is_masked(h, i, rows)) {
                score_gradients(h, d, s, (pairing){first_keys, i, rows}, true, f);
            } else {
                score_gradients(h, d, s, (pairing){first_keys, i, rows}, false, f);
            }
            ends[i - first_keys] = rows + 1;
        }
        add_to_dq(h, d, s, first_keys, rows, f);
    }
}

// The gradients of a block of keys and values, from all its weights and ds. first, last: of the heads that share keys
// and values, which add to them.
static void backward_keys(const host_op *op, const head *h, division d, const backward_scratch *s, pairing at,
                          int64_t end, bool first, bool last, cpu_fetching *f) {
    cpu_data *dqkv = (cpu_data *)op->out[SM_OUT(flash_attention_backward, dqkv)] + at.keys * CPU_BLOCK * h->ld_qkv;
    const int64_t n_rows = rows_of(h, at.keys);
    for (int64_t c = 0; c < d.channels; c++) {
        const int64_t sums = ((first && last ? 0 : at.keys * d.channels) + c) * CPU_BLOCK_SUMS;
        const int64_t rows = (c * d.blocks + at.keys) * CPU_BLOCK_STEP;
        cpu_multiply_block(end - at.keys, s->weights + weights_at(d, at), CPU_BLOCK_STEP, s->dy + rows, !first,
                           s->dv + sums, f);
        cpu_multiply_block(end - at.keys, s->ds + weights_at(d, at), CPU_BLOCK_STEP, s->q + rows, !first, s->dk + sums,
                           f);
        if (last) {
            store_block(h, d, s->dk + sums, c, n_rows, h->scale, dqkv + h->k_offset_elems, h->ld_qkv);
            store_block(h, d, s->dv + sums, c, n_rows, 1.0f, dqkv + h->v_offset_elems, h->ld_qkv);
        }
    }
}

// Prefetches the memory that this head's gradients overwrite, and the source packed for `next` if there is one.
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
    for (int64_t block = 0; block < d.blocks; block += KEYS) {
        if (h->drops && block % KEPT_BLOCKS == 0) {
            for (int64_t t = block * CPU_BLOCK; t < h->T; t++) {
                decide_kept(h, t, block, s->kept + t, d.blocks * CPU_BLOCK);
            }
        }
        int64_t ends[KEYS] = {0};
        backward_scores(h, d, s, block, ends, f);
        for (int64_t i = 0; i < KEYS && block + i < d.blocks; i++) {
            const pairing at = {.first_keys = block, .keys = block + i, .rows = block + i};
            backward_keys(op, h, d, s, at, ends[i], first, last, f);
        }
    }
    cpu_data *dq = (cpu_data *)op->out[SM_OUT(flash_attention_backward, dqkv)] + h->q_offset_elems;
    const __m512 scale[HALVES] = {_mm512_set1_ps(h->scale), _mm512_set1_ps(h->scale)};
    for (int64_t block = 0; block < d.blocks; block++) {
        store_turned(h, d, s->dq_t + block * d.channels * CPU_BLOCK_SUMS, rows_of(h, block), scale,
                     dq + block * CPU_BLOCK * h->ld_qkv, h->ld_qkv);
    }
}

// A unit of work is a head of keys and values, with all heads of queries that share it.
void ISA(cpu_flash_attention_backward)(const host_op *op, const cpu_team *team) {
    const sm_tensor *dy = op->in_tensor[SM_IN(flash_attention_backward, dy)];
    const int64_t group = group_of(op);
    const int64_t n_units = dy->dims[0] * op->op->attr.n_kv_head;
    cpu_product_begin();
    int turn = 0;
    int64_t unit;
    while ((unit = cpu_next_unit(team, n_units, &turn)) >= 0) {
        for (int64_t index = unit * group; index < (unit + 1) * group; index++) {
            const head h = FIND_HEAD(flash_attention_backward, op, dy, index);
            const head next = FIND_HEAD(flash_attention_backward, op, dy, index + 1);
            division d = divide(h.T, h.HS);
            d.streams = leaves_caches(dy->dims[0] * h.T * h.ld_qkv, team->n_threads);
            const backward_scratch s = backward_carve(team->scratch[team->thread], d, key_blocks_of(op, d));
            cpu_fetching f = backward_fetching(op, &h, d, index + 1 < n_units * group ? &next : NULL);
            backward_head(op, &h, d, &s, index % group == 0, index % group == group - 1, &f);
        }
    }
    cpu_product_end();
    _mm_sfence(); // what was stored past the caches is seen by who passes the next barrier
}
