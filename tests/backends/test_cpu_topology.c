// test_cpu_topology.c: masks, and threads that are unbound again.
#define OWN_MAIN
#include <sched.h>

#include "tests/support/test.h"
#include "backends/cpu/threads/topology.h"

// The first processor that this process may use.
static int first_processor(const cpu_set_t *allowed) {
    int processor = 0;
    while (!CPU_ISSET(processor, allowed)) {
        processor++;
    }
    return processor;
}

static cpu_set_t affinity(void) {
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    return set;
}

static sm_status make(const char *mask, int n_threads, cpu_binding **binding) {
    return cpu_binding_make(mask, &n_threads, binding);
}

TEST(masks) {
    static const char *const bad[] = {"",    "x",     "0x",  "0xg", "1-0",   "0-",    ",0", "0,",
                                      "0 1", "0-1-2", "-1",  " 0",  "65536", "65535", "0-", "99999999999999999999",
                                      "0x0", "0X1",   "0.5", "0,,1"};
    cpu_binding *binding;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        FAIL_IF(make(bad[i], 0, &binding) != SM_ERR_USAGE, "mask '%s' was taken", bad[i]);
        assert_null(binding);
    }
}

TEST(one_processor) {
    const cpu_set_t before = affinity();
    const int processor = first_processor(&before);
    char bits[64] = "0x";
    const char *list = textf("%d", processor);
    if (processor < 63) {
        snprintf(bits, sizeof(bits), "0x%llx", 1ull << processor);
    }
    const char *const masks_of_it[] = {list, processor < 63 ? bits : list};
    for (int i = 0; i < 2; i++) {
        SM_OWN(cpu_binding) *binding = NULL;
        int n_threads = 0;
        assert_int_equal(cpu_binding_make(masks_of_it[i], &n_threads, &binding), SM_OK);
        assert_int_equal(n_threads, 1);
        assert_non_null(strstr(cpu_binding_text(binding), "one a core"));
        cpu_bind_thread(binding, 0);
        cpu_set_t bound = affinity();
        assert_int_equal(CPU_COUNT(&bound), 1);
        assert_true(CPU_ISSET(processor, &bound));
        cpu_unbind_thread();
        cpu_set_t after = affinity();
        assert_true(CPU_EQUAL(&after, &before));
    }
}

TEST(more_threads_than_cores) {
    const cpu_set_t before = affinity();
    SM_OWN(cpu_binding) *binding = NULL;
    assert_int_equal(make(NULL, cpu_topology_n_cores() + 1, &binding), SM_OK);
    assert_non_null(strstr(cpu_binding_text(binding), "free"));
    cpu_bind_thread(binding, 0);
    cpu_set_t after = affinity();
    assert_true(CPU_EQUAL(&after, &before));
}

TEST(the_machine) {
    int n_threads = 0;
    cpu_binding *binding;
    assert_true(cpu_topology_n_cores() >= 1);
    assert_int_equal(cpu_binding_make(NULL, &n_threads, &binding), SM_OK);
    assert_int_equal(n_threads, cpu_topology_n_cores());
    cpu_binding_free(binding);
    for (int level = 0; level <= CPU_CACHE_LEVELS + 1; level++) {
        cpu_cache cache = cpu_topology_cache(level);
        assert_true((cache.size_bytes == 0) == (cache.n_caches == 0));
        assert_true(cache.size_bytes == 0 || cache.n_cores >= 1);
    }
    assert_int_equal(cpu_topology_cache(0).size_bytes, 0);
}

int main(void) {
    unsetenv("HWLOC_XMLFILE"); // the machine as it is
    return cmocka_run_group_tests(tests, NULL, NULL);
}
