// comm_reduce.c: the summing thread and its jobs: who waits for whom, and how failures become known. comm_move.c
// moves the data.
//
// Each process has counters in shared memory: the jobs that it has started (`arrived`), those with its share done
// (`done`), and, for jobs in which processes only meet, those that it has read (`released`).
#include "src/comm/comm_transport.h"

#include <errno.h>

#include "clock.h"
#include "os/child.h"
#include "os/os.h"

// --- waiting for others ----------------------------------------------------------------------------

int64_t sm_comm_wait_until_ns(const sm_comm *comm) { return sm_now_ns() + (int64_t)(comm->options.timeout_s * 1e9); }

// The index of a rank among the members of this process's group; -1: it is in another.
static int member_of(const sm_comm *comm, int rank) {
    for (int i = 0; i < comm->n_members; i++) {
        if (comm->members[i] == rank) {
            return i;
        }
    }
    return -1;
}

sm_status sm_comm_check_wait(const sm_comm *comm, int rank, int64_t until_ns) {
    const int member = member_of(comm, rank);
    SM_FAIL_IF(member >= 0 && !os_process_is_there((int)comm->pids[member]), SM_ERR_DEVICE,
               "rank %d has died; the training ends", rank);
    SM_FAIL_IF(sm_now_ns() > until_ns, SM_ERR_TIMEOUT,
               "rank %d did not answer for %g s; the training ends (--comm-timeout sets how long to wait)", rank,
               comm->options.timeout_s);
    return SM_OK;
}

bool sm_comm_is_first_to_speak(const sm_comm *comm) {
    const sm_reducer *r = comm != NULL ? comm->reducer : NULL;
    return r == NULL || r->progress == NULL || r->progress[0] == NULL ||
           !atomic_flag_test_and_set(&r->progress[0]->has_spoken);
}

// Counters wrap around.
static bool has_reached(uint32_t value, uint32_t wanted) { return (int32_t)(value - wanted) >= 0; }

// Waits until a member's counter has reached `wanted`.
static sm_status wait_for_counter(const sm_reducer *r, int member, _Atomic uint32_t *counter, uint32_t wanted) {
    static const struct timespec look = {.tv_nsec = 50000000}; // between checks that the other process is alive
    const int64_t until_ns = sm_comm_wait_until_ns(r->comm);
    uint32_t value;
    while (!has_reached(value = atomic_load(counter), wanted)) {
        if (!os_sleep_while(counter, value, &look, true)) {
            SM_TRY(sm_comm_check_wait(r->comm, r->comm->members[member], until_ns));
        }
    }
    return SM_OK;
}

static sm_status wait_for_all(const sm_reducer *r, bool arrived, uint32_t wanted) {
    for (int i = 0; i < r->comm->n_members; i++) {
        SM_TRY(wait_for_counter(r, i, arrived ? &r->progress[i]->arrived : &r->progress[i]->done, wanted));
    }
    return SM_OK;
}

static void advance(_Atomic uint32_t *counter, uint32_t value) {
    atomic_store(counter, value);
    os_wake(counter, true);
}

// --- meeting and watching ----------------------------------------------------------------------------------

static sm_status meet_over_groups(sm_reducer *r, uint32_t number) {
    if (!sm_comm_leads_group(r->comm)) {
        return wait_for_counter(r, 0, &r->progress[0]->done, number);
    }
    const sm_status status = sm_comm_meet_leaders(r->comm);
    advance(&r->progress[r->me]->done, number);
    return status;
}

// Something that all do together did not end in time. Every process that lives comes here, and says so; others stopped.
static sm_status name_who_hangs(sm_reducer *r) {
    enum { LOOKS = 40 };
    static const struct timespec look = {.tv_nsec = 50000000};
    const uint32_t said = r->n_begun + 1;
    advance(&r->progress[r->me]->arrived, said);
    for (int i = 0, n = 0; i < r->comm->n_members; i++) {
        while (!has_reached(atomic_load(&r->progress[i]->arrived), said) && n++ < LOOKS) {
            nanosleep(&look, NULL);
        }
        if (!has_reached(atomic_load(&r->progress[i]->arrived), said)) {
            return sm_comm_check_wait(r->comm, r->comm->members[i], 0);
        }
    }
    SM_TRY(r->comm->n_groups > 1 ? meet_over_groups(r, said) : SM_OK);
    return sm_fail(SM_ERR_TIMEOUT,
                   "an exchange did not end within %g s, though all processes have begun it; the training "
                   "ends (--comm-timeout sets how long to wait)",
                   r->comm->options.timeout_s);
}

static sm_status watch(sm_reducer *r, const sm_comm_job *job) {
    enum { LOOKS_A_CHECK = 500 };
    static const struct timespec look = {.tv_nsec = 20000};
    const int64_t until_ns = sm_comm_wait_until_ns(r->comm);
    bool is_done = false;
    SM_TRY(job->is_done(job->ctx, &is_done));
    for (int n_looks = 1; !is_done; n_looks++) {
        nanosleep(&look, NULL);
        for (int i = 0; i < r->comm->n_members && n_looks % LOOKS_A_CHECK == 0; i++) {
            SM_TRY(sm_comm_check_wait(r->comm, r->comm->members[i], INT64_MAX));
        }
        if (sm_now_ns() > until_ns) {
            return name_who_hangs(r);
        }
        SM_TRY(job->is_done(job->ctx, &is_done));
    }
    return SM_OK;
}

