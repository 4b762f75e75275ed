// gradient_check.c: a central difference along the gradient, for all parameters at once.
#include "src/verify/step_checks.h"

#include "philox.h"
#include "src/plan/host_threads.h"

// How far the parameters move, and the tolerances: docs/measurement.md derives the figures.
enum { MAX_TRIES = 4 };

typedef struct {
    double change;    // change of the loss, to each side, by the part of d along the gradient, relative to max(1, loss)
    double reach;     // largest root mean square move of a column for that, relative to its block's elements
    double scatter;   // move of each element in the random part of d, relative to its block's elements
    double roundoff;  // most that rounding changes a token's loss, relative to max(1, loss)
    double tolerance; // relative to the predicted change; rounding is added
    // Step sizes of the first try and of further ones if it disagrees. If rounding drowns the difference, larger steps
    // help; if the loss is curved, smaller ones. A wrong gradient is wrong by about the same share at every step size.
    double sizes[MAX_TRIES];
} limits;

static const limits limits_f32 = {1e-4, 1e-2, 5e-3, 4e-7, 5e-4, {1, 0.3, 3, 10}};
// Limits for data that are rounded, to bf16 or finer, where rounding drowns small differences.
static const limits limits_rounded = {5e-3, 2e-2, 2e-2, INFINITY, 3e-2, {1, 0.3, 3, 10}};

// One random direction may miss a fault by chance, so several are tried if forwards are cheap: as many as this work
// allows, at least one. The limit is work, not time, so that a check is repeatable.
enum { MAX_DIRECTIONS = 4 };
static const double enough_flops = 2e10;

static const double largest_tolerance = 0.2; // a try with a larger tolerance shows nothing

// Least scale of a parameter's elements: the standard deviation of initial weights. Biases start at zero.
static const double least_scale = 0.02;

// Rows of a parameter that are read, moved and written together, so that they fit in a cache. Of a parameter with more
// than two million elements the first, the last and every fourth piece between them move: all would take too long.
enum { PIECE_ELEMS = 1 << 20, ALL_PIECES = 2, STRIDE = 4 };

typedef struct {
    int value; // tensor indices
    int gradient;
    int64_t first_elem; // within the parameter
    int64_t rows, cols;
    bool is_last;  // of its parameter
    bool moves;    // false: only its gradient's norm is computed
    bool copied;   // matmuls read a copy in a narrow format
    float *values; // the original values: rows x cols, part of checker.values; NULL if it does not move
} piece;

enum { BLOCK_COLUMNS = 128 }; // columns in a block: whole cache lines, and enough blocks for the threads
enum { FEW_ELEMS = 1 << 16 }; // below this, waking other threads costs more than it saves
enum { N_SIGNS = 1 << 12 };   // as many as the hash of signs_of has values

// The gradient's prediction for a move, summed.
typedef struct {
    double predicted; // change of the loss to one side
    double sqnorm;    // of the gradient
} forecast;

typedef struct {
    sm_session *session;
    const limits *limit;
    int n_accum;
    sm_feed feed;
    void *ctx;
    piece *pieces;
    int n_pieces;
    int n_parameters;
    int64_t n_columns; // of all pieces
    int64_t n_largest; // elements of the largest piece
    float *values;     // of all pieces that move
    int64_t n_values;
    float *moved;  // room for the largest piece
    double change; // change of the loss by a column's part along the gradient, at size 1
    double size;   // of this try's steps
    float signs[N_SIGNS + BLOCK_COLUMNS];
    int direction; // 0, 1, ...: number of the random part
    int n_forwards;
    double sqnorm; // of the current parameter's pieces so far
    double scale;  // of the loss that was differentiated
    forecast sum;  // of all parameters

    // For each token of the last micro-batch: its target, and its losses at w + d, at w and at w - d.
    int64_t n_tokens;
    int32_t *targets;
    float *above;
    float *here;
    float *below;
} checker;

// --- what there is to check ----------------------------------------------------------------

int sm_gradient_of(const sm_plan *plan, int tensor) {
    char name[SM_NAME_SIZE + 2];
    snprintf(name, sizeof name, "d.%s", plan->tensors[tensor].name);
    return sm_plan_is_param(plan, tensor) ? sm_plan_find_tensor(plan, name) : SM_NO_TENSOR;
}

