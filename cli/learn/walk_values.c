// walk_values.c: runs a plan op by op on the reference backend, for its values.
#include "cli/learn/learn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "philox.h"
#include "learn/live/live.h"
#include "learn/page/memory_changes.h"

enum { LOSSES = 12, N_ROOMS = 2 * CLI_WALK_OPERANDS, MAX_FULL_ELEMS = 1 << 22 };

struct cli_walk_values {
    sm_live *live;
    bool is_full;
    int64_t slice_elems;    // 0: whole tensors
    double *rooms[N_ROOMS]; // with --full: one for each operand of an op; allocated when needed
    cli_walk_data *initial; // with --full, for each tensor
};

// --- the batch -------------------------------------------------------------------------------------

static void draw_batch(const sm_plan *plan, uint64_t seed, int32_t *tokens, int32_t *targets) {
    const int64_t n = plan->B * plan->T;
    const uint64_t key = sm_philox_key(seed, "walk.tokens");
    for (int64_t i = 0; i <= n; i++) {
        int32_t id = (int32_t)(sm_philox4x32(key, (uint64_t)i, 0).word[0] % (uint64_t)plan->V);
        if (i < n) {
            tokens[i] = id;
        }
        if (i > 0) {
            targets[i - 1] = id;
        }
    }
}

// The first tokens of --text, by the model's tokenizer.
static sm_status encode_batch(const cli_options *options, const sm_plan *plan, int32_t *tokens, int32_t *targets) {
    const int64_t n = plan->B * plan->T;
    SM_AT_END(sm_ids_free) sm_ids ids = {.ids = NULL};
    SM_TRY(cli_model_ids(options, options->walk.text, plan->V, &ids));
    SM_FAIL_IF((int64_t)ids.n <= n, SM_ERR_USAGE,
               "--text: %zu tokens, and a batch of %lld x %lld, with a target for each, has %lld; give a longer text "
               "or a smaller --seq-len",
               ids.n, (long long)plan->B, (long long)plan->T, (long long)n + 1);
    memcpy(tokens, ids.ids, (size_t)n * sizeof(*tokens));
    memcpy(targets, ids.ids + 1, (size_t)n * sizeof(*targets));
    return SM_OK;
}

sm_status cli_walk_read_batch(const cli_options *options, const sm_plan *plan, int32_t **batch) {
    const int64_t n = plan->B * plan->T;
    SM_OWN(sm_tokens) *data = NULL;
    int32_t *ids = sm_malloc((size_t)n * 2 * sizeof(*ids));
    *batch = ids;
    if (options->walk.text != NULL) {
        return encode_batch(options, plan, ids, ids + n);
    }
    if (options->work.data == NULL) {
        draw_batch(plan, (uint64_t)options->work.seed, ids, ids + n);
        return SM_OK;
    }
    SM_TRY(cli_open_tokens(options, plan->V, &data));
    return sm_tokens_batch(data, 0, plan->B, plan->T, ids, ids + n);
}

// --- opening ---------------------------------------------------------------------------------------

static const sm_plan *plan_of(const cli_walk_values *values) { return values->live->session->plan; }

// Step `step` of training on a batch: B*T tokens, then as many targets.
static sm_status train(sm_live *live, const int32_t *batch, int64_t step) {
    const sm_plan *plan = live->session->plan;
    SM_TRY(sm_live_begin(live, batch, batch + plan->B * plan->T, NULL, step));
    for (int i = 0; i < plan->n_ops; i++) {
        SM_TRY(cli_interrupted ? SM_ERR_INTERRUPTED : sm_live_run(live, i));
    }
    return SM_OK;
}

// Batches of the text in order, as `train` would take them without shuffling.
static sm_status train_first(const cli_options *options, sm_live *live) {
    const sm_plan *plan = live->session->plan;
    const int64_t n = plan->B * plan->T;
    SM_OWN(sm_tokens) *data = NULL;
    SM_FREED int32_t *batch = sm_malloc((size_t)n * 2 * sizeof(*batch));
    SM_TRY(cli_open_tokens(options, plan->V, &data));
    for (int64_t step = 1; step < cli_walk_step(options); step++) {
        SM_TRY(sm_tokens_batch(data, step - 1, plan->B, plan->T, batch, batch + n));
        SM_TRY(train(live, batch, step));
    }
    return SM_OK;
}

sm_status cli_walk_values_open(const cli_options *options, sm_plan *plan, const sm_model_config *config,
                               const int32_t *batch, cli_walk_values **values) {
    SM_OWN(cli_walk_values) *made = sm_calloc(1, sizeof(*made));
    made->is_full = options->walk.full;
    made->slice_elems = options->walk.slice_elems;
    SM_TRY(sm_live_open(plan, &made->live));
    for (int i = 0; i < plan->n_tensors && made->is_full && made->slice_elems == 0; i++) {
        const sm_tensor *t = &plan->tensors[i];
        SM_FAIL_IF(sm_tensor_elems(t) > MAX_FULL_ELEMS, SM_ERR_USAGE,
                   "--full: %s has %lld elements, but only tensors of up to %d can be shown; give a smaller model",
                   t->name, (long long)sm_tensor_elems(t), MAX_FULL_ELEMS);
    }
    SM_TRY(cli_load_weights(made->live->session, config, (uint64_t)options->work.seed, options->model.weights));
    SM_TRY(cli_walk_step(options) > 1 ? train_first(options, made->live) : SM_OK);
    SM_FAIL_IF(options->walk.held != NULL && sm_live_hold(made->live, options->walk.held) != SM_OK, SM_ERR_USAGE,
               "--set: %s", sm_error_message());
    SM_TRY(sm_live_begin(made->live, batch, batch + plan->B * plan->T, NULL, cli_walk_step(options)));
    *values = sm_give(&made);
    return SM_OK;
}

