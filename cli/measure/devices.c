// devices.c: the subcommand `devices`: lists the devices, with a reason for those that cannot; --peaks measures ceilings.
#include "bench/tables/show.h"
#include "cli/setup/setup.h"

// In sm_device_info 0 means unknown or none.
static int64_t known(size_t value) { return value > 0 ? (int64_t)value : SM_ABSENT; }

#define COLUMN_LIST(X)                                                                                              \
    X("device", TEXT, "", "id, as --backend takes it", info->id, .heading = "device", .rank = SM_RANK_ALWAYS)       \
    X("backend", TEXT, "", "backend that drives it", backend->name, .heading = NULL)                                \
    X("available", BOOLEAN, "", "can be used here", info->available, .heading = "usable", .show = sm_show_yes_no,   \
      .rank = SM_RANK_ALWAYS)                                                                                       \
    X("name", TEXT, "", "of the processor or card", info->name, .heading = "name", .rank = SM_RANK_ALWAYS)          \
    X("n_units", INTEGER, "", "cores or compute units", known((size_t)info->n_units), .heading = "units")           \
    X("n_threads", INTEGER, "", "threads used by default", known((size_t)info->n_threads), .heading = "threads",    \
      .rank = 5)                                                                                                    \
    X("binding", TEXT, "", "where they run by default", info->binding, .heading = "binding")                        \
    X("isa", TEXT, "", "instruction set that the kernels use", info->isa, .heading = "instructions", .rank = 7)     \
    X("blas_core", TEXT, "", "core that the BLAS library chose", info->blas_core, .heading = "BLAS core")           \
    X("tier", TEXT, "", "family of kernels", info->tier, .heading = "kernels", .rank = 7)                           \
    X("tier_reason", TEXT, "", "why that family", info->tier_reason, .heading = NULL)                               \
    X("platform", TEXT, "", "OpenCL platform", info->platform, .heading = "platform")                               \
    X("features", TEXT, "", "instructions or features of the OpenCL device", info->features, .heading = "features") \
    X("clock_mhz", INTEGER, "MHz", "highest clock, as the driver tells", known((size_t)info->clock_mhz),            \
      .heading = NULL)                                                                                              \
    X("local_bytes", INTEGER, "bytes", "local memory of an OpenCL work-group", known(info->local_bytes),            \
      .heading = "local memory", .show = sm_show_bytes)                                                             \
    X("memory_bytes", INTEGER, "bytes", "memory in all", known(info->memory_bytes), .heading = "memory", .rank = 6, \
      .show = sm_show_bytes)                                                                                        \
    X("free_bytes", INTEGER, "bytes", "memory available now", known(info->free_bytes), .heading = "free",           \
      .show = sm_show_bytes)                                                                                        \
    X("max_alloc_bytes", INTEGER, "bytes", "largest single allocation", known(info->max_alloc_bytes),               \
      .heading = "largest allocation", .show = sm_show_bytes)                                                       \
    X("driver", TEXT, "", "library or driver and version", info->driver, .heading = "driver")                       \
    X("summary", TEXT, "", "what the backend is", backend->summary, .heading = NULL)                                \
    X("reason", TEXT, "", "why it cannot be used", info->reason, .heading = "reason", .rank = SM_RANK_ALWAYS)       \
    X("warnings", JSON, "", "causes of slowness on this machine", cli_device_warnings(info), .heading = "warning",  \
      .view = SM_SHOWN_AS_NOTES)

const sm_table cli_devices_table = SM_LISTED_TABLE("devices", COLUMN_LIST);

sm_status cli_devices(const cli_options *options) {
    SM_OWN(json_t) *records = json_array();
    for (int b = 0; b < sm_backend_count(); b++) {
        const sm_backend *backend = sm_backend_at(b);
        // --probe tests every device's matrix units again that a compiler or driver could fail at.
        for (int i = 0; options->probe && backend->help != NULL && i < backend->device_count(); i++) {
            char index[16];
            char *words[] = {index, (char *)"try", (char *)os_program()};
            snprintf(index, sizeof index, "%d", i);
            if (backend->help(3, words) != SM_OK) {
                cli_note("%s", sm_error_message());
            }
        }
        const int n = cli_count_devices(backend);
        const int first = cli_backend_failure(backend) != SM_OK ? -1 : 0; // its failure stands for its devices
        for (int i = first; i < n; i++) {
            sm_device_info facts;
            const sm_device_info *info = &facts;
            json_t *record = json_object();
            SM_TRY(cli_describe((cli_device){backend, i}, &facts));
            COLUMN_LIST(SM_LISTED_VALUE)
            json_array_append_new(records, record);
        }
    }
    return sm_record_write_all(&cli_devices_table, options->out.format, stdout, records);
}

