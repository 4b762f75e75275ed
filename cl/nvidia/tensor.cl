// tensor.cl: names for the instructions of NVIDIA's matrix units (PTX ISA, sections "Warp-level matrix instructions"
// and "Asynchronous copy"), for the kernels of family `tensor`. The host puts it after prelude.cl.
//
// A warp is 32 work-items side by side of a work-group, of one dimension: LANE is the place in it. All items of a warp
// execute these functions together. Addresses in local memory are 32 bits wide. Fragments, the parts of a matrix that
// each item of a warp has, are described once, with row = LANE / 4 and pair = LANE % 4:
//
//   A (16 x 16 of 16 bits; 16 x 8 of tf32), four words   (row, 2 pair..)  (row + 8, 2 pair..)  (row, 2 pair + 8..)  (row + 8, 2 pair + 8..)
//                                          of tf32       (row, pair)      (row + 8, pair)      (row, pair + 4)      (row + 8, pair + 4)
//   B (16 x 8; 8 x 8 of tf32), two words                 (2 pair.., row)  (2 pair + 8.., row)
//                                          of tf32       (pair, row)      (pair + 4, row)
//   C (16 x 8), four floats                              (row, 2 pair)    (row, 2 pair + 1)    (row + 8, 2 pair)    (row + 8, 2 pair + 1)

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

#define WARP 32
#define LANE ((uint)get_local_id(0) % WARP)
#define MY_WARP ((uint)get_local_id(0) / WARP)

static inline uint local_address(const local void *p) { return (uint)(ulong)p; }

// --- from global to local memory, beside the computation ------------------------------------------------

// 16 bytes; both addresses are multiples of 16.
static inline void copy16_async(uint to, const global void *from) {
    __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Copies the first n_bytes of 16 bytes; fills the rest with zeros.
static inline void copy16_async_part(uint to, const global void *from, uint n_bytes) {
    __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(n_bytes) : "memory");
}

// Ends a group of copies of this work-item; waits until at most `n_groups` (a literal number) are on their way.
static inline void copy_async_commit(void) { __asm__ volatile("cp.async.commit_group;" ::: "memory"); }
#define copy_async_wait(n_groups) __asm__ volatile("cp.async.wait_group " TEXT(n_groups) ";" ::: "memory")

// --- fragments ------------------------------------------------------------------------------------------

// Four 8 x 8 matrices of 16 bits. The address is that of row LANE % 8 (16 bytes) of matrix LANE / 8; word i is of matrix
// i, and has the elements (LANE / 4, 2 (LANE % 4)) and the next. The same instruction reads 8 x 4 words of 32 bits.
static inline void load_matrices(uint x[4], uint address) {
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                     : "r"(address)
                     : "memory");
}

// Each matrix transposed.
static inline void load_matrices_transposed(uint x[4], uint address) {
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                     : "r"(address)
                     : "memory");
}

// Stores such matrices, from such words (sm_90).
static inline void store_matrices(uint address, const uint x[4]) {
    __asm__ volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x[0]),
                     "r"(x[1]), "r"(x[2]), "r"(x[3])
                     : "memory");
}

// The value of another item of the warp.
static inline float from_lane(float x, uint lane) {
    float y;
    __asm__ volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(y) : "f"(x), "r"(lane));
    return y;
}

// The value of the warp's first item, and so the same for all.
static inline uint first_lane(uint x) {
    uint y;
    __asm__ volatile("shfl.sync.idx.b32 %0, %1, 0, 0x1f, 0xffffffff;" : "=r"(y) : "r"(x));
    return y;
}

static inline uint load_word(uint address) {
    uint x;
    __asm__ volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
    return x;
}

