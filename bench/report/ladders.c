// ladders.c: ladders: each rung of an op, from the lowest up, with its share of the ceiling.
#include <math.h>
#include <string.h>

#include "bench/report/report.h"
#include "bench/rows/read_rows.h"
#include "bench/tables/show.h"

enum { TITLE_SIZE = 320, TEXT_SIZE = 96, MOST_DEVICES = 8 };

// The first rung of another ladder, or of the same ladder measured again.
static bool begins(const json_t *rungs, size_t i) {
    static const char *const fields[] = {"ladder", "shape", "device", "name"};
    const json_t *rung = json_array_get(rungs, i);
    bool begins = i == 0 || !isfinite(sm_json_number(rung, "times_before"));
    for (size_t k = 0; k < sizeof(fields) / sizeof(fields[0]) && !begins; k++) {
        begins = strcmp(sm_rows_text(rung, fields[k]), sm_rows_text(json_array_get(rungs, i - 1), fields[k])) != 0;
    }
    return begins;
}

static void name_ladder(const json_t *rung, char title[TITLE_SIZE]) {
    char threads[24] = "";
    if (sm_json_number(rung, "n_threads") > 0) {
        snprintf(threads, sizeof(threads), ", t%.0f", sm_json_number(rung, "n_threads"));
    }
    snprintf(title, TITLE_SIZE, "%.40s, %.90s, %.40s on %.90s%s", sm_rows_text(rung, "ladder"),
             sm_rows_text(rung, "shape"), sm_rows_text(rung, "device"), sm_rows_text(rung, "name"), threads);
}

// "16.5 TFLOP/s", or bytes if memory bounds the op.
static void show_rate(const json_t *rung, char *text, size_t size_bytes) {
    const bool is_bytes = strcmp(sm_rows_text(rung, "bound"), "memory") == 0;
    sm_text_scaled(sm_json_number(rung, is_bytes ? "bytes_per_s" : "flops_per_s"), is_bytes ? "B/s" : "FLOP/s", text,
                   size_bytes);
}

static void write_rung(sm_doc *doc, const json_t *rung) {
    char text[TEXT_SIZE];
    sm_doc_row_begin(doc);
    sm_doc_cell(doc, "%s", sm_rows_text(rung, "rung"));
    sm_text_ms(sm_json_number(rung, "ns"), text, sizeof(text));
    sm_doc_cell(doc, "%s", text);
    show_rate(rung, text, sizeof(text));
    sm_doc_cell(doc, "%s", text);
    sm_doc_number(doc, 100 * sm_json_number(rung, "ceiling_share"), 1, "%");
    sm_doc_number(doc, sm_json_number(rung, "times_before"), 2, " x");
    sm_doc_cell(doc, "%s", sm_rows_text(rung, "what"));
    sm_doc_row_end(doc);
}

static void write_tables(sm_doc *doc, const json_t *rungs) {
    for (size_t i = 0; i < json_array_size(rungs); i++) {
        if (begins(rungs, i)) {
            char title[TITLE_SIZE];
            if (i > 0) {
                sm_doc_table_end(doc);
            }
            name_ladder(json_array_get(rungs, i), title);
            sm_doc_subheading(doc, title);
            sm_doc_table_begin(doc, "rung|#ms|#rate|#of ceiling|#step|what changed");
        }
        write_rung(doc, json_array_get(rungs, i));
    }
    sm_doc_table_end(doc);
}

// One colour for each device.
static int colour_of(const json_t *rungs, size_t i) {
    const char *seen[MOST_DEVICES];
    int n = 0;
    for (size_t k = 0; k <= i; k++) {
        const char *device = sm_rows_text(json_array_get(rungs, k), "name");
        int at = 0;
        while (at < n && strcmp(seen[at], device) != 0) {
            at++;
        }
        if (at == n && n < MOST_DEVICES) {
            seen[n++] = device;
        }
        if (k == i) {
            return at + 1;
        }
    }
    return 1;
}

static void add_point(sm_figures *figures, json_t *figure, json_t *panel, const json_t *rungs, size_t i) {
    const json_t *rung = json_array_get(rungs, i);
    const double ceiling_percent_ns = 100 * sm_json_number(rung, "ceiling_ns");
    char text[TEXT_SIZE];
    char ms[TEXT_SIZE];
    sm_text_ms(sm_json_number(rung, "ns"), ms, sizeof(ms));
    snprintf(text, sizeof(text), "%.20s ms", ms);
    const int series = sm_figure_series(figures, figure, sm_rows_text(rung, "name"), colour_of(rungs, i), 0);
    sm_figure_append(figures, panel, "points",
                     json_pack("{s:o, s:i, s:o, s:o, s:o, s:n, s:o}", "name", sm_json_text(sm_rows_text(rung, "rung")),
                               "series", series, "x", sm_json_real(100 * sm_json_number(rung, "ceiling_share")), "lo",
                               sm_json_real(ceiling_percent_ns / sm_json_number(rung, "ns_ci95_hi")), "hi",
                               sm_json_real(ceiling_percent_ns / sm_json_number(rung, "ns_ci95_lo")), "row", "text",
                               sm_json_text(text)));
}

static void add_figure(sm_figures *figures, const json_t *rungs) {
    json_t *figure =
        sm_figure_add(figures, "intervals", "ladders", "From loops to the shipped kernel",
                      "Each rung's share of the least time that the device's measured ceilings allow, from the lowest "
                      "up; bars: 95% interval of the median.");
    json_t *panel = NULL;
    sm_figure_axis(figures, figure, "x", "% of the ceiling", "auto");
    for (size_t i = 0; i < json_array_size(rungs); i++) {
        if (begins(rungs, i)) {
            char title[TITLE_SIZE]; // short, for panels as narrow as a phone; the tables have the rest
            const json_t *rung = json_array_get(rungs, i);
            snprintf(title, sizeof(title), "%.40s, %.40s", sm_rows_text(rung, "ladder"), sm_rows_text(rung, "device"));
            panel = sm_figure_panel(figures, figure, title);
        }
        if (sm_json_number(json_array_get(rungs, i), "ceiling_share") > 0) {
            add_point(figures, figure, panel, rungs, i);
        }
    }
    sm_figure_close(figures, figure, "points", 2);
}

void sm_report_ladders(sm_doc *doc, const json_t *rungs, sm_figures *figures) {
    const size_t first = json_array_size(figures->list);
    if (doc->html) {
        add_figure(figures, rungs);
        sm_doc_figures(doc, figures, first);
    }
    write_tables(doc, rungs);
}
