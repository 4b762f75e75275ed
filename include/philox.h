// philox.h: counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
// 3", section 3.3). A number depends only on its key and counter, so every backend draws the same numbers with any
// number of threads.
#pragma once

#include <string.h>

#include "fnv1a.h"

typedef struct {
    uint32_t word[4];
} sm_philox_block;

static inline sm_philox_block sm_philox4x32(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
    uint32_t k0 = (uint32_t)key;
    uint32_t k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)counter_low;
    uint32_t c1 = (uint32_t)(counter_low >> 32);
    uint32_t c2 = (uint32_t)counter_high;
    uint32_t c3 = (uint32_t)(counter_high >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (sm_philox_block){{c0, c1, c2, c3}};
}

// The key for the numbers that `name` draws with `seed`: FNV-1a of the name, mixed with the seed.
static inline uint64_t sm_philox_key(uint64_t seed, const char *name) {
    uint64_t z = sm_fnv1a(SM_FNV1A_START, name, strlen(name)) +
                 (seed + 1) * 0x9E3779B97F4A7C15u; // SplitMix64's finaliser spreads the seed
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

// Dropout's rule for every backend: element e of a tensor at micro-step s uses word e%4 of block (counter e/4, s) and
// is kept when that word >= threshold(p).
static inline uint32_t sm_dropout_threshold(double p) { return (uint32_t)(p * 4294967296.0); }

static inline int sm_dropout_keeps(uint64_t key, uint64_t step, uint64_t element, uint32_t threshold) {
    return sm_philox4x32(key, element / 4, step).word[element % 4] >= threshold;
}
