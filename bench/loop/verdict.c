// verdict.c: what bounds a loop, and its phases as records. See loop.h.
#include "bench/loop/loop.h"

static SM_WORDS(name_of, sm_loop_bound, SM_LOOP_BOUND_LIST)

    double sm_loop_without_ns(const sm_loop_division *d, sm_loop_bound bound) {
    const double rest_ns = fmax(d->step_ns - d->gained_ns[bound], d->step_ns / 1000); // something always is left
    const double loader_ns = d->loader_ns < d->step_ns ? d->loader_ns : d->step_ns;
    return bound != SM_LOOP_INPUT && loader_ns > rest_ns ? loader_ns : rest_ns;
}

// Without the device's ceilings nothing is known of ops and launches.
static bool is_known(const sm_loop_division *d, sm_loop_bound bound) {
    return d->knows_ops || bound == SM_LOOP_INPUT || bound == SM_LOOP_COMMUNICATION;
}

// Without the device's ceilings the bound is known only if the known parts besides the ops are at least half.
sm_loop_bound sm_loop_judge(const sm_loop_division *d) {
    sm_loop_bound best = SM_LOOP_BOUND_COUNT;
    double best_ns = d->knows_ops ? d->step_ns : d->step_ns / 2;
    for (int bound = 0; bound < SM_LOOP_BOUND_COUNT; bound++) {
        const double without_ns = sm_loop_without_ns(d, (sm_loop_bound)bound);
        if (is_known(d, (sm_loop_bound)bound) && without_ns < best_ns) {
            best = (sm_loop_bound)bound;
            best_ns = without_ns;
        }
    }
    return best;
}

// --- dividing a step -------------------------------------------------------------------------------

static int times_a_step(const sm_row *row, const sm_op *op) {
    return op->range == SM_PHASE_FORWARD || op->range == SM_PHASE_BACKWARD ? (int)row->n_accum : 1;
}

static void add_line(const sm_profile_line *line, const sm_row *row, double call_ns, double n_times,
                     sm_loop_division *d) {
    const double self_ns = (double)line->self_ns;
    const struct {
        sm_loop_bound bound;
        double gained_ns;
    } causes[SM_BOUND_COUNT] = {
        [SM_BOUND_COMPUTE] = {SM_LOOP_COMPUTE, self_ns - line->bytes / row->peak_bandwidth * 1e9},
        [SM_BOUND_MEMORY] = {SM_LOOP_MEMORY, self_ns - line->flops / row->peak_flops * 1e9},
        [SM_BOUND_OVERHEAD] = {SM_LOOP_LAUNCHES, fmin(call_ns, self_ns - line->roofline_ns)},
    };
    if (line->bound == SM_BOUND_UNKNOWN) {
        d->knows_ops = false;
        return;
    }
    d->taken_ns[causes[line->bound].bound] += n_times * self_ns;
    d->gained_ns[causes[line->bound].bound] += n_times * fmax(causes[line->bound].gained_ns, 0);
}

// Divides a step's time by what bounds each op, by the profile's rules, for a single execution.
static sm_status divide_ops(const sm_plan *plan, const sm_row *row, sm_loop_division *d) {
    SM_AT_END(sm_profile_free) sm_profile profile = {.lines = NULL};
    SM_FREED int64_t *op_ns = sm_malloc((size_t)plan->n_ops * sizeof(*op_ns) + 1);
    const sm_profile_input input = {.plan = plan,
                                    .n_accum = (int)row->n_accum,
                                    .op_ns = op_ns,
                                    .wall_ns = row->attribution_ns,
                                    .headline_ns = row->median_ns,
                                    .peak_flops = row->peak_flops,
                                    .peak_bandwidth = row->peak_bandwidth};
    for (int i = 0; i < plan->n_ops; i++) {
        op_ns[i] = row->op_ns.values[i] / times_a_step(row, &plan->ops[i]);
    }
    SM_TRY(sm_profile_make(&input, SM_PROFILE_BY_OP, &profile));
    for (int i = 0, line = 0; i < plan->n_ops; i++) {
        if (op_ns[i] > 0 && plan->ops[i].phase != SM_PHASE_COMMUNICATION) {
            add_line(&profile.lines[line], row, profile.overhead_ns, times_a_step(row, &plan->ops[i]), d);
        }
        line += op_ns[i] > 0;
    }
    return SM_OK;
}