// First touch is slow, so all threads share it: each its own part, so that two do not fault on one huge page.
static void touch(float *values, int64_t n) {
    enum { PAGE_ELEMS = 4096 / sizeof(float) };
#pragma omp parallel for schedule(static) num_threads(sm_host_threads())
    for (int64_t i = 0; i < n; i += PAGE_ELEMS) {
        values[i] = 0;
    }
}

static int64_t rows_of(const sm_tensor *t) { return t->n_dims > 1 ? sm_tensor_elems(t) / sm_tensor_cols(t) : 1; }

static int64_t rows_of_piece(const sm_tensor *t) {
    const int64_t cols = sm_tensor_elems(t) / rows_of(t);
    return cols < PIECE_ELEMS ? PIECE_ELEMS / cols : 1;
}

static int64_t count_pieces(const sm_plan *plan) {
    int64_t n = 0;
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_tensor *t = &plan->tensors[i];
        n += sm_gradient_of(plan, i) != SM_NO_TENSOR ? (rows_of(t) - 1) / rows_of_piece(t) + 1 : 0;
    }
    return n;
}

// Fills c->pieces; returns the number of elements to keep a copy of.
static int64_t list_pieces(checker *c) {
    const sm_plan *plan = c->session->plan;
    int64_t n_kept = 0;
    c->n_largest = 1;
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_tensor *t = &plan->tensors[i];
        const int gradient = sm_gradient_of(plan, i);
        const int64_t rows = rows_of(t);
        const int64_t cols = sm_tensor_elems(t) / rows;
        for (int64_t row = 0; gradient != SM_NO_TENSOR && row < rows; row += rows_of_piece(t)) {
            const int64_t left = rows - row;
            piece *p = &c->pieces[c->n_pieces++];
            *p = (piece){.value = i, .gradient = gradient, .first_elem = row * cols, .cols = cols};
            p->rows = left < rows_of_piece(t) ? left : rows_of_piece(t);
            p->is_last = p->rows == left;
            p->copied = t->working_copy != SM_NO_TENSOR;
            p->moves = rows <= ALL_PIECES * rows_of_piece(t) || p->is_last || row / rows_of_piece(t) % STRIDE == 0;
            c->n_parameters += p->is_last;
            c->n_columns += p->moves ? cols : 0;
            c->n_largest = p->rows * cols > c->n_largest ? p->rows * cols : c->n_largest;
            n_kept += p->moves ? p->rows * cols : 0;
        }
    }
    return n_kept;
}

static sm_status allocate(checker *c) {
    const sm_plan *plan = c->session->plan;
    c->n_tokens = plan->B * plan->T;
    c->pieces = sm_calloc((size_t)count_pieces(plan) + 1, sizeof *c->pieces);
    c->targets = sm_malloc((size_t)c->n_tokens * (sizeof *c->targets + 3 * sizeof *c->here));
    c->above = (float *)(c->targets + c->n_tokens);
    c->here = c->above + c->n_tokens;
    c->below = c->here + c->n_tokens;
    c->n_values = list_pieces(c);
    c->values = sm_malloc_large((size_t)c->n_values * sizeof *c->values);
    c->moved = sm_malloc_large((size_t)c->n_largest * sizeof *c->moved);
    SM_FAIL_IF(c->values == NULL || c->moved == NULL, SM_ERR_OOM,
               "gradient check: no memory for a copy of %lld elements", (long long)(c->n_values + c->n_largest));
    float *kept = c->values;
    for (piece *p = c->pieces; p < c->pieces + c->n_pieces; p++) {
        if (p->moves) {
            p->values = kept;
            kept += p->rows * p->cols;
        }
    }
    return SM_OK;
}

static void release(checker *c) {
    free(c->pieces);
    free(c->targets);
    free(c->values);
    free(c->moved);
}

// --- moving the parameters -----------------------------------------------------------------

// Signs for the elements of a block's row, from a random place in a list of random signs.
static const float *signs_of(const checker *c, uint64_t number) {
    const uint64_t hash = (number + 1) * 0x9E3779B97F4A7C15u;
    return c->signs + ((hash ^ hash >> 32) * 0xD6E8FEB86659FD93u >> 52);
}

// The motion of a block's columns.
typedef struct {
    double along[BLOCK_COLUMNS];   // factor on the gradient
    double scatter[BLOCK_COLUMNS]; // factor on each element's sign
    double sqnorm;                 // of the block's gradient
} motion;

