// sensors.c: finding and reading. Their meaning for a row: sensors/report.c.
#include "bench/sensors/sensors.h"
#include "os/files.h"

#include <errno.h>
#include <sys/resource.h>

#include "clock.h"
#include "os/os.h"

enum { MAX_CPUS_READ = 64, LINE_SIZE = 512 };

// --- small files -------------------------------------------------------------------------------

// First line of a file below the root; false with errno set when there is none.
#define READ_LINE(s, line, ...) os_read_line((s)->root, SM_TEXT_IN(SM_SENSOR_PATH, __VA_ARGS__), line, sizeof(line))

static int64_t read_integer(const sm_sensors *s, const char *path) {
    char line[LINE_SIZE];
    return READ_LINE(s, line, "%s", path) ? (int64_t)strtoll(line, NULL, 10) : SM_ABSENT;
}

static int64_t read_swaps(const sm_sensors *s, const char *key) {
    uint64_t n_pages;
    return os_read_count(s->root, "/proc/vmstat", key, &n_pages) ? (int64_t)n_pages : SM_ABSENT;
}

static void absent(sm_sensors *s, const char *sensor, const char *reason) {
    json_object_set_new(s->absent, sensor, sm_json_text(reason));
}

// --- energy of the processor ---------------------------------------------------------------------

// A zone of powercap, "intel-rapl:0" (a package) or "intel-rapl:0:2" (a part of one). Of the parts
// only the memory is outside of its package.
static void try_energy_zone(sm_sensors *s, const char *zone, char *reason, size_t size_bytes) {
    char name[64], line[LINE_SIZE];
    sm_energy_counter *counter = &s->energy[s->n_energy];
    if (s->n_energy == SM_MAX_ENERGY_COUNTERS || !READ_LINE(s, name, "/sys/class/powercap/%s/name", zone) ||
        (strncmp(name, "package", 7) != 0 && strcmp(name, "dram") != 0)) {
        return;
    }
    if (!READ_LINE(s, line, "/sys/class/powercap/%s/energy_uj", zone)) {
        snprintf(reason, size_bytes, "powercap/%s/energy_uj: %s", zone, strerror(errno));
        return;
    }
    snprintf(counter->path, sizeof(counter->path), "/sys/class/powercap/%.32s/energy_uj", zone);
    snprintf(counter->name, sizeof(counter->name), "%s", name);
    bool wraps = READ_LINE(s, line, "/sys/class/powercap/%s/max_energy_range_uj", zone);
    counter->range_uj = wraps ? (int64_t)strtoll(line, NULL, 10) : 0;
    s->n_energy++;
}

static void find_energy(sm_sensors *s) {
    char reason[SM_SENSOR_PATH + 64] = "no RAPL zone of a package in /sys/class/powercap";
    SM_AT_END(os_free_names) os_names zones;
    if (!os_list_folder(SM_TEXT_IN(SM_SENSOR_PATH, "%s/sys/class/powercap", s->root), &zones)) {
        snprintf(reason, sizeof(reason), "/sys/class/powercap: %s", strerror(errno));
    }
    for (int i = 0; i < zones.n; i++) {
        if (strncmp(zones.list[i], "intel-rapl:", 11) == 0 && strlen(zones.list[i]) < 32) {
            try_energy_zone(s, zones.list[i], reason, sizeof(reason));
        }
    }
    if (s->n_energy == 0) {
        absent(s, "energy", reason);
    }
}

// --- temperature -----------------------------------------------------------------------------------

// Looks for `file` in the folders of `parent` whose `kind` file holds one of the names; sets `path` to the first that
// has it, and returns their number.
static int find_in(sm_sensors *s, const char *parent, const char *kind, const char *file, const char *const *names,
                   char found_path[SM_SENSOR_PATH]) {
    char path[SM_SENSOR_PATH], line[LINE_SIZE];
    int n_found = 0;
    snprintf(path, sizeof(path), "%s%s", s->root, parent);
    SM_AT_END(os_free_names) os_names folders;
    (void)os_list_folder(path, &folders);
    for (int i = 0; i < folders.n; i++) {
        bool found = false;
        bool wanted = strlen(folders.list[i]) < 32 && READ_LINE(s, line, "%s/%s/%s", parent, folders.list[i], kind);
        for (const char *const *name = names; wanted && *name != NULL && !found; name++) {
            found = strcmp(line, *name) == 0;
        }
        if (found) {
            snprintf(path, sizeof(path), "%s/%.32s/%s", parent, folders.list[i], file);
            found = read_integer(s, path) != SM_ABSENT;
        }
        if (found && n_found++ == 0) {
            snprintf(found_path, SM_SENSOR_PATH, "%s", path);
        }
    }
    return n_found;
}

