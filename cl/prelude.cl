// prelude.cl: what every kernel file begins with: a vector type of the device's width, the plan's data type, exp,
// GELU, reductions over a row. The host puts it, and philox.cl, before each of the other files.
//
// A kernel gets each tensor as two parameters: the buffer that holds it, and where it begins there, in elements, since
// sub-buffers would have to be aligned. IN(data, x) is `const global data *x, ulong x_at`; OUT is for tensors that the
// kernel writes. Indices that can pass 2^31 are ulong.
#define IN(type, x)  const global type *x, ulong x##_at
#define OUT(type, x) global type *x, ulong x##_at

#ifndef VECTOR
#define VECTOR 4 // floats in a `vec`: 1, 4, 8 or 16; what a work-item handles at a time
#endif

#if defined(WHOLE) && !defined(OF_FLOATS) && (defined(DATA_BF16) || defined(DATA_F16))
#undef VECTOR
#define VECTOR 8 // 16 bytes of data; OF_FLOATS, of an op on floats alone, keeps 16 bytes of these
#endif

#ifdef ROW_ITEMS_HERE // as a program is built for short rows, or for few at a time
#undef ROW_ITEMS
#define ROW_ITEMS ROW_ITEMS_HERE
#endif
#ifndef ROW_ITEMS
#define ROW_ITEMS 1 // work-items that share a row of a matrix: 1 on processors, a work-group on GPUs
#endif
#ifndef GROUP_ROWS
#define GROUP_ROWS 1 // rows that a work-group shares out at a time: several, where they are short
#endif

// Whether neighbours in memory of a product's operand differ in k.
#ifdef A_TRANSPOSED
#define A_ALONG_K 0
#else
#define A_ALONG_K 1
#endif
#ifdef B_TRANSPOSED
#define B_ALONG_K 1
#else
#define B_ALONG_K 0
#endif

#pragma OPENCL FP_CONTRACT ON

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

#if VECTOR == 1
typedef float vec;
typedef int ivec;
#define load(p) (*(p))
#define store(x, p) (*(p) = (x))
#define to_vec(x) (x)
#define as_vec(x) as_float(x)
#define as_ivec(x) as_int(x)
#else
typedef JOIN(float, VECTOR) vec;
typedef JOIN(int, VECTOR) ivec;
#if ROW_ITEMS > 1
#define load(p) JOIN(vload, VECTOR)(0, p)
#define store(x, p) JOIN(vstore, VECTOR)(x, 0, p)
#else // for PoCL: its vload is a call (6.0), its vstore of 16 floats three stores (3.1)
typedef vec unaligned_vec __attribute__((aligned(4)));
#define overloaded static inline __attribute__((overloadable))
#define LOAD_AND_STORE(space)                                                              \
    overloaded vec load(const space float *p) { return *(const space unaligned_vec *)p; } \
    overloaded void store(vec x, space float *p) { *(space unaligned_vec *)p = x; }
LOAD_AND_STORE(global)
LOAD_AND_STORE(local)
LOAD_AND_STORE(private)
#endif
#define to_vec(x) ((vec)(x))
#define as_vec(x) JOIN(as_float, VECTOR)(x)
#define as_ivec(x) JOIN(as_int, VECTOR)(x)
#endif

// a b + c, rounded once where the device does that at full speed
#ifdef FP_FAST_FMAF
#define multiply_add(a, b, c) fma(a, b, c)
#else
#define multiply_add(a, b, c) ((a) * (b) + (c))
#endif

// Asks a processor for the cache line at p, which need not be in an array. (PoCL drops OpenCL's prefetch; where its
// compiler compiles for the processor itself, this is its instruction.)
#if ROW_ITEMS == 1 && (defined(__x86_64__) || defined(__aarch64__))
#define ask(p) __builtin_prefetch(p)
#else
#define ask(p) ((void)(p))
#endif

// Element (row, 0) of a matrix.
static inline ulong row_start(ulong row, ulong n_cols) { return row * n_cols; }

// Before a loop over an array that is to be in registers.
#define UNROLLED _Pragma("unroll")

// --- the data type -------------------------------------------------------------------------------
// Activations, their gradients and what products read are `data`, as the plan stores them: float, or with DATA_BF16
// or DATA_F16 the 16 bits of such a number. All arithmetic is in float: `widen` is exact, and `narrow` rounds to
// nearest even, when a result is stored. Both also take 4 at once (widen4) and a vec (widen_vec). All other operands
// are float in every plan; a product's result is `result`: data, or with C_REAL float.

