#include "src/train/train_log.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "src/io/atomic_file.h"
#include "src/io/input_file.h"
#include "src/io/json_text.h"

struct sm_train_log {
    const char *flag; // printed before the path in messages
    const char *path;
    int file;
    bool is_regular; // false: a pipe or a terminal
};

enum { LINE_BYTES = 512 };

static sm_status cannot_write(const sm_train_log *log, int error) {
    return sm_fail(SM_ERR_IO, "%s%s: cannot be written: %s", log->flag, log->path, strerror(error));
}

// ---- writing ----

// Appends all of the text, or nothing if a partial write can be cut off again.
static sm_status append(const sm_train_log *log, const char *text, size_t n) {
    struct stat before;
    if (fstat(log->file, &before) != 0) {
        return cannot_write(log, errno);
    }
    if (os_write_all(log->file, text, n)) {
        return SM_OK;
    }
    const sm_status status = cannot_write(log, errno);
    SM_FAIL_IF(log->is_regular && ftruncate(log->file, before.st_size) != 0, status, "%s; its last line is cut off",
               sm_error_message());
    return status;
}

// Appends a line, and frees it. Without a log it is ignored.
static sm_status add_line(const sm_train_log *log, char *line) {
    SM_FREED char *owned = line;
    return log != NULL ? append(log, line, strlen(line)) : SM_OK;
}

// ---- opening ----

// Whether a line ends at that byte.
static sm_status ends_line(const sm_train_log *log, int64_t size_bytes, bool *ends) {
    SM_CLOSED int file = -1;
    int64_t file_bytes;
    char last = '\n';
    SM_TRY(sm_input_open(log->path, &file, &file_bytes));
    SM_FAIL_IF(file_bytes < size_bytes, SM_ERR_FORMAT,
               "%s: has %lld bytes, but had %lld when the checkpoint was written", log->path, (long long)file_bytes,
               (long long)size_bytes);
    SM_TRY(size_bytes > 0 ? sm_input_read(file, log->path, size_bytes - 1, &last, 1) : SM_OK);
    *ends = last == '\n';
    return SM_OK;
}

static void free_log(sm_train_log *log) {
    sm_close_at(&log->file);
    free(log);
}
SM_OWNABLE(sm_train_log, free_log)

static sm_status open_log(const char *flag, const char *path, int how, sm_train_log *log) {
    struct stat info;
    *log = (sm_train_log){.flag = flag, .path = path, .file = -1};
    const sm_status status = sm_append_open(path, how, &log->file);
    SM_FAIL_IF(status != SM_OK, status, "%s%s", flag, sm_error_message());
    if (fstat(log->file, &info) != 0) {
        return cannot_write(log, errno);
    }
    log->is_regular = S_ISREG(info.st_mode);
    return SM_OK;
}

sm_status sm_train_log_append(const char *path, sm_train_log **log) {
    bool ends;
    SM_OWN(sm_train_log) *l = sm_malloc(sizeof *l);
    *log = NULL;
    SM_TRY(open_log("--log: ", path, O_APPEND, l));
    if (l->is_regular && sm_train_log_size(l) > 0) {
        SM_TRY(ends_line(l, sm_train_log_size(l), &ends));
        SM_TRY(ends ? SM_OK : append(l, "\n", 1));
    }
    *log = sm_give(&l);
    return SM_OK;
}

sm_status sm_train_log_continue(const char *path, int64_t size_bytes, sm_train_log **log) {
    bool ends;
    SM_OWN(sm_train_log) *l = sm_malloc(sizeof *l);
    *log = NULL;
    SM_TRY(open_log("", path, O_NOFOLLOW, l)); // a stranger's run must not name a file of the user's
    SM_TRY(ends_line(l, size_bytes, &ends));
    SM_FAIL_IF(!ends, SM_ERR_FORMAT,
               "%s: is not the log that the checkpoint was written with: no line ends at byte %lld", path,
               (long long)size_bytes);
    if (ftruncate(l->file, size_bytes) != 0 || lseek(l->file, 0, SEEK_END) < 0) {
        return cannot_write(l, errno);
    }
    *log = sm_give(&l);
    return SM_OK;
}

int64_t sm_train_log_size(const sm_train_log *log) { return lseek(log->file, 0, SEEK_END); }

// ---- lines ----