static double ops_ns(const sm_loop_division *d) {
    return d->taken_ns[SM_LOOP_COMPUTE] + d->taken_ns[SM_LOOP_MEMORY] + d->taken_ns[SM_LOOP_LAUNCHES];
}

// Time of communication in the attribution step that has the op times.
static double communication_ns(const sm_plan *plan, const sm_row *row) {
    double sum_ns = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        sum_ns += plan->ops[i].phase == SM_PHASE_COMMUNICATION ? (double)row->op_ns.values[i] : 0;
    }
    return sum_ns;
}

static void set_whole(sm_loop_division *d, sm_loop_bound bound, double ns) {
    d->taken_ns[bound] = d->gained_ns[bound] = ns;
}

// Divides a headline step into its ops, its other phases, and the rest.
static sm_status divide(const sm_plan *plan, double work_ns, const sm_row *row, sm_loop_division *d) {
    const sm_row_loop *l = &row->loop;
    *d =
        (sm_loop_division){.step_ns = work_ns + (double)(l->headline_wait_ns + l->headline_comm_ns), .knows_ops = true};
    SM_TRY(divide_ops(plan, row, d));
    const double other_ns = (double)(row->attribution_ns - row->phases.unaccounted_ns + l->transfer_ns + l->log_ns) -
                            communication_ns(plan, row);
    d->taken_ns[SM_LOOP_LAUNCHES] += fmax(work_ns - other_ns, 0);
    d->gained_ns[SM_LOOP_LAUNCHES] += fmax(work_ns - other_ns, 0);
    // Timing ops separately slows them: scales them to fit in a headline step.
    const double factor = ops_ns(d) > work_ns ? work_ns / ops_ns(d) : 1;
    for (int bound = SM_LOOP_COMPUTE; bound <= SM_LOOP_LAUNCHES; bound++) {
        d->taken_ns[bound] *= factor;
        d->gained_ns[bound] *= factor;
    }
    // Copies were timed in other steps, which may have been slower.
    set_whole(d, SM_LOOP_INPUT, (double)l->headline_wait_ns + fmin((double)l->transfer_ns, work_ns));
    set_whole(d, SM_LOOP_COMMUNICATION, (double)l->headline_comm_ns);
    d->loader_ns = l->busy_ns != SM_ABSENT ? (double)l->busy_ns : 0;
    return SM_OK;
}

// --- in words ------------------------------------------------------------------------------------------

static const char *what_it_is(sm_loop_bound bound, const sm_row_loop *l) {
    static const char *const texts[] = {
        [SM_LOOP_COMPUTE] = "is ops that arithmetic bounds; if they took only the time of their memory traffic",
        [SM_LOOP_MEMORY] = "is ops that memory bounds; if they took only the time of their arithmetic",
        [SM_LOOP_LAUNCHES] = "is launching ops, or ops shorter than that; without it",
        [SM_LOOP_INPUT] = "makes batches inline and copies them; without that",
        [SM_LOOP_COMMUNICATION] = "waits for other processes; without that",
    };
    const bool has_loader = bound == SM_LOOP_INPUT && l->busy_ns != SM_ABSENT;
    return has_loader ? "waits for the loader and copies its batches; without that" : texts[bound];
}

// Tokens a second without that cause. A mean step may be longer than the median, if it sometimes waits.
static double ceiling(const sm_loop_division *d, sm_loop_bound bound, const sm_row *row) {
    const double tokens = row->median_ts * (double)row->median_ns;
    return fmax(tokens / sm_loop_without_ns(d, bound), row->median_ts);
}

