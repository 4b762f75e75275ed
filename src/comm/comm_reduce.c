// comm_reduce.c: the summing thread and its jobs.
//
// A job of n elements among processes on G groups (comm_transport.h), P members each:
//
//   each group, for each slice s:  partial = sum of its members' elements of s, by the owner (rank s) or, in
//                                  another group than the owner's, by a member that stands for it
//   stand-ins                      send their partial to the owner
//   the owner                      adds the partials in the order of groups, writes the sum to all members of its group
//                                  and sends it to the stand-ins
//   stand-ins                      write the sum to all members of their group
//
// Within one group there are no messages: each process reads its slice from all, and writes the sum to all. Each
// process has counters in shared memory: the jobs that it has started (`arrived`), those with its share done (`done`),
// and, for jobs in which processes only meet, those that it has read (`released`).
#include "src/comm/comm_reduce.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bf16.h"
#include "clock.h"
#include "os/os.h"
#include "shard.h"
#include "src/comm/comm_transport.h"

enum { MAX_SEGMENTS = 64, QUEUE_JOBS = 1024, LINE_BYTES = 64 };

typedef struct {
    size_t size_bytes;
    void **parts; // one for each member
} segment;

// The state of a member that the others of its group see.
typedef struct {
    _Alignas(LINE_BYTES) _Atomic uint32_t arrived;
    _Alignas(LINE_BYTES) _Atomic uint32_t done;
    _Alignas(LINE_BYTES) _Atomic uint32_t released;
    _Alignas(LINE_BYTES) atomic_flag has_spoken; // the first member's serves the group
} progress;

struct sm_reducer {
    sm_comm *comm;
    segment segments[MAX_SEGMENTS];
    int n_segments;
    int me;              // index among the members
    progress **progress; // one for each member
    uint32_t n_begun;    // jobs that this process has started
    void *outgoing;      // partial sums for other groups, and those from them
    void *incoming;
    size_t buffer_bytes; // of each

    bool is_running;
    pthread_t thread;
    pthread_mutex_t lock; // protects the members below
    pthread_cond_t changed;
    sm_comm_job queue[QUEUE_JOBS];
    int64_t n_started, n_finished;
    int64_t busy_ns;        // in jobs that are finished
    atomic_bool is_awaited; // the computing thread waits
    bool is_ending;
    bool is_failing;  // the failed job's `fail` is at work
    sm_status status; // of the first job that failed; later jobs are not done
    char message[512];
};

// --- waiting for others ----------------------------------------------------------------------------

int64_t sm_comm_wait_until_ns(const sm_comm *comm) { return sm_now_ns() + (int64_t)(comm->options.timeout_s * 1e9); }

static bool is_gone(const sm_comm *comm, int rank) {
    for (int i = 0; i < comm->n_members; i++) {
        if (comm->members[i] == rank) {
            return kill((pid_t)comm->pids[i], 0) != 0 && errno == ESRCH;
        }
    }
    return false;
}

sm_status sm_comm_check_wait(const sm_comm *comm, int rank, int64_t until_ns) {
    if (is_gone(comm, rank)) {
        return sm_fail(SM_ERR_DEVICE, "rank %d has died; the training ends", rank);
    }
    if (sm_now_ns() > until_ns) {
        return sm_fail(SM_ERR_TIMEOUT,
                       "rank %d did not answer for %g s; the training ends (--comm-timeout sets how long to wait)",
                       rank, comm->options.timeout_s);
    }
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

// --- sums --------------------------------------------------------------------------------------------

enum { BLOCK_ELEMS = 2048 }; // fits in L1

static void round_all(float *values, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        values[i] = sm_bf16_widen(sm_bf16_round(values[i]));
    }
}

static void narrow(const float *values, int64_t n, uint16_t *rounded) {
    for (int64_t i = 0; i < n; i++) {
        rounded[i] = sm_bf16_round(values[i]);
    }
}

static void widen(const uint16_t *rounded, int64_t n, float *values) {
    for (int64_t i = 0; i < n; i++) {
        values[i] = sm_bf16_widen(rounded[i]);
    }
}

static void add(float *restrict sum, const float *restrict values, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        sum[i] += values[i];
    }
}

static void add_rounded(float *restrict sum, const float *restrict values, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        sum[i] += sm_bf16_widen(sm_bf16_round(values[i]));
    }
}

