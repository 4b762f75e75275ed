// cuda.c: a libcuda.so.1 for tests, of one card in the host's memory: pieces of memory are nameless files, which the
// OpenCL of opencl_faults.c imports; a stream is a thread that does one thing after the other.
//
//     STEPMARK_CARD_BYTES=N      there is room for N bytes
//     STEPMARK_CARD_LACKS=flag   streams cannot wait for a number in memory
//     STEPMARK_CARD_LACKS=link   it cannot reach other cards
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "status.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" // who loads a library declares its functions

enum { SUCCESS = 0, INVALID = 1, OUT_OF_MEMORY = 2, NOT_READY = 600, NOT_SUPPORTED = 801, GRANULE = 1 << 21 };

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int lacks(const char *what) {
    const char *named = getenv("STEPMARK_CARD_LACKS");
    return named != NULL && strcmp(named, what) == 0;
}

// --- the card ------------------------------------------------------------------------------------

int cuInit(unsigned flags) { return flags == 0 ? SUCCESS : INVALID; }

int cuGetErrorName(int code, const char **name) {
    *name = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OF_A_TEST";
    return SUCCESS;
}

int cuDeviceGetCount(int *n) {
    *n = 1;
    return SUCCESS;
}

int cuDeviceGetUuid(unsigned char uuid[16], int device) {
    memcpy(uuid, "a card of a test", 16);
    return device == 0 ? SUCCESS : INVALID;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    static int primary;
    *context = &primary;
    return device == 0 ? SUCCESS : INVALID;
}

int cuDevicePrimaryCtxRelease_v2(int device) { return device == 0 ? SUCCESS : INVALID; }

int cuCtxSynchronize(void) { return SUCCESS; }

int cuCtxSetCurrent(void *context) { return context != NULL ? SUCCESS : INVALID; }

// --- memory --------------------------------------------------------------------------------------

static _Atomic int64_t taken_bytes;

int cuMemGetAllocationGranularity(size_t *size_bytes, SM_UNUSED const void *properties, SM_UNUSED int option) {
    *size_bytes = GRANULE;
    return SUCCESS;
}

typedef struct {
    int descriptor;
    size_t size_bytes;
    int is_imported;
} piece;

int cuMemCreate(uint64_t *memory, size_t size_bytes, SM_UNUSED const void *properties, uint64_t flags) {
    const char *room = getenv("STEPMARK_CARD_BYTES");
    if (size_bytes % GRANULE != 0 || flags != 0) {
        return INVALID;
    }
    if (room != NULL && atomic_load(&taken_bytes) + (int64_t)size_bytes > atoll(room)) {
        return OUT_OF_MEMORY;
    }
    piece *p = malloc(sizeof *p);
    if (p == NULL) {
        return OUT_OF_MEMORY;
    }
    *p = (piece){memfd_create("card", MFD_CLOEXEC), size_bytes, 0};
    if (p->descriptor < 0 || ftruncate(p->descriptor, (off_t)size_bytes) != 0) {
        free(p);
        return OUT_OF_MEMORY;
    }
    atomic_fetch_add(&taken_bytes, (int64_t)size_bytes);
    *memory = (uint64_t)(uintptr_t)p;
    return SUCCESS;
}

// Another process's, or the own: it takes no room here.
int cuMemImportFromShareableHandle(uint64_t *memory, void *handle, int type) {
    struct stat facts;
    const int descriptor = dup((int)(intptr_t)handle);
    piece *p = malloc(sizeof *p);
    if (p == NULL || type != 1 || descriptor < 0 || fstat(descriptor, &facts) != 0) {
        free(p);
        return INVALID;
    }
    *p = (piece){descriptor, (size_t)facts.st_size, 1};
    *memory = (uint64_t)(uintptr_t)p;
    return lacks("link") ? NOT_SUPPORTED : SUCCESS;
}

