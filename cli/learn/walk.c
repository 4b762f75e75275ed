// walk.c: shows the step op by op. This file chooses the plan's ops, runs them on the reference backend if values are
// requested, and passes them to a writer (learn/learn.h).
#include <ctype.h>

#include "philox.h"
#include "cli/learn/learn.h"
#include "learn/page/step_page.h"

enum { LOSSES = 12, MAX_FULL_ELEMS = 1 << 22 };

// For people one block stands for all; for programs every op is shown, unless --layer or --at selects.
static bool is_shown(const cli_walk_state *w, int index) {
    const cli_options *o = w->options;
    const sm_op *op = &w->plan->ops[index];
    const char *at = o->walk.at; // an op's number, or a kind
    const bool in_layer = op->layer < 0 || op->layer == (o->walk.layer < 0 ? 0 : o->walk.layer);
    if (at != NULL) {
        char *end;
        const bool is_at = isdigit((unsigned char)at[0]) ? strtol(at, &end, 10) == index && *end == '\0'
                                                         : strcmp(sm_op_name(op->kind), at) == 0;
        return is_at && (o->walk.layer < 0 || in_layer);
    }
    return in_layer || o->walk.all || (!sm_format_is_read(o->out.format) && o->walk.layer < 0);
}

// Counts the ops that are shown. SM_ERR_USAGE if --at and --layer select none.
static sm_status count_shown(cli_walk_state *w) {
    const char *kinds[SM_OP_KIND_COUNT];
    bool is_there[SM_OP_KIND_COUNT] = {false};
    const char *at = w->options->walk.at;
    int n = 0;
    for (int i = 0; i < w->plan->n_ops; i++) {
        w->n_shown += is_shown(w, i);
        is_there[w->plan->ops[i].kind] = true;
    }
    if (at == NULL || w->n_shown > 0) {
        return SM_OK;
    }
    SM_FAIL_IF(isdigit((unsigned char)at[0]), SM_ERR_USAGE, "--at: no op %s is shown; the step's ops are 0 to %d", at,
               w->plan->n_ops - 1);
    for (int kind = 0; kind < SM_OP_KIND_COUNT; kind++) {
        kinds[n] = sm_op_name((sm_op_kind)kind);
        n += is_there[kind];
    }
    return cli_no_such_name("--at", "op in this step", at, kinds, n);
}

