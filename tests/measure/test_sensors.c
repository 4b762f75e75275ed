// test_sensors.c: the sensors with a test's own /proc and /sys, and the meaning of readings.
#include <sched.h>

#include "tests/support/temp_folder.h"
#include "bench/sensors/sensors.h"

#define ZONE "sys/class/powercap/intel-rapl:"

static void make_machine(void) {
    temp_put_text("proc/stat", "cpu  100 0 50 800 10 0 0 5 0 0\ncpu0 1 1 1 1\n");
    temp_put_text("proc/vmstat", "pgpgin 1\npswpin 3\npswpout 4\n");
    temp_put_text("proc/self/cgroup", "0::/\n");
    temp_put_text("sys/fs/cgroup/cpu.stat", "usage_usec 1\nthrottled_usec 100\n");
    temp_put_text(ZONE "0/name", "package-0\n");
    temp_put_text(ZONE "0/energy_uj", "999000000\n");
    temp_put_text(ZONE "0/max_energy_range_uj", "1000000000\n");
    temp_put_text(ZONE "0:0/name", "core\n"); // within the package
    temp_put_text(ZONE "0:0/energy_uj", "5\n");
    temp_put_text(ZONE "0:1/name", "dram\n");
    temp_put_text(ZONE "0:1/energy_uj", "0\n");
    temp_put_text("sys/class/hwmon/hwmon0/name", "nvme\n");
    temp_put_text("sys/class/hwmon/hwmon0/temp1_input", "99000\n");
    temp_put_text("sys/class/hwmon/hwmon1/name", "coretemp\n");
    temp_put_text("sys/class/hwmon/hwmon1/temp1_input", "45500\n");
    temp_put_text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    for (int cpu = 0; cpu < 64; cpu++) {
        temp_put_text(textf("sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", cpu), "3000000\n");
    }
    temp_put_text("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "2\n");
    temp_put_text("sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "1\n");
}

static sm_sensors *sensors; // of the test, and
static sm_row row;          // what they reported

// Sensors of the machine in the folder, and of a device; "": the host.
static void open_sensors(const char *root, const char *gpu) {
    sm_sensors_close(sensors);
    sm_sensors_open(root, gpu, &sensors);
    sm_row_free(&row);
    sm_row_init(&row);
    SM_ROW_TEXT(row.gpu_info, gpu);
}

static int set_up(void **state) {
    assert_int_equal(temp_folder_make(state), 0);
    make_machine();
    open_sensors(temp_folder, "");
    return 0;
}

static int tear_down(void **state) {
    sm_sensors_close(sensors);
    sensors = NULL;
    return temp_folder_remove(state);
}

static bool warns(const char *text) {
    for (size_t i = 0; i < json_array_size(row.warnings); i++) {
        if (strstr(json_string_value(json_array_get(row.warnings, i)), text) != NULL) {
            return true;
        }
    }
    return false;
}

static const char *why_absent(const char *sensor) {
    return json_string_value(json_object_get(json_object_get(row.context, "sensors_absent"), sensor));
}

TEST_WITH(reads_a_machine, set_up, tear_down) {
    sm_reading r;
    sm_sensors_read(sensors, &r);
    assert_int_equal(r.busy_ticks, 150);
    assert_int_equal(r.steal_ticks, 5);
    assert_int_equal(r.total_ticks, 965);
    assert_int_equal(r.swap_in_pages, 3);
    assert_int_equal(r.swap_out_pages, 4);
    assert_int_equal(r.throttle_count, 3);
    assert_int_equal(r.quota_throttled_ns, 100000);
    assert_true(r.frequency_mhz == 3000);
    assert_true(r.temperature_c == 45.5);
    assert_int_equal(r.gpu_energy_mj, SM_ABSENT);
    assert_true(r.own_cpu_ns > 0 && r.minor_faults > 0 && r.time_ns > 0);
}

// Everything goes wrong at once: each says so, and in figures.
TEST_WITH(a_spoiled_measurement_says_why, set_up, tear_down) {
    sm_reading before, after;
    sm_sensors_read(sensors, &before);
    temp_put_text("proc/vmstat", "pswpin 4\npswpout 4\n");
    temp_put_text("sys/fs/cgroup/cpu.stat", "throttled_usec 5100\n");
    temp_put_text(ZONE "0/energy_uj", "2000000\n"); // started again
    temp_put_text(ZONE "0:1/energy_uj", "1000000\n");
    temp_put_text("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "9\n");
    sm_sensors_read(sensors, &after);
    const int64_t ticks_per_s = sysconf(_SC_CLK_TCK);
    after.time_ns = before.time_ns + INT64_C(2000000000);
    after.own_cpu_ns = before.own_cpu_ns + INT64_C(2000000000);
    after.total_ticks = before.total_ticks + 8 * ticks_per_s; // four processors
    after.busy_ticks = before.busy_ticks + 5 * ticks_per_s;
    after.steal_ticks = before.steal_ticks + 2 * ticks_per_s;
    after.major_faults = before.major_faults + 7;
    after.involuntary_switches = before.involuntary_switches + 1000;
    after.frequency_mhz = 2000;
    sm_sensors_report(sensors, &before, &after, 10, 20, &row);
    assert_true(row.sensors.own_cpus == 1);
    assert_true(row.sensors.other_cpus == 1.5);
    assert_true(row.sensors.steal_share == 0.25);
    assert_int_equal(row.sensors.major_faults, 7);
    assert_int_equal(row.sensors.swap_in_bytes, sysconf(_SC_PAGESIZE));
    assert_int_equal(row.sensors.swap_out_bytes, 0);
    assert_int_equal(row.sensors.throttle_count, 7);
    assert_int_equal(row.sensors.quota_throttled_ns, 5000000);
    assert_string_equal(row.sensors.governor, "powersave");
    assert_true(fabs(row.energy_j - 0.4) < 1e-12); // 3 J of the package, which wrapped, and 1 of memory
    assert_true(fabs(row.energy_per_token_j - 0.02) < 1e-12);
    assert_non_null(strstr(row.energy_source, "RAPL"));
    assert_non_null(strstr(row.energy_source, "dram"));
    static const char *const expected[] = {
        "steal",     "other processes kept 1.50 of 4", "preempted 1000",   "7 page faults",          "swapped",
        "powersave", "from 3000 to 2000 MHz",          "throttled itself", "limit of processor time"};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_true(warns(expected[i]));
    }
    assert_non_null(why_absent("gpu"));
    assert_null(why_absent("energy"));
}

TEST_WITH(a_quiet_measurement_says_nothing, set_up, tear_down) {
    sm_reading before;
    temp_put_text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
    open_sensors(temp_folder, "");
    sm_sensors_read(sensors, &before);
    sm_reading after = before;
    after.time_ns += 1000000;
    sm_sensors_report(sensors, &before, &after, 1, 1, &row);
    assert_int_equal(json_array_size(row.warnings), 0);
    assert_true(isnan(row.sensors.other_cpus)); // a millisecond: ticks cannot tell
    assert_non_null(why_absent("load"));
    after.swap_out_pages += 1;
    sm_sensors_report(sensors, &before, &after, 1, 1, &row);
    assert_int_equal(json_array_size(row.warnings), 1);
    assert_true(warns("the machine swapped (0 bytes in"));
}

// A machine that tells nothing: null with a reason each, and no failure.
TEST_WITH(absent_sensors_have_reasons, set_up, tear_down) {
    static const char *const names[] = {"energy",          "temperature", "governor", "frequency", "throttle_count",
                                        "quota_throttled", "load",        "swap",     "gpu"};
    sm_reading r;
    open_sensors(temp_path("nothing"), "No such device");
    sm_sensors_read(sensors, &r);
    sm_reading later = r;
    later.time_ns += INT64_C(1000000000);
    sm_sensors_report(sensors, &r, &later, 1, 1, &row);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        FAIL_IF(why_absent(names[i]) == NULL, "%s: no reason", names[i]);
    }
    assert_int_equal(row.sensors.swap_in_bytes, SM_ABSENT);
    assert_int_equal(row.sensors.throttle_count, SM_ABSENT);
    assert_true(isnan(row.energy_j) && isnan(row.sensors.frequency_after_mhz));
    json_auto_t *record = sm_row_to_json(&row);
    assert_true(json_is_null(sm_json_get(record, "sensors.swap_in_bytes")));
    assert_true(json_is_null(sm_json_get(record, "sensors.governor")));
}

// The energy of the host says nothing of a device of its own.
TEST_WITH(host_energy_is_not_a_devices, set_up, tear_down) {
    sm_reading r;
    open_sensors(temp_folder, "No such device");
    sm_sensors_read(sensors, &r);
    sm_sensors_report(sensors, &r, &r, 1, 1, &row);
    assert_true(isnan(row.energy_j));
    assert_string_equal(row.energy_source, "");
}

// AMD's and Intel's drivers count microjoules in hwmon; of two cards nobody knows which is measured.
TEST_WITH(energy_of_a_card_by_its_driver, set_up, tear_down) {
    static const char *const drivers[] = {"amdgpu", "xe"};
    for (int i = 0; i < 3; i++) {
        sm_reading before, after;
        temp_put_text("sys/class/hwmon/hwmon7/name", i == 1 ? "xe\n" : "amdgpu\n");
        temp_put_text("sys/class/hwmon/hwmon7/energy1_input", "5000000\n");
        if (i == 2) {
            temp_put_text("sys/class/hwmon/hwmon8/name", "xe\n");
            temp_put_text("sys/class/hwmon/hwmon8/energy1_input", "5000000\n");
        }
        open_sensors(temp_folder, drivers[i % 2]);
        sm_sensors_read(sensors, &before);
        temp_put_text("sys/class/hwmon/hwmon7/energy1_input", "205000000\n");
        sm_sensors_read(sensors, &after);
        after.time_ns = before.time_ns + 2000000000;
        sm_sensors_report(sensors, &before, &after, 10, 100, &row);
        assert_true(i < 2 ? fabs(row.energy_j - 20) < 1e-12 : isnan(row.energy_j));
        assert_string_equal(row.energy_source, i < 2 ? "hwmon, the whole card" : "");
    }
}

// A card's counter moves so seldom that of a short time it tells nothing, and of parts left out less.
TEST_WITH(energy_of_a_card_needs_time, set_up, tear_down) {
    const struct {
        double seconds;
        int n_left_out;
        bool is_known;
    } cases[] = {{0.07, 0, false}, {0.9, 0, false}, {1.1, 0, true}, {1.9, 3, false}, {2.1, 3, true}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sm_reading before;
        open_sensors(temp_folder, "Some card");
        sm_sensors_read(sensors, &before);
        sm_reading after = before;
        before.n_left_out = cases[i].n_left_out;
        before.gpu_energy_mj = 5000;
        after.gpu_energy_mj = 5000 + 200000;
        after.time_ns += (int64_t)(cases[i].seconds * 1e9);
        sm_sensors_report(sensors, &before, &after, 10, 100, &row);
        assert_true(cases[i].is_known ? fabs(row.energy_j - 20) < 1e-12 : isnan(row.energy_j));
        assert_true(cases[i].is_known ==
                    (why_absent("energy") == NULL || strstr(why_absent("energy"), "moves") == NULL));
    }
}

// A check in the middle of what is measured takes time, processor and energy that are not the measurement's.
TEST(what_is_left_out_does_not_count) {
    sm_reading before = {
        .time_ns = 100, .own_cpu_ns = 10, .minor_faults = 7, .swap_in_pages = SM_ABSENT, .gpu_energy_mj = 50};
    sm_reading from = {.time_ns = 300, .own_cpu_ns = 40, .minor_faults = 8, .swap_in_pages = 5, .gpu_energy_mj = 90};
    sm_reading to = {
        .time_ns = 1300, .own_cpu_ns = 540, .minor_faults = 1008, .swap_in_pages = 9, .gpu_energy_mj = SM_ABSENT};
    before.frequency_mhz = 2000;
    to.frequency_mhz = 3000; // no counter
    before.energy_uj[0] = 999000000;
    from.energy_uj[0] = 999900000;
    to.energy_uj[0] = 400000; // it began again at 1e9
    before.energy_uj[1] = SM_ABSENT;
    sm_sensors_leave_out(&before, &from, &to);
    assert_int_equal(before.time_ns, 100 + 1000);
    assert_int_equal(before.own_cpu_ns, 10 + 500);
    assert_int_equal(before.minor_faults, 7 + 1000);
    assert_int_equal(before.swap_in_pages, SM_ABSENT);
    assert_int_equal(before.gpu_energy_mj, 50); // not known how much
    assert_true(before.frequency_mhz == 2000);
    assert_int_equal(before.n_left_out, 1);
    assert_int_equal(before.energy_uj[1], SM_ABSENT);
    // Until `after` reads 500000, 900000 uJ were used before it and 100000 after it: both readings began again.
    assert_int_equal(500000 - before.energy_uj[0], 900000 + 100000);
}

TEST(throttle_reasons_in_words) {
    char text[128];
    sm_nvml_throttle_text(0x01, text, sizeof(text)); // idle
    assert_string_equal(text, "");
    sm_nvml_throttle_text(0x44, text, sizeof(text));
    assert_string_equal(text, "power cap, heat (hardware)");
    sm_nvml_throttle_text(~UINT64_C(0), text, 12);
    assert_int_equal(strlen(text), 11);
}

AROUND_ALL(NULL, NULL) // a test makes a folder