#if defined(DATA_BF16) || defined(DATA_F16)
#define DATA_IS_NARROW 1
typedef ushort data;
typedef ushort4 data4;
#else
#define DATA_IS_NARROW 0
typedef float data;
typedef float4 data4;
#endif

#if defined(DATA_F16)
// Through memory: numbers of type half are optional in OpenCL, their loads and stores are not.
#define CONVERSIONS(n)                                                                                 \
    static inline JOIN(float, n) JOIN(widen, n)(JOIN(ushort, n) x) {                                   \
        return JOIN(vload_half, n)(0, (const half *)&x);                                               \
    }                                                                                                  \
    static inline JOIN(ushort, n) JOIN(narrow, n)(JOIN(float, n) x) {                                  \
        JOIN(ushort, n) bits;                                                                          \
        JOIN(JOIN(vstore_half, n), _rte)(x, 0, (half *)&bits);                                         \
        return bits;                                                                                   \
    }
#elif defined(DATA_BF16)
// The upper half of a float. Adding just under half of the last place that is kept, and that place's own bit, carries
// exactly when it should. A NaN stays one, by its quiet bit.
#define CONVERSIONS(n)                                                                                 \
    static inline JOIN(float, n) JOIN(widen, n)(JOIN(ushort, n) x) {                                   \
        return JOIN(as_float, n)(JOIN(convert_uint, n)(x) << 16);                                      \
    }                                                                                                  \
    static inline JOIN(ushort, n) JOIN(narrow, n)(JOIN(float, n) x) {                                  \
        const JOIN(uint, n) bits = JOIN(as_uint, n)(x);                                                \
        const JOIN(uint, n) nearest = bits + 0x7FFFu + (bits >> 16 & 1u);                              \
        const JOIN(uint, n) quiet = bits | 0x400000u;                                                  \
        return JOIN(convert_ushort, n)(((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : nearest) >> 16);  \
    }
#endif
#if defined(DATA_BF16) && defined(PACKS_BF16) // the device has an instruction for two: as a family of kernels knows
// The nearest bf16 of two floats, ties to even; `low` comes first in memory.
static inline uint pack_bf16(float low, float high) {
    uint x;
    __asm__("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
    return x;
}
static inline float widen(ushort x) { return as_float((uint)x << 16); }
static inline ushort narrow(float x) { return (ushort)pack_bf16(x, 0.0f); }
static inline float4 widen4(ushort4 x) { return as_float4(convert_uint4(x) << 16); }
static inline ushort4 narrow4(float4 x) { return as_ushort4((uint2)(pack_bf16(x.x, x.y), pack_bf16(x.z, x.w))); }
#if VECTOR == 8
// The lower half of a word comes first.
static inline float8 widen8(ushort8 x) {
    const uint4 words = as_uint4(x);
    const uint4 low = words << 16;
    const uint4 high = words & 0xFFFF0000u;
    return as_float8((uint8)(low.x, high.x, low.y, high.y, low.z, high.z, low.w, high.w));
}
static inline ushort8 narrow8(float8 x) {
    return as_ushort8((uint4)(pack_bf16(x.s0, x.s1), pack_bf16(x.s2, x.s3), pack_bf16(x.s4, x.s5), pack_bf16(x.s6, x.s7)));
}
#elif VECTOR == 16
CONVERSIONS(16)
#endif
#elif DATA_IS_NARROW
CONVERSIONS()
CONVERSIONS(4)
#if VECTOR > 4
CONVERSIONS(VECTOR)
#endif
#else
#define widen(x) (x)
#define narrow(x) (x)
#define widen4(x) (x)
#define narrow4(x) (x)
#endif

#if !DATA_IS_NARROW
#define load_data(p) load(p)
#define store_data(x, p) store(x, p)
#elif VECTOR == 1
#define load_data(p) widen(*(p))
#define store_data(x, p) (*(p) = narrow(x))
#else
// Not vload and vstore: as for load. PoCL's vstore stores 16-bit elements one after the other.
typedef JOIN(ushort, VECTOR) unaligned_codes __attribute__((aligned(2)));
#if ROW_ITEMS > 1
#define load_data(p) JOIN(widen, VECTOR)(JOIN(vload, VECTOR)(0, p))
#else
#define load_data(p) JOIN(widen, VECTOR)(*(const global unaligned_codes *)(p))
#endif
#define store_data(x, p) (*(global unaligned_codes *)(p) = JOIN(narrow, VECTOR)(x))
#endif

#if DATA_IS_NARROW && !defined(C_REAL)
typedef data result;
typedef data4 result4;
#define widen_result(x) widen(x)
#define widen_result4(x) widen4(x)
#define narrow_result(x) narrow(x)
#define narrow_result4(x) narrow4(x)
#else
typedef float result;
typedef float4 result4;
#define widen_result(x) (x)
#define widen_result4(x) (x)
#define narrow_result(x) (x)
#define narrow_result4(x) (x)
#endif

// load_part: the first n elements at p, where a whole vec may not be there; the rest is `fill`. store_part: likewise.
// load_data_part and store_data_part: the same of data; store_result_part: of results. With WHOLE, as a program is
// built for ops whose rows are of whole vecs that begin at multiples of their size, all are there, and move at once.
#if defined(WHOLE) && VECTOR > 1
#define PARTS(load_part, store_part, element, load_all, store_all, widen, narrow)                                    \
    static inline vec load_part(const global element *p, ulong n, float fill) {                                      \
        (void)n;                                                                                                     \
        (void)fill;                                                                                                  \
        return JOIN(widen, VECTOR)(*(const global JOIN(element, VECTOR) *)p);                                        \
    }                                                                                                                \
    static inline void store_part(vec x, global element *p, ulong n) {                                               \
        (void)n;                                                                                                     \
        *(global JOIN(element, VECTOR) *)p = JOIN(narrow, VECTOR)(x);                                                \
    }
#elif VECTOR == 1
#define PARTS(load_part, store_part, element, load, store, widen, narrow)                   \
    static inline vec load_part(const global element *p, ulong n, float fill) {             \
        return n > 0 ? load(p) : fill;                                                      \
    }                                                                                       \
    static inline void store_part(vec x, global element *p, ulong n) {                      \
        if (n > 0) {                                                                        \
            store(x, p);                                                                    \
        }                                                                                   \
    }
#else
#define PARTS(load_part, store_part, element, load_all, store_all, widen, narrow)           \
    static inline vec load_part(const global element *p, ulong n, float fill) {             \
        if (n >= VECTOR) {                                                                  \
            return load_all(p);                                                             \
        }                                                                                   \
        float part[VECTOR];                                                                 \
        for (uint i = 0; i < VECTOR; i++) {                                                 \
            part[i] = i < n ? widen(p[i]) : fill;                                           \
        }                                                                                   \
        return load(part);                                                                  \
    }                                                                                       \
    static inline void store_part(vec x, global element *p, ulong n) {                      \
        if (n >= VECTOR) {                                                                  \
            store_all(x, p);                                                                \
            return;                                                                         \
        }                                                                                   \
        float part[VECTOR];                                                                 \
        store(x, part);                                                                     \
        for (uint i = 0; i < n; i++) {                                                      \
            p[i] = narrow(part[i]);                                                         \
        }                                                                                   \
    }
#endif
// A vec of data as it lies, whole: what is on its way to be widened later.
#if defined(WHOLE) && VECTOR > 1
#if DATA_IS_NARROW
typedef JOIN(ushort, VECTOR) raw_vec;
#define widen_raw(x) JOIN(widen, VECTOR)(x)
#else
typedef vec raw_vec;
#define widen_raw(x) (x)
#endif
#define load_raw(p) (*(const global raw_vec *)(p))
#endif
#define same(x) (x)
#define same4(x) (x)
#define same8(x) (x)
PARTS(load_part, store_part, float, load, store, same, same)
#if DATA_IS_NARROW
PARTS(load_data_part, store_data_part, ushort, load_data, store_data, widen, narrow)
#else
#define load_data_part(p, n, fill) load_part(p, n, fill)
#define store_data_part(x, p, n) store_part(x, p, n)
#endif
#if DATA_IS_NARROW && !defined(C_REAL)
#define store_result_part(x, p, n) store_data_part(x, p, n)
#else
#define store_result_part(x, p, n) store_part(x, p, n)
#endif

// add_rows: the vecs at p, p + step, .. of n rows added up, some loaded at a time; `left` elements of a row are there.
// add_data_rows: the same of data.
#define ROWS_AT_ONCE 8
#define ADD_ROWS(add_rows, element, load_part)                                                            \
    static inline vec add_rows(const global element *p, ulong step, ulong n, ulong left) {                \
        vec sum = to_vec(0.0f);                                                                           \
        ulong row = 0;                                                                                    \
        for (; row + ROWS_AT_ONCE <= n; row += ROWS_AT_ONCE, p += ROWS_AT_ONCE * step) {                  \
            vec x[ROWS_AT_ONCE];                                                                          \
            UNROLLED                                                                                      \
            for (uint k = 0; k < ROWS_AT_ONCE; k++) {                                                     \
                x[k] = load_part(p + k * step, left, 0.0f);                                               \
            }                                                                                             \
            UNROLLED                                                                                      \
            for (uint k = 0; k < ROWS_AT_ONCE; k++) {                                                     \
                sum += x[k];                                                                              \
            }                                                                                             \
        }                                                                                                 \
        for (; row < n; row++, p += step) {                                                               \
            sum += load_part(p, left, 0.0f);                                                              \
        }                                                                                                 \
        return sum;                                                                                       \
    }
ADD_ROWS(add_rows, float, load_part)
#if DATA_IS_NARROW
ADD_ROWS(add_data_rows, data, load_data_part)
#else
#define add_data_rows(p, step, n, left) add_rows(p, step, n, left)
#endif

#if VECTOR > 1
// The first halves of a and b: an element of a, one of b, and so on. Then the second halves.
static inline vec first_halves(vec a, vec b) {
#if VECTOR == 16
    return (vec)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7);
#elif VECTOR == 8
    return (vec)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3);
#elif VECTOR == 4
    return (vec)(a.s0, b.s0, a.s1, b.s1);
#endif
}
static inline vec second_halves(vec a, vec b) {
#if VECTOR == 16
    return (vec)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, b.sf);
