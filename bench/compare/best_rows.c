#include "bench/compare/compare.h"

enum { GROUP_SIZE = 512 };

#define COLUMN_LIST(X)                                                                            \
    X("topic", TEXT, "", "subject of the recommendation", topic, .heading = "topic")              \
    X("group", TEXT, "", "rows compared", name, .heading = "among", .view = SM_SHOWN_WHEN_VARIED) \
    X("configuration", TEXT, "", "the one", configuration, .heading = "configuration")            \
    X("figure", TEXT, "", "why", figure, .heading = "figure")                                     \
    X("value", REAL, "", "the figure as a number", value, .heading = NULL)                        \
    X("unit", TEXT, "", "of value", unit, .heading = NULL)                                        \
    X("caution", TEXT, "", "limits of its reliability", caution, .heading = "caution")

const sm_table sm_recommend_table = SM_LISTED_TABLE("recommendations", COLUMN_LIST);

// --- rows ------------------------------------------------------------------------------------------

void sm_recommend_group(const json_t *row, char *text, size_t size_bytes) {
    const char *gpu = sm_rows_text(row, "gpu_info");
    snprintf(text, size_bytes, "%s (%s), %s, %s s%.0f", sm_rows_text(row, "device"),
             gpu[0] != '\0' ? gpu : sm_rows_text(row, "cpu_info"), SM_ROWS_MODEL(row), sm_rows_text(row, "pass_type"),
             sm_json_number(row, "n_seq"));
    sm_append_part(text, size_bytes, ", ", sm_rows_own_code(row));
}

// "step b4s512 fused fp32, 2 threads": the row within its group; after its device if asked for.
static const char *name_row(const json_t *row, bool with_device, char text[GROUP_SIZE]) {
    const double n_threads = sm_json_number(row, "n_threads");
    snprintf(text, GROUP_SIZE, "%.60s%s%s %s %s", with_device ? sm_rows_text(row, "device") : "",
             with_device ? " " : "", sm_rows_text(row, "test"), SM_TEXT_MODE(row), SM_TEXT_PRECISION(row));
    if (n_threads > 0) {
        sm_append(text, GROUP_SIZE, ", %.0f threads", n_threads);
    }
    sm_append_part(text, GROUP_SIZE, ", ", sm_rows_other_optimizer(row));
    return text;
}
#define NAME_ROW(row, with_device) name_row((row), (with_device), (char[GROUP_SIZE]){""})

// A record; its group's name has the dimensions in which it differs from another group of that name.
static void add_record(json_t *records, const json_t *groups, const char *topic, const json_t *of_group,
                       const char *configuration, const char *figure, double value, const char *unit,
                       const char *caution) {
    char name[GROUP_SIZE], other[GROUP_SIZE], own[GROUP_SIZE] = "";
    sm_recommend_group(of_group, name, sizeof(name));
    SM_EACH(group, groups) {
        const json_t *first = json_array_get(group, 0);
        sm_recommend_group(first, other, sizeof(other));
        if (own[0] == '\0' && strcmp(other, name) == 0) {
            sm_identity_text(of_group, first, SM_PART(SM_IDENTITY_WORK), false, own, sizeof(own));
        }
    }
    sm_append_part(name, sizeof(name), ", ", own);
    json_t *record = json_object();
    COLUMN_LIST(SM_LISTED_VALUE)
    json_array_append_new(records, record);
}

// --- the best of a group -----------------------------------------------------------------------------

sm_estimate sm_row_rate(const json_t *row) {
    const double median_ts = sm_json_number(row, "median_ts");
    const double tokens = median_ts * sm_json_number(row, "median_ns");
    return (sm_estimate){median_ts, tokens / sm_json_number(row, "ci95_hi_ns"),
                         tokens / sm_json_number(row, "ci95_lo_ns")};
}

// Throughput for each GiB in use: of memory allocated on a device that has its own, otherwise of the process's peak.
static sm_estimate throughput_per_gib(const json_t *row) {
    const double on_device = sm_json_number(row, "device_peak_bytes");
    const double in_process = sm_json_number(row, "peak_rss_bytes");
    const bool own_memory = sm_rows_has(row, "gpu_info") || !(in_process > 0);
    const double gib = (own_memory && on_device > 0 ? on_device : in_process) / (1024.0 * 1024 * 1024);
    const sm_estimate all = sm_row_rate(row);
    return gib > 0 ? (sm_estimate){all.value / gib, all.lo / gib, all.hi / gib} : (sm_estimate){NAN, NAN, NAN};
}

// The median absolute deviation is a median, too: its interval is computed like that of times.
static sm_estimate spread(const json_t *row) {
    const double median = sm_json_number(row, "median_ns");
    size_t n;
    SM_FREED double *values = sm_rows_samples(row, "samples_ns", &n);
    for (size_t i = 0; i < n; i++) {
        values[i] = 100 * fabs(values[i] - median) / median;
    }
    const sm_stats s = sm_stats_of_reals(values, median > 0 ? (int64_t)n : 0);
    return (sm_estimate){s.median, s.ci95_lo, s.ci95_hi};
}

