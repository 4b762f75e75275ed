// test_machine.c: the facts of this machine, whatever it is, and how a row stores them.
#define OWN_MAIN
#include "tests/support/test.h"
#include "bench/rows/machine.h"
#include "bench/rows/row.h"

TEST(test_machine_facts) {
    setenv("LD_PRELOAD_STEPMARK_TEST", "a\xFF", 1);
    char *argv[] = {(char[]){"stepmark"}, (char[]){"\xC3\x28"}, NULL};
    json_auto_t *facts = sm_machine_facts(2, argv);
    assert_true(json_is_string(sm_json_get(facts, "kernel")));
    assert_true(json_integer_value(sm_json_get(facts, "memory_bytes")) > 0);
    assert_true(json_integer_value(sm_json_get(facts, "cpu.threads")) > 0);
    assert_true(json_is_array(sm_json_get(facts, "cpu.caches")));
    assert_string_equal(json_string_value(sm_json_get(facts, "environment.LD_PRELOAD_STEPMARK_TEST")), "a\xEF\xBF\xBD");
    assert_string_equal(json_string_value(json_array_get(sm_json_get(facts, "argv"), 1)), "\xEF\xBF\xBD(");
    // A row takes the facts, and the device's among its own copy of them.
    SM_AT_END(sm_row_free) sm_row row;
    const sm_device_info info = {.id = "fake:0", .name = "Fake 1"};
    sm_row_init(&row);
    sm_row_set_machine(&row, facts);
    sm_row_set_device(&row, "fake", &info);
    assert_string_equal(json_string_value(sm_json_get(row.context, "device.id")), "fake:0");
    assert_null(sm_json_get(facts, "device"));
    assert_string_equal(row.gpu_info, "Fake 1");
    // The host's own processor is none other, whatever its driver calls it.
    const sm_device_info host = {.id = "fake:1", .name = "pthread-Fake", .is_host_processor = true};
    sm_row_set_device(&row, "fake", &host);
    assert_string_equal(row.gpu_info, "");
    assert_true(sm_machine_peak_rss_bytes() > 0);
}

// What hwloc is told of another machine is not taken for this one, and the row has the variable.
TEST(a_made_up_topology_is_none) {
    unsetenv("HWLOC_THISSYSTEM");
    setenv("HWLOC_SYNTHETIC", "package:2 core:512 pu:2", 1);
    json_auto_t *facts = sm_machine_facts(0, NULL);
    unsetenv("HWLOC_SYNTHETIC");
    assert_true(json_is_null(sm_json_get(facts, "cpu.cores")));
    assert_non_null(sm_json_get(facts, "environment.HWLOC_SYNTHETIC"));
}

// Memory that was touched counts, and is forgotten by a reset once it is gone.
TEST(test_peak_rss) {
    const size_t size_bytes = (size_t)64 << 20;
    int64_t before_bytes = sm_machine_peak_rss_bytes();
    SM_FREED char *block = sm_malloc(size_bytes);
    memset(block, 1, size_bytes);
    assert_int_equal(block[size_bytes / 2], 1);
    assert_true(sm_machine_peak_rss_bytes() >= before_bytes);
    assert_true(sm_machine_peak_rss_bytes() >= (int64_t)size_bytes);
    sm_machine_reset_peak_rss();
    assert_true(sm_machine_peak_rss_bytes() > 0);
}

int main(void) {
    unsetenv("HWLOC_XMLFILE"); // the machine as it is
    return cmocka_run_group_tests(tests, NULL, NULL);
}
