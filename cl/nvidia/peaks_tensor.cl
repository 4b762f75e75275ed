// peaks_tensor.cl: what matrix units can multiply, as a basis of comparison: N_CHAINS sums a warp (mma.sync), operands
// and sums in registers. Numbers are of either sign and below 1, with random digits, as those of products are: units
// take more power for them than for zeros.
//
//   warp:  c0 += a0 b0, c1 += a1 b0, c2 += a0 b1, ..     2 * 16 * 8 * (16, of tf32 8) flops each a round
#ifndef N_CHAINS
#define N_CHAINS 8
#endif

#if defined(DATA_F16)
#define multiply multiply_f16
#elif defined(DATA_BF16)
#define multiply multiply_bf16
#else
#define multiply multiply_tf32
#endif

kernel void peak_flops(uint n_rounds, global float *out) {
    uint a[2][4];
    uint b[2][2];
    float c[N_CHAINS][4];
    UNROLLED for (uint i = 0; i < 8; i++) {
        a[i / 4][i % 4] = random_numbers(LANE * 16 + i);
        b[i / 4][i % 2] = random_numbers(LANE * 16 + 8 + i);
    }
    UNROLLED for (uint i = 0; i < N_CHAINS * 4; i++) {
        c[i / 4][i % 4] = 0.0f;
    }
    for (uint round = 0; round < n_rounds; round++) {
        UNROLLED for (uint i = 0; i < N_CHAINS; i++) {
            multiply(c[i], a[i % 2], b[i / 2 % 2][0], b[i / 2 % 2][1]);
        }
    }
    float sum = 0;
    UNROLLED for (uint i = 0; i < N_CHAINS * 4; i++) {
        sum += c[i / 4][i % 4];
    }
    out[get_global_id(0)] = sum;
}
