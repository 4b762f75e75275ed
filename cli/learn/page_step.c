// page_step.c: a walk as data for a page.
#include <stdlib.h>

#include "cli/learn/learn.h"
#include "learn/page/memory_changes.h"
#include "learn/page/step_page.h"

struct cli_page_step {
    json_t *data; // not owned
    json_t *ops;  // part of data
    sm_film *film;
};

cli_page_step *cli_page_step_new(json_t *data) {
    cli_page_step *step = sm_calloc(1, sizeof(*step));
    step->data = data;
    return step;
}

void cli_page_step_free(cli_page_step *step) {
    sm_film_free(step->film);
    free(step);
}

static void set(json_t *object, const char *key, json_t *value) { json_object_set_new(object, key, value); }

static sm_status see(sm_film *film, int moment, int tensor, const cli_walk_data *data) {
    return data->full != NULL ? sm_film_see(film, moment, tensor, data->full) : SM_OK;
}

static sm_status begin(cli_walk_writer *writer, const cli_walk_head *head) {
    cli_page_step *step = writer->page;
    const sm_plan *plan = head->plan;
    cli_walk_head shown = *head;
    step->film = sm_film_new(plan, head->options->walk.slice_elems);
    for (int i = 0; i < plan->n_tensors; i++) {
        SM_TRY(see(step->film, 0, i, &head->initial[i]));
    }
    shown.initial = NULL;
    json_t *walk = cli_walk_head_json(&shown);
    set(step->data, "walk", walk);
    // Tensors that are shown apart say which part of them.
    for (int i = 0; i < plan->n_tensors; i++) {
        int64_t dims[SM_MAX_DIMS];
        if (sm_page_slice(plan, i, head->options->walk.slice_elems, dims)) {
            set(json_array_get(json_object_get(walk, "tensors"), (size_t)i), "slice",
                sm_json_integers(dims, plan->tensors[i].n_dims));
        }
    }
    step->ops = json_array();
    set(walk, "ops", step->ops);
    set(step->data, "plan", sm_step_page_plan(plan));
    return SM_OK;
}

// Values go into the film; only their summaries stay.
static sm_status take_op(cli_walk_writer *writer, const cli_walk_op *event) {
    cli_page_step *step = writer->page;
    cli_walk_op shown = *event;
    for (int k = 0; k < event->n_operands; k++) {
        const cli_walk_operand *o = &event->operands[k];
        SM_TRY(see(step->film, 2 * event->index, o->tensor, k < event->n_inputs ? &o->data : &o->before));
        shown.operands[k].data.full = NULL;
        shown.operands[k].before.full = NULL;
    }
    for (int k = event->n_inputs; k < event->n_operands; k++) {
        SM_TRY(see(step->film, 2 * event->index + 1, event->operands[k].tensor, &event->operands[k].data));
    }
    json_array_append_new(step->ops, cli_walk_op_json(&shown));
    return SM_OK;
}

static sm_status end(cli_walk_writer *writer, SM_UNUSED const sm_plan *plan) {
    set(writer->page->data, "film", sm_film_json(writer->page->film));
    return SM_OK;
}

cli_walk_writer cli_page_writer(cli_page_step *step) {
    return (cli_walk_writer){.begin = begin, .op = take_op, .end = end, .ends_only_whole = true, .page = step};
}
