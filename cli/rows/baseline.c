// baseline.c: see rows/rows.h.
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/output/output.h"
#include "cli/rows/rows.h"
#include "os/os.h"
#include "src/io/atomic_file.h"

sm_status cli_baseline_check(const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    SM_FAIL_IF(name[0] == '\0' || name[0] == '.' || name[strspn(name, letters)] != '\0' || strlen(name) > 100,
               SM_ERR_USAGE, "'%s' is not a valid name of a baseline; use letters, digits, '.', '_' and '-'", name);
    return SM_OK;
}

// The path of a baseline; `make`: makes its folders.
static sm_status path_of(const char *name, bool make, char path[PATH_MAX]) {
    char data[PATH_MAX];
    SM_TRY(cli_baseline_check(name));
    SM_FAIL_IF(!os_user_folder("XDG_DATA_HOME", ".local/share", data, sizeof data), SM_ERR_IO,
               "no folder for baselines: neither XDG_DATA_HOME nor HOME is set");
    SM_TRY(sm_make_path(path, "%s/stepmark/baselines/%s.jsonl", data, name));
    for (char *slash = path + 1; make && (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
        *slash = '\0';
        SM_TRY(sm_make_folder(path));
    }
    return SM_OK;
}

sm_status cli_baseline_save(const char *name, const json_t *rows) {
    char path[PATH_MAX];
    SM_FREED char *text = NULL;
    size_t size_bytes;
    SM_TRY(path_of(name, true, path));
    FILE *out = sm_memstream(&text, &size_bytes);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_dumpf(json_array_get(rows, i), out, SM_JSON_DUMP_FLAGS);
        fputc('\n', out);
    }
    sm_memstream_close(out);
    return sm_atomic_write_all(path, text, size_bytes);
}

sm_status cli_baseline_read(const char *path_or_name, sm_rows *rows) {
    char path[PATH_MAX];
    if (access(path_or_name, F_OK) == 0) {
        return sm_rows_read(path_or_name, rows);
    }
    SM_FAIL_IF(strchr(path_or_name, '/') != NULL || cli_baseline_check(path_or_name) != SM_OK, SM_ERR_IO,
               "%s: no such file", path_or_name);
    SM_TRY(path_of(path_or_name, false, path));
    return access(path, F_OK) != 0
               ? sm_fail(SM_ERR_IO, "%s: neither a file nor a saved baseline (%.200s)", path_or_name, path)
               : sm_rows_read(path, rows);
}

void cli_note_warnings(const sm_rows *rows) {
    for (size_t i = 0; i < json_array_size(rows->warnings); i++) {
        cli_note("warning: %s", json_string_value(json_array_get(rows->warnings, i)));
    }
}

sm_status cli_rows_read(const cli_options *options, size_t *first, sm_rows *rows) {
    rows->interrupted = &cli_interrupted;
    for (int i = 0; i < options->n_operands; i++) {
        if (first != NULL) {
            first[i] = json_array_size(rows->rows);
        }
        SM_TRY(sm_rows_read(options->operands[i], rows));
    }
    cli_note_warnings(rows);
    return SM_OK;
}