void cli_walk_values_free(cli_walk_values *values) {
    if (values == NULL) {
        return;
    }
    for (int i = 0; values->initial != NULL && i < plan_of(values)->n_tensors; i++) {
        free((double *)values->initial[i].full);
    }
    free(values->initial);
    for (int i = 0; i < N_ROOMS; i++) {
        free(values->rooms[i]);
    }
    sm_live_close(values->live);
    free(values);
}

// --- reading ---------------------------------------------------------------------------------------

// `full`: room for all elements; NULL: only the first are kept.
static sm_status read_data(cli_walk_values *values, int tensor, double *full, cli_walk_data *data) {
    const int64_t n_elems = sm_tensor_elems(&plan_of(values)->tensors[tensor]);
    int64_t dims[SM_MAX_DIMS];
    SM_TRY(sm_live_read(values->live, tensor));
    const double *read = values->live->values;
    double sum = 0;
    for (int64_t i = 0; i < n_elems; i++) {
        sum += read[i] * read[i];
    }
    *data = (cli_walk_data){.has = true, .n_elems = n_elems, .norm = sqrt(sum), .full = full};
    data->n_first = n_elems < CLI_WALK_FIRST ? (int)n_elems : CLI_WALK_FIRST;
    for (int i = 0; i < data->n_first; i++) {
        data->first[i] = read[i];
    }
    const int64_t n_shown = sm_page_slice_elems(plan_of(values), tensor, values->slice_elems);
    const bool is_sliced = sm_page_slice(plan_of(values), tensor, values->slice_elems, dims);
    for (int64_t i = 0; full != NULL && i < n_shown; i++) {
        full[i] = read[is_sliced ? sm_page_slice_place(&plan_of(values)->tensors[tensor], dims, i) : i];
    }
    return SM_OK;
}

static sm_status make_room(const cli_walk_values *values, int tensor, double **room) {
    const int64_t n_elems = sm_page_slice_elems(plan_of(values), tensor, values->slice_elems);
    double *made = realloc(*room, (size_t)n_elems * sizeof(**room));
    SM_FAIL_IF(made == NULL, SM_ERR_OOM, "walk: no memory for %lld elements", (long long)n_elems);
    *room = made;
    return SM_OK;
}

// Reads operand number `place`, of N_ROOMS.
static sm_status read_operand(cli_walk_values *values, int place, int tensor, cli_walk_data *data) {
    if (values->is_full) {
        SM_TRY(make_room(values, tensor, &values->rooms[place]));
    }
    return read_data(values, tensor, values->is_full ? values->rooms[place] : NULL, data);
}

sm_status cli_walk_values_initial(cli_walk_values *values, const cli_walk_data **initial) {
    const sm_plan *plan = plan_of(values);
    *initial = NULL;
    if (!values->is_full) {
        return SM_OK;
    }
    values->initial = sm_calloc((size_t)plan->n_tensors, sizeof(*values->initial));
    for (int i = 0; i < plan->n_tensors; i++) {
        double *room = NULL;
        if (sm_live_is_initial(&plan->tensors[i])) {
            SM_TRY(make_room(values, i, &room));
            values->initial[i].full = room; // the initial entry frees it
            SM_TRY(read_data(values, i, room, &values->initial[i]));
        }
    }
    *initial = values->initial;
    return SM_OK;
}

sm_status cli_walk_values_losses(cli_walk_values *values, int64_t step, const int32_t *batch, json_t *losses) {
    double loss;
    for (int i = 0; i < LOSSES; i++) {
        SM_TRY(i == 0 ? SM_OK : train(values->live, batch, step + i));
        SM_TRY(sm_session_loss(values->live->session, &loss));
        json_array_append_new(losses, json_real(loss));
    }
    return SM_OK;
}

// Outputs before the op have the second half of the rooms.
sm_status cli_walk_values_execute(cli_walk_values *values, bool shown, cli_walk_op *event) {
    for (int k = 0; k < event->n_operands && shown; k++) {
        cli_walk_operand *o = &event->operands[k];
        const bool is_input = k < event->n_inputs;
        if (is_input || strcmp(o->access, "writes") != 0) {
            SM_TRY(read_operand(values, is_input ? k : CLI_WALK_OPERANDS + k, o->tensor,
                                is_input ? &o->data : &o->before));
        }
    }
    SM_TRY(sm_live_run(values->live, event->index));
    for (int k = event->n_inputs; k < event->n_operands && shown; k++) {
        SM_TRY(read_operand(values, k, event->operands[k].tensor, &event->operands[k].data));
    }
    return SM_OK;
}
