// plan.c: from lines of flags to configurations: forms products, removes duplicates and filtered ones, and orders.
#include <unistd.h>

#include "cli/flags/flag.h"
#include "cli/sweep/sweep.h"
#include "src/io/input_file.h"

static void configuration_free(cli_configuration *c) {
    for (int i = 0; i < c->n_args; i++) {
        free(c->args[i]);
    }
    free(c->args);
    free(c->key);
}

void cli_sweep_plan_free(cli_sweep_plan *plan) {
    for (int i = 0; i < plan->n; i++) {
        configuration_free(&plan->items[i]);
    }
    free(plan->items);
    *plan = (cli_sweep_plan){NULL, 0};
}

// Appends an empty configuration of n_args arguments.
static sm_status add(cli_sweep_plan *plan, int n_args, cli_configuration **added) {
    SM_FAIL_IF(plan->n >= CLI_MAX_CONFIGURATIONS, SM_ERR_USAGE, "more than %d configurations; shorten a list",
               CLI_MAX_CONFIGURATIONS);
    SM_PUSH(plan->items, plan->n,
            (cli_configuration){.args = sm_calloc((size_t)n_args + 1, sizeof(char *)), .n_args = n_args});
    *added = &plan->items[plan->n - 1];
    return SM_OK;
}

// Whether an argument, "--precision=fp32", says what is so without it.
static bool is_default(const char *arg) {
    for (int i = 0; i < cli_flag_count(); i++) {
        cli_flag flag;
        const size_t length = strcspn(arg + 2, "=");
        if (cli_flag_of(CLI_RUN, i, &flag) && flag.initial != NULL && strlen(flag.name) == length &&
            strncmp(arg + 2, flag.name, length) == 0) {
            return strcmp(arg + 2 + length, "") != 0 && strcmp(arg + 3 + length, flag.initial) == 0;
        }
    }
    return false;
}

// The arguments without their dashes; and without those that say what is so without them. The caller frees it.
static char *words_of(const cli_configuration *c, bool omits_defaults) {
    char *text = NULL;
    size_t size_bytes;
    FILE *out = sm_memstream(&text, &size_bytes);
    for (int i = 1; i < c->n_args; i++) {
        if (!omits_defaults || !is_default(c->args[i])) {
            fprintf(out, "%s%s", ftell(out) > 0 ? " " : "", c->args[i] + 2);
        }
    }
    sm_memstream_close(out);
    return text;
}

void cli_configuration_set_key(cli_configuration *c, const char *mark) {
    SM_FREED char *words = words_of(c, false);
    free(c->key);
    c->key = sm_text_of("%s%s%s", words, mark[0] != '\0' ? " " : "", mark);
}

sm_status cli_sweep_plan_copy(cli_sweep_plan *plan, const cli_configuration *of, cli_configuration **copy) {
    const cli_configuration original = *of;
    SM_TRY(add(plan, original.n_args, copy));
    for (int i = 0; i < original.n_args; i++) {
        (*copy)->args[i] = sm_strdup(original.args[i]);
    }
    (*copy)->place = original.place;
    return SM_OK;
}

void cli_configuration_set(cli_configuration *c, char *argument) {
    int at = 1;
    while (at < c->n_args && strncmp(c->args[at], argument, strcspn(argument, "=") + 1) != 0) {
        at++;
    }
    if (at == c->n_args) {
        c->args = sm_realloc(c->args, ((size_t)at + 2) * sizeof(*c->args));
        c->args[at] = NULL;
        c->args[at + 1] = NULL;
        c->n_args++;
    }
    free(c->args[at]);
    c->args[at] = argument;
}

sm_status cli_sweep_plan_repeat(cli_sweep_plan *plan, int index, int64_t round) {
    cli_configuration *c = NULL;
    SM_TRY(cli_sweep_plan_copy(plan, &plan->items[index], &c));
    c->place += round;
    cli_configuration_set_key(c, SM_TEXT_IN(32, "round=%lld", (long long)round + 1));
    return SM_OK;
}

