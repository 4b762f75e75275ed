// advise_axes.c: see sweep/sweep.h.
#include "cli/sweep/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "cli/flags/flag.h"
#include "cli/measure/run.h"
#include "src/io/shell_word.h"

// Length of the flag's name in "--name=value", without its dashes.
static size_t name_length(const char *arg) { return strcspn(arg + 2, "="); }

// --- axes ----------------------------------------------------------------------------------------

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

static sm_status add_axis(const cli_sweep_plan *plan, int arg, int n_levels, cli_advise_axes *axes) {
    const char *text = plan->items[0].args[arg];
    const int n = axes->choices.n_axes;
    if (cli_choosable_find(text + 2, name_length(text)) < 0) {
        return sm_fail(SM_ERR_USAGE, "%.*s: give one value: rows with different values do not do the same work",
                       (int)name_length(text) + 2, text);
    }
    if (n_levels == 0 || n == SM_ADVISOR_MAX_AXES) {
        return sm_fail(SM_ERR_USAGE, "%.*s: too much to choose between; shorten a list", (int)name_length(text) + 2,
                       text);
    }
    axes->args[n] = arg;
    axes->choices.n_levels[n] = n_levels;
    axes->choices.n_axes++;
    return SM_OK;
}

static int rank_of(const cli_sweep_plan *plan, const cli_advise_axes *axes, int axis) {
    const char *text = plan->items[0].args[axes->args[axis]];
    return cli_choosable_find(text + 2, name_length(text));
}

static void order_axes(const cli_sweep_plan *plan, cli_advise_axes *axes) {
    for (int axis = 0; axis < axes->choices.n_axes; axis++) {
        int place = 0;
        for (int other = 0; other < axes->choices.n_axes; other++) {
            place += rank_of(plan, axes, other) < rank_of(plan, axes, axis);
        }
        axes->choices.order[place] = axis;
    }
}

sm_status cli_advise_axes_find(const cli_sweep_plan *plan, cli_advise_axes *axes) {
    *axes = (cli_advise_axes){.choices = {.n_axes = 0}};
    for (int arg = 1; arg < plan->items[0].n_args; arg++) {
        const int n_levels = count_levels(plan, arg);
        if (n_levels != 1) {
            SM_TRY(add_axis(plan, arg, n_levels, axes));
        }
    }
    order_axes(plan, axes);
    if (sm_choices_count(&axes->choices) != plan->n) {
        return sm_fail(SM_ERR_INTERNAL, "advise: %d configurations are no product of %d lists", plan->n,
                       axes->choices.n_axes);
    }
    return SM_OK;
}

// --- words of a configuration ------------------------------------------------------------------------

char *cli_advise_flags(const cli_sweep_plan *plan, const cli_advise_axes *axes, int64_t configuration) {
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

char *cli_advise_changes(const cli_sweep_plan *plan, const cli_advise_axes *axes, int64_t configuration) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = sm_memstream(&text, &size);
    if (sequences_of(&plan->items[configuration]) != sequences_of(&plan->items[0])) {
        fputs("batch", out);
    }
    for (int axis = 0; axis < axes->choices.n_axes; axis++) {
        const char *changes = cli_choosable_at(rank_of(plan, axes, axis))->changes;
        const bool is_changed = sm_choices_level(&axes->choices, configuration, axis) != 0;
        if (is_changed && changes != NULL && strcmp(changes, "batch") != 0) {
            fprintf(out, "%s%s", ftell(out) > 0 ? ", " : "", changes);
        }
    }
    sm_memstream_close(out);
    return text;
}

char *cli_advise_command(const cli_sweep_plan *plan, int64_t configuration) {
    const cli_configuration *c = &plan->items[configuration];
    char *flags = sm_shell_line(c->args, c->n_args);
    char *line = sm_text_of("stepmark %s", flags);
    free(flags);
    return line;
}
