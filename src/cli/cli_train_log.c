// cli_train_log.c: a JSON object a step.
#include "cli_train_log.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static sm_status cannot_write(const char *path) {
    return sm_fail(SM_ERR_IO, "--log: %s: cannot be written: %s", path, strerror(errno));
}

sm_status cli_train_log_open(const char *path, FILE **log) {
    *log = fopen(path, "a");
    return *log != NULL ? SM_OK : cannot_write(path);
}

sm_status cli_train_log_write(FILE *log, const char *path, const cli_train_step *s) {
    // Loss and norm are finite: a step that is not ends the training before it is logged.
    int written = fprintf(
        log, "{\"step\": %lld, \"loss\": %.9g, \"grad_norm\": %.9g, \"lr\": %.9g, \"ms\": %.9g, \"tokens\": %lld}\n",
        (long long)s->step, s->loss, s->grad_norm, s->lr, (double)s->elapsed_ns / 1e6, (long long)s->n_tokens);
    return written > 0 && fflush(log) == 0 ? SM_OK : cannot_write(path);
}

sm_status cli_train_log_close(FILE *log, const char *path) {
    // A pipe or a terminal has no disk to wait for: EINVAL.
    bool synced = fsync(fileno(log)) == 0 || errno == EINVAL || errno == EROFS;
    bool closed = fclose(log) == 0;
    return synced && closed ? SM_OK : cannot_write(path);
}
