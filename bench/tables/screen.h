// screen.h: fits output to a terminal.
#pragma once

#include "bench/tables/table.h"

// Columns of the terminal of `out`; 0 if it is not a terminal.
int sm_screen_width(FILE *out);

// Lines of it; 0 if it is not a terminal, or does not say.
int sm_screen_height(FILE *out);

void sm_put_repeated(FILE *out, char c, int n);

// Prints a text within `width` columns (0: unchanged): wide lines continue below, indented by `indent` more columns.
// The text begins at `column` of the line.
void sm_screen_put_within(FILE *out, int width, int column, int indent, const char *text);

// A copy in which characters that control a terminal or reverse a line (sm_control_length), except newlines and tabs,
// are written as \u001b, and bytes that are not UTF-8 as \x9b. The caller frees it.
char *sm_escape_controls(const char *text, size_t size_bytes);

// Returns a stream whose text reaches the terminal of `out` with escaped control characters. With `fits`, wide lines
// continue below, indented by two more columns. Returns `out` itself if it is not a terminal. One at a time.
FILE *sm_screen_open(FILE *out, bool fits);

// Writes an array of records so that no line is wider than the terminal (80 columns where there is none): a table of
// the columns that a reader asks for first, as many as fit, or a line a column; then the legend (NULL: none).
void sm_text_write(const sm_table *table, const json_t *records, const sm_legend_line *legend, FILE *out);
