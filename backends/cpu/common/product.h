// product.h: matmuls: by our own packed kernels, or by BLAS.
#pragma once

#include "backends/cpu/common/kernel.h"

// c (m,n) = a (m,k) b (k,n), and the epilogue of c. An operand is read through two strides, one of which is 1: element
// (i,j) of a is a[i * a_row + j * a_col].
typedef struct {
    int64_t m, n, k;
    const cpu_data *a;
    int64_t a_row, a_col;
    const cpu_data *b;
    int64_t b_row, b_col;
    float *c;          // rows of n
    bool add;          // c += a b
    cpu_data *rounded; // for bf16 data, receives the rounded result; c is then NULL

    const float *bias;   // (n), added to every row; NULL: none
    sm_activation activation; // f
    cpu_data *act;            // (m,n): receives f(c); NULL: none
    const cpu_data *pre;      // (m,n): c is multiplied by f'(pre); NULL: none
} cpu_product;

// Computes this thread's part; all threads of the team must call, with equal arguments. Needs
// cpu_product_scratch bytes of every thread's scratch. Meets barriers.
void ISA(cpu_multiply)(const cpu_product *p, const cpu_team *team);
size_t ISA(cpu_product_scratch)(int64_t m, int64_t n, int64_t k, int n_threads);
void BASE_ISA(cpu_multiply)(const cpu_product *p, const cpu_team *team);
size_t BASE_ISA(cpu_product_scratch)(int64_t m, int64_t n, int64_t k, int n_threads);

// The same by OpenBLAS, for float data: no barrier, and no scratch.
void BASE_ISA(cpu_multiply_blas)(const cpu_product *p, const cpu_team *team);

// For float data, the epilogue of a finished part of c: bias, act, pre.
void BASE_ISA(cpu_finish_product)(const cpu_product *p, cpu_range rows, cpu_range cols);
