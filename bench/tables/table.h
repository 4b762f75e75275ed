// table.h: a table is a list of columns: their names, types, meanings and display.
#pragma once

#include "bench/tables/json_values.h"

// A column's type, and the member of a struct that holds it.
typedef enum {
    SM_COLUMN_INTEGER,  // int64_t, SM_ABSENT = null
    SM_COLUMN_REAL,     // double, NaN = null
    SM_COLUMN_BOOLEAN,  // bool
    SM_COLUMN_TEXT,     // char array, "" = null
    SM_COLUMN_INTEGERS, // sm_integers, never null: [] when empty
    SM_COLUMN_REALS,    // sm_reals, likewise
    SM_COLUMN_JSON,     // json_t *, array or object, NULL = null
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

// Writes a record's Markdown cell, for instance "12.3 ± 0.4%" from two fields; "" shows as "-". show.h has the usual
// functions. `text` is "" before.
typedef void (*sm_show)(const json_t *record, const sm_column *column, char *text, size_t size_bytes);

enum { SM_CELL_SIZE = 1024 };

// Markdown omits a column that is empty in every record.
typedef enum {
    SM_SHOWN,             // as a column (if `heading` is set)
    SM_SHOWN_WHEN_VARIED, // as a column if it differs between records, otherwise once above the table
    SM_SHOWN_WHEN_SOME,   // likewise, where a record without it differs from one with it
    SM_SHOWN_IF_VARIED,   // likewise, otherwise not at all
    SM_SHOWN_AS_NOTES,    // an array of texts: each becomes a line below the table, and a mark in the lines of its
                          // records unless all have it; many that differ only in figures are joined
    SM_SHOWN_BELOW,       // likewise, but for the whole table: no marks
} sm_column_view;

enum { SM_RANK_ALWAYS = 9 };

struct sm_column {
    const char *name; // dotted for a field of a nested object
    sm_column_type type;
    const char *unit;        // "ns", "bytes", ""
    const char *description; // one line

    // Markdown.
    const char *heading; // NULL: not shown
    sm_column_view view;
    sm_show show;                 // NULL: by the type
    const char *format;           // of a finite SM_COLUMN_REAL, for printf; NULL: "%.4g"
    double scale;                 // multiplies what is shown of it; 0: 1
    const char *beside, *lo, *hi; // " (%.2f-%.2f)", for fields of its interval; NULL: none

    // Text. Columns that do not fit are omitted, the lowest rank first.
    int rank;                  // 0: never shown, if another column of the table has a rank
    const char *brief_heading; // NULL: heading
    sm_show brief;             // NULL: show

    bool is_speed; // speed or energy: must not be shown for steps with a wrong loss

    // Set in columns of result rows only (row_fields.h).
    int identity;       // part of a row's identity that the column belongs to (bench/rows/identity.h); 0: none
    const char *absent; // what rows mean that are older than the column; NULL: nothing
    bool may_lack, is_never_unknown;

    // Offset of the field in a struct; unused by tables of plain JSON.
    size_t offset, size_bytes;
};

// A column of records of plain JSON; members of sm_column follow the description:
// SM_REAL("share", "", "of the step", .heading = "share", .rank = 8)
#define SM_COLUMN(its_name, its_type, its_unit, ...) \
    { .name = its_name, .type = its_type, .unit = its_unit, .description = __VA_ARGS__ }
#define SM_INTEGER(its_name, its_unit, ...) SM_COLUMN(its_name, SM_COLUMN_INTEGER, its_unit, __VA_ARGS__)
#define SM_REAL(its_name, its_unit, ...)    SM_COLUMN(its_name, SM_COLUMN_REAL, its_unit, __VA_ARGS__)
#define SM_BOOLEAN(its_name, ...)           SM_COLUMN(its_name, SM_COLUMN_BOOLEAN, "", __VA_ARGS__)
#define SM_TEXT(its_name, ...)              SM_COLUMN(its_name, SM_COLUMN_TEXT, "", __VA_ARGS__)
#define SM_JSON(its_name, ...)              SM_COLUMN(its_name, SM_COLUMN_JSON, "", __VA_ARGS__)

// A text shown once above the table if all records share it.
#define SM_SHARED_COLUMN(its_name, its_text, its_heading) \
    SM_TEXT(its_name, its_text, .heading = its_heading, .view = SM_SHOWN_WHEN_VARIED)

// A list of columns that also gives their values, #define COLUMN_LIST(X) X(name, type, unit, description, value, further
// members), makes a table, SM_LISTED_TABLE(name, COLUMN_LIST), and sets the fields of a json_t *record,
// COLUMN_LIST(SM_LISTED_VALUE). A type is INTEGER, REAL, BOOLEAN, TEXT, or JSON, a value that the record takes over.
#define SM_LISTED_TABLE(title, list) \
    { title, (const sm_column[]){list(SM_LISTED_COLUMN)}, SM_COUNT(((const sm_column[]){list(SM_LISTED_COLUMN)})) }
#define SM_LISTED_COLUMN(its_name, its_type, its_unit, text, value, ...) \
    {.name = its_name, .type = SM_COLUMN_##its_type, .unit = its_unit, .description = text, __VA_ARGS__},
#define SM_LISTED_VALUE(its_name, its_type, its_unit, text, value, ...) \
    sm_json_set_new(record, its_name, SM_VALUE_##its_type(value));
#define SM_VALUE_INTEGER     sm_json_integer
#define SM_VALUE_REAL        sm_json_real
#define SM_VALUE_BOOLEAN     json_boolean
#define SM_VALUE_TEXT        sm_json_text
#define SM_VALUE_JSON(value) (value)

typedef struct {
    const char *name;
    const sm_column *columns;
    int n_columns;
} sm_table;

// A line below a table written for people, "- self: ...", about one of its columns: written where that is shown.
typedef struct {
    const char *column; // its name; NULL: about the table
    const char *text;   // NULL ends a legend, an array of lines
} sm_legend_line;
