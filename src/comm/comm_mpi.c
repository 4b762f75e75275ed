// comm_mpi.c: the only file that knows MPI. Every MPI call returns at once, under one lock (MPI_THREAD_SERIALIZED), so
// that the summing and the computing thread may both communicate. Every wait ends: by its limit, or a process's end.
#include <mpi.h>
#include <time.h>
#include <unistd.h>

#include "src/comm/comm_transport.h"

typedef struct {
    sm_comm base;
    MPI_Comm control; // of the computing thread
    MPI_Comm sums;    // of the summing thread
    MPI_Comm host;    // the group
    MPI_Win *windows;
    int n_windows;
    bool is_lost; // a wait failed: MPI_Finalize would hang
    pthread_mutex_t lock;
} mpi_comm;

_Static_assert(sizeof(MPI_Request) <= sizeof(sm_comm_request), "a request has room");

static sm_status check(const char *call, int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS) {
        return SM_OK;
    }
    MPI_Error_string(code, text, &length);
    return sm_fail(SM_ERR_DEVICE, "MPI: %s: %s", call, text);
}

// --- waiting -----------------------------------------------------------------------------------------

static int test(mpi_comm *m, MPI_Request *request, int *done) {
    pthread_mutex_lock(&m->lock);
    const int code = MPI_Test(request, done, MPI_STATUS_IGNORE);
    pthread_mutex_unlock(&m->lock);
    return code;
}

// Polls without a pause at first, then with short ones, since there may be more processes than processors. A large
// message moves in pieces, and only while both sides look: pauses of 500 us made 16 MiB take 110 ms for 33.
static void pause_between(int n_looks) {
    enum { OFTEN = 200, PAUSE_NS = 20000 };
    if (n_looks >= OFTEN) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
}

// A wait for a rank that may itself wait for another is longer, so that the missing rank gets named.
static sm_status wait_for_ns(mpi_comm *m, int rank, MPI_Request *request, int64_t more_ns) {
    enum { LOOKS_A_CHECK = 128 };
    const int64_t until_ns = sm_comm_wait_until_ns(&m->base) + more_ns;
    int done = 0;
    for (int n_looks = 0; !done; n_looks++) {
        SM_TRY(check("MPI_Test", test(m, request, &done)));
        sm_status status = done || n_looks % LOOKS_A_CHECK != 0 ? SM_OK : sm_comm_check_wait(&m->base, rank, until_ns);
        m->is_lost |= status != SM_OK;
        SM_TRY(status);
        if (!done) {
            pause_between(n_looks);
        }
    }
    return SM_OK;
}

static sm_status wait_for(mpi_comm *m, int rank, MPI_Request *request) { return wait_for_ns(m, rank, request, 0); }

enum { TAG = 1, MOST_BYTES = 1 << 30, PATIENCE_NS = 500000000 };

// Begins to send or to receive.
static sm_status begin_on(mpi_comm *m, MPI_Comm on, bool sends, int rank, void *data, size_t size_bytes,
                          MPI_Request *request) {
    SM_FAIL_IF(size_bytes > MOST_BYTES, SM_ERR_INTERNAL, "MPI: a message of %zu bytes", size_bytes);
    pthread_mutex_lock(&m->lock);
    const int n = (int)size_bytes;
    const int code = sends ? MPI_Isend(data, n, MPI_BYTE, rank, TAG, on, request)
                           : MPI_Irecv(data, n, MPI_BYTE, rank, TAG, on, request);
    pthread_mutex_unlock(&m->lock);
    return check(sends ? "MPI_Isend" : "MPI_Irecv", code);
}

// --- small messages, by way of rank 0 ------------------------------------------------------------------

// Sends to one rank after the other, so that a rank that does not answer can be named.
static sm_status broadcast_part(mpi_comm *m, int from, char *data, size_t size_bytes) {
    MPI_Request request;
    if (m->base.rank != from) {
        SM_TRY(begin_on(m, m->control, false, from, data, size_bytes, &request));
        return wait_for_ns(m, from, &request, PATIENCE_NS);
    }
    SM_FREED MPI_Request *requests = sm_calloc((size_t)m->base.size, sizeof *requests);
    for (int rank = 0; rank < m->base.size; rank++) {
        requests[rank] = MPI_REQUEST_NULL;
        SM_TRY(rank != from ? begin_on(m, m->control, true, rank, data, size_bytes, &requests[rank]) : SM_OK);
    }
    for (int rank = 0; rank < m->base.size; rank++) {
        SM_TRY(wait_for(m, rank, &requests[rank]));
    }
    return SM_OK;
}

