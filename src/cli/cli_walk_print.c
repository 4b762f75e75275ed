// cli_walk_print.c: one op of a walk, as text or as a record. All facts come from the table of op
// kinds and from the plan.
#include "cli_walk_print.h"

#include <stdio.h>

#include "show.h"

enum { TEXT_SIZE = 160 };

static const char *mode_name(const sm_op *op, int output) {
    switch (op->attr.overwrites ? SM_WRITES : sm_op_get_info(op->kind)->out[output].mode) {
    case SM_WRITES: return "writes";
    case SM_ADDS: return "adds to";
    case SM_UPDATES: return "updates";
    }
    return "";
}

// --- text ----------------------------------------------------------------------------------

static const char *dims_text(const sm_tensor *t, char text[TEXT_SIZE]) {
    int used = snprintf(text, TEXT_SIZE, "(");
    for (int i = 0; i < t->n_dims; i++) {
        used += snprintf(text + used, (size_t)(TEXT_SIZE - used), "%s%lld", i > 0 ? "," : "", (long long)t->dims[i]);
    }
    snprintf(text + used, (size_t)(TEXT_SIZE - used), ")");
    return text;
}

static void print_operand(const sm_plan *plan, const char *verb, const sm_operand_info *operand, int tensor) {
    const sm_tensor *t = &plan->tensors[tensor];
    char dims[TEXT_SIZE];
    printf("       %-8s %-7s %-11s %-30s %-16s %s\n", verb, operand->name, operand->shape, t->name, dims_text(t, dims),
           sm_role_name(t->role));
}

static void print_summary(const cli_walk_summary *summary) {
    printf("       %-8s %-7s %-11s norm %-12.6g [", "", "", "", summary->norm);
    for (int i = 0; i < summary->n_first; i++) {
        printf("%s%.6g", i > 0 ? ", " : "", summary->first[i]);
    }
    printf("%s]\n", summary->n_elems > summary->n_first ? ", ..." : "");
}

static void print_attributes(const sm_op *op) {
    const sm_attrs *a = &op->attr;
    const char *before = "       with     ";
#define PRINT(condition, ...)  \
    if (condition) {           \
        fputs(before, stdout); \
        printf(__VA_ARGS__);   \
        before = "; ";         \
    }
    PRINT(a->n_head > 0, "NH = %d", a->n_head)
    PRINT(a->n_kv_head > 0 && a->n_kv_head != a->n_head, "NKV = %d", a->n_kv_head)
    PRINT(a->rope_theta > 0, "theta = %g", a->rope_theta)
    PRINT(a->inverse, "angles of the other sign")
    PRINT(a->vocab > 0, "V = %lld (the columns behind it are padding)", (long long)a->vocab)
    PRINT(a->w_transposed, "W stored as (F,C) and used transposed")
    PRINT(a->epilogue & SM_EPILOGUE_BIAS, "then y += b")
    PRINT(a->epilogue & SM_EPILOGUE_GELU, "then act = gelu(y)")
    PRINT(a->epilogue & SM_EPILOGUE_GELU_BACKWARD, "then dx *= gelu'(pre)")
    PRINT(a->overwrites, "dW = x^T dy: the first to write it")
    PRINT(a->recomputed, "computed again, not kept from forward")
    PRINT(a->eps > 0, "eps = %g", a->eps)
    PRINT(a->dropout_p > 0, "p = %g", a->dropout_p)
    PRINT(op->kind == SM_OP_ADAMW, "%s", a->decay ? "weight decay" : "no weight decay")
#undef PRINT
    if (before[0] == ';') {
        putchar('\n');
    }
}

void cli_walk_print_op(const sm_plan *plan, int index, const cli_walk_op_values *values) {
    const sm_op *op = &plan->ops[index];
    const sm_op_info *info = sm_op_get_info(op->kind);
    char flops[TEXT_SIZE];
    char bytes[TEXT_SIZE];
    sm_text_scaled(sm_op_flops(plan, op), "FLOP", flops, sizeof(flops));
    sm_text_bytes(sm_op_bytes(plan, op), bytes, sizeof(bytes));
    printf("%5d  %s   %s, %s\n       %s\n", index, info->name, flops, bytes, info->equation);
    print_attributes(op);
    for (int i = 0; i < SM_MAX_IN && info->in[i].name != NULL; i++) {
        if (op->in[i] != SM_NO_TENSOR) {
            print_operand(plan, "reads", &info->in[i], op->in[i]);
        }
    }
    for (int i = 0; i < SM_MAX_OUT && info->out[i].name != NULL; i++) {
        if (op->out[i] == SM_NO_TENSOR) {
            continue;
        }
        print_operand(plan, mode_name(op, i), &info->out[i], op->out[i]);
        if (values->has) {
            print_summary(&values->outputs[i]);
        }
    }
    putchar('\n');
}

