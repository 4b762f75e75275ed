// main.c: the program stepmark: finds the subcommand, prints its error, sets the exit code.
#include <jansson.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "backend.h"
#include "bench/tables/screen.h"
#include "cli/flags/flag.h"
#include "cli/flags/options.h"
#include "cli/front/front.h"
#include "cli/output/notes.h"
#include "cli/setup/processes.h"
#include "cli/setup/session.h"
#include "cli/setup/worker.h"
#include "os/os.h"

enum {
    EXIT_OK = 0,
    EXIT_ERROR = 1,
    EXIT_USAGE = 2,
    EXIT_REGRESSION = 3,
    EXIT_INTERRUPTED = 130,
    EXIT_TERMINATED = 143
};

static volatile sig_atomic_t first_signal; // that counted it up; 0: none

// What a person reads keeps within the terminal; the lines of data, and of what a model says, stay as they are.
static void fit_terminal(const cli_options *options) {
    const bool is_read = sm_format_is_read((sm_format)options->output) && options->command != CLI_GENERATE;
    if (!options->raw) {
        stdout = sm_screen_open(stdout, options->help || is_read || options->profile);
    }
}

static void on_signal(int number) {
    if (first_signal == 0) {
        first_signal = number;
    }
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

// JSON values are made or the program ends, with exit code 1 and a line that says how much was asked: many small values
// make a result, and one that is left out for lack of memory would look like one that is not known. Files that are
// replaced as a whole keep their old state.
static void *allocate(size_t size_bytes) {
    void *memory = malloc(size_bytes);
    if (memory == NULL && size_bytes > 0) {
        cli_note("out of memory: %zu bytes for a JSON value", size_bytes);
        exit(EXIT_FAILURE);
    }
    return memory;
}

// SM_ERR_OOM where there is not even the memory that libraries take for granted: hwloc, which reads the machine's
// topology before anything large is allocated, crashes where one of its own allocations fails.
static sm_status require_memory(void) {
    enum { LIBRARIES_BYTES = 16 << 20 }; // several times what hwloc takes on a machine with hundreds of processors
    void *volatile memory = malloc(LIBRARIES_BYTES);
    if (memory == NULL) {
        return sm_fail(SM_ERR_OOM, "out of memory: not even %d MiB to begin with (ulimit -v?)", LIBRARIES_BYTES >> 20);
    }
    free(memory);
    return SM_OK;
}

static int usage_error(const char *command) {
    cli_note("%s", sm_error_message());
    cli_note("`stepmark %s%s--help` lists them", command, command[0] != '\0' ? " " : "");
    return EXIT_USAGE;
}

static sm_status call(const cli_options *options) {
    SM_TRY(cli_commands[options->command].is_alone ? cli_require_alone(options) : SM_OK);
    SM_TRY(require_memory());
    SM_TRY(cli_check_outputs(options));
    SM_TRY(cli_load_backend(options));
    return cli_commands[options->list_devices ? CLI_DEVICES : options->command].run(options);
}

// Results that could not be written are an error even when everything before went well.
static sm_status close_stdout(void) {
    return fflush(stdout) == 0 && !ferror(stdout) ? SM_OK : sm_fail(SM_ERR_IO, "stdout: could not be written");
}

static int conclude(cli_command command, sm_status status) {
    cli_live_clear();
    if (status == SM_OK) {
        status = close_stdout();
    }
    switch (status) {
    case SM_OK: return EXIT_OK;
    case SM_ERR_USAGE: return usage_error(cli_commands[command].name);
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

// A batch system that ends a run by SIGTERM is told apart from a user's Ctrl-C by the exit code of a run folder's
// training, which goes on later. The signal is the one that this process got: it asks its worker by SIGTERM always.
static int code_of_run(const cli_options *options, int code) {
    const bool is_asked = code == EXIT_INTERRUPTED && first_signal == SIGTERM;
    return is_asked && options->command == CLI_TRAIN && options->run != NULL ? EXIT_TERMINATED : code;
}

static int run_command(cli_command command, int argc, char **argv) {
    static cli_options options; // large: lists
    if (cli_options_parse(command, argc, argv, &options) != SM_OK) {
        return usage_error(cli_commands[command].name);
    }
    fit_terminal(&options);
    cli_is_quiet = options.quiet;
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
    return code_of_run(&options, status == SM_OK ? code : conclude(command, status));
}

static int first_words(void) {
    if (isatty(STDERR_FILENO)) {
        cli_front_hello(stderr);
    } else {
        cli_front_help(stderr);
    }
    return EXIT_USAGE;
}

static int printed(void) { return conclude(CLI_COMMAND_COUNT, SM_OK); }

static int print_manual(const char *name) {
    const cli_command command = name != NULL ? cli_command_find(name) : CLI_COMMAND_COUNT;
    if (name != NULL && command == CLI_COMMAND_COUNT) {
        return usage_error("");
    }
    cli_manual_print(stdout, command);
    return printed();
}

static int print_completion(const char *shell) {
    return cli_completion_print(stdout, shell) == SM_OK ? printed() : usage_error("");
}

// Not for users: work of a backend that it started this program for. It ends with who asked for it.
static int help_backend(int n_words, char **words) {
    const sm_backend *backend = n_words > 0 ? sm_backend_find(words[0]) : NULL;
    os_end_with_parent();
    if (backend == NULL || backend->help == NULL) {
        return EXIT_USAGE;
    }
    return backend->help(n_words - 1, words + 1) == SM_OK ? EXIT_OK : EXIT_ERROR;
}

// A flag where a subcommand could be.
static int front_option(int argc, char **argv) {
    const char *name = argv[1];
    if (strcmp(name, "--list-devices") == 0) {
        return run_command(CLI_DEVICES, argc - 1, argv + 1);
    }
    if (strcmp(name, "--helper") == 0) {
        return help_backend(argc - 2, argv + 2);
    }
    if (strcmp(name, "--manual") == 0) {
        return print_manual(argv[2]);
    }
    if (strcmp(name, "--completion") == 0) {
        return print_completion(argv[2]);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        stdout = sm_screen_open(stdout, true);
        cli_front_help(stdout);
        return printed();
    }
    if (strcmp(name, "--version") == 0) {
        stdout = sm_screen_open(stdout, true);
        cli_version_print(stdout);
        return printed();
    }
    (void)cli_command_find(name); // for its message
    return usage_error("");
}

int main(int argc, char **argv) {
    signal(SIGXFSZ, SIG_IGN); // a file beyond its limit (ulimit -f) is a failed write, not the end
    os_begin(argv[0]);
    json_set_alloc_funcs(allocate, free);
    if (!has_stack()) {
        return EXIT_ERROR;
    }
    if (argc < 2) {
        return first_words();
    }
    if (argv[1][0] == '-') {
        return front_option(argc, argv);
    }
    cli_command command = cli_command_find(argv[1]);
    if (command == CLI_COMMAND_COUNT) {
        return usage_error("");
    }
    return run_command(command, argc - 1, argv + 1);
}
