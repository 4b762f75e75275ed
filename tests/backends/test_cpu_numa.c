// test_cpu_numa.c: on a machine of two memory nodes the cpu backend binds neighbouring threads to a node, and each
// thread touches its share of every tensor first, as the system places a page with the thread that does. A cgroup's
// quota lowers the default number of threads.
//
// The machine is simulated: hwloc is told of two nodes of two cores, whose processors are numbered in turns, as they
// often are; this program answers the system's calls on affinity, and which cgroup it is in; and memory without access
// tells who comes first.
#define OWN_MAIN
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/cpu/cpu.h"
#include "tests/support/session.h"

enum { N_NODES = 2, N_PROCESSORS = 4, NOBODY = -1, MOST_ARENAS = 32, PAGE_BYTES = 4096 };

// --- the system's calls ---------------------------------------------------------------------------

static _Thread_local int processor = NOBODY; // to which this thread was bound; NOBODY: to several

int sched_setaffinity(SM_UNUSED pid_t id, size_t size_bytes, const cpu_set_t *set) {
    processor = NOBODY;
    for (int i = 0; CPU_COUNT_S(size_bytes, set) == 1 && i < N_PROCESSORS; i++) {
        processor = CPU_ISSET_S(i, size_bytes, set) ? i : processor;
    }
    return 0;
}

int sched_getaffinity(SM_UNUSED pid_t id, size_t size_bytes, cpu_set_t *set) {
    CPU_ZERO_S(size_bytes, set);
    for (size_t i = 0; i < N_PROCESSORS; i++) {
        CPU_SET_S(i, size_bytes, set);
    }
    return 0;
}

static const char *quota; // a cgroup's cpu.max; NULL: none

FILE *fopen(const char *path, const char *mode) {
    static char group[] = "0::/job\n";
    if (quota != NULL && strcmp(path, "/proc/self/cgroup") == 0) {
        return fmemopen(group, strlen(group), "r");
    }
    if (quota != NULL && strcmp(path, "/sys/fs/cgroup/job/cpu.max") == 0) {
        return fmemopen((char *)(uintptr_t)quota, strlen(quota), "r");
    }
    return fopen64(path, mode);
}

// --- memory that tells who touches it first --------------------------------------------------------

typedef struct {
    char *memory;
    size_t n_pages;
    atomic_int *nodes; // of each page's first thread
} watched;

static watched arenas[MOST_ARENAS];

static void note_first(SM_UNUSED int signal, siginfo_t *info, SM_UNUSED void *context) {
    for (int i = 0; i < MOST_ARENAS; i++) {
        const size_t page = (size_t)((uintptr_t)info->si_addr - (uintptr_t)arenas[i].memory) / PAGE_BYTES;
        if (arenas[i].memory != NULL && (char *)info->si_addr >= arenas[i].memory && page < arenas[i].n_pages) {
            int nobody = NOBODY;
            atomic_compare_exchange_strong(&arenas[i].nodes[page], &nobody,
                                           processor < 0 ? NOBODY : processor % N_NODES);
            mprotect(arenas[i].memory + page * PAGE_BYTES, PAGE_BYTES, PROT_READ | PROT_WRITE);
            return;
        }
    }
    _exit(2); // a fault that is the program's
}

