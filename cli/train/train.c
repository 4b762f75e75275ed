// train.c: trains on a data file: from flags to the trainer's settings, and its display.
#include "cli/train/train.h"

#include <unistd.h>

#include "clock.h"
#include "bench/rows/machine.h"
#include "bench/tables/screen.h"
#include "src/io/atomic_file.h"
#include "src/io/shell_word.h"
#include "src/weights/weights.h"

enum { DEFAULT_STEPS = 10 };

// --profile instruments every fourth step, but the first two of a process.
enum { PERIOD = 4, N_UNTYPICAL = 2, MOST_APART = 64 };

// Times to measure the peak. A processor's clock settles within milliseconds; a card's, and a profile's streams, later.
static const double peak_seconds = 0.5, processor_peak_seconds = 0.2;

typedef struct {
    cli_options options; // with the micro-batches of a step, the files of a data folder and a run's weights set
    char weights[PATH_MAX];
    cli_job job;
    sm_train_settings settings;
    cli_train_data data;
    sm_comm *comm;
    sm_device *device;
    sm_session *session;
    sm_session *val_session;
    json_t *configuration;
    char *command_line;
    cli_train_show show;
    cli_train_sampler sampler;
    sm_peaks peaks;
    sm_train_progress progress;
    sm_loop *loop; // NULL: no --profile
    sm_sensors *sensors;
    sm_reading before; // at the start of the training
} training;

// --- facts for run.json --------------------------------------------------------------------

// {engine, model, n_threads, precision, recompute, dropout, loss_scale, shard, gradients, weights}: must agree when a
// run resumes, and between compared runs.
static json_t *configuration_of(const cli_options *options, const cli_job *job, const sm_device *device) {
    const sm_model_config *c = &job->config;
    char without[SM_ROW_TEXT_SIZE] = "";
    cli_append_without(job, without, sizeof without);
    const char *size = options->model.weights != NULL ? options->model.weights : options->model.models.texts[0];
    json_t *model =
        sm_model_fields_to_json(c, json_pack("{s: s, s: o}", "arch", c->model->name, "size", sm_json_bytes(size)));
    (void)json_object_set_new(model, "n_params", json_integer(sm_model_n_params(c)));
    return json_pack(
        "{s: {s: s, s: s, s: s, s: s, s: s, s: s}, s: o, s: i, s: s, s: s, s: f, s: s, s: s, s: s, s: o, s: o*, s: s*, "
        "s: s*, s: s*, s: s*, s: s*, s: s*}",
        "engine", "name", "stepmark", "build_commit", sm_build.commit, "mode", sm_mode_name(job->mode), "backend",
        device->backend->name, "isa", device->info.isa, "tier", device->info.tier, "model", model, "n_threads",
        device->info.n_threads, "precision", cli_precision_name(job->precision), "recompute",
        sm_recompute_name(cli_recompute(job)), "dropout", options->work.dropout, "loss_scale",
        cli_loss_scale(options, job->precision), "shard", options->processes.shard != 0 ? "optimizer" : "none",
        "gradients", options->processes.gradient_format != 0 ? "bf16" : "fp32", "weights",
        sm_json_text(options->model.weights), "own_kernels",
        device->info.own_kernels[0] != '\0' ? sm_json_bytes(device->info.own_kernels) : NULL, "documents",
        options->work.documents, "padding",
        options->work.documents != NULL ? sm_padding_name(cli_padding(options)) : NULL, "long_documents",
        options->work.documents != NULL ? sm_long_document_name((sm_long_document)options->work.long_documents) : NULL,
        "without", without[0] != '\0' ? without : NULL, "attention",
        cli_attention(job) == SM_ATTENTION_NAIVE && job->mode != SM_MODE_NAIVE ? "naive" : NULL, "products",
        options->device.openblas ? "openblas" : NULL);
}

// {max_memory_bytes: of the device's memory, else of this process; other_cpus, own_cpus, steal_share,
// involuntary_switches: since the start, as in a row}.
static json_t *end_facts(void *ctx) {
    const training *t = ctx;
    const sm_session *session = t->session;
    const int64_t resident_bytes = sm_machine_peak_rss_bytes();
    json_t *facts = json_pack("{s: I}", "max_memory_bytes",
                              session->device->info.is_host_processor && resident_bytes > 0
                                  ? (json_int_t)resident_bytes
                                  : (json_int_t)session->executable->memory_bytes);
    // Absent if they cannot be read.
    sm_reading after;
    SM_ROW(row);
    sm_sensors_read(t->sensors, &after);
    const sm_row_sensors *s = &row.sensors;
    sm_sensors_report(t->sensors, &t->before, &after, 1, NAN, &row);
    return sm_json_put(facts, {"other_cpus", sm_json_real(s->other_cpus)}, {"own_cpus", sm_json_real(s->own_cpus)},
                       {"steal_share", sm_json_real(s->steal_share)},
                       {"involuntary_switches", json_integer(s->involuntary_switches)});
}

