#include "bench/rows/read_rows.h"

#include "os/os.h"
#include "src/io/atomic_file.h"
#include "src/io/input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

struct sm_sweep_log {
    char path[PATH_MAX];
    int file; // -1 if it is only read and does not exist
    bool only_reads;
    off_t size_bytes; // of complete lines
    sm_rows rows;
    json_t *by_key; // sweep_key -> row
};

static const size_t most_bytes = (size_t)1 << 40;

static sm_status io_failure(const char *path, const char *what) {
    return sm_fail(SM_ERR_IO, "%s: %s: %s", path, what, strerror(errno));
}

// --- what is there ---------------------------------------------------------------------------------

// Moves the text after the complete lines to PATH.damaged.
static sm_status set_aside(sm_sweep_log *log, const char *tail, size_t n) {
    char path[PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s.damaged", log->path);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666); // a link may point anywhere
    if (file < 0) {
        return io_failure(path, "the damaged end of the results cannot be set aside");
    }
    const bool is_written = os_write_all(file, tail, n) && os_write_all(file, "\n", 1) && fsync(file) == 0;
    const sm_status status = is_written ? SM_OK : io_failure(path, "cannot be written");
    close(file);
    SM_TRY(status);
    if (ftruncate(log->file, log->size_bytes) != 0) {
        return io_failure(log->path, "its damaged end cannot be cut off");
    }
    json_array_append_new(log->rows.warnings, json_sprintf("%s: its last %d bytes are a damaged row; set aside in %s",
                                                           log->path, (int)n, path));
    return SM_OK;
}

static sm_status read_rows(sm_sweep_log *log) {
    SM_FREED char *text = NULL;
    size_t n = 0;
    struct stat info;
    SM_FAIL_IF(fstat(log->file, &info) != 0 || !S_ISREG(info.st_mode), SM_ERR_IO,
               "%s: not a regular file; rows are appended to one", log->path);
    SM_TRY(sm_input_text(log->path, most_bytes, &text, &n));
    size_t whole = n; // bytes of the complete lines at the beginning
    while (whole > 0 && text[whole - 1] != '\n') {
        whole--;
    }
    log->size_bytes = (off_t)whole;
    SM_TRY(whole > 0 ? sm_rows_parse(log->path, text, whole, &log->rows) : SM_OK); // first: a file without rows stays
    SM_TRY(whole < n && !log->only_reads ? set_aside(log, text + whole, n - whole) : SM_OK);
    SM_EACH(row, log->rows.rows) {
        const char *key = sm_rows_text(row, "sweep_key");
        if (key[0] != '\0') {
            json_object_set(log->by_key, key, row);
        }
    }
    return SM_OK;
}

// --- the file ----------------------------------------------------------------------------------------

static sm_status open_file(sm_sweep_log *log) {
    if (log->only_reads) {
        log->file = open(log->path, O_RDONLY | O_CLOEXEC);
        return log->file >= 0 || errno == ENOENT ? SM_OK : io_failure(log->path, "cannot be opened");
    }
    log->file = open(log->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (log->file < 0) {
        return io_failure(log->path, "cannot be opened");
    }
    errno = os_lock_soon(log->file);
    if (errno != 0) {
        return errno == EWOULDBLOCK ? sm_fail(SM_ERR_IO, "%s: another run is writing to it", log->path)
                                    : io_failure(log->path, "cannot be locked");
    }
    (void)sm_sync_folder_of(log->path); // the new name must survive a power failure, as the rows do
    return SM_OK;
}

sm_status sm_sweep_log_open(const char *path, bool only_reads, sm_sweep_log **log) {
    SM_OWN(sm_sweep_log) *l = sm_calloc(1, sizeof(*l));
    *log = NULL;
    l->file = -1;
    l->only_reads = only_reads;
    l->by_key = json_object();
    snprintf(l->path, sizeof(l->path), "%s", path);
    l->rows = sm_rows_new();
    SM_TRY(open_file(l));
    SM_TRY(l->file >= 0 ? read_rows(l) : SM_OK);
    *log = sm_give(&l);
    return SM_OK;
}

void sm_sweep_log_close(sm_sweep_log *log) {
    if (log != NULL) {
        sm_close_at(&log->file);
        json_decref(log->by_key);
        sm_rows_free(&log->rows);
        free(log);
    }
}

json_t *sm_sweep_log_find(const sm_sweep_log *log, const char *key) { return json_object_get(log->by_key, key); }

const sm_rows *sm_sweep_log_rows(const sm_sweep_log *log) { return &log->rows; }

sm_status sm_sweep_log_append(sm_sweep_log *log, json_t *row) {
    SM_FREED char *text = sm_json_dump(row);
    SM_FREED char *line = sm_text_of("%s\n", text);
    const size_t n = strlen(line);
    const sm_status status = !os_write_all(log->file, line, n) ? io_failure(log->path, "cannot be written")
                             : os_sync_data(log->file) != 0    ? io_failure(log->path, "cannot be made durable")
                                                               : SM_OK;
    if (status != SM_OK) {
        (void)!ftruncate(log->file, log->size_bytes); // otherwise the next resume would move the rest, too
        return status;
    }
    log->size_bytes += (off_t)n;
    json_array_append(log->rows.rows, row);
    json_object_set(log->by_key, sm_rows_text(row, "sweep_key"), row);
    return SM_OK;
}
