// profile.c: the lines of a profile, and its verdict.
#include "bench/profile/profile.h"

SM_WORDS(sm_bound_name, sm_bound, SM_BOUND_LIST)

// --- ops ----------------------------------------------------------------------------------

static double compute_ns(const sm_profile_input *in, const sm_op *op) {
    return sm_op_flops(in->plan, op) / in->peak_flops * 1e9;
}

static double memory_ns(const sm_profile_input *in, const sm_op *op) {
    return sm_op_mean_bytes(in->plan, op, in->n_accum) / in->peak_bandwidth * 1e9;
}

static double roofline_ns(const sm_profile_input *in, const sm_op *op) {
    double compute = compute_ns(in, op);
    double memory = memory_ns(in, op);
    return isnan(compute) || isnan(memory) ? NAN : compute > memory ? compute : memory;
}

// Ops that did not run (their range is not part of the pass) took no time.
static bool has_run(const sm_profile_input *in, int op) { return in->op_ns[op] > 0; }

static sm_bound bound_of(const sm_profile_input *in, const sm_op *op, double overhead_ns) {
    const double roofline = roofline_ns(in, op);
    return isnan(roofline)                           ? SM_BOUND_UNKNOWN
           : overhead_ns > roofline                  ? SM_BOUND_OVERHEAD
           : compute_ns(in, op) >= memory_ns(in, op) ? SM_BOUND_COMPUTE
                                                     : SM_BOUND_MEMORY;
}

// The bound of most of a line's time.
static sm_bound largest_bound(const sm_profile_line *line) {
    sm_bound largest = SM_BOUND_UNKNOWN;
    for (sm_bound bound = 0; bound < SM_BOUND_COUNT; bound++) {
        largest = line->bound_ns[bound] > line->bound_ns[largest] ? bound : largest;
    }
    return largest;
}

static void add_op(sm_profile_line *line, const sm_profile_input *in, int index, double overhead_ns) {
    const sm_op *op = &in->plan->ops[index];
    if (line->n_calls++ == 0) {
        line->kind = op->kind;
        line->layer = op->layer;
        line->phase = op->phase;
    }
    line->kind = line->kind == op->kind ? op->kind : SM_OP_KIND_COUNT;
    line->layer = line->layer == op->layer ? op->layer : -1;
    line->phase = line->phase == op->phase ? op->phase : SM_PHASE_COUNT;
    line->self_ns += in->op_ns[index];
    if (in->op_parts != NULL) {
        line->parts.timed_ns += in->op_parts[index].timed_ns;
        line->parts.busy_ns += in->op_parts[index].busy_ns;
        line->parts.slowest_ns += in->op_parts[index].slowest_ns;
    }
    line->flops += sm_op_flops(in->plan, op);
    line->bytes += sm_op_mean_bytes(in->plan, op, in->n_accum);
    line->roofline_ns += roofline_ns(in, op);
    line->above_ns = (double)line->self_ns - line->roofline_ns;
    line->bound_ns[bound_of(in, op, overhead_ns)] += in->op_ns[index];
    line->bound = largest_bound(line);
}

// --- lines --------------------------------------------------------------------------------

static void name_line(sm_profile_line *line, const sm_plan *plan, const sm_op *op, int index, sm_profile_by by) {
    if (by == SM_PROFILE_BY_OP) {
        snprintf(line->name, sizeof(line->name), "%d %s %s", index, sm_op_name(op->kind),
                 op->out[0] != SM_NO_TENSOR ? plan->tensors[op->out[0]].name : "");
    } else if (by == SM_PROFILE_BY_LAYER) {
        snprintf(line->name, sizeof(line->name), op->layer < 0 ? "outside the blocks" : "block %d", op->layer);
    } else {
        snprintf(line->name, sizeof(line->name), "%s", sm_op_name(op->kind));
    }
}

static sm_profile_line *find_line(sm_profile *profile, const sm_op *op, sm_profile_by by) {
    for (int i = 0; by != SM_PROFILE_BY_OP && i < profile->n_lines; i++) {
        sm_profile_line *line = &profile->lines[i];
        if (by == SM_PROFILE_BY_LAYER ? line->layer == op->layer : line->kind == op->kind) {
            return line;
        }
    }
    return &profile->lines[profile->n_lines++];
}

