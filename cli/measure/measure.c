// measure.c: one row of `stepmark run`: opens the device, builds the plan, loads weights and batches, calls the harness.
#include "cli/measure/measure.h"

#include <errno.h>

#include "clock.h"
#include "bench/rows/machine.h"
#include "bench/pages/page.h"
#include "bench/score/score.h"
#include "os/processor.h"
#include "src/weights/weights.h"

static const double usual_peak_seconds = 1.0;

enum { N_ATTRIBUTION = 3 };

sm_status cli_get_peaks(cli_bench *bench, const cli_job *job, sm_device *opened, sm_peaks *peaks) {
    const cli_device device = job->device;
    if (bench->options->measure.no_peaks || job->exchanged_bytes > 0) { // an exchange has none
        *peaks = (sm_peaks){.source = "not measured: --no-peaks"};
        return SM_OK;
    }
    for (int i = 0; i < bench->n_peaks; i++) {
        const cli_known_peaks *known = &bench->peaks[i];
        if (known->device.backend == device.backend && known->device.index == device.index &&
            known->n_threads == job->n_threads && known->precision == job->precision) {
            *peaks = known->peaks;
            return SM_OK;
        }
    }
    const double seconds = bench->peak_seconds > 0 ? bench->peak_seconds : usual_peak_seconds;
    sm_device *own = NULL;
    SM_TRY(opened == NULL ? cli_open_device(device, job->n_threads, bench->options, &own) : SM_OK);
    sm_status status =
        cli_measure_peaks(opened != NULL ? opened : own, job->precision, bench->peak_bytes, seconds, peaks);
    sm_device_close(own);
    if (status == SM_ERR_UNSUPPORTED) { // a device without ceilings can still be timed
        *peaks = (sm_peaks){.flops = 0};
        snprintf(peaks->source, sizeof(peaks->source), "not measured: %s", sm_error_message());
        status = SM_OK;
    }
    if (status == SM_OK && bench->n_peaks < CLI_MAX_PEAKS) {
        bench->peaks[bench->n_peaks++] = (cli_known_peaks){device, job->n_threads, job->precision, *peaks};
    }
    return status;
}

static sm_status refuse_dimension(const char *flag, int64_t given) {
    return given == 0 ? SM_OK
                      : sm_fail(SM_ERR_USAGE, "--%s: the model of --weights fixes it; leave one of them out", flag);
}

// The config of --weights, or of the size with the command line's dimensions.
static sm_status config_of(const cli_options *options, sm_model_config *config) {
    if (options->model.weights == NULL) {
        return cli_model_config(options, options->model.models.texts[0], config);
    }
    SM_TRY(refuse_dimension("arch", options->model.arch));
#define X(type, member, column, view, heading, meaning, most, flag, ...) \
    SM_TRY(refuse_dimension(flag, options->model.member));
#define KEPT(...)
    SM_MODEL_FIELDS(X, KEPT)
#undef X
#undef KEPT
    return sm_weights_read_config(options->model.weights, config);
}

