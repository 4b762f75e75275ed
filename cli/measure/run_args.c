// run_args.c: turns options back into flags, with the table that reads them.
#include "cli/measure/measure.h"

#include <stdlib.h>
#include <string.h>

#include "cli/flags/flag.h"

// A number, or a choice's word.
static void put_integer(FILE *out, const cli_flag *flag, int64_t value) {
    for (const cli_choice *c = flag->choices; c != NULL && c->word != NULL; c++) {
        if (c->value == value) {
            fputs(c->word, out);
            return;
        }
    }
    fprintf(out, "%lld", (long long)value);
}

// Writes "--name=value" as the options have it, if the flag was given or has a default; else nothing.
static void put_flag(FILE *out, const cli_flag *flag, const cli_options *options) {
    const void *value = (const char *)options + flag->target;
    const cli_ints *integers = value;
    const cli_texts *texts = value;
    const bool has_default = flag->initial != NULL;
    int digits = 6;
    char text[32];
    const int64_t integer = flag->type == CLI_CHOICE                           ? *(const int *)value
                            : flag->type == CLI_INT || flag->type == CLI_COUNT ? *(const int64_t *)value
                                                                               : 0;
    switch (flag->type) {
    case CLI_SWITCH:
        fprintf(out, "%s%s", *(const bool *)value ? "--" : "", *(const bool *)value ? flag->name : "");
        break;
    case CLI_CODE:
    case CLI_TEXT:
        if (*(const char *const *)value != NULL) {
            fprintf(out, "--%s=%s", flag->name, *(const char *const *)value);
        }
        break;
    case CLI_COUNT:
    case CLI_INT:
    case CLI_CHOICE:
        if (flag->type == CLI_COUNT && integer < 0) {
            fprintf(out, "--%s=auto", flag->name);
        } else if (has_default || integer != 0) {
            fprintf(out, "--%s=", flag->name);
            put_integer(out, flag, integer);
        }
        break;
    case CLI_REAL:
        do { // the fewest digits that read back as the same number
            snprintf(text, sizeof(text), "%.*g", digits++, *(const double *)value);
        } while (digits <= 17 && strtod(text, NULL) != *(const double *)value);
        fprintf(out, "--%s=%s", flag->name, text);
        break;
    case CLI_INTS:
    case CLI_CHOICES:
        for (int i = 0; i < integers->n; i++) {
            fprintf(out, i == 0 ? "--%s=" : ",", flag->name);
            put_integer(out, flag, integers->values[i]);
        }
        break;
    case CLI_TEXTS:
        for (int i = 0; i < texts->n; i++) {
            fprintf(out, i == 0 ? "--%s=" : ",", flag->name);
            fputs(texts->texts[i], out);
        }
        break;
    case CLI_FORMAT:
    case CLI_NEW_FILE:
    case CLI_LOG_FILE:
    case CLI_NEW_FOLDER: break;
    }
}

static void set_number(cli_ints *list, int64_t value, bool is_given) {
    list->n = is_given;
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
    set_number(&single->work.batch_sizes, job->B, job->B > 0);
    set_number(&single->work.seq_lens, job->T, job->T > 0);
    set_number(&single->device.threads, job->n_threads, job->n_threads > 0);
    set_number(&single->device.precisions, job->precision, true);
    set_number(&single->device.modes, job->mode, true);
    set_number(&single->work.passes, job->pass, true);
    single->work.accum = job->protocol.n_accum;
    const bool has_own_code = single->device.kernel != NULL || single->device.backend_library != NULL;
    single->measure.check_seed =
        has_own_code ? 0 : (int64_t)job->protocol.check_seed; // which then draws other places in each run
    return SM_OK;
}

