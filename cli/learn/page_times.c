// page_times.c: times a page's step on every device as `profile` does, but briefly.
#include <string.h>

#include "bench/rows/machine.h"
#include "cli/learn/learn.h"
#include "cli/measure/measure.h"

// Enough to compare ops; `stepmark profile` measures longer.
enum { N_WARMUP = 2, N_REPETITIONS = 5 };
static const double peak_seconds = 0.1;

static const char usual_tier[] = "registers"; // OpenCL kernels of a processor

static sm_status add_ops(const cli_job *job, const sm_row *row, json_t *entry) {
    SM_OWN(sm_plan) *plan = NULL;
    SM_AT_END(sm_profile_free) sm_profile profile = {.lines = NULL};
    sm_profile_input input;
    SM_TRY(cli_row_profile_input(job, row, &plan, &input));
    SM_TRY(sm_profile_make(&input, SM_PROFILE_BY_OP, &profile));
    json_t *ops = json_array();
    for (int i = 0; i < profile.n_lines; i++) {
        const sm_profile_line *line = &profile.lines[i];
        json_array_append_new(ops, json_pack("{s:I, s:o, s:s}", "self_ns", (json_int_t)line->self_ns, "roofline_ns",
                                             sm_json_real(line->roofline_ns), "bound", sm_bound_name(line->bound)));
    }
    sm_json_put(entry, {"ops", ops}, {"unaccounted_ns", json_integer(profile.unaccounted_ns)},
                {"verdict", json_string(profile.verdict)});
    return SM_OK;
}

static sm_status time_device(cli_bench *bench, const cli_job *job, json_t *times) {
    SM_AT_END(sm_row_free) sm_row row = {.schema_version = 0};
    sm_row_init(&row);
    const sm_status status = cli_measure(bench, job, &row);
    if (status == SM_ERR_INTERRUPTED || status == SM_ERR_OOM) {
        return status;
    }
    const char *name = row.gpu_info[0] != '\0' ? row.gpu_info : row.cpu_info;
    json_t *entry =
        json_pack("{s:s, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "device", row.device, "name",
                  sm_json_text(name), "isa", sm_json_text(row.isa), "threads", sm_json_integer(row.n_threads), "status",
                  row.status, "reason", sm_json_text(row.reason), "peak_flops", sm_json_real(row.peak_flops),
                  "peak_bandwidth", sm_json_real(row.peak_bandwidth), "peak_source", sm_json_text(row.peak_source),
                  "loss_check", sm_json_text(row.loss_check), "gradient_check", sm_json_text(row.gradient_check),
                  "median_ns", sm_json_integer(row.median_ns), "wall_ns", sm_json_integer(row.attribution_ns));
    json_array_append_new(times, entry);
    return status == SM_OK ? add_ops(job, &row, entry) : SM_OK; // the entry has the failure
}

static void find_tier(const cli_device *device, const char **tier) {
    static char found[sizeof(((sm_device_info *)NULL)->tier)];
    sm_device_info info;
    if (strcmp(device->backend->name, "opencl") == 0 && device->backend->describe(device->index, &info) == SM_OK &&
        info.tier[0] != '\0') {
        snprintf(found, sizeof(found), "%s", info.tier);
        *tier = found;
    }
}

sm_status cli_page_times(const cli_options *options, const sm_plan *plan, json_t **times, const char **tier) {
    static cli_bench bench;
    static cli_device_list devices;
    SM_OWN(json_t) *made = json_array();
    bench = (cli_bench){.options = options, .peak_seconds = peak_seconds, .peak_bytes = sm_plan_memory(plan, NULL)};
    *tier = usual_tier;
    devices.n = 0;
    SM_TRY(strcmp(options->device.backends.texts[0], "none") != 0
               ? cli_select_devices(&options->device.backends, &devices)
               : SM_OK);
    SM_OWN(json_t) *machine = bench.machine = sm_machine_facts(options->argc, options->argv);
    for (int i = 0; i < devices.n; i++) {
        cli_job job;
        SM_TRY(cli_job_of(options, NULL, &job));
        job.device = devices.devices[i];
        job.protocol.n_warmup = N_WARMUP;
        job.protocol.n_repetitions = N_REPETITIONS;
        job.protocol.n_accum = 1;
        job.plan.one_micro_batch = true;
        find_tier(&devices.devices[i], tier);
        SM_TRY(time_device(&bench, &job, made));
    }
    *times = sm_give(&made);
    return SM_OK;
}
