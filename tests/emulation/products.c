// products.c: runs the kernel of cl/nvidia/matmul_wgmma.cl on a CPU (warps.h), and compares with products summed in
// fp64. Usage: products M N K PARTS GROUPS. K counts two bytes as one. The format, the tiles and the epilogue are fixed when it is built.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "f16.h"
#include "philox.h"
#include "warps.h"

#ifdef DATA_F16
static float widen(uint16_t x) { return sm_f16_widen(x); }
static uint16_t narrow(float x) { return sm_f16_round(x); }
#else
static float widen(uint16_t x) { return sm_bf16_widen(x); }
static uint16_t narrow(float x) { return sm_bf16_round(x); }
#endif

#ifdef A_TRANSPOSED
enum { A_ALONG_C = 1 };
#else
enum { A_ALONG_C = 0 };
#endif
#ifdef B_TRANSPOSED
enum { B_ALONG_C = 0 };
#else
enum { B_ALONG_C = 1 };
#endif

#ifdef FP8_A
enum { e4m3, e5m2, BYTES_A_NUMBER = 2 };
#define SCALE_TYPES , const float *, uint64_t, const float *, uint64_t
#define SCALES      , scales, 0, scales, 1
#else
enum { FP8_A, FP8_B, BYTES_A_NUMBER = 0 };
#define SCALE_TYPES
#define SCALES
#endif
static const float scales[] = {2, 4}; // of bytes

#ifdef C_REAL
typedef float result;
static float value_of(result x) { return x; }
static result result_of(float x) { return x; }
#else
typedef uint16_t result;
static float value_of(result x) { return widen(x); }
static result result_of(float x) { return narrow(x); }
#endif

#if COLUMN_SUMS || SQUARES
#define SUMS_TYPES , float *, uint64_t
#define SUMS       , strips, 0
#else
#define SUMS_TYPES
#define SUMS
#endif

enum { BIAS = 2, ACT = 4, ACT_BACKWARD = 8, ITEMS = (CONSUMERS + 1) * 128, TILE_M = CONSUMERS * 64, GROUP_M = 64, SUM_WARPS = 3, GUARD = 64 };

void matmul(uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, const warps_map *, uint64_t, const float *,
            uint64_t SUMS_TYPES SCALE_TYPES);

static uint32_t M, N, K, n_parts;
static warps_map maps[5]; // A, B, C, what is beside it, and B's small parts
static float *bias, *strips;

static void item(void) { matmul(BESIDE, M, N, K, n_parts, 2, maps, 0, bias, 0 SUMS SCALES); }

// Numbers in [-1, 1).
static float draw(uint64_t i) { return (float)sm_philox4x32(7, i, 0).word[0] * 0x1p-31f - 1; }

static void *allocate(size_t n, size_t elem_bytes) {
    void *p = malloc((n + GUARD) * elem_bytes);
    return p != NULL ? memset(p, 0xFF, (n + GUARD) * elem_bytes) : NULL;
}

static uint16_t *draw_matrix(uint64_t first, uint32_t n) {
    uint16_t *p = allocate(n, sizeof *p);
    for (uint32_t i = 0; i < n; i++) {
        p[i] = BYTES_A_NUMBER ? (uint16_t)(sm_philox4x32(7, first + i, 0).word[0] & 0x3F3F) : narrow(draw(first + i));
    }
    return p;
}

// The sum over number k of both operands, or over its two bytes, from 0 to 2: what units drop of such sums adds up.
static double multiply(const uint16_t *a, const uint16_t *b) {
    double sum = BYTES_A_NUMBER ? 0 : (double)widen(*a) * widen(*b);
    for (int i = 0; i < BYTES_A_NUMBER; i++) {
        sum += (double)warps_widen_byte((uint8_t)(*a >> 8 * i), FP8_A) * warps_widen_byte((uint8_t)(*b >> 8 * i), FP8_B) /
               (scales[0] * scales[1]);
    }
    return sum;
}

// As backends/opencl/nvidia/tensor.c has them.
static warps_map map_operand(const void *p, int is_along_c, uint32_t outer, uint32_t tile) {
    return (warps_map){
        (uintptr_t)p, {is_along_c ? outer : K, is_along_c ? K : outer, 1}, 2, {64, is_along_c ? 64 : tile, 1}};
}

