// leaderboard_page.c: see leaderboard_page.h.
#include "bench/report/leaderboard_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/compare/leaderboard.h"
#include "bench/pages/doc.h"
#include "bench/rows/read_rows.h"
#include "bench/tables/show.h"

enum { TEXT_SIZE = 256, MAX_WORKS = 12, MAX_PLACES = 20 }; // panels of a chart, machines in each

static const char *const scripts[] = {"leaderboard_view.js", NULL};

// A measure for comparing machines.
typedef struct {
    const char *id;
    const char *title;
    const char *caption;
    const char *label;
    const char *field;
    const char *lo, *hi; // NULL: no interval
    double scale;
} measure;

static const measure measures[] = {
    {"rate", "Tokens per second", "The fastest checked row of each device; bars: 95% interval of the median step.",
     "tokens per second", "median_ts", "lo_ts", "hi_ts", 1},
    {"watt", "Tokens per second a watt", "Where the device tells its energy.", "tokens per joule", "tokens_per_joule",
     NULL, NULL, 1},
    {"gib", "Tokens per second a GiB", "Of the memory that the row took.", "tokens per second and GiB",
     "tokens_per_s_gib", NULL, NULL, 1},
    {"peak", "Share of the device's own peak",
     "Floating-point work against the peak that was measured on the same device.", "% of peak", "mfu", NULL, NULL, 100},
};

// "small, 512 tokens, bf16, step"
static void name_work(const json_t *record, char *text, size_t size_bytes) {
    const char *optimizer = sm_rows_text(record, "optimizer");
    const char *own_code = sm_rows_own_code(record);
    snprintf(text, size_bytes, "%.60s, %.0f tokens, %.30s, %.40s%s%.40s%s%s", sm_rows_text(record, "model"),
             sm_json_number(record, "n_seq"), sm_rows_text(record, "precision"), sm_rows_text(record, "pass_type"),
             optimizer[0] != '\0' ? ", " : "", optimizer, own_code[0] != '\0' ? ", " : "", own_code);
}

static bool same_text(const json_t *a, const json_t *b, const char *field) {
    return strcmp(sm_rows_text(a, field), sm_rows_text(b, field)) == 0;
}

static bool same_machine(const json_t *a, const json_t *b) {
    return sm_leaderboard_is_reference(a) == sm_leaderboard_is_reference(b) && same_text(a, b, "machine") &&
           same_text(a, b, "host");
}

// "AMD EPYC 7763 (host)", and ", cpu" where records of it name several devices: one name a device.
static void name_machine(const json_t *records, const json_t *record, char *text, size_t size_bytes) {
    const char *host = sm_leaderboard_is_reference(record) ? "reference" : sm_rows_text(record, "host");
    const char *device = sm_rows_text(record, "device");
    size_t i = 0;
    while (i < json_array_size(records) && (!same_machine(json_array_get(records, i), record) ||
                                            same_text(json_array_get(records, i), record, "device"))) {
        i++;
    }
    const bool is_only = i == json_array_size(records);
    snprintf(text, size_bytes, "%.120s%s%.60s%s%s%.*s", sm_rows_text(record, "machine"), host[0] != '\0' ? " (" : "",
             host, host[0] != '\0' ? ")" : "", is_only ? "" : ", ", is_only ? 0 : (int)strcspn(device, " "), device);
}

// Whether another work begins with that record.
static bool begins_work(const json_t *records, size_t i) {
    char work[TEXT_SIZE];
    char before[TEXT_SIZE];
    if (i == 0) {
        return true;
    }
    name_work(json_array_get(records, i - 1), before, sizeof(before));
    name_work(json_array_get(records, i), work, sizeof(work));
    return strcmp(work, before) != 0;
}

static bool same_device(const json_t *a, const json_t *b) { return same_machine(a, b) && same_text(a, b, "device"); }

