// files.c: see output/files.h.
#include "cli/output/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/rows/read_rows.h"
#include "bench/rows/row.h"
#include "cli/flags/options.h"
#include "cli/output/notes.h"
#include "src/io/append_file.h"
#include "src/io/atomic_file.h"
#include "src/io/shell_word.h"

// --- rows ----------------------------------------------------------------------------------------

static sm_format format_of(const char *path) {
    sm_format format;
    const char *dot = strrchr(path, '.');
    return dot != NULL && strchr(dot, '/') == NULL && sm_format_parse(dot + 1, &format) ? format : SM_FORMAT_JSONL;
}

static sm_status cannot_write(const cli_second *second) {
    return sm_fail(SM_ERR_IO, "--output-file: %s: cannot be written: %s", second->path, strerror(errno));
}

// Whether the rows that are in the file could be counted.
static bool count_rows(const char *path, size_t *n) {
    struct stat found;
    sm_rows rows = {.rows = NULL};
    *n = 0;
    if (stat(path, &found) != 0 || found.st_size == 0) {
        return true;
    }
    const bool counted = S_ISREG(found.st_mode) && sm_rows_init(&rows) == SM_OK && sm_rows_read(path, &rows) == SM_OK;
    *n = json_array_size(rows.rows);
    sm_rows_free(&rows);
    return counted;
}

sm_status cli_second_open(const char *path, bool is_numbered, cli_second *second) {
    *second = (cli_second){.path = path};
    if (path == NULL) {
        return SM_OK;
    }
    second->format = format_of(path);
    if (second->format == SM_FORMAT_JSONL) {
        int fd;
        second->is_known = is_numbered && count_rows(path, &second->n);
        sm_status status = sm_append_open(path, O_APPEND, &fd);
        if (status != SM_OK) {
            return sm_fail(status, "--output-file: %s", sm_error_message());
        }
        second->log = fdopen(fd, "a");
        if (second->log == NULL) {
            status = cannot_write(second);
            close(fd);
        }
        return status;
    }
    second->is_known = is_numbered && second->format == SM_FORMAT_JSON;
    second->rows = json_array();
    return second->rows != NULL ? SM_OK : sm_fail(SM_ERR_OOM, "no memory for the rows of %s", path);
}

void cli_rows_hint(const char *path) {
    char word[SM_SHELL_PATH_SIZE];
    printf("\n- #: the row in its file: `stepmark compare %s##` measures it again.\n", sm_shell_path(path, word));
}

size_t cli_second_number(const cli_second *second) { return second->is_known ? second->n : 0; }

sm_status cli_second_add(cli_second *second, const json_t *row) {
    second->n++;
    if (second->rows != NULL) {
        return json_array_append_new(second->rows, json_deep_copy(row)) == 0
                   ? SM_OK
                   : sm_fail(SM_ERR_OOM, "no memory for the rows of %s", second->path);
    }
    if (second->log == NULL) {
        return SM_OK;
    }
    char *line = sm_json_dump(row);
    if (line == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a row of %s", second->path);
    }
    const bool written = fprintf(second->log, "%s\n", line) > 0 && fflush(second->log) == 0;
    free(line);
    return written ? SM_OK : cannot_write(second);
}

static sm_status write_rows(const cli_second *second) {
    char *text = NULL;
    size_t size_bytes = 0;
    FILE *out = open_memstream(&text, &size_bytes);
    if (out == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory to write %s", second->path);
    }
    sm_status status = sm_record_write_all(&sm_row_table, second->format, out, second->rows);
    if (fclose(out) != 0 && status == SM_OK) {
        status = sm_fail(SM_ERR_OOM, "no memory to write %s", second->path);
    }
    if (status == SM_OK) {
        status = sm_atomic_write_all(second->path, text, size_bytes);
    }
    free(text);
    return status;
}

sm_status cli_second_close(cli_second *second) {
    sm_status status = second->rows != NULL ? write_rows(second) : SM_OK;
    if (second->log != NULL && fclose(second->log) != 0) {
        status = cannot_write(second);
    }
    json_decref(second->rows);
    *second = (cli_second){.path = NULL};
    return status;
}

// --- pages ---------------------------------------------------------------------------------------

sm_status cli_write_page(const char *path, cli_page_function write, void *what, const char *before) {
    char *text = NULL;
    size_t size_bytes = 0;
    FILE *out = open_memstream(&text, &size_bytes);
    if (out == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a page");
    }
    sm_status status = write(what, out);
    bool failed = ferror(out) != 0; // a memory stream runs out of memory only during writes
    if ((fclose(out) != 0 || failed) && status == SM_OK) {
        status = sm_fail(SM_ERR_OOM, "no memory for a page");
    }
    if (status == SM_OK && path == NULL) {
        fwrite(text, 1, size_bytes, stdout);
    } else if (status == SM_OK) {
        status = sm_atomic_write_all(path, text, size_bytes);
    }
    if (status == SM_OK && path != NULL) {
        cli_note("%s: %s%zu kB; open it in a browser", path, before, size_bytes / 1000);
    }
    free(text);
    return status;
}

// --- traces --------------------------------------------------------------------------------------

sm_status cli_write_trace(const json_t *trace, const char *path) {
    char *text = json_dumps(trace, JSON_COMPACT | JSON_REAL_PRECISION(15));
    if (text == NULL) {
        return sm_fail(SM_ERR_OOM, "%s: no memory for the trace", path);
    }
    sm_status status = sm_atomic_write_all(path, text, strlen(text));
    free(text);
    if (status == SM_OK) {
        cli_note("wrote %s; open it at ui.perfetto.dev or chrome://tracing", path);
    }
    return status;
}
