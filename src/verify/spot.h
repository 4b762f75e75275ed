// spot.h: shared by the checks of spot_check.h, and private to them.
#ifndef STEPMARK_SPOT_H
#define STEPMARK_SPOT_H

#include "src/session/session.h"

enum { SPOT_MAX_KEPT = 48 };
enum { SPOT_FEW_ELEMS = 1 << 17 }; // not worth waking other threads for

// One look at one op.
typedef struct {
    sm_session *session;
    const sm_plan *plan;
    sm_op op;                  // as it is executed: sm_op_later where this is not its step's first micro-batch
    uint64_t key;              // of the draws of this check
    uint64_t n_drawn;          //
    void *kept[SPOT_MAX_KEPT]; // memory of this look, freed after it
    int n_kept;
    void *state; // from `before`, for `after`

    int64_t n_values;    // compared
    bool is_infinite;    // one of them is not finite
    double error;        // largest difference relative to the allowed one
    const char *operand; // of which output
} spot;

typedef struct {
    sm_status (*before)(spot *s); // NULL: nothing is to be read before the op runs
    sm_status (*after)(spot *s);
} spot_look;

extern const spot_look spot_rows, spot_whole;     // spot_rows.c: by the reference backend
extern const spot_look spot_product, spot_weight; // spot_product.c
extern const spot_look spot_zero, spot_sqnorm, spot_dropout, spot_column_sums, spot_head_sums, spot_embedding,
    spot_embedding_backward;                                    // spot_sums.c
extern const spot_look spot_attention, spot_attention_backward; // spot_attention.c

// Zeroed memory until the look ends; NULL, with the message set, when there is none.
void *spot_memory(spot *s, size_t n, size_t size_bytes);

// A random number in [0, n).
int64_t spot_draw(spot *s, int64_t n);
// n +1s and -1s.
void spot_signs(spot *s, int64_t n, float *signs);
// n numbers of [0, total), ascending, one of each nth part of it: rows drawn so are of all sequences and of every
// quarter of T where n is at least four times the sequences. All of them where there are no more than n.
int64_t spot_strata(spot *s, int64_t total, int64_t n, int64_t *places);
// How many rows of an op to draw.
int64_t spot_n_rows(const spot *s, int64_t total);

const sm_tensor *spot_in(const spot *s, int k);  // NULL where it is left out
const sm_tensor *spot_out(const spot *s, int k); //
int64_t spot_elems(const sm_tensor *t);          // 0 of NULL

// Elements of an operand, widened; of an integer one as they are (spot_read_ids).
sm_status spot_read(spot *s, int tensor, int64_t first, int64_t n, float *values);
// The same in `room`, or where they lie.
sm_status spot_find(spot *s, int tensor, int64_t first, int64_t n, float *room, const float **values);
sm_status spot_read_ids(spot *s, int tensor, int64_t first, int64_t n, int32_t *ids);
sm_status spot_read_all_ids(spot *s, int tensor, int32_t **ids); // memory of the look

// One number: `got` differs from `want` by no more than `allowed`? NaN never does.
static inline void spot_compare(spot *s, const char *operand, double got, double want, double allowed) {
    const double difference = got == want ? 0 : got > want ? got - want : want - got;
    const double error = difference / (allowed + 1e-37);
    s->n_values++;
    s->is_infinite |= !(difference < 1e300);
    if (!(error <= s->error)) {
        s->error = error;
        s->operand = operand;
    }
}

// Unit roundoff of the tensor's format; and the error of storing a number, which below the format's normal numbers is
// an absolute one.
double spot_roundoff(const sm_tensor *t);
double spot_store_error(const sm_tensor *t, double value);
// How far rounding moves a sum of n products, relative to the root of the sum of their squares plus the sum itself
// (which is the larger where all have one sign): of f32 arithmetic in any order, with the products' own format.
double spot_sum_roundoff(const spot *s, int64_t n);
// The same of sums of plain numbers.
double spot_plain_roundoff(int64_t n);

#endif
