// openmp.c: the part of OpenMP that stepmark's loops use, by POSIX's threads, under the names that clang calls: there
// is no library of OpenMP that a program for macOS may count on. Each parallel region starts its threads and joins
// them; loops are divided evenly; all critical sections are one.
#pragma clang diagnostic ignored "-Wmissing-prototypes" // the compiler calls them
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>

#include "os/macos/omp.h"
#include "os/os.h"

enum { MOST_SHARED = 16, MOST_THREADS = 256, MOST_DEPTH = 8, STACK_BYTES = 8 << 20 };

typedef struct place place; // in the source
// Without "...": on Apple's Arm that would be another way to pass arguments. Regions ignore those that they do not take.
typedef void region(int32_t *thread, int32_t *bound, void *a, void *b, void *c, void *d, void *e, void *f, void *g,
                    void *h, void *i, void *j, void *k, void *l, void *m, void *n, void *o, void *p);

typedef struct {
    int32_t thread, n;
} share; // of a team's work

typedef struct {
    region *run;
    void *shared[MOST_SHARED];
    share of;
} part;

static _Thread_local share team = {0, 1}, around[MOST_DEPTH];
static _Thread_local int depth;
static _Thread_local int n_pushed; // for the next region; 0: the usual number
static _Thread_local int n_usual;
static pthread_mutex_t critical = PTHREAD_MUTEX_INITIALIZER;

int omp_get_num_procs(void) { return os_n_processors(); }
int omp_get_thread_limit(void) { return MOST_THREADS; }
int omp_get_max_threads(void) { return n_usual > 0 ? n_usual : os_n_processors(); }
void omp_set_num_threads(int n) { n_usual = n; }

// --- regions ---------------------------------------------------------------------------------------

int32_t __kmpc_global_thread_num(place *where) { return team.thread; }

void __kmpc_push_num_threads(place *where, int32_t thread, int32_t n_threads) { n_pushed = n_threads; }

static void *run_part(void *of) {
    part *p = of;
    void **s = p->shared;
    const share before = team;
    team = p->of;
    p->run(&team.thread, &team.thread, s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12],
           s[13], s[14], s[15]);
    team = before;
    return NULL;
}

// A part whose thread cannot be started is done here.
void __kmpc_fork_call(place *where, int32_t n_shared, region *run, ...) {
    part parts[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    bool is_started[MOST_THREADS] = {false};
    pthread_attr_t attributes;
    const int wanted = n_pushed > 0 ? n_pushed : omp_get_max_threads();
    const int n = team.n > 1 ? 1 : wanted < MOST_THREADS ? wanted : MOST_THREADS; // none within another
    va_list all;
    n_pushed = 0;
    if (n_shared > MOST_SHARED) {
        abort();
    }
    parts[0] = (part){.run = run, .of = {0, n}};
    va_start(all, run);
    for (int i = 0; i < n_shared; i++) {
        parts[0].shared[i] = va_arg(all, void *);
    }
    va_end(all);
    pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (int i = 1; i < n; i++) {
        parts[i] = parts[0];
        parts[i].of.thread = i;
        is_started[i] = pthread_create(&threads[i], &attributes, run_part, &parts[i]) == 0;
    }
    pthread_attr_destroy(&attributes);
    for (int i = 0; i < n; i++) {
        if (!is_started[i]) {
            run_part(&parts[i]);
        }
    }
    for (int i = 1; i < n; i++) {
        if (is_started[i]) {
            pthread_join(threads[i], NULL);
        }
    }
}

// A region of one thread.
void __kmpc_serialized_parallel(place *where, int32_t thread) {
    if (depth == MOST_DEPTH) {
        abort();
    }
    n_pushed = 0;
    around[depth++] = team;
    team = (share){0, 1};
}

void __kmpc_end_serialized_parallel(place *where, int32_t thread) { team = around[--depth]; }

// --- loops -----------------------------------------------------------------------------------------

// This thread's part of the iterations from *low to *high (inclusive): the first threads have one more.
#define STATIC_LOOP(name, type, distance)                                                                       \
    void __kmpc_for_static_init_##name(place *where, int32_t thread, int32_t kind, int32_t *is_last, type *low, \
                                       type *high, distance *stride, distance step, distance chunk) {           \
        (void)where, (void)thread, (void)kind, (void)chunk;                                                     \
        const type n = (*high - *low) / (type)step + 1;                                                         \
        const type i = (type)team.thread, each = n / (type)team.n, more = n % (type)team.n;                     \
        const type first = i * each + (i < more ? i : more), own = each + (i < more);                           \
        *is_last = own > 0 && first + own == n;                                                                 \
        *stride = step * (distance)n;                                                                           \
        *low += first * (type)step;                                                                             \
        *high = *low + own * (type)step - (type)step;                                                           \
    }
STATIC_LOOP(4, int32_t, int32_t)
STATIC_LOOP(4u, uint32_t, int32_t)
STATIC_LOOP(8, int64_t, int64_t)
STATIC_LOOP(8u, uint64_t, int64_t)

void __kmpc_for_static_fini(place *where, int32_t thread) { (void)where, (void)thread; }

// --- one at a time ---------------------------------------------------------------------------------

void __kmpc_critical(place *where, int32_t thread, void *name) { pthread_mutex_lock(&critical); }

void __kmpc_end_critical(place *where, int32_t thread, void *name) { pthread_mutex_unlock(&critical); }

// 1: the caller adds its part, and says when it has.
int32_t __kmpc_reduce_nowait(place *where, int32_t thread, int32_t n, size_t size_bytes, void *data,
                             void (*reduce)(void *to, void *from), void *name) {
    __kmpc_critical(where, thread, name);
    return 1;
}

void __kmpc_end_reduce_nowait(place *where, int32_t thread, void *name) { __kmpc_end_critical(where, thread, name); }
