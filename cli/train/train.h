// train.h: the parts of a training, and shared by the subcommands about tokens.
#ifndef STEPMARK_CLI_TRAIN_TRAIN_H
#define STEPMARK_CLI_TRAIN_TRAIN_H

#include "status.h"
#include "bench/loop/loop.h"
#include "bench/sensors/sensors.h"
#include "cli/flags/options.h"
#include "cli/measure/measure.h"
#include "src/comm/comm.h"
#include "src/train/trainer.h"

// --- facts ---------------------------------------------------------------------------------------

// What run.json says of a training beyond what the trainer knows.

// {engine, model, n_threads, precision, recompute, dropout, loss_scale, shard, gradients, weights}: what must agree
// where a run goes on, and between runs that are compared. The caller owns it; NULL: no memory.
json_t *cli_train_configuration(const cli_options *options, const cli_job *job, const sm_device *device);

// {processes, hosts [one a process], environment, host, hardware, build, scheduler}: what all processes call together.
sm_status cli_train_facts(const cli_options *options, const sm_device *device, sm_comm *comm, json_t **facts);

// {max_memory_bytes: of the device's memory, else of this process; other_cpus, own_cpus, steal_share,
// involuntary_switches: since `before`, as a row has them}. NULL: no memory.
json_t *cli_train_end_facts(const sm_session *session, const sm_sensors *sensors, const sm_reading *before);

// The command line as one text. The caller frees it; NULL: no memory.
char *cli_command_line(const cli_options *options);

// --- what a user sees ----------------------------------------------------------------------------

// A line a step on stdout, and where it is in time on stderr.

typedef struct {
    double step_flops;   // of all micro-batches and the update
    double peak_flops;   // FLOP/s; 0: unknown
    int form;            // of a step's line: how much is left out, so that it fits the terminal
    bool tells_progress; // on stderr, every now and then
    int64_t begin_ns;    // of what is behind the second step
    int64_t told_ns;     // of the last line on stderr
} cli_train_show;

// SM_ERR_IO where stdout cannot be written.
sm_status cli_train_show_step(cli_train_show *show, const sm_train_progress *progress, const sm_train_step *step);

// --- a profile -----------------------------------------------------------------------------------

// `train --profile`: every fourth step is instrumented, and at the end a training's phases are shown as `loop` shows
// them.

// `settings` and their session outlive the loop.
sm_status cli_train_profile_open(const sm_train_settings *settings, sm_loop **loop);

// The recorder of the next step; NULL: it is not timed apart. The first two steps of a process are of no use.
sm_step_phases *cli_train_profile_next(sm_loop *loop, const sm_train_progress *progress);
sm_status cli_train_profile_keep(sm_loop *loop, const sm_train_progress *progress, const sm_train_step *step,
                                 const sm_step_phases *phases);

// On stdout. Too few steps are a note.
sm_status cli_train_profile_show(const cli_options *options, const cli_job *job, const sm_session *session,
                                 const sm_peaks *peaks, const sm_loop *loop);

// --- the end of a run ----------------------------------------------------------------------------

// Writes training_metrics.json from run.json and log.jsonl, and then RUN_COMPLETE.txt: where that is, the run is whole.
// Each appears under its name only when it is complete.
sm_status cli_run_complete(const char *folder);

// --- tokens --------------------------------------------------------------------------------------

// --threads, or one a core.
int cli_token_threads(const cli_options *options);

// For the library's callbacks; ctx is cli_token_progress.
typedef struct {
    const char *what;     // "learned"
    const char *unit;     // "tokens"
    bool is_wanted;       // --progress
    int64_t last_note_ns; // at most one a second
} cli_token_progress;

bool cli_token_stop(void *ctx);
void cli_token_progress_note(void *ctx, int64_t done, int64_t of);

#endif
