// options.c: reads a command line. Its flags, like their defaults, come from the table of flags (flags/flags.c).
#include <errno.h>
#include <unistd.h>

#include "bench/measure/harness.h"
#include "bench/tables/screen.h"
#include "bench/tables/show.h"
#include "cli/flags/flag.h"
#include "src/documents/documents.h"
#include "src/io/json_text.h"
#include "src/rewrites/rewrite.h"
#include "src/runs/run_folder.h"

// --- values ----------------------------------------------------------------------------

// Copies the list entry that ends before a character of `ends`, and moves *text past that character.
static sm_status next_entry(const char *what, const char **text, const char *ends, char entry[CLI_TEXT_SIZE]) {
    size_t length = strcspn(*text, ends);
    SM_FAIL_IF(length == 0, SM_ERR_USAGE, "%s: empty entry; give a value or a comma list of values", what);
    SM_FAIL_IF(length >= CLI_TEXT_SIZE, SM_ERR_USAGE, "%s: '%.20s...' is too long", what, *text);
    memcpy(entry, *text, length);
    entry[length] = '\0';
    *text += length;
    return SM_OK;
}

// "64", or "64K", "64M", "64G": times 1024, and again.
static sm_status parse_int(const char *what, const char *text, int64_t min, int64_t max, int64_t *value) {
    static const char units[] = "KMG";
    char *end = NULL;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    const char *unit = end != text && *end != '\0' ? strchr(units, *end) : NULL;
    const int n_bits = unit != NULL ? 10 * (int)(unit - units + 1) : 0;
    end += unit != NULL;
    if (parsed > 0 && parsed > INT64_MAX >> n_bits) {
        errno = ERANGE;
    } else if (parsed > 0) {
        parsed <<= n_bits;
    }
    SM_FAIL_IF(end == text || *end != '\0', SM_ERR_USAGE, "%s: '%s' is not a whole number (64, or 4K: 4096)", what,
               text);
    SM_FAIL_IF(errno == ERANGE || parsed < min || parsed > max, SM_ERR_USAGE,
               "%s: %s is out of range; give a whole number from %lld to %lld", what, text, (long long)min,
               (long long)max);
    *value = parsed;
    return SM_OK;
}

static sm_status append_int(const char *what, cli_ints *list, int64_t value) {
    SM_FAIL_IF(list->n == CLI_MAX_VALUES, SM_ERR_USAGE, "%s: more than %d values", what, CLI_MAX_VALUES);
    list->values[list->n++] = value;
    return SM_OK;
}

// One entry: "a", "a-b", "a-b+step" or "a-b*mult".
static sm_status parse_range(const char *what, const char *entry, int64_t min, int64_t max, cli_ints *list) {
    char part[CLI_TEXT_SIZE];
    int64_t first, last, by = 1;
    const char *rest = entry;
    // A leading minus is a sign, out of range for every list, and must not read as a range.
    SM_TRY(next_entry(what, &rest, entry[0] == '-' ? "" : "-", part));
    SM_TRY(parse_int(what, part, min, max, &first));
    if (*rest == '\0') {
        return append_int(what, list, first);
    }
    rest++;
    SM_TRY(next_entry(what, &rest, "+*", part));
    SM_TRY(parse_int(what, part, min, max, &last));
    bool multiply = *rest == '*';
    SM_TRY(*rest != '\0' ? parse_int(what, rest + 1, multiply ? 2 : 1, max, &by) : SM_OK);
    SM_FAIL_IF(last < first || (multiply && first == 0), SM_ERR_USAGE, "%s: the range %s never reaches its end", what,
               entry);
    for (int64_t value = first;; value = multiply ? value * by : value + by) {
        SM_TRY(append_int(what, list, value));
        if (value > (multiply ? last / by : last - by)) {
            return SM_OK;
        }
    }
}

sm_status cli_parse_ints(const char *what, const char *text, int64_t min, int64_t max, cli_ints *list) {
    list->n = 0;
    for (;; text++) {
        char entry[CLI_TEXT_SIZE];
        SM_TRY(next_entry(what, &text, ",", entry));
        SM_TRY(parse_range(what, entry, min, max, list));
        if (*text == '\0') {
            return SM_OK;
        }
    }
}

