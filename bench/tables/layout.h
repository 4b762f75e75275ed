// layout.h: a table of records as texts, before anybody writes it: the columns that fit, the facts common to all
// records, the notes below, and the cells with their widths. formats.c and text.c write it.
#pragma once

#include "bench/tables/table.h"

// A note under the table. Of many that differ in their figures alone the first stands for all.
typedef struct {
    const sm_column *column;
    const char *text; // of the first record that has it; the record's
    bool has_variants;
    int n_records;
    int mark; // in the lines of the records that have it; 0 where all have it
} sm_note;

typedef struct {
    const sm_table *table;
    const json_t *records;
    bool is_text; // for a terminal: the columns asked for first, in their short form; no markup
    bool is_page; // with is_text: all columns, in their short form

    int *shown; // column indices, left to right
    int n_shown;
    int *common; // of the columns shown once
    int n_common;
    char **cells; // (n_records + 1) x n_shown; row 0 has the headings
    int *widths;  // n_shown, in characters
    sm_note *notes;
    int n_notes;
} sm_layout;

// Fills the rest; call sm_layout_free() also after a failure. sm_layout_choose() leaves out cells and notes.
void sm_layout_make(sm_layout *l);
void sm_layout_choose(sm_layout *l);
void sm_layout_show(const sm_layout *l, const sm_column *column, const json_t *record, char text[SM_CELL_SIZE]);
const char *sm_layout_heading(const sm_layout *l, const sm_column *column);
void sm_layout_free(sm_layout *l);

size_t sm_layout_rows(const sm_layout *l); // including the headings
const char *sm_layout_cell(const sm_layout *l, size_t row, int j);
bool sm_layout_is_number(const sm_layout *l, int j); // of a column: its cells are right-aligned

// "All rows: model small, mode fused": columns with the same value in every line; "": none. The caller frees it.
char *sm_layout_common_text(const sm_layout *l);

// Writes the lines of a legend (NULL: none) whose columns are shown.
void sm_layout_explain(const sm_layout *l, const sm_legend_line *legend, FILE *out);

// "[1] warning: ..."; the caller frees it.
char *sm_layout_note_text(const sm_layout *l, int index);

// Characters on the screen, of a text or of its first bytes.
int sm_text_width(const char *text);
int sm_text_width_of(const char *text, size_t size_bytes);

// A text without control characters (they become spaces) or bytes that are not UTF-8 ('?'); with `escapes`, markup is
// escaped. The caller frees it.
char *sm_clean_text(const char *text, bool escapes);

// Writes records as a Markdown table that also reads well in a terminal, between what all share and the notes; then the
// legend (NULL: none). The last column is not padded, as it may have a long reason.
void sm_markdown_write(const sm_table *table, const json_t *records, const sm_legend_line *legend, FILE *out);