// --- setting up ----------------------------------------------------------------------------

// Checks the flags that need a run folder, or that exclude one.
static sm_status check_folder_flags(const cli_options *o) {
    SM_FAIL_IF(o->train.run != NULL && (o->train.log != NULL || o->train.save != NULL), SM_ERR_USAGE,
               "--%s: with --run the %s in its folder; leave it out", o->train.log != NULL ? "log" : "save",
               o->train.log != NULL ? "log is log.jsonl" : "weights are in model/");
    SM_FAIL_IF(o->train.run == NULL && (o->train.save_every > 0 || o->train.resume_run != SM_RESUME_NONE ||
                                        o->train.keep_best || o->train.sample_every > 0),
               SM_ERR_USAGE, "give --run DIR: what is saved, resumed or sampled lies in its folder");
    SM_FAIL_IF(o->train.sample_every > 0 && o->generate.prompt == NULL, SM_ERR_USAGE, "--sample-every: give --prompt");
    return o->train.run != NULL ? sm_run_folder_check(o->train.run, (sm_resume)o->train.resume_run) : SM_OK;
}

// Defaults: a run learns as language models are usually trained; a few steps without a folder stay plain.
static sm_status set_recipe(training *t) {
    const cli_options *o = &t->options;
    sm_train_settings *s = &t->settings;
    const bool is_run = o->train.run != NULL;
    const sm_schedule_kind usual = is_run ? SM_SCHEDULE_COSINE : SM_SCHEDULE_CONSTANT;
    sm_step_settings *optimizer = &s->optimizer;
    s->order = o->train.data_order >= 0 ? (sm_order_kind)o->train.data_order
               : is_run                 ? SM_ORDER_SHUFFLED
                                        : SM_ORDER_SEQUENTIAL;
    s->schedule = o->train.schedule >= 0 ? (sm_schedule_kind)o->train.schedule : usual;
    s->warmup_steps = o->train.warmup_steps >= 0 ? o->train.warmup_steps : is_run ? SM_WARMUP_SHARE : 0;
    s->final_fraction = 0.1;
    optimizer->grad_clip = is_run && isnan(o->train.settings.grad_clip) ? 1 : optimizer->grad_clip;
    if (is_run && sm_is_word_of(sm_optimizer_at(o->work.optimizer)->name, "adam adamw adamw8bit")) {
        optimizer->beta2 = isnan(o->train.settings.beta2) ? 0.95 : optimizer->beta2;
        optimizer->lr = isnan(o->train.settings.lr) ? fmin(6e-3, 0.5 / (double)t->job.config.d_model) : optimizer->lr;
    }
    if (isnan(o->train.min_lr)) {
        return SM_OK;
    }
    SM_FAIL_IF(s->schedule == SM_SCHEDULE_CONSTANT, SM_ERR_USAGE,
               "--min-lr: a constant learning rate has none; give --schedule cosine, linear or wsd");
    SM_FAIL_IF(o->train.min_lr > optimizer->lr, SM_ERR_USAGE, "--min-lr: %g is above the learning rate of %g",
               o->train.min_lr, optimizer->lr);
    s->final_fraction = optimizer->lr > 0 ? o->train.min_lr / optimizer->lr : 0;
    return SM_OK;
}

static sm_status open_session(training *t) {
    sm_plan *plan;
    SM_TRY(cli_job_plan(&t->job, t->device->info.max_alloc_bytes, &plan));
    cli_count_tokens(&t->data.data.collation, &plan->real_tokens, &plan->attended_pairs);
    t->show.step_flops = sm_pass_flops(plan, SM_PASS_STEP, (int)t->options.work.accum);
    SM_TRY(sm_session_open_among(t->comm, t->device, plan, &t->session));
    if (sm_comm_size(t->comm) > 1) {
        const char *devices = sm_exchange_devices(t->session->exchange);
        cli_note("gradients travel by %s%s%s", sm_exchange_transport(t->session->exchange),
                 devices[0] != '\0' ? ", between unlike or shared devices: " : "", devices);
    }
    const char *const warnings[] = {sm_exchange_advice(t->session->exchange), t->session->executable->tune_warning,
                                    t->session->executable->note};
    for (size_t i = 0; i < sizeof(warnings) / sizeof(warnings[0]); i++) {
        if (warnings[i][0] != '\0') {
            cli_note("%s", warnings[i]);
        }
    }
    return SM_OK;
}

