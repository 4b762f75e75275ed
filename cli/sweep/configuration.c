// configuration.c: see sweep/sweep.h.
#include "cli/sweep/sweep.h"

#include <stdlib.h>
#include <string.h>

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
    if ((plan->n & (plan->n - 1)) == 0) { // at 0 and each power of two: there is room up to the next
        plan->items = sm_realloc(plan->items, (plan->n > 0 ? 2 * (size_t)plan->n : 1) * sizeof(*plan->items));
    }
    *added = &plan->items[plan->n++];
    **added = (cli_configuration){.args = sm_calloc((size_t)n_args + 1, sizeof(char *)), .n_args = n_args};
    return SM_OK;
}

// Makes the key: the arguments without their dashes.
void cli_configuration_set_key(cli_configuration *c, const char *mark) {
    size_t size = strlen(mark) + 2;
    for (int i = 1; i < c->n_args; i++) {
        size += strlen(c->args[i]) + 1;
    }
    char *key = sm_malloc(size);
    size_t used = 0;
    key[0] = '\0';
    for (int i = 1; i < c->n_args; i++) {
        used += (size_t)snprintf(key + used, size - used, "%s%s", used > 0 ? " " : "", c->args[i] + 2);
    }
    snprintf(key + used, size - used, "%s%s", mark[0] != '\0' ? " " : "", mark);
    free(c->key);
    c->key = key;
}

void cli_configuration_copy_args(const cli_configuration *from, cli_configuration *to) {
    for (int i = 0; i < from->n_args; i++) {
        to->args[i] = sm_strdup(from->args[i]);
    }
}

// Replaces a flag's argument, or adds it.
static void set_arg(cli_configuration *c, const char *flag, int64_t value) {
    char prefix[CLI_TEXT_SIZE];
    int at = 1;
    int n = snprintf(prefix, sizeof(prefix), "--%s=", flag);
    while (at < c->n_args && strncmp(c->args[at], prefix, (size_t)n) != 0) {
        at++;
    }
    if (at == c->n_args) {
        c->args = sm_realloc(c->args, ((size_t)at + 2) * sizeof(*c->args));
        c->args[at] = NULL;
        c->args[at + 1] = NULL;
        c->n_args++;
    }
    free(c->args[at]);
    c->args[at] = sm_text_of("%s%lld", prefix, (long long)value);
}

sm_status cli_sweep_plan_repeat(cli_sweep_plan *plan, int index, int64_t round) {
    char mark[32];
    cli_configuration *c = NULL;
    SM_TRY(cli_sweep_plan_add(plan, plan->items[index].n_args, &c)); // the array may have moved
    cli_configuration_copy_args(&plan->items[index], c);
    c->place = plan->items[index].place + round;
    snprintf(mark, sizeof(mark), "round=%lld", (long long)round + 1);
    cli_configuration_set_key(c, mark);
    return SM_OK;
}

sm_status cli_sweep_plan_derive(cli_sweep_plan *plan, const cli_configuration *of, int64_t B, int64_t T) {
    const cli_configuration original = *of; // `of` may be in the array that grows
    cli_configuration *c = NULL;
    SM_TRY(cli_sweep_plan_add(plan, original.n_args, &c));
    cli_configuration_copy_args(&original, c);
    set_arg(c, "batch-size", B);
    set_arg(c, "seq-len", T);
    c->is_search = true;
    c->place = original.place;
    cli_configuration_set_key(c, "largest");
    return SM_OK;
}
