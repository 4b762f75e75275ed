// walk_text.c: a walk as text: headings, ops, totals. All facts come from the table of op kinds and the plan.
#include <math.h>

#include "bench/tables/show.h"
#include "cli/learn/learn.h"

enum { TEXT_SIZE = 160, NO_OP_BEFORE = -2 };

static void print_ids(const char *name, const int32_t *ids, int64_t n) {
    const int64_t most = 16;
    printf("%-8s", name);
    for (int64_t i = 0; i < n && i < most; i++) {
        printf(" %d", ids[i]);
    }
    printf("%s\n", n > most ? " ..." : "");
}

static sm_status begin(SM_UNUSED cli_walk_writer *writer, const cli_walk_state *w) {
    const sm_model_config *c = &w->job.config;
    const sm_plan *plan = w->plan;
    const cli_options *o = w->options;
    char shared[64] = "";
    if (sm_model_n_kv_head(c) != c->n_head) {
        snprintf(shared, sizeof(shared), " that share NKV=%lld of keys and values", (long long)c->n_kv_head);
    }
    printf("%s %s: L=%lld blocks, NH=%lld heads%s, C=%lld, F=%lld, V=%lld (Vp=%lld with padding), %s parameters\n",
           c->model->title, o->model.weights != NULL ? o->model.weights : o->model.models.texts[0],
           (long long)c->n_layer, (long long)c->n_head, shared, (long long)c->d_model, (long long)c->d_ff,
           (long long)c->vocab, (long long)sm_model_padded_vocab(c), SM_TEXT_COUNT(plan->n_params));
    printf("One training step of B=%lld sequences of T=%lld tokens, mode %s, recompute %s, precision %s: %d ops\n",
           (long long)plan->B, (long long)plan->T, sm_mode_name(w->job.mode), sm_recompute_name(plan->recompute),
           cli_precision_name((cli_precision)o->device.precisions.values[0]), plan->n_ops);
    const int n_left_out = plan->n_ops - w->n_shown;
    if (o->walk.at != NULL) {
        printf("Shown: %d %s of --at %s\n", w->n_shown, w->n_shown == 1 ? "op, that" : "ops, those", o->walk.at);
    } else if (n_left_out > 0) {
        printf("Shown: %d ops, outside of blocks and of block %lld; the other %d are left out (--all shows them)\n",
               w->n_shown, o->walk.layer < 0 ? 0LL : (long long)o->walk.layer, n_left_out);
    }
    if (w->live != NULL) {
        const int64_t n = plan->B * plan->T;
        printf("%-8s %s\n", "weights", w->weights);
        print_ids("tokens", w->batch, n);
        print_ids("targets", w->batch + n, n);
        sm_step_settings settings = sm_plan_settings(plan);
        printf("%-8s step %lld", "hyper", (long long)cli_walk_step(o));
        for (int i = 0; i < sm_setting_count(); i++) {
            char words[CLI_TEXT_SIZE];
            const double value = *sm_setting_of(&settings, sm_setting_at(i));
            cli_setting_text(sm_setting_at(i), ' ', words);
            if (!isnan(value)) {
                printf(", %s %g", words, value);
            }
        }
        putchar('\n');
    }
    return SM_OK;
}

static const char *dims_text(const sm_tensor *t, char text[TEXT_SIZE]) {
    text[0] = '\0';
    for (int i = 0; i < t->n_dims; i++) {
        sm_append(text, TEXT_SIZE, "%s%lld", i > 0 ? "," : "(", (long long)t->dims[i]);
    }
    sm_append(text, TEXT_SIZE, ")");
    return text;
}

// `when`: "before", or "" after the op.
static void print_data(const sm_plan *plan, int tensor, const char *when, const cli_walk_data *data) {
    if (!data->has) {
        return;
    }
    printf("       %-8s %-7s %-11s norm %-12.6g [", when, "", "", data->norm);
    for (int i = 0; i < data->n_first; i++) {
        printf("%s%.6g", i > 0 ? ", " : "", data->first[i]);
    }
    printf("%s]\n", data->n_elems > data->n_first ? ", ..." : "");
    if (data->full != NULL) {
        // One line for each row of the tensor.
        const int64_t n_cols = sm_tensor_cols(&plan->tensors[tensor]);
        for (int64_t i = 0; i < data->n_elems; i++) {
            printf("%s%.6g%s", i % n_cols == 0 ? "         [" : "", data->full[i],
                   i % n_cols == n_cols - 1 ? "]\n" : ", ");
        }
    }
}

