// attention_local.cl: causal multi-head attention (Vaswani et al. 2017, equation 1) for cards: a work-item
// owns one row of a head, in registers; a work-group's rows share tiles of the other operand in local
// memory. T x T is never stored, unless the op asks for the weights (Dao et al. 2022).
//
//   s = q k^T / sqrt(HS) over keys s <= t;  lse = log sum exp(s);  att = exp(s - lse);  y = dropout(att) v
//   D = sum_s att dropout(dy v^T) = sum_c dy y;  ds = att (dropout(dy v^T) - D)
//   dv = dropout(att)^T dy;  dq = ds k / sqrt(HS);  dk = ds^T q / sqrt(HS)
//
// A row of qkv (B,T,3C) holds q (C), k (C), v (C) of one token; head h has the channels h*HS .. of each.
// y, dy (B,T,C); lse, D (B,NH,T); att (B,NH,T,T). HS is fixed when the kernel is compiled.
//
//     keys |<-TILE->|<-TILE->|<-TILE->       forward and dq: a group of ROWS rows walks the tiles of keys left to
//   rows   +--------+                        right, to the diagonal. dk and dv: a group of ROWS keys walks the
//   ROWS   |########|\                       tiles of rows from the diagonal down.
//          +--------+--------+
//   ROWS   |########|########|\              #: whole tiles, \: the tile on the diagonal, masked

#ifndef HS
#define HS 64 // channels of a head
#endif
#ifndef ROWS
#define ROWS 64 // work-items of a work-group
#endif
#ifndef TILE
#define TILE 32 // rows in local memory at a time
#endif
#ifndef STEP
#define STEP 8 // scores at a time: the result is rescaled once for all of them
#endif

// The row of this work-item, and where its sequence begins.
typedef struct {
    ulong t, T, C;
    ulong head_row;    // of [b,h,0] among rows of lse
    ulong first_token; // b T
    ulong channel;     // h HS
} place;

static inline place find_place(ulong T, ulong NH) {
    place p;
    const ulong head = get_group_id(1);
    p.t = get_global_id(0);
    p.T = T;
    p.C = NH * HS;
    p.head_row = row_start(head, T);
    p.first_token = head / NH * T;
    p.channel = head % NH * HS;
    return p;
}

// Where token t's channels begin: in qkv (q; k and v follow after C and 2 C), and in y.
static inline ulong qkv_start(const place *p, ulong t) { return row_start(p->first_token + t, 3 * p->C) + p->channel; }
static inline ulong y_start(const place *p, ulong t) { return row_start(p->first_token + t, p->C) + p->channel; }

// All items: TILE rows of HS channels to local memory, zeros beyond T.
static inline void stage(const global float *from, ulong ld, ulong n_rows, local float *tile) {
    for (uint e = (uint)get_local_id(0); e < TILE * HS; e += ROWS) {
        tile[e] = e / HS < n_rows ? from[row_start(e / HS, ld) + e % HS] : 0.0f;
    }
}

static inline void load_head(const global float *from, float factor, float x[HS]) {
#pragma unroll
    for (uint i = 0; i < HS; i++) {
        x[i] = factor * from[i];
    }
}

static inline void store_head(const float x[HS], float factor, global float *to) {
#pragma unroll
    for (uint i = 0; i < HS; i++) {
        to[i] = factor * x[i];
    }
}

