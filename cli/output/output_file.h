// output_file.h: `run --output-file FILE`: its rows once more, in a file. A .jsonl file, or one of another name, is
// appended to, row by row; a .json, .csv, .sql or .md file takes its name when all rows are there.
#ifndef STEPMARK_CLI_OUTPUT_OUTPUT_FILE_H
#define STEPMARK_CLI_OUTPUT_OUTPUT_FILE_H

#include "bench/tables/record.h"

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

#endif
