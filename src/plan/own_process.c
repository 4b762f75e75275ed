// own_process.c: the judge's half of own_process.h.
#include "src/plan/own_process.h"

#include <errno.h>
#include <unistd.h>

#include "clock.h"
#include "os/child.h"
#include "os/memory.h"
#include "os/os.h"
#include "src/plan/own_members.h"

static struct {
    os_child child; // number 0: none yet
    _Atomic int64_t called_ns;
    _Atomic int64_t spun_ns; // while this process waited
} started;

enum { ALIGNED_BYTES = 256 };

struct sm_own_process {
    os_child child;
    os_child_end end; // once it is taken: its number is then 0
    sm_own_shared *shared;
    size_t size_bytes;
    size_t operands_at; // offset of the first operand
    char *base;         // where the process has the shared memory, as it said before it loaded a library
    int n_threads;
    bool is_confined;
    bool spins;
    int64_t deadline_ns; // 0: none
    double timeout_s;
    bool is_late;
    bool has_session; // of processes that a driver starts
    _Atomic bool has_ended;
};

// --- waiting -----------------------------------------------------------------------------------------

uint32_t sm_own_await(sm_own_count *count, uint32_t before, bool spins, bool is_limited, _Atomic int64_t *spun_ns) {
    enum { SHORT_NS = 5000, LONG_NS = 1000000 };
    static const struct timespec most = {.tv_nsec = 20000000};
    static _Thread_local bool was_long; // the wait before: to spin is of no use then
    const int64_t begin_ns = sm_now_ns();
    const int64_t most_ns = spins && !was_long ? LONG_NS : SHORT_NS;
    uint32_t n = before;
    int64_t waited_ns = 0;
    while (n == before && waited_ns < most_ns) {
        for (int i = 0; i < 20 && n == before; i++) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
            n = atomic_load_explicit(&count->n, memory_order_acquire);
        }
        waited_ns = sm_now_ns() - begin_ns;
    }
    if (spun_ns != NULL) {
        *spun_ns += waited_ns;
    }
    if (n == before) {
        atomic_store(&count->is_awaited, 1);
        if (atomic_load(&count->n) == before) {
            (void)os_sleep_while(&count->n, before, is_limited ? &most : NULL, true);
        }
        atomic_store(&count->is_awaited, 0);
        n = atomic_load(&count->n);
        waited_ns = sm_now_ns() - begin_ns;
    }
    was_long = waited_ns > LONG_NS;
    return n;
}

void sm_own_tell(sm_own_count *count, uint32_t n) {
    atomic_store(&count->n, n);
    if (atomic_load(&count->is_awaited) != 0) {
        os_wake(&count->n, true);
    }
}

// The new count, or `before` if the process has ended.
static uint32_t await(sm_own_process *p, sm_own_count *count, uint32_t before) {
    uint32_t n = before;
    while (n == before) {
        n = sm_own_await(count, before, p->spins, true, &started.spun_ns);
        if (n == before && (p->has_ended || os_child_has_ended(&p->child))) {
            p->has_ended = true;
            return before;
        }
        if (n == before && p->deadline_ns > 0 && !p->is_late && sm_now_ns() > p->deadline_ns) {
            p->is_late = true;
            os_child_kill(&p->child, p->has_session);
        }
    }
    return n;
}

int64_t sm_own_process_busy_ns(int64_t *waiting_ns) {
    const int64_t busy_ns = started.child.number > 0 ? os_child_busy_ns(&started.child) : 0;
    const int64_t called_ns = atomic_load(&started.called_ns);
    *waiting_ns = busy_ns > 0 ? atomic_load(&started.spun_ns) + (busy_ns > called_ns ? busy_ns - called_ns : 0) : 0;
    return busy_ns;
}

int sm_own_process_id(void) { return started.child.number; }

sm_status sm_own_process_state(sm_own_process *p) {
    if (!p->has_ended) {
        return SM_OK;
    }
    if (p->child.number > 0) {
        os_child_kill(&p->child, p->has_session); // what it started
        (void)os_child_take(&p->child, false, &p->end);
        p->child.number = started.child.number = 0;
    }
    SM_FAIL_IF(p->is_late, SM_ERR_TIMEOUT, "it did not end within %g s", p->timeout_s);
    SM_FAIL_IF(p->end.signal == 0, SM_ERR_DEVICE, "own code ended its process, with exit code %d", p->end.exit_code);
    SM_FAIL_IF(p->end.signal == SIGSYS, SM_ERR_DEVICE,
               "own code made a system call that a kernel does not need, and was ended: it starts no "
               "threads or processes, writes no files and uses no network");
    return sm_fail(SM_ERR_DEVICE, "own code crashed: signal %d (%s)", p->end.signal, strsignal(p->end.signal));
}