// "565 GFLOP/s": the record has the unit.
static void show_rate(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const char *unit = json_string_value(sm_json_get(record, "unit"));
    bool bytes = unit != NULL && strcmp(unit, "bytes/s") == 0;
    sm_text_scaled(sm_json_number(record, column->name), bytes ? "B/s" : "FLOP/s", text, size_bytes);
}

// How far the median trial is below the best, "-4.1%": far if something else ran.
static void show_shortfall(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    double best = sm_json_number(record, "best");
    double median = sm_json_number(record, column->name);
    if (best > 0 && isfinite(median)) {
        snprintf(text, size_bytes, "%.1f%%", 100 * (median / best - 1));
    }
}

static double positive(double value) { return value > 0 ? value : NAN; }

static double per_cycle(const sm_device_info *info, const sm_ceiling *c) {
    return positive(c->clock_hz) * info->n_threads > 0 ? positive(c->best / (info->n_threads * c->clock_hz)) : NAN;
}

#define CEILING_LIST(X)                                                                                               \
    X("device", TEXT, "", "device measured", info->id, .heading = "device", .view = SM_SHOWN_WHEN_VARIED)             \
    X("name", TEXT, "", "of the processor or card", info->name, .heading = "name", .view = SM_SHOWN_WHEN_VARIED)      \
    X("isa", TEXT, "", "instruction set of the kernels", info->isa, .heading = "isa", .view = SM_SHOWN_WHEN_VARIED)   \
    X("n_threads", INTEGER, "", "threads used", info->n_threads > 0 ? info->n_threads : SM_ABSENT,                    \
      .heading = "threads", .rank = SM_RANK_ALWAYS)                                                                   \
    X("binding", TEXT, "", "where they run", info->binding, .heading = "binding", .view = SM_SHOWN_WHEN_VARIED,       \
      .rank = 2)                                                                                                      \
    X("ceiling", TEXT, "", "what is done", c->name, .heading = "ceiling", .rank = SM_RANK_ALWAYS)                     \
    X("where", TEXT, "", "where the operands lie", c->where, .heading = "where", .rank = SM_RANK_ALWAYS)              \
    X("working_set_bytes", INTEGER, "bytes", "operands of all threads together",                                      \
      c->working_set_bytes > 0 ? (int64_t)c->working_set_bytes : SM_ABSENT, .heading = "operands",                    \
      .show = sm_show_bytes, .rank = 6)                                                                               \
    X("unit", TEXT, "", "of best and median", c->unit, .heading = NULL)                                               \
    X("best", REAL, "unit", "best trial, all threads together", positive(c->best), .heading = "best",                 \
      .show = show_rate, .rank = SM_RANK_ALWAYS)                                                                      \
    X("median", REAL, "unit", "median trial", positive(c->median), .heading = "median trial", .show = show_shortfall, \
      .rank = 7)                                                                                                      \
    X("n_trials", INTEGER, "", "trials of some milliseconds each", c->n_trials > 0 ? c->n_trials : SM_ABSENT,         \
      .heading = NULL)                                                                                                \
    X("clock_hz", REAL, "Hz", "processor clock right after the trials, median", positive(c->clock_hz),                \
      .heading = "clock GHz", .rank = 4, .scale = 1e-9, .format = "%.2f", .beside = " (%.2f-%.2f)",                   \
      .lo = "clock_low_hz", .hi = "clock_high_hz")                                                                    \
    X("clock_low_hz", REAL, "Hz", "lowest clock of any trial and thread",                                             \
      c->clock_hz > 0 ? positive(c->clock_low_hz) : NAN, .heading = NULL)                                             \
    X("clock_high_hz", REAL, "Hz", "highest clock", c->clock_hz > 0 ? positive(c->clock_high_hz) : NAN,               \
      .heading = NULL)                                                                                                \
    X("per_cycle", REAL, "", "best / (n_threads x clock_hz): FLOP or bytes a cycle and thread", per_cycle(info, c),   \
      .heading = "a cycle and thread", .show = sm_show_real, .rank = 5)                                               \
    X("reason", TEXT, "", "why there is no figure", c->reason, .heading = "reason", .rank = SM_RANK_ALWAYS)           \
    X("meaning", TEXT, "", "what is done, and what counts", c->meaning, .heading = NULL)                              \
    X("warnings", JSON, "", "causes of slowness on this machine", cli_device_warnings(info), .heading = "warning",    \
      .view = SM_SHOWN_AS_NOTES)

