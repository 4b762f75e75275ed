// scaling_fit.h: a step's time on N processes, as a sum of parts that measured runs give.
//
//     t(N, q) = serial + per_sequence q + exposed(N)
//     exposed(N) = volume 2 (N - 1) / N + message 2 (N - 1)
//
// q is the sequences that a process computes in a step (global batch / N). `serial` is the work of every process that
// does not depend on q: the update, launching, waiting for data. `exposed` is the communication that the backward pass
// did not hide, as it was logged: an all-reduce in which each process sends and receives its part of the gradients to
// and from each other, 2 (N - 1) / N of their bytes in 2 (N - 1) messages.
//
// Weighted least squares, none of the parts below zero; weights and intervals come from the runs' spread.
// docs/scaling.md says where this holds and where it does not.
#ifndef STEPMARK_BENCH_RUNS_SCALING_FIT_H
#define STEPMARK_BENCH_RUNS_SCALING_FIT_H

#include <stdbool.h>
#include <stddef.h>

// Means over a run's steps, and the standard errors of these means (NaN: unknown).
typedef struct {
    double n_processes;
    double sequences; // for each process and step
    double step_s, step_error_s;
    double comm_s, comm_error_s; // exposed
} sm_scaling_point;

// Two parts fitted together: their values, variances and covariance.
typedef struct {
    double value[2];
    double variance[2];
    double covariance;
    bool is_told[2]; // false: the points cannot separate it from the other; it counts as 0
} sm_part_fit;

typedef struct {
    sm_part_fit compute; // serial, per sequence
    sm_part_fit comm;    // volume, message
    double worst;        // largest |t / measured t - 1| of the points
} sm_scaling_fit;

void sm_scaling_fit_points(const sm_scaling_point *points, size_t n, sm_scaling_fit *fit);

// Seconds; `half` is half of the 95% interval, as far as it follows from the runs' spread.
typedef struct {
    double serial_s, compute_s, comm_s;
    double step_s, half_s;
} sm_scaling_time;

sm_scaling_time sm_scaling_time_at(const sm_scaling_fit *fit, double n_processes, double sequences);

#endif