#elif VECTOR == 8
    return (vec)(a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7);
#elif VECTOR == 4
    return (vec)(a.s2, b.s2, a.s3, b.s3);
#endif
}
#endif

// Exchanges rows and columns of VECTOR vecs: log2(VECTOR) rounds, each of which shuffles the vecs' first
// halves together and their second halves together.
static inline void transpose(vec x[VECTOR]) {
#if VECTOR > 1
    UNROLLED for (uint round = 1; round < VECTOR; round *= 2) {
        vec y[VECTOR];
        UNROLLED for (uint i = 0; i < VECTOR / 2; i++) {
            y[2 * i] = first_halves(x[i], x[i + VECTOR / 2]);
            y[2 * i + 1] = second_halves(x[i], x[i + VECTOR / 2]);
        }
        UNROLLED for (uint i = 0; i < VECTOR; i++) {
            x[i] = y[i];
        }
    }
#else
    (void)x;
#endif
}

static inline float sum_of(vec x) {
#if VECTOR == 16
    float8 half_sum = x.lo + x.hi;
    float4 quarter = half_sum.lo + half_sum.hi;
#elif VECTOR == 8
    float4 quarter = x.lo + x.hi;
#elif VECTOR == 4
    float4 quarter = x;
#endif
#if VECTOR == 1
    return x;
#else
    return (quarter.x + quarter.z) + (quarter.y + quarter.w);
#endif
}