// The counter of AMD's and Intel's drivers, in microjoules. Of several cards nobody knows which is measured.
static bool find_card_energy(sm_sensors *s) {
    static const char *const drivers[] = {"amdgpu", "xe", NULL};
    const int n = find_in(s, "/sys/class/hwmon", "name", "energy1_input", drivers, s->card_energy_path);
    s->card_energy_path[0] = n == 1 ? s->card_energy_path[0] : '\0';
    return n == 1;
}

static void find_temperature(sm_sensors *s) {
    static const char *const chips[] = {"coretemp", "k10temp", "zenpower", "cpu_thermal", NULL};
    static const char *const zones[] = {"x86_pkg_temp", "cpu-thermal", "cpu_thermal", "acpitz", NULL};
    if (find_in(s, "/sys/class/hwmon", "name", "temp1_input", chips, s->temperature_path) == 0 &&
        find_in(s, "/sys/class/thermal", "type", "temp", zones, s->temperature_path) == 0) {
        s->temperature_path[0] = '\0';
        absent(s, "temperature", "no sensor of the processor in /sys/class/hwmon or /sys/class/thermal");
    }
}

// --- clock and throttling ---------------------------------------------------------------------------

static double cpuinfo_mhz(const sm_sensors *s) {
    char line[LINE_SIZE];
    double sum = 0;
    int n = 0;
    SM_OWN(FILE) *file = os_open_facts(s->root, "/proc/cpuinfo");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *colon = strncmp(line, "cpu MHz", 7) == 0 ? strchr(line, ':') : NULL;
        if (colon != NULL) {
            sum += strtod(colon + 1, NULL);
            n++;
        }
    }
    return n > 0 && sum > 0 ? sum / n : NAN;
}

