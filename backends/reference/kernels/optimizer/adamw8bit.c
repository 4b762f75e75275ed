// adamw8bit.c: AdamW with 8-bit moments (Dettmers et al. 2022): codes (dynamic_map.h), times a block's largest value.
#include "dynamic_map.h"
#include "backends/reference/ref.h"

enum { BLOCK = SM_QUANT_BLOCK };

// Code of the map's number nearest to x.
static uint8_t nearest(const double *map, double x) {
    int best = 0;
    for (int code = 1; code < SM_QUANT_CODES; code++) {
        best = fabs(map[code] - x) < fabs(map[best] - x) ? code : best;
    }
    return (uint8_t)best;
}

static void read_block(const double *map, const uint8_t *code, real max, int64_t n, real *x) {
    for (int64_t i = 0; i < n; i++) {
        x[i] = (real)(map[code[i]] * (double)max);
    }
}

static void write_block(const double *map, int64_t n, const real *x, uint8_t *code, real *max) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        const double magnitude = fabs((double)x[i]);
        largest = magnitude > largest ? magnitude : largest;
    }
    *max = (real)largest;
    for (int64_t i = 0; i < n; i++) {
        code[i] = nearest(map, largest > 0 ? (double)x[i] / largest : 0);
    }
}

// g, p (n); codes m, v (n) and the largest of their blocks, m_max, v_max.
void REF(adamw8bit)(int64_t n, bool decay, const real *g, const real *hyper, const real *clip, real *p, uint8_t *m,
                    uint8_t *v, real *m_max, real *v_max) {
    double m_map[SM_QUANT_CODES];
    double v_map[SM_QUANT_CODES];
    real m_wide[BLOCK];
    real v_wide[BLOCK];
    for (int code = 0; code < SM_QUANT_CODES; code++) {
        m_map[code] = sm_quant_value(true, code);
        v_map[code] = sm_quant_value(false, code);
    }
    for (int64_t first = 0; first < n; first += BLOCK) {
        const int64_t block = first / BLOCK;
        const int64_t n_here = n - first < BLOCK ? n - first : BLOCK;
        read_block(m_map, m + first, m_max[block], n_here, m_wide);
        read_block(v_map, v + first, v_max[block], n_here, v_wide);
        REF(adamw)(n_here, decay, g + first, hyper, clip, p + first, m_wide, v_wide);
        write_block(m_map, n_here, m_wide, m + first, &m_max[block]);
        write_block(v_map, n_here, v_wide, v + first, &v_max[block]);
    }
}
