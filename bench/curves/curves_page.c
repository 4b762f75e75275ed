// curves_page.c: the page of trainings. Their curves lie over each other; a picture holds a few hundred points of each,
// means of equally many steps.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/curves/curves.h"
#include "bench/curves/watch.h"
#include "bench/pages/doc.h"
#include "bench/tables/json_values.h"
#include "bench/tables/show.h"

enum { MOST_POINTS = 240 };

// --- one picture -------------------------------------------------------------------------------

typedef enum { BY_STEP, BY_TOKENS, BY_TIME } abscissa;
typedef enum { LOSS, NORM, RATE, SPEED } ordinate;

typedef struct {
    const char *id, *title, *caption;
    const char *alone; // the title for a single training; NULL: the same
    abscissa x;
    ordinate y;
} picture;

static const picture pictures[] = {
    {"loss", "Is it still learning?",
     "Loss by step. Thin: of the training's own batches, means of neighbouring steps. With marks: validation.", NULL,
     BY_STEP, LOSS},
    {"loss-tokens", "Which learns most from a token?", "The same by tokens read.", "Loss by tokens", BY_TOKENS, LOSS},
    {"loss-time", "Which learns most in an hour?", "The same by time: steps, validations and checkpoints.",
     "Loss by time", BY_TIME, LOSS},
    {"norm", "Is it stable?", "Norm of the gradient before clipping, by step.", NULL, BY_STEP, NORM},
    {"rate", "What was the learning rate?", "Learning rate by step.", NULL, BY_STEP, RATE},
    {"speed", "How fast is it?", "Tokens per second by step, validations and checkpoints left out.", NULL, BY_STEP,
     SPEED},
};

static const char *label_of(const picture *p) {
    static const char *const labels[] = {"loss", "norm", "learning rate", "tokens/s"};
    return labels[p->y];
}

static double x_of(const sm_curve *c, size_t i, abscissa x) {
    return x == BY_STEP ? (double)c->log.steps[i].step : x == BY_TOKENS ? c->tokens[i] : c->time_s[i];
}

static double y_of(const sm_logged_step *s, ordinate y) {
    switch (y) {
    case LOSS: return s->loss;
    case NORM: return s->grad_norm;
    case RATE: return s->lr;
    case SPEED: return s->time_s > 0 ? (double)s->tokens / s->time_s : NAN;
    }
    return NAN;
}

static void add_steps(const sm_curve *c, const picture *p, sm_figures *figures, json_t *panel, int series) {
    const size_t n = c->log.n_steps;
    const size_t width = (n + MOST_POINTS - 1) / MOST_POINTS;
    for (size_t first = 0; first < n; first += width) {
        const size_t end = first + width < n ? first + width : n;
        double sum = 0;
        int n_found = 0;
        for (size_t i = first; i < end; i++) {
            const double y = y_of(&c->log.steps[i], p->y);
            sum += isfinite(y) ? y : 0;
            n_found += isfinite(y);
        }
        const sm_figure_point point = {x_of(c, end - 1, p->x), n_found > 0 ? sum / n_found : NAN, NAN, NAN, SM_NO_ROW};
        sm_figure_add_point(figures, panel, series, &point);
    }
}

static void add_validations(const sm_curve *c, const picture *p, sm_figures *figures, json_t *panel, int series) {
    for (size_t i = 0; i < c->log.n_validations; i++) {
        const sm_logged_pause *v = &c->log.validations[i];
        const sm_figure_point point = {x_of(c, sm_curve_at(c, v->step), p->x), v->loss, NAN, NAN, SM_NO_ROW};
        sm_figure_add_point(figures, panel, series, &point);
    }
}

static int thin_series(sm_figures *figures, json_t *figure, const char *name, int colour) {
    const int series = sm_figure_series(figures, figure, name, colour, 0);
    sm_figure_set(figures, json_array_get(json_object_get(figure, "series"), (size_t)series), "is_thin", json_true());
    return series;
}