// --- operands ----------------------------------------------------------------------------------------

typedef struct {
    char *memory; // NULL: left out
    size_t size_bytes;
    size_t at; // in the shared memory, from the first operand
    bool is_given;
    bool is_taken;
} operand;

typedef struct {
    operand list[SM_MAX_OPERANDS]; // inputs, then outputs
    size_t size_bytes;
} operands;

// An output that lies where an input lies does so in the shared memory, too.
static void place(operands *all, int k) {
    operand *o = &all->list[k];
    for (const operand *other = all->list; other < all->list + k; other++) {
        if (other->memory != NULL && o->memory >= other->memory &&
            o->memory + o->size_bytes <= other->memory + other->size_bytes) {
            o->at = other->at + (size_t)(o->memory - other->memory);
            o->is_given &= !other->is_given;
            return;
        }
    }
    o->at = all->size_bytes;
    all->size_bytes += (o->size_bytes + ALIGNED_BYTES - 1) / ALIGNED_BYTES * ALIGNED_BYTES;
}

static operands operands_of(const sm_plan *plan, const sm_op *op, void *const in[SM_MAX_IN],
                            void *const out[SM_MAX_OUT]) {
    operands all = {.size_bytes = 0};
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        const bool is_out = k >= SM_MAX_IN;
        char *memory = is_out ? out[k - SM_MAX_IN] : in[k];
        if (op->operands[k] != SM_NO_TENSOR && memory != NULL) {
            all.list[k] = (operand){.memory = memory,
                                    .size_bytes = sm_tensor_bytes(&plan->tensors[op->operands[k]]),
                                    .is_given = !is_out || sm_op_get_info(op->kind)->operands[k].mode != SM_WRITES,
                                    .is_taken = is_out};
            place(&all, k);
        }
    }
    return all;
}

size_t sm_own_process_bytes(const sm_plan *plan, const sm_op *op) {
    size_t size_bytes = 0;
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        const int tensor = op->operands[k];
        size_bytes += tensor != SM_NO_TENSOR ? sm_tensor_bytes(&plan->tensors[tensor]) + ALIGNED_BYTES : 0;
    }
    return size_bytes;
}

sm_status sm_own_process_fits(const sm_own_process *p, const sm_plan *plan, const sm_op *op, int n_threads) {
    const size_t size_bytes = sm_own_process_bytes(plan, op);
    SM_FAIL_IF(n_threads > p->n_threads, SM_ERR_UNSUPPORTED,
               "cpu: the process of your own kernels has %d threads, and the device %d", p->n_threads, n_threads);
    SM_FAIL_IF(size_bytes > p->size_bytes - p->operands_at, SM_ERR_OOM,
               "cpu: %s needs %zu bytes of memory that is shared with your own kernel, and the system gave %zu; use a "
               "smaller batch",
               sm_op_name(op->kind), size_bytes, p->size_bytes - p->operands_at);
    return SM_OK;
}

void sm_own_process_place(sm_plan *plan, char *memory) {
    const sm_op *op = &plan->ops[0];
    void *addresses[SM_MAX_OPERANDS] = {NULL}; // of arenas in a row
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        const int tensor = op->operands[k];
        const sm_tensor *t = tensor != SM_NO_TENSOR ? &plan->tensors[tensor] : NULL;
        size_t at = t != NULL ? t->offset_bytes : 0;
        for (int i = 0; t != NULL && i < t->arena; i++) {
            at += plan->arenas[i].size_bytes;
        }
        addresses[k] = memory + at;
    }
    const operands all = operands_of(plan, op, addresses, addresses + SM_MAX_IN);
    for (int i = 0; i < plan->n_tensors; i++) {
        plan->tensors[i].arena = -1;
    }
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        const int tensor = op->operands[k];
        if (tensor != SM_NO_TENSOR) {
            plan->tensors[tensor].arena = 0;
            plan->tensors[tensor].offset_bytes = all.list[k].at;
        }
    }
    plan->arenas[0].memory = memory;
    plan->arenas[0].size_bytes = all.size_bytes;
}

static void copy_part(char *to, const char *from, size_t size_bytes, int part, int n_parts) {
    enum { LINE_BYTES = 64 };
    const size_t share = (size_bytes / LINE_BYTES / (size_t)n_parts + 1) * LINE_BYTES;
    const size_t first = share * (size_t)part;
    if (first < size_bytes) {
        memcpy(to + first, from + first, size_bytes - first < share ? size_bytes - first : share);
    }
}

