// nccl.c: a libnccl.so.2 for tests, over memory that the processes of one host share, on the streams of cuda.c. Sums
// are in the order of ranks.
//
//     STEPMARK_NCCL_FAULT="join 1"    each call from the first on fails; also "exchange", "async"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "status.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" // who loads a library declares its functions

enum { SUCCESS = 0, INTERNAL = 3, INVALID = 4, PART_BYTES = 1 << 18, MOST_RANKS = 8 };
enum { BYTES = 0, F32 = 7, BF16 = 9 };

typedef struct {
    unsigned char bytes[128];
} unique_id;

// Memory that all processes share.
typedef struct {
    atomic_int n_joined;
    atomic_uint n_arrived; // at barriers, in all
    unsigned char parts[MOST_RANKS][PART_BYTES];
} common;

typedef struct {
    common *all;
    int rank, n;
    unsigned n_barriers;
    atomic_int is_aborted;
} communicator;

static int is_fault(const char *where) {
    static int n_calls;
    char name[32];
    int first = 0;
    const char *fault = getenv("STEPMARK_NCCL_FAULT");
    return fault != NULL && sscanf(fault, "%31s %d", name, &first) == 2 && strcmp(name, where) == 0 &&
           ++n_calls >= first;
}

int ncclGetVersion(int *version) {
    *version = 29999;
    return SUCCESS;
}

const char *ncclGetErrorString(int code) { return code == INTERNAL ? "internal error of a test" : "error of a test"; }

// --- joining -------------------------------------------------------------------------------------

int ncclGetUniqueId(unique_id *id) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    memset(id, 0, sizeof *id);
    snprintf((char *)id->bytes, sizeof id->bytes, "/stepmark-nccl-%d-%lld", (int)getpid(),
             (long long)t.tv_sec * 1000000000 + t.tv_nsec);
    return SUCCESS;
}

static void rest(void) { nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL); }

int ncclCommInitRank(communicator **created, int n, unique_id id, int rank) {
    if (n > MOST_RANKS || is_fault("join")) {
        return INTERNAL;
    }
    communicator *c = calloc(1, sizeof *c);
    const int descriptor = shm_open((const char *)id.bytes, O_CREAT | O_RDWR, 0600);
    if (c == NULL || descriptor < 0 || ftruncate(descriptor, sizeof(common)) != 0) {
        free(c);
        return INTERNAL;
    }
    *c = (communicator){
        .all = mmap(NULL, sizeof(common), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), .rank = rank, .n = n};
    close(descriptor);
    atomic_fetch_add(&c->all->n_joined, 1);
    while (atomic_load(&c->all->n_joined) < n) {
        rest();
    }
    shm_unlink((const char *)id.bytes);
    *created = c;
    return SUCCESS;
}

int ncclCommDestroy(communicator *c) {
    munmap(c->all, sizeof *c->all);
    free(c);
    return SUCCESS;
}

int ncclCommAbort(communicator *c) {
    atomic_store(&c->is_aborted, 1);
    return SUCCESS;
}

int ncclCommGetAsyncError(SM_UNUSED communicator *c, int *code) {
    *code = is_fault("async") ? INTERNAL : SUCCESS;
    return SUCCESS;
}

int ncclGroupStart(void) { return SUCCESS; }
int ncclGroupEnd(void) { return SUCCESS; }

// --- exchanges, in a stream ------------------------------------------------------------------------

static void meet(communicator *c) {
    const unsigned wanted = ++c->n_barriers * (unsigned)c->n;
    atomic_fetch_add(&c->all->n_arrived, 1);
    while ((int)(atomic_load(&c->all->n_arrived) - wanted) < 0 && !atomic_load(&c->is_aborted)) {
        rest();
    }
}

