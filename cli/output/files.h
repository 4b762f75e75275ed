// files.h: writes results to files: rows, pages, traces.
#ifndef STEPMARK_CLI_OUTPUT_FILES_H
#define STEPMARK_CLI_OUTPUT_FILES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "status.h"
#include "bench/tables/record.h"

// --- rows ----------------------------------------------------------------------------------------

// `run --output-file FILE`: rows are appended to a .jsonl file, or one with an unknown ending (bench/rows/sweep_log.h); a
// .json, .csv or .md file is written when all rows are complete.

// Whether rows are appended to a file of that name.
bool cli_is_log(const char *path);

// A file that is written as a whole.
typedef struct {
    const char *path; // NULL: none
    sm_format format;
    json_t *rows; // kept until the end
} cli_second;

void cli_second_open(const char *path, cli_second *second);
void cli_second_add(cli_second *second, json_t *row);

// The number in the file, from 1, of the row added last; 0: `compare` cannot read this file.
size_t cli_second_number(const cli_second *second);

// Adds a row to a file of either kind.
sm_status cli_write_row(const char *path, json_t *row);

// Below a table: what its row numbers (#) are for.
void cli_rows_hint(const char *path);

// Writes what remains, and closes.
sm_status cli_second_close(cli_second *second);

// --- pages ---------------------------------------------------------------------------------------

// A page is written whole or not at all.

typedef sm_status (*cli_page_function)(void *what, FILE *out);

// Writes to the file, with a note of its size after `before` ("12 rows, "; ""); NULL: to stdout.
sm_status cli_write_page(const char *path, cli_page_function write, void *what, const char *before);

// --- traces --------------------------------------------------------------------------------------

sm_status cli_write_trace(const json_t *trace, const char *path);

#endif
