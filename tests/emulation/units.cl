// units.cl of the emulation: what cl/units/ calls, for a processor: functions of the language whose meaning is the
// work-item's, and the vendors' builtins, by tests/emulation/units.c.
#define EMULATED 1

ulong emulated_local_id(uint dim);
ulong emulated_group_id(uint dim);
ulong emulated_num_groups(uint dim);
ulong emulated_global_id(uint dim);
void emulated_barrier(void);
void emulated_multiply(int kind, float *c, const void *a, const void *b);
uint emulated_exchange(uint x, uint other);
uint emulated_lane(uint wave, ulong address);

float emulated_exp2(float x);
float emulated_log(float x);
float emulated_fma(float a, float b, float c);
float emulated_widen(ushort x);
ushort emulated_narrow(float x);

// The language's functions that these kernels call, of these types.
#define overloaded __attribute__((overloadable))
uint overloaded min(uint a, uint b) { return a < b ? a : b; }
ulong overloaded min(ulong a, ulong b) { return a < b ? a : b; }
uint overloaded max(uint a, uint b) { return a > b ? a : b; }
uint overloaded mul_hi(uint a, uint b) { return (uint)((ulong)a * b >> 32); }
float overloaded fmax(float a, float b) { return a > b || b != b ? a : b; }
float overloaded log(float x) { return emulated_log(x); }
float overloaded exp2(float x) { return emulated_exp2(x); }
float overloaded native_exp2(float x) { return emulated_exp2(x); }
float overloaded fma(float a, float b, float c) { return emulated_fma(a, b, c); }
float4 overloaded exp2(float4 x) { return (float4)(exp2(x.x), exp2(x.y), exp2(x.z), exp2(x.w)); }
float4 overloaded fma(float4 a, float4 b, float4 c) {
    return (float4)(fma(a.x, b.x, c.x), fma(a.y, b.y, c.y), fma(a.z, b.z, c.z), fma(a.w, b.w, c.w));
}
uint8 overloaded convert_uint8(ushort8 x) { return __builtin_convertvector(x, uint8); }
uint overloaded convert_uint(ushort x) { return x; }
ushort overloaded convert_ushort(uint x) { return (ushort)x; }
uint4 overloaded convert_uint4(ushort4 x) { return __builtin_convertvector(x, uint4); }
ushort4 overloaded convert_ushort4(uint4 x) { return __builtin_convertvector(x, ushort4); }
#define EMULATED_LOADS(element, n)               \
    EMULATED_LOADS_OF(private, element, n)       \
    EMULATED_LOADS_OF(local, element, n)         \
    EMULATED_LOADS_OF(global, element, n)
#define EMULATED_LOADS_OF(space, element, n)                                                          \
    element##n overloaded vload##n(ulong at, const space element *p) {                                \
        element##n x;                                                                                 \
        for (uint i = 0; i < n; i++) {                                                                \
            ((element *)&x)[i] = p[at * n + i];                                                       \
        }                                                                                             \
        return x;                                                                                     \
    }                                                                                                 \
    void overloaded vstore##n(element##n x, ulong at, space element *p) {                             \
        for (uint i = 0; i < n; i++) {                                                                \
            p[at * n + i] = ((element *)&x)[i];                                                       \
        }                                                                                             \
    }
EMULATED_LOADS(float, 4)
EMULATED_LOADS(float, 8)
EMULATED_LOADS(float, 16)
EMULATED_LOADS(ushort, 4)
EMULATED_LOADS(ushort, 8)
EMULATED_LOADS(uint, 8)
float overloaded vload_half(ulong at, const half *p) { return emulated_widen(((const ushort *)p)[at]); }
void overloaded vstore_half_rte(float x, ulong at, half *p) { ((ushort *)p)[at] = emulated_narrow(x); }
float4 overloaded vload_half4(ulong at, const half *p) {
    p += 4 * at;
    return (float4)(vload_half(0, p), vload_half(1, p), vload_half(2, p), vload_half(3, p));
}
void overloaded vstore_half4_rte(float4 x, ulong at, half *p) {
    vstore_half_rte(x.x, 4 * at, p);
    vstore_half_rte(x.y, 4 * at + 1, p);
    vstore_half_rte(x.z, 4 * at + 2, p);
    vstore_half_rte(x.w, 4 * at + 3, p);
}

#define get_local_id(dim)   emulated_local_id(dim)
#define get_group_id(dim)   emulated_group_id(dim)
#define get_num_groups(dim) emulated_num_groups(dim)
#define get_global_id(dim)  emulated_global_id(dim)
#define barrier(flags)      emulated_barrier()

enum { EMULATED_MFMA_8, EMULATED_MFMA_16, EMULATED_XF32, EMULATED_FP32, EMULATED_WMMA, EMULATED_WMMA_HALF, EMULATED_DPAS8,
       EMULATED_DPAS16, EMULATED_DPAS_TF32, EMULATED_IS_F16 = 64 };
#ifdef DATA_F16
#define EMULATED_TYPE EMULATED_IS_F16
#else
#define EMULATED_TYPE 0
#endif

#define EMULATED_PRODUCT(name, type_c, type_a, type_b, kind)                      \
    static inline type_c name(type_a a, type_b b, type_c c) {                     \
        emulated_multiply((kind) | EMULATED_TYPE, (float *)&c, &a, &b);           \
        return c;                                                                 \
    }
