// rung_matmul_tiles.cl: an item computes 6 rows by 32 columns of y, whose sums stay in registers: what is read of W serves
// 6 rows, what is read of x 32 columns. (Where W lies with rows and columns exchanged, and at edges, one after the other.)
#define matmul_forward_signature "cl 1 N C F w_transposed x W b y act"
#define matmul_forward_items "N / 6, F / 32 by 1, 1"
#define ROWS 6
#define COLS 32

kernel void matmul_forward(const long N, const long C, const long F, const long w_transposed,
                           global const float *x, const ulong x_at, global const float *W, const ulong W_at,
                           global const float *b, const ulong b_at, global float *y, const ulong y_at,
                           global float *act, const ulong act_at) {
    const long n = get_global_id(0) * ROWS;
    const long f = get_global_id(1) * COLS;
    x += x_at + n * C;
    W += W_at;
    y += y_at + n * F;
    if (n + ROWS <= N && f + COLS <= F && !w_transposed) {
        float16 a0 = 0, a1 = 0, b0 = 0, b1 = 0, c0 = 0, c1 = 0, d0 = 0, d1 = 0, e0 = 0, e1 = 0, f0 = 0, f1 = 0;
        for (long c = 0; c < C; c++) {
            const float16 w0 = vload16(0, W + c * F + f);
            const float16 w1 = vload16(1, W + c * F + f);
            a0 = fma(x[c], w0, a0), a1 = fma(x[c], w1, a1);
            b0 = fma(x[C + c], w0, b0), b1 = fma(x[C + c], w1, b1);
            c0 = fma(x[2 * C + c], w0, c0), c1 = fma(x[2 * C + c], w1, c1);
            d0 = fma(x[3 * C + c], w0, d0), d1 = fma(x[3 * C + c], w1, d1);
            e0 = fma(x[4 * C + c], w0, e0), e1 = fma(x[4 * C + c], w1, e1);
            f0 = fma(x[5 * C + c], w0, f0), f1 = fma(x[5 * C + c], w1, f1);
        }
        vstore16(a0, 0, y + f), vstore16(a1, 1, y + f);
        vstore16(b0, 0, y + F + f), vstore16(b1, 1, y + F + f);
        vstore16(c0, 0, y + 2 * F + f), vstore16(c1, 1, y + 2 * F + f);
        vstore16(d0, 0, y + 3 * F + f), vstore16(d1, 1, y + 3 * F + f);
        vstore16(e0, 0, y + 4 * F + f), vstore16(e1, 1, y + 4 * F + f);
        vstore16(f0, 0, y + 5 * F + f), vstore16(f1, 1, y + 5 * F + f);
        return;
    }
    for (long i = 0; i < min((long)ROWS, N - n); i++) {
        for (long j = f; j < min(f + COLS, F); j++) {
            float sum = 0;
            for (long c = 0; c < C; c++) {
                sum += x[i * C + c] * W[w_transposed ? j * C + c : c * F + j];
            }
            y[i * F + j] = sum;
        }
    }
}