static float *part_of(const sm_reducer *r, const sm_comm_job *job, int member) {
    return (float *)((char *)r->segments[job->segment].parts[member] + job->offset_bytes);
}

// The members' sum of n elements from `first`.
static void sum_members(const sm_reducer *r, const sm_comm_job *job, int64_t first, int64_t n, float *sum) {
    memcpy(sum, part_of(r, job, 0) + first, (size_t)n * sizeof *sum);
    if (job->is_bf16) {
        round_all(sum, n);
    }
    for (int i = 1; i < r->comm->n_members; i++) {
        (job->is_bf16 ? add_rounded : add)(sum, part_of(r, job, i) + first, n);
    }
}

static void write_to_members(const sm_reducer *r, const sm_comm_job *job, int64_t first, int64_t n, const float *sum) {
    for (int i = 0; i < r->comm->n_members; i++) {
        if (job->pattern == SM_COMM_ALL_REDUCE || i == r->me) {
            memcpy(part_of(r, job, i) + first, sum, (size_t)n * sizeof *sum);
        }
    }
}

// --- one group -----------------------------------------------------------------------------------------

static sm_slice slice_of(const sm_comm_job *job, int rank, int size) {
    return sm_slice_of(job->n_elems, job->line_elems, rank, size);
}

static int threads_for(const sm_reducer *r, const sm_comm_job *job) {
    return atomic_load(&r->is_awaited) ? job->n_threads : job->n_threads_beside;
}

static void reduce_own_slice(const sm_reducer *r, const sm_comm_job *job) {
    const sm_slice slice = slice_of(job, r->comm->rank, r->comm->size);
    const int n_threads = threads_for(r, job);
#pragma omp parallel for schedule(static) num_threads(n_threads) if (n_threads > 1)
    for (int64_t first = slice.first; first < slice.end; first += BLOCK_ELEMS) {
        float sum[BLOCK_ELEMS];
        const int64_t n = slice.end - first < BLOCK_ELEMS ? slice.end - first : BLOCK_ELEMS;
        sum_members(r, job, first, n, sum);
        if (job->is_bf16) {
            round_all(sum, n);
        }
        write_to_members(r, job, first, n, sum);
    }
}

static void copy_by_threads(char *to, const char *from, size_t size_bytes, int n_threads) {
    enum { PIECE_BYTES = 1 << 18 };
#pragma omp parallel for schedule(static) num_threads(n_threads) if (n_threads > 1 && size_bytes > PIECE_BYTES)
    for (size_t first = 0; first < size_bytes; first += PIECE_BYTES) {
        const size_t left_bytes = size_bytes - first;
        memcpy(to + first, from + first, left_bytes < PIECE_BYTES ? left_bytes : PIECE_BYTES);
    }
}

static void copy_slice_to_members(const sm_reducer *r, const sm_comm_job *job, int rank) {
    const sm_slice slice = slice_of(job, rank, r->comm->size);
    const size_t offset_bytes = (size_t)slice.first * job->elem_bytes;
    const size_t size_bytes = (size_t)(slice.end - slice.first) * job->elem_bytes;
    for (int i = 0; i < r->comm->n_members && size_bytes > 0; i++) {
        if (i != r->me) {
            copy_by_threads((char *)part_of(r, job, i) + offset_bytes,
                            (const char *)part_of(r, job, r->me) + offset_bytes, size_bytes, threads_for(r, job));
        }
    }
}

// --- several groups --------------------------------------------------------------------------------------

// The member of a group that stands in for the owner of a slice; in the owner's group, the owner.
static int stand_in(const sm_comm *comm, int group, int owner) {
    if (comm->group_of[owner] == group) {
        return owner;
    }
    int n = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        n += comm->group_of[rank] == group;
    }
    int chosen = owner % n;
    for (int rank = 0; rank < comm->size; rank++) {
        if (comm->group_of[rank] == group && chosen-- == 0) {
            return rank;
        }
    }
    return -1; // a group has members
}

static int my_group(const sm_comm *comm) { return comm->group_of[comm->rank]; }

static size_t wire_bytes(const sm_comm_job *job, int64_t n) {
    return (size_t)n * (job->is_bf16 ? sizeof(uint16_t) : job->elem_bytes);
}

