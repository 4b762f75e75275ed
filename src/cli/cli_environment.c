// cli_environment.c: starts the program anew without a variable that holds the processor back.
#include "cli_environment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend.h"
#include "cli_commands.h"

static const char variable[] = "OPENBLAS_CORETYPE";

// Does a backend say that the variable makes it slower?
static bool slows_a_device(void) {
    for (int b = 0; b < sm_backend_count(); b++) {
        sm_device_info info;
        if (sm_backend_at(b)->describe(0, &info) == SM_OK && strcmp(info.slowed_by_env, variable) == 0) {
            return true;
        }
    }
    return false;
}

void cli_drop_slowing_env(const cli_options *options) {
    char dropped[128];
    const char *value = getenv(variable);
    const bool is_left_to_run = options->command == CLI_AGAIN; // whose flags say whether to keep it
    if (value == NULL || options->keep_env || is_left_to_run || !slows_a_device()) {
        return;
    }
    snprintf(dropped, sizeof(dropped), "%s=%.64s", variable, value);
    cli_note("%s makes OpenBLAS leave out what this processor can do: starting anew without it (--keep-env keeps it)",
             dropped);
    if (setenv("STEPMARK_DROPPED_ENV", dropped, 1) == 0 && unsetenv(variable) == 0) {
        execv("/proc/self/exe", options->argv);
    }
    cli_note("could not start anew: %s; going on with %s", strerror(errno), dropped);
}
