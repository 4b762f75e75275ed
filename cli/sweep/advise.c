// advise.c: `advise`: runs what the search asks for (bench/compare/compare.h), each in its own process, and reports it.
#include "clock.h"
#include "cli/flags/flag.h"
#include "cli/sweep/sweep.h"
#include "src/io/shell_word.h"

// Configuration i of the plan is configuration i of the choices.
typedef struct {
    sm_choices choices;
    int args[SM_ADVISOR_MAX_AXES]; // index of the axis's flag in a configuration's arguments
    const cli_choosable *flags[SM_ADVISOR_MAX_AXES];
} advise_axes;

// Length of the flag's name in "--name=value", without its dashes.
static size_t name_length(const char *arg) { return strcspn(arg + 2, "="); }

// Number of different values of argument `arg` in the plan; 0: too many.
static int count_levels(const cli_sweep_plan *plan, int arg) {
    const char *seen[SM_ADVISOR_MAX_LEVELS];
    int n = 0;
    for (int i = 0; i < plan->n; i++) {
        const char *value = plan->items[i].args[arg];
        int k = 0;
        while (k < n && strcmp(seen[k], value) != 0) {
            k++;
        }
        if (k == SM_ADVISOR_MAX_LEVELS) {
            return 0;
        }
        seen[k] = value;
        n += k == n;
    }
    return n;
}

// SM_ERR_USAGE if a flag has several values that do not compare: two models do not do the same work.
static sm_status find_axes(const cli_sweep_plan *plan, advise_axes *axes) {
    *axes = (advise_axes){.choices = {.n_axes = 0}};
    for (int arg = 1; arg < plan->items[0].n_args; arg++) {
        const int n_levels = count_levels(plan, arg);
        if (n_levels != 1) {
            const char *text = plan->items[0].args[arg];
            const int n = axes->choices.n_axes;
            const cli_choosable *flag = cli_choosable_find(text + 2, name_length(text));
            SM_FAIL_IF(flag == NULL, SM_ERR_USAGE,
                       "%.*s: give one value: rows with different values do not do the same work",
                       (int)name_length(text) + 2, text);
            SM_FAIL_IF(n_levels == 0 || n == SM_ADVISOR_MAX_AXES, SM_ERR_USAGE,
                       "%.*s: too much to choose between; shorten a list", (int)name_length(text) + 2, text);
            axes->args[n] = arg;
            axes->flags[n] = flag;
            axes->choices.n_levels[n] = n_levels;
            axes->choices.n_axes++;
        }
    }
    for (int axis = 0; axis < axes->choices.n_axes; axis++) {
        int place = 0;
        for (int other = 0; other < axes->choices.n_axes; other++) {
            place += axes->flags[other] < axes->flags[axis];
        }
        axes->choices.order[place] = axis;
    }
    return sm_choices_count(&axes->choices) == plan->n
               ? SM_OK
               : sm_fail(SM_ERR_INTERNAL, "advise: %d configurations are no product of %d lists", plan->n,
                         axes->choices.n_axes);
}

// --- words of a configuration ------------------------------------------------------------------------

// The flags in which a configuration differs from the default, "--batch-size=8 --precision=bf16". The caller frees it.
static char *flags_of(const cli_sweep_plan *plan, const advise_axes *axes, int64_t configuration) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = sm_memstream(&text, &size);
    for (int axis = 0; axis < axes->choices.n_axes; axis++) {
        if (sm_choices_level(&axes->choices, configuration, axis) != 0) {
            fprintf(out, "%s%s", ftell(out) > 0 ? " " : "", plan->items[configuration].args[axes->args[axis]]);
        }
    }
    sm_memstream_close(out);
    return text;
}

// The number in argument `flag`; 1 if absent.
static long long number_of(const cli_configuration *c, const char *flag) {
    for (int arg = 1; arg < c->n_args; arg++) {
        const size_t length = name_length(c->args[arg]);
        if (length == strlen(flag) && strncmp(c->args[arg] + 2, flag, length) == 0) {
            return strtoll(c->args[arg] + 2 + length + 1, NULL, 10);
        }
    }
    return 1;
}

static long long sequences_of(const cli_configuration *c) { return number_of(c, "batch-size") * number_of(c, "accum"); }