static sm_status broadcast(sm_comm *comm, int from, void *data, size_t size_bytes) {
    for (size_t first = 0; first < size_bytes; first += MOST_BYTES) {
        const size_t left_bytes = size_bytes - first;
        SM_TRY(broadcast_part((mpi_comm *)comm, from, (char *)data + first,
                              left_bytes < MOST_BYTES ? left_bytes : MOST_BYTES));
    }
    return SM_OK;
}

static sm_status gather(sm_comm *comm, const void *mine, size_t size_bytes, void *all) {
    mpi_comm *m = (mpi_comm *)comm;
    MPI_Request request;
    char *own = (char *)all + (size_t)comm->rank * size_bytes;
    memmove(own, mine, size_bytes);
    if (comm->rank > 0) {
        SM_TRY(begin_on(m, m->control, true, 0, own, size_bytes, &request));
        SM_TRY(wait_for(m, 0, &request));
    }
    for (int rank = 1; rank < comm->size && comm->rank == 0; rank++) {
        char *its = (char *)all + (size_t)rank * size_bytes;
        SM_TRY(begin_on(m, m->control, false, rank, its, size_bytes, &request));
        SM_TRY(wait_for(m, rank, &request));
    }
    return broadcast(comm, 0, all, (size_t)comm->size * size_bytes);
}

// --- for the thread that sums ----------------------------------------------------------------------------

static sm_status begin_sums(sm_comm *comm, bool sends, int rank, void *data, size_t size_bytes,
                            sm_comm_request *request) {
    mpi_comm *m = (mpi_comm *)comm;
    MPI_Request begun = MPI_REQUEST_NULL;
    SM_TRY(begin_on(m, m->sums, sends, rank, data, size_bytes, &begun));
    memcpy(request->bytes, &begun, sizeof begun);
    return SM_OK;
}

static sm_status wait_for_sums(sm_comm *comm, int rank, sm_comm_request *request) {
    MPI_Request under_way;
    memcpy(&under_way, request->bytes, sizeof under_way);
    return wait_for((mpi_comm *)comm, rank, &under_way);
}

// A shared window in which each part begins at a page, so that it lies near the process that touches it first.
static sm_status share(sm_comm *comm, size_t size_bytes, void **parts) {
    mpi_comm *m = (mpi_comm *)comm;
    MPI_Info info;
    void *mine = NULL;
    m->windows = sm_realloc(m->windows, (size_t)(m->n_windows + 1) * sizeof *m->windows);
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    const int code = MPI_Win_allocate_shared((MPI_Aint)size_bytes, 1, info, m->host, &mine, &m->windows[m->n_windows]);
    MPI_Info_free(&info);
    SM_FAIL_IF(code != MPI_SUCCESS, SM_ERR_OOM,
               "MPI: no shared memory of %.2f GiB for each of %d processes: make /dev/shm larger, or use "
               "--transport messages",
               (double)size_bytes / (1 << 30), comm->n_members);
    MPI_Win_set_errhandler(m->windows[m->n_windows], MPI_ERRORS_RETURN);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, m->windows[m->n_windows]);
    for (int i = 0; i < comm->n_members; i++) {
        MPI_Aint its_bytes;
        int unit;
        MPI_Win_shared_query(m->windows[m->n_windows], i, &its_bytes, &unit, &parts[i]);
    }
    m->n_windows++;
    return sm_comm_barrier(comm);
}

// --- who there is ------------------------------------------------------------------------------------------

