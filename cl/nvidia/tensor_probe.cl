// tensor_probe.cl: one product of 16 x 16 by 16 x 8 by each instruction of the matrix units that the kernels of family
// `tensor` use, of operands that come the way theirs do: the host checks the numbers before it believes in the units.

// c (16,8) = a (16,16) b (16,8), of 16-bit operands; b is stored transposed, (8,16).
#define PROBE(name, multiply)                                                                              \
    kernel __attribute__((reqd_work_group_size(WARP, 1, 1))) void name(const global ushort *a,             \
                                                                       const global ushort *b, global float *c) { \
        local ushort tile[(16 + 8) * 16] __attribute__((aligned(16)));                                     \
        const uint at = local_address(tile);                                                               \
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};                                                           \
        uint x[4];                                                                                         \
        uint y[4];                                                                                         \
        copy16_async(at + LANE * 16, a + LANE * 8);                                                        \
        copy16_async_part(at + 512 + LANE % 16 * 16, b + LANE % 16 * 8, 16);                               \
        copy_async_commit();                                                                               \
        copy_async_wait(0);                                                                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                      \
        load_matrices(x, at + (LANE % 16) * 32 + LANE / 16 * 16);                                          \
        load_matrices(y, at + 512 + (LANE % 8) * 32 + LANE / 8 % 2 * 16);                                  \
        multiply(sum, x, y[0], y[1]);                                                                      \
        for (uint i = 0; i < 4; i++) {                                                                     \
            c[(LANE / 4 + i / 2 * 8) * 8 + LANE % 4 * 2 + i % 2] = sum[i];                                 \
        }                                                                                                  \
    }

PROBE(probe_bf16, multiply_bf16)
PROBE(probe_f16, multiply_f16)

// c (16,8) = a (16,16) b (16,8) of floats, rounded to tf32, in two steps of 8.
kernel __attribute__((reqd_work_group_size(WARP, 1, 1))) void probe_tf32(const global float *a, const global float *b,
                                                                         global float *c) {
    const uint row = LANE / 4;
    const uint pair = LANE % 4;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (uint k = 0; k < 16; k += 8) {
        const uint x[4] = {round_tf32(a[row * 16 + k + pair]), round_tf32(a[(row + 8) * 16 + k + pair]),
                           round_tf32(a[row * 16 + k + pair + 4]), round_tf32(a[(row + 8) * 16 + k + pair + 4])};
        multiply_tf32(sum, x, round_tf32(b[row * 16 + k + pair]), round_tf32(b[row * 16 + k + pair + 4]));
    }
    for (uint i = 0; i < 4; i++) {
        c[(row + i / 2 * 8) * 8 + pair * 2 + i % 2] = sum[i];
    }
}
