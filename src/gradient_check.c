// gradient_check.c: a central difference along the gradient, all parameters at once.
#include "gradient_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bf16.h"
#include "host_threads.h"

// How far the parameters are moved, and what is allowed: docs/measurement.md derives the figures.
enum { MAX_TRIES = 3 };

typedef struct {
    double change;    // of the loss to each side, relative to max(1, loss)
    double reach;     // how far a column moves at most: its root mean square, relative to its block's elements
    double roundoff;  // most that rounding moves a token's loss, relative to max(1, loss)
    double tolerance; // relative to the predicted change; rounding is added
    // Steps of the first try and of those that follow where it does not agree. Where rounding drowns the difference,
    // larger steps tell; where the loss bends, smaller ones. A gradient that is wrong by some share is so at every
    // step.
    double sizes[MAX_TRIES];
} limits;

static const limits limits_f32 = {2e-4, 1e-2, 1e-6, 5e-3, {1, 0.25, 4}};
static const limits limits_bf16 = {5e-3, 2e-2, INFINITY, 3e-2, {1, 3, 10}};

static const double largest_tolerance = 0.2; // beyond it a try tells nothing

// What a parameter's elements are measured by where they are smaller: the standard deviation of fresh weights. Biases
// begin at zero.
static const double least_scale = 0.02;

typedef struct {
    int value; // tensor indices
    int gradient;
    int64_t rows, cols;
    bool copied;
    float *values;        // as they were: rows x cols, part of checker.values
    float *kept_gradient; // a copy, where the forward range writes it as well (the chunked loss head); otherwise NULL
} parameter;

typedef struct {
    sm_session *session;
    const limits *limit;
    int n_accum;
    sm_feed feed;
    void *ctx;
    parameter *parameters;
    int n_parameters;
    int64_t n_columns;
    int64_t n_largest; // elements of the largest
    float *values;     // all parameters, and the gradients that are kept
    float *moved;      // room for the largest
    double change;     // of the loss by a column
    double reach;
    double predicted;
    double sqnorm; // of the whole gradient

    // A token each of the last micro-batch: its target, and its losses at w + d, at w and at w - d.
    int64_t n_tokens;
    int32_t *targets;
    float *above;
    float *here;
    float *below;
} checker;

// --- what there is to check ----------------------------------------------------------------

static int gradient_of(const sm_plan *plan, int tensor) {
    char name[SM_NAME_SIZE + 2];
    snprintf(name, sizeof name, "d.%s", plan->tensors[tensor].name);
    return plan->tensors[tensor].role == SM_ROLE_PARAMETER ? sm_plan_find_tensor(plan, name) : SM_NO_TENSOR;
}

static bool forward_writes(const sm_plan *plan, int tensor) {
    const sm_range forward = sm_plan_range(plan, SM_PHASE_FORWARD);
    for (int i = forward.first; i < forward.end; i++) {
        for (int k = 0; k < SM_MAX_OUT; k++) {
            if (plan->ops[i].out[k] == tensor) {
                return true;
            }
        }
    }
    return false;
}

// Floats in huge pages where the kernel has them: gigabytes are touched once.
static float *new_floats(int64_t n) {
    const size_t huge_page_bytes = (size_t)2 << 20;
    const size_t size_bytes = ((size_t)n * sizeof(float) / huge_page_bytes + 1) * huge_page_bytes;
    float *values = aligned_alloc(huge_page_bytes, size_bytes);
    if (values == NULL) {
        sm_fail(SM_ERR_OOM, "gradient check: no memory for a copy of %lld elements", (long long)n);
    } else {
        madvise(values, size_bytes, MADV_HUGEPAGE); // advice: a kernel without them may decline
    }
    return values;
}

// Fills c->parameters; returns how many elements are to be kept of them.
static int64_t list_parameters(checker *c) {
    const sm_plan *plan = c->session->plan;
    int64_t n_kept = 0;
    c->n_largest = 1;
    for (int i = 0; i < plan->n_tensors; i++) {
        const int gradient = gradient_of(plan, i);
        if (gradient == SM_NO_TENSOR) {
            continue;
        }
        const sm_tensor *t = &plan->tensors[i];
        const int64_t n = sm_tensor_elems(t);
        const int64_t cols = t->n_dims > 1 ? sm_tensor_cols(t) : n;
        c->parameters[c->n_parameters++] = (parameter){.value = i,
                                                       .gradient = gradient,
                                                       .rows = n / cols,
                                                       .cols = cols,
                                                       .copied = t->working_copy != SM_NO_TENSOR};
        c->n_columns += cols;
        n_kept += forward_writes(plan, gradient) ? 2 * n : n;
        c->n_largest = n > c->n_largest ? n : c->n_largest;
    }
    return n_kept;
}

