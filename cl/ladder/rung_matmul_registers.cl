// rung_matmul_registers.cl: an item computes 4 by 4 elements of y, whose sums stay in registers: a number that it reads
// from local memory is used 4 times. A work-group of 16 by 16 items has a tile of 64 by 64.
#define matmul_forward_signature "cl 1 N C F w_transposed x W b y act"
#define matmul_forward_items "F / 64 * 16, N / 64 * 16 by 16, 16"
#define ITEMS 16
#define EACH  4
#define TILE  (ITEMS * EACH)
#define DEPTH 16

kernel void matmul_forward(const long N, const long C, const long F, const long w_transposed,
                           global const float *x, const ulong x_at, global const float *W, const ulong W_at,
                           global const float *b, const ulong b_at, global float *y, const ulong y_at,
                           global float *act, const ulong act_at) {
    local float x_tile[DEPTH][TILE];
    local float W_tile[DEPTH][TILE];
    const long f = get_group_id(0) * TILE;
    const long n = get_group_id(1) * TILE;
    const int j = get_local_id(0);
    const int i = get_local_id(1);
    float sum[EACH][EACH] = {{0}};
    for (long c = 0; c < C; c += DEPTH) {
        for (int k = i * ITEMS + j; k < DEPTH * TILE; k += ITEMS * ITEMS) {
            const long row = n + k / DEPTH;
            const long depth = c + k % DEPTH;
            x_tile[k % DEPTH][k / DEPTH] = row < N && depth < C ? x[x_at + row * C + depth] : 0;
        }
        for (int k = i * ITEMS + j; k < DEPTH * TILE; k += ITEMS * ITEMS) {
            const long depth = c + k / TILE;
            const long col = f + k % TILE;
            W_tile[k / TILE][k % TILE] =
                col < F && depth < C ? W[W_at + (w_transposed ? col * C + depth : depth * F + col)] : 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < DEPTH; k++) {
            for (int r = 0; r < EACH; r++) {
                for (int s = 0; s < EACH; s++) {
                    sum[r][s] += x_tile[k][i * EACH + r] * W_tile[k][s * ITEMS + j];
                }
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int r = 0; r < EACH; r++) {
        for (int s = 0; s < EACH; s++) {
            if (n + i * EACH + r < N && f + s * ITEMS + j < F) {
                y[y_at + (n + i * EACH + r) * F + f + s * ITEMS + j] = sum[r][s];
            }
        }
    }
}
