// cli_model.c: from flags to a model and its plan.
#include "cli_model.h"

static sm_status unknown_size(const char *name) {
    const char *names[2 * CLI_MAX_TEXTS];
    int n = 0;
    for (int i = 0; i < sm_gpt2_size_count() && n + 2 <= 2 * CLI_MAX_TEXTS; i++) {
        names[n++] = sm_gpt2_size_at(i)->name;
        names[n++] = sm_gpt2_size_at(i)->alias;
    }
    return cli_no_such_name("--model-size", "size", name, names, n);
}

static void replace(int64_t *dim, int64_t given) {
    if (given != 0) {
        *dim = given;
    }
}

sm_status cli_model_config(const cli_options *options, const char *size_name, sm_gpt2_config *config) {
    const sm_gpt2_size *size = sm_gpt2_size_find(size_name);
    if (size == NULL) {
        return unknown_size(size_name);
    }
    *config = size->config;
    replace(&config->vocab, options->vocab);
    replace(&config->context, options->context);
    replace(&config->n_layer, options->n_layer);
    replace(&config->n_head, options->n_head);
    replace(&config->d_model, options->d_model);
    replace(&config->d_ff, options->d_model * 4);
    replace(&config->d_ff, options->d_ff);
    return sm_gpt2_check(config) == SM_OK ? SM_OK : SM_ERR_USAGE;
}

sm_status cli_check_seq_len(const sm_gpt2_config *config, int64_t T) {
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

sm_status cli_build_plan(const sm_gpt2_config *config, const sm_gpt2_options *gpt2_options, sm_mode mode,
                         unsigned without, sm_plan **plan) {
    sm_status status = SM_OK;
    *plan = NULL;
    sm_plan *built = NULL;
    SM_TRY_GOTO(sm_gpt2_build(config, gpt2_options, &built));
    SM_TRY_GOTO(sm_plan_rewrite(built, mode, without));
    *plan = built;
    built = NULL;
cleanup:
    sm_plan_free(built);
    return status;
}