static int longest_first(const void *a, const void *b) {
    const sm_profile_line *x = a;
    const sm_profile_line *y = b;
    const int by_time = (x->self_ns < y->self_ns) - (x->self_ns > y->self_ns);
    return by_time != 0 ? by_time : strcmp(x->name, y->name);
}

// `step`: all ops, and the time outside of ops as overhead. `kinds`: by least times, so that no preemption names an op.
static void write_verdict(sm_profile *profile, const sm_profile_line *step, const sm_profile_line *kinds, int n_kinds,
                          const sm_profile_input *input) {
    const sm_profile_line *worst = NULL;
    char *text = profile->verdict;
    const size_t size = sizeof(profile->verdict);
    if (input->doubt[0] != '\0') {
        snprintf(text, size, "No verdict: %s.", input->doubt);
        return;
    }
    for (int i = 0; i < n_kinds; i++) {
        worst = kinds[i].above_ns > 0 && (worst == NULL || kinds[i].above_ns > worst->above_ns) ? &kinds[i] : worst;
    }
    const double wall_ns = (double)profile->wall_ns;
    if (isnan(profile->total.roofline_ns) || wall_ns <= 0) {
        snprintf(text, size, "Without the device's ceilings the bound of this step is unknown.");
        return;
    }
    snprintf(text, size, "This step is bound by %s: %.0f%% of its time, and all of it runs at %.0f%% of its roofline",
             sm_bound_name(step->bound), 100 * (double)step->bound_ns[step->bound] / wall_ns,
             100 * profile->total.roofline_ns / wall_ns);
    if (worst == NULL) {
        return;
    }
    if ((double)profile->unaccounted_ns > worst->above_ns) {
        sm_append(text, size, "; look first at the time outside of the ops, %.3g ms (%.0f%%).",
                  (double)profile->unaccounted_ns / 1e6, 100 * (double)profile->unaccounted_ns / wall_ns);
    } else {
        sm_append(text, size, "; look first at %s, which takes %.3g ms (%.0f%%) at least, %.3g ms above its roofline.",
                  worst->name, (double)worst->self_ns / 1e6, 100 * (double)worst->self_ns / wall_ns,
                  worst->above_ns / 1e6);
    }
    if (input->is_noisy) {
        sm_append(text, size, " The plain steps were noisy: measure again on a quieter machine before acting on it.");
    }
}

// --- the whole ------------------------------------------------------------------------------

static void make_lines(const sm_profile_input *in, sm_profile_by by, sm_profile *profile) {
    const sm_plan *plan = in->plan;
    *profile = (sm_profile){.wall_ns = in->wall_ns, .headline_ns = in->headline_ns, .unaccounted_ns = in->wall_ns};
    profile->overhead_ns = NAN; // the least that any op took above its roofline
    for (int i = 0; i < plan->n_ops; i++) {
        const double above_ns = (double)in->op_ns[i] - roofline_ns(in, &plan->ops[i]);
        if (has_run(in, i) && !(above_ns >= profile->overhead_ns)) { // also while there is none
            profile->overhead_ns = above_ns;
        }
    }
    profile->overhead_ns = profile->overhead_ns < 0 ? 0 : profile->overhead_ns;
    profile->lines = sm_calloc((size_t)plan->n_ops + 1, sizeof(*profile->lines));
    for (int i = 0; i < plan->n_ops; i++) {
        if (has_run(in, i)) {
            sm_profile_line *line = find_line(profile, &plan->ops[i], by);
            if (line->n_calls == 0) {
                name_line(line, plan, &plan->ops[i], i, by);
            }
            add_op(line, in, i, profile->overhead_ns);
            add_op(&profile->total, in, i, profile->overhead_ns);
            profile->unaccounted_ns -= in->op_ns[i];
        }
    }
    snprintf(profile->total.name, sizeof(profile->total.name), "all ops");
    if (by != SM_PROFILE_BY_OP) {
        qsort(profile->lines, (size_t)profile->n_lines, sizeof(*profile->lines), longest_first);
    }
}

