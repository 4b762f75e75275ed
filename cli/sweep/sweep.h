// sweep.h: sweeps: configurations that become rows, and those that `advise` chooses.
#pragma once

#include "cli/measure/measure.h"

// --- a configuration -----------------------------------------------------------------------------

// Arguments of `run` for one row, "--batch-size=4", in the order of the table of flags.
typedef struct {
    char *key;   // the flags as text, "model-size=tiny batch-size=4 round=2": a unique key
    char **args; // `run`, then the flags; ends with NULL
    int n_args;
    bool is_search; // for the largest batch
    int64_t place;  // position in the requested order, in which tables are printed; a search has that of its
                    // configuration
} cli_configuration;

typedef struct {
    cli_configuration *items;
    int n;
} cli_sweep_plan;

enum { CLI_MAX_CONFIGURATIONS = 100000 };

void cli_sweep_plan_free(cli_sweep_plan *plan);

// Appends a copy without a key; one with another B and T, for a search; or configuration `index` again, for round 1 or
// later. Keys end with what these are. `of` may be of the same plan.
sm_status cli_sweep_plan_copy(cli_sweep_plan *plan, const cli_configuration *of, cli_configuration **copy);
sm_status cli_sweep_plan_derive(cli_sweep_plan *plan, const cli_configuration *of, int64_t B, int64_t T);
sm_status cli_sweep_plan_repeat(cli_sweep_plan *plan, int index, int64_t round);

// Sets the key from the arguments; `mark` is its last word, unless "".
void cli_configuration_set_key(cli_configuration *c, const char *mark);

// Replaces a flag's argument by "--batch-size=4", or adds it; its key stays. Takes the text over.
void cli_configuration_set(cli_configuration *c, char *argument);

// All configurations, filtered and in the order of running. A line of flags with lists is a Cartesian product; a sweep
// is one line (the command line) or all lines of a preset or a file. A flag on the command line replaces that flag in
// every line. SM_ERR_USAGE for bad values, unknown presets and lines; SM_ERR_IO for a file that cannot be read.
sm_status cli_sweep_plan_make(const cli_options *options, cli_sweep_plan *plan);
cli_order cli_sweep_order(const cli_options *options); // within a round

// --- a configuration becomes a row ---------------------------------------------------------------

// A configuration is examined, then measured in a process of its own; it always becomes a row. The process that
// examines them loads no driver (cli_load_no_drivers), and outlives all of theirs.

// B and T that --fit chose for a model and a device.
typedef struct {
    char place[2 * SM_TEXT_SIZE];
    int64_t B, T;
} cli_fitted;

// Shared memory in which measuring processes leave facts for later ones.
typedef struct {
    cli_bench bench; // with ceilings
    cli_fitted fitted[CLI_MAX_PEAKS];
    int n_fitted;
} cli_handed_on;

// State that all configurations share.
typedef struct {
    const cli_options *options; // of the run
    json_t *machine;            // facts; owned by the caller
    int64_t memory_limit_bytes; // of each process
    cli_handed_on *handed_on;
    bool fits_naive; // --fit chooses for mode naive, which needs the most memory
} cli_sweeper;

// Facts of the machine, the memory limit, and what is handed on. Close it also after a failure.
sm_status cli_sweeper_open(const cli_options *options, cli_sweeper *s);
void cli_sweeper_close(cli_sweeper *s);

// The facts of a configuration before it runs.
typedef struct {
    cli_options run; // its flags, and those of the run that hold for all
    cli_job job;     // B and T are 0 if --fit will choose them
    sm_device_info info;
    int64_t limit_bytes; // for the plan
    bool is_forecast;    // the two members below are known
    cli_forecast forecast;
    bool is_usage;   // it is skipped for a value that no device could run
    char status[16]; // "" if it will run; otherwise "skipped" or "oom", or the failure of its backend
    char reason[SM_ROW_REASON_SIZE];
} cli_candidate;

// SM_ERR_USAGE for values that `run` refuses; a combination without a meaning is `skipped`, a large one `oom`.
sm_status cli_candidate_look(const cli_sweeper *sweeper, const cli_configuration *c, cli_candidate *candidate);

// Asks the device whether it supports the plan, as a run does; `skipped` if not. Sizes chosen by --fit do not matter.
sm_status cli_candidate_ask(const cli_sweeper *sweeper, const cli_configuration *c, cli_candidate *candidate);

// In a process that was told to (os_told): asks, measures or lists for the process that told it. `options`: the same.
sm_status cli_do_as_told(const cli_options *options);

void cli_candidate_skip(cli_candidate *candidate, const char *reason); // it is not run

// Measures it, or not, and makes its row. SM_ERR_INTERRUPTED: it was interrupted, and may have a row of the samples so
// far. SM_ERR_USAGE: a flag has a value that the device refuses; there is no row.
sm_status cli_candidate_run(cli_sweeper *sweeper, const cli_configuration *c, cli_candidate *candidate, json_t **row);

// A sweep under way.
typedef struct {
    cli_sweeper sweeper;
    cli_sweep_plan plan;
    cli_candidate *candidate; // the current one; large
    json_t *kept;             // key -> row of this run
    cli_row_file file;        // of --output-file
    sm_row_writer *writer;    // NULL: nothing is written yet
    json_t *rows;             // written
    int n_total, n_finished, n_started;

    // For the estimate of the remaining time.
    double work_done, work_left, seconds;
} cli_sweep;

// Plans a sweep, and opens the file of its rows. Close it also after a failure.
sm_status cli_sweep_open(const cli_options *options, cli_sweep *s);
void cli_sweep_close(cli_sweep *s);

// Lists the configurations and their planned outcomes; runs nothing.
sm_status cli_sweep_dry_run(cli_sweep *s);

// After a preset of a course: the page and the LaTeX tables of all rows of --output-file, in files next to it.
sm_status cli_sweep_tables(const cli_options *options);

// The row of a configuration; NULL if it has none. Borrowed.
json_t *cli_sweep_known(const cli_sweep *s, const char *key);

// Runs a configuration and keeps its row, which the caller borrows.
sm_status cli_sweep_measure(cli_sweep *s, const cli_configuration *c, cli_candidate *candidate, json_t **row);
