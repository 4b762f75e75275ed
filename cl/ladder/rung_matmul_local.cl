// rung_matmul_local.cl: a work-group of 16 by 16 items brings tiles of x and W into local memory once, and all of its
// items read them there: each number of global memory is read once for 16 uses.
#define matmul_forward_signature "cl 1 N C F w_transposed x W b y act"
#define matmul_forward_items "F, N by 16, 16"
#define TILE 16

kernel void matmul_forward(const long N, const long C, const long F, const long w_transposed,
                           global const float *x, const ulong x_at, global const float *W, const ulong W_at,
                           global const float *b, const ulong b_at, global float *y, const ulong y_at,
                           global float *act, const ulong act_at) {
    local float x_tile[TILE][TILE];
    local float W_tile[TILE][TILE];
    const long f = get_global_id(0);
    const long n = get_global_id(1);
    const int j = get_local_id(0);
    const int i = get_local_id(1);
    float sum = 0;
    for (long c = 0; c < C; c += TILE) {
        x_tile[i][j] = n < N && c + j < C ? x[x_at + n * C + c + j] : 0;
        W_tile[i][j] = f < F && c + i < C ? W[W_at + (w_transposed ? f * C + c + i : (c + i) * F + f)] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < TILE; k++) {
            sum += x_tile[i][k] * W_tile[k][j];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (f < F && n < N) {
        y[y_at + n * F + f] = sum;
    }
}
