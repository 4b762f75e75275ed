// rope.c: rotary positions.
//
// An angle is a phase: a fraction of a turn in units of 2^-32, so that a sum or a product that passes a whole turn is
// right by itself, at any position. The cosines and sines of a position serve all heads of all its rows; where rows
// hold documents, positions are each row's own.
#include "backends/cpu/common/kernel.h"
#include "backends/cpu/common/math.h"

// Scratch: of each pair of a head's channels, what its angle is at this position, and by how much it grows.
typedef struct {
    uint64_t *growth; // 2^-64 of a turn a position
    float *cosine;
    float *sine;
} angles;

CPU_SCRATCH(rope) {
    const sm_attrs *attr = &op->op->attr;
    const int64_t HS = sm_tensor_cols(op->in_tensor[SM_IN(rope, x)]) / (attr->n_head + 2 * attr->n_kv_head);
    return (size_t)(HS / 2) * (sizeof(uint64_t) + 2 * sizeof(float));
}

static angles carve(void *scratch, int64_t n_pairs, double theta) {
    angles a = {.growth = scratch};
    a.cosine = (float *)(a.growth + n_pairs);
    a.sine = a.cosine + n_pairs;
    for (int64_t i = 0; i < n_pairs; i++) {
        a.growth[i] = (uint64_t)(0x1p64 / 6.283185307179586477 * pow(theta, -(double)i / (double)n_pairs));
    }
    return a;
}

static void find_angles(const angles *a, int64_t n_pairs, int64_t t, bool inverse) {
    const float sign = inverse ? -1.0f : 1.0f;
#pragma omp simd
    for (int64_t i = 0; i < n_pairs; i++) {
        float sine;
        a->cosine[i] = cpu_cos_sin((uint32_t)(a->growth[i] * (uint64_t)t >> 32), &sine);
        a->sine[i] = sign * sine;
    }
}

// One head; y may be x.
static void turn_head(const angles *a, int64_t n_pairs, const cpu_data *x, cpu_data *y) {
#pragma omp simd
    for (int64_t i = 0; i < n_pairs; i++) {
        const float left = cpu_widen(x[i]);
        const float right = cpu_widen(x[i + n_pairs]);
        y[i] = cpu_round(left * a->cosine[i] - right * a->sine[i]);
        y[i + n_pairs] = cpu_round(left * a->sine[i] + right * a->cosine[i]);
    }
}

CPU_KERNEL(rope) {
    const sm_attrs *attr = &op->op->attr;
    const sm_tensor *shape = op->in_tensor[SM_IN(rope, x)]; // (B,T,(NH+2NKV)HS)
    const int64_t T = shape->dims[1];
    const int64_t n_cols = shape->dims[2];
    const int64_t HS = n_cols / (attr->n_head + 2 * attr->n_kv_head);
    const int64_t first_v = (attr->n_head + attr->n_kv_head) * HS;
    const angles a = carve(team->scratch[team->thread], HS / 2, attr->rope_theta);
    const int32_t *starts = op->in[SM_IN(rope, starts)];
    const cpu_range positions = cpu_my_rows(team, T);
    for (int64_t t = positions.first; t < positions.end; t++) {
        for (int64_t b = 0; b < shape->dims[0]; b++) {
            if (b == 0 || starts != NULL) {
                find_angles(&a, HS / 2, t - (starts == NULL ? 0 : starts[b * T + t]), attr->inverse);
            }
            const cpu_data *x = (const cpu_data *)op->in[SM_IN(rope, x)] + (b * T + t) * n_cols; // may be y itself
            cpu_data *y = (cpu_data *)op->out[SM_OUT(rope, y)] + (b * T + t) * n_cols;
            for (int64_t h = 0; h < first_v; h += HS) {
                turn_head(&a, HS / 2, x + h, y + h);
            }
            if (y != x) {
                memcpy(y + first_v, x + first_v, (size_t)(n_cols - first_v) * sizeof *y);
            }
        }
    }
}
