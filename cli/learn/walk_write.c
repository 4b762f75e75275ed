// walk_write.c: a walk as text, whose facts come from the table of op kinds and the plan; and as JSON
// (docs/walk.schema.json describes it) or records of ops.
#include <inttypes.h>

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
        char dims[TEXT_SIZE] = "";
        for (int i = 0; i < t->n_dims; i++) {
            sm_append(dims, TEXT_SIZE, "%s%lld", i > 0 ? "," : "(", (long long)t->dims[i]);
        }
        sm_append(dims, TEXT_SIZE, ")");
        printf("       %-8s %-7s %-11s %-30s %-16s %s\n", o->access, o->info->name, o->info->shape, t->name, dims,
               sm_role_name(t->role));
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
    double flops[SM_PHASE_COUNT] = {0}, bytes[SM_PHASE_COUNT] = {0};
    int n_ops[SM_PHASE_COUNT] = {0};
    double all_flops = 0, all_bytes = 0;
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

static json_t *ids_json(const int32_t *ids, int64_t n) {
    json_t *array = json_array();
    for (int64_t i = 0; i < n; i++) {
        json_array_append_new(array, json_integer(ids[i]));
    }
    return array;
}

// Adds values to the object of an operand or tensor.
static void add_data(json_t *object, const cli_walk_data *data, bool has_values) {
    if (!data->has) {
        return;
    }
    json_object_set_new(object, "first", sm_json_reals(data->first, data->n_first));
    json_object_set_new(object, "norm", sm_json_real(data->norm));
    if (data->full != NULL && has_values) {
        json_object_set_new(object, "values", sm_json_reals(data->full, data->n_elems));
    }
}

static const sm_column columns[] = {
    SM_INTEGER("index", "", "place in the order of execution"),
    SM_TEXT("range", "part of the program that it is executed in"),
    SM_TEXT("phase", "part of the step that its cost is counted under"),
    SM_INTEGER("layer", "", "block, or -1 outside the blocks"),
    SM_TEXT("kind", "kind of op"),
    SM_TEXT("equation", "what it computes"),
    SM_TEXT("source", "where the definition comes from"),
    SM_JSON("attributes", "what its operands' shapes do not say"),
    SM_REAL("flops", "FLOP", "work"),
    SM_REAL("bytes", "bytes", "traffic of an ideal machine"),
    SM_JSON("operands", "tensors read and written, with values where asked for"),
};

const sm_table cli_walk_table = {"ops", columns, (int)(sizeof(columns) / sizeof(columns[0]))};

static json_t *operand_json(const sm_plan *plan, const cli_walk_operand *o, bool has_values) {
    const sm_tensor *t = &plan->tensors[o->tensor];
    json_t *operand =
        json_pack("{s:s, s:s, s:s, s:s, s:o, s:s, s:s}", "operand", o->info->name, "access", o->access, "shape",
                  o->info->shape, "tensor", t->name, "dims", sm_json_integers(t->dims, t->n_dims), "dtype",
                  sm_dtype_name(t->dtype), "role", sm_role_name(t->role));
    if (o->before.has) {
        json_t *before = json_object();
        add_data(before, &o->before, has_values);
        json_object_set_new(operand, "before", before);
    }
    add_data(operand, &o->data, has_values);
    return operand;
}

json_t *cli_walk_op_json(const cli_walk_op *event, bool has_values) {
    const sm_plan *plan = event->plan;
    const sm_op *op = &plan->ops[event->index];
    const sm_op_info *info = sm_op_get_info(op->kind);
    json_t *operands = json_array();
    json_t *attributes = json_object(); // that are not zero
    char equation[SM_EQUATION_SIZE];
    sm_op_equation(op, equation);
    for (sm_attr attr = 0; attr < SM_ATTR_COUNT; attr++) {
        const double number = sm_attr_get(&op->attr, attr);
        const sm_attr_type type = sm_attr_get_info(attr)->type;
        if (number != 0) {
            json_object_set_new(attributes, sm_attr_get_info(attr)->name,
                                type == SM_ATTR_INTEGER ? json_integer((json_int_t)number)
                                : type == SM_ATTR_REAL  ? json_real(number)
                                : type == SM_ATTR_KEY   ? json_string(SM_TEXT_IN(24, "0x%016" PRIx64, op->attr.rng_key))
                                                        : json_true());
        }
    }
    for (int k = 0; k < event->n_operands; k++) {
        json_array_append_new(operands, operand_json(plan, &event->operands[k], has_values));
    }
    return json_pack("{s:i, s:s, s:s, s:i, s:s, s:s, s:s, s:o, s:f, s:f, s:o}", "index", event->index, "range",
                     sm_phase_name(op->range), "phase", sm_phase_name(op->phase), "layer", op->layer, "kind",
                     info->name, "equation", equation, "source", info->source, "attributes", attributes, "flops",
                     sm_op_flops(plan, op), "bytes", sm_op_bytes(plan, op), "operands", operands);
}