// --- a job -----------------------------------------------------------------------------------------------

static sm_status do_job(sm_reducer *r, const sm_comm_job *job) {
    if (job->pattern == SM_COMM_WATCH) { // has no number: not every process needs to watch
        return watch(r, job);
    }
    const uint32_t number = ++r->n_begun;
    SM_TRY(job->before == NULL ? SM_OK : job->before(job->ctx));
    advance(&r->progress[r->me]->arrived, number);
    SM_TRY(wait_for_all(r, true, number));
    if (job->pattern != SM_COMM_MEET) {
        SM_TRY(sm_reducer_move(r, job));
        advance(&r->progress[r->me]->done, number);
        SM_TRY(wait_for_all(r, false, number));
    } else if (r->comm->n_groups > 1) {
        SM_TRY(meet_over_groups(r, number));
    }
    return job->after == NULL ? SM_OK : job->after(job->ctx);
}

static void *serve(void *argument) {
    sm_reducer *r = argument;
    pthread_mutex_lock(&r->lock);
    while (!r->is_ending) {
        if (r->n_finished == r->n_started || r->outcome.status != SM_OK) {
            pthread_cond_wait(&r->changed, &r->lock);
            continue;
        }
        const sm_comm_job job = r->queue[r->n_finished % QUEUE_JOBS];
        pthread_mutex_unlock(&r->lock);
        const int64_t begin_ns = sm_now_ns();
        const sm_status status = do_job(r, &job);
        const int64_t busy_ns = sm_now_ns() - begin_ns;
        pthread_mutex_lock(&r->lock);
        r->busy_ns += job.is_done != NULL || job.fail != NULL ? 0 : busy_ns;
        r->n_finished++;
        if (status != SM_OK) {
            r->outcome = sm_outcome_of(status);
            r->is_failing = job.fail != NULL;
        }
        pthread_cond_broadcast(&r->changed);
        if (r->is_failing) {
            pthread_mutex_unlock(&r->lock);
            job.fail(job.ctx);
            pthread_mutex_lock(&r->lock);
            r->is_failing = false;
            pthread_cond_broadcast(&r->changed);
        }
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

// --- waiting that cannot be limited ------------------------------------------------------------------------

typedef struct {
    sm_status (*wait)(void *ctx);
    atomic_bool is_done;
    sm_outcome outcome;
    _Alignas(16) unsigned char ctx[];
} wait_beside;

static void *wait_in_thread(void *argument) {
    wait_beside *w = argument;
    w->outcome = sm_outcome_of(w->wait(w->ctx));
    atomic_store(&w->is_done, true);
    return NULL;
}

static sm_status watch_thread(const sm_comm *comm, const wait_beside *w) {
    static const struct timespec look = {.tv_nsec = 2000000};
    const int64_t until_ns = sm_comm_wait_until_ns(comm);
    while (!atomic_load(&w->is_done)) {
        nanosleep(&look, NULL);
        for (int i = 0; i < comm->n_members; i++) {
            SM_TRY(sm_comm_check_wait(comm, comm->members[i], INT64_MAX));
        }
        SM_FAIL_IF(sm_now_ns() > until_ns, SM_ERR_TIMEOUT,
                   "another process did not answer for %g s while all join; the training ends (--comm-timeout "
                   "sets how long to wait)",
                   comm->options.timeout_s);
    }
    return sm_outcome_tell(&w->outcome);
}

sm_status sm_comm_wait_beside(sm_comm *comm, sm_status (*wait)(void *ctx), const void *ctx, size_t ctx_bytes) {
    pthread_t thread;
    wait_beside *w = sm_calloc(1, sizeof *w + ctx_bytes);
    w->wait = wait;
    memcpy(w->ctx, ctx, ctx_bytes);
    if (pthread_create(&thread, NULL, wait_in_thread, w) != 0) {
        free(w);
        return sm_fail(SM_ERR_OOM, "comm: no thread to wait in");
    }
    const sm_status status = watch_thread(comm, w);
    if (atomic_load(&w->is_done)) {
        pthread_join(thread, NULL);
        free(w);
    } else {
        pthread_detach(thread);
    }
    return status;
}

// --- the reducer -------------------------------------------------------------------------------------------

sm_status sm_comm_serve(sm_comm *comm) {
    if (comm->reducer != NULL) {
        return SM_OK;
    }
    sm_reducer *r = sm_calloc(1, sizeof *r);
    r->comm = comm;
    comm->reducer = r;
    r->me = member_of(comm, comm->rank);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->progress = sm_calloc((size_t)comm->n_members, sizeof *r->progress);
    SM_TRY(comm->transport->share(comm, sizeof(progress), (void **)r->progress));
    SM_FAIL_IF(pthread_create(&r->thread, NULL, serve, r) != 0, SM_ERR_OOM, "comm: no thread to sum in");
    r->is_running = true;
    return SM_OK;
}

void sm_reducer_free(sm_reducer *reducer) {
    if (reducer == NULL) {
        return;
    }
    if (reducer->is_running) {
        pthread_mutex_lock(&reducer->lock);
        reducer->is_ending = true;
        pthread_cond_broadcast(&reducer->changed);
        pthread_mutex_unlock(&reducer->lock);
        pthread_join(reducer->thread, NULL);
    }
    for (int i = 0; i < reducer->n_segments; i++) {
        free(reducer->segments[i].parts);
    }
    pthread_cond_destroy(&reducer->changed);
    pthread_mutex_destroy(&reducer->lock);
    free(reducer->progress);
    free(reducer->outgoing);
    free(reducer->incoming);
    free(reducer);
}

sm_status sm_comm_share(sm_comm *comm, size_t size_bytes, int *number, void **mine) {
    SM_TRY(sm_comm_serve(comm));
    sm_reducer *r = comm->reducer;
    for (int i = 0; i < r->n_segments; i++) {
        segment *s = &r->segments[i];
        if (s->is_free && s->size_bytes >= size_bytes) {
            s->is_free = false;
            *number = i;
            *mine = s->parts[r->me];
            SM_TRY(sm_comm_barrier(comm)); // nobody reads it any more
            memset(*mine, 0, size_bytes);
            return SM_OK;
        }
    }
    SM_FAIL_IF(r->n_segments == MAX_SEGMENTS, SM_ERR_INTERNAL, "comm: more than %d pieces of shared memory",
               MAX_SEGMENTS);
    segment *s = &r->segments[r->n_segments];
    s->parts = sm_calloc((size_t)comm->n_members, sizeof *s->parts);
    s->size_bytes = size_bytes;
    *number = r->n_segments++;
    SM_TRY(comm->transport->share(comm, size_bytes, s->parts));
    *mine = s->parts[r->me];
    return SM_OK;
}

void sm_comm_unshare(sm_comm *comm, int number) { comm->reducer->segments[number].is_free = true; }

void *sm_comm_part(const sm_comm *comm, int number, int rank) {
    const int member = member_of(comm, rank);
    return member >= 0 ? comm->reducer->segments[number].parts[member] : NULL;
}

// The caller has the lock. Work that the job began elsewhere has ended when the failure is known, or does not end.
static sm_status failure_of(sm_reducer *r) {
    enum { MOST_S = 3 };
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += MOST_S;
    for (int code = 0; r->is_failing && code != ETIMEDOUT;) {
        code = pthread_cond_timedwait(&r->changed, &r->lock, &until);
    }
    return sm_outcome_tell(&r->outcome);
}

sm_status sm_comm_start(sm_comm *comm, const sm_comm_job *job, int64_t *ticket) {
    sm_reducer *r = comm->reducer;
    pthread_mutex_lock(&r->lock);
    while (r->n_started - r->n_finished == QUEUE_JOBS && r->outcome.status == SM_OK) {
        pthread_cond_wait(&r->changed, &r->lock);
    }
    const sm_status status = failure_of(r);
    if (status == SM_OK) {
        r->queue[r->n_started % QUEUE_JOBS] = *job;
        *ticket = ++r->n_started;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
    return status;
}

sm_status sm_comm_finish(sm_comm *comm, int64_t ticket) {
    sm_reducer *r = comm->reducer;
    pthread_mutex_lock(&r->lock);
    while (r->n_finished < ticket && r->outcome.status == SM_OK) {
        atomic_store(&r->is_awaited, true);
        pthread_cond_wait(&r->changed, &r->lock);
    }
    atomic_store(&r->is_awaited, false);
    const sm_status status = failure_of(r);
    pthread_mutex_unlock(&r->lock);
    return status;
}

int64_t sm_comm_busy_ns(sm_comm *comm) {
    return comm != NULL && comm->reducer != NULL ? atomic_load(&comm->reducer->busy_ns) : 0;
}

void sm_comm_add_busy(sm_comm *comm, int64_t elapsed_ns) { atomic_fetch_add(&comm->reducer->busy_ns, elapsed_ns); }

bool sm_comm_is_finished(sm_comm *comm, int64_t ticket) {
    sm_reducer *r = comm->reducer;
    pthread_mutex_lock(&r->lock);
    const bool is_finished = r->n_finished >= ticket || r->outcome.status != SM_OK;
    pthread_mutex_unlock(&r->lock);
    return is_finished;
}

void sm_comm_release(sm_comm *comm, int64_t ticket) {
    sm_reducer *r = comm->reducer;
    advance(&r->progress[r->me]->released, (uint32_t)ticket);
}

sm_status sm_comm_wait_released(sm_comm *comm, int64_t ticket) {
    sm_reducer *r = comm->reducer;
    for (int i = 0; i < comm->n_members; i++) {
        SM_TRY(i == r->me ? SM_OK : wait_for_counter(r, i, &r->progress[i]->released, (uint32_t)ticket));
    }
    return SM_OK;
}