static sm_status allocate(checker *c) {
    const sm_plan *plan = c->session->plan;
    c->n_tokens = plan->B * plan->T;
    c->parameters = calloc((size_t)plan->n_tensors, sizeof *c->parameters);
    c->targets = malloc((size_t)c->n_tokens * (sizeof *c->targets + 3 * sizeof *c->here));
    if (c->parameters == NULL || c->targets == NULL) {
        return sm_fail(SM_ERR_OOM, "gradient check: no memory for %lld tokens", (long long)c->n_tokens);
    }
    c->above = (float *)(c->targets + c->n_tokens);
    c->here = c->above + c->n_tokens;
    c->below = c->here + c->n_tokens;
    c->values = new_floats(list_parameters(c));
    c->moved = c->values != NULL ? new_floats(c->n_largest) : NULL;
    float *kept = c->values;
    for (int i = 0; i < c->n_parameters && c->moved != NULL; i++) {
        parameter *p = &c->parameters[i];
        p->values = kept;
        kept += p->rows * p->cols;
        if (forward_writes(plan, p->gradient)) {
            p->kept_gradient = kept;
            kept += p->rows * p->cols;
        }
    }
    return c->moved != NULL ? SM_OK : SM_ERR_OOM;
}

static void release(checker *c) {
    free(c->parameters);
    free(c->targets);
    free(c->values);
    free(c->moved);
}

// --- moving the parameters -----------------------------------------------------------------

enum { BLOCK_COLUMNS = 128 }; // of a row: whole cache lines, and enough blocks for the threads

static int64_t n_blocks(const parameter *p) { return (p->cols + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS; }

// What a block's elements are measured by.
static double scale_of(int64_t rows, int64_t stride, int64_t n, const float *values) {
    double sum = 0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < n; j++) {
            sum += (double)values[i * stride + j] * values[i * stride + j];
        }
    }
    return fmax(sqrt(sum / (double)(rows * n)), least_scale);
}

// steps[j] of n columns: the factor on column j of the gradient that changes the loss by `change`, or by as much as it
// can if the column moves no further than `reach`. Returns the sum of the
// slopes' squares.
static double find_steps(int64_t rows, int64_t stride, int64_t n, const float *slopes, double change, double reach,
                         double *steps) {
    double sum = 0;
    memset(steps, 0, (size_t)n * sizeof *steps);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < n; j++) {
            steps[j] += (double)slopes[i * stride + j] * slopes[i * stride + j];
        }
    }
    for (int64_t j = 0; j < n; j++) {
        const double norm = sqrt(steps[j]);
        sum += steps[j];
        steps[j] = norm > 0 ? fmin(change / norm, reach) / norm : 0;
    }
    return sum;
}

static float rounded(float value) { return sm_bf16_widen(sm_bf16_round(value)); }

// slopes := values + step x slope. Returns what the slopes say of that, in the numbers that there are. `copied`:
// matmuls read a copy in bf16, so each element moves by what its copy moves by; then both move alike.
static double move_columns(int64_t rows, int64_t stride, int64_t n, const float *values, const double *steps,
                           bool copied, float *slopes) {
    double predicted = 0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < n; j++) {
            const int64_t k = i * stride + j;
            float moved = (float)(values[k] + steps[j] * slopes[k]);
            if (copied) {
                moved = values[k] + (rounded(moved) - rounded(values[k]));
            }
            predicted += (double)slopes[k] * ((double)moved - values[k]);
            slopes[k] = moved;
        }
    }
    return predicted;
}

