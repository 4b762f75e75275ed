// row_json_schema.h: the table of the result row (row_fields.h) as a JSON Schema, and a check of a row against it.
#ifndef STEPMARK_ROW_JSON_SCHEMA_H
#define STEPMARK_ROW_JSON_SCHEMA_H

#include "bench/rows/row.h"

#include <stdbool.h>

// JSON Schema, draft 2020-12. Every field may be null; other fields are allowed. The caller owns it.
json_t *sm_row_json_schema(void);

bool sm_row_is_status(const json_t *value); // ok, oom, timeout, skipped or error

// Whether this object, perhaps from another program or version, is a readable row: it has a schema_version or a time
// (median_ns, avg_ns, samples_ns), a known status (optional if it has a time), and no value of a wrong type (any number
// is accepted as a whole number). SM_ERR_FORMAT names what is missing.
sm_status sm_row_recognise(const json_t *object);

enum { SM_CONTRADICTION_SIZE = 256 };

// Whether a row contradicts itself or the world (consistent.c); `text` says where: "median_ts is 1.6e+06, where its other
// fields give 16612". What follows from other fields is computed again: statistics and rates from samples, shares from
// work and peaks, sums from parts, marks from flags. Errors are held to their allowances, dates to the calendar, shares
// to the measured ceiling. Fields that are not there contradict nothing.
bool sm_row_contradicts(const json_t *row, char text[SM_CONTRADICTION_SIZE]);

// sm_row_clear_speed of a row in JSON.
void sm_row_drop_speed(json_t *row);

// Makes an error of a row that contradicts itself: its reason says where, and it has no figure of speed any more, so
// that nothing ranks, compares or draws it. Every reader of rows does so. `text` as above; "" for any other row.
void sm_row_hold_to_itself(json_t *row, char text[SM_CONTRADICTION_SIZE]);

#endif
