// adamw8bit.cl: AdamW whose moments are kept in 8 bits (Dettmers et al. 2022), in codes of the map that
// include/dynamic_map.h describes, times the largest of their block.
//
//   m = m_max map(m), v = v_max map(v);  as adamw;  m_max = max |m|, v_max = max v;  the nearest codes
//
// g, p (n), m, v (n) codes, m_max, v_max (blocks of 256); with `copied`, w = p. A block is shared by QUANT_ITEMS
// work-items, so many vecs each: on cards one, on processors all.
//
//   g, p, m, v  |block 0: item 0|item 1| ..|block 1: item 0| ... |last: a part|
//   m_max       |0                         |1              |
enum { LR8, BETA1_8, BETA2_8, EPS8, WEIGHT_DECAY8, BIAS_CORRECTION1_8, BIAS_CORRECTION2_8 }; // of enum sm_hyper

#define QUANT_BLOCK 256
#define QUANT_ZERO  127.0f // of the signed map
#if ROW_ITEMS == 1
#define QUANT_ITEMS 1
#else
#define QUANT_ITEMS (QUANT_BLOCK / VECTOR)
#endif
#define QUANT_VECS   (QUANT_BLOCK / VECTOR / QUANT_ITEMS)

// Codes are read and found by arithmetic, as tables would be looked up one by one. The bins of a decade are equal, so a
// number is linear in its rank there; and as each decade has twice as many, a rank's exponent tells its decade.
typedef struct {
    float first_bins; // of decade 0
    float n_ranks;    // but for zero and one
    float begin[7];   // from here on a number is nearest to one of this decade,
    float one;        // from here on to one
    float slope;      // ranks for a number's change by 1, in decade 0
} quant_map;

constant quant_map signed_map = {
    1.0f,        127.0f,      {2.75e-7f, 1.9e-6f, 1.45e-5f, 1.225e-4f, 1.1125e-3f, 1.05625e-2f, 1.028125e-1f},
    0.996484375f, 1.0f / 9e-7f,
};
constant quant_map unsigned_map = {
    2.0f,         254.0f,      {1.625e-7f, 1.45e-6f, 1.225e-5f, 1.1125e-4f, 1.05625e-3f, 1.028125e-2f, 1.0140625e-1f},
    0.9982421875f, 2.0f / 9e-7f,
};

// The number of a rank. A decade begins at a power of two, so that the exponent of a bin's place tells its decade d,
// and 10^d is a product of three factors; without its exponent the place is the bin's in the decade, from 1 to 2.
static inline vec quant_of_rank(constant quant_map *of, vec rank) {
    const vec place = rank + (of->first_bins - 0.5f);
    const ivec bits = as_ivec(place);
    const ivec d = (bits >> 23) - (of->first_bins == 1.0f ? 127 : 128);
    const vec ratio = as_vec((bits & 0x7FFFFF) | 0x3F800000);
    vec low = (d & 4) != 0 ? to_vec(1e-3f) : to_vec(1e-7f);
    low = (d & 2) != 0 ? low * 100.0f : low;
    low = (d & 1) != 0 ? low * 10.0f : low;
    const vec middle = low * (9.0f * ratio - 8.0f);
    return rank > to_vec(of->n_ranks) ? to_vec(1.0f) : rank > to_vec(0.0f) ? middle : to_vec(0.0f);
}

static inline vec quant_of_signed(vec code) {
    const vec rank = code - QUANT_ZERO;
    const vec size = quant_of_rank(&signed_map, fabs(rank));
    return rank < to_vec(0.0f) ? -size : size;
}

// Rank of the number in the map that is nearest to x, 0 <= x <= 1, with a fraction. The decade is found by halving;
// each has twice the bins of the one below and ten times the width.
static inline vec quant_rank(constant quant_map *of, vec x) {
    const ivec is_upper = x >= to_vec(of->begin[4]); // decades 4 to 6
    const vec second = is_upper ? to_vec(of->begin[6]) : to_vec(of->begin[2]);
    const ivec is_second = x >= second; // of the two pairs, or of a pair and decade 6
    const vec odd = is_second ? is_upper ? to_vec(2.0f) : to_vec(of->begin[3])
                              : is_upper ? to_vec(of->begin[5]) : to_vec(of->begin[1]);
    const ivec is_odd = x >= odd;
    vec slope = is_upper ? to_vec(of->slope * 0.0016f) : to_vec(of->slope);
    vec bins = is_upper ? to_vec(of->first_bins * 16.0f) : to_vec(of->first_bins);
    slope = is_second ? slope * 0.04f : slope;
    bins = is_second ? bins * 4.0f : bins;
    slope = is_odd ? slope * 0.2f : slope;
    bins = is_odd ? bins * 2.0f : bins;
    const vec last = 2.0f * bins - of->first_bins;
    vec rank = slope * x + ((8.0f / 9.0f) * bins + (1.0f - of->first_bins));
    rank = rank > last ? last : rank;
    rank = x >= to_vec(of->one) ? to_vec(of->n_ranks + 1.0f) : rank;
    return x >= to_vec(of->begin[0]) ? rank : to_vec(0.0f);
}

// There is no code for -1: the lowest is the middle of the last bin.
static inline vec quant_code_signed(vec x) {
    const vec rank = trunc(quant_rank(&signed_map, fabs(x)));
    const vec below = rank < to_vec(QUANT_ZERO) ? rank : to_vec(QUANT_ZERO);
    return x < to_vec(0.0f) ? QUANT_ZERO - below : QUANT_ZERO + rank;
}