EMULATED_PRODUCT(emulated_mfma_8, float16, short4, short4, EMULATED_MFMA_8)
EMULATED_PRODUCT(emulated_mfma_16, float16, short8, short8, EMULATED_MFMA_16)
EMULATED_PRODUCT(emulated_xf32, float16, float2, float2, EMULATED_XF32)
EMULATED_PRODUCT(emulated_fp32, float16, float, float, EMULATED_FP32)
EMULATED_PRODUCT(emulated_wmma, float8, short16, short16, EMULATED_WMMA)
EMULATED_PRODUCT(emulated_wmma_half, float8, short8, short8, EMULATED_WMMA_HALF)
EMULATED_PRODUCT(emulated_dpas8, float8, int8, int8, EMULATED_DPAS8)
EMULATED_PRODUCT(emulated_dpas16, float8, short8, int8, EMULATED_DPAS16)
EMULATED_PRODUCT(emulated_dpas_tf32, float8, float4, float8, EMULATED_DPAS_TF32)

#define __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, x, y, z) emulated_mfma_8(a, b, c)
#define __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, x, y, z)     emulated_mfma_8(as_short4(a), as_short4(b), c)
#define __builtin_amdgcn_mfma_f32_32x32x16_bf16(a, b, c, x, y, z)  emulated_mfma_16(a, b, c)
#define __builtin_amdgcn_mfma_f32_32x32x16_f16(a, b, c, x, y, z)   emulated_mfma_16(as_short8(a), as_short8(b), c)
#define __builtin_amdgcn_mfma_f32_32x32x4_xf32(a, b, c, x, y, z)   emulated_xf32(a, b, c)
#define __builtin_amdgcn_mfma_f32_32x32x2f32(a, b, c, x, y, z)     emulated_fp32(a, b, c)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c)       emulated_wmma(a, b, c)
#define __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c)        emulated_wmma(as_short16(a), as_short16(b), c)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c) emulated_wmma_half(a, b, c)
#define __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c)  emulated_wmma_half(as_short8(a), as_short8(b), c)
#define __builtin_amdgcn_ds_bpermute(at, x)                        ((int)emulated_exchange((uint)(x), (uint)(at) / 4))

#if UNIT == 5
#define intel_sub_group_bf16_bf16_matrix_mad_k16(a, b, c) emulated_dpas8(a, b, c)
#define intel_sub_group_f16_f16_matrix_mad_k16(a, b, c)   emulated_dpas8(a, b, c)
#else
#define intel_sub_group_bf16_bf16_matrix_mad_k16(a, b, c) emulated_dpas16(a, b, c)
#define intel_sub_group_f16_f16_matrix_mad_k16(a, b, c)   emulated_dpas16(a, b, c)
#endif
#define intel_sub_group_tf32_tf32_matrix_mad_k8(a, b, c) emulated_dpas_tf32(a, b, c)
#define intel_reqd_sub_group_size(n) annotate("sub-group")

#define EMULATED_WAVE (UNIT == 5 ? 8 : 16)
static inline uint8 intel_sub_group_block_read8(const local uint *p) {
    const uint lane = emulated_lane(EMULATED_WAVE, (ulong)p);
    uint8 x;
    for (uint i = 0; i < 8; i++) {
        ((uint *)&x)[i] = p[i * EMULATED_WAVE + lane];
    }
    return x;
}
static inline uint4 intel_sub_group_block_read4(const local uint *p) {
    const uint lane = emulated_lane(EMULATED_WAVE, (ulong)p);
    return (uint4)(p[lane], p[EMULATED_WAVE + lane], p[2 * EMULATED_WAVE + lane], p[3 * EMULATED_WAVE + lane]);
}
static inline ushort8 intel_sub_group_block_read_us8(const local ushort *p) {
    const uint lane = emulated_lane(EMULATED_WAVE, (ulong)p);
    ushort8 x;
    for (uint i = 0; i < 8; i++) {
        ((ushort *)&x)[i] = p[i * EMULATED_WAVE + lane];
    }
    return x;
}

// Blocks of a matrix of `height` rows of `width` bytes: zeros beyond. As cl_intel_subgroup_2d_block_io describes them.
static inline ushort emulated_at(const global void *p, int width, int height, int pitch, int x, int y) {
    const bool is_there = x >= 0 && y >= 0 && x * 2 < width && y < height;
    return is_there ? ((const global ushort *)((const global uchar *)p + (long)y * pitch))[x] : 0;
}
static inline void intel_sub_group_2d_block_read_16b_32r16x2c(const global void *p, int width, int height, int pitch, int2 at,
                                                              ushort *to) {
    const int lane = (int)emulated_lane(16, (ulong)p ^ (ulong)at.x ^ (ulong)at.y << 32);
    for (int i = 0; i < 64; i++) {
        to[i] = emulated_at(p, width, height, pitch, at.x + 16 * (i / 32) + lane, at.y + i % 32);
    }
}
static inline void intel_sub_group_2d_block_read_transpose_32b_16r8x1c(const global void *p, int width, int height, int pitch,
                                                                       int2 at, uint *to) {
    const int lane = (int)emulated_lane(16, (ulong)p ^ (ulong)at.x ^ (ulong)at.y << 32);
    for (int i = 0; i < 8; i++) {
        to[i] = emulated_at(p, width, height, pitch, 2 * (at.x + i), at.y + lane) |
                (uint)emulated_at(p, width, height, pitch, 2 * (at.x + i) + 1, at.y + lane) << 16;
    }
}
static inline void intel_sub_group_2d_block_read_transform_16b_32r16x1c(const global void *p, int width, int height, int pitch,
                                                                        int2 at, uint *to) {
    const int lane = (int)emulated_lane(16, (ulong)p ^ (ulong)at.x ^ (ulong)at.y << 32);
    for (int i = 0; i < 16; i++) {
        to[i] = emulated_at(p, width, height, pitch, at.x + lane, at.y + 2 * i) |
                (uint)emulated_at(p, width, height, pitch, at.x + lane, at.y + 2 * i + 1) << 16;
    }
}