sm_status cli_job_of(const cli_options *o, sm_comm *comm, cli_job *job) {
    *job = (cli_job){
        .model = o->model.weights != NULL ? o->model.weights : o->model.models.texts[0],
        .n_threads = o->device.threads.values[0],
        .precision = (cli_precision)o->device.precisions.values[0],
        .mode = (sm_mode)o->device.modes.values[0],
        .pass = o->work.passes.n > 0 ? (sm_pass_type)o->work.passes.values[0] : SM_PASS_STEP,
        .B = o->work.batch_sizes.values[0],
        .T = o->work.seq_lens.values[0],
        .weights = o->model.weights,
        .plan = {.dropout_p = o->work.dropout,
                 .seed = (uint64_t)o->work.seed,
                 .optimizer = sm_optimizer_at(o->work.optimizer),
                 .one_micro_batch = o->work.accum <= 1,
                 .processes = {.n = sm_comm_size(comm) > 1 ? sm_comm_size(comm) : (int)o->processes.n_processes,
                               .rank = sm_comm_rank(comm),
                               .is_bf16 = o->processes.gradient_format != 0,
                               .is_sharded = o->processes.shard != 0,
                               .never_clips = !(o->train.settings.grad_clip > 0) &&
                                              (o->train.run == NULL || o->train.settings.grad_clip == 0)},
                 .documents = cli_padding(o) != SM_PADDING_NONE,
                 .recompute = (sm_recompute)o->work.recompute,
                 .attention = (sm_attention)o->work.attention},
        .without = o->device.without_bits,
        .protocol = {.n_warmup = (int)o->measure.warmup,
                     .n_repetitions = (int)o->measure.repetitions,
                     .max_noise_percent = o->measure.max_noise,
                     .min_samples = (int)o->measure.min_samples,
                     .max_samples = (int)o->measure.max_samples,
                     .min_time_s = o->measure.min_time_s,
                     .max_time_s = o->measure.max_time_s,
                     .n_attribution = o->measure.no_phases ? 0 : N_ATTRIBUTION,
                     .check_seed = (uint64_t)o->measure.check_seed,
                     .n_accum = (int)o->work.accum,
                     .timeout_s = o->measure.timeout_s,
                     .interrupted = &cli_interrupted},
        .comm = comm,
    };
    SM_TRY(cli_loss_scaling(o, job->precision, &job->plan.scaling));
    if (o->work.op != NULL) {
        return cli_op_job(o, job);
    }
    SM_TRY(config_of(o, &job->config));
    const char *buckets = o->processes.buckets;
    if (buckets != NULL && strcmp(buckets, "all") == 0) {
        job->plan.processes.bucket_bytes = SM_BUCKETS_ALL;
    } else if (buckets != NULL) {
        cli_ints sizes = {.n = 0};
        SM_TRY(cli_parse_ints("--buckets", buckets, 0, INT64_C(1) << 40, &sizes));
        SM_FAIL_IF(sizes.n != 1, SM_ERR_USAGE, "--buckets: takes one size here, not %s", buckets);
        job->plan.processes.bucket_bytes = sizes.values[0] == 0 ? SM_BUCKETS_NAIVE : sizes.values[0];
    }
    return cli_check_seq_len(&job->config, job->T);
}

sm_status cli_single_job(const cli_options *options, sm_comm *comm, cli_job *job) {
    static cli_device_list devices;
    SM_TRY(cli_select_devices(&options->device.backends, &devices));
    SM_TRY(cli_job_of(options, comm, job));
    return cli_choose_device(comm, &devices, &job->device);
}

sm_recompute cli_recompute(const cli_job *job) { return sm_recompute_resolve(job->plan.recompute, job->without); }

sm_attention cli_attention(const cli_job *job) {
    return sm_attention_resolve(job->plan.attention, job->mode, job->without);
}

void cli_append_without(const cli_job *job, char *text, size_t size_bytes) {
    for (int i = 0; i < sm_rewrite_count() && job->mode != SM_MODE_NAIVE; i++) {
        sm_append_part(text, size_bytes, ",", job->without >> i & 1 ? sm_rewrite_at(i)->name : "");
    }
}

sm_plan_options cli_plan_options(const cli_job *job, size_t max_tensor_bytes) {
    const unsigned phases = sm_pass_phases(job->pass);
    sm_plan_options plan = job->plan;
    plan.B = job->B;
    plan.T = job->T;
    plan.dtype = cli_plan_precision(job->precision).dtype;
    plan.products = cli_plan_precision(job->precision).products;
    plan.backward = (phases & SM_RUN_BACKWARD) != 0;
    plan.optimizer = phases & SM_RUN_OPTIMIZER ? plan.optimizer : NULL;
    plan.max_tensor_bytes = max_tensor_bytes;
    return plan;
}

sm_status cli_job_plan(const cli_job *job, size_t max_tensor_bytes, sm_plan **plan) {
    SM_OWN(sm_plan) *built = NULL;
    const sm_plan_options plan_options = cli_plan_options(job, max_tensor_bytes);
    *plan = NULL;
    if (job->op[0] != '\0') {
        return cli_op_plan(job, plan);
    }
    SM_TRY(sm_model_build(&job->config, &plan_options, &built));
    SM_TRY(sm_plan_rewrite(built, job->mode, job->without));
    *plan = sm_give(&built);
    return SM_OK;
}