// For each record the number of its device, from 1, which gives its colour.
static int *number_devices(const json_t *records) {
    size_t n = json_array_size(records);
    int *colours = calloc(n + 1, sizeof(*colours));
    int n_devices = 0;
    for (size_t i = 0; colours != NULL && i < n; i++) {
        size_t k = 0;
        while (k < i && !same_device(json_array_get(records, k), json_array_get(records, i))) {
            k++;
        }
        colours[i] = k < i ? colours[k] : ++n_devices;
    }
    return colours;
}

static double interval_end(const json_t *record, const char *field) {
    return field != NULL ? sm_json_number(record, field) : NAN;
}

static void add_point(sm_figures *figures, json_t *figure, json_t *panel, const measure *m, const json_t *records,
                      const int *colours, size_t index) {
    char name[TEXT_SIZE];
    char text[TEXT_SIZE];
    const json_t *record = json_array_get(records, index);
    double value = sm_json_number(record, m->field) * m->scale;
    if (!isfinite(value)) {
        return;
    }
    const char *marks = sm_rows_text(record, "marks");
    name_machine(records, record, name, sizeof(name));
    snprintf(text, sizeof(text), "%.60s B=%.0f%s%.120s", sm_rows_text(record, "mode"),
             sm_json_number(record, "n_batch"), marks[0] != '\0' ? ", " : "", marks);
    int series = sm_figure_series(figures, figure, name, colours[index], 0);
    sm_figure_append(figures, panel, "points",
                     json_pack("{s:o, s:i, s:o, s:o, s:o, s:i, s:o}", "name", sm_json_bytes(name), "series", series,
                               "x", sm_json_real(value), "lo", sm_json_real(interval_end(record, m->lo)), "hi",
                               sm_json_real(interval_end(record, m->hi)), "row", (int)index, "text",
                               sm_json_bytes(text)));
}

// Records of one work are consecutive, the best first.
static void add_figure(sm_figures *figures, const measure *m, const json_t *records, const int *colours) {
    json_t *figure = sm_figure_add(figures, "intervals", m->id, m->title, m->caption);
    json_t *panel = NULL;
    int n_shown = 0;
    sm_figure_axis(figures, figure, "x", m->label, "auto");
    for (size_t i = 0; i < json_array_size(records); i++) {
        const json_t *record = json_array_get(records, i);
        if (begins_work(records, i)) {
            n_shown = 0;
            char work[TEXT_SIZE];
            name_work(record, work, sizeof(work));
            panel = json_array_size(json_object_get(figure, "panels")) < MAX_WORKS
                        ? sm_figure_panel(figures, figure, work)
                        : NULL;
        }
        if (panel != NULL && n_shown++ < MAX_PLACES) {
            add_point(figures, figure, panel, m, records, colours, i);
        }
    }
    sm_figure_close(figures, figure, "points", 2);
}

// --- the answer ----------------------------------------------------------------------------------

// The work that most machines did, of several the fastest; records first, ... of that work.
typedef struct {
    size_t first, n;
} span;

static span find_answer(const json_t *records) {
    span best = {0, 0};
    for (size_t i = 0, first = 0; i < json_array_size(records); i++) {
        first = begins_work(records, i) ? i : first;
        if (i - first + 1 > best.n) {
            best = (span){first, i - first + 1};
        }
    }
    return best;
}

// Where the user's fastest stands, if a reference is before it.
static void write_place(sm_doc *doc, const json_t *records, span work) {
    const json_t *best = json_array_get(records, work.first);
    char name[TEXT_SIZE];
    char rate[32];
    size_t i = work.first;
    while (i < work.first + work.n && sm_leaderboard_is_reference(json_array_get(records, i))) {
        i++;
    }
    if (i == work.first || i == work.first + work.n) {
        return;
    }
    const json_t *own = json_array_get(records, i);
    name_machine(records, own, name, sizeof(name));
    sm_text_count(sm_json_number(own, "median_ts"), rate, sizeof(rate));
    sm_doc_text(doc, "Your machine is here: %s is number %.0f of %zu, with %s tokens/s, %.2g%% of the first.", name,
                sm_json_number(own, "place"), work.n, rate,
                100 * sm_json_number(own, "median_ts") / sm_json_number(best, "median_ts"));
}

