// scaling_fit.c: two fits of two parts each: compute over (1, q), communication over (2 (N - 1) / N, 2 (N - 1)).
#include "bench/runs/scaling.h"

#include <math.h>

static const double least_error = 1e-3;   // of a mean, for errors that its spread does not show (drift between runs)
static const double unknown_error = 1e-2; // if a run is too short for a spread
static const double normal_95 = 1.959964;
static const double singular = 1e-9;

// y = a u + b v
typedef struct {
    double u, v, y, weight;
} equation;

// Sums of the normal equations.
typedef struct {
    double uu, uv, vv, uy, vy, yy;
    int n;
} sums;

static void add(sums *s, const equation *e) {
    s->uu += e->weight * e->u * e->u;
    s->uv += e->weight * e->u * e->v;
    s->vv += e->weight * e->v * e->v;
    s->uy += e->weight * e->u * e->y;
    s->vy += e->weight * e->v * e->y;
    s->yy += e->weight * e->y * e->y;
    s->n++;
}

// The factor by which errors are too small if points scatter more than their errors allow.
static double inflation(const sums *s, const sm_part_fit *f, int n_parts) {
    double a = f->value[0];
    double b = f->value[1];
    double chi2 = s->yy - 2 * (a * s->uy + b * s->vy) + a * a * s->uu + 2 * a * b * s->uv + b * b * s->vv;
    int n_free = s->n - n_parts;
    return n_free > 0 ? fmax(1, chi2 / n_free) : 1;
}

// Fits one part alone: `k` is 0 for u, 1 for v.
static void solve_one(const sums *s, int k, sm_part_fit *f) {
    double square = k == 0 ? s->uu : s->vv;
    double product = k == 0 ? s->uy : s->vy;
    if (!(square > 0)) {
        return;
    }
    f->value[k] = fmax(0, product / square);
    f->variance[k] = inflation(s, f, 1) / square;
    f->is_told[k] = true;
}

// `alone`: the part that represents both if the points cannot separate them.
static sm_part_fit solve(const sums *s, int alone) {
    sm_part_fit f = {.value = {0, 0}};
    double determinant = s->uu * s->vv - s->uv * s->uv;
    if (!(determinant > singular * s->uu * s->vv)) {
        solve_one(s, alone, &f);
        return f;
    }
    double a = (s->uy * s->vv - s->vy * s->uv) / determinant;
    double b = (s->vy * s->uu - s->uy * s->uv) / determinant;
    if (a < 0 || b < 0) { // then the other alone, and this one 0
        solve_one(s, a < 0 ? 1 : 0, &f);
        f.is_told[a < 0 ? 0 : 1] = true;
        return f;
    }
    f.value[0] = a;
    f.value[1] = b;
    f.is_told[0] = f.is_told[1] = true;
    double scale = inflation(s, &f, 2) / determinant;
    f.variance[0] = scale * s->vv;
    f.variance[1] = scale * s->uu;
    f.covariance = -scale * s->uv;
    return f;
}

static double error_of(double mean, double error) {
    return isfinite(error) ? fmax(error, least_error * mean) : unknown_error * mean;
}

static double volume_share(double n_processes) { return 2 * (n_processes - 1) / n_processes; }

static double messages(double n_processes) { return 2 * (n_processes - 1); }

sm_scaling_time sm_scaling_time_at(const sm_scaling_fit *fit, double n_processes, double sequences) {
    const sm_part_fit *c = &fit->compute;
    const sm_part_fit *x = &fit->comm;
    const double u = volume_share(n_processes);
    const double v = messages(n_processes);
    sm_scaling_time t = {.serial_s = c->value[0], .compute_s = c->value[1] * sequences};
    t.comm_s = x->value[0] * u + x->value[1] * v;
    t.step_s = t.serial_s + t.compute_s + t.comm_s;
    double variance = c->variance[0] + 2 * c->covariance * sequences + c->variance[1] * sequences * sequences +
                      x->variance[0] * u * u + 2 * x->covariance * u * v + x->variance[1] * v * v;
    t.half_s = normal_95 * sqrt(fmax(0, variance));
    return t;
}

void sm_scaling_fit_points(const sm_scaling_point *points, size_t n, sm_scaling_fit *fit) {
    sums compute = {.n = 0};
    sums comm = {.n = 0};
    for (size_t i = 0; i < n; i++) {
        const sm_scaling_point *p = &points[i];
        double step_error_s = error_of(p->step_s, p->step_error_s);
        double comm_error_s = fmax(error_of(p->comm_s, p->comm_error_s), least_error * p->step_s);
        equation of_compute = {1, p->sequences, p->step_s - p->comm_s, 1 / (step_error_s * step_error_s)};
        equation of_comm = {volume_share(p->n_processes), messages(p->n_processes), p->comm_s,
                            1 / (comm_error_s * comm_error_s)};
        add(&compute, &of_compute);
        if (p->n_processes > 1) {
            add(&comm, &of_comm);
        }
    }
    *fit = (sm_scaling_fit){.compute = solve(&compute, 1), .comm = solve(&comm, 0)};
    for (size_t i = 0; i < n; i++) {
        sm_scaling_time t = sm_scaling_time_at(fit, points[i].n_processes, points[i].sequences);
        fit->worst = fmax(fit->worst, fabs(t.step_s / points[i].step_s - 1));
    }
}