// Measures the peak, unless that is impossible; the share of the peak is then omitted. Several processes would disturb
// each other. Only a profile needs the bandwidth of memory, which takes longest.
static void measure_peak(training *t) {
    const bool is_short = t->device->info.n_threads > 0 && !t->options.train.profile;
    const double seconds = is_short ? processor_peak_seconds : peak_seconds;
    if (!cli_interrupted && sm_comm_size(t->comm) == 1 &&
        cli_measure_peaks(t->device, t->job.precision, t->options.train.profile ? 0 : 1, seconds, &t->peaks) == SM_OK) {
        t->show.peak_flops = t->peaks.flops;
    }
}

static sm_status set_run(training *t) {
    const cli_options *o = &t->options;
    sm_train_settings *s = &t->settings;
    if (o->train.run == NULL) {
        return SM_OK;
    }
    s->run_dir = o->train.run;
    measure_peak(t); // before the training's time and memory are counted
    sm_machine_reset_peak_rss();
    s->save_every = o->train.save_every;
    s->keep = o->train.keep;
    s->resume = (sm_resume)o->train.resume_run;
    t->show.tells_progress = true;
    t->show.is_live = o->train.log_every == 0 && cli_train_screen_fits();
    s->keep_best = o->train.keep_best;
    s->sample_every = o->train.sample_every;
    if (o->train.sample_every > 0 && sm_comm_rank(t->comm) == 0) {
        SM_TRY(cli_train_sampler_open(o, &t->job, t->data.tokenizer_folder, t->device, &t->sampler));
    }
    s->configuration = t->configuration = configuration_of(o, &t->job, t->device);
    s->command_line = t->command_line = sm_shell_line(o->argv, o->argc);
    sm_sensors_open("", "", &t->sensors);
    sm_sensors_read(t->sensors, &t->before);
    // {processes, hosts [one for each process], environment, host, hardware, build, scheduler}, of all processes.
    enum { HOST_BYTES = 64 };
    const char *transport = sm_exchange_transport(t->session->exchange);
    const int n = sm_comm_size(t->comm);
    char mine[HOST_BYTES] = "";
    SM_FREED char *all = sm_calloc((size_t)n, HOST_BYTES);
    json_t *hosts = json_array();
    s->facts = sm_training_facts(o->argc, o->argv, &t->session->device->info);
    if (transport[0] != '\0') {
        json_object_set_new(s->facts, "transport", json_string(transport));
        json_object_set_new(json_object_get(s->facts, "hardware"), "devices",
                            sm_json_text(sm_exchange_devices(t->session->exchange)));
    }
    json_object_set_new(s->facts, "hosts", hosts);
    json_object_set_new(s->facts, "processes", json_integer(n));
    (void)gethostname(mine, sizeof(mine) - 1);
    SM_TRY(sm_comm_gather(t->comm, mine, sizeof(mine), all));
    for (int i = 0; i < n; i++) {
        json_array_append_new(hosts, json_string(all + (size_t)i * HOST_BYTES));
    }
    return SM_OK;
}

// Drivers leave the processors idle.
static sm_status draw_early(const training *t) {
    const cli_options *o = &t->options;
    const sm_plan_options smallest = {.B = 1, .T = 1, .dtype = SM_F32};
    sm_plan *plan = NULL;
    if (sm_comm_size(t->comm) == 1 || t->job.device.backend->foresee == NULL || o->model.weights != NULL ||
        o->train.resume_run != SM_RESUME_NONE || sm_model_n_params(&t->job.config) > 1 << 28) { // 1 GiB
        return SM_OK;
    }
    SM_TRY(sm_model_build(&t->job.config, &smallest, &plan));
    sm_session_draw_early(plan, (uint64_t)o->work.seed);
    return SM_OK;
}

