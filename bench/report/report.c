// report.c: the order of a report's parts.
#include "bench/report/report.h"

#include "bench/compare/noise_verdict.h"
#include "bench/report/charts.h"
#include "bench/report/loops.h"

#include <string.h>

static const struct {
    const char *id;
    const char *title;
} sections[] = {
    {"short", "In short"},           {"pictures", "Pictures"},           {"loops", "Training loops"},
    {"ladders", "Ladders"},          {"published", "Published figures"}, {"failures", "Failures"},
    {"warnings", "Warnings"},        {"machines", "Machines"},           {"rows", "All rows"},
    {"reading", "How to read this"},
};
enum { SHORT, PICTURES, LOOPS, LADDERS, PUBLISHED, FAILURES, WARNINGS, MACHINES, ROWS, READING, N_SECTIONS };

static const char *const scripts[] = {"view.js", NULL};

static void begin_section(sm_doc *doc, int section) {
    sm_doc_part_begin(doc, sections[section].id, sections[section].title);
}

static bool has_section(int section, const sm_report_rows *report, const json_t *rungs) {
    return section == LADDERS ? json_array_size(rungs) > 0 : section == LOOPS ? sm_report_has_loops(report) : true;
}

static void write_contents(sm_doc *doc, const sm_report_rows *report, const json_t *rungs) {
    if (!doc->html) {
        return;
    }
    fputs("<nav>", doc->out);
    for (int i = 0; i < N_SECTIONS; i++) {
        if (!has_section(i, report, rungs)) {
            continue;
        }
        fprintf(doc->out, "<a href=\"#%s\">%s</a>", sections[i].id, sections[i].title);
    }
    fputs("</nav>\n", doc->out);
}

static bool is_drawn(const sm_figures *figures, const char *id) {
    for (size_t i = 0; i < json_array_size(figures->list); i++) {
        if (strcmp(json_string_value(json_object_get(json_array_get(figures->list, i), "id")), id) == 0) {
            return true;
        }
    }
    return false;
}

// Lists the charts without data once, at the end.
static void write_missing(sm_doc *doc, const sm_figures *figures) {
    bool any = false;
    for (int chart = 0; chart < SM_CHART_COUNT; chart++) {
        if (!is_drawn(figures, sm_chart_id((sm_chart)chart))) {
            if (!any) {
                sm_doc_text(doc, "Charts without data:");
                sm_doc_items_begin(doc);
            }
            any = true;
            sm_doc_item(doc, "%s.", sm_chart_missing((sm_chart)chart));
        }
    }
    if (any) {
        sm_doc_items_end(doc);
    }
}

static sm_status write_pictures(sm_doc *doc, const sm_report_rows *report, sm_figures *figures) {
    if (!doc->html) {
        sm_doc_text(doc, "The charts are in the HTML form of this report.");
        return SM_OK;
    }
    if (report->n_panels > SM_MAX_PANELS) {
        sm_doc_text(doc, "Of the %d combinations of model, length and pass type these are the %d that have most rows.",
                    report->n_panels, SM_MAX_PANELS);
    }
    if (report->n_series > SM_MAX_SERIES) {
        sm_doc_text(doc, "A picture has place for the %d fastest configurations; the table above holds all.",
                    SM_MAX_SERIES);
    }
    const size_t first = json_array_size(figures->list);
    sm_doc_folded_begin(doc, "Pictures: batch, memory, gains, phases"); // view.js opens it where there is room
    SM_TRY(sm_report_charts(report, figures));
    sm_doc_figures(doc, figures, first);
    sm_doc_folded_end(doc);
    const size_t further = json_array_size(figures->list);
    sm_doc_folded_begin(doc, "More pictures: start, spread, roofline");
    sm_chart_start(report, figures);
    sm_chart_samples(report, figures);
    sm_chart_roofline(report, figures);
    sm_doc_figures(doc, figures, further);
    write_missing(doc, figures);
    sm_doc_folded_end(doc);
    return SM_OK;
}

// Only if there are loops.
static sm_status write_loops(sm_doc *doc, const sm_report_rows *report, sm_figures *figures) {
    const size_t first = json_array_size(figures->list);
    if (!sm_report_has_loops(report)) {
        return SM_OK;
    }
    begin_section(doc, LOOPS);
    SM_TRY(sm_report_loop_tables(doc, report));
    if (doc->html) {
        SM_TRY(sm_report_loop_figures(report, figures));
        sm_doc_figures(doc, figures, first);
    }
    sm_doc_part_end(doc);
    return SM_OK;
}

