// attention_registers.cl: causal multi-head attention (Vaswani et al. 2017, equation 1) for processors: a
// work-item owns one row of a head, in vector registers. T x T is never stored, unless the op asks for
// the weights (Dao et al. 2022).
//
//   s = q k^T / sqrt(HS) over keys s <= t;  lse = log sum exp(s);  att = exp(s - lse);  y = dropout(att) v
//   D = sum_s att dropout(dy v^T) = sum_c dy y;  ds = att (dropout(dy v^T) - D)
//   dv = dropout(att)^T dy;  dq = ds k / sqrt(HS);  dk = ds^T q / sqrt(HS)
//
// A row of qkv (B,T,(NH+2NKV)HS) holds NH heads of q, NKV of k and NKV of v, of one token; NH/NKV heads of q, side by
// side, share one of k and v. y, dy (B,T,C); lse, D (B,NH,T); att (B,NH,T,T), or blocks of rows of it; `kept` is att or
// lse. HS is fixed when the kernel is compiled. With documents (starts (B,T)) row t's keys begin with starts[t].
//
//     keys 0 1 2 3 4 5        forward and dq: the item of row t walks its keys left to right, VECTOR at a
//   rows 0 x                  time; forward keeps the largest score, the sum and the result so far.
//        1 x x                dk and dv: the item of key s walks the rows from s down, likewise.
//        2 x x x
//        3 x x x x  <- item

#ifndef HS
#define HS 64 // channels of a head
#endif
#define HEAD_VECS ((HS + VECTOR - 1) / VECTOR)

// The row of this work-item: token t of head h of sequence b.
typedef struct {
    ulong t, row;     // of [b,h,t] among rows
    ulong head;       // b NH + h
    ulong start;      // the first key that it sees
    const global int *starts; // (T), of its sequence
    ulong q, k, v, y; // where its channels begin in qkv and in y
    ulong ld;         // elements of a row of qkv
} place;

// head: b NH + h. A row beyond T has no start.
static inline place find_place(ulong head, ulong T, ulong NH, ulong NKV, const global int *starts) {
    place p;
    p.t = get_global_id(0);
    p.head = head;
    p.starts = starts + head / NH * T;
    p.start = p.t < T ? first_key_of(p.starts, p.t) : 0;
    const ulong token = head / NH * T + p.t;
    const ulong h = head % NH;
    p.ld = (NH + 2 * NKV) * HS;
    p.row = row_start(head, T) + p.t;
    p.q = row_start(token, p.ld) + h * HS;
    p.k = row_start(token, p.ld) + (NH + h / (NH / NKV)) * HS;
    p.v = p.k + NKV * HS;
    p.y = row_start(token, NH * HS) + h * HS;
    return p;
}

static inline void load_head(const global data *from, vec x[HEAD_VECS]) {
#pragma unroll
    for (uint i = 0; i < HEAD_VECS; i++) {
        x[i] = load_data_part(from + i * VECTOR, HS - i * VECTOR, 0.0f);
    }
}

static inline void store_head(const vec x[HEAD_VECS], float factor, global data *to) {
#pragma unroll
    for (uint i = 0; i < HEAD_VECS; i++) {
        store_data_part(factor * x[i], to + i * VECTOR, HS - i * VECTOR);
    }
}

static inline float dot_head(const vec x[HEAD_VECS], const global data *with) {
    vec sum = to_vec(0.0f);
#pragma unroll
    for (uint i = 0; i < HEAD_VECS; i++) {
        sum = multiply_add(x[i], load_data_part(with + i * VECTOR, HS - i * VECTOR, 0.0f), sum);
    }
    return sum_of(sum);
}

// x += factor times the head at `from`
static inline void add_head(float factor, const global data *from, vec x[HEAD_VECS]) {
#pragma unroll
    for (uint i = 0; i < HEAD_VECS; i++) {
        x[i] = multiply_add(to_vec(factor), load_data_part(from + i * VECTOR, HS - i * VECTOR, 0.0f), x[i]);
    }
}

static inline float keep(const mask *m, ulong row, ulong T, ulong s) {
    return m->threshold == 0 ? 1.0f : keep_factor(m->key, m->step, row_start(row, T) + s, m->threshold, m->scale);
}

