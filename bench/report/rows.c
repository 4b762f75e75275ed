// rows.c: see report/rows.h.
#include "bench/report/rows.h"

#include "bench/compare/compare_match.h"
#include "bench/rows/read_rows.h"
#include "bench/tables/show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- names ---------------------------------------------------------------------------------

// Where and how a row ran: machine, device, configuration. The mode includes a loop's loader (sm_text_mode).
static const char *const how_fields[] = {"machine", "device",    "isa",       "tier",
                                         "mode",    "precision", "n_threads", "optimizer"};
enum { N_HOW_FIELDS = sizeof(how_fields) / sizeof(how_fields[0]), MACHINE = 0, DEVICE = 1 };

static const char *device_of(const json_t *row) {
    const char *device = sm_rows_text(row, "device");
    const char *backend = sm_rows_text(row, "backend_used");
    return device[0] != '\0' ? device : backend[0] != '\0' ? backend : sm_rows_text(row, "backend");
}

static void value_text(const json_t *row, const char *name, char *text, size_t size_bytes) {
    double number = sm_json_number(row, name);
    const char *string = strcmp(name, "device") == 0      ? device_of(row)
                         : strcmp(name, "optimizer") == 0 ? sm_rows_other_optimizer(row)
                                                          : sm_rows_text(row, name);
    snprintf(text, size_bytes, "%.60s", string);
    if (strcmp(name, "mode") == 0) {
        sm_text_mode(row, text, size_bytes);
    }
    if (strcmp(name, "precision") == 0) {
        sm_text_precision(row, text, size_bytes);
    }
    if (isfinite(number)) {
        snprintf(text, size_bytes, strcmp(name, "n_threads") == 0 ? "t%.0f" : "%.0f", number);
    }
}

static void append(char *text, size_t size_bytes, const char *separator, const char *part) {
    const char *const pieces[] = {text[0] != '\0' ? separator : "", part};
    for (int i = 0; i < 2 && part[0] != '\0'; i++) {
        size_t used = strlen(text);
        size_t n = strlen(pieces[i]);
        n = n < size_bytes - used ? n : size_bytes - used - 1;
        memcpy(text + used, pieces[i], n);
        text[used + n] = '\0';
    }
}

void sm_report_how(const json_t *row, char *text, size_t size_bytes) {
    char part[SM_SERIES_NAME_SIZE];
    text[0] = '\0';
    for (int i = DEVICE; i < N_HOW_FIELDS; i++) {
        value_text(row, how_fields[i], part, sizeof(part));
        append(text, size_bytes, " ", part);
    }
}

// --- machines, devices, series -----------------------------------------------------------------

// Two hosts with the same chip get their host names.
static void name_machines(sm_report_rows *report) {
    for (size_t i = 0; i < report->n; i++) {
        sm_rows_chip(report->rows[i].json, report->rows[i].device, SM_SERIES_NAME_SIZE);
    }
    for (size_t i = 0; i < report->n; i++) {
        sm_report_row *r = &report->rows[i];
        bool is_shared = false;
        for (size_t k = 0; k < report->n && !is_shared; k++) {
            is_shared = strcmp(report->rows[k].device, r->device) == 0 && strcmp(report->rows[k].host, r->host) != 0;
        }
        snprintf(r->machine, sizeof(r->machine), "%.90s", r->device);
        append(r->machine, sizeof(r->machine), " of ", is_shared ? r->host : "");
    }
}

static void how_text(const sm_report_row *r, int field, char *text, size_t size_bytes) {
    if (field == MACHINE) {
        snprintf(text, size_bytes, "%s", r->machine);
    } else {
        value_text(r->json, how_fields[field], text, size_bytes);
    }
}

// The first row of the same machine; with `of_device` of the same device on it.
static const sm_report_row *first_like(const sm_report_rows *report, const sm_report_row *r, bool of_device) {
    const sm_report_row *other = report->rows;
    while (strcmp(other->machine, r->machine) != 0 ||
           (of_device && strcmp(device_of(other->json), device_of(r->json)) != 0)) {
        other++;
    }
    return other;
}

