// trainer.c: see trainer.h. trainer_record.c writes the files.
#include "src/train/trainer.h"

#include <math.h>

#include "clock.h"
#include "src/train/trainer_record.h"

typedef struct {
    const sm_train_settings *settings;
    const sm_train_callbacks *callbacks;
    sm_load_share share; // of the data
    sm_train_stepper stepper;
    sm_validation validation;
    sm_train_record record;
    sm_train_progress progress;
    bool is_whole;   // weights and state are those after progress.step
    bool is_pending; // work due after progress.step is not done yet
} trainer;

// ---- setting up ----

static const char *data_name(const sm_train_settings *s) {
    return s->data.path != NULL ? s->data.path : "built-in text";
}

static sm_status check_length(const sm_train_settings *s, int64_t n_rows) {
    const int64_t least = s->run_dir != NULL ? s->global_batch : s->session->plan->B;
    const int64_t T = s->session->plan->T;
    const char *what = s->run_dir != NULL ? "a step" : "one batch";
    if (n_rows >= least) {
        return SM_OK;
    }
    return s->data.collation != NULL
               ? sm_fail(SM_ERR_INVALID, "%s: documents for %lld rows are too few for %s of %lld x %lld", data_name(s),
                         (long long)n_rows, what, (long long)least, (long long)T)
               : sm_fail(SM_ERR_INVALID, "%s: %lld tokens are too few for %s of %lld x %lld, which needs %lld + 1",
                         data_name(s), (long long)sm_tokens_count(s->data.tokens), what, (long long)least, (long long)T,
                         (long long)(least * T));
}

sm_status sm_train_prepare(const sm_train_settings *s, sm_load_share *share, sm_train_stepper *stepper) {
    const int64_t B = s->session->plan->B;
    const int64_t T = s->session->plan->T;
    const int64_t n_processes = sm_comm_size(s->comm);
    const sm_collation *c = s->data.collation;
    const int64_t piece_rows = c != NULL ? B : 1;
    const int64_t n_pieces = c != NULL ? c->n_batches : (sm_tokens_count(s->data.tokens) - 1) / T; // in an epoch
    SM_FAIL_IF(s->global_batch < 1 || s->global_batch % (B * n_processes) != 0, SM_ERR_USAGE,
               "--global-batch: %lld sequences a step are no multiple of %lld processes with --batch-size %lld",
               (long long)s->global_batch, (long long)n_processes, (long long)B);
    SM_TRY(check_length(s, n_pieces * piece_rows));
    const int64_t stride = s->global_batch / piece_rows;
    *share = (sm_load_share){.tokens = s->data.tokens,
                             .collation = c,
                             .order = {.kind = s->order, .seed = s->seed, .n_sequences = n_pieces},
                             .B = B,
                             .T = T,
                             .stride = stride,
                             .first = stride / n_processes * sm_comm_rank(s->comm),
                             .n = stride / n_processes};
    *stepper = (sm_train_stepper){.session = s->session,
                                  .comm = s->comm,
                                  .data_name = data_name(s),
                                  .share = share,
                                  .optimizer = s->optimizer,
                                  .global_batch = s->global_batch,
                                  .n_accum = s->global_batch / (B * n_processes),
                                  .interrupted = s->interrupted};
    return SM_OK;
}

static sm_status set_validation(trainer *t) {
    const sm_train_settings *s = t->settings;
    if (s->validation.tokens == NULL) {
        return SM_OK;
    }
    const sm_plan *plan = s->session->plan;
    const sm_collation *c = s->validation.collation;
    const int64_t n = c != NULL ? c->n_batches : (sm_tokens_count(s->validation.tokens) - 1) / (plan->B * plan->T);
    SM_FAIL_IF(n == 0, SM_ERR_INVALID,
               "--val-data: its %lld tokens are too few for one batch of %lld x %lld; make it of more text, or "
               "give a smaller --batch-size or --seq-len",
               (long long)sm_tokens_count(s->validation.tokens), (long long)plan->B, (long long)plan->T);
    t->validation = (sm_validation){.tokens = s->validation.tokens,
                                    .collation = c,
                                    .n_batches = s->val_batches > 0 && s->val_batches < n ? s->val_batches : n,
                                    .trained = s->session,
                                    .session = s->val_session != NULL ? s->val_session : s->session,
                                    .comm = s->comm};
    return SM_OK;
}

