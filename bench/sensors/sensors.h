// sensors.h: the machine while it measures: other load, the kernel's effects on the process, and the processor's clock,
// temperature and energy. Read once before the headline pass and once after it, never within; the row gets the
// difference.
//
// Linux: getrusage, /proc/stat, /proc/vmstat, cpufreq, thermal_throttle, hwmon and thermal zones, powercap (RAPL),
// cgroups of both versions; NVIDIA's devices through their management library. Unavailable readings are absent in the
// row, and `sensors_absent` in the row's context says why.
#pragma once

#include "bench/rows/row.h"

enum { SM_MAX_ENERGY_COUNTERS = 16 };

// Counters of a reading: only their differences mean something. X(counter)
#define SM_READING_COUNTERS(X)                                                                \
    X(time_ns)                                                                                \
    X(own_cpu_ns) /* user and system time of this process, all threads, and of own kernels */ \
    X(waiting_ns) /* of it, for one another */                                                \
    X(minor_faults)                                                                           \
    X(major_faults)                                                                           \
    X(voluntary_switches)                                                                     \
    X(involuntary_switches)                                                                   \
    X(busy_ticks)  /* of all processors: not idle, not waiting for files, not stolen */       \
    X(steal_ticks) /* the hypervisor ran something else */                                    \
    X(total_ticks)                                                                            \
    X(swap_in_pages) /* of the whole machine */                                               \
    X(swap_out_pages)                                                                         \
    X(throttle_count)     /* thermal, summed over processors */                               \
    X(quota_throttled_ns) /* stopped by the cgroup's limit of processor time */               \
    X(gpu_energy_mj)

// SM_ABSENT or NaN: not readable.
typedef struct {
#define X(counter) int64_t counter;
    SM_READING_COUNTERS(X)
#undef X
    int64_t energy_uj[SM_MAX_ENERGY_COUNTERS];
    int n_left_out;       // parts that were left out of what began here: sm_sensors_leave_out
    double frequency_mhz; // mean over the processors that this process may use
    double temperature_c; // the hottest sensor of the processor
    double gpu_frequency_mhz, gpu_temperature_c;
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

// Fills row->sensors, energy_j, energy_per_token_j, energy_source and the context's sensors_absent, and warns of what
// spoils the figure: steal, others' load, swapping, major faults, throttling, a falling clock, a governor that saves
// power. n_samples is the number of samples taken in between, n_tokens that of tokens in each.
void sm_sensors_report(const sm_sensors *sensors, const sm_reading *before, const sm_reading *after, int64_t n_samples,
                       double n_tokens, sm_row *row);

// --- cards ---------------------------------------------------------------------------------------

// NVIDIA's management library, loaded at run time where there is one. Part of the sensors.

typedef struct sm_nvml sm_nvml;

// The device of that name. SM_ERR_UNSUPPORTED says why there is nothing to read: no library, no
// such device, or several of that name, of which it cannot be told which one is measured.
sm_status sm_nvml_open(const char *name, sm_nvml **nvml);
void sm_nvml_close(sm_nvml *nvml); // NULL is fine

typedef enum {
    SM_NVML_ENERGY_MJ, // since the driver was loaded
    SM_NVML_TEMPERATURE_C,
    SM_NVML_FREQUENCY_MHZ, // of the multiprocessors
    SM_NVML_THROTTLE_REASONS,
    SM_NVML_BUSY_PERCENT, // of the driver's last period: that a kernel ran
    SM_NVML_MEMORY_BYTES, // taken, by all processes
    SM_NVML_POWER_MW,
    SM_NVML_FACT_COUNT
} sm_nvml_fact;

// NaN where the device does not say, or there is none (NULL).
double sm_nvml_read(const sm_nvml *nvml, sm_nvml_fact fact);

// The bits of a slow-down in words, "power cap, heat"; "" where none of them slows anything.
void sm_nvml_throttle_text(uint64_t reasons, char *text, size_t size_bytes);

// --- what was found ------------------------------------------------------------------------------

enum { SM_SENSOR_PATH = 256 };

// A counter of microjoules that starts again at range_uj (0: never).
typedef struct {
    char name[64]; // "package-0", "dram"
    char path[SM_SENSOR_PATH];
    int64_t range_uj;
} sm_energy_counter;

struct sm_sensors {
    char root[128];
    char governor[64];                     // "" where there is none
    char temperature_path[SM_SENSOR_PATH]; // millidegrees; "" where there is none
    sm_energy_counter energy[SM_MAX_ENERGY_COUNTERS];
    int n_energy;
    char card_energy_path[SM_SENSOR_PATH]; // microjoules of AMD's or Intel's card; "" where there is none
    sm_nvml *nvml;                         // NULL where there is none
    json_t *absent;                        // sensor -> why
};
