// row_json_schema.h: the table of the result row (row_schema.c) as a JSON Schema, and a check of a row against it.
#ifndef STEPMARK_ROW_JSON_SCHEMA_H
#define STEPMARK_ROW_JSON_SCHEMA_H

#include "bench/rows/row.h"

// JSON Schema, draft 2020-12. Every field may be null; other fields are allowed. The caller owns it; NULL when out of
// memory.
json_t *sm_row_json_schema(void);

// SM_ERR_FORMAT names the first field with an invalid value.
sm_status sm_row_validate(const json_t *row);

// Whether this object, perhaps from another program or version, is a readable row: it has a schema_version or a time
// (median_ns, avg_ns, samples_ns), a known status (optional if it has a time), and no value of a wrong type (any number
// is accepted as a whole number). SM_ERR_FORMAT names what is missing.
sm_status sm_row_recognise(const json_t *object);

#endif
