// wgmma.cl of the emulation: what cl/nvidia/wgmma.cl says in PTX, for a processor (tensor.cl): its sums are a variable.
#undef NUMBER // of the emulation
#ifdef FP8_A
#define e4m3 0
#define e5m2 1
#define NUMBER (BYTES + FP8_A + 2 * FP8_B)
#elif defined(DATA_F16)
#define NUMBER F16
#else
#define NUMBER BF16
#endif
#undef DECLARE_SUMS
#define DECLARE_SUMS float sums[TILE_N / 2], totals[TILE_N / 2]
#undef CLEAR_TOTALS
#define CLEAR_TOTALS                         \
    for (uint i = 0; i < TILE_N / 2; i++) { \
        totals[i] = 0.0f;                    \
    }
#undef ADD_TO_TOTALS
#define ADD_TO_TOTALS                        \
    for (uint i = 0; i < TILE_N / 2; i++) { \
        totals[i] += sums[i];                \
    }
#undef READ_SUMS
#define READ_SUMS(x, h)                                       \
    for (uint i = 0; i < 16; i++) {                            \
        (x)[i] = (CAREFUL ? totals : sums)[(h) * 16 + i]; \
    }
#undef PLACE
#define PLACE(at, along_c) describe_tile(at, (along_c) ? BOX_BYTES : 16)
#undef MULTIPLY
#define MULTIPLY(a, b, add) warp_begin_product(sums, 0, a, A_ALONG_C, b, TILE_N, B_ALONG_C, add, NUMBER)
#undef MULTIPLY_BEGIN
#define MULTIPLY_BEGIN
#undef MULTIPLY_END
#define MULTIPLY_END warp_end_products()
#undef MULTIPLY_WAIT
#define MULTIPLY_WAIT warp_wait_for_products
#undef LEAVE_REGISTERS
#define LEAVE_REGISTERS(said)
#undef TAKE_REGISTERS
#define TAKE_REGISTERS(n)

// Any functions: those of cl/nvidia/tensor.cl are the card's own.
static inline void quick_activations(float y[4], const float x[4]) {
    for (uint i = 0; i < 4; i++) {
        y[i] = x[i] > 0.0f ? x[i] : x[i] / 4;
    }
}

static inline void quick_slopes(float y[4], const float x[4]) {
    for (uint i = 0; i < 4; i++) {
        y[i] = x[i] > 0.0f ? 1.0f : 0.25f;
    }
}
#define vstore2(two, i, p) ((p)[0] = (two).x, (p)[1] = (two).y)
