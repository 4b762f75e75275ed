// cli_train.c: real training on a data file, one line a step.
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "cli_commands.h"
#include "cli_measure.h"
#include "cli_model.h"
#include "cli_settings.h"
#include "cli_precision.h"
#include "cli_processes.h"
#include "cli_session.h"
#include "cli_train_log.h"
#include "schedule.h"
#include "show.h"
#include "weights.h"
#include "worker.h"

static const double peak_seconds = 0.5; // for measuring what 100% is
static const double cosine_final_fraction = 0.1;
static const double least_loss_scale = 0x1p-24; // where gradients are not finite even then, it is not for the scale

typedef struct {
    const cli_options *options;
    cli_job job; // its device is not used
    sm_step_settings settings;
    sm_comm *comm;
    sm_tokens *tokens;
    sm_device *device;
    sm_session *session;
    cli_train_log *log;
    int32_t *inputs; // B*T, then as many targets
    int32_t *targets;
    int64_t n_skipped;  // so far, because their gradients were not finite
    int64_t first_step; // steps that the loaded optimizer state has behind it
    double step_flops;  // of all micro-batches and the update
    double peak_flops;  // FLOP/s; 0 = unknown
    bool file_failed;   // data, log or stdout: what ends the training left the weights whole
} training;

// --- setting up ----------------------------------------------------------------------------

static sm_status check_options(training *t) {
    const cli_options *options = t->options;
    SM_TRY(cli_check_single("--model-size", options->models.n));
    SM_TRY(cli_check_single("--batch-size", options->batch_sizes.n));
    SM_TRY(cli_check_single("--seq-len", options->seq_lens.n));
    SM_TRY(cli_check_single("--threads", options->threads.n));
    SM_TRY(cli_check_single("--mode", options->modes.n));
    SM_TRY(cli_check_single("--precision", options->precisions.n));
    t->job.precision = (cli_precision)options->precisions.values[0];
    t->job.mode = (sm_mode)options->modes.values[0];
    t->job.pass = SM_PASS_STEP;
    t->job.B = options->batch_sizes.values[0];
    t->job.T = options->seq_lens.values[0];
    SM_TRY(cli_config(options, options->models.texts[0], &t->job.config));
    SM_TRY(cli_check_seq_len(&t->job.config, t->job.T));
    return cli_settings(options, &t->settings);
}

static sm_status open_device(training *t) {
    const cli_options *options = t->options;
    cli_device_list devices;
    SM_TRY(cli_select_devices(&options->backends, &devices));
    cli_device device;
    SM_TRY(cli_choose_device(t->comm, &devices, &device));
    return cli_open_device(device, options->threads.n > 0 ? options->threads.values[0] : 0, options, &t->device);
}

static double range_flops(const sm_plan *plan, sm_phase range) {
    sm_range ops = sm_plan_range(plan, range);
    double flops = 0;
    for (int i = ops.first; i < ops.end; i++) {
        flops += sm_op_flops(plan, &plan->ops[i]);
    }
    return flops;
}

static sm_status open_session(training *t) {
    const cli_options *options = t->options;
    sm_plan *plan;
    t->job.processes = cli_plan_processes(options, t->comm);
    SM_TRY(cli_job_plan(options, &t->job, t->device->info.max_alloc_bytes, &plan));
    t->step_flops =
        (double)options->accum * (range_flops(plan, SM_PHASE_FORWARD) + range_flops(plan, SM_PHASE_BACKWARD)) +
        range_flops(plan, SM_PHASE_OPTIMIZER);
    SM_TRY(sm_session_open_among(t->comm, t->device, plan, &t->session));
    if (t->session->executable->tune_warning[0] != '\0') {
        cli_note("%s", t->session->executable->tune_warning);
    }
    if (t->session->executable->note[0] != '\0') {
        cli_note("%s", t->session->executable->note);
    }
    return SM_OK;
}

static sm_status load_state(training *t) {
    const cli_options *options = t->options;
    if (options->weights == NULL) {
        return cli_load_weights(t->session, &t->job.config, (uint64_t)options->seed, NULL);
    }
    SM_TRY(sm_weights_load(options->weights, &t->job.config, t->session, &t->first_step));
    int64_t last_micro_step;
    if (__builtin_mul_overflow(t->first_step + options->steps, options->accum, &last_micro_step)) {
        return sm_fail(SM_ERR_INVALID, "%s: continues after step %lld; too many to count with --accum %lld",
                       options->weights, (long long)t->first_step, (long long)options->accum);
    }
    if (t->first_step > 0) {
        cli_note("%s: continues after step %lld", options->weights, (long long)t->first_step);
    } else {
        cli_note("%s: no optimizer state; %s starts anew", options->weights, t->session->plan->optimizer->title);
    }
    return SM_OK;
}

