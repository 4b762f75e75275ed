// scaling_page.c: three pictures (speed-up, efficiency, a step's parts), the tables, the notes.
#include "scaling_page.h"

#include "report_doc.h"
#include "report_plot.h"
#include "show.h"

#include <math.h>
#include <string.h>

enum { SPEEDUP, EFFICIENCY, PARTS };

// --- data of a picture -------------------------------------------------------------------------

typedef struct {
    const sm_scaling *scaling;
    FILE *script;
} drawing;

static bool is_of(const sm_scaling_row *r, sm_work work, bool is_predicted) {
    return r->work == work && r->is_predicted == is_predicted;
}

// Rows of one kind as lines "processes speed-up half efficiency half". How many there are is returned.
static int put_rows(const drawing *d, const char *name, sm_work work, bool is_predicted) {
    int n = 0;
    fprintf(d->script, "$%s << EOD\n", name);
    for (size_t i = 0; i < d->scaling->n; i++) {
        const sm_scaling_row *r = &d->scaling->rows[i];
        if (is_of(r, work, is_predicted)) {
            double half = isfinite(r->speedup_half) ? r->speedup_half : 0;
            fprintf(d->script, "%.0f %.9g %.9g %.9g %.9g\n", r->n_processes, r->speedup, half, r->efficiency,
                    half / r->n_processes);
            n++;
        }
    }
    fputs("EOD\n", d->script);
    return n;
}

static void put_published(const drawing *d) {
    fputs("$published << EOD\n", d->script);
    for (double n = 1; n <= 4; n *= 2) {
        const sm_published_scaling *p = sm_scaling_published(n);
        double speedup = p->tokens_per_s / sm_scaling_published(1)->tokens_per_s;
        fprintf(d->script, "%.0f %.9g 0 %.9g 0\n", n, speedup, speedup / n);
    }
    fputs("EOD\n", d->script);
}

static double most_processes(const sm_scaling *scaling) {
    double most = 4; // the published ones
    for (size_t i = 0; i < scaling->n; i++) {
        most = fmax(most, scaling->rows[i].n_processes);
    }
    return most;
}

// --- speed-up and efficiency -------------------------------------------------------------------

typedef struct {
    const char *name;
    const char *title;
    sm_work work;
    bool is_predicted;
    int n;
} series;

static void put_lines(const drawing *d, const series *all, int n_series, int column) {
    for (int k = 0; k < n_series; k++) {
        if (all[k].n > 0) {
            const int number = all[k].work == SM_WORK_FIXED ? 0 : 2;
            fprintf(d->script, "$%s using 1:%d:%d with ", all[k].name, column, column + 1);
            if (all[k].is_predicted) {
                fprintf(d->script, "yerrorbars lc rgb '#0a00%02x' pt 6 ps 0.8", number + 1);
            } else {
                fputs("yerrorlines", d->script);
                sm_plot_style(d->script, number);
            }
            fprintf(d->script, " title '%s', ", all[k].title);
        }
    }
    fprintf(d->script, "$published using 1:%d with linespoints", column);
    sm_plot_style(d->script, 1);
    fputs(" title 'published: V100s, strong'\n", d->script);
}

// `column`: 2 the speed-up, 4 the efficiency.
static void add_curves(const sm_scaling *scaling, sm_plots *plots, int kind, int column) {
    series all[] = {
        {"strong", "strong, measured", SM_WORK_FIXED, false, 0},
        {"strong_predicted", "strong, predicted", SM_WORK_FIXED, true, 0},
        {"weak", "weak, measured", SM_WORK_FIXED_A_PROCESS, false, 0},
        {"weak_predicted", "weak, predicted", SM_WORK_FIXED_A_PROCESS, true, 0},
    };
    const drawing d = {scaling, plots->script};
    for (int k = 0; k < 4; k++) {
        all[k].n = put_rows(&d, all[k].name, all[k].work, all[k].is_predicted);
    }
    put_published(&d);
    sm_plot *plot = sm_plots_begin(plots, kind, 430, kind == SPEEDUP ? "Speed-up" : "Efficiency");
    if (plot == NULL) {
        return;
    }
    snprintf(plot->caption, sizeof(plot->caption),
             "%s Bars: 95%% intervals. Hollow points are the model's, not "
             "measured.",
             kind == SPEEDUP ? "Tokens per second over those of the fewest processes; the grey line is ideal."
                             : "Speed-up / processes; 1 is ideal.");
    fprintf(d.script, "set logscale x 2\nset xrange [0.8:%.9g]\nset xlabel 'processes'\n",
            1.25 * most_processes(scaling));
    fputs(kind == SPEEDUP ? "set logscale y 2\nset ylabel 'speed-up'\nset format y '%.7g'\nplot x with lines lc rgb "
                            "'#020202' title 'ideal', "
                          : "set yrange [0:1.2]\nset ylabel 'efficiency'\nplot 1 with lines lc rgb '#020202' title "
                            "'ideal', ",
          d.script);
    put_lines(&d, all, 4, column);
}

// --- a step's parts ----------------------------------------------------------------------------