static inline float dot_head(const float x[HS], const local float *with) {
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}; // four chains hide the latency
#pragma unroll
    for (uint i = 0; i < HS; i++) {
        sum[i % 4] = multiply_add(x[i], with[i], sum[i % 4]);
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static inline void add_head(float factor, const local float *from, float x[HS]) {
#pragma unroll
    for (uint i = 0; i < HS; i++) {
        x[i] = multiply_add(factor, from[i], x[i]);
    }
}

// Dropout of the weights: drawn only where threshold > 0.
typedef struct {
    ulong key, step;
    uint threshold;
    float scale;
} mask;

static inline mask make_mask(ulong key, uint threshold, float scale, const global uint *rng_step) {
    mask m;
    m.key = key;
    m.threshold = threshold;
    m.scale = scale;
    m.step = threshold > 0 ? micro_step(rng_step) : 0;
    return m;
}

static inline float keep(const mask *m, const place *p, ulong t, ulong s) {
    const ulong element = row_start(p->head_row + t, p->T) + s;
    return m->threshold == 0 ? 1.0f : keep_factor(m->key, m->step, element, m->threshold, m->scale);
}

kernel __attribute__((reqd_work_group_size(ROWS, 1, 1))) void
attention_forward(ulong T, ulong NH, ulong key, uint threshold, float drop_scale, const global float *qkv, ulong qkv_at,
                  const global uint *rng_step, ulong rng_step_at, global float *y, ulong y_at, global float *lse,
                  ulong lse_at) {
    local float keys[TILE * HS] __attribute__((aligned(16)));
    local float values[TILE * HS] __attribute__((aligned(16)));
    const place p = find_place(T, NH);
    const mask drop = make_mask(key, threshold, drop_scale, rng_step + rng_step_at);
    const ulong n_keys = min(T, (get_group_id(0) + 1) * (ulong)ROWS); // that any row of the group sees
    float q[HS];
    float result[HS];
#pragma unroll
    for (uint i = 0; i < HS; i++) {
        q[i] = 0.0f;
        result[i] = 0.0f;
    }
    if (p.t < T) {
        load_head(qkv + qkv_at + qkv_start(&p, p.t), 1.0f / sqrt((float)HS), q);
    }
    float largest = -INFINITY;
    float total = 0.0f;
    for (ulong first = 0; first < n_keys; first += TILE) {
        const global float *k = qkv + qkv_at + qkv_start(&p, first) + p.C;
        barrier(CLK_LOCAL_MEM_FENCE);
        stage(k, 3 * p.C, T - first, keys);
        stage(k + p.C, 3 * p.C, T - first, values);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint j = 0; j < TILE && first + j <= p.t && p.t < T; j += STEP) {
            float weight[STEP];
            float larger = largest;
#pragma unroll
            for (uint i = 0; i < STEP; i++) {
                weight[i] = first + j + i <= p.t ? dot_head(q, keys + (j + i) * HS) : -INFINITY;
                larger = fmax(larger, weight[i]);
            }
            const float shrink = exp(largest - larger);
            largest = larger;
            total *= shrink;
#pragma unroll
            for (uint i = 0; i < HS; i++) {
                result[i] *= shrink;
            }
#pragma unroll
            for (uint i = 0; i < STEP; i++) {
                const float w = exp(weight[i] - larger);
                total += w;
                add_head(w * keep(&drop, &p, p.t, first + j + i), values + (j + i) * HS, result);
            }
        }
    }
    if (p.t < T) {
        store_head(result, 1.0f / total, y + y_at + y_start(&p, p.t));
        lse[lse_at + p.head_row + p.t] = largest + log(total);
    }
}

// att[t,s] = exp(s - lse), or 0 for s > t: an item a weight, items side by side along s.
kernel void attention_weights(ulong T, ulong NH, const global float *qkv, ulong qkv_at, const global float *lse,
                              ulong lse_at, global float *att, ulong att_at) {
    place p = find_place(T, NH);
    const ulong s = get_global_id(0);
    if (s >= T) {
        return;
    }
    const float scale = 1.0f / sqrt((float)HS);
    const global float *k = qkv + qkv_at + qkv_start(&p, s) + p.C;
    for (ulong t = 0; t < T; t++) {
        float score = 0.0f;
        if (s <= t) {
            const global float *q = qkv + qkv_at + qkv_start(&p, t);
            for (uint i = 0; i < HS; i++) {
                score = multiply_add(q[i], k[i], score);
            }
        }
        const float weight = s <= t ? exp(score * scale - lse[lse_at + p.head_row + t]) : 0.0f;
        att[att_at + row_start(p.head_row + t, T) + s] = weight;
    }
}

