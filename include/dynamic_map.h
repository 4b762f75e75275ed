// dynamic_map.h: numbers of at most 1 in 8 bits, as block-wise quantised optimizer states keep them (Dettmers et al.
// 2022, "8-bit Optimizers via Block-wise Quantization", section 2.1: dynamic tree quantisation).
//
// The map has seven decades, from 10^-7 .. 10^-6 to 0.1 .. 1, each with twice as many equal bins as the one below; a
// code means the middle of its bin. Two further codes mean 0 and 1. Codes ascend with the numbers:
//
//     signed      0..126 the bins' negatives   127 zero   128..254 bins (1, 2, 4, ... 64 a decade)    255 one
//     unsigned                                   0 zero     1..254 bins (2, 4, 8, ... 128 a decade)   255 one
//
// A block of SM_QUANT_BLOCK elements is divided by its largest, which is stored next to it.
#pragma once

#include <stdbool.h>

enum { SM_QUANT_BLOCK = 256, SM_QUANT_CODES = 256, SM_QUANT_DECADES = 7, SM_QUANT_ZERO = 127 /* of the signed map */ };

// Bins of decade 0.
static inline int sm_quant_bins(bool is_signed) { return is_signed ? 1 : 2; }

// Start of decade d: 10^(d-7).
static inline double sm_quant_decade(int d) {
    double begin = 1;
    for (int i = d; i < SM_QUANT_DECADES; i++) {
        begin /= 10;
    }
    return begin;
}

// Rank 0 is zero, the last is one, the bins' middles are between.
static inline double sm_quant_of_rank(bool is_signed, int rank) {
    int bins = sm_quant_bins(is_signed);
    int bin = rank - 1;
    int d = 0;
    for (; bin >= bins && d < SM_QUANT_DECADES; d++) {
        bin -= bins;
        bins *= 2;
    }
    return rank == 0 ? 0 : d == SM_QUANT_DECADES ? 1 : sm_quant_decade(d) * (1 + 9 * (bin + 0.5) / bins);
}

// The value of a code.
static inline double sm_quant_value(bool is_signed, int code) {
    if (!is_signed) {
        return sm_quant_of_rank(false, code);
    }
    return code < SM_QUANT_ZERO ? -sm_quant_of_rank(true, SM_QUANT_ZERO - code)
                                : sm_quant_of_rank(true, code - SM_QUANT_ZERO);
}