sm_status sm_train_log_step(sm_train_log *log, const sm_train_step *s) {
    // Loss and norm are finite, as training stops at a step that is not; only a skipped step has no finite norm.
    char norm[32] = "null";
    char scale[96] = "";
    char padding[48] = "";
    char communication[96] = "";
    char checks[64] = "";
    if (log == NULL) {
        return SM_OK;
    }
    if (!s->is_skipped) {
        snprintf(norm, sizeof norm, "%.9g", s->grad_norm);
    }
    if (s->is_scaled) {
        snprintf(scale, sizeof scale, ", \"skipped\": %s, \"loss_scale\": %.9g", s->is_skipped ? "true" : "false",
                 s->loss_scale);
    }
    if (s->load.starts != NULL) {
        snprintf(padding, sizeof padding, ", \"padded_tokens\": %lld", (long long)s->n_padding);
    }
    if (s->comm_bytes > 0) {
        snprintf(communication, sizeof communication, ", \"comm_hidden_ms\": %.6g, \"comm_bytes\": %lld",
                 (double)s->hidden_ns / 1e6, (long long)s->comm_bytes);
    }
    if (s->checked_ops > 0) {
        snprintf(checks, sizeof checks, ", \"checked_ops\": %lld, \"checks_ms\": %.6g", (long long)s->checked_ops,
                 (double)s->checks_ns / 1e6);
    }
    return add_line(log,
                    sm_text_of("{\"step\": %lld, \"loss\": %.9g, \"grad_norm\": %s, \"lr\": %.9g, \"ms\": %.9g, "
                               "\"tokens\": %lld, \"epoch\": %lld, \"data_ms\": %.6g, \"comm_ms\": %.6g%s%s%s%s}\n",
                               (long long)s->step, s->loss, norm, s->lr, (double)s->elapsed_ns / 1e6,
                               (long long)s->n_tokens, (long long)s->epoch, (double)s->data_ns / 1e6,
                               (double)s->comm_ns / 1e6, communication, scale, padding, checks));
}

sm_status sm_train_log_validation(sm_train_log *log, int64_t step, double loss, int64_t n_tokens, int64_t elapsed_ns) {
    SM_FREED char *value = isfinite(loss) ? sm_text_of("%.9g", loss) : sm_strdup("null");
    return add_line(
        log, sm_text_of("{\"kind\": \"validation\", \"step\": %lld, \"loss\": %s, \"tokens\": %lld, \"ms\": %.9g}\n",
                        (long long)step, value, (long long)n_tokens, (double)elapsed_ns / 1e6));
}

sm_status sm_train_log_epoch(sm_train_log *log, int64_t epoch, int64_t step) {
    return add_line(
        log, sm_text_of("{\"kind\": \"epoch\", \"epoch\": %lld, \"step\": %lld}\n", (long long)epoch, (long long)step));
}

sm_status sm_train_log_sample(sm_train_log *log, int64_t step, const char *text) {
    json_auto_t *line = json_pack("{s: s, s: I, s: s}", "kind", "sample", "step", (json_int_t)step, "text", text);
    SM_FREED char *written = json_dumps(line, 0);
    return add_line(log, sm_text_of("%s\n", written));
}

sm_status sm_train_log_best(const char *path, int64_t size_bytes, int64_t step_before, int64_t last_step, double *loss,
                            int64_t *step) {
    SM_OWN(FILE) *file = NULL;
    char text[LINE_BYTES]; // a longer line holds a sample
    long long last = step_before;
    *loss = NAN;
    SM_TRY(sm_input_file(path, &file));
    for (; size_bytes > 0 && fgets(text, sizeof text, file) != NULL && text[0] != '\0';
         size_bytes -= (int64_t)strlen(text)) {
        long long at;
        double value;
        (void)sscanf(text, "{\"step\": %lld", &last);
        if (sscanf(text, "{\"kind\": \"validation\", \"step\": %lld, \"loss\": %lf", &at, &value) == 2 &&
            !(value >= *loss)) {
            *loss = value;
            *step = at;
        }
    }
    SM_FAIL_IF(size_bytes <= 0 && last != last_step, SM_ERR_FORMAT,
               "%s: is not the log that the checkpoint was written with: up to there it ends with step %lld, not %lld",
               path, last, (long long)last_step);
    return SM_OK;
}

enum { FILLED_BYTES = 14 };

sm_status sm_train_log_checkpoint(sm_train_log *log, int64_t step, int64_t waited_ns, int64_t *place) {
    char *line = sm_text_of("{\"kind\": \"checkpoint\", \"step\": %lld, \"ms\": %.9g, \"background_ms\": %-*s}\n",
                            (long long)step, (double)waited_ns / 1e6, FILLED_BYTES, "null");
    *place = sm_train_log_size(log) + (int64_t)(strstr(line, "null") - line);
    return add_line(log, line);
}

sm_status sm_train_log_fill(sm_train_log *log, int64_t place, int64_t elapsed_ns) {
    char text[FILLED_BYTES + 1];
    snprintf(text, sizeof text, "%-*.1f", FILLED_BYTES, (double)elapsed_ns / 1e6);
    return pwrite(log->file, text, FILLED_BYTES, place) == FILLED_BYTES ? SM_OK : cannot_write(log, errno);
}

sm_status sm_train_log_sync(sm_train_log *log) {
    // EINVAL: a pipe or a terminal has no disk to wait for.
    bool synced = fsync(log->file) == 0 || errno == EINVAL || errno == EROFS;
    return synced ? SM_OK : cannot_write(log, errno);
}

sm_status sm_train_log_close(sm_train_log *log) {
    SM_OWN(sm_train_log) *closed = log;
    return closed != NULL ? sm_train_log_sync(closed) : SM_OK;
}