static sm_status reserve(sm_reducer *r, size_t size_bytes) {
    if (size_bytes <= r->buffer_bytes) {
        return SM_OK;
    }
    free(r->outgoing);
    free(r->incoming);
    r->outgoing = malloc(size_bytes);
    r->incoming = malloc(size_bytes);
    r->buffer_bytes = r->outgoing != NULL && r->incoming != NULL ? size_bytes : 0;
    return r->buffer_bytes > 0 ? SM_OK : sm_fail(SM_ERR_OOM, "comm: no memory for messages of %zu bytes", size_bytes);
}

// Messages in flight, one for each slice or group.
typedef struct {
    sm_comm_request request;
    int rank;
} message;

static sm_status wait_for_messages(sm_comm *comm, message *messages, int n) {
    for (int i = 0; i < n; i++) {
        SM_TRY(comm->transport->wait(comm, messages[i].rank, &messages[i].request));
    }
    return SM_OK;
}

// Elements as they are sent: f32 in place, bf16 in a buffer.
static void sum_to_wire(const sm_reducer *r, const sm_comm_job *job, sm_slice slice, void *wire) {
    float sum[BLOCK_ELEMS];
    for (int64_t first = slice.first; first < slice.end; first += BLOCK_ELEMS) {
        const int64_t n = slice.end - first < BLOCK_ELEMS ? slice.end - first : BLOCK_ELEMS;
        sum_members(r, job, first, n, sum);
        if (job->is_bf16) {
            narrow(sum, n, (uint16_t *)wire + (first - slice.first));
        } else {
            memcpy((float *)wire + (first - slice.first), sum, (size_t)n * sizeof *sum);
        }
    }
}

static void wire_to_members(const sm_reducer *r, const sm_comm_job *job, sm_slice slice, const void *wire) {
    float sum[BLOCK_ELEMS];
    for (int64_t first = slice.first; first < slice.end; first += BLOCK_ELEMS) {
        const int64_t n = slice.end - first < BLOCK_ELEMS ? slice.end - first : BLOCK_ELEMS;
        if (job->is_bf16) {
            widen((const uint16_t *)wire + (first - slice.first), n, sum);
        } else {
            memcpy(sum, (const float *)wire + (first - slice.first), (size_t)n * sizeof *sum);
        }
        write_to_members(r, job, first, n, sum);
    }
}

// Sends this group's partial sums of the slices that this process stands in for.
static sm_status send_partials(sm_reducer *r, const sm_comm_job *job, message *sent, int *n_sent) {
    sm_comm *comm = r->comm;
    size_t used_bytes = 0;
    for (int owner = 0; owner < comm->size; owner++) {
        const sm_slice slice = slice_of(job, owner, comm->size);
        if (owner == comm->rank || stand_in(comm, my_group(comm), owner) != comm->rank) {
            continue;
        }
        void *wire = (char *)r->outgoing + used_bytes;
        const size_t size_bytes = wire_bytes(job, slice.end - slice.first);
        sum_to_wire(r, job, slice, wire);
        message *m = &sent[(*n_sent)++];
        m->rank = owner;
        SM_TRY(comm->transport->send(comm, owner, wire, size_bytes, &m->request));
        used_bytes += (size_bytes + 7) / 8 * 8;
    }
    return SM_OK;
}

// Adds one group's partial sum, as received, to sum.
static void add_wire(const sm_comm_job *job, float *sum, const void *wire, int64_t n) {
    if (!job->is_bf16) {
        add(sum, wire, n);
        return;
    }
    const uint16_t *rounded = wire;
    for (int64_t i = 0; i < n; i++) {
        sum[i] += sm_bf16_widen(rounded[i]);
    }
}

// The owner's sum of its slice over all groups, in order; `wire` receives it as it is sent.
static sm_status sum_groups(sm_reducer *r, const sm_comm_job *job, sm_slice slice, message *received, void *wire) {
    sm_comm *comm = r->comm;
    const int64_t n = slice.end - slice.first;
    const size_t stride_bytes = (wire_bytes(job, n) + 7) / 8 * 8;
    int n_received = 0;
    for (int group = 0; group < comm->n_groups; group++) {
        void *at = (char *)r->incoming + (size_t)group * stride_bytes;
        if (group == my_group(comm)) {
            sum_to_wire(r, job, slice, at); // rounded as on the other processes
            continue;
        }
        message *m = &received[n_received++];
        m->rank = stand_in(comm, group, comm->rank);
        SM_TRY(comm->transport->receive(comm, m->rank, at, wire_bytes(job, n), &m->request));
    }
    SM_TRY(wait_for_messages(comm, received, n_received));
    float sum[BLOCK_ELEMS];
    for (int64_t first = 0; first < n; first += BLOCK_ELEMS) {
        const int64_t length = n - first < BLOCK_ELEMS ? n - first : BLOCK_ELEMS;
        memset(sum, 0, sizeof sum);
        for (int group = 0; group < comm->n_groups; group++) {
            add_wire(job, sum, (char *)r->incoming + (size_t)group * stride_bytes + wire_bytes(job, first), length);
        }
        if (job->is_bf16) {
            narrow(sum, length, (uint16_t *)wire + first);
        } else {
            memcpy((float *)wire + first, sum, (size_t)length * sizeof *sum);
        }
    }
    return SM_OK;
}

