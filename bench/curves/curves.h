// curves.h: trainings as curves: what their logs hold over steps, tokens and time, complete or still running.
#ifndef STEPMARK_BENCH_CURVES_CURVES_H
#define STEPMARK_BENCH_CURVES_CURVES_H

#include <jansson.h>
#include <stdio.h>

#include "bench/runs/log.h"
#include "bench/tables/table.h"

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

// The state of a run: "complete", "running or killed", ...; the steps that it will have, 0: unknown.
const char *sm_curve_state(const sm_curve *curve);
int64_t sm_curve_n_steps(const sm_curve *curve);

// The lowest validation loss; NULL: none.
const sm_logged_pause *sm_curve_best(const sm_curve *curve);

// The index of a step in the log: that of the last step for one that is not in it.
size_t sm_curve_at(const sm_curve *curve, int64_t step);

// A line a step: run, step, tokens, time_s, loss, grad_norm, lr, tokens_per_s, validation_loss.
sm_status sm_curves_csv(const sm_curves *curves, FILE *out);

// What is said of all: a sentence (a JSON text), warnings (an array of texts), a record each.
extern const sm_table sm_curves_table;
json_t *sm_curves_answer(const sm_curves *curves);
json_t *sm_curves_warnings(const sm_curves *curves);
json_t *sm_curves_records(const sm_curves *curves);

// A page of all: curves laid over each other, the table, samples, warnings. `how` as for sm_page_write().
sm_status sm_curves_page(const sm_curves *curves, unsigned how, FILE *out);

#endif