// The first n codes, n > 0, as floats, then `fill`. The missing ones are replaced afterwards: llvmpipe (Mesa 22.3)
// computes wrongly with an array that a condition fills.
static inline vec load_codes(const global uchar *p, ulong n, float fill) {
#if VECTOR == 1
    return n > 0 ? (float)*p : fill;
#else
#ifdef WHOLE
    return JOIN(convert_float, VECTOR)(*(const global JOIN(uchar, VECTOR) *)p);
#endif
    if (n >= VECTOR) {
        return JOIN(convert_float, VECTOR)(JOIN(vload, VECTOR)(0, p));
    }
    float part[VECTOR];
    for (uint i = 0; i < VECTOR; i++) {
        part[i] = (float)p[min((ulong)i, n - 1)];
    }
    return keep_first(load(part), n, fill);
#endif
}

static inline void store_codes(vec code, global uchar *p, ulong n) {
#if VECTOR == 1
    if (n > 0) {
        *p = convert_uchar(code);
    }
#else
    const JOIN(uchar, VECTOR) bytes = JOIN(convert_uchar, VECTOR)(code);
#ifdef WHOLE
    *(global JOIN(uchar, VECTOR) *)p = bytes;
    return;
#endif
    if (n >= VECTOR) {
        JOIN(vstore, VECTOR)(bytes, 0, p);
        return;
    }
    uchar part[VECTOR];
    JOIN(vstore, VECTOR)(bytes, 0, part);
    for (uint i = 0; i < n; i++) {
        p[i] = part[i];
    }
#endif
}

// The largest of both of a block, for all its items.
#if QUANT_ITEMS == 1
#define BLOCK_SHARED(shared)
#define block_largest(both, shared) (both)
#else
#define BLOCK_SHARED(shared) local float2 shared[ROW_ITEMS]
static inline float2 block_largest(float2 both, local float2 *shared) {
    local float2 *mine = shared + get_local_id(1) * QUANT_ITEMS;
    const uint item = (uint)get_local_id(0);
    mine[item] = both;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_items = QUANT_ITEMS / 2; half_items > 0; half_items /= 2) {
        if (item < half_items) {
            mine[item] = fmax(mine[item], mine[item + half_items]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return mine[0];
}
#endif

static inline float quant_inverse(float largest) { return largest > 0.0f ? 1.0f / largest : 0.0f; }

kernel void adamw8bit(ulong n, uint decays, IN(float, g), IN(float, hyper), IN(float, clip), OUT(float, p),
                      OUT(uchar, m), OUT(uchar, v), OUT(float, m_max), OUT(float, v_max), uint copied, OUT(data, w)) {
    BLOCK_SHARED(shared);
    const uint item = (uint)get_local_id(0);
    const ulong block = get_global_id(1);
    const ulong first = block * QUANT_BLOCK;
    const bool is_kept = clip[clip_at] < 0; // the step is skipped
    // None where there is no block, too: all items of a group meet at its barriers.
    const ulong n_here = first < n && !is_kept ? min(n - first, (ulong)QUANT_BLOCK) : 0;
    const global float *h = hyper + hyper_at;
    const float beta1 = h[BETA1_8];
    const float beta2 = h[BETA2_8];
    const float keep = 1.0f - h[LR8] * h[WEIGHT_DECAY8] * decays;
    const float step = h[LR8] / h[BIAS_CORRECTION1_8];
    const float root = 1.0f / sqrt(h[BIAS_CORRECTION2_8]);
    const float m_scale = n_here > 0 ? beta1 * m_max[m_max_at + block] : 0.0f;
    const float v_scale = n_here > 0 ? beta2 * v_max[v_max_at + block] : 0.0f;
    vec mean[QUANT_VECS];
    vec square[QUANT_VECS];
    vec m_largest = to_vec(0.0f);
    vec v_largest = to_vec(0.0f);
    for (uint k = 0; k < QUANT_VECS; k++) {
        const ulong here = (ulong)(k * QUANT_ITEMS + item) * VECTOR;
        if (here < n_here) {
            const ulong left = n_here - here;
            const ulong i = first + here;
            const vec gradient = clip[clip_at] * load_part(g + g_at + i, left, 0.0f);
            mean[k] = m_scale * quant_of_signed(load_codes(m + m_at + i, left, QUANT_ZERO)) + (1.0f - beta1) * gradient;
            square[k] = v_scale * quant_of_rank(&unsigned_map, load_codes(v + v_at + i, left, 0.0f)) +
                        (1.0f - beta2) * gradient * gradient;
            const vec moved = keep * load_part(p + p_at + i, left, 0.0f) -
                              step * mean[k] / (sqrt(square[k]) * root + h[EPS8]);
            store_part(moved, p + p_at + i, left);
            if (copied) {
                store_data_part(moved, w + w_at + i, left);
            }
            m_largest = fmax(m_largest, fabs(mean[k]));
            v_largest = fmax(v_largest, square[k]);
        }
    }
    const float2 largest = block_largest((float2)(largest_of(m_largest), largest_of(v_largest)), shared);
    const float m_inverse = quant_inverse(largest.x);
    const float v_inverse = quant_inverse(largest.y);
    for (uint k = 0; k < QUANT_VECS; k++) {
        const ulong here = (ulong)(k * QUANT_ITEMS + item) * VECTOR;
        if (here < n_here) {
            store_codes(quant_code_signed(mean[k] * m_inverse), m + m_at + first + here, n_here - here);
            store_codes(quant_rank(&unsigned_map, square[k] * v_inverse), v + v_at + first + here, n_here - here);
        }
    }
    if (item == 0 && n_here > 0) {
        m_max[m_max_at + block] = largest.x;
        v_max[v_max_at + block] = largest.y;
    }
}