static void draw(const sm_curves *curves, const picture *p, sm_figures *figures) {
    static const char *const labels[] = {"step", "tokens", "seconds"};
    json_t *figure =
        sm_figure_add(figures, "lines", p->id, curves->n == 1 && p->alone != NULL ? p->alone : p->title, p->caption);
    sm_figure_axis(figures, figure, "x", labels[p->x], "linear");
    json_t *y = sm_figure_axis(figures, figure, "y", label_of(p), p->y == NORM ? "auto" : "linear");
    if (p->y == RATE || p->y == SPEED) {
        sm_figure_set(figures, y, "from_zero", json_true());
    }
    json_t *panel = sm_figure_panel(figures, figure, "");
    for (size_t k = 0; k < curves->n; k++) {
        const sm_curve *c = &curves->curves[k];
        char name[256];
        add_steps(c, p, figures, panel, thin_series(figures, figure, c->name, (int)k + 1));
        snprintf(name, sizeof(name), "%s, validation", c->name);
        if (p->y == LOSS && c->log.n_validations > 0) {
            add_validations(c, p, figures, panel, sm_figure_series(figures, figure, name, (int)k + 1, (int)k));
        }
    }
    sm_figure_close(figures, figure, "series", 2);
}

static void draw_phases(const sm_curves *curves, sm_figures *figures) {
    static const char *const parts[] = {"compute", "waiting for data", "communication", "validation", "checkpoints"};
    static const int colours[] = {1, 5, 2, 3, 4};
    json_t *figure = sm_figure_add(figures, "stacks", "phases", "Where does the time go?",
                                   "Seconds of the whole training, start and end left out.");
    json_t *x = sm_figure_axis(figures, figure, "x", "seconds", "linear");
    sm_figure_set(figures, x, "unit", json_string("s"));
    json_t *panel = sm_figure_panel(figures, figure, "");
    for (int k = 0; k < 5; k++) {
        sm_figure_series(figures, figure, parts[k], colours[k], 0);
    }
    for (size_t k = 0; k < curves->n; k++) {
        const sm_training_log *log = &curves->curves[k].log;
        double sums[5] = {0};
        for (size_t i = 0; i < log->n_steps; i++) {
            const sm_logged_step *s = &log->steps[i];
            sums[0] += s->time_s - s->data_s - s->comm_s;
            sums[1] += s->data_s;
            sums[2] += s->comm_s;
        }
        for (size_t i = 0; i < log->n_validations; i++) {
            sums[3] += log->validations[i].time_s;
        }
        for (size_t i = 0; i < log->n_checkpoints; i++) {
            sums[4] += log->checkpoints[i].time_s;
        }
        sm_figure_append(figures, panel, "bars",
                         json_pack("{s:o, s:i, s:[f, f, f, f, f], s:n, s:n}", "name",
                                   sm_json_bytes(curves->curves[k].name), "colour", (int)k + 1, "parts", sums[0],
                                   sums[1], sums[2], sums[3], sums[4], "mark", "row"));
    }
    sm_figure_close(figures, figure, "bars", 1);
}

// --- the answer --------------------------------------------------------------------------------

static void text_progress(const sm_curve *c, char *text, size_t size_bytes) {
    const sm_logged_step *last = &c->log.steps[c->log.n_steps - 1];
    const int64_t n_steps = sm_curve_n_steps(c);
    if (n_steps > 0) {
        snprintf(text, size_bytes, "%lld of %lld steps", (long long)last->step, (long long)n_steps);
    } else {
        snprintf(text, size_bytes, "%lld steps", (long long)last->step);
    }
}

static void write_alone(sm_doc *doc, const sm_curve *c) {
    const sm_training_log *log = &c->log;
    const sm_logged_pause *best = sm_curve_best(c);
    const sm_logged_pause *last = log->n_validations > 0 ? &log->validations[log->n_validations - 1] : NULL;
    char progress[64];
    text_progress(c, progress, sizeof(progress));
    if (best == NULL) {
        sm_doc_text(doc,
                    "%s, %s: the loss went from %.4f to %.4f in %s. There is no validation: whether the model knows "
                    "new text better is not said.",
                    c->name, sm_curve_state(c), log->steps[0].loss, log->steps[log->n_steps - 1].loss, progress);
        return;
    }
    if (best != last && last->loss > best->loss) {
        sm_doc_text(doc, "%s, %s: the validation loss fell to %.4f at step %lld, and stands at %.4f after %s.", c->name,
                    sm_curve_state(c), best->loss, (long long)best->step, last->loss, progress);
        return;
    }
    sm_doc_text(
        doc, "%s, %s: the validation loss has fallen to %.4f after %s, a perplexity of %.4g; it is the lowest so far.",
        c->name, sm_curve_state(c), best->loss, progress, exp(best->loss));
}

