// nvml.h: NVIDIA's management library, loaded at run time where there is one. Part of
// the sensors.
#ifndef STEPMARK_BENCH_SENSORS_NVML_H
#define STEPMARK_BENCH_SENSORS_NVML_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sm_nvml sm_nvml;

// The device of that name. SM_ERR_UNSUPPORTED says why there is nothing to read: no library, no
// such device, or several of that name, of which it cannot be told which one is measured.
sm_status sm_nvml_open(const char *name, sm_nvml **nvml);
void sm_nvml_close(sm_nvml *nvml); // NULL is fine

// SM_ABSENT, NaN and 0 where the device does not say.
int64_t sm_nvml_energy_mj(const sm_nvml *nvml); // since the driver was loaded
double sm_nvml_temperature_c(const sm_nvml *nvml);
double sm_nvml_frequency_mhz(const sm_nvml *nvml); // of the multiprocessors
uint64_t sm_nvml_throttle_reasons(const sm_nvml *nvml);
double sm_nvml_busy_share(const sm_nvml *nvml);    // 0..1: of the driver's last period, in which a kernel ran
int64_t sm_nvml_memory_bytes(const sm_nvml *nvml); // taken, by all processes
double sm_nvml_power_w(const sm_nvml *nvml);

// The bits of a slow-down in words, "power cap, heat"; "" where none of them slows anything.
void sm_nvml_throttle_text(uint64_t reasons, char *text, size_t size_bytes);

#endif