sm_status cli_parse_texts(const char *what, const char *text, cli_texts *list) {
    list->n = 0;
    for (;; text++) {
        SM_FAIL_IF(list->n == CLI_MAX_TEXTS, SM_ERR_USAGE, "%s: more than %d entries", what, CLI_MAX_TEXTS);
        SM_TRY(next_entry(what, &text, ",", list->texts[list->n]));
        list->n++;
        if (*text == '\0') {
            return SM_OK;
        }
    }
}

static sm_status parse_choice(const char *what, const cli_choice *choices, const char *text, int *value) {
    const char *names[CLI_MAX_WORDS];
    int n = 0;
    for (const cli_choice *c = choices; c->word != NULL; c++) {
        names[n++] = c->word;
        if (strcmp(c->word, text) == 0) {
            *value = c->value;
            return SM_OK;
        }
    }
    return cli_no_such_name(what, "value", text, names, n);
}

static sm_status parse_choices(const char *what, const cli_choice *choices, const char *text, cli_ints *list) {
    cli_texts entries;
    SM_TRY(cli_parse_texts(what, text, &entries));
    list->n = 0;
    for (int i = 0; i < entries.n; i++) {
        int value = 0;
        SM_TRY(parse_choice(what, choices, entries.texts[i], &value));
        SM_TRY(append_int(what, list, value));
    }
    return SM_OK;
}

// Refuses a list for a flag that takes one value here.
static sm_status check_one(const cli_flag *flag, cli_command command, int n) {
    return n <= 1 || cli_takes_list(flag, command)
               ? SM_OK
               : sm_fail(SM_ERR_USAGE, "--%s: takes one value here, not a list of %d", flag->name, n);
}

static sm_status store(const cli_flag *flag, const char *text, cli_options *options) {
    void *target = (char *)options + flag->target;
    const int64_t min = (int64_t)flag->min, max = (int64_t)flag->max;
    char what[CLI_TEXT_SIZE], *end = NULL;
    double real;
    sm_format format;
    snprintf(what, sizeof(what), "--%s", flag->name);
    options->given[flag->row] = text != NULL ? text : "";
    switch (flag->type) {
    case CLI_SWITCH: *(bool *)target = true; return SM_OK;
    case CLI_NEW_FILE:
    case CLI_LOG_FILE:
    case CLI_NEW_FOLDER:
    case CLI_CODE:
    case CLI_TEXT: *(const char **)target = text; return SM_OK;
    case CLI_INT: return parse_int(what, text, min, max, target);
    case CLI_REAL:
        real = strtod(text, &end);
        SM_FAIL_IF(end == text || *end != '\0', SM_ERR_USAGE, "%s: '%s' is not a number%s%s%s", what, text,
                   end == text ? "" : "; give ", end == text ? "" : flag->argument,
                   end == text ? "" : " without a unit");
        SM_FAIL_IF(!(real >= flag->min && real <= flag->max), SM_ERR_USAGE,
                   "%s: %s is out of range; give a number from %.7g to %.7g", what, text, flag->min, flag->max);
        *(double *)target = real;
        return SM_OK;
    case CLI_COUNT:
        *(int64_t *)target = -1;
        return strcmp(text, "auto") == 0 ? SM_OK : parse_int(what, text, 0, max, target);
    case CLI_INTS: SM_TRY(cli_parse_ints(what, text, min, max, target)); break;
    case CLI_TEXTS:
        SM_TRY(cli_parse_texts(what, text, target));
        return check_one(flag, options->command, ((cli_texts *)target)->n);
    case CLI_CHOICE: return parse_choice(what, flag->choices, text, target);
    case CLI_CHOICES: SM_TRY(parse_choices(what, flag->choices, text, target)); break;
    case CLI_FORMAT:
        SM_FAIL_IF(!sm_format_parse(text, &format), SM_ERR_USAGE, "%s: unknown value '%s'; give one of %s%s", what,
                   text, flag->argument,
                   strcmp(text, "sql") == 0       ? ": sqlite3 reads csv (.import --csv FILE TABLE)"
                   : strstr(text, "html") != NULL ? ": `stepmark report ROWS --output page.html` makes a page"
                   : strchr(text, '.') != NULL    ? ", and `> FILE` for a file"
                                                  : "");
        *(int *)target = (int)format;
        return SM_OK;
    }
    return check_one(flag, options->command, ((cli_ints *)target)->n);
}

