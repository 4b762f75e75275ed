// main.c: the program stepmark: finds the subcommand, prints its error, sets the exit code.
#include <errno.h>
#include <libgen.h>
#include <unistd.h>

#include "bench/tables/screen.h"
#include "cli/front/front.h"
#include "cli/sweep/sweep.h"
#include "learn/own_kernels/kernel_library.h"
#include "os/files.h"

enum { EXIT_OK, EXIT_ERROR, EXIT_USAGE, EXIT_REGRESSION, EXIT_INTERRUPTED = 130, EXIT_TERMINATED = 143 };

static volatile sig_atomic_t first_signal; // that was counted; 0: none

static void on_signal(int number) {
    first_signal = first_signal == 0 ? number : first_signal;
    if (cli_interrupted < SIG_ATOMIC_MAX) {
        cli_interrupted++;
    }
}

static int usage_error(const char *command) {
    cli_note("%s", sm_error_message());
    cli_note(command[0] != '\0' ? "`stepmark %s --help` lists its flags" : "`stepmark %s--help` lists the subcommands",
             command);
    return EXIT_USAGE;
}

// --- files to be written -------------------------------------------------------------------------

// Whether names can be added to a folder; errno says why not.
static bool can_add_to(const char *folder) {
    struct stat info;
    const bool is_other = stat(folder, &info) == 0 && !S_ISDIR(info.st_mode);
    const bool can = !is_other && access(folder, W_OK | X_OK) == 0;
    errno = is_other ? ENOTDIR : errno;
    return can;
}

static bool is_one(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && !S_ISCHR(x.st_mode) && x.st_ino != 0 && x.st_ino == y.st_ino &&
           x.st_dev == y.st_dev;
}

// Whether a file to write is `other`, or is read in the folder of that name.
static bool is_shared(const char *path, const char *other, bool whole_folder) {
    static const char read[] = "config.json run.json log.jsonl training_metrics.json tokens.json tokenizer.json "
                               "tokenizer_config.json vocab.json merges.txt model.safetensors.index.json";
    char folder[PATH_MAX];
    snprintf(folder, PATH_MAX, "%s", path);
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    const bool is_read =
        whole_folder ? !sm_ends_with(name, ".html") : sm_ends_with(name, ".safetensors") || sm_is_word_of(name, read);
    return is_one(path, other) || (is_read && access(path, F_OK) == 0 && is_one(dirname(folder), other));
}

// Likewise of the entries of a list, OP=FILE among them, and of the files that match a pattern.
static bool is_shared_with(const char *path, const char *list, bool whole_folder) {
    os_names found = {.n = 0};
    SM_FREED char *entries = sm_strdup(list);
    char *rest = NULL;
    bool is_it = strcmp(path, list) == 0 || is_shared(path, list, whole_folder);
    (void)(whole_folder && os_match_paths(list, &found)); // of data: a prompt may have such characters, too
    for (const char *entry = strtok_r(entries, ",", &rest); entry != NULL; entry = strtok_r(NULL, ",", &rest)) {
        is_it = is_it || is_shared(path, strchr(entry, '=') != NULL ? strchr(entry, '=') + 1 : entry, whole_folder);
    }
    for (int i = 0; i < found.n; i++) {
        is_it = is_it || is_shared(path, found.list[i], whole_folder);
    }
    os_free_names(&found);
    return is_it;
}

// Whether an operand or another flag names this file.
static bool is_named_twice(const cli_options *options, const cli_flag *output, const char *path) {
    bool is_it = false;
    for (int i = 0; i < options->n_operands; i++) {
        is_it = is_it || is_shared(path, options->operands[i], false);
    }
    for (int i = 0; i < cli_flag_count(); i++) {
        const cli_flag *flag = cli_flag_at(i);
        const char *axis = cli_axis_text(&options->sweep.axes, flag->name), *text;
        const bool is_path =
            flag != output && (flag->type == CLI_TEXT || flag->type == CLI_CODE || cli_is_output(flag));
        if (is_path && (flag->commands & (1u << options->command)) != 0) {
            text = axis != NULL ? axis : *(char *const *)((const char *)options + flag->target);
            is_it |= text != NULL && is_shared_with(path, text, sm_is_word_of(flag->name, "data collect"));
        }
    }
    return is_it;
}