static warps_map map_result(const result *p, uint32_t n_rows) {
    const uint32_t cols = 128 / sizeof *p;
    return TILE_N % cols == 0 ? (warps_map){(uintptr_t)p, {N, M, n_parts}, sizeof *p, {cols, n_rows, 1}}
                              : (warps_map){(uintptr_t)p, {TILE_N, N / TILE_N, M}, sizeof *p, {cols, 1, n_rows}};
}

static int n_wrong;

static void compare(const char *what, uint32_t m, uint32_t n, double got, double wanted) {
    const double most = BYTES_A_NUMBER > 0 && sizeof(result) == sizeof(float) ? 0.001 : 0.01;
    if (!(fabs(got - wanted) <= most * (1 + fabs(wanted))) && n_wrong++ < 3) {
        printf(" %s of row %u, column %u: %g, not %g: FAILED\n", what, m, n, got, wanted);
    }
}

int main(int argc, char **argv) {
    if (argc != 6) {
        return 2;
    }
    M = (uint32_t)atoi(argv[1]);
    N = (uint32_t)atoi(argv[2]);
    K = (uint32_t)atoi(argv[3]);
    n_parts = (uint32_t)atoi(argv[4]);
    const uint32_t n_strips = SUM_WARPS * ((M + TILE_M - 1) / TILE_M) * n_parts;
    const uint16_t *a = draw_matrix(0, M * K);
    const uint16_t *b = draw_matrix(1u << 30, N * K);
    result *c = allocate((size_t)n_parts * M * N, sizeof *c);
    result *side = allocate((size_t)M * N, sizeof *side);
    bias = allocate(N, sizeof *bias);
    strips = allocate((size_t)n_strips * N, sizeof *strips);
    for (uint32_t i = 0; i < N; i++) {
        bias[i] = draw(2000000000u + i);
    }
    for (uint32_t i = 0; i < M * N && (BESIDE & ACT_BACKWARD) != 0; i++) {
        side[i] = result_of(draw(3000000000u + i));
    }
    maps[0] = map_operand(a, A_ALONG_C, M, TILE_M);
    maps[1] = map_operand(b, B_ALONG_C, N, TILE_N);
    maps[2] = map_result(c, GROUP_M);
    maps[3] = map_result(side, BESIDE & ACT_BACKWARD ? TILE_M : GROUP_M);
    warps_run((uint32_t)atoi(argv[5]), ITEMS, item);
    for (uint32_t i = 0; i < M * N; i++) {
        const uint32_t m = i / N, n = i % N;
        double sum = BESIDE & BIAS ? bias[n] : 0, got = 0;
        for (uint32_t k = 0; k < K; k++) {
            sum += multiply(&a[A_ALONG_C ? k * M + m : m * K + k], &b[B_ALONG_C ? k * N + n : n * K + k]);
        }
        for (uint32_t part = 0; part < n_parts; part++) {
            got += value_of(c[(part * M + m) * N + n]);
        }
        compare("C", m, n, got, BESIDE & ACT_BACKWARD && !(value_of(side[i]) > 0) ? sum / 4 : sum);
        if (BESIDE & ACT) {
            compare("the activation", m, n, value_of(side[i]), sum > 0 ? sum : sum / 4);
        }
    }
    for (uint32_t n = 0; n < N && COLUMN_SUMS; n++) {
        double difference = 0;
        for (uint32_t k = 0; k < K; k++) {
            difference += widen(b[B_ALONG_C ? k * N + n : n * K + k]);
        }
        for (uint32_t i = 0; i < n_strips; i++) {
            difference -= strips[i * N + n];
        }
        compare("the sum", 0, n, difference, 0);
    }
    double left = 0; // of the squares: a sum for each warp's 16 rows of 64 columns
    for (uint32_t i = 0; i < M * N && SQUARES; i++) {
        left += (i % 1024 == 0 ? strips[i / 1024] : 0) - (double)value_of(c[i]) * value_of(c[i]);
    }
    compare("the squares", 0, 0, left, 0);
    for (size_t i = 0; i < GUARD * sizeof *c; i++) {
        compare("what follows C", 0, (uint32_t)i, ((const unsigned char *)(c + (size_t)n_parts * M * N))[i], 0xFF);
    }
    printf("M=%s N=%s K=%s parts=%s groups=%s: %d wrong\n", argv[1], argv[2], argv[3], argv[4], argv[5], n_wrong);
    return n_wrong > 0;
}