static inline float largest_of(vec x) {
#if VECTOR == 16
    float8 half_max = fmax(x.lo, x.hi);
    float4 quarter = fmax(half_max.lo, half_max.hi);
#elif VECTOR == 8
    float4 quarter = fmax(x.lo, x.hi);
#elif VECTOR == 4
    float4 quarter = x;
#endif
#if VECTOR == 1
    return x;
#else
    return fmax(fmax(quarter.x, quarter.z), fmax(quarter.y, quarter.w));
#endif
}

// e^x with a relative error below 2e-7. Write x = n ln2 + r, |r| <= ln2/2; then e^x = 2^n e^r, where 2^n is
// made in the exponent bits and e^r is its Taylor series to r^7. ln2 is subtracted in two pieces (Cody and
// Waite 1980), the first short enough that n times it is exact. Below -87 the result is 0: it would be
// denormal. NaN stays NaN. On cards 2^x is an instruction; what x / ln2 loses by rounding is made good after it.
#if ROW_ITEMS == 1
static inline vec vec_exp(vec x) {
    const vec lowest = to_vec(-87.0f);
    const vec highest = to_vec(88.8f); // beyond ln(FLT_MAX): overflows to infinity as it should
    vec clamped = x < lowest ? lowest : x;
    clamped = clamped > highest ? highest : clamped;
    const float round = 12582912.0f; // 1.5 * 2^23: adding it leaves round(n) in the low mantissa bits
    vec shifted = multiply_add(clamped, to_vec(1.44269504f), to_vec(round));
    vec n = shifted - round;
    vec r = clamped - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    vec p = to_vec(1.0f / 5040);
    p = multiply_add(p, r, to_vec(1.0f / 720));
    p = multiply_add(p, r, to_vec(1.0f / 120));
    p = multiply_add(p, r, to_vec(1.0f / 24));
    p = multiply_add(p, r, to_vec(1.0f / 6));
    p = multiply_add(p, r, to_vec(0.5f));
    p = multiply_add(p, r, to_vec(1.0f));
    p = multiply_add(p, r, to_vec(1.0f));
    // 2^(n-1), doubled at the end, so that n = 128 does not overflow the exponent bits.
    ivec bits = (as_ivec(shifted) - 0x4B400000 + 126) << 23;
    vec y = p * as_vec(bits) * 2.0f;
    return x < lowest ? to_vec(0.0f) : y;
}
#else
static inline vec vec_exp(vec x) {
    vec kept = x < to_vec(-87.0f) ? to_vec(-200.0f) : x;
    kept = kept > to_vec(89.0f) ? to_vec(89.0f) : kept;
    const vec power = kept * 1.44269504f;
    const vec lost = fma(kept, to_vec(1.44269504f), -power) + kept * 1.92596299e-8f; // log2(e) - 1.44269504f
    return exp2(power) * fma(lost, to_vec(0.693147181f), to_vec(1.0f));
}
#endif