// Its changes of the training, "batch, rounding"; "" for none: the same sums, perhaps in another order.
static char *changes_of(const cli_sweep_plan *plan, const advise_axes *axes, int64_t configuration) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = sm_memstream(&text, &size);
    if (sequences_of(&plan->items[configuration]) != sequences_of(&plan->items[0])) {
        fputs("batch", out);
    }
    for (int axis = 0; axis < axes->choices.n_axes; axis++) {
        const char *changes = axes->flags[axis]->changes;
        const bool is_changed = sm_choices_level(&axes->choices, configuration, axis) != 0;
        if (is_changed && changes != NULL && strcmp(changes, "batch") != 0) {
            fprintf(out, "%s%s", ftell(out) > 0 ? ", " : "", changes);
        }
    }
    sm_memstream_close(out);
    return text;
}

// The first step and its check take about as much work again as the timed steps and warm-up.
enum { N_OTHER_STEPS = 2 };

// A configuration that was tried.
typedef struct {
    int64_t configuration;
    json_t *rows; // by round; null if it was not measured in that round
} tried;

typedef struct {
    const cli_options *options;
    cli_sweep sweep; // its plan begins with all configurations, in the order of the choices
    advise_axes axes;
    sm_advisor *advisor;
    int64_t n_configurations;
    tried *tried;
    size_t n_tried;
    int n_runs;           // with figures
    int n_timed;          // begun by this process, since begin_ns
    int64_t n_too_large;  // left out by estimate, without a row
    double default_ns;    // the default's step; NaN: unknown
    double default_flops; // of it
    int64_t begin_ns;
} advice;

// Ceilings and phases do not matter for a difference, and cost as much as a run's steps; a loop's are the step.
static sm_status complete(cli_axes *axes, char *threads, size_t size_bytes) {
    SM_TRY(cli_axis_add(axes, "no-peaks", NULL));
    SM_TRY(cli_axis_text(axes, "loader") == NULL ? cli_axis_add(axes, "no-phases", NULL) : SM_OK);
    if (cli_axis_text(axes, "threads") != NULL) {
        return SM_OK;
    }
    // "8,4": one a core, and half of them, if the device has such a choice.
    cli_texts names;
    cli_device_list devices;
    sm_device_info info;
    const char *given = cli_axis_text(axes, "backend");
    SM_TRY(cli_parse_texts("--backend", given != NULL ? given : "cpu", &names));
    SM_FAIL_IF(names.n > 1, SM_ERR_USAGE, "--backend: give one device; each has an advice of its own");
    SM_TRY(cli_select_devices(&names, &devices));
    SM_TRY(cli_describe(devices.devices[0], &info));
    snprintf(threads, size_bytes, "%d,%d", info.n_threads, info.n_threads / 2);
    return info.n_threads > 1 ? cli_axis_add(axes, "threads", threads) : SM_OK;
}

// --- a run -----------------------------------------------------------------------------------------------

static void say_progress(const advice *a, const sm_trial *trial, const json_t *row, bool is_known) {
    char when[64] = "";
    SM_FREED char *flags = flags_of(&a->sweep.plan, &a->axes, trial->configuration);
    const int n_left = sm_advisor_most_left(a->advisor);
    const double speed = sm_advice_speed(row);
    const bool ok = isfinite(speed);
    if (a->n_timed > 0 && n_left > 0) {
        const double run_s = (double)(sm_now_ns() - a->begin_ns) * 1e-9 / a->n_timed;
        snprintf(when, sizeof(when), "; about %s left", CLI_DURATION(run_s * n_left));
    }
    cli_say("round %d, %s: %s%s%s%s%s", trial->round + 1, flags == NULL || flags[0] == '\0' ? "the default" : flags,
            ok ? SM_TEXT_COUNT(speed) : sm_rows_text(row, "status"), ok ? " tokens/s" : ": ",
            ok ? "" : sm_rows_text(row, "reason"), is_known ? ", measured before" : "", when);
}

static sm_status measure(advice *a, const cli_configuration *c, json_t **row) {
    cli_candidate *candidate = a->sweep.candidate;
    if (candidate->status[0] == '\0') {
        // Does not start what would not end in time.
        char reason[SM_ROW_REASON_SIZE];
        const double limit_s = a->options->measure.timeout_s;
        const int64_t n_warmup = candidate->run.measure.warmup > 0 ? candidate->run.measure.warmup : 0;
        const double n_steps = (double)(candidate->run.measure.repetitions + n_warmup + N_OTHER_STEPS);
        const double run_s = n_steps * a->default_ns * 1e-9 * candidate->forecast.flops / a->default_flops;
        if (limit_s > 0 && candidate->is_forecast && run_s > limit_s) { // NaN: unknown
            snprintf(reason, sizeof(reason), "about %.0f s by the default's speed, and --timeout is %g s; not started",
                     run_s, limit_s);
            cli_candidate_skip(candidate, reason);
        }
    }
    a->n_timed += candidate->status[0] == '\0';
    return cli_sweep_measure(&a->sweep, c, candidate, row);
}