// A name includes a field if it differs between rows that agree in all earlier fields: the device if a machine has
// several, the rest if a device ran with several.
static void find_varied(const sm_report_rows *report, bool varied[N_HOW_FIELDS]) {
    char first[SM_SERIES_NAME_SIZE];
    char other[SM_SERIES_NAME_SIZE];
    memset(varied, 0, N_HOW_FIELDS * sizeof(*varied));
    for (size_t i = 1; i < report->n; i++) {
        const sm_report_row *r = &report->rows[i];
        varied[MACHINE] |= strcmp(r->machine, report->rows[0].machine) != 0;
        for (int f = DEVICE; f < N_HOW_FIELDS; f++) {
            const sm_report_row *same = first_like(report, r, f > DEVICE);
            how_text(r, f, first, sizeof(first));
            how_text(same, f, other, sizeof(other));
            varied[f] |= strcmp(first, other) != 0;
        }
    }
}

// The device: its machine, and which of its devices if it has several. The series: the differing fields. `rest`: the
// series without the device.
static void name_series(const bool varied[N_HOW_FIELDS], sm_report_row *r, char rest[SM_SERIES_NAME_SIZE]) {
    char part[SM_SERIES_NAME_SIZE];
    r->device[0] = '\0';
    rest[0] = '\0';
    for (int f = 0; f < N_HOW_FIELDS; f++) {
        how_text(r, f, part, sizeof(part));
        bool names_device = f == MACHINE || (f == DEVICE && (varied[f] || r->machine[0] == '\0'));
        append(r->series, sizeof(r->series), " ", varied[f] ? part : "");
        append(r->device, sizeof(r->device), ", ", names_device ? part : "");
        append(rest, SM_SERIES_NAME_SIZE, " ", f > DEVICE && varied[f] ? part : "");
    }
    if (r->device[0] == '\0') {
        snprintf(r->device, sizeof(r->device), "device not named");
    }
    if (r->series[0] == '\0') {
        sm_report_how(r->json, r->series, sizeof(r->series));
    }
}

// Numbers for texts, in the order of their first rows.
typedef struct {
    char (*texts)[SM_SERIES_NAME_SIZE];
    int n;
} numbering;

static int number_of(numbering *all, const char *text) {
    int i = 0;
    while (i < all->n && strcmp(all->texts[i], text) != 0) {
        i++;
    }
    if (i == all->n) {
        snprintf(all->texts[all->n++], SM_SERIES_NAME_SIZE, "%s", text);
    }
    return i;
}

static sm_status number_rows(sm_report_rows *report, const bool varied[N_HOW_FIELDS]) {
    enum { DEVICES, SERIES, REST, PANELS, N };
    numbering all[N] = {{NULL, 0}};
    char rest[SM_SERIES_NAME_SIZE];
    sm_status status = SM_OK;
    for (int k = 0; k < N; k++) {
        all[k].texts = malloc((report->n + 1) * sizeof(*all[k].texts));
        SM_TRY_GOTO(all[k].texts != NULL ? SM_OK : sm_fail(SM_ERR_OOM, "no memory for a report"));
    }
    for (size_t i = 0; i < report->n; i++) {
        sm_report_row *r = &report->rows[i];
        name_series(varied, r, rest);
        r->device_id = number_of(&all[DEVICES], r->device);
        r->series_id = number_of(&all[SERIES], r->series);
        r->style = number_of(&all[REST], rest);
        r->panel_id = number_of(&all[PANELS], r->panel);
    }
    report->n_devices = all[DEVICES].n;
    report->n_series = all[SERIES].n;
    report->n_panels = all[PANELS].n;
    for (size_t i = 0; i < report->n; i++) {
        sm_report_row *r = &report->rows[i];
        r->colour = 1 + (report->n_devices > 1 ? r->device_id : r->series_id);
    }
cleanup:
    for (int k = 0; k < N; k++) {
        free(all[k].texts);
    }
    return status;
}

