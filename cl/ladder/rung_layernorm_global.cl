// rung_layernorm_global.cl: a work-item for each row, with three loops. Neighbouring items read addresses a row apart.
#define layernorm_forward_signature "cl 1 N C eps x w b add y mean rstd r"
#define layernorm_forward_items "N by 16"

kernel void layernorm_forward(const long N, const long C, const float eps, global const float *x, const ulong x_at,
                              global const float *w, const ulong w_at, global const float *b, const ulong b_at,
                              global const float *add, const ulong add_at, global float *y, const ulong y_at,
                              global float *mean, const ulong mean_at, global float *rstd, const ulong rstd_at,
                              global float *r, const ulong r_at) {
    const long n = get_global_id(0);
    if (n >= N) {
        return;
    }
    x += x_at + n * C;
    y += y_at + n * C;
    float sum = 0;
    float squares = 0;
    for (long c = 0; c < C; c++) {
        sum += x[c];
    }
    const float average = sum / C;
    for (long c = 0; c < C; c++) {
        squares += (x[c] - average) * (x[c] - average);
    }
    const float inverse = 1 / sqrt(squares / C + eps);
    for (long c = 0; c < C; c++) {
        y[c] = (x[c] - average) * inverse * w[w_at + c] + b[b_at + c];
    }
    mean[mean_at + n] = average;
    rstd[rstd_at + n] = inverse;
}
