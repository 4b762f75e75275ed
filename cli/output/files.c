// files.c: see output/output.h.
#include "cli/output/output.h"

#include "bench/rows/row.h"
#include "bench/rows/read_rows.h"
#include "cli/flags/options.h"
#include "src/io/atomic_file.h"

sm_status cli_row_file_open(const char *path, bool looks, cli_row_file *file) {
    *file = (cli_row_file){.path = path};
    if (path == NULL) {
        return SM_OK;
    }
    const bool is_whole = sm_format_of_file(path, &file->format) && file->format != SM_FORMAT_JSONL;
    file->rows = is_whole && !looks ? json_array() : NULL;
    return is_whole ? SM_OK : sm_sweep_log_open(path, looks, &file->log);
}

sm_status cli_row_file_add(cli_row_file *file, json_t *row) {
    if (file->rows != NULL) {
        json_array_append_new(file->rows, json_deep_copy(row));
    }
    return file->log != NULL ? sm_sweep_log_append(file->log, row) : SM_OK;
}

size_t cli_row_file_number(const cli_row_file *file, const json_t *row) {
    return file->log != NULL                ? sm_json_place(sm_sweep_log_rows(file->log)->rows, row)
           : file->format == SM_FORMAT_JSON ? json_array_size(file->rows)
                                            : 0;
}

sm_status cli_row_file_close(cli_row_file *file) {
    SM_OWN(json_t) *rows = file->rows;
    SM_FREED char *text = NULL;
    size_t size_bytes = 0;
    sm_sweep_log_close(file->log);
    file->log = NULL;
    file->rows = NULL;
    if (rows == NULL) {
        return SM_OK;
    }
    FILE *out = sm_memstream(&text, &size_bytes);
    const sm_status status = sm_record_write_all(&sm_row_table, file->format, out, rows);
    sm_memstream_close(out);
    return status == SM_OK ? sm_atomic_write_all(file->path, text, size_bytes) : status;
}

sm_status cli_write_row(const char *path, json_t *row) {
    cli_row_file file;
    sm_status status = cli_row_file_open(path, false, &file);
    status = status == SM_OK ? cli_row_file_add(&file, row) : status;
    const sm_status closed = cli_row_file_close(&file);
    return status == SM_OK ? closed : status;
}

sm_status cli_write_page(const char *path, cli_page_function put, void *what, const char *before) {
    SM_FREED char *text = NULL;
    size_t size_bytes = 0;
    FILE *out = sm_memstream(&text, &size_bytes);
    sm_status status = put(what, out);
    sm_memstream_close(out);
    if (status == SM_OK && path == NULL) {
        fwrite(text, 1, size_bytes, stdout);
    } else if (status == SM_OK) {
        status = sm_atomic_write_all(path, text, size_bytes);
    }
    if (status == SM_OK && path != NULL) {
        sm_format format;
        cli_note("%s: %s%zu kB%s", path, before, size_bytes / 1000,
                 sm_format_of_file(path, &format) ? "" : "; open it in a browser");
    }
    return status;
}

sm_status cli_print_object(json_t *object, const char *what) {
    const bool is_written = json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) == 0;
    json_decref(object);
    putchar('\n');
    return is_written ? SM_OK : sm_fail(SM_ERR_IO, "cannot write %s", what);
}

sm_status cli_write_json(const json_t *value, const char *path) {
    SM_FREED char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(15));
    return sm_atomic_write_all(path, text, strlen(text));
}

sm_status cli_write_trace(const json_t *trace, const char *path) {
    const sm_status status = cli_write_json(trace, path);
    if (status == SM_OK) {
        cli_note("wrote %s; open it at ui.perfetto.dev or chrome://tracing", path);
    }
    return status;
}
