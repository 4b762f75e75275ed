#include "src/train/trainer_record.h"

#include "clock.h"
#include "src/io/atomic_file.h"

// ---- the writer of checkpoints ----
//
// A thread writes a copy of the state while training continues. The next checkpoint waits for the one before.

typedef struct checkpoint_writer {
    const sm_train_settings *settings;
    sm_train_log *log;
    sm_weights_copy *copy; // the thread's while it runs
    sm_checkpoint checkpoint;
    pthread_t thread;
    bool is_begun; // its outcome is not taken yet
    atomic_bool has_ended;

    sm_outcome outcome;
    int64_t elapsed_ns; // in the thread
} checkpoint_writer;

static void *write_checkpoint(void *ctx) {
    checkpoint_writer *w = ctx;
    const sm_train_settings *s = w->settings;
    const int64_t start_ns = sm_now_ns();
    sm_status status = sm_train_log_sync(w->log);
    if (status == SM_OK) {
        status = sm_checkpoint_write(s->run_dir, &w->checkpoint, s->config, w->copy, s->keep);
    }
    w->elapsed_ns = sm_now_ns() - start_ns;
    w->outcome = sm_outcome_of(status);
    atomic_store(&w->has_ended, true);
    return NULL;
}

// Starts writing the copy and the rest of the state, after the log is synced.
static sm_status start_writer(checkpoint_writer *w, const sm_checkpoint *checkpoint) {
    w->checkpoint = *checkpoint;
    atomic_store(&w->has_ended, false);
    SM_TRY(sm_background_start(&w->settings->background, write_checkpoint, w, &w->thread));
    w->is_begun = true;
    return SM_OK;
}

// Whether a checkpoint has ended since the last call, for which it may wait; else as cheap as a load.
static bool has_ended(checkpoint_writer *w, bool waits) {
    if (w == NULL || !w->is_begun || !(waits || atomic_load(&w->has_ended))) {
        return false;
    }
    pthread_join(w->thread, NULL);
    w->is_begun = false;
    return true;
}

static void close_writer(checkpoint_writer *w) {
    if (w != NULL) {
        (void)has_ended(w, true);
        sm_weights_copy_close(w->copy);
        free(w);
    }
}

// ---- what all use ----

static void note(const sm_train_record *r, char *line) {
    sm_show_line(r->is_writer && line[0] != '\0' ? r->callbacks->note : NULL, r->callbacks->ctx, line);
}

static void set_saving(const sm_train_record *r, bool saving) {
    if (r->callbacks->saving != NULL) {
        r->callbacks->saving(r->callbacks->ctx, saving);
    }
}

// ---- beginning ----

sm_status sm_train_record_open(sm_train_record *r, const sm_train_settings *settings,
                               const sm_train_callbacks *callbacks) {
    *r = (sm_train_record){.settings = settings,
                           .callbacks = callbacks,
                           .is_writer = sm_comm_rank(settings->comm) == 0,
                           .is_new = true,
                           .saved_step = -1,
                           .log_place = -1};
    if (settings->run_dir == NULL) {
        return SM_OK;
    }
    SM_TRY(sm_comm_agree(settings->comm,
                         r->is_writer ? sm_run_folder_open(settings->run_dir, settings->resume, &r->folder, &r->is_new)
                                      : SM_OK));
    if (r->is_writer) {
        snprintf(r->run_id, sizeof r->run_id, "%s", sm_run_folder_id(r->folder));
    }
    SM_TRY(sm_comm_broadcast(settings->comm, 0, &r->is_new, sizeof r->is_new));
    return sm_comm_broadcast(settings->comm, 0, r->run_id, sizeof r->run_id);
}

sm_status sm_train_record_configure(sm_train_record *r, int64_t n_steps) {
    char differs[256] = "";
    json_auto_t *configuration = NULL;
    sm_status status = SM_OK;
    if (r->folder != NULL) {
        status = sm_run_configuration(r->settings, n_steps, &configuration);
        if (status == SM_OK) {
            status = sm_run_folder_configure(r->folder, configuration, differs, sizeof differs);
        }
    }
    SM_TRY(sm_comm_agree(r->settings->comm, status));
    note(r, sm_strdup(differs));
    return SM_OK;
}