sm_status cli_filter_compile(const char *text, sm_pattern **pattern) {
    *pattern = NULL;
    return text == NULL || sm_pattern_new(text, pattern) == SM_OK
               ? SM_OK
               : sm_fail(SM_ERR_USAGE, "--filter: %s", sm_error_message());
}

// --- the words of a line -------------------------------------------------------------------

const cli_flag *cli_flag_named(const cli_flag *flags, int n, const char *word) {
    const bool is_long = word[0] == '-' && word[1] == '-';
    const size_t length = is_long ? strcspn(word + 2, "=") : 1;
    const cli_flag *found = NULL;
    bool is_only = true;
    for (int i = 0; i < 2 * n; i++) {
        const cli_flag *flag = &flags[i / 2];
        const char *name = i % 2 == 0 ? flag->name : flag->also;
        const bool is_begun = is_long && name != NULL && strncmp(name, word + 2, length) == 0;
        if (is_long ? is_begun && name[length] == '\0' : flag->letter == word[1]) {
            return flag;
        }
        is_only = is_only && (!is_begun || found == NULL || found == flag);
        found = is_begun ? flag : found;
    }
    // The beginning of a name may be the whole name of another form's or subcommand's flag: the user meant that one.
    for (int i = 0; i < cli_flag_count(); i++) {
        const char *name = cli_flag_at(i)->name;
        is_only = is_only && !(strlen(name) == length && strncmp(name, word + 2, length) == 0);
    }
    return is_only ? found : NULL;
}

void cli_words_begin(cli_command command, bool sorts, int argc, char **argv, cli_words *w) {
    *w = (cli_words){.argc = argc, .argv = argv, .at = 1, .sorts = sorts};
    w->n_flags = cli_flags_of(command, w->flags);
}

// Moves the words from `first` up to the next one before all operands so far.
static void sort_words(const cli_words *w, int first) {
    for (int i = first; i < w->at && w->sorts; i++) {
        char **operands = &w->argv[i - w->n_operands];
        char *word = w->argv[i];
        memmove(operands + 1, operands, (size_t)w->n_operands * sizeof(*operands));
        *operands = word;
    }
}

bool cli_words_next(cli_words *w) {
    if (w->letters == NULL && !w->has_ended && w->at < w->argc && strcmp(w->argv[w->at], "--") == 0) {
        w->has_ended = true;
        w->at++;
        sort_words(w, w->at - 1);
    }
    if (w->letters == NULL && w->at == w->argc) {
        return false;
    }
    const int first = w->at;
    w->word = w->letters != NULL ? w->letters : w->argv[w->at++];
    w->is_operand = w->letters == NULL && (w->has_ended || w->word[0] != '-' || w->word[1] == '\0');
    w->is_long = w->letters == NULL && w->word[1] == '-';
    w->letters = NULL;
    w->value = NULL;
    if (w->is_operand) {
        w->n_operands++;
        return true;
    }
    w->flag = cli_flag_named(w->flags, w->n_flags, w->word);
    const bool takes_value = w->flag != NULL && w->flag->type != CLI_SWITCH;
    if (w->is_long && strchr(w->word, '=') != NULL) {
        w->value = strchr(w->word, '=') + 1;
    } else if (!w->is_long && w->word[2] != '\0') {
        w->value = takes_value ? w->word + 2 : NULL;
        w->letters = takes_value ? NULL : w->word + 1; // the next letter follows this one
    } else if (takes_value && w->at < w->argc) {
        w->value = w->argv[w->at++];
    }
    sort_words(w, first);
    return true;
}

// --- the whole line ----------------------------------------------------------------------

typedef struct {
    cli_words words;
    cli_command command;
    bool is_row;                  // lists have one entry
    bool is_given[CLI_MAX_FLAGS]; // on the command line
} parser;

// The subcommands that take a flag, by letter unless that is 0, as "run, train"; false if there is none.
static bool who_takes(const char *name, char letter, char *text, size_t size_bytes) {
    unsigned commands = 0;
    for (int i = 0; i < cli_flag_count(); i++) {
        const cli_flag *flag = cli_flag_at(i);
        const bool is_it = strcmp(flag->name, name) == 0 && (letter == 0 || flag->letter == letter);
        commands |= is_it ? flag->commands : 0;
    }
    text[0] = '\0';
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        if ((commands & (1u << i)) && strstr(text, cli_commands[i].name) == NULL) { // its forms have its name
            sm_append_part(text, size_bytes, ", ", cli_commands[i].name);
        }
    }
    return commands != 0;
}

