// attention.c: runs the kernels of cl/nvidia/attention_tensor.cl on a CPU (warps.h), and compares with attention
// computed in fp64. Usage: attention B T NH NKV p. With DOCUMENTS, rows hold documents of random lengths. HS, the
// format and the sizes of the kernels are fixed when it is built.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "f16.h"
#include "philox.h"
#include "warps.h"

#ifdef DATA_F16
typedef uint16_t data;
static float widen(data x) { return sm_f16_widen(x); }
static data narrow(float x) { return sm_f16_round(x); }
static const double tolerance = 1e-3;
#elif defined(DATA_BF16)
typedef uint16_t data;
static float widen(data x) { return sm_bf16_widen(x); }
static data narrow(float x) { return sm_bf16_round(x); }
static const double tolerance = 8e-3;
#else
typedef float data;
static float widen(data x) { return x; }
static data narrow(float x) { return x; }
static const double tolerance = SPLIT ? 2e-6 : 1e-3;
#endif

#ifndef DOCUMENTS
#define DOCUMENTS 0
#endif

enum { OWN = WARPS * FRAGMENTS * 16, ITEMS = WARPS * 32, GUARD = 64 };

static struct {
    uint64_t B, T, NH, NKV, ld, C, key;
    uint32_t threshold, rng_step[2];
    float drop_scale;
    int32_t *starts;
    data *qkv, *y, *dy, *dqkv; // GUARD elements before and after each
    float *lse, *D;
} x;

#if WGMMA
#define MAPS_TYPES const warps_map *, uint64_t,
#define MAPS       maps, 0,
static warps_map maps[2]; // qkv, dy
#else
#define MAPS_TYPES
#define MAPS
#endif

void attention_forward(uint64_t, uint64_t, uint64_t, uint64_t, const int32_t *, uint64_t, uint64_t, uint32_t, float,
                       MAPS_TYPES const data *, uint64_t, const uint32_t *, uint64_t, data *, uint64_t, float *,
                       uint64_t);
void attention_backward_rows(uint64_t, uint64_t, uint64_t, uint64_t, const int32_t *, uint64_t, uint64_t, uint32_t,
                             float, MAPS_TYPES const data *, uint64_t, const data *, uint64_t, const float *, uint64_t,
                             const uint32_t *, uint64_t, const data *, uint64_t, float *, uint64_t, data *, uint64_t);
void attention_backward_keys(uint64_t, uint64_t, uint64_t, uint64_t, const int32_t *, uint64_t, uint64_t, uint32_t,
                             float, MAPS_TYPES const data *, uint64_t, const data *, uint64_t, const float *, uint64_t,
                             const uint32_t *, uint64_t, const float *, uint64_t, data *, uint64_t);

static void forward(void) {
    attention_forward(x.T, x.NH, x.NKV, x.B * x.NH, x.starts, GUARD, x.key, x.threshold, x.drop_scale, MAPS x.qkv,
                      GUARD, x.rng_step, 0, x.y, GUARD, x.lse, GUARD);
}

static void backward_rows(void) {
    attention_backward_rows(x.T, x.NH, x.NKV, x.B * x.NH, x.starts, GUARD, x.key, x.threshold, x.drop_scale, MAPS x.dy,
                            GUARD, x.qkv, GUARD, x.lse, GUARD, x.rng_step, 0, x.y, GUARD, x.D, GUARD, x.dqkv, GUARD);
}

static void backward_keys(void) {
    attention_backward_keys(x.T, x.NH, x.NKV, x.B * x.NKV, x.starts, GUARD, x.key, x.threshold, x.drop_scale, MAPS x.dy,
                            GUARD, x.qkv, GUARD, x.lse, GUARD, x.rng_step, 0, x.D, GUARD, x.dqkv, GUARD);
}

static void *allocate(uint64_t n, size_t elem_bytes, int fill) {
    const size_t size_bytes = ((n + 2 * GUARD) * elem_bytes + 63) / 64 * 64;
    void *p = aligned_alloc(64, size_bytes);
    if (p == NULL) {
        exit(1);
    }
    return memset(p, fill, size_bytes);
}

// About normal: a sum of 12 numbers of [0, 1), of their own draws.
static float draw(uint64_t i) {
    double sum = -6;
    for (uint64_t k = 0; k < 3; k++) {
        const sm_philox_block block = sm_philox4x32(7, 3 * i + k, 0);
        for (int w = 0; w < 4; w++) {
            sum += block.word[w] * 0x1p-32;
        }
    }
    return (float)sum;
}

