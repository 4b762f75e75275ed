// report.c: the order of the page.
#include "report.h"

#include "evidence.h"
#include "report_charts.h"

#include <string.h>

static const struct {
    const char *id;
    const char *title;
} sections[] = {
    {"short", "In short"},       {"pictures", "Pictures"},        {"published", "Beside published figures"},
    {"failures", "What failed"}, {"warnings", "Warnings"},        {"machines", "Machines"},
    {"rows", "All rows"},        {"reading", "How to read this"},
};
enum { SHORT, PICTURES, PUBLISHED, FAILURES, WARNINGS, MACHINES, ROWS, READING, N_SECTIONS };

static void begin_section(sm_doc *doc, int section) {
    sm_doc_heading(doc, sections[section].id, sections[section].title);
}

static void write_contents(sm_doc *doc) {
    if (!doc->html) {
        return;
    }
    fputs("<nav>", doc->out);
    for (int i = 0; i < N_SECTIONS; i++) {
        fprintf(doc->out, "%s<a href=\"#%s\">%s</a>", i > 0 ? " · " : "", sections[i].id, sections[i].title);
    }
    fputs("</nav>\n", doc->out);
}

static void write_charts_of(sm_doc *doc, const sm_plots *plots, sm_chart kind) {
    bool any = false;
    sm_doc_subheading(doc, sm_chart_heading(kind));
    for (int i = 0; i < plots->n; i++) {
        if (plots->plots[i].kind == (int)kind) {
            fputs(any ? "" : "<div class=\"figures\">\n", doc->out);
            any = true;
            sm_doc_figure(doc, plots->plots[i].svg, plots->plots[i].caption);
        }
    }
    if (any) {
        fputs("</div>\n", doc->out);
    } else {
        sm_doc_text(doc, "No picture: %s.", sm_chart_missing(kind));
    }
}

static sm_status write_pictures(sm_doc *doc, const sm_report_rows *report) {
    sm_plots plots;
    sm_names panels;
    sm_status status = SM_OK;
    int n_panels = sm_report_panels(report, &panels);
    if (n_panels > panels.n) {
        sm_doc_text(doc,
                    "There are pictures of the %d combinations of model, length and pass type that have most rows; "
                    "all of them are in the table of rows.",
                    panels.n);
    }
    SM_TRY_GOTO(sm_plots_open(&plots));
    SM_TRY_GOTO(sm_report_charts(report, &plots));
    SM_TRY_GOTO(sm_plots_draw(&plots));
    for (int kind = 0; kind < SM_CHART_COUNT; kind++) {
        write_charts_of(doc, &plots, (sm_chart)kind);
    }
cleanup:
    sm_plots_free(&plots);
    return status;
}

// Where nothing draws them, the page says so, among its warnings, too; its tables do without.
static sm_status write_pictures_if_any(sm_doc *doc, const sm_report_rows *report, json_t *warnings) {
    if (!doc->html) {
        sm_doc_text(doc, "The pictures are in the HTML form of this report.");
        return SM_OK;
    }
    sm_status status = write_pictures(doc, report);
    if (status != SM_ERR_UNSUPPORTED) {
        return status;
    }
    sm_doc_text(doc, "%s", sm_error_message());
    return json_array_append_new(warnings, sm_json_text(sm_error_message())) == 0
               ? SM_OK
               : sm_fail(SM_ERR_OOM, "no memory for a warning");
}

static void write_legend(sm_doc *doc) {
    sm_doc_items_begin(doc);
    sm_doc_item(doc,
                "Step time: median of plain, uninstrumented samples ± their median absolute deviation. A sample is "
                "what the pass type says: a whole optimizer step, or a part of it.");
    sm_doc_item(doc, "Tokens per second: batch x length x accumulation in a sample, over its median time. There is no "
                     "padding.");
    sm_doc_item(doc, "%% of peak: floating-point work of the sample against the device's measured peak.");
    sm_doc_item(doc, "Memory: peak resident memory of the process, or what is allocated on a device of its own.");
    sm_doc_item(doc, "A row is ok only when its loss, gradients and updates agreed with the reference; a row that "
                     "failed stays, with its reason.");
    sm_doc_item(
        doc,
        "ok, noisy: the 95%% interval of the median reaches more than %d%% from it, or half of the samples lie more "
        "than %d%% from it. Nothing is called the best that is noisy, or whose interval meets another's.",
        SM_NOISE_LIMIT, SM_SPREAD_LIMIT);
    sm_doc_item(doc, "Lines and baselines compare rows of the same work only.");
    sm_doc_items_end(doc);
}

sm_status sm_report_write(const sm_rows *rows, bool html, FILE *out) {
    sm_doc doc = {.out = out, .html = html};
    sm_report_rows report;
    sm_status status = SM_OK;
    SM_TRY(sm_report_rows_make(rows->rows, &report));
    sm_doc_begin(&doc, "stepmark: GPT-2 training steps");
    write_contents(&doc);
    begin_section(&doc, SHORT);
    SM_TRY_GOTO(sm_report_shortly(&doc, &report));
    begin_section(&doc, PICTURES);
    SM_TRY_GOTO(write_pictures_if_any(&doc, &report, rows->warnings));
    begin_section(&doc, PUBLISHED);
    sm_report_published(&doc, &report);
    begin_section(&doc, FAILURES);
    sm_report_failures(&doc, &report);
    begin_section(&doc, WARNINGS);
    SM_TRY_GOTO(sm_report_warnings(&doc, &report, rows->warnings));
    begin_section(&doc, MACHINES);
    sm_report_machines(&doc, &report);
    begin_section(&doc, ROWS);
    sm_report_all_rows(&doc, &report);
    begin_section(&doc, READING);
    write_legend(&doc);
    sm_doc_end(&doc);
cleanup:
    sm_report_rows_free(&report);
    return status;
}
