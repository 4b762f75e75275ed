// cli_estimate.c: what a step costs, before anything runs. FLOPs and bytes are those of the
// plan's ops, memory is what the planner assigned, so that estimate and truth cannot differ.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli_commands.h"
#include "cli_model.h"
#include "cli_precision.h"
#include "cli_session.h"
#include "show.h"

enum { MAX_BATCH_SEARCHED = 65536 };

// One configuration.
typedef struct {
    const char *model;
    sm_gpt2_config config;
    int64_t B;
    int64_t T;
    sm_mode mode;
    unsigned without;
    cli_precision precision;
    double dropout;
} estimate;

typedef struct {
    double flops[SM_PHASE_COUNT];
    double bytes[SM_PHASE_COUNT];
    size_t memory_bytes[SM_ROLE_COUNT];
    size_t total_bytes;
    int64_t n_params;
} cost;

// --- columns -------------------------------------------------------------------------------

static void show_state(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    (void)column;
    double bytes = sm_json_number(record, "memory.parameters_bytes") +
                   sm_json_number(record, "memory.gradients_bytes") + sm_json_number(record, "memory.optimizer_bytes");
    sm_text_bytes(bytes, text, size_bytes);
}

#define INTEGER(field, unit_name, text, head, ...) \
    { .name = field, .type = SM_COLUMN_INTEGER, .unit = unit_name, .description = text, .heading = head, __VA_ARGS__ }
#define WORK(field, text, head)                                                                      \
    {                                                                                                \
        .name = field, .type = SM_COLUMN_REAL, .unit = "FLOP", .description = text, .heading = head, \
        .show = sm_show_scaled                                                                       \
    }
#define BYTES(field, text, head) INTEGER(field, "bytes", text, head, .show = sm_show_bytes)

static const sm_column columns[] = {
    {.name = "model_type", .type = SM_COLUMN_TEXT, .unit = "", .description = "size of GPT-2", .heading = "model"},
    INTEGER("model_n_params", "", "parameters, padding excluded", "parameters", .show = sm_show_count),
    INTEGER("n_batch", "", "B, sequences", "B", .view = SM_SHOWN),
    INTEGER("n_seq", "", "T, tokens a sequence", "T", .view = SM_SHOWN),
    {.name = "mode",
     .type = SM_COLUMN_TEXT,
     .unit = "",
     .description = "naive or fused",
     .heading = "mode",
     .view = SM_SHOWN_WHEN_VARIED},
    {.name = "precision",
     .type = SM_COLUMN_TEXT,
     .unit = "",
     .description = "fp32 or bf16",
     .heading = "precision",
     .view = SM_SHOWN_WHEN_VARIED},
    INTEGER("vocab", "", "V, vocabulary", NULL, .view = SM_SHOWN),
    INTEGER("n_ctx", "", "positions that the model knows", NULL, .view = SM_SHOWN),
    INTEGER("n_layer", "", "L, blocks", NULL, .view = SM_SHOWN),
    INTEGER("n_head", "", "NH, attention heads", NULL, .view = SM_SHOWN),
    INTEGER("d_model", "", "C, width of the residual stream", NULL, .view = SM_SHOWN),
    INTEGER("d_ff", "", "F, width inside the MLP", NULL, .view = SM_SHOWN),
    WORK("flops.forward", "work of the forward pass", "forward"),
    WORK("flops.backward", "work of the backward pass", "backward"),
    WORK("flops.optimizer", "work of clipping and AdamW", "optimizer"),
    WORK("flops.step", "work of the step", NULL),
    BYTES("traffic.zero_grad_bytes", "traffic of an ideal machine", NULL),
    BYTES("traffic.forward_bytes", "traffic of an ideal machine", NULL),
    BYTES("traffic.backward_bytes", "traffic of an ideal machine", NULL),
    BYTES("traffic.optimizer_bytes", "traffic of an ideal machine", NULL),
    BYTES("traffic.step_bytes", "traffic of an ideal machine", NULL),
    INTEGER("memory.parameters_bytes", "bytes", "weights, padding included; in bf16 also their bf16 copies",
            "weights + grads + AdamW", .show = show_state),
    BYTES("memory.gradients_bytes", "gradients of the parameters", NULL),
    BYTES("memory.optimizer_bytes", "AdamW's m and v", NULL),
    BYTES("memory.activations_bytes", "activations, packed by lifetime", "activations"),
    BYTES("memory.scratch_bytes", "short-lived buffers", "scratch"),
    BYTES("memory.batch_bytes", "tokens, targets, settings", NULL),
    BYTES("memory.results_bytes", "losses", NULL),
    BYTES("memory.peak_bytes", "all of it, at once", "peak"),
    {.name = "device",
     .type = SM_COLUMN_TEXT,
     .unit = "",
     .description = "what `fits` refers to",
     .heading = "device",
     .view = SM_SHOWN_WHEN_VARIED},
    INTEGER("device_free_bytes", "bytes", "memory available there now", "available", .view = SM_SHOWN_WHEN_VARIED,
            .show = sm_show_bytes),
    {.name = "fits",
     .type = SM_COLUMN_BOOLEAN,
     .unit = "",
     .description = "the peak is within what is available",
     .heading = "fits",
     .show = sm_show_yes_no},
    INTEGER("max_batch", "", "largest B that fits; 0: none; searched up to 65536", "largest B", .show = sm_show_count),
};

