// cli_environment.h: environment variables that hold the processor back.
#ifndef STEPMARK_CLI_ENVIRONMENT_H
#define STEPMARK_CLI_ENVIRONMENT_H

#include "cli_options.h"

// OpenBLAS chooses its kernels while it is loaded, before main, and OPENBLAS_CORETYPE can make it choose
// some that leave half of the processor unused. Where that has happened, starts the program anew
// without the variable, with a note; --keep-env leaves it. The new one finds what was dropped in
// STEPMARK_DROPPED_ENV, and devices and rows say so. Returns where there is nothing to do, or where the
// system refuses.
void cli_drop_slowing_env(const cli_options *options);

#endif
