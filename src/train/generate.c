// generate.c: the plan computes logits for every position of the window; the text does not attend to those after it.
#include "src/train/generate.h"
#include "philox.h"

struct sm_generator {
    sm_session *session;
    int logits;
    int64_t window, vocab;
    int32_t *batch; // tokens, then unused targets
    float *row;
};

sm_status sm_generator_open(sm_device *device, const sm_generator_settings *s, sm_generator **generator) {
    const sm_plan_options options = {.B = 1,
                                     .T = s->window,
                                     .dtype = s->precision.dtype,
                                     .products = s->precision.products,
                                     .max_tensor_bytes = device->info.max_alloc_bytes};
    const int loss_head = sm_rewrite_find("loss_head"); // it keeps only a few rows of logits
    SM_OWN(sm_plan) *plan = NULL;
    SM_OWN(sm_generator) *g = sm_calloc(1, sizeof *g);
    *generator = NULL;
    g->window = s->window;
    g->vocab = s->config->vocab;
    g->batch = sm_calloc(2 * (size_t)s->window, sizeof(*g->batch));
    g->row = sm_malloc((size_t)g->vocab * sizeof(*g->row));
    SM_TRY(sm_model_build(s->config, &options, &plan));
    SM_TRY(sm_plan_rewrite(plan, s->mode, loss_head >= 0 ? 1u << loss_head : 0));
    SM_TRY(sm_session_open(device, sm_give(&plan), &g->session));
    g->logits = sm_plan_find_tensor(g->session->plan, "logits");
    SM_FAIL_IF(g->logits == SM_NO_TENSOR, SM_ERR_INTERNAL, "the plan has no logits");
    *generator = sm_give(&g);
    return SM_OK;
}

void sm_generator_close(sm_generator *g) {
    if (g != NULL) {
        sm_session_close(g->session);
        free(g->batch);
        free(g->row);
        free(g);
    }
}

sm_session *sm_generator_session(sm_generator *g) { return g->session; }

sm_status sm_generator_next(sm_generator *g, const int32_t *ids, int64_t n, const sm_sampling *sampling, int32_t *id) {
    const int64_t seen = n < g->window ? n : g->window;
    const int64_t padded = sm_tensor_cols(&g->session->plan->tensors[g->logits]);
    memcpy(g->batch, ids + n - seen, (size_t)seen * sizeof(*ids));
    SM_TRY(sm_session_set_batch(g->session, g->batch, g->batch + g->window));
    SM_TRY(sm_session_run(g->session, SM_RUN_FORWARD, NULL));
    SM_TRY(sm_session_synchronize(g->session));
    SM_TRY(sm_session_read_part(g->session, g->logits, (seen - 1) * padded, g->vocab, g->row));
    for (int64_t i = 0; i < g->vocab; i++) {
        SM_FAIL_IF(!isfinite(g->row[i]), SM_ERR_INVALID,
                   "the logit of token %lld is %g: the weights are damaged or overflow; use other weights",
                   (long long)i, (double)g->row[i]);
    }
    *id = sm_sample(g->row, sampling->n_ids < g->vocab ? sampling->n_ids : g->vocab, sampling, (uint64_t)n);
    return SM_OK;
}

// Keeps the k largest, the first among equals; the others become -infinity.
static void keep_largest(float *values, int64_t n, int64_t k) {
    float least = INFINITY; // of those found so far
    int64_t left = k;       // still to be found
    while (left > 0) {
        float next = -INFINITY;
        int64_t n_equal = 0;
        for (int64_t i = 0; i < n; i++) {
            if (values[i] < least && values[i] >= next) {
                n_equal = values[i] > next ? 1 : n_equal + 1;
                next = values[i];
            }
        }
        least = next;
        if (n_equal >= left) {
            break;
        }
        left -= n_equal;
    }
    for (int64_t i = 0; i < n; i++) {
        if (values[i] < least || (values[i] == least && left-- <= 0)) {
            values[i] = -INFINITY;
        }
    }
}

int32_t sm_sample(float *logits, int64_t n, const sm_sampling *s, uint64_t draw) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    if (!(s->temperature > 0)) {
        return (int32_t)best;
    }
    const double peak = logits[best];
    double sum = 0;
    if (s->top_k > 0 && s->top_k < n) {
        keep_largest(logits, n, s->top_k);
    }
    for (int64_t i = 0; i < n; i++) {
        sum += exp((logits[i] - peak) / s->temperature);
    }
    const sm_philox_block block = sm_philox4x32(sm_philox_key(s->seed, "generate"), draw, 0);
    const uint64_t drawn = ((uint64_t)block.word[0] << 32 | block.word[1]) >> 11; // 53 bits
    double left = (double)drawn * 0x1p-53 * sum;
    int64_t chosen = best;
    for (int64_t i = 0; i < n; i++) {
        const double weight = exp((logits[i] - peak) / s->temperature);
        if (weight > 0) {
            chosen = i; // the last one, in case of rounding
            if (left < weight) {
                break;
            }
            left -= weight;
        }
    }
    return (int32_t)chosen;
}
