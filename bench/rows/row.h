// row.h: one result: a configuration, its measurement, and how far it can be trusted. The one schema table
// (row_schema.c) makes JSON, JSONL, CSV and Markdown of it.
//
// A field that is not known is SM_ABSENT (integers), NaN (reals), "" (texts) or NULL, and is
// written as null. Times are nanoseconds unless the name says otherwise.
//
// Every configuration that was asked for ends as a row. `status` is
//   ok       measured, and the loss was checked
//   oom      did not fit: `reason` says what was asked and what there is
//   timeout  the time limit came first; the samples so far are there
//   skipped  cannot run here: `reason` says why
//   error    failed, or computed a wrong loss: there is no speed then
#ifndef STEPMARK_ROW_H
#define STEPMARK_ROW_H

#include "backend.h"
#include "bench/rows/digest.h"
#include "bench/tables/record.h"
#include "src/models/model.h"
#include "src/train/phases.h"

enum { SM_ROW_SCHEMA_VERSION = 1, SM_ROW_TEXT_SIZE = 128, SM_ROW_REASON_SIZE = 512 };

// Parts of one attribution step that do not overlap; they add up to attribution_ns.
typedef struct {
    int64_t zero_grad_ns;
    int64_t forward_ns;
    int64_t backward_ns;
    int64_t optimizer_ns;
    int64_t scaler_ns;      // absent: no loss scaling
    int64_t unaccounted_ns; // wall-clock time less the others: uploads, launches, waiting
} sm_row_phases;

// A training loop (loop.h); all absent in other rows.
typedef struct {
    char loader[32]; // "inline", "threads:2"
    int64_t n_steps; // attribution steps in the middle half of all; the following times are their means
    int64_t wall_ns; // all phases together
#define X(code, member, name, text) int64_t member##_ns;
    SM_STEP_PHASE_LIST(X)
#undef X
    int64_t headline_wait_ns; // of a headline step
    int64_t headline_comm_ns; // likewise
    int64_t headline_hidden_ns;
    int64_t comm_bytes;               // likewise
    char transport[SM_TEXT_SIZE * 2]; // "shared memory"; "": a single process
    int64_t busy_ns; // of the loader's threads, for a step: the time of making its data over the number of threads
    double n_ready;  // loads ready at a request
    json_t *samples; // object: wall and phases, each an array by attribution step
    json_t *memory;  // object: bytes alive over a step, from the planner
    char bound[16];
    double bound_share;
    double ceiling_ts;
    json_t *ceilings; // object: tokens/s by the removed cause
    char verdict[SM_ROW_REASON_SIZE];
} sm_row_loop;

// The machine during the headline pass (sensors.h).
typedef struct {
    double own_cpus;   // processors kept busy by this process
    double other_cpus; // and by all others
    double steal_share;
    int64_t minor_faults;
    int64_t major_faults;
    int64_t swap_in_bytes;
    int64_t swap_out_bytes;
    int64_t voluntary_switches;
    int64_t involuntary_switches;
    char governor[32];
    double frequency_before_mhz;
    double frequency_after_mhz;
    double temperature_before_c;
    double temperature_after_c;
    int64_t throttle_count;
    int64_t quota_throttled_ns;
    double gpu_frequency_mhz;
    double gpu_temperature_c;
    char gpu_throttle[SM_ROW_TEXT_SIZE];
} sm_row_sensors;

