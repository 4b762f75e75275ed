// loader.c: a ring of slots for loads: that of step s goes to slot s modulo their number, and a free thread makes it.
#include "src/train/loader.h"

#include <errno.h>

#include "clock.h"

enum { DEPTH_PER_THREAD = 2 };

typedef struct {
    int32_t *inputs; // start of the slot's memory: inputs, targets, starts and a row of T + 1
    int32_t *targets;
    int32_t *starts;
    int32_t *row;
    int64_t *n_real;
    sm_load load;
    int64_t step; // whose load the slot holds; 0: none
    sm_outcome outcome;
} room;

typedef struct {
    sm_loader *loader;
    int number;
    pthread_t thread;
} maker;

struct sm_loader {
    sm_loader_settings settings;
    sm_load_share share;
    int64_t n_micro;
    room *rooms;
    int64_t n_rooms;
    maker *makers;
    int n_makers; // threads started

    pthread_mutex_t lock; // protects the members below, and the slots' step
    pthread_cond_t changed;
    int64_t next_step; // the next step to hand out
    int64_t made_step; // the next step for a thread to make
    bool is_ended;
};

SM_WORDS(sm_loader_name, sm_loader_kind, SM_LOADER_LIST)

int64_t sm_load_epoch(const sm_load_share *share, int64_t step) {
    return 1 + (step - 1) * share->stride / share->order.n_sequences;
}

int64_t sm_load_first_token(const sm_load_share *share, int64_t step) {
    const int64_t piece = sm_data_order_at(&share->order, (step - 1) * share->stride);
    const sm_collation *c = share->collation;
    return c != NULL ? c->placements[c->first_of[piece]].document.first : piece * share->T;
}

// ---- a load -------------------------------------------------------------------------------

static sm_status load_pieces(const sm_load_share *s, int64_t step, room *r, sm_tokens_cost *cost) {
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t piece = sm_data_order_at(&s->order, (step - 1) * s->stride + s->first + i);
        const int64_t at = i * s->T * (s->collation != NULL ? s->B : 1);
        if (s->collation != NULL) {
            r->n_real[i] = sm_collation_real_tokens(s->collation, piece);
            SM_TRY(sm_collation_fill(s->collation, s->tokens, piece, r->inputs + at, r->targets + at, r->starts + at,
                                     cost));
        } else {
            SM_TRY(sm_tokens_read_timed(s->tokens, piece * s->T, s->T + 1, r->row, cost));
            memcpy(r->inputs + at, r->row, (size_t)s->T * sizeof *r->row);
            memcpy(r->targets + at, r->row + 1, (size_t)s->T * sizeof *r->row);
        }
    }
    return SM_OK;
}

static int64_t count_real_of_all(const sm_load_share *s, int64_t step) {
    if (s->collation == NULL) {
        return s->stride * s->T;
    }
    int64_t n = 0;
    for (int64_t i = 0; i < s->stride; i++) {
        n += sm_collation_real_tokens(s->collation, sm_data_order_at(&s->order, (step - 1) * s->stride + i));
    }
    return n;
}

static void delay(int64_t ns, int64_t *cost_ns) {
    if (ns <= 0) {
        return;
    }
    const int64_t start_ns = sm_now_ns();
    struct timespec left = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
    *cost_ns += sm_now_ns() - start_ns;
}

// Makes the load of a step, and measures its time.
static void make_load(const sm_loader *l, int64_t step, int thread, room *r) {
    const sm_load_cost *d = &l->settings.delay;
    sm_tokens_cost cost = {0};
    sm_load_cost delayed = {0};
    r->load.begin_ns = sm_now_ns();
    r->outcome = sm_outcome_of(load_pieces(&l->share, step, r, &cost));
    r->load.n_real_of_all = count_real_of_all(&l->share, step);
    delay(d->read_ns, &delayed.read_ns);
    delay(d->tokenise_ns, &delayed.tokenise_ns);
    delay(d->collate_ns, &delayed.collate_ns);
    r->load.end_ns = sm_now_ns();
    r->load.thread = thread;
    r->load.cost.read_ns = cost.read_ns + delayed.read_ns;
    r->load.cost.tokenise_ns = cost.tokenise_ns + delayed.tokenise_ns;
    r->load.cost.collate_ns = r->load.end_ns - r->load.begin_ns - r->load.cost.read_ns - r->load.cost.tokenise_ns;
}

// ---- threads ------------------------------------------------------------------------------

static void *make_loads(void *ctx) {
    const maker *m = ctx;
    sm_loader *l = m->loader;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!l->is_ended && l->made_step >= l->next_step + l->n_rooms - 1) { // one is in use, the others the queue
            pthread_cond_wait(&l->changed, &l->lock);
        }
        if (l->is_ended) {
            break;
        }
        const int64_t step = l->made_step++;
        pthread_mutex_unlock(&l->lock);
        room *r = &l->rooms[step % l->n_rooms];
        make_load(l, step, m->number, r);
        pthread_mutex_lock(&l->lock);
        r->step = step;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