// The steps of the checkpoints that process 0 sees, for all processes.
static sm_status list_checkpoints(const sm_train_record *r, int64_t **steps, int *n) {
    sm_status status = r->is_writer ? sm_checkpoint_list(r->settings->run_dir, steps, n) : SM_OK;
    SM_TRY(sm_comm_agree(r->settings->comm, status));
    SM_TRY(sm_comm_broadcast(r->settings->comm, 0, n, sizeof *n));
    if (!r->is_writer) {
        *steps = sm_calloc((size_t)*n + 1, sizeof **steps);
    }
    return *n > 0 ? sm_comm_broadcast(r->settings->comm, 0, *steps, (size_t)*n * sizeof **steps) : SM_OK;
}

// Loads a checkpoint, which must be the same in all processes.
static sm_status load_alike(const sm_train_record *r, int64_t step, sm_checkpoint *checkpoint) {
    const sm_train_settings *s = r->settings;
    char name[64];
    snprintf(name, sizeof name, "--run: the checkpoint of step %lld", (long long)step);
    const sm_status status = sm_checkpoint_load(s->run_dir, step, r->run_id, s->config, s->session, checkpoint);
    const sm_comm_fact fact = {name, checkpoint->digest};
    return sm_comm_compare(s->comm, status, &fact, status == SM_OK ? 1 : 0, "give all processes the same run folder");
}

// Skips a damaged checkpoint for the one before it: the lost steps are computed again.
static sm_status load_first_whole(sm_train_record *r, const int64_t *steps, int n, sm_checkpoint *checkpoint) {
    sm_status status = SM_OK;
    for (int i = 0; i < n; i++) {
        status = load_alike(r, steps[i], checkpoint);
        if (status == SM_OK || status == SM_ERR_USAGE) { // loaded, or not the same in all processes
            r->saved_step = steps[i];
            return status;
        }
        if (i + 1 < n) {
            note(r, sm_text_of("%s; trying the checkpoint before it, of step %lld", sm_error_message(),
                               (long long)steps[i + 1]));
        }
    }
    return sm_fail(status, "%s; no checkpoint of the run is whole: choose another --run to begin again",
                   sm_error_message());
}

sm_status sm_train_record_load(sm_train_record *r, sm_checkpoint *checkpoint, bool *found) {
    SM_FREED int64_t *steps = NULL;
    int n = 0;
    *found = false;
    if (r->is_new) {
        return SM_OK;
    }
    SM_TRY(list_checkpoints(r, &steps, &n));
    SM_TRY(n > 0 ? load_first_whole(r, steps, n, checkpoint) : SM_OK);
    *found = n > 0;
    return SM_OK;
}

sm_status sm_train_record_best(sm_train_record *r, const sm_checkpoint *checkpoint, double *loss, int64_t *step) {
    char path[PATH_MAX];
    sm_status status = r->folder != NULL ? sm_make_path(path, "%s/log.jsonl", r->settings->run_dir) : SM_OK;
    if (status == SM_OK && r->folder != NULL) {
        status = sm_train_log_best(path, checkpoint->log_bytes, sm_run_folder_first_step(r->folder), checkpoint->step,
                                   loss, step);
    }
    SM_TRY(sm_comm_agree(r->settings->comm, status));
    SM_TRY(sm_comm_broadcast(r->settings->comm, 0, loss, sizeof *loss));
    return sm_comm_broadcast(r->settings->comm, 0, step, sizeof *step);
}

sm_status sm_train_record_begin(sm_train_record *r, int64_t step, int64_t log_bytes) {
    if (r->folder != NULL) {
        const sm_train_settings *s = r->settings;
        const double startup_ms = (double)(sm_now_ns() - s->process_start_ns) / 1e6;
        SM_TRY(sm_make_path(r->log_path, "%s/log.jsonl", s->run_dir));
        SM_TRY(sm_run_folder_begin(r->folder, s->command_line, step, startup_ms, s->facts));
        SM_TRY(sm_train_log_continue(r->log_path, log_bytes, &r->log));
        SM_TRY(sm_checkpoint_prepare(s->run_dir));
        sm_weights_copy *copy;
        SM_TRY(sm_weights_copy_open(s->session->plan, &copy));
        r->writer = sm_calloc(1, sizeof *r->writer);
        *r->writer = (checkpoint_writer){.settings = s, .log = r->log, .copy = copy};
        return SM_OK;
    }
    return r->is_writer && r->settings->log != NULL ? sm_train_log_append(r->settings->log, &r->log) : SM_OK;
}

