// scaling.c: groups the runs, makes a row for each number of processes, fits, predicts, and shows.
#include "bench/runs/scaling.h"

#include "bench/compare/compare.h"
#include "bench/pages/page.h"

static const double normal_95 = 1.959964;
static const double worst_trusted = 0.1; // deviation of the model from a run

static double number(const sm_training_run *run, const char *name) { return sm_json_number(run->metrics, name); }

static double processes_of(const sm_training_run *run) { return number(run, "training_config.n_processes"); }

// --- whether there is a verdict ---------------------------------------------------------------------

static const json_t *last_start(const sm_training_run *run) {
    const json_t *starts = json_object_get(run->metrics, "starts");
    return json_array_get(starts, json_array_size(starts) - 1);
}

static double last_end(const sm_training_run *run, const char *name) {
    return sm_json_number(json_object_get(last_start(run), "end"), name);
}

// The run's own other processes do not count as others; they are assumed to work as much as the measured one.
static bool is_doubted(const sm_training_run *run, char doubt[SM_DOUBT_SIZE]) {
    const json_t *hosts = json_object_get(last_start(run), "hosts");
    double n_beside = 0; // processes on the host of its first
    SM_EACH(host, hosts) { n_beside += json_equal(host, json_array_get(hosts, 0)); }
    const double n_threads = number(run, "training_config.n_threads");
    const sm_conditions of = {
        .noise_percent =
            100 * number(run, "summary.step_time_mean_ci95_half_sec") / number(run, "summary.step_time_mean_sec"),
        .tail_percent = 100 * (number(run, "summary.step_time_p95_sec") / number(run, "summary.step_time_p50_sec") - 1),
        .is_card = n_threads == 0,
        .n_samples = number(run, "summary.steps"),
        .n_preemptions = last_end(run, "involuntary_switches"),
        .n_cpus = number(run, "hardware.cpu.threads"),
        .needed_cpus = fmax(n_beside, 1) * (n_threads > 0 ? n_threads : 1),
        .other_cpus = fmax(0, last_end(run, "other_cpus") - fmax(0, n_beside - 1) * fmax(0, last_end(run, "own_cpus"))),
        .steal_share = last_end(run, "steal_share"),
        .may_use_fewer_threads = n_threads > 1,
    };
    return sm_doubt(&of, doubt);
}

static void seek_verdict(sm_scaling *s, const sm_training_runs *runs) {
    bool differ = false;
    s->has_verdict = true;
    for (size_t i = 0; i < runs->n; i++) {
        char doubt[SM_DOUBT_SIZE];
        differ = differ || processes_of(&runs->runs[i]) != processes_of(&runs->runs[0]);
        if (is_doubted(&runs->runs[i], doubt)) {
            s->has_verdict = false;
            sm_json_note(s->notes, "no verdict: %s: %s", runs->runs[i].path, doubt);
        }
    }
    if (!differ) {
        s->has_verdict = false;
        sm_json_note(s->notes, "no verdict, and no prediction: these need runs at two numbers of processes or more");
    }
}

static double global_batch_of(const sm_training_run *run) { return number(run, "training_config.global_batch"); }

static double sequences_of(const sm_training_run *run) { return global_batch_of(run) / processes_of(run); }

static const sm_training_run *fewest_processes(const sm_training_runs *runs) {
    const sm_training_run *base = &runs->runs[0];
    for (size_t i = 1; i < runs->n; i++) {
        base = processes_of(&runs->runs[i]) < processes_of(base) ? &runs->runs[i] : base;
    }
    return base;
}

// --- measured rows -----------------------------------------------------------------------------

// The layout of a row.
typedef struct {
    double n_processes, n_nodes; // n_nodes: 0 if unknown
} layout;

// The number of hosts from the processes' names or the scheduler.
static layout layout_of(const sm_training_run *run) {
    const json_t *hosts = json_object_get(last_start(run), "hosts");
    SM_OWN(json_t) *nodes = json_object();
    SM_EACH(host, hosts) { json_object_set(nodes, json_string_value(host), host); }
    const double n_nodes = (double)json_object_size(nodes);
    return (layout){processes_of(run), fmax(n_nodes, number(run, "scheduler.n_nodes"))}; // fmax ignores NaN
}

