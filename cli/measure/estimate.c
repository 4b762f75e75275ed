// estimate.c: the cost of a step, without running it. FLOPs and bytes come from the plan's ops, memory from the
// planner, so estimate and execution cannot differ.
#include <stdio.h>
#include <string.h>

#include "bench/rows/machine.h"
#include "bench/tables/show.h"
#include "cli/flags/configure.h"
#include "cli/flags/options.h"
#include "cli/measure/measure.h"
#include "cli/output/notes.h"
#include "cli/setup/processes.h"

typedef struct {
    const cli_options *options;
    sm_device_info info;
    sm_device *device;        // NULL if it cannot be opened: the kernels' own memory is then unknown
    sm_record_writer *writer; // NULL: prints fields
} estimator;

static cli_target target_of(const estimator *e) { return (cli_target){e->info.max_alloc_bytes, e->device}; }

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
    SM_SHARED_COLUMN("model_arch", "architecture of the model", "architecture"),
    SM_TEXT("model_type", "size of the model", .heading = "model", .rank = SM_RANK_ALWAYS),
    INTEGER("model_n_params", "", "parameters, padding excluded", "parameters", .show = sm_show_count, .rank = 5),
    INTEGER("n_batch", "", "B, sequences", "B", .rank = SM_RANK_ALWAYS),
    INTEGER("n_seq", "", "T, tokens a sequence", "T", .rank = SM_RANK_ALWAYS),
    SM_SHARED_COLUMN("mode", "naive or fused", "mode"),
    SM_SHARED_COLUMN("recompute", "recomputation in the backward: none, light or block", "recompute"),
    SM_SHARED_COLUMN("attention", "attention weights kept for the backward: naive or flash", "attention"),
    SM_SHARED_COLUMN("precision", "fp32, tf32, tf32x3, bf16x6, bf16 or fp16", "precision"),
    SM_SHARED_COLUMN("optimizer", "rule that updates the weights", "optimizer"),
#define COLUMN_SIZE(column, meaning)   INTEGER(column, "", meaning, NULL, .view = SM_SHOWN),
#define COLUMN_OPTIONAL                COLUMN_SIZE
#define COLUMN_WORD(column, meaning)   SM_TEXT(column, meaning),
#define COLUMN_SWITCH(column, meaning) SM_BOOLEAN(column, meaning),
#define COLUMN_REAL(column, meaning)
#define X(type, member, column, view, title, meaning, ...) COLUMN_##type(#column, meaning)
    SM_MODEL_FIELDS(X, X)
#undef X
        INTEGER("n_processes", "", "processes that share the work, each with B sequences", "processes",
                .view = SM_SHOWN_WHEN_VARIED),
    SM_SHARED_COLUMN("shard", "state that the processes share: none or optimizer", "shard"),
    WORK("flops.forward", "work of the forward pass", "forward"),
    WORK("flops.backward", "work of the backward pass", "backward"),
    WORK("flops.optimizer", "work of clipping and of the update", "optimizer"),
    WORK("flops.scaler", "work of changing the loss scale", NULL),
    WORK("flops.step", "work of the step", NULL),
    BYTES("traffic.zero_grad_bytes", "traffic of an ideal machine", NULL),
    BYTES("traffic.forward_bytes", "traffic of an ideal machine", NULL),
    BYTES("traffic.backward_bytes", "traffic of an ideal machine", NULL),
    BYTES("traffic.optimizer_bytes", "traffic of an ideal machine", NULL),
    BYTES("traffic.scaler_bytes", "traffic of an ideal machine", NULL),
    BYTES("traffic.communication_bytes", "sent to and received from other processes", NULL),
    BYTES("traffic.step_bytes", "traffic of an ideal machine", NULL),
    INTEGER("memory.parameters_bytes", "bytes",
            "weights, padding included; in bf16 and fp16 also the copies that are multiplied",
            "weights + grads + state", .show = show_state, .rank = 6),
    BYTES("memory.gradients_bytes", "gradients of the parameters", NULL),
    BYTES("memory.optimizer_bytes", "the optimizer's state, as AdamW's m and v", NULL),
    INTEGER("memory.activations_bytes", "bytes", "activations, packed by lifetime", "activations",
            .show = sm_show_bytes, .rank = 7),
    BYTES("memory.scratch_bytes", "short-lived buffers", "scratch"),
    BYTES("memory.batch_bytes", "tokens, targets, settings", NULL),
    BYTES("memory.results_bytes", "losses", NULL),
    BYTES("memory.working_bytes", "the kernels' own: scratch, packed operands", NULL),
    INTEGER("memory.peak_bytes", "bytes", "all of it, at once", "peak", .show = sm_show_bytes, .rank = SM_RANK_ALWAYS),
    BYTES("memory.process_bytes", "plus the rest of the program, where the device computes in its memory", NULL),
    SM_SHARED_COLUMN("device", "memory that `fits` refers to", "device"),
    INTEGER("device_free_bytes", "bytes", "memory available there now", "available", .view = SM_SHOWN_WHEN_VARIED,
            .show = sm_show_bytes),
    SM_BOOLEAN("fits", "the peak is within the available memory", .heading = "fits", .rank = SM_RANK_ALWAYS,
               .show = sm_show_yes_no),
    INTEGER("max_batch", "", "largest B that fits; 0: none; searched up to 65536", "largest B", .show = sm_show_count,
            .rank = 8),
};