static float widen(uint16_t x) {
    const uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint16_t narrow(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static void sum(const communicator *c, int type, size_t size_bytes, unsigned char *to) {
    const size_t elem_bytes = type == F32 ? sizeof(float) : sizeof(uint16_t);
    for (size_t i = 0; i < size_bytes / elem_bytes; i++) {
        float total = 0;
        for (int rank = 0; rank < c->n; rank++) {
            float value;
            uint16_t half;
            if (type == F32) {
                memcpy(&value, c->all->parts[rank] + i * elem_bytes, sizeof value);
            } else {
                memcpy(&half, c->all->parts[rank] + i * elem_bytes, sizeof half);
                value = widen(half);
            }
            total += value;
        }
        const uint16_t half = narrow(total);
        memcpy(to + i * elem_bytes, type == F32 ? (const void *)&total : &half, elem_bytes);
    }
}

typedef struct {
    communicator *comm;
    const unsigned char *from;
    unsigned char *to;
    size_t size_bytes;
    int type; // BYTES: copied from the root
    int root; // which alone gets the sum; -1: all do
} exchange;

static void run(void *argument) {
    exchange *e = argument;
    communicator *c = e->comm;
    for (size_t at = 0; at < e->size_bytes && !atomic_load(&c->is_aborted); at += PART_BYTES) {
        const size_t n = e->size_bytes - at < PART_BYTES ? e->size_bytes - at : PART_BYTES;
        if (e->type != BYTES || c->rank == e->root) {
            memcpy(c->all->parts[c->rank], e->from + at, n);
        }
        meet(c);
        if (e->type == BYTES) {
            memmove(e->to + at, c->all->parts[e->root], n);
        } else if (e->root < 0 || e->root == c->rank) {
            sum(c, e->type, n, e->to + at);
        }
        meet(c);
    }
    free(e);
}

static int add(exchange e, void *stream) {
    static int (*launch)(void *, void (*)(void *), void *);
    exchange *kept = malloc(sizeof *kept);
    if (launch == NULL) {
        void *symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchHostFunc");
        memcpy(&launch, &symbol, sizeof launch);
    }
    if (kept == NULL || is_fault("exchange")) {
        free(kept);
        return INTERNAL;
    }
    *kept = e;
    return launch(stream, run, kept) == 0 ? SUCCESS : INVALID;
}

static size_t bytes_of(size_t n, int type) { return n * (type == F32 ? 4 : type == BF16 ? 2 : 1); }

int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, communicator *c, void *stream) {
    return op == 0 ? add((exchange){c, from, to, bytes_of(n, type), type, -1}, stream) : INVALID;
}

int ncclReduce(const void *from, void *to, size_t n, int type, int op, int root, communicator *c, void *stream) {
    return op == 0 ? add((exchange){c, from, to, bytes_of(n, type), type, root}, stream) : INVALID;
}

int ncclBroadcast(const void *from, void *to, size_t n, int type, int root, communicator *c, void *stream) {
    return add((exchange){c, from, to, bytes_of(n, type), BYTES, root}, stream);
}

int ncclReduceScatter(const void *from, void *to, size_t n_each, int type, int op, communicator *c, void *stream) {
    const size_t size_bytes = bytes_of(n_each, type);
    for (int rank = 0; rank < c->n; rank++) {
        const int code = add(
            (exchange){c, (const unsigned char *)from + (size_t)rank * size_bytes, to, size_bytes, type, rank}, stream);
        if (code != SUCCESS || op != 0) {
            return code != SUCCESS ? code : INVALID;
        }
    }
    return SUCCESS;
}

int ncclAllGather(const void *from, void *to, size_t n_each, int type, communicator *c, void *stream) {
    const size_t size_bytes = bytes_of(n_each, type);
    for (int rank = 0; rank < c->n; rank++) {
        const int code =
            add((exchange){c, from, (unsigned char *)to + (size_t)rank * size_bytes, size_bytes, BYTES, rank}, stream);
        if (code != SUCCESS) {
            return code;
        }
    }
    return SUCCESS;
}