// --- record --------------------------------------------------------------------------------

static const sm_column columns[] = {
    {.name = "index", .type = SM_COLUMN_INTEGER, .unit = "", .description = "place in the order of execution"},
    {.name = "range", .type = SM_COLUMN_TEXT, .unit = "", .description = "part of the program that it is executed in"},
    {.name = "phase",
     .type = SM_COLUMN_TEXT,
     .unit = "",
     .description = "part of the step that its cost is counted under"},
    {.name = "layer", .type = SM_COLUMN_INTEGER, .unit = "", .description = "block, or -1 outside the blocks"},
    {.name = "kind", .type = SM_COLUMN_TEXT, .unit = "", .description = "kind of op"},
    {.name = "equation", .type = SM_COLUMN_TEXT, .unit = "", .description = "what it computes"},
    {.name = "source", .type = SM_COLUMN_TEXT, .unit = "", .description = "where the definition comes from"},
    {.name = "flops", .type = SM_COLUMN_REAL, .unit = "FLOP", .description = "work"},
    {.name = "bytes", .type = SM_COLUMN_REAL, .unit = "bytes", .description = "traffic of an ideal machine"},
    {.name = "operands",
     .type = SM_COLUMN_JSON,
     .unit = "",
     .description = "tensors read and written, with values where asked for"},
};

const sm_table cli_walk_table = {"ops", columns, (int)(sizeof(columns) / sizeof(columns[0]))};

static json_t *operand_json(const sm_plan *plan, const char *verb, const sm_operand_info *operand, int tensor) {
    const sm_tensor *t = &plan->tensors[tensor];
    json_t *dims = json_array();
    for (int i = 0; i < t->n_dims; i++) {
        json_array_append_new(dims, json_integer(t->dims[i]));
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:s, s:s}", "operand", operand->name, "access", verb, "shape",
                     operand->shape, "tensor", t->name, "dims", dims, "dtype", sm_dtype_name(t->dtype), "role",
                     sm_role_name(t->role));
}

static void add_summary(json_t *operand, const cli_walk_summary *summary) {
    json_t *first = json_array();
    for (int i = 0; i < summary->n_first; i++) {
        json_array_append_new(first, sm_json_real(summary->first[i]));
    }
    json_object_set_new(operand, "first", first);
    json_object_set_new(operand, "norm", sm_json_real(summary->norm));
}

json_t *cli_walk_op_record(const sm_plan *plan, int index, const cli_walk_op_values *values) {
    const sm_op *op = &plan->ops[index];
    const sm_op_info *info = sm_op_get_info(op->kind);
    json_t *operands = json_array();
    for (int i = 0; i < SM_MAX_IN && info->in[i].name != NULL; i++) {
        if (op->in[i] != SM_NO_TENSOR) {
            json_array_append_new(operands, operand_json(plan, "reads", &info->in[i], op->in[i]));
        }
    }
    for (int i = 0; i < SM_MAX_OUT && info->out[i].name != NULL; i++) {
        if (op->out[i] == SM_NO_TENSOR) {
            continue;
        }
        json_t *operand = operand_json(plan, mode_name(op, i), &info->out[i], op->out[i]);
        if (values->has) {
            add_summary(operand, &values->outputs[i]);
        }
        json_array_append_new(operands, operand);
    }
    return json_pack("{s:i, s:s, s:s, s:i, s:s, s:s, s:s, s:f, s:f, s:o}", "index", index, "range",
                     sm_phase_name(op->range), "phase", sm_phase_name(op->phase), "layer", op->layer, "kind",
                     info->name, "equation", info->equation, "source", info->source, "flops", sm_op_flops(plan, op),
                     "bytes", sm_op_bytes(plan, op), "operands", operands);
}
