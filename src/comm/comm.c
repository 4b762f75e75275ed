// comm.c: messages between processes, by a broadcast and a gather.
#include "src/comm/comm.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include "src/comm/comm_transport.h"

// --- who there is ----------------------------------------------------------------------------------

#ifndef SM_MPI
// If mpirun or srun started several processes, each would think it is alone, and all would write the same files.
static sm_status refuse_many(void) {
    static const char *const counts[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < SM_COUNT(counts); i++) {
        const char *text = getenv(counts[i]);
        SM_FAIL_IF(text != NULL && atoi(text) > 1, SM_ERR_USAGE,
                   "this is one of %s processes (%s), and this build is without MPI; `make mpi` makes "
                   "build/mpi/stepmark on Linux",
                   text, counts[i]);
    }
    return SM_OK;
}
#endif

sm_status sm_comm_open(const sm_comm_options *options, sm_comm **comm) {
    *comm = NULL;
#ifdef SM_MPI
    SM_TRY(sm_comm_open_mpi(options, comm));
#else
    SM_TRY(refuse_many());
#endif
    if (*comm != NULL) {
        return SM_OK;
    }
    const char *n = getenv("WORLD_SIZE");
    SM_FAIL_IF(n != NULL && atoi(n) > 1 && getenv("TORCHELASTIC_RUN_ID") != NULL, SM_ERR_USAGE,
               "torchrun has started %s processes (WORLD_SIZE), each of which would work alone; give mpirun -n %s", n, n);
    *comm = sm_calloc(1, sizeof **comm);
    **comm = (sm_comm){.options = *options, .size = 1, .local_size = 1};
    return SM_OK;
}

const sm_comm_options *sm_comm_options_of(const sm_comm *comm) {
    static const sm_comm_options none = {0};
    return comm != NULL ? &comm->options : &none;
}

static bool is_alone(const sm_comm *comm) { return comm == NULL || comm->transport == NULL; }

void sm_comm_close(sm_comm *comm) {
    if (is_alone(comm)) {
        free(comm);
    } else {
        comm->transport->close(comm);
    }
}

int sm_comm_rank(const sm_comm *comm) { return comm == NULL ? 0 : comm->rank; }
int sm_comm_size(const sm_comm *comm) { return comm == NULL ? 1 : comm->size; }
int sm_comm_local_rank(const sm_comm *comm) { return comm == NULL ? 0 : comm->local_rank; }
int sm_comm_local_size(const sm_comm *comm) { return comm == NULL ? 1 : comm->local_size; }
bool sm_comm_shares_memory(const sm_comm *comm) { return comm == NULL || comm->n_groups <= 1; }

// MPI makes shared memory of files here, with some bytes of its own, and may wait for ever where they do not fit.
#define SHARED_MEMORY "/dev/shm"
enum { ITS_OWN_BYTES = 1 << 16 };

static bool has_room(const sm_comm *comm, size_t size_bytes, char lack[SM_COMM_LACK_SIZE]) {
    struct statvfs free;
    const double need_bytes = (double)comm->n_members * ((double)size_bytes + ITS_OWN_BYTES);
    if (comm->members[0] != comm->rank || access(SHARED_MEMORY, W_OK) != 0 || statvfs(SHARED_MEMORY, &free) != 0 ||
        (double)free.f_bavail * (double)free.f_frsize >= need_bytes) {
        return true;
    }
    snprintf(lack, SM_COMM_LACK_SIZE, "%s has %.1f MiB left, and %d processes share %.1f MiB", SHARED_MEMORY,
             (double)free.f_bavail * (double)free.f_frsize / (1 << 20), comm->n_members, need_bytes / (1 << 20));
    return false;
}

sm_status sm_comm_make_room(sm_comm *comm, size_t size_bytes, char lack[SM_COMM_LACK_SIZE]) {
    lack[0] = '\0';
    if (comm == NULL || comm->n_groups == comm->size || comm->reducer != NULL) {
        return SM_OK;
    }
    const sm_status status = has_room(comm, size_bytes, lack)
                                 ? SM_OK
                                 : sm_fail(SM_ERR_OOM, "%s: make it larger, or use --transport messages", lack);
    if (comm->options.transport == SM_TRANSPORT_MEMORY) {
        return sm_comm_agree(comm, status);
    }
    double n_lacking = status != SM_OK;
    SM_TRY(sm_comm_sum(comm, &n_lacking, 1));
    return n_lacking > 0 ? comm->transport->part(comm) : SM_OK;
}

// --- what they tell --------------------------------------------------------------------------------

sm_status sm_comm_broadcast(sm_comm *comm, int from, void *data, size_t size_bytes) {
    return is_alone(comm) ? SM_OK : comm->transport->broadcast(comm, from, data, size_bytes);
}

sm_status sm_comm_gather(sm_comm *comm, const void *mine, size_t size_bytes, void *all) {
    if (is_alone(comm)) {
        memmove(all, mine, size_bytes);
        return SM_OK;
    }
    return comm->transport->gather(comm, mine, size_bytes, all);
}

sm_status sm_comm_barrier(sm_comm *comm) {
    char none = 0;
    SM_FREED char *all = sm_malloc((size_t)sm_comm_size(comm));
    return sm_comm_gather(comm, &none, sizeof none, all);
}

static double sum_of(double a, double b) { return a + b; }
static double larger_of(double a, double b) { return a > b || a != a ? a : b; } // NaN stays NaN

