// units.cl: matrix units of AMD and Intel, one form for all. A wave (wavefront, sub-group) multiplies fragments in its
// registers, c += a b; the layout of a fragment says which lane has which element. UNIT is the row of the table in
// backends/opencl/units/unit.c, whose host side knows the same numbers.
//
//   UNIT      wave   a b of 16 bits   of floats                          where
//   MFMA      64     32 x 32 x 8      xf32 32 x 32 x 4, fp32 32 x 32 x 2 gfx90a, gfx942 (xf32: gfx942)
//   MFMA_WIDE 64     32 x 32 x 16     fp32 32 x 32 x 2                   gfx950
//   WMMA      32     16 x 16 x 16                                        gfx11: lanes 16.. repeat a and b of lanes 0..15
//   WMMA_HALF 32     16 x 16 x 16                                        gfx12
//   DPAS8     8       8 x  8 x 16                                        Intel, sub-groups of 8
//   DPAS16    16      8 x 16 x 16     tf32 8 x 16 x 8                    Intel, sub-groups of 16
//
// Sources of the layouts: AMD's matrix instruction calculator and instruction set guides; the specification of
// cl_intel_subgroup_matrix_multiply_accumulate.
//
// The order of k within a fragment is free as long as a and b share it: so a lane takes 16 bytes that lie side by side,
// and gives them to as many instructions (PER_LOAD) as they suffice for.
//
// Floats are multiplied as PRODUCTS says: 0 as they are (fp32), 1 rounded to tf32, 2 cut into two numbers of tf32.
#define MFMA      1
#define MFMA_WIDE 2
#define WMMA      3
#define WMMA_HALF 4
#define DPAS8     5
#define DPAS16    6

#ifndef UNIT
#define UNIT MFMA
#endif
#ifndef PRODUCTS
#define PRODUCTS 0
#endif

#define IS_MFMA (UNIT == MFMA || UNIT == MFMA_WIDE)
#define IS_WMMA (UNIT == WMMA || UNIT == WMMA_HALF)
#define IS_DPAS (UNIT == DPAS8 || UNIT == DPAS16)
#define SPLIT   (PRODUCTS == 2 && !DATA_IS_NARROW)

// A builtin that the target has not ends the process inside of AMD's compiler, instead of the build. The host chooses
// by the device's name; this is for compilers that tell their target. ROCm's clBuildProgram does not: its language
// header is compiled before, and the macros are those of that.
#ifdef __amdgcn_processor__
#if (UNIT == MFMA && !defined(__gfx90a__) && !defined(__gfx942__)) || (UNIT == MFMA_WIDE && !defined(__gfx950__)) || \
    (UNIT == WMMA && !defined(__GFX11__)) || (UNIT == WMMA_HALF && !defined(__GFX12__)) || IS_DPAS || \
    (UNIT == WMMA_HALF && !defined(__gfx1200__) && !defined(__gfx1201__)) || \
    (PRODUCTS > 0 && !DATA_IS_NARROW && !defined(__gfx942__))
#error "the target has not these matrix instructions"
#endif
#endif

#if DATA_IS_NARROW
#define NUMBER_BYTES 2
#else
#define NUMBER_BYTES 4
#endif
#define CHUNK (16 / NUMBER_BYTES) // numbers in 16 bytes

#ifdef DATA_F16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif

