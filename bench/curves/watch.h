// watch.h: watches a training for what a person would otherwise find too late: a validation loss that rises, a gradient
// norm that jumps, a loss that stays flat.
#ifndef STEPMARK_BENCH_CURVES_WATCH_H
#define STEPMARK_BENCH_CURVES_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
