// block.h: rows as a short text that people paste into a forum, an issue or a mail: a line for people for each row, and
// below them the facts that a reader may know, compressed, with a digest. Each line is indented by four spaces, which
// Markdown shows as it is.
//
//   stepmark-124M-v1  AMD EPYC, 2 cores      262 tok/s ± 0.6% fp32  84% peak verified
//   [stepmark block 1, fnv1a64:0123456789abcdef]
//   eNrtV01v4zYQ...
//   [end of stepmark block]
//
// The facts are chosen by a list (block.c): no name of a host or user, and no path, leaves the machine. A reader finds
// blocks in any text: quoted by "> ", in a saved page, between other lines. The digest detects damage and edits by hand;
// it is no signature.
#ifndef STEPMARK_BENCH_ROWS_BLOCK_H
#define STEPMARK_BENCH_ROWS_BLOCK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { SM_BLOCK_MOST_BYTES = 2500, SM_BLOCK_LINE_SIZE = 256, SM_BLOCK_WHY_SIZE = 256 };

// What ran, in at most `width` characters: "AMD EPYC, 2 cores", "EPYC 9654 x96", "AMD EPYC, OpenCL", "H100 80GB HBM3".
void sm_block_machine(const json_t *row, int width, char *name, size_t size_bytes);

// A row as a line of 80 columns. Its fields `score` and `busy` (true: others had the processors, too) are its first and
// last words.
void sm_block_line(const json_t *row, char line[SM_BLOCK_LINE_SIZE]);

// The rows as a text of at most SM_BLOCK_MOST_BYTES, without the last ones if they do not fit; *n_rows is the number of
// those that do. The caller frees the text.
char *sm_block_make(const json_t *rows, size_t *n_rows);

// The next block from byte *at of a text on, which moves behind it; false: there is none. *begin is where it begins.
// *rows: its rows, a new array, or NULL: it is damaged, and `why` says how. `why` is also set for the rows of a block
// whose lines for people say something else.
bool sm_block_next(const char *text, size_t size_bytes, size_t *at, size_t *begin, json_t **rows,
                   char why[SM_BLOCK_WHY_SIZE]);

#endif
