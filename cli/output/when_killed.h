// when_killed.h: results are printed soon after Ctrl-C also where what is under way, a long step or a driver's call,
// cannot be left: a thread of its own waits for that, prints what is complete, and ends the process.
#ifndef STEPMARK_CLI_OUTPUT_WHEN_KILLED_H
#define STEPMARK_CLI_OUTPUT_WHEN_KILLED_H

#include "status.h"
#include "cli/output/notes.h"

// From now on: where cli_interrupted is set and cli_last_words_end is not called in time, print(ctx) is called on
// another thread, and the process ends as interrupted. Nothing happens where no thread can be had.
void cli_last_words_begin(sm_status (*print)(void *ctx), void *ctx);

// Ends that. What print() reads is the caller's alone again.
void cli_last_words_end(void);

// What print() reads is changed only between these.
void cli_last_words_lock(void);
void cli_last_words_unlock(void);

#endif
