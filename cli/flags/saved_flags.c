// saved_flags.c: flags from a file: --config FILE, and those with which a run began, for `train --run DIR --resume
// auto`.
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/flags/flag.h"
#include "src/io/json_text.h"
#include "src/runs/run_folder.h"

static sm_status no_memory(const char *path) { return sm_fail(SM_ERR_OOM, "%s: no memory for its flags", path); }

void cli_saved_free(cli_saved *saved) {
    for (int i = 0; i < saved->n; i++) {
        free(saved->args[i]);
    }
    free(saved->args);
    *saved = (cli_saved){.n = 0};
}

// Owns `text`; NULL: no memory.
static sm_status add(const char *path, char *text, cli_saved *saved) {
    char **args = text != NULL ? reallocarray(saved->args, (size_t)saved->n + 2, sizeof *args) : NULL;
    if (args == NULL) {
        free(text);
        return no_memory(path);
    }
    saved->args = args;
    args[saved->n++] = text;
    args[saved->n] = NULL; // as argv ends
    return SM_OK;
}

// The arguments of a program's line, after the program and `train`.
static sm_status take_arguments(const char *path, const json_t *argv, cli_saved *saved) {
    const char *command = json_string_value(json_array_get(argv, 1));
    if (command == NULL || strcmp(command, "train") != 0) {
        return sm_fail(SM_ERR_FORMAT, "%s: its starts hold no command line of train", path);
    }
    for (size_t i = 1; i < json_array_size(argv); i++) {
        const char *text = json_string_value(json_array_get(argv, i));
        SM_TRY(text != NULL ? add(path, strdup(text), saved)
                            : sm_fail(SM_ERR_FORMAT, "%s: argument %zu of its command line is no text", path, i));
    }
    return SM_OK;
}

// {"model-size": "tiny", "lr": 3e-3, "profile": true}: a flag each; of a switch, false leaves it out.
static sm_status take_flag(const char *path, const char *name, const json_t *value, cli_saved *saved) {
    char flag[CLI_TEXT_SIZE + 2];
    char *text = NULL;
    char *written = json_is_string(value) || json_is_boolean(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
    const char *shown = json_is_string(value) ? json_string_value(value) : written;
    if (json_is_object(value) || json_is_array(value) || json_is_null(value) || strlen(name) >= CLI_TEXT_SIZE) {
        free(written);
        return sm_fail(SM_ERR_FORMAT, "%s: \"%.60s\": give a text, a number, true or false", path, name);
    }
    snprintf(flag, sizeof flag, "--%s", name);
    for (char *c = flag; *c != '\0'; c++) {
        *c = *c == '_' ? '-' : *c;
    }
    if (shown == NULL && json_is_boolean(value)) {
        text = strdup(flag);
    } else if (shown != NULL && asprintf(&text, "%s=%s", flag, shown) < 0) {
        text = NULL;
    }
    free(written);
    if (json_is_false(value)) {
        free(text);
        return SM_OK;
    }
    return add(path, text, saved);
}

static sm_status take_file(const char *path, const json_t *root, cli_saved *saved) {
    const json_t *argv = json_object_get(json_array_get(json_object_get(root, "starts"), 0), "argv");
    const char *name;
    json_t *value;
    if (argv != NULL) {
        return take_arguments(path, argv, saved);
    }
    SM_TRY(add(path, strdup("train"), saved)); // where argv has the subcommand
    json_object_foreach((json_t *)root, name, value) { SM_TRY(take_flag(path, name, value, saved)); }
    return SM_OK;
}

sm_status cli_saved_read(const char *path, cli_saved *saved) {
    json_t *root = NULL;
    *saved = (cli_saved){.n = 0};
    SM_TRY(sm_json_read(path, SM_RUN_MOST_BYTES, &root));
    const sm_status status = take_file(path, root, saved);
    json_decref(root);
    if (status != SM_OK) {
        cli_saved_free(saved);
    }
    return status;
}

bool cli_saved_is_in(const char *run, char path[PATH_MAX]) {
    return snprintf(path, PATH_MAX, "%s/run.json", run) < PATH_MAX && access(path, R_OK) == 0;
}
