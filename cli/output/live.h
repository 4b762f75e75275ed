// live.h: a line on the terminal that says what is being done and how long it will still take. Off a terminal, and
// with -q, nothing. cli_note() and the process's end take it away.
#ifndef STEPMARK_CLI_OUTPUT_LIVE_H
#define STEPMARK_CLI_OUTPUT_LIVE_H

#include <stdbool.h>

// -q: no line, and no cli_say().
extern bool cli_is_quiet;

// A note of what is being done; none with -q.
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The whole is `total` parts, called `what` ("row"), of which `done` are over; 0: unknown.
void cli_live_parts(const char *what, int done, int total);

// Shows what is being done, step `done` of `total` (0: unknown), and about how long the parts will still take, or this.
void cli_live_show(const char *what, int done, int total);

// Takes the line away.
void cli_live_clear(void);

#endif
