// run_args.c: the flags that make a row again.
#include "cli/measure/measure.h"

#include "cli/flags/flag.h"

// Flags that determine a row: all of `run` but its output; of `loop` not its baseline, nor NCCL's file, unknown.
static bool decides(const cli_flag *flag, cli_command command) {
    const bool is_output = flag->type == CLI_FORMAT || cli_is_output(flag);
    const bool is_limit = strcmp(flag->group, "Limits") == 0;
    const bool is_check = flag->target == offsetof(cli_options, measure.check_seed);
    const bool is_beside = strcmp(flag->group, "Output") == 0 || strcmp(flag->group, "Comparison") == 0;
    const bool is_nccl = flag->target == offsetof(cli_options, processes.nccl);
    const bool is_memory = flag->target == offsetof(cli_options, measure.max_memory_gib);
    return !is_output && !is_nccl && !is_memory &&
           (command == CLI_LOOP ? !is_beside : cli_is_axis(flag) || is_limit || is_check);
}

// "4"; NULL: not given.
static const char *number(int64_t value, char text[24]) {
    snprintf(text, 24, "%lld", (long long)value);
    return value > 0 ? text : NULL;
}

#define NUMBER(value) number((value), (char[24]){""})

sm_status cli_run_args_make(const cli_options *options, const cli_job *job, json_t **args) {
    static const char *const transports[] = {SM_TRANSPORT_LIST(SM_WORD)};
    const bool has_own_code = options->device.kernel != NULL || options->device.backend_library != NULL;
    sm_device_info info;
    *args = NULL;
    SM_TRY(cli_describe(job->device, &info));
    // The job's values in place of the line's lists, and flags that hold for all rows.
    const struct {
        const char *flag, *text;
    } own[] = {
        {"model-size", options->model.weights == NULL ? job->model : NULL},
        {"backend", info.id},
        {"batch-size", NUMBER(job->B)},
        {"seq-len", NUMBER(job->T)},
        {"threads", NUMBER(job->n_threads)},
        {"precision", cli_precision_name(job->precision)},
        {"mode", sm_mode_name(job->mode)},
        {"pass-type", sm_pass_name(job->pass)},
        {"accum", NUMBER(job->protocol.n_accum)},
        {"check-seed", has_own_code ? NULL : NUMBER((int64_t)job->protocol.check_seed)}, // it draws others in each run
        {"timeout", SM_TEXT_IN(32, "%.15g", options->measure.timeout_s)},
        {"transport", transports[options->processes.transport]},
    };
    json_t *made = json_array();
    for (int i = 0; i < cli_flag_count(); i++) {
        cli_flag flag;
        const char *text = options->given[i];
        for (size_t k = 0; k < sizeof(own) / sizeof(own[0]); k++) {
            text = strcmp(cli_flag_at(i)->name, own[k].flag) == 0 ? own[k].text : text;
        }
        // --fit, until B and T are known.
        const bool is_fit = cli_flag_at(i)->target == offsetof(cli_options, work.fit_s);
        if (cli_flag_of(options->command, i, &flag) && decides(&flag, options->command) && text != NULL &&
            !(is_fit && (job->B > 0 || job->T > 0))) {
            SM_FREED char *arg = sm_text_of("--%s%s%s", flag.name, flag.type == CLI_SWITCH ? "" : "=", text);
            json_array_append_new(made, sm_json_bytes(arg));
        }
    }
    *args = made;
    return SM_OK;
}

cli_command cli_run_args_command(const json_t *args) {
    return sm_rows_flag(args, "loader") != NULL ? CLI_LOOP : CLI_RUN; // which only loops have
}

sm_status cli_run_args_check(const json_t *args) {
    const cli_command command = cli_run_args_command(args);
    for (size_t i = 0; i < json_array_size(args); i++) {
        const char *arg = json_string_value(json_array_get(args, i));
        SM_FAIL_IF(arg == NULL || strncmp(arg, "--", 2) != 0, SM_ERR_FORMAT,
                   "its run_args are not flags of `stepmark run` or `stepmark loop`");
        const size_t length = strcspn(arg, "=");
        bool may_write = false, is_twice = false;
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