// Whether a path, which need not exist, is a run's folder, or what a run writes weights or its record to.
static bool is_of_run(const char *path) {
    static const char written[] = "/model /best /checkpoints /log.jsonl /run.json /training_metrics.json";
    char parent[PATH_MAX], name[PATH_MAX], whole[PATH_MAX];
    snprintf(parent, PATH_MAX, "%s", path);
    snprintf(name, PATH_MAX, "%s", path);
    bool is_it = false;
    if (realpath(path, whole) == NULL) {
        SM_FREED char *found = realpath(dirname(parent), NULL);
        snprintf(whole, PATH_MAX, "%.*s/%s", PATH_MAX / 2, found != NULL ? found : "", basename(name));
    }
    for (size_t i = strlen(whole); i > 0 && !is_it; i--) {
        const char *rest = &whole[i];
        is_it = (rest[0] == '\0' || sm_is_word_of(rest, written) ||
                 strncmp(rest, "/checkpoints/", strlen("/checkpoints/")) == 0) &&
                access(SM_TEXT_IN(PATH_MAX, "%.*s/checkpoints/../run.json", (int)i, whole), F_OK) == 0;
    }
    return is_it;
}

static sm_status check_output(const cli_options *options, const cli_flag *flag, const char *path) {
    const bool is_folder = flag->type == CLI_NEW_FOLDER;
    char parent[PATH_MAX];
    struct stat info;
    sm_format format;
    SM_FAIL_IF(path[0] == '\0', SM_ERR_USAGE, "--%s: empty; give a name", flag->name);
    SM_FAIL_IF(strlen(path) >= PATH_MAX, SM_ERR_USAGE, "--%s: '%.40s...' is too long", flag->name, path);
    SM_FAIL_IF(!is_folder && (strcmp(path, "html") == 0 || sm_format_parse(path, &format)), SM_ERR_USAGE,
               "--%s: %s is a format, and this flag takes a file's name; give a name such as result.%s, or ./%s",
               flag->name, path, path, path); // report --output md
    const bool exists = stat(path, &info) == 0;
    const bool leads_nowhere = !exists && lstat(path, &info) == 0; // a symbolic link
    SM_FAIL_IF(is_folder && (leads_nowhere || (exists && !S_ISDIR(info.st_mode))), SM_ERR_IO,
               "--%s: %s is not a folder; choose another name", flag->name, path);
    SM_FAIL_IF(!is_folder && exists && S_ISDIR(info.st_mode), SM_ERR_IO, "--%s: %s is a folder; give a file's name",
               flag->name, path);
    SM_FAIL_IF(flag->type == CLI_NEW_FILE && exists && !S_ISREG(info.st_mode), SM_ERR_IO,
               "--%s: %s is not a regular file", flag->name, path);
    SM_FAIL_IF(
        sm_is_word_of(flag->name, "output-file bundle trace log") && sm_has_ending(path, "html htm pdf xml xlsx"),
        SM_ERR_USAGE, "--%s: %s: it is written as %s; `stepmark report ROWS --output page.html` makes a page",
        flag->name, path, strcmp(flag->name, "output-file") == 0 ? ".jsonl, .json, .csv or .md" : "JSON");
    SM_FAIL_IF(!is_folder && is_named_twice(options, flag, path), SM_ERR_USAGE,
               "--%s: %s is read or written by another flag or operand, too; give another name", flag->name, path);
    // A page is no .pdf: what opens a file goes by its ending.
    const bool is_report = options->command == CLI_REPORT, is_timeline = strcmp(flag->name, "timeline") == 0;
    const bool is_other = (is_report && (options->out.format != SM_FORMAT_COUNT || sm_format_of_file(path, &format))) ||
                          (is_timeline && sm_has_ending(path, "json")) || sm_ending(path)[0] == '\0';
    SM_FAIL_IF(flag->type == CLI_NEW_FILE && sm_is_word_of(flag->name, "output page timeline") && !is_other &&
                   !sm_has_ending(path, "html htm"),
               SM_ERR_USAGE, "--%s: %s: a page ends in .html%s; there is no .%s", flag->name, path,
               is_report     ? ", a table in .md, .csv, .json, .jsonl, .tex or .typ"
               : is_timeline ? ", its numbers in .json"
                             : "",
               sm_ending(path));
    SM_FAIL_IF(strcmp(flag->name, "run") != 0 && is_of_run(path), SM_ERR_USAGE,
               "--%s: %s is of a run, whose record would not be its own; choose another name", flag->name, path);
    snprintf(parent, sizeof(parent), "%s", path);
    // A new file replaces an old one.
    const char *what = exists && flag->type != CLI_NEW_FILE ? path : dirname(parent);
    const bool can = what == path && !is_folder ? access(path, W_OK) == 0 : can_add_to(what);
    SM_FAIL_IF(!can && what == path, SM_ERR_IO, "--%s: %s: cannot be written: %s", flag->name, path, strerror(errno));
    SM_FAIL_IF(!can, SM_ERR_IO, "--%s: %s: cannot be written: %s: %s", flag->name, path, what, strerror(errno));
    return SM_OK;
}

