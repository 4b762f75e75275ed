// cast.c: runs the kernel of cl/nvidia/cast_fp8.cl on a CPU (warps.h), and compares its bytes, amax and sums with those
// of the numbers one by one; the last is NaN. Usage: cast ROWS COLUMNS.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "f16.h"
#include "philox.h"
#include "warps.h"

enum { ITEMS = 256, TILE = 128, GUARD = 64 };

#if SUMS
#define SUMS_TYPES , float *, uint64_t
#define STRIPS     , strips, 0
#else
#define SUMS_TYPES
#define STRIPS
#endif

void cast_fp8(uint32_t, uint32_t, const uint16_t *, uint64_t, const float *, uint64_t, uint8_t *, uint64_t, uint8_t *,
              uint64_t, uint32_t *, uint64_t SUMS_TYPES);

static const float scales[] = {0, E5M2 ? 65536.0f : 512.0f};
static uint32_t R, C, amax[2];
static uint16_t *x;
static uint8_t *rows, *columns;
static float *strips;

static void item(void) { cast_fp8(R, C, x, 0, scales, 1, rows, 0, columns, 0, amax, 1 STRIPS); }

static void *allocate(size_t n_bytes) {
    void *p = malloc(n_bytes + GUARD);
    return p != NULL ? memset(p, 0x7F, n_bytes + GUARD) : NULL;
}

static int n_wrong;

static void compare(const char *what, uint32_t r, uint32_t c, double got, double wanted, double most) {
    if (!(isnan(wanted) ? isnan(got) : fabs(got - wanted) <= most) && n_wrong++ < 3) {
        printf(" %s of row %u, column %u: %g, not %g: FAILED\n", what, r, c, got, wanted);
    }
}

int main(int argc, char **argv) {
    float largest = 0;
    if (argc != 3) {
        return 2;
    }
    R = (uint32_t)atoi(argv[1]);
    C = (uint32_t)atoi(argv[2]);
    const uint32_t n_rows = (R + TILE - 1) / TILE;
    x = allocate((size_t)R * C * sizeof *x);
    rows = allocate((size_t)R * C);
    columns = allocate((size_t)R * C);
    strips = allocate((size_t)n_rows * C * sizeof *strips);
    x[R * C - 1] = 0x7FC0;
    for (uint32_t i = 0; i < R * C - 1;
         i++) { // of 2^-40 to 1: some are rounded to zero, and some are beyond the largest
        const uint32_t random = sm_philox4x32(9, i, 0).word[0];
        x[i] = sm_bf16_round(ldexpf((float)(int32_t)random, -31 - (int)(random & 7) * (int)(random >> 3 & 5)));
        largest = fmaxf(largest, fabsf(sm_bf16_widen(x[i])));
    }
    warps_columns = (C + TILE - 1) / TILE;
    warps_run(n_rows * warps_columns, ITEMS, item);
    for (uint32_t i = 0; i < R * C; i++) {
        const int digits = E5M2 ? 2 : 3;
        const double most = E5M2 ? 57344 : 448, wanted = (double)sm_bf16_widen(x[i]) * scales[1];
        const int e = ilogb(fmax(fabs(wanted), E5M2 ? 0x1p-14 : 0x1p-6)) - digits; // of the last digit
        const double byte = isnan(wanted) ? NAN : fmin(fmax(ldexp(nearbyint(ldexp(wanted, -e)), e), -most), most);
        compare("the byte", i / C, i % C, warps_widen_byte(rows[i], E5M2), byte, 0);
        compare("the byte of columns", i / C, i % C, warps_widen_byte(columns[i % C * R + i / C], E5M2), byte, 0);
    }
    compare("amax", 0, 0, sm_f16_of_bits(amax[1]), largest, 0);
    for (uint32_t c = 0; c < C && SUMS; c++) {
        double difference = 0;
        for (uint32_t r = 0; r < R; r++) {
            difference += sm_bf16_widen(x[r * C + c]);
        }
        for (uint32_t i = 0; i < n_rows; i++) {
            difference -= strips[i * C + c];
        }
        compare("the sum", 0, c, difference, c == C - 1 ? NAN : 0, 1e-4);
    }
    for (size_t i = 0; i < GUARD; i++) {
        compare("what follows", 0, (uint32_t)i, rows[R * C + i] + columns[R * C + i], 2 * 0x7F, 0);
    }
    printf("cast %s x %s: %d wrong\n", argv[1], argv[2], n_wrong);
    return n_wrong > 0;
}