int cuMemRelease(uint64_t memory) {
    piece *p = (piece *)(uintptr_t)memory;
    atomic_fetch_sub(&taken_bytes, p->is_imported ? 0 : (int64_t)p->size_bytes);
    close(p->descriptor);
    free(p);
    return SUCCESS;
}

int cuMemExportToShareableHandle(void *handle, uint64_t memory, int type, uint64_t flags) {
    const int descriptor = dup(((piece *)(uintptr_t)memory)->descriptor);
    memcpy(handle, &descriptor, sizeof descriptor);
    return type == 1 && flags == 0 && descriptor >= 0 ? SUCCESS : INVALID;
}

int cuMemAddressReserve(uint64_t *address, size_t size_bytes, size_t alignment, uint64_t wanted, uint64_t flags) {
    void *at = mmap(NULL, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *address = (uint64_t)(uintptr_t)at;
    return at != MAP_FAILED && alignment == 0 && wanted == 0 && flags == 0 ? SUCCESS : OUT_OF_MEMORY;
}

int cuMemAddressFree(uint64_t address, size_t size_bytes) {
    return munmap((void *)(uintptr_t)address, size_bytes) == 0 ? SUCCESS : INVALID;
}

// Not to be read or written until cuMemSetAccess.
int cuMemMap(uint64_t address, size_t size_bytes, size_t offset_bytes, uint64_t memory, uint64_t flags) {
    void *at = mmap((void *)(uintptr_t)address, size_bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
                    ((piece *)(uintptr_t)memory)->descriptor, (off_t)offset_bytes);
    return at != MAP_FAILED && flags == 0 ? SUCCESS : INVALID;
}

int cuMemUnmap(uint64_t address, size_t size_bytes) {
    void *at = mmap((void *)(uintptr_t)address, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return at != MAP_FAILED ? SUCCESS : INVALID;
}

int cuMemSetAccess(uint64_t address, size_t size_bytes, const void *access, size_t n) {
    return access != NULL && n == 1 && mprotect((void *)(uintptr_t)address, size_bytes, PROT_READ | PROT_WRITE) == 0
               ? SUCCESS
               : INVALID;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size_bytes) {
    memcpy(to, (const void *)(uintptr_t)from, size_bytes);
    return SUCCESS;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size_bytes) {
    memcpy((void *)(uintptr_t)to, from, size_bytes);
    return SUCCESS;
}

// The host's memory has the same address for the card.
int cuMemHostRegister_v2(void *memory, size_t size_bytes, unsigned flags) {
    return memory != NULL && size_bytes > 0 && flags == 3 ? SUCCESS : INVALID;
}

int cuMemHostGetDevicePointer_v2(uint64_t *address, void *memory, unsigned flags) {
    *address = (uint64_t)(uintptr_t)memory;
    return flags == 0 ? SUCCESS : INVALID;
}

int cuMemHostUnregister(void *memory) { return memory != NULL ? SUCCESS : INVALID; }

// --- streams -------------------------------------------------------------------------------------

typedef struct task {
    void (*call)(void *argument);
    void *argument;
    struct task *next;
} task;

typedef struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    task *first, **last;
    int is_ending;
} stream;

static void *serve(void *argument) {
    stream *s = argument;
    pthread_mutex_lock(&s->lock);
    while (s->first != NULL || !s->is_ending) {
        task *t = s->first;
        if (t == NULL) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        t->call(t->argument);
        pthread_mutex_lock(&s->lock);
        s->first = t->next;
        s->last = s->first == NULL ? &s->first : s->last;
        free(t);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

int cuStreamCreate(void **created, unsigned flags) {
    stream *s = calloc(1, sizeof *s);
    if (s == NULL || flags > 1) {
        free(s);
        return OUT_OF_MEMORY;
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->last = &s->first;
    *created = s;
    return pthread_create(&s->thread, NULL, serve, s) == 0 ? SUCCESS : OUT_OF_MEMORY;
}

int cuStreamDestroy_v2(void *destroyed) {
    stream *s = destroyed;
    pthread_mutex_lock(&s->lock);
    s->is_ending = 1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s);
    return SUCCESS;
}

int cuStreamQuery(void *asked) {
    stream *s = asked;
    pthread_mutex_lock(&s->lock);
    const int is_idle = s->first == NULL;
    pthread_mutex_unlock(&s->lock);
    return is_idle ? SUCCESS : NOT_READY;
}

int cuLaunchHostFunc(void *on, void (*call)(void *argument), void *argument) {
    stream *s = on;
    task *t = malloc(sizeof *t);
    if (t == NULL) {
        return OUT_OF_MEMORY;
    }
    *t = (task){call, argument, NULL};
    pthread_mutex_lock(&s->lock);
    *s->last = t;
    s->last = &t->next;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return SUCCESS;
}

// --- events --------------------------------------------------------------------------------------

typedef struct {
    atomic_int n_recorded, n_reached;
    _Atomic int64_t reached_ns;
} event;

static void reach(void *argument) {
    event *e = argument;
    atomic_store(&e->reached_ns, now_ns());
    atomic_fetch_add(&e->n_reached, 1);
}

int cuEventCreate(void **created, unsigned flags) {
    *created = calloc(1, sizeof(event));
    return *created != NULL && flags == 0 ? SUCCESS : OUT_OF_MEMORY;
}

int cuEventDestroy_v2(void *destroyed) {
    free(destroyed);
    return SUCCESS;
}

int cuEventRecord(void *recorded, void *on) {
    event *e = recorded;
    atomic_fetch_add(&e->n_recorded, 1);
    return cuLaunchHostFunc(on, reach, e);
}

int cuEventQuery(void *asked) {
    event *e = asked;
    return atomic_load(&e->n_reached) == atomic_load(&e->n_recorded) ? SUCCESS : NOT_READY;
}

int cuEventElapsedTime(float *elapsed_ms, void *start, void *end) {
    *elapsed_ms = (float)(atomic_load(&((event *)end)->reached_ns) - atomic_load(&((event *)start)->reached_ns)) / 1e6f;
    return SUCCESS;
}

// --- waiting for a number ------------------------------------------------------------------------

typedef struct {
    _Atomic uint32_t *place;
    uint32_t value;
} awaited;

static void await_value(void *argument) {
    awaited *a = argument;
    while ((int32_t)(atomic_load(a->place) - a->value) < 0) {
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    free(a);
}

int cuStreamWaitValue32_v2(void *on, uint64_t address, uint32_t value, unsigned flags) {
    awaited *a = malloc(sizeof *a);
    if (a == NULL || flags != 0 || lacks("flag")) {
        free(a);
        return NOT_SUPPORTED;
    }
    *a = (awaited){(_Atomic uint32_t *)(uintptr_t)address, value};
    return cuLaunchHostFunc(on, await_value, a);
}

static void write_value(void *argument) {
    awaited *a = argument;
    atomic_store(a->place, a->value);
    free(a);
}

int cuStreamWriteValue32_v2(void *on, uint64_t address, uint32_t value, unsigned flags) {
    awaited *a = malloc(sizeof *a);
    if (a == NULL || flags != 0) {
        free(a);
        return NOT_SUPPORTED;
    }
    *a = (awaited){(_Atomic uint32_t *)(uintptr_t)address, value};
    return cuLaunchHostFunc(on, write_value, a);
}

// --- copies in a stream --------------------------------------------------------------------------

typedef struct {
    uint64_t to, from;
    size_t size_bytes;
} copied;

static void copy(void *argument) {
    copied *c = argument;
    memcpy((void *)(uintptr_t)c->to, (const void *)(uintptr_t)c->from, c->size_bytes);
    free(c);
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size_bytes, void *on) {
    copied *c = malloc(sizeof *c);
    if (c == NULL) {
        return OUT_OF_MEMORY;
    }
    *c = (copied){to, from, size_bytes};
    return cuLaunchHostFunc(on, copy, c);
}
