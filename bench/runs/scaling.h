// scaling.h: trainings of the same work on 1, 2, ... processes: the speed-up of several processes, the losses, and a
// prediction for more of them.
//
//   strong   the same global batch: more processes share it. Next to the published figures of a V100 machine
//   weak     the same part of the global batch for each process: more processes do more
//
// Runs are compared only where runs.h lets them be. Speed-up is in tokens/s over the run of fewest processes (n of
// them count as n); efficiency is speed-up / processes. Times are of the steps; the wall time is shown next to them.
#pragma once

#include "bench/runs/runs.h"

// --- the model -----------------------------------------------------------------------------------

// A step's time on N processes, as a sum of parts that measured runs give.
//
//     t(N, q) = serial + per_sequence q + exposed(N, q)
//     exposed(N, q) = min(volume u, max(least u / q, volume u - hidden q)), u = 2 (N - 1) / N
//
// q is the sequences that a process computes in a step (global batch / N). `serial` is the work of every process that
// does not depend on q: the update, launching, waiting for data. `volume` is all communication, exposed and hidden: an
// all-reduce moves u of the gradients' bytes through each process. `hidden` is the most that a run hid for
// each sequence, or its backward if that is more and the runs' exposed times do not contradict it. `least` is the
// smallest exposed q / u of the runs.
//
// Weighted least squares, none of the parts below zero; weights and intervals come from the runs' spread
// (docs/scaling.md). Means over a run's steps, and the standard errors of these means (NaN: unknown).
typedef struct {
    double n_processes;
    double sequences; // for each process and step
    double step_s, step_error_s;
    double comm_s, comm_error_s; // exposed
    double hidden_s;
} sm_scaling_point;

// Two parts fitted together: their values, variances and covariance.
typedef struct {
    double value[2], variance[2], covariance;
    bool is_told[2]; // false: the points cannot separate it from the other; it counts as 0
} sm_part_fit;

typedef struct {
    sm_part_fit compute; // serial, per sequence
    sm_part_fit comm;    // volume, hidden per sequence
    double least_s;      // smallest exposed q / u of the points
    double worst;        // largest |t / measured t - 1| of the points
} sm_scaling_fit;

void sm_scaling_fit_points(const sm_scaling_point *points, size_t n, sm_scaling_fit *fit);

// Seconds; `half` is half of the 95% interval, as far as it follows from the runs' spread.
typedef struct {
    double serial_s, compute_s, comm_s, step_s, half_s;
} sm_scaling_time;

sm_scaling_time sm_scaling_time_at(const sm_scaling_fit *fit, double n_processes, double sequences);

// --- tables --------------------------------------------------------------------------------------

enum { SM_MOST_SCALING_ROWS = 256 };

// NaN if unknown. Halves are of 95% intervals.
typedef struct {
    sm_work work;
    bool is_predicted;
    double n_processes, n_nodes;
    double n_runs; // pooled
    double global_batch, steps, tokens;
    double step_s, step_half_s, comm_s, timed_s, wall_s;
    double tokens_per_s, tokens_half_per_s;
    double speedup, speedup_half, efficiency;
    sm_scaling_time model;
} sm_scaling_row;

typedef struct {
    sm_scaling_row rows[SM_MOST_SCALING_ROWS]; // strong: measured, predicted; then weak likewise; by processes
    size_t n;
    sm_scaling_fit fit;
    size_t n_points;       // used by the fit
    bool has_verdict;      // false: no speed-up, no model, no prediction; a note says why
    double most_processes; // measured
    json_t *notes;         // texts
} sm_scaling;

// Compares and fits. `predict`: numbers of processes. SM_ERR_INVALID: not comparable (all is in runs->problems).
sm_status sm_scaling_make(sm_training_runs *runs, const int64_t *predict, int n_predict, sm_scaling *scaling);
void sm_scaling_free(sm_scaling *scaling);

// One record for each row, of that `work` if given; and for each published run of strong scaling (bench/results/),
// where there is a verdict.
extern const sm_table sm_scaling_table;
json_t *sm_scaling_records(const sm_scaling *scaling, const sm_work *work);

// {serial_s, per_sequence_s, volume_s, hidden_per_sequence_s, each with its standard error, least_s, worst_deviation,
// n_runs}; null without a verdict.
json_t *sm_scaling_model(const sm_scaling *scaling);

// Self-contained HTML, which scaling.js draws.
sm_status sm_scaling_page(void *scaling, FILE *out);