// Dimensions that a command line may change without changing the model's name.
static const struct {
    const char *name;
    const char *word;
} dimensions[] = {
    {"vocab", "vocabulary"},        {"n_layer", "layers"}, {"n_head", "heads"},
    {"n_kv_head", "heads of keys"}, {"d_model", "width"},  {"d_ff", "MLP"},
};
enum { N_DIMENSIONS = sizeof(dimensions) / sizeof(dimensions[0]), MAX_MODELS = 32 };

// For each model's name: its first row, and the dimensions (bits) in which others differ.
typedef struct {
    const json_t *first[MAX_MODELS];
    unsigned varied[MAX_MODELS];
    int n;
} models;

static bool is_same_model(const json_t *a, const json_t *b) {
    return strcmp(sm_rows_text(a, "model_type"), sm_rows_text(b, "model_type")) == 0 &&
           strcmp(sm_rows_other_arch(a), sm_rows_other_arch(b)) == 0;
}

static int find_model(const models *m, const json_t *row) {
    int i = 0;
    while (i < m->n && !is_same_model(m->first[i], row)) {
        i++;
    }
    return i;
}

static void find_models(const json_t *rows, models *m) {
    memset(m, 0, sizeof(*m));
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        int k = find_model(m, row);
        if (k == m->n && m->n < MAX_MODELS) {
            m->first[m->n++] = row;
        }
        for (int d = 0; d < N_DIMENSIONS && k < m->n; d++) {
            double other = sm_json_number(m->first[k], dimensions[d].name);
            double own = sm_json_number(row, dimensions[d].name);
            m->varied[k] |= isfinite(own) && isfinite(other) && own != other ? 1u << d : 0;
        }
    }
}

static void append_dimensions(const models *m, sm_report_row *r) {
    char part[SM_SERIES_NAME_SIZE];
    int k = find_model(m, r->json);
    for (int d = 0; d < N_DIMENSIONS && k < m->n; d++) {
        double value = sm_json_number(r->json, dimensions[d].name);
        if ((m->varied[k] & (1u << d)) != 0 && isfinite(value)) {
            snprintf(part, sizeof(part), "%s %.0f", dimensions[d].word, value);
            append(r->panel, sizeof(r->panel), ", ", part);
        }
    }
}

static void name_panel(const models *m, sm_report_row *r) {
    char part[SM_SERIES_NAME_SIZE];
    double n_accum = sm_json_number(r->json, "n_accum");
    char model[SM_SERIES_NAME_SIZE];
    sm_rows_model(r->json, model, sizeof(model));
    snprintf(r->panel, sizeof(r->panel), "%.60s", model[0] != '\0' ? model : "model not named");
    append_dimensions(m, r);
    value_text(r->json, "n_seq", part, sizeof(part));
    append(r->panel, sizeof(r->panel), ", ", part);
    append(r->panel, sizeof(r->panel), " ", part[0] != '\0' ? "tokens" : "");
    append(r->panel, sizeof(r->panel), ", ", sm_rows_text(r->json, "pass_type"));
    append(r->panel, sizeof(r->panel), ", documents ", sm_rows_text(r->json, "documents"));
    append(r->panel, sizeof(r->panel), ", ", sm_rows_own_code(r->json));
    if (n_accum > 1) {
        snprintf(part, sizeof(part), "accumulation %.0f", n_accum);
        append(r->panel, sizeof(r->panel), ", ", part);
    }
}

void sm_report_batch(const sm_report_row *row, char *text, size_t size_bytes) {
    snprintf(text, size_bytes, isfinite(row->batch) ? "batch %.0f" : "batch not named", row->batch);
}

// --- rows ----------------------------------------------------------------------------------

// A damaged or hostile row may hold values that no machine measures; a chart cannot scale to them.
static double plausible(double value) { return value >= 0 && value < 1e30 ? value : NAN; }

static double number(const json_t *row, const char *name) { return plausible(sm_json_number(row, name)); }

