// data_order.c: a permutation of n numbers that is computed, not stored: a Feistel network of Philox on the smallest
// even number of bits that holds n, applied again until the result is below n (Black and Rogaway 2002, "Ciphers with
// arbitrary finite domains", section 3). It takes fewer than four rounds on average.
#include "src/train/loader.h"

#include "philox.h"

enum { N_ROUNDS = 8 };

SM_WORDS(sm_order_name, sm_order_kind, SM_ORDER_LIST)

// A permutation of the numbers with 2 half_bits bits.
static uint64_t encipher(uint64_t key, uint64_t epoch, int half_bits, uint64_t value) {
    const uint64_t mask = (UINT64_C(1) << half_bits) - 1;
    uint64_t left = value >> half_bits;
    uint64_t right = value & mask;
    for (uint64_t round = 0; round < N_ROUNDS; round++) {
        const sm_philox_block drawn = sm_philox4x32(key, right | round << 32, epoch);
        const uint64_t mixed = left ^ (drawn.word[0] & mask);
        left = right;
        right = mixed;
    }
    return left << half_bits | right;
}

int64_t sm_data_order_at(const sm_data_order *order, int64_t k) {
    const int64_t n = order->n_sequences;
    if (order->kind == SM_ORDER_SEQUENTIAL) {
        return k % n;
    }
    const uint64_t key = sm_philox_key(order->seed, "order of the data");
    int half_bits = 1;
    while (half_bits < 31 && INT64_C(1) << 2 * half_bits < n) {
        half_bits++;
    }
    uint64_t place = (uint64_t)(k % n);
    do {
        place = encipher(key, (uint64_t)(k / n), half_bits, place);
    } while (place >= (uint64_t)n);
    return (int64_t)place;
}