static sm_status call(const cli_options *options) {
    SM_TRY(cli_commands[options->command].is_alone ? cli_require_alone(options) : SM_OK);
    // Libraries assume that there is memory: hwloc, the first to allocate much, crashes when an allocation fails.
    enum { LIBRARIES_BYTES = 16 << 20 }; // several times what hwloc needs on a machine with hundreds of processors
    void *volatile memory = malloc(LIBRARIES_BYTES);
    SM_FAIL_IF(memory == NULL, SM_ERR_OOM, "out of memory: not even %d MiB to begin with (ulimit -v?)",
               LIBRARIES_BYTES >> 20);
    free(memory);
    // Every file and folder that the command line asks for can be written, before anything is measured or computed.
    for (int i = 0; i < cli_flag_count(); i++) {
        const cli_flag *flag = cli_flag_at(i);
        if (cli_is_output(flag) && (flag->commands & (1u << options->command)) != 0) {
            const char *path = *(const char *const *)((const char *)options + flag->target);
            SM_TRY(path != NULL ? check_output(options, flag, path) : SM_OK);
        }
    }
    SM_TRY(cli_load_backend(options));
    return cli_commands[options->list_devices ? CLI_DEVICES : options->command].run(options);
}

static int conclude(cli_command command, sm_status status) {
    cli_live_clear();
    if (status == SM_OK) {
        // Output that could not be written is an error even if all else succeeded.
        status = fflush(stdout) == 0 && !ferror(stdout) ? SM_OK : sm_fail(SM_ERR_IO, "stdout: could not be written");
    }
    switch (status) {
    case SM_OK: return EXIT_OK;
    case SM_ERR_USAGE: return usage_error(cli_commands[command].name);
    case SM_ERR_INTERRUPTED: cli_note("interrupted"); return EXIT_INTERRUPTED;
    case SM_ERR_REGRESSION: cli_note("%s", sm_error_message()); return EXIT_REGRESSION;
    default: cli_note("%s", sm_error_message()); return EXIT_ERROR;
    }
}

// Runs in the worker's process.
static int perform(void *ctx) {
    const cli_options *options = ctx;
    return conclude(options->command, call(options));
}

static int run_command(cli_command called, int argc, char **argv) {
    static cli_options options; // static because of its lists
    const cli_command command = cli_command_form(called, argc, argv);
    if (cli_options_parse(command, false, argc, argv, &options) != SM_OK) {
        return usage_error(cli_commands[command].name);
    }
    // Fits output for a person to the terminal; data and a model's text are not changed.
    const sm_format format = options.out.format; // SM_FORMAT_COUNT: of `report`, which then shows a table
    const bool is_read = (sm_format_is_read(format) || format == SM_FORMAT_COUNT) && options.command != CLI_GENERATE;
    if (!options.generate.raw) {
        stdout = sm_screen_open(stdout, options.help || is_read || options.train.profile);
    }
    cli_is_quiet = options.out.quiet;
    if (options.help) {
        cli_options_help(stdout, called);
        return conclude(command, SM_OK);
    }
    if (options.schema) {
        return conclude(command, cli_print_schema(command));
    }
    options.argc = argc + 1; // includes the program's name before the subcommand
    options.argv = argv - 1;
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if ((cli_commands[command].sweeps || command == CLI_AGAIN) && !options.list_devices) { // starts a process a row
        return conclude(command, os_told() != NULL ? cli_do_as_told(&options) : call(&options));
    }
    int code = EXIT_OK;
    sm_status status = cli_perform_in_worker(&options, perform, &code);
    // A training in a run folder that SIGTERM ended (by a batch system, to resume later) has its own exit code, unlike
    // Ctrl-C. It is the signal that this process received: workers always get SIGTERM.
    code = status == SM_OK ? code : conclude(command, status);
    const bool is_asked = code == EXIT_INTERRUPTED && first_signal == SIGTERM;
    return is_asked && options.command == CLI_TRAIN && options.train.run != NULL ? EXIT_TERMINATED : code;
}