static void move_block(checker *c, const parameter *p, int64_t block, double *predicted, double *sqnorm) {
    double steps[BLOCK_COLUMNS];
    const int64_t first = block * BLOCK_COLUMNS;
    const int64_t n = p->cols - first < BLOCK_COLUMNS ? p->cols - first : BLOCK_COLUMNS;
    const float *values = p->values + first;
    const double reach = c->reach * scale_of(p->rows, p->cols, n, values) * sqrt((double)p->rows);
    *sqnorm += find_steps(p->rows, p->cols, n, c->moved + first, c->change, reach, steps);
    *predicted += move_columns(p->rows, p->cols, n, values, steps, p->copied, c->moved + first);
}

// Reads a parameter and its gradient, keeps the former, and writes it moved along the latter.
static sm_status move_forth(checker *c, parameter *p) {
    const int64_t n = p->rows * p->cols;
    double predicted = 0;
    double sqnorm = 0;
    SM_TRY(sm_session_read(c->session, p->value, n, p->values));
    SM_TRY(sm_session_read(c->session, p->gradient, n, c->moved));
    if (p->kept_gradient != NULL) {
        memcpy(p->kept_gradient, c->moved, (size_t)n * sizeof *c->moved);
    }
#pragma omp parallel for schedule(static) reduction(+ : predicted, sqnorm) num_threads(sm_host_threads())
    for (int64_t b = 0; b < n_blocks(p); b++) {
        move_block(c, p, b, &predicted, &sqnorm);
    }
    c->predicted += 2 * predicted;
    c->sqnorm += sqnorm;
    return sm_session_write(c->session, p->value, n, c->moved);
}

// To the other side of where it was, as far.
static sm_status move_back(checker *c, const parameter *p) {
    const int64_t n = p->rows * p->cols;
    SM_TRY(sm_session_read(c->session, p->value, n, c->moved));
#pragma omp parallel for schedule(static) if (n > 65536) num_threads(sm_host_threads())
    for (int64_t i = 0; i < n; i++) {
        c->moved[i] = (float)(2 * (double)p->values[i] - c->moved[i]);
    }
    return sm_session_write(c->session, p->value, n, c->moved);
}

static sm_status restore(checker *c, const parameter *p) {
    const int64_t n = p->rows * p->cols;
    SM_TRY(sm_session_write(c->session, p->value, n, p->values));
    return p->kept_gradient == NULL ? SM_OK : sm_session_write(c->session, p->gradient, n, p->kept_gradient);
}

// --- the loss ------------------------------------------------------------------------------

// The losses of the last micro-batch run, a token each, and their mean in double: the device's own is rounded.
static sm_status read_losses(checker *c, float *losses, double *mean) {
    const sm_session *session = c->session;
    const sm_backend *backend = session->device->backend;
    int64_t n_counted = 0;
    *mean = 0;
    SM_TRY(backend->synchronize(session->executable));
    SM_TRY(backend->download(session->executable, session->plan->targets, 0, c->n_tokens, c->targets));
    SM_TRY(sm_session_read(c->session, session->plan->losses, c->n_tokens, losses));
    for (int64_t i = 0; i < c->n_tokens; i++) {
        *mean += losses[i];
        n_counted += c->targets[i] >= 0;
    }
    *mean /= (double)(n_counted > 0 ? n_counted : 1);
    return SM_OK;
}

// The loss of the step at the parameters that the device has now, with the dropout masks of the backward.
static sm_status step_loss(checker *c, float *losses, double *loss) {
    c->session->n_micro_steps -= (uint64_t)c->n_accum;
    *loss = 0;
    for (int i = 0; i < c->n_accum; i++) {
        double part = 0;
        SM_TRY(c->feed(c->ctx, c->session, i));
        SM_TRY(sm_session_run(c->session, SM_RUN_FORWARD, NULL));
        SM_TRY(read_losses(c, losses, &part));
        *loss += part / c->n_accum;
    }
    return SM_OK;
}

// --- the check -----------------------------------------------------------------------------

// How much rounding may make of the difference of two mean losses: four standard deviations. Twice over: as a token's
// second difference, above - 2 here + below, has it (rounding with 6 times the variance of one loss, and curvature),
// and as the format has it. The lesser holds. Tokens round independently, so their mean has the nth part of the
// variance.
static double rounding_of(const checker *c, double loss) {
    const double n = (double)c->n_tokens;
    double sum = 0;
    double sum_of_squares = 0;
    for (int64_t i = 0; i < c->n_tokens; i++) {
        const double second = (double)c->above[i] - 2.0 * c->here[i] + c->below[i];
        sum += second;
        sum_of_squares += second * second;
    }
    const double seen = sqrt(fmax(0, sum_of_squares / n - sum / n * sum / n) / 6);
    return 4 * sqrt(2 / n / c->n_accum) * fmin(seen, c->limit->roundoff * fmax(1, loss));
}