// Mean tokens of a step, without padding.
static double tokens_of_step(const trainer *t) {
    const sm_collation *c = t->share.collation;
    if (c == NULL) {
        return (double)(t->share.stride * t->share.T);
    }
    double n_real = 0;
    for (int64_t i = 0; i < c->n_batches; i++) {
        n_real += (double)sm_collation_real_tokens(c, i);
    }
    return n_real / (double)c->n_batches * (double)t->share.stride;
}

// Sets the number of steps: the smallest limit that is set, plus the steps of the initial state.
static sm_status set_steps(trainer *t, int64_t initial_step) {
    const sm_train_settings *s = t->settings;
    const double step_tokens = tokens_of_step(t);
    const int64_t step_positions = s->global_batch * s->session->plan->T;
    int64_t n_steps = s->max_steps > 0 ? s->max_steps : INT64_MAX;
    int64_t n_sequences;
    if (s->max_epochs > 0 && !__builtin_mul_overflow(s->max_epochs, t->share.order.n_sequences, &n_sequences)) {
        n_steps = n_sequences / t->share.stride < n_steps ? n_sequences / t->share.stride : n_steps;
    }
    if (s->max_tokens > 0 && (double)s->max_tokens / step_tokens < (double)n_steps) {
        n_steps = (int64_t)((double)s->max_tokens / step_tokens);
    }
    SM_FAIL_IF(n_steps < 1 && s->max_tokens > 0 && (double)s->max_tokens < step_tokens, SM_ERR_USAGE,
               "--tokens: %lld are fewer than one step's %.0f", (long long)s->max_tokens, step_tokens);
    SM_FAIL_IF(n_steps < 1, SM_ERR_USAGE,
               "--epochs %lld: the data have %lld %s, and a step takes %lld (by -b, --accum and --global-batch); "
               "give more epochs or data, or smaller steps",
               (long long)s->max_epochs, (long long)t->share.order.n_sequences,
               t->share.collation != NULL ? "batches of documents" : "sequences", (long long)t->share.stride);
    int64_t last_token;
    SM_FAIL_IF(__builtin_add_overflow(initial_step, n_steps, &n_steps) ||
                   __builtin_mul_overflow(n_steps, step_positions, &last_token),
               SM_ERR_INVALID, "continues after step %lld; too many to count", (long long)initial_step);
    t->progress = (sm_train_progress){
        .first_step = initial_step, .step = initial_step, .n_steps = n_steps, .val_loss = NAN, .best_val_loss = NAN};
    t->stepper.schedule = sm_train_schedule(s, n_steps);
    t->stepper.checks.last_step = n_steps;
    return SM_OK;
}

static sm_status initialise(trainer *t, int64_t *step) {
    return t->callbacks->initialise(t->callbacks->ctx, t->settings->session, step);
}

static sm_status load_state(trainer *t, int64_t *log_bytes) {
    sm_checkpoint checkpoint;
    bool found;
    *log_bytes = 0;
    SM_TRY(sm_train_record_load(&t->record, &checkpoint, &found));
    if (found) {
        t->progress.first_step = checkpoint.step;
        t->progress.step = checkpoint.step;
        t->is_pending = checkpoint.is_pending;
        *log_bytes = checkpoint.log_bytes;
        SM_TRY(sm_train_record_best(&t->record, &checkpoint, &t->progress.best_val_loss, &t->progress.best_val_step));
        return checkpoint.n_sequences == checkpoint.step * t->settings->global_batch
                   ? SM_OK
                   : sm_fail(SM_ERR_FORMAT, "%s: the checkpoint of step %lld has read %lld sequences, not %lld each",
                             t->settings->run_dir, (long long)checkpoint.step, (long long)checkpoint.n_sequences,
                             (long long)t->settings->global_batch);
    }
    int64_t step;
    return t->record.is_new ? SM_OK : sm_comm_agree(t->settings->comm, initialise(t, &step));
}

