// train.h: shared by the parts of a training and the subcommands about tokens.
#ifndef STEPMARK_CLI_TRAIN_TRAIN_H
#define STEPMARK_CLI_TRAIN_TRAIN_H

#include "bench/curves/curves.h"
#include "bench/sensors/sensors.h"
#include "cli/measure/measure.h"
#include "src/train/generate.h"

// --- facts ---------------------------------------------------------------------------------------

// The facts of run.json that the trainer does not know.

// {engine, model, n_threads, precision, recompute, dropout, loss_scale, shard, gradients, weights}: must agree when a
// run resumes, and between compared runs. The caller owns it.
json_t *cli_train_configuration(const cli_options *options, const cli_job *job, const sm_device *device);

// {processes, hosts [one for each process], environment, host, hardware, build, scheduler}. All processes must call it.
sm_status cli_train_facts(const cli_options *options, const sm_session *session, sm_comm *comm, json_t **facts);

// {max_memory_bytes: of the device's memory, else of this process; other_cpus, own_cpus, steal_share,
// involuntary_switches: since `before`, as in a row}.
json_t *cli_train_end_facts(const sm_session *session, const sm_sensors *sensors, const sm_reading *before);

// Sets what -m auto chooses, and else the batch's defaults: choose.c. Of several processes the first must be the first to
// call it, as it may write the tokens of a text.
sm_status cli_train_choose(cli_options *options);

// --- what a user sees ----------------------------------------------------------------------------

// On stdout a line for each step and validation; on stderr progress, warnings, and what the run is and has come to. A
// run on a terminal has a live screen in place of lines and progress.

// A curve of any length in few points: when there is no more room, each is the mean of twice as many values.
typedef struct {
    struct {
        double step;
        double value;
    } points[512];
    int n;
    int64_t n_each; // values of a point
    int64_t n_last; // of the last
} cli_train_curve;

typedef struct {
    cli_train_curve loss;
    cli_train_curve validation;
    double rate; // tokens/s, a moving mean
} cli_train_screen;

typedef struct {
    double step_flops;   // of all micro-batches and the update
    double peak_flops;   // FLOP/s; 0: unknown
    int form;            // how much of a step's line is omitted to fit the terminal
    bool tells_progress; // on stderr, occasionally
    int64_t every;       // prints each Nth step
    sm_run_watch watch;
    double n_tokens;  // of this process's steps
    int64_t first_ns; // begin of the first step, for the summary
    int64_t begin_ns; // end of the second step
    int64_t told_ns;  // of the last line on stderr
    bool is_live;
    cli_train_screen screen;
    sm_train_step last;
    bool is_unchecked; // --no-checks
    int64_t checked_ops;
    int64_t n_checked; // steps
} cli_train_show;

// Whether a live screen is possible: a terminal that is large enough, and no -q.
bool cli_train_screen_fits(void);

// Shows where the training is, unless that was shown just now; `at_once`: in any case.
void cli_train_screen_show(const cli_train_show *show, const sm_train_progress *progress, bool at_once);
void cli_train_curve_add(cli_train_curve *curve, double step, double value);

// Share of the peak in the last step; NaN: unknown. "0:01:30" until the last step; "": unknown.
double cli_train_mfu(const cli_train_show *show, const sm_train_step *step);
void cli_train_time_left(const cli_train_show *show, const sm_train_progress *progress, char *text, size_t size_bytes);

// SM_ERR_IO if stdout cannot be written.
sm_status cli_train_show_step(cli_train_show *show, const sm_train_progress *progress, const sm_train_step *step);
sm_status cli_train_show_validation(cli_train_show *show, const sm_train_progress *progress);

// The work and the recipe of a run that begins or resumes.
void cli_train_show_begin(cli_train_show *show, const sm_train_settings *settings, const sm_schedule *schedule);

// At the end of the steps, however they end: leaves the live screen as it is.
void cli_train_show_leave(const cli_train_show *show, const sm_train_progress *progress);

// The run's outcome, and the commands that come next.
void cli_train_show_end(const cli_train_show *show, const sm_train_settings *settings,
                        const sm_train_progress *progress);

// --- a profile -----------------------------------------------------------------------------------

// `train --profile`: every fourth step is instrumented, and at the end the phases are shown as in `loop`.

// `settings` and their session must outlive the loop.
void cli_train_profile_open(const sm_train_settings *settings, sm_loop **loop);

// The recorder of the next step; NULL: a step without instruments, such as the first two of a process.
sm_step_phases *cli_train_profile_next(sm_loop *loop, const sm_train_progress *progress);
void cli_train_profile_keep(sm_loop *loop, const sm_train_progress *progress, const sm_train_step *step,
                            const sm_step_phases *phases);

// On stdout. Too few steps are a note.
sm_status cli_train_profile_show(const cli_options *options, const cli_job *job, const sm_session *session,
                                 const sm_peaks *peaks, const sm_loop *loop);

// --- samples and the tokenizer -------------------------------------------------------------------

// Continues --prompt by the weights of a session in training. A zeroed one is closed.
typedef struct {
    const cli_options *options;
    sm_tokenizer *tokenizer; // NULL: an id is a byte
    sm_generator *generator;
    sm_ids prompt;
} cli_train_sampler;

sm_status cli_train_sampler_open(const cli_options *options, const cli_job *job, const char *tokenizer,
                                 sm_device *device, cli_train_sampler *sampler);

// Prints a line, too. The caller frees *text.
sm_status cli_train_sampler_run(cli_train_sampler *sampler, sm_session *trained, char **text);
void cli_train_sampler_close(cli_train_sampler *sampler);

// Copies the tokenizer into RUN/NAME. `tokenizer` NULL: does nothing.
sm_status cli_train_keep_tokenizer(const char *tokenizer, const char *run, const char *name);

// --- the end of a run ----------------------------------------------------------------------------

// Writes training_metrics.json from run.json and log.jsonl, and then RUN_COMPLETE.txt, which marks a complete run. Each
// gets its name only when it is complete.
sm_status cli_run_complete(const char *folder);

// --- tokens --------------------------------------------------------------------------------------

// --threads, or one a core.
int cli_token_threads(const cli_options *options);

// Learns a vocabulary of --vocab-size tokens from the operands. The caller frees it.
sm_status cli_learn_words(const cli_options *options, sm_tokenizer **tokenizer);

// For the library's callbacks; ctx is cli_token_progress.
typedef struct {
    const char *what;     // "learned"
    const char *unit;     // "tokens"
    bool is_wanted;       // --progress
    int64_t last_note_ns; // at most one a second
} cli_token_progress;

bool cli_token_stop(void *ctx);
void cli_token_note(void *ctx, const char *line);

#endif
