// files.c: see output/output.h.
#include "cli/output/output.h"

#include <stdlib.h>
#include <string.h>

#include "bench/rows/row.h"
#include "bench/rows/read_rows.h"
#include "cli/flags/options.h"
#include "src/io/atomic_file.h"

// --- rows ----------------------------------------------------------------------------------------

static sm_format format_of(const char *path) {
    sm_format format;
    return sm_format_of_file(path, &format) ? format : SM_FORMAT_JSONL;
}

bool cli_is_log(const char *path) { return format_of(path) == SM_FORMAT_JSONL; }

void cli_second_open(const char *path, cli_second *second) {
    *second = (cli_second){path, format_of(path), json_array()};
}

size_t cli_second_number(const cli_second *second) {
    return second->format == SM_FORMAT_JSON ? json_array_size(second->rows) : 0;
}

void cli_second_add(cli_second *second, json_t *row) {
    if (second->rows != NULL) {
        json_array_append_new(second->rows, json_deep_copy(row));
    }
}

sm_status cli_second_close(cli_second *second) {
    SM_OWN(json_t) *rows = second->rows;
    const char *path = second->path;
    SM_FREED char *text = NULL;
    size_t size_bytes = 0;
    *second = (cli_second){.path = NULL, .format = second->format};
    if (rows == NULL) {
        return SM_OK;
    }
    FILE *out = sm_memstream(&text, &size_bytes);
    const sm_status status = sm_record_write_all(&sm_row_table, second->format, out, rows);
    sm_memstream_close(out);
    return status == SM_OK ? sm_atomic_write_all(path, text, size_bytes) : status;
}

sm_status cli_write_row(const char *path, json_t *row) {
    SM_OWN(sm_sweep_log) *log = NULL;
    cli_second second;
    if (!cli_is_log(path)) {
        cli_second_open(path, &second);
        cli_second_add(&second, row);
        return cli_second_close(&second);
    }
    SM_TRY(sm_sweep_log_open(path, &log));
    return sm_sweep_log_append(log, row);
}

// --- pages ---------------------------------------------------------------------------------------

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

// --- traces --------------------------------------------------------------------------------------

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