static int printed(void) { return conclude(CLI_COMMAND_COUNT, SM_OK); }

// Not for users: this program started itself, for a backend or own kernels. It ends with its parent.
static int help(int n_words, char **words) {
    const sm_backend *backend = n_words > 0 ? sm_backend_find(words[0]) : NULL;
    os_end_with_parent();
    if (n_words > 0 && strcmp(words[0], "own-kernels") == 0) {
        return sm_own_process_serve(n_words - 1, words + 1) == SM_OK ? EXIT_OK : EXIT_ERROR;
    }
    return backend == NULL || backend->help == NULL         ? EXIT_USAGE
           : backend->help(n_words - 1, words + 1) == SM_OK ? EXIT_OK
                                                            : EXIT_ERROR;
}

// Handles a flag in place of a subcommand.
static int front_option(int argc, char **argv) {
    const char *name = argv[1];
    if (strcmp(name, "--list-devices") == 0) {
        return run_command(CLI_DEVICES, argc - 1, argv + 1);
    }
    if (strcmp(name, "--helper") == 0) {
        return help(argc - 2, argv + 2);
    }
    if (strcmp(name, "--manual") == 0) {
        const cli_command command = argv[2] != NULL ? cli_command_find(argv[2]) : CLI_COMMAND_COUNT;
        if (argv[2] != NULL && command == CLI_COMMAND_COUNT) {
            return usage_error("");
        }
        cli_manual_print(stdout, command);
        return printed();
    }
    if (strcmp(name, "--complete") == 0) {
        cli_complete(argc - 2, argv + 2);
        return printed();
    }
    if (strcmp(name, "--completion") == 0) {
        return cli_completion_print(stdout, argv[2]) == SM_OK ? printed() : usage_error("");
    }
    if (sm_is_word_of(name, "--help -h --version")) {
        stdout = sm_screen_open(stdout, true);
        (strcmp(name, "--version") == 0 ? cli_version_print : cli_front_help)(stdout);
        return printed();
    }
    (void)cli_command_find(name); // for its message
    return usage_error("");
}

int main(int argc, char **argv) {
    signal(SIGXFSZ, SIG_IGN); // a file beyond the limit (ulimit -f) is a failed write, not the end of the program
    os_begin(&argv);
    sm_no_memory_note = cli_note_line;
    json_set_alloc_funcs(sm_malloc, free); // JSON values are small, too
    // Threads get the stack limit of this process, and drivers need some of it. With less it would crash anywhere.
    enum { LEAST_BYTES = 512 * 1024, THREAD_BYTES = 2 << 20 };
    const size_t stack_bytes = os_raise_stack(THREAD_BYTES);
    if (stack_bytes < LEAST_BYTES) {
        cli_note("the limit of the stack, %zu KiB, is too low: %d KiB are needed; raise it (ulimit -s)",
                 stack_bytes / 1024, LEAST_BYTES / 1024);
        return EXIT_ERROR;
    }
    if (argc < 2) {
        (isatty(STDERR_FILENO) ? cli_front_hello : cli_front_help)(stderr);
        return EXIT_USAGE;
    }
    if (argv[1][0] == '-') {
        return front_option(argc, argv);
    }
    if (argc == 3 && strcmp(argv[1], "help") == 0) { // as of git
        argv[1] = argv[2];
        argv[2] = (char *)"--help";
    }
    cli_command command = cli_command_find(argv[1]);
    return command == CLI_COMMAND_COUNT ? usage_error("") : run_command(command, argc - 1, argv + 1);
}
