// page_live.c: what a page needs to compute its step again: the module, the plan as numbers, and the losses of a few
// steps on the page's batch as this program computes them, which those of the page must equal.
#include <stdlib.h>

#include "cli/learn/learn.h"
#include "embedded.h"
#include "learn/live/live.h"
#include "learn/page/memory_changes.h"

static const double MOST_EXACT = 9007199254740992; // whole numbers as JavaScript has them

// Why a page cannot compute its step again; NULL: it can.
static const char *lack(const cli_options *options, const sm_plan_options *plan_options, const sm_embedded *module) {
    return options->walk.slice_elems > 0               ? "it is too large: this page has slices of its tensors"
           : plan_options->processes.n > 1             ? "it is that of several processes"
           : !plan_options->one_micro_batch            ? "it has several micro-batches"
           : plan_options->seed > MOST_EXACT           ? "its seed is larger than a page's numbers"
           : plan_options->dropout_p > 0               ? "it has dropout, whose masks differ from step to step"
           : module == NULL || module->size_bytes == 0 ? "this program was built without clang for wasm32 (make wasm)"
                                                       : NULL;
}

sm_status cli_page_live(const cli_options *options, const cli_job *job, json_t *losses, json_t **json) {
    sm_status status = SM_OK;
    sm_plan_options plan_options;
    double numbers[SM_LIVE_COUNT];
    const sm_embedded *module = sm_embedded_find_below("", "live.wasm");
    json_t *list = json_array();
    json_t *optimizers = json_array();
    SM_TRY_GOTO(cli_plan_options(options, job, 0, &plan_options));
    const char *why = lack(options, &plan_options, module);
    if (why != NULL) {
        *json = json_pack("{s:s}", "lacks", why);
        goto cleanup;
    }
    sm_live_numbers(&job->config, &plan_options, job->mode, options->device.without_bits, numbers);
    for (int i = 0; i < SM_LIVE_COUNT; i++) {
        json_array_append_new(list, json_real(numbers[i]));
    }
    for (int i = 0; i < sm_optimizer_count(); i++) {
        json_array_append_new(optimizers, json_string(sm_optimizer_at(i)->name));
    }
    *json = json_pack("{s:O, s:i, s:i, s:i, s:O, s:O, s:o}", "numbers", list, "dtype_at", SM_LIVE_dtype, "bf16",
                      SM_BF16, "optimizer_at", SM_LIVE_optimizer, "optimizers", optimizers, "losses", losses, "module",
                      sm_base64_json(module->text, module->size_bytes));
cleanup:
    json_decref(list);
    json_decref(optimizers);
    return status;
}
