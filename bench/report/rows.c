// rows.c: see report.h.
#include "bench/report/report.h"

#include "bench/rows/identity.h"
#include "bench/rows/row.h"
#include "bench/tables/show.h"
#include "src/models/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- names ---------------------------------------------------------------------------------

static const char *device_of(const json_t *row) {
    const char *device = sm_rows_text(row, "device");
    const char *backend = sm_rows_text(row, "backend_used");
    return device[0] != '\0' ? device : backend[0] != '\0' ? backend : sm_rows_text(row, "backend");
}

// Two hosts with the same chip get their host names.
static void name_machines(sm_report_rows *report) {
    for (size_t i = 0; i < report->n; i++) {
        sm_rows_chip(report->rows[i].json, report->rows[i].device, SM_REPORT_NAME_SIZE);
    }
    for (size_t i = 0; i < report->n; i++) {
        sm_report_row *r = &report->rows[i];
        bool is_shared = false;
        for (size_t k = 0; k < report->n && !is_shared; k++) {
            is_shared = strcmp(report->rows[k].device, r->device) == 0 && strcmp(report->rows[k].host, r->host) != 0;
        }
        snprintf(r->machine, sizeof(r->machine), "%.90s", r->device);
        sm_append_part(r->machine, sizeof(r->machine), " of ", is_shared ? r->host : "");
    }
}

// The device: its machine, and which of its devices if the rows name several.
static void name_device(const sm_report_rows *report, sm_report_row *r) {
    const char *device = device_of(r->json);
    bool has_several = false;
    for (size_t i = 0; i < report->n && !has_several; i++) {
        has_several =
            strcmp(report->rows[i].machine, r->machine) == 0 && strcmp(device_of(report->rows[i].json), device) != 0;
    }
    snprintf(r->device, sizeof(r->device), "%s", r->machine);
    sm_append_part(r->device, sizeof(r->device), ", ", has_several || r->machine[0] == '\0' ? device : "");
    sm_append_part(r->device, sizeof(r->device), "", r->device[0] == '\0' ? "device not named" : "");
}

// --- works ---------------------------------------------------------------------------------

enum { MAX_MODELS = 32 };

// For each model's name: its first row, and the fields of its config (bits) in which others differ.
typedef struct {
    const json_t *first[MAX_MODELS];
    unsigned varied[MAX_MODELS];
    int n;
} models;

static int find_model(const models *m, const json_t *row) {
    int i = 0;
    while (i < m->n && (strcmp(sm_rows_text(m->first[i], "model_type"), sm_rows_text(row, "model_type")) != 0 ||
                        strcmp(sm_rows_other_arch(m->first[i]), sm_rows_other_arch(row)) != 0)) {
        i++;
    }
    return i;
}

static void field_text(const json_t *row, int field, char text[SM_IDENTITY_VALUE_SIZE]) {
    const char *column = sm_model_field_get_info((sm_model_field)field)->column;
    text[0] = '\0';
    if (column != NULL) {
        sm_identity_value(row, &sm_row_table.columns[sm_table_find(&sm_row_table, column)], text);
    }
}

static void find_models(const json_t *rows, models *m) {
    memset(m, 0, sizeof(*m));
    SM_EACH(row, rows) {
        int k = find_model(m, row);
        if (k == m->n && m->n < MAX_MODELS) {
            m->first[m->n++] = row;
        }
        for (int d = 0; d < SM_MODEL_FIELD_COUNT && k < m->n; d++) {
            char other[SM_IDENTITY_VALUE_SIZE];
            char own[SM_IDENTITY_VALUE_SIZE];
            field_text(m->first[k], d, other);
            field_text(row, d, own);
            m->varied[k] |= own[0] != '\0' && other[0] != '\0' && strcmp(own, other) != 0 ? 1u << d : 0;
        }
    }
}

static void name_work(const models *m, sm_report_row *r) {
    char part[SM_REPORT_NAME_SIZE];
    const double n_accum = sm_json_number(r->json, "n_accum");
    const double n_seq = sm_json_number(r->json, "n_seq");
    const char *model = SM_ROWS_MODEL(r->json);
    snprintf(r->work, sizeof(r->work), "%.60s", model[0] != '\0' ? model : "model not named");
    const int k = find_model(m, r->json);
    for (int d = 0; d < SM_MODEL_FIELD_COUNT && k < m->n; d++) {
        field_text(r->json, d, part);
        if ((m->varied[k] & (1u << d)) != 0 && part[0] != '\0') {
            sm_append_part(r->work, sizeof(r->work), ", ", sm_model_field_get_info((sm_model_field)d)->heading);
            sm_append_part(r->work, sizeof(r->work), " ", part);
        }
    }
    const char *parts[][2] = {
        {", ", isfinite(n_seq) ? SM_TEXT_IN(32, "%.0f tokens", n_seq) : ""},
        {", ", sm_rows_text(r->json, "pass_type")},
        {", documents ", sm_rows_text(r->json, "documents")},
        {", ", sm_rows_own_code(r->json)},
        {", ", n_accum > 1 ? SM_TEXT_IN(32, "accumulation %.0f", n_accum) : ""},
    };
    for (size_t i = 0; i < SM_COUNT(parts); i++) {
        sm_append_part(r->work, sizeof(r->work), parts[i][0], parts[i][1]);
    }
}

// --- rows ----------------------------------------------------------------------------------

// A damaged or hostile row may hold values that no machine measures; a chart cannot scale to them.
static double plausible(double value) { return value >= 0 && value < 1e30 ? value : NAN; }

static double number(const json_t *row, const char *name) { return plausible(sm_json_number(row, name)); }

static void fill(const json_t *row, sm_report_row *r) {
    const double tokens = number(row, "median_ts") * number(row, "median_ns");
    const double lo_ns = number(row, "ci95_lo_ns");
    const double hi_ns = number(row, "ci95_hi_ns");
    const bool has_interval = isfinite(lo_ns) && isfinite(hi_ns);
    r->json = row;
    r->host = sm_rows_text(row, "context.host");
    r->is_usable = sm_row_is_usable(row);
    r->tokens_per_s = number(row, "median_ts");
    r->tokens_lo = plausible(tokens / (has_interval ? hi_ns : number(row, "q3_ns")));
    r->tokens_hi = plausible(tokens / (has_interval ? lo_ns : number(row, "q1_ns")));
    if (!r->is_usable || !(r->tokens_per_s > 0)) {
        snprintf(r->doubt, sizeof(r->doubt), "no figures");
    } else if (sm_rows_own_code(row)[0] != '\0') {
        snprintf(r->doubt, sizeof(r->doubt), "own code: kernels or a backend of the user's own ran");
    } else if (!sm_doubt_row(row, r->doubt)) {
        r->doubt[0] = '\0';
    }
}

void sm_report_rows_make(const json_t *rows, sm_report_rows *report) {
    models m;
    const size_t n = json_array_size(rows);
    *report = (sm_report_rows){.rows = sm_calloc(n + 1, sizeof(*report->rows)), .n = n};
    find_models(rows, &m);
    for (size_t i = 0; i < n; i++) {
        fill(json_array_get(rows, i), &report->rows[i]);
        report->rows[i].index = (int)i;
        name_work(&m, &report->rows[i]);
    }
    name_machines(report);
    for (size_t i = 0; i < n; i++) {
        name_device(report, &report->rows[i]);
    }
}

void sm_report_rows_free(sm_report_rows *report) {
    free(report->rows);
    *report = (sm_report_rows){.rows = NULL};
}
