// found.h: the result of sm_sensors_open. Shared by sensors.c (reads it) and sensors/report.c (explains it).
#ifndef STEPMARK_BENCH_SENSORS_FOUND_H
#define STEPMARK_BENCH_SENSORS_FOUND_H

#include "bench/sensors/sensors.h"
#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- cards ---------------------------------------------------------------------------------------

// NVIDIA's management library, loaded at run time where there is one. Part of
// the sensors.

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

#endif
