// adamw8bit.cl: AdamW whose moments are kept in 8 bits (Dettmers et al. 2022), in codes of the map that
// include/dynamic_map.h describes, times the largest of their block.
//
//   m = m_max map(m), v = v_max map(v);  as adamw;  m_max = max |m|, v_max = max v;  the nearest codes
//
// g, p (n), m, v (n) codes, m_max, v_max (blocks); with `copied`, w = p. A row is a block of 256:
//
//   g, p, m, v  |block 0: 256    |block 1         | ... |last: a part|
//   m_max       |0               |1               |
enum { LR8, BETA1_8, BETA2_8, EPS8, WEIGHT_DECAY8, BIAS_CORRECTION1_8, BIAS_CORRECTION2_8 }; // of enum sm_hyper

#define QUANT_BLOCK 256
#define QUANT_MINE ((QUANT_BLOCK + ROW_ITEMS - 1) / ROW_ITEMS) // of a block, an item's
#define QUANT_ZERO 127                                         // of the signed map

// Where a decade begins; the first has `bins` bins, each further one twice as many.
constant float decade[8] = {1e-7f, 1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f};

// 0, then the middles of the bins, then 1.
static inline float quant_of_rank(uint first_bins, uint rank) {
    const uint place = max(rank, 1u) + first_bins - 1; // a decade's begins at a power of two
    const uint exponent = 31 - clz(place);
    const uint d = exponent + 1 - first_bins;
    const float bins = (float)(1u << exponent);
    const float middle = decade[d] * (1.0f + 9.0f * ((float)place - bins + 0.5f) / bins);
    return rank == 0 ? 0.0f : d > 6 ? 1.0f : middle;
}

static inline float quant_signed(uchar code) {
    return code < QUANT_ZERO ? -quant_of_rank(1, QUANT_ZERO - code) : quant_of_rank(1, code - QUANT_ZERO);
}

// Rank of the number nearest to x, 0 <= x <= 1: between two decades, and around 0 and 1, the border is half-way.
static inline uint quant_rank(uint first_bins, float x) {
    uint bins = first_bins;
    uint d = 0;
    while (d < 6 && x >= decade[d + 1] * (1.0f + 0.9f / (float)bins)) {
        d++;
        bins *= 2;
    }
    const uint bin = min((uint)fmax((x / decade[d] - 1.0f) * ((float)bins / 9.0f), 0.0f), bins - 1);
    const bool is_one = x >= 1.0f - 0.225f / (float)(64 * first_bins);
    const bool is_zero = x < 0.5f * decade[0] * (1.0f + 4.5f / (float)first_bins);
    return is_zero ? 0 : is_one ? 127 * first_bins + 1 : bins - first_bins + 1 + bin;
}

// There is no code for -1: the lowest is the middle of the last bin.
static inline uchar quant_code_signed(float x) {
    const uint rank = quant_rank(1, fabs(x));
    return (uchar)(x < 0 ? QUANT_ZERO - min(rank, (uint)QUANT_ZERO) : QUANT_ZERO + rank);
}

kernel void adamw8bit(ulong n, float decay, const global float *g, ulong g_at, const global float *hyper,
                      ulong hyper_at, const global float *clip, ulong clip_at, global float *p, ulong p_at,
                      global uchar *m, ulong m_at, global uchar *v, ulong v_at, global float *m_max, ulong m_max_at,
                      global float *v_max, ulong v_max_at, uint copied, global data *w, ulong w_at) {
    ROW_SHARED(shared);
    const ulong block = MY_ROW;
    const ulong first = block * QUANT_BLOCK;
    if (first >= n) {
        return;
    }
    const ulong n_here = min(n - first, (ulong)QUANT_BLOCK);
    const global float *h = hyper + hyper_at;
    const float m_scale = m_max[m_max_at + block];
    const float v_scale = v_max[v_max_at + block];
    float mean[QUANT_MINE];
    float square[QUANT_MINE];
    float m_largest = 0;
    float v_largest = 0;
    FOR_MINE(i, n_here, 1) {
        const ulong k = i / ROW_ITEMS;
        const float gradient = clip[clip_at] * g[g_at + first + i];
        mean[k] = h[BETA1_8] * m_scale * quant_signed(m[m_at + first + i]) + (1.0f - h[BETA1_8]) * gradient;
        square[k] = h[BETA2_8] * v_scale * quant_of_rank(2, v[v_at + first + i]) +
                    (1.0f - h[BETA2_8]) * gradient * gradient;
        const float root = sqrt(square[k] / h[BIAS_CORRECTION2_8]) + h[EPS8];
        const float shrunk = p[p_at + first + i] * (1.0f - h[LR8] * h[WEIGHT_DECAY8] * decay);
        const float moved = shrunk - h[LR8] * (mean[k] / h[BIAS_CORRECTION1_8]) / root;
        p[p_at + first + i] = moved;
        if (copied) {
            w[w_at + first + i] = narrow(moved);
        }
        m_largest = fmax(m_largest, fabs(mean[k]));
        v_largest = fmax(v_largest, square[k]);
    }
    m_largest = row_largest(m_largest, shared);
    v_largest = row_largest(v_largest, shared);
    const float m_inverse = m_largest > 0 ? 1.0f / m_largest : 0.0f;
    const float v_inverse = v_largest > 0 ? 1.0f / v_largest : 0.0f;
    FOR_MINE(i, n_here, 1) {
        m[m_at + first + i] = quant_code_signed(mean[i / ROW_ITEMS] * m_inverse);
        v[v_at + first + i] = (uchar)quant_rank(2, square[i / ROW_ITEMS] * v_inverse);
    }
    if (MY_ITEM == 0) {
        m_max[m_max_at + block] = m_largest;
        v_max[v_max_at + block] = v_largest;
    }
}
