// table.h: a table is a list of columns: what each is called, holds and shows.
#ifndef STEPMARK_BENCH_TABLES_TABLE_H
#define STEPMARK_BENCH_TABLES_TABLE_H

#include "status.h"
#include "bench/tables/json_values.h"

#include <stdbool.h>
#include <stddef.h>

// A column's type, and what a struct behind the table keeps it in. X(code, SQL type)
#define SM_COLUMN_LIST(X)                                                        \
    X(SM_COLUMN_INTEGER, "INTEGER") /* int64_t, SM_ABSENT = null */              \
    X(SM_COLUMN_REAL, "REAL")       /* double, NaN = null */                     \
    X(SM_COLUMN_BOOLEAN, "INTEGER") /* bool */                                   \
    X(SM_COLUMN_TEXT, "TEXT")       /* char array, "" = null */                  \
    X(SM_COLUMN_INTEGERS, "TEXT")   /* sm_integers, never null: [] when empty */ \
    X(SM_COLUMN_REALS, "TEXT")      /* sm_reals, likewise */                     \
    X(SM_COLUMN_JSON, "TEXT")       /* json_t *, array or object, NULL = null */

typedef enum {
#define X(code, sql) code,
    SM_COLUMN_LIST(X)
#undef X
        SM_COLUMN_TYPE_COUNT
} sm_column_type;

typedef struct {
    int64_t *values;
    int64_t n;
} sm_integers;

typedef struct {
    double *values;
    int64_t n;
} sm_reals;

typedef struct sm_column sm_column;

// Writes what a Markdown cell shows of a record, for instance "12.3 ± 0.4%" out of two fields;
// "" shows as "-". show.h has the usual ones.
typedef void (*sm_show)(const json_t *record, const sm_column *column, char *text, size_t size_bytes);

enum { SM_CELL_SIZE = 1024 };

// Markdown leaves out a column that is empty in every record.
typedef enum {
    SM_SHOWN,             // as a column (where `heading` is set)
    SM_SHOWN_WHEN_VARIED, // as a column if it differs between records, else once above the table
    SM_SHOWN_AS_NOTES,    // an array of texts: each is a line under the table, marked in the lines of the records that
                          // have it unless all have it; those that differ in figures alone are one
    SM_SHOWN_BELOW,       // likewise, but of the table as a whole: not marked
} sm_column_view;

enum { SM_RANK_ALWAYS = 9 };

struct sm_column {
    const char *name; // dotted where it lies in a nested object
    sm_column_type type;
    const char *unit;        // "ns", "bytes", ""
    const char *description; // one line

    // Markdown.
    const char *heading; // NULL: not shown
    sm_column_view view;
    sm_show show; // NULL: by the type

    // Text. What does not fit is left out, the lowest rank first.
    int rank;                  // 0: no place, where another column of the table has a rank
    const char *brief_heading; // NULL: heading
    sm_show brief;             // NULL: show

    bool is_speed; // how fast, or how much energy: not to be told of steps that computed a wrong loss

    // Where a struct behind the table keeps the field; unused by tables of plain JSON.
    size_t offset;
    size_t size_bytes;
};

typedef struct {
    const char *name; // of the SQL table
    const sm_column *columns;
    int n_columns;
} sm_table;

#endif
