// memory.c: arenas by mmap, operands by address, and this machine's memory and clocks.
//
// An arena is one anonymous mapping: zeroed by the kernel, page by page as it is first
// touched, so that the threads which compute can decide where its pages live. Mappings of a
// huge page or more are aligned to one and ask for huge pages: a training step streams over
// gigabytes, and with 4 KiB pages the TLB misses cost more than the arithmetic of AdamW.
#include <omp.h>

#include "backends/host/memory.h"
#include "clock.h"
#include "os/memory.h"
#include "os/os.h"

static const size_t HUGE_PAGE_BYTES = (size_t)2 << 20;
static const double GIB = 1024.0 * 1024.0 * 1024.0;

// --- arenas ---------------------------------------------------------------------------

// Rounds up to whole 4 KiB pages; 0 when that overflows. An empty arena takes one page.
static size_t whole_pages(size_t size_bytes) {
    return size_bytes > SIZE_MAX - 4095 ? 0 : size_bytes == 0 ? 4096 : (size_bytes + 4095) / 4096 * 4096;
}

// Aligned to a huge page if one can help.
void *host_map(size_t size_bytes) {
    const size_t mapped_bytes = whole_pages(size_bytes);
    const bool is_large = mapped_bytes >= HUGE_PAGE_BYTES;
    void *mapped = mapped_bytes > 0 ? os_map(mapped_bytes, is_large ? HUGE_PAGE_BYTES : 0) : NULL;
    if (mapped != NULL && is_large) {
        os_use_large_pages(mapped, mapped_bytes);
    }
    return mapped;
}

void host_unmap(void *block, size_t size_bytes) { os_unmap(block, whole_pages(size_bytes)); }

// Adds up the plan's memory and refuses it if the machine has less.
static sm_status check_size(const sm_plan *plan) {
    size_t needed_bytes = 0;
    for (int i = 0; i < plan->n_arenas; i++) {
        size_t arena_bytes = whole_pages(plan->arenas[i].size_bytes);
        SM_FAIL_IF(arena_bytes == 0 || arena_bytes > SIZE_MAX - needed_bytes, SM_ERR_OOM,
                   "plan needs more bytes than an address holds; use a smaller batch or sequence length");
        needed_bytes += arena_bytes;
    }
    size_t available_bytes = host_available_bytes();
    SM_FAIL_IF(available_bytes > 0 && needed_bytes > available_bytes, SM_ERR_OOM,
               "plan needs %.2f GiB, %.2f GiB available; use a smaller batch or sequence length",
               (double)needed_bytes / GIB, (double)available_bytes / GIB);
    return SM_OK;
}

static sm_status allocate_arenas(host_executable *e) {
    const sm_plan *plan = e->base.plan;
    size_t n_slots = (size_t)plan->n_arenas + 1; // never zero bytes
    e->arenas = sm_calloc(n_slots, sizeof *e->arenas);
    e->sizes_bytes = sm_calloc(n_slots, sizeof *e->sizes_bytes);
    for (const sm_arena *arena = plan->arenas; arena < plan->arenas + plan->n_arenas; arena++) {
        size_t size_bytes = whole_pages(arena->size_bytes);
        void *memory = arena->memory != NULL ? arena->memory : host_map(size_bytes);
        SM_FAIL_IF(memory == NULL, SM_ERR_OOM,
                   "the system refused %.2f GiB for %s, %.2f GiB available; use a smaller batch or sequence length",
                   (double)size_bytes / GIB, sm_role_name(arena->role), (double)host_available_bytes() / GIB);
        e->arenas[e->n_arenas] = memory;
        e->sizes_bytes[e->n_arenas++] = arena->memory != NULL ? arena->size_bytes : size_bytes;
        e->total_bytes += size_bytes;
    }
    return SM_OK;
}

static void bind_ops(host_executable *e) {
    const sm_plan *plan = e->base.plan;
    e->ops = sm_calloc((size_t)plan->n_ops + 1, sizeof *e->ops);
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        e->ops[i] = host_describe_op(plan, op);
        for (int k = 0; k < SM_MAX_OPERANDS; k++) {
            e->ops[i].operands[k] = op->operands[k] != SM_NO_TENSOR ? host_tensor(e, op->operands[k]) : NULL;
        }
    }
}

sm_status host_prepare(host_executable *e) {
    SM_TRY(check_size(e->base.plan));
    SM_TRY(allocate_arenas(e));
    bind_ops(e);
    return SM_OK;
}

// --- a copy of the weights ---------------------------------------------------------------------

static void drop_weights(host_executable *e) {
    for (int i = 0; i < e->n_arenas && e->kept != NULL; i++) {
        host_unmap(e->kept[i], e->sizes_bytes[i]);
    }
    free(e->kept);
    e->kept = NULL;
}