static void write_winner(sm_doc *doc, const sm_curves *curves) {
    const sm_curve *first = NULL;
    const sm_curve *second = NULL;
    for (size_t k = 0; k < curves->n; k++) {
        const sm_curve *c = &curves->curves[k];
        const sm_logged_pause *best = sm_curve_best(c);
        if (best == NULL) {
            continue;
        }
        if (first == NULL || best->loss < sm_curve_best(first)->loss) {
            second = first;
            first = c;
        } else if (second == NULL || best->loss < sm_curve_best(second)->loss) {
            second = c;
        }
    }
    if (second == NULL) {
        sm_doc_text(doc, "%zu trainings, of which %s has a validation: nothing tells which is best.", curves->n,
                    first != NULL ? "one" : "none");
        return;
    }
    sm_doc_text(
        doc,
        "%s has the lowest validation loss: %.4f at step %lld, %.1f%% below that of %s (%.4f). One run of each: "
        "another --seed may well move a loss by a percent.",
        first->name, sm_curve_best(first)->loss, (long long)sm_curve_best(first)->step,
        100 * (1 - sm_curve_best(first)->loss / sm_curve_best(second)->loss), second->name,
        sm_curve_best(second)->loss);
}

static void write_warnings(sm_doc *doc, const sm_curve *c) {
    sm_run_watch watch = {.n_steps = 0};
    char text[SM_WATCH_TEXT_SIZE];
    size_t next = 0;
    for (size_t i = 0; i < c->log.n_steps; i++) {
        const sm_logged_step *s = &c->log.steps[i];
        if (sm_run_watch_step(&watch, s->step, s->loss, s->grad_norm, text)) {
            sm_doc_item(doc, "%s: %s.", c->name, text);
        }
        for (; next < c->log.n_validations && c->log.validations[next].step <= s->step; next++) {
            if (sm_run_watch_validation(&watch, s->step, c->log.validations[next].loss, text)) {
                sm_doc_item(doc, "%s: %s.", c->name, text);
            }
        }
    }
}

// --- tables ------------------------------------------------------------------------------------

static void write_runs(sm_doc *doc, const sm_curves *curves) {
    sm_doc_table_begin(doc, "run|state|#steps|#tokens|#best validation|#at step|#last validation|#last loss|#seconds|"
                            "#tokens/s|operations checked|#checkpoints");
    for (size_t k = 0; k < curves->n; k++) {
        const sm_curve *c = &curves->curves[k];
        const sm_training_log *log = &c->log;
        const sm_logged_pause *best = sm_curve_best(c);
        const size_t last = log->n_steps - 1;
        long long checked_ops = 0;
        for (size_t i = 0; i < log->n_steps; i++) {
            checked_ops += log->steps[i].checked_ops;
        }
        sm_doc_row_begin(doc);
        sm_doc_cell(doc, "%s", c->name);
        sm_doc_cell(doc, "%s", sm_curve_state(c));
        sm_doc_number(doc, (double)log->steps[last].step, 0, "");
        sm_doc_number(doc, c->tokens[last], 0, "");
        sm_doc_number(doc, best != NULL ? best->loss : NAN, 4, "");
        sm_doc_number(doc, best != NULL ? (double)best->step : NAN, 0, "");
        sm_doc_number(doc, best != NULL ? log->validations[log->n_validations - 1].loss : NAN, 4, "");
        sm_doc_number(doc, log->steps[last].loss, 4, "");
        sm_doc_number(doc, c->time_s[last], 1, "");
        sm_doc_number(doc, c->tokens[last] / c->time_s[last], 0, "");
        sm_doc_cell(doc, checked_ops > 0 ? "%lld" : "unchecked", checked_ops);
        sm_doc_number(doc, (double)log->n_checkpoints, 0, "");
        sm_doc_row_end(doc);
    }
    sm_doc_table_end(doc);
}

static char *text_of(const json_t *value) {
    return value != NULL ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
}

