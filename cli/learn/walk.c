// walk.c: shows the step op by op. This file chooses the plan's ops, runs them if values are requested, and passes them
// to a writer (learn/learn.h).
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/learn/learn.h"
#include "cli/measure/measure.h"

typedef struct {
    const cli_options *options;
    cli_job job;
    const sm_plan *plan;     // owned by this struct or by `values`
    int32_t *batch;          // B*T tokens, then as many targets
    cli_walk_values *values; // NULL without --values
    char weights[PATH_MAX];  // for cli_walk_head
    char data[PATH_MAX];
} walk;

// --at: an op's number, or a kind.
static bool is_at(const sm_op *op, int index, const char *at) {
    char *end;
    return isdigit((unsigned char)at[0]) ? strtol(at, &end, 10) == index && *end == '\0'
                                         : strcmp(sm_op_name(op->kind), at) == 0;
}

// For people one block stands for all; for programs every op is shown, unless --layer or --at selects.
static bool is_shown(const walk *w, int index) {
    const cli_options *o = w->options;
    const sm_op *op = &w->plan->ops[index];
    const bool in_layer = op->layer < 0 || op->layer == (o->walk.layer < 0 ? 0 : o->walk.layer);
    if (o->walk.at != NULL) {
        return is_at(op, index, o->walk.at) && (o->walk.layer < 0 || in_layer);
    }
    const bool every = o->walk.all || (!sm_format_is_read((sm_format)o->out.format) && o->walk.layer < 0);
    return every || in_layer;
}

static int count_shown(const walk *w) {
    int n = 0;
    for (int i = 0; i < w->plan->n_ops; i++) {
        n += is_shown(w, i);
    }
    return n;
}

// SM_ERR_USAGE if --at and --layer select no op.
static sm_status check_at(const walk *w) {
    const char *kinds[SM_OP_KIND_COUNT];
    const char *at = w->options->walk.at;
    int n = 0;
    if (at == NULL || count_shown(w) > 0) {
        return SM_OK;
    }
    SM_FAIL_IF(isdigit((unsigned char)at[0]), SM_ERR_USAGE, "--at: no op %s is shown; the step's ops are 0 to %d", at,
               w->plan->n_ops - 1);
    for (int kind = 0; kind < SM_OP_KIND_COUNT; kind++) {
        bool is_there = false;
        for (int i = 0; i < w->plan->n_ops && !is_there; i++) {
            is_there = (int)w->plan->ops[i].kind == kind;
        }
        if (is_there) {
            kinds[n++] = sm_op_name((sm_op_kind)kind);
        }
    }
    return cli_no_such_name("--at", "op in this step", at, kinds, n);
}

// --- where the numbers come from -------------------------------------------------------------------