// GELU in its tanh form. (1 + tanh(u))/2 = 1/(1 + e^(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3).
static inline vec gelu(vec x) {
    vec minus_2u = -1.5957691216057308f * x * (1.0f + 0.044715f * x * x);
    return x / (1.0f + vec_exp(minus_2u));
}

// Its derivative: s + x s (1 - s) 2u', with s = 1/(1 + e), 1 - s = e s, e = e^(-2u) kept finite.
// Beyond +-20 it is 1 and 0 to the last digit; there x stands still, so that its powers stay finite.
static inline vec gelu_derivative(vec wide_x) {
    vec x = wide_x < to_vec(-20.0f) ? to_vec(-20.0f) : wide_x;
    x = x > to_vec(20.0f) ? to_vec(20.0f) : x;
    vec minus_2u = -1.5957691216057308f * x * (1.0f + 0.044715f * x * x);
    vec e = vec_exp(minus_2u > to_vec(80.0f) ? to_vec(80.0f) : minus_2u);
    vec s = 1.0f / (1.0f + e);
    vec slope = 1.5957691216057308f * (1.0f + 3.0f * 0.044715f * x * x); // 2u'
    return s + x * slope * (e * s) * s;
}

// The others, of include/activation.h, which tests of this file alone leave out: p is max(x, 0), and NaN where x is.
#ifdef SM_ACTIVATION_PAIRS
#define X(CODE, name, f, slope)                                   \
    static inline vec name(vec x) {                               \
        const vec p = x < to_vec(0.0f) ? to_vec(0.0f) : x;        \
        return f;                                                 \
    }                                                             \
    static inline vec name##_derivative(vec x) {                  \
        const vec p = x < to_vec(0.0f) ? to_vec(0.0f) : x;        \
        return slope;                                             \
    }
SM_ACTIVATION_PAIRS(X)
#undef X
#endif

// The one of a product's epilogue.
#ifndef ACTIVATION
#define ACTIVATION gelu
#endif
#define JOINED_NOW(a, b)    a##b
#define JOINED(a, b)        JOINED_NOW(a, b)
#define activation(x)       ACTIVATION(x)
#define activation_slope(x) JOINED(ACTIVATION, _derivative)(x)

// The numbers of a vec's elements.
#if VECTOR == 1
#define vec_index 0
#elif VECTOR == 4
#define vec_index ((ivec)(0, 1, 2, 3))
#elif VECTOR == 8
#define vec_index ((ivec)(0, 1, 2, 3, 4, 5, 6, 7))
#else
#define vec_index ((ivec)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#endif

