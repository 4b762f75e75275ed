// profile.c: where the step's time goes: measures a row as `run` does, and joins its op times with the plan.
#include "bench/rows/machine.h"
#include "cli/measure/measure.h"

static const double unaccounted_limit = 0.01; // of the wall clock

static const char *const sort_fields[] = {
#define X(code, word, field) field,
    CLI_PROFILE_ORDER_LIST(X)
#undef X
};

static const char *sorted_by; // for compare_records

static int compare_records(const void *a, const void *b) {
    const double x = sm_json_number(*(json_t *const *)a, sorted_by);
    const double y = sm_json_number(*(json_t *const *)b, sorted_by);
    return (x < y) - (x > y);
}

// Explains the columns to new users.
static const sm_legend_line legend[] = {
    {"self_ns", "self: time of these ops in a step that times each op; share: of that step's wall clock."},
    {"flops", "work: FLOPs; traffic: the bytes of a machine that moves each operand once."},
    {"flops_per_s", "speed, rate: work and traffic over self."},
    {"bound", "bound: what limits most of it: compute, memory, or overhead, the cost of a call itself."},
    {"roofline_share", "of roofline: shortest possible time at the measured peaks, from memory, over self. Above 100% "
                       "the operands lay in a cache, which is faster than memory."},
    {"waiting", "waiting: share of the threads' time in these ops in which they wait for each other."},
    {"imbalance", "imbalance: how much longer the slowest thread's part takes than the mean."},
    {"above_ns", "above: self less that shortest time: what could be won; below 0 where a cache helped."},
    {NULL, NULL},
};

static sm_status print_records(const cli_options *options, const sm_profile *profile, const sm_row *row) {
    sm_status status = SM_OK;
    sm_record_writer *writer = NULL;
    // The fields that all records share.
    SM_OWN(json_t) *record = sm_row_to_json(row);
    SM_OWN(json_t) *context = sm_json_copy(
        json_object(), record,
        "model=model_type test mode precision emulated device isa n_threads binding own_kernels peak_flops "
        "peak_bandwidth peak_source warnings");
    sm_json_copy(context, record, row->gpu_info[0] != '\0' ? "name=gpu_info" : "name=cpu_info");
    SM_OWN(json_t) *records = sm_profile_records(profile, context);
    // Sorts the lines and drops those beyond --top; the last two, the rest and the total, stay last.
    const size_t n = json_array_size(records);
    const size_t n_lines = n - 2;
    const size_t n_kept = options->out.top > 0 ? (size_t)options->out.top : n_lines;
    SM_FREED json_t **sorted = sm_malloc(n * sizeof(*sorted));
    for (size_t i = 0; i < n; i++) {
        sorted[i] = json_array_get(records, i);
    }
    if (options->out.sort != CLI_SORT_SELF) {
        sorted_by = sort_fields[options->out.sort];
        qsort(sorted, n_lines, sizeof(*sorted), compare_records);
    }
    SM_TRY(sm_record_writer_open(&sm_profile_table, options->out.format, stdout, &writer));
    for (size_t i = 0; status == SM_OK && i < n; i++) {
        status = i < n_kept || i >= n_lines ? sm_record_write(writer, json_incref(sorted[i])) : SM_OK;
    }
    sm_record_writer_explain(writer, legend);
    return sm_record_writer_close(writer, status);
}

static sm_status measure_and_print(const cli_options *options, sm_comm *comm) {
    static cli_bench bench;
    cli_job job;
    SM_ROW(row);
    bench = (cli_bench){.options = options};
    SM_TRY(cli_single_job(options, comm, &job));
    job.protocol.n_accum = 1; // an op of several micro-batches has several times, but one place in a trace
    job.plan.one_micro_batch = true;
    SM_OWN(json_t) *machine = bench.machine = sm_machine_facts(options->argc, options->argv);
    SM_TRY(cli_measure(&bench, &job, &row));
    if (sm_comm_rank(comm) > 0) {
        return SM_OK;
    }
    SM_OWN(sm_plan) *plan = NULL;
    SM_AT_END(sm_profile_free) sm_profile profile = {.lines = NULL};
    sm_profile_input input;
    SM_TRY(cli_row_profile_input(&job, &row, &plan, &input));
    SM_TRY(sm_profile_make(&input, (sm_profile_by)options->out.by, &profile));
    SM_TRY(print_records(options, &profile, &row));
    double share = (double)profile.unaccounted_ns / (double)profile.wall_ns;
    if (!(share <= unaccounted_limit)) {
        cli_note("%.1f%% of the step is outside of its ops: the step is too small to judge its parts", 100 * share);
    }
    if (options->out.trace != NULL) {
        const char *category = row.gpu_info[0] != '\0' ? "kernel" : "cpu_op";
        SM_OWN(json_t) *trace = sm_profile_trace(&input, category, row.device);
        SM_TRY(cli_write_trace(trace, options->out.trace));
    }
    if (options->out.timeline != NULL) {
        SM_TRY(sm_plan_assign_memory(plan, 0));
        SM_TRY(cli_write_timeline(options->out.timeline, &job, plan, input.op_ns, row.device_peak_bytes));
    }
    return SM_OK;
}

// With several processes, all measure the same steps, and rank 0 shows its own.
sm_status cli_profile(const cli_options *options) { return cli_together(options, measure_and_print); }