// ---- checkpoints ----

static sm_status take_end(sm_train_record *r) {
    const checkpoint_writer *w = r->writer;
    const int64_t place = r->log_place;
    r->log_place = -1;
    if (w->outcome.status == SM_OK) {
        return place >= 0 ? sm_train_log_fill(r->log, place, w->elapsed_ns) : SM_OK;
    }
    r->saved_step = -1;
    return sm_fail(w->outcome.status, "%s; the checkpoint of step %lld is not written, and those before it stay",
                   w->outcome.message, (long long)w->checkpoint.step);
}

static sm_status look(sm_train_record *r, bool waits) {
    if (!has_ended(r->writer, waits)) {
        return SM_OK;
    }
    const sm_status status = take_end(r);
    if (r->writer->outcome.status != SM_OK) {
        note(r, sm_strdup(sm_error_message()));
        return SM_OK;
    }
    return status;
}

sm_status sm_train_record_look(sm_train_record *r) { return look(r, false); }

static sm_checkpoint state_after(const sm_train_record *r, int64_t step) {
    const int64_t n_sequences = step * r->settings->global_batch;
    sm_checkpoint checkpoint = {
        .step = step, .n_sequences = n_sequences, .n_micro_steps = n_sequences / r->settings->session->plan->B};
    memcpy(checkpoint.run_id, r->run_id, sizeof checkpoint.run_id);
    return checkpoint;
}

static bool is_sharded(const sm_train_record *r) { return r->settings->session->plan->processes.is_sharded; }

// Copies the state, unless a checkpoint of this step exists. With a sharded state all processes must call it.
static sm_status copy_state(sm_train_record *r, int64_t step, bool *is_copied, int64_t *waited_ns) {
    const int64_t start_ns = sm_now_ns();
    *is_copied = false;
    const sm_status status = look(r, true);
    bool is_wanted = r->is_writer && status == SM_OK && r->saved_step != step;
    SM_TRY(is_sharded(r) ? sm_comm_broadcast(r->settings->comm, 0, &is_wanted, sizeof is_wanted) : SM_OK);
    SM_TRY(status);
    if (is_wanted) {
        SM_TRY(sm_exchange_complete(r->settings->session->exchange, r->settings->session->executable, false));
        SM_TRY(r->is_writer ? sm_weights_copy_take(r->writer->copy, r->settings->session)
                            : sm_weights_copy_help(r->settings->session));
    }
    *is_copied = is_wanted && r->is_writer;
    *waited_ns = sm_now_ns() - start_ns;
    return SM_OK;
}

sm_status sm_train_record_checkpoint(sm_train_record *r, int64_t step) {
    sm_checkpoint checkpoint = state_after(r, step);
    int64_t waited_ns;
    bool is_copied;
    if (r->settings->run_dir == NULL) {
        return SM_OK;
    }
    SM_TRY(copy_state(r, step, &is_copied, &waited_ns));
    if (!is_copied) { // it was written when the training was interrupted, at a step that is due for one anyway
        int64_t place;
        return r->is_writer ? sm_train_log_checkpoint(r->log, step, 0, &place) : SM_OK;
    }
    SM_TRY(sm_train_log_checkpoint(r->log, step, waited_ns, &r->log_place));
    checkpoint.log_bytes = sm_train_log_size(r->log);
    SM_TRY(start_writer(r->writer, &checkpoint));
    r->saved_step = step;
    return SM_OK;
}

static sm_status write_now(sm_train_record *r, sm_checkpoint *checkpoint, int64_t waited_ns) {
    checkpoint->log_bytes = sm_train_log_size(r->log);
    if (sm_train_log_checkpoint(r->log, checkpoint->step, waited_ns, &r->log_place) != SM_OK) {
        r->log_place = -1; // a full disk may have ended the training, but still have room for this
    }
    SM_TRY(start_writer(r->writer, checkpoint));
    return has_ended(r->writer, true) ? take_end(r) : SM_OK;
}