// x with what is beyond its first n elements replaced.
static inline vec keep_first(vec x, ulong n, float fill) {
    if (n >= VECTOR) {
        return x;
    }
    return vec_index < (ivec)((int)n) ? x : to_vec(fill);
}

// --- a row shared by ROW_ITEMS work-items ----------------------------------------------------
// A kernel declares ROW_SHARED(shared) and gives it to row_sum or row_largest, which all items of
// the work-group call. All of a row get its result; its order of summation is fixed: ROW_SHARES items each add up every
// ROW_SHARES-th item's, then every item adds up the shares. Two such sums may follow one another.

#if ROW_ITEMS == 1
#define ROW_SHARED(shared)     \
    local float2 *shared = 0; \
    (void)shared
#define row_sum(x, shared) (x)
#define row_sums(x, shared) (x)
#define row_largest(x, shared) (x)
#else
#define ROW_SHARES 8
#define MY_GROUP_ROW (GROUP_ROWS == 1 ? 0 : (uint)get_local_id(0) / ROW_ITEMS)
#define ROW_SHARED(shared) local float2 shared[GROUP_ROWS * (ROW_ITEMS + ROW_SHARES)]

#define ROW_REDUCTION(row_sums, type, combine)                                  \
    static inline type row_sums(type x, local float2 *space) {                  \
        local float2 *of_row = space + MY_GROUP_ROW * (ROW_ITEMS + ROW_SHARES); \
        local type *shared = (local type *)of_row;                              \
        local type *share = (local type *)(of_row + ROW_ITEMS);                 \
        const uint item = (uint)get_local_id(0) % ROW_ITEMS;                    \
        shared[item] = x;                                                       \
        barrier(CLK_LOCAL_MEM_FENCE);                                           \
        if (item < ROW_SHARES) {                                                \
            type mine = shared[item];                                           \
            for (uint i = ROW_SHARES; i < ROW_ITEMS; i += ROW_SHARES) {         \
                mine = combine(mine, shared[item + i]);                         \
            }                                                                   \
            share[item] = mine;                                                 \
        }                                                                       \
        barrier(CLK_LOCAL_MEM_FENCE);                                           \
        type all = share[0];                                                    \
        for (uint i = 1; i < ROW_SHARES; i++) {                                 \
            all = combine(all, share[i]);                                       \
        }                                                                       \
        return all;                                                             \
    }
#define plus(a, b) ((a) + (b))
ROW_REDUCTION(row_sum, float, plus)
ROW_REDUCTION(row_sums, float2, plus) // of two at once
ROW_REDUCTION(row_largest, float, fmax)
#endif

// --- columns of a group's lanes --------------------------------------------------------------------
// To sum rows, a work-group's items stand in lanes: an item has a vec of columns, and a lane every N_LANES-th row. All
// items call lanes_sum, which gives lane 0 the lanes' sums, in a fixed order.

#define MY_LANE get_local_id(1)
#define N_LANES get_local_size(1)
// The number of this lane's rows among n.
#define LANE_ROWS(n) ((n) > MY_LANE ? ((n) - MY_LANE - 1) / N_LANES + 1 : 0)

#if ROW_ITEMS == 1
#define LANES_SHARED(shared)
#define lanes_sum(x, shared) (x)
#else
#define LANES_ITEMS 128 // of a work-group, at most
#define LANES_SHARED(shared) local vec shared[LANES_ITEMS]