static sm_status combine(sm_comm *comm, double *values, int n, double (*of_two)(double a, double b)) {
    if (is_alone(comm)) {
        return SM_OK;
    }
    SM_FREED double *all = sm_malloc((size_t)comm->size * (size_t)n * sizeof *all);
    SM_TRY(sm_comm_gather(comm, values, (size_t)n * sizeof *values, all));
    for (int i = 0; i < n; i++) {
        values[i] = all[i];
        for (int rank = 1; rank < comm->size; rank++) {
            values[i] = of_two(values[i], all[rank * n + i]);
        }
    }
    return SM_OK;
}

sm_status sm_comm_sum(sm_comm *comm, double *values, int n) { return combine(comm, values, n, sum_of); }

sm_status sm_comm_max(sm_comm *comm, double *values, int n) { return combine(comm, values, n, larger_of); }

// --- how they are ----------------------------------------------------------------------------------

enum { MESSAGE_BYTES = 512 };

static int badness(sm_status status) { return status == SM_OK ? 0 : status == SM_ERR_INTERRUPTED ? 1 : 2; }

// A message is exchanged only if there is one.
static sm_status tell_message(sm_comm *comm, int from, sm_status status) {
    char message[MESSAGE_BYTES];
    SM_FREED char *all = sm_malloc((size_t)comm->size * MESSAGE_BYTES);
    snprintf(message, sizeof message, "%s", sm_error_message());
    SM_TRY(sm_comm_gather(comm, message, sizeof message, all));
    return sm_fail(status, "rank %d: %.*s", from, MESSAGE_BYTES - 1, &all[from * MESSAGE_BYTES]);
}

sm_status sm_comm_agree(sm_comm *comm, sm_status status) {
    if (is_alone(comm)) {
        return status;
    }
    SM_FREED sm_status *all = sm_malloc((size_t)comm->size * sizeof *all);
    comm->has_agreed = false;
    SM_TRY(sm_comm_gather(comm, &status, sizeof status, all));
    int worst = 0; // the first rank that has the worst status
    for (int rank = 1; rank < comm->size; rank++) {
        worst = badness(all[rank]) > badness(all[worst]) ? rank : worst;
    }
    comm->has_agreed = all[worst] != SM_OK;
    return badness(all[worst]) < 2 ? all[worst] : tell_message(comm, worst, all[worst]);
}

// --- whether they are alike --------------------------------------------------------------------------

// "name\0value\0name\0value\0".
static char *join_facts(const sm_comm_fact *facts, int n_facts, size_t *size_bytes) {
    size_t n = 1;
    for (int i = 0; i < n_facts; i++) {
        n += strlen(facts[i].name) + strlen(facts[i].value) + 2;
    }
    char *text = sm_calloc(1, n);
    char *at = text;
    for (int i = 0; i < n_facts; i++) {
        at += sprintf(at, "%s", facts[i].name) + 1;
        at += sprintf(at, "%s", facts[i].value) + 1;
    }
    *size_bytes = n;
    return text;
}

// The value of a name in such a text; NULL: none.
static const char *value_in(const char *text, size_t size_bytes, const char *name) {
    for (const char *at = text; at < text + size_bytes - 1;) {
        const char *value = at + strlen(at) + 1;
        if (strcmp(at, name) == 0) {
            return value;
        }
        at = value + strlen(value) + 1;
    }
    return NULL;
}

// Compares this process's facts with rank 0's: all of its names, then all of ours.
static sm_status compare_to_first(const sm_comm *comm, const char *mine, size_t mine_bytes, const char *first,
                                  size_t first_bytes, const char *advice) {
    for (int i = 0; i < 2; i++) {
        const char *end = i == 0 ? first + first_bytes - 1 : mine + mine_bytes - 1;
        for (const char *name = i == 0 ? first : mine; name < end;) {
            const char *ours = value_in(mine, mine_bytes, name);
            const char *its = value_in(first, first_bytes, name);
            SM_FAIL_IF(ours == NULL || its == NULL || strcmp(ours, its) != 0, SM_ERR_USAGE,
                       "%s: is %s for rank %d and %s for rank 0; %s", name, ours != NULL ? ours : "not given",
                       comm->rank, its != NULL ? its : "not given", advice);
            name = (i == 0 ? its : ours) + strlen(ours) + 1; // the values are equal
        }
    }
    return SM_OK;
}

sm_status sm_comm_compare(sm_comm *comm, sm_status status, const sm_comm_fact *facts, int n_facts, const char *advice) {
    if (is_alone(comm)) {
        return status;
    }
    size_t mine_bytes;
    SM_FREED char *mine = join_facts(facts, n_facts, &mine_bytes);
    uint64_t first_bytes = mine_bytes; // rank 0's, for all
    SM_TRY(sm_comm_broadcast(comm, 0, &first_bytes, sizeof first_bytes));
    SM_FREED char *first = sm_calloc(1, (size_t)first_bytes);
    if (comm->rank == 0) {
        memcpy(first, mine, mine_bytes);
    }
    SM_TRY(sm_comm_broadcast(comm, 0, first, (size_t)first_bytes));
    return sm_comm_agree(
        comm, status == SM_OK ? compare_to_first(comm, mine, mine_bytes, first, (size_t)first_bytes, advice) : status);
}

bool sm_comm_has_agreed(const sm_comm *comm) { return is_alone(comm) || comm->has_agreed; }

void sm_comm_abort(sm_comm *comm, int exit_code) {
    if (!is_alone(comm)) {
        comm->transport->abort(comm, exit_code);
    }
}
