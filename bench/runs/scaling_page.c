// scaling_page.c: three charts (speed-up, efficiency, a step's parts), the tables, the notes.
#include "bench/runs/scaling_page.h"

#include "bench/pages/doc.h"
#include "bench/pages/figure.h"

#include <math.h>
#include <string.h>

enum { MEASURED = 0, PREDICTED = 1 };

// --- speed-up and efficiency -------------------------------------------------------------------

typedef struct {
    const char *id;
    const char *title;
    const char *caption;
    const char *label;
    bool is_efficiency;
} curves;

static const curves all_curves[] = {
    {"speedup", "Speed-up",
     "Tokens per second over those of the fewest processes; the dashed line is ideal. Bars: 95% intervals. Hollow "
     "points "
     "are the model's, not measured.",
     "speed-up", false},
    {"efficiency", "Efficiency",
     "Speed-up / processes; 1 is ideal. Bars: 95% intervals. Hollow points are the model's, not measured.",
     "efficiency", true},
};

// "strong, measured": a line; "strong, predicted": separate, hollow points.
static int series_of(sm_figures *figures, json_t *figure, sm_work work, bool is_predicted) {
    char name[64];
    snprintf(name, sizeof(name), "%s, %s", work == SM_WORK_FIXED ? "strong" : "weak",
             is_predicted ? "predicted" : "measured");
    int series = sm_figure_series(figures, figure, name, work == SM_WORK_FIXED ? 1 : 3, work == SM_WORK_FIXED ? 0 : 1);
    if (is_predicted) {
        json_t *entry = json_array_get(json_object_get(figure, "series"), (size_t)series);
        sm_figure_set(figures, entry, "is_hollow", json_true());
        sm_figure_set(figures, entry, "is_loose", json_true());
    }
    return series;
}

static void add_point(sm_figures *figures, json_t *panel, int series, const sm_scaling_row *r, bool is_efficiency) {
    double scale = is_efficiency ? 1 / r->n_processes : 1;
    double half = isfinite(r->speedup_half) ? r->speedup_half * scale : 0;
    double value = r->speedup * scale;
    const sm_figure_point point = {r->n_processes, value, value - half, value + half, SM_NO_ROW};
    sm_figure_add_point(figures, panel, series, &point);
}

static void add_published(sm_figures *figures, json_t *figure, json_t *panel, bool is_efficiency) {
    int series = sm_figure_series(figures, figure, "published: V100s, strong", 2, 2);
    for (double n = 1; n <= 4; n *= 2) {
        double speedup = sm_scaling_published(n)->tokens_per_s / sm_scaling_published(1)->tokens_per_s;
        const sm_figure_point point = {n, is_efficiency ? speedup / n : speedup, NAN, NAN, SM_NO_ROW};
        sm_figure_add_point(figures, panel, series, &point);
    }
}

static double most_processes(const sm_scaling *scaling) {
    double most = 4; // of the published ones
    for (size_t i = 0; i < scaling->n; i++) {
        most = fmax(most, scaling->rows[i].n_processes);
    }
    return most;
}

static void add_curves(const sm_scaling *scaling, sm_figures *figures, const curves *c) {
    json_t *figure = sm_figure_add(figures, "lines", c->id, c->title, c->caption);
    sm_figure_axis(figures, figure, "x", "processes", "log2");
    json_t *y = sm_figure_axis(figures, figure, "y", c->label, c->is_efficiency ? "linear" : "log2");
    sm_figure_set(figures, y, "from_zero", json_true());
    json_t *panel = sm_figure_panel(figures, figure, "");
    for (int predicted = MEASURED; predicted <= PREDICTED; predicted++) {
        for (size_t i = 0; i < scaling->n; i++) {
            const sm_scaling_row *r = &scaling->rows[i];
            if (r->is_predicted == (predicted == PREDICTED)) {
                add_point(figures, panel, series_of(figures, figure, r->work, r->is_predicted), r, c->is_efficiency);
            }
        }
    }
    add_published(figures, figure, panel, c->is_efficiency);
    double most = most_processes(scaling);
    sm_figure_set(figures, panel, "ideal",
                  json_pack("[[f, f], [f, f]]", 1.0, 1.0, most, c->is_efficiency ? 1.0 : most));
}