// The owner sends `wire` to its stand-ins.
static sm_status send_to_stand_ins(sm_reducer *r, const void *wire, size_t size_bytes, message *sent, int *n_sent) {
    sm_comm *comm = r->comm;
    for (int group = 0; group < comm->n_groups; group++) {
        if (group != my_group(comm)) {
            message *m = &sent[(*n_sent)++];
            m->rank = stand_in(comm, group, comm->rank);
            SM_TRY(comm->transport->send(comm, m->rank, wire, size_bytes, &m->request));
        }
    }
    return SM_OK;
}

// Receives the slices that this process stands in for, one after the other, and writes them to its group.
static sm_status take_for_group(sm_reducer *r, const sm_comm_job *job) {
    sm_comm *comm = r->comm;
    for (int owner = 0; owner < comm->size; owner++) {
        const sm_slice slice = slice_of(job, owner, comm->size);
        if (owner == comm->rank || stand_in(comm, my_group(comm), owner) != comm->rank) {
            continue;
        }
        const bool is_copy = job->pattern == SM_COMM_ALL_GATHER;
        void *at = is_copy ? (char *)part_of(r, job, r->me) + (size_t)slice.first * job->elem_bytes : r->incoming;
        message m = {.rank = owner};
        SM_TRY(comm->transport->receive(comm, owner, at, wire_bytes(job, slice.end - slice.first), &m.request));
        SM_TRY(wait_for_messages(comm, &m, 1));
        if (is_copy) {
            copy_slice_to_members(r, job, owner);
        } else {
            wire_to_members(r, job, slice, at);
        }
    }
    return SM_OK;
}

static sm_status reduce_over_groups(sm_reducer *r, const sm_comm_job *job, message *sent, message *received) {
    sm_comm *comm = r->comm;
    const sm_slice slice = slice_of(job, comm->rank, comm->size);
    const size_t own_bytes = wire_bytes(job, slice.end - slice.first);
    int n_sent = 0;
    SM_TRY(reserve(r, 2 * ((size_t)job->n_elems + (size_t)(comm->size * job->line_elems)) * sizeof(float)));
    SM_TRY(send_partials(r, job, sent, &n_sent));
    void *sum = (char *)r->outgoing + r->buffer_bytes - (own_bytes + 7) / 8 * 8;
    SM_TRY(sum_groups(r, job, slice, received, sum));
    wire_to_members(r, job, slice, sum);
    if (job->pattern == SM_COMM_ALL_REDUCE) {
        SM_TRY(send_to_stand_ins(r, sum, own_bytes, sent, &n_sent));
        SM_TRY(take_for_group(r, job));
    }
    return wait_for_messages(comm, sent, n_sent);
}

static sm_status gather_over_groups(sm_reducer *r, const sm_comm_job *job, message *sent) {
    sm_comm *comm = r->comm;
    const sm_slice slice = slice_of(job, comm->rank, comm->size);
    const char *own = (const char *)part_of(r, job, r->me) + (size_t)slice.first * job->elem_bytes;
    int n_sent = 0;
    SM_TRY(send_to_stand_ins(r, own, (size_t)(slice.end - slice.first) * job->elem_bytes, sent, &n_sent));
    copy_slice_to_members(r, job, comm->rank);
    SM_TRY(take_for_group(r, job));
    return wait_for_messages(comm, sent, n_sent);
}

