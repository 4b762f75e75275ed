// adafactor.c: Adafactor (Shazeer and Stern 2018, algorithms 4 and 5), as in PyTorch.
#include "backends/reference/ref.h"

static double rms(int64_t n, const real *x) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    return sqrt(sum / (double)n);
}

// The step's length: relative to the parameter's size, and shorter for a large update.
static double step_length(const real *hyper, double p_rms, double u_rms) {
    double alpha = (double)hyper[SM_HYPER_RELATIVE_STEP] * fmax((double)hyper[SM_HYPER_EPS2], p_rms);
    return alpha / fmax(1, u_rms / (double)hyper[SM_HYPER_UPDATE_RMS]);
}

// g / sqrt(v), with v at least eps^2.
static double divide_by_root(const real *hyper, double g, double v) {
    double eps = (double)hyper[SM_HYPER_EPS];
    return g / sqrt(fmax(v, eps * eps));
}

// row (R) and col (C): running means of g^2 over a row and over a column; g, p (R,C).
static void update_means(int64_t R, int64_t C, double b2, double clip, const real *g, real *row, real *col) {
    for (int64_t r = 0; r < R; r++) {
        double sum = 0;
        for (int64_t c = 0; c < C; c++) {
            sum += pow(clip * (double)g[r * C + c], 2);
        }
        row[r] = (real)(b2 * (double)row[r] + (1 - b2) * sum / (double)C);
    }
    for (int64_t c = 0; c < C; c++) {
        double sum = 0;
        for (int64_t r = 0; r < R; r++) {
            sum += pow(clip * (double)g[r * C + c], 2);
        }
        col[c] = (real)(b2 * (double)col[c] + (1 - b2) * sum / (double)R);
    }
}

void REF(adafactor)(int64_t R, int64_t C, bool decay, const real *g, const real *hyper, const real *clip, real *p,
                    real *row, real *col) {
    double keep = decay ? 1 - (double)hyper[SM_HYPER_LR] * (double)hyper[SM_HYPER_WEIGHT_DECAY] : 1;
    double mean = 0;
    double squares = 0;
    double step = 0;
    update_means(R, C, (double)hyper[SM_HYPER_BETA2], (double)*clip, g, row, col);
    for (int64_t r = 0; r < R; r++) {
        mean += (double)row[r] / (double)R;
    }
    mean = fmax(mean, (double)hyper[SM_HYPER_EPS]);
    for (int pass = 0; pass < 2; pass++) { // first the update's size, then the update
        for (int64_t i = 0; i < R * C; i++) {
            double v = (double)row[i / C] * (double)col[i % C] / mean;
            double u = divide_by_root(hyper, (double)*clip * (double)g[i], v);
            squares += pass == 0 ? u * u : 0;
            p[i] = pass == 0 ? p[i] : (real)(keep * (double)p[i] - step * u);
        }
        step = step_length(hyper, rms(R * C, p), sqrt(squares / (double)(R * C)));
    }
}

void REF(adafactor_vector)(int64_t n, const real *g, const real *hyper, const real *clip, real *p, real *v) {
    double b2 = (double)hyper[SM_HYPER_BETA2];
    double squares = 0;
    for (int64_t i = 0; i < n; i++) {
        double gi = (double)*clip * (double)g[i];
        v[i] = (real)(b2 * (double)v[i] + (1 - b2) * gi * gi);
        squares += pow(divide_by_root(hyper, gi, (double)v[i]), 2);
    }
    double step = step_length(hyper, rms(n, p), sqrt(squares / (double)n));
    for (int64_t i = 0; i < n; i++) {
        p[i] = (real)((double)p[i] - step * divide_by_root(hyper, (double)*clip * (double)g[i], (double)v[i]));
    }
}
