// known_product.c: a product of small whole numbers: its sums are exact in every format and order, so kernels of matrix
// units that are tried must give these very numbers.
#include "backends/opencl/families/families.h"

static float a_at(int m, int k) { return (float)((m * 7 + k * 3 + m / 11) % 11 - 5); }

float opencl_known_b(int k, int n) { return (float)((k * 5 + n * 2 + k / 7) % 7 - 3); }
float opencl_known_bias(int n) { return (float)(n % 5 - 2); }

static void put(sm_dtype dtype, float x, unsigned char *to, int i) {
    sm_dtype_format(dtype)->round(1, &x, to + (size_t)i * sm_dtype_size(dtype));
}

void opencl_put_operands(const opencl_known_product *p, unsigned char *a, unsigned char *b) {
    for (int k = 0; k < p->K; k++) {
        for (int m = 0; m < p->M; m++) {
            put(p->dtype, a_at(m, k), a, p->a_transposed ? k * p->M + m : m * p->K + k);
        }
        for (int n = 0; n < p->N; n++) {
            put(p->b_dtype, opencl_known_b(k, n), b, p->b_transposed ? n * p->K + k : k * p->N + n);
        }
    }
}

static float expected(const opencl_known_product *p, int m, int n) {
    float sum = 0;
    for (int k = 0; k < p->K; k++) {
        sum += a_at(m, k) * opencl_known_b(k, n);
    }
    sum = sum / (p->divisor != 0 ? p->divisor : 1) + (p->has_bias ? opencl_known_bias(n) : 0);
    sm_dtype_round_trip(p->c_dtype, 1, &sum);
    return sum;
}

int opencl_count_wrong(const opencl_known_product *p, const void *c) {
    int n_wrong = 0;
    for (int i = 0; i < p->M * p->N; i++) {
        float found = 0;
        sm_dtype_format(p->c_dtype)->widen(1, (const char *)c + (size_t)i * sm_dtype_size(p->c_dtype), &found);
        n_wrong += !(found == expected(p, i / p->N, i % p->N));
    }
    return n_wrong;
}