// Flags that determine a row: all of `run` except its output; of `loop` also without its baseline, and NCCL's file, as a
// row's own_kernels does not tell which file it was.
static bool decides(const cli_flag *flag, cli_command command) {
    const bool is_output = flag->type == CLI_FORMAT || flag->type == CLI_NEW_FILE || flag->type == CLI_LOG_FILE ||
                           flag->type == CLI_NEW_FOLDER;
    const bool is_limit = strcmp(flag->group, "Limits") == 0;
    const bool is_check = flag->target == offsetof(cli_options, measure.check_seed);
    const bool is_beside = strcmp(flag->group, "Output") == 0 || strcmp(flag->group, "Comparison") == 0;
    const bool is_nccl = flag->target == offsetof(cli_options, processes.nccl);
    const bool is_memory = flag->target == offsetof(cli_options, measure.max_memory_gib);
    return !is_output && !is_nccl && !is_memory &&
           (command == CLI_LOOP ? !is_beside : cli_is_axis(flag) || is_limit || is_check);
}

sm_status cli_run_args_make(const cli_options *options, const cli_job *job, json_t **args) {
    SM_FREED cli_options *single = sm_malloc(sizeof(*single));
    SM_OWN(json_t) *made = json_array();
    *args = NULL;
    *single = *options;
    SM_TRY(set_job(job, single));
    for (int i = 0; i < cli_flag_count(); i++) {
        cli_flag flag;
        // --fit, once B and T are known.
        if (cli_flag_of(options->command, i, &flag) && decides(&flag, options->command) &&
            !(flag.target == offsetof(cli_options, work.fit_s) && (job->B > 0 || job->T > 0))) {
            SM_FREED char *text = NULL;
            size_t size;
            FILE *out = sm_memstream(&text, &size);
            put_flag(out, &flag, single);
            sm_memstream_close(out);
            if (size > 0) {
                json_array_append_new(made, sm_json_bytes(text));
            }
        }
    }
    *args = sm_give(&made);
    return SM_OK;
}

const char *cli_run_args_value(const json_t *args, const char *name) {
    char prefix[CLI_TEXT_SIZE];
    const size_t n = (size_t)snprintf(prefix, sizeof(prefix), "--%s=", name);
    for (size_t i = 0; i < json_array_size(args); i++) {
        const char *arg = json_string_value(json_array_get(args, i));
        if (arg != NULL && strncmp(arg, prefix, n) == 0) {
            return arg + n;
        }
    }
    return NULL;
}

cli_command cli_run_args_command(const json_t *args) {
    return cli_run_args_value(args, "loader") != NULL ? CLI_LOOP : CLI_RUN; // which only loops have
}

sm_status cli_run_args_check(const json_t *args) {
    const cli_command command = cli_run_args_command(args);
    for (size_t i = 0; i < json_array_size(args); i++) {
        const char *arg = json_string_value(json_array_get(args, i));
        SM_FAIL_IF(arg == NULL || strncmp(arg, "--", 2) != 0, SM_ERR_FORMAT,
                   "its run_args are not flags of `stepmark run` or `stepmark loop`");
        const size_t length = strcspn(arg, "=");
        bool may_write = false;
        bool is_twice = false;
        for (int k = 0; k < cli_flag_count() && !may_write; k++) {
            cli_flag flag;
            may_write = cli_flag_of(command, k, &flag) && decides(&flag, command) && strlen(flag.name) + 2 == length &&
                        strncmp(arg + 2, flag.name, length - 2) == 0 &&
                        (flag.type == CLI_SWITCH) == (arg[length] == '\0');
        }
        for (size_t k = 0; k < i; k++) {
            const char *before = json_string_value(json_array_get(args, k));
            is_twice = is_twice || (strcspn(before, "=") == length && strncmp(before, arg, length) == 0);
        }
        SM_FAIL_IF(!may_write, SM_ERR_FORMAT,
                   "its run_args have %.*s, which no row of `stepmark %s` has; it is not run", (int)length, arg,
                   cli_commands[command].name);
        SM_FAIL_IF(is_twice, SM_ERR_FORMAT, "its run_args have %.*s twice; it is not run", (int)length, arg);
    }
    return SM_OK;
}
