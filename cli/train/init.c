// init.c: a freshly initialised model folder.
#include "bench/tables/show.h"
#include "cli/flags/options.h"
#include "cli/flags/model.h"
#include "cli/setup/session.h"
#include "src/weights/weights.h"

sm_status cli_init(const cli_options *options) {
    sm_model_config config;
    char n_params[32];
    SM_TRY(cli_check_single("--model-size", options->models.n));
    SM_TRY(cli_model_config(options, options->models.texts[0], &config));
    if (options->save == NULL) {
        return sm_fail(SM_ERR_USAGE, "--save: say which folder to write the model to");
    }
    SM_TRY(sm_weights_init(options->save, &config, (uint64_t)options->seed));
    sm_text_count((double)sm_model_n_params(&config), n_params, sizeof(n_params));
    printf("%s: %s %s, %s parameters, seed %lld\n", options->save, config.model->title, options->models.texts[0],
           n_params, (long long)options->seed);
    return SM_OK;
}