// A criterion for comparing rows.
typedef struct {
    const char *topic, *unit;
    sm_estimate (*estimate_of)(const json_t *row);
    bool least_wins;
} contest;

static const contest contests[] = {
    {"fastest", "tokens/s", sm_row_rate, false},
    {"per GiB", "tokens/s/GiB", throughput_per_gib, false},
    {"steadiest", "% spread", spread, true},
};

typedef struct {
    const json_t *first; // the best by its value; NULL: fewer than two configurations have the figure
    sm_estimate figure;  // of `first`
    const json_t *rival; // the nearest of those that it is not distinct from; NULL: none
    sm_estimate rival_figure;
    size_t n_rivals;
    char doubt[SM_DOUBT_SIZE * 2]; // of all rows; those without a verdict do not take part. "": none
} outcome;

static bool is_better(const contest *c, double a, double b) { return c->least_wins ? a < b : a > b; }

static outcome judge(const contest *c, const json_t *const *rows, size_t n) {
    outcome o = {.first = NULL};
    SM_FREED sm_estimate *figures = sm_calloc(n, sizeof(*figures));
    bool has_several = false;
    size_t n_others = 0;
    for (size_t i = 0; i < n; i++) {
        figures[i] = c->estimate_of(rows[i]);
        figures[i].value = SM_IS_DOUBTED(rows[i]) ? NAN : figures[i].value;
        has_several = has_several || sm_identity_difference(rows[0], rows[i]) != 0;
        if (!isnan(figures[i].value) && (o.first == NULL || is_better(c, figures[i].value, o.figure.value))) {
            o.first = rows[i];
            o.figure = figures[i];
        }
    }
    if (!has_several || !sm_doubt_rows(rows, n, o.doubt, sizeof(o.doubt))) {
        o.doubt[0] = '\0';
    }
    for (size_t i = 0; i < n && o.first != NULL; i++) {
        const sm_estimate *its = &figures[i];
        if (isnan(its->value) || sm_identity_difference(rows[i], o.first) == 0) {
            continue;
        }
        n_others++;
        const bool is_distinct = o.figure.hi < its->lo || its->hi < o.figure.lo; // not without an interval
        if (!is_distinct && (o.n_rivals++ == 0 || is_better(c, its->value, o.rival_figure.value))) {
            o.rival = rows[i];
            o.rival_figure = *its;
        }
    }
    o.first = n_others > 0 ? o.first : NULL;
    return o;
}

#define FIGURE(c, value)                                            \
    ((c)->least_wins ? SM_TEXT_IN(64, "%.1f%s", (value), (c)->unit) \
                     : SM_TEXT_IN(64, "%s %s", SM_TEXT_COUNT(value), (c)->unit))

// Why there is no winner: "A at 1,234 tokens/s is not distinct from B at 1,230 tokens/s and 2 more: take more samples".
static void doubt_text(const contest *c, const outcome *o, char *text, size_t size_bytes) {
    char noise[GROUP_SIZE];
    if (o->first == NULL) {
        snprintf(text, size_bytes, "no verdict on %s", o->doubt);
        return;
    }
    const bool with_device = o->rival != NULL && !sm_rows_is(o->first, "device", sm_rows_text(o->rival, "device"));
    snprintf(text, size_bytes, "%s at %s", NAME_ROW(o->first, with_device), FIGURE(c, o->figure.value));
    if (o->rival == NULL) {
        sm_noise_text(o->first, noise, sizeof(noise));
        sm_append(text, size_bytes, " is %s", noise);
        return;
    }
    sm_append(text, size_bytes, " is not distinct from %s at %s", NAME_ROW(o->rival, with_device),
              FIGURE(c, o->rival_figure.value));
    if (o->n_rivals > 1) {
        sm_append(text, size_bytes, " and %zu more", o->n_rivals - 1);
    }
    sm_append(text, size_bytes, ": take more samples");
}

// `rows`: those of a group that are ok.
static void award(const json_t *groups, const json_t *const *rows, size_t n, const contest *c, json_t *records) {
    char text[3 * GROUP_SIZE];
    const outcome o = judge(c, rows, n);
    if (o.first == NULL && (o.doubt[0] == '\0' || c != contests)) {
        return; // a single one is not the best; and a missing verdict is reported once
    }
    if (o.first == NULL || o.rival != NULL || sm_judge_row(o.first) != SM_NOISE_STEADY) {
        doubt_text(c, &o, text, sizeof(text));
        add_record(records, groups, c->topic, o.first != NULL ? o.first : rows[0], "", "", NAN, c->unit, text);
        return;
    }
    const char *caution = o.doubt[0] != '\0' ? SM_TEXT_IN(SM_DOUBT_SIZE * 3, "not ranked: %s", o.doubt) : "";
    add_record(records, groups, c->topic, o.first, NAME_ROW(o.first, false), FIGURE(c, o.figure.value), o.figure.value,
               c->unit, caution);
}