static sm_status map_weights(host_executable *e) {
    size_t needed_bytes = 0;
    const sm_arena *arenas = e->base.plan->arenas;
    const size_t available_bytes = host_available_bytes();
    for (int i = 0; i < e->n_arenas; i++) {
        needed_bytes += arenas[i].role == SM_ROLE_PARAMETER ? e->sizes_bytes[i] : 0;
    }
    e->kept = sm_calloc((size_t)e->n_arenas + 1, sizeof *e->kept);
    bool done = available_bytes == 0 || needed_bytes <= available_bytes / 2;
    for (int i = 0; i < e->n_arenas && done; i++) {
        if (arenas[i].role == SM_ROLE_PARAMETER) {
            e->kept[i] = host_map(e->sizes_bytes[i]);
            done = e->kept[i] != NULL;
        }
    }
    if (!done) {
        drop_weights(e);
        return sm_fail(SM_ERR_OOM, "a copy of the weights needs %.2f GiB, %.2f GiB available",
                       (double)needed_bytes / GIB, (double)available_bytes / GIB);
    }
    return SM_OK;
}

static void exchange(char *a, char *b, size_t size_bytes) {
    enum { PIECE_BYTES = 4096 };
    char piece[PIECE_BYTES];
    for (size_t first = 0; first < size_bytes; first += PIECE_BYTES) {
        const size_t left = size_bytes - first;
        const size_t n = left < PIECE_BYTES ? left : PIECE_BYTES;
        memcpy(piece, a + first, n);
        memcpy(a + first, b + first, n);
        memcpy(b + first, piece, n);
    }
}

// Handles the plan's memory and its copy; copy NULL: fills with stale bytes.
static void treat(char *memory, char *copy, size_t size_bytes, sm_weights_action action) {
    enum { PART_BYTES = 2 << 20 };
#pragma omp parallel for schedule(static) num_threads(os_n_processors())
    for (size_t first = 0; first < size_bytes; first += PART_BYTES) {
        const size_t left = size_bytes - first;
        const size_t n = left < PART_BYTES ? left : PART_BYTES;
        if (copy == NULL) {
            memset(memory + first, SM_STALE_BYTE, n);
        } else if (action == SM_WEIGHTS_KEEP) {
            memcpy(copy + first, memory + first, n);
        } else {
            exchange(memory + first, copy + first, n);
        }
    }
}

sm_status host_keep_weights(sm_executable *executable, sm_weights_action action) {
    host_executable *e = (host_executable *)executable;
    if (action == SM_WEIGHTS_DROP) {
        drop_weights(e);
        return SM_OK;
    }
    SM_TRY(e->kept == NULL ? map_weights(e) : SM_OK);
    for (int i = 0; i < e->n_arenas; i++) {
        const sm_role role = e->base.plan->arenas[i].role;
        const bool is_made_by_step =
            role == SM_ROLE_ACTIVATION || role == SM_ROLE_GRADIENT || role == SM_ROLE_RESULT || role == SM_ROLE_SCRATCH;
        const bool is_spoilt = action == SM_WEIGHTS_RESTORE && is_made_by_step;
        if (e->kept[i] != NULL || is_spoilt) {
            treat(e->arenas[i], e->kept[i], e->sizes_bytes[i], action);
        }
    }
    return SM_OK;
}

void host_free(host_executable *e) {
    drop_weights(e);
    for (int i = 0; i < e->n_arenas; i++) {
        if (e->base.plan->arenas[i].memory == NULL) { // else the caller's
            host_unmap(e->arenas[i], e->sizes_bytes[i]);
        }
    }
    free(e->arenas);
    free(e->sizes_bytes);
    free(e->ops);
}

// --- tensors --------------------------------------------------------------------------

void *host_tensor(const host_executable *e, int tensor) {
    const sm_tensor *t = &e->base.plan->tensors[tensor];
    if (t->memory != NULL) {
        return (void *)(uintptr_t)t->memory; // also the type of addresses that are only read
    }
    return t->arena < 0 ? NULL : (char *)e->arenas[t->arena] + t->offset_bytes; // < 0: no op uses it
}

const void *host_address(const sm_executable *executable, int tensor) {
    return host_tensor((const host_executable *)executable, tensor);
}