// Members are in the written order; row_schema.c has a column for each, up to `op_ns`.
typedef struct {
    int64_t schema_version;
    char build_commit[64];
    char test_time[32]; // UTC, ISO 8601
    char status[16];
    char reason[SM_ROW_REASON_SIZE];
    char stop_reason[32]; // reason for the end of sampling: repetitions, noise, samples, time, timeout, interrupted

    // Configuration.
    char model_arch[32];
    char model_type[SM_ROW_TEXT_SIZE];
    int64_t model_n_params;
    char backends[SM_ROW_TEXT_SIZE]; // in this build
    char backend[32];                // as requested
    char backend_used[32];
    char device[32];
    char cpu_info[SM_ROW_TEXT_SIZE];
    char gpu_info[SM_ROW_TEXT_SIZE];
    char isa[32];
    char tier[32];
    char mode[32];
    char recompute[16];
    char attention[16];
    char products[SM_ROW_TEXT_SIZE];
    char precision[16];
    bool emulated;
    char loss_scale[32];                  // "dynamic", "1024"; "none"
    char own_kernels[SM_ROW_REASON_SIZE]; // the user's own, run in place of the backend's
    int64_t own_call_ns;                  // of a call into their process that does nothing
    int64_t n_threads;
    char binding[SM_ROW_TEXT_SIZE];
    char pass_type[32];
    char test[64];
    int64_t n_batch; // B
    int64_t n_seq;   // T
    int64_t n_accum;
#define ROW_SIZE(column)     int64_t column;
#define ROW_OPTIONAL(column) int64_t column;
#define ROW_WORD(column)     char column[SM_FIELD_TEXT_SIZE];
#define ROW_SWITCH(column)   bool column;
#define ROW_REAL(column)
#define X(type, member, column, ...) ROW_##type(column)
    SM_MODEL_FIELDS(X, X)
#undef X
    double dropout;
    char optimizer[32];
    int64_t seed;
    json_t *run_args; // array of texts
    char data[SM_ROW_REASON_SIZE];
    char data_digest[SM_DIGEST_SIZE];
    char documents[SM_ROW_TEXT_SIZE];
    char padding[16];
    char weights[SM_ROW_REASON_SIZE];
    char weights_digest[SM_DIGEST_SIZE];

    // Before the steady state.
    int64_t open_ns;
    int64_t build_ns;
    int64_t tune_ns;
    int64_t first_step_ns;
    int64_t n_warmup;
    int64_t warmup_ns;
    sm_integers warmup_samples_ns; // each warm-up step
    char warmup_stop[32];          // fixed, steady, limit

    // Attribution pass.
    int64_t attribution_ns;
    int64_t n_attribution;
    sm_row_phases phases;
    int64_t n_skipped;          // steps of the whole measurement
    double attribution_percent; // attribution_ns above median_ns
    int64_t overhead_ns;        // median_ns less the phases: the headline step's time beyond its ops

    // Headline pass.
    sm_integers samples_ns;
    sm_reals samples_ts;
    int64_t median_ns;
    int64_t mad_ns;
    int64_t q1_ns;
    int64_t q3_ns;
    int64_t min_ns;
    int64_t max_ns;
    int64_t ci95_lo_ns;
    int64_t ci95_hi_ns;
    int64_t n_outliers;
    double noise_percent;
    char noise_verdict[16]; // noise_verdict.h: steady, noisy, too few
    int64_t p95_ns;
    int64_t p99_ns;
    double drift_percent;
    double drift_p;
    double bimodality;
    int64_t avg_ns;
    int64_t stddev_ns;
    int64_t harness_ns; // of that pass, outside of its samples, for each sample
    double median_ts;
    double avg_ts;
    double stddev_ts;
    double real_tokens;
    double padded_tokens;
    double real_tokens_per_s;
    double padded_tokens_per_s;
    double attended_pairs;

    // pass_type separate: the two parts of each sample.
    sm_integers samples_forward_ns;
    sm_integers samples_backward_ns;
    int64_t forward_avg_ns;
    int64_t forward_stddev_ns;
    int64_t backward_avg_ns;
    int64_t backward_stddev_ns;

    // Relative to the machine's peaks.
    double flops;
    double bytes;
    double peak_flops;
    double peak_bandwidth;
    char peak_source[SM_ROW_TEXT_SIZE];
    int64_t ideal_ns;
    double mfu;
    double step_efficiency;
    double energy_j;
    double energy_per_token_j;
    char energy_source[SM_ROW_TEXT_SIZE];
    sm_row_sensors sensors;

    sm_row_loop loop;
    json_t *utilisation; // utilisation.h; NULL in a row that is not a loop

    int64_t peak_rss_bytes;
    int64_t device_peak_bytes;
    int64_t estimated_bytes;
    int64_t estimated_rss_bytes;

    // In a sweep: set by the process that started this one.
    char sweep_key[SM_ROW_REASON_SIZE];
    char sweep_note[SM_ROW_REASON_SIZE];
    int64_t process_ns;
    int64_t process_peak_rss_bytes;
    int64_t memory_limit_bytes;

    int64_t check_seed;
    bool check_seed_chosen;
    double loss;
    double loss_checked;
    double loss_reference;
    char loss_check[SM_ROW_TEXT_SIZE];
    char gradient_check[SM_ROW_TEXT_SIZE];
    double gradient_error;
    double gradient_tolerance;
    int64_t gradient_check_ns;
    char update_check[SM_ROW_TEXT_SIZE];
    double update_error;
    char spot_check[2 * SM_ROW_TEXT_SIZE];
    double spot_error;
    char repeat_check[SM_ROW_TEXT_SIZE];
    int64_t checks_ns;
    sm_reals losses; // of every step, as run; of its last micro-batch

    json_t *warnings; // array of texts
    json_t *context;  // facts of the machine (machine.h)

    // Not written: nanoseconds of each op of the plan in the attribution step of `phases`, for the profile. {NULL, 0}
    // if there was none.
    sm_integers op_ns;
    sm_integers op_least_ns; // likewise, the least of all attribution steps for each op
} sm_row;

