// rung_layernorm_local.cl: a work-group for each row: neighbouring items read neighbouring numbers, and add up their
// sums in local memory.
#define layernorm_forward_signature "cl 1 N C eps x w b add y mean rstd r"
#define layernorm_forward_items "N * 64 by 64"
#define GROUP 64

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
    x += x_at + n * C;
    float sum = 0;
    float squares = 0;
    for (long c = first; c < C; c += GROUP) {
        sum += x[c];
    }
    const float average = sum_of_all(sum, room) / C;
    for (long c = first; c < C; c += GROUP) {
        squares += (x[c] - average) * (x[c] - average);
    }
    const float inverse = 1 / sqrt(sum_of_all(squares, room) / C + eps);
    for (long c = first; c < C; c += GROUP) {
        y[y_at + n * C + c] = (x[c] - average) * inverse * w[w_at + c] + b[b_at + c];
    }
    if (first == 0) {
        mean[mean_at + n] = average;
        rstd[rstd_at + n] = inverse;
    }
}
