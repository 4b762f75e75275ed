// loop.h: measures a training loop.
#ifndef STEPMARK_CLI_MEASURE_LOOP_H
#define STEPMARK_CLI_MEASURE_LOOP_H

#include "bench/loop/loop.h"
#include "bench/profile/utilisation.h"
#include "bench/rows/row.h"
#include "cli/measure/measure.h"
#include "cli/setup/data.h"
#include "cli/setup/workload.h"
#include "src/train/train_log.h"

// --- its steps -----------------------------------------------------------------------------------

// The parts of a training loop that a measured step does not have: data read by a loader, a log, and the machine's
// activity.

typedef struct {
    cli_options options; // with the files of a data folder filled in
    cli_train_data data;
    sm_train_settings settings;
    sm_load_share share;
    sm_loader *loader;
    sm_train_log *log;
    sm_loop *loop;
    sm_utilisation *utilisation;
} cli_loop_steps;

// As in a row: "inline", "threads:2".
enum { CLI_LOADER_NAME_SIZE = 32 };
void cli_loader_name(const sm_loader_settings *loader, char name[CLI_LOADER_NAME_SIZE]);

// Whether the options ask for a loop.
bool cli_is_loop(const cli_options *options);

// Number of attribution steps for that many samples: enough for an interval.
int cli_loop_attribution(const cli_options *options);

// Opens the data of a row's measurement: the batches of the checks, and, for a loop (otherwise NULL), all that it
// reads, and its log.
sm_status cli_open_data(const cli_options *options, const cli_job *job, cli_loop_steps *loop, cli_workload *w);

// Opens the rest for a session; `checks` are those of the first steps.
sm_status cli_loop_steps_start(cli_loop_steps *steps, sm_session *session, const sm_workload *checks,
                               const sm_row *row);
void cli_loop_steps_enter(cli_loop_steps *steps, sm_stage stage); // NULL is fine
sm_status cli_loop_steps_report(cli_loop_steps *steps, sm_row *row);
void cli_loop_steps_close(cli_loop_steps *steps); // an all-zero one is fine

// --- what a person sees of it --------------------------------------------------------------------

// Prints its phases, speed and bottleneck on stdout; `baseline` is the row of an earlier loop, or NULL.
sm_status cli_loop_show(const sm_row *row, const json_t *baseline, sm_format format);

#endif