static sm_status do_over_groups(sm_reducer *r, const sm_comm_job *job) {
    const size_t n = (size_t)(r->comm->size + r->comm->n_groups);
    message *messages = calloc(2 * n, sizeof *messages);
    if (messages == NULL) {
        return sm_fail(SM_ERR_OOM, "comm: no memory for %zu messages", 2 * n);
    }
    const sm_status status = job->pattern == SM_COMM_ALL_GATHER ? gather_over_groups(r, job, messages)
                                                                : reduce_over_groups(r, job, messages, messages + n);
    free(messages);
    return status;
}

// --- meeting and watching ----------------------------------------------------------------------------------

static int leader_of(const sm_comm *comm, int group) { return stand_in(comm, group, 0); }

// The first of each group tells the first of the others that its group has arrived.
static sm_status meet_over_groups(sm_reducer *r, uint32_t number) {
    sm_comm *comm = r->comm;
    sm_status status = SM_OK;
    if (leader_of(comm, my_group(comm)) != comm->rank) {
        return wait_for_counter(r, 0, &r->progress[0]->done, number);
    }
    message *messages = calloc(2 * (size_t)comm->n_groups, sizeof *messages);
    char *bytes = calloc(2, (size_t)comm->n_groups);
    status = messages != NULL && bytes != NULL ? SM_OK : sm_fail(SM_ERR_OOM, "comm: no memory for messages");
    int n = 0;
    for (int group = 0; group < comm->n_groups && status == SM_OK; group++) {
        if (group != my_group(comm)) {
            message *sent = &messages[n++], *received = &messages[n++];
            sent->rank = received->rank = leader_of(comm, group);
            status = comm->transport->send(comm, sent->rank, &bytes[2 * group], 1, &sent->request);
            status = status == SM_OK
                         ? comm->transport->receive(comm, received->rank, &bytes[2 * group + 1], 1, &received->request)
                         : status;
        }
    }
    status = status == SM_OK ? wait_for_messages(comm, messages, n) : status;
    free(messages);
    free(bytes);
    advance(&r->progress[r->me]->done, number);
    return status;
}

// Something that all do together did not end in time. Every process that lives comes here at about the same time and
// says so; who does not has stopped.
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

static sm_status move(sm_reducer *r, const sm_comm_job *job, uint32_t number) {
    progress *mine = r->progress[r->me];
    if (job->pattern == SM_COMM_MEET) {
        return r->comm->n_groups > 1 ? meet_over_groups(r, number) : SM_OK;
    }
    if (r->comm->n_groups > 1) {
        SM_TRY(do_over_groups(r, job));
    } else if (job->pattern == SM_COMM_ALL_GATHER) {
        copy_slice_to_members(r, job, r->comm->rank);
    } else {
        reduce_own_slice(r, job);
    }
    advance(&mine->done, number);
    return wait_for_all(r, false, number);
}

static sm_status do_job(sm_reducer *r, const sm_comm_job *job) {
    if (job->pattern == SM_COMM_WATCH) { // has no number: not every process needs to watch
        return watch(r, job);
    }
    const uint32_t number = ++r->n_begun;
    SM_TRY(job->before == NULL ? SM_OK : job->before(job->ctx));
    advance(&r->progress[r->me]->arrived, number);
    SM_TRY(wait_for_all(r, true, number));
    SM_TRY(move(r, job, number));
    return job->after == NULL ? SM_OK : job->after(job->ctx);
}

