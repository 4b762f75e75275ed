// run_args.c: turns options back into flags, with the table that reads them.
#include "cli/measure/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/flags/flag.h"
#include "src/io/shell_word.h"

enum { REAL_TEXT_SIZE = 32 };

static const char loader_prefix[] = "--loader="; // which only loops have

// --- one flag ------------------------------------------------------------------------------------

// The fewest digits that read back as the same number.
static void real_text(double value, char text[REAL_TEXT_SIZE]) {
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, REAL_TEXT_SIZE, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
}

static void put_real(FILE *out, double value) {
    char text[REAL_TEXT_SIZE];
    real_text(value, text);
    fputs(text, out);
}

// The word of a choice, from its value.
static void put_word(FILE *out, const cli_choice *choices, int64_t value) {
    for (const cli_choice *c = choices; c->word != NULL; c++) {
        if (c->value == value) {
            fputs(c->word, out);
            return;
        }
    }
}

static void put_list(FILE *out, const cli_flag *flag, const cli_ints *list) {
    for (int i = 0; i < list->n; i++) {
        fputs(i > 0 ? "," : "", out);
        if (flag->type == CLI_CHOICES) {
            put_word(out, flag->choices, list->values[i]);
        } else {
            fprintf(out, "%lld", (long long)list->values[i]);
        }
    }
}

static void put_texts(FILE *out, const cli_texts *list) {
    for (int i = 0; i < list->n; i++) {
        fprintf(out, "%s%s", i > 0 ? "," : "", list->texts[i]);
    }
}

static bool is_given(const cli_flag *flag, const cli_options *options) {
    const void *value = (const char *)options + flag->target;
    switch (flag->type) {
    case CLI_SWITCH: return *(const bool *)value;
    case CLI_CODE:
    case CLI_TEXT: return *(const char *const *)value != NULL;
    case CLI_INT: return flag->initial != NULL || *(const int64_t *)value != 0;
    case CLI_INTS:
    case CLI_CHOICES: return ((const cli_ints *)value)->n > 0;
    case CLI_TEXTS: return ((const cli_texts *)value)->n > 0;
    case CLI_CHOICE: return flag->initial != NULL || *(const int *)value != 0;
    case CLI_COUNT:
    case CLI_REAL: return true;
    case CLI_FORMAT:
    case CLI_NEW_FILE:
    case CLI_LOG_FILE:
    case CLI_NEW_FOLDER: break;
    }
    return false;
}

static void put_flag(FILE *out, const cli_flag *flag, const cli_options *options) {
    const void *value = (const char *)options + flag->target;
    const int64_t *integer = value;
    fprintf(out, "--%s%s", flag->name, flag->type != CLI_SWITCH ? "=" : "");
    switch (flag->type) {
    case CLI_SWITCH:
    case CLI_FORMAT:
    case CLI_NEW_FILE:
    case CLI_LOG_FILE:
    case CLI_NEW_FOLDER: break;
    case CLI_CODE:
    case CLI_TEXT: fputs(*(const char *const *)value, out); break;
    case CLI_COUNT:
    case CLI_INT:
        if (flag->type == CLI_COUNT && *integer < 0) {
            fputs("auto", out);
        } else {
            fprintf(out, "%lld", (long long)*integer);
        }
        break;
    case CLI_REAL: put_real(out, *(const double *)value); break;
    case CLI_INTS:
    case CLI_CHOICES: put_list(out, flag, value); break;
    case CLI_TEXTS: put_texts(out, value); break;
    case CLI_CHOICE: put_word(out, flag->choices, *(const int *)value); break;
    }
}

// --- all of them ---------------------------------------------------------------------------------

static void set_int(cli_ints *list, int64_t value) {
    list->n = value > 0;
    list->values[0] = value;
}

static void set_choice(cli_ints *list, int value) {
    list->n = 1;
    list->values[0] = value;
}

static void set_text(cli_texts *list, const char *text) {
    list->n = 1;
    snprintf(list->texts[0], sizeof(list->texts[0]), "%s", text);
}

// Replaces lists in the options by the job's values.
static sm_status set_job(const cli_job *job, cli_options *single) {
    sm_device_info info;
    SM_TRY(cli_describe(job->device, &info));
    if (single->model.weights == NULL) {
        set_text(&single->model.models, job->model);
    } else {
        single->model.models.n = 0;
    }
    set_text(&single->device.backends, info.id);
    set_int(&single->work.batch_sizes, job->B);
    set_int(&single->work.seq_lens, job->T);
    set_int(&single->device.threads, job->n_threads);
    set_choice(&single->device.precisions, (int)job->precision);
    set_choice(&single->device.modes, (int)job->mode);
    set_choice(&single->work.passes, (int)job->pass);
    const bool has_own_code = single->device.kernel != NULL || single->device.backend_library != NULL;
    single->measure.check_seed = has_own_code ? 0 : job->check_seed; // which then draws other places in each run
    return SM_OK;
}

// Flags whose value is an output file or folder.
static bool names_output(const cli_flag *flag) {
    return flag->type == CLI_FORMAT || flag->type == CLI_NEW_FILE || flag->type == CLI_LOG_FILE ||
           flag->type == CLI_NEW_FOLDER;
}

