// model.c: what all architectures share.
#include <string.h>

#include "src/models/model.h"

const sm_model_size *sm_model_size_find(const sm_model *model, const char *name) {
    for (int i = 0; i < model->n_sizes; i++) {
        const sm_model_size *size = &model->sizes[i];
        if (strcmp(size->name, name) == 0 || (size->alias != NULL && strcmp(size->alias, name) == 0)) {
            return size;
        }
    }
    return NULL;
}

const char *sm_model_activation(const sm_model_config *config) {
    return config->model->has_activations ? sm_activation_get_info(config->activation)->name : "";
}

enum { VOCAB_ALIGNMENT = 64 }; // full tiles and aligned rows for every kernel

int64_t sm_model_padded_vocab(const sm_model_config *config) {
    return (config->vocab + VOCAB_ALIGNMENT - 1) / VOCAB_ALIGNMENT * VOCAB_ALIGNMENT;
}

int64_t sm_model_n_params(const sm_model_config *config) {
    sm_param_spec specs[SM_MAX_PARAM_KINDS];
    return sm_param_count(specs, config->model->params(config, specs), config->n_layer);
}

int64_t sm_model_n_kv_head(const sm_model_config *config) {
    return config->n_kv_head > 0 ? config->n_kv_head : config->n_head;
}

int64_t sm_model_head_dim(const sm_model_config *config) {
    return config->head_dim > 0 ? config->head_dim : config->d_model / config->n_head;
}

sm_status sm_model_check(const sm_model_config *config) {
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
    if (config->head_dim < 0 || config->head_dim > 65536) {
        return sm_fail(SM_ERR_INVALID, "head_dim is %lld; it must be 1 to 65536", (long long)config->head_dim);
    }
    if (config->head_dim == 0 && config->d_model % config->n_head != 0) {
        return sm_fail(SM_ERR_INVALID, "d_model %lld does not divide into %lld heads; choose n_head so that it does",
                       (long long)config->d_model, (long long)config->n_head);
    }
    if (config->n_kv_head < 0 || config->n_head % sm_model_n_kv_head(config) != 0) {
        return sm_fail(SM_ERR_INVALID,
                       "n_kv_head %lld does not divide n_head %lld; choose it so that as many heads share each",
                       (long long)config->n_kv_head, (long long)config->n_head);
    }
    if (!(config->norm_eps >= 0 && config->norm_eps < 1)) {
        return sm_fail(SM_ERR_INVALID, "norm_eps is %g; it must be at least 0 and below 1", config->norm_eps);
    }
    if (config->activation != 0 && !config->model->has_activations) {
        return sm_fail(SM_ERR_INVALID, "activation %s is not one of %s, whose MLP has a function of its own",
                       sm_activation_get_info(config->activation)->name, config->model->title);
    }
    return config->model->check(config);
}

sm_status sm_model_check_rope(const sm_model_config *config) {
    if (sm_model_head_dim(config) % 2 != 0) {
        return sm_fail(SM_ERR_INVALID,
                       "heads of %lld channels have no halves to turn; choose n_head so that d_model / n_head is even",
                       (long long)sm_model_head_dim(config));
    }
    if (!(config->rope_theta >= 1 && config->rope_theta <= 1e12)) {
        return sm_fail(SM_ERR_INVALID, "rope_theta is %g; it must be 1 to 1e12", config->rope_theta);
    }
    return SM_OK;
}
