// estimate.c: what a step costs, without running it: FLOPs and bytes by its plan's ops, memory by the planner.
#include "bench/rows/machine.h"
#include "cli/measure/measure.h"

typedef struct {
    const cli_options *options;
    sm_device_info info;
    sm_device *device;        // NULL if it cannot be opened: the kernels' own memory is then unknown
    sm_record_writer *writer; // NULL: prints fields
} estimator;

static cli_target target_of(const estimator *e) { return (cli_target){e->info.max_alloc_bytes, e->device}; }

static void show_state(const json_t *record, SM_UNUSED const sm_column *column, char *text, size_t size_bytes) {
    double bytes = sm_json_number(record, "memory.parameters_bytes") +
                   sm_json_number(record, "memory.gradients_bytes") + sm_json_number(record, "memory.optimizer_bytes");
    sm_text_bytes(bytes, text, size_bytes);
}

#define INTEGER(field, unit_name, text, head, ...) SM_INTEGER(field, unit_name, text, .heading = head, __VA_ARGS__)
#define WORK(field, text, head)                    SM_REAL(field, "FLOP", text, .heading = head, .show = sm_show_scaled)
#define BYTES(field, text, head)                   INTEGER(field, "bytes", text, head, .show = sm_show_bytes)

static const sm_column columns[] = {
    SM_SHARED_COLUMN("model_arch", "architecture of the model", "architecture"),
    SM_TEXT("model_type", "size of the model", .heading = "model", .rank = SM_RANK_ALWAYS),
    INTEGER("model_n_params", "", "parameters, padding excluded", "parameters", .show = sm_show_count, .rank = 5),
    INTEGER("n_batch", "", "B, sequences", "B", .rank = SM_RANK_ALWAYS),
    INTEGER("n_seq", "", "T, tokens a sequence", "T", .rank = SM_RANK_ALWAYS),
    SM_SHARED_COLUMN("mode", "naive or fused", "mode"),
    SM_SHARED_COLUMN("recompute", "recomputation in the backward: none, light or block", "recompute"),
    SM_SHARED_COLUMN("attention", "attention weights kept for the backward: naive or flash", "attention"),
    SM_SHARED_COLUMN("precision", "fp32, tf32, tf32x3, bf16x6, bf16, fp16 or fp8", "precision"),
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
    WORK("flops.scaler", "work of changing the scales of the loss and of fp8", NULL),
    WORK("flops.step", "work of the step", NULL),
#define X(code, name)                                                                    \
    BYTES("traffic." name "_bytes",                                                      \
          (code) == SM_PHASE_COMMUNICATION ? "sent to and received from other processes" \
                                           : "traffic of an ideal machine",              \
          NULL),
    SM_PHASE_LIST(X)
#undef X
        BYTES("traffic.step_bytes", "traffic of an ideal machine", NULL),
    INTEGER("memory.parameters_bytes", "bytes",
            "weights, padding included; in bf16, fp16 and fp8 also the copies that are multiplied",
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

static void set(json_t *record, const char *group, const char *name, const char *suffix, json_t *value) {
    sm_json_set_new(record, SM_TEXT_IN(SM_TEXT_SIZE, "%s.%s%s", group, name, suffix), value);
}

static json_t *make_record(const estimator *e, const cli_job *job, const cli_forecast *f) {
    const cli_options *o = e->options;
    const int64_t free_bytes = (int64_t)e->info.free_bytes;
    const int64_t max_batch = free_bytes > 0 ? cli_largest_batch(job, target_of(e), free_bytes) : SM_ABSENT;
    json_t *record = json_pack(
        "{s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "model_arch",
        job->config.model->name, "optimizer", sm_optimizer_at(o->work.optimizer)->name, "model_type",
        sm_json_text(job->model), "model_n_params", (json_int_t)f->n_params, "n_batch", (json_int_t)job->B, "n_seq",
        (json_int_t)job->T, "n_processes", (json_int_t)o->processes.n_processes, "max_batch",
        sm_json_integer(max_batch), "device_free_bytes", sm_json_integer(free_bytes > 0 ? free_bytes : SM_ABSENT),
        "mode", sm_mode_name(job->mode), "recompute", sm_recompute_name(cli_recompute(job)), "attention",
        sm_attention_name(cli_attention(job)), "precision", cli_precision_name(job->precision), "shard",
        o->processes.shard != 0 ? "optimizer" : "none", "device", e->info.id, "fits",
        free_bytes > 0 ? json_boolean(f->memory_bytes <= free_bytes) : json_null());
    (void)sm_model_fields_to_json(&job->config, record);
    const int64_t own_bytes = sm_machine_rss_bytes(); // libraries and drivers will take what they take now
    const bool is_own = free_bytes > 0 && own_bytes != SM_ABSENT;
    double flops = 0, bytes = 0;
    for (sm_phase phase = 0; phase < SM_PHASE_COUNT; phase++) {
        flops += f->phase_flops[phase];
        bytes += f->phase_bytes[phase];
        if (phase != SM_PHASE_ZERO_GRAD && phase != SM_PHASE_COMMUNICATION) { // these have none
            set(record, "flops", sm_phase_name(phase), "", sm_json_real(f->phase_flops[phase]));
        }
        set(record, "traffic", sm_phase_name(phase), "_bytes", sm_json_integer((int64_t)f->phase_bytes[phase]));
    }
    set(record, "flops", "step", "", sm_json_real(flops));
    set(record, "traffic", "step", "_bytes", sm_json_integer((int64_t)bytes));
    for (sm_role role = 0; role < SM_ROLE_COUNT; role++) {
        set(record, "memory", sm_role_name(role), "_bytes", sm_json_integer((int64_t)f->role_bytes[role]));
    }
    set(record, "memory", "working", "_bytes", sm_json_integer((int64_t)f->working_bytes));
    set(record, "memory", "peak", "_bytes", sm_json_integer(f->memory_bytes));
    set(record, "memory", "process", "_bytes", sm_json_integer(is_own ? own_bytes + f->memory_bytes : SM_ABSENT));
    return record;
}

// Explains the columns to new users.
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
    cli_job drawn = *job;
    SM_TRY(cli_interrupted ? SM_ERR_INTERRUPTED : SM_OK);
    drawn.timeline = e->options->out.timeline; // that of the last one stays
    const sm_status status = cli_forecast_job(&drawn, target_of(e), &f);
    SM_FAIL_IF(status == SM_ERR_UNSUPPORTED && strcmp(e->info.id, "reference") != 0, status,
               "%s; for a device that is not here: --backend reference", sm_error_message());
    SM_TRY(status);
    SM_OWN(json_t) *record = make_record(e, job, &f);
    if (e->writer != NULL) {
        return sm_record_write(e->writer, json_incref(record));
    }
    // For a single configuration: one line for each field.
    for (int i = 0; i < cli_estimate_table.n_columns; i++) {
        const sm_column *column = &columns[i];
        char text[SM_CELL_SIZE] = "";
        bool is_bytes = strcmp(column->unit, "bytes") == 0;
        sm_show show = is_bytes ? sm_show_bytes : column->show != NULL ? column->show : sm_show_by_type(column->type);
        show(record, column, text, sizeof(text));
        printf("%-27s %14s   %s\n", column->name, text[0] != '\0' ? text : "-", column->description);
    }
    return SM_OK;
}

static sm_status estimate_all(const estimator *e) {
    const cli_options *o = e->options;
    const cli_ints *lengths = &o->work.seq_lens;
    const int n_lengths = lengths->n > 0 ? lengths->n : 1;
    const int n_batches = o->work.batch_sizes.n;
    const int n_modes = o->device.modes.n;
    const int n_precisions = o->device.precisions.n;
    for (int m = 0; m < o->model.models.n; m++) {
        cli_job job;
        SM_TRY(cli_job_of(o, NULL, &job));
        job.model = o->model.models.texts[m];
        SM_TRY(cli_model_config(o, job.model, &job.config));
        for (int i = 0; i < n_lengths * n_batches * n_modes * n_precisions; i++) { // the last list varies fastest
            job.precision = (cli_precision)o->device.precisions.values[i % n_precisions];
            job.mode = (sm_mode)o->device.modes.values[i / n_precisions % n_modes];
            job.B = o->work.batch_sizes.values[i / (n_modes * n_precisions) % n_batches];
            job.T = lengths->n > 0 ? lengths->values[i / (n_batches * n_modes * n_precisions)] : job.config.context;
            SM_TRY(cli_check_seq_len(&job.config, job.T));
            SM_TRY(estimate_one(e, &job));
        }
    }
    return SM_OK;
}

sm_status cli_estimate(const cli_options *options) {
    cli_device_list devices;
    cli_device device;
    SM_OWN(sm_device) *opened = NULL;
    estimator e = {.options = options};
    SM_TRY(cli_select_devices(&options->device.backends, &devices));
    SM_TRY(cli_choose_device(NULL, &devices, &device));
    SM_TRY(device.backend->describe(device.index, &e.info));
    SM_TRY(e.info.available ? cli_open_device(device, 0, options, &opened) : SM_OK);
    e.device = opened;
    const bool is_single = options->model.models.n == 1 && options->work.batch_sizes.n == 1 &&
                           options->work.seq_lens.n <= 1 && options->device.modes.n == 1 &&
                           options->device.precisions.n == 1;
    if (!sm_format_is_read(options->out.format) || !is_single) {
        SM_TRY(sm_record_writer_open(&cli_estimate_table, options->out.format, stdout, &e.writer));
    }
    const sm_status status = estimate_all(&e);
    if (status == SM_OK && e.writer != NULL) {
        sm_record_writer_explain(e.writer, legend);
    }
    return sm_record_writer_close(e.writer, status);
}