static int by_layout(const void *a, const void *b) {
    const layout *x = a;
    const layout *y = b;
    const int by_processes = (x->n_processes > y->n_processes) - (x->n_processes < y->n_processes);
    return by_processes != 0 ? by_processes : (x->n_nodes > y->n_nodes) - (x->n_nodes < y->n_nodes);
}

// Means of the runs with one layout. The interval is the wider of two: from the runs' own spread, and from their means.
static sm_scaling_row pool(const sm_training_runs *runs, const layout *of, sm_work work) {
    sm_scaling_row r = {.work = work, .n_processes = of->n_processes, .n_nodes = of->n_nodes > 0 ? of->n_nodes : NAN};
    double squares = 0, halves = 0;
    for (size_t i = 0; i < runs->n; i++) {
        const sm_training_run *run = &runs->runs[i];
        const layout its = layout_of(run);
        if (by_layout(&its, of) != 0) {
            continue;
        }
        double step_s = number(run, "summary.step_time_mean_sec");
        double half_s = number(run, "summary.step_time_mean_ci95_half_sec");
        r.n_runs++;
        r.global_batch = global_batch_of(run);
        r.steps = number(run, "summary.steps");
        r.tokens = number(run, "summary.tokens_processed_global");
        r.step_s += step_s;
        squares += step_s * step_s;
        halves += half_s * half_s;
        r.comm_s += number(run, "summary.comm_exposed_time_mean_sec");
        r.timed_s += number(run, "summary.timed_steps_sec");
        r.wall_s += number(run, "summary.total_wall_time_sec");
    }
    double k = r.n_runs;
    r.step_s /= k;
    r.comm_s /= k;
    r.timed_s /= k;
    r.wall_s /= k;
    double within_s = sqrt(halves) / k; // NaN if a run is too short
    double between_s = k > 1 ? normal_95 * sqrt(fmax(0, squares / k - r.step_s * r.step_s) / (k - 1)) : NAN;
    r.step_half_s = fmax(within_s, between_s);
    return r;
}

static void derive(const sm_scaling_fit *fit, const sm_scaling_row *base, sm_scaling_row *r) {
    const double base_rate = base->tokens / base->timed_s;
    r->tokens_per_s = r->tokens / r->timed_s;
    r->tokens_half_per_s = r->tokens_per_s * r->step_half_s / r->step_s;
    if (fit == NULL) {
        r->speedup = r->speedup_half = r->efficiency = NAN;
        r->model = (sm_scaling_time){NAN, NAN, NAN, NAN, NAN};
        return;
    }
    r->speedup = r->tokens_per_s / base_rate * base->n_processes;
    double relative = hypot(r->step_half_s / r->step_s, r == base ? 0 : base->step_half_s / base->step_s);
    r->speedup_half = r == base ? 0 : r->speedup * relative;
    r->efficiency = r->speedup / r->n_processes;
    r->model = sm_scaling_time_at(fit, r->n_processes, ceil(r->global_batch / r->n_processes));
}

static sm_status add_row(sm_scaling *s, const sm_scaling_row *row) {
    SM_FAIL_IF(s->n == SM_MOST_SCALING_ROWS, SM_ERR_INVALID, "more than %d rows: give fewer runs or predictions",
               SM_MOST_SCALING_ROWS);
    s->rows[s->n++] = *row;
    return SM_OK;
}

static sm_status add_measured(sm_scaling *s, const sm_training_runs *runs, sm_work work) {
    sm_status status = SM_OK;
    SM_FREED layout *layouts = sm_calloc(runs->n, sizeof(*layouts));
    for (size_t i = 0; i < runs->n; i++) {
        layouts[i] = layout_of(&runs->runs[i]);
    }
    qsort(layouts, runs->n, sizeof(*layouts), by_layout);
    for (size_t i = 0; i < runs->n && status == SM_OK; i++) {
        if (i == 0 || by_layout(&layouts[i], &layouts[i - 1]) != 0) {
            sm_scaling_row row = pool(runs, &layouts[i], work);
            status = add_row(s, &row);
        }
    }
    return status;
}

// --- predicted rows ----------------------------------------------------------------------------