static sm_status write_op(cli_walk_writer *writer, const cli_walk_op *event) {
    return sm_record_write(writer->records, cli_walk_op_json(event, true));
}

static json_t *tensor_json(const cli_walk_state *walk, int tensor, bool has_values) {
    const sm_tensor *t = &walk->plan->tensors[tensor];
    json_t *object = json_pack("{s:s, s:o, s:s, s:s}", "name", t->name, "dims", sm_json_integers(t->dims, t->n_dims),
                               "dtype", sm_dtype_name(t->dtype), "role", sm_role_name(t->role));
    if (t->view_of != SM_NO_TENSOR) {
        json_object_set_new(object, "view_of", json_string(walk->plan->tensors[t->view_of].name));
        json_object_set_new(object, "offset", json_integer(t->view_offset_elems));
    }
    if (t->real_elems < sm_tensor_elems(t)) {
        json_object_set_new(object, "model_elems", json_integer(t->real_elems));
    }
    if (walk->initial != NULL && has_values) {
        add_data(object, &walk->initial[tensor], true);
    }
    return object;
}

json_t *cli_walk_head_json(const cli_walk_state *walk, bool has_values) {
    const sm_plan *plan = walk->plan;
    const sm_model_config *c = &walk->job.config;
    const cli_options *o = walk->options;
    const int64_t n = plan->B * plan->T;
    json_t *config =
        sm_model_fields_to_json(c, json_pack("{s:I}", "padded_vocab", (json_int_t)sm_model_padded_vocab(c)));
    json_t *hyper = json_object();
    sm_step_settings settings = sm_plan_settings(plan);
    for (int i = 0; i < sm_setting_count(); i++) {
        const double value = *sm_setting_of(&settings, sm_setting_at(i));
        if (!isnan(value)) {
            json_object_set_new(hyper, sm_setting_at(i)->name, json_real(value));
        }
    }
    sm_json_put(hyper, {"step", json_integer(cli_walk_step(o))}, {"n_accum", json_integer(1)});
    json_t *tensors = json_array();
    for (int i = 0; i < plan->n_tensors; i++) {
        json_array_append_new(tensors, tensor_json(walk, i, has_values));
    }
    return json_pack(
        "{s:i, s:s, s:s, s:s, s:o, s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:s, s:s, s:o, s:o, s:o, s:i, s:i, s:o}",
        "schema_version", 1, "model_arch", c->model->name, "optimizer", plan->optimizer->name, "model",
        o->model.weights != NULL ? o->model.weights : o->model.models.texts[0], "config", config, "model_n_params",
        (json_int_t)plan->n_params, "mode", sm_mode_name(walk->job.mode), "recompute",
        sm_recompute_name(plan->recompute), "precision",
        cli_precision_name((cli_precision)o->device.precisions.values[0]), "n_batch", (json_int_t)plan->B, "n_seq",
        (json_int_t)plan->T, "seed", (json_int_t)o->work.seed, "dropout", o->work.dropout, "weights", walk->weights,
        "data", walk->data, "tokens", ids_json(walk->batch, n), "targets", ids_json(walk->batch + n, n), "hyper", hyper,
        "n_ops", plan->n_ops, "n_ops_shown", walk->n_shown, "tensors", tensors);
}

// As JSON '{ ..., "ops": '; the array and "}" follow.
static sm_status begin_records(cli_walk_writer *writer, const cli_walk_state *walk) {
    const sm_format format = walk->options->out.format;
    const char *key;
    json_t *value;
    writer->is_object = format == SM_FORMAT_JSON;
    if (!writer->is_object) {
        return sm_record_writer_open(&cli_walk_table, format, stdout, &writer->records);
    }
    SM_OWN(json_t) *object = cli_walk_head_json(walk, true);
    putchar('{');
    json_object_foreach(object, key, value) {
        printf("\n\"%s\": ", key);
        json_dumpf(value, stdout, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
        putchar(',');
    }
    printf("\n\"ops\": ");
    return sm_record_writer_open(&cli_walk_table, format, stdout, &writer->records);
}

static sm_status end_records(cli_walk_writer *writer, SM_UNUSED const sm_plan *plan) {
    sm_status status = sm_record_writer_close(writer->records, SM_OK); // also ends incomplete output
    fputs(writer->is_object ? "}\n" : "", stdout);
    return status;
}

cli_walk_writer cli_walk_record_writer(void) {
    return (cli_walk_writer){.begin = begin_records, .op = write_op, .end = end_records};
}
