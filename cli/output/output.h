// output.h: notes and a live line on stderr; results in files: rows, pages, traces.
#pragma once

#include <signal.h>

#include "bench/tables/record.h"

// Counts SIGINT and SIGTERM. Long work checks it between steps, keeps its results and returns SM_ERR_INTERRUPTED. A
// process that does not return within CLI_STOP_S, or gets a second signal, is ended (setup/setup.h).
extern volatile sig_atomic_t cli_interrupted;

// A line on stderr, "stepmark: ...": of facts, or of the current work, which -q leaves out as it does the live line.
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_note_line(const char *line); // cli_note, for who is given a function
void cli_mute(bool muted);            // no lines: of several processes only one prints them
extern bool cli_is_quiet;             // -q

// The whole has `total` parts, called `what` ("row"), of which `done` are complete; 0: unknown.
void cli_live_parts(const char *what, int done, int total);

// Shows the current work, step `done` of `total` (0: unknown), and the estimated remaining time.
void cli_live_show(const char *what, int done, int total);

// Shows lines that fit the terminal, each with its newline, in place of what is shown.
void cli_live_lines(const char *lines);

bool cli_live_is_off(void); // no terminal for it
bool cli_live_is_due(void); // the last update was long enough ago
void cli_live_clear(void);  // removes what is shown
void cli_live_keep(void);   // leaves it there for good

const char *cli_text_duration(double seconds, char text[32]); // "45 s", "12 min", "3.5 h"
#define CLI_DURATION(seconds) cli_text_duration((seconds), (char[32]){""})

// --- rows ----------------------------------------------------------------------------------------

// The file of --output-file: rows are appended to a .jsonl file, or one with an unknown ending
// (bench/rows/read_rows.h); a .json, .csv or .md file is written now and then, and when all rows are complete.
typedef struct {
    const char *path; // NULL: none
    sm_format format;
    struct sm_sweep_log *log;     // of rows that are appended; NULL: it is written as a whole
    json_t *rows;                 // kept until then
    struct sm_atomic_file *whole; // opened before them
    int64_t written_ns;
} cli_row_file;

// `looks`: only reads what is there.
sm_status cli_row_file_open(const char *path, bool looks, cli_row_file *file);
sm_status cli_row_file_add(cli_row_file *file, json_t *row);

// The number in the file, from 1, of a row, where it is written as a whole of the one added last; 0: it has no numbers.
size_t cli_row_file_number(const cli_row_file *file, const json_t *row);

// Writes what remains, and closes; one that is not open stays so.
sm_status cli_row_file_close(cli_row_file *file);

// Adds a row to a file.
sm_status cli_write_row(const char *path, json_t *row);

// --- pages, objects and traces -------------------------------------------------------------------

typedef sm_status (*cli_page_function)(void *what, FILE *out);

// Writes a page, whole or not at all, with a note of its size after `before` ("12 rows, "; ""); path NULL: to stdout.
sm_status cli_write_page(const char *path, cli_page_function put, void *what, const char *before);

// Prints one object, so that a script can ask for a member, and takes it over; a failure's message names `what`.
sm_status cli_print_object(json_t *object, const char *what);

sm_status cli_write_json(const json_t *value, const char *path);
sm_status cli_write_trace(const json_t *trace, const char *path);