// The slowest process sets the pace: it has one more sequence if they do not divide evenly.
static sm_scaling_row predict_row(const sm_scaling *s, const sm_scaling_row *base, double n) {
    sm_scaling_row r = *base;
    r.is_predicted = true;
    r.n_processes = n;
    r.n_nodes = r.n_runs = r.wall_s = NAN;
    if (r.work == SM_WORK_FIXED_A_PROCESS) {
        r.global_batch *= n / base->n_processes;
        r.tokens *= n / base->n_processes;
    }
    r.model = sm_scaling_time_at(&s->fit, n, ceil(r.global_batch / n));
    r.step_s = r.model.step_s;
    r.step_half_s = r.model.half_s;
    r.comm_s = r.model.comm_s;
    r.timed_s = r.step_s * r.steps;
    return r;
}

static sm_status add_predicted(sm_scaling *s, size_t begin, const int64_t *predict, int n_predict) {
    const sm_scaling_row base = s->rows[begin];
    int n_too_many = 0, n_too_wide = 0;
    for (int i = 0; i < n_predict; i++) {
        const double n = (double)predict[i];
        bool is_there = false;
        for (size_t k = begin; k < s->n; k++) {
            is_there = is_there || s->rows[k].n_processes == n;
        }
        const sm_scaling_row row = predict_row(s, &base, n);
        const bool has_work = base.work != SM_WORK_FIXED || n <= base.global_batch;
        const bool is_wide = 100 * row.step_half_s > SM_USABLE_LIMIT * row.step_s;
        n_too_many += !is_there && !has_work;
        n_too_wide += !is_there && has_work && is_wide;
        SM_TRY(!is_there && has_work && !is_wide ? add_row(s, &row) : SM_OK);
    }
    if (n_too_wide > 0) {
        sm_json_note(s->notes,
                     "predictions whose 95%% interval reaches over %d%% are left out (%d): give longer runs, or runs "
                     "of more processes",
                     SM_USABLE_LIMIT, n_too_wide);
    }
    if (n_too_many != 0) {
        sm_json_note(s->notes, "strong scaling: a global batch of %.0f sequences feeds %.0f processes at most",
                     base.global_batch, base.global_batch);
    }
    return SM_OK;
}

// --- the model ---------------------------------------------------------------------------------

static void fit_runs(sm_scaling *s, const sm_training_runs *runs) {
    SM_FREED sm_scaling_point *points = sm_calloc(runs->n, sizeof(*points));
    for (size_t i = 0; i < runs->n; i++) {
        const sm_training_run *run = &runs->runs[i];
        points[i] = (sm_scaling_point){
            .n_processes = processes_of(run),
            .sequences = ceil(sequences_of(run)),
            .step_s = number(run, "summary.step_time_mean_sec"),
            .step_error_s = number(run, "summary.step_time_mean_ci95_half_sec") / normal_95,
            .comm_s = number(run, "summary.comm_exposed_time_mean_sec"),
            .comm_error_s = number(run, "summary.comm_exposed_time_mean_ci95_half_sec") / normal_95,
            .hidden_s = fmax(0, number(run, "summary.comm_hidden_time_mean_sec")), // fmax ignores NaN
        };
        s->most_processes = fmax(s->most_processes, points[i].n_processes);
    }
    s->n_points = runs->n;
    sm_scaling_fit_points(points, runs->n, &s->fit);
}

json_t *sm_scaling_model(const sm_scaling *scaling) {
    static const char *const names[2][2] = {{"serial_s", "per_sequence_s"}, {"volume_s", "hidden_per_sequence_s"}};
    const sm_part_fit *parts[] = {&scaling->fit.compute, &scaling->fit.comm};
    if (!scaling->has_verdict) {
        return json_null();
    }
    json_t *model = json_object();
    for (int i = 0; i < 4; i++) {
        const sm_part_fit *part = parts[i / 2];
        double error = sqrt(part->variance[i % 2]);
        json_t *value = part->is_told[i % 2] ? json_pack("{s:f, s:f}", "value", part->value[i % 2], "standard_error",
                                                         isfinite(error) ? error : 0)
                                             : json_null();
        json_object_set_new(model, names[i / 2][i % 2], value);
    }
    json_object_set_new(model, "least_s", sm_json_real(scaling->fit.comm.is_told[1] ? scaling->fit.least_s : NAN));
    json_object_set_new(model, "worst_deviation", sm_json_real(scaling->fit.worst));
    json_object_set_new(model, "n_runs", json_integer((json_int_t)scaling->n_points));
    return model;
}