// For each column: the sum of squared slopes in `along`, of signed ones in `scatter`. Returns the elements' scale.
static double sum_columns(const checker *c, const piece *p, int64_t n, const float *values, const float *slopes,
                          motion *m) {
    double squares[BLOCK_COLUMNS] = {0};
    double sum = 0;
    for (int64_t i = 0; i < p->rows; i++) {
        const float *value = values + i * p->cols;
        const float *slope = slopes + i * p->cols;
        const float *sign = signs_of(c, (uint64_t)(value - c->values));
        for (int64_t j = 0; j < n; j++) {
            m->along[j] += (double)slope[j] * slope[j];
            m->scatter[j] += (double)slope[j] * sign[j];
            squares[j] += (double)value[j] * value[j];
        }
    }
    for (int64_t j = 0; j < n; j++) {
        sum += squares[j];
    }
    return fmax(sqrt(sum / (double)(p->rows * n)), least_scale);
}

// Column j moves along the gradient until it changes the loss by `change`, or by `reach` if that is less. Its elements
// are also scattered, by at most `scatter`, so that the block changes the loss by about as much again. The scatter's
// sign makes the loss grow by the gradient's prediction, so the two parts never cancel.
static void find_motion(const checker *c, const piece *p, int64_t n, const float *values, const float *slopes,
                        motion *m) {
    *m = (motion){.sqnorm = 0};
    const double scale = sum_columns(c, p, n, values, slopes, m);
    const double change = c->size * c->change;
    const double reach = c->size * c->limit->reach * scale * sqrt((double)p->rows);
    const double scatter = c->size * c->limit->scatter * scale;
    double scattered_change = 0;
    for (int64_t j = 0; j < n; j++) {
        const double norm = sqrt(m->along[j]);
        const double step = fmin(sqrt((double)n) * change / norm, scatter);
        m->sqnorm += m->along[j];
        m->along[j] = norm > 0 ? fmin(change / norm, reach) / norm : 0;
        scattered_change += step * m->scatter[j];
        m->scatter[j] = step;
    }
    for (int64_t j = 0; j < n; j++) {
        m->scatter[j] = copysign(m->scatter[j], scattered_change);
    }
}

// Each element moves by as much as its copy in a narrow format.
static void move_as_rounded(sm_dtype dtype, int64_t n, const float *values, float *moved) {
    float copy[BLOCK_COLUMNS] = {0};
    memcpy(copy, values, (size_t)n * sizeof *copy);
    sm_dtype_round_trip(dtype, n, copy);
    sm_dtype_round_trip(dtype, n, moved);
    for (int64_t j = 0; j < n; j++) {
        moved[j] = values[j] + (moved[j] - copy[j]);
    }
}

// slopes := values, moved. Returns the prediction for the move as actually stored. If matmuls read a copy in a narrow
// format, each element moves by as much as its copy, so that both move alike.
static double move_columns(const checker *c, const piece *p, int64_t n, const float *values, const motion *m,
                           float *slopes) {
    double predicted = 0;
    for (int64_t i = 0; i < p->rows; i++) {
        const float *value = values + i * p->cols;
        float *slope = slopes + i * p->cols;
        const float *sign = signs_of(c, (uint64_t)(value - c->values));
        float moved[BLOCK_COLUMNS];
        for (int64_t j = 0; j < n; j++) {
            moved[j] = (float)(value[j] + m->along[j] * slope[j] + m->scatter[j] * sign[j]);
        }
        if (p->copied) {
            move_as_rounded(c->session->plan->dtype, n, value, moved);
        }
        for (int64_t j = 0; j < n; j++) {
            predicted += (double)slope[j] * ((double)moved[j] - value[j]);
            slope[j] = moved[j];
        }
    }
    return predicted;
}

static forecast move_block(const checker *c, const piece *p, int64_t block) {
    motion m;
    const int64_t first = block * BLOCK_COLUMNS;
    const int64_t n = p->cols - first < BLOCK_COLUMNS ? p->cols - first : BLOCK_COLUMNS;
    const float *values = p->values + first;
    find_motion(c, p, n, values, c->moved + first, &m);
    const double predicted = move_columns(c, p, n, values, &m, c->moved + first);
    return (forecast){predicted, m.sqnorm};
}