// TM x TN of c, TK of k an instruction; NC numbers of c a lane; PER_LOAD instructions that what a lane loads serves.
#if IS_MFMA
#define WAVE 64
#define TM 32
#define TN 32
#define NC 16
typedef float16 c_part;
#define C_ROW(lane, i) (8 * ((i) / 4) + 4 * ((lane) / 32) + (i) % 4)
#define C_NEIGHBOURS 4 // rows of c that a lane has side by side
#if !DATA_IS_NARROW && PRODUCTS == 0
#define TK 2
#define PER_LOAD 4
typedef float ab_part;
#elif !DATA_IS_NARROW
#define TK 4
#define PER_LOAD 2
typedef float2 ab_part;
#elif UNIT == MFMA
#define TK 8
#define PER_LOAD 2
typedef short4 ab_part;
#else
#define TK 16
#define PER_LOAD 1
typedef short8 ab_part;
#endif
#elif IS_WMMA
#define WAVE 32
#define TM 16
#define TN 16
#define NC 8
typedef float8 c_part;
#define TK 16
#define PER_LOAD 1
#if UNIT == WMMA
#define C_ROW(lane, i) (2 * (i) + (lane) / 16)
#define C_NEIGHBOURS 1
typedef short16 ab_part;
#else
#define C_ROW(lane, i) ((i) + 8 * ((lane) / 16))
#define C_NEIGHBOURS 8
typedef short8 ab_part;
#endif
#else
#define WAVE (UNIT == DPAS8 ? 8 : 16)
#define TM 8
#define TN WAVE
#define NC 8
typedef float8 c_part;
#define C_ROW(lane, i) (i)
#define C_NEIGHBOURS 8
#define TK (32 / NUMBER_BYTES)
#define PER_LOAD 1
#endif
#define C_COL(lane) ((lane) % TN)
#define STEP (PER_LOAD * TK) // of k that a lane's load serves

#if IS_DPAS
#if !DATA_IS_NARROW
typedef float4 a_part;
typedef float8 b_part;
#elif UNIT == DPAS8
typedef int8 a_part;
typedef int8 b_part;
#else
typedef short8 a_part;
typedef int8 b_part;
#endif
#define WAVES_ATTRIBUTE __attribute__((intel_reqd_sub_group_size(WAVE)))
#else
typedef ab_part a_part;
typedef ab_part b_part;
#define WAVES_ATTRIBUTE
#endif

// --- the instruction -----------------------------------------------------------------------------------------

#if IS_MFMA
#if !DATA_IS_NARROW && PRODUCTS == 0
#define MULTIPLY(c, a, b) c = __builtin_amdgcn_mfma_f32_32x32x2f32(a, b, c, 0, 0, 0)
#elif !DATA_IS_NARROW
#define MULTIPLY(c, a, b) c = __builtin_amdgcn_mfma_f32_32x32x4_xf32(a, b, c, 0, 0, 0)
#elif UNIT == MFMA && defined(DATA_F16)
#define MULTIPLY(c, a, b) c = __builtin_amdgcn_mfma_f32_32x32x8f16(__builtin_astype(a, half4), __builtin_astype(b, half4), c, 0, 0, 0)
#elif UNIT == MFMA
#define MULTIPLY(c, a, b) c = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, 0, 0, 0)
#elif defined(DATA_F16)
#define MULTIPLY(c, a, b) c = __builtin_amdgcn_mfma_f32_32x32x16_f16(__builtin_astype(a, half8), __builtin_astype(b, half8), c, 0, 0, 0)
#else
#ifndef EMULATED
typedef __bf16 bf16_part __attribute__((ext_vector_type(8)));
#else
typedef short8 bf16_part;
#endif
#define MULTIPLY(c, a, b) c = __builtin_amdgcn_mfma_f32_32x32x16_bf16(__builtin_astype(a, bf16_part), __builtin_astype(b, bf16_part), c, 0, 0, 0)
#endif
#elif UNIT == WMMA && defined(DATA_F16)
#define MULTIPLY(c, a, b) c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(__builtin_astype(a, half16), __builtin_astype(b, half16), c)
#elif UNIT == WMMA
#define MULTIPLY(c, a, b) c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c)
#elif UNIT == WMMA_HALF && defined(DATA_F16)
#define MULTIPLY(c, a, b) c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(__builtin_astype(a, half8), __builtin_astype(b, half8), c)
#elif UNIT == WMMA_HALF
#define MULTIPLY(c, a, b) c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c)
#else
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
#pragma OPENCL EXTENSION cl_intel_subgroups_short : enable
#pragma OPENCL EXTENSION cl_intel_subgroup_matrix_multiply_accumulate : enable
#if !DATA_IS_NARROW
#pragma OPENCL EXTENSION cl_intel_subgroup_matrix_multiply_accumulate_tf32 : enable
#define MULTIPLY(c, a, b) c = intel_sub_group_tf32_tf32_matrix_mad_k8(a, b, c)
#elif defined(DATA_F16)
#define MULTIPLY(c, a, b) c = intel_sub_group_f16_f16_matrix_mad_k16(a, b, c)
#else
#define MULTIPLY(c, a, b) c = intel_sub_group_bf16_bf16_matrix_mad_k16(a, b, c)
#endif
#endif