// --- notes -------------------------------------------------------------------------------------

// Notes allowed differences between the runs of a table.
static void note_differences(sm_scaling *s, const sm_training_runs *runs) {
    static const char *const names[] = {"micro_batch", "n_threads", "shard"};
    const json_t *first = json_object_get(runs->runs[0].metrics, "training_config");
    for (size_t k = 0; k < SM_COUNT(names); k++) {
        for (size_t i = 1; i < runs->n; i++) {
            const json_t *other = json_object_get(runs->runs[i].metrics, "training_config");
            if (!json_equal(json_object_get(first, names[k]), json_object_get(other, names[k])) &&
                (json_object_get(first, names[k]) != NULL || json_object_get(other, names[k]) != NULL)) {
                sm_json_note(s->notes, "training_config.%s is not the same in all runs (%s, %s)", names[k],
                             runs->runs[0].path, runs->runs[i].path);
                break;
            }
        }
    }
}

static void note_model(sm_scaling *s) {
    const sm_part_fit *compute = &s->fit.compute;
    const sm_part_fit *comm = &s->fit.comm;
    sm_json_note(s->notes,
                 "model of a step on N processes with q sequences each, from %zu runs, all of whose steps it meets "
                 "within %.1f%%: %.4g ms + %.4g ms q + min(V, max(%.4g ms u / q, V - %.4g ms q)), V = %.4g ms u, "
                 "u = 2(N-1)/N",
                 s->n_points, 100 * s->fit.worst, 1e3 * compute->value[0], 1e3 * compute->value[1],
                 1e3 * s->fit.least_s, 1e3 * comm->value[1], 1e3 * comm->value[0]);
    if (s->fit.worst > worst_trusted) {
        sm_json_note(s->notes,
                     "the model misses a run by more than %.0f%%: its predictions are no more than a guess; give "
                     "longer runs, on a quiet machine",
                     100 * worst_trusted);
    }
    if (s->n_points <= 2) {
        sm_json_note(s->notes, "so few runs leave nothing to check the model by");
    }
    if (!compute->is_told[0]) {
        sm_json_note(s->notes, "the serial part cannot be separated from the rest: all runs have as many sequences a "
                               "process; it counts as 0");
    }
    if (s->most_processes < 2) {
        sm_json_note(s->notes, "no run has more than one process: predictions are without communication, and too good");
    }
}

static void note_predictions(sm_scaling *s) {
    double most_nodes = 0;
    bool any = false;
    for (size_t i = 0; i < s->n; i++) {
        any = any || s->rows[i].is_predicted;
        most_nodes = fmax(most_nodes, s->rows[i].n_nodes);
    }
    if (!any) {
        return;
    }
    sm_json_note(s->notes, "predicted rows were not measured: they are the model's, for processes and links like the "
                           "measured ones (docs/scaling.md)");
    if (most_nodes <= 1) {
        sm_json_note(s->notes, "all runs were on one host: predictions do not know links between hosts");
    }
}

// The sources of published rows, and whether their work is that of the runs here.
static void note_published(sm_scaling *s, const sm_training_run *base) {
    static const char *const fields[][2] = {{"n_seq", "training_config.seq_len"},
                                            {"global_batch", "training_config.global_batch"},
                                            {"steps", "summary.steps"}};
    SM_OWN(json_t) *rows = sm_bundle_published();
    SM_EACH(row, rows) {
        bool is_same = true;
        for (size_t k = 0; k < SM_COUNT(fields); k++) {
            is_same = is_same && sm_json_number(row, fields[k][0]) == number(base, fields[k][1]);
        }
        if (sm_json_number(row, "n_processes") == 1) {
            sm_json_note(s->notes, "%s; %s: report --check would refuse them as one table", sm_rows_text(row, "source"),
                         is_same ? "the work of the runs here" : "other work than the runs here");
        }
    }
}

// --- the whole ---------------------------------------------------------------------------------

void sm_scaling_free(sm_scaling *scaling) {
    json_decref(scaling->notes);
    scaling->notes = NULL;
}