static data *allocate_random(uint64_t n, uint64_t first) {
    data *p = allocate(n, sizeof *p, 0xFF);
    for (uint64_t i = 0; i < n; i++) {
        p[GUARD + i] = narrow(draw(first + i));
    }
    return p;
}

// Documents of 1 to 60 tokens and, after the last of each sequence, padding, which sees itself alone.
static void make_documents(void) {
    x.starts = allocate(x.B * x.T, sizeof *x.starts, 0xFF);
    for (uint64_t b = 0; b < x.B; b++) {
        uint64_t start = 0, end = 0;
        for (uint64_t t = 0; t < x.T; t++) {
            if (DOCUMENTS && (t == end || t + 5 > x.T)) {
                start = t;
                end = t + 1 + sm_philox4x32(3, b * x.T + t, 0).word[0] % 60;
            }
            x.starts[GUARD + b * x.T + t] = (int32_t)start;
        }
    }
}

static void make_tensors(void) {
    const uint64_t n_tokens = x.B * x.T;
    make_documents();
    x.qkv = allocate_random(n_tokens * x.ld, 0);
    x.dy = allocate_random(n_tokens * x.C, 1u << 30);
    x.y = allocate(n_tokens * x.C, sizeof *x.y, 0xFF);
    x.dqkv = allocate(n_tokens * x.ld, sizeof *x.dqkv, 0xFF);
    x.lse = allocate(x.B * x.NH * x.T, sizeof *x.lse, 0xFF);
    x.D = allocate(x.B * x.NH * x.T, sizeof *x.D, 0xFF);
}

// --- the same in fp64 ---------------------------------------------------------------------------------

typedef struct {
    double *y, *lse, *dqkv;
} expected;

static double value(const data *p, uint64_t i) { return widen(p[GUARD + i]); }

static double dot(const data *a, uint64_t a_at, const data *b, uint64_t b_at) {
    double sum = 0;
    for (uint64_t c = 0; c < HS; c++) {
        sum += value(a, a_at + c) * value(b, b_at + c);
    }
    return sum;
}

static double keep(uint64_t element) {
    return x.threshold == 0 || sm_dropout_keeps(x.key, x.rng_step[0], element, x.threshold) ? x.drop_scale : 0;
}

// Row t of head h of sequence b: its result, and what it adds to the gradients.
static void compute_row(uint64_t b, uint64_t h, uint64_t t, double *att, double *datt, expected *e) {
    const uint64_t row = (b * x.NH + h) * x.T + t;
    const uint64_t q = (b * x.T + t) * x.ld + h * HS;
    const uint64_t y = (b * x.T + t) * x.C + h * HS;
    const uint64_t first_k = b * x.T * x.ld + (x.NH + h / (x.NH / x.NKV)) * HS;
    const uint64_t to_v = x.NKV * HS;
    const uint64_t first = (uint64_t)x.starts[GUARD + b * x.T + t];
    double total = 0, sum = 0;
    for (uint64_t s = first; s <= t; s++) {
        att[s] = exp(dot(x.qkv, q, x.qkv, first_k + s * x.ld) / sqrt(HS));
        total += att[s];
    }
    e->lse[row] = log(total);
    for (uint64_t s = first; s <= t; s++) {
        att[s] /= total;
        datt[s] = keep(row * x.T + s) * dot(x.dy, y, x.qkv, first_k + s * x.ld + to_v);
        sum += att[s] * datt[s];
    }
    for (uint64_t s = first; s <= t; s++) {
        const uint64_t k = first_k + s * x.ld;
        const double ds = att[s] * (datt[s] - sum) / sqrt(HS);
        const double kept = att[s] * keep(row * x.T + s);
        for (uint64_t c = 0; c < HS; c++) {
            e->y[y + c] += kept * value(x.qkv, k + to_v + c);
            e->dqkv[q + c] += ds * value(x.qkv, k + c);
            e->dqkv[k + c] += ds * value(x.qkv, q + c);
            e->dqkv[k + to_v + c] += kept * value(x.dy, y + c);
        }
    }
}

