// grad_norm.c: the global gradient norm and the factor that clips it.
#include <math.h>

#include "backends/cpu/common/kernel.h"
#include "backends/cpu/common/vector.h"

CPU_SCRATCH(grad_sqnorm) { return sizeof(double); }

// Vectors of as many doubles as fill one, and of as many floats.
enum { N_DOUBLES = CPU_VECTOR / 2 };
typedef double doubles __attribute__((vector_size(N_DOUBLES * sizeof(double))));
typedef float floats __attribute__((vector_size(N_DOUBLES * sizeof(float)), aligned(4), may_alias));

static inline doubles widen(const floats *x) {
#if defined(__AVX512F__)
    return (doubles)_mm512_cvtps_pd((__m256)*x); // gcc 12 would convert halves
#else
    return __builtin_convertvector(*x, doubles);
#endif
}

// Squares are summed in double: a float sum over a hundred million elements loses digits. Several sums take them in
// turns: an addition waits four cycles for the one before it. Memory a page ahead is asked for: the processor's own
// look-ahead ends with a page.
static double sum_squares(const float *x, int64_t n) {
    enum { N_SUMS = 8, STEP = N_SUMS * N_DOUBLES, LINE_ELEMS = 64 / sizeof *x, AHEAD_ELEMS = 4096 / sizeof *x };
    doubles sums[N_SUMS] = {{0}};
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        for (int k = 0; k < STEP; k += LINE_ELEMS) {
            __builtin_prefetch(x + i + AHEAD_ELEMS + k, 0, 2);
        }
        for (int k = 0; k < N_SUMS; k++) {
            const doubles wide = widen((const floats *)(x + i) + k);
            sums[k] += wide * wide;
        }
    }
    double total = 0;
    for (; i < n; i++) {
        total += (double)x[i] * (double)x[i];
    }
    for (int k = 0; k < STEP; k++) {
        total += sums[k / N_DOUBLES][k % N_DOUBLES];
    }
    return total;
}

CPU_KERNEL(grad_sqnorm) {
    const float *g = op->in[SM_IN(grad_sqnorm, g)];
    cpu_range mine = cpu_my_elems(team, sm_tensor_elems(op->in_tensor[SM_IN(grad_sqnorm, g)]));
    *(double *)team->scratch[team->thread] = sum_squares(g + mine.first, mine.end - mine.first);
}

CPU_FINISH(grad_sqnorm) {
    if (team->thread == 0) {
        double total = 0;
        for (int k = 0; k < team->n_threads; k++) {
            total += *(const double *)team->scratch[k];
        }
        *(float *)op->out[SM_OUT(grad_sqnorm, sqnorm)] = (float)total;
    }
}

CPU_KERNEL(grad_clip) {
    const float *sqnorm = op->in[SM_IN(grad_clip, sqnorm)];
    const float *hyper = op->in[SM_IN(grad_clip, hyper)];
    const float *scaler = op->in[SM_IN(grad_clip, scaler)];
    float *norm = op->out[SM_OUT(grad_clip, norm)];
    float *clip = op->out[SM_OUT(grad_clip, clip)];
    if (team->thread != 0) {
        return;
    }
    int64_t n_groups = sm_tensor_elems(op->in_tensor[SM_IN(grad_clip, sqnorm)]);
    double total = 0;
    for (int64_t k = 0; k < n_groups; k++) {
        total += (double)sqnorm[k];
    }
    const double scale = scaler == NULL ? 1 : (double)scaler[SM_SCALER_SCALE];
    double length = sqrt(total) / scale;
    double limit = (double)hyper[SM_HYPER_GRAD_CLIP];
    double ratio = limit / (length + 1e-6);
    *norm = (float)length;
    *clip = (float)((limit == 0 || ratio > 1 ? 1 : ratio) / scale); // a norm of NaN gives a factor of NaN
    if (scaler != NULL && !isfinite(length)) {
        *clip = -1;
    }
}
