// philox.cl: random numbers, and dropout by them. It stands before every kernel file, and before kernels of a user's
// own, built with OWN_KERNEL.

// Philox4x32-10 (Salmon et al. 2011, section 3.3), as include/philox.h.
static inline uint4 philox(ulong key, ulong counter_low, ulong counter_high) {
    uint k0 = (uint)key;
    uint k1 = (uint)(key >> 32);
    uint4 c = (uint4)((uint)counter_low, (uint)(counter_low >> 32), (uint)counter_high, (uint)(counter_high >> 32));
    for (int round = 0; round < 10; round++) {
        const uint low0 = 0xD2511F53u * c.x;
        const uint high0 = mul_hi(0xD2511F53u, c.x);
        const uint low1 = 0xCD9E8D57u * c.z;
        const uint high1 = mul_hi(0xCD9E8D57u, c.z);
        c = (uint4)(high1 ^ c.y ^ k0, low1, high0 ^ c.w ^ k1, low0);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

static inline ulong micro_step(const global uint *rng_step) { return rng_step[0] | (ulong)rng_step[1] << 32; }

// The factor of element e of a tensor: 0 when dropped, `scale` = 1/(1 - p) when kept.
static inline float keep_factor(ulong key, ulong step, ulong e, uint threshold, float scale) {
    const uint4 words = philox(key, e / 4, step);
    const uint word = e % 4 == 0 ? words.x : e % 4 == 1 ? words.y : e % 4 == 2 ? words.z : words.w;
    return word >= threshold ? scale : 0.0f;
}

#ifdef OWN_KERNEL
// Dropout's parameters of a kernel, and its words in the body.
#define DROPOUT                                                                                             \
    const ulong dropout_key, const uint dropout_threshold, const float dropout_scale, const global uint *dropout_step, \
        const ulong dropout_step_at
#define KEEP(element)                                                                                                  \
    (dropout_threshold == 0 ? 1.0f                                                                                     \
                            : keep_factor(dropout_key, micro_step(dropout_step + dropout_step_at), element,            \
                                          dropout_threshold, dropout_scale))
#else
// Dropout of attention's weights: drawn only where threshold > 0.
typedef struct {
    ulong key, step;
    uint threshold;
    float scale;
} mask;

static inline mask make_mask(ulong key, uint threshold, float scale, const global uint *rng_step) {
    mask m;
    m.key = key;
    m.threshold = threshold;
    m.scale = scale;
    m.step = threshold > 0 ? micro_step(rng_step) : 0;
    return m;
}
#endif