static sm_status add_table(sm_scaling *s, const sm_training_runs *all, sm_work work, const int64_t *predict,
                           int n_predict) {
    const size_t begin = s->n;
    SM_FREED sm_training_run *selected = sm_calloc(all->n, sizeof(*selected));
    sm_training_runs runs = {.runs = selected};
    // Adds the runs of one kind, the base first; `all` still owns them. Those of neither kind are refused as strong.
    const sm_training_run *base = fewest_processes(all);
    runs.runs[runs.n++] = *base;
    for (size_t i = 0; i < all->n; i++) {
        const sm_training_run *run = &all->runs[i];
        const bool is_strong = global_batch_of(run) == global_batch_of(base);
        const bool is_weak = sequences_of(run) == sequences_of(base);
        if (run != base && (work == SM_WORK_FIXED ? is_strong || !is_weak : is_weak)) {
            runs.runs[runs.n++] = *run;
        }
    }
    sm_training_runs_compare(&runs, work);
    SM_TRY(sm_training_runs_verdict(&runs));
    SM_TRY(add_measured(s, &runs, work));
    SM_TRY(s->has_verdict ? add_predicted(s, begin, predict, n_predict) : SM_OK);
    for (size_t i = begin; i < s->n; i++) {
        derive(s->has_verdict ? &s->fit : NULL, &s->rows[begin], &s->rows[i]);
    }
    return SM_OK;
}

sm_status sm_scaling_make(sm_training_runs *runs, const int64_t *predict, int n_predict, sm_scaling *scaling) {
    *scaling = (sm_scaling){.notes = json_array()};
    SM_TRY(sm_training_runs_verdict(runs));
    seek_verdict(scaling, runs);
    fit_runs(scaling, runs);
    SM_TRY(add_table(scaling, runs, SM_WORK_FIXED, predict, n_predict));
    SM_TRY(add_table(scaling, runs, SM_WORK_FIXED_A_PROCESS, predict, n_predict));
    if (scaling->has_verdict) {
        note_model(scaling);
        note_predictions(scaling);
    }
    note_differences(scaling, runs);
    if (scaling->has_verdict) {
        note_published(scaling, fewest_processes(runs));
    }
    return SM_OK;
}

// --- the fit: compute over (1, q), all communication over 2 (N - 1) / N, what is hidden over q ----

static const double least_error = 1e-3;   // of a mean, for errors that its spread does not show (drift between runs)
static const double unknown_error = 1e-2; // if a run is too short for a spread
static const double singular = 1e-9;

// Sums of the normal equations of y = a u + b v.
typedef struct {
    double uu, uv, vv, uy, vy, yy;
    int n;
} sums;

static void add(sums *s, double u, double v, double y, double weight) {
    s->uu += weight * u * u;
    s->uv += weight * u * v;
    s->vv += weight * v * v;
    s->uy += weight * u * y;
    s->vy += weight * v * y;
    s->yy += weight * y * y;
    s->n++;
}

// The factor by which errors are too small if points scatter more than their errors allow.
static double inflation(const sums *s, const sm_part_fit *f, int n_parts) {
    const double a = f->value[0], b = f->value[1];
    double chi2 = s->yy - 2 * (a * s->uy + b * s->vy) + a * a * s->uu + 2 * a * b * s->uv + b * b * s->vv;
    int n_free = s->n - n_parts;
    return n_free > 0 ? fmax(1, chi2 / n_free) : 1;
}

// Fits one part alone: `k` is 0 for u, 1 for v.
static void solve_one(const sums *s, int k, sm_part_fit *f) {
    const double square = k == 0 ? s->uu : s->vv, product = k == 0 ? s->uy : s->vy;
    if (!(square > 0)) {
        return;
    }
    f->value[k] = fmax(0, product / square);
    f->variance[k] = inflation(s, f, 1) / square;
    f->is_told[k] = true;
}

// `alone`: the part that represents both if the points cannot separate them.
static sm_part_fit solve(const sums *s, int alone) {
    sm_part_fit f = {.value = {0, 0}};
    double determinant = s->uu * s->vv - s->uv * s->uv;
    if (!(determinant > singular * s->uu * s->vv)) {
        solve_one(s, alone, &f);
        return f;
    }
    double a = (s->uy * s->vv - s->vy * s->uv) / determinant;
    double b = (s->vy * s->uu - s->uy * s->uv) / determinant;
    if (a < 0 || b < 0) { // then the other alone, and this one 0
        solve_one(s, a < 0 ? 1 : 0, &f);
        f.is_told[a < 0 ? 0 : 1] = true;
        return f;
    }
    f.value[0] = a;
    f.value[1] = b;
    f.is_told[0] = f.is_told[1] = true;
    double scale = inflation(s, &f, 2) / determinant;
    f.variance[0] = scale * s->vv;
    f.variance[1] = scale * s->uu;
    f.covariance = -scale * s->uv;
    return f;
}

