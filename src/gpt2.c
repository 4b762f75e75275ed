// gpt2.c: GPT-2's sizes, and what can be said of them without a plan.
#include <string.h>

#include "gpt2.h"

// Radford et al. 2019, table 2; 2.7B as published benchmarks of it have it.
#define SIZE(size_name, size_alias, L, NH, C, F, V, T)                                                           \
    {                                                                                                            \
        size_name, size_alias, {                                                                                 \
            .n_layer = L, .n_head = NH, .d_model = C, .d_ff = F, .vocab = V, .context = T, .layernorm_eps = 1e-5 \
        }                                                                                                        \
    }
static const sm_gpt2_size sizes[] = {
    SIZE("tiny", "36K", 2, 2, 32, 128, 256, 64),
    SIZE("small", "124M", 12, 12, 768, 3072, 50257, 1024),
    SIZE("medium", "355M", 24, 16, 1024, 4096, 50257, 1024),
    SIZE("large", "774M", 36, 20, 1280, 5120, 50257, 1024),
    SIZE("xl", "1558M", 48, 25, 1600, 6400, 50257, 1024),
    SIZE("2.7B", "2649M", 32, 32, 2560, 10240, 50257, 1024),
};
#undef SIZE

int sm_gpt2_size_count(void) { return (int)(sizeof sizes / sizeof sizes[0]); }

const sm_gpt2_size *sm_gpt2_size_at(int index) { return &sizes[index]; }

const sm_gpt2_size *sm_gpt2_size_find(const char *name) {
    for (int i = 0; i < sm_gpt2_size_count(); i++) {
        if (strcmp(sizes[i].name, name) == 0 || strcmp(sizes[i].alias, name) == 0) {
            return &sizes[i];
        }
    }
    return NULL;
}

enum { VOCAB_ALIGNMENT = 64 }; // full tiles and aligned rows for every kernel

int64_t sm_gpt2_padded_vocab(const sm_gpt2_config *config) {
    return (config->vocab + VOCAB_ALIGNMENT - 1) / VOCAB_ALIGNMENT * VOCAB_ALIGNMENT;
}

int64_t sm_gpt2_n_params(const sm_gpt2_config *config) {
    int64_t C = config->d_model;
    int64_t F = config->d_ff;
    int64_t block = 4 * C * C + 2 * C * F + 9 * C + F;
    return (config->vocab + config->context) * C + config->n_layer * block + 2 * C;
}

sm_status sm_gpt2_check(const sm_gpt2_config *config) {
    const struct {
        const char *name;
        int64_t value;
        int64_t most;
    } dims[] = {
        {"n_layer", config->n_layer, 10000},      {"n_head", config->n_head, 65536},
        {"d_model", config->d_model, 1 << 20},    {"d_ff", config->d_ff, 1 << 22},
        {"vocab", config->vocab, INT32_MAX - 64}, {"context", config->context, 1 << 24},
    };
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
        if (dims[i].value < 1 || dims[i].value > dims[i].most) {
            return sm_fail(SM_ERR_INVALID, "%s is %lld; it must be 1 to %lld", dims[i].name, (long long)dims[i].value,
                           (long long)dims[i].most);
        }
    }
    if (config->d_model % config->n_head != 0) {
        return sm_fail(SM_ERR_INVALID, "d_model %lld does not divide into %lld heads; choose n_head so that it does",
                       (long long)config->d_model, (long long)config->n_head);
    }
    if (!(config->layernorm_eps >= 0 && config->layernorm_eps < 1)) {
        return sm_fail(SM_ERR_INVALID, "layernorm_eps is %g; it must be at least 0 and below 1", config->layernorm_eps);
    }
    return SM_OK;
}

bool sm_gpt2_is_param(const sm_plan *plan, int tensor) {
    const sm_tensor *t = &plan->tensors[tensor];
    return t->role == SM_ROLE_PARAMETER && t->view_of != SM_NO_TENSOR && t->dtype == plan->real;
}

int64_t sm_gpt2_param_elems(const sm_plan *plan, int tensor) {
    const sm_tensor *t = &plan->tensors[tensor];
    return strcmp(t->name, "wte.weight") == 0 ? plan->V * sm_tensor_cols(t) : sm_tensor_elems(t);
}
