// checkpoint_writer.c: see checkpoint_writer.h.
#include "src/train/checkpoint_writer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"

typedef enum { IDLE, BUSY, ENDED, CLOSING } writer_state;

struct sm_checkpoint_writer {
    const char *run_dir;
    const sm_model_config *config;
    sm_train_log *log;
    int64_t keep;
    sm_weights_copy *copy; // the thread's while it is BUSY
    sm_checkpoint checkpoint;
    sm_checkpoint_end end;

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    _Atomic writer_state state; // changed with the lock held
};

static void set_state(sm_checkpoint_writer *w, writer_state state) {
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->state, state);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

// Waits while the state is the given one; returns the new state.
static writer_state wait_while(sm_checkpoint_writer *w, writer_state state) {
    pthread_mutex_lock(&w->lock);
    while (atomic_load(&w->state) == state || (state == IDLE && atomic_load(&w->state) == ENDED)) {
        pthread_cond_wait(&w->changed, &w->lock);
    }
    const writer_state now = atomic_load(&w->state);
    pthread_mutex_unlock(&w->lock);
    return now;
}

static void *work(void *ctx) {
    sm_checkpoint_writer *w = ctx;
    while (wait_while(w, IDLE) == BUSY) {
        const int64_t start_ns = sm_now_ns();
        sm_status status = sm_train_log_sync(w->log);
        if (status == SM_OK) {
            status = sm_checkpoint_write(w->run_dir, &w->checkpoint, w->config, w->copy, w->keep);
        }
        w->end =
            (sm_checkpoint_end){.step = w->checkpoint.step, .status = status, .elapsed_ns = sm_now_ns() - start_ns};
        snprintf(w->end.message, sizeof w->end.message, "%s", status != SM_OK ? sm_error_message() : "");
        set_state(w, ENDED);
    }
    return NULL;
}

sm_status sm_checkpoint_writer_open(const char *run_dir, const sm_model_config *config, const sm_plan *plan,
                                    sm_train_log *log, int64_t keep, const sm_background *background,
                                    sm_checkpoint_writer **writer) {
    *writer = NULL;
    SM_OWN(sm_checkpoint_writer) *w = sm_calloc(1, sizeof *w);
    w->run_dir = run_dir;
    w->config = config;
    w->log = log;
    w->keep = keep;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    SM_TRY(sm_weights_copy_open(plan, &w->copy));
    SM_TRY(sm_background_start(background, work, w, &w->thread));
    w->has_thread = true;
    *writer = sm_give(&w);
    return SM_OK;
}

void sm_checkpoint_writer_wait(sm_checkpoint_writer *writer) { (void)wait_while(writer, BUSY); }

sm_status sm_checkpoint_writer_copy(sm_checkpoint_writer *writer, sm_session *session) {
    return sm_weights_copy_take(writer->copy, session);
}

void sm_checkpoint_writer_start(sm_checkpoint_writer *writer, const sm_checkpoint *checkpoint) {
    writer->checkpoint = *checkpoint;
    set_state(writer, BUSY);
}

bool sm_checkpoint_writer_ended(sm_checkpoint_writer *writer, sm_checkpoint_end *end) {
    if (atomic_load(&writer->state) != ENDED) {
        return false;
    }
    *end = writer->end;
    set_state(writer, IDLE);
    return true;
}

void sm_checkpoint_writer_close(sm_checkpoint_writer *writer) {
    if (writer == NULL) {
        return;
    }
    if (writer->has_thread) {
        sm_checkpoint_writer_wait(writer);
        set_state(writer, CLOSING);
        pthread_join(writer->thread, NULL);
    }
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->lock);
    sm_weights_copy_close(writer->copy);
    free(writer);
}
