// row.h: operations on rows that several kinds of op share.
#pragma once

#include "backends/cpu/common/data.h"
#include "backends/cpu/common/vector.h"

// Independent sums: an addition takes four cycles, and another can begin every half cycle.
enum { CPU_ROW_SUMS = 4, CPU_ROW_STEP = CPU_ROW_SUMS * CPU_VECTOR };

static inline float cpu_add_up(const cpu_vector sums[CPU_ROW_SUMS]) {
    return cpu_add_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

static inline float cpu_sum(const float *x, int64_t n) {
    cpu_vector sums[CPU_ROW_SUMS] = {{0}};
    float rest = 0;
    int64_t i = 0;
    for (; i + CPU_ROW_STEP <= n; i += CPU_ROW_STEP) {
        for (int k = 0; k < CPU_ROW_SUMS; k++) {
            sums[k] += ((const cpu_vector *)(x + i))[k];
        }
    }
    for (; i < n; i++) {
        rest += x[i];
    }
    return cpu_add_up(sums) + rest;
}

// The sum of (x - mean)^2.
static inline float cpu_sum_squares(const float *x, float mean, int64_t n) {
    cpu_vector sums[CPU_ROW_SUMS] = {{0}};
    float rest = 0;
    int64_t i = 0;
    for (; i + CPU_ROW_STEP <= n; i += CPU_ROW_STEP) {
        for (int k = 0; k < CPU_ROW_SUMS; k++) {
            const cpu_vector d = ((const cpu_vector *)(x + i))[k] - mean;
            sums[k] += d * d;
        }
    }
    for (; i < n; i++) {
        rest += (x[i] - mean) * (x[i] - mean);
    }
    return cpu_add_up(sums) + rest;
}

// to = a + b, rounded when stored; room holds n floats, to may be a or b.
static inline void cpu_add_rows(const cpu_data *a, const cpu_data *b, int64_t n, float *room, cpu_data *to) {
    float *sum = cpu_gathered(to, room);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        sum[i] = cpu_widen(a[i]) + cpu_widen(b[i]);
    }
    cpu_store_gathered(sum, n, to);
}