// Address of a part of a tensor, after checking that the part exists.
static sm_status find_part(const sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems,
                           char **part) {
    const sm_plan *plan = executable->plan;
    SM_FAIL_IF(tensor < 0 || tensor >= plan->n_tensors, SM_ERR_INTERNAL, "no tensor %d in a plan of %d", tensor,
               plan->n_tensors);
    const sm_tensor *t = &plan->tensors[tensor];
    int64_t size_elems = sm_tensor_elems(t);
    SM_FAIL_IF(offset_elems < 0 || n_elems < 0 || offset_elems > size_elems || n_elems > size_elems - offset_elems,
               SM_ERR_INTERNAL, "tensor %s: elements %lld to %lld asked of %lld", t->name, (long long)offset_elems,
               (long long)offset_elems + (long long)n_elems, (long long)size_elems);
    char *first = host_tensor((const host_executable *)executable, tensor);
    SM_FAIL_IF(first == NULL, SM_ERR_INTERNAL, "tensor %s: has no memory, because no op uses it", t->name);
    *part = first + (size_t)offset_elems * sm_dtype_size(t->dtype);
    return SM_OK;
}

// Threads, because there are hundreds of millions of weights.
static void copy(void *to, const void *from, size_t size_bytes) {
    enum { PART_BYTES = 1 << 19 };
    if (size_bytes <= PART_BYTES) { // a team, even of one thread, takes longer: on Windows it makes semaphores
        memcpy(to, from, size_bytes);
        return;
    }
    const int64_t n_parts = (int64_t)((size_bytes + PART_BYTES - 1) / PART_BYTES);
    const int n_threads = omp_get_num_procs() < omp_get_thread_limit() ? omp_get_num_procs() : omp_get_thread_limit();
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (int64_t i = 0; i < n_parts; i++) {
        const size_t first = (size_t)i * PART_BYTES;
        const size_t left_bytes = size_bytes - first;
        memcpy((char *)to + first, (const char *)from + first, left_bytes < PART_BYTES ? left_bytes : PART_BYTES);
    }
}

sm_status host_upload(sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems, const void *data) {
    char *part = NULL;
    SM_TRY(find_part(executable, tensor, offset_elems, n_elems, &part));
    copy(part, data, (size_t)n_elems * sm_dtype_size(executable->plan->tensors[tensor].dtype));
    return SM_OK;
}

sm_status host_download(sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems, void *data) {
    char *part = NULL;
    SM_TRY(find_part(executable, tensor, offset_elems, n_elems, &part));
    copy(data, part, (size_t)n_elems * sm_dtype_size(executable->plan->tensors[tensor].dtype));
    return SM_OK;
}

sm_status host_synchronize(SM_UNUSED sm_executable *executable) { return SM_OK; }

// --- ops ------------------------------------------------------------------------------

bool host_is_skipped(const host_op *op) {
    if (op->skip_in == SM_NO_OPERAND) {
        return false;
    }
    const void *clip = op->in[op->skip_in];
    return op->in_tensor[op->skip_in]->dtype == SM_F64 ? *(const double *)clip < 0 : *(const float *)clip < 0;
}

host_op host_describe_op(const sm_plan *plan, const sm_op *op) {
    const int clip = sm_op_find_in(op->kind, "clip");
    host_op described = {.op = op, .skip_in = op->kind != SM_OP_SCALER_UPDATE ? clip : SM_NO_OPERAND};
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        described.tensors[k] = op->operands[k] != SM_NO_TENSOR ? &plan->tensors[op->operands[k]] : NULL;
    }
    return described;
}

const host_op *host_find_later(const sm_plan *plan, const host_op *op, host_later *later) {
    if (!sm_op_later(plan, op->op, &later->op)) {
        return op;
    }
    later->bound = *op;
    later->bound.op = &later->op;
    return &later->bound;
}

// --- the machine ----------------------------------------------------------------------

size_t host_total_bytes(void) {
    uint64_t total_bytes;
    uint64_t available_bytes;
    os_memory_allowed("", &total_bytes, &available_bytes);
    return (size_t)total_bytes;
}

size_t host_available_bytes(void) {
    uint64_t total_bytes;
    uint64_t available_bytes;
    os_memory_allowed("", &total_bytes, &available_bytes);
    return (size_t)available_bytes;
}

#ifndef CLOCK_THREAD_CPUTIME_ID // WASI: a page has one thread
#define CLOCK_THREAD_CPUTIME_ID SM_CLOCK
#endif

int64_t host_now_ns(void) { return sm_now_ns(); }

bool host_counts_thread(void) {
    struct timespec tick;
    return clock_getres(CLOCK_THREAD_CPUTIME_ID, &tick) == 0 && tick.tv_sec == 0 && tick.tv_nsec <= 10000;
}

int64_t host_thread_busy_ns(void) {
    struct timespec now;
    clock_gettime(host_counts_thread() ? CLOCK_THREAD_CPUTIME_ID : SM_CLOCK, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