static void write_answer(sm_doc *doc, const json_t *records, span work) {
    const json_t *a = json_array_get(records, work.first);
    const json_t *b = json_array_get(records, work.first + 1);
    char what[TEXT_SIZE];
    char names[2][TEXT_SIZE];
    char rate[32];
    const char *bound = sm_rows_text(a, "bound");
    const char *cost = sm_rows_text(a, "cost");
    name_work(a, what, sizeof(what));
    name_machine(records, a, names[0], sizeof(names[0]));
    name_machine(records, b, names[1], sizeof(names[1]));
    sm_text_count(sm_json_number(a, "median_ts"), rate, sizeof(rate));
    if (sm_json_number(b, "place") == 1) {
        sm_doc_text(doc, "For %s, no device is the fastest: %s (%s tokens/s) and %s share the first place.", what,
                    names[0], rate, names[1]);
    } else {
        sm_doc_text(
            doc,
            "For %s, %s is the fastest: %s tokens/s in mode %s with batch %.0f, %.2f (%.2f to %.2f) times %s.%s%s%s",
            what, names[0], rate, sm_rows_text(a, "mode"), sm_json_number(a, "n_batch"),
            sm_json_number(a, "median_ts") / sm_json_number(b, "median_ts"),
            sm_json_number(a, "lo_ts") / sm_json_number(b, "hi_ts"),
            sm_json_number(a, "hi_ts") / sm_json_number(b, "lo_ts"), names[1], bound[0] != '\0' ? " It is " : "", bound,
            bound[0] != '\0' ? "." : "");
        if (cost[0] != '\0') {
            sm_doc_text(doc, "%s.", cost);
        }
    }
    write_place(doc, records, work);
}

static void write_card(sm_doc *doc, const json_t *record) {
    char text[TEXT_SIZE];
    const double a_joule = sm_json_number(record, "tokens_per_joule");
    sm_text_count(sm_json_number(record, "median_ts"), text, sizeof(text));
    sm_append_spread(sm_json_number(record, "noise_percent"), text, sizeof(text));
    sm_doc_fact(doc, "tokens/s", text);
    snprintf(text, sizeof(text), "%.60s, batch %.0f", sm_rows_text(record, "mode"), sm_json_number(record, "n_batch"));
    sm_doc_fact(doc, "with", text);
    sm_doc_fact(doc, "why", sm_rows_text(record, "bound"));
    sm_text_bytes(sm_json_number(record, "memory_bytes"), text, sizeof(text));
    sm_doc_fact(doc, "memory", text);
    if (a_joule > 0) {
        snprintf(text, sizeof(text), "%.3g J a token", 1 / a_joule);
        sm_doc_fact(doc, "energy", text);
    }
    sm_doc_fact(doc, "cost", sm_rows_text(record, "cost"));
}

// One picture, and a card a device.
static void write_devices(sm_doc *doc, const json_t *records, const int *colours, span work, sm_figures *figures) {
    char name[TEXT_SIZE];
    json_t *figure = sm_figure_add(figures, "intervals", "answer", "Which device is fastest?",
                                   "The fastest checked row of each device; bars: 95% interval of the median step.");
    sm_figure_axis(figures, figure, "x", measures[0].label, "auto");
    name_work(json_array_get(records, work.first), name, sizeof(name));
    json_t *panel = sm_figure_panel(figures, figure, name);
    for (size_t k = 0; k < work.n && k < MAX_PLACES; k++) {
        add_point(figures, figure, panel, &measures[0], records, colours, work.first + k);
    }
    sm_doc_figures(doc, figures, 0);
    const int n = (int)(work.n < MAX_PLACES ? work.n : MAX_PLACES);
    for (int k = 0; k < n; k++) {
        const json_t *record = json_array_get(records, work.first + (size_t)k);
        name_machine(records, record, name, sizeof(name));
        sm_doc_card_begin(doc, k, n, colours[work.first + (size_t)k], name);
        write_card(doc, record);
        sm_doc_card_end(doc, k, n);
    }
}