static void write_verdict(const sm_loop_division *d, sm_loop_bound bound, sm_row *row) {
    sm_row_loop *l = &row->loop;
    if (bound == SM_LOOP_BOUND_COUNT) {
        SM_ROW_TEXT(l->verdict, "Without the device's ceilings the bottleneck of this loop is unknown.");
        return;
    }
    SM_ROW_TEXT(l->bound, name_of(bound));
    l->bound_share = d->taken_ns[bound] / d->step_ns;
    l->ceiling_ts = ceiling(d, bound, row);
    snprintf(l->verdict, sizeof(l->verdict), "Bound by %s: %.1f%% of a step %s: %s tokens/s, %.2f times as many.",
             l->bound, 100 * l->bound_share, what_it_is(bound, l), SM_TEXT_COUNT(round(l->ceiling_ts)),
             d->step_ns / sm_loop_without_ns(d, bound));
}

sm_status sm_loop_verdict(const sm_plan *plan, double work_ns, sm_row *row) {
    sm_loop_division d;
    SM_FAIL_IF(row->op_ns.n != plan->n_ops, SM_ERR_INTERNAL, "loop: %lld op times of a plan of %d ops",
               (long long)row->op_ns.n, plan->n_ops);
    SM_TRY(divide(plan, work_ns, row, &d));
    write_verdict(&d, sm_loop_judge(&d), row);
    row->loop.ceilings = json_object();
    for (int i = 0; i < SM_LOOP_BOUND_COUNT; i++) {
        const double its = is_known(&d, (sm_loop_bound)i) ? ceiling(&d, (sm_loop_bound)i, row) : NAN;
        json_object_set_new(row->loop.ceilings, name_of((sm_loop_bound)i), sm_json_real(its));
    }
    return SM_OK;
}

void sm_loop_withhold_verdict(sm_row *row) {
    char doubt[SM_DOUBT_SIZE];
    sm_row_loop *l = &row->loop;
    SM_OWN(json_t) *record = sm_row_to_json(row);
    if (l->verdict[0] != '\0' && sm_doubt_row(record, doubt)) {
        snprintf(l->verdict, sizeof(l->verdict), "No verdict: %s.", doubt);
        l->bound[0] = '\0';
        l->bound_share = NAN;
        l->ceiling_ts = NAN;
        json_decref(l->ceilings);
        l->ceilings = NULL;
    }
}

enum { NAME_SIZE = 64 };

static const double alpha = 0.05;

static const sm_column columns[] = {
    SM_COLUMN_OF_MODEL,
    SM_COLUMN_OF_TEST,
    SM_SHARED_COLUMN("mode", "naive, fused or tuned", "mode"),
    SM_SHARED_COLUMN("loader", "who makes the batches: inline, or threads and how many", "loader"),
    SM_COLUMNS_OF_DEVICE,
    SM_TEXT("phase", "part of the step; step: all of them; undisturbed: a plain step", .heading = "phase",
            .rank = SM_RANK_ALWAYS),
    SM_TEXT("meaning", "what it is", .heading = "what it is"),
    SM_INTEGER("ns", "ns", "mean of the middle half of the instrumented steps; undisturbed: median", .heading = "ms",
               .show = sm_show_ms, .rank = SM_RANK_ALWAYS),
    SM_REAL("share", "", "of the instrumented step", .heading = "share", .show = sm_show_percent, .rank = 8),
    SM_REAL("alone_ts", "tokens/s", "throughput that it alone would allow", .heading = "tokens/s alone",
            .show = sm_show_count, .rank = 6),
    SM_INTEGER("baseline_ns", "ns", "the baseline's", .heading = "baseline ms", .show = sm_show_ms, .rank = 5),
    SM_REAL("change_percent", "%", "against the baseline", .heading = "change (95%)", .rank = 7, .format = "%+.1f%%",
            .beside = " (%+.1f to %+.1f)", .lo = "change_lo_percent", .hi = "change_hi_percent"),
    SM_REAL("change_lo_percent", "%", "its 95% interval; null below six steps a side"),
    SM_REAL("change_hi_percent", "%", "its upper end"),
    SM_JSON("warnings", "disturbances of the figures", .heading = "warning", .view = SM_SHOWN_AS_NOTES),
};

