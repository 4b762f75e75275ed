// screen.h: fits output to a terminal.
#ifndef STEPMARK_BENCH_TABLES_SCREEN_H
#define STEPMARK_BENCH_TABLES_SCREEN_H

#include <stdbool.h>

#include "bench/tables/table.h"

// Columns of the terminal that `out` is; 0 where it is none.
int sm_screen_width(FILE *out);

// A text within `width` columns (0: as it is): lines that are too wide go on below, `indent` columns further in than
// where they began. `column` is where on the line the text begins.
void sm_screen_put_within(FILE *out, int width, int column, int indent, const char *text);

// A copy in which what a terminal would obey, or what would turn a line's direction (sm_control_length), stands as
// \u001b, but for newlines and tabs; and a byte that is no UTF-8 as \x9b. The caller frees it; NULL: no memory.
char *sm_escape_controls(const char *text, size_t size_bytes);

// What is printed to the stream that this gives reaches the terminal that `out` is with its controls escaped. Where it
// `fits`, it also keeps within: a line that is too wide goes on below, two columns further in than it began. `out`
// itself where it is no terminal, or there is no memory. One at a time.
FILE *sm_screen_open(FILE *out, bool fits);

// Writes an array of records so that no line is wider than the terminal (80 columns where there is none): a table of
// the columns that a reader asks for first, as many as fit, or a line a column.
//
//   device               test         tokens/s (95%)  step ms  of peak    memory  status
//   cpu amx              step b4s256      349 ± 0.6%     2930    54.8%  2.39 GiB  ok
sm_status sm_text_write(const sm_table *table, const json_t *records, FILE *out);

#endif