// --- a step's parts ----------------------------------------------------------------------------

// Stacked bars of the model's parts, and the measured times as a line, for the kind with more rows.
static void add_parts(const sm_scaling *scaling, sm_figures *figures) {
    static const char *const parts[] = {"compute", "serial", "exposed communication"};
    static const int colours[] = {1, 5, 2};
    int n_of[2] = {0, 0};
    for (size_t i = 0; i < scaling->n; i++) {
        n_of[scaling->rows[i].work == SM_WORK_FIXED]++;
    }
    const sm_work work = n_of[1] > 1 ? SM_WORK_FIXED : SM_WORK_FIXED_A_PROCESS;
    json_t *figure = sm_figure_add(figures, "stacks", "parts", "Where a step's time goes",
                                   work == SM_WORK_FIXED
                                       ? "Strong scaling: the model's parts of a step; lines: steps that were measured."
                                       : "Weak scaling: the model's parts of a step; lines: steps that were measured.");
    json_t *x = sm_figure_axis(figures, figure, "x", "ms", "linear");
    sm_figure_set(figures, x, "unit", json_string("ms"));
    sm_figure_set(figures, figure, "mark_name", json_string("measured"));
    json_t *panel = sm_figure_panel(figures, figure, "");
    for (int k = 0; k < 3; k++) {
        sm_figure_series(figures, figure, parts[k], colours[k], 0);
    }
    for (size_t i = 0; i < scaling->n; i++) {
        const sm_scaling_row *r = &scaling->rows[i];
        if (r->work == work) {
            sm_figure_append(
                figures, panel, "bars",
                json_pack("{s:o, s:i, s:[f, f, f], s:o, s:n}", "name",
                          json_sprintf("%.0f %s", r->n_processes, r->n_processes > 1 ? "processes" : "process"),
                          "colour", SM_NO_COLOUR, "parts", 1e3 * r->model.compute_s, 1e3 * r->model.serial_s,
                          1e3 * r->model.comm_s, "mark", sm_json_real(r->is_predicted ? NAN : 1e3 * r->step_s), "row"));
        }
    }
    sm_figure_close(figures, figure, "bars", 1);
}

// --- the page ----------------------------------------------------------------------------------

static sm_status draw(const sm_scaling *scaling, sm_doc *doc) {
    sm_figures figures;
    SM_TRY(sm_figures_open(&figures));
    for (size_t k = 0; k < sizeof(all_curves) / sizeof(all_curves[0]); k++) {
        add_curves(scaling, &figures, &all_curves[k]);
    }
    add_parts(scaling, &figures);
    sm_doc_figures(doc, &figures, 0);
    sm_status status = sm_figures_write(&figures, doc->out);
    sm_figures_free(&figures);
    return status;
}

// The same columns as in text.
static sm_status write_table(const sm_scaling *scaling, sm_doc *doc, sm_work work, const char *title) {
    json_t *records = NULL;
    SM_TRY(sm_scaling_records(scaling, &work, &records));
    sm_doc_heading(doc, work == SM_WORK_FIXED ? "strong" : "weak", title);
    const char *id = work == SM_WORK_FIXED ? "strong-table" : "weak-table";
    sm_status status = sm_doc_records(doc, id, &sm_scaling_table, records);
    json_decref(records);
    return status;
}

sm_status sm_scaling_page(const sm_scaling *scaling, FILE *out) {
    sm_doc doc = {.out = out, .html = true};
    sm_doc_begin(&doc, "Scaling of a training");
    SM_TRY(scaling->has_verdict ? draw(scaling, &doc) : SM_OK);
    SM_TRY(write_table(scaling, &doc, SM_WORK_FIXED, "Strong scaling: the same work, shared by more processes"));
    SM_TRY(write_table(scaling, &doc, SM_WORK_FIXED_A_PROCESS, "Weak scaling: the same work for each process"));
    sm_doc_heading(&doc, "reading", "How to read this");
    sm_doc_items_begin(&doc);
    for (size_t i = 0; i < json_array_size(scaling->notes); i++) {
        sm_doc_item(&doc, "%s", json_string_value(json_array_get(scaling->notes, i)));
    }
    sm_doc_items_end(&doc);
    sm_doc_end(&doc, NULL);
    return SM_OK;
}
