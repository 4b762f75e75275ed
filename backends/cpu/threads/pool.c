#include "backends/cpu/threads/pool.h"

#include <omp.h>

#include "backends/host/memory.h"
#include "os/threads.h"

enum { LINE_BYTES = 64 };

static const int64_t PATIENCE_NS = 2000;       // before a thread counts as away
static const int64_t SHORT_WAIT_NS = 20000;    // before a thread sleeps, if others use the processors, too
static const int64_t LONG_WAIT_NS = 10000000;  // otherwise: waking is slow
static const int64_t IDLE_WAIT_NS = 1000000;   // when the work is done: others' threads come, as those of checks
static const int64_t LOOK_NS = 100000;         // between checks of who uses the processors
static const int64_t STAYS_BUSY_NS = 50000000; // after a thread lost its processor

typedef struct {
    _Alignas(LINE_BYTES) _Atomic uint64_t taken; // the serial of the last piece in which this part was taken
    _Alignas(LINE_BYTES) atomic_bool is_away;    // others read it after each piece; it seldom changes
    _Alignas(LINE_BYTES) _Atomic uint64_t units; // taken of this list; above them the piece and round that they are of
    _Alignas(LINE_BYTES) _Atomic uint64_t done;  // likewise, of those
    long n_preemptions;                          // of this thread, at its last check; private
    cpu_pool *pool;
    pthread_t thread;
} member;

struct cpu_pool {
    const cpu_binding *binding;
    int n_threads;
    int n_started;
    bool is_crowded;      // more threads than processors
    const cpu_work *work; // read by the thread that has taken a part of it
    // A piece's serial, and in the two lowest bits its cpu_piece.
    _Alignas(LINE_BYTES) _Atomic uint64_t piece;
    _Atomic uint64_t n_meetings;
    _Atomic uint32_t n_wakes; // sleepers wait for it
    atomic_bool has_sleepers;
    atomic_bool ends;
    _Atomic int64_t busy_until_ns;
    _Alignas(LINE_BYTES) atomic_int n_done; // parts of the piece
    atomic_int n_met;
    member members[];
};

static _Thread_local int self;       // this thread's number in its pool
static _Thread_local int64_t met_ns; // waited within parts

static cpu_piece kind_of(uint64_t piece) { return (cpu_piece)(piece & 3); }

// --- denormal numbers -----------------------------------------------------------------------------
//
// Denormal numbers count as zero in this thread: they take a hundred cycles each. Returns the earlier state.

#if defined(__x86_64__)
static unsigned denormals_off(void) {
    enum { FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZERO = 0x0040 };
    unsigned state = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(state | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
    return state;
}

static void denormals_restore(unsigned state) { __builtin_ia32_ldmxcsr(state); }
#elif defined(__aarch64__)
static void denormals_restore(unsigned state) { __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)state)); }

static unsigned denormals_off(void) {
    const uint64_t flush_to_zero = 1 << 24; // for operands and results
    uint64_t state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state));
    denormals_restore((unsigned)(state | flush_to_zero));
    return (unsigned)state; // the rest is reserved
}
#else
static unsigned denormals_off(void) { return 0; }

static void denormals_restore(unsigned state) { (void)state; }
#endif

