// rung_matmul_tiles.cl: an item computes 4 rows by 16 columns of y, whose sums stay in registers: each number of W
// serves 4 rows. (If W is stored transposed, and at edges, numbers are read one by one.)
#define matmul_forward_signature "cl 1 N C F w_transposed x W b y act"
#define matmul_forward_items "N / 4, F / 16 by 1, 1"
#define ROWS 4
#define COLS 16

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
        float16 sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
        for (long c = 0; c < C; c++) {
            const float16 w = vload16(0, W + c * F + f);
            sum0 += x[c] * w;
            sum1 += x[C + c] * w;
            sum2 += x[2 * C + c] * w;
            sum3 += x[3 * C + c] * w;
        }
        vstore16(sum0, 0, y + f);
        vstore16(sum1, 0, y + F + f);
        vstore16(sum2, 0, y + 2 * F + f);
        vstore16(sum3, 0, y + 3 * F + f);
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