static void compute(expected *e) {
    double *att = calloc(2 * x.T, sizeof *att);
    e->y = calloc(x.B * x.T * x.C, sizeof *e->y);
    e->lse = calloc(x.B * x.NH * x.T, sizeof *e->lse);
    e->dqkv = calloc(x.B * x.T * x.ld, sizeof *e->dqkv);
    for (uint64_t i = 0; i < x.B * x.NH * x.T; i++) {
        compute_row(i / x.T / x.NH, i / x.T % x.NH, i % x.T, att, att + x.T, e);
    }
    free(att);
}

static int n_failed;

static void judge(const char *name, double error2, double norm2) {
    const double error = sqrt(error2 / norm2);
    const int passes = error <= tolerance;
    n_failed += !passes;
    printf(" %s %.1e%s", name, error, passes ? "" : " FAILED");
}

// Columns [first, first + n) of rows of ld.
static void compare(const char *name, const double *wanted, const data *got, uint64_t ld, uint64_t first, uint64_t n) {
    double error2 = 0, norm2 = 0;
    for (uint64_t i = 0; i < x.B * x.T * ld; i++) {
        if (i % ld >= first && i % ld < first + n) {
            error2 += pow(value(got, i) - wanted[i], 2);
            norm2 += wanted[i] * wanted[i];
        }
    }
    judge(name, error2, norm2);
}

static void compare_lse(const double *wanted) {
    double error2 = 0, norm2 = 0;
    for (uint64_t i = 0; i < x.B * x.NH * x.T; i++) {
        error2 += pow(x.lse[GUARD + i] - wanted[i], 2);
        norm2 += wanted[i] * wanted[i];
    }
    judge("lse", error2, norm2);
}

// The memory before and after a tensor is as it was.
static void check_guards(const char *name, const void *p, uint64_t n, size_t elem_bytes) {
    const unsigned char *bytes = p;
    for (size_t i = 0; i < GUARD * elem_bytes; i++) {
        if (bytes[i] != 0xFF || bytes[(GUARD + n) * elem_bytes + i] != 0xFF) {
            printf(" %s: written beyond its ends: FAILED", name);
            n_failed++;
            return;
        }
    }
}

static uint32_t groups(uint64_t n_heads) { return (uint32_t)(x.B * n_heads * ((x.T + OWN - 1) / OWN)); }

int main(int argc, char **argv) {
    if (argc != 6) {
        return 2;
    }
    expected e;
    x.B = strtoull(argv[1], NULL, 10);
    x.T = strtoull(argv[2], NULL, 10);
    x.NH = strtoull(argv[3], NULL, 10);
    x.NKV = strtoull(argv[4], NULL, 10);
    const double p = strtod(argv[5], NULL);
    x.threshold = sm_dropout_threshold(p);
    x.drop_scale = (float)(1 / (1 - p));
    x.rng_step[0] = 5;
    x.key = sm_philox_key(1, "att");
    x.C = x.NH * HS;
    x.ld = (x.NH + 2 * x.NKV) * HS;
    make_tensors();
#if WGMMA
    maps[0] = (warps_map){(uint64_t)(uintptr_t)(x.qkv + GUARD), {x.ld, x.T, x.B}, 2, {64, 64, 1}};
    maps[1] = (warps_map){(uint64_t)(uintptr_t)(x.dy + GUARD), {x.C, x.T, x.B}, 2, {64, 64, 1}};
#endif
    compute(&e);
    warps_run(groups(x.NH), ITEMS, forward);
    warps_run(groups(x.NH), ITEMS, backward_rows);
    warps_run(groups(x.NKV), ITEMS, backward_keys);
    printf("HS=%d B=%s T=%s NH=%s NKV=%s p=%s:", HS, argv[1], argv[2], argv[3], argv[4], argv[5]);
    compare("y", e.y, x.y, x.C, 0, x.C);
    compare_lse(e.lse);
    compare("dq", e.dqkv, x.dqkv, x.ld, 0, x.C);
    compare("dk", e.dqkv, x.dqkv, x.ld, x.C, x.NKV * HS);
    compare("dv", e.dqkv, x.dqkv, x.ld, x.C + x.NKV * HS, x.NKV * HS);
    check_guards("y", x.y, x.B * x.T * x.C, sizeof *x.y);
    check_guards("dqkv", x.dqkv, x.B * x.T * x.ld, sizeof *x.dqkv);
    check_guards("lse", x.lse, x.B * x.NH * x.T, sizeof *x.lse);
    printf("\n");
    return n_failed > 0;
}
