// train_data.c: two rooms, each for the sequences of a step. The thread fills one while the other is used.
#include "train_data.h"

#include <stdio.h>
#include <stdlib.h>

#include "clock.h"

enum { N_ROOMS = 2, MESSAGE_BYTES = 512 };

typedef struct {
    int32_t *inputs;
    int32_t *targets;
    int64_t step; // whose sequences it holds; 0: none
    sm_status status;
    char message[MESSAGE_BYTES];
} room;

struct sm_train_data {
    sm_train_share share;
    room rooms[N_ROOMS];
    int64_t next_step; // to be handed out

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; // of what follows, and of the rooms' step
    pthread_cond_t changed;
    int64_t wanted_step; // to be read by the thread
    bool is_ended;
};

static sm_status read_step(const sm_train_share *share, int64_t step, const room *r) {
    const int64_t first = (step - 1) * share->stride + share->first;
    for (int64_t i = 0; i < share->n; i++) {
        const int64_t sequence = sm_data_order_at(&share->order, first + i);
        SM_TRY(
            sm_tokens_batch(share->tokens, sequence, 1, share->T, r->inputs + i * share->T, r->targets + i * share->T));
    }
    return SM_OK;
}

static void *read_ahead(void *ctx) {
    sm_train_data *data = ctx;
    int64_t step = 0;
    pthread_mutex_lock(&data->lock);
    for (;;) {
        while (!data->is_ended && data->wanted_step == step) {
            pthread_cond_wait(&data->changed, &data->lock);
        }
        if (data->is_ended) {
            break;
        }
        step = data->wanted_step;
        pthread_mutex_unlock(&data->lock);
        room *r = &data->rooms[step % N_ROOMS];
        r->status = read_step(&data->share, step, r);
        snprintf(r->message, sizeof r->message, "%s", r->status != SM_OK ? sm_error_message() : "");
        pthread_mutex_lock(&data->lock);
        r->step = step;
        pthread_cond_broadcast(&data->changed);
    }
    pthread_mutex_unlock(&data->lock);
    return NULL;
}

static sm_status allocate(sm_train_data *data) {
    const sm_train_share *share = &data->share;
    int64_t n_tokens;
    size_t size_bytes;
    bool fits = !__builtin_mul_overflow(share->n, share->T, &n_tokens) &&
                !__builtin_mul_overflow((size_t)n_tokens, sizeof(int32_t), &size_bytes);
    for (int i = 0; i < N_ROOMS && fits; i++) {
        data->rooms[i].inputs = malloc(size_bytes);
        data->rooms[i].targets = malloc(size_bytes);
        fits = data->rooms[i].inputs != NULL && data->rooms[i].targets != NULL;
    }
    return fits ? SM_OK
                : sm_fail(SM_ERR_OOM, "train: no memory for a step's %lld sequences of %lld tokens",
                          (long long)share->n, (long long)share->T);
}

sm_status sm_train_data_open(const sm_train_share *share, int64_t step, const sm_background *background,
                             sm_train_data **data) {
    sm_status status = SM_OK;
    *data = NULL;
    sm_train_data *d = calloc(1, sizeof *d);
    if (d == NULL) {
        return sm_fail(SM_ERR_OOM, "train: no memory to read data");
    }
    d->share = *share;
    d->next_step = step;
    d->wanted_step = step;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    SM_TRY_GOTO(allocate(d));
    SM_TRY_GOTO(sm_background_start(background, read_ahead, d, &d->thread));
    d->has_thread = true;
    *data = d;
    return SM_OK;

cleanup:
    sm_train_data_close(d);
    return status;
}

void sm_train_data_close(sm_train_data *data) {
    if (data == NULL) {
        return;
    }
    if (data->has_thread) {
        pthread_mutex_lock(&data->lock);
        data->is_ended = true;
        pthread_cond_broadcast(&data->changed);
        pthread_mutex_unlock(&data->lock);
        pthread_join(data->thread, NULL);
    }
    pthread_cond_destroy(&data->changed);
    pthread_mutex_destroy(&data->lock);
    for (int i = 0; i < N_ROOMS; i++) {
        free(data->rooms[i].inputs);
        free(data->rooms[i].targets);
    }
    free(data);
}

sm_status sm_train_data_next(sm_train_data *data, const int32_t **inputs, const int32_t **targets, int64_t *waited_ns) {
    const int64_t step = data->next_step++;
    const room *r = &data->rooms[step % N_ROOMS];
    const int64_t start_ns = sm_now_ns();
    pthread_mutex_lock(&data->lock);
    while (r->step != step) {
        pthread_cond_wait(&data->changed, &data->lock);
    }
    data->wanted_step = step + 1;
    pthread_cond_broadcast(&data->changed);
    pthread_mutex_unlock(&data->lock);
    *waited_ns = sm_now_ns() - start_ns;
    *inputs = r->inputs;
    *targets = r->targets;
    return r->status == SM_OK ? SM_OK : sm_fail(r->status, "%s", r->message);
}
