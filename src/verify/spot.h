// spot.h: shared by the checks of spot_check.h, and private to them.
#pragma once

#include "src/verify/step_checks.h"

enum { SPOT_FEW_ELEMS = 1 << 17 }; // below this, waking other threads costs more than it saves

// One check of one op.
typedef struct {
    sm_session *session;
    const sm_plan *plan;
    sm_op op;     // as executed: sm_op_later if this is not the step's first micro-batch
    uint64_t key; // of this check's draws
    uint64_t n_drawn;
    void **kept; // memory, freed after the check
    int n_kept, kept_capacity;
    void *state;                // from `before`, for `after`
    uint64_t inputs[SM_MAX_IN]; // digests of inputs that the op must not write to; 0: none

    int64_t n_values;    // compared so far
    bool is_infinite;    // one of them is not finite
    double error;        // largest difference relative to the tolerance
    const char *operand; // the output where it occurred
} spot;

typedef struct {
    sm_status (*before)(spot *s); // NULL: nothing to read before the op runs
    sm_status (*after)(spot *s);
} spot_look;

extern const spot_look spot_rows, spot_whole;                // spot_rows.c: with the reference backend
extern const spot_look spot_product, spot_weight, spot_cast; // spot_product.c
extern const spot_look spot_zero, spot_sqnorm, spot_dropout, spot_column_sums, spot_head_sums, spot_embedding,
    spot_embedding_backward;                                    // spot_sums.c
extern const spot_look spot_attention, spot_attention_backward; // spot_attention.c

// Zeroed memory until the end of the check: room for n elements at *variable.
#define SPOT_NEW(s, variable, n) ((variable) = spot_memory((s), (n), sizeof *(variable)))
void *spot_memory(spot *s, int64_t n, size_t size_bytes);

static inline int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

// A random number in [0, n).
int64_t spot_draw(spot *s, int64_t n);
// n +1s and -1s.
void spot_signs(spot *s, int64_t n, float *signs);
// n ascending numbers of [0, total), one from each nth part: such rows cover all sequences, and every quarter of T if n
// is at least four times the number of sequences. All numbers if there are at most n.
int64_t spot_strata(spot *s, int64_t total, int64_t n, int64_t *places);
// The number of rows to draw for an op.
int64_t spot_n_rows(const spot *s, int64_t total);

const sm_tensor *spot_operand(const spot *s, int k); // of sm_op.operands; NULL if left out
const sm_tensor *spot_in(const spot *s, int k);
const sm_tensor *spot_out(const spot *s, int k);
int64_t spot_elems(const sm_tensor *t); // 0 for NULL

// Elements of an operand, widened; integers unchanged (spot_read_ids).
sm_status spot_read(spot *s, int tensor, int64_t first, int64_t n, float *values);
// The same, copied to `room` or in place.
sm_status spot_find(spot *s, int tensor, int64_t first, int64_t n, float *room, const float **values);
sm_status spot_read_ids(spot *s, int tensor, int64_t first, int64_t n, int32_t *ids);
sm_status spot_read_all_ids(spot *s, int tensor, int32_t **ids); // in memory of the check

// Checks that `got` differs from `want` by at most `allowed`; NaN never does.
static inline void spot_compare(spot *s, const char *operand, double got, double want, double allowed) {
    const double difference = got == want ? 0 : got > want ? got - want : want - got;
    const double error = difference / (allowed + 1e-37);
    s->n_values++;
    s->is_infinite |= !(difference < 1e300 && allowed < 1e300);
    if (sm_error_is_larger(error, s->error)) {
        s->error = error;
        s->operand = operand;
    }
}

// The precision of many f32 numbers together: one error may be several times the usual one, the root of the mean square
// of all is not. `unit`: twice the largest such root, as operands rounded to fewer bits have a larger one.
typedef struct {
    double squares; // of errors in units
    int64_t n;
} spot_mean;
void spot_add_error(spot_mean *m, double error, double unit);
void spot_compare_mean(spot *s, const char *operand, const spot_mean *m); // of plans in f32 with f32's products

// Unit roundoff of the tensor's format; and the error of storing a number, absolute below the normal numbers.
double spot_roundoff(const sm_tensor *t);
double spot_store_error(const sm_tensor *t, double value);
// The effect of rounding on a sum of n products, relative to the root of the sum of their squares plus the sum itself
// (which dominates if all have one sign): f32 arithmetic in any order, with the products' own format.
double spot_sum_roundoff(const spot *s, int64_t n);
// The same for sums without products.
double spot_plain_roundoff(int64_t n);
