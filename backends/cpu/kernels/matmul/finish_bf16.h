// finish_bf16.h: what is done to a bf16 product's sums before they are rounded: bias, GELU, its derivative.
#pragma once

#include "backends/cpu/common/gate.h"
#include "backends/cpu/common/product.h"

enum { CPU_FINISH_MOST = 64 }; // sums of a row at a time

// n sums of a row of c, from element `at` on, whose column is `col`.
static inline void cpu_finish_row(const cpu_product *p, int64_t at, int64_t col, int64_t n, float *restrict sums) {
    float room[CPU_FINISH_MOST];
    if (p->bias != NULL) {
        const float *bias = p->bias + col;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            sums[i] += bias[i];
        }
    }
    if (p->pre != NULL) {
        cpu_activation_slope_row(p->activation, cpu_widened(p->pre + at, n, room), n, sums);
    }
    cpu_round_row(sums, n, p->rounded + at);
    if (p->act != NULL) {
        cpu_activate_row(p->activation, sums, n, room);
        cpu_round_row(room, n, p->act + at);
    }
}