sm_status sm_profile_make(const sm_profile_input *input, sm_profile_by by, sm_profile *profile) {
    SM_AT_END(sm_profile_free) sm_profile kinds = {0};
    sm_profile_input least = *input;
    least.op_ns = input->op_least_ns != NULL ? input->op_least_ns : input->op_ns;
    *profile = (sm_profile){.lines = NULL};
    int64_t sum_ns = 0;
    for (int i = 0; i < input->plan->n_ops; i++) {
        SM_FAIL_IF(input->op_ns[i] < 0, SM_ERR_INTERNAL, "profile: op %d took %lld ns", i, (long long)input->op_ns[i]);
        sum_ns += input->op_ns[i];
    }
    SM_TRY(sum_ns > 0 ? SM_OK : sm_fail(SM_ERR_INVALID, "profile: no op took any time"));
    make_lines(&least, SM_PROFILE_BY_KIND, &kinds);
    make_lines(input, by, profile);
    sm_profile_line step = profile->total;
    step.bound_ns[SM_BOUND_OVERHEAD] += profile->unaccounted_ns;
    step.bound = largest_bound(&step);
    profile->bound = input->doubt[0] != '\0' ? SM_BOUND_UNKNOWN : step.bound;
    write_verdict(profile, &step, kinds.lines, kinds.n_lines, input);
    return SM_OK;
}

void sm_profile_free(sm_profile *profile) {
    free(profile->lines);
    *profile = (sm_profile){.lines = NULL};
}

// Measures peaks for an op's operands, and takes the larger of two times.

static const sm_precision precision = {.dtype = SM_F32};

sm_status sm_op_ceiling_measure(sm_device *device, const sm_plan *plan, const sm_op *op, double seconds, bool by_itself,
                                sm_op_ceiling *ceiling) {
    const sm_backend *backend = device->backend;
    const double bytes = sm_op_bytes(plan, op);
    sm_peaks *peaks = &ceiling->peaks;
    *ceiling = (sm_op_ceiling){.ns = NAN};
    SM_TRY(by_itself && backend->measure_peaks_within != NULL
               ? backend->measure_peaks_within(device, precision, (size_t)bytes, seconds, peaks)
               : backend->measure_peaks(device, precision, seconds, peaks));
    const double compute_ns = peaks->flops > 0 ? sm_op_flops(plan, op) / peaks->flops * 1e9 : 0;
    const double memory_ns = peaks->bandwidth_bytes_per_s > 0 ? bytes / peaks->bandwidth_bytes_per_s * 1e9 : 0;
    ceiling->is_memory_bound = memory_ns > compute_ns;
    ceiling->ns = fmax(compute_ns, memory_ns);
    return SM_OK;
}

// --- records -------------------------------------------------------------------------------------

static const sm_column columns[] = {
    SM_COLUMN_OF_MODEL,
    SM_COLUMN_OF_TEST,
    SM_SHARED_COLUMN("mode", "naive, fused or tuned", "mode"),
    SM_COLUMNS_OF_DEVICE,
    SM_TEXT("line", "the ops of this line; unaccounted: time outside of any; total: the step", .heading = "op",
            .rank = SM_RANK_ALWAYS),
    SM_TEXT("kind", "kind of op, where there is one"),
    SM_INTEGER("layer", "", "block, where there is one"),
    SM_TEXT("phase", "phase, where there is one"),
    SM_INTEGER("self_ns", "ns", "time in these ops", .heading = "self ms", .show = sm_show_ms, .rank = SM_RANK_ALWAYS),
    SM_REAL("share", "", "of the step's wall clock", .heading = "share", .show = sm_show_percent, .rank = 8),
    SM_INTEGER("calls", "", "ops executed", .heading = "calls", .rank = 3),
    SM_REAL("flops", "FLOP", "their work", .heading = "work", .show = sm_show_scaled),
    SM_REAL("bytes", "B", "bytes that an ideal machine moves for them", .heading = "traffic", .show = sm_show_scaled),
    SM_REAL("flops_per_s", "FLOP/s", "flops / self time", .heading = "speed", .show = sm_show_scaled, .rank = 5),
    SM_REAL("bytes_per_s", "B/s", "bytes / self time", .heading = "rate", .show = sm_show_scaled, .rank = 4),
    SM_TEXT("bound", "what limits most of it: compute, memory or overhead", .heading = "bound", .rank = 7),
    SM_REAL("roofline_ns", "ns", "shortest possible time, with operands in memory"),
    SM_REAL("roofline_share", "", "roofline_ns / self_ns; more than 1: operands in a cache", .heading = "of roofline",
            .show = sm_show_percent, .rank = 7),
    SM_REAL("above_ns", "ns", "self_ns - roofline_ns", .heading = "above ms", .show = sm_show_ms, .rank = 6),
    SM_REAL("waiting", "", "share of the threads' time in these ops in which they wait for others",
            .heading = "waiting", .show = sm_show_percent, .rank = 5),
    SM_REAL("imbalance", "", "time of the slowest thread's part, above the mean, over the mean", .heading = "imbalance",
            .show = sm_show_percent, .rank = 5),
    SM_INTEGER("wall_ns", "ns", "total: wall clock of the step with every op timed"),
    SM_INTEGER("headline_ns", "ns", "total: median of the plain steps, without these clocks"),
    SM_REAL("peak_flops", "FLOP/s", "peak of the roofline"),
    SM_REAL("peak_bandwidth", "B/s", "bandwidth of the roofline"),
    SM_TEXT("peak_source", "how the ceilings were measured"),
    SM_JSON("verdict", "total: the step's bound, and what to look at first", .heading = "verdict",
            .view = SM_SHOWN_BELOW),
    SM_JSON("warnings", "disturbances of the figures", .heading = "warning", .view = SM_SHOWN_AS_NOTES),
};