static void write_legend(sm_doc *doc) {
    sm_doc_items_begin(doc);
    sm_doc_item(doc, "Step time: median of plain, uninstrumented samples ± their median absolute deviation. The pass "
                     "type says what a sample is: a whole optimizer step, or a part of it.");
    sm_doc_item(doc, "Tokens per second: batch x length x accumulation in a sample, over its median time. There is no "
                     "padding.");
    sm_doc_item(doc, "%% of peak: floating-point work of the sample against the device's measured peak.");
    sm_doc_item(
        doc, "Memory: peak resident memory of the process, or the bytes allocated on a device with memory of its own.");
    sm_doc_item(doc, "A row is ok only when its loss, gradients and updates agreed with the reference; a row that "
                     "failed stays, with its reason.");
    sm_doc_item(
        doc,
        "ok, noisy: the 95%% interval of the median reaches more than %d%% from it, or half of the samples lie more "
        "than %d%% from it. Nothing is called the best that is noisy, or whose interval meets another's; nothing is "
        "ranked whose interval reaches more than %d%%, or that a busy machine disturbed.",
        SM_NOISE_LIMIT, SM_SPREAD_LIMIT, SM_USABLE_LIMIT);
    sm_doc_item(doc, "Lines and baselines compare rows of the same work only.");
    sm_doc_items_end(doc);
}

static void write_ladders(sm_doc *doc, const json_t *rungs, sm_figures *figures) {
    if (json_array_size(rungs) > 0) {
        begin_section(doc, LADDERS);
        sm_report_ladders(doc, rungs, figures);
        sm_doc_part_end(doc);
    }
}

static sm_status write_sections(sm_doc *doc, const sm_report_rows *report, const sm_warning_groups *warnings,
                                const sm_rows *rows, sm_figures *figures) {
    begin_section(doc, SHORT);
    SM_TRY(sm_report_shortly(doc, report));
    sm_doc_part_end(doc);
    begin_section(doc, PICTURES);
    SM_TRY(write_pictures(doc, report, figures));
    sm_doc_part_end(doc);
    SM_TRY(write_loops(doc, report, figures));
    write_ladders(doc, rows->rungs, figures);
    begin_section(doc, PUBLISHED);
    sm_doc_folded_begin(doc, "Step times that others published, next to these rows");
    sm_report_published(doc, report);
    sm_report_micro(doc, report);
    sm_doc_folded_end(doc);
    sm_doc_part_end(doc);
    begin_section(doc, FAILURES);
    SM_TRY(sm_report_failures(doc, report));
    sm_doc_part_end(doc);
    begin_section(doc, WARNINGS);
    sm_warnings_write(doc, report, warnings, rows->warnings);
    sm_doc_part_end(doc);
    begin_section(doc, MACHINES);
    sm_report_machines(doc, report);
    sm_doc_part_end(doc);
    sm_doc_heading(doc, sections[ROWS].id, sections[ROWS].title);
    SM_TRY(sm_report_comparison(doc, report, warnings));
    sm_doc_heading(doc, sections[READING].id, sections[READING].title);
    write_legend(doc);
    return SM_OK;
}

static sm_status write_body(sm_doc *doc, const sm_report_rows *report, const sm_warning_groups *warnings,
                            const sm_rows *rows, const sm_costs *costs, sm_figures *figures) {
    if (report->n == 0 && json_array_size(rows->rungs) > 0) {
        write_ladders(doc, rows->rungs, figures);
    } else {
        sm_report_answer(doc, report, costs, figures);
        sm_report_begin(doc, report);
        write_contents(doc, report, rows->rungs);
        SM_TRY(write_sections(doc, report, warnings, rows, figures));
    }
    if (doc->html) {
        SM_TRY(sm_figures_write(figures, doc->out));
        SM_TRY(sm_report_data(report, doc->out));
    }
    return SM_OK;
}

sm_status sm_report_write(const sm_rows *rows, const sm_costs *costs, bool html, FILE *out) {
    sm_doc doc = {.out = out, .html = html};
    sm_figures figures = {.list = NULL};
    sm_report_rows report;
    sm_warning_groups warnings;
    sm_status status = SM_OK;
    SM_TRY(sm_report_rows_make(rows->rows, &report));
    SM_TRY_GOTO(sm_figures_open(&figures));
    sm_warnings_group(&report, &warnings);
    sm_doc_begin(&doc, "stepmark: GPT-2 training steps");
    SM_TRY_GOTO(write_body(&doc, &report, &warnings, rows, costs, &figures));
    sm_doc_end(&doc, scripts);
cleanup:
    sm_figures_free(&figures);
    sm_report_rows_free(&report);
    return status;
}