// --- lanes ---------------------------------------------------------------------------------------------------

#define LANE      ((uint)get_local_id(0) % WAVE)
#define MY_WAVE   ((uint)get_local_id(0) / WAVE)
#define MY_GROUP  (LANE / TN) // lanes that have the same column of c are WAVE / TN

// Before arrays of an item that are registers: all that handles them is part of the kernel.
#define inlined static inline __attribute__((always_inline))

// The word of the lane that has the same column of c; AMD's waves have two such lanes.
#if !IS_DPAS
inlined uint exchange(uint x) { return (uint)__builtin_amdgcn_ds_bpermute((int)((LANE ^ TN) * 4), (int)x); }
inlined float largest_of_column(float x) { return fmax(x, as_float(exchange(as_uint(x)))); }
inlined float sum_of_column(float x) { return x + as_float(exchange(as_uint(x))); }
#else
inlined float largest_of_column(float x) { return x; }
inlined float sum_of_column(float x) { return x; }
#endif

// The nearest number of tf32: 10 digits after the point.
inlined float round_tf32(float x) { return as_float((as_uint(x) + 0x1000u) & 0xFFFFE000u); }

// --- operands ------------------------------------------------------------------------------------------------
// A tile of n rows of `cols` numbers along k lies in local memory in rows of PITCH(cols): one chunk more, against bank
// conflicts. Where a block read takes it (dpas: a), it lies in blocks of 8 rows of TK numbers, one after the other.

#if DATA_IS_NARROW
typedef ushort number;
#else
typedef float number;
#endif

#define PITCH(cols) ((cols) + CHUNK)
#define PLACE_B(row, k, cols) ((row) * PITCH(cols) + (k))
#if IS_DPAS
#define PLACE_A(row, k, cols) ((((row) / TM) * ((cols) / TK) + (k) / TK) * (TM * TK) + (row) % TM * TK + (k) % TK)
#define A_ELEMS(rows, cols)   ((rows) * (cols))
#else
#define PLACE_A(row, k, cols) PLACE_B(row, k, cols)
#define A_ELEMS(rows, cols)   ((rows) * PITCH(cols))
#endif
#define B_ELEMS(rows, cols) ((rows) * PITCH(cols))

inlined uint4 round_chunk(uint4 x) {
#if !DATA_IS_NARROW && PRODUCTS > 0
    return as_uint4((float4)(round_tf32(as_float(x.x)), round_tf32(as_float(x.y)), round_tf32(as_float(x.z)),
                             round_tf32(as_float(x.w))));
#else
    return x;
#endif
}

// The remainder that rounding loses, rounded.
inlined uint4 small_chunk(uint4 x) {
    return round_chunk(as_uint4(as_float4(x) - as_float4(round_chunk(x))));
}

// A lane's numbers as what PER_LOAD instructions take.
#if !IS_DPAS
inlined void to_parts(const uint4 *x, ab_part *f) {
#if !DATA_IS_NARROW && PRODUCTS == 0
    f[0] = as_float(x->x);
    f[1] = as_float(x->y);
    f[2] = as_float(x->z);
    f[3] = as_float(x->w);
#elif !DATA_IS_NARROW
    f[0] = as_float2(x->lo);
    f[1] = as_float2(x->hi);
#elif UNIT == MFMA
    f[0] = as_short4(x->lo);
    f[1] = as_short4(x->hi);
#elif UNIT == WMMA
    f[0] = as_short16((uint8)(x[0], x[1]));
#else
    f[0] = as_short8(*x);
#endif
}
#endif

