// test_machine.c: the facts of whatever machine this is, and how a row takes them.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/temp_folder.h"
#include "bench/rows/machine.h"
#include "bench/rows/row.h"

static void test_machine_facts(void **state) {
    (void)state;
    setenv("OMP_STEPMARK_TEST", "a\xFF", 1);
    char *argv[] = {(char[]){"stepmark"}, (char[]){"\xC3\x28"}, NULL};
    json_t *facts = NULL;
    assert_int_equal(sm_machine_facts(2, argv, &facts), SM_OK);
    assert_true(json_is_string(sm_json_get(facts, "kernel")));
    assert_true(json_integer_value(sm_json_get(facts, "memory_bytes")) > 0);
    assert_true(json_integer_value(sm_json_get(facts, "cpu.threads")) > 0);
    assert_true(json_is_array(sm_json_get(facts, "cpu.caches")));
    assert_string_equal(json_string_value(sm_json_get(facts, "environment.OMP_STEPMARK_TEST")), "a\xEF\xBF\xBD");
    assert_string_equal(json_string_value(json_array_get(sm_json_get(facts, "argv"), 1)), "\xEF\xBF\xBD(");
    // A row takes the facts, and the device's among its own copy of them.
    sm_row row;
    const sm_device_info info = {.id = "fake:0", .name = "Fake 1"};
    assert_int_equal(sm_row_init(&row), SM_OK);
    sm_row_set_machine(&row, facts);
    assert_int_equal(sm_row_set_device(&row, "fake", &info), SM_OK);
    assert_string_equal(json_string_value(sm_json_get(row.context, "device.id")), "fake:0");
    assert_null(sm_json_get(facts, "device"));
    assert_string_equal(row.gpu_info, "Fake 1");
    // The host's own processor is none other, whatever its driver calls it.
    const sm_device_info host = {.id = "fake:1", .name = "pthread-Fake", .is_host_processor = true};
    assert_int_equal(sm_row_set_device(&row, "fake", &host), SM_OK);
    assert_string_equal(row.gpu_info, "");
    sm_row_free(&row);
    json_decref(facts);
    assert_true(sm_machine_peak_rss_bytes() > 0);
}

// AMD's processors fill their names with blanks.
static void test_cpu_name_ends_with_its_last_letter(void **state) {
    (void)state;
    static const char padded[] = "AMD EPYC 7763 64-Core Processor                ";
    hwloc_topology_t topology;
    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    if (package == NULL) {
        hwloc_topology_destroy(topology);
        skip();
    }
    bool has_name = false;
    for (unsigned i = 0; i < package->infos_count; i++) {
        if (strcmp(package->infos[i].name, "CPUModel") == 0) {
            free(package->infos[i].value);
            package->infos[i].value = strdup(padded);
            has_name = true;
        }
    }
    assert_true(has_name || hwloc_obj_add_info(package, "CPUModel", padded) == 0);
    char *path = temp_path("topology.xml");
    assert_int_equal(hwloc_topology_export_xml(topology, path, 0), 0);
    hwloc_topology_destroy(topology);
    setenv("HWLOC_XMLFILE", path, 1);
    json_t *facts = NULL;
    assert_int_equal(sm_machine_facts(0, NULL, &facts), SM_OK);
    assert_string_equal(json_string_value(sm_json_get(facts, "cpu.name")), "AMD EPYC 7763 64-Core Processor");
    json_decref(facts);
    unsetenv("HWLOC_XMLFILE");
    free(path);
}

// Memory that was touched counts, and is forgotten by a reset once it is gone.
static void test_peak_rss(void **state) {
    (void)state;
    const size_t size_bytes = (size_t)64 << 20;
    int64_t before_bytes = sm_machine_peak_rss_bytes();
    char *block = malloc(size_bytes);
    assert_non_null(block);
    memset(block, 1, size_bytes);
    assert_int_equal(block[size_bytes / 2], 1);
    assert_true(sm_machine_peak_rss_bytes() >= before_bytes);
    assert_true(sm_machine_peak_rss_bytes() >= (int64_t)size_bytes);
    free(block);
    sm_machine_reset_peak_rss();
    assert_true(sm_machine_peak_rss_bytes() > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine_facts),
        cmocka_unit_test(test_cpu_name_ends_with_its_last_letter),
        cmocka_unit_test(test_peak_rss),
    };
    return cmocka_run_group_tests(tests, temp_folder_make, temp_folder_remove);
}