// Flags that determine a row: all of `run` except its output; of `loop` also without its baseline, and NCCL's file, as a
// row's own_kernels does not tell which file it was.
static bool decides(const cli_flag *flag, cli_command command) {
    const bool is_limit = strcmp(flag->group, "Limits") == 0;
    const bool is_check = flag->target == offsetof(cli_options, measure.check_seed);
    const bool is_beside = strcmp(flag->group, "Output") == 0 || strcmp(flag->group, "Comparison") == 0;
    const bool is_nccl = flag->target == offsetof(cli_options, processes.nccl);
    const bool is_memory = flag->target == offsetof(cli_options, measure.max_memory_gib);
    return !names_output(flag) && !is_nccl && !is_memory &&
           (command == CLI_LOOP ? !is_beside : cli_is_axis(flag) || is_limit || is_check);
}

// --fit, once B and T are known.
static bool is_done(const cli_flag *flag, const cli_job *job) {
    return flag->target == offsetof(cli_options, work.fit_s) && (job->B > 0 || job->T > 0);
}

static void append_flag(const cli_flag *flag, const cli_options *options, json_t *args) {
    char *text = NULL;
    size_t size;
    FILE *out = sm_memstream(&text, &size);
    put_flag(out, flag, options);
    sm_memstream_close(out);
    json_array_append_new(args, sm_json_bytes(text));
    free(text);
}

sm_status cli_run_args_make(const cli_options *options, const cli_job *job, json_t **args) {
    sm_status status = SM_OK;
    cli_options *single = sm_malloc(sizeof(*single));
    *args = json_array();
    *single = *options;
    SM_TRY_GOTO(set_job(job, single));
    for (int i = 0; i < cli_flag_count(); i++) {
        cli_flag flag;
        if (cli_flag_of(options->command, i, &flag) && decides(&flag, options->command) && !is_done(&flag, job) &&
            is_given(&flag, single)) {
            append_flag(&flag, single, *args);
        }
    }
cleanup:
    free(single);
    if (status != SM_OK) {
        json_decref(*args);
        *args = NULL;
    }
    return status;
}

// Index of the flag with that prefix; the number of flags if absent.
static size_t find_flag(const json_t *args, const char *prefix) {
    size_t i = 0;
    while (i < json_array_size(args)) {
        const char *arg = json_string_value(json_array_get(args, i));
        if (arg != NULL && strncmp(arg, prefix, strlen(prefix)) == 0) {
            break;
        }
        i++;
    }
    return i;
}

cli_command cli_run_args_command(const json_t *args) {
    return find_flag(args, loader_prefix) < json_array_size(args) ? CLI_LOOP : CLI_RUN;
}

const char *cli_run_args_value(const json_t *args, const char *name) {
    char prefix[CLI_TEXT_SIZE];
    snprintf(prefix, sizeof(prefix), "--%s=", name);
    const char *arg = json_string_value(json_array_get(args, find_flag(args, prefix)));
    return arg != NULL ? arg + strlen(prefix) : NULL;
}

// --- of whoever wrote the row ------------------------------------------------------------------------

static bool may_write(const char *arg, cli_command command) {
    const size_t length = strcspn(arg, "=");
    for (int i = 0; i < cli_flag_count(); i++) {
        cli_flag flag;
        if (cli_flag_of(command, i, &flag) && decides(&flag, command) && strlen(flag.name) + 2 == length &&
            strncmp(arg + 2, flag.name, length - 2) == 0) {
            return (flag.type == CLI_SWITCH) == (arg[length] == '\0');
        }
    }
    return false;
}

// Number of occurrences of that flag.
static int count_flag(const json_t *args, const char *arg) {
    const size_t length = strcspn(arg, "=");
    int n = 0;
    for (size_t i = 0; i < json_array_size(args); i++) {
        const char *other = json_string_value(json_array_get(args, i));
        n += other != NULL && strcspn(other, "=") == length && strncmp(other, arg, length) == 0;
    }
    return n;
}

sm_status cli_run_args_check(const json_t *args) {
    const cli_command command = cli_run_args_command(args);
    for (size_t i = 0; i < json_array_size(args); i++) {
        const char *arg = json_string_value(json_array_get(args, i));
        if (arg == NULL || strncmp(arg, "--", 2) != 0) {
            return sm_fail(SM_ERR_FORMAT, "its run_args are not flags of `stepmark run` or `stepmark loop`");
        }
        if (!may_write(arg, command)) {
            return sm_fail(SM_ERR_FORMAT, "its run_args have %.*s, which no row of `stepmark %s` has; it is not run",
                           (int)strcspn(arg, "="), arg, cli_commands[command].name);
        }
        if (count_flag(args, arg) > 1) {
            return sm_fail(SM_ERR_FORMAT, "its run_args have %.*s twice; it is not run", (int)strcspn(arg, "="), arg);
        }
    }
    return SM_OK;
}

// --- for a shell -----------------------------------------------------------------------------------

char *cli_run_args_line(const json_t *args) {
    char *line = NULL;
    size_t size;
    FILE *out = sm_memstream(&line, &size);
    fprintf(out, "stepmark %s", cli_commands[cli_run_args_command(args)].name);
    for (size_t i = 0; i < json_array_size(args); i++) {
        fputc(' ', out);
        sm_put_shell_word(out, json_string_value(json_array_get(args, i)));
    }
    sm_memstream_close(out);
    return line;
}
