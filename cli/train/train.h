// train.h: shared by the parts of a training and the subcommands about tokens.
#pragma once

#include "bench/curves/curves.h"
#include "bench/sensors/sensors.h"
#include "cli/measure/measure.h"
#include "src/train/generate.h"

// Sets what -m auto chooses, else the batch's defaults: choose.c. Rank 0 calls it first: it may write a text's tokens.
sm_status cli_train_choose(cli_options *options);

// A curve of any length in few points: when there is no more room, each is the mean of twice as many values.
typedef struct {
    struct {
        double step, value;
    } points[512];
    int n;
    int64_t n_each; // values of a point
    int64_t n_last; // of the last
} cli_train_curve;

// The display: on stdout a line for each step and validation; on stderr progress, warnings, and a line on the run at
// its beginning and end. On a terminal a run has a live screen in place of lines and progress.
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
    cli_train_curve loss, validation;
    double rate; // tokens/s, a moving mean
    sm_train_step last;
    bool is_unchecked; // --no-checks
    int64_t checked_ops;
    int64_t n_checked; // steps
} cli_train_show;

// Whether a live screen is possible: a terminal that is large enough, and no -q.
bool cli_train_screen_fits(void);

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

int cli_token_threads(const cli_options *options); // --threads, or one a core

// Learns a vocabulary of --vocab-size tokens from the operands. The caller frees it.
sm_status cli_learn_words(const cli_options *options, sm_tokenizer **tokenizer);

// For the library's callbacks.
bool cli_token_stop(void *ctx);
void cli_token_note(void *ctx, const char *line);
