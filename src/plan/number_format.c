// number_format.c: the table of number formats.
#include "number_format.h"

#include <float.h>

#include "f16.h"

// Defines a format's two conversions of arrays from those of one element.
#define CONVERSIONS(name, type, widened, rounded)                          \
    static void widen_##name(int64_t n, const void *values, float *wide) { \
        const type *from = values;                                         \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {              \
            const type x = from[i];                                        \
            wide[i] = widened;                                             \
        }                                                                  \
    }                                                                      \
    static void round_##name(int64_t n, const float *wide, void *values) { \
        type *to = values;                                                 \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {              \
            const float x = wide[i];                                       \
            to[i] = rounded;                                               \
        }                                                                  \
    }

CONVERSIONS(f32, float, x, x)
CONVERSIONS(f64, double, (float)x, x)
CONVERSIONS(bf16, uint16_t, sm_bf16_widen(x), sm_bf16_round(x))
CONVERSIONS(f16, uint16_t, sm_f16_widen(x), sm_f16_round(x))
CONVERSIONS(e4m3, uint8_t, sm_e4m3_widen(x), sm_e4m3_round(x))
CONVERSIONS(e5m2, uint8_t, sm_e5m2_widen(x), sm_e5m2_round(x))
CONVERSIONS(u8, uint8_t, x, (uint8_t)x)

static const sm_number_format formats[] = {
    [SM_F32] = {"f32", 4, 0x1p-24, FLT_MIN, FLT_MAX, widen_f32, round_f32},
    [SM_F64] = {"f64", 8, 0x1p-53, DBL_MIN, DBL_MAX, widen_f64, round_f64},
    [SM_BF16] = {"bf16", 2, 0x1p-8, FLT_MIN, 0x1.FEp127, widen_bf16, round_bf16},
    [SM_F16] = {"f16", 2, 0x1p-11, 0x1p-14, 65504, widen_f16, round_f16},
    [SM_E4M3] = {"e4m3", 1, 0x1p-4, 0x1p-6, 448, widen_e4m3, round_e4m3},
    [SM_E5M2] = {"e5m2", 1, 0x1p-3, 0x1p-14, 57344, widen_e5m2, round_e5m2},
    [SM_I32] = {.name = "i32", .size_bytes = 4},
    [SM_U32] = {.name = "u32", .size_bytes = 4},
    [SM_U8] = {"u8", 1, 0, 0, 0, widen_u8, round_u8},
};

const char *sm_products_name(sm_products products) {
    static const char *const names[] = {
        [SM_PRODUCTS_PLAIN] = "plain",   [SM_PRODUCTS_TF32] = "tf32", [SM_PRODUCTS_TF32X3] = "tf32x3",
        [SM_PRODUCTS_BF16X6] = "bf16x6", [SM_PRODUCTS_FP8] = "fp8",
    };
    return names[products];
}

const sm_number_format *sm_dtype_format(sm_dtype dtype) { return &formats[dtype]; }

size_t sm_dtype_size(sm_dtype dtype) { return formats[dtype].size_bytes; }

const char *sm_dtype_name(sm_dtype dtype) { return formats[dtype].name; }

bool sm_dtype_is_narrow(sm_dtype dtype) { return formats[dtype].unit_roundoff > formats[SM_F32].unit_roundoff; }

void sm_dtype_round_trip(sm_dtype dtype, int64_t n, float *values) {
    enum { PIECE = 512 };
    uint16_t narrow[PIECE];
    for (int64_t first = 0; sm_dtype_is_narrow(dtype) && first < n; first += PIECE) {
        const int64_t length = n - first < PIECE ? n - first : PIECE;
        formats[dtype].round(length, values + first, narrow);
        formats[dtype].widen(length, narrow, values + first);
    }
}

double sm_precision_roundoff(sm_precision precision) {
    return precision.products == SM_PRODUCTS_TF32 ? 0x1p-11 : formats[precision.dtype].unit_roundoff;
}

bool sm_precision_is_rounded(sm_precision precision) {
    return sm_precision_roundoff(precision) > formats[SM_F32].unit_roundoff;
}
