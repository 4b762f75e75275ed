// spot.c: what all spot checks share: memory, draws, operands, tolerances.
#include "src/verify/spot.h"

#include "philox.h"
#include "src/verify/verify.h"

void *spot_memory(spot *s, int64_t n, size_t size_bytes) {
    SM_GROW(s->kept, s->n_kept, s->kept_capacity);
    return s->kept[s->n_kept++] = sm_calloc(n > 0 ? (size_t)n : 1, size_bytes);
}

int64_t spot_draw(spot *s, int64_t n) {
    const sm_philox_block block = sm_philox4x32(s->key, s->n_drawn++, 0);
    return (int64_t)(((uint64_t)block.word[0] << 31 | block.word[1] >> 1) % (uint64_t)n);
}

void spot_signs(spot *s, int64_t n, float *signs) {
    for (int64_t i = 0; i < n; i += 128) {
        const sm_philox_block block = sm_philox4x32(s->key, s->n_drawn++, 0);
        for (int64_t k = i; k < n && k < i + 128; k++) {
            signs[k] = block.word[(k - i) / 32] >> (k % 32) & 1 ? 1 : -1;
        }
    }
}

int64_t spot_strata(spot *s, int64_t total, int64_t n, int64_t *places) {
    n = n < total ? n : total;
    for (int64_t i = 0; i < n; i++) {
        const int64_t first = i * total / n;
        places[i] = first + spot_draw(s, (i + 1) * total / n - first);
    }
    return n;
}

int64_t spot_n_rows(const spot *s, int64_t total) {
    enum { LEAST = 16, MOST = 128 };
    const int64_t n = 4 * s->plan->B < LEAST ? LEAST : 4 * s->plan->B > MOST ? MOST : 4 * s->plan->B;
    return n < total ? n : total;
}

const sm_tensor *spot_operand(const spot *s, int k) {
    return s->op.operands[k] == SM_NO_TENSOR ? NULL : &s->plan->tensors[s->op.operands[k]];
}

const sm_tensor *spot_in(const spot *s, int k) { return spot_operand(s, k); }
const sm_tensor *spot_out(const spot *s, int k) { return spot_operand(s, SM_MAX_IN + k); }
int64_t spot_elems(const sm_tensor *t) { return t == NULL ? 0 : sm_tensor_elems(t); }

sm_status spot_read(spot *s, int tensor, int64_t first, int64_t n, float *values) {
    return sm_session_read_part(s->session, tensor, first, n, values);
}

sm_status spot_find(spot *s, int tensor, int64_t first, int64_t n, float *room, const float **values) {
    const float *whole;
    SM_TRY(sm_session_find(s->session, tensor, &whole));
    *values = whole != NULL ? whole + first : room;
    return whole != NULL ? SM_OK : spot_read(s, tensor, first, n, room);
}

sm_status spot_read_ids(spot *s, int tensor, int64_t first, int64_t n, int32_t *ids) {
    return s->session->device->backend->download(s->session->executable, tensor, first, n, ids);
}

sm_status spot_read_all_ids(spot *s, int tensor, int32_t **ids) {
    const int64_t n = sm_tensor_elems(&s->plan->tensors[tensor]);
    return spot_read_ids(s, tensor, 0, n, SPOT_NEW(s, *ids, n));
}

void spot_add_error(spot_mean *m, double error, double unit) {
    m->squares += unit > 0x1p-126 ? error / unit * (error / unit) : 0;
    m->n++;
}

void spot_compare_mean(spot *s, const char *operand, const spot_mean *m) {
    const double n = (double)m->n;
    if (m->n > 0 && s->plan->dtype == SM_F32 && s->plan->products == SM_PRODUCTS_PLAIN) {
        spot_compare(s, operand, sqrt(m->squares / n), 0, (1 + 4 / sqrt(n)) / 2);
    }
}

double spot_roundoff(const sm_tensor *t) { return sm_dtype_format(t->dtype)->unit_roundoff; }

double spot_store_error(const sm_tensor *t, double value) {
    return spot_roundoff(t) * (fabs(value) + sm_dtype_format(t->dtype)->least_normal);
}

double spot_plain_roundoff(int64_t n) { return 8 * 0x1p-24 * (4 + sqrt((double)n)); }

// Matrix units round a growing sum less carefully than f32 arithmetic; an operand in tf32 is off by a unit roundoff.
double spot_sum_roundoff(const spot *s, int64_t n) {
    const bool is_narrow = sm_dtype_is_narrow(s->plan->dtype);
    const bool is_tf32 = s->plan->products == SM_PRODUCTS_TF32;
    return sm_verify_cut(&s->op, n) + (is_narrow || is_tf32 ? 4 : 1) * spot_plain_roundoff(n) +
           (is_tf32 ? 8 * sm_precision_roundoff(sm_plan_precision(s->plan)) : 0);
}