static void *serve(void *argument) {
    sm_reducer *r = argument;
    pthread_mutex_lock(&r->lock);
    while (!r->is_ending) {
        if (r->n_finished == r->n_started || r->status != SM_OK) {
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
            r->status = status;
            snprintf(r->message, sizeof r->message, "%s", sm_error_message());
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
    sm_status status;
    char message[512];
    _Alignas(16) unsigned char ctx[];
} wait_beside;

static void *wait_in_thread(void *argument) {
    wait_beside *w = argument;
    w->status = w->wait(w->ctx);
    if (w->status != SM_OK) {
        snprintf(w->message, sizeof w->message, "%s", sm_error_message());
    }
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
        if (sm_now_ns() > until_ns) {
            return sm_fail(SM_ERR_TIMEOUT,
                           "another process did not answer for %g s while all join; the training ends (--comm-timeout "
                           "sets how long to wait)",
                           comm->options.timeout_s);
        }
    }
    return w->status == SM_OK ? SM_OK : sm_fail(w->status, "%s", w->message);
}

sm_status sm_comm_wait_beside(sm_comm *comm, sm_status (*wait)(void *ctx), const void *ctx, size_t ctx_bytes) {
    pthread_t thread;
    wait_beside *w = calloc(1, sizeof *w + ctx_bytes);
    if (w == NULL) {
        return sm_fail(SM_ERR_OOM, "comm: no memory to wait in");
    }
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

static sm_status share_progress(sm_reducer *r) {
    sm_comm *comm = r->comm;
    r->progress = calloc((size_t)comm->n_members, sizeof *r->progress);
    if (r->progress == NULL) {
        return sm_fail(SM_ERR_OOM, "comm: no memory for %d members", comm->n_members);
    }
    return comm->transport->share(comm, sizeof(progress), (void **)r->progress);
}

static sm_status make_reducer(sm_comm *comm) {
    sm_reducer *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return sm_fail(SM_ERR_OOM, "comm: no memory for a reducer");
    }
    r->comm = comm;
    comm->reducer = r;
    while (comm->members[r->me] != comm->rank) {
        r->me++;
    }
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    SM_TRY(share_progress(r));
    if (pthread_create(&r->thread, NULL, serve, r) != 0) {
        return sm_fail(SM_ERR_OOM, "comm: no thread to sum in");
    }
    r->is_running = true;
    return SM_OK;
}

sm_status sm_comm_serve(sm_comm *comm) { return comm->reducer == NULL ? make_reducer(comm) : SM_OK; }

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
    if (r->n_segments == MAX_SEGMENTS) {
        return sm_fail(SM_ERR_INTERNAL, "comm: more than %d pieces of shared memory", MAX_SEGMENTS);
    }
    segment *s = &r->segments[r->n_segments];
    s->parts = calloc((size_t)comm->n_members, sizeof *s->parts);
    if (s->parts == NULL) {
        return sm_fail(SM_ERR_OOM, "comm: no memory for %d members", comm->n_members);
    }
    s->size_bytes = size_bytes;
    *number = r->n_segments++;
    SM_TRY(comm->transport->share(comm, size_bytes, s->parts));
    *mine = s->parts[r->me];
    return SM_OK;
}

void *sm_comm_part(const sm_comm *comm, int number, int rank) {
    for (int i = 0; i < comm->n_members; i++) {
        if (comm->members[i] == rank) {
            return comm->reducer->segments[number].parts[i];
        }
    }
    return NULL;
}

// The caller has the lock. What the job began elsewhere has ended when the failure is known, or does not end.
static sm_status failure_of(sm_reducer *r) {
    enum { MOST_S = 3 };
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += MOST_S;
    for (int code = 0; r->is_failing && code != ETIMEDOUT;) {
        code = pthread_cond_timedwait(&r->changed, &r->lock, &until);
    }
    return r->status == SM_OK ? SM_OK : sm_fail(r->status, "%s", r->message);
}

sm_status sm_comm_start(sm_comm *comm, const sm_comm_job *job, int64_t *ticket) {
    sm_reducer *r = comm->reducer;
    pthread_mutex_lock(&r->lock);
    while (r->n_started - r->n_finished == QUEUE_JOBS && r->status == SM_OK) {
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
    while (r->n_finished < ticket && r->status == SM_OK) {
        atomic_store(&r->is_awaited, true);
        pthread_cond_wait(&r->changed, &r->lock);
    }
    atomic_store(&r->is_awaited, false);
    const sm_status status = failure_of(r);
    pthread_mutex_unlock(&r->lock);
    return status;
}

int64_t sm_comm_busy_ns(sm_comm *comm) {
    sm_reducer *r = comm != NULL ? comm->reducer : NULL;
    if (r == NULL) {
        return 0;
    }
    pthread_mutex_lock(&r->lock);
    const int64_t busy_ns = r->busy_ns;
    pthread_mutex_unlock(&r->lock);
    return busy_ns;
}

void sm_comm_add_busy(sm_comm *comm, int64_t elapsed_ns) {
    sm_reducer *r = comm->reducer;
    pthread_mutex_lock(&r->lock);
    r->busy_ns += elapsed_ns;
    pthread_mutex_unlock(&r->lock);
}

bool sm_comm_is_finished(sm_comm *comm, int64_t ticket) {
    sm_reducer *r = comm->reducer;
    pthread_mutex_lock(&r->lock);
    const bool is_finished = r->n_finished >= ticket || r->status != SM_OK;
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
