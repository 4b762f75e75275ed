// output.h: notes and a live line on stderr; results in files: rows, pages, traces.
#ifndef STEPMARK_CLI_OUTPUT_OUTPUT_H
#define STEPMARK_CLI_OUTPUT_OUTPUT_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "status.h"
#include "bench/tables/record.h"

// Counts SIGINT and SIGTERM. Long work checks it between steps, keeps its results and returns SM_ERR_INTERRUPTED. A
// process that does not return within CLI_STOP_S, or gets a second signal, is ended (setup/setup.h).
extern volatile sig_atomic_t cli_interrupted;

// Suppresses notes: of several processes only one prints them.
void cli_mute(bool muted);

// A line on stderr, "stepmark: ...".
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

void cli_note_line(const char *line); // the same, for who is given a function

// -q: no line, and no cli_say().
extern bool cli_is_quiet;

// A note of the current work; none with -q.
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The whole has `total` parts, called `what` ("row"), of which `done` are complete; 0: unknown.
void cli_live_parts(const char *what, int done, int total);

// Shows the current work, step `done` of `total` (0: unknown), and the estimated remaining time.
void cli_live_show(const char *what, int done, int total);

// Shows lines that fit the terminal, each with its newline, in place of what is shown.
void cli_live_lines(const char *lines);

// Whether there is a terminal for it, and whether the last update was long enough ago.
bool cli_live_is_off(void);
bool cli_live_is_due(void);

// Removes what is shown; or leaves it there for good.
void cli_live_clear(void);
void cli_live_keep(void);

const char *cli_text_duration(double seconds, char text[32]); // "45 s", "12 min", "3.5 h"
#define CLI_DURATION(seconds) cli_text_duration((seconds), (char[32]){""})

// --- last words ----------------------------------------------------------------------------------

// Prints results soon after Ctrl-C even if the current work, a long step or a driver's call, cannot be interrupted: a
// separate thread prints what is complete, and ends the process.

// From this call: if cli_interrupted is set and cli_last_words_end is not called in time, another thread calls
// print(ctx), and the process ends as interrupted. Does nothing if no thread can be created.
void cli_last_words_begin(sm_status (*print)(void *ctx), void *ctx);

// Ends that. Afterwards only the caller reads the data of print().
void cli_last_words_end(void);

// Hold this lock to change the data of print().
void cli_last_words_lock(void);
void cli_last_words_unlock(void);

// --- rows ----------------------------------------------------------------------------------------

// The file of --output-file: rows are appended to a .jsonl file, or one with an unknown ending (bench/rows/read_rows.h); a
// .json, .csv or .md file is written when all rows are complete.
typedef struct {
    const char *path; // NULL: none
    sm_format format;
    struct sm_sweep_log *log; // of rows that are appended; NULL: it is written as a whole
    json_t *rows;             // kept until then
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

// --- pages ---------------------------------------------------------------------------------------

// A page is written whole or not at all.

typedef sm_status (*cli_page_function)(void *what, FILE *out);

// Writes to the file, with a note of its size after `before` ("12 rows, "; ""); NULL: to stdout.
sm_status cli_write_page(const char *path, cli_page_function put, void *what, const char *before);

// --- JSON ----------------------------------------------------------------------------------------

// Prints one object, so that a script can ask for a member, and takes it over; a failure's message names `what`.
sm_status cli_print_object(json_t *object, const char *what);

// --- traces --------------------------------------------------------------------------------------

sm_status cli_write_json(const json_t *value, const char *path);
sm_status cli_write_trace(const json_t *trace, const char *path);

#endif
