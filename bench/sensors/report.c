// report.c: from two readings to a row's fields and warnings.
#include "bench/sensors/sensors.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "bench/tables/show.h"
#include "os/memory.h"

// From these on the machine was not the measurement's alone, or not as fast as it can be.
static const double steal_share_limit = 0.01;
static const double other_share_limit = 0.05; // of the processors
static const double frequency_drop_limit = 0.05;
static const double switches_per_s_limit = 100; // a thread that is preempted every 10 ms

// The kernel counts processor time in ticks of 10 ms: over less than this they say nothing.
static const double shortest_seconds = 0.2;

static int64_t growth(int64_t before, int64_t after) {
    return before == SM_ABSENT || after == SM_ABSENT ? SM_ABSENT : after - before;
}

static void grow(int64_t *counter, int64_t from, int64_t to) {
    if (*counter != SM_ABSENT && from != SM_ABSENT && to != SM_ABSENT) {
        *counter += to - from;
    }
}

void sm_sensors_leave_out(sm_reading *before, const sm_reading *from, const sm_reading *to) {
#define COUNTERS(X)         \
    X(time_ns)              \
    X(own_cpu_ns)           \
    X(waiting_ns)           \
    X(minor_faults)         \
    X(major_faults)         \
    X(voluntary_switches)   \
    X(involuntary_switches) \
    X(busy_ticks)           \
    X(steal_ticks)          \
    X(total_ticks) X(swap_in_pages) X(swap_out_pages) X(throttle_count) X(quota_throttled_ns) X(gpu_energy_mj)
#define X(counter) grow(&before->counter, from->counter, to->counter);
    COUNTERS(X)
#undef X
#undef COUNTERS
    for (int i = 0; i < SM_MAX_ENERGY_COUNTERS; i++) {
        grow(&before->energy_uj[i], from->energy_uj[i], to->energy_uj[i]);
    }
    before->n_left_out++;
}

static void absent(sm_row *row, const char *sensor, const char *reason) {
    sm_json_set_new(row->context, sensor, json_string(reason));
}

// --- load ---------------------------------------------------------------------------------------

static void set_load(const sm_reading *a, const sm_reading *b, double seconds, sm_row *row) {
    int64_t total = growth(a->total_ticks, b->total_ticks);
    int64_t busy = growth(a->busy_ticks, b->busy_ticks);
    int64_t stolen = growth(a->steal_ticks, b->steal_ticks);
    if (seconds < shortest_seconds) {
        absent(row, "sensors_absent.load", "measured for less than 0.2 s: ticks of 10 ms say nothing");
        return;
    }
    if (total == SM_ABSENT || total <= 0) {
        absent(row, "sensors_absent.load", "/proc/stat does not tell it");
        return;
    }
    const double ticks_per_s = (double)sysconf(_SC_CLK_TCK);
    double others = (double)busy / ticks_per_s - (double)(b->own_cpu_ns - a->own_cpu_ns) / 1e9;
    row->sensors.steal_share = (double)stolen / (double)total;
    row->sensors.other_cpus = others > 0 ? others / seconds : 0;
    const int64_t computing_ns = b->own_cpu_ns - a->own_cpu_ns - (b->waiting_ns - a->waiting_ns);
    row->sensors.own_cpus = (double)(computing_ns > 0 ? computing_ns : 0) / 1e9 / seconds;
}

static void judge_load(const sm_reading *a, const sm_reading *b, double seconds, sm_row *row) {
    const sm_row_sensors *s = &row->sensors;
    const double ticks_per_s = (double)sysconf(_SC_CLK_TCK);
    double n_cpus = (double)growth(a->total_ticks, b->total_ticks) / ticks_per_s / seconds;
    if (s->steal_share > steal_share_limit) {
        sm_row_warn(row, "the hypervisor took %.1f%% of the processor time (steal)", 100 * s->steal_share);
    }
    if (s->other_cpus > other_share_limit * n_cpus) {
        sm_row_warn(row, "other processes kept %.2f of %.0f processors busy", s->other_cpus, round(n_cpus));
    }
    if ((double)s->involuntary_switches > switches_per_s_limit * seconds && seconds >= shortest_seconds) {
        sm_row_warn(row, "the process was preempted %lld times in %.1f s: more threads than processors, or others",
                    (long long)s->involuntary_switches, seconds);
    }
}

static void set_counters(const sm_sensors *found, const sm_reading *a, const sm_reading *b, sm_row *row) {
    sm_row_sensors *s = &row->sensors;
    const int64_t page_bytes = (int64_t)os_page_bytes();
    int64_t in = growth(a->swap_in_pages, b->swap_in_pages);
    int64_t out = growth(a->swap_out_pages, b->swap_out_pages);
    s->minor_faults = b->minor_faults - a->minor_faults;
    s->major_faults = b->major_faults - a->major_faults;
    s->voluntary_switches = b->voluntary_switches - a->voluntary_switches;
    s->involuntary_switches = b->involuntary_switches - a->involuntary_switches;
    s->swap_in_bytes = in != SM_ABSENT ? in * page_bytes : SM_ABSENT;
    s->swap_out_bytes = out != SM_ABSENT ? out * page_bytes : SM_ABSENT;
    if (in == SM_ABSENT) {
        absent(row, "sensors_absent.swap", "/proc/vmstat does not tell it");
    }
    SM_ROW_TEXT(s->governor, found->governor);
    s->frequency_before_mhz = a->frequency_mhz;
    s->frequency_after_mhz = b->frequency_mhz;
    s->temperature_before_c = a->temperature_c;
    s->temperature_after_c = b->temperature_c;
    s->throttle_count = growth(a->throttle_count, b->throttle_count);
    s->quota_throttled_ns = growth(a->quota_throttled_ns, b->quota_throttled_ns);
    s->gpu_frequency_mhz = b->gpu_frequency_mhz;
    s->gpu_temperature_c = b->gpu_temperature_c;
    sm_nvml_throttle_text(a->gpu_throttle_reasons | b->gpu_throttle_reasons, s->gpu_throttle, sizeof(s->gpu_throttle));
}