static inline vec lanes_sum(vec x, local vec *shared) {
    const uint n_columns = (uint)get_local_size(0);
    const uint item = (uint)(MY_LANE * n_columns + get_local_id(0));
    shared[item] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint n = (uint)N_LANES / 2; n > 0; n /= 2) {
        if (MY_LANE < n) {
            shared[item] += shared[item + n * n_columns];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return shared[item];
}
#endif

// The row of this work-item, and which of the row's items it is.
#define MY_ROW (get_global_id(0) / ROW_ITEMS)
#define MY_ITEM ((uint)(get_global_id(0) % ROW_ITEMS))

// Walks what is this item's of the elements [0, n) of a row: every ROW_ITEMS-th piece of `step` elements. All
// items of a work-group go round equally often: some compilers take that for granted.
#define FOR_MINE(i, n, step)                                               \
    for (ulong i = MY_ITEM * (ulong)(step), i##_first = 0; i##_first < (n); \
         i += ROW_ITEMS * (step), i##_first += ROW_ITEMS * (step))         \
        if (i < (n))

// This item's part of a row of C elements, vec by vec: the k-th begins at c. With ROW_VECS, as a program is built for
// ops whose rows are that short, an item has as many vecs at most, and keeps them in registers from one walk to the
// next: in arrays of KEPT, at KEPT_AT(k). Without, it reads them again.
#ifndef ROW_VECS
#define ROW_VECS 0
#endif
#define KEPT       (ROW_VECS > 0 ? ROW_VECS : 1)
#define KEPT_AT(k) (ROW_VECS > 0 ? (k) : 0)
#if ROW_VECS > 0
#define UNROLLED_ROW UNROLLED
#else
#define UNROLLED_ROW
#endif
#define FOR_VECS(k, c, C)                                                                          \
    UNROLLED_ROW                                                                                   \
    for (ulong k = 0, c = MY_ITEM * VECTOR; ROW_VECS > 0 ? k < ROW_VECS : c - MY_ITEM * VECTOR < (C); \
         k++, c += ROW_ITEMS * VECTOR)                                                             \
        if (c < (C))

// A group walks rows one after the other. While it computes one, it loads the next ROWS_AHEAD: this item's vecs of dy,
// of x and, with `residual`, of dskip. Each of these rows has its own registers, which the row ROWS_AHEAD later takes
// over, so loops over rows are unrolled ROWS_AHEAD times.
#if ROW_VECS > 0
#ifndef ROWS_AHEAD
#define ROWS_AHEAD (ROW_VECS > 1 ? 2 : 3) // registers for more are few
#endif
enum { ROW_PARTS = 3 };

// A row beyond the last repeats the last.
static inline void ask_for_row(uint residual, ulong n, ulong N, ulong C, const global data *dy, const global data *x,
                               const global data *dskip, raw_vec row[ROW_PARTS * ROW_VECS]) {
    const ulong first = row_start(min(n, N - 1), C);
    FOR_VECS(k, c, C) {
        row[k] = load_raw(dy + first + c);
        row[ROW_VECS + k] = load_raw(x + first + c);
        row[2 * ROW_VECS + k] = load_raw((residual ? dskip : x) + first + c);
    }
}
#endif

// --- tiles of a product --------------------------------------------------------------------------

// The tile of C and the part of K that a work-group owns.
typedef struct {
    ulong m, n, part;
} product_tile;

// C has M rows, tiles have tile_m x tile_n. A band of band_rows rows of tiles is walked column by column, so that
// groups at work share operands.
static inline product_tile find_product_tile(ulong M, uint tile_m, uint tile_n, uint band_rows) {
    const uint n_cols = (uint)get_num_groups(0);
    const uint n_rows = (uint)((M + tile_m - 1) / tile_m);
    const uint part = (uint)get_group_id(1) / n_rows;
    const uint index = ((uint)get_group_id(1) - part * n_rows) * n_cols + (uint)get_group_id(0);
    const uint band = index / (band_rows * n_cols);
    const uint in_band = index - band * band_rows * n_cols;
    const uint height = min(band_rows, n_rows - band * band_rows);
    product_tile p;
    p.m = (ulong)(band * band_rows + in_band % height) * tile_m;
    p.n = (ulong)(in_band / height) * tile_n;
    p.part = part;
    return p;
}

// --- documents and weights of attention ----------------------------------------------------------

#ifndef DOCUMENTS
#define DOCUMENTS 0 // 1: rows hold documents, and `starts` says where each position's begins (include/op_table.h)
#endif
#define LEAST_SCORE (DOCUMENTS ? -1e30f : -INFINITY) // the largest of a row that has seen no key; two of them differ by 0

// The first key that row t of a sequence sees; starts (T) are the sequence's.
static inline ulong first_key_of(const global int *starts, ulong t) { return DOCUMENTS ? (ulong)starts[t] : 0; }

// The end of the rows that see key s, or a key before it: as starts rise, they lie together.
static inline ulong end_of_rows(const global int *starts, ulong T, ulong s) {
    ulong low = s + 1 < T ? s + 1 : T; // it sees itself
    ulong high = T;
    while (DOCUMENTS && low < high) {
        const ulong middle = (low + high) / 2;
        if ((ulong)starts[middle] <= s) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return high;
}