static double error_of(double mean, double error) {
    return isfinite(error) ? fmax(error, least_error * mean) : unknown_error * mean;
}

static double volume_share(double n_processes) { return 2 * (n_processes - 1) / n_processes; }

sm_scaling_time sm_scaling_time_at(const sm_scaling_fit *fit, double n_processes, double sequences) {
    const sm_part_fit *c = &fit->compute;
    const sm_part_fit *x = &fit->comm;
    const double u = volume_share(n_processes);
    sm_scaling_time t = {.serial_s = c->value[0], .compute_s = c->value[1] * sequences};
    const double all_s = x->value[0] * u;
    t.comm_s = n_processes > 1 ? fmin(all_s, fmax(fit->least_s * u / sequences, all_s - x->value[1] * sequences)) : 0;
    t.step_s = t.serial_s + t.compute_s + t.comm_s;
    double variance = c->variance[0] + 2 * c->covariance * sequences + c->variance[1] * sequences * sequences +
                      x->variance[0] * u * u;
    t.half_s = normal_95 * sqrt(fmax(0, variance));
    return t;
}

static double comm_error_of(const sm_scaling_point *p) {
    return fmax(error_of(p->comm_s, p->comm_error_s), least_error * p->step_s);
}

// The squares of what the model's exposed communication is off by, in errors.
static double comm_chi2_of(const sm_scaling_fit *fit, const sm_scaling_point *points, size_t n) {
    double chi2 = 0;
    for (size_t i = 0; i < n; i++) {
        const sm_scaling_point *p = &points[i];
        const double off_s = sm_scaling_time_at(fit, p->n_processes, p->sequences).comm_s - p->comm_s;
        chi2 += p->n_processes > 1 ? pow(off_s / comm_error_of(p), 2) : 0;
    }
    return chi2;
}

// Hidden for each sequence: the backward, if that is more than any run hid and the runs do not contradict it.
static void choose_hidden(const sm_scaling_point *points, size_t n, double most_s, int n_comm, sm_scaling_fit *fit) {
    fit->comm.value[1] = most_s;
    const double measured = comm_chi2_of(fit, points, n);
    fit->comm.value[1] = fmax(most_s, fit->compute.value[1] * 2 / 3);
    if (!(comm_chi2_of(fit, points, n) <= measured + normal_95 * normal_95 * fmax(1, measured / n_comm))) {
        fit->comm.value[1] = most_s;
    }
    fit->comm.is_told[1] = n_comm > 0;
}

void sm_scaling_fit_points(const sm_scaling_point *points, size_t n, sm_scaling_fit *fit) {
    sums compute = {.n = 0}, comm = {.n = 0};
    double hidden_s = 0, least_s = INFINITY;
    for (size_t i = 0; i < n; i++) {
        const sm_scaling_point *p = &points[i];
        double step_error_s = error_of(p->step_s, p->step_error_s);
        add(&compute, 1, p->sequences, p->step_s - p->comm_s, 1 / (step_error_s * step_error_s));
        if (p->n_processes > 1) {
            add(&comm, volume_share(p->n_processes), 0, p->comm_s + p->hidden_s, 1 / pow(comm_error_of(p), 2));
            hidden_s = fmax(hidden_s, p->hidden_s / p->sequences);
            least_s = fmin(least_s, p->comm_s * p->sequences / volume_share(p->n_processes));
        }
    }
    *fit =
        (sm_scaling_fit){.compute = solve(&compute, 1), .comm = solve(&comm, 0), .least_s = comm.n > 0 ? least_s : 0};
    choose_hidden(points, n, hidden_s, comm.n, fit);
    for (size_t i = 0; i < n; i++) {
        sm_scaling_time t = sm_scaling_time_at(fit, points[i].n_processes, points[i].sequences);
        fit->worst = fmax(fit->worst, fabs(t.step_s / points[i].step_s - 1));
    }
}