// The part that each process does alone, and in which it may fail alone.
static sm_status open_files(training *t) {
    cli_options *o = &t->options;
    SM_TRY(check_folder_flags(o));
    if (o->model.weights != NULL) {
        SM_TRY(cli_find_weights(o->model.weights, t->weights));
        o->model.weights = t->weights;
    }
    SM_TRY(cli_job_of(o, t->comm, &t->job));
    const char *name = o->model.models.texts[0];
    const sm_model_size *size = sm_model_size_find(t->job.config.model, name);
    const bool is_it = size != NULL && size->config.n_layer == t->job.config.n_layer &&
                       size->config.d_model == t->job.config.d_model;
    SM_FAIL_IF(o->model.weights != NULL && !is_it && strcmp(name, "auto") != 0, SM_ERR_USAGE,
               "-m %s: the model of --weights has another size; leave -m out", name);
    SM_TRY(cli_settings(o, &t->settings.optimizer));
    SM_TRY(set_recipe(t));
    // --accum from --global-batch.
    const int64_t round = t->job.B * sm_comm_size(t->comm); // sequences of all processes' micro-batches
    o->train.global_batch = o->train.global_batch == 0 ? o->work.accum * round : o->train.global_batch;
    SM_FAIL_IF(o->train.global_batch % round != 0 ||
                   (o->work.accum > 1 && o->work.accum * round != o->train.global_batch),
               SM_ERR_USAGE, "--global-batch: %lld is not %s%lld, --batch-size %lld times %d processes",
               (long long)o->train.global_batch, o->work.accum > 1 ? "--accum times " : "a multiple of ",
               (long long)round, (long long)t->job.B, sm_comm_size(t->comm));
    o->work.accum = o->train.global_batch / round;
    t->job.protocol.n_accum = (int)o->work.accum;
    t->job.plan.one_micro_batch = o->work.accum <= 1;
    cli_stage("opening the data", NULL);
    SM_TRY(cli_train_data_open(o, &t->job, &t->data, &t->settings));
    cli_device_list devices;
    SM_TRY(cli_select_devices(&o->device.backends, &devices));
    SM_TRY(cli_choose_device(t->comm, &devices, &t->job.device));
    SM_TRY(draw_early(t));
    cli_stage("opening the device", NULL);
    return cli_open_device(t->job.device, t->job.n_threads, o, &t->device);
}

static sm_status set_up(training *t) {
    cli_stage("looking at the data", NULL);
    // One process may write tokens, which the others then find.
    const bool is_first = sm_comm_rank(t->comm) == 0;
    SM_TRY(sm_comm_agree(t->comm, is_first ? cli_train_choose(&t->options) : SM_OK));
    SM_TRY(is_first ? SM_OK : cli_train_choose(&t->options));
    const sm_status opened = open_files(t);
    SM_TRY(cli_compare_files(&t->options, opened, &t->settings.data, &t->settings.validation, t->device, t->comm));
    cli_stage("building the step", NULL);
    SM_TRY(open_session(t));
    if (t->settings.validation.tokens != NULL && t->options.work.dropout != 0) {
        // Dropout is part of a plan: validation, which has none, needs its own plan.
        cli_job job = t->job;
        sm_plan *plan;
        job.pass = SM_PASS_FORWARD;
        job.plan.dropout_p = 0;
        job.plan.processes = (sm_processes){.n = 1};
        SM_TRY(cli_job_plan(&job, t->device->info.max_alloc_bytes, &plan));
        SM_TRY(sm_session_open(t->device, plan, &t->val_session));
    }
    const cli_options *o = &t->options;
    sm_train_settings *s = &t->settings;
    s->session = t->session;
    s->val_session = t->val_session;
    s->config = &t->job.config;
    s->comm = t->comm;
    s->global_batch = o->train.global_batch;
    s->seed = (uint64_t)o->work.seed;
    s->max_steps = o->train.steps == 0 && o->train.epochs == 0 && o->train.tokens == 0 ? DEFAULT_STEPS : o->train.steps;
    s->max_epochs = o->train.epochs;
    s->max_tokens = o->train.tokens;
    s->val_every = o->train.val_every;
    s->val_batches = o->train.val_batches;
    s->log = o->train.log;
    s->save = o->train.save;
    s->interrupted = &cli_interrupted;
    t->show.every = o->train.log_every;
    t->show.is_unchecked = o->train.no_checks;
    SM_FAIL_IF(!o->train.no_checks && !(os_draw(&s->check_seed, sizeof(s->check_seed)) && s->check_seed != 0),
               SM_ERR_IO, "no random number for the checks; give --no-checks");
    if (t->options.train.profile) {
        char name[CLI_LOADER_NAME_SIZE];
        cli_loader_name(&s->loader, name);
        t->loop = sm_loop_open(
            &(sm_loop_settings){.stepper = {.session = s->session, .n_accum = o->work.accum},
                                .loader = name,
                                .n_loader_threads = s->loader.kind == SM_LOADER_INLINE ? 0 : s->loader.n_threads,
                                .n_attribution = MOST_APART});
    }
    return set_run(t);
}