static bool was_started_by_launcher(void) {
    static const char *const signs[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
    for (size_t i = 0; i < SM_COUNT(signs); i++) {
        if (getenv(signs[i]) != NULL) {
            return true;
        }
    }
    return false;
}

typedef struct {
    int host; // lowest rank there
    int64_t pid;
} whereabouts;

static void count_places(sm_comm *comm, const whereabouts *all) {
    comm->group_of = sm_calloc((size_t)comm->size, sizeof *comm->group_of);
    comm->members = sm_calloc((size_t)comm->size, sizeof *comm->members);
    comm->pids = sm_calloc((size_t)comm->size, sizeof *comm->pids);
    for (int rank = 0; rank < comm->size; rank++) {
        const bool is_here = all[rank].host == all[comm->rank].host;
        comm->local_size += is_here;
        comm->local_rank += is_here && rank < comm->rank;
        comm->group_of[rank] = all[rank].host == rank ? comm->n_groups++ : comm->group_of[all[rank].host];
        if (is_here) {
            comm->pids[comm->n_members] = all[rank].pid;
            comm->members[comm->n_members++] = rank;
        }
    }
}

static sm_status part(sm_comm *comm) {
    mpi_comm *m = (mpi_comm *)comm;
    MPI_Comm_free(&m->host);
    SM_TRY(check("MPI_Comm_split", MPI_Comm_split(m->control, comm->rank, 0, &m->host)));
    MPI_Comm_set_errhandler(m->host, MPI_ERRORS_RETURN);
    for (int rank = 0; rank < comm->size; rank++) {
        comm->group_of[rank] = rank;
    }
    comm->n_groups = comm->size;
    comm->n_members = 1;
    comm->members[0] = comm->rank;
    comm->pids[0] = getpid();
    return SM_OK;
}

static sm_status find_places(mpi_comm *m) {
    sm_comm *comm = &m->base;
    whereabouts mine = {.host = comm->rank, .pid = getpid()};
    SM_TRY(check("MPI_Comm_split_type",
                 MPI_Comm_split_type(m->control, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &m->host)));
    MPI_Comm_set_errhandler(m->host, MPI_ERRORS_RETURN);
    SM_TRY(check("MPI_Bcast", MPI_Bcast(&mine.host, 1, MPI_INT, 0, m->host)));
    SM_FREED whereabouts *all = sm_calloc((size_t)comm->size, sizeof *all);
    SM_TRY(gather(comm, &mine, sizeof mine, all));
    count_places(comm, all);
    return comm->options.transport == SM_TRANSPORT_MESSAGES ? part(comm) : SM_OK;
}

// --- its end -------------------------------------------------------------------------------------------------

static void abort_all(sm_comm *comm, int exit_code) {
    mpi_comm *m = (mpi_comm *)comm;
    m->is_lost = true;
    MPI_Abort(MPI_COMM_WORLD, exit_code);
}

static void close_comm(sm_comm *comm) {
    mpi_comm *m = (mpi_comm *)comm;
    sm_reducer_free(comm->reducer);
    if (!m->is_lost) {
        for (int i = 0; i < m->n_windows; i++) {
            MPI_Win_unlock_all(m->windows[i]);
            MPI_Win_free(&m->windows[i]);
        }
        MPI_Finalize();
    }
    pthread_mutex_destroy(&m->lock);
    free(m->windows);
    free(comm->group_of);
    free(comm->members);
    free(comm->pids);
    free(m);
}

static const sm_comm_transport transport = {
    .broadcast = broadcast,
    .gather = gather,
    .part = part,
    .share = share,
    .begin = begin_sums,
    .wait = wait_for_sums,
    .abort = abort_all,
    .close = close_comm,
};

static sm_status join(mpi_comm *m) {
    MPI_Comm_rank(MPI_COMM_WORLD, &m->base.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &m->base.size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    SM_TRY(check("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &m->control)));
    SM_TRY(check("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &m->sums)));
    return find_places(m);
}

sm_status sm_comm_open_mpi(const sm_comm_options *options, sm_comm **comm) {
    int level = MPI_THREAD_SINGLE;
    *comm = NULL;
    if (!was_started_by_launcher()) {
        return SM_OK;
    }
    mpi_comm *m = sm_calloc(1, sizeof *m);
    m->base.transport = &transport;
    m->base.options = *options;
    m->base.options.timeout_s = options->timeout_s > 0 ? options->timeout_s : SM_COMM_TIMEOUT_S;
    pthread_mutex_init(&m->lock, NULL);
    sm_status status = check("MPI_Init_thread", MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level));
    if (status == SM_OK && level < MPI_THREAD_SERIALIZED) {
        status = sm_fail(SM_ERR_UNSUPPORTED, "MPI: this library lets one thread communicate only");
    }
    status = status == SM_OK ? join(m) : status;
    if (status != SM_OK) {
        m->is_lost = true;
        close_comm(&m->base);
        return status;
    }
    *comm = &m->base;
    return SM_OK;
}
