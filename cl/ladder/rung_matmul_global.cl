// rung_matmul_global.cl: a work-item for each element of y goes along a row of x and down a column of W, in global memory.
#define matmul_forward_signature "cl 1 N C F w_transposed x W b y act"
#define matmul_forward_items "F, N by 16, 4"

kernel void matmul_forward(const long N, const long C, const long F, const long w_transposed,
                           global const float *x, const ulong x_at, global const float *W, const ulong W_at,
                           global const float *b, const ulong b_at, global float *y, const ulong y_at,
                           global float *act, const ulong act_at) {
    const long f = get_global_id(0);
    const long n = get_global_id(1);
    if (f >= F || n >= N) {
        return;
    }
    x += x_at + n * C;
    W += W_at + (w_transposed ? f * C : f);
    const long to_next = w_transposed ? 1 : F;
    float sum = 0;
    for (long c = 0; c < C; c++) {
        sum += x[c] * W[c * to_next];
    }
    y[y_at + n * F + f] = sum;
}