static sm_status set_up(training *t) {
    SM_TRY(check_options(t));
    SM_TRY(cli_open_tokens(t->options, t->job.config.vocab, &t->tokens));
    t->inputs = malloc(2 * (size_t)(t->job.B * t->job.T) * sizeof(*t->inputs));
    if (t->inputs == NULL) {
        return sm_fail(SM_ERR_OOM, "train: no memory for a batch of %lld x %lld tokens", (long long)t->job.B,
                       (long long)t->job.T);
    }
    t->targets = t->inputs + t->job.B * t->job.T;
    SM_TRY(
        sm_tokens_batch(t->tokens, 0, t->job.B, t->job.T, t->inputs, t->targets)); // too short a file is told at once
    if (t->options->log != NULL && sm_comm_rank(t->comm) == 0) {
        SM_TRY(cli_train_log_open(t->options->log, &t->log));
    }
    SM_TRY(open_device(t));
    SM_TRY(open_session(t));
    SM_TRY(load_state(t));
    SM_TRY(sm_session_skipped(t->session, &t->n_skipped));
    t->session->n_micro_steps = (uint64_t)(t->first_step * t->options->accum); // dropout's masks go on, too
    return SM_OK;
}

// Between the first step and the second, so that the first does not wait for it. Without it the share of the
// peak is left out.
static void measure_peak(training *t) {
    sm_peaks peaks;
    if (cli_measure_peaks(t->device, t->job.precision, peak_seconds, &peaks) == SM_OK) {
        t->peak_flops = peaks.flops;
    }
}

// --- a step --------------------------------------------------------------------------------

static sm_status next_batch(training *t, int64_t index) {
    sm_status status = sm_tokens_batch(t->tokens, index, t->job.B, t->job.T, t->inputs, t->targets);
    t->file_failed = status != SM_OK;
    SM_TRY(status);
    return sm_session_set_batch(t->session, t->inputs, t->targets);
}

// Gradients of one step's micro-batches; *loss is the mean of theirs. Ctrl-C ends it between two of them.
static sm_status accumulate(training *t, int64_t step, double *loss) {
    int64_t n_accum = t->options->accum;
    *loss = 0;
    for (int64_t micro = 0; micro < n_accum; micro++) {
        double micro_loss;
        if (cli_interrupted) {
            return SM_ERR_INTERRUPTED;
        }
        const int64_t n_processes = sm_comm_size(t->comm);
        SM_TRY(next_batch(t, ((step - 1) * n_processes + sm_comm_rank(t->comm)) * n_accum + micro));
        unsigned phases = SM_RUN_FORWARD | SM_RUN_BACKWARD;
        phases |= micro == 0 ? SM_RUN_ZERO_GRAD : 0;
        phases |= micro + 1 < n_accum ? SM_RUN_MORE : 0;
        SM_TRY(sm_session_run(t->session, phases, NULL));
        SM_TRY(sm_session_loss(t->session, &micro_loss));
        *loss += micro_loss / ((double)n_accum * sm_comm_size(t->comm));
    }
    return sm_comm_sum(t->comm, loss, 1);
}

// What became of the loss scale, where there is one.
static sm_status tell_scaler(training *t, cli_train_step *result) {
    const int64_t before = t->n_skipped;
    result->is_scaled = t->session->plan->scaler != SM_NO_TENSOR;
    SM_TRY(sm_session_skipped(t->session, &t->n_skipped));
    result->is_skipped = t->n_skipped > before;
    return sm_session_loss_scale(t->session, &result->loss_scale);
}

static sm_status take_step(training *t, const sm_schedule *schedule, int64_t step, cli_train_step *result) {
    const cli_options *o = t->options;
    sm_step_settings settings = t->settings;
    settings.lr = sm_schedule_lr(schedule, step);
    int64_t start_ns = sm_now_ns();
    SM_TRY(sm_session_set_hyper(t->session, &settings, step, o->accum));
    SM_TRY(accumulate(t, step, &result->loss));
    if (!isfinite(result->loss)) {
        return sm_fail(SM_ERR_INVALID, "step %lld: the loss is %g; nothing is saved; try a lower --lr or --grad-clip 1",
                       (long long)step, result->loss);
    }
    SM_TRY(sm_session_run(t->session, SM_RUN_OPTIMIZER, NULL));
    SM_TRY(sm_session_grad_norm(t->session, &result->grad_norm));
    SM_TRY(tell_scaler(t, result));
    if (!isfinite(result->grad_norm) && (!result->is_skipped || !(result->loss_scale > least_loss_scale))) {
        return sm_fail(SM_ERR_INVALID, "step %lld: the gradient's norm is %g; nothing is saved; try a lower --lr",
                       (long long)step, result->grad_norm);
    }
    result->step = step;
    result->lr = settings.lr;
    result->elapsed_ns = sm_now_ns() - start_ns;
    result->n_tokens = t->job.B * t->job.T * o->accum * sm_comm_size(t->comm);
    return SM_OK;
}

