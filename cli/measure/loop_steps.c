// loop_steps.c: see measure/loop.h.
#include "cli/measure/loop.h"

#include <stdio.h>

#include "bench/loop/loop.h"
#include "cli/flags/options.h"
#include "cli/output/files.h"

enum { LEAST_ATTRIBUTION = 6, MOST_ATTRIBUTION = 10 }; // the fewest that give an interval

bool cli_is_loop(const cli_options *options) { return options->command == CLI_LOOP; }

int cli_loop_attribution(const cli_options *options) {
    const int64_t n = options->measure.repetitions;
    if (options->measure.no_phases) {
        return 0;
    }
    return n < LEAST_ATTRIBUTION ? LEAST_ATTRIBUTION : n > MOST_ATTRIBUTION ? MOST_ATTRIBUTION : (int)n;
}

static sm_status log_step(void *ctx, const sm_train_step *step) { return sm_train_log_step(ctx, step); }

// Opens data and log, so that errors appear before anything is measured. The loader's threads may use the calling
// thread's current processors. Everything not opened is zero.
static sm_status open_data(const cli_options *options, const cli_job *job, cli_loop_steps *s) {
    *s = (cli_loop_steps){.options = *options};
    s->settings = (sm_train_settings){.config = &job->config,
                                      .comm = job->comm,
                                      .global_batch = options->work.accum * job->B * sm_comm_size(job->comm),
                                      .order = (sm_order_kind)options->train.data_order,
                                      .seed = (uint64_t)options->work.seed,
                                      .background = sm_background_here()};
    s->settings.loader.background = s->settings.background;
    SM_TRY(cli_train_data_open(&s->options, &job->config, job->B, job->T, &s->data, &s->settings));
    return options->train.log != NULL && sm_comm_rank(job->comm) == 0 ? sm_train_log_append(options->train.log, &s->log)
                                                                      : SM_OK;
}

sm_status cli_open_data(const cli_options *options, const cli_job *job, cli_loop_steps *loop, cli_workload *w) {
    if (loop == NULL) {
        return cli_workload_open(options, &job->config, job->B, job->T, w);
    }
    SM_TRY(open_data(options, job, loop));
    return cli_workload_open_of(options, &job->config, job->B, job->T, loop->data.data.tokens, w);
}

void cli_loader_name(const sm_loader_settings *loader, char name[CLI_LOADER_NAME_SIZE]) {
    if (loader->kind == SM_LOADER_INLINE) {
        snprintf(name, CLI_LOADER_NAME_SIZE, "%s", sm_loader_name(loader->kind));
    } else {
        snprintf(name, CLI_LOADER_NAME_SIZE, "%s:%d", sm_loader_name(loader->kind), loader->n_threads);
    }
}

static void open_loop(cli_loop_steps *s, const sm_train_stepper *stepper, const sm_workload *checks) {
    char name[CLI_LOADER_NAME_SIZE];
    const sm_loader_settings *loader = &s->settings.loader;
    const bool is_inline = loader->kind == SM_LOADER_INLINE;
    cli_loader_name(loader, name);
    s->loop = sm_loop_open(&(sm_loop_settings){.workload = checks,
                                               .stepper = *stepper,
                                               .loader = name,
                                               .n_loader_threads = is_inline ? 0 : loader->n_threads,
                                               .n_attribution = cli_loop_attribution(&s->options),
                                               .log = s->log != NULL ? log_step : NULL,
                                               .log_ctx = s->log});
}

sm_status cli_loop_steps_start(cli_loop_steps *s, sm_session *session, const sm_workload *checks, const sm_row *row) {
    sm_train_stepper stepper;
    s->settings.session = session;
    s->settings.optimizer = sm_plan_settings(session->plan);
    SM_TRY(sm_train_prepare(&s->settings, &s->share, &stepper));
    stepper.schedule =
        (sm_schedule){.kind = SM_SCHEDULE_CONSTANT, .lr = s->settings.optimizer.lr, .n_steps = INT64_MAX};
    SM_TRY(sm_loader_open(&s->settings.loader, &s->share, SM_CHECKED_STEPS + 1, &s->loader));
    stepper.loader = s->loader;
    open_loop(s, &stepper, checks);
    return sm_utilisation_start("", row->gpu_info, &s->settings.background, sm_utilisation_interval_ns,
                                &s->utilisation);
}

void cli_loop_steps_enter(cli_loop_steps *steps, sm_stage stage) {
    if (steps != NULL && stage >= SM_STAGE_HEADLINE) {
        sm_utilisation_enter(steps->utilisation,
                             stage == SM_STAGE_HEADLINE ? SM_UTILISATION_HEADLINE : SM_UTILISATION_AFTER);
    }
}

static sm_status write_trace(const cli_loop_steps *s, const sm_row *row) {
    const bool own_device = row->gpu_info[0] != '\0';
    if (s->options.out.trace == NULL || sm_comm_rank(s->settings.comm) != 0) {
        return SM_OK;
    }
    json_t *trace = sm_loop_trace(s->loop, s->settings.session->plan, own_device ? "kernel" : "cpu_op", row->device);
    sm_status status = cli_write_trace(trace, s->options.out.trace);
    json_decref(trace);
    return status;
}

sm_status cli_loop_steps_report(cli_loop_steps *steps, sm_row *row) {
    sm_utilisation_stop(steps->utilisation, &row->utilisation);
    SM_TRY(sm_loop_report(steps->loop, row));
    sm_loop_withhold_verdict(row);
    return write_trace(steps, row);
}

void cli_loop_steps_close(cli_loop_steps *steps) {
    sm_utilisation_close(steps->utilisation);
    sm_loop_close(steps->loop);
    (void)sm_train_log_close(steps->log);
    sm_loader_close(steps->loader);
    cli_train_data_close(&steps->data);
}