static void write_begin(sm_doc *doc, const json_t *records, const json_t *refused, const int *colours,
                        sm_figures *figures) {
    const span work = find_answer(records);
    int n_works = 0;
    for (size_t i = 0; i < json_array_size(records); i++) {
        n_works += begins_work(records, i);
    }
    sm_doc_begin(doc, "stepmark: leaderboard of GPT-2 training steps");
    if (work.n >= 2) {
        write_answer(doc, records, work);
        write_devices(doc, records, colours, work, figures);
    } else {
        sm_doc_text(doc, "No two machines did the same work.");
    }
    sm_doc_text(doc, "%zu places in %d %s; %zu %s refused.", json_array_size(records), n_works,
                n_works == 1 ? "work" : "works", json_array_size(refused),
                json_array_size(refused) == 1 ? "row" : "rows");
    fputs("<nav><a href=\"#pictures\">Each work</a><a href=\"#refused\">Refused</a><a href=\"#places\">Places</a>"
          "<a href=\"#reading\">How to read this</a></nav>\n",
          doc->out);
}

// --- the page ------------------------------------------------------------------------------------

static sm_status write_tables(sm_doc *doc, const json_t *records, const json_t *refused) {
    sm_doc_part_begin(doc, "refused", "Refused");
    if (json_array_size(refused) == 0) {
        sm_doc_text(doc, "None.");
    } else {
        SM_TRY(sm_doc_records(doc, "refused-rows", &sm_leaderboard_refused_table, refused));
    }
    sm_doc_part_end(doc);
    sm_doc_heading(doc, "places", "Places");
    return sm_doc_records(doc, "board", &sm_leaderboard_table, records);
}

static void write_legend(sm_doc *doc) {
    sm_doc_items_begin(doc);
    sm_doc_item(
        doc,
        "A work is a model, a length, a number format, a pass, an optimizer, an accumulation and a dropout. Rows of "
        "other "
        "work are never compared. Of each device of each machine its fastest row of a work has a place; batch and mode "
        "are "
        "its own choice. Rows that ran kernels or a backend of the user's own (own code) are ranked apart.");
    sm_doc_item(
        doc,
        "A row counts only when its loss, gradients and updates agreed with the reference. Bundles that were changed "
        "by a "
        "byte are refused whole.");
    sm_doc_item(doc, "Marks: reference (measured by the makers of stepmark; same checks; --no-reference leaves them "
                     "out), own code (kernels or a backend of the user's own ran), emulated (computed in fp32, for "
                     "lack of instructions), noisy or too few (another run may give another "
                     "figure), warned (something may have spoiled it), other data (than the first of its work).");
    sm_doc_item(doc, "± is how far the 95%% interval of the median reaches. Rows whose intervals overlap are not "
                     "distinct, and share a place.");
    sm_doc_item(doc,
                "Share of peak is against the peak that was measured on that device itself, in that number format.");
    sm_doc_items_end(doc);
}

sm_status sm_leaderboard_page(const json_t *records, const json_t *refused, FILE *out) {
    sm_doc doc = {.out = out, .html = true};
    sm_figures figures = {.list = NULL};
    int *colours = number_devices(records);
    sm_status status = SM_OK;
    SM_TRY_GOTO(colours != NULL ? SM_OK : sm_fail(SM_ERR_OOM, "no memory for a leaderboard"));
    SM_TRY_GOTO(sm_figures_open(&figures));
    write_begin(&doc, records, refused, colours, &figures);
    sm_doc_part_begin(&doc, "pictures", "Each work: speed, energy, memory, share of peak");
    const size_t first = json_array_size(figures.list);
    for (size_t k = 0; k < sizeof(measures) / sizeof(measures[0]); k++) {
        add_figure(&figures, &measures[k], records, colours);
    }
    sm_doc_figures(&doc, &figures, first);
    sm_doc_part_end(&doc);
    SM_TRY_GOTO(write_tables(&doc, records, refused));
    sm_doc_heading(&doc, "reading", "How to read this");
    write_legend(&doc);
    SM_TRY_GOTO(sm_figures_write(&figures, out));
    sm_doc_end(&doc, scripts);
cleanup:
    sm_figures_free(&figures);
    free(colours);
    return status;
}
