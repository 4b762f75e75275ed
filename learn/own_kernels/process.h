// process.h: the process that runs kernels of the user's own (src/plan/own_process.h).
#ifndef STEPMARK_LEARN_OWN_KERNELS_PROCESS_H
#define STEPMARK_LEARN_OWN_KERNELS_PROCESS_H

#include "status.h"

// The process of sm_own_process_start: its standard input is the shared memory. Confines this process, loads the
// libraries, and runs kernels until it is ended. SM_ERR_USAGE: it was not started so.
sm_status sm_own_process_serve(int n_words, char *const *words);

#endif