sm_status cli_sweep_plan_derive(cli_sweep_plan *plan, const cli_configuration *of, int64_t B, int64_t T) {
    cli_configuration *c = NULL;
    SM_TRY(cli_sweep_plan_copy(plan, of, &c));
    cli_configuration_set(c, sm_text_of("--batch-size=%lld", (long long)B));
    cli_configuration_set(c, sm_text_of("--seq-len=%lld", (long long)T));
    c->is_search = true;
    cli_configuration_set_key(c, "largest");
    return SM_OK;
}

enum { MAX_WORDS = 64, MAX_LINE = 4096, MAX_VALUE = 512, MAX_FILE = 1 << 26 };

// The values of one flag in one line.
typedef struct {
    const cli_flag *flag; // NULL: not in this line
    char **values;        // a single NULL for a switch
    int n;
} axis;

// --- values of a flag --------------------------------------------------------------------------

static void free_axis(axis *a) {
    for (int i = 0; i < a->n; i++) {
        free(a->values[i]);
    }
    free(a->values);
    *a = (axis){NULL, NULL, 0};
}

static void free_axes(axis (*axes)[CLI_MAX_ROWS]) {
    for (int i = 0; i < CLI_MAX_ROWS; i++) {
        free_axis(&(*axes)[i]);
    }
}

// Takes `value` over.
static void add_value(axis *a, char *value) { SM_PUSH(a->values, a->n, value); }

// Expands to device ids, so that a row is for one device.
static sm_status add_devices(axis *a, const char *text, size_t length) {
    cli_texts name = {.n = 1};
    cli_device_list devices;
    snprintf(name.texts[0], sizeof(name.texts[0]), "%.*s", (int)length, text);
    SM_TRY(cli_select_devices(&name, &devices));
    for (int i = 0; i < devices.n; i++) {
        sm_device_info info;
        SM_TRY(cli_describe(devices.devices[i], &info));
        add_value(a, sm_strdup(info.id));
    }
    for (int b = 0; b < sm_backend_count(); b++) { // one that could not list its devices becomes a row
        if (cli_backend_failure(sm_backend_at(b)) != SM_OK) {
            add_value(a, sm_strdup(sm_backend_at(b)->name));
        }
    }
    return SM_OK;
}

// One entry of the comma list.
static sm_status add_entry(axis *a, const char *text, size_t length) {
    char entry[MAX_VALUE];
    SM_FAIL_IF(length == 0 || length >= sizeof(entry), SM_ERR_USAGE, "--%s: %s", a->flag->name,
               length == 0 ? "empty entry; give a value or a comma list of values"
                           : "an entry of the list is too long");
    snprintf(entry, sizeof(entry), "%.*s", (int)length, text);
    if (strcmp(a->flag->name, "backend") == 0) {
        return add_devices(a, text, length);
    }
    bool is_number = a->flag->type == CLI_INT || a->flag->type == CLI_INTS || a->flag->type == CLI_COUNT;
    if (is_number && strcmp(entry, "auto") != 0) {
        char what[CLI_TEXT_SIZE];
        cli_ints list;
        snprintf(what, sizeof(what), "--%s", a->flag->name);
        SM_TRY(cli_parse_ints(what, entry, (int64_t)a->flag->min, (int64_t)a->flag->max, &list));
        for (int i = 0; i < list.n; i++) {
            add_value(a, sm_text_of("%lld", (long long)list.values[i]));
        }
        return SM_OK;
    }
    add_value(a, sm_strdup(entry));
    return SM_OK;
}

// A flag whose commas are part of its value has one value; a switch has none.
static sm_status make_axis(const cli_axis *given, axis *a) {
    const char *text = given->text;
    free_axis(a);
    a->flag = cli_flag_at(given->flag);
    if (text == NULL || (a->flag->commands & CLI_WHOLE) != 0) {
        add_value(a, text != NULL ? sm_strdup(text) : NULL);
        return SM_OK;
    }
    for (;;) {
        size_t length = strcspn(text, ",");
        SM_TRY(add_entry(a, text, length));
        if (text[length] == '\0') {
            return SM_OK;
        }
        text += length + 1;
    }
}

// --- a line --------------------------------------------------------------------------------------

// One axis for each row of the table of flags.
static sm_status set_axes(const cli_axes *given, axis axes[CLI_MAX_ROWS]) {
    for (int i = 0; i < given->n; i++) {
        SM_TRY(make_axis(&given->axes[i], &axes[given->axes[i].flag]));
    }
    return SM_OK;
}