static sm_status unknown_flag(const parser *p, const char *name) {
    const char *names[CLI_MAX_FLAGS + 1];
    char others[4 * CLI_TEXT_SIZE];
    if (who_takes(name, 0, others, sizeof(others))) {
        const char *own = cli_commands[p->command].name;
        return strstr(others, own) != NULL
                   ? sm_fail(SM_ERR_USAGE, "--%s does not go with the other flags; `stepmark %s --help` groups them",
                             name, own)
                   : sm_fail(SM_ERR_USAGE, "--%s is a flag of %s, not of %s", name, others, own);
    }
    others[0] = '\0';
    for (int i = 0; i < p->words.n_flags; i++) {
        names[i] = p->words.flags[i].name;
        if (strncmp(names[i], name, strlen(name)) == 0) {
            sm_append_part(others, sizeof(others), ", --", names[i]);
        }
    }
    SM_FAIL_IF(others[0] != '\0', SM_ERR_USAGE, "--%s is the beginning of --%s; write it out", name, others);
    const char *launcher = names[p->words.n_flags] = "mpirun";
    const char *nearest = cli_nearest(name, names, p->words.n_flags + 1);
    SM_FAIL_IF(nearest == launcher, SM_ERR_USAGE,
               "unknown flag --%s; N processes share a training: mpirun -n N stepmark train", name);
    SM_FAIL_IF(nearest == NULL, SM_ERR_USAGE, "unknown flag --%s", name);
    return sm_fail(SM_ERR_USAGE, "unknown flag --%s; did you mean --%s?", name, nearest);
}

// A letter that this subcommand lacks; another may have it.
static sm_status unknown_letter(const parser *p, char letter) {
    char takers[4 * CLI_TEXT_SIZE];
    const char *own = cli_commands[p->command].name;
    const cli_flag *flag = NULL;
    for (int i = 0; i < cli_flag_count() && flag == NULL; i++) {
        flag = cli_flag_at(i)->letter == letter ? cli_flag_at(i) : NULL;
    }
    for (int i = 0; i < p->words.n_flags && flag != NULL; i++) {
        SM_FAIL_IF(strcmp(p->words.flags[i].name, flag->name) == 0, SM_ERR_USAGE, "-%c is no flag of %s; write --%s",
                   letter, own, flag->name);
    }
    SM_FAIL_IF(flag == NULL || !who_takes(flag->name, letter, takers, sizeof(takers)), SM_ERR_USAGE, "unknown flag -%c",
               letter);
    return sm_fail(SM_ERR_USAGE, "-%c (--%s) is a flag of %s, not of %s", letter, flag->name, takers, own);
}

static sm_status check_word(const parser *p) {
    const cli_words *w = &p->words;
    char name[CLI_TEXT_SIZE], shown[CLI_ARGUMENT_SIZE];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(w->word + 2, "="), w->word + 2);
    if (w->flag == NULL) {
        return w->is_long ? unknown_flag(p, name) : unknown_letter(p, w->word[1]);
    }
    SM_FAIL_IF(w->flag->type == CLI_SWITCH && w->value != NULL, SM_ERR_USAGE, "--%s takes no argument", w->flag->name);
    if (w->flag->type != CLI_SWITCH && w->value == NULL) {
        cli_flag_argument(w->flag, p->command, shown);
        return sm_fail(SM_ERR_USAGE, "--%s: needs an argument, %s", w->flag->name, shown);
    }
    return SM_OK;
}

