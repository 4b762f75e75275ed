// json_schema.h: the JSON Schema of a table's records.
#ifndef STEPMARK_BENCH_TABLES_JSON_SCHEMA_H
#define STEPMARK_BENCH_TABLES_JSON_SCHEMA_H

#include "bench/tables/table.h"

// Of one record: every column is required, since a writer leaves none out. The caller owns what comes; NULL when out of
// memory.
json_t *sm_table_json_schema(const sm_table *table, const char *title, const char *description);

#endif