const sm_table cli_estimate_table = {"estimates", columns, (int)(sizeof(columns) / sizeof(columns[0]))};

// --- output --------------------------------------------------------------------------------

static void set(json_t *record, const char *group, const char *name, const char *suffix, json_t *value) {
    char field[SM_TEXT_SIZE];
    snprintf(field, sizeof(field), "%s.%s%s", group, name, suffix);
    sm_json_set_new(record, field, value);
}

// The same program will run: libraries and drivers will take what they take now.
static int64_t process_bytes(const cli_forecast *f, const sm_device_info *info) {
    int64_t own_bytes = sm_machine_rss_bytes();
    return info->free_bytes > 0 && own_bytes != SM_ABSENT ? own_bytes + f->memory_bytes : SM_ABSENT;
}

static void set_costs(json_t *record, const cli_forecast *f, const sm_device_info *info) {
    double flops = 0;
    double bytes = 0;
    for (int phase = 0; phase < SM_PHASE_COUNT; phase++) {
        flops += f->phase_flops[phase];
        bytes += f->phase_bytes[phase];
        if (phase != SM_PHASE_ZERO_GRAD && phase != SM_PHASE_COMMUNICATION) { // these have none
            set(record, "flops", sm_phase_name((sm_phase)phase), "", sm_json_real(f->phase_flops[phase]));
        }
        set(record, "traffic", sm_phase_name((sm_phase)phase), "_bytes",
            sm_json_integer((int64_t)f->phase_bytes[phase]));
    }
    set(record, "flops", "step", "", sm_json_real(flops));
    set(record, "traffic", "step", "_bytes", sm_json_integer((int64_t)bytes));
    for (int role = 0; role < SM_ROLE_COUNT; role++) {
        set(record, "memory", sm_role_name((sm_role)role), "_bytes", sm_json_integer((int64_t)f->role_bytes[role]));
    }
    set(record, "memory", "working", "_bytes", sm_json_integer((int64_t)f->working_bytes));
    set(record, "memory", "peak", "_bytes", sm_json_integer(f->memory_bytes));
    set(record, "memory", "process", "_bytes", sm_json_integer(process_bytes(f, info)));
}

static json_t *make_record(const estimator *e, const cli_job *job, const cli_forecast *f) {
    const sm_model_config *config = &job->config;
    const int64_t free_bytes = (int64_t)e->info.free_bytes;
    json_t *record = json_object();
    const struct {
        const char *name;
        int64_t value;
    } integers[] = {
        {"model_n_params", f->n_params},
        {"n_batch", job->B},
        {"n_seq", job->T},
        {"n_processes", e->options->processes.n_processes},
        {"max_batch", free_bytes > 0 ? cli_largest_batch(e->options, job, target_of(e), free_bytes) : SM_ABSENT},
        {"device_free_bytes", free_bytes > 0 ? free_bytes : SM_ABSENT},
    };
    sm_json_set_new(record, "model_arch", sm_json_text(config->model->name));
    sm_json_set_new(record, "optimizer", sm_json_text(sm_optimizer_at(e->options->work.optimizer)->name));
    sm_json_set_new(record, "model_type", sm_json_text(job->model));
    for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++) {
        sm_json_set_new(record, integers[i].name, sm_json_integer(integers[i].value));
    }
    (void)sm_model_fields_to_json(config, record);
    sm_json_set_new(record, "mode", sm_json_text(sm_mode_name(job->mode)));
    sm_json_set_new(record, "recompute", sm_json_text(sm_recompute_name(cli_recompute(e->options))));
    sm_json_set_new(record, "attention", sm_json_text(sm_attention_name(cli_attention(e->options, job->mode))));
    sm_json_set_new(record, "precision", sm_json_text(cli_precision_name(job->precision)));
    sm_json_set_new(record, "shard", sm_json_text(e->options->processes.shard != 0 ? "optimizer" : "none"));
    sm_json_set_new(record, "device", sm_json_text(e->info.id));
    set_costs(record, f, &e->info);
    sm_json_set_new(record, "fits", free_bytes > 0 ? json_boolean(f->memory_bytes <= free_bytes) : json_null());
    return record;
}