// Whether a flag of `run` makes a configuration a training loop, as `loop` measures it.
static bool makes_loop(const cli_flag *flag) {
    return flag->target == offsetof(cli_options, work.loader) ||
           flag->target == offsetof(cli_options, work.queue_depth) ||
           flag->target == offsetof(cli_options, processes.buckets) ||
           flag->target == offsetof(cli_options, processes.shard) ||
           (flag->target == offsetof(cli_options, work.tokenizer) && cli_is_axis(flag));
}

// Configuration `index` of the product: a number whose digits are the axes' positions; the last axis varies fastest.
static sm_status add_product(const axis axes[CLI_MAX_ROWS], int n_axes, int64_t index, cli_sweep_plan *plan) {
    cli_configuration *c = NULL;
    SM_TRY(add(plan, n_axes + 1, &c));
    int at = n_axes;
    cli_command command = CLI_RUN;
    for (int i = CLI_MAX_ROWS - 1; i >= 0; i--) {
        const axis *a = &axes[i];
        if (a->flag == NULL) {
            continue;
        }
        const char *value = a->values[index % a->n];
        index /= a->n;
        command = makes_loop(a->flag) ? CLI_LOOP : command;
        c->args[at--] = sm_text_of("--%s%s%s", a->flag->name, value != NULL ? "=" : "", value != NULL ? value : "");
    }
    c->args[0] = sm_strdup(cli_commands[command].name);
    cli_configuration_set_key(c, "");
    return SM_OK;
}

static sm_status multiply(const axis axes[CLI_MAX_ROWS], cli_sweep_plan *plan) {
    int64_t total = 1;
    int n_axes = 0;
    for (int i = 0; i < CLI_MAX_ROWS; i++) {
        if (axes[i].flag != NULL) {
            n_axes++;
            total *= axes[i].n;
        }
        SM_FAIL_IF(total > CLI_MAX_CONFIGURATIONS, SM_ERR_USAGE, "more than %d configurations; shorten a list",
                   CLI_MAX_CONFIGURATIONS);
    }
    for (int64_t i = 0; i < total; i++) {
        SM_TRY(add_product(axes, n_axes, i, plan));
    }
    return SM_OK;
}

// A line's flags, overridden by the command line's.
static sm_status add_line(cli_command command, const cli_axes *line, const cli_axes *override, cli_sweep_plan *plan) {
    SM_AT_END(free_axes) axis axes[CLI_MAX_ROWS] = {{NULL, NULL, 0}};
    SM_TRY(line != NULL ? set_axes(line, axes) : SM_OK);
    SM_TRY(set_axes(override, axes));
    // Leaves out flags for other lines of a preset, as --bytes where a line is measured in a loop.
    bool is_loop = false;
    for (int i = 0; i < CLI_MAX_ROWS; i++) {
        is_loop |= line != NULL && axes[i].flag != NULL && makes_loop(axes[i].flag);
    }
    for (int i = 0; i < CLI_MAX_ROWS && is_loop; i++) {
        cli_flag flag;
        if (axes[i].flag != NULL && !cli_flag_of(CLI_LOOP, i, &flag)) {
            free_axis(&axes[i]);
        }
    }
    // Every device is a separate value, even if none was named; also adds the values that `advise` tries by itself.
    for (int i = 0; i < cli_flag_count(); i++) {
        cli_flag flag;
        const bool is_its = cli_flag_of(command, i, &flag) && cli_is_axis(&flag);
        const bool is_asked_for = strcmp(flag.name, "backend") == 0 || cli_has_own_list(&flag, command);
        if (is_its && is_asked_for && flag.initial != NULL && axes[i].flag == NULL) {
            SM_TRY(make_axis(&(cli_axis){i, flag.initial}, &axes[i]));
        }
    }
    // A kernel of one's own of an op by itself is measured next to the backend's: without it first.
    axis *kernel = NULL;
    bool has_op = false;
    for (int i = 0; i < CLI_MAX_ROWS; i++) {
        const size_t target = axes[i].flag != NULL ? axes[i].flag->target : 0;
        kernel = axes[i].flag != NULL && target == offsetof(cli_options, device.kernel) ? &axes[i] : kernel;
        has_op |= axes[i].flag != NULL && target == offsetof(cli_options, work.op);
    }
    if (kernel != NULL && has_op) {
        const cli_flag *flag = kernel->flag;
        kernel->flag = NULL;
        const sm_status status = multiply(axes, plan);
        kernel->flag = flag;
        SM_TRY(status);
    }
    return multiply(axes, plan);
}