// A row for each setting in which they differ; of one run for each setting.
static void write_setting(sm_doc *doc, const sm_curves *curves, const char *name, const char *path) {
    char *texts[SM_DOC_MAX_COLUMNS] = {NULL};
    const size_t n = curves->n < SM_DOC_MAX_COLUMNS - 1 ? curves->n : SM_DOC_MAX_COLUMNS - 1;
    bool differs = curves->n == 1;
    for (size_t k = 0; k < n; k++) {
        texts[k] = text_of(sm_json_get(curves->curves[k].run, path));
        differs |= k > 0 && strcmp(texts[k] != NULL ? texts[k] : "", texts[0] != NULL ? texts[0] : "") != 0;
    }
    if (differs && !(curves->n == 1 && texts[0] == NULL)) {
        sm_doc_row_begin(doc);
        sm_doc_cell(doc, "%s", name);
        for (size_t k = 0; k < n; k++) {
            sm_doc_cell(doc, "%s", texts[k] != NULL ? texts[k] : "");
        }
        sm_doc_row_end(doc);
    }
    for (size_t k = 0; k < n; k++) {
        free(texts[k]);
    }
}

static void write_settings(sm_doc *doc, const sm_curves *curves) {
    static const char *const groups[] = {"", "model.", "optimizer.", "schedule.", "engine.", "data.", "val_data."};
    char headings[2048] = "setting";
    for (size_t k = 0; k < curves->n && k < SM_DOC_MAX_COLUMNS - 1; k++) {
        const size_t used = strlen(headings);
        snprintf(headings + used, sizeof(headings) - used, "|%.60s", curves->curves[k].name);
    }
    sm_doc_table_begin(doc, headings);
    for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
        char within[64];
        snprintf(within, sizeof(within), "configuration%s%.*s", groups[g][0] != '\0' ? "." : "",
                 (int)(strlen(groups[g]) > 0 ? strlen(groups[g]) - 1 : 0), groups[g]);
        const char *name;
        json_t *value;
        json_object_foreach(sm_json_get(curves->curves[0].run, within), name, value) {
            char path[192];
            snprintf(path, sizeof(path), "%s.%.60s", within, name);
            if (!json_is_object(value)) {
                write_setting(doc, curves, path + strlen("configuration."), path);
            }
        }
    }
    sm_doc_table_end(doc);
}

static void write_samples(sm_doc *doc, const sm_curve *c) {
    for (size_t i = 0; i < c->log.n_samples; i++) {
        sm_doc_item(doc, "%s, step %lld: %s", c->name, (long long)c->log.samples[i].step, c->log.samples[i].text);
    }
}

// --- the page ----------------------------------------------------------------------------------

static void write_list(sm_doc *doc, const sm_curves *curves, void (*write)(sm_doc *, const sm_curve *)) {
    sm_doc_items_begin(doc);
    for (size_t k = 0; k < curves->n; k++) {
        write(doc, &curves->curves[k]);
    }
    sm_doc_items_end(doc);
}

static void write_pictures(sm_doc *doc, const sm_curves *curves, sm_figures *figures) {
    if (!doc->html) {
        return;
    }
    for (size_t i = 0; i < sizeof(pictures) / sizeof(pictures[0]); i++) {
        draw(curves, &pictures[i], figures);
    }
    draw_phases(curves, figures);
    sm_doc_figures(doc, figures, 0);
}

sm_status sm_curves_page(const sm_curves *curves, bool html, FILE *out) {
    sm_doc doc = {.out = out, .html = html};
    sm_figures figures;
    size_t n_samples = 0;
    bool has_run = false;
    for (size_t k = 0; k < curves->n; k++) {
        n_samples += curves->curves[k].log.n_samples;
        has_run |= curves->curves[k].run != NULL;
    }
    SM_TRY(sm_figures_open(&figures));
    sm_doc_begin(&doc, curves->n == 1 ? "A training" : "Trainings");
    if (curves->n == 1) {
        write_alone(&doc, &curves->curves[0]);
    } else {
        write_winner(&doc, curves);
    }
    write_list(&doc, curves, write_warnings);
    write_pictures(&doc, curves, &figures);
    sm_doc_heading(&doc, "runs", "Runs");
    write_runs(&doc, curves);
    if (n_samples > 0) {
        sm_doc_heading(&doc, "samples", "Samples");
        write_list(&doc, curves, write_samples);
    }
    if (has_run) {
        sm_doc_heading(&doc, "settings", curves->n == 1 ? "Settings" : "Settings that differ");
        write_settings(&doc, curves);
    }
    const sm_status status = html ? sm_figures_write(&figures, out) : SM_OK;
    sm_doc_end(&doc, NULL);
    sm_figures_free(&figures);
    return status;
}