// "stepmark train --init -m tiny --seed 42 --save DIR".
static void describe_weights(walk *w) {
    const cli_options *o = w->options;
    if (o->model.weights != NULL) {
        snprintf(w->weights, sizeof(w->weights), "%s", o->model.weights);
        return;
    }
    snprintf(w->weights, sizeof(w->weights), "stepmark train --init%s%s -m %s", o->model.arch > 0 ? " --arch " : "",
             o->model.arch > 0 ? w->job.config.model->name : "", o->model.models.texts[0]);
    size_t used = strlen(w->weights);
    char text[SM_FIELD_TEXT_SIZE];
#define X(type, member, column, view, heading, meaning, most, flag, ...)                                \
    if (o->model.member != 0) {                                                                         \
        sm_model_field_text(&w->job.config, SM_MODEL_##member, text);                                   \
        used += (size_t)snprintf(w->weights + used, sizeof(w->weights) - used, " --" flag " %s", text); \
    }
#define KEPT(...)
    SM_MODEL_FIELDS(X, KEPT)
#undef X
#undef KEPT
    used += (size_t)snprintf(w->weights + used, sizeof(w->weights) - used, " --seed %lld --save DIR",
                             (long long)o->work.seed);
    if (cli_walk_step(o) > 1) {
        snprintf(w->weights + used, sizeof(w->weights) - used, ", and %lld steps of training",
                 (long long)o->walk.train_steps);
    }
}

// --- walking ---------------------------------------------------------------------------------------

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

static sm_status walk_ops(const walk *w, cli_walk_writer *writer) {
    const bool tells_skips = w->options->walk.at == NULL;
    int skipped_until = 0;
    for (int i = 0; i < w->plan->n_ops; i++) {
        const bool shown = is_shown(w, i);
        cli_walk_op event = make_event(w->plan, i);
        if (cli_interrupted) {
            return SM_ERR_INTERRUPTED;
        }
        if (w->values != NULL) {
            SM_TRY(cli_walk_values_execute(w->values, shown, &event));
        }
        if (shown) {
            SM_TRY(writer->op(writer, &event));
        } else if (tells_skips && i >= skipped_until) {
            // The omitted ops from `first`, within one range.
            const sm_op *ops = w->plan->ops;
            int end = i;
            while (end < w->plan->n_ops && ops[end].range == ops[i].range && !is_shown(w, end)) {
                end++;
            }
            const sm_range left_out = {i, end};
            skipped_until = left_out.end;
            SM_TRY(writer->skip != NULL ? writer->skip(writer, w->plan, left_out) : SM_OK);
        }
    }
    return SM_OK;
}

static sm_status write_walk(walk *w, cli_walk_writer *writer) {
    cli_walk_head head = {.options = w->options,
                          .config = &w->job.config,
                          .plan = w->plan,
                          .mode = w->job.mode,
                          .batch = w->batch,
                          .weights = w->weights,
                          .data = w->data,
                          .n_shown = count_shown(w),
                          .has_values = w->values != NULL};
    if (w->values != NULL) {
        SM_TRY(cli_walk_values_initial(w->values, &head.initial));
    }
    SM_TRY(writer->begin(writer, &head));
    sm_status status = walk_ops(w, writer);
    if (status == SM_OK && writer->losses != NULL) {
        status = cli_walk_values_losses(w->values, cli_walk_step(w->options), w->batch, writer->losses);
    }
    sm_status ended = writer->ends_only_whole && status != SM_OK ? SM_OK : writer->end(writer, w->plan);
    return status != SM_OK ? status : ended;
}

static sm_status check_options(walk *w) {
    const cli_options *options = w->options;
    SM_TRY(cli_job_of(options, NULL, &w->job));
    SM_FAIL_IF(options->walk.text != NULL && options->work.data != NULL, SM_ERR_USAGE,
               "--text: --data has the tokens; leave one of them out");
    SM_FAIL_IF(options->walk.held != NULL && !options->walk.values && !options->walk.full, SM_ERR_USAGE,
               "--set: changes numbers, and none are computed; add --values or --full");
    SM_FAIL_IF(cli_walk_step(options) > 1 && !options->walk.values && !options->walk.full, SM_ERR_USAGE,
               "--train-steps: no numbers are shown; add --values or --full");
    SM_FAIL_IF(options->walk.layer >= w->job.config.n_layer, SM_ERR_USAGE, "--layer: %lld; the blocks are 0 to %lld",
               (long long)options->walk.layer, (long long)w->job.config.n_layer - 1);
    SM_FAIL_IF(options->processes.n_processes > 1 && (options->walk.values || options->walk.full), SM_ERR_USAGE,
               "--processes: %lld processes have no numbers here, where there is one; leave out --values and --full",
               (long long)options->processes.n_processes);
    return SM_OK;
}

static void release(walk *w) {
    free(w->batch);
    cli_walk_values_free(w->values);
}

sm_status cli_walk_with(const cli_options *options, cli_walk_writer *writer) {
    SM_AT_END(release) walk w = {.options = options};
    SM_OWN(sm_plan) *plan = NULL;
    SM_TRY(check_options(&w));
    SM_TRY(cli_job_plan(&w.job, 0, &plan));
    w.plan = plan;
    SM_TRY(check_at(&w));
    describe_weights(&w);
    if (options->walk.text != NULL) {
        snprintf(w.data, sizeof(w.data), "the text: %s", options->walk.text);
    } else if (options->work.data != NULL) {
        snprintf(w.data, sizeof(w.data), "%s", options->work.data);
    } else {
        snprintf(w.data, sizeof(w.data), "random, seed %lld", (long long)options->work.seed);
    }
    SM_TRY(cli_walk_read_batch(options, plan, &w.batch));
    if (options->walk.values || options->walk.full) { // `values` owns the plan
        SM_TRY(cli_walk_values_open(options, sm_give(&plan), &w.job.config, w.batch, &w.values));
    }
    return write_walk(&w, writer);
}

sm_status cli_walk(const cli_options *options) {
    cli_walk_writer writer =
        sm_format_is_read((sm_format)options->out.format) ? cli_walk_text_writer() : cli_walk_record_writer();
    return cli_walk_with(options, &writer);
}
