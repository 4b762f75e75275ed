// report_rows.c: see report_rows.h.
#include "report_rows.h"

#include "compare_match.h"
#include "read_rows.h"
#include "show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- names ---------------------------------------------------------------------------------

static const char *const how_fields[] = {"cpu_info", "gpu_info",  "device",    "isa",      "tier",
                                         "mode",     "precision", "n_threads", "optimizer"};
enum { N_HOW_FIELDS = sizeof(how_fields) / sizeof(how_fields[0]), FIRST_OF_DEVICE = 2 };

static void value_text(const json_t *row, const char *name, char *text, size_t size_bytes) {
    double number = sm_json_number(row, name);
    const char *string = sm_rows_text(row, name);
    if (strcmp(name, "device") == 0 && string[0] == '\0') {
        string = sm_rows_text(row, "backend_used")[0] != '\0' ? sm_rows_text(row, "backend_used")
                                                              : sm_rows_text(row, "backend");
    }
    if (strcmp(name, "optimizer") == 0) {
        string = sm_rows_other_optimizer(row);
    }
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
    size_t used = strlen(text);
    if (part[0] != '\0') {
        snprintf(text + used, size_bytes - used, "%s%s", used > 0 ? separator : "", part);
    }
}

void sm_report_how(const json_t *row, char *text, size_t size_bytes) {
    char part[SM_SERIES_NAME_SIZE];
    text[0] = '\0';
    for (int i = FIRST_OF_DEVICE; i < N_HOW_FIELDS; i++) {
        value_text(row, how_fields[i], part, sizeof(part));
        append(text, size_bytes, " ", part);
    }
}

static void find_varied(const json_t *rows, bool varied[N_HOW_FIELDS]) {
    char first[SM_SERIES_NAME_SIZE];
    char other[SM_SERIES_NAME_SIZE];
    for (int f = 0; f < N_HOW_FIELDS; f++) {
        varied[f] = false;
        for (size_t i = 0; i < json_array_size(rows); i++) {
            value_text(json_array_get(rows, i), how_fields[f], i == 0 ? first : other, SM_SERIES_NAME_SIZE);
            varied[f] |= i > 0 && strcmp(first, other) != 0;
        }
    }
}

static void name_series(const bool varied[N_HOW_FIELDS], sm_report_row *r) {
    char part[SM_SERIES_NAME_SIZE];
    for (int f = 0; f < N_HOW_FIELDS; f++) {
        value_text(r->json, how_fields[f], part, sizeof(part));
        append(r->series, sizeof(r->series), " ", varied[f] ? part : "");
    }
    if (r->series[0] == '\0') {
        sm_report_how(r->json, r->series, sizeof(r->series));
    }
}

// Dimensions that a command line may change under a model's name.
static const struct {
    const char *name;
    const char *word;
} dimensions[] = {
    {"vocab", "vocabulary"},        {"n_layer", "layers"}, {"n_head", "heads"},
    {"n_kv_head", "heads of keys"}, {"d_model", "width"},  {"d_ff", "MLP"},
};
enum { N_DIMENSIONS = sizeof(dimensions) / sizeof(dimensions[0]), MAX_MODELS = 32 };

// Of each model by name: its first row, and which dimensions (bits) other rows have otherwise.
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
    if (n_accum > 1) {
        snprintf(part, sizeof(part), "accumulation %.0f", n_accum);
        append(r->panel, sizeof(r->panel), ", ", part);
    }
}

void sm_report_batch(const sm_report_row *row, char *text, size_t size_bytes) {
    snprintf(text, size_bytes, isfinite(row->batch) ? "batch %.0f" : "batch not named", row->batch);
}

// --- rows ----------------------------------------------------------------------------------

// What no machine measures, a damaged or hostile row may hold; a chart could not be scaled to it.
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

sm_status sm_report_rows_make(const json_t *rows, sm_report_rows *report) {
    bool varied[N_HOW_FIELDS];
    models m;
    size_t n = json_array_size(rows);
    *report = (sm_report_rows){calloc(n + 1, sizeof(*report->rows)), n};
    if (report->rows == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a report of %zu rows", n);
    }
    find_varied(rows, varied);
    find_models(rows, &m);
    for (size_t i = 0; i < n; i++) {
        fill(json_array_get(rows, i), &report->rows[i]);
        name_panel(&m, &report->rows[i]);
        name_series(varied, &report->rows[i]);
    }
    return SM_OK;
}

void sm_report_rows_free(sm_report_rows *report) {
    free(report->rows);
    *report = (sm_report_rows){NULL, 0};
}

// --- lists ---------------------------------------------------------------------------------

static int find(const sm_names *names, const char *name) {
    for (int i = 0; i < names->n; i++) {
        if (strcmp(names->names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

static bool seen_before(const sm_report_rows *report, sm_name_of name_of, size_t end, const char *name) {
    for (size_t i = 0; i < end; i++) {
        const char *other = name_of(&report->rows[i]);
        if (other != NULL && strcmp(other, name) == 0) {
            return true;
        }
    }
    return false;
}

int sm_report_names(const sm_report_rows *report, sm_name_of name_of, int max, sm_names *names) {
    int n_all = 0;
    names->n = 0;
    for (size_t i = 0; i < report->n; i++) {
        const char *name = name_of(&report->rows[i]);
        if (name == NULL || find(names, name) >= 0 || (n_all > names->n && seen_before(report, name_of, i, name))) {
            continue;
        }
        n_all++;
        if (names->n < max) {
            names->names[names->n++] = name;
        }
    }
    return n_all;
}

static const char *panel_of(const sm_report_row *row) { return row->usable ? row->panel : NULL; }

static size_t count_rows(const sm_report_rows *report, const char *panel) {
    size_t n = 0;
    for (size_t i = 0; i < report->n; i++) {
        n += report->rows[i].usable && strcmp(report->rows[i].panel, panel) == 0;
    }
    return n;
}

int sm_report_panels(const sm_report_rows *report, sm_names *panels) {
    sm_names all;
    int n_all = sm_report_names(report, panel_of, 16, &all);
    panels->n = 0;
    while (panels->n < all.n && panels->n < SM_MAX_PANELS) {
        size_t most = 0;
        const char *best = NULL;
        for (int i = 0; i < all.n; i++) {
            size_t n = find(panels, all.names[i]) < 0 ? count_rows(report, all.names[i]) : 0;
            best = n > most ? all.names[i] : best;
            most = n > most ? n : most;
        }
        panels->names[panels->n++] = best;
    }
    return n_all;
}

int sm_report_series(const sm_report_rows *report, const char *panel, sm_names *series) {
    series->n = 0;
    for (size_t i = 0; i < report->n; i++) {
        const sm_report_row *row = &report->rows[i];
        bool fits = row->usable && strcmp(row->panel, panel) == 0;
        if (fits && find(series, row->series) < 0) {
            if (series->n == SM_MAX_SERIES) {
                return SM_MAX_SERIES + 1;
            }
            series->names[series->n++] = row->series;
        }
    }
    return series->n;
}