// --- lines of text -------------------------------------------------------------------------------

// Copies a line with CORES replaced; false if it is too long.
static bool expand_line(const char *begin, size_t length, char line[MAX_LINE]) {
    static const char word[] = "CORES";
    size_t used = 0;
    for (size_t i = 0; i < length;) {
        bool cores = length - i >= strlen(word) && memcmp(begin + i, word, strlen(word)) == 0;
        if (used + 24 >= MAX_LINE) {
            return false;
        }
        used += cores ? (size_t)snprintf(line + used, 24, "%ld", sysconf(_SC_NPROCESSORS_ONLN)) : 0;
        if (!cores) {
            line[used++] = begin[i];
        }
        i += cores ? strlen(word) : 1;
    }
    line[used] = '\0';
    return true;
}

static sm_status add_text_line(const char *name, int number, const char *begin, size_t length, const cli_axes *override,
                               cli_sweep_plan *plan) {
    char line[MAX_LINE];
    char *words[MAX_WORDS + 2] = {"run"};
    SM_FREED cli_options *options = sm_calloc(1, sizeof(*options)); // on the heap because of its lists
    int n = 1;
    SM_FAIL_IF(!expand_line(begin, length, line), SM_ERR_USAGE, "%s:%d: too long a line", name, number);
    line[strcspn(line, "#")] = '\0'; // a comment
    for (char *word = strtok(line, " \t\r"); word != NULL; word = strtok(NULL, " \t\r")) {
        SM_FAIL_IF(n > MAX_WORDS, SM_ERR_USAGE, "%s:%d: too long a line", name, number);
        words[n++] = word;
    }
    if (n == 1) {
        return SM_OK;
    }
    sm_status status = cli_options_parse(CLI_RUN, false, n, words, options);
    if (status == SM_OK && options->sweep.of_sweep != NULL) {
        status = sm_fail(SM_ERR_USAGE, "--%s holds for all; give it on the command line", options->sweep.of_sweep);
    }
    // Code that a line names counts only where the command line names some, too, which replaces it.
    for (int i = 0; i < options->sweep.axes.n && status == SM_OK; i++) {
        const cli_flag *flag = cli_flag_at(options->sweep.axes.axes[i].flag);
        bool is_given = flag->type != CLI_CODE;
        for (int j = 0; j < override->n && !is_given; j++) {
            is_given = override->axes[j].flag == options->sweep.axes.axes[i].flag;
        }
        status = is_given ? SM_OK : cli_refuse_code(flag);
    }
    status = status == SM_OK ? add_line(CLI_RUN, &options->sweep.axes, override, plan) : status;
    SM_FAIL_IF(status == SM_ERR_USAGE && name[0] != '\0', status, "%s:%d: %s", name, number, sm_error_message());
    return status;
}

// The lines of --preset or --file.
static sm_status add_lines(const cli_options *options, cli_sweep_plan *plan) {
    const char *preset = options->sweep.preset;
    const char *name = preset != NULL ? "" : options->sweep.sweep_file; // only a user's file can be wrong by itself
    const char *text = preset != NULL ? cli_preset_find(preset) : NULL;
    SM_FREED char *read = NULL;
    if (preset != NULL && text == NULL) {
        const char *names[CLI_MAX_WORDS];
        int n = 0;
        while (n < CLI_MAX_WORDS && cli_preset_at(n) != NULL) {
            names[n] = cli_preset_at(n);
            n++;
        }
        return cli_no_such_name("--preset", "preset", preset, names, n);
    }
    if (preset == NULL) {
        size_t size_bytes;
        SM_TRY(sm_input_text(name, MAX_FILE, &read, &size_bytes));
        SM_FAIL_IF(size_bytes == 0, SM_ERR_USAGE, "--file: %s: empty", name);
        SM_FAIL_IF(strlen(read) != size_bytes, SM_ERR_USAGE, "--file: %s: no text: it has a zero byte", name);
        text = read + sm_mark_bytes(read, size_bytes);
    }
    for (int number = 1; *text != '\0'; number++) {
        size_t length = strcspn(text, "\n");
        SM_TRY(add_text_line(name, number, text, length, &options->sweep.axes, plan));
        text += length + (text[length] == '\n');
    }
    return plan->n > 0 ? SM_OK : sm_fail(SM_ERR_USAGE, "%s: no line with flags", name);
}