static double seconds(const json_t *row, const char *name) { return number(row, name) * 1e-9; }

static void fill(const json_t *row, sm_report_row *r) {
    double tokens = number(row, "median_ts") * number(row, "median_ns");
    double lo = number(row, "ci95_lo_ns");
    double hi = number(row, "ci95_hi_ns");
    bool has_interval = isfinite(lo) && isfinite(hi);
    bool own_memory = sm_rows_text(row, "gpu_info")[0] != '\0';
    double allocated = number(row, "device_peak_bytes");
    r->json = row;
    r->status = sm_rows_status(row);
    r->host = sm_rows_text(row, "context.host");
    r->usable = sm_row_is_usable(row);
    r->batch = number(row, "n_batch");
    r->tokens_per_s = number(row, "median_ts");
    r->tokens_lo = plausible(tokens / (has_interval ? hi : number(row, "q3_ns")));
    r->tokens_hi = plausible(tokens / (has_interval ? lo : number(row, "q1_ns")));
    r->step_s = seconds(row, "median_ns");
    r->memory_bytes = own_memory && allocated > 0 ? allocated : number(row, "peak_rss_bytes");
    r->open_s = seconds(row, "open_ns");
    r->build_s = seconds(row, "build_ns");
    r->tune_s = seconds(row, "tune_ns");
    r->first_step_s = seconds(row, "first_step_ns");
    r->warmup_s = seconds(row, "warmup_ns");
    r->flops = number(row, "flops");
    r->bytes = number(row, "bytes");
    r->peak_flops = number(row, "peak_flops");
    r->peak_bandwidth = number(row, "peak_bandwidth");
}

static int by_rows(const void *a, const void *b) {
    const sm_report_panel *x = a;
    const sm_report_panel *y = b;
    return x->n_usable != y->n_usable ? (x->n_usable < y->n_usable) - (x->n_usable > y->n_usable) : x->id - y->id;
}

// Panels with figures, those with the most rows first.
static sm_status list_panels(sm_report_rows *report) {
    report->panels = calloc((size_t)report->n_panels + 1, sizeof(*report->panels));
    if (report->panels == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a report");
    }
    for (size_t i = 0; i < report->n; i++) {
        const sm_report_row *r = &report->rows[i];
        sm_report_panel *p = &report->panels[r->panel_id];
        p->name = p->name != NULL ? p->name : r->panel;
        p->id = r->panel_id;
        p->n_usable += r->usable;
        p->most_tokens_per_s = r->usable ? fmax(p->most_tokens_per_s, r->tokens_per_s) : p->most_tokens_per_s;
    }
    qsort(report->panels, (size_t)report->n_panels, sizeof(*report->panels), by_rows);
    while (report->n_panels > 0 && report->panels[report->n_panels - 1].n_usable == 0) {
        report->n_panels--;
    }
    return SM_OK;
}

sm_status sm_report_rows_make(const json_t *rows, sm_report_rows *report) {
    bool varied[N_HOW_FIELDS];
    models m;
    size_t n = json_array_size(rows);
    sm_status status = SM_OK;
    *report = (sm_report_rows){.rows = calloc(n + 1, sizeof(*report->rows)), .n = n};
    if (report->rows == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a report of %zu rows", n);
    }
    find_models(rows, &m);
    for (size_t i = 0; i < n; i++) {
        fill(json_array_get(rows, i), &report->rows[i]);
        report->rows[i].index = (int)i;
        name_panel(&m, &report->rows[i]);
    }
    name_machines(report);
    find_varied(report, varied);
    SM_TRY_GOTO(number_rows(report, varied));
    SM_TRY_GOTO(list_panels(report));
    return SM_OK;
cleanup:
    sm_report_rows_free(report);
    return status;
}

void sm_report_rows_free(sm_report_rows *report) {
    free(report->rows);
    free(report->panels);
    *report = (sm_report_rows){.rows = NULL};
}

// --- choices ---------------------------------------------------------------------------------

