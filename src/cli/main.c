// main.c: the program stepmark: finds the subcommand, prints its error, sets the exit code.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_commands.h"
#include "cli_environment.h"
#include "cli_flag.h"
#include "cli_options.h"
#include "machine.h"

#define STEPMARK_VERSION "0.1.0"

enum { EXIT_OK = 0, EXIT_ERROR = 1, EXIT_USAGE = 2, EXIT_REGRESSION = 3, EXIT_INTERRUPTED = 130 };

volatile sig_atomic_t cli_interrupted;

void cli_note(const char *format, ...) {
    va_list arguments;
    fflush(stdout); // the lines of both streams keep their order where they share a terminal
    fputs("stepmark: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

static void on_signal(int number) {
    (void)number;
    cli_interrupted = 1;
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static void print_help(FILE *stream) {
    fputs("stepmark measures, and performs, the training step of GPT-2 on this machine.\n\nusage: stepmark SUBCOMMAND "
          "[flags]\n\n",
          stream);
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        fprintf(stream, "  %-10s %s\n", cli_command_name((cli_command)i), cli_command_purpose((cli_command)i));
    }
    fputs("\n  --version  print the version\n"
          "  --help     print this text; `stepmark SUBCOMMAND --help` lists a subcommand's flags\n"
          "\nExamples\n"
          "  stepmark run                     measure GPT-2 124M on every device, about a minute in all\n"
          "  stepmark walk --values           follow a tiny model's step with its numbers\n"
          "\nExit codes: 0 ok, 1 error or failed check, 2 usage, 3 slower (compare), 130 interrupted.\n",
          stream);
}

static int usage_error(const char *command) {
    cli_note("%s", sm_error_message());
    fprintf(stderr, "stepmark: `stepmark %s%s--help` lists what there is\n", command, command[0] != '\0' ? " " : "");
    return EXIT_USAGE;
}

static sm_status call(const cli_options *options) {
    SM_TRY(cli_check_outputs(options));
    switch (options->list_devices ? CLI_DEVICES : options->command) {
#define X(code, name, function, purpose) \
    case code: return function(options);
        CLI_COMMAND_LIST(X)
#undef X
    case CLI_COMMAND_COUNT: break;
    }
    return sm_fail(SM_ERR_INTERNAL, "no such subcommand");
}

// Results that could not be written are an error even when everything before went well.
static sm_status close_stdout(void) {
    return fflush(stdout) == 0 && !ferror(stdout) ? SM_OK : sm_fail(SM_ERR_IO, "stdout: could not be written");
}

static int run_command(cli_command command, int argc, char **argv) {
    static cli_options options; // large: lists
    if (cli_options_parse(command, argc, argv, &options) != SM_OK) {
        return usage_error(cli_command_name(command));
    }
    if (options.help) {
        cli_options_help(stdout, command);
        return close_stdout() == SM_OK ? EXIT_OK : EXIT_ERROR;
    }
    options.argc = argc + 1; // with the program's name in front of the subcommand's
    options.argv = argv - 1;
    cli_drop_slowing_env(&options);
    catch_signals();
    sm_status status = call(&options);
    if (status == SM_OK) {
        status = close_stdout();
    }
    switch (status) {
    case SM_OK: return EXIT_OK;
    case SM_ERR_USAGE: return usage_error(cli_command_name(command));
    case SM_ERR_INTERRUPTED: cli_note("interrupted"); return EXIT_INTERRUPTED;
    case SM_ERR_REGRESSION: cli_note("%s", sm_error_message()); return EXIT_REGRESSION;
    default: cli_note("%s", sm_error_message()); return EXIT_ERROR;
    }
}

int main(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return close_stdout() == SM_OK ? EXIT_OK : EXIT_ERROR;
    }
    if (strcmp(argv[1], "--version") == 0) {
        const char *commit = sm_build_commit();
        printf("stepmark %s (commit %s, %s)\n", STEPMARK_VERSION, commit[0] != '\0' ? commit : "unknown",
               sm_build_compiler());
        return close_stdout() == SM_OK ? EXIT_OK : EXIT_ERROR;
    }
    if (strcmp(argv[1], "--list-devices") == 0) {
        return run_command(CLI_DEVICES, argc - 1, argv + 1);
    }
    cli_command command = cli_command_find(argv[1]);
    if (command == CLI_COMMAND_COUNT) {
        return usage_error("");
    }
    return run_command(command, argc - 1, argv + 1);
}
