// doc.h: writes a document as HTML or as Markdown. All text is escaped here, so that nothing in a row can become
// markup.
#ifndef STEPMARK_BENCH_PAGES_DOC_H
#define STEPMARK_BENCH_PAGES_DOC_H

#include "status.h"
#include "bench/pages/figure.h"
#include "bench/tables/record.h"

#include <stdbool.h>
#include <stdio.h>

enum { SM_DOC_MAX_COLUMNS = 24 };

typedef struct {
    FILE *out;
    bool html;
    int n_columns; // of the open table
    int column;    // of the open row
    bool is_number[SM_DOC_MAX_COLUMNS];
} sm_doc;

void sm_doc_begin(sm_doc *doc, const char *title);
void sm_doc_end(sm_doc *doc, const char *const *scripts); // in addition to the base's, ending with NULL; NULL: none

void sm_doc_heading(sm_doc *doc, const char *id, const char *text);
void sm_doc_subheading(sm_doc *doc, const char *text);
void sm_doc_text(sm_doc *doc, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sm_doc_item(sm_doc *doc, const char *format, ...) __attribute__((format(printf, 2, 3))); // of a list
void sm_doc_items_begin(sm_doc *doc);
void sm_doc_items_end(sm_doc *doc);

// A table: headings, separated by '|' ('#' before a column of numbers), then rows, cell by cell. In HTML it can be
// sorted.
void sm_doc_table_begin(sm_doc *doc, const char *headings);
void sm_doc_row_begin(sm_doc *doc);
void sm_doc_cell(sm_doc *doc, const char *format, ...) __attribute__((format(printf, 2, 3))); // "" shows as -
void sm_doc_number(sm_doc *doc, double value, int decimals, const char *unit);                // NaN shows as -
void sm_doc_row_end(sm_doc *doc);
void sm_doc_table_end(sm_doc *doc);

// A table of records, with what all share above it, as in Markdown. HTML only: it can be sorted, and filtered by its
// texts if a script enables it (page.filters); `id` is the table's element, and its lines have their record's index.
sm_status sm_doc_records(sm_doc *doc, const char *id, const sm_table *table, const json_t *records);

// A section below its heading: open where there is room, closed on a phone until a reader opens it (page.js).
void sm_doc_part_begin(sm_doc *doc, const char *id, const char *title);
void sm_doc_part_end(sm_doc *doc);

// A section that is closed until a reader opens it. HTML only: a subheading in Markdown.
void sm_doc_folded_begin(sm_doc *doc, const char *title);
void sm_doc_folded_end(sm_doc *doc);

// Card k of n, one a device, with its colour in the figures and its facts ("": is left out). Those after the first few
// are a part of their own. HTML only.
void sm_doc_card_begin(sm_doc *doc, int k, int n, int colour, const char *name);
void sm_doc_fact(sm_doc *doc, const char *name, const char *value);
void sm_doc_card_end(sm_doc *doc, int k, int n);

// The places of figures (pages/figure.h), from the `first` on; sm_figures_write() writes them. HTML only.
void sm_doc_figures(sm_doc *doc, const sm_figures *figures, size_t first);

#endif