// One weight: as stored, or computed again from lse.
static inline float weight_at(uint stored, const global float *lse, const place *p, ulong t, ulong s, float score) {
    return stored ? lse[row_start(p->head_row + t, p->T) + s] : exp(score - lse[p->head_row + t]);
}

// D: from y where there is one, else from the stored weights.
kernel void attention_backward_sums(uint stored, ulong T, ulong NH, ulong key, uint threshold, float drop_scale,
                                    const global float *dy, ulong dy_at, const global float *qkv, ulong qkv_at,
                                    const global float *lse, ulong lse_at, const global uint *rng_step,
                                    ulong rng_step_at, const global float *y, ulong y_at, global float *D, ulong D_at) {
    const place p = find_place(T, NH);
    if (p.t >= T) {
        return;
    }
    const mask drop = make_mask(key, threshold, drop_scale, rng_step + rng_step_at);
    const global float *dyt = dy + dy_at + y_start(&p, p.t);
    float sum = 0.0f;
    if (!stored) {
        for (uint i = 0; i < HS; i++) {
            sum = multiply_add(dyt[i], y[y_at + y_start(&p, p.t) + i], sum);
        }
    }
    for (ulong s = 0; stored && s <= p.t; s++) {
        const global float *v = qkv + qkv_at + qkv_start(&p, s) + 2 * p.C;
        float da = 0.0f;
        for (uint i = 0; i < HS; i++) {
            da = multiply_add(dyt[i], v[i], da);
        }
        sum += weight_at(stored, lse + lse_at, &p, p.t, s, 0.0f) * keep(&drop, &p, p.t, s) * da;
    }
    D[D_at + p.head_row + p.t] = sum;
}

kernel __attribute__((reqd_work_group_size(ROWS, 1, 1))) void
attention_backward_rows(uint stored, ulong T, ulong NH, ulong key, uint threshold, float drop_scale,
                        const global float *dy, ulong dy_at, const global float *qkv, ulong qkv_at,
                        const global float *lse, ulong lse_at, const global uint *rng_step, ulong rng_step_at,
                        const global float *D, ulong D_at, global float *dqkv, ulong dqkv_at) {
    local float keys[TILE * HS] __attribute__((aligned(16)));
    local float values[TILE * HS] __attribute__((aligned(16)));
    const place p = find_place(T, NH);
    const mask drop = make_mask(key, threshold, drop_scale, rng_step + rng_step_at);
    const ulong n_keys = min(T, (get_group_id(0) + 1) * (ulong)ROWS);
    const float scale = 1.0f / sqrt((float)HS);
    float q[HS];
    float dyt[HS];
    float dq[HS];
#pragma unroll
    for (uint i = 0; i < HS; i++) {
        q[i] = dyt[i] = dq[i] = 0.0f;
    }
    float sum = 0.0f;
    if (p.t < T) {
        load_head(qkv + qkv_at + qkv_start(&p, p.t), scale, q);
        load_head(dy + dy_at + y_start(&p, p.t), 1.0f, dyt);
        sum = D[D_at + p.head_row + p.t];
    }
    for (ulong first = 0; first < n_keys; first += TILE) {
        const global float *k = qkv + qkv_at + qkv_start(&p, first) + p.C;
        barrier(CLK_LOCAL_MEM_FENCE);
        stage(k, 3 * p.C, T - first, keys);
        stage(k + p.C, 3 * p.C, T - first, values);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint j = 0; j < TILE && first + j <= p.t && p.t < T; j++) {
            const ulong s = first + j;
            const float att = weight_at(stored, lse + lse_at, &p, p.t, s, stored ? 0.0f : dot_head(q, keys + j * HS));
            const float da = keep(&drop, &p, p.t, s) * dot_head(dyt, values + j * HS);
            add_head(att * (da - sum), keys + j * HS, dq);
        }
    }
    if (p.t < T) {
        store_head(dq, scale, dqkv + dqkv_at + qkv_start(&p, p.t));
    }
}