static const sm_table table = {"estimates", columns, (int)(sizeof(columns) / sizeof(columns[0]))};

// --- counting ------------------------------------------------------------------------------

static sm_status count(const estimate *e, int64_t B, size_t max_arena_bytes, cost *total) {
    sm_status status = SM_OK;
    sm_plan *plan = NULL;
    sm_dtype dtype;
    SM_TRY(cli_precision_dtype(e->precision, &dtype));
    const sm_gpt2_options options = {
        .B = B,
        .T = e->T,
        .dtype = dtype,
        .dropout_p = e->dropout,
        .backward = true,
        .optimizer = true,
        .max_tensor_bytes = max_arena_bytes,
    };
    *total = (cost){.n_params = 0};
    SM_TRY_GOTO(cli_build_plan(&e->config, &options, e->mode, e->without, &plan));
    SM_TRY_GOTO(sm_plan_assign_memory(plan, max_arena_bytes));
    total->n_params = plan->n_params;
    total->total_bytes = sm_plan_memory(plan, total->memory_bytes);
    for (int i = 0; i < plan->n_ops; i++) {
        total->flops[plan->ops[i].phase] += sm_op_flops(plan, &plan->ops[i]);
        total->bytes[plan->ops[i].phase] += sm_op_bytes(plan, &plan->ops[i]);
    }
cleanup:
    sm_plan_free(plan);
    return status;
}

// Does a batch of B fit? What cannot even be described does not.
static bool fits(const estimate *e, int64_t B, const sm_device_info *info, size_t *total_bytes) {
    cost c;
    if (count(e, B, info->max_alloc_bytes, &c) != SM_OK) {
        return false;
    }
    *total_bytes = c.total_bytes;
    return c.total_bytes <= info->free_bytes;
}

// Memory is almost linear in B: B = 1 and B = 2 foretell the answer, and a search around it
// that widens, then halves, makes it exact.
static int64_t largest_batch(const estimate *e, const sm_device_info *info) {
    size_t one = 0;
    size_t two = 0;
    size_t ignored = 0;
    if (!fits(e, 1, info, &one)) {
        return 0;
    }
    if (!fits(e, 2, info, &two)) {
        return 1;
    }
    int64_t lowest = 2;                       // fits
    int64_t highest = MAX_BATCH_SEARCHED + 1; // taken not to fit
    double per_sequence = two > one ? (double)(two - one) : 1;
    double guess = 1 + floor((double)(info->free_bytes - one) / per_sequence);
    int64_t probe = guess < 3 ? 3 : guess < MAX_BATCH_SEARCHED ? (int64_t)guess : MAX_BATCH_SEARCHED;
    for (int64_t step = 1; highest - lowest > 1; step *= 2) {
        if (fits(e, probe, info, &ignored)) {
            lowest = probe;
            probe = probe + step < highest ? probe + step : lowest + (highest - lowest) / 2;
        } else {
            highest = probe;
            probe = probe - step > lowest ? probe - step : lowest + (highest - lowest) / 2;
        }
    }
    return lowest;
}

// --- output --------------------------------------------------------------------------------

static void set(json_t *record, const char *group, const char *name, const char *suffix, json_t *value) {
    char field[SM_TEXT_SIZE];
    snprintf(field, sizeof(field), "%s.%s%s", group, name, suffix);
    sm_json_set_new(record, field, value);
}

static void set_costs(json_t *record, const cost *c) {
    double flops = 0;
    double bytes = 0;
    for (int phase = 0; phase < SM_PHASE_COUNT; phase++) {
        flops += c->flops[phase];
        bytes += c->bytes[phase];
        if (phase != SM_PHASE_ZERO_GRAD) { // it has none
            set(record, "flops", sm_phase_name((sm_phase)phase), "", sm_json_real(c->flops[phase]));
        }
        set(record, "traffic", sm_phase_name((sm_phase)phase), "_bytes", sm_json_integer((int64_t)c->bytes[phase]));
    }
    set(record, "flops", "step", "", sm_json_real(flops));
    set(record, "traffic", "step", "_bytes", sm_json_integer((int64_t)bytes));
    for (int role = 0; role < SM_ROLE_COUNT; role++) {
        set(record, "memory", sm_role_name((sm_role)role), "_bytes", sm_json_integer((int64_t)c->memory_bytes[role]));
    }
    set(record, "memory", "peak", "_bytes", sm_json_integer((int64_t)c->total_bytes));
}