static sm_status run_trial(advice *a, const sm_trial *trial) {
    cli_candidate *candidate = a->sweep.candidate;
    cli_sweep_plan *plan = &a->sweep.plan;
    SM_TRY(trial->round > 0 ? cli_sweep_plan_repeat(plan, (int)trial->configuration, trial->round) : SM_OK);
    const cli_configuration *c = &plan->items[trial->round > 0 ? plan->n - 1 : trial->configuration];
    json_t *row = cli_sweep_known(&a->sweep, c->key);
    const bool is_known = row != NULL;
    SM_TRY(cli_candidate_look(&a->sweep.sweeper, c, candidate));
    if (!is_known && trial->round > 0 && strcmp(candidate->status, "oom") == 0) { // there may be very many: only
                                                                                  // counted
        a->n_too_large++;
        sm_advisor_take(a->advisor, SM_TRIAL_TOO_LARGE, NAN);
        return SM_OK;
    }
    SM_TRY(!is_known ? measure(a, c, &row) : SM_OK);
    const double speed = sm_advice_speed(row);
    if (trial->configuration == 0 && isfinite(speed) && candidate->is_forecast) {
        a->default_ns = sm_json_number(row, "median_ns");
        a->default_flops = candidate->forecast.flops;
    }
    size_t at = 0;
    while (at < a->n_tried && a->tried[at].configuration != trial->configuration) {
        at++;
    }
    if (at == a->n_tried) {
        SM_PUSH(a->tried, a->n_tried, (tried){trial->configuration, json_array()});
    }
    while (json_array_size(a->tried[at].rows) < (size_t)trial->round) {
        json_array_append_new(a->tried[at].rows, json_null());
    }
    json_array_append(a->tried[at].rows, row);
    a->n_runs += isfinite(speed);
    sm_advisor_take(a->advisor,
                    isfinite(speed)                    ? SM_TRIAL_MEASURED
                    : sm_rows_is(row, "status", "oom") ? SM_TRIAL_TOO_LARGE
                                                       : SM_TRIAL_FAILED,
                    speed);
    say_progress(a, trial, row, is_known);
    return SM_OK;
}

// --- what is said ------------------------------------------------------------------------------------------

static void print_winner(const char *what, const json_t *winner) {
    const char *changes = sm_rows_text(winner, "changes");
    printf("\n%s: %.2f (%.2f-%.2f) times the default's tokens/s%s%s\n\n    %s\n", what, sm_json_number(winner, "gain"),
           sm_json_number(winner, "gain_ci95_lo"), sm_json_number(winner, "gain_ci95_hi"),
           changes[0] != '\0' ? "; it changes the training: " : "", changes, sm_rows_text(winner, "command"));
}

// Below the table, for people.
static void conclude_in_words(const advice *a, const json_t *records) {
    const json_t *winner = NULL; // the search's choice, measured most often, if it is faster beyond doubt
    const json_t *same = NULL;   // the fastest that changes nothing in the training, likewise
    const json_t *doubted = NULL;
    char too_large[64] = "";
    SM_EACH(record, records) {
        const char *verdict = sm_rows_text(record, "verdict");
        const bool is_faster = strcmp(verdict, "faster") == 0;
        winner = is_faster && json_is_true(json_object_get(record, "advised")) ? record : winner;
        same = is_faster && same == NULL && !sm_rows_has(record, "changes") ? record : same;
        doubted = doubted == NULL && strcmp(verdict, "no verdict") == 0 ? record : doubted;
    }
    same = winner != NULL && !sm_rows_has(winner, "changes") ? winner : same;
    const int64_t n_left = a->n_configurations - (int64_t)a->n_tried - a->n_too_large;
    if (a->n_too_large > 0) {
        snprintf(too_large, sizeof(too_large), " %lld more do not fit by estimate.", (long long)a->n_too_large);
    }
    printf("\n%zu of %lld configurations were tried, in %d runs.%s", a->n_tried, (long long)a->n_configurations,
           a->n_runs, too_large);
    if (n_left > 0) {
        printf(" Nothing is known of the other %lld.", (long long)n_left);
    }
    puts(" The default has the first value of each list.");
    if (doubted != NULL) {
        printf("\nNo verdict on some: %s.\n", sm_rows_text(doubted, "reason"));
    }
    if (winner == NULL) {
        puts("\nNothing that was measured often is faster than the default beyond doubt.");
    } else {
        print_winner("The fastest that was measured", winner);
    }
    if (same != winner && same != NULL) {
        print_winner("The fastest that trains the same", same);
    } else if (same == NULL) {
        puts("\nNo configuration that trains the same is faster than the default beyond doubt.");
    }
}

