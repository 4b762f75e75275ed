// rung_layernorm_vectors.cl: a work-item for each row, 16 of its numbers at once: 16 sums that do not wait for one
// another. (Numbers after the last 16 follow one by one.)
#define layernorm_forward_signature "cl 1 N C eps x w b add y mean rstd r"
#define layernorm_forward_items "N by 1"
#define LANES 16

static float sum_of(const float16 v) {
    const float8 a = v.lo + v.hi;
    const float4 b = a.lo + a.hi;
    return b.x + b.y + b.z + b.w;
}

kernel void layernorm_forward(const long N, const long C, const float eps, global const float *x, const ulong x_at,
                              global const float *w, const ulong w_at, global const float *b, const ulong b_at,
                              global const float *add, const ulong add_at, global float *y, const ulong y_at,
                              global float *mean, const ulong mean_at, global float *rstd, const ulong rstd_at,
                              global float *r, const ulong r_at) {
    const long n = get_global_id(0);
    const long whole = C / LANES * LANES;
    float16 sums = 0;
    float16 squares = 0;
    float sum = 0;
    float square = 0;
    x += x_at + n * C;
    w += w_at;
    b += b_at;
    y += y_at + n * C;
    for (long c = 0; c < whole; c += LANES) {
        sums += vload16(0, x + c);
    }
    for (long c = whole; c < C; c++) {
        sum += x[c];
    }
    const float average = (sum + sum_of(sums)) / C;
    for (long c = 0; c < whole; c += LANES) {
        const float16 d = vload16(0, x + c) - average;
        squares += d * d;
    }
    for (long c = whole; c < C; c++) {
        square += (x[c] - average) * (x[c] - average);
    }
    const float inverse = 1 / sqrt((square + sum_of(squares)) / C + eps);
    for (long c = 0; c < whole; c += LANES) {
        vstore16((vload16(0, x + c) - average) * inverse * vload16(0, w + c) + vload16(0, b + c), 0, y + c);
    }
    for (long c = whole; c < C; c++) {
        y[c] = (x[c] - average) * inverse * w[c] + b[c];
    }
    mean[mean_at + n] = average;
    rstd[rstd_at + n] = inverse;
}