sm_status cli_set_configuration(const cli_bench *bench, const cli_job *job, sm_row *row) {
    const sm_model_config *c = &job->config;
    const cli_options *options = bench->options;
    sm_row_set_machine(row, bench->machine);
    SM_ROW_TEXT(row->backend, job->device.backend->name);
    SM_ROW_TEXT(row->mode, sm_mode_name(job->mode));
    SM_ROW_TEXT(row->precision, cli_precision_name(job->precision));
    for (int i = 0; i < sm_backend_count(); i++) {
        sm_append_part(row->backends, sizeof(row->backends), ",", sm_backend_at(i)->name);
    }
    row->seed = (int64_t)job->plan.seed;
    if (job->op[0] != '\0') {
        const bool has_rows = sm_op_set_has(&job->ops, "B");
        SM_ROW_TEXT(row->op, job->op);
        SM_ROW_TEXT(row->shape, job->shape);
        sm_row_set_test(row, job->pass, has_rows ? job->B : 0, has_rows ? job->T : 0, 1);
        return cli_run_args_make(options, job, &row->run_args);
    }
    sm_row_set_test(row, job->pass, job->B, job->T, job->protocol.n_accum);
    SM_ROW_TEXT(row->model_arch, c->model->name);
    SM_ROW_TEXT(row->model_type, job->model);
    if (sm_pass_phases(job->pass) & SM_RUN_OPTIMIZER) {
        SM_ROW_TEXT(row->optimizer, job->plan.optimizer->name);
    }
    if (sm_pass_phases(job->pass) & SM_RUN_BACKWARD) {
        SM_ROW_TEXT(row->recompute, sm_recompute_name(cli_recompute(job)));
        SM_ROW_TEXT(row->loss_scale, cli_loss_scale(options, job->precision));
    }
    cli_append_without(job, row->without, sizeof(row->without));
    SM_ROW_TEXT(row->attention, sm_attention_name(cli_attention(job)));
    row->model_n_params = sm_model_n_params(c);
    sm_row_set_model(row, c);
    row->dropout = job->plan.dropout_p;
    row->n_threads = job->n_threads > 0 ? job->n_threads : row->n_threads;
    SM_ROW_TEXT(row->data, options->work.data != NULL ? options->work.data : "embedded text");
    SM_ROW_TEXT(row->documents, options->work.documents != NULL ? options->work.documents : "");
    const bool cuts = options->work.documents != NULL && options->work.long_documents != SM_LONG_REFUSE;
    sm_append_part(row->documents, sizeof(row->documents), ", long ones ",
                   cuts ? sm_long_document_name((sm_long_document)options->work.long_documents) : "");
    SM_ROW_TEXT(row->padding, sm_padding_name(cli_padding(options)));
    SM_ROW_TEXT(row->weights, job->weights != NULL ? job->weights : "");
    SM_ROW_TEXT(row->loop.buckets, options->processes.buckets != NULL ? options->processes.buckets : "");
    if (options->command == CLI_LOOP) {
        row->loop.n_processes = job->plan.processes.n > 1 ? job->plan.processes.n : 1;
    }
    SM_ROW_TEXT(row->loop.gradients, job->plan.processes.is_bf16 && job->plan.processes.n > 1 ? "bf16" : "");
    SM_ROW_TEXT(row->loop.shard, job->plan.processes.is_sharded ? "optimizer" : "");
    return cli_run_args_make(options, job, &row->run_args);
}

// Progress of the steps, for the process's parent.
typedef struct {
    bool shows; // also on stderr
    bool has_begun;
    sm_stage stage;
    const sm_row *row;
    int64_t before_ns;    // when the last step began
    int64_t longest_ns;   // of the steps so far, without the first and the check
    cli_loop_steps *loop; // NULL: not a loop
} progress;

// Slow steps: the measurements so far go to the parent after each step, as the next may not end in time.
static const int64_t slow_step_ns = 500000000;

static void on_progress(void *ctx, sm_stage stage, int done, int total) {
    progress *p = ctx;
    const int64_t step_ns = sm_now_ns() - p->before_ns;
    if (p->has_begun && p->stage >= SM_STAGE_WARMUP && step_ns > p->longest_ns) {
        p->longest_ns = step_ns;
        sm_worker_set_step_ns(step_ns);
    }
    if (stage == SM_STAGE_LAST_CHECK && p->row->checks_ns != SM_ABSENT) {
        sm_worker_set_step_ns(3 * p->longest_ns + p->row->checks_ns); // it may come after the limit
    }
    if (!p->has_begun || stage != p->stage) {
        cli_stage(sm_stage_name(stage), NULL);
        if (p->loop != NULL && stage >= SM_STAGE_HEADLINE) {
            sm_utilisation_enter(p->loop->utilisation,
                                 stage == SM_STAGE_HEADLINE ? SM_UTILISATION_HEADLINE : SM_UTILISATION_AFTER);
        }
    } else if (stage == SM_STAGE_HEADLINE && step_ns > slow_step_ns) {
        cli_stage(sm_stage_name(stage), p->row);
    }
    if (p->shows) {
        cli_note("%s %d/%d", sm_stage_name(stage), done + 1, total);
    } else {
        cli_live_show(sm_stage_name(stage), done, total);
    }
    p->has_begun = true;
    p->stage = stage;
    p->before_ns = sm_now_ns();
}