// Code, or a file to write, that a file names is refused unless the command line names its own, which is taken.
static sm_status take_flag(parser *p, bool of_file, cli_options *options) {
    const cli_flag *flag = p->words.flag;
    bool *is_given = &p->is_given[flag - p->words.flags];
    *is_given = *is_given || !of_file;
    if (of_file && (flag->type == CLI_CODE || (cli_is_output(flag) && strcmp(flag->name, "run") != 0))) {
        return *is_given ? SM_OK : cli_refuse_code(flag);
    }
    const bool is_axis = cli_commands[options->command].sweeps && !p->is_row && cli_is_axis(flag);
    options->sweep.of_sweep = is_axis ? options->sweep.of_sweep : flag->name;
    if (!is_axis) {
        return store(flag, p->words.value, options);
    }
    cli_axes *axes = &options->sweep.axes; // keeps its text
    SM_FAIL_IF(axes->n == CLI_MAX_AXES, SM_ERR_USAGE, "--%s: more than %d flags to sweep over", flag->name,
               CLI_MAX_AXES);
    axes->axes[axes->n++] = (cli_axis){flag->row, p->words.value};
    return SM_OK;
}

static sm_status read_arguments(parser *p, bool of_file, int argc, char **argv, cli_options *options) {
    cli_words_begin(p->command, true, argc, argv, &p->words);
    while (cli_words_next(&p->words)) {
        if (!p->words.is_operand) {
            SM_TRY(check_word(p));
            SM_TRY(take_flag(p, of_file, options));
        }
    }
    options->n_operands = p->words.n_operands;
    options->operands = argv + argc - options->n_operands;
    SM_FAIL_IF(options->n_operands > 0 && cli_commands[options->command].operands == NULL, SM_ERR_USAGE,
               "unexpected argument '%s'; flags begin with - or --, and a list has no spaces (1,2)",
               options->operands[0]);
    return SM_OK;
}

// Turns --without's names into bits.
static sm_status find_rewrites(cli_options *options) {
    const char *names[CLI_MAX_TEXTS];
    int n = sm_rewrite_count();
    for (int i = 0; i < n && i < CLI_MAX_TEXTS; i++) {
        names[i] = sm_rewrite_at(i)->name;
    }
    for (int i = 0; i < options->device.without.n; i++) {
        const char *name = options->device.without.texts[i];
        int index = sm_rewrite_find(name);
        if (options->command == CLI_ABLATE && strcmp(name, "all") == 0) {
            options->device.without_bits = ~0u;
            return SM_OK;
        }
        if (index < 0) {
            return cli_no_such_name("--without", "rewrite", name, names, n);
        }
        options->device.without_bits |= 1u << index;
    }
    if (options->command == CLI_ABLATE) { // which are measured
        return SM_OK;
    }
    const sm_recompute asked = (sm_recompute)options->work.recompute;
    SM_FAIL_IF(asked > SM_RECOMPUTE_NONE && sm_recompute_resolve(asked, options->device.without_bits) != asked,
               SM_ERR_USAGE, "--recompute %s and --without recompute contradict each other; leave one out",
               sm_recompute_name(asked));
    const sm_attention attention = (sm_attention)options->work.attention;
    SM_FAIL_IF(attention == SM_ATTENTION_FLASH &&
                   sm_attention_resolve(attention, SM_MODE_FUSED, options->device.without_bits) != attention,
               SM_ERR_USAGE, "--attention flash and --without flash_attention contradict each other; leave one out");
    return SM_OK;
}

static sm_status set_defaults(cli_command command, cli_options *options) {
    memset(options, 0, sizeof(*options));
    options->command = command;
    options->walk.layer = -1;
    options->walk.train_steps = -1;
    options->out.format = SM_FORMAT_COUNT;
    options->train.warmup_steps = -1;
    options->train.schedule = -1;
    options->train.data_order = -1;
    options->train.min_lr = NAN;
    for (int i = 0; i < sm_setting_count(); i++) {
        *sm_setting_of(&options->train.settings, sm_setting_at(i)) = NAN;
    }
    for (int i = 0; i < cli_flag_count(); i++) {
        cli_flag flag;
        if (cli_flag_of(command, i, &flag) && flag.initial != NULL && !cli_has_own_list(&flag, command)) {
            SM_TRY(store(&flag, flag.initial, options));
        }
    }
    return SM_OK;
}

// --- flags from files --------------------------------------------------------------------

sm_status cli_refuse_code(const cli_flag *flag) {
    return sm_fail(SM_ERR_USAGE, "%s, --%s; look at it, and give --%s on the command line",
                   flag->type == CLI_CODE ? "runs code of its own" : "chooses a file to write", flag->name, flag->name);
}

// Flags from a file, as argv from its subcommand on: --config FILE, or a run.json, which has its first line.
typedef struct {
    const char *path;
    char **args;
    int n;
} saved_flags;

