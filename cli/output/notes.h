// notes.h: notes on stderr, and a line on the terminal with the current work and the remaining time. Off a terminal,
// and with -q, nothing. cli_note() and the process's end remove it.
#ifndef STEPMARK_CLI_OUTPUT_NOTES_H
#define STEPMARK_CLI_OUTPUT_NOTES_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "status.h"

// Counted up by SIGINT and SIGTERM. Long work looks at it between steps, keeps what it has and
// returns SM_ERR_INTERRUPTED. A process that does not return within CLI_STOP_S, or gets a second signal, is ended
// (setup/worker.h).
extern volatile sig_atomic_t cli_interrupted;

// No notes from now on: of several processes one takes them.
void cli_mute(bool muted);

// A line on stderr, "stepmark: ...".
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

// -q: no line, and no cli_say().
extern bool cli_is_quiet;

// A note of what is being done; none with -q.
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The whole is `total` parts, called `what` ("row"), of which `done` are over; 0: unknown.
void cli_live_parts(const char *what, int done, int total);

// Shows what is being done, step `done` of `total` (0: unknown), and about how long the parts will still take, or this.
void cli_live_show(const char *what, int done, int total);

// Removes the line.
void cli_live_clear(void);

void cli_text_duration(double seconds, char *text, size_t size_bytes); // "45 s", "12 min", "3.5 h"

// --- last words ----------------------------------------------------------------------------------

// Results are printed soon after Ctrl-C also where what is under way, a long step or a driver's call, cannot be left:
// a thread of its own waits for that, prints what is complete, and ends the process.

// From now on: where cli_interrupted is set and cli_last_words_end is not called in time, print(ctx) is called on
// another thread, and the process ends as interrupted. Nothing happens where no thread can be had.
void cli_last_words_begin(sm_status (*print)(void *ctx), void *ctx);

// Ends that. What print() reads is the caller's alone again.
void cli_last_words_end(void);

// What print() reads is changed only between these.
void cli_last_words_lock(void);
void cli_last_words_unlock(void);

#endif