// The session of a job, with weights; build_ns is the time of the plan and the backend.
static sm_status open_session(const cli_job *job, const sm_op_operands *operands, sm_device *device,
                              sm_session **session, sm_row *row) {
    sm_plan *plan;
    int64_t before_bytes = sm_machine_rss_bytes();
    int64_t start_ns = sm_now_ns();
    SM_TRY(cli_job_plan(job, device->info.max_alloc_bytes, &plan));
    SM_TRY(sm_session_open_among(job->comm, device, plan, session));
    const sm_executable *executable = (*session)->executable;
    row->build_ns = sm_now_ns() - start_ns - executable->tune_ns;
    row->tune_ns = executable->tune_ns > 0 ? executable->tune_ns : row->tune_ns;
    SM_ROW_TEXT(row->loop.transport, sm_exchange_transport((*session)->exchange));
    SM_ROW_TEXT(row->loop.devices, sm_exchange_devices((*session)->exchange));
    const char *const warnings[] = {executable->tune_warning, sm_exchange_advice((*session)->exchange),
                                    executable->note};
    for (size_t i = 0; i < sizeof(warnings) / sizeof(warnings[0]); i++) {
        if (warnings[i][0] != '\0') {
            sm_row_warn(row, "%s", warnings[i]);
        }
    }
    if (row->loop.devices[0] != '\0') {
        sm_row_warn(row, "the processes have unlike or shared devices: %s", row->loop.devices);
    }
    if (row->gpu_info[0] == '\0' && before_bytes != SM_ABSENT) { // it computes in the process's memory
        row->estimated_rss_bytes = before_bytes + (int64_t)sm_session_memory(device, (*session)->plan);
    }
    cli_stage("copying the weights", row);
    return job->exchanged_bytes > 0 ? SM_OK // it uploads before each checked step
           : job->op[0] != '\0'     ? sm_op_text_upload(operands->text, operands->seed, plan, (*session)->executable)
                                    : cli_load_weights(*session, &job->config, job->plan.seed, job->weights);
}

bool cli_is_cut_short(sm_status status, const sm_row *row) {
    return status == SM_ERR_INTERRUPTED && row->samples_ns.n > 0;
}

enum { LEAST_ATTRIBUTION = 6, MOST_ATTRIBUTION = 10 }; // the fewest that give an interval

// Number of attribution steps for that many samples: enough for an interval.
static int loop_attribution(const cli_options *options) {
    const int64_t n = options->measure.repetitions;
    return options->measure.no_phases ? 0
           : n < LEAST_ATTRIBUTION    ? LEAST_ATTRIBUTION
           : n > MOST_ATTRIBUTION     ? MOST_ATTRIBUTION
                                      : (int)n;
}

static sm_status log_step(void *ctx, const sm_train_step *step) { return sm_train_log_step(ctx, step); }

