// nvml.c: the few entry points of NVML that are needed, by their documented signatures.
#include "bench/sensors/sensors.h"

#include "bench/tables/show.h"
#include "os/library.h"

enum { NVML_SUCCESS = 0, NVML_TEMPERATURE_GPU = 0, NVML_CLOCK_SM = 1, NAME_SIZE = 128 };

typedef void *nvml_device;

struct sm_nvml {
    void *library;
    nvml_device device;
    int (*shutdown)(void);
    void *calls[SM_NVML_FACT_COUNT]; // NULL: this version has none
};

// A call answers with unsigned numbers, or with wide ones; the fact is one of them.
static const struct {
    const char *name;
    bool is_of_kind; // it is also asked which
    unsigned kind;
    bool is_wide;
    int place;
} calls[] = {
    [SM_NVML_ENERGY_MJ] = {"nvmlDeviceGetTotalEnergyConsumption", .is_wide = true},
    [SM_NVML_TEMPERATURE_C] = {"nvmlDeviceGetTemperature", .is_of_kind = true, .kind = NVML_TEMPERATURE_GPU},
    [SM_NVML_FREQUENCY_MHZ] = {"nvmlDeviceGetClockInfo", .is_of_kind = true, .kind = NVML_CLOCK_SM},
    [SM_NVML_THROTTLE_REASONS] = {"nvmlDeviceGetCurrentClocksThrottleReasons", .is_wide = true},
    [SM_NVML_BUSY_PERCENT] = {"nvmlDeviceGetUtilizationRates", .place = 0},            // of kernels, and of memory
    [SM_NVML_MEMORY_BYTES] = {"nvmlDeviceGetMemoryInfo", .is_wide = true, .place = 2}, // total, free, used
    [SM_NVML_POWER_MW] = {"nvmlDeviceGetPowerUsage", .place = 0},
};

static sm_status find_device(void *library, const char *name, nvml_device *device) {
    int (*count)(unsigned *);
    int (*at)(unsigned, nvml_device *);
    int (*name_of)(nvml_device, char *, unsigned);
    unsigned n = 0;
    int n_found = 0;
    (void)os_library_function(library, "nvmlDeviceGetCount_v2", &count);
    (void)os_library_function(library, "nvmlDeviceGetHandleByIndex_v2", &at);
    (void)os_library_function(library, "nvmlDeviceGetName", &name_of);
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
    (void)os_library_function(library, "nvmlInit_v2", &init);
    (void)os_library_function(library, "nvmlShutdown", &found.shutdown);
    for (int i = 0; i < SM_NVML_FACT_COUNT; i++) {
        found.calls[i] = os_library_find(library, calls[i].name);
    }
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

double sm_nvml_read(const sm_nvml *nvml, sm_nvml_fact fact) {
    union {
        unsigned narrow[2];
        unsigned long long wide[3];
    } answer;
    int (*ask)(nvml_device, void *);
    int (*ask_kind)(nvml_device, unsigned, void *);
    if (nvml == NULL || nvml->calls[fact] == NULL) {
        return NAN;
    }
    memcpy(&ask, &nvml->calls[fact], sizeof(ask));
    memcpy(&ask_kind, &nvml->calls[fact], sizeof(ask_kind));
    const int code =
        calls[fact].is_of_kind ? ask_kind(nvml->device, calls[fact].kind, &answer) : ask(nvml->device, &answer);
    const int place = calls[fact].place;
    return code != NVML_SUCCESS ? NAN : calls[fact].is_wide ? (double)answer.wide[place] : answer.narrow[place];
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
    text[0] = '\0';
    for (size_t i = 0; i < SM_COUNT(known); i++) {
        sm_append_part(text, size_bytes, ", ", reasons & known[i].bit ? known[i].words : "");
    }
}
