// configuration.h: one configuration of a sweep, as arguments, and lists of them.
#ifndef STEPMARK_CLI_SWEEP_CONFIGURATION_H
#define STEPMARK_CLI_SWEEP_CONFIGURATION_H

#include "cli/flags/options.h"

// Arguments of `run` for one row, "--batch-size=4", in the order of the table of flags.
typedef struct {
    char *key;   // the flags in words, "model-size=tiny batch-size=4 round=2": no two are equal
    char **args; // `run`, then the flags; ends with NULL
    int n_args;
    bool is_search; // for the largest batch
    int64_t place;  // in the order asked for, in which tables are printed; a search has that of what it is for
} cli_configuration;

typedef struct {
    cli_configuration *items;
    int n;
} cli_sweep_plan;

enum { CLI_MAX_CONFIGURATIONS = 100000 };

void cli_sweep_plan_free(cli_sweep_plan *plan);

// Appends a configuration with room for n_args arguments, all NULL, to be filled in.
sm_status cli_sweep_plan_add(cli_sweep_plan *plan, int n_args, cli_configuration **added);

// Appends a copy of `of` with another B and T, for a search; its key says so at the end.
sm_status cli_sweep_plan_derive(cli_sweep_plan *plan, const cli_configuration *of, int64_t B, int64_t T);

// Appends configuration `index` once more, for a round from 1 on; its key says which.
sm_status cli_sweep_plan_repeat(cli_sweep_plan *plan, int index, int64_t round);

// Sets the key from the arguments; `mark`, unless "", is its last word.
sm_status cli_configuration_set_key(cli_configuration *c, const char *mark);

// Fills the arguments of one that was just added with copies.
sm_status cli_configuration_copy_args(const cli_configuration *from, cli_configuration *to);

void cli_configuration_free(cli_configuration *c); // what it owns
sm_status cli_configuration_no_memory(void);       // the failure

#endif