// A lane's part of an operand: raw, before it is rounded or cut in two.
#define B_CHUNKS (UNIT == WMMA || IS_DPAS ? 2 : 1)
typedef struct {
    uint4 x[B_CHUNKS];
} raw_b;
#if IS_DPAS && DATA_IS_NARROW
typedef a_part raw_a;
#elif IS_DPAS
typedef uint4 raw_a;
#else
typedef raw_b raw_a;
#endif

// Column of c `row` + C_COL, from k on: where a lane's chunks begin.
#define B_FROM_K(k, lane) (UNIT == WMMA || IS_DPAS ? (k) : (k) + (lane) / TN * CHUNK)

inlined raw_b load_b(const local number *tile, uint row, uint k, uint cols) {
    raw_b r;
    const local uint4 *p = (const local uint4 *)(tile + PLACE_B(row + C_COL(LANE), B_FROM_K(k, LANE), cols));
    UNROLLED for (uint i = 0; i < B_CHUNKS; i++) {
        r.x[i] = p[i];
    }
    return r;
}

// Stores the elements that the lane will load from there.
inlined void store_b(const raw_b *r, local number *tile, uint k, uint cols) {
    local uint4 *p = (local uint4 *)(tile + PLACE_B(C_COL(LANE), B_FROM_K(k, LANE), cols));
    UNROLLED for (uint i = 0; i < B_CHUNKS; i++) {
        p[i] = r->x[i];
    }
}

// The same from global memory, of a row that begins at `from`; zeros from channel n on.
inlined raw_b load_b_row(const global data *from, uint k, uint n) {
    raw_b r;
    UNROLLED for (uint i = 0; i < B_CHUNKS; i++) {
        const uint at = B_FROM_K(k, LANE) + i * CHUNK;
        r.x[i] = at < n ? *(const global uint4 *)(from + at) : (uint4)(0);
    }
    return r;
}

inlined raw_a load_a(const local number *tile, uint row, uint k, uint cols) {
#if !IS_DPAS
    return load_b(tile, row, k, cols);
#elif !DATA_IS_NARROW
    return intel_sub_group_block_read4((const local uint *)(tile + PLACE_A(row, k, cols)));
#elif UNIT == DPAS8
    return as_int8(intel_sub_group_block_read8((const local uint *)(tile + PLACE_A(row, k, cols))));
#else
    return as_short8(intel_sub_group_block_read_us8(tile + PLACE_A(row, k, cols)));
#endif
}

// The numbers that are multiplied; small: what rounding took from them.
inlined void parts_of_b(const raw_b *r, bool small, b_part *f) {
    uint4 x[B_CHUNKS];
    UNROLLED for (uint i = 0; i < B_CHUNKS; i++) {
        x[i] = small ? small_chunk(r->x[i]) : round_chunk(r->x[i]);
    }
#if !IS_DPAS
    to_parts(x, f);
#elif DATA_IS_NARROW
    *f = as_int8((uint8)(x[0], x[1]));
#else
    *f = as_float8((uint8)(x[0], x[1]));
#endif
}

inlined void parts_of_a(const raw_a *r, bool small, a_part *f) {
#if !IS_DPAS
    parts_of_b(r, small, f);
#elif DATA_IS_NARROW
    *f = *r;
#else
    *f = as_float4(small ? small_chunk(*r) : round_chunk(*r));
#endif
}

// --- tiles from global memory to local memory, by way of registers ---------------------------------------------------
// The numbers of a tile of n_outer rows (or columns) of c by n_k. In memory k runs along the rows, or the other
// dimension does (`along_k` is 0): then a lane turns two rows of k into pairs.

#define FETCHES(n_outer, n_k, items) (((n_outer) * (n_k) / CHUNK + (items) - 1) / (items))
// Two rows of k at a time, of 16-bit numbers.
#define PAIRED(along_k) (!(along_k) && DATA_IS_NARROW)
#define TURNS(n_outer, n_k, items, along_k) \
    (PAIRED(along_k) ? 2 * FETCHES(n_outer, (n_k) / 2, items) : FETCHES(n_outer, n_k, items))