// Runs steps with prepared batches, or those of a training loop, under the harness.
static sm_status measure_steps(sm_session *session, sm_protocol *protocol, const sm_workload *workload,
                               cli_loop_steps *loop, sm_row *row) {
    progress *seen = protocol->progress_ctx;
    if (loop == NULL) {
        return sm_harness_measure(session, protocol, workload, row);
    }
    // Opens the rest of the loop for the session.
    sm_train_stepper stepper;
    loop->settings.session = session;
    loop->settings.optimizer = sm_plan_settings(session->plan);
    SM_TRY(sm_train_prepare(&loop->settings, &loop->share, &stepper));
    stepper.schedule =
        (sm_schedule){.kind = SM_SCHEDULE_CONSTANT, .lr = loop->settings.optimizer.lr, .n_steps = INT64_MAX};
    SM_TRY(sm_loader_open(&loop->settings.loader, &loop->share, SM_CHECKED_STEPS + 1, &loop->loader));
    stepper.loader = loop->loader;
    char name[CLI_LOADER_NAME_SIZE];
    const sm_loader_settings *loader = &loop->settings.loader;
    cli_loader_name(loader, name);
    loop->loop =
        sm_loop_open(&(sm_loop_settings){.workload = workload,
                                         .stepper = stepper,
                                         .loader = name,
                                         .n_loader_threads = loader->kind == SM_LOADER_INLINE ? 0 : loader->n_threads,
                                         .n_attribution = loop_attribution(&loop->options),
                                         .log = loop->log != NULL ? log_step : NULL,
                                         .log_ctx = loop->log});
    SM_TRY(sm_utilisation_start("", row->gpu_info, &loop->settings.background, sm_utilisation_interval_ns,
                                &loop->utilisation));
    const sm_workload steps = sm_loop_workload(loop->loop);
    protocol->n_attribution = loop_attribution(&loop->options);
    seen->loop = loop;
    sm_status status = sm_harness_measure(session, protocol, &steps, row);
    if (status == SM_OK || cli_is_cut_short(status, row)) {
        sm_utilisation_stop(loop->utilisation, &row->utilisation);
        SM_TRY(sm_loop_report(loop->loop, row));
        sm_loop_withhold_verdict(row);
        if (loop->options.out.trace != NULL && sm_comm_rank(loop->settings.comm) == 0) {
            const char *category = row->gpu_info[0] != '\0' ? "kernel" : "cpu_op";
            SM_OWN(json_t) *trace = sm_loop_trace(loop->loop, session->plan, category, row->device);
            SM_TRY(cli_write_trace(trace, loop->options.out.trace));
        }
    }
    return status;
}

// The maker's own figure, next to the measured one; if the ceiling is above it, one of the two is wrong.
static void set_datasheet(const cli_job *job, const sm_device_info *info, sm_row *row) {
    const char *precision = row->emulated ? "fp32" : cli_precision_name(job->precision);
    char chip[2 * SM_TEXT_SIZE], cores[64];
    os_processor_generation("", cores, sizeof(cores));
    snprintf(chip, sizeof(chip), "%s (%s)", info->name, cores);
    const double flops = info->is_host_processor && info->isa[0] != '\0'
                             ? sm_datasheet_processor(chip, info->isa, precision, info->n_threads,
                                                      sm_datasheet_clock_hz(""), row->datasheet_source)
                             : sm_datasheet_card(info->name, precision, row->datasheet_source);
    row->datasheet_flops = flops > 0 ? flops : NAN;
    if (flops > 0 && row->peak_flops > flops) {
        sm_row_warn(row, "the measured peak, %.4g TFLOP/s, is above the datasheet's %.4g (%s)", row->peak_flops / 1e12,
                    flops / 1e12, row->datasheet_source);
    }
}

// The part that each process does alone, and in which it may fail alone.
static sm_status open_files(const cli_options *options, const cli_job *job, cli_loop_steps *loop, cli_workload *w,
                            int64_t *begin_ns, sm_device **device, sm_row *row) {
    if (job->op[0] == '\0') {
        SM_TRY(cli_open_data(options, job, loop, w));
        cli_workload_digest(w, row->data_digest);
        SM_TRY(cli_weights_digest(options, row->weights_digest));
    }
    *begin_ns = sm_now_ns();
    sm_worker_set_step_ns(0);
    cli_stage("opening the device", row);
    SM_TRY(cli_open_device(job->device, job->n_threads, options, device));
    row->open_ns = sm_now_ns() - *begin_ns;
    return SM_OK;
}

