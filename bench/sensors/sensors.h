// sensors.h: the machine while it measures: other load, the kernel's effects on the process, and the processor's clock,
// temperature and energy. Read once before the headline pass and once after it, never within; the row gets the
// difference.
//
// Linux: getrusage, /proc/stat, /proc/vmstat, cpufreq, thermal_throttle, hwmon and thermal zones, powercap (RAPL),
// cgroups of both versions; NVIDIA's devices through their management library (found.h). Unavailable readings are absent in the
// row, and `sensors_absent` in the row's context says why.
#ifndef STEPMARK_BENCH_SENSORS_SENSORS_H
#define STEPMARK_BENCH_SENSORS_SENSORS_H

#include "bench/rows/row.h"

enum { SM_MAX_ENERGY_COUNTERS = 16 };

// One reading. Counters only mean something as differences. SM_ABSENT or NaN: not readable.
typedef struct {
    int64_t time_ns;
    int64_t own_cpu_ns; // user and system time of this process, all threads, and of that of own kernels
    int64_t waiting_ns; // of it, for one another
    int64_t minor_faults;
    int64_t major_faults;
    int64_t voluntary_switches;
    int64_t involuntary_switches;
    int64_t busy_ticks;  // of all processors: not idle, not waiting for input or output, not stolen
    int64_t steal_ticks; // the hypervisor ran something else
    int64_t total_ticks;
    int64_t swap_in_pages; // of the whole machine
    int64_t swap_out_pages;
    int64_t throttle_count;     // thermal, summed over processors
    int64_t quota_throttled_ns; // stopped by the cgroup's limit of processor time
    double frequency_mhz;       // mean over the processors that this process may use
    double temperature_c;       // the hottest sensor of the processor
    int64_t energy_uj[SM_MAX_ENERGY_COUNTERS];
    int64_t gpu_energy_mj;
    int n_left_out; // parts that were left out of what began here: sm_sensors_leave_out
    double gpu_frequency_mhz;
    double gpu_temperature_c;
    uint64_t gpu_throttle_reasons; // bits of NVML
} sm_reading;

typedef struct sm_sensors sm_sensors;

// Finds what can be read. `root` stands in front of /proc and /sys: "" but for tests. `gpu` is the
// name of the device that is measured; "" where that is the host's processor.
void sm_sensors_open(const char *root, const char *gpu, sm_sensors **sensors);
void sm_sensors_close(sm_sensors *sensors); // NULL is fine

void sm_sensors_read(const sm_sensors *sensors, sm_reading *reading);

// Has what happened between two readings not count: every counter of *before grows by as much.
void sm_sensors_leave_out(sm_reading *before, const sm_reading *from, const sm_reading *to);

// Fills row->sensors, energy_j, energy_per_token_j, energy_source and the context's
// sensors_absent, and warns of what spoils the figure: steal, others' load, swapping, major
// faults, throttling, a falling clock, a governor that saves power. n_samples is the number of
// samples taken in between, n_tokens that of tokens in each.
void sm_sensors_report(const sm_sensors *sensors, const sm_reading *before, const sm_reading *after, int64_t n_samples,
                       double n_tokens, sm_row *row);

#endif