const sm_table sm_loop_table = {"loop", columns, (int)SM_COUNT(columns)};

// --- the baseline ------------------------------------------------------------------------------------

const json_t *sm_loop_baseline(const json_t *rows, const json_t *row) {
    const json_t *found = NULL;
    SM_EACH(other, rows) {
        const bool is_loop = sm_json_number(other, "loop.wall_ns") > 0;
        found = is_loop && sm_row_is_usable(other) && (sm_identity_difference(row, other) & SM_SAME_WORK) == 0 ? other
                                                                                                               : found;
    }
    return found;
}

// The samples are times by step; fewer than six have no interval.
static void add_change(const json_t *row, const json_t *baseline, const char *samples, const char *field,
                       json_t *record) {
    if (baseline == NULL) {
        return;
    }
    const sm_difference d = sm_compare_samples(baseline, row, samples, alpha);
    const double then_ns = sm_json_number(baseline, field);
    const bool is_told = isfinite(d.estimate) || then_ns > 0;
    const double change = isfinite(d.estimate) ? expm1(d.estimate) : sm_json_number(row, field) / then_ns - 1;
    sm_json_put(
        record, {"baseline_ns", sm_json_real(then_ns)}, {"change_percent", sm_json_real(is_told ? 100 * change : NAN)},
        {"change_lo_percent", sm_json_real(100 * expm1(d.lo))}, {"change_hi_percent", sm_json_real(100 * expm1(d.hi))});
}

// --- records -----------------------------------------------------------------------------------------

static json_t *start_record(const json_t *row, const char *phase, const char *meaning, const char *field) {
    const double ns = sm_json_number(row, field);
    json_t *record = sm_json_copy(json_object(), row,
                                  "model=model_type mode precision emulated device isa n_threads binding own_kernels "
                                  "test warnings loader=loop.loader");
    sm_json_copy(record, row, sm_rows_has(row, "gpu_info") ? "name=gpu_info" : "name=cpu_info");
    sm_json_put(record, {"phase", json_string(phase)}, {"meaning", json_string(meaning)}, {"ns", sm_json_real(ns)});
    sm_json_set_new(
        record, "alone_ts",
        sm_json_real(strcmp(phase, "unaccounted") != 0 ? 1e9 * sm_json_number(row, "real_tokens") / ns : NAN));
    return record;
}

static void add_phase(const json_t *row, const json_t *baseline, const char *member, const char *name,
                      const char *meaning, json_t *records) {
    char field[NAME_SIZE], samples[NAME_SIZE];
    snprintf(field, sizeof(field), "loop.%s_ns", member);
    snprintf(samples, sizeof(samples), "loop.samples.%s", member);
    const double ns = sm_json_number(row, field);
    const double then_ns = baseline != NULL ? sm_json_number(baseline, field) : NAN;
    if (!(fabs(ns) > 0) && !(then_ns > 0)) { // unknown also for a row without the field
        return;
    }
    json_t *record = start_record(row, name, meaning, field);
    sm_json_set_new(record, "share", sm_json_real(ns / sm_json_number(row, "loop.wall_ns")));
    json_array_append_new(records, record);
    add_change(row, baseline, samples, field, record);
}

json_t *sm_loop_records(const json_t *row, const json_t *baseline) {
    json_t *records = json_array();
#define X(code, member, name, text) add_phase(row, baseline, #member, name, text, records);
    SM_STEP_PHASE_LIST(X)
#undef X
    add_phase(row, baseline, "wall", "step", "all phases together: an instrumented step", records);
    json_t *plain = start_record(row, "undisturbed", "a step without instruments: the headline", "median_ns");
    json_array_append_new(records, plain);
    add_change(row, baseline, "samples_ns", "median_ns", plain);
    return records;
}