sm_status sm_train_record_leave(sm_train_record *r, int64_t step, bool is_pending) {
    int64_t waited_ns;
    bool is_copied;
    sm_checkpoint checkpoint = state_after(r, step);
    checkpoint.is_pending = is_pending;
    set_saving(r, true);
    sm_status status = copy_state(r, step, &is_copied, &waited_ns);
    status = status == SM_OK && is_copied ? write_now(r, &checkpoint, waited_ns) : status;
    set_saving(r, false);
    SM_TRY(status);
    note(r, sm_text_of("%s: checkpoint after step %lld; --resume auto continues from it", r->settings->run_dir,
                       (long long)step));
    return SM_OK;
}

// ---- ending ----

// With a sharded state all processes must call it.
static sm_status save_state(const sm_train_record *r, const char *dir, int64_t step) {
    const sm_train_settings *s = r->settings;
    if (r->folder == NULL && is_sharded(r)) {
        SM_OWN(sm_weights_copy) *copy = NULL;
        if (!r->is_writer) {
            return sm_weights_copy_help(s->session);
        }
        SM_TRY(sm_weights_copy_open(s->session->plan, &copy));
        SM_TRY(sm_weights_copy_take(copy, s->session));
        return sm_weights_save_copy(dir, s->config, copy, step);
    }
    return !r->is_writer ? SM_OK : sm_weights_save(dir, s->config, s->session, r->folder != NULL ? SM_NO_STATE : step);
}

static sm_status save_to(const sm_train_record *r, const char *dir, int64_t step) {
    set_saving(r, true); // must complete, also after Ctrl-C
    sm_status status = save_state(r, dir, step);
    set_saving(r, false);
    SM_TRY(status);
    note(r, sm_text_of("%s: saved after step %lld", dir, (long long)step));
    return SM_OK;
}

sm_status sm_train_record_save(sm_train_record *r, int64_t step) {
    char dir[PATH_MAX];
    SM_TRY(sm_exchange_complete(r->settings->session->exchange, r->settings->session->executable, false));
    if (r->settings->run_dir == NULL) {
        return r->settings->save != NULL ? save_to(r, r->settings->save, step) : SM_OK;
    }
    if (!r->is_writer) {
        return SM_OK;
    }
    SM_TRY(sm_make_path(dir, "%s/model", r->settings->run_dir));
    SM_TRY(look(r, true));
    SM_TRY(save_to(r, dir, step));
    return sm_train_log_sync(r->log);
}

sm_status sm_train_record_keep_best(sm_train_record *r) {
    char dir[PATH_MAX];
    if (r->folder == NULL) {
        return SM_OK;
    }
    SM_TRY(sm_make_path(dir, "%s/best", r->settings->run_dir));
    set_saving(r, true);
    const sm_status status = sm_weights_save(dir, r->settings->config, r->settings->session, SM_NO_STATE);
    set_saving(r, false);
    return status;
}

static sm_status end_run(sm_train_record *r, int64_t step, sm_status status) {
    const sm_train_callbacks *c = r->callbacks;
    const char *reason = status == SM_OK ? "complete" : status == SM_ERR_INTERRUPTED ? "signal" : "failed";
    const double wall_ms = (double)(sm_now_ns() - r->settings->process_start_ns) / 1e6;
    json_auto_t *facts = c->end_facts != NULL ? c->end_facts(c->ctx) : NULL;
    SM_TRY(look(r, true));
    SM_TRY(sm_run_folder_end(r->folder, step, reason, wall_ms, facts));
    return status == SM_OK && c->completed != NULL ? c->completed(c->ctx, r->settings->run_dir) : SM_OK;
}

sm_status sm_train_record_close(sm_train_record *r, int64_t step, sm_status status) {
    const sm_outcome first = sm_outcome_of(status);
    sm_status ended = r->writer != NULL ? end_run(r, step, status) : SM_OK; // without a writer it never began
    close_writer(r->writer);
    sm_status closed = sm_train_log_close(r->log);
    sm_run_folder_close(r->folder);
    ended = ended != SM_OK ? ended : closed;
    return status == SM_OK ? ended : sm_outcome_tell(&first);
}
