// saved_flags.c: flags from a file: --config FILE, and those with which a run began, for `train --run DIR --resume
// auto`.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/flags/flag.h"
#include "src/io/json_text.h"
#include "src/runs/run_folder.h"

void cli_saved_free(cli_saved *saved) {
    for (int i = 0; i < saved->n; i++) {
        free(saved->args[i]);
    }
    free(saved->args);
    *saved = (cli_saved){.n = 0};
}

// Takes `text` over. The list ends as argv does.
static void add(char *text, cli_saved *saved) {
    saved->args = sm_realloc(saved->args, ((size_t)saved->n + 2) * sizeof *saved->args);
    saved->args[saved->n++] = text;
    saved->args[saved->n] = NULL;
}

// {"model-size": "tiny", "lr": 3e-3, "profile": true}: a flag each; of a switch, false leaves it out.
static sm_status take_flag(const char *path, const char *name, const json_t *value, cli_saved *saved) {
    char flag[CLI_TEXT_SIZE + 2];
    SM_FAIL_IF(json_is_object(value) || json_is_array(value) || json_is_null(value) || strlen(name) >= CLI_TEXT_SIZE,
               SM_ERR_FORMAT, "%s: \"%.60s\": give a text, a number, true or false", path, name);
    snprintf(flag, sizeof flag, "--%s", name);
    for (char *c = flag; *c != '\0'; c++) {
        *c = *c == '_' ? '-' : *c;
    }
    if (json_is_boolean(value)) {
        if (json_is_true(value)) {
            add(sm_strdup(flag), saved);
        }
        return SM_OK;
    }
    SM_FREED char *written = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
    add(sm_text_of("%s=%s", flag, written != NULL ? written : json_string_value(value)), saved);
    return SM_OK;
}

static sm_status take_file(const char *path, const json_t *root, cli_saved *saved) {
    const json_t *argv = json_object_get(json_array_get(json_object_get(root, "starts"), 0), "argv");
    const char *name;
    json_t *value;
    if (argv != NULL) {
        // The arguments of a program's line, after the program and `train`.
        const char *command = json_string_value(json_array_get(argv, 1));
        SM_FAIL_IF(command == NULL || strcmp(command, "train") != 0, SM_ERR_FORMAT,
                   "%s: its starts hold no command line of train", path);
        for (size_t i = 1; i < json_array_size(argv); i++) {
            const char *text = json_string_value(json_array_get(argv, i));
            SM_FAIL_IF(text == NULL, SM_ERR_FORMAT, "%s: argument %zu of its command line is no text", path, i);
            add(sm_strdup(text), saved);
        }
        return SM_OK;
    }
    add(sm_strdup("train"), saved); // where argv has the subcommand
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
