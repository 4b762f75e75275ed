// page_live.c: what a page needs to compute its step again: the module, the plan as numbers, and the losses of a few
// steps on the page's batch as this program computes them, which those of the page must equal.
#include <stdlib.h>

#include "cli/learn/learn.h"
#include "embedded.h"
#include "learn/live/live.h"
#include "learn/page/memory_changes.h"

static const double MOST_EXACT = 9007199254740992; // whole numbers as JavaScript has them

enum { MOST_WEIGHTS = 1000000 };

bool cli_page_has_weights(const cli_options *options, const sm_plan *plan) {
    return options->walk.slice_elems > 0 && cli_walk_step(options) == 1 && plan->dtype == SM_F32 &&
           plan->n_params <= MOST_WEIGHTS;
}

// The parameters by their names in the plan, one after another.
static sm_status read_weights(const cli_options *options, const cli_job *job, const double *numbers, json_t **json) {
    sm_plan *plan = NULL; // the live step owns it, even after a failure
    SM_OWN(sm_live) *live = NULL;
    SM_FREED float *all = NULL;
    int64_t n = 0;
    SM_TRY(sm_live_plan(numbers, &plan));
    SM_TRY(sm_live_open(plan, &live));
    SM_TRY(cli_load_weights(live->session, &job->config, (uint64_t)options->work.seed, options->model.weights));
    for (int i = 0; i < live->session->plan->n_tensors; i++) {
        const sm_tensor *t = &live->session->plan->tensors[i];
        if (t->role == SM_ROLE_PARAMETER && t->view_of != SM_NO_TENSOR) {
            all = sm_realloc(all, (size_t)(n + sm_tensor_elems(t)) * sizeof(*all));
            SM_TRY(sm_session_read(live->session, i, sm_tensor_elems(t), all + n));
            n += sm_tensor_elems(t);
        }
    }
    *json = sm_base64_json((const char *)all, (size_t)n * sizeof(*all));
    return SM_OK;
}

// Why a page cannot compute its step again; NULL: it can.
static const char *lack(const cli_options *options, const sm_plan *plan, const sm_plan_options *plan_options,
                        const sm_embedded *module) {
    return options->walk.slice_elems > 0 && !cli_page_has_weights(options, plan)
               ? "it is too large: this page has slices of its tensors"
           : plan_options->processes.n > 1             ? "it is that of several processes"
           : !plan_options->one_micro_batch            ? "it has several micro-batches"
           : plan_options->seed > MOST_EXACT           ? "its seed is larger than a page's numbers"
           : plan_options->dropout_p > 0               ? "it has dropout, whose masks differ from step to step"
           : module == NULL || module->size_bytes == 0 ? "this program was built without clang for wasm32 (make wasm)"
                                                       : NULL;
}

sm_status cli_page_live(const cli_options *options, const cli_job *job, const sm_plan *plan, json_t *losses,
                        json_t **json) {
    const sm_plan_options plan_options = cli_plan_options(job, 0);
    double numbers[SM_LIVE_COUNT];
    const sm_embedded *module = sm_embedded_find_below("", "live.wasm");
    json_t *weights = json_null();
    const char *why = lack(options, plan, &plan_options, module);
    if (why != NULL) {
        *json = json_pack("{s:s}", "lacks", why);
        return SM_OK;
    }
    sm_live_numbers(&job->config, &plan_options, job->mode, job->without, numbers);
    SM_TRY(cli_page_has_weights(options, plan) ? read_weights(options, job, numbers, &weights) : SM_OK);
    json_t *optimizers = json_array();
    for (int i = 0; i < sm_optimizer_count(); i++) {
        json_array_append_new(optimizers, json_string(sm_optimizer_at(i)->name));
    }
    *json = json_pack("{s:o, s:i, s:i, s:i, s:o, s:O, s:o, s:o}", "numbers", sm_json_reals(numbers, SM_LIVE_COUNT),
                      "dtype_at", SM_LIVE_dtype, "bf16", SM_BF16, "optimizer_at", SM_LIVE_optimizer, "optimizers",
                      optimizers, "losses", losses, "weights", weights, "module",
                      sm_base64_json(module->text, module->size_bytes));
    return SM_OK;
}