// "stepmark train --init -m tiny --seed 42 --save DIR".
static void describe_weights(cli_walk_state *w) {
    const cli_options *o = w->options;
    if (o->model.weights != NULL) {
        snprintf(w->weights, sizeof(w->weights), "%s", o->model.weights);
        return;
    }
    snprintf(w->weights, sizeof(w->weights), "stepmark train --init%s%s -m %s", o->model.arch > 0 ? " --arch " : "",
             o->model.arch > 0 ? w->job.config.model->name : "", o->model.models.texts[0]);
    char text[SM_FIELD_TEXT_SIZE];
#define X(type, member, column, view, heading, meaning, most, flag, ...) \
    if (o->model.member != 0) {                                          \
        sm_model_field_text(&w->job.config, SM_MODEL_##member, text);    \
        sm_append(w->weights, PATH_MAX, " --" flag " %s", text);         \
    }
#define KEPT(...)
    SM_MODEL_FIELDS(X, KEPT)
#undef X
#undef KEPT
    sm_append(w->weights, PATH_MAX, " --seed %lld --save DIR", (long long)o->work.seed);
    if (cli_walk_step(o) > 1) {
        sm_append(w->weights, PATH_MAX, ", and %lld steps of training", (long long)o->walk.train_steps);
    }
}

// Of --text, or the first of --data, or random tokens of --seed; a token's target is the next token.
static sm_status read_batch(cli_walk_state *w) {
    const sm_plan *plan = w->plan;
    const int64_t n = plan->B * plan->T;
    SM_OWN(sm_tokens) *data = NULL;
    int32_t *tokens = w->batch = sm_malloc((size_t)n * 2 * sizeof(*tokens));
    int32_t *targets = tokens + n;
    if (w->options->walk.text != NULL) { // its first tokens, by the model's tokenizer
        SM_AT_END(sm_ids_free) sm_ids ids = {.ids = NULL};
        SM_TRY(cli_model_ids(w->options, w->options->walk.text, plan->V, &ids));
        SM_FAIL_IF((int64_t)ids.n <= n, SM_ERR_USAGE,
                   "--text: %zu tokens, and a batch of %lld x %lld, with a target for each, has %lld; give a longer "
                   "text or a smaller --seq-len",
                   ids.n, (long long)plan->B, (long long)plan->T, (long long)n + 1);
        memcpy(tokens, ids.ids, (size_t)n * sizeof(*tokens));
        memcpy(targets, ids.ids + 1, (size_t)n * sizeof(*targets));
        return SM_OK;
    }
    if (w->options->work.data == NULL) {
        const uint64_t key = sm_philox_key((uint64_t)w->options->work.seed, "walk.tokens");
        for (int64_t i = 0; i <= n; i++) { // the last is a target alone
            tokens[i] = (int32_t)(sm_philox4x32(key, (uint64_t)i, 0).word[0] % (uint64_t)plan->V);
        }
        memmove(targets, tokens + 1, (size_t)n * sizeof(*targets));
        return SM_OK;
    }
    SM_TRY(cli_open_tokens(w->options, plan->V, &data));
    return sm_tokens_batch(data, 0, plan->B, plan->T, tokens, targets);
}

// Step `step` of training on a batch: B*T tokens, then as many targets.
static sm_status train(sm_live *live, const int32_t *batch, int64_t step) {
    const sm_plan *plan = live->session->plan;
    SM_TRY(sm_live_begin(live, batch, batch + plan->B * plan->T, NULL, step));
    for (int i = 0; i < plan->n_ops; i++) {
        SM_TRY(cli_interrupted ? SM_ERR_INTERRUPTED : sm_live_run(live, i));
    }
    return SM_OK;
}

// Reads a tensor; with --full all elements, into a room that grows.
static sm_status read_data(const cli_walk_state *w, int tensor, double **room, cli_walk_data *data) {
    const int64_t slice_elems = w->options->walk.slice_elems;
    const sm_tensor *t = &w->plan->tensors[tensor];
    const int64_t n_elems = sm_tensor_elems(t);
    const int64_t n_shown = w->options->walk.full ? sm_page_slice_elems(w->plan, tensor, slice_elems) : 0;
    int64_t dims[SM_MAX_DIMS];
    if (w->options->walk.full) {
        double *made = realloc(*room, (size_t)n_shown * sizeof(*made));
        SM_FAIL_IF(made == NULL, SM_ERR_OOM, "walk: no memory for %lld elements", (long long)n_shown);
        *room = made;
    }
    SM_TRY(sm_live_read(w->live, tensor));
    const double *read = w->live->values;
    double sum = 0;
    for (int64_t i = 0; i < n_elems; i++) {
        sum += read[i] * read[i];
    }
    *data = (cli_walk_data){.has = true, .n_elems = n_elems, .norm = sqrt(sum), .full = *room};
    data->n_first = n_elems < CLI_WALK_FIRST ? (int)n_elems : CLI_WALK_FIRST;
    memcpy(data->first, read, (size_t)data->n_first * sizeof(*read));
    const bool is_sliced = sm_page_slice(w->plan, tensor, slice_elems, dims);
    for (int64_t i = 0; i < n_shown; i++) {
        (*room)[i] = read[is_sliced ? sm_page_slice_place(t, dims, i) : i];
    }
    return SM_OK;
}

// Opens the reference backend with the weights of --weights, or initial ones of --seed, and the batch. Takes the plan over.
static sm_status open_values(cli_walk_state *w, sm_plan *plan) {
    const cli_options *o = w->options;
    const int64_t n = plan->B * plan->T;
    SM_TRY(sm_live_open(plan, &w->live));
    for (int i = 0; i < plan->n_tensors && o->walk.full && o->walk.slice_elems == 0; i++) {
        const sm_tensor *t = &plan->tensors[i];
        SM_FAIL_IF(sm_tensor_elems(t) > MAX_FULL_ELEMS, SM_ERR_USAGE,
                   "--full: %s has %lld elements, but only tensors of up to %d can be shown; give a smaller model",
                   t->name, (long long)sm_tensor_elems(t), MAX_FULL_ELEMS);
    }
    SM_TRY(cli_load_weights(w->live->session, &w->job.config, (uint64_t)o->work.seed, o->model.weights));
    if (cli_walk_step(o) > 1) { // trains on batches of the text in order, as `train` would without shuffling
        SM_OWN(sm_tokens) *data = NULL;
        SM_FREED int32_t *batch = sm_malloc((size_t)n * 2 * sizeof(*batch));
        SM_TRY(cli_open_tokens(o, plan->V, &data));
        for (int64_t step = 1; step < cli_walk_step(o); step++) {
            SM_TRY(sm_tokens_batch(data, step - 1, plan->B, plan->T, batch, batch + n));
            SM_TRY(train(w->live, batch, step));
        }
    }
    SM_FAIL_IF(o->walk.held != NULL && sm_live_hold(w->live, o->walk.held) != SM_OK, SM_ERR_USAGE, "--set: %s",
               sm_error_message());
    SM_TRY(sm_live_begin(w->live, w->batch, w->batch + n, NULL, cli_walk_step(o)));
    w->initial = o->walk.full ? sm_calloc((size_t)plan->n_tensors, sizeof(*w->initial)) : NULL;
    for (int i = 0; i < plan->n_tensors && o->walk.full; i++) {
        double *room = NULL;
        if (sm_live_is_initial(&plan->tensors[i])) {
            const sm_status read = read_data(w, i, &room, &w->initial[i]);
            w->initial[i].full = room; // which frees it
            SM_TRY(read);
        }
    }
    return SM_OK;
}

static cli_walk_op make_event(const sm_plan *plan, int index) {
    static const char *const accesses[] = {[SM_WRITES] = "writes", [SM_ADDS] = "adds to", [SM_UPDATES] = "updates"};
    const sm_op *op = &plan->ops[index];
    const sm_op_info *info = sm_op_get_info(op->kind);
    cli_walk_op e = {.plan = plan, .index = index};
    for (int i = 0; i < SM_MAX_IN && info->in[i].name != NULL; i++) {
        if (op->in[i] != SM_NO_TENSOR) {
            e.operands[e.n_operands++] = (cli_walk_operand){&info->in[i], "reads", op->in[i], {0}, {0}};
        }
    }
    e.n_inputs = e.n_operands;
    for (int i = 0; i < SM_MAX_OUT && info->out[i].name != NULL; i++) {
        if (op->out[i] != SM_NO_TENSOR) {
            const char *access = accesses[op->attr.overwrites ? SM_WRITES : info->out[i].mode];
            e.operands[e.n_operands++] = (cli_walk_operand){&info->out[i], access, op->out[i], {0}, {0}};
        }
    }
    return e;
}

static sm_status walk_ops(cli_walk_state *w, cli_walk_writer *writer) {
    const bool tells_skips = w->options->walk.at == NULL;
    int skipped_until = 0;
    for (int i = 0; i < w->plan->n_ops; i++) {
        const bool shown = is_shown(w, i);
        cli_walk_op event = make_event(w->plan, i);
        SM_TRY(cli_interrupted ? SM_ERR_INTERRUPTED : SM_OK);
        // Of a shown op, inputs are read before it, outputs after it, what it updates also before (second half).
        for (int k = 0; k < event.n_operands && shown && w->live != NULL; k++) {
            cli_walk_operand *o = &event.operands[k];
            if (k < event.n_inputs) {
                SM_TRY(read_data(w, o->tensor, &w->rooms[k], &o->data));
            } else if (strcmp(o->access, "writes") != 0) {
                SM_TRY(read_data(w, o->tensor, &w->rooms[CLI_WALK_OPERANDS + k], &o->before));
            }
        }
        SM_TRY(w->live != NULL ? sm_live_run(w->live, i) : SM_OK);
        for (int k = event.n_inputs; k < event.n_operands && shown && w->live != NULL; k++) {
            SM_TRY(read_data(w, event.operands[k].tensor, &w->rooms[k], &event.operands[k].data));
        }
        if (shown) {
            SM_TRY(writer->op(writer, &event));
        } else if (tells_skips && i >= skipped_until) {
            // The omitted ops from here on, within one range.
            const sm_op *op = &w->plan->ops[i];
            for (skipped_until = i; skipped_until < w->plan->n_ops && !is_shown(w, skipped_until) &&
                                    w->plan->ops[skipped_until].range == op->range;) {
                skipped_until++;
            }
            SM_TRY(writer->skip != NULL ? writer->skip(writer, w->plan, (sm_range){i, skipped_until}) : SM_OK);
        }
    }
    return SM_OK;
}

static void release(cli_walk_state *w) {
    free(w->batch);
    for (int i = 0; w->initial != NULL && i < w->plan->n_tensors; i++) {
        free((double *)w->initial[i].full);
    }
    free(w->initial);
    for (int i = 0; i < CLI_WALK_ROOMS; i++) {
        free(w->rooms[i]);
    }
    sm_live_close(w->live);
}

sm_status cli_walk_with(const cli_options *options, cli_walk_writer *writer) {
    SM_AT_END(release) cli_walk_state w = {.options = options};
    SM_OWN(sm_plan) *plan = NULL;
    SM_TRY(cli_job_of(options, NULL, &w.job));
    const bool has_numbers = options->walk.values || options->walk.full;
    SM_FAIL_IF(options->walk.text != NULL && options->work.data != NULL, SM_ERR_USAGE,
               "--text: --data has the tokens; leave one of them out");
    SM_FAIL_IF(options->walk.held != NULL && !has_numbers, SM_ERR_USAGE,
               "--set: changes numbers, and none are computed; add --values or --full");
    SM_FAIL_IF(cli_walk_step(options) > 1 && !has_numbers, SM_ERR_USAGE,
               "--train-steps: no numbers are shown; add --values or --full");
    SM_FAIL_IF(options->walk.layer >= w.job.config.n_layer, SM_ERR_USAGE, "--layer: %lld; the blocks are 0 to %lld",
               (long long)options->walk.layer, (long long)w.job.config.n_layer - 1);
    SM_FAIL_IF(options->processes.n_processes > 1 && has_numbers, SM_ERR_USAGE,
               "--processes: %lld processes have no numbers here, where there is one; leave out --values and --full",
               (long long)options->processes.n_processes);
    SM_TRY(cli_job_plan(&w.job, 0, &plan));
    w.plan = plan;
    SM_TRY(count_shown(&w));
    describe_weights(&w);
    if (options->walk.text != NULL) {
        snprintf(w.data, sizeof(w.data), "the text: %s", options->walk.text);
    } else if (options->work.data != NULL) {
        snprintf(w.data, sizeof(w.data), "%s", options->work.data);
    } else {
        snprintf(w.data, sizeof(w.data), "random, seed %lld", (long long)options->work.seed);
    }
    SM_TRY(read_batch(&w));
    if (has_numbers) { // `live` owns the plan
        SM_TRY(open_values(&w, sm_give(&plan)));
    }
    SM_TRY(writer->begin(writer, &w));
    sm_status status = walk_ops(&w, writer);
    for (int i = 0; i < LOSSES && status == SM_OK && writer->losses != NULL; i++) {
        double loss = 0;
        status = i > 0 ? train(w.live, w.batch, cli_walk_step(options) + i) : SM_OK;
        status = status == SM_OK ? sm_session_loss(w.live->session, &loss) : status;
        json_array_append_new(writer->losses, json_real(loss));
    }
    const sm_status ended = writer->ends_only_whole && status != SM_OK ? SM_OK : writer->end(writer, w.plan);
    return status != SM_OK ? status : ended;
}

sm_status cli_walk(const cli_options *options) {
    cli_walk_writer writer = sm_format_is_read(options->out.format) ? cli_walk_text_writer() : cli_walk_record_writer();
    return cli_walk_with(options, &writer);
}
