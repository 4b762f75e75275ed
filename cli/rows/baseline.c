// baseline.c: see rows/rows.h.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/tables/record.h"
#include "cli/flags/options.h"
#include "cli/output/notes.h"
#include "cli/rows/rows.h"
#include "src/io/atomic_file.h"

sm_status cli_baseline_check(const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (name[0] == '\0' || name[0] == '.' || name[strspn(name, letters)] != '\0' || strlen(name) > 100) {
        return sm_fail(SM_ERR_USAGE, "'%s' is not a valid name of a baseline; use letters, digits, '.', '_' and '-'",
                       name);
    }
    return SM_OK;
}

static sm_status append(char path[PATH_MAX], const char *part) {
    size_t used = strlen(path);
    int n = snprintf(path + used, PATH_MAX - used, "%s", part);
    return n >= 0 && (size_t)n < PATH_MAX - used ? SM_OK : sm_fail(SM_ERR_IO, "%.200s...: the path is too long", path);
}

// Appends a folder and, if `make` is set, makes it.
static sm_status enter(char path[PATH_MAX], const char *part, bool make) {
    SM_TRY(append(path, part));
    return make ? sm_make_folder(path) : SM_OK;
}

static sm_status folder_of_baselines(bool make, char path[PATH_MAX]) {
    const char *data = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    path[0] = '\0';
    if (data != NULL && data[0] == '/') {
        SM_TRY(enter(path, data, make));
    } else if (home != NULL && home[0] != '\0') {
        SM_TRY(append(path, home));
        SM_TRY(enter(path, "/.local", make));
        SM_TRY(enter(path, "/share", make));
    } else {
        return sm_fail(SM_ERR_IO, "no folder for baselines: neither XDG_DATA_HOME nor HOME is set");
    }
    SM_TRY(enter(path, "/stepmark", make));
    return enter(path, "/baselines", make);
}

static sm_status path_of(const char *name, bool make, char path[PATH_MAX]) {
    SM_TRY(cli_baseline_check(name));
    SM_TRY(folder_of_baselines(make, path));
    SM_TRY(append(path, "/"));
    SM_TRY(append(path, name));
    return append(path, ".jsonl");
}

static sm_status write_rows(sm_atomic_file *file, const json_t *rows) {
    for (size_t i = 0; i < json_array_size(rows); i++) {
        char *line = sm_json_dump(json_array_get(rows, i));
        sm_status status = line != NULL ? sm_atomic_write(file, line, strlen(line))
                                        : sm_fail(SM_ERR_OOM, "no memory to save a baseline");
        free(line);
        SM_TRY(status);
        SM_TRY(sm_atomic_write(file, "\n", 1));
    }
    return SM_OK;
}

sm_status cli_baseline_save(const char *name, const json_t *rows) {
    char path[PATH_MAX];
    sm_atomic_file *file = NULL;
    SM_TRY(path_of(name, true, path));
    SM_TRY(sm_atomic_open(path, &file));
    sm_status status = write_rows(file, rows);
    if (status != SM_OK) {
        sm_atomic_abandon(file);
        return status;
    }
    return sm_atomic_commit(file);
}

sm_status cli_baseline_read(const char *path_or_name, sm_rows *rows) {
    char path[PATH_MAX];
    if (access(path_or_name, F_OK) == 0) {
        return sm_rows_read(path_or_name, rows);
    }
    if (strchr(path_or_name, '/') != NULL || cli_baseline_check(path_or_name) != SM_OK) {
        return sm_fail(SM_ERR_IO, "%s: no such file", path_or_name);
    }
    SM_TRY(path_of(path_or_name, false, path));
    if (access(path, F_OK) != 0) {
        return sm_fail(SM_ERR_IO, "%s: neither a file nor a saved baseline (%.200s)", path_or_name, path);
    }
    return sm_rows_read(path, rows);
}

void cli_note_warnings(const sm_rows *rows) {
    for (size_t i = 0; i < json_array_size(rows->warnings); i++) {
        cli_note("warning: %s", json_string_value(json_array_get(rows->warnings, i)));
    }
}
