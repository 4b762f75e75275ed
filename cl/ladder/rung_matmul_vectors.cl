// rung_matmul_vectors.cl: an item computes 16 elements of a row of y at once: a number of x serves all of them, and W
// is read along its rows. (If W is stored transposed, and at the end of a row, numbers are read one by one.)
#define matmul_forward_signature "cl 1 N C F w_transposed x W b y act"
#define matmul_forward_items "F / 16, N by 1, 1"
#define COLS 16

kernel void matmul_forward(const long N, const long C, const long F, const long w_transposed,
                           global const float *x, const ulong x_at, global const float *W, const ulong W_at,
                           global const float *b, const ulong b_at, global float *y, const ulong y_at,
                           global float *act, const ulong act_at) {
    const long f = get_global_id(0) * COLS;
    const long n = get_global_id(1);
    x += x_at + n * C;
    W += W_at;
    y += y_at + n * F;
    if (f + COLS <= F && !w_transposed) {
        float16 sum = 0;
        for (long c = 0; c < C; c++) {
            sum += x[c] * vload16(0, W + c * F + f);
        }
        vstore16(sum, 0, y + f);
        return;
    }
    for (long j = f; j < min(f + COLS, F); j++) {
        float sum = 0;
        for (long c = 0; c < C; c++) {
            sum += x[c] * W[w_transposed ? j * C + c : c * F + j];
        }
        y[j] = sum;
    }
}
