// report.c: from two readings to a row's fields and warnings.
#include "bench/sensors/sensors.h"

#include <unistd.h>

#include "bench/tables/show.h"
#include "os/memory.h"

// Above these limits the machine was not the measurement's alone, or not as fast as it can be.
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
    *counter += *counter != SM_ABSENT && from != SM_ABSENT && to != SM_ABSENT ? to - from : 0;
}

void sm_sensors_leave_out(sm_reading *before, const sm_reading *from, const sm_reading *to) {
#define X(counter) grow(&before->counter, from->counter, to->counter);
    SM_READING_COUNTERS(X)
#undef X
    for (int i = 0; i < SM_MAX_ENERGY_COUNTERS; i++) {
        grow(&before->energy_uj[i], from->energy_uj[i], to->energy_uj[i]);
    }
    before->n_left_out++;
}

static void absent(sm_row *row, const char *sensor, const char *reason) {
    sm_json_set_new(row->context, sensor, json_string(reason));
}

// --- load: `d` is what the counters grew by ---------------------------------------------------------

static void set_load(const sm_reading *d, double seconds, sm_row *row) {
    const double ticks_per_s = (double)sysconf(_SC_CLK_TCK);
    if (seconds < shortest_seconds) {
        absent(row, "sensors_absent.load", "measured for less than 0.2 s: ticks of 10 ms say nothing");
        return;
    }
    if (d->total_ticks == SM_ABSENT || d->total_ticks <= 0) {
        absent(row, "sensors_absent.load", "/proc/stat does not tell it");
        return;
    }
    const double others = (double)d->busy_ticks / ticks_per_s - (double)d->own_cpu_ns / 1e9;
    const double n_cpus = (double)d->total_ticks / ticks_per_s / seconds;
    row->sensors.steal_share = (double)d->steal_ticks / (double)d->total_ticks;
    row->sensors.other_cpus = fmax(others, 0) / seconds;
    row->sensors.own_cpus = fmax((double)(d->own_cpu_ns - d->waiting_ns), 0) / 1e9 / seconds;
    if (row->sensors.steal_share > steal_share_limit) {
        sm_row_warn(row, "the hypervisor took %.1f%% of the processor time (steal)", 100 * row->sensors.steal_share);
    }
    if (row->sensors.other_cpus > other_share_limit * n_cpus) {
        sm_row_warn(row, "other processes kept %.2f of %.0f processors busy", row->sensors.other_cpus, round(n_cpus));
    }
}

static void set_counters(const sm_sensors *found, const sm_reading *a, const sm_reading *b, const sm_reading *d,
                         sm_row *row) {
    sm_row_sensors *s = &row->sensors;
    const int64_t page_bytes = (int64_t)os_page_bytes();
    s->minor_faults = d->minor_faults;
    s->major_faults = d->major_faults;
    s->voluntary_switches = d->voluntary_switches;
    s->involuntary_switches = d->involuntary_switches;
    s->swap_in_bytes = d->swap_in_pages != SM_ABSENT ? d->swap_in_pages * page_bytes : SM_ABSENT;
    s->swap_out_bytes = d->swap_out_pages != SM_ABSENT ? d->swap_out_pages * page_bytes : SM_ABSENT;
    if (d->swap_in_pages == SM_ABSENT) {
        absent(row, "sensors_absent.swap", "/proc/vmstat does not tell it");
    }
    SM_ROW_TEXT(s->governor, found->governor);
    s->frequency_before_mhz = a->frequency_mhz;
    s->frequency_after_mhz = b->frequency_mhz;
    s->temperature_before_c = a->temperature_c;
    s->temperature_after_c = b->temperature_c;
    s->throttle_count = d->throttle_count;
    s->quota_throttled_ns = d->quota_throttled_ns;
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
static double processor_joules(const sm_sensors *found, const sm_reading *d) {
    double joules = found->n_energy > 0 ? 0 : NAN;
    for (int i = 0; i < found->n_energy; i++) {
        const int64_t uj = d->energy_uj[i];
        const int64_t again_uj = uj < 0 ? found->energy[i].range_uj : 0; // it started again
        joules += uj != SM_ABSENT ? (double)(uj + again_uj) / 1e6 : NAN;
    }
    return joules;
}

static void set_energy(const sm_sensors *found, const sm_reading *d, double seconds, int64_t n_samples, double n_tokens,
                       sm_row *row) {
    const bool is_gpu = d->gpu_energy_mj != SM_ABSENT;
    const bool of_processor = row->gpu_info[0] == '\0';
    const double joules = is_gpu ? (double)d->gpu_energy_mj / 1000 : of_processor ? processor_joules(found, d) : NAN;
    // NVML's counter moves every tenth of a second, and each reading is up to that late: the difference of two by 0.04
    // s of the card's power (standard deviation), of 1 + n differences by sqrt(1 + n) as much. Twice that is to be
    // below a tenth.
    const double needed_s = is_gpu ? sqrt(1.0 + d->n_left_out) : 0;
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
    sm_reading d = {.n_left_out = before->n_left_out};
#define X(counter) d.counter = growth(before->counter, after->counter);
    SM_READING_COUNTERS(X)
#undef X
    for (int i = 0; i < SM_MAX_ENERGY_COUNTERS; i++) {
        d.energy_uj[i] = growth(before->energy_uj[i], after->energy_uj[i]);
    }
    const double seconds = (double)d.time_ns / 1e9;
    json_t *context = row->context != NULL ? json_copy(row->context) : json_object(); // rows share the machine's
    json_object_set_new(context, "sensors_absent", json_copy(found->absent));
    json_decref(row->context);
    row->context = context;
    set_counters(found, before, after, &d, row);
    set_load(&d, seconds, row);
    set_energy(found, &d, seconds, n_samples, n_tokens, row);
    const sm_row_sensors *s = &row->sensors;
    if ((double)d.involuntary_switches > switches_per_s_limit * seconds && seconds >= shortest_seconds) {
        sm_row_warn(row, "the process was preempted %lld times in %.1f s: more threads than processors, or others",
                    (long long)d.involuntary_switches, seconds);
    }
    if (s->major_faults > 0) {
        sm_row_warn(row, "%lld page faults waited for the disk while it measured", (long long)s->major_faults);
    }
    if (s->swap_in_bytes > 0 || s->swap_out_bytes > 0) {
        sm_row_warn(row, "the machine swapped (%lld bytes in, %lld out): the figure is that of a disk",
                    (long long)s->swap_in_bytes, (long long)s->swap_out_bytes);
    }
    judge_clock(row);
}