static void watch(sm_plan *plan) {
    const struct sigaction notes = {.sa_sigaction = note_first, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &notes, NULL); // cmocka has one of its own during a test, and restores what was before
    assert_in_range(plan->n_arenas, 1, MOST_ARENAS);
    for (int i = 0; i < plan->n_arenas; i++) {
        watched *a = &arenas[i];
        a->n_pages = plan->arenas[i].size_bytes / PAGE_BYTES + 1;
        a->memory = mmap(NULL, a->n_pages * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        a->nodes = malloc(a->n_pages * sizeof *a->nodes);
        assert_true(a->memory != MAP_FAILED && a->nodes != NULL);
        for (size_t page = 0; page < a->n_pages; page++) {
            a->nodes[page] = NOBODY;
        }
        plan->arenas[i].memory = a->memory;
    }
}

static void forget(void) {
    for (int i = 0; i < MOST_ARENAS && arenas[i].memory != NULL; i++) {
        munmap(arenas[i].memory, arenas[i].n_pages * PAGE_BYTES);
        free(arenas[i].nodes);
        arenas[i] = (watched){0};
    }
}

// --- what must hold -------------------------------------------------------------------------------

static void keep_processor(void *ctx, int part) { ((int *)ctx)[part] = processor; }

static void check_binding(const char *mask, int n_threads, const int *expected) {
    SM_OWN(cpu_binding) *binding = NULL;
    SM_OWN(cpu_pool) *pool = NULL;
    int bound[N_PROCESSORS], n = 0;
    assert_int_equal(cpu_binding_make(mask, &n, &binding), SM_OK);
    assert_int_equal(n, n_threads);
    assert_int_equal(cpu_pool_make(n, binding, &pool), SM_OK);
    cpu_pool_run_once(pool, keep_processor, bound);
    for (int i = 0; i < n; i++) {
        assert_int_equal(bound[i], expected[i]);
    }
}

TEST(neighbours_share_a_node) {
    check_binding(NULL, 4, (const int[]){0, 2, 1, 3});
    check_binding("0-3", 4, (const int[]){0, 2, 1, 3});
    check_binding("1-3", 3, (const int[]){2, 1, 3});
    check_binding("1,3", 2, (const int[]){1, 3});
}

// Pages that hold nothing but one thread's share of a tensor that has its memory for itself.
static int check_tensor(const sm_tensor *t) {
    int n_pages = 0;
    const int64_t begin = (int64_t)t->offset_bytes;
    for (int part = 0; part < N_PROCESSORS; part++) {
        const cpu_range share =
            cpu_split((int64_t)sm_tensor_bytes(t), (int64_t)(16 * sm_dtype_size(t->dtype)), part, N_PROCESSORS);
        const int64_t last = (begin + share.end) / PAGE_BYTES;
        for (int64_t page = (begin + share.first + PAGE_BYTES - 1) / PAGE_BYTES; page < last; page++) {
            FAIL_IF(arenas[t->arena].nodes[page] != part / 2, "%s: page %d, of thread %d, lies on node %d", t->name,
                    (int)page, part, arenas[t->arena].nodes[page]);
            n_pages++;
        }
    }
    return n_pages;
}

static void check_first_touch(sm_dtype dtype) {
    const sm_plan_options options = {TRAINING(4, 64, dtype)};
    const sm_backend *backend = sm_backend_find("cpu");
    sm_executable *executable = NULL;
    SM_OWN(sm_plan) *plan = place_plan(gpt2_of("tiny"), &options, SM_MODE_FUSED, 0);
    int n_pages = 0;
    watch(plan);
    SM_OWN(sm_device) *device = open_backend("cpu", 0);
    assert_int_equal(device->info.n_threads, N_PROCESSORS);
    ok(backend->prepare(device, plan, &executable));
    for (const sm_tensor *t = plan->tensors; t < plan->tensors + plan->n_tensors; t++) {
        const bool is_apart =
            t->role == SM_ROLE_PARAMETER || t->role == SM_ROLE_GRADIENT || t->role == SM_ROLE_OPTIMIZER;
        if (is_apart && t->arena >= 0 && t->view_of == SM_NO_TENSOR) {
            n_pages += check_tensor(t);
        }
    }
    assert_in_range(n_pages, 50, 10000);
    for (int i = 0; i < plan->n_arenas; i++) { // the system provides no page during a step
        for (size_t page = 0; page < plan->arenas[i].size_bytes / PAGE_BYTES; page++) {
            assert_int_not_equal(arenas[i].nodes[page], NOBODY);
        }
    }
    backend->release(executable);
    forget();
}

TEST(shares_lie_with_their_threads) {
    check_first_touch(SM_F32);
    check_first_touch(SM_BF16);
}

static void check_default(const char *its_quota, const sm_open_options *options, int n_threads, const char *warning) {
    sm_device *device = NULL;
    quota = its_quota;
    assert_int_equal(sm_backend_find("cpu")->open(0, options, &device), SM_OK);
    quota = NULL;
    assert_int_equal(device->info.n_threads, n_threads);
    assert_int_equal(device->info.n_warnings > 0 && strstr(device->info.warnings[0], "quota") != NULL, warning != NULL);
    assert_true(warning == NULL || strstr(device->info.warnings[0], warning) != NULL);
    device->backend->close(device);
}

TEST(a_quota_lowers_the_default) {
    const sm_open_options by_default = {.n_threads = 0};
    check_default(NULL, &by_default, 4, NULL);
    check_default("max 100000\n", &by_default, 4, NULL);
    check_default("400000 100000\n", &by_default, 4, NULL);
    check_default("250000 100000\n", &by_default, 2, "quota is 2.5 of 4 processors: 2 threads by default");
    check_default("50000 100000\n", &by_default, 1, "quota is 0.5 of 4 processors: 1 thread by default");
    check_default("250000 100000\n", &(sm_open_options){.n_threads = 3}, 3, NULL); // who says a number gets it
}

int main(void) {
    unsetenv("HWLOC_XMLFILE");
    setenv("HWLOC_SYNTHETIC", "NUMANode:2 Core:2 PU:1(indexes=0,2,1,3)", 1);
    setenv("HWLOC_THISSYSTEM", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