// --- waiting ------------------------------------------------------------------------------

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// 64-bit Arm keeps a seq_cst store before a later load; QEMU on x86-64 does not, and threads would sleep forever.
static void keep_order(void) {
#if defined(__aarch64__)
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

// Call after a change that others wait for. By one order (seq_cst) a sleeper sees the change, or its flag is seen here.
static void tell(cpu_pool *pool) {
    keep_order();
    if (atomic_load(&pool->has_sleepers) && atomic_exchange(&pool->has_sleepers, false)) {
        atomic_fetch_add(&pool->n_wakes, 1);
        os_wake(&pool->n_wakes, false);
    }
}

static void sleep_past(cpu_pool *pool, const _Atomic uint64_t *word, uint64_t seen) {
    atomic_store_explicit(&pool->members[self].is_away, true, memory_order_relaxed);
    atomic_store(&pool->has_sleepers, true);
    keep_order();
    const uint32_t n_wakes = atomic_load(&pool->n_wakes);
    if (atomic_load(word) == seen && !atomic_load(&pool->ends)) {
        (void)os_sleep_while(&pool->n_wakes, n_wakes, NULL, false);
    }
}

// Whether this thread, or another of the pool, recently lost its processor to others.
static bool is_busy(cpu_pool *pool, int64_t now_ns) {
    member *me = &pool->members[self];
    const long n_preemptions = os_n_preemptions();
    if (n_preemptions != me->n_preemptions) {
        me->n_preemptions = n_preemptions;
        atomic_store_explicit(&pool->busy_until_ns, now_ns + STAYS_BUSY_NS, memory_order_relaxed);
        return true;
    }
    return pool->is_crowded || now_ns < atomic_load_explicit(&pool->busy_until_ns, memory_order_relaxed);
}

// Takes and does a part of a piece, if nobody has taken it. The last one begins the next piece.
static bool take_part(cpu_pool *pool, int part, uint64_t piece) {
    uint64_t before = (piece >> 2) - 1;
    _Atomic uint64_t *taken = &pool->members[part].taken;
    if (atomic_load_explicit(taken, memory_order_relaxed) != before ||
        !atomic_compare_exchange_strong(taken, &before, piece >> 2)) {
        return false;
    }
    const cpu_work *work = pool->work;
    work->run(work->ctx, part);
    if (atomic_fetch_add(&pool->n_done, 1) + 1 == pool->n_threads) {
        atomic_store_explicit(&pool->n_done, 0, memory_order_relaxed);
        const cpu_piece next = work->next(work->ctx);
        atomic_store(&pool->piece, (((piece >> 2) + (next != CPU_PIECE_NONE)) << 2) + next);
        tell(pool);
    }
    return true;
}

// Does a part of another thread: of one that is away, or of any.
static bool help(cpu_pool *pool, uint64_t piece, bool any) {
    for (int turn = 1; kind_of(piece) == CPU_PIECE_APART && turn < pool->n_threads; turn++) {
        const int part = (self + turn) % pool->n_threads;
        atomic_bool *is_away = &pool->members[part].is_away;
        if ((any || atomic_load_explicit(is_away, memory_order_relaxed)) && take_part(pool, part, piece)) {
            atomic_store_explicit(is_away, true, memory_order_relaxed);
            return true;
        }
    }
    return false;
}

// Returns when *word has changed from `seen`, or earlier, after doing a part of the piece for another.
static void wait_past(cpu_pool *pool, const _Atomic uint64_t *word, uint64_t seen) {
    enum { POLLS = 16 };
    const bool may_help = word == &pool->piece;
    const int64_t most_ns = may_help && kind_of(seen) == CPU_PIECE_NONE ? IDLE_WAIT_NS : LONG_WAIT_NS;
    int64_t begin_ns = 0;
    int64_t look_ns = SHORT_WAIT_NS;
    if (may_help && help(pool, seen, pool->is_crowded)) {
        return;
    }
    for (;;) {
        for (int i = 0; i < POLLS; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != seen || atomic_load(&pool->ends)) {
                return;
            }
            relax();
        }
        const int64_t now_ns = host_now_ns();
        begin_ns = begin_ns == 0 ? now_ns : begin_ns;
        const int64_t waited_ns = now_ns - begin_ns;
        if (may_help && waited_ns > PATIENCE_NS && help(pool, seen, true)) {
            return;
        }
        if (waited_ns > look_ns || pool->is_crowded) {
            look_ns += LOOK_NS;
            if (waited_ns > most_ns || is_busy(pool, now_ns)) {
                sleep_past(pool, word, seen);
                return;
            }
        }
    }
}

// --- work ---------------------------------------------------------------------------------

// Thread 0 returns when the work is done; others when the pool ends.
static void serve(cpu_pool *pool) {
    member *me = &pool->members[self];
    while (!atomic_load_explicit(&pool->ends, memory_order_relaxed)) {
        const uint64_t piece = atomic_load_explicit(&pool->piece, memory_order_acquire);
        if (self == 0 && kind_of(piece) == CPU_PIECE_NONE) {
            return;
        }
        if (atomic_load_explicit(&me->is_away, memory_order_relaxed)) {
            atomic_store_explicit(&me->is_away, false, memory_order_relaxed);
        }
        if (!take_part(pool, self, piece)) {
            wait_past(pool, &pool->piece, piece);
        }
    }
}

void cpu_pool_run(cpu_pool *pool, const cpu_work *work) {
    const int n_omp_threads = omp_get_max_threads();
    const unsigned state = denormals_off();
    cpu_bind_thread(pool->binding, 0);
    omp_set_num_threads(1); // for libraries that parts call
    cpu_piece first = work->next(work->ctx);
    if (pool->n_threads == 1) {
        for (; first != CPU_PIECE_NONE; first = work->next(work->ctx)) {
            atomic_fetch_add(&pool->piece, 1 << 2); // units of the one before do not count
            work->run(work->ctx, 0);
        }
    } else if (first != CPU_PIECE_NONE) {
        self = 0;
        pool->work = work;
        atomic_store(&pool->piece, (((atomic_load(&pool->piece) >> 2) + 1) << 2) + first);
        tell(pool);
        serve(pool);
    }
    omp_set_num_threads(n_omp_threads);
    if (os_threads_inherit_places) { // those that others start meanwhile must not stay in this place
        cpu_unbind_thread();
    }
    denormals_restore(state);
}

typedef struct {
    void (*run)(void *ctx, int part);
    void *ctx;
    bool is_done;
} once;

static cpu_piece next_once(void *ctx) {
    once *o = ctx;
    const bool was_done = o->is_done;
    o->is_done = true;
    return was_done ? CPU_PIECE_NONE : CPU_PIECE_MEETS;
}

static void run_once(void *ctx, int part) {
    const once *o = ctx;
    o->run(o->ctx, part);
}

void cpu_pool_run_once(cpu_pool *pool, void (*run)(void *ctx, int part), void *ctx) {
    once o = {run, ctx, false};
    cpu_pool_run(pool, &(cpu_work){next_once, run_once, &o});
}

