// adafactor.c: Adafactor in three passes over a parameter: the running means, the size of the update, the
// update. Sums over all threads lie at the beginning of each thread's scratch, column sums after them.
#include <math.h>

#include "backends/cpu/common/kernel.h"

typedef struct {
    double rows;    // of the thread's rows' means
    double updates; // of squares
    double values;
} sums;

enum { COLUMNS_AT = sizeof(sums) / sizeof(float) }; // in floats

CPU_SCRATCH(adafactor) {
    return sizeof(sums) + (size_t)sm_tensor_cols(op->out_tensor[SM_OUT(adafactor, p)]) * sizeof(float);
}

CPU_SCRATCH(adafactor_vector) { return sizeof(sums); }

// All threads' sums, in the order of the threads; called after a barrier.
static sums add_sums(const cpu_team *team) {
    sums all = {0, 0, 0};
    for (int k = 0; k < team->n_threads; k++) {
        const sums *part = team->scratch[k];
        all.rows += part->rows;
        all.updates += part->updates;
        all.values += part->values;
    }
    return all;
}

// The step's length: relative to the parameter's size, and shorter where the update is large.
static float step_length(const float *hyper, const sums *all, int64_t n) {
    const double p_rms = sqrt(all->values / (double)n);
    const double u_rms = sqrt(all->updates / (double)n);
    const double alpha = (double)hyper[SM_HYPER_RELATIVE_STEP] * fmax((double)hyper[SM_HYPER_EPS2], p_rms);
    return (float)(alpha / fmax(1, u_rms / (double)hyper[SM_HYPER_UPDATE_RMS]));
}

// g / sqrt(v), where v is no less than `least`.
static inline float divide_by_root(float g, float v, float least) { return g / sqrtf(v > least ? v : least); }

// Squares of this thread's rows: the rows' running means, and sums by column.
static void update_rows(const host_op *op, const cpu_team *team, cpu_range rows, int64_t C) {
    const float *g = op->in[SM_IN(adafactor, g)];
    const float *hyper = op->in[SM_IN(adafactor, hyper)];
    const float clip = *(const float *)op->in[SM_IN(adafactor, clip)];
    float *row = op->out[SM_OUT(adafactor, row)];
    sums *mine = team->scratch[team->thread];
    float *columns = (float *)team->scratch[team->thread] + COLUMNS_AT;
    const float beta2 = hyper[SM_HYPER_BETA2];
    memset(columns, 0, (size_t)C * sizeof *columns);
    mine->rows = 0;
    for (int64_t r = rows.first; r < rows.end; r++) {
        const float *from = g + r * C;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < C; c++) {
            const float grad = clip * from[c];
            columns[c] += grad * grad;
            sum += grad * grad;
        }
        row[r] = beta2 * row[r] + (1.0f - beta2) * sum / (float)C;
        mine->rows += (double)row[r];
    }
}

static void update_columns(const host_op *op, const cpu_team *team, int64_t R, int64_t C) {
    const float beta2 = ((const float *)op->in[SM_IN(adafactor, hyper)])[SM_HYPER_BETA2];
    float *col = op->out[SM_OUT(adafactor, col)];
    const cpu_range cols = cpu_my_elems(team, C);
    const float part = (1.0f - beta2) / (float)R;
    for (int64_t c = cols.first; c < cols.end; c++) {
        float sum = 0;
        for (int k = 0; k < team->n_threads; k++) {
            sum += ((const float *)team->scratch[k] + COLUMNS_AT)[c];
        }
        col[c] = beta2 * col[c] + part * sum;
    }
}

// Sums of squares of this thread's part of the update and of the parameter.
static void measure_rows(const host_op *op, sums *mine, cpu_range rows, int64_t C, double mean) {
    const float *g = op->in[SM_IN(adafactor, g)];
    const float *hyper = op->in[SM_IN(adafactor, hyper)];
    const float clip = *(const float *)op->in[SM_IN(adafactor, clip)];
    const float *row = op->out[SM_OUT(adafactor, row)];
    const float *col = op->out[SM_OUT(adafactor, col)];
    const float *p = op->out[SM_OUT(adafactor, p)];
    const float least = hyper[SM_HYPER_EPS] * hyper[SM_HYPER_EPS];
    mine->updates = mine->values = 0;
    for (int64_t r = rows.first; r < rows.end; r++) {
        const float factor = (float)((double)row[r] / mean);
        float updates = 0;
        float values = 0;
#pragma omp simd reduction(+ : updates, values)
        for (int64_t c = 0; c < C; c++) {
            const float u = divide_by_root(clip * g[r * C + c], factor * col[c], least);
            updates += u * u;
            values += p[r * C + c] * p[r * C + c];
        }
        mine->updates += (double)updates;
        mine->values += (double)values;
    }
}

