// test_cpu_pool.c: the cpu backend's threads do all parts exactly once, in order of memory, also with more threads than
// processors, and with the same results.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/support/training_curve.h"
#include "backends/cpu/common/kernel.h"

enum { MOST_THREADS = 64, N_PIECES = 600, N_MEETINGS = 3, N_UNITS = 3 };

// "5": the first processor that this process may use.
static const char *one_processor(void) {
    static char mask[16];
    cpu_set_t allowed;
    int processor = 0;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    while (!CPU_ISSET(processor, &allowed)) {
        processor++;
    }
    snprintf(mask, sizeof mask, "%d", processor);
    return mask;
}

// --- pieces ---------------------------------------------------------------------------------------

// The numbers are not atomic: only the pool orders writes before reads.
typedef struct {
    cpu_pool *pool;
    int n_threads, n_pieces;
    int piece; // that is run, from 1 on
    bool meets;
    long written[2][MOST_THREADS]; // by each part of a piece, and of the one before
    long met[MOST_THREADS];
    int n_units; // taken in this piece
    int n_wrong;
} pieces;

static cpu_piece next(void *ctx) {
    pieces *p = ctx;
    p->n_wrong += p->n_units != (p->piece == 0 ? 0 : N_UNITS * p->n_threads * (p->meets ? 2 : 1));
    p->n_units = 0;
    if (p->piece == p->n_pieces) {
        return CPU_PIECE_NONE;
    }
    p->piece++;
    p->meets = p->piece % 3 == 0;
    return p->meets ? CPU_PIECE_MEETS : CPU_PIECE_APART;
}

static long value_of(const pieces *p, int piece, int part) { return piece == 0 ? 0 : piece * p->n_threads + part; }

static void count_wrong(int *n_wrong, int n) {
    if (n > 0) {
        __atomic_fetch_add(n_wrong, n, __ATOMIC_RELAXED);
    }
}

// Takes units of its own list, and then of the others'.
static void take_units(pieces *p, int part, int64_t round) {
    for (int turn = 0; turn < p->n_threads; turn++) {
        while (cpu_pool_take(p->pool, (part + turn) % p->n_threads, round, N_UNITS, 0) >= 0) {
            __atomic_fetch_add(&p->n_units, 1, __ATOMIC_RELAXED);
        }
    }
}

// Of N_ROUNDS of N_SLOTS units of each list, one is done when all of the round before are.
enum { N_SLOTS = 3, N_ROUNDS = 8 };

typedef struct {
    cpu_pool *pool;
    int n_threads, values[16][N_SLOTS], n_wrong;
} chains;

static void run_chains(void *ctx, int part) {
    chains *c = ctx;
    for (int turn = 0; turn < c->n_threads; turn++) {
        const int list = (part + turn) % c->n_threads;
        int64_t unit;
        while ((unit = cpu_pool_take(c->pool, list, 5, N_SLOTS * N_ROUNDS, 0)) >= 0) {
            cpu_pool_await_units(c->pool, list, 5, unit / N_SLOTS * N_SLOTS);
            for (int i = 0; i < N_SLOTS; i++) { // of this round some may be done
                const int value = __atomic_load_n(&c->values[list][i], __ATOMIC_RELAXED);
                const int least = (int)(unit / N_SLOTS);
                count_wrong(&c->n_wrong, value != least && (value != least + 1 || i == unit % N_SLOTS));
            }
            __atomic_fetch_add(&c->values[list][unit % N_SLOTS], 1, __ATOMIC_RELAXED);
            cpu_pool_end_unit(c->pool, list, 5);
        }
    }
}

