// nvml.c: the few entry points of NVML that are needed, by their documented signatures.
#include "bench/sensors/found.h"

#include "bench/tables/json_values.h"
#include "os/library.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NVML_SUCCESS = 0, NVML_TEMPERATURE_GPU = 0, NVML_CLOCK_SM = 1, NAME_SIZE = 128 };

typedef void *nvml_device;

typedef struct {
    unsigned gpu; // percent
    unsigned memory;
} nvml_utilization;

typedef struct {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
} nvml_memory;

struct sm_nvml {
    void *library;
    nvml_device device;
    int (*shutdown)(void);
    int (*energy)(nvml_device, unsigned long long *);
    int (*temperature)(nvml_device, unsigned, unsigned *);
    int (*clock)(nvml_device, unsigned, unsigned *);
    int (*throttle)(nvml_device, unsigned long long *);
    int (*utilization)(nvml_device, nvml_utilization *);
    int (*memory)(nvml_device, nvml_memory *);
    int (*power)(nvml_device, unsigned *);
};

// Systems let a library's pointer be one to a function; C only lets its bytes be copied into one.
static void find(void *library, const char *name, void *function) {
    void *symbol = os_library_find(library, name);
    memcpy(function, &symbol, sizeof(symbol));
}

static sm_status find_device(void *library, const char *name, nvml_device *device) {
    int (*count)(unsigned *);
    int (*at)(unsigned, nvml_device *);
    int (*name_of)(nvml_device, char *, unsigned);
    unsigned n = 0;
    int n_found = 0;
    find(library, "nvmlDeviceGetCount_v2", &count);
    find(library, "nvmlDeviceGetHandleByIndex_v2", &at);
    find(library, "nvmlDeviceGetName", &name_of);
    SM_FAIL_IF(count == NULL || at == NULL || name_of == NULL || count(&n) != NVML_SUCCESS, SM_ERR_UNSUPPORTED,
               "NVML lists no devices");
    for (unsigned i = 0; i < n; i++) {
        nvml_device candidate;
        char text[NAME_SIZE] = ""; // an OpenCL driver and NVML may differ in a prefix such as "NVIDIA "
        if (at(i, &candidate) == NVML_SUCCESS && name_of(candidate, text, sizeof(text)) == NVML_SUCCESS &&
            text[0] != '\0' && (strstr(text, name) != NULL || strstr(name, text) != NULL)) {
            *device = candidate;
            n_found++;
        }
    }
    SM_FAIL_IF(n_found != 1, SM_ERR_UNSUPPORTED, "NVML knows %d devices named %s; one is needed", n_found, name);
    return SM_OK;
}

sm_status sm_nvml_open(const char *name, sm_nvml **nvml) {
    *nvml = NULL;
    void *library = os_library_open("libnvidia-ml.so.1");
    SM_FAIL_IF(library == NULL, SM_ERR_UNSUPPORTED, "no libnvidia-ml.so.1 here");
    int (*init)(void);
    sm_nvml found = {.library = library};
    find(library, "nvmlInit_v2", &init);
    find(library, "nvmlShutdown", &found.shutdown);
    find(library, "nvmlDeviceGetTotalEnergyConsumption", &found.energy);
    find(library, "nvmlDeviceGetTemperature", &found.temperature);
    find(library, "nvmlDeviceGetClockInfo", &found.clock);
    find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", &found.throttle);
    find(library, "nvmlDeviceGetUtilizationRates", &found.utilization);
    find(library, "nvmlDeviceGetMemoryInfo", &found.memory);
    find(library, "nvmlDeviceGetPowerUsage", &found.power);
    if (init == NULL || found.shutdown == NULL || init() != NVML_SUCCESS) {
        os_library_close(library);
        return sm_fail(SM_ERR_UNSUPPORTED, "libnvidia-ml.so.1 does not start: no driver, or no permission");
    }
    sm_status status = find_device(library, name, &found.device);
    if (status != SM_OK) {
        found.shutdown();
        os_library_close(library);
        return status;
    }
    *nvml = sm_malloc(sizeof(**nvml));
    **nvml = found;
    return SM_OK;
}

void sm_nvml_close(sm_nvml *nvml) {
    if (nvml != NULL) {
        nvml->shutdown();
        os_library_close(nvml->library);
        free(nvml);
    }
}

// Calls an entry point that fills `value`; false where it is not there, or the device does not say.
#define TELLS(nvml, entry, ...) ((nvml)->entry != NULL && (nvml)->entry((nvml)->device, __VA_ARGS__) == NVML_SUCCESS)

int64_t sm_nvml_energy_mj(const sm_nvml *nvml) {
    unsigned long long mj;
    return TELLS(nvml, energy, &mj) ? (int64_t)mj : SM_ABSENT;
}

double sm_nvml_temperature_c(const sm_nvml *nvml) {
    unsigned celsius;
    return TELLS(nvml, temperature, NVML_TEMPERATURE_GPU, &celsius) ? (double)celsius : NAN;
}

double sm_nvml_frequency_mhz(const sm_nvml *nvml) {
    unsigned mhz;
    return TELLS(nvml, clock, NVML_CLOCK_SM, &mhz) ? (double)mhz : NAN;
}

uint64_t sm_nvml_throttle_reasons(const sm_nvml *nvml) {
    unsigned long long reasons;
    return TELLS(nvml, throttle, &reasons) ? (uint64_t)reasons : 0;
}

double sm_nvml_busy_share(const sm_nvml *nvml) {
    nvml_utilization rates;
    return TELLS(nvml, utilization, &rates) ? (double)rates.gpu / 100 : NAN;
}

int64_t sm_nvml_memory_bytes(const sm_nvml *nvml) {
    nvml_memory memory;
    return TELLS(nvml, memory, &memory) ? (int64_t)memory.used : SM_ABSENT;
}

double sm_nvml_power_w(const sm_nvml *nvml) {
    unsigned mw;
    return TELLS(nvml, power, &mw) ? (double)mw / 1000 : NAN;
}

void sm_nvml_throttle_text(uint64_t reasons, char *text, size_t size_bytes) {
    static const struct {
        uint64_t bit;
        const char *words;
    } known[] = {{0x04, "power cap"},
                 {0x08, "hardware slow-down"},
                 {0x20, "heat (software)"},
                 {0x40, "heat (hardware)"},
                 {0x80, "power brake"}};
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && used < size_bytes; i++) {
        if (reasons & known[i].bit) {
            used += (size_t)snprintf(text + used, size_bytes - used, "%s%s", used > 0 ? ", " : "", known[i].words);
        }
    }
}
