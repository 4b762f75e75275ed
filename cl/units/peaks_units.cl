// peaks_units.cl: what matrix units can multiply, as a basis of comparison: UNIT_CHAINS sums a wave, operands and sums
// in registers. Numbers are of either sign and below 1, with random digits, as those of products are.
//
//   wave:  c0 += a0 b0, c1 += a1 b0, c2 += a0 b1, ..     each 32 bytes of k a round
#define UNIT_CHAINS 4 // as in backends/opencl/units/units.h

// 16 bytes of numbers.
inlined uint4 random_chunk(uint seed) {
    const uint4 digits = philox(0, seed, 0);
#if defined(DATA_F16)
    return (digits & 0x83FF83FFu) | 0x20002000u;
#elif defined(DATA_BF16)
    return (digits & 0x807F807Fu) | 0x3C003C00u;
#else
    return (digits & 0x807FE000u) | 0x3C000000u;
#endif
}

inlined raw_b random_b(uint seed) {
    raw_b r;
    UNROLLED for (uint i = 0; i < B_CHUNKS; i++) {
        r.x[i] = random_chunk(seed + i);
    }
    return r;
}

inlined raw_a random_a(uint seed) {
#if IS_DPAS && DATA_IS_NARROW && UNIT == DPAS8
    return as_int8((uint8)(random_chunk(seed), random_chunk(seed + 1)));
#elif IS_DPAS && DATA_IS_NARROW
    return as_short8(random_chunk(seed));
#elif IS_DPAS
    return random_chunk(seed);
#else
    return random_b(seed);
#endif
}

WAVES_ATTRIBUTE kernel __attribute__((reqd_work_group_size(4 * WAVE, 1, 1))) void peak_flops(uint n_rounds,
                                                                                             global float *out) {
    a_part a[2][PER_LOAD];
    b_part b[2][PER_LOAD];
    c_part c[UNIT_CHAINS];
    float sum = 0.0f;
    UNROLLED for (uint i = 0; i < 2; i++) {
        const raw_a ra = random_a(LANE * 16 + 4 * i);
        const raw_b rb = random_b(LANE * 16 + 4 * i + 2);
        parts_of_a(&ra, false, a[i]);
        parts_of_b(&rb, false, b[i]);
    }
    UNROLLED for (uint i = 0; i < UNIT_CHAINS; i++) {
        c[i] = (c_part)(0.0f);
    }
    for (uint round = 0; round < n_rounds; round++) {
        UNROLLED for (uint k = 0; k < 32 / NUMBER_BYTES / TK; k++) {
            UNROLLED for (uint i = 0; i < UNIT_CHAINS; i++) {
                MULTIPLY(c[i], a[i % 2][k % PER_LOAD], b[i / 2 % 2][k % PER_LOAD]);
            }
        }
    }
    UNROLLED for (uint i = 0; i < UNIT_CHAINS; i++) {
        float x[NC];
        JOIN(vstore, NC)(c[i], 0, x);
        UNROLLED for (uint e = 0; e < NC; e++) {
            sum += x[e];
        }
    }
    out[get_global_id(0)] = sum;
}