// For a single configuration: one line for each field.
static void print_fields(const json_t *record) {
    for (int i = 0; i < cli_estimate_table.n_columns; i++) {
        const sm_column *column = &columns[i];
        char text[SM_CELL_SIZE];
        bool is_bytes = strcmp(column->unit, "bytes") == 0;
        sm_show show = is_bytes ? sm_show_bytes : column->show != NULL ? column->show : sm_show_by_type(column->type);
        show(record, column, text, sizeof(text));
        printf("%-27s %14s   %s\n", column->name, text[0] != '\0' ? text : "-", column->description);
    }
}

// For new users.
static const sm_legend_line legend[] = {
    {"flops.forward", "forward, backward, optimizer: FLOPs of a step of B sequences of T tokens."},
    {"memory.parameters_bytes", "weights + grads + state: of the optimizer; independent of B and T."},
    {"memory.activations_bytes", "activations: packed by lifetime."},
    {"memory.scratch_bytes", "scratch: short-lived buffers."},
    {"memory.peak_bytes",
     "peak: all of these, the batch, and the kernels' own memory; so a little more than their sum."},
    {"fits", "fits, largest B: in the memory available now on that device."},
    {NULL, NULL},
};

static sm_status estimate_one(const estimator *e, const cli_job *job) {
    cli_forecast f;
    if (cli_interrupted) {
        return SM_ERR_INTERRUPTED;
    }
    SM_TRY(cli_forecast_job(e->options, job, target_of(e), &f));
    json_t *record = make_record(e, job, &f);
    if (e->writer != NULL) {
        return sm_record_write(e->writer, record);
    }
    print_fields(record);
    json_decref(record);
    return SM_OK;
}

static bool is_single(const cli_options *options) {
    return options->model.models.n == 1 && options->work.batch_sizes.n == 1 && options->work.seq_lens.n <= 1 &&
           options->device.modes.n == 1 && options->device.precisions.n == 1;
}

static sm_status estimate_all(const estimator *e) {
    const cli_options *o = e->options;
    for (int m = 0; m < o->model.models.n; m++) {
        cli_job job = {
            .model = o->model.models.texts[m], .pass = SM_PASS_STEP, .processes = cli_plan_processes(o, NULL)};
        SM_TRY(cli_model_config(o, job.model, &job.config));
        int n_seq_lens = o->work.seq_lens.n > 0 ? o->work.seq_lens.n : 1;
        const int n_modes = o->device.modes.n * o->device.precisions.n;
        for (int i = 0; i < n_seq_lens * o->work.batch_sizes.n * n_modes; i++) {
            int t = i / (o->work.batch_sizes.n * n_modes);
            job.T = o->work.seq_lens.n > 0 ? o->work.seq_lens.values[t] : job.config.context;
            job.B = o->work.batch_sizes.values[i / n_modes % o->work.batch_sizes.n];
            job.mode = (sm_mode)o->device.modes.values[i / o->device.precisions.n % o->device.modes.n];
            job.precision = (cli_precision)o->device.precisions.values[i % o->device.precisions.n];
            SM_TRY(cli_check_seq_len(&job.config, job.T));
            SM_TRY(estimate_one(e, &job));
        }
    }
    return SM_OK;
}

sm_status cli_estimate(const cli_options *options) {
    cli_device_list devices;
    estimator e = {.options = options};
    sm_status status = SM_OK;
    SM_TRY(cli_select_devices(&options->device.backends, &devices));
    if (devices.n > 1) {
        return sm_fail(SM_ERR_USAGE, "--backend: names %d devices; name one by its id (see `stepmark devices`)",
                       devices.n);
    }
    SM_TRY(devices.devices[0].backend->describe(devices.devices[0].index, &e.info));
    if (e.info.available) {
        SM_TRY(cli_open_device(devices.devices[0], 0, options, &e.device));
    }
    if (!sm_format_is_read((sm_format)options->out.format) || !is_single(options)) {
        SM_TRY_GOTO(sm_record_writer_open(&cli_estimate_table, (sm_format)options->out.format, stdout, &e.writer));
    }
    status = estimate_all(&e);
    if (status == SM_OK && e.writer != NULL) {
        sm_record_writer_explain(e.writer, legend);
    }
    sm_status closed = sm_record_writer_close(e.writer);
    status = status != SM_OK ? status : closed;
cleanup:
    if (e.device != NULL) {
        e.device->backend->close(e.device);
    }
    return status;
}