// Forecast of a piece that does not move.
static forecast look_at_block(const checker *c, const piece *p, int64_t block) {
    forecast sum = {0};
    const int64_t first = block * BLOCK_COLUMNS;
    const int64_t end = p->cols - first < BLOCK_COLUMNS ? p->cols : first + BLOCK_COLUMNS;
    for (int64_t i = 0; i < p->rows; i++) {
        for (int64_t j = first; j < end; j++) {
            sum.sqnorm += (double)c->moved[i * p->cols + j] * c->moved[i * p->cols + j];
        }
    }
    return sum;
}

static forecast add(forecast a, forecast b) { return (forecast){a.predicted + b.predicted, a.sqnorm + b.sqnorm}; }

#pragma omp declare reduction(sum:forecast : omp_out = add(omp_out, omp_in))

// Reads a parameter and its gradient, keeps the parameter, and writes it moved along the gradient.
static sm_status move_forth(checker *c, piece *p) {
    const int64_t n = p->rows * p->cols;
    forecast sum = {0};
    SM_TRY(sm_session_read_part(c->session, p->gradient, p->first_elem, n, c->moved));
    for (int64_t i = 0; i < n && c->scale != 1; i++) {
        c->moved[i] = (float)(c->moved[i] / c->scale);
    }
    SM_TRY(p->moves ? sm_session_read_part(c->session, p->value, p->first_elem, n, p->values) : SM_OK);
    const int64_t n_blocks = (p->cols + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS;
#pragma omp parallel for schedule(static) reduction(sum : sum) if (n > FEW_ELEMS) num_threads(sm_host_threads())
    for (int64_t b = 0; b < n_blocks; b++) {
        sum = add(sum, p->moves ? move_block(c, p, b) : look_at_block(c, p, b));
    }
    c->sqnorm += sum.sqnorm;
    SM_FAIL_IF(!isfinite(sum.sqnorm) || (p->is_last && c->sqnorm == 0), SM_ERR_MISMATCH,
               "wrong gradient: %s is %s; no speed is reported", c->session->plan->tensors[p->gradient].name,
               isfinite(sum.sqnorm) ? "zero" : "not finite");
    c->sqnorm = p->is_last ? 0 : c->sqnorm;
    c->sum = add(c->sum, sum);
    return p->moves ? sm_session_write_part(c->session, p->value, p->first_elem, n, c->moved) : SM_OK;
}

// Moves it to the other side of its original value, by as much.
static sm_status move_back(checker *c, const piece *p) {
    const int64_t n = p->rows * p->cols;
    if (!p->moves) {
        return SM_OK;
    }
    SM_TRY(sm_session_read_part(c->session, p->value, p->first_elem, n, c->moved));
#pragma omp parallel for schedule(static) if (n > FEW_ELEMS) num_threads(sm_host_threads())
    for (int64_t i = 0; i < n; i++) {
        c->moved[i] = (float)(2 * (double)p->values[i] - c->moved[i]);
    }
    return sm_session_write_part(c->session, p->value, p->first_elem, n, c->moved);
}

// --- the loss ------------------------------------------------------------------------------

// The token losses of the last micro-batch, and their mean in double: the device's own mean is rounded.
static sm_status read_losses(checker *c, float *losses, double *mean) {
    const sm_session *session = c->session;
    int64_t n_counted = 0;
    *mean = 0;
    SM_TRY(sm_session_synchronize(c->session));
    SM_TRY(session->device->backend->download(session->executable, session->plan->targets, 0, c->n_tokens, c->targets));
    SM_TRY(sm_session_read(c->session, session->plan->losses, c->n_tokens, losses));
    for (int64_t i = 0; i < c->n_tokens; i++) {
        *mean += losses[i];
        n_counted += c->targets[i] >= 0;
    }
    *mean /= (double)(n_counted > 0 ? n_counted : 1);
    return SM_OK;
}

// The loss of the step at the device's current parameters, with the dropout masks of the backward.
static sm_status step_loss(checker *c, float *losses, double *loss) {
    c->session->n_micro_steps -= (uint64_t)c->n_accum;
    *loss = 0;
    sm_host_threads_end();
    for (int i = 0; i < c->n_accum; i++) {
        double part = 0;
        SM_TRY(c->feed(c->ctx, c->session, i));
        SM_TRY(sm_session_run(c->session, SM_RUN_FORWARD | SM_RUN_NO_GRADIENTS, NULL));
        c->n_forwards++;
        SM_TRY(read_losses(c, losses, &part));
        *loss += part / c->n_accum;
    }
    return SM_OK;
}

// --- the check -----------------------------------------------------------------------------

// Bound on the effect of rounding on the difference of two mean losses: four standard deviations. It takes the smaller
// of two estimates: from the tokens' second differences, above - 2 here + below (rounding with 6 times the variance of
// one loss, plus curvature), and from the format. Tokens round independently, so the mean of n has 1/n of the variance.
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

// Moves the parameters to both sides by steps of this size, and restores them.
static sm_status try_steps(checker *c, double loss, double size, sm_gradient_check *result) {
    double above = 0;
    double below = 0;
    c->size = size;
    c->change = c->limit->change * fmax(1, loss) / (double)c->n_columns;
    c->sum = (forecast){0};
    for (int i = 0; i < c->n_pieces; i++) {
        SM_TRY(move_forth(c, &c->pieces[i]));
    }
    SM_TRY(step_loss(c, c->above, &above));
    for (int i = 0; i < c->n_pieces; i++) {
        SM_TRY(move_back(c, &c->pieces[i]));
    }
    SM_TRY(step_loss(c, c->below, &below));
    for (int i = 0; i < c->n_pieces; i++) {
        SM_TRY(c->pieces[i].moves ? sm_session_write_part(c->session, c->pieces[i].value, c->pieces[i].first_elem,
                                                          c->pieces[i].rows * c->pieces[i].cols, c->pieces[i].values)
                                  : SM_OK);
    }
    result->predicted = 2 * c->sum.predicted;
    result->found = above - below;
    result->grad_norm = sqrt(c->sum.sqnorm);
    result->error = fabs(result->found - result->predicted) / result->predicted;
    result->tolerance = c->limit->tolerance + rounding_of(c, loss) / result->predicted;
    return SM_OK;
}

// Tries step sizes until one agrees with a tolerance small enough to show something. If none agrees, the gradient is
// wrong; *best is then the first try. NaN agrees with nothing.
static sm_status try_sizes(checker *c, double loss, sm_gradient_check *best) {
    bool agrees = false;
    sm_gradient_check tried = *best;
    for (int i = 0; i < MAX_TRIES && !best->tells; i++) {
        SM_TRY(try_steps(c, loss, c->limit->sizes[i], &tried));
        const bool this_agrees = tried.error <= tried.tolerance;
        tried.tells = this_agrees && tried.tolerance <= largest_tolerance;
        if (i == 0 || (this_agrees && !agrees) || tried.tells) {
            *best = tried;
        }
        agrees |= this_agrees;
    }
    SM_FAIL_IF(!agrees, SM_ERR_MISMATCH,
               "wrong gradient: the loss changes by %.6g along the gradient, and the gradient predicts %.6g "
               "(relative difference %.2g, allowed %.2g); no speed is reported",
               best->found, best->predicted, best->error, best->tolerance);
    return SM_OK;
}

// --- the scale of the loss -----------------------------------------------------------------

// Whether every gradient is finite.
static sm_status are_finite(checker *c, bool *finite) {
    *finite = true;
    for (int i = 0; i < c->n_pieces && *finite; i++) {
        const piece *p = &c->pieces[i];
        const int64_t n = p->rows * p->cols;
        SM_TRY(sm_session_read_part(c->session, p->gradient, p->first_elem, n, c->moved));
        for (int64_t k = 0; k < n && *finite; k++) {
            *finite = isfinite(c->moved[k]);
        }
    }
    return SM_OK;
}

// The scaler's initial scale may be too large, so that the step would be skipped. Then the scale is lowered, as the
// scaler would do, and the gradients are computed again.
static sm_status settle_scale(checker *c) {
    const sm_plan *plan = c->session->plan;
    bool finite = false;
    SM_TRY(sm_session_loss_scale(c->session, &c->scale));
    if (plan->scaler == SM_NO_TENSOR) {
        return SM_OK;
    }
    SM_TRY(are_finite(c, &finite));
    while (!finite && plan->scaling.backoff < 1 && c->scale > 1) {
        c->scale *= plan->scaling.backoff;
        SM_TRY(sm_session_write_part(c->session, plan->scaler, SM_SCALER_SCALE, 1, &(float){(float)c->scale}));
        c->session->n_micro_steps -= (uint64_t)c->n_accum;
        for (int i = 0; i < c->n_accum; i++) {
            const unsigned more = (i == 0 ? SM_RUN_ZERO_GRAD : 0u) | (i + 1 < c->n_accum ? SM_RUN_MORE : 0u);
            SM_TRY(c->feed(c->ctx, c->session, i));
            SM_TRY(sm_session_run(c->session, more | SM_RUN_FORWARD | SM_RUN_BACKWARD, NULL));
        }
        SM_TRY(sm_exchange_complete(c->session->exchange, c->session->executable, true));
        SM_TRY(are_finite(c, &finite));
    }
    SM_FAIL_IF(!finite, SM_ERR_MISMATCH, "wrong gradient: not finite at a loss scale of %g; no speed is reported%s",
               c->scale, plan->scaling.backoff < 1 ? "" : "; use --loss-scale dynamic, or a smaller one");
    return SM_OK;
}

static int n_directions(const checker *c) {
    const sm_plan *plan = c->session->plan;
    const sm_range forward = sm_plan_range(plan, SM_PHASE_FORWARD);
    double flops = 1;
    for (int i = forward.first; i < forward.end; i++) {
        flops += 2.0 * c->n_accum * sm_op_flops(plan, &plan->ops[i]);
    }
    return flops * MAX_DIRECTIONS <= enough_flops ? MAX_DIRECTIONS
           : flops < enough_flops                 ? (int)(enough_flops / flops)
                                                  : 1;
}

// Keeps the direction with the largest error relative to its tolerance.
static sm_status try_directions(checker *c, sm_gradient_check *worst) {
    double loss = 0;
    const int n = n_directions(c);
    SM_TRY(read_losses(c, c->here, &loss));
    do {
        sm_gradient_check tried = {.tolerance = c->limit->tolerance};
        const uint64_t key = sm_philox_key((uint64_t)c->direction, "gradient check");
        for (int i = 0; i < N_SIGNS + BLOCK_COLUMNS; i++) {
            c->signs[i] = sm_philox4x32(key, (uint64_t)i, 0).word[0] % 2 == 0 ? 1 : -1;
        }
        sm_status status = try_sizes(c, loss, &tried);
        const bool worse = !(tried.error / tried.tolerance <= worst->error / worst->tolerance);
        if (c->direction++ == 0 || worse || status != SM_OK) {
            *worst = tried;
        }
        SM_TRY(status);
    } while (c->direction < n && worst->tells);
    return SM_OK;
}

sm_status sm_check_gradients(sm_session *session, int n_accum, sm_feed feed, void *ctx, sm_gradient_check *result) {
    SM_AT_END(release) checker c = {.session = session, .n_accum = n_accum, .feed = feed, .ctx = ctx};
    c.limit = sm_precision_is_rounded(sm_plan_precision(session->plan)) ? &limits_rounded : &limits_f32;
    *result = (sm_gradient_check){.tolerance = c.limit->tolerance};
    if (session->plan->products == SM_PRODUCTS_FP8) {
        snprintf(result->how, sizeof result->how,
                 "nothing shown, as rounding weights to 8 bits drowns steps along the gradient: not tried");
        return SM_OK;
    }
    sm_status status = allocate(&c);
    touch(c.values, status == SM_OK ? c.n_values : 0);
    status = status == SM_OK ? settle_scale(&c) : status;
    status = status == SM_OK ? try_directions(&c, result) : status;
    snprintf(result->how, sizeof result->how, "%s%lld columns of %d parameters moved in %d direction%s, %d forwards",
             result->tells || status != SM_OK ? "" : "nothing shown, as rounding drowns the difference: ",
             (long long)c.n_columns, c.n_parameters, c.direction, c.direction == 1 ? "" : "s", c.n_forwards);
    return status;
}

sm_status sm_poison_gradients(sm_session *session) {
    SM_AT_END(release) checker c = {.session = session, .n_accum = 1};
    SM_TRY(allocate(&c));
    for (int64_t i = 0; i < c.n_largest; i++) {
        c.moved[i] = NAN;
    }
    for (const piece *p = c.pieces; p < c.pieces + c.n_pieces; p++) {
        SM_TRY(sm_session_write_part(session, p->gradient, p->first_elem, p->rows * p->cols, c.moved));
    }
    return SM_OK;
}