// --- what the trainer asks for -------------------------------------------------------------

static sm_status write_file(const char *folder, const char *name, const char *text) {
    char path[PATH_MAX];
    SM_TRY(sm_make_path(path, "%s/%s", folder, name));
    return sm_atomic_write_all(path, text, strlen(text));
}

// Copies the tokenizer into RUN/NAME. `tokenizer` NULL: does nothing.
static sm_status keep_tokenizer(const char *tokenizer, const char *run, const char *name) {
    char folder[PATH_MAX];
    SM_OWN(sm_tokenizer) *t = NULL;
    if (tokenizer == NULL) {
        return SM_OK;
    }
    SM_TRY(sm_make_path(folder, "%s/%s", run, name));
    SM_TRY(sm_tokenizer_read(tokenizer, &t));
    return sm_tokenizer_write(t, folder);
}

static sm_status initialise(void *ctx, sm_session *session, int64_t *step) {
    training *t = ctx;
    const char *folder = t->options.model.weights;
    *step = 0;
    if (folder == NULL) {
        return cli_load_weights(session, &t->job.config, (uint64_t)t->options.work.seed, NULL);
    }
    SM_TRY(sm_weights_load(folder, &t->job.config, session, step));
    if (*step > 0) {
        cli_note("%s: resumes after step %lld", folder, (long long)*step);
    } else {
        cli_note("%s: no optimizer state; %s starts with a new one", folder, session->plan->optimizer->title);
    }
    return SM_OK;
}

static sm_status begun(void *ctx, const sm_train_progress *progress, const sm_schedule *schedule) {
    training *t = ctx;
    t->progress = *progress;
    if (t->options.train.run == NULL) {
        return SM_OK;
    }
    cli_train_show_begin(&t->show, &t->settings, schedule);
    return keep_tokenizer(t->data.tokenizer_folder, t->options.train.run, "tokenizer");
}

static sm_status validated(void *ctx, const sm_train_progress *progress) {
    training *t = ctx;
    t->progress = *progress;
    return cli_train_show_validation(&t->show, progress);
}

static sm_status sample(void *ctx, char **text) {
    training *t = ctx;
    return cli_train_sampler_run(&t->sampler, t->session, text);
}

static sm_status stepped(void *ctx, const sm_train_progress *progress, const sm_train_step *step) {
    training *t = ctx;
    t->progress = *progress;
    SM_TRY(cli_train_show_step(&t->show, progress, step));
    if (t->options.train.run == NULL && step->step == progress->first_step + 1 && step->step < progress->n_steps) {
        measure_peak(t); // so that the first step does not wait for it
    }
    return SM_OK;
}

// The recorder of the next step; NULL: a step without instruments.
static sm_step_phases *time_apart(void *ctx, const sm_train_progress *progress) {
    training *t = ctx;
    t->progress = *progress;
    const int64_t index = progress->step - progress->first_step - N_UNTYPICAL; // of the next step
    return t->loop != NULL && index >= 0 && index % PERIOD == PERIOD - 1 ? sm_loop_time_apart(t->loop) : NULL;
}

static sm_status timed(void *ctx, const sm_train_step *step, const sm_step_phases *phases) {
    training *t = ctx;
    if (t->loop != NULL && step->step - t->progress.first_step > N_UNTYPICAL) {
        sm_loop_keep(t->loop, step, phases);
    }
    return SM_OK;
}

// A training in a run folder is never killed while it saves: its step and its checkpoint may take long.
static void set_saving(void *ctx, bool saving) {
    const training *t = ctx;
    sm_worker_set_saving(saving || t->options.train.run != NULL);
    cli_stage(saving ? "writing what was trained" : "training", NULL);
}

