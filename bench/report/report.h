// report.h: one page from any set of rows: pictures, tables, failures, warnings, the machine.
#ifndef STEPMARK_REPORT_H
#define STEPMARK_REPORT_H

#include "read_rows.h"
#include "report_doc.h"
#include "report_rows.h"

// Writes the page: self-contained HTML, or Markdown without charts. Charts need gnuplot; a page without them says so,
// and so does a warning that rows->warnings gets.
sm_status sm_report_write(const sm_rows *rows, bool html, FILE *out);

// Its tables beside published figures (report_published.c).
void sm_report_published(sm_doc *doc, const sm_report_rows *report);

// Its tables of rows, failures, warnings and machines (report_tables.c).
sm_status sm_report_shortly(sm_doc *doc, const sm_report_rows *report);
void sm_report_machines(sm_doc *doc, const sm_report_rows *report);
void sm_report_all_rows(sm_doc *doc, const sm_report_rows *report);
void sm_report_failures(sm_doc *doc, const sm_report_rows *report);
sm_status sm_report_warnings(sm_doc *doc, const sm_report_rows *report, const json_t *of_files);

#endif
