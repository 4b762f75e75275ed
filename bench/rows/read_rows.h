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
//   other objects      are skipped with a warning that says why: no status of a row, or a field of
//                      the wrong type (sm_row_recognise). A line of a training log is no row
// A file without a single row is an error that says what the file seems to be. The time to read a file depends only on
// its size.
//
// Rows come from outside: callers may not assume a field's type. The readers below do not.
#ifndef STEPMARK_READ_ROWS_H
#define STEPMARK_READ_ROWS_H

#include "status.h"
#include "bench/tables/json_values.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    json_t *rows;                             // array of objects, in the order read
    json_t *warnings;                         // array of texts
    json_t *rungs;                            // of `stepmark ladder`, likewise; NULL: they are no rows either
    const volatile sig_atomic_t *interrupted; // looked at while reading; NULL is fine
} sm_rows;

sm_status sm_rows_init(sm_rows *rows);       // both empty; nothing interrupts
sm_status sm_rows_take_rungs(sm_rows *rows); // from now on those of a ladder are taken, too, apart from the rows
void sm_rows_free(sm_rows *rows);

// Appends the rows of a file; pipes are fine. SM_ERR_IO, SM_ERR_FORMAT, SM_ERR_OOM or SM_ERR_INTERRUPTED with the
// path; `rows` then holds what it held before.
sm_status sm_rows_read(const char *path, sm_rows *rows);

// The same of text in memory; `name` stands for the path in messages.
sm_status sm_rows_parse(const char *name, const char *text, size_t size_bytes, sm_rows *rows);

// A text field; "" when it is null, absent or no text.
const char *sm_rows_text(const json_t *row, const char *name);

// "own code" where kernels or a backend of the user's own ran (own_kernels): such rows are ranked apart; else "".
const char *sm_rows_own_code(const json_t *row);

// The model as a reader names it: "small", or "llama small" where the architecture is not the default one.
void sm_rows_model(const json_t *row, char *text, size_t size_bytes);

// The card or processor that ran: "Intel Xeon Platinum 8581C", without marks of trade and the clock.
void sm_rows_chip(const json_t *row, char *text, size_t size_bytes);

// A name of the row that need not be said where it is the default's: "" then.
const char *sm_rows_other_arch(const json_t *row);
const char *sm_rows_other_optimizer(const json_t *row);

// "ok" where the row does not say but has figures.
const char *sm_rows_status(const json_t *row);

// The positive, finite numbers of an array field, in order. The caller frees *values; *n is 0
// and *values NULL when there is none.
sm_status sm_rows_samples(const json_t *row, const char *name, double **values, size_t *n);

#endif