static sm_status completed(void *ctx, const char *run_dir) {
    training *t = ctx;
    SM_TRY(keep_tokenizer(t->data.tokenizer_folder, run_dir, "model"));
    // training_metrics.json is made from run.json and log.jsonl, and then RUN_COMPLETE.txt, which marks a complete run.
    SM_OWN(json_t) *metrics = NULL;
    char complete[SM_RUN_COMPLETE_SIZE], digest[SM_DIGEST_SIZE];
    SM_TRY(sm_training_metrics_make(run_dir, &metrics));
    SM_FREED char *text = json_dumps(metrics, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    SM_TRY(write_file(run_dir, SM_TRAINING_METRICS_FILE, text));
    sm_digest_bytes(text, strlen(text), digest);
    sm_run_complete_text(metrics, digest, complete);
    SM_TRY(write_file(run_dir, SM_RUN_COMPLETE_FILE, complete));
    cli_train_show_leave(&t->show, &t->progress);
    t->show.is_live = false; // what follows stands below
    cli_train_show_end(&t->show, &t->settings, &t->progress);
    return SM_OK;
}

// Its phases, as in `loop`.
static sm_status show_profile(const training *t) {
    SM_ROW(row);
    int n_apart;
    (void)sm_loop_steps(t->loop, &n_apart);
    if (n_apart == 0) {
        cli_note("--profile: a training of fewer than %d steps has no step whose ops are timed", N_UNTYPICAL + PERIOD);
        return SM_OK;
    }
    SM_OWN(json_t) *machine = sm_machine_facts(t->options.argc, t->options.argv);
    const cli_bench bench = {.options = &t->options, .machine = machine};
    SM_TRY(cli_set_configuration(&bench, &t->job, &row));
    sm_row_set_device(&row, t->session->device->backend->name, &t->session->device->info);
    SM_ROW_TEXT(row.status, "ok");
    row.peak_flops = t->peaks.flops > 0 ? t->peaks.flops : NAN;
    row.peak_bandwidth = t->peaks.bandwidth_bytes_per_s > 0 ? t->peaks.bandwidth_bytes_per_s : NAN;
    row.peak_rss_bytes = sm_machine_peak_rss_bytes();
    row.device_peak_bytes = (int64_t)t->session->executable->memory_bytes;
    SM_TRY(sm_loop_conclude(t->loop, &row));
    putchar('\n');
    return cli_loop_show(&row, NULL, sm_screen_width(stdout) > 0 ? SM_FORMAT_TEXT : SM_FORMAT_MARKDOWN);
}

static void close_all(training *t) {
    json_decref(t->settings.facts);
    json_decref(t->configuration);
    free(t->command_line);
    sm_loop_close(t->loop);
    cli_train_sampler_close(&t->sampler);
    sm_sensors_close(t->sensors);
    sm_session_close(t->val_session);
    sm_session_close(t->session);
    sm_device_close(t->device);
    cli_train_data_close(&t->data);
}

sm_status cli_train(const cli_options *options) {
    static training t; // static because of its lists
    t = (training){.options = *options,
                   .settings = {.process_start_ns = sm_now_ns(), .background = sm_background_here()}};
    t.settings.loader.background = t.settings.background;
    const sm_train_callbacks callbacks = {.ctx = &t,
                                          .initialise = initialise,
                                          .begun = begun,
                                          .validated = validated,
                                          .sample = sample,
                                          .stepped = stepped,
                                          .time_apart = time_apart,
                                          .timed = timed,
                                          .note = cli_token_note,
                                          .saving = set_saving,
                                          .end_facts = end_facts,
                                          .completed = completed};
    signal(SIGPIPE, SIG_IGN); // a reader that ends, as in `train | head`, is a failed write, not the end of the program
    sm_status status = cli_join(options, &t.comm);
    if (status == SM_OK) {
        status = set_up(&t);
        status = status == SM_OK || !sm_comm_has_agreed(t.comm) ? sm_comm_agree(t.comm, status) : status;
    }
    if (status == SM_OK) {
        set_saving(&t, false);
        status = sm_train(&t.settings, &callbacks);
        cli_train_show_leave(&t.show, &t.progress);
        status = status == SM_OK && t.loop != NULL && sm_comm_rank(t.comm) == 0 ? show_profile(&t) : status;
        sm_worker_set_saving(false);
    }
    close_all(&t);
    return cli_leave(t.comm, status);
}

sm_status cli_init(const cli_options *options) {
    sm_model_config config;
    SM_TRY(cli_model_config(options, options->model.models.texts[0], &config));
    SM_FAIL_IF(options->train.save == NULL, SM_ERR_USAGE, "--save: missing; give the folder to write the model to");
    SM_TRY(sm_weights_init(options->train.save, &config, (uint64_t)options->work.seed));
    printf("%s: %s %s, %s parameters, seed %lld\n", options->train.save, config.model->title,
           options->model.models.texts[0], SM_TEXT_COUNT(sm_model_n_params(&config)), (long long)options->work.seed);
    return SM_OK;
}