// --- break-even --------------------------------------------------------------------------------------

static double or_zero(double value) { return isfinite(value) ? value : 0; }

// The cost of starting, beyond the steps themselves.
static double start_ns(const json_t *row) {
    return or_zero(sm_json_number(row, "build_ns")) + or_zero(sm_json_number(row, "tune_ns")) +
           or_zero(sm_json_number(row, "first_step_ns")) - sm_json_number(row, "median_ns");
}

static void break_even(const json_t *groups, const json_t *slow, const json_t *fast, json_t *records) {
    double gain_ns = sm_json_number(slow, "median_ns") - sm_json_number(fast, "median_ns");
    double extra_ns = start_ns(fast) - start_ns(slow);
    double steps = extra_ns > 0 ? ceil(extra_ns / gain_ns) : 0;
    const char *figure =
        SM_TEXT_IN(256, "%.0f steps: starts %.3g ms %s than %s, each step is %.3g ms shorter", steps,
                   fabs(extra_ns) / 1e6, extra_ns > 0 ? "later" : "sooner", sm_rows_text(slow, "mode"), gain_ns / 1e6);
    add_record(records, groups, "break-even", fast, NAME_ROW(fast, false), figure, steps, "steps", "");
}

static bool is_sure(const json_t *row) { return sm_judge_row(row) == SM_NOISE_STEADY && !SM_IS_DOUBTED(row); }

// Every pair of a group that differs only in mode, with one significantly faster.
static void break_evens(const json_t *groups, const json_t *group, json_t *records) {
    SM_EACH(slow, group) {
        SM_EACH(fast, group) {
            // Cheap tests first: there may be many pairs.
            if (!sm_rows_is(slow, "mode", sm_rows_text(fast, "mode")) &&
                sm_json_number(fast, "ci95_hi_ns") < sm_json_number(slow, "ci95_lo_ns") && is_sure(fast) &&
                is_sure(slow) && sm_identity_difference(slow, fast) == SM_PART(SM_FACTOR_MODE)) {
                break_even(groups, slow, fast, records);
            }
        }
    }
}

// --- what did not fit ----------------------------------------------------------------------------------

static double tokens(const json_t *row) { return sm_json_number(row, "n_batch") * sm_json_number(row, "n_seq"); }

static void advise_smaller(const json_t *rows, const json_t *oom, json_t *records) {
    const json_t *best = NULL;
    SM_EACH(row, rows) {
        char text[GROUP_SIZE];
        const int n = sm_identity_text(row, oom, SM_FACTORS | SM_PART(SM_IDENTITY_WORK), true, text, sizeof(text));
        const bool is_like = n == 0 || (n == 1 && strncmp(text, "n_seq ", strlen("n_seq ")) == 0); // but for the size
        const bool is_smaller = sm_row_is_ok(row) && is_like && tokens(row) < tokens(oom);
        best = is_smaller && (best == NULL || tokens(row) > tokens(best)) ? row : best;
    }
    const char *figure = best == NULL ? "no smaller work of this kind was run"
                                      : SM_TEXT_IN(GROUP_SIZE, "%s ran", sm_rows_text(best, "test"));
    const char *caution = "`stepmark run --find-batch` with its flags finds and runs the largest that fits";
    add_record(records, NULL, "did not fit", oom, NAME_ROW(oom, false), figure, sm_json_number(best, "n_batch"),
               best == NULL ? "" : "batch", best == NULL ? caution : "");
}

// A group did the same work but for the batch, on the same device, and all or none of it with own code.
json_t *sm_recommend(const json_t *rows) {
    json_t *records = json_array();
    SM_OWN(json_t) *groups = sm_identity_groups(
        rows, SM_PART(SM_IDENTITY_WORK) | SM_PART(SM_FACTOR_MACHINE) | SM_PART(SM_FACTOR_DEVICE) | SM_OWN_CODE,
        sm_row_is_ok);
    SM_FREED const json_t **of_group = sm_malloc((json_array_size(rows) + 1) * sizeof(*of_group));
    SM_EACH(group, groups) {
        size_t n = 0;
        SM_EACH(row, group) { of_group[n++] = row; }
        for (size_t c = 0; c < SM_COUNT(contests); c++) {
            award(groups, of_group, n, &contests[c], records);
        }
    }
    SM_EACH(group, groups) { break_evens(groups, group, records); }
    SM_EACH(row, rows) {
        const bool is_probe = sm_rows_has(row, "sweep_note"); // an intermediate step of a search
        if (strcmp(sm_rows_status(row), "oom") == 0 && !is_probe) {
            advise_smaller(rows, row, records);
        }
    }
    return records;
}
