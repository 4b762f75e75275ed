// main.c: the program stepmark: finds the subcommand, prints its error, sets the exit code.
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "backend.h"
#include "cli_commands.h"
#include "cli_flag.h"
#include "cli_memory.h"
#include "cli_options.h"
#include "cli_worker.h"
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
    if (cli_interrupted < SIG_ATOMIC_MAX) {
        cli_interrupted++;
    }
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

// Threads get as much stack as this process, and drivers need some of it. Where the limit is less, and may not be
// raised, the program would crash somewhere.
static bool has_stack(void) {
    enum { LEAST_BYTES = 512 * 1024, THREAD_BYTES = 2 << 20 };
    struct rlimit limit;
    pthread_attr_t threads;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= THREAD_BYTES) {
        return true;
    }
    const rlim_t before_bytes = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max < THREAD_BYTES ? limit.rlim_max : THREAD_BYTES;
    const rlim_t now_bytes = setrlimit(RLIMIT_STACK, &limit) == 0 ? limit.rlim_cur : before_bytes;
    if (pthread_attr_init(&threads) == 0) {
        (void)pthread_attr_setstacksize(&threads, THREAD_BYTES);
        (void)pthread_setattr_default_np(&threads);
        pthread_attr_destroy(&threads);
    }
    if (now_bytes < LEAST_BYTES) {
        cli_note("the limit of the stack, %llu KiB, is too low: %d KiB are needed; raise it (ulimit -s)",
                 (unsigned long long)now_bytes / 1024, LEAST_BYTES / 1024);
    }
    return now_bytes >= LEAST_BYTES;
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
    SM_TRY(cli_memory_require());
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

static int conclude(cli_command command, sm_status status) {
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

// In the worker's process.
static int perform(void *ctx) {
    const cli_options *options = ctx;
    return conclude(options->command, call(options));
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
    catch_signals();
    if (command == CLI_RUN && !options.list_devices) { // it has workers of its own, one after another where need be
        return conclude(command, call(&options));
    }
    int code = EXIT_OK;
    sm_status status = cli_perform_in_worker(&options, perform, &code);
    return status == SM_OK ? code : conclude(command, status);
}

// Not for users: work of a backend that it started this program for. It ends with who asked for it.
static int help_backend(int n_words, char **words) {
    const sm_backend *backend = n_words > 0 ? sm_backend_find(words[0]) : NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (backend == NULL || backend->help == NULL) {
        return EXIT_USAGE;
    }
    return backend->help(n_words - 1, words + 1) == SM_OK ? EXIT_OK : EXIT_ERROR;
}

int main(int argc, char **argv) {
    cli_memory_watch();
    if (!has_stack()) {
        return EXIT_ERROR;
    }
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
    if (strcmp(argv[1], "--helper") == 0) {
        return help_backend(argc - 2, argv + 2);
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
