// configuration.c: see sweep/sweep.h.
#include "cli/sweep/sweep.h"

#include <stdlib.h>
#include <string.h>

sm_status cli_configuration_no_memory(void) { return sm_fail(SM_ERR_OOM, "sweep: no memory for its configurations"); }

void cli_configuration_free(cli_configuration *c) {
    for (int i = 0; i < c->n_args; i++) {
        free(c->args[i]);
    }
    free(c->args);
    free(c->key);
}

void cli_sweep_plan_free(cli_sweep_plan *plan) {
    for (int i = 0; i < plan->n; i++) {
        cli_configuration_free(&plan->items[i]);
    }
    free(plan->items);
    *plan = (cli_sweep_plan){NULL, 0};
}

// Appends an empty configuration of n_args arguments.
sm_status cli_sweep_plan_add(cli_sweep_plan *plan, int n_args, cli_configuration **added) {
    if (plan->n >= CLI_MAX_CONFIGURATIONS) {
        return sm_fail(SM_ERR_USAGE, "sweep: more than %d configurations; shorten a list", CLI_MAX_CONFIGURATIONS);
    }
    const bool is_full = (plan->n & (plan->n - 1)) == 0; // at 0 and each power of two: there is room up to the next
    const size_t room = plan->n > 0 ? 2 * (size_t)plan->n : 1;
    cli_configuration *items = is_full ? realloc(plan->items, room * sizeof(*items)) : plan->items;
    char **args = calloc((size_t)n_args + 1, sizeof(*args));
    plan->items = items != NULL ? items : plan->items;
    if (items == NULL || args == NULL) {
        free(args);
        return cli_configuration_no_memory();
    }
    *added = &items[plan->n++];
    **added = (cli_configuration){.args = args, .n_args = n_args};
    return SM_OK;
}

// Makes the key: the arguments without their dashes.
sm_status cli_configuration_set_key(cli_configuration *c, const char *mark) {
    size_t size = strlen(mark) + 2;
    for (int i = 1; i < c->n_args; i++) {
        size += strlen(c->args[i]) + 1;
    }
    char *key = malloc(size);
    if (key == NULL) {
        return cli_configuration_no_memory();
    }
    size_t used = 0;
    key[0] = '\0';
    for (int i = 1; i < c->n_args; i++) {
        used += (size_t)snprintf(key + used, size - used, "%s%s", used > 0 ? " " : "", c->args[i] + 2);
    }
    snprintf(key + used, size - used, "%s%s", mark[0] != '\0' ? " " : "", mark);
    free(c->key);
    c->key = key;
    return SM_OK;
}

sm_status cli_configuration_copy_args(const cli_configuration *from, cli_configuration *to) {
    for (int i = 0; i < from->n_args; i++) {
        to->args[i] = strdup(from->args[i]);
        if (to->args[i] == NULL) {
            return cli_configuration_no_memory();
        }
    }
    return SM_OK;
}

// Replaces a flag's argument, or adds it.
static sm_status set_arg(cli_configuration *c, const char *flag, int64_t value) {
    char prefix[CLI_TEXT_SIZE];
    int at = 1;
    int n = snprintf(prefix, sizeof(prefix), "--%s=", flag);
    while (at < c->n_args && strncmp(c->args[at], prefix, (size_t)n) != 0) {
        at++;
    }
    if (at == c->n_args) {
        char **args = realloc(c->args, ((size_t)at + 2) * sizeof(*args));
        if (args == NULL) {
            return cli_configuration_no_memory();
        }
        c->args = args;
        args[at] = NULL;
        args[at + 1] = NULL;
        c->n_args++;
    }
    free(c->args[at]);
    if (asprintf(&c->args[at], "%s%lld", prefix, (long long)value) < 0) {
        c->args[at] = NULL;
        return cli_configuration_no_memory();
    }
    return SM_OK;
}

sm_status cli_sweep_plan_repeat(cli_sweep_plan *plan, int index, int64_t round) {
    char mark[32];
    cli_configuration *c = NULL;
    SM_TRY(cli_sweep_plan_add(plan, plan->items[index].n_args, &c)); // the array may have moved
    SM_TRY(cli_configuration_copy_args(&plan->items[index], c));
    c->place = plan->items[index].place + round;
    snprintf(mark, sizeof(mark), "round=%lld", (long long)round + 1);
    return cli_configuration_set_key(c, mark);
}

sm_status cli_sweep_plan_derive(cli_sweep_plan *plan, const cli_configuration *of, int64_t B, int64_t T) {
    const cli_configuration original = *of; // `of` may be in the array that grows
    cli_configuration *c = NULL;
    SM_TRY(cli_sweep_plan_add(plan, original.n_args, &c));
    SM_TRY(cli_configuration_copy_args(&original, c));
    SM_TRY(set_arg(c, "batch-size", B));
    SM_TRY(set_arg(c, "seq-len", T));
    c->is_search = true;
    c->place = original.place;
    return cli_configuration_set_key(c, "largest");
}
