// report_doc.h: a document as HTML or as Markdown. All text is escaped here, so that nothing in a
// row can become markup.
#ifndef STEPMARK_REPORT_DOC_H
#define STEPMARK_REPORT_DOC_H

#include "status.h"

#include <stdbool.h>
#include <stdio.h>

typedef struct {
    FILE *out;
    bool html;
    int n_columns; // of the open table
} sm_doc;

void sm_doc_begin(sm_doc *doc, const char *title);
void sm_doc_end(sm_doc *doc);

void sm_doc_heading(sm_doc *doc, const char *id, const char *text);
void sm_doc_subheading(sm_doc *doc, const char *text);
void sm_doc_text(sm_doc *doc, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sm_doc_item(sm_doc *doc, const char *format, ...) __attribute__((format(printf, 2, 3))); // of a list
void sm_doc_items_begin(sm_doc *doc);
void sm_doc_items_end(sm_doc *doc);

// A table: its headings, separated by '|' ('#' before one: a column of numbers), then rows, cell
// after cell. A folded table is closed until a reader opens it (in HTML).
void sm_doc_table_begin(sm_doc *doc, const char *headings, const char *folded_title);
void sm_doc_row_begin(sm_doc *doc);
void sm_doc_cell(sm_doc *doc, const char *format, ...) __attribute__((format(printf, 2, 3))); // "" shows as -
void sm_doc_number(sm_doc *doc, double value, int decimals, const char *unit);                // NaN shows as -
void sm_doc_row_end(sm_doc *doc);
void sm_doc_table_end(sm_doc *doc, bool folded); // as at its begin

// A picture: `svg` is markup of our own making and goes out as it is. HTML only.
void sm_doc_figure(sm_doc *doc, const char *svg, const char *caption);

#endif
