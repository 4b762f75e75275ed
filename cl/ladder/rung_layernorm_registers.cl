// rung_layernorm_registers.cl: an item keeps its numbers of the row in registers: global memory is read once. (If a
// row is longer than the registers of a group, its rest is read again.)
#define layernorm_forward_signature "cl 1 N C eps x w b add y mean rstd r"
#define layernorm_forward_items "N * 64 by 64"
#define GROUP 64
#define KEPT  16

// The sum over the group's items, for each of them.
static float sum_of_all(float mine, local float *room) {
    const int i = get_local_id(0);
    room[i] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = GROUP / 2; step > 0; step /= 2) {
        if (i < step) {
            room[i] += room[i + step];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const float sum = room[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return sum;
}

kernel void layernorm_forward(const long N, const long C, const float eps, global const float *x, const ulong x_at,
                              global const float *w, const ulong w_at, global const float *b, const ulong b_at,
                              global const float *add, const ulong add_at, global float *y, const ulong y_at,
                              global float *mean, const ulong mean_at, global float *rstd, const ulong rstd_at,
                              global float *r, const ulong r_at) {
    local float room[GROUP];
    const long n = get_group_id(0);
    const int first = get_local_id(0);
    float kept[KEPT];
    x += x_at + n * C;
    float sum = 0;
    float squares = 0;
    for (int k = 0; k < KEPT; k++) {
        kept[k] = first + k * GROUP < C ? x[first + k * GROUP] : 0;
        sum += kept[k];
    }
    for (long c = first + KEPT * GROUP; c < C; c += GROUP) {
        sum += x[c];
    }
    const float average = sum_of_all(sum, room) / C;
    for (int k = 0; k < KEPT; k++) {
        squares += first + k * GROUP < C ? (kept[k] - average) * (kept[k] - average) : 0;
    }
    for (long c = first + KEPT * GROUP; c < C; c += GROUP) {
        squares += (x[c] - average) * (x[c] - average);
    }
    const float inverse = 1 / sqrt(sum_of_all(squares, room) / C + eps);
    y += y_at + n * C;
    for (int k = 0; k < KEPT; k++) {
        const long c = first + k * GROUP;
        if (c < C) {
            y[c] = (kept[k] - average) * inverse * w[w_at + c] + b[b_at + c];
        }
    }
    for (long c = first + KEPT * GROUP; c < C; c += GROUP) {
        y[c] = (x[c] - average) * inverse * w[w_at + c] + b[b_at + c];
    }
    if (first == 0) {
        mean[mean_at + n] = average;
        rstd[rstd_at + n] = inverse;
    }
}