static void judge_clock(sm_row *row) {
    const sm_row_sensors *s = &row->sensors;
    if (s->governor[0] != '\0' && strcmp(s->governor, "performance") != 0) {
        sm_row_warn(row, "the governor is %s; for steady figures: performance", s->governor);
    }
    if (s->frequency_after_mhz < s->frequency_before_mhz * (1 - frequency_drop_limit)) {
        sm_row_warn(row, "the clock fell from %.0f to %.0f MHz while it measured", s->frequency_before_mhz,
                    s->frequency_after_mhz);
    }
    if (s->throttle_count > 0) {
        sm_row_warn(row, "the processor throttled itself for heat, %lld times", (long long)s->throttle_count);
    }
    if (s->quota_throttled_ns > 0) {
        sm_row_warn(row, "the cgroup's limit of processor time stopped the process for %.3g ms",
                    (double)s->quota_throttled_ns / 1e6);
    }
    if (s->gpu_throttle[0] != '\0') {
        sm_row_warn(row, "the device slowed itself down: %s", s->gpu_throttle);
    }
}

// --- energy ---------------------------------------------------------------------------------------

// Joules of all counters; NaN where one could not be read.
static double processor_joules(const sm_sensors *found, const sm_reading *a, const sm_reading *b) {
    double joules = 0;
    for (int i = 0; i < found->n_energy; i++) {
        int64_t uj = growth(a->energy_uj[i], b->energy_uj[i]);
        if (uj == SM_ABSENT) {
            return NAN;
        }
        uj += uj < 0 ? found->energy[i].range_uj : 0; // it started again
        joules += (double)uj / 1e6;
    }
    return found->n_energy > 0 ? joules : NAN;
}

static void set_energy(const sm_sensors *found, const sm_reading *a, const sm_reading *b, double seconds,
                       int64_t n_samples, double n_tokens, sm_row *row) {
    int64_t gpu_mj = growth(a->gpu_energy_mj, b->gpu_energy_mj);
    bool is_gpu = gpu_mj != SM_ABSENT;
    bool of_processor = row->gpu_info[0] == '\0';
    double joules = is_gpu ? (double)gpu_mj / 1000 : of_processor ? processor_joules(found, a, b) : NAN;
    // NVML's counter moves every tenth of a second, and each reading is up to that late: the difference of two by 0.04 s
    // of the card's power (standard deviation), of 1 + n differences by sqrt(1 + n) as much. Twice that is to be below a
    // tenth.
    const double needed_s = is_gpu ? sqrt(1.0 + a->n_left_out) : 0;
    if (!isfinite(joules) || n_samples < 1) {
        return;
    }
    if (seconds < needed_s) {
        absent(row, "sensors_absent.energy",
               SM_TEXT_IN(SM_TEXT_SIZE,
                          "the card's counter moves every 0.1 s: the samples must take %.1f s, and took %.2g: raise -r",
                          needed_s, seconds));
        return;
    }
    row->energy_j = joules / (double)n_samples;
    row->energy_per_token_j = n_tokens > 0 ? row->energy_j / n_tokens : NAN;
    if (is_gpu) {
        SM_ROW_TEXT(row->energy_source, found->nvml == NULL && found->card_energy_path[0] != '\0'
                                            ? "hwmon, the whole card"
                                            : "NVML, the whole device");
        return;
    }
    SM_ROW_TEXT(row->energy_source, "RAPL, with others' work:");
    for (int i = 0; i < found->n_energy; i++) {
        sm_append_part(row->energy_source, sizeof(row->energy_source), " ", found->energy[i].name);
    }
}

void sm_sensors_report(const sm_sensors *found, const sm_reading *before, const sm_reading *after, int64_t n_samples,
                       double n_tokens, sm_row *row) {
    double seconds = (double)(after->time_ns - before->time_ns) / 1e9;
    json_t *context = row->context != NULL ? json_copy(row->context) : json_object(); // rows share the machine's
    json_object_set_new(context, "sensors_absent", json_copy(found->absent));
    json_decref(row->context);
    row->context = context;
    set_load(before, after, seconds, row);
    set_counters(found, before, after, row);
    set_energy(found, before, after, seconds, n_samples, n_tokens, row);
    judge_load(before, after, seconds, row);
    const sm_row_sensors *s = &row->sensors;
    if (s->major_faults > 0) {
        sm_row_warn(row, "%lld page faults waited for the disk while it measured", (long long)s->major_faults);
    }
    if (s->swap_in_bytes > 0 || s->swap_out_bytes > 0) {
        sm_row_warn(row, "the machine swapped (%lld bytes in, %lld out): the figure is that of a disk",
                    (long long)s->swap_in_bytes, (long long)s->swap_out_bytes);
    }
    judge_clock(row);
}