kernel void attention_forward(uint stores_weights, ulong T, ulong NH, ulong NKV, const global int *starts,
                              ulong starts_at, ulong key, uint threshold, float drop_scale,
                              const global data *qkv, ulong qkv_at, const global uint *rng_step, ulong rng_step_at,
                              global data *y, ulong y_at, global void *kept, ulong kept_at) {
    const place p = find_place(get_global_id(1), T, NH, NKV, starts + starts_at);
    if (p.t >= T) {
        return;
    }
    const mask drop = make_mask(key, threshold, drop_scale, rng_step + rng_step_at);
    const float scale = 1.0f / sqrt((float)HS);
    const global data *k = qkv + qkv_at + p.k - row_start(p.t, p.ld);
    const global data *v = qkv + qkv_at + p.v - row_start(p.t, p.ld);
    vec q[HEAD_VECS];
    vec result[HEAD_VECS];
    load_head(qkv + qkv_at + p.q, q);
    for (uint i = 0; i < HEAD_VECS; i++) {
        q[i] *= scale;
        result[i] = to_vec(0.0f);
    }
    float largest = -INFINITY;
    vec sum = to_vec(0.0f);
    for (ulong first = p.start; first <= p.t; first += VECTOR) {
        const uint n_keys = (uint)min((ulong)VECTOR, p.t + 1 - first);
        float scores[VECTOR];
        for (uint j = 0; j < VECTOR; j++) {
            scores[j] = j < n_keys ? dot_head(q, k + row_start(first + j, p.ld)) : -INFINITY;
        }
        const vec score = load(scores);
        const float larger = fmax(largest, largest_of(score));
        const float shrink = exp(largest - larger);
        const vec weight = vec_exp(score - larger);
        largest = larger;
        sum = sum * shrink + weight;
        float weights[VECTOR];
        store(weight, weights);
        for (uint i = 0; i < HEAD_VECS; i++) {
            result[i] *= shrink;
        }
        for (uint j = 0; j < n_keys; j++) {
            add_head(weights[j] * keep(&drop, p.row, T, first + j), v + row_start(first + j, p.ld), result);
        }
    }
    const float total = sum_of(sum);
    const float log_sum = largest + log(total);
    store_head(result, 1.0f / total, y + y_at + p.y);
    if (!stores_weights) {
        ((global float *)kept)[kept_at + p.row] = log_sum;
        return;
    }
    global data *att = (global data *)kept + kept_at + weights_start(p.head, p.t, T);
    for (ulong s = 0; s < weights_width(p.t, T); s++) {
        const bool sees = p.start <= s && s <= p.t;
        att[s] = narrow(sees ? exp(dot_head(q, k + row_start(s, p.ld)) - log_sum) : 0.0f);
    }
}

// D = sum_s att da of this row: sum_c dy y, or, where the weights are stored and y is not at hand, as it is.
static inline float row_sum_of(uint stored, const place *p, ulong T, const mask *drop, const vec dyt[HEAD_VECS],
                               const global data *v, ulong v_row, const global data *att, const global data *y) {
    float sum = 0.0f;
    if (!stored) {
        return dot_head(dyt, y + p->y);
    }
    for (ulong s = p->start; s <= p->t; s++) {
        const float da = keep(drop, p->row, T, s) * dot_head(dyt, v + row_start(s, v_row));
        sum += widen(att[s]) * da;
    }
    return sum;
}

kernel void attention_backward_rows(uint stored, ulong T, ulong NH, ulong NKV, const global int *starts,
                              ulong starts_at, ulong key, uint threshold, float drop_scale,
                                    const global data *dy, ulong dy_at, const global data *qkv, ulong qkv_at,
                                    const global void *kept, ulong kept_at, const global uint *rng_step,
                                    ulong rng_step_at, const global data *y, ulong y_at, global float *D, ulong D_at,
                                    global data *dqkv, ulong dqkv_at) {
    const place p = find_place(get_global_id(1), T, NH, NKV, starts + starts_at);
    if (p.t >= T) {
        return;
    }
    const mask drop = make_mask(key, threshold, drop_scale, rng_step + rng_step_at);
    const float scale = 1.0f / sqrt((float)HS);
    const global data *k = qkv + qkv_at + p.k - row_start(p.t, p.ld);
    const global data *v = qkv + qkv_at + p.v - row_start(p.t, p.ld);
    const global float *lse = (const global float *)kept + kept_at;
    const global data *att = (const global data *)kept + kept_at + weights_start(p.head, p.t, T); // where stored
    vec q[HEAD_VECS];
    vec dyt[HEAD_VECS];
    vec dq[HEAD_VECS];
    load_head(qkv + qkv_at + p.q, q);
    load_head(dy + dy_at + p.y, dyt);
    for (uint i = 0; i < HEAD_VECS; i++) {
        q[i] *= scale;
        dq[i] = to_vec(0.0f);
    }
    const float sum = row_sum_of(stored, &p, T, &drop, dyt, v, p.ld, att, y + y_at);
    const float log_sum = stored ? 0.0f : lse[p.row];
    for (ulong first = p.start; first <= p.t; first += VECTOR) {
        const uint n_keys = (uint)min((ulong)VECTOR, p.t + 1 - first);
        float scores[VECTOR];
        float da[VECTOR];
        for (uint j = 0; j < VECTOR; j++) {
            const ulong at = row_start(first + j, p.ld);
            scores[j] = j < n_keys && !stored ? dot_head(q, k + at) : -INFINITY;
            da[j] = j < n_keys ? keep(&drop, p.row, T, first + j) * dot_head(dyt, v + at) : 0.0f;
        }
        const vec weight = stored ? load_data_part(att + first, n_keys, 0.0f) : vec_exp(load(scores) - log_sum);
        float ds[VECTOR];
        store(weight * (load(da) - sum), ds);
        for (uint j = 0; j < n_keys; j++) {
            add_head(ds[j], k + row_start(first + j, p.ld), dq);
        }
    }
    D[D_at + p.row] = sum;
    store_head(dq, scale, dqkv + dqkv_at + p.q);
}

