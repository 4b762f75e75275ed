// subprocess.h: runs another program and keeps its output.
#ifndef STEPMARK_SUBPROCESS_H
#define STEPMARK_SUBPROCESS_H

#include "status.h"

#include <signal.h>
#include <stddef.h>

typedef struct {
    int exit_code; // 128 + number where a signal ended it
    char *out;     // stdout, with a zero after it
    size_t out_bytes;
    char *err; // stderr, likewise
    size_t err_bytes;
} sm_subprocess;

typedef struct {
    const volatile sig_atomic_t *interrupted; // once it is set, the program is told to end, and soon after ended
    double timeout_s;                         // then it is ended, with all that it started; 0: none
    size_t most_bytes;                        // of each stream that is kept; 0: all
    void (*prepare)(void *ctx);               // in its process before it begins: limits; only what is safe there
    void *ctx;
} sm_subprocess_how;

// Starts argv[0] (searched for along PATH where it has no slash) with an empty stdin, and waits for its end. A failure
// of the program is its exit code, not this function's: that fails with SM_ERR_UNSUPPORTED where the program is not
// there, SM_ERR_TIMEOUT, and SM_ERR_INTERRUPTED.
sm_status sm_subprocess_run(char *const argv[], const sm_subprocess_how *how, sm_subprocess *process);
void sm_subprocess_free(sm_subprocess *process);

// The last line of its stderr that says anything, for a message; "" if there is none. Cuts `err`.
const char *sm_subprocess_last_line(sm_subprocess *process);

#endif