// Mean over the processors that this process may run on, or a part of them where they are many.
static double frequency_mhz(const sm_sensors *s) {
    os_processors set;
    double sum_khz = 0;
    int n = 0;
    if (!os_processors_allowed(&set)) {
        return cpuinfo_mhz(s);
    }
    for (int cpu = 0; cpu < OS_MAX_PROCESSORS && n < MAX_CPUS_READ; cpu++) {
        char line[LINE_SIZE];
        if (os_processors_has(&set, cpu)) {
            if (!READ_LINE(s, line, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", cpu)) {
                break;
            }
            sum_khz += strtod(line, NULL);
            n++;
        }
    }
    return n > 0 ? sum_khz / n / 1000 : cpuinfo_mhz(s);
}

static int64_t throttle_count(const sm_sensors *s) {
    int64_t sum = SM_ABSENT;
    for (int cpu = 0; cpu < OS_MAX_PROCESSORS; cpu++) {
        static const char *const counters[] = {"core", "package"};
        char line[LINE_SIZE];
        for (int i = 0; i < 2; i++) {
            if (READ_LINE(s, line, "/sys/devices/system/cpu/cpu%d/thermal_throttle/%s_throttle_count", cpu,
                          counters[i])) {
                sum = (sum == SM_ABSENT ? 0 : sum) + (int64_t)strtoll(line, NULL, 10);
            } else if (i == 0) {
                return sum; // no more processors
            }
        }
    }
    return sum;
}

static void find_clock(sm_sensors *s) {
    if (!READ_LINE(s, s->governor, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")) {
        absent(s, "governor", "no cpufreq in /sys/devices/system/cpu/cpu0: a virtual machine, or a fixed clock");
    }
    if (isnan(frequency_mhz(s))) {
        absent(s, "frequency", "neither cpufreq nor /proc/cpuinfo tells it");
    }
    if (throttle_count(s) == SM_ABSENT) {
        absent(s, "throttle_count", "no thermal_throttle counters in /sys/devices/system/cpu/cpu0");
    }
}

// --- the whole -----------------------------------------------------------------------------------

static int64_t quota_throttled_ns(const sm_sensors *s) {
    double quota_cpus;
    int64_t throttled_ns;
    os_cpu_allowed(s->root, &quota_cpus, &throttled_ns);
    return throttled_ns >= 0 ? throttled_ns : SM_ABSENT;
}

static void read_load(const sm_sensors *s, sm_reading *r) {
    r->time_ns = sm_now_ns();
    struct rusage u;
    getrusage(RUSAGE_SELF, &u); // fails only for a bad first argument
    r->own_cpu_ns = (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * INT64_C(1000000000) +
                    (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000 + sm_own_process_busy_ns(&r->waiting_ns);
    r->minor_faults = u.ru_minflt;
    r->major_faults = u.ru_majflt;
    r->voluntary_switches = u.ru_nvcsw;
    r->involuntary_switches = u.ru_nivcsw;
    char line[LINE_SIZE];
    long long t[8] = {0}; // user nice system idle iowait irq softirq steal
    bool found = READ_LINE(s, line, "/proc/stat") && sscanf(line, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &t[0],
                                                            &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) == 8;
    r->busy_ticks = found ? t[0] + t[1] + t[2] + t[5] + t[6] : SM_ABSENT;
    r->steal_ticks = found ? t[7] : SM_ABSENT;
    r->total_ticks = found ? r->busy_ticks + t[3] + t[4] + t[7] : SM_ABSENT;
}

void sm_sensors_read(const sm_sensors *s, sm_reading *r) {
    const int64_t one_moment_ns = 2000000; // where a busy machine stopped this process between two of them: again
    memset(r, 0, sizeof(*r));
    for (int tries = 0; tries == 0 || (tries < 20 && sm_now_ns() - r->time_ns > one_moment_ns); tries++) {
        read_load(s, r);
    }
    for (int i = 0; i < s->n_energy; i++) {
        r->energy_uj[i] = read_integer(s, s->energy[i].path);
    }
    r->swap_in_pages = read_swaps(s, "pswpin ");
    r->swap_out_pages = read_swaps(s, "pswpout ");
    r->throttle_count = throttle_count(s);
    r->quota_throttled_ns = quota_throttled_ns(s);
    r->frequency_mhz = frequency_mhz(s);
    int64_t millidegrees = s->temperature_path[0] != '\0' ? read_integer(s, s->temperature_path) : SM_ABSENT;
    r->temperature_c = millidegrees != SM_ABSENT ? (double)millidegrees / 1000 : NAN;
    const int64_t card_uj = s->card_energy_path[0] != '\0' ? read_integer(s, s->card_energy_path) : SM_ABSENT;
    const double nvml_mj = sm_nvml_read(s->nvml, SM_NVML_ENERGY_MJ);
    const double reasons = sm_nvml_read(s->nvml, SM_NVML_THROTTLE_REASONS);
    r->gpu_energy_mj = isfinite(nvml_mj) ? (int64_t)nvml_mj : card_uj != SM_ABSENT ? card_uj / 1000 : SM_ABSENT;
    r->gpu_frequency_mhz = sm_nvml_read(s->nvml, SM_NVML_FREQUENCY_MHZ);
    r->gpu_temperature_c = sm_nvml_read(s->nvml, SM_NVML_TEMPERATURE_C);
    r->gpu_throttle_reasons = isfinite(reasons) ? (uint64_t)reasons : 0;
}

void sm_sensors_open(const char *root, const char *gpu, sm_sensors **sensors) {
    sm_sensors *s = sm_calloc(1, sizeof(*s));
    s->absent = json_object();
    snprintf(s->root, sizeof(s->root), "%s", root);
    find_energy(s);
    find_temperature(s);
    find_clock(s);
    if (quota_throttled_ns(s) == SM_ABSENT) {
        absent(s, "quota_throttled", "no throttled_usec or throttled_time in the cpu.stat of a cgroup");
    }
    if (gpu[0] == '\0') {
        absent(s, "gpu", "the host's processor is measured");
    } else if (sm_nvml_open(gpu, &s->nvml) != SM_OK && !find_card_energy(s)) {
        absent(s, "gpu", sm_error_message());
    }
    *sensors = s;
}

void sm_sensors_close(sm_sensors *s) {
    if (s != NULL) {
        sm_nvml_close(s->nvml);
        json_decref(s->absent);
        free(s);
    }
}