static sm_status run_and_print(advice *a) {
    sm_trial trial;
    sm_status ended = SM_OK;
    a->begin_ns = sm_now_ns();
    while (ended == SM_OK && sm_advisor_next(a->advisor, &trial)) {
        ended = run_trial(a, &trial);
    }
    if (ended != SM_OK && ended != SM_ERR_INTERRUPTED) {
        return ended;
    }
    if (ended == SM_ERR_INTERRUPTED && a->sweep.file.log != NULL) {
        cli_note("the measured rows are in %s; the same command with --resume continues", a->options->out.output_file);
    }
    if (a->n_tried > 0) { // not interrupted before the first run was complete
        const sm_format format = a->options->out.format;
        SM_FREED sm_advice_case *cases = sm_calloc(a->n_tried + 1, sizeof(*cases));
        for (size_t i = 0; i < a->n_tried; i++) {
            const int64_t configuration = a->tried[i].configuration;
            const cli_configuration *c = &a->sweep.plan.items[configuration];
            SM_FREED char *line = sm_shell_line(c->args, c->n_args);
            cases[i] = (sm_advice_case){flags_of(&a->sweep.plan, &a->axes, configuration),
                                        changes_of(&a->sweep.plan, &a->axes, configuration),
                                        sm_text_of("stepmark %s", line), // that measures it
                                        a->tried[i].rows, configuration == sm_advisor_best(a->advisor)};
        }
        SM_OWN(json_t) *records = sm_advice(cases, a->n_tried);
        for (size_t i = 0; i < a->n_tried; i++) {
            free((char *)cases[i].flags);
            free((char *)cases[i].changes);
            free((char *)cases[i].command);
        }
        SM_TRY(sm_record_write_all(&sm_advice_table, format, stdout, records));
        if (sm_format_is_read(format)) {
            conclude_in_words(a, records);
        }
    }
    SM_FAIL_IF(ended == SM_OK && sm_advisor_best(a->advisor) < 0, SM_ERR_UNSUPPORTED,
               "nothing could be measured; the default: %s",
               sm_rows_text(json_array_get(a->tried[0].rows, 0), "reason"));
    return ended;
}

static void release(advice *a) {
    for (size_t i = 0; i < a->n_tried; i++) {
        json_decref(a->tried[i].rows);
    }
    free(a->tried);
    sm_advisor_close(a->advisor);
    cli_sweep_close(&a->sweep);
}

sm_status cli_advise(const cli_options *given) {
    static cli_options options; // static because of its lists
    char threads[64] = "";
    options = *given;
    SM_TRY(complete(&options.sweep.axes, threads, sizeof(threads)));
    SM_AT_END(release) advice a = {.options = &options, .default_ns = NAN};
    SM_TRY(cli_sweep_open(&options, &a.sweep));
    a.n_configurations = a.sweep.plan.n;
    SM_TRY(find_axes(&a.sweep.plan, &a.axes));
    a.advisor = sm_advisor_open(&a.axes.choices, (int)options.compare.pairs);
    if (!options.sweep.dry_run) {
        return run_and_print(&a);
    }
    // --dry-run lists round 0; later rounds depend on measurements.
    sm_trial trial;
    int n = 0;
    const int n_most = sm_advisor_most_left(a.advisor);
    SM_AT_END(cli_sweep_plan_free) cli_sweep_plan all = a.sweep.plan;
    a.sweep.plan = (cli_sweep_plan){NULL, 0};
    while (sm_advisor_next(a.advisor, &trial) && trial.round == 0) {
        cli_configuration *c = NULL;
        SM_TRY(cli_sweep_plan_copy(&a.sweep.plan, &all.items[trial.configuration], &c));
        cli_configuration_set_key(c, "");
        sm_advisor_take(a.advisor, SM_TRIAL_MEASURED, 1);
        n++;
    }
    SM_TRY(cli_sweep_dry_run(&a.sweep));
    cli_note(
        "of %lld configurations these %d are tried first, or next to a faster one found by then; at most about %d runs",
        (long long)a.n_configurations, n, n_most);
    return SM_OK;
}