static sm_status set_up(trainer *t) {
    int64_t log_bytes, initial_step = 0; // done before the whole run began
    sm_comm *comm = t->settings->comm;
    SM_TRY(sm_train_prepare(t->settings, &t->share, &t->stepper));
    if (t->settings->check_seed != 0) {
        t->stepper.checks.seed = t->settings->check_seed;
        SM_TRY(sm_spot_check_new(t->settings->session->plan, t->settings->check_seed, &t->stepper.checks.spot));
    }
    SM_TRY(set_validation(t));
    SM_TRY(sm_train_record_open(&t->record, t->settings, t->callbacks));
    initial_step = t->record.folder != NULL ? sm_run_folder_first_step(t->record.folder) : 0;
    SM_TRY(t->record.is_new ? sm_comm_agree(comm, initialise(t, &initial_step))
                            : sm_comm_broadcast(comm, 0, &initial_step, sizeof initial_step));
    SM_TRY(set_steps(t, initial_step));
    SM_TRY(sm_train_record_configure(&t->record, t->progress.n_steps));
    SM_TRY(load_state(t, &log_bytes));
    SM_TRY(sm_session_skipped(t->settings->session, &t->stepper.n_skipped));
    SM_TRY(sm_loader_open(&t->settings->loader, &t->share, t->progress.step + 1, &t->stepper.loader));
    t->is_whole = true;
    return sm_comm_agree(comm, sm_train_record_begin(&t->record, t->progress.step, log_bytes));
}

// ---- a step, and what is due after it ----

static sm_status validate(trainer *t) {
    const int64_t start_ns = sm_now_ns();
    const sm_train_callbacks *c = t->callbacks;
    sm_train_progress *p = &t->progress;
    int64_t n_tokens;
    SM_TRY(sm_validation_run(&t->validation, &p->val_loss, &n_tokens));
    SM_TRY(sm_train_log_validation(t->record.log, p->step, p->val_loss, n_tokens, sm_now_ns() - start_ns));
    const bool is_best = isfinite(p->val_loss) && !(p->val_loss >= p->best_val_loss);
    if (is_best) {
        p->best_val_loss = p->val_loss;
        p->best_val_step = p->step;
    }
    SM_TRY(is_best && t->settings->keep_best ? sm_train_record_keep_best(&t->record) : SM_OK);
    return t->record.is_writer && c->validated != NULL ? c->validated(c->ctx, p) : SM_OK;
}

static sm_status sample(trainer *t) {
    char *text = NULL;
    const sm_train_callbacks *c = t->callbacks;
    if (!t->record.is_writer || c->sample == NULL) {
        return SM_OK;
    }
    sm_status status = c->sample(c->ctx, &text);
    status = status == SM_OK ? sm_train_log_sample(t->record.log, t->progress.step, text) : status;
    free(text);
    return status;
}

static bool is_due(const trainer *t, int64_t every) {
    const int64_t step = t->progress.step;
    return (every > 0 && step % every == 0) || step == t->progress.n_steps;
}

static sm_status do_due(trainer *t) {
    const sm_train_settings *s = t->settings;
    SM_TRY(sm_exchange_complete(s->session->exchange, s->session->executable, false));
    SM_TRY(t->validation.tokens != NULL && is_due(t, s->val_every) ? validate(t) : SM_OK);
    if (s->sample_every > 0 && is_due(t, s->sample_every)) {
        SM_TRY(sample(t));
    }
    return s->save_every > 0 && is_due(t, s->save_every) ? sm_train_record_checkpoint(&t->record, t->progress.step)
                                                         : SM_OK;
}

