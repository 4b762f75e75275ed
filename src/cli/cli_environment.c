// cli_environment.c: starts the program anew without a variable that holds the processor back.
#include "cli_environment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend.h"
#include "cli_commands.h"
#include "cli_worker.h"

static const char variable[] = "OPENBLAS_CORETYPE";

// Does a backend say that the variable makes it slower? The worker's exit code.
static int slows_a_device(void *ctx) {
    (void)ctx;
    for (int b = 0; b < sm_backend_count(); b++) {
        sm_device_info info;
        if (sm_backend_at(b)->describe(0, &info) == SM_OK && strcmp(info.slowed_by_env, variable) == 0) {
            return 1;
        }
    }
    return 0;
}

// Asked in a worker: a driver that was loaded before this process forks would not work in the other one.
static bool must_be_dropped(const cli_options *options) {
    int answer = 0;
    return cli_perform_in_worker(options, slows_a_device, &answer) == SM_OK && answer == 1;
}

void cli_drop_slowing_env(const cli_options *options) {
    char dropped[128];
    const char *value = getenv(variable);
    if (value == NULL || options->keep_env || !must_be_dropped(options)) {
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
