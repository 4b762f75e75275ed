// nvml.c: the few entry points of NVML that are needed, by their documented signatures.
#include "bench/sensors/nvml.h"

#include "bench/tables/json_values.h"

#include <dlfcn.h>
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

// POSIX lets dlsym's pointer be one to a function; C only lets its bytes be copied into one.
static void find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof(symbol));
}

// An OpenCL driver and NVML may differ in a prefix such as "NVIDIA ".
static bool is_named(const char *theirs, const char *asked) {
    return strstr(theirs, asked) != NULL || strstr(asked, theirs) != NULL;
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
    if (count == NULL || at == NULL || name_of == NULL || count(&n) != NVML_SUCCESS) {
        return sm_fail(SM_ERR_UNSUPPORTED, "NVML lists no devices");
    }
    for (unsigned i = 0; i < n; i++) {
        nvml_device candidate;
        char text[NAME_SIZE] = "";
        if (at(i, &candidate) == NVML_SUCCESS && name_of(candidate, text, sizeof(text)) == NVML_SUCCESS &&
            text[0] != '\0' && is_named(text, name)) {
            *device = candidate;
            n_found++;
        }
    }
    if (n_found != 1) {
        return sm_fail(SM_ERR_UNSUPPORTED, "NVML knows %d devices named %s; one is needed", n_found, name);
    }
    return SM_OK;
}

sm_status sm_nvml_open(const char *name, sm_nvml **nvml) {
    *nvml = NULL;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return sm_fail(SM_ERR_UNSUPPORTED, "no libnvidia-ml.so.1 here");
    }
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
        dlclose(library);
        return sm_fail(SM_ERR_UNSUPPORTED, "libnvidia-ml.so.1 does not start: no driver, or no permission");
    }
    sm_status status = find_device(library, name, &found.device);
    if (status != SM_OK) {
        found.shutdown();
        dlclose(library);
        return status;
    }
    *nvml = sm_malloc(sizeof(**nvml));
    **nvml = found;
    return SM_OK;
}

void sm_nvml_close(sm_nvml *nvml) {
    if (nvml != NULL) {
        nvml->shutdown();
        dlclose(nvml->library);
        free(nvml);
    }
}

int64_t sm_nvml_energy_mj(const sm_nvml *nvml) {
    unsigned long long mj = 0;
    bool known = nvml->energy != NULL && nvml->energy(nvml->device, &mj) == NVML_SUCCESS;
    return known ? (int64_t)mj : SM_ABSENT;
}

double sm_nvml_temperature_c(const sm_nvml *nvml) {
    unsigned celsius = 0;
    bool known =
        nvml->temperature != NULL && nvml->temperature(nvml->device, NVML_TEMPERATURE_GPU, &celsius) == NVML_SUCCESS;
    return known ? (double)celsius : NAN;
}

double sm_nvml_frequency_mhz(const sm_nvml *nvml) {
    unsigned mhz = 0;
    bool known = nvml->clock != NULL && nvml->clock(nvml->device, NVML_CLOCK_SM, &mhz) == NVML_SUCCESS;
    return known ? (double)mhz : NAN;
}

uint64_t sm_nvml_throttle_reasons(const sm_nvml *nvml) {
    unsigned long long reasons = 0;
    bool known = nvml->throttle != NULL && nvml->throttle(nvml->device, &reasons) == NVML_SUCCESS;
    return known ? (uint64_t)reasons : 0;
}

double sm_nvml_busy_share(const sm_nvml *nvml) {
    nvml_utilization rates = {0};
    bool known = nvml->utilization != NULL && nvml->utilization(nvml->device, &rates) == NVML_SUCCESS;
    return known ? (double)rates.gpu / 100 : NAN;
}

int64_t sm_nvml_memory_bytes(const sm_nvml *nvml) {
    nvml_memory memory = {0};
    bool known = nvml->memory != NULL && nvml->memory(nvml->device, &memory) == NVML_SUCCESS;
    return known ? (int64_t)memory.used : SM_ABSENT;
}

double sm_nvml_power_w(const sm_nvml *nvml) {
    unsigned mw = 0;
    bool known = nvml->power != NULL && nvml->power(nvml->device, &mw) == NVML_SUCCESS;
    return known ? (double)mw / 1000 : NAN;
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