// Takes `text` over. The list ends as argv does.
static void add_saved(char *text, saved_flags *saved) {
    saved->args = sm_realloc(saved->args, ((size_t)saved->n + 2) * sizeof *saved->args);
    saved->args[saved->n++] = text;
    saved->args[saved->n] = NULL;
}

// {"model-size": "tiny", "lr": 3e-3, "profile": true}: a flag each; of a switch, false leaves it out.
static sm_status save_flag(const char *name, const json_t *value, saved_flags *saved) {
    char flag[CLI_TEXT_SIZE + 2];
    SM_FAIL_IF(json_is_object(value) || json_is_array(value) || json_is_null(value) || strlen(name) >= CLI_TEXT_SIZE,
               SM_ERR_FORMAT, "%s: \"%.60s\": give a text, a number, true or false", saved->path, name);
    snprintf(flag, sizeof flag, "--%s", name);
    for (char *c = flag; *c != '\0'; c++) {
        *c = *c == '_' ? '-' : *c;
    }
    if (json_is_boolean(value)) {
        if (json_is_true(value)) {
            add_saved(sm_strdup(flag), saved);
        }
        return SM_OK;
    }
    SM_FREED char *written = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
    add_saved(sm_text_of("%s=%s", flag, written != NULL ? written : json_string_value(value)), saved);
    return SM_OK;
}

static sm_status read_file(const char *path, saved_flags *saved) {
    SM_OWN(json_t) *root = NULL;
    const char *name;
    json_t *value;
    saved->path = path;
    SM_TRY(sm_json_read(path, SM_RUN_MOST_BYTES, &root));
    const json_t *starts = json_object_get(root, "starts");
    if (starts != NULL) { // a run.json: the arguments of a program's line, after the program and `train`
        const json_t *argv = json_object_get(json_array_get(starts, 0), "argv");
        const char *command = json_string_value(json_array_get(argv, 1));
        SM_FAIL_IF(command == NULL || strcmp(command, "train") != 0, SM_ERR_FORMAT,
                   "%s: its starts hold no command line of train", path);
        for (size_t i = 1; i < json_array_size(argv); i++) {
            const char *text = json_string_value(json_array_get(argv, i));
            SM_FAIL_IF(text == NULL, SM_ERR_FORMAT, "%s: argument %zu of its command line is no text", path, i);
            add_saved(sm_strdup(text), saved);
        }
        return SM_OK;
    }
    add_saved(sm_strdup("train"), saved); // where argv has the subcommand
    json_object_foreach(root, name, value) { SM_TRY(save_flag(name, value, saved)); }
    return SM_OK;
}

// The flags of --config and of a run's folder; options point into them for as long as the process lives.
enum { OF_CONFIG, OF_RUN, N_SAVED };
static saved_flags saved[N_SAVED];

// Flags of --config, then those of the run, then the command line's: the last wins.
static sm_status read_all(parser *p, int argc, char **argv, cli_options *options) {
    SM_TRY(set_defaults(p->command, options));
    for (int i = 0; i < N_SAVED; i++) {
        SM_FAIL_IF(saved[i].n > 0 && read_arguments(p, true, saved[i].n, saved[i].args, options) != SM_OK, SM_ERR_USAGE,
                   "%s: %s", saved[i].path, sm_error_message());
    }
    return read_arguments(p, false, argc, argv, options);
}

static sm_status read_with_saved(parser *p, int argc, char **argv, cli_options *options) {
    static char run_path[PATH_MAX];
    for (saved_flags *s = saved; s < saved + N_SAVED; s++) {
        for (int i = 0; i < s->n; i++) {
            free(s->args[i]);
        }
        free(s->args);
        *s = (saved_flags){.n = 0};
    }
    SM_TRY(read_all(p, argc, argv, options));
    if (options->train.run != NULL && options->train.resume_run == SM_RESUME_AUTO &&
        snprintf(run_path, PATH_MAX, "%s/run.json", options->train.run) < PATH_MAX && access(run_path, R_OK) == 0) {
        SM_TRY(read_file(run_path, &saved[OF_RUN]));
        SM_TRY(read_all(p, argc, argv, options));
    }
    if (options->train.config != NULL) {
        SM_TRY(read_file(options->train.config, &saved[OF_CONFIG]));
        SM_TRY(read_all(p, argc, argv, options));
    }
    return SM_OK;
}