static sm_status print_step(const training *t, int64_t last_step, const cli_train_step *s) {
    double seconds = (double)s->elapsed_ns / 1e9;
    char tokens_per_s[32];
    char mfu[32] = "-";
    sm_text_count(round((double)s->n_tokens / seconds), tokens_per_s, sizeof(tokens_per_s));
    if (t->peak_flops > 0) {
        snprintf(mfu, sizeof(mfu), "%.1f%%", 100 * t->step_flops / seconds / t->peak_flops);
    }
    char norm[32] = "-"; // of a step that is skipped it is not finite
    char skipped[64] = "";
    if (!s->is_skipped) {
        snprintf(norm, sizeof(norm), "%.4f", s->grad_norm);
    } else {
        snprintf(skipped, sizeof(skipped), " | skipped, loss scale now %g", s->loss_scale);
    }
    int written = printf("step %lld/%lld | loss %.6f | norm %s | lr %.1e | %.1f ms | %s of peak | %s tok/s%s\n",
                         (long long)s->step, (long long)last_step, s->loss, norm, s->lr, 1e3 * seconds, mfu,
                         tokens_per_s, skipped);
    return written > 0 && fflush(stdout) == 0
               ? SM_OK
               : sm_fail(SM_ERR_IO, "stdout: cannot be written: %s; training ends after step %lld", strerror(errno),
                         (long long)s->step);
}

// Prints and logs it.
static sm_status tell_step(training *t, int64_t last_step, const cli_train_step *result) {
    if (sm_comm_rank(t->comm) > 0) {
        return SM_OK;
    }
    sm_status status = print_step(t, last_step, result);
    if (t->log != NULL && status == SM_OK) {
        status = cli_train_log_write(t->log, result);
        status = status == SM_OK ? SM_OK
                                 : sm_fail(status, "%s; training ends after step %lld", sm_error_message(),
                                           (long long)result->step);
    }
    t->file_failed = status != SM_OK;
    return status;
}

// --- the training --------------------------------------------------------------------------

static sm_status save(training *t, int64_t step) {
    const char *folder = t->options->save;
    if (sm_comm_rank(t->comm) > 0) {
        return SM_OK;
    }
    sm_worker_set_saving(true); // takes as long as it takes, also after Ctrl-C
    sm_status status = sm_weights_save(folder, &t->job.config, t->session, step);
    sm_worker_set_saving(false);
    SM_TRY(status);
    cli_note("%s: saved after step %lld", folder, (long long)step);
    return SM_OK;
}

// Saves the steps that were taken, also if Ctrl-C or a file ended them: the weights are whole. After any other failure
// the folder keeps what it has.
static sm_status save_what_is_whole(training *t, sm_status ended, int64_t step) {
    bool whole = ended == SM_OK || ended == SM_ERR_INTERRUPTED || t->file_failed;
    char reason[1024] = "";
    if (t->options->save == NULL || step == t->first_step || !whole) {
        return ended;
    }
    if (t->file_failed) {
        snprintf(reason, sizeof(reason), "%s", sm_error_message());
    }
    sm_status saved = save(t, step);
    if (saved != SM_OK && reason[0] != '\0') {
        cli_note("%s", reason); // the caller prints why nothing was saved
    }
    SM_TRY(saved);
    return t->file_failed ? sm_fail(ended, "%s", reason) : ended;
}

static sm_status train(training *t) {
    const cli_options *o = t->options;
    int64_t last_step = t->first_step + o->steps;
    int64_t step = t->first_step;
    sm_status status = SM_OK;
    const sm_schedule schedule = {
        .kind = (sm_schedule_kind)o->schedule,
        .lr = t->settings.lr,
        .final_fraction = cosine_final_fraction,
        .warmup_steps = o->warmup_steps,
        .n_steps = last_step,
    };
    while (status == SM_OK && step < last_step && !cli_interrupted) {
        cli_train_step result;
        status = take_step(t, &schedule, step + 1, &result);
        if (status == SM_OK) {
            step++;
            status = tell_step(t, last_step, &result);
        }
        if (status == SM_OK && step == t->first_step + 1 && step < last_step && !cli_interrupted &&
            sm_comm_size(t->comm) == 1) {
            measure_peak(t);
        }
    }
    SM_TRY(save_what_is_whole(t, status, step));
    return cli_interrupted ? SM_ERR_INTERRUPTED : SM_OK;
}

// A log that cannot be closed is an error only if nothing else went wrong: its message would take the other's place.
static sm_status close_log(training *t, sm_status status) {
    char reason[1024];
    snprintf(reason, sizeof(reason), "%s", sm_error_message());
    sm_status closed = cli_train_log_close(t->log);
    if (status == SM_OK || closed == SM_OK) {
        return status != SM_OK ? status : closed;
    }
    return sm_fail(status, "%s", reason);
}

sm_status cli_train(const cli_options *options) {
    training t = {.options = options};
    signal(SIGPIPE, SIG_IGN); // a reader that goes away, of `train | head` for one, is a failed write, not the end
    sm_status status = cli_join(options, &t.comm);
    status = status == SM_OK ? sm_comm_agree(t.comm, set_up(&t)) : status;
    if (status == SM_OK) {
        status = train(&t);
    }
    status = close_log(&t, status);
    sm_session_close(t.session);
    if (t.device != NULL) {
        t.device->backend->close(t.device);
    }
    sm_tokens_close(t.tokens);
    free(t.inputs);
    return cli_leave(t.comm, status);
}