// dk or dv of this item's key: two kernels, so that what one needs fits in registers.
static inline void gather_for_key(int for_values, const place *p, const mask *drop, uint stored,
                                  const global float *dy, const global float *qkv, const global float *lse,
                                  const global float *D, local float *rows, local float *drows, global float *dqkv) {
    const float scale = 1.0f / sqrt((float)HS);
    float k[HS];
    float v[HS];
    float sum[HS];
#pragma unroll
    for (uint i = 0; i < HS; i++) {
        k[i] = v[i] = sum[i] = 0.0f;
    }
    if (p->t < p->T) {
        load_head(qkv + qkv_start(p, p->t) + p->C, scale, k);
        load_head(qkv + qkv_start(p, p->t) + 2 * p->C, 1.0f, v);
    }
    for (ulong first = get_group_id(0) * (ulong)ROWS / TILE * TILE; first < p->T; first += TILE) {
        barrier(CLK_LOCAL_MEM_FENCE);
        stage(qkv + qkv_start(p, first), 3 * p->C, p->T - first, rows);
        stage(dy + y_start(p, first), p->C, p->T - first, drows);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint j = 0; j < TILE && first + j < p->T; j++) {
            const ulong t = first + j;
            if (t < p->t) {
                continue;
            }
            const float att = weight_at(stored, lse, p, t, p->t, stored ? 0.0f : dot_head(k, rows + j * HS));
            const float kept = keep(drop, p, t, p->t);
            if (for_values) {
                add_head(att * kept, drows + j * HS, sum);
            } else {
                add_head(att * (kept * dot_head(v, drows + j * HS) - D[p->head_row + t]), rows + j * HS, sum);
            }
        }
    }
    if (p->t < p->T) {
        store_head(sum, for_values ? 1.0f : scale, dqkv + qkv_start(p, p->t) + (for_values ? 2 : 1) * p->C);
    }
}

kernel __attribute__((reqd_work_group_size(ROWS, 1, 1))) void
attention_backward_keys(uint stored, ulong T, ulong NH, ulong key, uint threshold, float drop_scale,
                        const global float *dy, ulong dy_at, const global float *qkv, ulong qkv_at,
                        const global float *lse, ulong lse_at, const global uint *rng_step, ulong rng_step_at,
                        const global float *D, ulong D_at, global float *dqkv, ulong dqkv_at) {
    local float rows[TILE * HS] __attribute__((aligned(16)));
    local float drows[TILE * HS] __attribute__((aligned(16)));
    const place p = find_place(T, NH);
    const mask drop = make_mask(key, threshold, drop_scale, rng_step + rng_step_at);
    gather_for_key(0, &p, &drop, stored, dy + dy_at, qkv + qkv_at, lse + lse_at, D + D_at, rows, drows, dqkv + dqkv_at);
}

kernel __attribute__((reqd_work_group_size(ROWS, 1, 1))) void
attention_backward_values(uint stored, ulong T, ulong NH, ulong key, uint threshold, float drop_scale,
                          const global float *dy, ulong dy_at, const global float *qkv, ulong qkv_at,
                          const global float *lse, ulong lse_at, const global uint *rng_step, ulong rng_step_at,
                          const global float *D, ulong D_at, global float *dqkv, ulong dqkv_at) {
    local float rows[TILE * HS] __attribute__((aligned(16)));
    local float drows[TILE * HS] __attribute__((aligned(16)));
    const place p = find_place(T, NH);
    const mask drop = make_mask(key, threshold, drop_scale, rng_step + rng_step_at);
    gather_for_key(1, &p, &drop, stored, dy + dy_at, qkv + qkv_at, lse + lse_at, D + D_at, rows, drows, dqkv + dqkv_at);
}
