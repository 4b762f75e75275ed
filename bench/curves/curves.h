// curves.h: trainings as curves: what their logs hold over steps, tokens and time, complete or still running.
#pragma once

#include "bench/runs/runs.h"

typedef struct {
    char *name;  // the folder's; with its path if another has the same
    json_t *run; // run.json; NULL: a log alone
    sm_training_log log;
    double *tokens; // after each step, of this run
    double *time_s; // likewise: steps, validations and checkpoints so far
} sm_curve;

typedef struct {
    sm_curve *curves;
    size_t n;
} sm_curves;

// Whether it is the folder of a training (it has run.json or log.jsonl), or a log of `train --log`.
bool sm_curves_is_training(const char *path);

// Reads run folders and logs. A failure names the file.
sm_status sm_curves_read(char *const *paths, int n, sm_curves *curves);
void sm_curves_free(sm_curves *curves);

// A line a step: run, step, tokens, time_s, loss, grad_norm, lr, tokens_per_s, validation_loss.
sm_status sm_curves_csv(const sm_curves *curves, FILE *out);

// Statements about all: a sentence (a JSON text), warnings (an array of texts), a record each.
extern const sm_table sm_curves_table;
json_t *sm_curves_answer(const sm_curves *curves);
json_t *sm_curves_warnings(const sm_curves *curves);
json_t *sm_curves_records(const sm_curves *curves);

// A page of all: curves laid over each other, the table, samples, warnings. `how` as for sm_page_write().
sm_status sm_curves_page(const sm_curves *curves, unsigned how, FILE *out);

// --- while it trains ------------------------------------------------------------------------------

// Watches a training for what a person would otherwise find too late: a validation loss that rises, a gradient
// norm that jumps, a loss that stays flat.

enum { SM_WATCH_WINDOW = 20, SM_WATCH_TEXT_SIZE = 256 };

// A zeroed one has seen nothing.
typedef struct {
    int64_t n_steps;                // seen
    double first_loss_sum;          // of the first window
    double losses[SM_WATCH_WINDOW]; // of the last
    double log_norm;                // exponential mean of the norm's logarithm
    int64_t jump_step;              // of the last warning
    bool is_flat_told;

    int64_t n_validations;
    double best_loss;
    int64_t best_step;
    bool is_rise_told; // since the best
} sm_run_watch;

// Each returns whether there is something to say, in `text`. A skipped step has no finite norm.
bool sm_run_watch_step(sm_run_watch *watch, int64_t step, double loss, double norm, char text[SM_WATCH_TEXT_SIZE]);
bool sm_run_watch_validation(sm_run_watch *watch, int64_t step, double loss, char text[SM_WATCH_TEXT_SIZE]);