// --- filter, rounds, order -------------------------------------------------------------------------

// Keeps the first of those that differ only in flags at their defaults, "" and "precision=fp32", and match the filter.
static void leave_out(cli_sweep_plan *plan, const sm_pattern *filter) {
    SM_OWN(json_t) *seen = json_object();
    int n = 0;
    for (int i = 0; i < plan->n; i++) {
        cli_configuration *c = &plan->items[i];
        SM_FREED char *own = words_of(c, true);
        const bool is_first = json_object_get(seen, own) == NULL;
        (void)json_object_set_new_nocheck(seen, own, json_true());
        if (is_first && (filter == NULL || sm_pattern_matches(filter, c->key))) {
            plan->items[n++] = *c;
        } else {
            configuration_free(c);
        }
    }
    plan->n = n;
}

static void shuffle(cli_configuration *items, int n, uint64_t seed) {
    for (int i = n - 1; i > 0; i--) {
        uint64_t z = (seed += 0x9e3779b97f4a7c15u); // SplitMix64 (Steele, Lea and Flood 2014); a good shuffle is enough
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        int j = (int)((z ^ (z >> 31)) % (uint64_t)(i + 1));
        cli_configuration swapped = items[i];
        items[i] = items[j];
        items[j] = swapped;
    }
}

// Rounds follow one another, each in its own order. Configurations requested first come first, with all their rounds.
static sm_status make_rounds(const cli_options *options, cli_sweep_plan *plan) {
    const int n = plan->n;
    for (int i = 0; i < n; i++) {
        plan->items[i].place = i * options->sweep.rounds;
    }
    for (int64_t round = 1; round < options->sweep.rounds; round++) {
        for (int i = 0; i < n; i++) {
            SM_TRY(cli_sweep_plan_repeat(plan, i, round));
        }
    }
    for (int64_t round = 0; round < options->sweep.rounds && cli_sweep_order(options) == CLI_ORDER_RANDOM; round++) {
        shuffle(plan->items + round * n, n, (uint64_t)options->sweep.order_seed + (uint64_t)round * 0x10001);
    }
    return SM_OK;
}

cli_order cli_sweep_order(const cli_options *options) {
    const bool is_ordered = options->sweep.preset != NULL && cli_preset_is_ordered(options->sweep.preset);
    const bool is_many = (options->sweep.preset != NULL && !is_ordered) || options->sweep.sweep_file != NULL ||
                         options->sweep.rounds > 1;
    return options->sweep.order != CLI_ORDER_UNSAID ? (cli_order)options->sweep.order
           : is_many                                ? CLI_ORDER_RANDOM
                                                    : CLI_ORDER_GIVEN;
}

sm_status cli_sweep_plan_make(const cli_options *options, cli_sweep_plan *plan) {
    *plan = (cli_sweep_plan){NULL, 0};
    SM_FAIL_IF(options->sweep.preset != NULL && options->sweep.sweep_file != NULL, SM_ERR_USAGE,
               "--preset and --file: give one of them");
    sm_status status = options->sweep.preset != NULL || options->sweep.sweep_file != NULL
                           ? add_lines(options, plan)
                           : add_line(options->command, NULL, &options->sweep.axes, plan);
    SM_OWN(sm_pattern) *filter = NULL;
    const char *text = options->learn.filter;
    status = status == SM_OK ? cli_filter_compile(text, &filter) : status;
    if (status == SM_OK) {
        leave_out(plan, filter);
        status = text == NULL || plan->n > 0 ? SM_OK
                                             : sm_fail(SM_ERR_USAGE, "--filter: '%s' matches no configuration", text);
    }
    status = status == SM_OK ? make_rounds(options, plan) : status;
    if (status != SM_OK) {
        cli_sweep_plan_free(plan);
    }
    return status;
}
