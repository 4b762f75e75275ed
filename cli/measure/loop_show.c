// loop_show.c: see measure/loop.h.
#include "cli/measure/loop.h"

#include <math.h>
#include <stdio.h>

#include "bench/loop/loop.h"
#include "bench/tables/show.h"
#include "cli/flags/options.h"
#include "cli/output/notes.h"

static const double unaccounted_limit = 0.01; // of an instrumented step

static void print_speed(const sm_row *row) {
    char rate[32];
    char step[32];
    char step_and_spread[96];
    sm_text_count(round(row->median_ts), rate, sizeof(rate));
    sm_text_ms((double)row->median_ns, step, sizeof(step));
    snprintf(step_and_spread, sizeof(step_and_spread), "%s ms a step", step);
    sm_append_spread(row->noise_percent, step_and_spread, sizeof(step_and_spread));
    printf("\n%s tokens/s, undisturbed: %s", rate, step_and_spread);
    if (isfinite(row->attribution_percent)) {
        printf("; timing its ops makes it %.1f%% %s", fabs(row->attribution_percent),
               row->attribution_percent >= 0 ? "longer" : "shorter");
    }
    puts(".");
}

static void print_ceilings(const sm_row *row) {
    const char *name;
    json_t *value;
    const char *before = "Without, tokens/s:";
    if (row->loop.ceilings == NULL) {
        return;
    }
    json_object_foreach(row->loop.ceilings, name, value) {
        char rate[32];
        sm_text_count(round(json_number_value(value)), rate, sizeof(rate));
        if (json_is_number(value)) {
            printf("%s %s %s", before, name, rate);
            before = ",";
        }
    }
    puts(before[0] == ',' ? "." : "");
}

// Means of a series over warm-up and headline; NaN if there is none.
static void mean_of(const json_t *seen, const char *name, double *warmup, double *headline) {
    const json_t *values = json_object_get(seen, name);
    const size_t n_warmup = (size_t)json_integer_value(json_object_get(seen, "n_warmup"));
    const size_t n_headline = (size_t)json_integer_value(json_object_get(seen, "n_headline"));
    double sums[2] = {0, 0};
    double n[2] = {0, 0};
    for (size_t i = 0; i < json_array_size(values) && i < n_warmup + n_headline; i++) {
        const json_t *value = json_array_get(values, i);
        if (json_is_number(value)) {
            sums[i >= n_warmup] += json_number_value(value);
            n[i >= n_warmup]++;
        }
    }
    *warmup = n[0] > 0 ? sums[0] / n[0] : NAN;
    *headline = n[1] > 0 ? sums[1] / n[1] : NAN;
}

// One observation, after a full stop or a comma.
static void print_share(const json_t *seen, const char *name, const char *words, int *n_told) {
    double warmup;
    double headline;
    mean_of(seen, name, &warmup, &headline);
    if (isfinite(headline)) {
        printf("%s%s busy %.0f%%", (*n_told)++ > 0 ? "; " : " ", words, 100 * headline);
        if (isfinite(warmup)) {
            printf(" (in warm-up %.0f%%)", 100 * warmup);
        }
    }
}

static void print_machine(const sm_row *row) {
    double warmup;
    double power_w;
    char host[32];
    char device[32];
    int n_told = 0;
    sm_text_bytes((double)row->peak_rss_bytes, host, sizeof(host));
    sm_text_bytes((double)row->device_peak_bytes, device, sizeof(device));
    printf("Peak memory: process %s, device %s.", host, device);
    print_share(row->utilisation, "cpu", "Processors", &n_told);
    print_share(row->utilisation, "gpu", "GPU", &n_told);
    mean_of(row->utilisation, "power_w", &warmup, &power_w);
    if (isfinite(power_w)) {
        printf("%s%.0f W", n_told++ > 0 ? "; " : " ", power_w);
    }
    puts(n_told > 0 ? "." : "");
}

// Only with several processes.
static void print_communication(const sm_row *row) {
    char exposed[32];
    char hidden[32];
    char moved[32];
    if (row->loop.comm_bytes == SM_ABSENT) {
        return;
    }
    sm_text_ms((double)row->loop.headline_comm_ns, exposed, sizeof(exposed));
    sm_text_ms((double)row->loop.headline_hidden_ns, hidden, sizeof(hidden));
    sm_text_bytes((double)row->loop.comm_bytes, moved, sizeof(moved));
    printf("Communication, a step: %s ms waited for, %s ms hidden; %s sent and received, by %s.\n", exposed, hidden,
           moved, row->loop.transport);
}

static void note_reconciliation(const sm_row *row) {
    const double share = (double)row->loop.unaccounted_ns / (double)row->loop.wall_ns;
    if (!(fabs(share) <= unaccounted_limit)) {
        cli_note("%.1f%% of the step is in none of its phases: the step is too small to judge them", 100 * share);
    }
}

sm_status cli_loop_show(const sm_row *row, const json_t *baseline, sm_format format) {
    json_t *record = sm_row_to_json(row);
    json_t *records = sm_loop_records(record, baseline);
    const sm_status status = sm_record_write_all(&sm_loop_table, format, stdout, records);
    json_decref(records);
    json_decref(record);
    print_speed(row);
    if (row->loop.wall_ns != SM_ABSENT) {
        printf("%s\n", row->loop.verdict);
        print_ceilings(row);
        note_reconciliation(row);
    }
    print_communication(row);
    print_machine(row);
    return status;
}
