// report.h: makes one page from any set of rows: a table to compare them, charts, published figures, warnings,
// machines.
#ifndef STEPMARK_REPORT_H
#define STEPMARK_REPORT_H

#include "bench/compare/costs.h"
#include "bench/pages/doc.h"
#include "bench/report/rows.h"
#include "bench/report/warnings.h"
#include "bench/rows/read_rows.h"

// Writes the page: self-contained HTML, or Markdown without charts. `costs` may be NULL.
sm_status sm_report_write(const sm_rows *rows, const sm_costs *costs, bool html, FILE *out);

// Its beginning: a sentence, a picture, a card of each device (report/answer.c).
void sm_report_answer(sm_doc *doc, const sm_report_rows *report, const sm_costs *costs, sm_figures *figures);

// Its sentence, and the reason and the cost after it; the row that is the answer, NULL: there is no verdict.
enum { SM_ANSWER_SIZE = 1024 };
const sm_report_row *sm_report_answer_text(const sm_report_rows *report, const sm_costs *costs,
                                           char text[SM_ANSWER_SIZE], char reason[SM_ANSWER_SIZE]);

// Its table of all rows (report/comparison.c).
sm_status sm_report_comparison(sm_doc *doc, const sm_report_rows *report, const sm_warning_groups *warnings);

// The rows for the page's script, in "row-data": {rows: [{device, panel, colour, row: {...}}], contexts: [...]};
// row.context is an index into contexts (report/data.c).
sm_status sm_report_data(const sm_report_rows *report, FILE *out);

// Its tables with published figures (report/published.c).
void sm_report_published(sm_doc *doc, const sm_report_rows *report);

// Loops next to a published profile of a step (report/micro.c); nothing without loops.
void sm_report_micro(sm_doc *doc, const sm_report_rows *report);

// Rungs of ladders (`stepmark ladder`), in the order of their files: a table, and a chart panel for each ladder on each
// device (report/ladders.c).
void sm_report_ladders(sm_doc *doc, const json_t *rungs, sm_figures *figures);

// The parts on the best rows, failures and machines (report/tables.c).
void sm_report_begin(sm_doc *doc, const sm_report_rows *report);
sm_status sm_report_shortly(sm_doc *doc, const sm_report_rows *report);
void sm_report_machines(sm_doc *doc, const sm_report_rows *report);
sm_status sm_report_failures(sm_doc *doc, const sm_report_rows *report);

#endif