// Two floats side by side, at an address and a literal number.
#define load_two(x, address, offset)                                                                              \
    __asm__ volatile("ld.shared.v2.f32 {%0, %1}, [%2+" #offset "];" : "=f"((x)[0]), "=f"((x)[1]) : "r"(address) : "memory")
#define store_two(x, address, offset)                                                                             \
    __asm__ volatile("st.shared.v2.f32 [%0+" #offset "], {%1, %2};" ::"r"(address), "f"((x)[0]), "f"((x)[1]) : "memory")

// Two floats as a word of two 16-bit numbers, each rounded to nearest even; `low` comes first in memory.
#if !(defined(DATA_BF16) && defined(PACKS_BF16)) // else it is there already
static inline uint pack_bf16(float low, float high) {
    uint x;
    __asm__("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
    return x;
}
#endif

static inline uint pack_f16(float low, float high) {
    uint x;
    __asm__("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
    return x;
}

static inline float2 unpack_f16(uint x) {
    float2 y;
    __asm__("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
            : "=f"(y.x), "=f"(y.y)
            : "r"(x));
    return y;
}

// Two floats as bytes, each rounded to nearest even, at most the format's largest; `low` comes first in memory (sm_89).
#define PACK_BYTES(format)                                                                                        \
    __asm__("{ .reg .b16 two; cvt.rn.satfinite." format "x2.f32 two, %1, %2; cvt.u32.u16 %0, two; }"              \
            : "=r"(x)                                                                                             \
            : "f"(high), "f"(low))
static inline uint pack_bytes(float low, float high, bool is_e5m2) {
    uint x;
    if (is_e5m2) {
        PACK_BYTES("e5m2");
    } else {
        PACK_BYTES("e4m3");
    }
    return x;
}

// Four of two words' bytes by their numbers, four bits each, the lowest first.
static inline uint pick_bytes(uint a, uint b, uint numbers) {
    uint x;
    __asm__("prmt.b32 %0, %1, %2, %3;" : "=r"(x) : "r"(a), "r"(b), "r"(numbers));
    return x;
}

// A float in tf32, rounded to nearest: the units cut off what is below its 10 bits.
static inline uint round_tf32(float x) {
    uint y;
    __asm__("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}

// Two bf16 as floats.
static inline float2 unpack_bf16(uint x) { return (float2)(as_float(x << 16), as_float(x & 0xFFFF0000u)); }

// GELU and its derivative as in cl/prelude.cl, by the card's own 2^x and 1/x, of four numbers at a time: one reciprocal
// of the product of four denominators serves for all, since such instructions are an eighth as fast as others. The
// exponent ends at 30, so that the product is finite: below that, 1/(1 + e^x) is 1e-9 instead of less.
__attribute__((always_inline)) static inline void quick_sigmoids(float s[4], const float minus_x_log2[4]) {
    float d[4];
    float r;
    UNROLLED for (uint i = 0; i < 4; i++) {
        float e;
        __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(fmin(minus_x_log2[i], 30.0f)));
        d[i] = 1.0f + e;
    }
    const float low = d[0] * d[1];
    const float high = d[2] * d[3];
    __asm__("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(low * high));
    const float r_low = r * high; // 1 / (d0 d1)
    const float r_high = r * low;
    s[0] = r_low * d[1];
    s[1] = r_low * d[0];
    s[2] = r_high * d[3];
    s[3] = r_high * d[2];
}

// -2u log2(e), with u = sqrt(2/pi) (x + 0.044715 x^3)
static inline float minus_2u_log2(float x) { return x * (-2.3022082f - 0.10294324f * x * x); }

__attribute__((always_inline)) static inline void quick_gelus(float y[4], const float x[4]) {
    float u[4];
    UNROLLED for (uint i = 0; i < 4; i++) {
        u[i] = minus_2u_log2(x[i]);
    }
    quick_sigmoids(y, u);
    UNROLLED for (uint i = 0; i < 4; i++) {
        y[i] *= x[i];
    }
}

// s + x 2u' s (1 - s)
__attribute__((always_inline)) static inline void quick_gelu_slopes(float y[4], const float wide_x[4]) {
    float x[4];
    float u[4];
    float s[4];
    UNROLLED for (uint i = 0; i < 4; i++) {
        x[i] = fmin(fmax(wide_x[i], -20.0f), 20.0f);
        u[i] = minus_2u_log2(x[i]);
    }
    quick_sigmoids(s, u);
    UNROLLED for (uint i = 0; i < 4; i++) {
        y[i] = s[i] + x[i] * (1.5957691216057308f + 0.2140644488f * x[i] * x[i]) * (s[i] - s[i] * s[i]);
        y[i] = wide_x[i] == wide_x[i] ? y[i] : wide_x[i]; // NaN stays
    }
}

// The others, of include/activation.h: quick_NAMEs and quick_NAME_slopes.
#define X(CODE, name, f, slope)                                                                                \
    __attribute__((always_inline)) static inline void quick_##name##s(float y[4], const float x_of[4]) {       \
        for (uint i = 0; i < 4; i++) {                                                                         \
            const float x = x_of[i];                                                                           \
            const float p = x < 0.0f ? 0.0f : x;                                                               \
            y[i] = f;                                                                                          \
        }                                                                                                      \
    }                                                                                                          \
    __attribute__((always_inline)) static inline void quick_##name##_slopes(float y[4], const float x_of[4]) { \
        for (uint i = 0; i < 4; i++) {                                                                         \
            const float x = x_of[i];                                                                           \
            const float p = x < 0.0f ? 0.0f : x;                                                               \
            y[i] = slope;                                                                                      \
        }                                                                                                      \
    }
SM_ACTIVATION_PAIRS(X)
#undef X

#define JOINED3_NOW(a, b, c)    a##b##c
#define JOINED3(a, b, c)        JOINED3_NOW(a, b, c)
#define quick_activations(y, x) JOINED3(quick_, ACTIVATION, s)(y, x)
#define quick_slopes(y, x)      JOINED3(quick_, ACTIVATION, _slopes)(y, x)

// --- c += a b -------------------------------------------------------------------------------------------

static inline void multiply_bf16(float c[4], const uint a[4], uint b0, uint b1) {
    __asm__ volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                     "{%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static inline void multiply_f16(float c[4], const uint a[4], uint b0, uint b1) {
    __asm__ volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                     "{%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static inline void multiply_tf32(float c[4], const uint a[4], uint b0, uint b1) {
    __asm__ volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                     "{%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// --- within a warp ------------------------------------------------------------------------------------

// The value of item LANE ^ other.
static inline float exchange(float x, uint other) {
    float y;
    __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(y) : "f"(x), "r"(other));
    return y;
}

// Whether it is so for any item of the warp.
static inline bool is_any(bool x) {
    uint y;
    __asm__ volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0; vote.sync.any.pred q, p, 0xffffffff; selp.u32 %0, 1, 0, q; }"
                     : "=r"(y)
                     : "r"((uint)x));
    return y != 0;
}

static inline void wait_for_warp(void) { __asm__ volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

// 2^x with a relative error below 2^-22; 0 for results below 2^-126.
static inline float fast_exp2(float x) {
    float y;
    __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// A word of two 16-bit numbers, or one of tf32, with random signs and digits, of sizes from 2^-7 to 2^-6.
static inline uint random_numbers(uint seed) {
    const uint digits = philox(0, seed, 0).x;
#if defined(DATA_F16)
    return (digits & 0x83FF83FFu) | 0x20002000u;
#elif defined(FP8_A)
    return (digits & 0x87878787u) | 0x30303030u;
#elif defined(DATA_BF16)
    return (digits & 0x807F807Fu) | 0x3C003C00u;
#else
    return (digits & 0x807FE000u) | 0x3C000000u;
#endif
}