// Logs and shows a step. A failure ends the training; the log has the step, as the last checkpoint does, even unshown.
static sm_status tell_step(trainer *t, const sm_train_step *step) {
    if (!t->record.is_writer) {
        return SM_OK;
    }
    sm_status status = sm_train_log_step(t->record.log, step);
    status = status == SM_OK ? t->callbacks->stepped(t->callbacks->ctx, &t->progress, step) : status;
    const bool ends_epoch = sm_load_epoch(&t->share, step->step + 1) != step->epoch; // no other step begins in it
    if (status == SM_OK && t->record.folder != NULL && (ends_epoch || step->step == t->progress.n_steps)) {
        status = sm_train_log_epoch(t->record.log, step->epoch, step->step);
    }
    return status == SM_OK
               ? sm_train_record_look(&t->record)
               : sm_fail(status, "%s; training ends after step %lld", sm_error_message(), (long long)step->step);
}

// Processes agree on what followed a step before anything is due, else when the next step begins: one message less.
static sm_status next_step(trainer *t) {
    sm_train_step step;
    const sm_train_callbacks *c = t->callbacks;
    sm_step_phases *phases = c->time_apart != NULL ? c->time_apart(c->ctx, &t->progress) : NULL;
    t->stepper.phases = phases;
    sm_phases_begin(phases, t->settings->session->plan);
    SM_TRY(sm_train_step_run(&t->stepper, t->progress.step + 1, &t->is_whole, &step));
    t->progress.step++;
    // The same in all processes, also if only one of them has the work.
    const sm_train_settings *s = t->settings;
    t->is_pending = is_due(t, s->val_every) || is_due(t, s->sample_every) || is_due(t, s->save_every);
    sm_status status = tell_step(t, &step);
    sm_phases_lap(phases, SM_STEP_LOG);
    sm_phases_end(phases);
    status = status == SM_OK && c->timed != NULL ? c->timed(c->ctx, &step, phases) : status;
    if (status == SM_OK && (t->settings->interrupted != NULL && *t->settings->interrupted)) {
        status = SM_ERR_INTERRUPTED;
    }
    if (!t->is_pending) {
        t->stepper.before = status;
        return SM_OK;
    }
    return sm_comm_agree(t->settings->comm, status);
}

static sm_status train(trainer *t) {
    sm_status status = SM_OK;
    while (status == SM_OK) {
        if (t->is_pending) {
            status = sm_comm_agree(t->settings->comm, do_due(t));
            t->is_pending = status != SM_OK;
        }
        if (status != SM_OK || t->progress.step == t->progress.n_steps) {
            break;
        }
        status = next_step(t);
    }
    return status;
}

// ---- the end ----

// Saves the steps that were done, also after an early end, unless a step failed halfway. Keeps the end's message.
static sm_status save_what_is_whole(trainer *t, sm_status ended) {
    const sm_outcome reason = sm_outcome_of(ended);
    const int64_t step = t->progress.step;
    if (!t->is_whole || step == t->progress.first_step) {
        return ended;
    }
    sm_status saved = t->settings->run_dir != NULL ? sm_train_record_leave(&t->record, step, t->is_pending)
                                                   : sm_train_record_save(&t->record, step);
    const bool is_told = ended == SM_ERR_INTERRUPTED; // an interruption has no message
    if (saved != SM_OK && !is_told) {
        t->callbacks->note(t->callbacks->ctx, reason.message); // the caller shows why nothing was saved
    }
    SM_TRY(saved);
    return is_told ? ended : sm_outcome_tell(&reason);
}

sm_status sm_train(const sm_train_settings *settings, const sm_train_callbacks *callbacks) {
    trainer t = {.settings = settings, .callbacks = callbacks};
    sm_status status = set_up(&t);
    if (status == SM_OK) {
        const sm_train_callbacks *c = t.callbacks;
        const bool is_told = t.record.is_writer && c->begun != NULL;
        status = sm_comm_agree(t.settings->comm, is_told ? c->begun(c->ctx, &t.progress, &t.stepper.schedule) : SM_OK);
    }
    if (status == SM_OK) {
        status = train(&t);
        status = status == SM_OK ? sm_train_record_save(&t.record, t.progress.step) : save_what_is_whole(&t, status);
    }
    sm_loader_close(t.stepper.loader);
    sm_spot_check_free(t.stepper.checks.spot);
    return sm_train_record_close(&t.record, t.progress.step, status);
}