static void copy_all(const sm_own_process *p, const operands *all, bool gives, int part, int n_parts) {
    char *first = (char *)p->shared + p->operands_at;
    for (const operand *o = all->list; o < all->list + SM_MAX_OPERANDS; o++) {
        if (gives ? o->is_given : o->is_taken) {
            copy_part(gives ? first + o->at : o->memory, gives ? o->memory : first + o->at, o->size_bytes, part,
                      n_parts);
        }
    }
}

static void set_args(const sm_own_process *p, const sm_plan *plan, const sm_op *op, void *const in[SM_MAX_IN],
                     void *const out[SM_MAX_OUT], const operands *all) {
    const own_members m = own_members_of(op->kind);
    sm_own_args args;
    sm_own_args_fill(plan, op, in, out, &args);
    for (int i = 0; i < m.n; i++) {
        const int k = m.list[i].type == OWN_OUTPUT ? SM_MAX_IN + m.list[i].index : m.list[i].index;
        if (m.list[i].type == OWN_INPUT || m.list[i].type == OWN_OUTPUT) {
            args.members[i].out = all->list[k].memory != NULL ? p->base + p->operands_at + all->list[k].at : NULL;
        }
    }
    p->shared->args = args;
}

void sm_own_process_give(const sm_own_kernel *kernel, const sm_plan *plan, const sm_op *op, void *const in[SM_MAX_IN],
                         void *const out[SM_MAX_OUT], int part, int n_parts) {
    const operands all = operands_of(plan, op, in, out);
    if (part == 0) {
        set_args(kernel->process, plan, op, in, out, &all);
    }
    copy_all(kernel->process, &all, true, part, n_parts);
}

void sm_own_process_take(const sm_own_kernel *kernel, const sm_plan *plan, const sm_op *op, void *const in[SM_MAX_IN],
                         void *const out[SM_MAX_OUT], int part, int n_parts) {
    const operands all = operands_of(plan, op, in, out);
    copy_all(kernel->process, &all, false, part, n_parts);
}

static void call(sm_own_process *p, int kernel, int thread, int n_threads) {
    sm_own_box *box = &p->shared->boxes[thread];
    if (!p->has_ended) {
        const uint32_t before = atomic_load(&box->answered.n);
        const int64_t begin_ns = sm_now_ns();
        box->kernel = kernel;
        box->thread = thread;
        box->n_threads = n_threads;
        sm_own_tell(&box->asked, before + 1);
        (void)await(p, &box->answered, before);
        atomic_fetch_add(&started.called_ns, sm_now_ns() - begin_ns);
    }
}

void sm_own_process_call(const sm_own_kernel *kernel, int thread, int n_threads) {
    if (kernel->has_threads || thread == 0) {
        call(kernel->process, kernel->number, thread, kernel->has_threads ? n_threads : 1);
    }
}

void *sm_own_process_memory(const sm_own_process *p, size_t *size_bytes) {
    if (size_bytes != NULL) {
        *size_bytes = p->size_bytes - p->operands_at;
    }
    return (char *)p->shared + p->operands_at;
}

sm_status sm_own_process_ask(sm_own_process *p, int64_t deadline_ns) {
    p->deadline_ns = deadline_ns;
    p->timeout_s = deadline_ns > 0 ? (double)(deadline_ns - sm_now_ns()) * 1e-9 : 0;
    call(p, 0, 0, 1);
    return sm_own_process_state(p);
}

// --- its life ----------------------------------------------------------------------------------------

// Without a size as much as the machine has: pages exist once they are used.
static sm_status share(sm_own_process *p, const sm_own_process_options *how, int *file) {
    uint64_t total_bytes;
    uint64_t available_bytes;
    const size_t page_bytes = os_page_bytes();
    os_memory("", &total_bytes, &available_bytes);
    const size_t head_bytes = sizeof *p->shared + (size_t)p->n_threads * sizeof p->shared->boxes[0];
    p->operands_at = (head_bytes + page_bytes - 1) / page_bytes * page_bytes;
    p->size_bytes = how->size_bytes > 0 ? p->operands_at + how->size_bytes + page_bytes
                    : total_bytes > 0   ? (size_t)total_bytes
                                        : (size_t)4 << 30;
    p->size_bytes = p->size_bytes / page_bytes * page_bytes;
    while (p->size_bytes > p->operands_at && p->shared == NULL) {
        p->shared = os_map_given(p->size_bytes, file);
        p->size_bytes = p->shared != NULL ? p->size_bytes : p->size_bytes / 2 / page_bytes * page_bytes;
    }
    SM_FAIL_IF(p->shared == NULL, SM_ERR_OOM, "--kernel: no memory to share with the process of your own code: %s",
               strerror(errno));
    p->shared->size_bytes = p->size_bytes;
    p->shared->operands_at = p->operands_at;
    p->shared->n_threads = p->n_threads;
    p->shared->most_bytes = how->most_bytes;
    p->shared->spins = p->spins;
    return SM_OK;
}

