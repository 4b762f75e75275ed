// verify.c: compares every op, then the whole step, with the reference. Markdown has one line for all cases of a kind
// of op; the other formats have a record for each comparison.
#include "bench/tables/show.h"
#include "cli/setup/setup.h"
#include "src/verify/verify.h"

#define SHARED(head) .heading = head, .view = SM_SHOWN_WHEN_VARIED
#define COLUMN_LIST(X)                                                                                            \
    X("device", TEXT, "", "device that is compared with the reference", v->device->info.id, SHARED("device"))     \
    X("n_threads", INTEGER, "", "threads", v->device->info.n_threads, SHARED("threads"))                          \
    X("own_kernels", TEXT, "", "the user's own kernels that were run", v->device->info.own_kernels,               \
      SHARED("own kernels"))                                                                                      \
    X("precision", TEXT, "", "fp32, tf32, tf32x3, bf16x6, bf16, fp16 or fp8", cli_precision_name(v->precision),   \
      SHARED("precision"), .show = sm_show_precision)                                                             \
    X("emulated", BOOLEAN, "", "the device widens the data, for lack of instructions of its own",                 \
      cli_is_emulated(v->device, v->precision), .heading = NULL)                                                  \
    X("mode", TEXT, "", "of the whole step; null for single ops", v->mode, .heading = "mode")                     \
    X("recompute", TEXT, "", "of the whole step; null for single ops", v->recompute, .heading = "recompute")      \
    X("check", TEXT, "", "kind of op, or step", l->check, .heading = "check")                                     \
    X("subject", TEXT, "", "sizes of the case, or part of the step", l->subject, .heading = "subject")            \
    X("n_cases", INTEGER, "", "comparisons in this line", l->n_cases, .heading = "cases")                         \
    X("n_values", INTEGER, "", "numbers compared", l->n_values, .heading = "values")                              \
    X("error", REAL, "", "max|a-b| / max|b|; null: not a number", l->error, .heading = "worst error",             \
      .format = "%.1e")                                                                                           \
    X("tolerance", REAL, "", "largest error that passes", l->tolerance, .heading = "tolerance", .format = "%.1e") \
    X("status", TEXT, "", "passed, failed or skipped", l->status, .heading = "status")                            \
    X("reason", TEXT, "", "why it failed or was skipped", l->reason, .heading = "reason")

const sm_table cli_verify_table = SM_LISTED_TABLE("verifications", COLUMN_LIST);

enum { SUBJECT_SIZE = 128 };

// One comparison, or the worst of a check's comparisons.
typedef struct {
    char check[SUBJECT_SIZE], subject[SUBJECT_SIZE], reason[2 * SUBJECT_SIZE];
    int64_t n_cases, n_values;
    double error, tolerance;
    const char *status;
} line;

typedef struct {
    const cli_options *options;
    sm_verify_filter filter;
    sm_record_writer *writer;
    const sm_device *device; // the current one
    cli_precision precision; // the current one
    const char *mode;        // "" for single ops
    const char *recompute;   // likewise
    line sum;                // the summary of the current check; n_cases = 0: none
    int n_passed, n_failed, n_skipped;
    sm_status status; // of the writer, since a report cannot return one
} verification;

static void write_line(verification *v, const line *l) {
    json_t *record = json_object();
    COLUMN_LIST(SM_LISTED_VALUE)
    const sm_status written = sm_record_write(v->writer, record);
    v->status = v->status != SM_OK ? v->status : written;
}

static void flush_sum(verification *v) {
    if (v->sum.n_cases > 0) {
        write_line(v, &v->sum);
        v->sum = (line){.n_cases = 0};
    }
}

// The error relative to its tolerance: above 1 it fails. Skipped ones come last.
static double badness(const line *l) {
    return l->status[0] == 's' ? -1 : isfinite(l->error) ? l->error / l->tolerance : INFINITY;
}

static void report(const sm_verify_row *row, void *context) {
    verification *v = context;
    line l = {.n_cases = 1,
              .n_values = row->n_values,
              .error = row->skipped ? NAN : row->error,
              .tolerance = row->skipped ? NAN : row->tolerance,
              .status = row->skipped ? "skipped"
                        : row->ok    ? "passed"
                                     : "failed"};
    snprintf(l.check, sizeof(l.check), "%s", row->check);
    snprintf(l.subject, sizeof(l.subject), "%s", row->subject);
    snprintf(l.reason, sizeof(l.reason), "%s", row->reason);
    v->n_skipped += row->skipped;
    v->n_passed += row->ok && !row->skipped;
    v->n_failed += !row->ok;
    if (!row->ok) {
        cli_note("%s: %s %s: error %.2g, allowed %.2g; %s", v->device->info.id, row->check, row->subject, row->error,
                 row->tolerance, row->reason);
    } else if (v->options->out.progress) {
        cli_note("%s: %s %s: %s", v->device->info.id, row->check, row->subject, l.status);
    }
    if (sm_format_is_read(v->options->out.format)) {
        cli_live_show(row->check, 0, 0);
        // A check's line shows its worst case and counts the others.
        if (v->sum.n_cases > 0 && strcmp(v->sum.check, l.check) != 0) {
            flush_sum(v);
        }
        const line before = v->sum;
        v->sum = before.n_cases == 0 || badness(&l) > badness(&before) ? l : before;
        v->sum.n_cases = before.n_cases + 1;
        v->sum.n_values = before.n_values + l.n_values;
    } else {
        write_line(v, &l);
    }
}

