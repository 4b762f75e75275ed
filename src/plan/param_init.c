// param_init.c: initial weights, drawn element by element from counter-based random numbers, so the model does not
// depend on the number of threads.
#include <math.h>
#include <string.h>

#include "philox.h"
#include "src/plan/host_threads.h"
#include "src/plan/params.h"

static void fill(float *values, int64_t n_elems, float value) {
    for (int64_t i = 0; i < n_elems; i++) {
        values[i] = value;
    }
}

// Random words are drawn in groups of blocks, so that their chains of multiplications overlap.
enum { GROUP_BLOCKS = 64, GROUP_ELEMS = 4 * GROUP_BLOCKS };

// Two uniform words give two normals (Box and Muller 1958); a Philox block gives four.
static void normal_group(uint64_t key, uint64_t first_block, float std, float out[GROUP_ELEMS]) {
    sm_philox_block blocks[GROUP_BLOCKS];
    for (int i = 0; i < GROUP_BLOCKS; i++) {
        blocks[i] = sm_philox4x32(key, first_block + (uint64_t)i, 0);
    }
    for (int i = 0; i < GROUP_ELEMS; i += 2) {
        const uint32_t *word = &blocks[i / 4].word[i % 4];
        float u = ((float)(word[0] >> 8) + 1.0f) * 0x1p-24f; // (0, 1], so that the logarithm is finite
        float angle = (float)(word[1] >> 8) * 0x1p-24f * 6.28318530718f;
        float radius = std * sqrtf(-2.0f * logf(u));
        out[i] = radius * cosf(angle);
        out[i + 1] = radius * sinf(angle);
    }
}

// Elements first, first + 1, ...; first is a multiple of 4.
static void fill_normal(float *values, int64_t first, int64_t n_elems, float std, uint64_t key) {
    const uint64_t first_block = (uint64_t)first / 4;
    int64_t n_groups = n_elems / GROUP_ELEMS;
#pragma omp parallel for schedule(static) if (n_groups > 64) num_threads(sm_host_threads())
    for (int64_t i = 0; i < n_groups; i++) {
        normal_group(key, first_block + (uint64_t)i * GROUP_BLOCKS, std, values + i * GROUP_ELEMS);
    }
    float last[GROUP_ELEMS];
    normal_group(key, first_block + (uint64_t)n_groups * GROUP_BLOCKS, std, last);
    memcpy(values + n_groups * GROUP_ELEMS, last, (size_t)(n_elems - n_groups * GROUP_ELEMS) * sizeof *values);
}

void sm_param_init(const sm_plan *plan, int tensor, uint64_t seed, int64_t first, int64_t n_elems, float *values) {
    const sm_tensor *t = &plan->tensors[tensor];
    if (t->init_std > 0) {
        fill_normal(values, first, n_elems, (float)t->init_std, sm_philox_key(seed, t->name));
    } else {
        fill(values, n_elems, (float)t->init_value);
    }
}
