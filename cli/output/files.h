// files.h: results in files of their own: rows, pages, traces.
#ifndef STEPMARK_CLI_OUTPUT_FILES_H
#define STEPMARK_CLI_OUTPUT_FILES_H

#include <jansson.h>
#include <stdio.h>

#include "status.h"
#include "bench/tables/record.h"

// --- rows ----------------------------------------------------------------------------------------

// `run --output-file FILE`: its rows once more, in a file. A .jsonl file, or one of another name, is appended to, row
// by row; a .json, .csv, .sql or .md file takes its name when all rows are there.

typedef struct {
    const char *path; // NULL: there is none
    sm_format format;
    FILE *log;    // appended to
    json_t *rows; // kept for the end
} cli_second;

sm_status cli_second_open(const char *path, cli_second *second);
sm_status cli_second_add(cli_second *second, const json_t *row);

// Writes what is to be written at the end, and closes.
sm_status cli_second_close(cli_second *second);

// --- pages ---------------------------------------------------------------------------------------

// A page is written whole or not at all.

typedef sm_status (*cli_page_function)(void *what, FILE *out);

// To the file, with a note that says how large it is, after `before` ("12 rows, "; ""); NULL: to stdout.
sm_status cli_write_page(const char *path, cli_page_function write, void *what, const char *before);

// --- traces --------------------------------------------------------------------------------------

sm_status cli_write_trace(const json_t *trace, const char *path);

#endif