static sm_status measure(cli_bench *bench, const cli_job *job, sm_row *row, sm_device **device, sm_session **session,
                         cli_loop_steps *loop, cli_workload *w) {
    const cli_options *options = bench->options;
    const sm_workload workload = cli_workload_interface(w);
    progress seen = {.shows = options->out.progress, .row = row};
    sm_protocol protocol = job->protocol;
    sm_peaks peaks;
    protocol.pass = job->pass;
    protocol.progress = on_progress;
    protocol.progress_ctx = &seen;
    const sm_status opened = open_files(options, job, loop, w, &protocol.begin_ns, device, row);
    sm_train_source data = loop != NULL ? loop->settings.data : (sm_train_source){.path = options->work.data};
    SM_TRY(cli_compare_files(options, opened, &data, NULL, *device, job->comm));
    sm_row_set_device(row, job->device.backend->name, &(*device)->info);
    row->emulated = cli_is_emulated(*device, job->precision);
    cli_stage("measuring the device's ceilings", row);
    SM_TRY(cli_get_peaks(bench, job, *device, &peaks));
    row->peak_flops = peaks.flops > 0 ? peaks.flops : NAN;
    row->peak_bandwidth = peaks.bandwidth_bytes_per_s > 0 ? peaks.bandwidth_bytes_per_s : NAN;
    SM_ROW_TEXT(row->peak_source, peaks.source);
    set_datasheet(job, &(*device)->info, row);
    cli_stage("building the plan's kernels", row);
    sm_op_operands operands = {.text = job->shape, .seed = protocol.check_seed};
    SM_TRY(open_session(job, &operands, *device, session, row));
    if (job->exchanged_bytes > 0) {
        sm_collective_work work = {
            .comm = job->comm, .op = sm_collective_op_find(job->op), .size_bytes = job->exchanged_bytes};
        const sm_workload exchange = sm_collective_workload(&work);
        const sm_status status = sm_harness_measure(*session, &protocol, &exchange, row);
        sm_collective_set_rates(&work, *session, row);
        return status;
    }
    if (job->op[0] != '\0') {
        const sm_workload ops = sm_op_workload(&operands);
        sm_op_set_memory((*session)->plan, row);
        SM_TRY(sm_harness_measure(*session, &protocol, &ops, row));
        cli_stage("cold runs", row);
        return sm_op_measure_cold(*session, &protocol, row);
    }
    sm_plan *plan = (*session)->plan;
    if (loop != NULL) {
        cli_count_tokens(&loop->data.data.collation, &plan->real_tokens, &plan->attended_pairs);
    } else {
        plan->real_tokens = w->real_tokens;
        plan->attended_pairs = w->attended_pairs;
    }
    return measure_steps(*session, &protocol, &workload, loop, row);
}

// Drawn once for all rows of this process.
sm_status cli_draw_check_seed(cli_job *job) {
    static int64_t drawn;
    if (job->protocol.check_seed == 0 && drawn == 0) {
        uint32_t number;
        SM_FAIL_IF(!os_draw(&number, sizeof(number)), SM_ERR_IO,
                   "no random number for the checks: %s; give --check-seed", strerror(errno));
        drawn = 1 + (number >> 1);
        SM_TRY(job->comm != NULL ? sm_comm_broadcast(job->comm, 0, &drawn, sizeof(drawn)) : SM_OK);
    }
    job->protocol.check_seed = job->protocol.check_seed > 0 ? job->protocol.check_seed : (uint64_t)drawn;
    return SM_OK;
}

sm_status cli_measure(cli_bench *bench, const cli_job *asked, sm_row *row) {
    SM_AT_END(cli_workload_close) cli_workload w = {.ids = NULL};
    SM_OWN(sm_device) *device = NULL;
    SM_OWN(sm_session) *session = NULL;
    static cli_loop_steps loop; // static because of its options
    loop = (cli_loop_steps){.loader = NULL};
    sm_device_info info;
    cli_job with_seed = *asked;
    const cli_job *job = &with_seed;
    sm_status status = cli_draw_check_seed(&with_seed);
    status = status == SM_OK ? cli_set_configuration(bench, job, row) : status;
    row->check_seed_chosen = asked->protocol.check_seed > 0;
    if (job->device.backend->describe(job->device.index, &info) == SM_OK) {
        SM_ROW_TEXT(row->device, info.id); // known even if it cannot be opened
    }
    if (status == SM_OK) {
        status = measure(bench, job, row, &device, &session, bench->options->command == CLI_LOOP ? &loop : NULL, &w);
    }
    if (status != SM_OK && row->status[0] == '\0') {
        sm_row_fail(row, status); // the harness, which records other failures, was not reached
    }
    cli_live_clear();
    cli_stage("closing the device", row);
    cli_loop_steps_close(&loop);
    return status;
}