// Fetch i of an item: the outer index and k of its first number. Items beside the last have nothing.
typedef struct {
    uint outer, k;
    bool is_one;
} fetch_place;

inlined fetch_place find_fetch(uint i, uint n_outer, uint n_k, uint items, int along_k) {
    fetch_place p;
    const uint e = (uint)get_local_id(0) + (PAIRED(along_k) ? i / 2 : i) * items;
    if (along_k) {
        p.outer = e / (n_k / CHUNK);
        p.k = e % (n_k / CHUNK) * CHUNK;
    } else {
        p.outer = e % (n_outer / CHUNK) * CHUNK;
        p.k = PAIRED(along_k) ? e / (n_outer / CHUNK) * 2 + i % 2 : e / (n_outer / CHUNK);
    }
    p.is_one = p.outer < n_outer && p.k < n_k;
    return p;
}

// Fetch i of the tile whose first number is (outer, k) of a matrix of ld numbers a row: zeros from k_end on; rows
// beyond outer_end are the last once more.
inlined uint4 fetch_one(uint i, const global data *from, ulong ld, ulong outer, ulong outer_end, ulong k, ulong k_end,
                        uint n_outer, uint n_k, uint items, int along_k) {
    const fetch_place p = find_fetch(i, n_outer, n_k, items, along_k);
    const ulong o = min(outer + p.outer, outer_end - (along_k ? 1 : CHUNK));
    const ulong at = along_k ? row_start(o, ld) + k + p.k : row_start(k + p.k, ld) + o;
    return p.is_one && k + p.k < k_end ? *(const global uint4 *)(from + at) : (uint4)(0);
}

inlined void fetch(const global data *from, ulong ld, ulong outer, ulong outer_end, ulong k, ulong k_end, uint n_outer,
                   uint n_k, uint items, int along_k, uint4 *x) {
    UNROLLED for (uint i = 0; i < TURNS(n_outer, n_k, items, along_k); i++) {
        x[i] = fetch_one(i, from, ld, outer, outer_end, k, k_end, n_outer, n_k, items, along_k);
    }
}

#define PLACE(row, k, cols, is_a) ((is_a) ? PLACE_A(row, k, cols) : PLACE_B(row, k, cols))

// Fetch i, of two rows of k with the next.
inlined void put_one(local number *tile, uint i, const uint4 *x, uint n_outer, uint n_k, uint items, int along_k,
                     int is_a) {
    const fetch_place p = find_fetch(i, n_outer, n_k, items, along_k);
    if (!p.is_one) {
        return;
    }
    if (along_k) {
        *(local uint4 *)(tile + PLACE(p.outer, p.k, n_k, is_a)) = x[0];
        return;
    }
#if DATA_IS_NARROW
    const ushort8 a = as_ushort8(x[0]);
    const ushort8 b = as_ushort8(x[1]);
    const uint8 pairs = convert_uint8(a) | convert_uint8(b) << 16;
    const uint words[8] = {pairs.s0, pairs.s1, pairs.s2, pairs.s3, pairs.s4, pairs.s5, pairs.s6, pairs.s7};
#else
    const uint words[4] = {x[0].x, x[0].y, x[0].z, x[0].w};
#endif
    UNROLLED for (uint j = 0; j < CHUNK; j++) {
        *(local uint *)(tile + PLACE(p.outer + j, p.k, n_k, is_a)) = words[j];
    }
}

inlined void put(local number *tile, const uint4 *x, uint n_outer, uint n_k, uint items, int along_k, int is_a) {
    UNROLLED for (uint i = 0; i < TURNS(n_outer, n_k, items, along_k); i += PAIRED(along_k) ? 2 : 1) {
        put_one(tile, i, x + i, n_outer, n_k, items, along_k, is_a);
    }
}