static bool is_faster(const sm_report_row *a, const sm_report_row *b) { return a->tokens_per_s > b->tokens_per_s; }

static int key_of(const sm_report_row *row, bool by_device) { return by_device ? row->device_id : row->series_id; }

static bool is_of(const sm_report_row *row, int panel_id) { return row->usable && row->panel_id == panel_id; }

// Whether another row of that panel and key is faster, or equally fast and earlier.
static bool is_beaten(const sm_report_rows *report, const sm_report_row *row, bool by_device) {
    for (size_t i = 0; i < report->n; i++) {
        const sm_report_row *other = &report->rows[i];
        if (is_of(other, row->panel_id) && key_of(other, by_device) == key_of(row, by_device) &&
            (is_faster(other, row) || (other->index < row->index && !is_faster(row, other)))) {
            return true;
        }
    }
    return false;
}

int sm_report_best(const sm_report_rows *report, int panel_id, bool by_device, const sm_report_row *rows[SM_MAX_SERIES],
                   int *n) {
    int n_all = 0;
    *n = 0;
    for (size_t i = 0; i < report->n; i++) {
        const sm_report_row *row = &report->rows[i];
        if (!is_of(row, panel_id) || is_beaten(report, row, by_device)) {
            continue;
        }
        n_all++;
        int at = *n < SM_MAX_SERIES ? (*n)++ : SM_MAX_SERIES;
        while (at > 0 && is_faster(row, rows[at - 1])) {
            if (at < SM_MAX_SERIES) {
                rows[at] = rows[at - 1];
            }
            at--;
        }
        if (at < SM_MAX_SERIES) {
            rows[at] = row;
        }
    }
    return n_all;
}

int sm_report_chosen(const sm_report_rows *report, int panel_id, const sm_report_row *rows[SM_MAX_SERIES]) {
    const sm_report_row *best[SM_MAX_SERIES];
    int n = 0;
    int n_best;
    if (report->n_devices > 1) {
        sm_report_best(report, panel_id, true, rows, &n);
    }
    sm_report_best(report, panel_id, false, best, &n_best);
    for (int k = 0; k < n_best && n < SM_MAX_SERIES; k++) {
        bool is_new = true;
        for (int i = 0; i < n && is_new; i++) {
            is_new = rows[i]->series_id != best[k]->series_id;
        }
        if (is_new) {
            rows[n++] = best[k];
        }
    }
    return n;
}

static bool has_batch(const sm_report_row *row, double batch) {
    return row->batch == batch || (isnan(row->batch) && isnan(batch));
}

static int rows_at(const sm_report_rows *report, int panel_id, double batch, const sm_report_row *const *best,
                   int n_best, const sm_report_row *rows[SM_MAX_SERIES]) {
    int n = 0;
    for (int k = 0; k < n_best; k++) {
        for (size_t i = 0; i < report->n; i++) {
            const sm_report_row *row = &report->rows[i];
            if (is_of(row, panel_id) && row->series_id == best[k]->series_id && has_batch(row, batch)) {
                rows[n++] = row;
                break;
            }
        }
    }
    return n;
}

int sm_report_at_batch(const sm_report_rows *report, int panel_id, const sm_report_row *rows[SM_MAX_SERIES]) {
    const sm_report_row *best[SM_MAX_SERIES];
    const sm_report_row *found[SM_MAX_SERIES];
    int most = 0;
    double batch = NAN;
    int n_best = sm_report_chosen(report, panel_id, best);
    for (size_t i = 0; i < report->n; i++) {
        const sm_report_row *row = &report->rows[i];
        if (!is_of(row, panel_id) || (most > 0 && has_batch(row, batch))) {
            continue;
        }
        int n = rows_at(report, panel_id, row->batch, best, n_best, found);
        if (n > most || (n == most && row->batch > batch)) {
            most = n;
            batch = row->batch;
            memcpy(rows, found, (size_t)n * sizeof(rows[0]));
        }
    }
    return most;
}
