// peaks_wgmma.cl: what matrix units can multiply where four warps drive them (wgmma): as matmul_wgmma.cl does it, two
// groups of four warps with 64 x 256 sums each in registers, and operands in local memory, which stay the same.
//
//   group:  c += a b     2 * 64 * 256 * (128 bytes of K) flops a round
#define GROUPS      2
#define GROUP_ITEMS (4 * WARP)
#define ITEMS       (GROUPS * GROUP_ITEMS)
#define B_BYTES     (TILE_N * 128)

kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void peak_flops(uint n_rounds, global float *out) {
    local uint words[(GROUPS * BOX_BYTES + B_BYTES) / 4] __attribute__((aligned(1024)));
    const uint at = local_address(words);
    const ulong a = PLACE(at + (uint)get_local_id(0) / GROUP_ITEMS * BOX_BYTES, A_ALONG_C);
    const ulong b = PLACE(at + GROUPS * BOX_BYTES, B_ALONG_C);
    for (uint i = (uint)get_local_id(0); i < sizeof words / sizeof words[0]; i += ITEMS) {
        words[i] = random_numbers(i);
    }
    order_bulk_copies();
    barrier(CLK_LOCAL_MEM_FENCE);
    DECLARE_SUMS;
    MULTIPLY_BEGIN;
    MULTIPLY_TILES(a, b, 0);
    MULTIPLY_END;
#pragma unroll 1
    for (uint round = 1; round < n_rounds; round++) {
        MULTIPLY_BEGIN;
        MULTIPLY_TILES(a, b, 1);
        MULTIPLY_END;
        MULTIPLY_WAIT(1);
    }
    MULTIPLY_WAIT(0);
    float sum = 0;
#define ADD_BLOCK(h)                     \
    {                                    \
        float x[16];                     \
        READ_SUMS(x, h);                 \
        for (uint i = 0; i < 16; i++) {  \
            sum += x[i];                 \
        }                                \
    }
    BLOCKS(ADD_BLOCK)
    out[get_global_id(0)] = sum;
}
