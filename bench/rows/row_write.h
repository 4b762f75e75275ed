// row_write.h: writes result rows to a stream, in any of the formats of record.h.
#ifndef STEPMARK_ROW_WRITE_H
#define STEPMARK_ROW_WRITE_H

#include "bench/rows/row.h"

typedef sm_record_writer sm_row_writer;

sm_status sm_row_writer_open(sm_format format, FILE *out, sm_row_writer **writer);

// Writes a row as JSON (sm_row_to_json), which it takes ownership of. A row without a status is written as an error, so
// that no reader takes it for a result.
sm_status sm_row_write_record(sm_row_writer *writer, json_t *row);

// A row of which tables for people also show the number in its file, from 1, as `again --row` takes it; 0: unknown.
// Takes ownership of `row`; NULL: no memory.
json_t *sm_row_numbered(json_t *row, size_t number);

// Has a table for people end with a few lines on what its columns mean.
void sm_row_writer_explain(sm_row_writer *writer);
sm_status sm_row_writer_close(sm_row_writer *writer); // NULL is fine

// The meaning of the Markdown table's columns, for new users.
void sm_row_write_legend(bool has_peaks, FILE *out); // without peaks, without what follows from them

#endif