// dk and dv of the key p->t from the rows of one of the heads that see it.
static inline void gather_rows(uint stored, const place *p, ulong T, ulong C, const mask *drop, const vec k[HEAD_VECS],
                               const vec v[HEAD_VECS], const global data *qkv, const global data *dy,
                               const global float *lse, const global data *att, const global float *D, vec dk[HEAD_VECS],
                               vec dv[HEAD_VECS]) {
    const ulong first_row = p->row - p->t;
    const ulong end = end_of_rows(p->starts, T, p->t);
    for (ulong first = p->t; first < end; first += VECTOR) {
        const uint n_rows = (uint)min((ulong)VECTOR, end - first);
        const global data *q = qkv + p->q + row_start(first - p->t, p->ld);
        const global data *dyt = dy + p->y + row_start(first - p->t, C);
        const ulong row = first_row + first;
        float scores[VECTOR];
        float da[VECTOR];
        float kept[VECTOR];
        for (uint j = 0; j < VECTOR; j++) {
            kept[j] = j < n_rows ? keep(drop, row + j, T, p->t) : 0.0f;
            da[j] = j < n_rows ? kept[j] * dot_head(v, dyt + row_start(j, C)) : 0.0f;
            scores[j] = j >= n_rows ? -INFINITY
                        : stored    ? widen(att[weights_start(p->head, first + j, T) + p->t])
                                    : dot_head(k, q + row_start(j, p->ld));
        }
        vec weight = load(scores);
        if (!stored) {
            weight = vec_exp(weight - load_part(lse + row, n_rows, 0.0f));
        }
        float weights[VECTOR];
        float ds[VECTOR];
        store(weight, weights);
        store(weight * (load(da) - load_part(D + row, n_rows, 0.0f)), ds);
        for (uint j = 0; j < n_rows; j++) {
            add_head(weights[j] * kept[j], dyt + row_start(j, C), dv);
            add_head(ds[j], q + row_start(j, p->ld), dk);
        }
    }
}

// An item a key of a head of k and v.
kernel void attention_backward_keys(uint stored, ulong T, ulong NH, ulong NKV, const global int *starts,
                              ulong starts_at, ulong key, uint threshold,
                                    float drop_scale, const global data *dy, ulong dy_at, const global data *qkv,
                                    ulong qkv_at, const global void *kept, ulong kept_at, const global uint *rng_step,
                                    ulong rng_step_at, const global float *D, ulong D_at, global data *dqkv,
                                    ulong dqkv_at) {
    const ulong first_head = get_global_id(1) * (NH / NKV);
    place p = find_place(first_head, T, NH, NKV, starts + starts_at); // p.t is the key
    if (p.t >= T) {
        return;
    }
    const mask drop = make_mask(key, threshold, drop_scale, rng_step + rng_step_at);
    const float scale = 1.0f / sqrt((float)HS);
    const global float *lse = (const global float *)kept + kept_at;
    const global data *att = (const global data *)kept + kept_at; // where stored
    vec k[HEAD_VECS];
    vec v[HEAD_VECS];
    vec dk[HEAD_VECS];
    vec dv[HEAD_VECS];
    load_head(qkv + qkv_at + p.k, k);
    load_head(qkv + qkv_at + p.v, v);
    for (uint i = 0; i < HEAD_VECS; i++) {
        k[i] *= scale;
        dk[i] = to_vec(0.0f);
        dv[i] = to_vec(0.0f);
    }
    for (ulong head = first_head; head < first_head + NH / NKV; head++) {
        p = find_place(head, T, NH, NKV, starts + starts_at);
        gather_rows(stored, &p, T, NH * HS, &drop, k, v, qkv + qkv_at, dy + dy_at, lse, att, D + D_at, dk, dv);
    }
    store_head(dk, scale, dqkv + dqkv_at + p.k);
    store_head(dv, 1.0f, dqkv + dqkv_at + p.v);
}