const sm_table sm_profile_table = {"profile", columns, (int)SM_COUNT(columns)};

// A record with the context's members, and `self_ns` as a share of the wall-clock time.
static json_t *start_record(const sm_profile *profile, json_t *context, const char *line, int64_t self_ns) {
    return sm_json_put(json_copy(context), {"line", sm_json_text(line)}, {"self_ns", sm_json_integer(self_ns)},
                       {"share", sm_json_real((double)self_ns / (double)profile->wall_ns)});
}

// Adds the fields that depend on some ops' work and time.
static void add_work(json_t *record, const sm_profile_line *line, int64_t self_ns, sm_bound bound) {
    const double seconds = (double)self_ns * 1e-9;
    sm_json_put(record, {"calls", sm_json_integer(line->n_calls)}, {"flops", sm_json_real(line->flops)},
                {"bytes", sm_json_real(line->bytes)}, {"flops_per_s", sm_json_real(line->flops / seconds)},
                {"bytes_per_s", sm_json_real(line->bytes / seconds)}, {"roofline_ns", sm_json_real(line->roofline_ns)},
                {"roofline_share", sm_json_real(line->roofline_ns / (double)self_ns)},
                {"above_ns", sm_json_real((double)self_ns - line->roofline_ns)},
                {"bound", sm_json_text(sm_bound_name(bound))});
    const sm_op_parts *p = &line->parts;
    if (p->busy_ns > 0 && p->timed_ns > 0) {
        sm_json_put(record, {"waiting", sm_json_real(1 - (double)p->busy_ns / (double)p->timed_ns)},
                    {"imbalance", sm_json_real((double)p->slowest_ns / (double)p->busy_ns - 1)});
    }
}

json_t *sm_profile_records(const sm_profile *profile, json_t *context) {
    json_t *records = json_array();
    for (int i = 0; i < profile->n_lines; i++) {
        const sm_profile_line *line = &profile->lines[i];
        json_t *record = start_record(profile, context, line->name, line->self_ns);
        add_work(record, line, line->self_ns, line->bound);
        sm_json_put(record, {"kind", sm_json_text(line->kind != SM_OP_KIND_COUNT ? sm_op_name(line->kind) : "")},
                    {"layer", sm_json_integer(line->layer >= 0 ? line->layer : SM_ABSENT)},
                    {"phase", sm_json_text(line->phase != SM_PHASE_COUNT ? sm_phase_name(line->phase) : "")});
        json_array_append_new(records, record);
    }
    json_array_append_new(records, start_record(profile, context, "unaccounted", profile->unaccounted_ns));
    json_t *total = start_record(profile, context, "total", profile->wall_ns);
    add_work(total, &profile->total, profile->wall_ns, profile->bound);
    sm_json_put(total, {"wall_ns", sm_json_integer(profile->wall_ns)},
                {"headline_ns", sm_json_integer(profile->headline_ns)},
                {"verdict", json_pack("[o]", sm_json_text(profile->verdict))});
    json_array_append_new(records, total);
    return records;
}
