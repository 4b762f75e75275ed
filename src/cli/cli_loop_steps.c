// cli_loop_steps.c: see cli_loop_steps.h.
#include "cli_loop_steps.h"

#include "cli_commands.h"

enum { LEAST_ATTRIBUTION = 6, MOST_ATTRIBUTION = 10 }; // the least has an interval

bool cli_is_loop(const cli_options *options) { return options->command == CLI_LOOP; }

int cli_loop_attribution(const cli_options *options) {
    const int64_t n = options->repetitions;
    return n < LEAST_ATTRIBUTION ? LEAST_ATTRIBUTION : n > MOST_ATTRIBUTION ? MOST_ATTRIBUTION : (int)n;
}

static sm_status log_step(void *ctx, const sm_train_step *step) { return sm_train_log_step(ctx, step); }

static sm_status open_data(const cli_options *options, const cli_job *job, const sm_background *background,
                           cli_loop_steps *s) {
    const int64_t share = options->accum * job->B; // sequences of this process a step
    SM_TRY(cli_open_tokens(options, job->config.vocab, &s->tokens));
    s->order = (sm_data_order){.kind = (sm_order_kind)options->data_order,
                               .seed = (uint64_t)options->seed,
                               .n_sequences = (sm_tokens_count(s->tokens) - 1) / job->T};
    return sm_train_data_open(&(sm_train_share){.tokens = s->tokens,
                                                .order = s->order,
                                                .T = job->T,
                                                .stride = share * sm_comm_size(job->comm),
                                                .first = share * sm_comm_rank(job->comm),
                                                .n = share},
                              SM_CHECKED_STEPS + 1, background, &s->data);
}

static sm_status open_loop(const cli_options *options, const cli_job *job, sm_session *session,
                           const sm_workload *checks, cli_loop_steps *s) {
    const sm_step_settings settings = sm_plan_settings(session->plan);
    const bool is_writer = sm_comm_rank(job->comm) == 0;
    if (options->log != NULL && is_writer) {
        SM_TRY(sm_train_log_append(options->log, &s->log));
    }
    return sm_loop_open(
        &(sm_loop_settings){
            .workload = checks,
            .stepper = {.session = session,
                        .comm = job->comm,
                        .data = s->data,
                        .data_name = options->data != NULL ? options->data : "embedded text",
                        .order = &s->order,
                        .optimizer = settings,
                        .schedule = {.kind = SM_SCHEDULE_CONSTANT, .lr = settings.lr, .n_steps = INT64_MAX},
                        .global_batch = options->accum * job->B * sm_comm_size(job->comm),
                        .n_accum = options->accum},
            .loader = "threads 1",
            .queue_depth = 1,
            .n_attribution = s->n_attribution,
            .log = s->log != NULL ? log_step : NULL,
            .log_ctx = s->log,
        },
        &s->loop);
}

sm_status cli_loop_steps_open(const cli_options *options, const cli_job *job, sm_session *session,
                              const sm_background *background, const sm_workload *checks, const sm_row *row,
                              cli_loop_steps *steps) {
    *steps = (cli_loop_steps){.n_attribution = cli_loop_attribution(options)};
    SM_TRY(open_data(options, job, background, steps));
    SM_TRY(open_loop(options, job, session, checks, steps));
    return sm_utilisation_start("", row->gpu_info, background, sm_utilisation_interval_ns, &steps->utilisation);
}

void cli_loop_steps_enter(cli_loop_steps *steps, sm_stage stage) {
    if (steps != NULL && stage >= SM_STAGE_HEADLINE) {
        sm_utilisation_enter(steps->utilisation,
                             stage == SM_STAGE_HEADLINE ? SM_UTILISATION_HEADLINE : SM_UTILISATION_AFTER);
    }
}

sm_status cli_loop_steps_report(cli_loop_steps *steps, sm_row *row) {
    SM_TRY(sm_utilisation_stop(steps->utilisation, &row->utilisation));
    return sm_loop_report(steps->loop, row);
}

void cli_loop_steps_close(cli_loop_steps *steps) {
    sm_utilisation_close(steps->utilisation);
    sm_loop_close(steps->loop);
    sm_train_log_close(steps->log);
    sm_train_data_close(steps->data);
    sm_tokens_close(steps->tokens);
    *steps = (cli_loop_steps){.tokens = NULL};
}
