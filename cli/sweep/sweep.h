// sweep.h: a sweep under way. sweep/sweep.c runs it, sweep/find_limits.c searches within it for the
// largest batch that fits.
#ifndef STEPMARK_CLI_SWEEP_SWEEP_H
#define STEPMARK_CLI_SWEEP_SWEEP_H

#include "bench/rows/sweep_log.h"
#include "cli/sweep/candidate.h"

typedef struct {
    cli_sweeper sweeper;
    cli_sweep_plan plan;
    cli_candidate *candidate; // the one at hand; large
    sm_sweep_log *log;        // NULL without --output-file:
    json_t *kept;             // then key -> row
    int n_total;
    int n_finished;
    int n_started;

    // For the time that is left.
    double work_done;
    double work_left;
    double seconds;
} cli_sweep;

// Plans a sweep, and opens the file of its rows. To be closed whatever comes of it.
sm_status cli_sweep_open(const cli_options *options, cli_sweep *s);
void cli_sweep_close(cli_sweep *s);

// Work of a configuration, for the time that is left: FLOPs of its steps and something more; 0 where it is not to run.
double cli_sweep_work(const cli_candidate *candidate);

// Lists the configurations and what would be done with each, and runs nothing.
sm_status cli_sweep_dry_run(cli_sweep *s);

// The row of a configuration that has one; NULL otherwise. Borrowed.
json_t *cli_sweep_known(const cli_sweep *s, const char *key);

// Runs a configuration and keeps its row, which the caller borrows.
sm_status cli_sweep_measure(cli_sweep *s, const cli_configuration *c, const cli_candidate *candidate, json_t **row);

// For configuration `index` of the plan, which has no batch size or does not fit: runs the largest
// batch that fits by estimate; where that does not run, smaller ones, until one does. Where not
// even one sequence fits, halves T. What was run is appended to the plan, and rows that are there
// already are believed. The row that ran says in sweep_note how its batch was found.
sm_status cli_sweep_find(cli_sweep *s, int index);

#endif