// --- records, their display, and the page ------------------------------------------------------

// "1.94 ± 0.02"
static void show_speedup(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const double speedup = sm_json_number(record, column->name);
    const double half = sm_json_number(record, "speedup_half");
    if (isfinite(speedup)) {
        snprintf(text, size_bytes, half > 0 ? "%.2f ± %.2f" : "%.2f", speedup, half);
    }
}

static void show_rate(const json_t *record, SM_UNUSED const sm_column *column, char *text, size_t size_bytes) {
    double rate = sm_json_number(record, "tokens_per_s");
    double half = sm_json_number(record, "tokens_half_per_s");
    sm_text_count(rate, text, size_bytes);
    sm_append_spread(100 * half / rate, text, size_bytes);
}

static void show_s_as_ms(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    sm_text_ms(1e9 * sm_json_number(record, column->name), text, size_bytes);
}

// "published: V100"
static void show_kind(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const char *on = sm_rows_text(record, "on");
    snprintf(text, size_bytes, "%s%s%s", sm_rows_text(record, column->name), on[0] != '\0' ? ": " : "", on);
}

// Ten blocks are an efficiency of 1.
static void show_bar(const json_t *record, SM_UNUSED const sm_column *column, char *text, size_t size_bytes) {
    double n = round(10 * sm_json_number(record, "efficiency"));
    const bool is_predicted = strcmp(json_string_value(json_object_get(record, "kind")), "predicted") == 0;
    for (size_t used = 0; n >= 1 && used < 15 * 3 && used + 4 < size_bytes; n--, used += 3) {
        memcpy(text + used, is_predicted ? "░" : "█", 4);
    }
}

#define COLUMN_LIST(X)                                                                                                 \
    X("scaling", TEXT, "", "strong or weak", r->work == SM_WORK_FIXED ? "strong" : "weak", .heading = "scaling",       \
      .view = SM_SHOWN_WHEN_VARIED)                                                                                    \
    X("n_processes", INTEGER, "", "processes", whole(r->n_processes), .heading = "processes", .rank = SM_RANK_ALWAYS,  \
      .show = sm_show_count)                                                                                           \
    X("kind", TEXT, "", "measured, predicted by the model, or published", r->is_predicted ? "predicted" : "measured",  \
      .heading = "kind", .rank = SM_RANK_ALWAYS, .show = show_kind)                                                    \
    X("on", TEXT, "", "of a published run: its devices", "", .heading = NULL)                                          \
    X("n_nodes", INTEGER, "", "hosts", whole(r->n_nodes), .heading = "hosts", .view = SM_SHOWN_WHEN_VARIED, .rank = 6) \
    X("n_runs", INTEGER, "", "runs that the figures are means of", whole(r->n_runs), .heading = "runs",                \
      .view = SM_SHOWN_WHEN_VARIED, .rank = 1)                                                                         \
    X("global_batch", INTEGER, "sequences", "sequences a step", whole(r->global_batch), .heading = "global batch",     \
      .view = SM_SHOWN_WHEN_VARIED, .rank = 4, .show = sm_show_count)                                                  \
    X("steps", INTEGER, "", "optimizer steps", whole(r->steps), .heading = "steps", .view = SM_SHOWN_WHEN_VARIED,      \
      .rank = 2, .show = sm_show_count)                                                                                \
    X("tokens", INTEGER, "", "tokens of all processes", whole(r->tokens), .heading = "tokens",                         \
      .view = SM_SHOWN_WHEN_VARIED, .rank = 1, .show = sm_show_count)                                                  \
    X("step_s", REAL, "s", "mean time of a step", r->step_s, .heading = "step ms", .rank = 2, .show = show_s_as_ms)    \
    X("tokens_per_s", REAL, "1/s", "tokens / timed seconds", r->tokens_per_s, .heading = "tokens/s", .rank = 8,        \
      .show = show_rate)                                                                                               \
    X("timed_s", REAL, "s", "time of all steps", r->timed_s, .heading = "timed s", .rank = 3, .show = sm_show_real)    \
    X("wall_s", REAL, "s", "with start-up, validation, checkpoints and the rest", r->wall_s, .heading = "wall s",      \
      .rank = 3, .show = sm_show_real)                                                                                 \
    X("speedup", REAL, "", "tokens/s over those of the fewest processes", r->speedup, .heading = "speed-up",           \
      .rank = 8, .show = show_speedup)                                                                                 \
    X("efficiency", REAL, "", "speed-up / processes", r->efficiency, .heading = "efficiency", .rank = 8,               \
      .format = "%.2f")                                                                                                \
    X("bar", TEXT, "", "efficiency, drawn", "", .heading = "of 1.00", .rank = 5, .show = show_bar)                     \
    X("comm_share", REAL, "fraction", "of a step: communication that nothing hid", r->comm_s / r->step_s,              \
      .heading = "exposed comm.", .rank = 6, .show = sm_show_percent)                                                  \
    X("model_s", REAL, "s", "the model's time of a step", r->model.step_s, .heading = "model ms",                      \
      .show = show_s_as_ms)                                                                                            \
    X("step_half_s", REAL, "s", "half of the 95% interval of step_s", r->step_half_s, .heading = NULL)                 \
    X("tokens_half_per_s", REAL, "1/s", "half of the 95% interval of tokens_per_s", r->tokens_half_per_s,              \
      .heading = NULL)                                                                                                 \
    X("speedup_half", REAL, "", "half of the 95% interval of speedup", r->speedup_half, .heading = NULL)               \
    X("comm_s", REAL, "s", "of a step: communication that nothing hid", r->comm_s, .heading = NULL)                    \
    X("model_serial_s", REAL, "s", "the model's part of every process", r->model.serial_s, .heading = NULL)            \
    X("model_compute_s", REAL, "s", "the model's part of the sequences", r->model.compute_s, .heading = NULL)          \
    X("model_comm_s", REAL, "s", "the model's part of exposed communication", r->model.comm_s, .heading = NULL)