// Reads what all parts of the piece before wrote, and writes its own number, which must be unwritten.
static void run(void *ctx, int part) {
    pieces *p = ctx;
    long *own = &p->written[p->piece % 2][part];
    int n_wrong = p->piece > 1 && *own != value_of(p, p->piece - 2, part);
    for (int i = 0; i < p->n_threads; i++) {
        n_wrong += p->written[(p->piece + 1) % 2][i] != value_of(p, p->piece - 1, i);
    }
    *own = value_of(p, p->piece, part);
    take_units(p, part, 0);
    for (int k = 0; p->meets && k < N_MEETINGS; k++) {
        p->met[part] = p->piece * N_MEETINGS + k;
        cpu_pool_meet(p->pool);
        for (int i = 0; i < p->n_threads; i++) {
            n_wrong += p->met[i] != p->piece * N_MEETINGS + k;
        }
        cpu_pool_meet(p->pool);
    }
    if (p->meets) {
        take_units(p, part, 1);
    }
    count_wrong(&p->n_wrong, n_wrong);
}

static void run_pieces(const char *mask, int n_threads) {
    static pieces p;
    SM_OWN(cpu_binding) *binding = NULL;
    p = (pieces){.n_threads = n_threads};
    ok(cpu_binding_make(mask, &n_threads, &binding));
    ok(cpu_pool_make(n_threads, binding, &p.pool));
    for (int round = 0; round < 20; round++) { // threads fall asleep between some, and not between others
        p.n_pieces += N_PIECES / 20;
        p.n_units = p.piece == 0 ? 0 : N_UNITS * n_threads * (p.meets ? 2 : 1); // as the last piece left it
        cpu_pool_run(p.pool, &(cpu_work){next, run, &p});
        assert_int_equal(p.piece, p.n_pieces);
        if (round % 5 == 4) {
            nanosleep(&(struct timespec){.tv_nsec = 15000000}, NULL);
        }
    }
    for (int part = 0; part < n_threads; part++) {
        assert_int_equal(p.written[p.piece % 2][part], value_of(&p, p.piece, part));
    }
    assert_int_equal(p.n_wrong, 0);
    cpu_pool_free(p.pool);
}

TEST(test_pieces) {
    static const int n_threads[] = {1, 2, 3, 5, 16};
    for (size_t i = 0; i < sizeof n_threads / sizeof n_threads[0]; i++) {
        run_pieces(NULL, n_threads[i]);
        run_pieces(one_processor(), n_threads[i]);
    }
}

TEST(test_units_in_order) {
    static const int n_threads[] = {1, 2, 3, 5, 16};
    for (size_t i = 0; i < 2 * sizeof n_threads / sizeof n_threads[0]; i++) {
        int n = n_threads[i / 2];
        SM_OWN(cpu_binding) *binding = NULL;
        chains c = {.n_threads = n};
        ok(cpu_binding_make(i % 2 == 0 ? NULL : one_processor(), &n, &binding));
        ok(cpu_pool_make(n, binding, &c.pool));
        for (int time = 0; time < 40; time++) {
            memset(c.values, 0, sizeof c.values);
            cpu_pool_run_once(c.pool, run_chains, &c);
            for (int k = 0; k < n * N_SLOTS; k++) {
                assert_int_equal(c.values[k / N_SLOTS][k % N_SLOTS], N_ROUNDS);
            }
        }
        assert_int_equal(c.n_wrong, 0);
        cpu_pool_free(c.pool);
    }
}

// Threads of slower processors do less: here one holds its first unit until all others are taken.
enum { N_OF_A_LIST = 50 };

typedef struct {
    cpu_pool *pool;
    int n_threads;
    int n_taken[16]; // by each part
} uneven;

static void run_uneven(void *ctx, int part) {
    uneven *u = ctx;
    const cpu_team team = {.thread = part, .n_threads = u->n_threads, .pool = u->pool};
    int turn = 0;
    while (cpu_next_unit(&team, N_OF_A_LIST * u->n_threads, &turn) >= 0) {
        int n_all = 0;
        __atomic_fetch_add(&u->n_taken[part], 1, __ATOMIC_RELAXED);
        while (part == 1 && n_all < N_OF_A_LIST * u->n_threads) {
            n_all = 0;
            for (int i = 0; i < u->n_threads; i++) {
                n_all += __atomic_load_n(&u->n_taken[i], __ATOMIC_RELAXED);
            }
            sched_yield();
        }
    }
}

