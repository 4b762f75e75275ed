// row_json_schema.h: the table of the result row (row_schema.c) as a JSON Schema, and a check of a
// row against the table.
#ifndef STEPMARK_ROW_JSON_SCHEMA_H
#define STEPMARK_ROW_JSON_SCHEMA_H

#include "bench/rows/row.h"

// JSON Schema, draft 2020-12. Every field may be null; fields that it does not name are allowed.
// The caller owns it; NULL when out of memory.
json_t *sm_row_json_schema(void);

// SM_ERR_FORMAT names the first field whose value the schema does not allow.
sm_status sm_row_validate(const json_t *row);

// Is this object, which may be another program's or another version's, a row that can be read? It has a schema_version
// or a time (median_ns, avg_ns, samples_ns), a status that there is (none is fine beside a time), and no value whose
// type the table does not know: where a whole number is due, any number will do. SM_ERR_FORMAT says what it has not.
sm_status sm_row_recognise(const json_t *object);

#endif
