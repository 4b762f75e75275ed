// number_format.h: the storage formats of elements, and the ways to multiply them.
//
// One table (src/plan/number_format.c) has size, name, precision and conversions of each; f16.h converts one element.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// How an element of a tensor is stored.
typedef enum { SM_F32, SM_F64, SM_BF16, SM_F16, SM_E4M3, SM_E5M2, SM_I32, SM_U32, SM_U8 } sm_dtype;

// How products are computed. Sums are always f32.
typedef enum {
    SM_PRODUCTS_PLAIN, // in the operands' own format
    SM_PRODUCTS_TF32,  // of operands rounded to 11 significant bits (tf32)
    // Of operands split into two tf32 numbers each, x = big + small: big*big + big*small + small*big. As exact as f32.
    SM_PRODUCTS_TF32X3,
    // Operands are split into three bf16 numbers each, x = large + medium + small, and the six largest of the nine
    // products are summed. As exact as f32.
    SM_PRODUCTS_BF16X6,
    // In a training step the products of the blocks have operands that are scaled and rounded to 8 bits: e4m3 forward,
    // e5m2 gradients (src/rewrites/fp8.c). Other products are in the operands' own format.
    SM_PRODUCTS_FP8
} sm_products;

const char *sm_products_name(sm_products products); // "plain", "tf32", "tf32x3", "bf16x6", "fp8"

// A precision, as --precision names it: how a plan's data are stored, and how its products are computed.
typedef struct {
    sm_dtype dtype;
    sm_products products; // SM_PRODUCTS_FP8: dtype is SM_BF16; others but SM_PRODUCTS_PLAIN: SM_F32
} sm_precision;

typedef struct {
    const char *name;      // "f32", "f64", "bf16", "f16", "e4m3", "e5m2", "i32", "u32", "u8"
    size_t size_bytes;     // of one element
    double unit_roundoff;  // largest relative error of rounding to nearest: 2^-(significant bits); integers: 0
    double least_normal;   // below it the error is absolute: unit_roundoff * least_normal; integers: 0
    double largest_finite; // integers: 0
    // Convert n elements to f32 (exact except for f64), and n f32 elements to the format, to nearest, ties to even;
    // NULL where the format cannot store f32. u8 holds numbers 0..255.
    void (*widen)(int64_t n, const void *values, float *wide);
    void (*round)(int64_t n, const float *wide, void *values);
} sm_number_format;

const sm_number_format *sm_dtype_format(sm_dtype dtype);

size_t sm_dtype_size(sm_dtype dtype); // bytes of one element
const char *sm_dtype_name(sm_dtype dtype);

// True for formats narrower than f32, which computes for them: bf16, f16, e4m3, e5m2.
bool sm_dtype_is_narrow(sm_dtype dtype);

// Rounds f32 values as storing them in a format and reading them back would.
void sm_dtype_round_trip(sm_dtype dtype, int64_t n, float *values);

// The unit roundoff of the factors of products: that of the data, or of tf32.
double sm_precision_roundoff(sm_precision precision);
bool sm_precision_is_rounded(sm_precision precision); // true if less exact than f32