// The argument given to a flag, other than its default; NULL: none.
static const char *own_text(const cli_flag *flag, const cli_options *options) {
    const char *of_axis = cli_axis_text(&options->sweep.axes, flag->name);
    const char *text = of_axis != NULL ? of_axis : options->given[flag->row];
    return text != NULL && (flag->initial == NULL || strcmp(text, flag->initial) != 0) ? text : NULL;
}

// A flag whose help begins "with --op" says nothing without that one, and is not taken silently.
static sm_status check_companions(const parser *p, const cli_options *options) {
    const cli_flag *size = cli_flag_named(p->words.flags, p->words.n_flags, "-m");
    const bool has_size = size != NULL && own_text(size, options) != NULL;
    for (int i = 0; i < p->words.n_flags; i++) {
        const cli_flag *flag = &p->words.flags[i], *other = NULL;
        char name[CLI_TEXT_SIZE], argument[CLI_ARGUMENT_SIZE];
        if (own_text(flag, options) != NULL && sscanf(flag->help, "with %63[^: ]", name) == 1) {
            other = cli_flag_named(p->words.flags, p->words.n_flags, name);
        }
        if (other != NULL && (other->initial == NULL || sm_is_word_of(other->initial, "0 none"))) {
            cli_flag_argument(other, p->command, argument);
            SM_FAIL_IF(own_text(other, options) == NULL && !cli_has_own_list(other, p->command), SM_ERR_USAGE,
                       "--%s: needs %s %.*s; leave it out, or give both", flag->name, name, (int)strcspn(argument, "["),
                       argument);
        }
        SM_FAIL_IF(has_size && own_text(flag, options) != NULL && strstr(flag->help, "instead of -m") != NULL,
                   SM_ERR_USAGE, "-m: the model of --%s has its own sizes; leave one of them out", flag->name);
    }
    return SM_OK;
}

sm_status cli_options_parse(cli_command command, bool is_row, int argc, char **argv, cli_options *options) {
    parser p = {.command = command, .is_row = is_row};
    SM_TRY(read_with_saved(&p, argc, argv, options));
    const bool is_part = is_row || options->sweep.preset != NULL || options->sweep.sweep_file != NULL ||
                         strcmp(options->model.models.texts[0], "auto") == 0; // train chooses more
    SM_TRY(is_part ? SM_OK : check_companions(&p, options));
    // Output for a person is fitted to the terminal, if there is one.
    const bool is_asked = options->out.format != SM_FORMAT_COUNT;
    if (options->out.wide && (!is_asked || options->out.format == SM_FORMAT_TEXT)) {
        options->out.format = SM_FORMAT_MARKDOWN;
    } else if (!is_asked && options->command != CLI_REPORT) {
        options->out.format = sm_screen_width(stdout) > 0 ? SM_FORMAT_TEXT : SM_FORMAT_MARKDOWN;
    }
    sm_loss_scaling scaling;
    SM_TRY(cli_loss_scaling(options, CLI_FP32, &scaling)); // checks it
    bool has_forward = command == CLI_EVAL || command == CLI_GENERATE;
    for (int i = 0; i < options->work.passes.n && options->work.op == NULL; i++) {
        has_forward |= options->work.passes.values[i] == SM_PASS_FORWARD;
    }
    for (int i = 0; i < options->device.precisions.n; i++) {
        SM_FAIL_IF(has_forward && options->device.precisions.values[i] == CLI_FP8, SM_ERR_USAGE,
                   "--precision fp8: only training steps have it, a forward alone is bf16; use --precision bf16");
    }
    // Padding and long documents apply to documents. <|endoftext|> of a text's tokenizer separates some.
    const bool is_padded = options->work.padding > SM_PADDING_NONE + 1;
    const bool is_long = options->work.long_documents != SM_LONG_REFUSE;
    if (options->work.documents == NULL && (is_padded || is_long)) {
        options->work.documents = options->work.tokenizer;
    }
    SM_FAIL_IF(options->work.documents == NULL && (is_padded || is_long), SM_ERR_USAGE,
               "--%s applies to documents; also give --documents, for instance 20-512",
               is_padded ? "padding" : "long-documents");
    return find_rewrites(options);
}
