// model.c: from flags to a model.
#include "cli/flags/model.h"

static sm_status unknown_size(const sm_model *model, const char *name) {
    const char *names[2 * CLI_MAX_TEXTS];
    int n = 0;
    for (int i = 0; i < model->n_sizes && n + 2 <= 2 * CLI_MAX_TEXTS; i++) {
        names[n++] = model->sizes[i].name;
        if (model->sizes[i].alias != NULL) {
            names[n++] = model->sizes[i].alias;
        }
    }
    return cli_no_such_name("--model-size", "size", name, names, n);
}

static void replace(int64_t *dim, int64_t given) {
    if (given != 0) {
        *dim = given;
    }
}

sm_status cli_model_config(const cli_options *options, const char *size_name, sm_model_config *config) {
    const sm_model *model = sm_model_at(options->arch > 0 ? options->arch - 1 : 0);
    const sm_model_size *size = sm_model_size_find(model, size_name);
    if (size == NULL) {
        return unknown_size(model, size_name);
    }
    *config = size->config;
    replace(&config->vocab, options->vocab);
    replace(&config->context, options->context);
    replace(&config->n_layer, options->n_layer);
    replace(&config->n_head, options->n_head);
    replace(&config->n_kv_head, options->n_kv_head);
    replace(&config->d_model, options->d_model);
    replace(&config->d_ff, options->d_model * 4);
    replace(&config->d_ff, options->d_ff);
    return sm_model_check(config) == SM_OK ? SM_OK : SM_ERR_USAGE;
}

sm_status cli_check_seq_len(const sm_model_config *config, int64_t T) {
    if (T > config->context) {
        return sm_fail(
            SM_ERR_USAGE,
            "--seq-len: %lld is longer than the model's context of %lld; give a shorter one or a larger --context",
            (long long)T, (long long)config->context);
    }
    return SM_OK;
}

sm_status cli_check_single(const char *flag, int n) {
    return n <= 1 ? SM_OK : sm_fail(SM_ERR_USAGE, "%s: takes one value here, not a list of %d", flag, n);
}