static json_t *make_record(const estimate *e, const cost *c, const sm_device_info *info) {
    const sm_gpt2_config *config = &e->config;
    json_t *record = json_object();
    const struct {
        const char *name;
        int64_t value;
    } integers[] = {
        {"model_n_params", c->n_params},
        {"n_batch", e->B},
        {"n_seq", e->T},
        {"vocab", config->vocab},
        {"n_ctx", config->context},
        {"n_layer", config->n_layer},
        {"n_head", config->n_head},
        {"d_model", config->d_model},
        {"d_ff", config->d_ff},
        {"max_batch", info->free_bytes > 0 ? largest_batch(e, info) : SM_ABSENT},
        {"device_free_bytes", info->free_bytes > 0 ? (int64_t)info->free_bytes : SM_ABSENT},
    };
    sm_json_set_new(record, "model_type", sm_json_text(e->model));
    for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++) {
        sm_json_set_new(record, integers[i].name, sm_json_integer(integers[i].value));
    }
    sm_json_set_new(record, "mode", sm_json_text(sm_mode_name(e->mode)));
    sm_json_set_new(record, "precision", sm_json_text(cli_precision_name(e->precision)));
    sm_json_set_new(record, "device", sm_json_text(info->id));
    set_costs(record, c);
    sm_json_set_new(record, "fits",
                    info->free_bytes > 0 ? json_boolean(c->total_bytes <= info->free_bytes) : json_null());
    return record;
}

// A single configuration has room for everything: a line a field.
static void print_fields(const json_t *record) {
    for (int i = 0; i < table.n_columns; i++) {
        const sm_column *column = &columns[i];
        char text[SM_CELL_SIZE];
        bool is_bytes = strcmp(column->unit, "bytes") == 0;
        sm_show show = is_bytes ? sm_show_bytes : column->show != NULL ? column->show : sm_show_by_type(column->type);
        show(record, column, text, sizeof(text));
        printf("%-26s %14s   %s\n", column->name, text[0] != '\0' ? text : "-", column->description);
    }
}

// `writer` NULL: prints fields.
static sm_status estimate_one(const estimate *e, const sm_device_info *info, sm_record_writer *writer) {
    cost c;
    if (cli_interrupted) {
        return SM_ERR_INTERRUPTED;
    }
    SM_TRY(count(e, e->B, info->max_alloc_bytes, &c));
    json_t *record = make_record(e, &c, info);
    if (writer != NULL) {
        return sm_record_write(writer, record);
    }
    print_fields(record);
    json_decref(record);
    return SM_OK;
}

static bool is_single(const cli_options *options) {
    return options->models.n == 1 && options->batch_sizes.n == 1 && options->seq_lens.n <= 1 && options->modes.n == 1 &&
           options->precisions.n == 1;
}

static sm_status estimate_all(const cli_options *options, const sm_device_info *info, sm_record_writer *writer) {
    for (int m = 0; m < options->models.n; m++) {
        estimate e = {.model = options->models.texts[m], .without = options->without_bits, .dropout = options->dropout};
        SM_TRY(cli_model_config(options, e.model, &e.config));
        int n_seq_lens = options->seq_lens.n > 0 ? options->seq_lens.n : 1;
        const int n_modes = options->modes.n * options->precisions.n;
        for (int i = 0; i < n_seq_lens * options->batch_sizes.n * n_modes; i++) {
            int t = i / (options->batch_sizes.n * n_modes);
            e.T = options->seq_lens.n > 0 ? options->seq_lens.values[t] : e.config.context;
            e.B = options->batch_sizes.values[i / n_modes % options->batch_sizes.n];
            e.mode = (sm_mode)options->modes.values[i / options->precisions.n % options->modes.n];
            e.precision = (cli_precision)options->precisions.values[i % options->precisions.n];
            SM_TRY(cli_check_seq_len(&e.config, e.T));
            SM_TRY(estimate_one(&e, info, writer));
        }
    }
    return SM_OK;
}

sm_status cli_estimate(const cli_options *options) {
    cli_device_list devices;
    sm_device_info info;
    sm_record_writer *writer = NULL;
    SM_TRY(cli_select_devices(&options->backends, &devices));
    if (devices.n > 1) {
        return sm_fail(SM_ERR_USAGE, "--backend: names %d devices; name one by its id (see `stepmark devices`)",
                       devices.n);
    }
    SM_TRY(devices.devices[0].backend->describe(devices.devices[0].index, &info));
    if (options->output != SM_FORMAT_MARKDOWN || !is_single(options)) {
        SM_TRY(sm_record_writer_open(&table, (sm_format)options->output, stdout, &writer));
    }
    sm_status status = estimate_all(options, &info, writer);
    sm_status closed = sm_record_writer_close(writer);
    return status != SM_OK ? status : closed;
}