void cpu_pool_meet(cpu_pool *pool) {
    if (pool->n_threads == 1) {
        return;
    }
    if (kind_of(atomic_load_explicit(&pool->piece, memory_order_relaxed)) != CPU_PIECE_MEETS) {
        abort(); // a kernel whose parts meet, although its table does not say so
    }
    const uint64_t seen = atomic_load_explicit(&pool->n_meetings, memory_order_relaxed);
    if (atomic_fetch_add(&pool->n_met, 1) + 1 == pool->n_threads) {
        atomic_store_explicit(&pool->n_met, 0, memory_order_relaxed);
        atomic_store(&pool->n_meetings, seen + 1);
        tell(pool);
        return;
    }
    const int64_t begin_ns = host_now_ns();
    while (atomic_load_explicit(&pool->n_meetings, memory_order_acquire) == seen) {
        wait_past(pool, &pool->n_meetings, seen);
    }
    met_ns += host_now_ns() - begin_ns;
}

enum { UNIT_BITS = 24, ROUND_BITS = 12 };

static uint64_t epoch_of(const cpu_pool *pool, int64_t round) {
    const uint64_t piece = atomic_load_explicit(&pool->piece, memory_order_relaxed) >> 2;
    return (piece << ROUND_BITS | ((uint64_t)round & ((1u << ROUND_BITS) - 1))) << UNIT_BITS;
}

static int64_t count_of(uint64_t word, uint64_t epoch) {
    return (word ^ epoch) >> UNIT_BITS == 0 ? (int64_t)(word - epoch) : 0;
}

int64_t cpu_pool_take(cpu_pool *pool, int list, int64_t round, int64_t n_units, int64_t kept) {
    const uint64_t epoch = epoch_of(pool, round);
    _Atomic uint64_t *units = &pool->members[list].units;
    uint64_t seen = atomic_load_explicit(units, memory_order_relaxed);
    for (;;) {
        const int64_t n_taken = count_of(seen, epoch);
        if (n_taken + kept >= n_units) {
            return -1;
        }
        if (atomic_compare_exchange_weak_explicit(units, &seen, epoch + (uint64_t)n_taken + 1, memory_order_relaxed,
                                                  memory_order_relaxed)) {
            return n_taken;
        }
    }
}

void cpu_pool_end_unit(cpu_pool *pool, int list, int64_t round) {
    const uint64_t epoch = epoch_of(pool, round);
    _Atomic uint64_t *done = &pool->members[list].done;
    uint64_t seen = atomic_load_explicit(done, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(done, &seen, epoch + (uint64_t)count_of(seen, epoch) + 1)) {
    }
    tell(pool);
}

void cpu_pool_await_units(cpu_pool *pool, int list, int64_t round, int64_t n) {
    const uint64_t epoch = epoch_of(pool, round);
    const _Atomic uint64_t *done = &pool->members[list].done;
    uint64_t seen = atomic_load(done);
    if (count_of(seen, epoch) < n) {
        const int64_t begin_ns = host_now_ns();
        for (; count_of(seen, epoch) < n; seen = atomic_load(done)) {
            wait_past(pool, done, seen);
        }
        met_ns += host_now_ns() - begin_ns;
    }
}

int64_t cpu_pool_met_ns(void) { return met_ns; }

// --- threads ------------------------------------------------------------------------------

static void *work_on(void *arg) {
    member *me = arg;
    cpu_pool *pool = me->pool;
    self = (int)(me - pool->members);
    cpu_bind_thread(pool->binding, self);
    denormals_off();
    omp_set_num_threads(1);
    serve(pool);
    return NULL;
}

sm_status cpu_pool_make(int n_threads, const cpu_binding *binding, cpu_pool **made) {
    const size_t size_bytes = sizeof(cpu_pool) + (size_t)n_threads * sizeof(member);
    cpu_pool *pool = aligned_alloc(LINE_BYTES, size_bytes);
    *made = NULL;
    SM_FAIL_IF(pool == NULL, SM_ERR_OOM, "cpu: no memory for a list of %d threads", n_threads);
    memset(pool, 0, size_bytes);
    pool->binding = binding;
    pool->n_threads = n_threads;
    pool->is_crowded = n_threads > cpu_binding_n_processors(binding);
    for (int i = 1; i < n_threads; i++) {
        member *m = &pool->members[i];
        m->pool = pool;
        const int error = pthread_create(&m->thread, NULL, work_on, m);
        if (error != 0) {
            cpu_pool_free(pool);
            return sm_fail(SM_ERR_OOM, "cpu: thread %d of %d cannot be started: %s; use fewer (--threads)", i + 1,
                           n_threads, strerror(error));
        }
        pool->n_started++;
    }
    *made = pool;
    return SM_OK;
}

void cpu_pool_free(cpu_pool *pool) {
    if (pool == NULL) {
        return;
    }
    atomic_store(&pool->ends, true);
    tell(pool);
    for (int i = 1; i <= pool->n_started; i++) {
        pthread_join(pool->members[i].thread, NULL);
    }
    free(pool);
}