// The attributes that are not zero; decay is always shown.
static void print_attributes(const sm_op *op) {
    const char *before = "       with     ";
    for (sm_attr attr = 0; attr < SM_ATTR_COUNT; attr++) {
        const sm_attr_info *info = sm_attr_get_info(attr);
        const double value = sm_attr_get(&op->attr, attr);
        const bool is_number = info->type == SM_ATTR_INTEGER || info->type == SM_ATTR_REAL;
        if (info->type == SM_ATTR_KEY || (value == 0 && !(attr == SM_ATTR_decay && sm_op_has_attr(op->kind, attr)))) {
            continue;
        }
        fputs(before, stdout);
        if (is_number) {
            printf("%s = %.9g", info->letter, value);
        } else {
            printf("%s%s", value == 0 ? "no " : "", info->text);
        }
        before = "; ";
    }
    if (before[0] == ';') {
        putchar('\n');
    }
}

static sm_status print_op(cli_walk_writer *writer, const cli_walk_op *event) {
    const sm_plan *plan = event->plan;
    const sm_op *op = &plan->ops[event->index];
    const sm_op_info *info = sm_op_get_info(op->kind);
    char equation[SM_EQUATION_SIZE];
    // A heading at the start of a range or block.
    const bool new_range = writer->last_range != (int)op->range;
    if (new_range) {
        printf("\n=== %s ===\n\n", sm_phase_name(op->range));
    }
    if (op->layer >= 0 && (new_range || writer->last_layer != op->layer)) {
        printf("--- block %d ---\n\n", op->layer);
    }
    writer->last_range = (int)op->range;
    writer->last_layer = op->layer;
    sm_op_equation(op, equation);
    printf("%5d  %s   %s, %s\n       %s\n", event->index, info->name, SM_TEXT_SCALED(sm_op_flops(plan, op), "FLOP"),
           SM_TEXT_BYTES(sm_op_bytes(plan, op)), equation);
    print_attributes(op);
    for (int k = 0; k < event->n_operands; k++) {
        const cli_walk_operand *o = &event->operands[k];
        const sm_tensor *t = &plan->tensors[o->tensor];
        char dims[TEXT_SIZE];
        printf("       %-8s %-7s %-11s %-30s %-16s %s\n", o->access, o->info->name, o->info->shape, t->name,
               dims_text(t, dims), sm_role_name(t->role));
        print_data(plan, o->tensor, "  before", &o->before);
        print_data(plan, o->tensor, o->before.has ? "  after" : "", &o->data);
    }
    putchar('\n');
    return SM_OK;
}

// One line for omitted ops of a range.
static sm_status skip(cli_walk_writer *writer, const sm_plan *plan, sm_range ops) {
    const sm_op *first = &plan->ops[ops.first];
    if (writer->last_range != (int)first->range) {
        printf("\n=== %s ===\n\n", sm_phase_name(first->range));
    }
    printf("       ... ops %d to %d: blocks %d to %d, like the block shown\n\n", ops.first, ops.end - 1, first->layer,
           plan->ops[ops.end - 1].layer);
    writer->last_range = (int)first->range;
    writer->last_layer = plan->ops[ops.end - 1].layer;
    return SM_OK;
}

static void print_total(const char *name, int n_ops, double flops, double bytes) {
    printf("%-10s %5d %12s %12s %12.2f\n", name, n_ops, SM_TEXT_SCALED(flops, "FLOP"), SM_TEXT_BYTES(bytes),
           bytes > 0 ? flops / bytes : 0);
}

static sm_status print_totals(SM_UNUSED cli_walk_writer *writer, const sm_plan *plan) {
    double flops[SM_PHASE_COUNT] = {0};
    double bytes[SM_PHASE_COUNT] = {0};
    int n_ops[SM_PHASE_COUNT] = {0};
    double all_flops = 0;
    double all_bytes = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        sm_phase phase = plan->ops[i].phase;
        flops[phase] += sm_op_flops(plan, &plan->ops[i]);
        bytes[phase] += sm_op_bytes(plan, &plan->ops[i]);
        n_ops[phase]++;
    }
    printf("=== totals ===\n\n%-10s %5s %12s %12s %12s\n", "phase", "ops", "work", "bytes", "FLOPs/byte");
    for (int phase = 0; phase < SM_PHASE_COUNT; phase++) {
        if (phase < SM_PHASE_SCALER || n_ops[phase] > 0) { // most steps have no ops of the phases after the optimizer
            print_total(sm_phase_name((sm_phase)phase), n_ops[phase], flops[phase], bytes[phase]);
        }
        all_flops += flops[phase];
        all_bytes += bytes[phase];
    }
    print_total("step", plan->n_ops, all_flops, all_bytes);
    return SM_OK;
}

cli_walk_writer cli_walk_text_writer(void) {
    return (cli_walk_writer){.begin = begin,
                             .op = print_op,
                             .skip = skip,
                             .end = print_totals,
                             .last_layer = NO_OP_BEFORE,
                             .last_range = NO_OP_BEFORE};
}
