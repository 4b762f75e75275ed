// cli_train_log.c: a JSON object a step.
#include "cli_train_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "input_file.h"

struct cli_train_log {
    const char *path;
    int file;
    bool is_regular; // else a pipe or a terminal
};

static sm_status cannot_write(const char *path, int error) {
    return sm_fail(SM_ERR_IO, "--log: %s: cannot be written: %s", path, strerror(error));
}

// ---- writing ----

static sm_status write_all(const cli_train_log *log, const char *text, size_t n) {
    while (n > 0) {
        ssize_t written = write(log->file, text, n);
        if (written < 0 && errno != EINTR) {
            return cannot_write(log->path, errno);
        }
        if (written > 0) {
            text += written;
            n -= (size_t)written;
        }
    }
    return SM_OK;
}

// All of the text, or nothing where the end can be cut off again.
static sm_status append(const cli_train_log *log, const char *text, size_t n) {
    struct stat before;
    if (fstat(log->file, &before) != 0) {
        return cannot_write(log->path, errno);
    }
    sm_status status = write_all(log, text, n);
    if (status != SM_OK && log->is_regular && ftruncate(log->file, before.st_size) != 0) {
        return sm_fail(status, "%s; its last line is cut off", sm_error_message());
    }
    return status;
}

// ---- opening ----

static sm_status end_last_line(const cli_train_log *log, int64_t size_bytes) {
    int file;
    int64_t read_bytes;
    char last = '\n';
    if (size_bytes == 0) {
        return SM_OK;
    }
    SM_TRY(sm_input_open(log->path, &file, &read_bytes));
    sm_status status = sm_input_read(file, log->path, size_bytes - 1, &last, 1);
    close(file);
    SM_TRY(status);
    return last == '\n' ? SM_OK : append(log, "\n", 1);
}

sm_status cli_train_log_open(const char *path, cli_train_log **log) {
    struct stat info;
    *log = NULL;
    cli_train_log *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return sm_fail(SM_ERR_OOM, "--log: %s: no memory to write it", path);
    }
    l->path = path;
    l->file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    sm_status status = l->file < 0 || fstat(l->file, &info) != 0 ? cannot_write(path, errno) : SM_OK;
    if (status == SM_OK) {
        l->is_regular = S_ISREG(info.st_mode);
        status = l->is_regular ? end_last_line(l, info.st_size) : SM_OK;
    }
    if (status != SM_OK) {
        if (l->file >= 0) {
            close(l->file);
        }
        free(l);
        return status;
    }
    *log = l;
    return SM_OK;
}

// ---- a step's line ----

sm_status cli_train_log_write(cli_train_log *log, const cli_train_step *s) {
    // Loss and norm are finite: a step that is not ends the training before it is logged. The norm of one that is
    // skipped is not.
    char line[512];
    char norm[32] = "null";
    char scale[96] = "";
    if (!s->is_skipped) {
        snprintf(norm, sizeof norm, "%.9g", s->grad_norm);
    }
    if (s->is_scaled) {
        snprintf(scale, sizeof scale, ", \"skipped\": %s, \"loss_scale\": %.9g", s->is_skipped ? "true" : "false",
                 s->loss_scale);
    }
    int n =
        snprintf(line, sizeof line,
                 "{\"step\": %lld, \"loss\": %.9g, \"grad_norm\": %s, \"lr\": %.9g, \"ms\": %.9g, "
                 "\"tokens\": %lld%s}\n",
                 (long long)s->step, s->loss, norm, s->lr, (double)s->elapsed_ns / 1e6, (long long)s->n_tokens, scale);
    return append(log, line, (size_t)n);
}

sm_status cli_train_log_close(cli_train_log *log) {
    if (log == NULL) {
        return SM_OK;
    }
    // A pipe or a terminal has no disk to wait for: EINVAL.
    bool synced = fsync(log->file) == 0 || errno == EINVAL || errno == EROFS;
    sm_status status = synced ? SM_OK : cannot_write(log->path, errno);
    close(log->file);
    free(log);
    return status;
}
