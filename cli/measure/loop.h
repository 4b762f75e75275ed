// loop.h: a training loop that is measured.
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

// What a training loop has that a measured step has not: data that a loader reads, a log, and somebody who looks how
// busy the machine is.

typedef struct {
    cli_options options; // with the files of a folder set
    cli_train_data data;
    sm_train_settings settings;
    sm_load_share share;
    sm_loader *loader;
    sm_train_log *log;
    sm_loop *loop;
    sm_utilisation *utilisation;
} cli_loop_steps;

// As a row says it: "inline", "threads:2".
enum { CLI_LOADER_NAME_SIZE = 32 };
void cli_loader_name(const sm_loader_settings *loader, char name[CLI_LOADER_NAME_SIZE]);

// Is that what the options ask for?
bool cli_is_loop(const cli_options *options);

// Attribution steps for as many samples: enough for an interval.
int cli_loop_attribution(const cli_options *options);

// Opens what a row is measured with: the batches of the checks, and, for a loop (else NULL), all that it reads, and its
// log.
sm_status cli_open_data(const cli_options *options, const cli_job *job, cli_loop_steps *loop, cli_workload *w);

// Opens the rest for a session; `checks` are those of the first steps.
sm_status cli_loop_steps_start(cli_loop_steps *steps, sm_session *session, const sm_workload *checks,
                               const sm_row *row);
void cli_loop_steps_enter(cli_loop_steps *steps, sm_stage stage); // NULL is fine
sm_status cli_loop_steps_report(cli_loop_steps *steps, sm_row *row);
void cli_loop_steps_close(cli_loop_steps *steps); // one that is all zero is fine

// --- what a person sees of it --------------------------------------------------------------------

// Its phases, its speed and what bounds it, on stdout; `baseline` is the row of an earlier one, or NULL.
sm_status cli_loop_show(const sm_row *row, const json_t *baseline, sm_format format);

#endif