// ---- beginning and end --------------------------------------------------------------------

static bool allocate_room(const sm_loader *l, room *r) {
    const sm_load_share *s = &l->share;
    int64_t n_tokens;
    int64_t n_ids;
    size_t size_bytes;
    if (__builtin_mul_overflow(l->n_micro * s->B, s->T, &n_tokens) || __builtin_mul_overflow(n_tokens, 3, &n_ids) ||
        __builtin_mul_overflow((size_t)(n_ids + s->T + 1), sizeof(int32_t), &size_bytes)) {
        return false;
    }
    r->inputs = malloc(size_bytes);
    r->n_real = malloc((size_t)l->n_micro * sizeof *r->n_real);
    if (r->inputs == NULL || r->n_real == NULL) {
        return false;
    }
    r->targets = r->inputs + n_tokens;
    r->starts = r->targets + n_tokens;
    r->row = r->starts + n_tokens;
    for (int64_t i = 0; i < l->n_micro; i++) {
        r->n_real[i] = s->B * s->T;
    }
    r->load = (sm_load){.inputs = r->inputs,
                        .targets = r->targets,
                        .starts = s->collation != NULL && s->collation->padding != SM_PADDING_NONE ? r->starts : NULL,
                        .n_micro = l->n_micro,
                        .n_real = r->n_real};
    return true;
}

sm_status sm_loader_open(const sm_loader_settings *settings, const sm_load_share *share, int64_t step,
                         sm_loader **loader) {
    *loader = NULL;
    SM_OWN(sm_loader) *l = sm_calloc(1, sizeof *l);
    sm_loader_settings *s = &l->settings;
    *s = *settings;
    s->n_threads = s->n_threads > 1 ? s->n_threads : 1;
    s->queue_depth = s->queue_depth > 0 ? s->queue_depth : DEPTH_PER_THREAD * s->n_threads;
    l->share = *share;
    l->n_micro = share->collation != NULL ? share->n : share->n / share->B;
    l->n_rooms = s->kind == SM_LOADER_THREADS ? s->queue_depth + 1 : 1;
    l->next_step = step;
    l->made_step = step;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->rooms = sm_calloc((size_t)l->n_rooms, sizeof *l->rooms);
    for (int64_t i = 0; i < l->n_rooms; i++) {
        SM_FAIL_IF(!allocate_room(l, &l->rooms[i]), SM_ERR_OOM,
                   "loader: no memory for %lld times a step's %lld micro-batches of %lld x %lld tokens",
                   (long long)l->n_rooms, (long long)l->n_micro, (long long)l->share.B, (long long)l->share.T);
    }
    l->makers = sm_calloc((size_t)s->n_threads, sizeof *l->makers);
    for (; s->kind == SM_LOADER_THREADS && l->n_makers < s->n_threads; l->n_makers++) {
        maker *m = &l->makers[l->n_makers];
        *m = (maker){.loader = l, .number = l->n_makers};
        SM_TRY(sm_background_start(&s->background, make_loads, m, &m->thread));
    }
    *loader = sm_give(&l);
    return SM_OK;
}

void sm_loader_close(sm_loader *l) {
    if (l == NULL) {
        return;
    }
    pthread_mutex_lock(&l->lock);
    l->is_ended = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->n_makers; i++) {
        pthread_join(l->makers[i].thread, NULL);
    }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    for (int64_t i = 0; i < l->n_rooms && l->rooms != NULL; i++) {
        free(l->rooms[i].inputs);
        free(l->rooms[i].n_real);
    }
    free(l->rooms);
    free(l->makers);
    free(l);
}

// ---- handing out --------------------------------------------------------------------------

sm_status sm_loader_next(sm_loader *l, sm_load *load) {
    const int64_t step = l->next_step;
    room *r = &l->rooms[step % l->n_rooms];
    const int64_t start_ns = sm_now_ns();
    if (l->settings.kind == SM_LOADER_INLINE) {
        make_load(l, step, -1, r);
        l->next_step++;
    } else {
        pthread_mutex_lock(&l->lock);
        r->load.n_ready = 0;
        for (int64_t i = 0; i < l->n_rooms; i++) {
            r->load.n_ready += l->rooms[i].step >= l->next_step;
        }
        while (r->step != step) {
            pthread_cond_wait(&l->changed, &l->lock);
        }
        l->next_step = step + 1;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        r->load.waited_ns = sm_now_ns() - start_ns;
    }
    *load = r->load;
    return sm_outcome_tell(&r->outcome);
}
