// record.h: tables of results in several formats. A table is a list of columns; a record is a JSON object; the columns
// give the names of the record's fields, their meaning, and their display. Everything that stepmark prints as a result
// goes through here.
//
//   json, jsonl    an array of objects, one field a line; or an object a line
//   csv            RFC 4180; null is an empty cell. A dotted name becomes one column ("phases.forward_ns" ->
//                  phases_forward_ns), arrays and objects JSON text. A text that a spreadsheet would run as a formula
//                  gets an apostrophe in front; control characters become spaces
//   md, text       an aligned Markdown table; or the columns that a reader asks for first, as the terminal is wide
//   latex, typst   a tabular with the lines of booktabs; a table. All columns of text
//   gbench, bmf    Google Benchmark's JSON; Bencher's. Of rows: the median step and tokens/s (formats.c)
//
// Every record of json, jsonl and csv is flushed when written, so that a run that is cut short leaves the ones before
// it; the close makes an interrupted json array whole.
#pragma once

#include "bench/tables/table.h"

// X(code, name)
#define SM_FORMAT_LIST(X)         \
    X(SM_FORMAT_JSON, "json")     \
    X(SM_FORMAT_JSONL, "jsonl")   \
    X(SM_FORMAT_CSV, "csv")       \
    X(SM_FORMAT_MARKDOWN, "md")   \
    X(SM_FORMAT_TEXT, "text")     \
    X(SM_FORMAT_LATEX, "latex")   \
    X(SM_FORMAT_TYPST, "typst")   \
    X(SM_FORMAT_GBENCH, "gbench") \
    X(SM_FORMAT_BMF, "bmf")

#define SM_FORMAT_NAMES "text|md|csv|json|jsonl|latex|typst|gbench|bmf"

typedef enum { SM_FORMAT_LIST(SM_CODE) SM_FORMAT_COUNT } sm_format;

const char *sm_format_name(sm_format format);
bool sm_format_is_read(sm_format format); // for people: md or text

// A text next to a table: of Markdown its markup is escaped; control characters become spaces.
void sm_put_sentence(const char *before, const char *text, const char *after, sm_format format, FILE *out);
bool sm_format_parse(const char *name, sm_format *format);   // "markdown" also means md, "tex" latex, "typ" typst
bool sm_format_of_file(const char *path, sm_format *format); // by its ending

const char *sm_ending(const char *path); // the letters after the last dot; "": none, or not letters alone ("v1.2")
bool sm_has_ending(const char *path, const char *endings); // in capitals, too: one of "html htm"

// Index of the column with that name, or -1.
int sm_table_find(const sm_table *table, const char *name);

// Chooses columns by their names, "median_ts,avg_ns", each shown by itself: times in ms. SM_ERR_USAGE names an unknown
// one. The caller frees chosen->columns.
sm_status sm_table_choose(const sm_table *table, const char *const *names, int n, sm_table *chosen);

// The records with these columns alone: a new array.
json_t *sm_records_chosen(const sm_table *chosen, const json_t *records);

// Makes a record from the struct at `base`, with every column. The caller owns it.
json_t *sm_record_from_struct(const sm_table *table, const void *base);

typedef struct sm_record_writer sm_record_writer;

// Writes the part before the first record. `table` and `out` must outlive the writer, which does not close `out`.
sm_status sm_record_writer_open(const sm_table *table, sm_format format, FILE *out, sm_record_writer **writer);

// latex and typst; gbench and bmf: whole (formats.c).
void sm_typeset_write(const sm_table *table, const json_t *records, sm_format format, FILE *out);
void sm_ci_write(const json_t *records, sm_format format, FILE *out);

// Writes one record and takes ownership of it, also after a failure. Missing columns become null; fields without a
// column are kept in json and jsonl.
sm_status sm_record_write(sm_record_writer *writer, json_t *record);

// Has the table end with a legend, in the formats for people. The legend must outlive the writer.
void sm_record_writer_explain(sm_record_writer *writer, const sm_legend_line *legend);

// Writes the part after the last record and frees the writer, also after a failure, whose status it returns. NULL is fine.
sm_status sm_record_writer_close(sm_record_writer *writer, sm_status before);

// Writes all records of an array (which is not changed), with the parts before and after.
sm_status sm_record_write_all(const sm_table *table, sm_format format, FILE *out, const json_t *records);

// A text in quotation marks, as a cell of CSV that no spreadsheet runs.
void sm_csv_quoted(FILE *out, const char *text);

// The JSON Schema of a record: every column is required, since a writer leaves none out. The caller owns it.
json_t *sm_table_json_schema(const sm_table *table, const char *title, const char *description);