const sm_table cli_peaks_table = SM_LISTED_TABLE("peaks", CEILING_LIST);

typedef struct {
    sm_record_writer *writer;
    const sm_device *device; // the current device
    char legend[4096];
    int n_done;
} peaks_output;

static sm_status on_ceiling(void *ctx, const sm_ceiling *c) {
    peaks_output *output = ctx;
    const sm_device_info *info = &output->device->info;
    SM_TRY(cli_interrupted ? SM_ERR_INTERRUPTED : SM_OK);
    // Adds a line for each kind of ceiling, once.
    char line[256];
    snprintf(line, sizeof(line), "- %s: %s.\n", c->name, c->meaning);
    if (strstr(output->legend, line) == NULL) {
        sm_append(output->legend, sizeof(output->legend), "%s", line);
    }
    cli_live_clear();
    json_t *record = json_object();
    CEILING_LIST(SM_LISTED_VALUE)
    SM_TRY(sm_record_write(output->writer, record));
    cli_live_show("ceilings", ++output->n_done, 0);
    return SM_OK;
}

static sm_status measure_threads(const cli_options *options, cli_device device, int64_t n_threads,
                                 peaks_output *output) {
    const double seconds = options->measure.min_time_s;
    SM_OWN(sm_device) *opened = NULL;
    SM_TRY(cli_open_device(device, n_threads, options, &opened));
    output->device = opened;
    if (device.backend->measure_ceilings != NULL) {
        return device.backend->measure_ceilings(opened, seconds, on_ceiling, output);
    }
    sm_peaks peaks; // the two ceilings that rows are compared with
    SM_TRY(device.backend->measure_peaks(opened, (sm_precision){.dtype = SM_F32}, 2 * seconds, &peaks));
    sm_ceiling flops = {.name = "fma f32", .where = "", .unit = "FLOP/s", .meaning = "multiply-adds"};
    sm_ceiling stream = {.name = "best stream", .where = "memory", .unit = "bytes/s", .meaning = peaks.source};
    flops.best = peaks.flops;
    stream.best = peaks.bandwidth_bytes_per_s;
    SM_TRY(on_ceiling(output, &flops));
    return on_ceiling(output, &stream);
}

static sm_status measure_device(const cli_options *options, cli_device device, peaks_output *output) {
    static cli_ints threads;
    threads = options->device.threads;
    const bool is_asked = threads.n > 0;
    if (!is_asked) {
        // 1, 2, 4, ... and the device's default; only the default, as 0, if the backend has no ceilings for threads.
        SM_OWN(sm_device) *opened = NULL;
        SM_TRY(cli_open_device(device, 0, options, &opened));
        const int64_t most = device.backend->measure_ceilings != NULL ? opened->info.n_threads : 0;
        for (int64_t n = 1; n < most && threads.n + 1 < CLI_MAX_VALUES; n *= 2) {
            threads.values[threads.n++] = n;
        }
        threads.values[threads.n++] = most;
    }
    for (int i = 0; i < threads.n; i++) {
        cli_say("%s: measuring ...", device.backend->name);
        cli_live_parts("setting", i, threads.n);
        const sm_status status = measure_threads(options, device, threads.values[i], output);
        if (status == SM_ERR_UNSUPPORTED && !is_asked && i + 1 < threads.n) { // drivers that divide no device
            cli_say("%s", sm_error_message());
            continue;
        }
        SM_TRY(status);
    }
    return SM_OK;
}

sm_status cli_peaks(const cli_options *options) {
    static cli_device_list devices;
    peaks_output output = {.writer = NULL};
    SM_TRY(cli_select_devices(&options->device.backends, &devices));
    SM_TRY(sm_record_writer_open(&cli_peaks_table, options->out.format, stdout, &output.writer));
    sm_status status = SM_OK;
    for (int i = 0; status == SM_OK && i < devices.n; i++) {
        status = measure_device(options, devices.devices[i], &output);
    }
    cli_live_clear();
    status = sm_record_writer_close(output.writer, status);
    if (sm_format_is_read(options->out.format) && output.legend[0] != '\0') {
        printf("\n%s- median trial: how far it stays below the best; more than a few percent: something else runs.\n"
               "- clock: median (lowest-highest), from a chain of additions right after each trial.\n",
               output.legend);
    }
    return status;
}
