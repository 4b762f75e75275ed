// step_page.c: one training step as a page of HTML.
#include "learn/page/step_page.h"

#include <stdlib.h>

#include "bench/pages/page.h"

// --- a plan ----------------------------------------------------------------------------------------

static json_t *indices_json(const int *indices, int n) {
    json_t *array = json_array();
    for (int i = 0; i < n; i++) {
        if (indices[i] != SM_NO_TENSOR) {
            json_array_append_new(array, json_integer(indices[i]));
        }
    }
    return array;
}

json_t *sm_step_page_plan(const sm_plan *plan) {
    json_t *ops = json_array();
    json_t *tensors = json_array();
    json_t *arenas = json_array();
    SM_FREED sm_range *lives = sm_calloc((size_t)plan->n_tensors + 1, sizeof(*lives));
    sm_plan_lifetimes(plan, lives);
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        json_array_append_new(ops,
                              json_pack("{s:s, s:s, s:i, s:o, s:o}", "kind", sm_op_name(op->kind), "phase",
                                        sm_phase_name(op->phase), "layer", op->layer, "in",
                                        indices_json(op->in, SM_MAX_IN), "out", indices_json(op->out, SM_MAX_OUT)));
    }
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_tensor *t = &plan->tensors[i];
        json_array_append_new(tensors,
                              json_pack("{s:s, s:s, s:I, s:i, s:i, s:I, s:i, s:i}", "name", t->name, "role",
                                        sm_role_name(t->role), "bytes", (json_int_t)sm_tensor_bytes(t), "root",
                                        sm_plan_root(plan, i), "arena", t->arena, "offset", (json_int_t)t->offset_bytes,
                                        "first", lives[i].first, "end", lives[i].end));
    }
    for (int i = 0; i < plan->n_arenas; i++) {
        const sm_arena *a = &plan->arenas[i];
        json_array_append_new(
            arenas, json_pack("{s:s, s:I}", "role", sm_role_name(a->role), "bytes", (json_int_t)a->size_bytes));
    }
    return json_pack("{s:o, s:o, s:o}", "ops", ops, "tensors", tensors, "arenas", arenas);
}

// --- the page --------------------------------------------------------------------------------------

void sm_step_page_write(const json_t *data, FILE *out) {
    static const char *const styles[] = {"step_page.css", NULL};
    static const char *const scripts[] = {
        "step_values.js", "step_names.js",   "step_math.js", "step_heat.js", "step_rules.js",
        "step_trace.js",  "step_picture.js", "step_op.js",   "step_text.js", "step_layers.js",
        "step_memory.js", "step_follow.js",  "step_kernel.js", "step_live.js", "step_lessons.js", "step_page.js", NULL};
    sm_page_begin(out, json_string_value(json_object_get(data, "title")), styles);
    sm_page_json(out, "step-data", data);
    sm_page_end(out, scripts);
}