const sm_table sm_scaling_table = SM_LISTED_TABLE("scaling", COLUMN_LIST);

static int64_t whole(double value) { return isfinite(value) ? llround(value) : SM_ABSENT; }

static json_t *record_of(const sm_scaling_row *r) {
    json_t *record = json_object();
    COLUMN_LIST(SM_LISTED_VALUE)
    return record;
}

// Speed-ups by tokens/s over the run of one process.
static void add_published(json_t *records) {
    SM_OWN(json_t) *rows = sm_bundle_published();
    double first = NAN;
    SM_EACH(row, rows) {
        const double n = sm_json_number(row, "n_processes");
        const double rate = sm_json_number(row, "median_ts");
        first = n == 1 ? rate : first;
        if (n > 0) {
            json_t *record = sm_json_copy(
                json_object(), row, "on=gpu_info n_processes global_batch steps tokens tokens_per_s=median_ts wall_s");
            json_array_append_new(records, sm_json_put(record, {"scaling", json_string("strong")},
                                                       {"kind", json_string("published")},
                                                       {"speedup", sm_json_real(rate / first)},
                                                       {"efficiency", sm_json_real(rate / first / n)}));
        }
    }
}

json_t *sm_scaling_records(const sm_scaling *scaling, const sm_work *work) {
    json_t *records = json_array();
    for (size_t i = 0; i < scaling->n; i++) {
        if (work == NULL || scaling->rows[i].work == *work) {
            json_array_append_new(records, record_of(&scaling->rows[i]));
        }
    }
    if (scaling->has_verdict && (work == NULL || *work == SM_WORK_FIXED)) {
        add_published(records);
    }
    return records;
}

sm_status sm_scaling_page(void *of, FILE *out) {
    const sm_scaling *scaling = of;
    static const sm_work works[] = {SM_WORK_FIXED, SM_WORK_FIXED_A_PROCESS};
    json_t *page = json_pack("{s:b, s:o, s:O}", "has_verdict", scaling->has_verdict, "records",
                             sm_scaling_records(scaling, NULL), "notes", scaling->notes);
    for (int k = 0; k < 2; k++) {
        SM_OWN(json_t) *records = sm_scaling_records(scaling, &works[k]);
        json_object_set_new(page, k == 0 ? "strong" : "weak", sm_page_table(&sm_scaling_table, records));
    }
    sm_page_write(out, "Scaling of a training", (const char *const[2]){"scaling.js"}, 0, page);
    return SM_OK;
}