// The parameters moved forth and back by steps of this size, and put where they were.
static sm_status try_steps(checker *c, double loss, double size, sm_gradient_check *result) {
    double above = 0;
    double below = 0;
    c->change = size * c->limit->change * fmax(1, loss) / (double)c->n_columns;
    c->reach = size * c->limit->reach;
    c->predicted = 0;
    c->sqnorm = 0;
    for (int i = 0; i < c->n_parameters; i++) {
        SM_TRY(move_forth(c, &c->parameters[i]));
    }
    SM_TRY(step_loss(c, c->above, &above));
    for (int i = 0; i < c->n_parameters; i++) {
        SM_TRY(move_back(c, &c->parameters[i]));
    }
    SM_TRY(step_loss(c, c->below, &below));
    for (int i = 0; i < c->n_parameters; i++) {
        SM_TRY(restore(c, &c->parameters[i]));
    }
    result->predicted = c->predicted;
    result->grad_norm = sqrt(c->sqnorm);
    result->found = above - below;
    result->error = fabs(result->found - result->predicted) / fabs(result->predicted);
    result->tolerance = c->limit->tolerance + rounding_of(c, loss) / fabs(result->predicted);
    return result->predicted != 0 ? SM_OK
                                  : sm_fail(SM_ERR_MISMATCH, "wrong gradient: it is zero; no speed is reported");
}

// Tries until one agrees and tells something. One that agrees only because rounding allows anything shows nothing. If
// none agrees, the gradient is wrong; *best is then the first. NaN agrees with nothing.
static sm_status try_all(checker *c, sm_gradient_check *best, int *n_tries) {
    double loss = 0;
    bool agrees = false;
    sm_gradient_check tried = *best;
    SM_TRY(read_losses(c, c->here, &loss));
    for (*n_tries = 0; *n_tries < MAX_TRIES && !best->tells; ++*n_tries) {
        SM_TRY(try_steps(c, loss, c->limit->sizes[*n_tries], &tried));
        const bool this_agrees = tried.error <= tried.tolerance;
        tried.tells = this_agrees && tried.tolerance <= largest_tolerance;
        if (*n_tries == 0 || (this_agrees && !agrees) || tried.tells) {
            *best = tried;
        }
        agrees |= this_agrees;
    }
    if (!agrees) {
        return sm_fail(SM_ERR_MISMATCH,
                       "wrong gradient: the loss changes by %.6g along it, where it says %.6g (%.2g of that apart, "
                       "allowed is %.2g); no speed is reported",
                       best->found, best->predicted, best->error, best->tolerance);
    }
    return SM_OK;
}

sm_status sm_check_gradients(sm_session *session, int n_accum, sm_feed feed, void *ctx, sm_gradient_check *result) {
    int n_tries = 0;
    checker c = {.session = session, .n_accum = n_accum, .feed = feed, .ctx = ctx};
    c.limit = session->plan->dtype == SM_BF16 ? &limits_bf16 : &limits_f32;
    *result = (sm_gradient_check){.tolerance = c.limit->tolerance};
    sm_status status = allocate(&c);
    if (status == SM_OK) {
        status = try_all(&c, result, &n_tries);
    }
    snprintf(result->how, sizeof result->how, "%s%lld columns of %d parameters moved, %d forwards",
             result->tells || status != SM_OK ? "" : "nothing shown, as rounding drowns the difference: ",
             (long long)c.n_columns, c.n_parameters, 2 * n_tries * n_accum);
    release(&c);
    return status;
}

sm_status sm_poison_gradients(sm_session *session) {
    checker c = {.session = session, .n_accum = 1};
    sm_status status = allocate(&c);
    if (status == SM_OK) {
        for (int64_t i = 0; i < c.n_largest; i++) {
            c.moved[i] = NAN;
        }
        for (int i = 0; i < c.n_parameters && status == SM_OK; i++) {
            const parameter *p = &c.parameters[i];
            status = sm_session_write(session, p->gradient, p->rows * p->cols, c.moved);
        }
    }
    release(&c);
    return status;
}
