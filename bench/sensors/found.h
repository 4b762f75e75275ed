// found.h: the result of sm_sensors_open. Shared by sensors.c (reads it) and sensors/report.c (explains it).
#ifndef STEPMARK_BENCH_SENSORS_FOUND_H
#define STEPMARK_BENCH_SENSORS_FOUND_H

#include "bench/sensors/nvml.h"
#include "bench/sensors/sensors.h"

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