TEST(test_uneven_processors) {
    int n_threads = 4;
    SM_OWN(cpu_binding) *binding = NULL;
    SM_OWN(cpu_pool) *pool = NULL;
    ok(cpu_binding_make(NULL, &n_threads, &binding));
    ok(cpu_pool_make(n_threads, binding, &pool));
    uneven u = {pool, n_threads, {0}};
    cpu_pool_run_once(pool, run_uneven, &u);
    assert_true(u.n_taken[1] <= 1); // 0: it came when all was done
    assert_int_equal(u.n_taken[0] + u.n_taken[1] + u.n_taken[2] + u.n_taken[3], 4 * N_OF_A_LIST);
}

// A thread that does not run delays only those that share a begun part with it. Here a signal stops it.
static atomic_int is_stopped;
static pthread_t threads[2];

static void stop_here(SM_UNUSED int signal) {
    atomic_store(&is_stopped, 1);
    while (atomic_load(&is_stopped) == 1) {
        sched_yield();
    }
}

static void find_thread(SM_UNUSED void *ctx, int part) { threads[part] = pthread_self(); }

static cpu_piece next_apart(void *ctx) {
    int *n_left = ctx;
    return --*n_left > 0 ? CPU_PIECE_APART : CPU_PIECE_NONE;
}

static void run_apart(SM_UNUSED void *ctx, SM_UNUSED int part) {
    assert_true(pthread_equal(pthread_self(), threads[0]));
}

TEST(test_away) {
    int n_threads = 2, n_left = 200;
    SM_OWN(cpu_binding) *binding = NULL;
    SM_OWN(cpu_pool) *pool = NULL;
    ok(cpu_binding_make(NULL, &n_threads, &binding));
    ok(cpu_pool_make(n_threads, binding, &pool));
    cpu_pool_run_once(pool, find_thread, NULL);
    assert_int_equal(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = stop_here}, NULL), 0);
    assert_int_equal(pthread_kill(threads[1], SIGUSR1), 0);
    while (atomic_load(&is_stopped) != 1) {
        sched_yield();
    }
    cpu_pool_run(pool, &(cpu_work){next_apart, run_apart, &n_left});
    assert_int_equal(n_left, 0);
    atomic_store(&is_stopped, 2);
}

// --- steps ----------------------------------------------------------------------------------------

static void losses_on(const char *mask, int n_threads, sm_dtype dtype, double losses[8]) {
    fixture f;
    SM_OWN(sm_device) *device = NULL;
    const sm_open_options options = {.n_threads = n_threads, .cpu_mask = mask};
    ok(sm_backend_find("cpu")->open(0, &options, &device));
    set_up(&f, device, (sm_precision){.dtype = dtype}, SM_MODE_FUSED);
    take_steps(&f, 8, losses);
    tear_down(&f);
}

// Losses depend on the number of threads, but not on where they run. The first does not: products have the same bits
// whether each packs its weight or, of nine threads, all are packed ahead (on AMX).
TEST(test_same_losses) {
    static const sm_dtype dtypes[] = {SM_F32, SM_BF16};
    for (int d = 0; d < 2; d++) {
        double first = 0;
        for (int n_threads = 2; n_threads <= 9; n_threads += n_threads == 5 ? 4 : 1) {
            double losses[2][8];
            losses_on(NULL, n_threads, dtypes[d], losses[0]);
            losses_on(one_processor(), n_threads, dtypes[d], losses[1]);
            assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
            assert_true(losses[0][7] < losses[0][0]);
            first = n_threads == 2 ? losses[0][0] : first;
            assert_memory_equal(&first, &losses[0][0], sizeof first);
        }
    }
}
