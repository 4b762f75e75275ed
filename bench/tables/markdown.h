// markdown.h: records as a Markdown table that also reads well in a terminal.
//
//   All rows: model small (124M), mode fused
//
//   | device | test       | step ms ± spread |
//   |--------|------------|-----------------:|
//   | cpu    | step b4s64 |     812.3 ± 0.4% |
//
//   - warning: the governor is powersave
//
// Numbers are right-aligned. The last column is not padded, as it may have a long reason. Control characters in cells
// become spaces, so that no text can control the terminal.
#ifndef STEPMARK_BENCH_TABLES_MARKDOWN_H
#define STEPMARK_BENCH_TABLES_MARKDOWN_H

#include "bench/tables/table.h"

// Writes the array of records, then the legend (NULL: none).
void sm_markdown_write(const sm_table *table, const json_t *records, const sm_legend_line *legend, FILE *out);

// A text with escaped markup; control characters become spaces.
void sm_markdown_text(const char *text, FILE *out);

#endif