// Stacked bars of the model's parts, and what was measured on top, for the kind that has more rows.
static void add_parts(const sm_scaling *scaling, sm_plots *plots) {
    int n_of[2] = {0, 0};
    for (size_t i = 0; i < scaling->n; i++) {
        n_of[scaling->rows[i].work == SM_WORK_FIXED]++;
    }
    const sm_work work = n_of[1] > 1 ? SM_WORK_FIXED : SM_WORK_FIXED_A_PROCESS;
    sm_plot *plot = sm_plots_begin(plots, PARTS, 380, "Where a step's time goes");
    if (plot == NULL) {
        return;
    }
    snprintf(plot->caption, sizeof(plot->caption),
             "%s scaling: the model's parts of a step, and the steps that were measured (crosses).",
             work == SM_WORK_FIXED ? "Strong" : "Weak");
    FILE *script = plots->script;
    fputs("$parts << EOD\n", script);
    for (size_t i = 0; i < scaling->n; i++) {
        const sm_scaling_row *r = &scaling->rows[i];
        if (r->work == work) {
            fprintf(script, "\"%.0f\" %.9g %.9g %.9g %.9g\n", r->n_processes, 1e3 * r->model.compute_s,
                    1e3 * r->model.serial_s, 1e3 * r->model.comm_s, r->is_predicted ? NAN : 1e3 * r->step_s);
        }
    }
    fputs("EOD\nset style data histograms\nset style histogram rowstacked\nset boxwidth 0.7\nset yrange [0:*]\n"
          "set xlabel 'processes'\nset ylabel 'ms'\n"
          "plot $parts using 2:xtic(1) lc rgb '#0a0001' title 'compute', '' using 3 lc rgb '#0a0005' title 'serial', "
          "'' using 4 lc rgb '#0a0002' title 'exposed communication', "
          "'' using 0:5 with points pt 2 ps 1.1 lc rgb '#010101' title 'measured'\n",
          script);
}

// --- the page ----------------------------------------------------------------------------------

static sm_status draw(const sm_scaling *scaling, sm_doc *doc) {
    sm_plots plots;
    sm_status status = SM_OK;
    SM_TRY_GOTO(sm_plots_open(&plots));
    add_curves(scaling, &plots, SPEEDUP, 2);
    add_curves(scaling, &plots, EFFICIENCY, 4);
    add_parts(scaling, &plots);
    SM_TRY_GOTO(sm_plots_draw(&plots));
    fputs("<div class=\"figures\">\n", doc->out);
    for (int i = 0; i < plots.n; i++) {
        sm_doc_figure(doc, plots.plots[i].svg, plots.plots[i].caption);
    }
    fputs("</div>\n", doc->out);
cleanup:
    sm_plots_free(&plots);
    return status;
}

static void write_cell(sm_doc *doc, const sm_column *column, const json_t *record) {
    char text[SM_CELL_SIZE] = "";
    (column->show != NULL ? column->show : sm_show_by_type(column->type))(record, column, text, sizeof(text));
    sm_doc_cell(doc, "%s", text);
}

// The columns that the text has, too.
static sm_status write_table(const sm_scaling *scaling, sm_doc *doc, sm_work work, const char *title) {
    json_t *records = NULL;
    size_t i;
    json_t *record;
    char headings[1024] = "";
    SM_TRY(sm_scaling_records(scaling, &work, &records));
    for (int c = 0; c < sm_scaling_table.n_columns; c++) {
        const sm_column *column = &sm_scaling_table.columns[c];
        size_t used = strlen(headings);
        if (column->heading != NULL) {
            snprintf(headings + used, sizeof(headings) - used, "%s%s%s", used > 0 ? "|" : "",
                     column->type == SM_COLUMN_TEXT ? "" : "#", column->heading);
        }
    }
    sm_doc_heading(doc, work == SM_WORK_FIXED ? "strong" : "weak", title);
    sm_doc_table_begin(doc, headings, NULL);
    json_array_foreach(records, i, record) {
        sm_doc_row_begin(doc);
        for (int c = 0; c < sm_scaling_table.n_columns; c++) {
            if (sm_scaling_table.columns[c].heading != NULL) {
                write_cell(doc, &sm_scaling_table.columns[c], record);
            }
        }
        sm_doc_row_end(doc);
    }
    sm_doc_table_end(doc, false);
    json_decref(records);
    return SM_OK;
}

sm_status sm_scaling_page(const sm_scaling *scaling, FILE *out, bool *has_pictures) {
    sm_doc doc = {.out = out, .html = true};
    sm_doc_begin(&doc, "Scaling of a training");
    sm_status status = draw(scaling, &doc);
    *has_pictures = status == SM_OK;
    if (status == SM_ERR_UNSUPPORTED) {
        sm_doc_text(&doc, "%s", sm_error_message());
        status = SM_OK;
    }
    SM_TRY(status);
    SM_TRY(write_table(scaling, &doc, SM_WORK_FIXED, "Strong scaling: the same work, shared by more processes"));
    SM_TRY(write_table(scaling, &doc, SM_WORK_FIXED_A_PROCESS, "Weak scaling: the same work for each process"));
    sm_doc_heading(&doc, "reading", "How to read this");
    sm_doc_items_begin(&doc);
    for (size_t i = 0; i < json_array_size(scaling->notes); i++) {
        sm_doc_item(&doc, "%s", json_string_value(json_array_get(scaling->notes, i)));
    }
    sm_doc_items_end(&doc);
    sm_doc_end(&doc);
    return SM_OK;
}