static void move_rows(const host_op *op, cpu_range rows, int64_t C, double mean, float step) {
    const float *g = op->in[SM_IN(adafactor, g)];
    const float *hyper = op->in[SM_IN(adafactor, hyper)];
    const float clip = *(const float *)op->in[SM_IN(adafactor, clip)];
    const float *row = op->out[SM_OUT(adafactor, row)];
    const float *col = op->out[SM_OUT(adafactor, col)];
    float *p = op->out[SM_OUT(adafactor, p)];
    cpu_data *w = op->out[SM_OUT(adafactor, w)];
    const float least = hyper[SM_HYPER_EPS] * hyper[SM_HYPER_EPS];
    const float keep = op->op->attr.decay ? 1.0f - hyper[SM_HYPER_LR] * hyper[SM_HYPER_WEIGHT_DECAY] : 1.0f;
    for (int64_t r = rows.first; r < rows.end; r++) {
        const float factor = (float)((double)row[r] / mean);
#pragma omp simd
        for (int64_t c = 0; c < C; c++) {
            const int64_t i = r * C + c;
            p[i] = keep * p[i] - step * divide_by_root(clip * g[i], factor * col[c], least);
        }
        for (int64_t c = 0; w != NULL && c < C; c++) {
            w[r * C + c] = cpu_round(p[r * C + c]);
        }
    }
}

CPU_KERNEL(adafactor) {
    const int64_t R = sm_tensor_rows(op->out_tensor[SM_OUT(adafactor, p)]);
    const int64_t C = sm_tensor_cols(op->out_tensor[SM_OUT(adafactor, p)]);
    const float *hyper = op->in[SM_IN(adafactor, hyper)];
    const cpu_range rows = cpu_my_rows(team, R);
    update_rows(op, team, rows, C);
    cpu_meet(team);
    update_columns(op, team, R, C);
    const double mean = fmax(add_sums(team).rows / (double)R, (double)hyper[SM_HYPER_EPS]);
    cpu_meet(team);
    measure_rows(op, team->scratch[team->thread], rows, C, mean);
    cpu_meet(team);
    const sums all = add_sums(team);
    move_rows(op, rows, C, mean, step_length(hyper, &all, R * C));
}

CPU_KERNEL(adafactor_vector) {
    const float *g = op->in[SM_IN(adafactor_vector, g)];
    const float *hyper = op->in[SM_IN(adafactor_vector, hyper)];
    const float clip = *(const float *)op->in[SM_IN(adafactor_vector, clip)];
    float *p = op->out[SM_OUT(adafactor_vector, p)];
    float *v = op->out[SM_OUT(adafactor_vector, v)];
    sums *mine = team->scratch[team->thread];
    const int64_t n = sm_tensor_elems(op->out_tensor[SM_OUT(adafactor_vector, p)]);
    const float beta2 = hyper[SM_HYPER_BETA2];
    const float least = hyper[SM_HYPER_EPS] * hyper[SM_HYPER_EPS];
    const cpu_range part = cpu_my_elems(team, n);
    *mine = (sums){0, 0, 0};
    for (int64_t i = part.first; i < part.end; i++) {
        const float grad = clip * g[i];
        v[i] = beta2 * v[i] + (1.0f - beta2) * grad * grad;
        const float u = divide_by_root(grad, v[i], least);
        mine->updates += (double)u * (double)u;
        mine->values += (double)p[i] * (double)p[i];
    }
    cpu_meet(team);
    const sums all = add_sums(team);
    const float step = step_length(hyper, &all, n);
    for (int64_t i = part.first; i < part.end; i++) {
        p[i] -= step * divide_by_root(clip * g[i], v[i], least);
    }
}
