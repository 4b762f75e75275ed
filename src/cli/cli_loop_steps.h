// cli_loop_steps.h: what a training loop has that a measured step has not: a loader, a log, and somebody who looks how
// busy the machine is.
#ifndef STEPMARK_CLI_LOOP_STEPS_H
#define STEPMARK_CLI_LOOP_STEPS_H

#include "cli_measure.h"
#include "loop.h"
#include "train_log.h"
#include "utilisation.h"

typedef struct {
    sm_tokens *tokens;
    sm_data_order order;
    sm_train_data *data;
    sm_train_log *log;
    sm_loop *loop;
    sm_utilisation *utilisation;
    int n_attribution;
} cli_loop_steps;

// Is that what the options ask for?
bool cli_is_loop(const cli_options *options);

// Attribution steps for as many samples: enough for an interval.
int cli_loop_attribution(const cli_options *options);

// Opens all of it for a session; `checks` are those of the first steps. `background`: where its threads may run.
sm_status cli_loop_steps_open(const cli_options *options, const cli_job *job, sm_session *session,
                              const sm_background *background, const sm_workload *checks, const sm_row *row,
                              cli_loop_steps *steps);
void cli_loop_steps_enter(cli_loop_steps *steps, sm_stage stage); // NULL is fine
sm_status cli_loop_steps_report(cli_loop_steps *steps, sm_row *row);
void cli_loop_steps_close(cli_loop_steps *steps); // one that is all zero is fine

#endif