// Its input is the shared memory; its output goes to our stderr, or nowhere. Processes of a driver are in its session.
static sm_status spawn(sm_own_process *p, const char *const *words, int n, bool is_judged, int file) {
    const bool is_driver =
        n > 0 && (strcmp(words[0], SM_OWN_BACKEND_LIBRARY) == 0 || strcmp(words[1], SM_OWN_DEVICE) == 0);
    p->has_session = is_judged;
    char *argv[3 * SM_OP_KIND_COUNT + 4] = {(char *)os_program(), (char *)"--helper", (char *)"own-kernels"};
    for (int i = 0; i < 3 * n; i++) {
        argv[3 + i] = (char *)words[i];
    }
    const int reason = os_child_start(&(os_child_plan){.argv = argv,
                                                       .in = file,
                                                       .given = p->shared,
                                                       .is_strange = !is_driver,
                                                       .out = is_judged ? OS_CHILD_NOTHING : STDERR_FILENO,
                                                       .err = is_judged ? OS_CHILD_NOTHING : OS_CHILD_OURS,
                                                       .own_session = is_judged},
                                      &p->child);
    SM_FAIL_IF(reason != 0, SM_ERR_DEVICE, "--kernel: the process of your own code cannot be started: %s",
               strerror(reason));
    started.child = p->child;
    return SM_OK;
}

static sm_status load(sm_own_process *p, sm_own_kernel *kernels, int n) {
    sm_own_shared *shared = p->shared;
    uint32_t stage = await(p, &shared->stage, SM_OWN_BEGINS);
    p->is_confined = stage == SM_OWN_CONFINED;
    p->base = shared->base;
    sm_own_tell(&shared->may_load, 1);
    stage = await(p, &shared->stage, stage);
    SM_TRY(sm_own_process_state(p));
    if (stage != SM_OWN_READY) {
        char message[SM_OWN_MESSAGE_SIZE];
        memcpy(message, shared->message, sizeof message);
        return sm_fail(SM_ERR_FORMAT, "%.*s", SM_OWN_MESSAGE_SIZE - 1, message);
    }
    for (int i = 0; i < n; i++) {
        kernels[i].process = p;
        kernels[i].number = i;
        kernels[i].has_threads = shared->has_threads[i];
    }
    return SM_OK;
}

sm_status sm_own_process_start(const char *const *words, const sm_own_process_options *how, sm_own_kernel *kernels,
                               int n, sm_own_process **process) {
    SM_CLOSED int file = -1;
    sm_own_process *p = *process = sm_calloc(1, sizeof *p);
    p->n_threads = how->n_threads;
    p->spins = !how->sleeps && os_n_processors() >= 2 * how->n_threads; // both compute and wait at the same time
    p->timeout_s = how->timeout_s;
    p->deadline_ns = how->timeout_s > 0 ? sm_now_ns() + (int64_t)(how->timeout_s * 1e9) : 0;
    SM_TRY(share(p, how, &file));
    SM_TRY(spawn(p, words, n, how->most_bytes > 0, file));
    return load(p, kernels, n);
}

void sm_own_process_end(sm_own_process *p) {
    if (p != NULL && p->child.number > 0) {
        os_child_kill(&p->child, p->has_session);
        (void)os_child_take(&p->child, false, &p->end);
        started.child.number = 0;
    }
    if (p != NULL) {
        os_unmap(p->shared, p->size_bytes);
    }
    free(p);
}

bool sm_own_process_is_confined(const sm_own_process *process) { return process->is_confined; }

static int by_size(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

double sm_own_process_call_ns(sm_own_process *process) {
    enum { N_CALLS = 201 };
    int64_t ns[N_CALLS];
    for (int i = 0; i < N_CALLS; i++) {
        const int64_t begin_ns = sm_now_ns();
        call(process, -1, 0, 1);
        ns[i] = sm_now_ns() - begin_ns;
    }
    qsort(ns, N_CALLS, sizeof ns[0], by_size);
    return (double)ns[N_CALLS / 2];
}

double sm_own_process_call_cpu_ns(sm_own_process *process) {
    enum { N_CALLS = 50 };
    int64_t waiting_ns;
    int64_t begin_ns = 0;
    for (int i = 0; i <= N_CALLS; i++) {
        call(process, -1, 0, 1);
        begin_ns = i == 0 ? sm_own_process_busy_ns(&waiting_ns) : begin_ns;
    }
    return (double)(sm_own_process_busy_ns(&waiting_ns) - begin_ns) / N_CALLS;
}