extern const sm_table sm_row_table;

// Sets every field to absent, except schema_version, build_commit, test_time (now) and an empty warnings array.
void sm_row_init(sm_row *row);
void sm_row_free(sm_row *row); // frees its contents, not the struct

// The machine's facts: cpu_info, and `context`, of which the row holds a reference.
void sm_row_set_machine(sm_row *row, json_t *context);

void sm_row_set_model(sm_row *row, const sm_model_config *config); // the fields of its config

// The facts of a device, opened or not: backend_used, device, isa, tier, n_threads, gpu_info, its warnings, and
// "device" within the context (which is copied for the row).
void sm_row_set_device(sm_row *row, const char *backend, const sm_device_info *info);

// Copies a text into one of the row's arrays, truncated if necessary.
#define SM_ROW_TEXT(array, text) sm_row_copy_text((array), sizeof(array), (text))
void sm_row_copy_text(char *array, size_t size_bytes, const char *text);

void sm_row_warn(sm_row *row, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Sets status and reason from a failure; the reason is the thread's error message.
void sm_row_fail(sm_row *row, sm_status status);

// Removes every figure of speed from a row (columns marked SPEED in row_schema.c), including samples.
void sm_row_clear_speed(sm_row *row);

// The row as a JSON object with every field; the caller owns it.
json_t *sm_row_to_json(const sm_row *row);

// --- writing rows ------------------------------------------------------------------------

typedef sm_record_writer sm_row_writer;

sm_status sm_row_writer_open(sm_format format, FILE *out, sm_row_writer **writer);

// Writes a row as JSON (sm_row_to_json), which it takes ownership of. A row without a status is written as an error, so
// that no reader takes it for a result.
sm_status sm_row_write_record(sm_row_writer *writer, json_t *row);

// A row of which tables for people also show the number in its file, from 1, as `compare FILE#N` takes it; 0: unknown.
// Takes ownership of `row`.
json_t *sm_row_numbered(json_t *row, size_t number);

// Has a table for people end with a few lines on what its columns mean.
void sm_row_writer_explain(sm_row_writer *writer);
sm_status sm_row_writer_close(sm_row_writer *writer); // NULL is fine

// The meaning of the Markdown table's columns, for new users.
void sm_row_write_legend(bool has_peaks, FILE *out); // without peaks, without what follows from them

#endif
