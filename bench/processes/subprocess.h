// subprocess.h: runs another program and keeps what it says.
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

// Starts argv[0] (searched for along PATH where it has no slash) in `folder` (NULL: this one),
// with an empty stdin, and waits for its end. A failure of the program is its exit code, not
// this function's: that fails with SM_ERR_UNSUPPORTED where the program is not there,
// SM_ERR_INTERRUPTED when *interrupted (NULL is fine) was set meanwhile, and the program told to end,
// and half a second later ended.
sm_status sm_subprocess_run(char *const argv[], const char *folder, const volatile sig_atomic_t *interrupted,
                            sm_subprocess *process);
void sm_subprocess_free(sm_subprocess *process);

// The last line of its stderr that says anything, for a message; "" if there is none. Cuts `err`.
const char *sm_subprocess_last_line(sm_subprocess *process);

#endif
