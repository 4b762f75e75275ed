// together.c: `mpirun -n N stepmark run`: configurations that all processes measure together. See sweep.h.
#include "bench/rows/machine.h"
#include "bench/rows/read_rows.h"
#include "bench/tables/show.h"
#include "cli/flags/flag.h"
#include "cli/sweep/sweep.h"

bool cli_is_shared(const cli_options *o) {
    const cli_axes *axes = &o->sweep.axes;
    const char *op = cli_axis_text(axes, "op");
    SM_FREED char *first = op != NULL ? sm_strndup(op, strcspn(op, ",")) : NULL;
    return (first != NULL && sm_collective_op_find(first) != SM_ALONE_COUNT) ||
           cli_axis_text(axes, "buckets") != NULL || cli_axis_text(axes, "shard") != NULL ||
           (o->sweep.preset != NULL && strcmp(o->sweep.preset, "cs336-2-exchange") == 0);
}

// The configurations, each for this process's own device.
static sm_status plan_of(const cli_options *options, sm_comm *comm, cli_device *device, cli_sweep_plan *plan) {
    static cli_options own; // static, as below, because of their lists
    static cli_device_list devices;
    static sm_device_info info; // whose id the plan refers to
    cli_texts names;
    const char *text = cli_axis_text(&options->sweep.axes, "backend");
    SM_TRY(cli_parse_texts("--backend", text != NULL ? text : "cpu", &names));
    cli_foresee();
    SM_TRY(cli_select_devices(&names, &devices));
    SM_TRY(cli_choose_device(comm, &devices, device));
    SM_TRY(device->backend->describe(device->index, &info));
    own = *options;
    SM_TRY(cli_axis_add(&own.sweep.axes, "backend", info.id));
    SM_TRY(cli_sweep_plan_make(&own, plan));
    for (int i = 0; i < plan->n; i++) { // which would be one row in a file otherwise
        static const char *const ways[] = {SM_TRANSPORT_LIST(SM_WORD)};
        char mark[64];
        snprintf(mark, sizeof(mark), "processes=%d transport=%s", sm_comm_size(comm),
                 ways[options->processes.transport]);
        cli_configuration_set_key(&plan->items[i], mark);
    }
    return SM_OK;
}

static sm_status measure_one(const cli_options *options, sm_comm *comm, cli_bench *bench, cli_device device,
                             const cli_configuration *c, sm_row_writer *writer) {
    static cli_options run;
    cli_job job;
    SM_AT_END(sm_row_free) sm_row row = {.schema_version = 0};
    const cli_command command = cli_command_find(c->args[0]);
    SM_TRY(cli_options_parse(command, true, c->n_args, c->args, &run));
    run.measure.check_seed = options->measure.check_seed;
    run.measure.timeout_s = options->measure.timeout_s;
    run.processes.transport = options->processes.transport;
    bench->options = &run;
    SM_TRY(cli_job_of(&run, comm, &job));
    SM_FAIL_IF(job.plan.processes.n < 2, SM_ERR_USAGE,
               "%s: needs several processes: mpirun -n 2 stepmark run ... (docs/parallel.md)", c->key);
    job.device = device;
    job.B = job.B > 0 ? job.B : CLI_DEFAULT_BATCH;
    job.T = job.T > 0 ? job.T : CLI_DEFAULT_SEQ_LEN;
    sm_row_init(&row);
    cli_say("%s ...", c->key);
    const sm_status status = cli_measure(bench, &job, &row);
    if (sm_comm_rank(comm) > 0 || status == SM_ERR_USAGE) {
        return status;
    }
    char contradiction[SM_CONTRADICTION_SIZE];
    SM_OWN(json_t) *record = sm_row_to_json(&row);
    sm_json_set_new(record, "sweep_key", sm_json_text(c->key));
    sm_row_hold_to_itself(record, contradiction);
    sm_status written = options->out.output_file != NULL ? cli_write_row(options->out.output_file, record) : SM_OK;
    written = written == SM_OK ? sm_row_write_record(writer, json_incref(record)) : written;
    return status != SM_OK ? status : written;
}

sm_status cli_run_together(const cli_options *options, sm_comm *comm) {
    static cli_bench bench;
    SM_AT_END(cli_sweep_plan_free) cli_sweep_plan plan = {NULL, 0};
    cli_device device;
    sm_row_writer *writer = NULL;
    SM_OWN(sm_sweep_log) *log = NULL; // process 0 looks, for all
    SM_TRY(plan_of(options, comm, &device, &plan));
    SM_TRY(options->sweep.resume && options->out.output_file != NULL && sm_comm_rank(comm) == 0
               ? sm_sweep_log_open(options->out.output_file, true, &log)
               : SM_OK);
    SM_OWN(json_t) *machine = bench.machine = sm_machine_facts(options->argc, options->argv);
    SM_TRY(sm_comm_rank(comm) == 0 ? sm_row_writer_open(options->out.format, stdout, &writer) : SM_OK);
    sm_status status = SM_OK;
    for (int i = 0; i < plan.n && status == SM_OK; i++) {
        bool known = log != NULL && sm_sweep_log_find(log, plan.items[i].key) != NULL;
        status = sm_comm_broadcast(comm, 0, &known, sizeof known);
        status =
            status == SM_OK && !known ? measure_one(options, comm, &bench, device, &plan.items[i], writer) : status;
    }
    const sm_status closed = writer != NULL ? sm_record_writer_close(writer) : SM_OK;
    status = status == SM_OK ? closed : status;
    return status == SM_OK && sm_comm_rank(comm) == 0 ? cli_sweep_tables(options) : status;
}