// Continues after a mismatch, which has been reported.
static sm_status go_on(const verification *v, sm_status status) {
    return v->status != SM_OK          ? v->status
           : cli_interrupted           ? SM_ERR_INTERRUPTED
           : status == SM_ERR_MISMATCH ? SM_OK
                                       : status;
}

// Continues after steps that were compared in a mode. A step that cannot run is skipped, with the reason.
static sm_status end_steps(verification *v, sm_status status) {
    if (status == SM_ERR_UNSUPPORTED) {
        const sm_verify_row skipped = {
            .check = "step", .subject = "", .ok = true, .skipped = true, .reason = sm_error_message()};
        report(&skipped, v);
        status = SM_OK;
    }
    flush_sum(v);
    return go_on(v, status);
}

static sm_status verify_plan(verification *v, sm_device *device, sm_mode mode, sm_recompute recompute) {
    const unsigned without = v->options->device.without_bits;
    v->recompute = sm_recompute_name(sm_recompute_resolve(recompute, without));
    return end_steps(v, sm_verify_step(device, cli_plan_precision(v->precision), mode, recompute, without, report, v));
}

static sm_status verify_mode(verification *v, sm_device *device, sm_mode mode) {
    const sm_recompute asked = (sm_recompute)v->options->work.recompute;
    const sm_precision precision = cli_plan_precision(v->precision);
    v->mode = sm_mode_name(mode);
    v->recompute = "";
    SM_TRY(end_steps(v, sm_verify_updates(device, precision, mode, report, v)));
    SM_TRY(verify_plan(v, device, mode, asked));
    v->recompute = sm_recompute_name(sm_recompute_resolve(SM_RECOMPUTE_AUTO, 0));
    SM_TRY(end_steps(v, sm_verify_documents(device, precision, mode, report, v)));
    const bool has_others =
        asked == SM_RECOMPUTE_AUTO &&
        sm_recompute_resolve(SM_RECOMPUTE_BLOCK, v->options->device.without_bits) == SM_RECOMPUTE_BLOCK;
    SM_TRY(has_others && mode != SM_MODE_NAIVE ? verify_plan(v, device, mode, SM_RECOMPUTE_LIGHT) : SM_OK);
    return has_others ? verify_plan(v, device, mode, SM_RECOMPUTE_BLOCK) : SM_OK;
}

static sm_status verify_device(verification *v, sm_device *device) {
    v->mode = "";
    v->recompute = "";
    sm_status status = sm_verify_ops(device, cli_plan_precision(v->precision), &v->filter, report, v);
    flush_sum(v);
    SM_TRY(go_on(v, status));
    if (v->filter.pattern != NULL && !sm_pattern_matches(v->filter.pattern, "step")) {
        return SM_OK;
    }
    for (int i = 0; i < v->options->device.modes.n; i++) {
        SM_TRY(verify_mode(v, device, (sm_mode)v->options->device.modes.values[i]));
    }
    return SM_OK;
}

static sm_status verify_all(verification *v, const cli_device_list *devices) {
    const cli_ints *threads = &v->options->device.threads;
    const cli_ints *precisions = &v->options->device.precisions;
    for (int d = 0; d < devices->n; d++) {
        for (int t = 0; t < (threads->n > 0 ? threads->n : 1); t++) {
            SM_OWN(sm_device) *device = NULL;
            SM_TRY(cli_open_device(devices->devices[d], threads->n > 0 ? threads->values[t] : 0, v->options, &device));
            v->device = device;
            for (int p = 0; p < precisions->n; p++) {
                v->precision = (cli_precision)precisions->values[p];
                SM_TRY(verify_device(v, device));
            }
        }
    }
    return SM_OK;
}

sm_status cli_verify(const cli_options *options) {
    verification v = {.options = options, .filter = {.max_elems = options->learn.max_elems}};
    SM_OWN(sm_pattern) *pattern = NULL;
    SM_TRY(cli_filter_compile(options->learn.filter, &pattern));
    v.filter.pattern = pattern;
    cli_device_list devices;
    SM_TRY(cli_select_devices(&options->device.backends, &devices));
    SM_TRY(sm_record_writer_open(&cli_verify_table, options->out.format, stdout, &v.writer));
    sm_status status = verify_all(&v, &devices);
    cli_live_clear();
    SM_TRY(sm_record_writer_close(v.writer, status));
    if (sm_format_is_read(options->out.format)) {
        printf("\n%d passed, %d failed, %d skipped\n", v.n_passed, v.n_failed, v.n_skipped);
    }
    // The final status.
    const int n_compared = v.n_passed + v.n_failed;
    SM_FAIL_IF(n_compared + v.n_skipped == 0, SM_ERR_USAGE, "--filter and --max-elems leave no comparison");
    SM_FAIL_IF(n_compared == 0, SM_ERR_UNSUPPORTED,
               "nothing was compared: all %d comparisons were skipped, and the table says why", v.n_skipped);
    SM_FAIL_IF(v.n_failed > 0, SM_ERR_MISMATCH, "%d of %d comparisons with the reference failed", v.n_failed,
               n_compared);
    return SM_OK;
}
