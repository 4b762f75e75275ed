// comm_move.c: sums and copies a job's elements among the processes.
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
// Within one group there are no messages: each process reads its slice from all, and writes the sum to all.
#include "src/comm/comm_transport.h"

#include "f16.h"
#include "shard.h"

// --- sums --------------------------------------------------------------------------------------------

enum { BLOCK_ELEMS = 2048 }; // fits in L1

static void round_all(float *values, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        values[i] = sm_bf16_widen(sm_bf16_round(values[i]));
    }
}

static void add(float *restrict sum, const float *restrict values, int64_t n, bool rounds) {
    for (int64_t i = 0; i < n; i++) {
        sum[i] += rounds ? sm_bf16_widen(sm_bf16_round(values[i])) : values[i];
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
        add(sum, part_of(r, job, i) + first, n, job->is_bf16);
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

static void copy_slice_to_members(const sm_reducer *r, const sm_comm_job *job, int rank) {
    const sm_slice slice = slice_of(job, rank, r->comm->size);
    const size_t offset_bytes = (size_t)slice.first * job->elem_bytes;
    const size_t size_bytes = (size_t)(slice.end - slice.first) * job->elem_bytes;
    for (int i = 0; i < r->comm->n_members && size_bytes > 0; i++) {
        if (i != r->me) {
            const int n_threads = threads_for(r, job);
            enum { PIECE_BYTES = 1 << 18 };
#pragma omp parallel for schedule(static) num_threads(n_threads) if (n_threads > 1 && size_bytes > PIECE_BYTES)
            for (size_t first = 0; first < size_bytes; first += PIECE_BYTES) {
                const size_t left_bytes = size_bytes - first;
                memcpy(((char *)part_of(r, job, i) + offset_bytes) + first,
                       ((const char *)part_of(r, job, r->me) + offset_bytes) + first,
                       left_bytes < PIECE_BYTES ? left_bytes : PIECE_BYTES);
            }
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

// Writes n sums to `wire` as they are sent, element `at` on: as f32 or bf16.
static void to_wire(const sm_comm_job *job, const float *sum, int64_t n, void *wire, int64_t at) {
    if (!job->is_bf16) {
        memcpy((float *)wire + at, sum, (size_t)n * sizeof *sum);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        ((uint16_t *)wire + at)[i] = sm_bf16_round(sum[i]);
    }
}

static void sum_to_wire(const sm_reducer *r, const sm_comm_job *job, sm_slice slice, void *wire) {
    float sum[BLOCK_ELEMS];
    for (int64_t first = slice.first; first < slice.end; first += BLOCK_ELEMS) {
        const int64_t n = slice.end - first < BLOCK_ELEMS ? slice.end - first : BLOCK_ELEMS;
        sum_members(r, job, first, n, sum);
        to_wire(job, sum, n, wire, first - slice.first);
    }
}

static void from_wire(const sm_comm_job *job, const void *wire, int64_t at, int64_t n, float *values) {
    if (!job->is_bf16) {
        memcpy(values, (const float *)wire + at, (size_t)n * sizeof *values);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        values[i] = sm_bf16_widen(((const uint16_t *)wire + at)[i]);
    }
}

static void wire_to_members(const sm_reducer *r, const sm_comm_job *job, sm_slice slice, const void *wire) {
    float sum[BLOCK_ELEMS];
    for (int64_t first = slice.first; first < slice.end; first += BLOCK_ELEMS) {
        const int64_t n = slice.end - first < BLOCK_ELEMS ? slice.end - first : BLOCK_ELEMS;
        from_wire(job, wire, first - slice.first, n, sum);
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
        SM_TRY(comm->transport->begin(comm, true, owner, wire, size_bytes, &m->request));
        used_bytes += (size_bytes + 7) / 8 * 8;
    }
    return SM_OK;
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
        SM_TRY(comm->transport->begin(comm, false, m->rank, at, wire_bytes(job, n), &m->request));
    }
    SM_TRY(wait_for_messages(comm, received, n_received));
    float sum[BLOCK_ELEMS], part[BLOCK_ELEMS];
    for (int64_t first = 0; first < n; first += BLOCK_ELEMS) {
        const int64_t length = n - first < BLOCK_ELEMS ? n - first : BLOCK_ELEMS;
        memset(sum, 0, sizeof sum);
        for (int group = 0; group < comm->n_groups; group++) {
            from_wire(job, (char *)r->incoming + (size_t)group * stride_bytes, first, length, part);
            add(sum, part, length, false);
        }
        to_wire(job, sum, length, wire, first);
    }
    return SM_OK;
}

// The owner sends `wire` to its stand-ins.
static sm_status send_to_stand_ins(sm_reducer *r, void *wire, size_t size_bytes, message *sent, int *n_sent) {
    sm_comm *comm = r->comm;
    for (int group = 0; group < comm->n_groups; group++) {
        if (group != my_group(comm)) {
            message *m = &sent[(*n_sent)++];
            m->rank = stand_in(comm, group, comm->rank);
            SM_TRY(comm->transport->begin(comm, true, m->rank, wire, size_bytes, &m->request));
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
        SM_TRY(comm->transport->begin(comm, false, owner, at, wire_bytes(job, slice.end - slice.first), &m.request));
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
    char *own = (char *)part_of(r, job, r->me) + (size_t)slice.first * job->elem_bytes;
    int n_sent = 0;
    SM_TRY(send_to_stand_ins(r, own, (size_t)(slice.end - slice.first) * job->elem_bytes, sent, &n_sent));
    copy_slice_to_members(r, job, comm->rank);
    SM_TRY(take_for_group(r, job));
    return wait_for_messages(comm, sent, n_sent);
}

sm_status sm_reducer_move(sm_reducer *r, const sm_comm_job *job) {
    if (r->comm->n_groups > 1) {
        const size_t n = (size_t)(r->comm->size + r->comm->n_groups);
        SM_FREED message *messages = sm_calloc(2 * n, sizeof *messages);
        return job->pattern == SM_COMM_ALL_GATHER ? gather_over_groups(r, job, messages)
                                                  : reduce_over_groups(r, job, messages, messages + n);
    }
    if (job->pattern == SM_COMM_ALL_GATHER) {
        copy_slice_to_members(r, job, r->comm->rank);
    } else {
        reduce_own_slice(r, job);
    }
    return SM_OK;
}

bool sm_comm_leads_group(const sm_comm *comm) { return stand_in(comm, my_group(comm), 0) == comm->rank; }

sm_status sm_comm_meet_leaders(sm_comm *comm) {
    SM_FREED message *messages = sm_calloc(2 * (size_t)comm->n_groups, sizeof *messages);
    SM_FREED char *bytes = sm_calloc(2, (size_t)comm->n_groups);
    int n = 0;
    for (int group = 0; group < comm->n_groups; group++) {
        if (group != my_group(comm)) {
            message *sent = &messages[n++], *received = &messages[n++];
            sent->rank = received->rank = stand_in(comm, group, 0);
            SM_TRY(comm->transport->begin(comm, true, sent->rank, &bytes[2 * group], 1, &sent->request));
            SM_TRY(comm->transport->begin(comm, false, received->rank, &bytes[2 * group + 1], 1, &received->request));
        }
    }
    return wait_for_messages(comm, messages, n);
}
