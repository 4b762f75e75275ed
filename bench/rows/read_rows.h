// read_rows.h: result files that this program, an older one of it, or another program wrote.
//
// A file holds JSON objects, one row each: a JSON array (-o json), a line each (-o jsonl), or one after the other.
// Unknown fields do no harm:
//   unknown fields     stay in the row
//   fields not there   are null for the reader
//   an older version   is read; figures that follow from its samples are filled in
//   a newer version    is read, with a warning
//   damaged text       is set aside with a warning that names the place: the last line of a run
//                      that was cut short, or a line that is no JSON
//   a contradiction    makes a row an error without figures, with a warning (sm_row_contradicts)
//   other objects      are skipped with a warning that says why: no status of a row, or a field of
//                      the wrong type (sm_row_recognise). A line of a training log is no row
//   a block            (block.h) is found in any text; its rows have the field `block`, the number of its first line.
//                      Nothing else of a text with blocks is read. One that cannot be read becomes an error, too
// A file without a single row is an error that says what the file seems to be. The time to read a file depends only on
// its size.
//
// Rows come from outside: callers may not assume a field's type. The readers below do not.
#ifndef STEPMARK_READ_ROWS_H
#define STEPMARK_READ_ROWS_H

#include "status.h"
#include "bench/tables/json_values.h"

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    json_t *rows;                             // array of objects, in the order of reading
    json_t *warnings;                         // array of texts
    json_t *rungs;                            // rungs of `stepmark ladder`, likewise; NULL: they are not read
    const volatile sig_atomic_t *interrupted; // tested while reading; NULL is fine
} sm_rows;

void sm_rows_init(sm_rows *rows);       // all empty; nothing interrupts
void sm_rows_take_rungs(sm_rows *rows); // from now on also reads rungs of ladders, separate from rows
void sm_rows_free(sm_rows *rows);

// Appends the rows of a file or pipe. SM_ERR_IO, SM_ERR_FORMAT, SM_ERR_OOM or SM_ERR_INTERRUPTED with the path; `rows`
// is then unchanged.
sm_status sm_rows_read(const char *path, sm_rows *rows);

// The same for text in memory; messages show `name` as the path.
sm_status sm_rows_parse(const char *name, const char *text, size_t size_bytes, sm_rows *rows);

// A text field; "" if it is null, absent or not a text.
const char *sm_rows_text(const json_t *row, const char *name);

// "own code" if kernels or a backend of the user's own ran (own_kernels), since such rows are ranked separately;
// otherwise "".
const char *sm_rows_own_code(const json_t *row);

// The model's name for readers: "small", or "llama small" if the architecture is not the default.
void sm_rows_model(const json_t *row, char *text, size_t size_bytes);

// The name of the card or processor, without trademarks and clock: "Intel Xeon Platinum 8581C".
void sm_rows_chip(const json_t *row, char *text, size_t size_bytes);

// The limit that a step is nearest to: "bound by arithmetic: 62% of its measured peak"; "" where no peak was measured.
void sm_rows_bound(const json_t *row, char *text, size_t size_bytes);

// The row's architecture if it is not the default; otherwise "".
const char *sm_rows_other_arch(const json_t *row);
const char *sm_rows_other_optimizer(const json_t *row);

// "ok" if the row has figures but no status.
const char *sm_rows_status(const json_t *row);

// The positive, finite numbers of an array field, in order. The caller frees *values; *n is 0 and *values NULL if there
// are none.
void sm_rows_samples(const json_t *row, const char *name, double **values, size_t *n);

// Recognises files without result rows, for a better message.

#endif
