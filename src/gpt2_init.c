// gpt2_init.c: GPT-2's initial weights, drawn element by element from counter-based random
// numbers, so that any thread count gives the same model.
#include <math.h>
#include <string.h>

#include "gpt2.h"
#include "philox.h"

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name);
    size_t m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static void fill(float *values, int64_t n_elems, float value) {
    for (int64_t i = 0; i < n_elems; i++) {
        values[i] = value;
    }
}

// Box and Muller 1958: two uniform words give two normals; a Philox block gives four.
static void normal_block(uint64_t key, uint64_t counter, float std, float out[4]) {
    const sm_philox_block block = sm_philox4x32(key, counter, 0);
    for (int i = 0; i < 4; i += 2) {
        float u = ((float)(block.word[i] >> 8) + 1.0f) * 0x1p-24f; // (0, 1]: the logarithm is finite
        float angle = (float)(block.word[i + 1] >> 8) * 0x1p-24f * 6.28318530718f;
        float radius = std * sqrtf(-2.0f * logf(u));
        out[i] = radius * cosf(angle);
        out[i + 1] = radius * sinf(angle);
    }
}

static void fill_normal(float *values, int64_t n_elems, float std, uint64_t key) {
    int64_t n_blocks = n_elems / 4;
#pragma omp parallel for schedule(static) if (n_blocks > 65536)
    for (int64_t i = 0; i < n_blocks; i++) {
        normal_block(key, (uint64_t)i, std, values + 4 * i);
    }
    float last[4];
    normal_block(key, (uint64_t)n_blocks, std, last);
    for (int64_t i = 4 * n_blocks; i < n_elems; i++) {
        values[i] = last[i - 4 * n_blocks];
    }
}

void sm_gpt2_init_param(const sm_gpt2_config *config, const sm_plan *plan, int tensor, uint64_t seed, float *values) {
    const sm_tensor *t = &plan->tensors[tensor];
    int64_t n_elems = sm_gpt2_param_elems(plan, tensor);
    bool is_layernorm = strstr(t->name, "ln_") != NULL;
    if (ends_with(t->name, ".bias")) {
        fill(values, n_elems, 0.0f);
    } else if (is_layernorm) {
        fill(values, n_elems, 1.0f);
    } else {
        // The two projections into the residual stream are scaled down, so that its variance
        // does not grow with the number of layers.
        bool into_stream = ends_with(t->name, "c_proj.weight");
        double std = into_stream ? 0.02 / sqrt(2.0 * (double)config->n_layer) : 0.02;
        fill_normal(values, n_elems, (float)std, sm_philox_key(seed, t->name));
    }
}