sm_status cli_row_profile_input(const cli_job *job, const sm_row *row, sm_plan **plan, sm_profile_input *input) {
    sm_device_info info;
    SM_TRY(job->device.backend->describe(job->device.index, &info));
    SM_TRY(cli_job_plan(job, info.max_alloc_bytes, plan));
    (*plan)->attended_pairs = isfinite(row->attended_pairs) ? row->attended_pairs : 0;
    SM_FAIL_IF(row->op_ns.n != (*plan)->n_ops, SM_ERR_INTERNAL, "%lld op times of a plan of %d ops",
               (long long)row->op_ns.n, (*plan)->n_ops);
    *input = (sm_profile_input){
        .plan = *plan,
        .op_ns = row->op_ns.values,
        .op_least_ns = row->op_least_ns.n == (*plan)->n_ops ? row->op_least_ns.values : NULL,
        .op_parts = row->op_parts,
        .is_noisy = strcmp(row->noise_verdict, sm_noise_name(SM_NOISE_NOISY)) == 0,
        .wall_ns = row->attribution_ns,
        .headline_ns = row->median_ns,
        .peak_flops = row->peak_flops,
        .peak_bandwidth = row->peak_bandwidth,
    };
    SM_OWN(json_t) *record = sm_row_to_json(row);
    sm_doubt_row(record, input->doubt);
    return SM_OK;
}

sm_status cli_forecast_job(const cli_job *job, cli_target target, cli_forecast *forecast) {
    SM_OWN(sm_plan) *plan = NULL;
    memset(forecast, 0, sizeof(*forecast));
    SM_TRY(cli_job_plan(job, target.max_alloc_bytes, &plan));
    SM_TRY(sm_plan_assign_memory(plan, target.max_alloc_bytes));
    size_t tensor_bytes = sm_plan_memory(plan, forecast->role_bytes);
    if (target.opened != NULL) {
        SM_TRY(sm_session_supports(target.opened, plan));
        forecast->working_bytes = target.opened->backend->working_bytes(target.opened, plan);
    }
    forecast->memory_bytes = (int64_t)(tensor_bytes + forecast->working_bytes);
    forecast->n_params = plan->n_params;
    forecast->flops = sm_pass_flops(plan, job->pass, job->protocol.n_accum);
    SM_TRY(job->timeline != NULL ? cli_write_timeline(job->timeline, job, plan, NULL, forecast->memory_bytes) : SM_OK);
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        forecast->phase_flops[op->phase] += sm_op_flops(plan, op);
        forecast->phase_bytes[op->phase] += sm_op_bytes(plan, op);
    }
    return SM_OK;
}

static sm_status write_timeline_page(void *timeline, FILE *out) {
    sm_page_write(out, "Memory of a step", (const char *const[2]){"timeline.js"}, 0, json_incref(timeline));
    return SM_OK;
}

sm_status cli_write_timeline(const char *path, const cli_job *job, const sm_plan *plan, const int64_t *op_ns,
                             int64_t allocated_bytes) {
    const int64_t tensor_bytes = (int64_t)sm_plan_memory(plan, NULL);
    const size_t working_bytes = allocated_bytes > tensor_bytes ? (size_t)(allocated_bytes - tensor_bytes) : 0;
    char title[SM_ROW_REASON_SIZE];
    SM_OWN(json_t) *timeline = sm_profile_timeline(plan, op_ns, working_bytes);
    snprintf(title, sizeof(title), "Memory of a step: %s, B=%lld T=%lld, %s, %s, recompute %s", job->model,
             (long long)job->B, (long long)job->T, sm_mode_name(job->mode), cli_precision_name(job->precision),
             sm_recompute_name(cli_recompute(job)));
    json_object_set_new(timeline, "title", json_string(title));
    return sm_has_ending(path, "html htm") ? cli_write_page(path, write_timeline_page, timeline, "")
                                           : cli_write_json(timeline, path);
}

// Whether a batch of B fits. A plan that cannot be built does not fit.
static bool fits(const cli_job *job, int64_t B, cli_target target, int64_t limit_bytes) {
    cli_job other = *job;
    cli_forecast f;
    other.B = B;
    return cli_forecast_job(&other, target, &f) == SM_OK && f.memory_bytes <= limit_bytes;
}

// Doubles B until it does not fit, then bisects.
int64_t cli_largest_batch(const cli_job *job, cli_target target, int64_t limit_bytes) {
    int64_t lowest = 0, highest = 1; // the lowest fits
    while (highest <= CLI_MAX_BATCH && fits(job, highest, target, limit_bytes)) {
        lowest = highest;
        highest *= 2;
    }
    highest = highest > CLI_MAX_BATCH ? CLI_MAX_BATCH + 1 : highest; // stop above the limit
    while (highest - lowest > 1) {
        int64_t middle = lowest + (highest - lowest) / 2;
        *(fits(job, middle, target, limit_bytes) ? &lowest : &highest) = middle;
    }
    return lowest;
}
